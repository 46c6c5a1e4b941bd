"""Evidence of one's own, each in one file: it runs compiled, is saved, explained and compared."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import heirloom as hl
from heirloom.bounds import Evidence, ModelSets
from heirloom.errors import InvalidArgument, RefutedKnowledge, RefutedKnowledgeWarning
from tests.evidence import common_shift, ucbvi
from tests.strategies import seeds

S, A = 6, 2
GROUPS = np.arange(S * A) % 2
SIZES = {"n_states": S, "n_actions": A, "gamma": 0.9}
EXAMPLES = {
    "UCBVI": lambda **options: ucbvi.make(**options),
    "CommonShift": lambda **options: common_shift.make(groups=GROUPS, c=0.4, **options),
}
CLASSES = {"UCBVI": ucbvi.Bonus, "CommonShift": common_shift.CommonShift}


def draw_tasks(seed, n=3, c=0.2):
    """Tasks with the same transitions, some terminal, whose rewards move together by group."""
    rng = np.random.default_rng(seed)
    first = hl.garnet(S, A, branching=2, gamma=0.9, seed=rng, terminating=0.2)
    ends = first.T
    ends.data = first.transitions.ends.astype(float)
    R = rng.uniform(0.3, 0.7, (S, A))
    shifts = rng.uniform(-c, c, (n, 2))
    shifts[0] = 0
    return [
        hl.TabularMDP(R + shift[GROUPS].reshape(S, A), first.T, gamma=0.9, terminates=ends)
        for shift in shifts
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_compiled_and_step_by_step_learning_are_identical(name):
    compiled, stepped = (EXAMPLES[name](**SIZES, seed=0) for _ in range(2))
    for seed, m in enumerate(draw_tasks(0)):
        length = {"episodes": 30, "max_steps": 10, "seed": seed}
        record = hl.learn(compiled, m, **length)
        step_record = hl.learn(stepped, m.to_gymnasium(), **length)
        assert np.array_equal(record.returns, step_record.returns)
        assert np.array_equal(compiled.Q, stepped.Q)
        assert np.array_equal(compiled.model.counts, stepped.model.counts)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_loaded_agent_continues_as_if_it_had_not_been_saved(name, tmp_path):
    agent, tasks = EXAMPLES[name](**SIZES, seed=0), draw_tasks(1)
    hl.learn(agent, tasks[0], episodes=30, max_steps=10, seed=0)
    agent.save(tmp_path / "agent")
    loaded = hl.OptimisticAgent.load(tmp_path / "agent", bounds=[CLASSES[name]])
    for one in (agent, loaded):
        hl.learn(one, tasks[1], episodes=30, max_steps=10, seed=1)
    assert np.array_equal(agent.Q, loaded.Q)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_explained(name):
    agent = EXAMPLES[name](**SIZES, seed=0)
    for m in draw_tasks(2):
        hl.learn(agent, m, episodes=5, max_steps=5, seed=0)
    assert CLASSES[name].__name__ in str(agent.explain())


def test_it_is_compared_with_other_agents():
    agents = {
        name: (lambda rng, make=make: make(**SIZES, seed=rng)) for name, make in EXAMPLES.items()
    }
    agents["RMax"] = lambda rng: hl.RMax(**SIZES, n_known=2, refresh=1.5, seed=rng)
    results = hl.compare(
        agents,
        lambda rng: draw_tasks(0, 3)[rng.integers(3)],
        **{"tasks": 2, "episodes": 20, "max_steps": 10, "repetitions": 2},
    )
    assert set(results.agent.values) == set(agents)
    assert np.isfinite(results.returns).all()


@pytest.mark.parametrize("seed", seeds(100))
def test_shifts_of_groups_give_bounds(seed):
    """Deterministic transitions, so that one visit is enough for an exact model."""
    rng = np.random.default_rng(seed)
    successors = rng.integers(S, size=(S, A))
    T = np.eye(S)[successors]
    R, shifts = rng.uniform(0.3, 0.7, (S, A)), rng.uniform(-0.2, 0.2, (3, 2))
    shifts[0] = 0
    agent = EXAMPLES["CommonShift"](**SIZES, seed=seed, on_refutation="raise")
    free = hl.RMax(**SIZES, n_known=1, refresh=1.5, seed=seed)
    lower = 0
    for i, shift in enumerate(shifts):
        m = hl.TabularMDP(R + shift[GROUPS].reshape(S, A), T, gamma=0.9)
        for one in (agent, free):
            one.begin_task()
            one.drop_task()
            hl.learn(one, m, episodes=3, max_steps=int(rng.integers(1, 12)), seed=i)
            assert (one.Q >= hl.solve(m).Q - 1e-6).all()
        lower += int((agent.Q[~agent.known] < agent.setting.v_max - 0.1).sum())
    assert lower > 0 or agent.known.all()


class Given(Evidence):
    """Evidence that returns what it was given."""

    def __init__(self, sets):
        self.sets = sets

    def model_sets(self):
        return self.sets


class Misplaced(hl.NearModels):
    """A nearness whose rows lead to a state that does not exist."""

    def model_sets(self):
        sets = super().model_sets()
        return replace(sets, rows=sets.rows._replace(successors=sets.rows.successors + S))


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([], r"returned \[\]: expected a ModelSets, or None"),
        (ModelSets(reward=np.ones(3)), "has reward .*: expected an array of float64"),
        (
            ModelSets(radius=np.ones(S * A, dtype=int)),
            "has radius .*: expected an array of float64",
        ),
        (ModelSets(may_end=np.ones(S * A)), "has may_end .*: expected an array of bool"),
        (
            ModelSets(successors=np.ones((S + 1, A, S + 1), dtype=bool)),
            "successors of another size",
        ),
        (ModelSets(rows=()), "has rows that are not valid"),
    ],
)
def test_sets_that_kernels_cannot_read_are_refused(sets, message):
    agent = hl.OptimisticAgent(bounds=[Given(sets)], **SIZES)
    with pytest.raises(InvalidArgument, match=message):
        agent.begin_task()


def test_rows_with_a_state_that_does_not_exist_are_refused():
    near = Misplaced(hl.Nearness(rewards=0.1, transitions=0.1))
    agent = hl.OptimisticAgent(bounds=[near], **SIZES, seed=0)
    first, second = draw_tasks(0, 2)
    hl.learn(agent, first, episodes=5, max_steps=5, seed=0)  # no rows yet
    with pytest.raises(InvalidArgument, match="has rows that are not valid"):
        hl.learn(agent, second, episodes=5, max_steps=5, seed=0)


def refuted(seed, **options):
    tasks = draw_tasks(seed, 3, c=0.25)
    agent = EXAMPLES["CommonShift"](**SIZES, seed=0, **options)
    agent.bounds[0].c = 0.01  # false: rewards move by up to 0.25
    for i, m in enumerate(tasks):
        hl.learn(agent, m, episodes=50, max_steps=10, seed=i)
    return agent, tasks


def test_knowledge_that_is_false_is_refuted():
    with pytest.raises(RefutedKnowledge, match=r"moved by .* the claim allows 0\.01"):
        refuted(3, on_refutation="raise")
    with pytest.warns(RefutedKnowledgeWarning, match="CommonShift is refuted"):
        refuted(3)


def test_knowledge_that_is_false_is_widened():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent, tasks = refuted(3, on_refutation="widen")
    assert agent.refutation.n_widened > 0
    assert agent.bounds[0].c > 0.01
    known = agent.known.reshape(-1)
    assert (agent.bounds[0].sets.reward[known] >= tasks[-1].R.reshape(-1)[known]).all()


def test_a_pair_that_does_not_move_with_its_group_leaves_it():
    first, second = draw_tasks(5, 2)
    R = second.R.copy()
    R[0, 0] += 0.05
    ends = second.T
    ends.data = second.transitions.ends.astype(float)
    odd = hl.TabularMDP(R, second.T, gamma=0.9, terminates=ends)
    agent = EXAMPLES["CommonShift"](**SIZES, seed=0, on_refutation="widen")
    hl.learn(agent, first, episodes=200, max_steps=10, seed=0)
    hl.learn(agent, odd, episodes=200, max_steps=10, seed=1)
    assert (agent.bounds[0].groups < 0).sum() > 0
