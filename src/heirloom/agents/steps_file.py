"""The steps of a task in a file, and how a model counts them again.

Compiled code uses them as indices, so `Steps.read` checks all of them.
"""

from dataclasses import dataclass

import numpy as np

from heirloom.agents.candidates import ROUNDING
from heirloom.agents.task_learner import TaskLearner
from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import WrongOrder
from heirloom.kernels import counting
from heirloom.kernels.counting import N_ENTRIES, N_LOGGED, N_OTHERS, NEVER
from heirloom.mdp.available import read_mask
from heirloom.mdp.learned import MOST_LOGGED, LearnedModel
from heirloom.storage.archive import check, take
from heirloom.transfer.setting import Setting

WIDTHS = (np.int8, np.int16, np.int32)  # of the numbers of steps


def logged_steps(learner: TaskLearner) -> dict[str, np.ndarray]:
    """Return the steps of a task with the pair, outcome and first reward of each entry, and masks.

    Raises `WrongOrder` if there were too many steps.
    """
    a, log = learner.model._arrays, learner.log
    if not log.is_complete:
        raise WrongOrder(
            f"save() was called within a task of more than {MOST_LOGGED:,} steps, too many to be "
            "kept in a file: save the agent earlier, or after end_task()"
        )
    n, n_logged, n_others = (int(a.sizes[i]) for i in (N_ENTRIES, N_LOGGED, N_OTHERS))
    pairs, steps = np.empty(n, dtype=np.int64), a.log[:n_logged]
    counting.entry_pairs(a.head, a.next_entry, pairs)
    largest = max(steps.max(initial=0), -1 - steps.min(initial=0))
    width = next(one for one in WIDTHS if largest <= np.iinfo(one).max)
    return {
        "steps": steps.astype(width),
        "other_rewards": a.other_rewards[:n_others],
        "entries/pairs": pairs,
        "entries/outcomes": a.outcomes[:n],
        "entries/rewards": a.rewards[:n],
        "masks/states": np.array([s for s, _ in log.masks], dtype=np.int64),
        "masks/flags": np.array([mask for _, mask in log.masks], dtype=np.bool_).reshape(
            -1, learner.setting.n_actions
        ),
    }


def read_masks(arrays: dict[str, np.ndarray], setting: Setting) -> list[tuple[int, BoolArray]]:
    """Return the states whose masks were observed, and these."""
    states = take(arrays, "masks/states", np.int64, (-1,))
    flags = take(arrays, "masks/flags", np.bool_, (states.size, setting.n_actions))
    check(((states >= 0) & (states < setting.n_states)).all(), "a mask has no state")
    rows = zip(states.tolist(), flags, strict=True)
    return [(s, read_mask(row, setting.n_actions, "mask")) for s, row in rows]


@dataclass(frozen=True)
class Steps:
    """The steps of a task, as `counting.Model` describes them, which are valid indices."""

    codes: IntArray
    other_rewards: FloatArray
    pairs: IntArray
    outcomes: IntArray
    rewards: FloatArray

    @classmethod
    def read(cls, arrays: dict[str, np.ndarray], setting: Setting) -> "Steps":
        """Return the steps in the arrays of a file; raise `InvalidFile` if they are not valid."""
        kind = np.asarray(arrays.get("steps")).dtype
        check(kind in WIDTHS, f"the steps have the type {kind}")
        codes = take(arrays, "steps", kind.type, (-1,)).astype(np.int32)
        others = take(arrays, "other_rewards", np.float64, (-1,))
        pairs = take(arrays, "entries/pairs", np.int64, (-1,))
        outcomes = take(arrays, "entries/outcomes", np.int32, pairs.shape)
        rewards = take(arrays, "entries/rewards", np.float64, pairs.shape)
        n_states, (lo, hi) = setting.n_states, setting.reward_range
        lowest = -n_states if setting.terminating else 0
        # The first reward of visits that were borrowed is a mean, which rounding may have moved.
        tol = ROUNDING * max(abs(lo), abs(hi))
        for array, least, most, what in (
            (pairs, 0, setting.n_pairs - 1, "a step has no valid pair"),
            (outcomes, lowest, n_states - 1, "a step has no valid outcome"),
            (rewards, lo - tol, hi + tol, "a reward is out of range"),
            (others, lo, hi, "a reward is out of range"),
            (codes, -n_states, 2 * pairs.size - 1, "a step has no entry, or no state"),
        ):
            check(((array >= least) & (array <= most)).all(), what)
        keys = pairs * (2 * n_states) + outcomes
        check(np.unique(keys).size == keys.size, "two entries have the same outcome")
        check(codes.size <= MOST_LOGGED, "there are too many steps")
        is_other = codes[codes >= 0] % 2 == 1
        check(np.count_nonzero(is_other) == others.size, "rewards of steps are missing")
        return cls(codes, others, pairs, outcomes, rewards)

    def install(self, model: LearnedModel) -> None:
        """Write the steps to the log of a model, which then logs no steps."""
        model._start_log(self.codes, self.other_rewards)
        model._is_logged = False

    def repeat(
        self,
        model: LearnedModel,
        starts: IntArray,
        at: IntArray,
        last: int,
        last_step: int = NEVER,
        *,
        looks: bool = False,
    ) -> int:
        """Count steps again, as `counting.recount` does; new outcomes get an entry."""
        while True:
            k = counting.recount(model._arrays, self.pairs, starts, at, last, last_step, looks)
            if k >= 0 or at[0] == last or at[2] == last_step:
                return int(k)
            i, n = int(self.codes[at[0]]) // 2, int(model._arrays.sizes[N_ENTRIES])
            check(i == n and self.codes[at[0]] == 2 * i, "entries are not in the order of steps")
            pair, r = int(self.pairs[i]), float(self.rewards[i])
            due = model._count(pair, r, int(self.outcomes[i]))
            at[0], at[2] = at[0] + 1, at[2] + 1
            if due is not None and looks:
                return pair

    def count_again(self, model: LearnedModel, first: IntArray, last: IntArray) -> None:
        """Count the steps between two places, as of `repeat`, in another model."""
        others = iter(self.other_rewards[first[1] : last[1]].tolist())
        for code in self.codes[first[0] : last[0]].tolist():
            if code >= 0:
                i = code // 2
                r = next(others) if code % 2 else float(self.rewards[i])
                model._count(int(self.pairs[i]), r, int(self.outcomes[i]))

    def finish(self, learner: TaskLearner, at: IntArray) -> None:
        """Count the remaining steps, and log further ones from now on.

        Raises `InvalidFile` unless the learner has then counted exactly the steps of the file.
        """
        model = learner.model
        self.repeat(model, learner.starts, at, self.codes.size)
        counted = logged_steps(learner)
        same = at[0] == self.codes.size and at[1] == self.other_rewards.size
        same = same and np.array_equal(counted["entries/pairs"], self.pairs)
        same = same and np.array_equal(counted["entries/outcomes"], self.outcomes)
        check(bool(same), "the steps do not fit the memory")
        missing = model._availability.missing
        visited = self.pairs[self.codes[self.codes >= 0] // 2]
        check(missing is None or not missing[visited].any(), "an action does not exist")
        model._is_logged = True
