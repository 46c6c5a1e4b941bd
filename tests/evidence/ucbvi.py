"""UCBVI with the bonus that is used in practice: c / √n, plus the span of values over n."""

import math

import numpy as np

import heirloom as hl
from heirloom.bounds import Evidence, ModelSets


class Bonus(Evidence):
    """A bonus on the reward of each pair, which shrinks with its visits; no radius."""

    def __init__(self, *, scale=0.2):
        self.scale = scale

    def model_sets(self):
        self.sets = ModelSets(bonus=np.zeros(self.setting.n_pairs), follows=True)
        return self.sets

    def look(self, pair, V):
        n, (lo, hi) = self.model.counts.reshape(-1)[pair], self.setting.reward_range
        self.sets.bonus[pair] = self.scale * (hi - lo) * (1 / math.sqrt(n) + 1 / n)
        return np.array([pair])

    def options(self):
        return {"scale": self.scale}


def make(**options):
    return hl.OptimisticAgent(bounds=[Bonus()], n_known=1, **options)
