"""An agent that is saved and loaded at any moment continues like one that was not."""

import warnings

import gymnasium as gym
import numpy as np
import pytest

import heirloom as hl
from heirloom.errors import HeirloomError
from heirloom.storage import archive
from tests.agents.test_contract import FAMILY, MASKED, make, masked_task
from tests.agents.test_contract import algorithm as algorithm

NOT_SAVED = "BisimulationTransfer"  # it is given the models of all its tasks
LENGTH = {"episodes": 6, "max_steps": 15}


def load(agent, path):
    """Save an agent, and return the loaded one."""
    agent.save(path)
    return type(agent).load(path)


def state(agent):
    """Return what a user can read of an agent, as bytes and texts."""
    arrays = [agent.Q, agent.policy, agent.greedy]
    texts = [repr(agent), agent.n_episodes, agent.in_task]
    if isinstance(agent, hl.OptimisticAgent):
        model = agent.model
        arrays += [agent.U, agent.known, agent.decider, model.counts, model.own_counts, model.R]
        arrays += [model.mean_rewards, model.available, agent.task.starts, *model.outcomes]
        texts += [str(agent.explain()), agent.task.n_steps, agent.task.next_plan, agent.task.texts]
        texts += [(c.number, c.low, c.high, c.returns) for c in agent.task.candidates]
        arrays += [c.policy for c in agent.task.candidates]
        refutation = agent.refutation
        texts += [refutation.warned, refutation.n_widened, refutation.is_refuted]
    if hasattr(agent, "memory"):
        memory = agent.memory
        arrays += [memory.visits.counts, memory.visits.reward_sums]
        texts += [repr(memory), memory.uses, memory.n_candidates]
    texts += [agent._uniforms.unused.tobytes(), str(agent._uniforms.rng.bit_generator.state)]
    return [array.tobytes() for array in arrays], texts


def assert_twins(one, other):
    """Assert that two agents are equal in all bits that can be read."""
    for a, b in zip(state(one), state(other), strict=True):
        assert a == b


class Life:
    """Random moments of a life: single steps, compiled runs, ends, certificates and rollouts."""

    def __init__(self, seed, tasks, *, certified):
        self.rng, self.tasks, self.certified = np.random.default_rng(seed), tasks, certified
        self.n_begun = 0

    def moments(self):
        """Yield functions of an agent, each of which both twins call."""
        for i, m in enumerate(self.tasks):
            masked = m.transitions.available is not None
            by_steps = self.rng.random() < 0.5
            available = None if by_steps or not masked else m.available
            yield lambda agent, available=available: agent.begin_task(
                **({} if available is None else {"available": available})
            )
            for j in range(int(self.rng.integers(1, 6))):
                seed = 100 * i + j
                kind = self.rng.integers(4)
                if kind == 0 and (available is not None or not masked):
                    yield lambda agent, m=m, seed=seed: run(agent, m, seed)
                elif kind == 1 and self.certified:
                    name = str(self.rng.choice(list(ASKED)))
                    yield lambda agent, name=name: certificate(agent, name)
                elif kind == 2 and self.certified:
                    yield lambda agent, m=m, seed=seed, masked=masked: hl.certify(
                        agent, m.to_gymnasium(), episodes=2, max_steps=5, seed=seed, masks=masked
                    )
                else:
                    yield from self.steps(m, seed, masked)
            if self.rng.random() < 0.2:
                yield lambda agent: agent.drop_task()
            else:
                yield lambda agent, i=i: end(agent, i)
                if self.certified and self.rng.random() < 0.5:
                    yield lambda agent, m=m, i=i, masked=masked: hl.certify(
                        agent, m.to_gymnasium(), episodes=2, max_steps=5, seed=i, masks=masked
                    )
                    name = str(self.rng.choice(list(ASKED)))
                    yield lambda agent, name=name: certificate(agent, name)

    def steps(self, m, seed, masked):
        """Yield single steps in the environment of a task, which are cut in an episode."""
        envs = {}

        def reset(agent):
            env = envs[id(agent.key)] = m.to_gymnasium()
            agent.key.s, agent.key.info = env.reset(seed=seed)
            if hasattr(agent, "begin_episode"):
                agent.begin_episode()

        def step(agent):
            env, key = envs[id(agent.key)], agent.key
            if masked:
                agent.observe_mask(key.s, key.info["action_mask"])
            a = agent.act(key.s)
            s_next, r, ended, _, key.info = env.step(a)
            agent.observe(key.s, a, float(r), int(s_next), terminated=bool(ended))
            key.s = int(s_next)
            if ended:
                key.s, key.info = env.reset()

        yield reset
        for _ in range(int(self.rng.integers(1, 8))):
            yield step


class Key:
    """Where a twin is in its environment; it is not a part of the agent."""


def run(agent, m, seed):
    """Run episodes of the current task in compiled code, as `learn` does."""
    from heirloom.learning.episodes import run_episodes
    from heirloom.learning.plan import Plan

    return run_episodes(agent, m, Plan.checked(agent, m, **LENGTH, seed=seed)).returns.tobytes()


ASKED = {
    "start": lambda shape: {"start": 0},
    "no start": lambda shape: {"delta": 0.1},
    "numbers": lambda shape: {"nearness": hl.Nearness(rewards=0.9, transitions=0.9)},
    "arrays": lambda shape: {
        "nearness": hl.Nearness(rewards=np.full(shape, 0.5), transitions=0.0),
        "start": 0,
    },
    "successors": lambda shape: {"successors": np.ones((*shape, shape[0]), dtype=bool)},
    "rewards": lambda shape: {
        "rewards": np.full(shape, 0.5),
        "start": [1.0] + [0.0] * (shape[0] - 1),
    },
    "per transition": lambda shape: {
        "rewards": "per transition",
        "terminates": np.ones(shape, bool),
    },
}
"""What a certificate is asked for, by the numbers of states and actions."""


def certificate(agent, name="start"):
    found = agent.certificate(**ASKED[name]((agent.n_states, agent.n_actions)))
    return found.lower, found.optimum_at_most, found.Q_upper.tobytes(), found.Q_lower.tobytes()


def end(agent, i):
    texts = {"label": f"week {i}"} if hasattr(agent, "memory") else {}
    agent.end_task(**texts)


def live(agent, twin, life, path, *, share):
    """Let twins live the same life, of which `twin` is saved and loaded now and then."""
    agent.key, twin.key = Key(), Key()
    n_loaded = 0
    for moment in life.moments():
        if life.rng.random() < share:
            key, twin = twin.key, load(twin, path)
            twin.key, n_loaded = key, n_loaded + 1
            if life.rng.random() < 0.5 and (agent.in_task or life.n_begun):
                assert_twins(agent, twin)
        life.n_begun = 1
        results = []
        for one in (agent, twin):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    results.append(moment(one))
                except HeirloomError as error:
                    results.append(str(error))
        assert str(results[0]) == str(results[1])
    assert n_loaded > 0
    twin = load(twin, path)
    assert_twins(agent, twin)


@pytest.mark.parametrize("family", [FAMILY, MASKED], ids=["prices", "masked"])
@pytest.mark.parametrize("seed", range(3))
def test_agent_that_is_saved_at_random_moments_lives_on_with_the_same_bits(
    algorithm, family, seed, tmp_path
):
    if algorithm == NOT_SAVED:
        pytest.skip("its file would need the models of all its tasks")
    (agent, tasks), (twin, _) = (make(algorithm, seed, family=family) for _ in range(2))
    certified = isinstance(agent, hl.OptimisticAgent)
    live(agent, twin, Life(seed, tasks, certified=certified), tmp_path / "a", share=0.2)


class Killed(Exception):
    """The process was killed."""


def kill(after):
    """Return a callback that ends `learn` after the checkpoint of an episode."""

    def callback(done, episodes):
        if done >= after:
            raise Killed

    return callback


@pytest.mark.parametrize(
    ("by_steps", "at"), [(False, [3, 9, 15]), (True, [20, 6, 20])], ids=["compiled", "by steps"]
)
def test_killed_task_that_is_continued_learns_what_it_would_have_learned(
    algorithm, by_steps, at, tmp_path
):
    """Also if it is killed after its last episode, before it has ended."""
    if algorithm == NOT_SAVED:
        pytest.skip("its file would need the models of all its tasks")
    (agent, tasks), (twin, _) = (make(algorithm) for _ in range(2))
    path, length = tmp_path / "a", {"max_steps": 15, "every": 3, "checkpoint": tmp_path / "a"}
    for i, m in enumerate(tasks):
        env = m.to_gymnasium() if by_steps else m
        whole = hl.learn(agent, env, episodes=20, seed=i, **length)
        with pytest.raises(Killed):
            hl.learn(twin, env, episodes=20, seed=i, callback=kill(at[i]), **length)
        kind, again = type(twin), m.to_gymnasium() if by_steps else m
        twin = kind.load(path)
        assert twin.n_episodes == min(at[i], 18)
        done, rest = twin.n_episodes, {"resume": twin.in_task}
        record = hl.learn(twin, again, episodes=20 - done, seed=i, **rest, **length)
        assert np.array_equal(record.returns, whole.returns[done:])
        agent.save(tmp_path / "whole")
        assert path.read_bytes() == (tmp_path / "whole").read_bytes()
        assert_twins(agent, twin)


def test_killed_search_for_a_certificate_is_continued(tmp_path):
    m = masked_task(0)
    options = {"n_states": 4, "n_actions": 3, "gamma": 0.9, "seed": 0, "start": 0}
    length = {"until": 0.3, "max_steps": 30, "seed": 5, "every": 50}
    agent, twin = (hl.CertifiedRMax(rewards="per transition", **options) for _ in range(2))
    whole = hl.learn(agent, m, episodes=400, checkpoint=tmp_path / "a", **length)
    saved = {"checkpoint": tmp_path / "b", **length}
    with pytest.raises(Killed):
        hl.learn(twin, m, episodes=400, callback=kill(kill_at := 200), **saved)
    twin = hl.CertifiedRMax.load(tmp_path / "b")
    assert twin.n_episodes >= kill_at
    record = hl.learn(twin, m, episodes=400 - twin.n_episodes, resume=True, **saved)
    assert repr(record.certificate) == repr(whole.certificate)
    assert_twins(agent, twin)


FALSE = hl.Nearness(rewards=0.01, transitions=0.01)
WITH_FALSE_KNOWLEDGE = {
    "NearRMax": lambda **options: hl.NearRMax(nearness=FALSE, **options),
    "exact": lambda **options: hl.NearRMax(nearness=FALSE, exact=True, **options),
    "frozen": lambda **options: hl.NearRMax(nearness=FALSE, refresh=None, exact=True, **options),
    "LRMax": lambda **options: hl.LRMax(d_max=0.01, exact=True, **options),
    "LRMaxQInit": lambda **options: hl.LRMaxQInit(d_max=0.01, p_min=0.2, exact=True, **options),
    "UCBVI": lambda **options: hl.UCBVI(nearness=FALSE, **options),
    "CertifiedRMax": lambda **options: hl.CertifiedRMax(nearness=FALSE, **options),
    "floor": lambda **options: hl.CertifiedRMax(nearness=FALSE, floor=0.5, **options),
    "NearPSRL": lambda **options: hl.NearPSRL(nearness=FALSE, **options),
    "explores": lambda **options: hl.NearRMax(nearness=FALSE, explore=0.3, **options),
}


@pytest.mark.parametrize("reaction", ["warn", "raise", "widen"])
@pytest.mark.parametrize("name", WITH_FALSE_KNOWLEDGE)
@pytest.mark.parametrize("seed", range(2))
def test_agent_whose_knowledge_is_refuted_lives_on_with_the_same_bits(
    name, reaction, seed, tmp_path
):
    tasks = [masked_task(i) for i in range(4)]
    options = {"n_states": 4, "n_actions": 3, "gamma": 0.9, "on_refutation": reaction}
    agent, twin = (WITH_FALSE_KNOWLEDGE[name](seed=seed, **options) for _ in range(2))
    live(agent, twin, Life(seed, tasks, certified=True), tmp_path / "a", share=0.2)


WIDE = hl.Nearness(rewards=0.9, transitions=0.9)
WITH_OPTIONS = {
    "explore": lambda **options: hl.RMax(explore=0.4, **options),
    "pool": lambda **options: hl.RMax(pool=5, refresh=None, n_known=6, **options),
    "UCBVI": lambda **options: hl.UCBVI(bonus="hoeffding", nearness=WIDE, **options),
    "PSRL": lambda **options: hl.PSRL(pool=10, explore=0.2, **options),
    "learned prior": lambda **options: hl.LRMax(p_min=0.9, delta=0.5, **options),
    "learned": lambda **options: hl.NearRMax(p_min=0.9, delta=0.5, **options),
    "confidence": lambda **options: hl.NearRMax(nearness=WIDE, confidence=0.9, **options),
    "envelope": lambda **options: hl.OptimisticAgent(
        bounds=[hl.Envelope(alpha=0.9, first=1), hl.NearModels(WIDE)], n_known=2, **options
    ),
    "declared": lambda **options: hl.CertifiedRMax(
        rewards="per transition", start=0, floor=0.2, **options
    ),
}


@pytest.mark.parametrize("name", WITH_OPTIONS)
@pytest.mark.parametrize("seed", [2, 3])
def test_agent_with_other_options_lives_on_with_the_same_bits(name, seed, tmp_path):
    tasks = [masked_task(10 * seed + i) for i in range(4)]
    options = {"n_states": 4, "n_actions": 3, "gamma": 0.9, "seed": seed}
    agent, twin = (WITH_OPTIONS[name](**options) for _ in range(2))
    live(agent, twin, Life(seed, tasks, certified=True), tmp_path / "a", share=0.25)


@pytest.mark.parametrize("capacity", [1, 2])
def test_agent_with_a_small_memory_and_noisy_rewards_lives_on_with_the_same_bits(
    capacity, tmp_path
):
    rng = np.random.default_rng(0)
    path, twins = tmp_path / "a", []
    for _ in range(2):
        memory = hl.TaskMemory(3, 2, capacity=capacity, keep="most_used")
        options = {"n_states": 3, "n_actions": 2, "gamma": 0.9, "memory": memory, "seed": 0}
        twins.append(hl.LRMaxQInit(p_min=0.4, delta=0.4, **options))
    for _ in range(5):
        for agent in twins:
            agent.begin_task()
        for _ in range(30):
            a = [agent.act(0) for agent in twins]
            assert a[0] == a[1]
            r, s = float(rng.choice([0.0, 0.3, rng.random()])), int(rng.integers(3))
            for agent in twins:
                agent.observe(0, a[0], r, s, terminated=bool(r > 0.9))
            if rng.random() < 0.1:
                twins[1] = load(twins[1], path)
        assert_twins(*twins)
        for agent in twins:
            agent.end_task()
        if rng.random() < 0.5:
            twins[1] = load(twins[1], path)
    assert_twins(*twins)


def test_missing_folder_of_checkpoints_is_noticed_before_the_task_begins(tmp_path):
    agent = hl.RMax(n_states=4, n_actions=3, gamma=0.9, seed=0)
    for path, message in ((tmp_path / "no" / "a", "its folder does not exist"), (5, "path is 5")):
        with pytest.raises(hl.errors.CannotWrite, match=message):
            hl.learn(agent, masked_task(0), episodes=5, max_steps=9, checkpoint=path)
        assert not agent.in_task


class Fails(Exception):
    """An environment failed."""


@pytest.mark.parametrize("compiled", [True, False])
def test_task_that_was_interrupted_within_an_episode_is_resumed_after_load(compiled, tmp_path):
    """An error in the environment, or in a callback of an update, leaves an episode unfinished."""
    m, results = masked_task(1), []
    for loads in (False, True):
        agent = hl.NearRMax(nearness=FALSE, n_states=4, n_actions=3, gamma=0.9, seed=0)
        hl.learn(agent, masked_task(0), episodes=5, max_steps=9, seed=0)
        agent.begin_task(available=m.available)
        env = m.to_gymnasium()
        s, _ = env.reset(seed=3)
        for _ in range(40):
            a = agent.act(s)
            s_next, r, ended, _, _ = env.step(a)
            agent.observe(s, a, float(r), int(s_next), terminated=bool(ended))
            s = int(s_next) if not ended else env.reset()[0]
        if loads:
            agent = load(agent, tmp_path / "a")
        other = m if compiled else m.to_gymnasium()
        hl.learn(agent, other, episodes=5, max_steps=9, seed=4, resume=True, masks=not compiled)
        results.append(agent)
    assert_twins(*results)


@pytest.mark.parametrize("kind", [hl.RMax, lambda **o: hl.NearRMax(nearness=WIDE, **o)])
def test_last_task_can_be_read_and_certified_after_load(kind, tmp_path):
    m = masked_task(0)
    agent = kind(n_states=4, n_actions=3, gamma=0.9, seed=0)
    hl.learn(agent, m, episodes=20, max_steps=9, seed=0, label="Lyon")
    before = str(agent.certificate(start=0))
    first = load(agent, tmp_path / "a").certificate(start=0)  # nothing else was read before
    again = agent.certificate(start=0)
    assert (first.lower, first.optimum_at_most) == (again.lower, again.optimum_at_most)
    loaded = load(agent, tmp_path / "a")
    assert loaded._task is None  # nothing is computed before it is asked for
    assert np.array_equal(loaded.Q, agent.Q)
    assert str(loaded.certificate(start=0)) == before
    assert str(hl.policy_table(loaded)) == str(hl.policy_table(agent))
    for one in (agent, loaded):
        hl.certify(one, m, episodes=3, max_steps=9, seed=1)
    assert_twins(agent, loaded)
    assert_twins(agent, load(loaded, tmp_path / "a"))


def test_memory_that_changed_since_the_task_is_the_one_that_is_loaded(tmp_path):
    """Another agent shares it, a task is labelled, or it is merged; the task stays what it was."""
    options = {"n_states": 4, "n_actions": 3, "gamma": 0.9, "seed": 0}
    agent = hl.NearRMax(nearness=FALSE, on_refutation="ignore", **options)
    other = hl.RMax(memory=agent.memory, **options)
    for i in range(2):
        hl.learn(agent, masked_task(i), episodes=5, max_steps=9, seed=i)
    agent.begin_task()
    agent.observe(0, 0, 0.5, 1, terminated=False)
    hl.learn(other, masked_task(3), episodes=5, max_steps=9, seed=3)
    agent.memory.label(1, "first")
    loaded = load(agent, tmp_path / "a")
    assert loaded.memory.n_tasks == 3
    assert loaded.memory.sources[0].label == "first"
    assert_twins(agent, loaded)
    agent.end_task()
    apart = hl.RMax(**options)
    hl.learn(apart, masked_task(4), episodes=5, max_steps=9, seed=4)
    agent.memory = agent.memory.merge(apart.memory)
    loaded = load(agent, tmp_path / "a")
    assert loaded.memory.n_tasks == agent.memory.n_tasks == 5
    assert np.array_equal(loaded.Q, agent.Q)


def test_file_of_an_agent_grows_by_the_steps_of_one_task_only(tmp_path):
    """The tasks before the last one are stored once, although the memory was smaller then."""
    agent = hl.RMax(n_states=4, n_actions=3, gamma=0.9, seed=0)
    for i in range(30):
        hl.learn(agent, masked_task(i), episodes=20, max_steps=9, seed=i)
    agent.save(tmp_path / "agent")
    arrays = archive.read(tmp_path / "agent", "agent").arrays
    of_task = [array.nbytes for name, array in arrays.items() if name.startswith("task/")]
    assert sum(of_task) < 0.2 * sum(array.nbytes for array in arrays.values())


def test_task_with_too_many_steps_is_continued_from_the_last_checkpoint_that_fitted(
    monkeypatch, tmp_path
):
    from heirloom.mdp import learned

    monkeypatch.setattr(learned, "MOST_LOGGED", 256)
    m, path = masked_task(0), tmp_path / "a"
    for env in (m, m.to_gymnasium()):
        agent, twin = (hl.RMax(n_states=4, n_actions=3, gamma=0.9, seed=0) for _ in range(2))
        length = {"max_steps": 9, "seed": 0, "masks": env is not m, "every": 10}
        length["checkpoint"] = path
        with pytest.warns(match="no checkpoint was written.*too many to be kept in a file"):
            hl.learn(twin, env, episodes=99, **length)
        with pytest.warns(match="no checkpoint"), pytest.raises(Killed):
            hl.learn(agent, env, episodes=99, callback=kill(90), **length)
        with pytest.raises(hl.errors.WrongOrder, match="too many to be kept in a file"):
            agent.save(path)
        agent = hl.RMax.load(path)
        assert 0 < agent.n_episodes < 90
        with pytest.warns(match="no checkpoint was written"):
            hl.learn(agent, env, episodes=99 - agent.n_episodes, resume=True, **length)
        assert_twins(agent, twin)
        loaded = load(twin, tmp_path / "b")
        assert repr(loaded.memory) == repr(twin.memory)
        with pytest.raises(hl.errors.WrongOrder, match="are not in files"):
            _ = loaded.Q


@pytest.mark.parametrize("name", ["QLearning", "PolicyReuse", "BUMEX", "NearRMax", "CertifiedRMax"])
def test_forged_task_in_a_file_is_refused_or_harmless(name, tmp_path):
    """Random changes of every array and header entry, under a valid seal."""
    agent, tasks = make(name, family=MASKED)
    for i, m in enumerate(tasks[:2]):
        hl.learn(agent, m, **LENGTH, seed=i)
    agent.begin_task()
    env = tasks[2].to_gymnasium()
    s, info = env.reset(seed=0)
    for _ in range(60):
        agent.observe_mask(s, info["action_mask"])
        a = agent.act(s)
        s_next, r, ended, _, info = env.step(a)
        agent.observe(s, a, float(r), int(s_next), terminated=bool(ended))
        s, info = env.reset() if ended else (int(s_next), info)
    if isinstance(agent, hl.OptimisticAgent):
        agent.certificate(start=0)
        hl.certify(agent, env, episodes=2, max_steps=5, masks=True, seed=0)
    path, rng = tmp_path / "a", np.random.default_rng(0)
    agent.save(path)
    kind = "agent" if isinstance(agent, hl.OptimisticAgent) else "table"
    header, arrays = archive.read(path, kind)
    ours = [n for n in arrays if n.startswith(("task/", "table/"))]
    refused = 0
    for _ in range(150):
        name = str(rng.choice(ours))
        forged = arrays[name].copy()
        junk = rng.choice([-1, 0, 1, 2, 7, 100, 2**31 - 1, -(2**31)])
        how = rng.integers(4)
        if how == 0 or forged.size == 0:
            forged = np.resize(forged, (forged.size + 1, *forged.shape[1:]))
        elif how == 1:
            forged = forged[:-1]
        elif forged.dtype == np.bool_:
            forged.reshape(-1)[rng.integers(forged.size)] ^= True
        else:
            with np.errstate(all="ignore"):
                forged.reshape(-1)[rng.integers(forged.size)] = junk.astype(forged.dtype)
        archive.write(path, kind, archive.Content(header, {**arrays, name: forged}))
        try:
            loaded = type(agent).load(path)
        except hl.errors.InvalidFile:
            refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                state(loaded)
                hl.learn(loaded, tasks[2].to_gymnasium(), **LENGTH, seed=0, resume=True, masks=True)
            except HeirloomError:
                pass
    assert refused > 40
    if kind == "agent":
        for key in header["task"]:
            for junk in (None, -1, "x", [], [7], {"x": 1}):
                forged = {**header, "task": {**header["task"], key: junk}}
                archive.write(path, kind, archive.Content(forged, arrays))
                try:
                    loaded = type(agent).load(path)
                except hl.errors.InvalidFile:
                    continue
                assert junk in (None, [], {"x": 1}) or key == "texts"


class FailsAtReset(gym.Env):
    """An environment that cannot begin an episode."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        raise Fails


def test_steps_after_the_end_count_once_if_an_environment_fails_in_between(tmp_path):
    """A certificate with a nearness of 0 pools the visits of all tasks, these steps among them."""
    m, near = masked_task(0), hl.Nearness(rewards=0.0, transitions=0.0)
    options = {"n_states": 4, "n_actions": 3, "gamma": 0.9, "rewards": m.R}
    agent = hl.RMax(seed=0, **options)
    hl.learn(agent, m, episodes=5, max_steps=9, seed=0)
    for seed in range(2):
        with pytest.raises(Fails):
            hl.certify(agent, FailsAtReset(), episodes=1, max_steps=5, seed=seed)
        hl.certify(agent, m, episodes=3, max_steps=9, seed=seed, nearness=near)
    asked = {"start": 0, "nearness": near, "delta": 0.1}  # for the first time: it pools all visits
    before = agent.certificate(**asked)
    found = load(agent, tmp_path / "a").certificate(**asked)
    assert (found.lower, found.optimum_at_most) == (before.lower, before.optimum_at_most)


def test_certificate_with_an_equal_nearness_goes_on_after_load(tmp_path):
    agent = hl.RMax(n_states=4, n_actions=3, gamma=0.9, seed=0)
    hl.learn(agent, masked_task(1), episodes=5, max_steps=9, seed=1)
    agent.begin_task(available=masked_task(0).available)
    found = []
    for one in (agent, load(agent, tmp_path / "a")):
        for seed in range(3):
            run(one, masked_task(0), seed)
            given = hl.Nearness(rewards=0.5, transitions=0.5)
            found.append(one.certificate(start=0, nearness=given))
            one = load(one, tmp_path / "b") if one is not agent else one
    for here, there in zip(found[:3], found[3:], strict=True):
        assert (here.lower, here.optimum_at_most) == (there.lower, there.optimum_at_most)
        assert here.Q_upper.tobytes() == there.Q_upper.tobytes()
