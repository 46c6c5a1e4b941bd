"""A memory that holds more different tasks than `p_min` admits refutes it; noise never does."""

import math

import numpy as np
import pytest

import heirloom as hl
from heirloom.transfer.different_tasks import DELTA
from heirloom.transfer.radii import Accuracy, all_outcomes

OPTIONS = {"n_states": 2, "n_actions": 1, "gamma": 0.9, "seed": 0}
AGENTS = {
    "MaxQInit": lambda **o: hl.MaxQInit(**o),
    "LRMax": lambda **o: hl.LRMax(**o),
    "LRMaxQInit": lambda **o: hl.LRMaxQInit(**o),
}


def task(r, *, successor=1):
    """A deterministic task: the reward r in the first state, and then 0 in the second."""
    T = np.zeros((2, 1, 2))
    T[0, 0, successor] = T[1, 0, 0] = 1.0
    return hl.TabularMDP([[r], [0.0]], T, gamma=0.9, start=0)


def learn_all(agent, tasks, **length):
    for i, m in enumerate(tasks):
        hl.learn(agent, m, **{"episodes": 2, "max_steps": 3, "seed": i, **length})


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize(
    "tasks",
    [
        [task(0.1), task(0.2), task(0.3)],
        [task(0.1), task(0.1), task(0.2), task(0.2), task(0.1, successor=0)],
    ],
    ids=["other rewards", "other transitions"],
)
def test_more_different_tasks_than_p_min_admits_raise_an_error(name, tasks):
    """Models are declared exact. Nothing is lost, and no task begins."""
    agent = AGENTS[name](**OPTIONS, n_known=1, p_min=0.5, exact=True)
    learn_all(agent, tasks)
    with pytest.raises(
        hl.errors.InvalidArgument,
        match=r"p_min is 0.5, .* at most 2 tasks, .* holds 3 different tasks .*p_min=0.333 or less",
    ):
        agent.begin_task()
    assert not agent.in_task
    assert agent.memory.n_tasks == len(tasks)
    again = AGENTS[name](**OPTIONS, n_known=1, p_min=1 / 3, exact=True, memory=agent.memory)
    again.begin_task()


def test_refutation_survives_saving_and_loading(tmp_path):
    agent = hl.MaxQInit(**OPTIONS, n_known=1, p_min=0.5, exact=True)
    learn_all(agent, [task(0.1), task(0.2), task(0.3)])
    agent.save(tmp_path / "agent")
    with pytest.raises(hl.errors.InvalidArgument, match="holds 3 different tasks"):
        hl.MaxQInit.load(tmp_path / "agent").begin_task()


def test_as_many_different_tasks_as_p_min_admits_are_accepted():
    """Also where 1 / p_min is rounded: n tasks of probability 1 / n, for n up to 60."""
    for n in range(1, 61):
        agent = hl.MaxQInit(**OPTIONS, n_known=1, p_min=1 / n, exact=True)
        learn_all(agent, [task(i / 100) for i in range(n)])
        agent.begin_task()
        agent.drop_task()
        learn_all(agent, [task(0.99)])
        with pytest.raises(hl.errors.InvalidArgument, match=f"holds {n + 1} different tasks"):
            agent.begin_task()


def test_tasks_that_were_forgotten_are_not_counted():
    memory = hl.TaskMemory(2, 1, capacity=2)
    agent = hl.MaxQInit(**OPTIONS, n_known=1, p_min=0.5, exact=True, memory=memory)
    learn_all(agent, [task(i / 10) for i in range(6)])
    agent.begin_task()


def test_tasks_without_a_common_known_pair_do_not_count_as_different():
    memory = hl.TaskMemory(2, 1)
    for s, r in ((0, 0.1), (1, 0.2), (0, 0.1), (1, 0.2)):
        model = hl.LearnedModel(2, 1, n_known=1)
        model.observe(s, 0, r, 0, terminated=False)
        memory.add(hl.bounds.Source.of(model, np.full(2, 10.0)))
    hl.MaxQInit(**OPTIONS, n_known=1, p_min=1.0, exact=True, memory=memory).begin_task()


@pytest.mark.parametrize(
    "options", [{"n_known": 1}, {"n_known": 1, "epsilon": 0.01}, {"n_known": 10}]
)
def test_few_visits_of_models_that_are_not_exact_never_refute(options):
    """The released maze of the paper has n_known = 1, ε = 0.01 and stochastic tasks."""
    agent = hl.MaxQInit(**OPTIONS, p_min=1.0, refresh=None, **options)
    learn_all(agent, [task(0.0), task(1.0)], episodes=20)
    agent.begin_task()


def noisy_task(p):
    return hl.TabularMDP(np.zeros((2, 1)), [[[p, 1 - p]], [[1 - p, p]]], gamma=0.9, start=0)


def noisy_reward(mean):
    """A task with random rewards, 0 or 1 with this mean."""
    T = [[[1 - mean, mean]], [[1 - mean, mean]]]
    return hl.TabularMDP(np.array([[[0.0, 1.0]]] * 2), T, gamma=0.9, start=0)


@pytest.mark.parametrize("make", [noisy_task, noisy_reward])
def test_sampling_noise_does_not_refute_p_min_and_large_differences_do(make):
    """With 400 visits: 200 times the same task, and then two that differ far more than noise."""
    options = {"n_known": 400, "p_min": 1.0}
    length = {"episodes": 100, "max_steps": 20}
    agent = hl.MaxQInit(**OPTIONS, **options)
    for _ in range(4):
        learn_all(agent, [make(0.5)] * 50, **length)
        agent.begin_task()
        agent.drop_task()
    sources = agent.memory.sources
    rows = np.array([np.append(source.rows.R, source.rows.p) for source in sources])
    assert (rows.std(axis=0).max()) > 0.01  # there is noise
    learn_all(agent, [make(0.02)], **length)
    with pytest.raises(hl.errors.InvalidArgument, match="holds 2 different tasks"):
        agent.begin_task()


@pytest.mark.parametrize("n_known", [1, 10])
def test_valid_p_min_is_not_refuted_by_models_that_are_estimated_again(n_known):
    """The same stochastic task, 20 times: no two estimates are equal."""
    agent = hl.MaxQInit(**OPTIONS, n_known=n_known, refresh=1.5, p_min=1.0)
    learn_all(agent, [noisy_reward(0.3)] * 20, episodes=20, max_steps=20)
    agent.begin_task()


def failure_probability(n, radius):
    """The probability that the mean of a pair ever exceeds a radius that is `radius` after n."""
    return math.sqrt(1 + n / 4) * math.exp(-((n * radius) ** 2) / (2 * (n / 4 + 1)))


def test_radii_hold_the_error_of_all_tasks_and_pairs_with_the_stated_probability():
    """The failure probabilities of the radii sum to δ."""
    setting = hl.bounds.Setting(n_states=3, n_actions=2, gamma=0.9, reward_range=(-1, 3))
    n = 70
    rows = hl.bounds.Source.of(exactly_known(3, 2, n), np.zeros(6)).rows
    total = 0.0
    for j in range(1, 2000):
        source = hl.bounds.Source(rows, np.zeros(6), np.zeros(3), task=j, n_known=n)
        eta, tau = radii(source, setting)
        total += sum(failure_probability(n, radius / 4) for radius in eta)
        total += sum((2**3 - 1) * failure_probability(n, radius) for radius in tau)
    assert total <= DELTA
    assert total == pytest.approx(DELTA, rel=0.01)


def radii(source, setting):
    return Accuracy(exact=False, delta=DELTA).radii(source, setting, all_outcomes(setting))


def exactly_known(n_states, n_actions, n_known):
    """A model of which every pair stays in its state."""
    model = hl.LearnedModel(n_states, n_actions, n_known=n_known)
    for s, a in np.ndindex(n_states, n_actions):
        for _ in range(n_known):
            model.observe(s, a, 0.5, s, terminated=False)
    return model


def test_source_without_recorded_visits_proves_nothing():
    setting = hl.bounds.Setting(n_states=2, n_actions=1, gamma=0.9)
    source = hl.bounds.Source.of(hl.LearnedModel(2, 1, n_known=5), np.zeros(2))
    for radius in radii(hl.bounds.Source(source.rows, source.Q, source.V, task=1), setting):
        assert np.isinf(radius).all()
