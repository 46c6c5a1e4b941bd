"""Confidence sets by plain formulas, and extreme means over them by root finding, from inside."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, xlogy

from heirloom.kernels import confidence


def kl_radius(counts, n_outcomes, log_inverse):
    """β of counts, of which there are `n_outcomes` with zeros, by the formula."""
    N = np.zeros(n_outcomes)
    N[: len(counts)] = counts
    alpha, n = 1 / n_outcomes, N.sum()
    log_B = gammaln(alpha + N).sum() - gammaln(alpha * n_outcomes + n)
    log_B -= n_outcomes * gammaln(alpha) - gammaln(alpha * n_outcomes)
    return (xlogy(N, N / n).sum() - log_B + log_inverse) / n


def kl(p, q):
    """KL(p, q); outcomes of q that p does not have contribute nothing."""
    return float(np.sum(p * np.log(p / q)))


def best_point(p, W, W_unseen, beta):
    """The distribution over the seen outcomes, and the mass of the unseen one, with largest mean.

    The mass of a seen outcome is proportional to p / (ν - W). It is moved towards p until its
    divergence is β at most.
    """
    top = W.max()
    if top == W.min() and W_unseen <= top:
        return p.copy(), 0.0

    def excess(log_x):
        gap = np.exp(log_x) + (top - W)
        return p @ np.log(gap) + np.log(np.sum(p / gap)) - beta

    least = np.log(top - W.min() if top > W.min() else 1.0) - 30
    if W_unseen > top:
        least = np.log(W_unseen - top)
        gap = W_unseen - W
        if excess(least) <= 0:
            q = p / gap * np.exp(p @ np.log(gap) - beta)
            return _inside(p, q, beta), 1 - _inside(p, q, beta).sum()
    if excess(least) <= 0:  # almost all mass is on the best seen outcome
        return p.copy(), 0.0
    high = least + 1
    while excess(high) > 0:
        high += 2
    q = p / (np.exp(brentq(excess, least, high, xtol=1e-14)) + (top - W))
    return _inside(p, q / q.sum(), beta), 0.0


def _inside(p, q, beta):
    share = 1e-14
    while kl(p, q) > beta:
        q, share = q + share * (p - q), 4 * share
    return q


def largest_with_nearness(q, rest, R, V, unseen, V_top, gamma, t):
    """Σ q R + γ max Σ T V over the T within total variation t of q, by moving mass greedily.

    `unseen` is the reward and the value of the unseen outcome, which has the mass `rest`.
    """
    mass = np.append(q, rest)
    values, rewards = np.append(V, unseen[1]), np.append(R, unseen[0])
    keep = mass > 0
    mass, values, rewards = mass[keep], values[keep], rewards[keep]
    mean, left = float(mass @ (rewards + gamma * values)), t
    for i in np.argsort(values):
        moved = min(left, mass[i])
        mean += gamma * moved * max(V_top - values[i], 0.0)
        left -= moved
    return mean


def largest_mean_kl(p, W, W_unseen, beta):
    """The largest Σ q W of the kernel; W_unseen is that of a possible outcome that was not seen."""
    return confidence.largest_mean(p, W, 1.0, W_unseen, beta)


def smallest_mean_kl(p, W, W_unseen, beta):
    """The smallest Σ q W of the kernel."""
    return -confidence.largest_mean(p, W, -1.0, -W_unseen, beta)


def widened_largest_mean(p, R, V, unseen, V_top, *rest):
    """The largest Σ T (R + γ V) of the kernel near to a set."""
    return confidence.widened(p, R, V, 1.0, unseen, V_top, *rest)[0]


def widened_smallest_mean(p, R, V, unseen, V_bottom, *rest):
    """The smallest Σ T (R + γ V) of the kernel near to a set."""
    unseen = -unseen[0], -unseen[1]
    return -confidence.widened(p, R, V, -1.0, unseen, -V_bottom, *rest)[0]
