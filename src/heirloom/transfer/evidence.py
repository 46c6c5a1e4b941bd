"""Evidence from the number of visits: bonuses, confidence sets, a growing share of the model.

Each is a way to be optimistic about a pair with n visits, and makes an algorithm of the field. Let
w = hi - lo be the width of the reward range, and `span` the width of the range of values.
"""

import math
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from heirloom.mdp.tabular import value_range
from heirloom.transfer.bound import Evidence
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.model_sets import ModelSets, Rule, SourceRows
from heirloom.transfer.nearness.bound import NearModels
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.transfer.nearness.rows import rows_of_memory
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting
from heirloom.validation import one_of, positive_probability, real_number, whole_number

BonusKind = Literal["hoeffding", "bernstein", "mbie-eb"]
SCALES: dict[str, float] = {"hoeffding": 0.01, "bernstein": 0.03, "mbie-eb": 0.1}
SetKind = Literal["l1", "kl"]


class Bonuses(Evidence):
    """A bonus on the reward of each known pair, which shrinks with its visits n.

    - "hoeffding": `c span / √n`
    - "bernstein": `c (√((γ² Var V + w²/4) / n) + span / n)`, with the variance of V under T̂ at the
      time of the look; w²/4 bounds the variance of rewards
    - "mbie-eb": `c w / √n`
    """

    def __init__(self, *, kind: BonusKind = "bernstein", scale: float | None = None) -> None:
        self.kind = one_of("bonus", kind, get_args(BonusKind))
        scale = SCALES[kind] if scale is None else scale
        self.scale = real_number("scale", scale, "expected a number, 0 or more", least=0)

    def model_sets(self) -> ModelSets:
        """Return the rule of the bonus."""
        return ModelSets(rule=self.rule(self.setting))

    def rule(self, setting: Setting) -> Rule:
        """Return the rule of the bonus in a setting."""
        span, width = _widths(setting)
        if self.kind == "bernstein":
            return Rule(
                bonus=(self.scale * width / 2) ** 2,
                bonus_variance=(self.scale * setting.gamma) ** 2,
                bonus_inverse=self.scale * span,
            )
        return Rule(bonus=(self.scale * (span if self.kind == "hoeffding" else width)) ** 2)

    def options(self) -> dict[str, Any]:
        """Return `kind` and `scale`."""
        return {"kind": self.kind, "scale": self.scale}


class NearBonuses(NearModels):
    """`NearModels` on the pooled visits of earlier tasks, with a bonus for few of them.

    The bonus is that of `Bonuses` for the number of all visits of the pair in all earlier tasks;
    for "bernstein" with the largest possible variance of values.
    """

    def __init__(
        self,
        nearness: Nearness | None = None,
        *,
        kind: BonusKind = "bernstein",
        scale: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(nearness, **options)
        self.bonuses = Bonuses(kind=kind, scale=scale)

    def _source_rows(self, nearness: Nearness, memory: TaskMemory) -> SourceRows:
        setting, rule = self.setting, self.bonuses.rule(self.setting)
        variance, n = _widths(setting)[0] ** 2 / 4, np.maximum(memory.pooled.counts, 1)
        eta = np.sqrt((rule.bonus + rule.bonus_variance * variance) / n) + rule.bonus_inverse / n
        return rows_of_memory(memory, setting, Radii(eta, np.zeros(n.size)))

    def options(self) -> dict[str, Any] | None:
        """Return the arrays of the nearness, and the options of the bonus."""
        return {**(super().options() or {}), **self.bonuses.options()}


class ConfidenceSets(Evidence):
    """All models that are compatible with the visits of a known pair, with probability 1 - δ.

    With n visits of a pair, K possible outcomes and `L = ln(2 S A n (n + 1) / δ)`, the mean reward
    is at most `R̂ + w √(L / 2n)`, by Hoeffding's inequality, and the transitions are

    - "l1": within `√(2 (ln(2^K - 2) + L) / n)` of T̂ in L1 norm (Weissman et al., 2003)
    - "kl": within `KL(T̂, T) <= β`, of which `kernels/confidence.py` has the formula and the proof

    at all pairs and numbers of visits of a task at once with probability 1 - δ: rewards and L1
    balls fail with probability `δ / (2 S A n (n + 1))` each, and KL sets with `δ / (2 S A)` for all
    n together. The sum is δ. `scale` multiplies the radii; 1 is the theory.
    """

    def __init__(self, *, sets: SetKind = "kl", delta: float = 0.05, scale: float = 1.0) -> None:
        self.sets = one_of("sets", sets, get_args(SetKind))
        self.delta = positive_probability("delta", delta)
        self.scale = real_number("scale", scale, "expected a number above 0", above=0)

    def model_sets(self) -> ModelSets:
        """Return the rule of the sets."""
        setting, scale = self.setting, self.scale
        log = math.log(2 * setting.n_pairs / self.delta)
        n_outcomes = setting.n_states + setting.terminating
        reward = scale**2 * _widths(setting)[1] ** 2 / 2
        rule = Rule(bonus=reward * log, bonus_log=reward, highest=setting.reward_range[1])
        if self.sets == "kl":
            rule = replace(rule, kl_scale=scale**2, kl_outcomes=n_outcomes, kl_log=log)
            return ModelSets(rule=rule)
        if n_outcomes > 1:
            n_sets = n_outcomes * math.log(2) + math.log1p(-(2.0 ** (1 - n_outcomes)))
            rule = replace(rule, radius=scale**2 * (n_sets + log) / 2, radius_log=scale**2 / 2)
        return ModelSets(rule=rule)

    def options(self) -> dict[str, Any]:
        """Return `sets`, `delta` and `scale`."""
        return {"sets": self.sets, "delta": self.delta, "scale": self.scale}


class GrowingShare(Evidence):
    """The model has the share n / m of the value of a pair, and `v_max` the rest, until n = m."""

    def __init__(self, *, m: int) -> None:
        self.m = whole_number("m", m)

    def model_sets(self) -> ModelSets:
        """Return the rule of the share."""
        return ModelSets(rule=Rule(full=self.m, v_max=self.setting.v_max))

    def options(self) -> dict[str, Any]:
        """Return `m`."""
        return {"m": self.m}


def _widths(setting: Setting) -> tuple[float, float]:
    """Return the widths of the range of values and of the reward range."""
    (lo, hi), gamma = setting.reward_range, setting.gamma
    low, _ = value_range((lo, hi), gamma, terminating=setting.terminating)
    return setting.v_max - low, hi - lo
