"""Measures of `certificates`: how many episodes a certificate takes, and what they cost.

One agent learns all tasks, and its memory has their sources. At the end of a task, copies of this
memory are given to other agents, which know more or less of the family. They begin the same task
anew, and learn it until a policy is certified.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from heirloom.agents.certificate import certificate_apart
from heirloom.agents.optimistic_algorithms import CertifiedRMax
from heirloom.arrays import FloatArray
from heirloom.envs.family import TaskFamily
from heirloom.envs.paper_tasks import TIGHT as CELLS
from heirloom.experiments.registry import family_of_table
from heirloom.experiments.variables import TASK, Variable
from heirloom.learning.episodes import Record
from heirloom.learning.learn import learn
from heirloom.learning.lifetime import Observer
from heirloom.mdp.tabular import TabularMDP
from heirloom.planning.solve import solve
from heirloom.storage.archive import Content
from heirloom.transfer import memory_file
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.nearness.knowledge import Nearness

NOTHING, SUCCESSORS = "nothing", "successors"
REWARDS, ONLY_REWARDS = "successors, rewards", "rewards"
NUMBERS, ARRAYS = "two numbers", "arrays"
PRICES, POOLED = "prices", "prices, transitions equal"
MEASURED = {
    NOTHING: (1,),
    SUCCESSORS: (1,),
    ONLY_REWARDS: (1,),
    REWARDS: (1, 5),
    NUMBERS: (2, 5),
    ARRAYS: (2, 5),
    PRICES: (1,),
    POOLED: (2, 5),
}
"""The tasks in which agents with some knowledge are measured: without a nearness, sources do not
matter, and without sources, a nearness does not."""

GAPS = (0.2, 0.1)
STEPS = 50  # of an episode
SHARE = 5  # agents have one episode for this many of the sources, so 4,000 for 20,000


def named(measure: str, gap: float) -> str:
    """Return the name of a variable that is measured for a relative gap, such as episodes_20."""
    return f"{measure}_{100 * gap:.0f}"


def _variable(units: str, meaning: str) -> Variable:
    return Variable((*TASK, "knowledge"), units, meaning)


class UntilCertified(Observer):
    """Episodes until a policy is certified within 20 % and within 10 %, by what an agent knows.

    A derived class has a family and kinds of knowledge. Agents are `CertifiedRMax`. All is NaN in
    tasks in which agents are not measured.
    """

    family: ClassVar[Mapping[str, Any]]
    """The family as in a spec."""
    kinds: ClassVar[tuple[str, ...]]
    """What agents know, in the order of the dimension `knowledge`."""
    variables: ClassVar = {
        "first_gap": _variable("1", "relative gap of the certificate before the first step"),
        "last_gap": _variable("1", "relative gap with all visits of a task, if prices are known"),
        "optimal_value": _variable("reward", "optimal value at the start of a task"),
        **{
            named(measure, gap): _variable(units, f"{meaning} a relative gap of {gap:.0%}")
            for gap in GAPS
            for measure, units, meaning in (
                ("episodes", "episodes", "episodes until a policy is certified with"),
                ("returns", "reward", "mean return of the episodes until one is certified with"),
                ("gap", "1", "relative gap when it is certified or episodes are used up, with"),
                ("lower", "reward", "certified value of the policy at that time, with"),
            )
        },
    }
    looks_at_episodes = True

    def __init_subclass__(cls, *, family: Mapping[str, Any], kinds: tuple[str, ...]) -> None:
        cls.family, cls.kinds = family, kinds
        meaning = f"what an agent knows: {'; '.join(kinds)}"
        cls.own_dimension = {"knowledge": (meaning, lambda task: len(kinds))}

    def begin(self) -> None:
        """Count no episodes yet."""
        self._done = 0

    def after_episode(self, done: int) -> None:
        """Take note of the number of episodes."""
        self._done = done

    def result(self) -> dict[str, Any]:
        """Let agents with each kind of knowledge learn the task."""
        number = self.agent.memory.n_tasks + 1
        found: dict[str, FloatArray] = {
            name: np.full(len(self.kinds), np.nan) for name in self.variables
        }
        for i, kind in enumerate(self.kinds):
            known = knowledge(kind, family_of_table(self.family), self.task)
            if kind == POOLED:
                last = certificate_apart(self.agent, start=self.task.start, **known)
                found["last_gap"][i] = last.relative_gap
            if number in MEASURED[kind]:
                for name, value in self._measure(known).items():
                    found[name][i] = value
        return found

    def _measure(self, known: dict[str, Any]) -> dict[str, float]:
        """Measure agents that are told this."""
        task: TabularMDP = self.task
        agent = self._agent(known)
        agent.begin_task(available=task.available)
        found = {
            "optimal_value": float(task.start @ solve(task).V),
            "first_gap": agent.certificate(start=task.start).relative_gap,
        }
        for gap in GAPS:
            record = self._learn(self._agent(known), gap)
            assert record.certificate is not None
            found[named("gap", gap)] = record.certificate.relative_gap
            found[named("lower", gap)] = record.certificate.lower
            if record.is_certified:
                found[named("episodes", gap)] = record.returns.size
            if record.returns.size:
                found[named("returns", gap)] = float(record.returns.mean())
        return found

    def _agent(self, known: dict[str, Any]) -> CertifiedRMax:
        """Return an agent with a copy of the memory, as it was before the task."""
        content = Content(*memory_file.packed(self.agent.memory))
        memory = memory_file.unpacked(TaskMemory, content, "the memory")
        options = family_of_table(self.family).options
        return CertifiedRMax(**options, **known, memory=memory, seed=self._seed)

    def _learn(self, agent: CertifiedRMax, gap: float) -> Record:
        most = max(1, self._done // SHARE)
        return learn(
            agent, self.task, episodes=most, max_steps=STEPS, until=gap, seed=self._seed + 1
        )

    @property
    def _seed(self) -> int:
        """A seed that differs between repetitions and tasks; it is drawn from a copy."""
        return int(deepcopy(self.agent._uniforms).next() * 2**31)


def knowledge(kind: str, family: TaskFamily, task: TabularMDP) -> dict[str, Any]:
    """Return what an agent with this kind of knowledge is told, as its options."""
    if kind in (NOTHING, ONLY_REWARDS):
        return {} if kind == NOTHING else {"rewards": "per transition"}
    near = family.nearness
    assert near is not None
    known: dict[str, Any] = {"successors": near.successors, "terminates": near.terminates}
    if kind in (PRICES, POOLED):
        known["rewards"] = task.R
    elif kind != SUCCESSORS:
        known["rewards"] = "per transition"
    if kind == NUMBERS:
        known["nearness"] = Nearness(rewards=near.rewards.max(), transitions=near.transitions.max())
    elif kind in (ARRAYS, POOLED):
        known["nearness"] = near
    return known


ALL = (NOTHING, SUCCESSORS, REWARDS, NUMBERS, ARRAYS)
TIGHT = {"name": "tight"}
GARNET = {"n_actions": 4, "branching": 5}
GRID = {"name": "grid", "cells": list(CELLS), "rewards": [0.5, 1.0], "slips": [0.05, 0.05]}


class Tight(UntilCertified, family=TIGHT, kinds=(REWARDS, ARRAYS)):
    """The paper's main family; the two kinds of knowledge that the targets compare."""


class TightAlone(UntilCertified, family=TIGHT, kinds=(NOTHING, SUCCESSORS)):
    """The paper's main family; less knowledge, with which sources do not matter."""


class TightNumbers(UntilCertified, family=TIGHT, kinds=(NUMBERS,)):
    """The paper's main family; two numbers, which take most time."""


class TightOwn(UntilCertified, family=TIGHT, kinds=(ARRAYS,)):
    """The paper's main family; agents with arrays, for sources that such an agent has learned."""


class Corridor(UntilCertified, family={"name": "corridor"}, kinds=ALL):
    """The paper's corridor."""


class FrozenLake(UntilCertified, family={"name": "frozen-lakes"}, kinds=ALL):
    """FrozenLake with another hole and another slip."""


class Machines(UntilCertified, family={"name": "machines"}, kinds=ALL):
    """Machine maintenance, with wide ranges of prices and rates."""


class Garnet(
    UntilCertified,
    family={"name": "garnet", "n_states": 100, **GARNET},
    kinds=(NOTHING, ONLY_REWARDS),
):
    """Random tasks that have nothing in common."""


class SmallGarnet(
    UntilCertified,
    family={"name": "garnet", "n_states": 30, **GARNET},
    kinds=(NOTHING, ONLY_REWARDS),
):
    """Small random tasks that have nothing in common."""


class Prices(UntilCertified, family={"name": "prices"}, kinds=(PRICES, POOLED)):
    """Inventory control; seasons differ in prices only."""


class GridPrices(UntilCertified, family=GRID, kinds=(PRICES, POOLED)):
    """The map of the main family with one slip for all tasks, and prices that differ much."""
