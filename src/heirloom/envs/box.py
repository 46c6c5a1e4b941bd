"""`BoxFamily`: a family whose tasks have parameters from intervals, and what follows from these.

Prices, rates and shares are usually known up to a range. If mean rewards and transition
probabilities are affine in each parameter separately, any two tasks of the family differ at most as
much as two tasks at the corners of the box of parameters, so `nearness` is exact.
"""

import itertools
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, get_type_hints

import numpy as np

from heirloom.arrays import FloatArray, frozen
from heirloom.envs.family import FamilyOptions, TaskFamily
from heirloom.errors import InvalidArgument, InvalidTask
from heirloom.mdp.from_arrays import rewards_of
from heirloom.mdp.tabular import TabularMDP
from heirloom.transfer.nearness.exact import ROUNDING, family_nearness, near_bound
from heirloom.transfer.nearness.knowledge import Nearness
from heirloom.validation import Range, check_generator, interval, real_number, shown

Interval = tuple[float, float]

AFFINE = 1e-9  # largest difference from an affine model that is due to rounding, relative
DIGITS = 4  # of the ends of the reward range, which are rounded outwards


class BoxFamily(TaskFamily):
    """Tasks with independent parameters, each drawn uniformly from its interval.

    A derived class defines `gamma`, the discount factor of all tasks, `intervals` and `build`; a
    dataclass may have a field of the type `Interval` for each parameter instead of `intervals`.
    What `build` returns must be affine in each parameter separately: probabilities, mean rewards,
    and rewards of transitions. A parameter that has a few values only is listed in `choices`;
    `build` may depend on it in any way.
    """

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """The interval of each parameter, by its name: by default the fields of that type."""
        types = get_type_hints(type(self))  # those of the fields may be strings
        return {f.name: getattr(self, f.name) for f in fields(self) if types[f.name] == Interval}  # type: ignore[arg-type]

    @property
    def choices(self) -> Mapping[str, tuple[Any, ...]]:
        """The values of each parameter that has only a few, by its name; equally likely."""
        return {}

    @abstractmethod
    def build(self, *, reward_range: Range | None, **parameters: Any) -> TabularMDP:
        """Build the task with these parameters.

        Args:
            reward_range: a range that contains the rewards of all tasks, for `TabularMDP`. The
                family computes it from the rewards at the corners; there, it is None.
            parameters: a number for each of `intervals`, and a value for each of `choices`.
        """

    def task(self, **parameters: Any) -> TabularMDP:
        """Return the task with these parameters, which must lie in their intervals."""
        return self._built(self.reward_range, self._checked(parameters))

    def _built(self, reward_range: Range | None, parameters: Mapping[str, Any]) -> TabularMDP:
        """Call `build`, and check that it returns a task."""
        m = self.build(reward_range=reward_range, **parameters)
        if not isinstance(m, TabularMDP):
            name = type(self).__name__
            raise InvalidArgument(f"build of {name} returned {shown(m)}: expected a TabularMDP")
        return m

    def draw(self, rng: np.random.Generator) -> TabularMDP:
        """Draw all parameters, in the order of `intervals` and then of `choices`."""
        return self.task(**self.draw_parameters(rng))

    def draw_parameters(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw the parameters of a task, by name."""
        check_generator(rng)
        drawn: dict[str, Any] = {
            name: float(rng.uniform(*ends)) for name, ends in self._intervals.items()
        }
        for name, values in self._choices.items():
            drawn[name] = values[int(rng.integers(len(values)))]
        return drawn

    @property
    def corners(self) -> list[TabularMDP]:
        """The tasks whose parameters are ends of their intervals, with every choice."""
        return [self.task(**parameters) for parameters in self._corner_parameters()]

    @cached_property
    def nearness(self) -> Nearness:
        """By how much the models of any two tasks can differ, from the corners."""
        corners = self.corners
        self._check_affine(corners)
        return family_nearness(corners)

    @cached_property
    def d_max(self) -> FloatArray:
        """A valid prior, [s, a]: an upper bound on the distance between any two tasks.

        With (r, t) the nearness and W an upper bound on the weights of any task, it is r + γ t
        times the sum of the two largest W.
        """
        m, near = self._one_task, self.nearness
        # The bound on Q* that follows from one task and the nearness holds for every task.
        V = near_bound(m, m, near).max(axis=1)
        if not all(task.available.all() for task in self.corners):
            V = np.full(m.n_states, m.v_max)  # another task may have actions that this one lacks
        floor = min(0.0, m.reward_range[0] / (1 - m.gamma))
        weights = np.append(V, 0.0 if m.terminating else floor) - floor
        top = np.sort(weights)[-2:].sum()
        return frozen((near.rewards + m.gamma * near.transitions * top) * ROUNDING)

    @cached_property
    def reward_range(self) -> Range:
        """A range that contains the rewards of all tasks."""
        lowest, highest = math.inf, -math.inf
        for parameters in self._corner_parameters():
            rewards = rewards_of(self._built(None, parameters).transitions)[0]
            lowest = min(lowest, float(rewards.min()))
            highest = max(highest, float(rewards.max()))
        return -_rounded_up(-lowest), _rounded_up(highest)

    @property
    def options(self) -> FamilyOptions:
        """What an agent must know, as keyword arguments: `hl.RMax(**options)`."""
        m = self._one_task
        return {
            "n_states": m.n_states,
            "n_actions": m.n_actions,
            "gamma": m.gamma,
            "reward_range": self.reward_range,
            "terminating": m.terminating,
        }

    @cached_property
    def _intervals(self) -> dict[str, Interval]:
        what = "expected two numbers, the lower one first"
        return {name: interval(name, given, what) for name, given in self.intervals.items()}

    @cached_property
    def _choices(self) -> dict[str, tuple[Any, ...]]:
        """The choices, read once: a property may make new values at each call."""
        return {name: tuple(values) for name, values in self.choices.items()}

    @cached_property
    def _one_task(self) -> TabularMDP:
        return self.task(**next(iter(self._corner_parameters())))

    def _check_affine(self, corners: list[TabularMDP]) -> None:
        """Raise `InvalidTask` if the task in the middle is not the mean of the corners.

        It is, for each choice, if models are affine in each parameter. The check finds most models
        that are not, but not all of them.
        """
        parameters = self._corner_parameters()
        middle = {name: (low + high) / 2 for name, (low, high) in self._intervals.items()}
        for values in itertools.product(*self._choices.values()):
            chosen = dict(zip(self._choices, values, strict=True))
            m = self.task(**middle, **chosen)
            same = [
                task
                for task, of_corner in zip(corners, parameters, strict=True)
                if all(of_corner[name] is value for name, value in chosen.items())
            ]
            R = sum(task.R for task in same) / len(same)
            T = sum(task.T for task in same) / len(same)
            largest = max(abs(x) for x in m.reward_range)
            gaps = {"mean rewards": (m.R - R, largest), "probabilities": (m.T - T, 1.0)}
            for what, (gap, unit) in gaps.items():
                if abs(gap).max() > AFFINE * unit:
                    raise InvalidTask(
                        f"{what} of {type(self).__name__} are not affine in each parameter: in the "
                        "middle of the intervals they are not the mean of those at the ends, so "
                        "the nearness of the corners is not valid for the family. Use parameters "
                        "in which the model is affine, list values in `choices`, or give a "
                        "Nearness of your own"
                    )

    def _corner_parameters(self) -> list[dict[str, Any]]:
        ends = [tuple(dict.fromkeys(each)) for each in self._intervals.values()]
        names = [*self._intervals, *self._choices]
        corners = itertools.product(*ends, *self._choices.values())
        return [dict(zip(names, corner, strict=True)) for corner in corners]

    def _checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters; raise `InvalidArgument` unless they are those of one task."""
        names = [*self._intervals, *self._choices]
        if set(parameters) != set(names):
            raise InvalidArgument(
                f"the parameters are {', '.join(parameters) or 'none'}: expected {', '.join(names)}"
            )
        checked: dict[str, Any] = {}
        for name, (low, high) in self._intervals.items():
            what = f"expected a number from {low:g} to {high:g}, the interval of the family"
            checked[name] = real_number(name, parameters[name], what, least=low, most=high)
        for name, values in self._choices.items():
            if not any(parameters[name] is value or parameters[name] == value for value in values):
                raise InvalidArgument(
                    f"{name} is {shown(parameters[name])}: expected one of "
                    f"{', '.join(map(str, values))}"
                )
            checked[name] = parameters[name]
        return checked


def _rounded_up(x: float) -> float:
    """Return a number with a few digits that is at least `x`, and more unless `x` is 0."""
    if x == 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(x))) - DIGITS + 1)
    return float((math.floor(x / unit) + 1) * unit)
