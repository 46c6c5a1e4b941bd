"""Tasks from functions, from files and from learned models, and their way back."""

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.mdp.transitions import Transitions
from heirloom.storage import archive
from tests.mdp.test_tabular import assert_same_task
from tests.strategies import seeds


def random_task(seed, **options):
    return hl.garnet(7, 3, branching=3, gamma=0.9, terminating=0.3, seed=seed, **options)


def rows_of(m):
    table = m.to_gymnasium().unwrapped.P
    return lambda s, a: table[s][a]


@pytest.mark.parametrize("seed", range(5))
def test_task_from_a_function_equals_the_task_whose_rows_it_returns(seed):
    m = random_task(seed)
    again = hl.TabularMDP.from_callable(rows_of(m), 7, 3, gamma=0.9, start=m.start)
    assert abs(again.T - m.T).max() < 1e-15
    assert again.R == pytest.approx(m.R)
    assert again.ends == pytest.approx(m.ends)


def test_function_may_yield_its_outcomes_and_asks_for_each_pair_once():
    asked = []

    def row(s, a):
        asked.append((s, a))
        yield 0.5, (s + a) % 1000, 0.0, False
        yield 0.5, s, 1.0, True

    m = hl.TabularMDP.from_callable(row, 1000, 2, gamma=0.9)
    assert asked == [(s, a) for s in range(1000) for a in range(2)]
    assert m.transitions.p.size == 4000


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (lambda s, a: [(0.5, 0, 0.0, False)], "sums to 0.5, not 1"),
        (lambda s, a: [(1.0, 9, 0.0, False)], r"row\(0, 0\) contains .*: the successor is 9"),
        (lambda s, a: [(1.0, 0, 0.0)], r"row\(0, 0\) contains .*: expected \(probability"),
        (lambda s, a: 3, r"row\(0, 0\) is 3: expected a list of outcomes"),
        (lambda s, a: [], "state 0 has no available action"),
    ],
)
def test_wrong_rows_of_a_function_are_reported(row, message):
    with pytest.raises(hl.errors.InvalidTask, match=message):
        hl.TabularMDP.from_callable(row, 2, 1, gamma=0.9)


@pytest.mark.parametrize("seed", range(5))
def test_saved_task_has_the_same_bits_when_it_is_loaded(seed, tmp_path):
    m = random_task(seed)
    m.save(tmp_path / "task")
    again = hl.TabularMDP.load(tmp_path / "task")
    for name in Transitions.__dataclass_fields__:
        assert np.array_equal(getattr(again.transitions, name), getattr(m.transitions, name))
    assert again.start.tobytes() == m.start.tobytes()
    assert (again.gamma, again.reward_range) == (m.gamma, m.reward_range)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "task").read_bytes()
    with np.load(tmp_path / "task", allow_pickle=False) as file:
        assert np.array_equal(file["p"], m.transitions.p)


def test_saved_task_keeps_names_and_rewards_of_transitions(tmp_path):
    T = np.full((2, 1, 2), 0.5)
    R = np.arange(4.0).reshape(2, 1, 2)
    m = hl.TabularMDP(
        R, T, gamma=0.5, reward_range=(0, 3), state_names=["a", "b"], action_names=["go"], start=1
    )
    m.save(tmp_path / "task")
    again = hl.TabularMDP.load(tmp_path / "task")
    assert (again.state_names, again.action_names) == (("a", "b"), ("go",))
    assert again.transitions.rewards.tolist() == [0, 1, 2, 3]


def test_damaged_or_foreign_file_is_reported(tmp_path):
    path = tmp_path / "task"
    random_task(0).save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(hl.errors.InvalidFile):
        hl.TabularMDP.load(path)
    hl.TaskMemory(3, 2).save(path)
    with pytest.raises(hl.errors.InvalidFile, match="memory"):
        hl.TabularMDP.load(path)


def wrapping(indptr):
    """Return entries whose differences overflow, to positive numbers."""
    return np.concatenate([indptr[:1], [2**62 + 1, -(2**62)], indptr[3:]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": lambda x: x * 0.9}, "does not hold a distribution"),
        ({"successors": lambda x: x + 100}, "successors of transitions are from"),
        ({"successors": lambda x: x[::-1].copy()}, "not in increasing order"),
        ({"R_error": lambda x: x - 1}, "rounding error is negative"),
        ({"R": lambda x: x[:-1]}, "the array 'R' is"),
        ({"indptr": lambda x: x[::-1].copy()}, "indptr"),
        ({"indptr": wrapping}, "does not give each pair one or more transitions"),
        ({"start": lambda x: x * 2}, "start"),
    ],
)
def test_file_with_a_right_checksum_and_wrong_arrays_is_reported(change, message, tmp_path):
    path = tmp_path / "task"
    random_task(0).save(path)
    header, arrays = archive.read(path, "task")
    changed = {name: edit(arrays[name]) for name, edit in change.items()}
    archive.write(path, "task", archive.Content(header, {**arrays, **changed}))
    with pytest.raises(hl.errors.InvalidFile, match=message):
        hl.TabularMDP.load(path)


def test_file_whose_mean_rewards_are_not_those_of_its_transitions_is_reported(tmp_path):
    path, T = tmp_path / "task", np.full((2, 1, 2), 0.5)
    R = np.arange(4.0).reshape(2, 1, 2)
    hl.TabularMDP(R, T, gamma=0.5, reward_range=(0, 3)).save(path)
    header, arrays = archive.read(path, "task")
    forged = {**arrays, "R": np.array([9.0, 1.0])}
    archive.write(path, "task", archive.Content(header, forged))
    with pytest.raises(
        hl.errors.InvalidFile, match="mean rewards are not those of the transitions"
    ):
        hl.TabularMDP.load(path)


def test_npz_file_of_others_is_read_from_dense_or_sparse_arrays(tmp_path):
    m = random_task(0)
    T = m.T
    dense = hl.TabularMDP(m.R, T, gamma=0.9, start=2)
    np.savez(tmp_path / "dense.npz", R=m.R, T=T.toarray().reshape(7, 3, 7), gamma=0.9, start=2)
    np.savez_compressed(
        tmp_path / "sparse.npz", R=m.R, T_data=T.data, T_indices=T.indices, T_indptr=T.indptr
    )
    one = hl.TabularMDP.from_npz(tmp_path / "dense.npz")
    other = hl.TabularMDP.from_npz(tmp_path / "sparse.npz", gamma=0.9, start=2)
    for again in (one, other):
        assert abs(again.T - dense.T).max() < 1e-15
        assert np.array_equal(again.R, dense.R)
        assert np.array_equal(again.start, dense.start)


def test_npz_file_is_never_unpickled(tmp_path):
    path = tmp_path / "task.npz"
    np.savez(path, R=np.array([[None]], dtype=object), T=np.ones((1, 1, 1)))
    with pytest.raises(hl.errors.InvalidFile, match=r"cannot be read as an \.npz file"):
        hl.TabularMDP.from_npz(path, gamma=0.9)
    np.savez(path, R=np.ones((1, 1)))
    with pytest.raises(hl.errors.InvalidFile, match="has the arrays R: expected R and T"):
        hl.TabularMDP.from_npz(path, gamma=0.9)
    np.savez(path, R=np.ones((1, 1)), T=np.ones((1, 1, 1)))
    with pytest.raises(hl.errors.InvalidArgument, match="gamma is not in the file"):
        hl.TabularMDP.from_npz(path)


def learned_exactly(m, pairs):
    """Return a model that knows some pairs of a deterministic task."""
    model = hl.LearnedModel(m.n_states, m.n_actions, n_known=1)
    env = m.to_gymnasium().unwrapped
    for k in pairs:
        s, a = divmod(int(k), m.n_actions)
        ((_, s_next, r, terminated),) = env.P[s][a]
        model.observe(s, a, r, s_next, terminated=terminated)
    return model


def deterministic(seed, reward_range=(0.0, 1.0)):
    return hl.garnet(
        7, 3, branching=1, gamma=0.9, terminating=0.3, reward_range=reward_range, seed=seed
    )


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-2.0, 1.0), (-2.0, -0.5), (0.2, 1.0)])
@pytest.mark.parametrize("seed", seeds(10))
def test_values_of_a_learned_model_enclose_the_optimal_ones(seed, reward_range):
    m = deterministic(seed, reward_range)
    rng = np.random.default_rng(seed)
    model = learned_exactly(m, rng.permutation(21)[:14])
    exact = hl.solve(m)
    high, low = (
        hl.solve(model.to_mdp(gamma=0.9, unknown=unknown, reward_range=reward_range))
        for unknown in ("optimistic", "pessimistic")
    )
    assert (low.Q - low.error <= exact.Q + exact.error).all()
    assert (high.Q + high.error >= exact.Q - exact.error).all()
    known = model.known.ravel()
    assert (high.Q.ravel()[~known] == high.Q.max()).all()


@pytest.mark.parametrize("seed", range(5))
def test_optimistic_model_of_an_agent_has_the_values_of_rmax(seed):
    m = random_task(seed)
    agent = hl.RMax(n_states=7, n_actions=3, gamma=0.9, n_known=4, seed=seed)
    hl.learn(agent, m, episodes=20, max_steps=10, seed=seed)
    options = {"gamma": 0.9, "unknown": "optimistic"}
    optimistic = hl.solve(agent.model.to_mdp(**options))
    assert optimistic.Q == pytest.approx(agent.Q, abs=1e-5)
    (source,) = agent.memory.sources
    assert np.array_equal(hl.solve(source.to_mdp(**options)).Q, optimistic.Q)


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-2.0, 1.0), (-2.0, -0.5), (0.2, 1.0)])
@pytest.mark.parametrize("n_known", [0, 5, 14, 21])
@pytest.mark.parametrize("seed", range(5))
def test_model_without_unknown_actions_has_the_best_policy_among_known_ones(
    seed, n_known, reward_range
):
    m = deterministic(seed, reward_range)
    model = learned_exactly(m, np.random.default_rng(seed).permutation(21)[:n_known])
    exact = hl.solve(m)
    absent, low = (
        model.to_mdp(gamma=0.9, unknown=unknown, reward_range=reward_range)
        for unknown in ("absent", "pessimistic")
    )
    known_states = model.known.any(axis=1)
    assert np.array_equal(absent.available[known_states], model.known[known_states])
    assert absent.available[~known_states].all()
    sol, pessimistic = hl.solve(absent), hl.solve(low)
    assert model.known[known_states, sol.policy[known_states]].all()
    assert (sol.V <= exact.V + sol.error + exact.error).all()
    assert np.abs(sol.V - pessimistic.V).max() <= sol.error + pessimistic.error


def test_saved_task_is_an_npz_file_that_is_read_as_one(tmp_path):
    taxi = hl.TabularMDP.from_gymnasium(gym.make("Taxi-v4"), gamma=0.9, masks=True)
    path = tmp_path / "taxi.npz"
    taxi.save(path)
    with np.load(path, allow_pickle=False) as file:
        assert np.array_equal(file["p"], taxi.transitions.p)
    same, other = hl.TabularMDP.from_npz(path), hl.TabularMDP.from_npz(path, gamma=0.5, start=3)
    assert_same_task(same, taxi)
    assert np.array_equal(same.available, taxi.available)
    assert same.action_names == other.action_names == taxi.action_names
    assert (other.gamma, other.start.argmax()) == (0.5, 3)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(hl.errors.InvalidFile):
        hl.TabularMDP.from_npz(path)


def test_unknown_choice_for_unknown_pairs_is_reported():
    model = hl.LearnedModel(2, 2, n_known=1)
    with pytest.raises(hl.errors.InvalidArgument, match="unknown is 'none': expected one of optim"):
        model.to_mdp(gamma=0.9, unknown="none")


@pytest.mark.parametrize("seed", range(5))
def test_learned_nearness_of_fully_known_tasks_is_the_exact_one(seed):
    tasks = [deterministic(seed + 100 * i) for i in range(3)]
    models = [learned_exactly(m, range(21)) for m in tasks]
    near, exact = hl.learned_nearness(models), hl.family_nearness(tasks)
    assert near.rewards == pytest.approx(exact.rewards)
    assert near.transitions == pytest.approx(exact.transitions)


def test_learned_nearness_allows_everything_where_a_pair_is_unknown():
    m, m_bar = deterministic(0), deterministic(1)
    one, other = learned_exactly(m, range(14)), learned_exactly(m_bar, range(7, 21))
    near = hl.learned_nearness([one, other], reward_range=(-1.0, 1.0))
    both = (one.known & other.known).ravel()
    assert both.sum() == 7
    assert (near.rewards.ravel()[~both] == 2.0).all()
    assert (near.transitions.ravel()[~both] == 1.0).all()
    exact = hl.family_nearness([m, m_bar])
    assert near.rewards.ravel()[both] == pytest.approx(exact.rewards.ravel()[both])


def test_learned_nearness_takes_sources_and_adds_their_accuracy():
    models = [learned_exactly(deterministic(seed), range(21)) for seed in (0, 1)]
    sources = [hl.bounds.Source.of(model, np.full(21, 10.0)) for model in models]
    near, wide = hl.learned_nearness(sources), hl.learned_nearness(sources, epsilon=0.01)
    assert wide.rewards == pytest.approx(np.minimum(near.rewards + 0.02, 1.0))
    assert wide.transitions == pytest.approx(np.minimum(near.transitions + 0.01, 1.0))
    memory = hl.TaskMemory(models[0].n_states, models[0].n_actions)
    for source in sources:
        memory.add(source)
    assert np.array_equal(hl.learned_nearness(memory).rewards, near.rewards)


def test_models_that_cannot_be_compared_are_reported():
    model = hl.LearnedModel(2, 2, n_known=1)
    with pytest.raises(hl.errors.InvalidArgument, match="models has 1 entry: give two or more"):
        hl.learned_nearness([model])
    with pytest.raises(hl.errors.InvalidArgument, match=r"models\[1\] is 3"):
        hl.learned_nearness([model, 3])
    with pytest.raises(hl.errors.IncompatibleTasks, match="compare tasks of the same size"):
        hl.learned_nearness([model, hl.LearnedModel(3, 2, n_known=1)])


def test_reward_range_of_an_npz_file_is_read_and_other_arrays_are_named(tmp_path):
    R, T = np.array([[-3.0], [2.0]]), np.eye(2)[:, None, :]
    np.savez(tmp_path / "m.npz", R=R, T=T, gamma=0.9, reward_range=(-6, 2))
    assert hl.TabularMDP.from_npz(tmp_path / "m.npz").reward_range == (-6.0, 2.0)
    np.savez(tmp_path / "wrong.npz", rewards=R, T=T, gamma=0.9)
    with pytest.raises(
        hl.errors.InvalidFile, match="has the arrays T, gamma, rewards: expected R and T"
    ):
        hl.TabularMDP.from_npz(tmp_path / "wrong.npz")


def test_learned_model_outside_the_reward_range_names_that_of_the_agent():
    agent = hl.RMax(n_states=2, n_actions=1, gamma=0.9, n_known=1, reward_range=(-4.0, 4.0), seed=0)
    m = hl.TabularMDP([[-3.0], [2.0]], np.eye(2)[:, None, :], gamma=0.9, reward_range=(-4.0, 4.0))
    hl.learn(agent, m, episodes=20, max_steps=3, seed=0)
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"s=0, a=0 is -3, .*agent.setting.reward_range"
    ):
        agent.model.to_mdp(gamma=0.9, unknown="optimistic")
    learned = agent.model.to_mdp(
        gamma=0.9, unknown="optimistic", reward_range=agent.setting.reward_range
    )
    assert learned.R[0, 0] == -3.0
