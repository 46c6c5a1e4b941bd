"""What an agent knows before its first task, the same for all of them."""

from dataclasses import dataclass, field

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import value_range
from heirloom.validation import Range, check_gamma, check_range, real_number, whole_number

# In units of the range of rewards. Fixed points are solved more accurately than actions are told
# apart, so that which action is greedy does not depend on how a fixed point was approached.
TOLERANCE = 1e-11
TIE = 1e-8
MARGIN = 10  # a tie is at least so many times the tolerance,
STEP = 0.01  # and at most this part of what one step earlier is worth, (1-γ) times a reward
ROUNDING = 1e-14  # a backup is not more accurate than this part of the largest value


@dataclass(frozen=True)
class Setting:
    """States and actions, the discount, the range of rewards and of values, and accuracies.

    Args:
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        gamma: the discount factor.
        reward_range: (lo, hi), what every reward lies in.
        terminating: whether tasks may terminate; it is safe to say so.
        v_max: an upper bound on every value; hi / (1-γ) unless a smaller one is known.
        epsilon: how accurate known pairs are taken to be, in reward and in L1 norm.
        tol: the error to which fixed points are computed, always from above; by default 1e-11
            times the range of rewards, or what rounding allows if that is more.
    """

    n_states: int
    n_actions: int
    gamma: float
    reward_range: Range = (0.0, 1.0)
    terminating: bool = True
    v_max: float = np.inf
    epsilon: float = 0.0
    tol: float | None = None
    slack: float = field(init=False)
    """What one backup may leave undone, so that all of them leave undone at most `tol`."""
    tie: float = field(init=False)
    """Actions whose values differ by no more than this are equal: 1e-8 of the range of rewards."""

    def __post_init__(self) -> None:
        gamma, reward_range = check_gamma(self.gamma), check_range(self.reward_range)
        v_min, v_max = value_range(reward_range, gamma, terminating=self.terminating)
        if not self.v_max >= v_min:
            raise InvalidArgument(
                f"v_max is {self.v_max}: with rewards in {reward_range} and gamma={gamma} values "
                f"lie between {v_min:g} and {v_max:g}"
            )
        lo, hi = reward_range
        scale = max(hi - lo, ROUNDING * max(abs(lo), abs(hi)), 1e-300)
        rounding = ROUNDING * max(abs(v_min), abs(v_max)) / (1 - gamma)
        solved = max(TOLERANCE * scale, rounding)
        tol = solved if self.tol is None else self.tol
        tol = real_number("tol", tol, "the error of values is a positive number", above=0)
        self.__dict__.update(
            n_states=whole_number("n_states", self.n_states),
            n_actions=whole_number("n_actions", self.n_actions),
            gamma=gamma,
            reward_range=reward_range,
            terminating=bool(self.terminating),
            v_max=min(float(self.v_max), v_max),
            epsilon=real_number("epsilon", self.epsilon, "an accuracy is from 0 up", least=0),
            tol=tol,
            slack=tol * (1 - gamma),
            tie=min(max(TIE * scale, MARGIN * solved), STEP * (1 - gamma) * scale),
        )

    @property
    def n_pairs(self) -> int:
        """The number of pairs, S·A."""
        return self.n_states * self.n_actions

    @property
    def floor(self) -> float:
        """No value is below c = min(0, lo / (1-γ)), so V - c serves as a weight."""
        return min(0.0, self.reward_range[0] / (1 - self.gamma))
