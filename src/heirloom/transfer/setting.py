"""`Setting`: what an agent knows before its first task and assumes for all tasks."""

from dataclasses import dataclass, field

import numpy as np

from heirloom.errors import InvalidArgument
from heirloom.mdp.tabular import reward_scale, value_range
from heirloom.validation import Range, check_gamma, check_range, real_number, sizes, truth

# In units of the range of rewards (`reward_scale`). The tolerance of fixed points is smaller than
# the tie, the difference up to which actions count as equal, so that the set of greedy actions does
# not depend on how a fixed point was computed.
TOLERANCE = 1e-11
TIE = 1e-8
SAME = 1e-9
MARGIN = 10  # smallest ratio of the tie to the tolerance
STEP = 0.01  # largest ratio of the tie to (1-γ) (hi - lo), the gain of a reward one step earlier
ROUNDING = 1e-14  # relative accuracy of a backup, with respect to the largest value

V_MAX_EXPECTED = "expected a number, an upper bound on all values, or infinity"


@dataclass(frozen=True)
class Setting:
    """Numbers of states and actions, discount factor, ranges of rewards and values, accuracies.

    Args:
        n_states: the number of states, S.
        n_actions: the number of actions, A.
        gamma: the discount factor.
        reward_range: the interval (lo, hi) that contains every reward.
        terminating: whether tasks may terminate. True is always valid.
        v_max: an upper bound on all values; hi / (1-γ) unless a smaller bound is known.
        epsilon: the assumed accuracy of known pairs, in mean reward and in L1 norm of transitions.
        exact: whether the models of known pairs are declared to be exact, up to `epsilon`.
        tol: the largest error of fixed points, which are always computed from above. Default: 1e-11
            times the range of rewards, or the rounding error if that is larger.
    """

    n_states: int
    n_actions: int
    gamma: float
    reward_range: Range = (0.0, 1.0)
    terminating: bool = True
    v_max: float = np.inf
    epsilon: float = 0.0
    exact: bool = False
    tol: float | None = None
    slack: float = field(init=False)
    """The largest decrease by one more backup at which iterations stop; the error is then `tol`."""
    tie: float = field(init=False)
    """Actions are equally good if their values differ by at most this: 1e-8 of the reward range."""
    same: float = field(init=False)
    """A bound that is below `v_max` by less than this counts as `v_max`: 1e-9 of the range."""

    def __post_init__(self) -> None:
        n_states, n_actions = sizes(self.n_states, self.n_actions)
        gamma, terminating = check_gamma(self.gamma), truth("terminating", self.terminating)
        reward_range = check_range(self.reward_range, gamma)
        v_min, v_max = value_range(reward_range, gamma, terminating=terminating)
        is_infinite = isinstance(self.v_max, float) and self.v_max == np.inf
        given = v_max if is_infinite else real_number("v_max", self.v_max, V_MAX_EXPECTED)
        if given < v_min:
            raise InvalidArgument(
                f"v_max is {self.v_max}: expected {v_min:g} or more; with rewards in "
                f"{reward_range} and gamma={gamma} values lie between {v_min:g} and {v_max:g}"
            )
        scale = reward_scale(reward_range)
        rounding = ROUNDING * max(abs(v_min), abs(v_max)) / (1 - gamma)
        default_tol = max(TOLERANCE * scale, rounding)
        tol = default_tol if self.tol is None else self.tol
        tol = real_number("tol", tol, "expected a number above 0", above=0)
        self.__dict__.update(
            n_states=n_states,
            n_actions=n_actions,
            gamma=gamma,
            reward_range=reward_range,
            terminating=terminating,
            v_max=min(given, v_max),
            epsilon=real_number("epsilon", self.epsilon, "expected a number, 0 or more", least=0),
            exact=truth("exact", self.exact),
            tol=tol,
            slack=tol * (1 - gamma),
            same=SAME * scale,
            tie=min(max(TIE * scale, MARGIN * default_tol), STEP * (1 - gamma) * scale),
        )

    @property
    def n_pairs(self) -> int:
        """The number of pairs, S·A."""
        return self.n_states * self.n_actions

    @property
    def is_accurate(self) -> bool:
        """Whether known models are declared to be exact or `epsilon`-accurate, not estimates."""
        return self.exact or self.epsilon > 0

    @property
    def floor(self) -> float:
        """The lower bound `c = min(0, lo / (1-γ))` on all values; V - c >= 0 serves as a weight."""
        return min(0.0, self.reward_range[0] / (1 - self.gamma))
