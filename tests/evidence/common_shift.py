"""Knowledge of one's own: the rewards of all pairs in a group move by the same unknown amount.

For each task there is a shift of each group, at most `c` in absolute value: the mean reward of a
pair is that in the first task plus the shift of its group. So one pair of a group that is known
bounds the rewards of all others. Known rewards are exact here, up to `accuracy`.

If the shift of a known pair is above `c`, the claim is refuted, and is widened to this shift. If it
is not that of another known pair of its group, the pair leaves the group.
"""

import numpy as np

import heirloom as hl
from heirloom.bounds import Details, Evidence, ModelSets


class CommonShift(Evidence):
    """The largest rewards that follow from the first task and from shifts of groups.

    `groups[k]` is the group of pair k; pairs of the group -1 may change freely.
    """

    def __init__(self, *, groups, c, accuracy=1e-9):
        self.groups, self.c, self.accuracy = np.array(groups), float(c), accuracy

    def begin_task(self, setting, model, memory):
        self.first = np.full(setting.n_pairs, np.nan)
        if memory.sources:
            rows = memory.sources[0].rows
            self.first[rows.known] = rows.R[rows.known]
        return super().begin_task(setting, model, memory)

    def model_sets(self):
        reward = np.full(self.setting.n_pairs, self.setting.reward_range[1])
        bounded = np.isfinite(self.first) & (self.groups >= 0)
        reward[bounded] = self.first[bounded] + self.c + self.accuracy
        self.shifts = {}
        self.sets = ModelSets(reward=reward, follows=True)
        return self.sets

    def shift(self, pair):
        """The shift of a known pair; None if the first task says nothing about it."""
        shift = self.model.R.reshape(-1)[pair] - self.first[pair]
        return None if self.groups[pair] < 0 or np.isnan(shift) else float(shift)

    def look(self, pair, V):
        shift, group = self.shift(pair), self.groups[pair]
        if shift is None:
            return np.array([pair])
        self.shifts.setdefault(group, shift)
        alike = np.flatnonzero((self.groups == group) & np.isfinite(self.first))
        bound = self.first[alike] + self.shifts[group] + 2 * self.accuracy
        self.sets.reward[alike] = np.minimum(self.sets.reward[alike], bound)
        return alike

    def contradiction(self, pair):
        shift = self.shift(pair)
        if shift is None:
            return None
        if abs(shift) > self.c + self.accuracy:
            return f"the reward of pair {pair} moved by {shift:.4g}; the claim allows {self.c:.4g}"
        if abs(shift - self.shifts[self.groups[pair]]) > 2 * self.accuracy:
            return f"the reward of pair {pair} did not move with those of its group"
        return None

    def widen(self, pair):
        shift = abs(self.shift(pair))
        if shift > self.c + self.accuracy:
            self.c = shift
        else:
            self.groups[pair] = -1

    def details(self):
        return Details(notes=(f"rewards of a group move together, by {self.c:.4g} at most.",))

    def options(self):
        return {"groups": self.groups, "c": self.c, "accuracy": self.accuracy}


def make(*, groups, c, **options):
    return hl.OptimisticAgent(bounds=[CommonShift(groups=groups, c=c)], n_known=1, **options)
