"""Distances between the models of two tasks, row by row."""

from numba import njit


@njit(cache=True)
def weigh_differences(indptr, successors, p, indptr_bar, successors_bar, p_bar, f, D):
    """D[k] <- sum_s' f[s'] |T[k, s'] - T_bar[k, s']|, successors in rising order within a row."""
    for k in range(D.size):
        i, end = indptr[k], indptr[k + 1]
        j, end_bar = indptr_bar[k], indptr_bar[k + 1]
        total = 0.0
        while i < end and j < end_bar:
            s, s_bar = successors[i], successors_bar[j]
            if s == s_bar:
                total += f[s] * abs(p[i] - p_bar[j])
                i += 1
                j += 1
            elif s < s_bar:
                total += f[s] * p[i]
                i += 1
            else:
                total += f[s_bar] * p_bar[j]
                j += 1
        while i < end:
            total += f[successors[i]] * p[i]
            i += 1
        while j < end_bar:
            total += f[successors_bar[j]] * p_bar[j]
            j += 1
        D[k] = total
