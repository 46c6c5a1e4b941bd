"""Lipschitz bounds between tasks that lack different actions.

For the task M, an action that is missing is no part of a maximum. A source M̄ says nothing about an
action that it lacks; but M may have it, so it cannot be left out of max_a d: the value of a state s
of M exceeds that of M̄ by up to c(s) = v_max - V̲(s), where V̲ <= V*_M̄. Three numbers in place of
the prior express this (docs/guarantees.md has the proof):

    missing in M                    D̂ = -∞ in both directions, so that d̂ = -∞
    M̄ may lack it, d̂(M ‖ M̄)        D̂ <= c, because d̂ >= D̂
    M̄ may lack it, d̂(M̄ ‖ M)        D̂ <= (1-γ) c, because d̂ = D̂ + γ max d̂ >= D̂ / (1-γ): the pair has
                                    no row in M̄

Q̄ of a pair that M̄ may lack is V̄, so that its bound is not below v_max by this.
"""

from typing import NamedTuple

import numpy as np

from heirloom.arrays import BoolArray, FloatArray
from heirloom.transfer.memory import Source
from heirloom.transfer.radii import Radii
from heirloom.transfer.refutation.lower_values import lower_values
from heirloom.transfer.setting import Setting


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
        radii = Radii(setting.epsilon, np.full(setting.n_pairs, setting.epsilon / 2))
        c = setting.v_max - lower_values(source.rows, radii, setting)
        c = np.repeat(np.maximum(c, 0.0), setting.n_actions)
        doubtful = ~source.available
        to_source[i, doubtful] = c[doubtful]
        from_source[i, doubtful] = (1 - setting.gamma) * c[doubtful] * (1 + 1e-12)
    if missing is not None:
        to_source[:, missing] = from_source[:, missing] = -np.inf
    return Priors(to_source, from_source)
