"""Values of a Markov chain, V = R + γ P V, for discount factors close to 1.

`MarkovChain.values` factorises I - γ P. The states are numbered so that the matrix has a
narrow band, apart from a few states with many neighbours, which come last. Then the factors have
no entries outside the band, and the number of operations is known before. No pivoting is needed,
because the matrix is diagonally dominant. Chains that do not have a narrow band are solved by an
iteration. Neither result is certified.
"""

from typing import Any

import numpy as np
from scipy import sparse

from heirloom.arrays import FloatArray, IntArray
from heirloom.kernels import values

MAX_OPERATIONS = 10**9  # of a factorisation, so that Ctrl-C waits for at most a second
HUB = 8  # a state with this many times the mean number of neighbours comes last
STEPS = 30  # of the iteration per cycle, fewer in large chains
MAX_BASIS = 10**7  # entries
MAX_CYCLES = 20
MIN_PROGRESS = 0.9  # factor of the residual in a cycle; above it, the iteration is too slow
ENOUGH = 1e-10  # factor of the residual in all cycles


class MarkovChain:
    """The transitions P of a Markov chain, whose rows may sum to less than 1, and γ."""

    def __init__(self, P: sparse.csr_array, gamma: float) -> None:
        self.P, self.gamma, self.n_states = P, gamma, P.shape[0]

    @property
    def has_band(self) -> bool:
        """Whether a factorisation is quick."""
        return self._operations()[0] <= MAX_OPERATIONS

    def values(self, R: FloatArray, V: FloatArray) -> tuple[FloatArray, float]:
        """Return values by a factorisation if it is quick, otherwise by iteration from `V`.

        Also returns the work, in transitions that a sweep would read in the same time.
        """
        if self.n_states == 0:
            return V, 0.0
        operations, order = self._operations()
        direct = self._solve_directly(R, order) if operations <= MAX_OPERATIONS else None
        if direct is not None:
            return direct, operations
        return self._iterate(R, V.copy())

    def _iterate(self, R: FloatArray, V: FloatArray) -> tuple[FloatArray, float]:
        """Reduce the residual until it is small, or no longer becomes much smaller."""
        work, reduction = 0.0, 1.0
        for _ in range(MAX_CYCLES):
            steps, factor = self._reduce_residual(R, V)
            work += steps * (self.P.nnz + steps * self.n_states)
            reduction *= factor
            if factor > MIN_PROGRESS or reduction < ENOUGH:
                break
        return V, work

    def _operations(self) -> tuple[float, IntArray]:
        """Bound the operations of `_solve_directly`; also return the order of the states."""
        from scipy.sparse.csgraph import reverse_cuthill_mckee

        n = self.n_states
        pattern = sparse.csr_array((np.ones(self.P.nnz, np.int8), *_indices(self.P)), self.P.shape)
        pattern = sparse.csr_array(pattern + pattern.T)
        degrees = np.diff(pattern.indptr)
        is_hub = degrees > HUB * max(degrees.mean(), 2.0)
        plain, hubs = np.flatnonzero(~is_hub), np.flatnonzero(is_hub)
        order, band = plain, 0
        if plain.size:
            inner = sparse.csr_array(pattern[plain][:, plain])
            local = reverse_cuthill_mckee(inner, symmetric_mode=True)
            position = np.empty(plain.size, dtype=np.int64)
            position[local] = np.arange(plain.size)
            row = np.repeat(position, np.diff(inner.indptr))
            band = int(np.abs(row - position[inner.indices]).max(initial=0))
            order = plain[local]
        return 2.0 * n * (band + hubs.size + 1.0) ** 2, np.concatenate([order, hubs])

    def _solve_directly(self, R: FloatArray, order: IntArray) -> FloatArray | None:
        """Return V by a factorisation, or None if the matrix is singular in float64."""
        matrix = (sparse.eye_array(self.n_states) - self.gamma * self.P).tocsr()[order][:, order]
        options = {"SymmetricMode": True}
        solution = solved(
            matrix.tocsc(), R[order], permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options
        )
        if solution is None:
            return None
        V = np.empty(self.n_states)
        V[order] = solution
        return V

    def _reduce_residual(self, R: FloatArray, V: FloatArray) -> tuple[int, float]:
        """Do a cycle of the iteration, in place; return its sweeps and the residual's factor."""
        steps = max(2, min(STEPS, self.n_states, MAX_BASIS // self.n_states))
        basis = np.empty((steps + 1, self.n_states))
        indices, indptr = _indices(self.P)
        before, after = values.reduce_residual(
            R, indptr, indices, self.P.data, self.gamma, V, basis
        )
        return steps + 1, after / before if before > 0 else 0.0


def solved(matrix: sparse.csc_array, R: FloatArray, **options: Any) -> FloatArray | None:
    """Return the solution of linear equations, or None if they are singular in float64.

    SuperLU gives the same bits for every number of threads.
    """
    from scipy.sparse.linalg import splu

    try:
        solution: FloatArray = splu(matrix, **options).solve(R)
    except RuntimeError:
        return None
    return solution if np.isfinite(solution).all() else None


def _indices(P: sparse.csr_array) -> tuple[IntArray, IntArray]:
    return P.indices, P.indptr
