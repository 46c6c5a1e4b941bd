"""Lipschitz bounds between tasks that lack different actions.

For the task M, an action that is missing is no part of a maximum. A source M̄ says nothing about an
action that it lacks; but M may have it, so it cannot be left out of max_a d: the value of a state s
of M exceeds that of M̄ by up to c(s) = v_max - V̲(s), where V̲ <= V*_M̄. Three numbers in place of
the prior express this (docs/guarantees.md has the proof):

    missing in M                    D̂ = -∞ in both directions, so that d̂ = -∞
    M̄ may lack it, d̂(M ‖ M̄)        D̂ <= c, because d̂ >= D̂
    M̄ may lack it, d̂(M̄ ‖ M)        D̂ <= (1-γ) c, because d̂ = D̂ + γ max d̂ >= D̂ / (1-γ): the pair has
                                    no row in M̄

Q̄ of a pair that M̄ may lack is V̄, so this source gives no bound below v_max there.
"""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.errors import InvalidTask, NotConverged
from heirloom.mdp.tabular import reward_scale, value_range
from heirloom.planning.certificate import Tolerance
from heirloom.planning.solve import TOLERANCE, solve_with_rewards
from heirloom.transfer.program import MAX_PLAIN_GAMMA, lower_values
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


class Priors(NamedTuple):
    """Upper bounds on D̂ of each source at each pair, [source, pair], in both directions."""

    to_source: FloatArray
    from_source: FloatArray

    def of(self, kept: BoolArray) -> "Priors":
        """Return the priors of the sources that are marked in `kept`."""
        return Priors(self.to_source[kept], self.from_source[kept])


def with_masks(
    priors: FloatArray, sources: list[Source], missing: BoolArray | None, setting: Setting
) -> Priors:
    """Return the priors in both directions, where the task and the sources may lack actions.

    `missing` marks the pairs that the task lacks, None for none.
    """
    is_plain = missing is None and all(source.available is None for source in sources)
    if is_plain or not sources:
        return Priors(priors, priors)
    to_source, from_source = priors.copy(), priors.copy()
    for i, source in enumerate(sources):
        if source.available is None:
            continue
        c = np.maximum(setting.v_max - _least_values(source, setting), 0.0)
        c = np.repeat(c, setting.n_actions)
        doubtful = ~source.available
        to_source[i, doubtful] = c[doubtful]
        from_source[i, doubtful] = (1 - setting.gamma) * c[doubtful] * (1 + 1e-12)
    if missing is not None:
        to_source[:, missing] = from_source[:, missing] = -np.inf
    return Priors(to_source, from_source)


# A source serves many tasks: its values are computed once for each setting.
_LEAST: WeakKeyDictionary[Source, tuple[Setting, FloatArray]] = WeakKeyDictionary()


def _least_values(source: Source, setting: Setting) -> FloatArray:
    """Return V̲ <= V* of a source over states, from its known pairs."""
    found = _LEAST.get(source)
    if found is None or found[0] != setting:
        found = _LEAST[source] = setting, _solved(source, setting)
    return found[1]


def _solved(source: Source, setting: Setting) -> FloatArray:
    if setting.gamma <= MAX_PLAIN_GAMMA:
        epsilon = np.full(setting.n_pairs, setting.epsilon)
        radii = Radii(epsilon, epsilon / 2)
        return lower_values(source.rows, radii, setting)
    # Sweeps would take long: the pessimistic task is solved instead, if models are exact.
    (lo, hi), gamma, terminating = setting.reward_range, setting.gamma, setting.terminating
    least = np.full(setting.n_states, value_range((lo, hi), gamma, terminating=terminating)[0])
    if setting.epsilon > 0:
        return least
    try:
        m = source.to_mdp(
            gamma=gamma, unknown="pessimistic", reward_range=(lo, hi), terminating=terminating
        )
        # The range of `m` includes values, so its default tolerance would be larger.
        tol = Tolerance(TOLERANCE * reward_scale((lo, hi)), strict=False)
        solved = solve_with_rewards(m, None, tol)
    except (InvalidTask, NotConverged):  # values are too large for float64
        return least
    return np.maximum(solved.V - solved.error, least)
