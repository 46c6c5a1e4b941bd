"""A saved and loaded agent continues exactly like one that was never saved."""

import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import heirloom as hl
from heirloom.storage import archive
from heirloom.transfer.bound import Constant, Details, MaxQ
from tests.agents.test_agents import AGENTS, assert_same, tight_tasks
from tests.transfer.test_memory_file import mutated

COMMON = {"n_states": 121, "n_actions": 4, "gamma": 0.9, "n_known": 3, "epsilon": 0.01}

CONTINUE = """
import sys, json
import heirloom as hl
from tests.agents.test_agents import tight_tasks
agent = hl.OptimisticAgent.load(sys.argv[1])
out = []
for i, m in list(enumerate(tight_tasks(5)))[2:]:
    record = hl.learn(agent, m, episodes=60, max_steps=10, seed=i)
    returns, Q = (array.tobytes().hex() for array in (record.returns, agent.Q))
    out.append([returns, record.update_steps.tolist(), Q])
print(json.dumps(out))
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.heirloom"


def run(agent, tasks):
    """Learn numbered tasks; yields the record of each, and the agent."""
    for i, m in tasks:
        record = hl.learn(agent, m, episodes=60, max_steps=10, seed=i)
        yield record, agent


@pytest.mark.parametrize(
    "name",
    [n if n == "LRMax" else pytest.param(n, marks=pytest.mark.slow) for n in AGENTS],
)
def test_agent_loaded_in_another_process_continues_identically(name, path):
    tasks = list(enumerate(tight_tasks(5)))
    never_saved, saved = (AGENTS[name](**COMMON, seed=7) for _ in range(2))
    list(run(never_saved, tasks[:2]))
    list(run(saved, tasks[:2]))
    saved.save(path)
    out = subprocess.run(
        [sys.executable, "-c", CONTINUE, path], capture_output=True, text=True, check=True
    ).stdout
    for (record, agent), (returns, update_steps, Q) in zip(
        run(never_saved, tasks[2:]), json.loads(out), strict=True
    ):
        assert record.returns.tobytes().hex() == returns
        assert record.update_steps.tolist() == update_steps
        assert agent.Q.tobytes().hex() == Q


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_state_of_every_numpy_generator_is_saved(bits, path):
    tasks = list(enumerate(tight_tasks(3)))
    agents = [
        hl.RMax(**COMMON, seed=np.random.Generator(getattr(np.random, bits)(3))) for _ in range(2)
    ]
    for agent in agents:
        list(run(agent, tasks[:1]))
    agents[1].save(path)
    loaded = hl.OptimisticAgent.load(path)
    never_saved = agents[0]
    for (record, _), (loaded_record, _) in zip(
        run(never_saved, tasks[1:]), run(loaded, tasks[1:]), strict=True
    ):
        assert_same(record, loaded_record, never_saved, loaded)


def test_prior_that_is_an_array_is_saved(path):
    prior = np.random.default_rng(0).uniform(0, 2, (121, 4))
    hl.LRMax(d_max=prior, **COMMON, seed=0).save(path)
    (bound,) = hl.OptimisticAgent.load(path).bounds
    assert np.array_equal(bound.d_max, prior)


def test_options_of_any_numeric_type_are_saved(path):
    options = {**COMMON, "terminating": np.bool_(1)}
    for agent in (
        hl.RMax(**options),
        hl.LRMax(p_min=np.float32(0.2), **COMMON),
        hl.LRMax(p_min=Fraction(1, 5), **COMMON),
        hl.MaxQInit(p_min=np.array(0.2), delta=np.float32(0.05), **COMMON),
    ):
        agent.save(path)
        assert hl.OptimisticAgent.load(path).setting == agent.setting


class UserBound(Constant):
    pass


def test_user_defined_bound_without_options_must_be_given_to_load(path):
    bound = UserBound()
    agent = hl.OptimisticAgent(bounds=[MaxQ(p_min=0.5), bound], **COMMON, seed=0)
    agent.save(path)
    with pytest.raises(hl.errors.InvalidArgument, match="user-defined bound"):
        hl.OptimisticAgent.load(path)
    with pytest.raises(hl.errors.InvalidArgument, match="give the same bounds in the same order"):
        hl.OptimisticAgent.load(path, bounds=[bound])
    assert hl.OptimisticAgent.load(path, bounds=[MaxQ(p_min=0.5), bound]).bounds[1] is bound


class FirstTaskPlusMargin(hl.Bound):
    """The values of the first task plus a margin; it names its source and can be saved."""

    def __init__(self, *, margin, scale):
        self.margin, self.scale = np.asarray(margin), scale

    def begin_task(self, setting, model, memory):
        self.U = np.full(setting.n_pairs, setting.v_max)
        if memory.sources:
            self.U = np.minimum(self.U, memory.sources[0].Q + self.scale * self.margin)
        return False

    def sources_used(self):
        return np.ones(self.U.size, dtype=np.int64)

    def details(self):
        return Details(sources=(1,))

    def options(self):
        return {"margin": self.margin, "scale": self.scale}


def test_user_defined_bound_with_options_is_explained_counted_and_saved(path):
    margin = np.linspace(0.1, 0.2, 121 * 4)
    bounds = [FirstTaskPlusMargin(margin=margin, scale=2.0)]
    agent = hl.OptimisticAgent(bounds=bounds, **COMMON, seed=0)
    for i, m in enumerate(tight_tasks(2)):
        hl.learn(agent, m, episodes=60, max_steps=10, seed=i)
    n_decided = agent.explain().n_decided["FirstTaskPlusMargin, task 1"]
    assert n_decided > 0
    assert agent.memory.uses[1] >= n_decided
    agent.save(path)
    with pytest.raises(hl.errors.InvalidArgument, match="user-defined bound FirstTaskPlusMargin"):
        hl.OptimisticAgent.load(path)
    (bound,) = hl.OptimisticAgent.load(path, bounds=[FirstTaskPlusMargin]).bounds
    assert isinstance(bound, FirstTaskPlusMargin)
    assert bound.scale == 2.0
    assert np.array_equal(bound.margin, margin)


def test_options_of_an_agent_cannot_be_changed_and_are_in_its_file(path):
    agent = hl.RMax(**COMMON, seed=0, explore=0.25)
    for name in ("explore", "n_known"):
        with pytest.raises(AttributeError):
            setattr(agent, name, 7)
    agent.save(path)
    assert hl.OptimisticAgent.load(path).options == agent.options


def test_agent_with_a_generator_that_is_not_from_numpy_cannot_be_saved(path):
    class UserBits(np.random.PCG64):
        @property
        def state(self):
            return {**super().state, "bit_generator": "UserBits"}

    agent = hl.RMax(**COMMON, seed=np.random.Generator(UserBits(0)))
    with pytest.raises(hl.errors.InvalidArgument, match="generator is a UserBits"):
        agent.save(path)


def test_damaged_and_forged_files_are_rejected(path):
    """Changed bytes; wrong header entries, generator states, options and arrays under a seal."""
    rng = np.random.default_rng(0)
    agent = hl.LRMax(d_max=0.1, n_states=3, n_actions=2, gamma=0.9, n_known=1, seed=0)
    agent.save(path)
    good, (header, arrays) = path.read_bytes(), archive.read(path, "agent")
    for _ in range(500):
        data = mutated(good, rng)
        path.write_bytes(data)
        if data != good:
            with pytest.raises(hl.errors.InvalidFile, match=r"agent\.heirloom"):
                hl.OptimisticAgent.load(path)
            assert path.read_bytes() == data
    for key in header:
        for junk in (None, 1, "x", [], [1], {"x": 1}, {"name": "Lipschitz"}):
            forged = {**header, key: junk}
            archive.write(path, "agent", archive.Content(forged, arrays))
            if (key, junk) in (("bounds", []), ("algorithm", "x"), ("n_widened", 1)):
                continue  # valid: RMax has no bounds, and a user-defined class may have any name
            if junk is None and key in ("task", "rewards_seen"):
                continue  # valid: no task was begun
            with pytest.raises(hl.errors.InvalidFile, match=r"agent\.heirloom"):
                hl.OptimisticAgent.load(path)
    for bits, changes in (
        ("MT19937", [("state", "pos", 10**9), ("state", "pos", -1), ("state", "key", [1])]),
        ("Philox", [("buffer_pos", None, -(10**8)), ("buffer_pos", None, 5)]),
        ("PCG64", [("has_uint32", None, 2), ("uinteger", None, 2**40), ("state", "inc", -1)]),
    ):
        rng = np.random.Generator(getattr(np.random, bits)(0))
        hl.RMax(n_states=3, n_actions=2, gamma=0.9, n_known=1, seed=rng).save(path)
        good_header, good_arrays = archive.read(path, "agent")
        for outer, inner, value in changes:
            forged = json.loads(json.dumps(good_header))
            if inner is None:
                forged["generator"][outer] = value
            else:
                forged["generator"][outer][inner] = value
            archive.write(path, "agent", archive.Content(forged, good_arrays))
            with pytest.raises(hl.errors.InvalidFile, match="generator"):
                hl.OptimisticAgent.load(path)
    forged = json.loads(json.dumps(header))
    forged["bounds"][0]["options"]["distance"] = 3
    archive.write(path, "agent", archive.Content(forged, arrays))
    with pytest.raises(hl.errors.InvalidFile, match="keyword argument 'distance'"):
        hl.OptimisticAgent.load(path)
    forged = arrays | {"bound/0/d_max": np.zeros((2, 2))}
    archive.write(path, "agent", archive.Content(header, forged))
    with pytest.raises(hl.errors.InvalidFile, match="d_max has shape"):
        hl.OptimisticAgent.load(path)
    forged = arrays | {"drawn": np.array([1.5])}
    archive.write(path, "agent", archive.Content(header, forged))
    with pytest.raises(hl.errors.InvalidFile, match="outside"):
        hl.OptimisticAgent.load(path)


class WithOptions(hl.RMax):
    def __init__(self, *, exploration, **options):
        super().__init__(**options)
        self.exploration = exploration


def test_load_of_an_algorithm_rejects_agents_of_other_classes(path):
    hl.LRMax(d_max=0.1, **COMMON, seed=0).save(path)
    assert isinstance(hl.LRMax.load(path), hl.LRMax)
    assert hl.OptimisticAgent.load(path).bounds[0].d_max == 0.1
    with pytest.raises(hl.errors.InvalidArgument, match="was saved by LRMax, not by RMax"):
        hl.RMax.load(path)
    WithOptions(exploration=0.1, **COMMON, seed=0).save(path)
    with pytest.raises(hl.errors.InvalidArgument, match="defines its own constructor"):
        WithOptions.load(path)
    assert hl.OptimisticAgent.load(path).memory.n_tasks == 0


def test_bound_derived_from_a_built_in_class_is_not_rebuilt_as_that_class(path):
    class Constant(hl.bounds.Constant):
        def begin_task(self, setting, model, memory):
            self.U = np.full(setting.n_pairs, setting.v_max / 2)
            return False

    class Wider(hl.Lipschitz):
        def __init__(self, *, factor=1.0, **options):
            super().__init__(**options)
            self.factor = factor

    for bound in (Constant(), Wider(factor=7.0, d_max=0.1)):
        hl.OptimisticAgent(bounds=[bound], **COMMON, seed=0).save(path)
        for bounds in (None, [type(bound)]):
            with pytest.raises(hl.errors.InvalidArgument, match="user-defined bound"):
                hl.OptimisticAgent.load(path, bounds=bounds)
        assert hl.OptimisticAgent.load(path, bounds=[bound]).bounds == [bound]


@pytest.mark.parametrize(
    "returned",
    [3, {1: 2}, {"U": object()}, {"U": [1.0]}, {"U": 1j}, {"U": np.array([None])}],
)
def test_bound_with_options_that_cannot_be_saved_is_refused(path, returned):
    class Unsaved(hl.bounds.Constant):
        def options(self):
            return returned

    agent = hl.OptimisticAgent(bounds=[Unsaved()], **COMMON, seed=0)
    with pytest.raises(hl.errors.InvalidArgument, match="options of the bound Unsaved returned"):
        agent.save(path)
    assert not path.exists()
