"""MBIE (Strehl and Littman, 2008): every model within confidence radii of the estimate.

With n visits of a pair, L = ln(2 S A m / δ) and a number m of visits after which a pair is no
longer looked at, the transitions are within the L1 norm √(2 (ln(2^S - 2) + L) / n) of the estimate
with probability 1 - δ, and the mean reward is within (hi - lo) √((L + ln 2) / 2n). A pair is looked
at when its visits have doubled.
"""

import math

import numpy as np

import heirloom as hl
from heirloom.bounds import Evidence, ModelSets


class L1Balls(Evidence):
    """Confidence radii of the reward and of the transitions of each pair, from its visits."""

    def __init__(self, *, delta=0.05, m=1000.0):
        self.delta, self.m = delta, m

    def model_sets(self):
        n_pairs = self.setting.n_pairs
        self.sets = ModelSets(bonus=np.zeros(n_pairs), radius=np.zeros(n_pairs), follows=True)
        return self.sets

    def look(self, pair):
        setting, n = self.setting, self.model.counts.reshape(-1)[pair]
        lo, hi = setting.reward_range
        n_outcomes = setting.n_states + setting.terminating
        log = math.log(2 * setting.n_pairs * self.m / self.delta)
        sets = n_outcomes * math.log(2) if n_outcomes > 50 else math.log(2**n_outcomes - 1)
        self.sets.bonus[pair] = (hi - lo) * math.sqrt((log + math.log(2)) / (2 * n))
        self.sets.radius[pair] = math.sqrt(2 * (sets + log) / n) / 2
        return np.array([pair])

    def options(self):
        return {"delta": self.delta, "m": self.m}


def make(**options):
    return hl.OptimisticAgent(bounds=[L1Balls()], n_known=1, refresh=2.0, **options)
