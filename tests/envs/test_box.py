"""Families with parameters from intervals: what they promise holds for drawn tasks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import heirloom as hl
from heirloom.envs.box import Interval
from heirloom.envs.maintenance import Machines
from heirloom.envs.ordered import Ferry
from heirloom.envs.perishables import Perishables
from heirloom.envs.queueing import Queues
from heirloom.experiments.registry import FAMILIES, make_family

BOXES = {
    "machines": Machines(),
    "wide machines": Machines(wear=(0.0, 1.0), failure=(0.0, 1.0), parts=(0.0, 2000.0)),
    "queues": Queues(),
    "wide queues": Queues(arrival=(0.0, 1.0), service=(0.0, 0.625), sent_away=(0.0, 40.0)),
    "perishables": Perishables(),
    "ferries": Ferry(),
    "wide perishables": Perishables(busy=(0.0, 1.0), fresh=(0.0, 1.0), price=(0.0, 9.0)),
}


@pytest.fixture(params=BOXES, name="family")
def _family(request):
    return BOXES[request.param]


def drawn(family, n, seed=0):
    rng = np.random.default_rng(seed)
    return [family.draw(rng) for _ in range(n)]


def test_drawn_tasks_are_as_near_as_the_nearness_of_the_family_says(family):
    near = family.nearness
    between = hl.family_nearness(drawn(family, 20))
    assert (between.rewards <= near.rewards * (1 + 1e-9) + 1e-9).all()
    assert (between.transitions <= near.transitions * (1 + 1e-9) + 1e-12).all()
    for k in range(near.successors.first.size - 1):
        possible, found = (
            set(x.states[x.first[k] : x.first[k + 1]].tolist())
            for x in (near.successors, between.successors)
        )
        assert found <= possible


def test_transitions_of_drawn_tasks_are_distributions_and_rewards_lie_in_the_range(family):
    lo, hi = family.reward_range
    for m in drawn(family, 10):
        assert np.asarray(m.T.sum(axis=1)).ravel() == pytest.approx(1.0)
        assert m.T.data.min() >= 0
        assert m.reward_range == (lo, hi)
        rewards = m.R if m.transitions.rewards is None else m.transitions.rewards
        assert lo <= rewards.min()
        assert rewards.max() <= hi


def test_prior_of_the_family_is_at_least_the_distance_between_any_two_drawn_tasks(family):
    assert (hl.metrics.family_distance(drawn(family, 6)) <= family.d_max + 1e-6).all()


def test_bound_from_one_task_holds_for_another_task_of_the_family(family):
    source, *targets = drawn(family, 6, seed=1)
    for m in targets:
        sol = hl.solve(m)
        assert (hl.near_bound(m, source, family.nearness) >= sol.Q - sol.error).all()


def test_drawn_task_passes_gymnasiums_environment_check(family):
    check_env(drawn(family, 1)[0].to_gymnasium().unwrapped, skip_render_check=True)


def test_task_with_given_parameters_is_the_one_that_was_drawn(family):
    parameters = family.draw_parameters(np.random.default_rng(3))
    m = family.task(**parameters)
    assert np.array_equal(m.R, drawn(family, 1, seed=3)[0].R)


def test_parameters_outside_the_box_are_reported():
    family = Machines()
    parameters = family.draw_parameters(np.random.default_rng(0))
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"wear is 0\.9: expected a number from 0\.15 to"
    ):
        family.task(**{**parameters, "wear": 0.9})
    with pytest.raises(
        hl.errors.InvalidArgument, match="the parameters are wear: expected wear, fail"
    ):
        family.task(wear=0.2)


@pytest.mark.parametrize("interval", [(0.3, 0.1), (0.1,), 0.3, ("x", "y"), (0.0, float("nan"))])
def test_invalid_interval_is_reported(interval):
    with pytest.raises(hl.errors.InvalidArgument, match=r"wear is .*: expected two numbers"):
        Machines(wear=interval).draw(np.random.default_rng(0))


def test_specs_name_the_family_and_its_intervals():
    assert FAMILIES["machines"] is Machines
    family = make_family("machines", {"wear": [0.1, 0.2]})
    assert family.intervals["wear"] == (0.1, 0.2)
    with pytest.raises(hl.errors.InvalidArgument, match=r"family.wear is \[0.1\]"):
        make_family("machines", {"wear": [0.1]})


class Jam(hl.BoxFamily):
    """Two states; the probability of a jam is quadratic in x, and equal at both ends."""

    @property
    def intervals(self):
        return {"x": (0.0, 1.0)}

    def build(self, *, reward_range, x):
        jam = 3.2 * x * (1 - x)
        T = [[[jam, 1 - jam]], [[0.0, 1.0]]]
        return hl.TabularMDP([[0.0], [1.0]], T, gamma=0.9, reward_range=reward_range)


def test_family_whose_model_is_not_affine_has_no_nearness():
    """The corners are equal, so their nearness would be 0."""
    with pytest.raises(hl.errors.InvalidTask, match="probabilities of Jam are not affine"):
        Jam().nearness  # noqa: B018


class Doors(hl.BoxFamily):
    """A reward from an interval, and one of two doors that lead to it."""

    intervals: ClassVar = {"reward": (0.5, 1.0)}
    choices: ClassVar = {"door": ("left", "right")}
    gamma = 0.9

    def build(self, *, reward_range, reward, door):
        R = np.zeros((1, 2))
        R[0, ("left", "right").index(door)] = reward
        return hl.TabularMDP(R, np.ones((1, 2, 1)), gamma=0.9, reward_range=reward_range)


def test_family_with_choices_draws_each_of_them_and_refuses_others():
    family = Doors()
    rng = np.random.default_rng(0)
    drawn = [family.draw_parameters(rng) for _ in range(20)]
    assert {parameters["door"] for parameters in drawn} == {"left", "right"}
    tasks = [family.task(**parameters) for parameters in drawn]
    assert (hl.family_nearness(tasks).rewards <= family.nearness.rewards + 1e-9).all()
    with pytest.raises(
        hl.errors.InvalidArgument, match="door is 'back': expected one of left, right"
    ):
        family.task(reward=0.5, door="back")


class Speeds(hl.BoxFamily):
    """Its choices are new numbers whenever they are asked for."""

    intervals: ClassVar = {"reward": (0.5, 1.0)}
    choices = property(lambda self: {"speed": tuple(np.linspace(0.25, 0.75, 3).tolist())})
    gamma = 0.9

    def build(self, *, reward_range, reward, speed):
        T = [[[1 - speed, speed]], [[0.0, 1.0]]]
        return hl.TabularMDP([[0.0], [reward]], T, gamma=0.9, reward_range=reward_range)


def test_choices_may_be_computed_anew_at_each_call():
    np.testing.assert_allclose(Speeds().nearness.transitions, [[0.5], [0.0]], rtol=1e-6)


@dataclass(frozen=True)
class Postponed(hl.BoxFamily):
    """Its types are strings, as after `from __future__ import annotations`."""

    reward: "Interval" = (0.25, 0.75)
    gamma: "float" = 0.9

    def build(self, *, reward_range, reward):
        return hl.TabularMDP([[reward]], [[[1.0]]], gamma=0.9, reward_range=reward_range)


def test_fields_may_have_types_that_are_strings():
    assert Postponed().intervals == {"reward": (0.25, 0.75)}
    assert Postponed().nearness.rewards.item() == pytest.approx(0.5)


class Forgetful(hl.BoxFamily):
    """Its `build` has mistakes that people make."""

    gamma = 0.9
    intervals: ClassVar = {"x": (0.0, 1.0)}
    build = staticmethod(lambda reward_range, x: None)


def test_mistakes_in_build_are_named():
    with pytest.raises(
        hl.errors.InvalidArgument, match="build of Forgetful returned None: expected a"
    ):
        _ = Forgetful().nearness


def test_reversed_interval_is_shown_as_a_whole():
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"wear is \(0.5, 0.3\): expected two numbers"
    ):
        _ = Machines(wear=(0.5, 0.3)).nearness
