"""Random lifetimes that use every bound, and what they compute, as bytes.

Tasks may lack actions; some end before a pair is known; the memory may be full. Knowledge may be
false, so that it is refuted. What a lifetime computes depends on nothing but its seed.
"""

import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np

import heirloom as hl
from heirloom import bounds
from heirloom.agents import uniforms
from heirloom.errors import HeirloomError, InvalidArgument
from heirloom.learning import episodes
from heirloom.mdp import learned
from heirloom.transfer import certified, program
from heirloom.transfer.lipschitz import solutions
from heirloom.transfer.memory_file import packed
from tests.strategies import RANGES, Shape, draw_available, draw_task, mixed, restricted


def lifetime(seed):
    """Return what a random lifetime computes, as a list of bytes, one per result."""
    rng = np.random.default_rng(seed)
    found = []
    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")  # knowledge that is refuted, hashes that overflow
        if rng.random() < 0.5:
            use_small_buffers(stack)
        try:
            for result in results_of(rng):
                found.append(as_bytes(result))
        except HeirloomError as error:  # such as a `p_min` that the tasks contradict
            found.append(repr(error).encode())
    return found


def use_small_buffers(stack):
    """Let calls of compiled code return soon: for random numbers, memory, or time for Ctrl-C."""
    for module, name, value in (
        (episodes, "BLOCK", 16),
        (uniforms, "BLOCK", 16),
        (learned, "INITIAL_CAPACITY", 4),
        (program, "PATIENCE", 1),
        (program, "PATIENCE_PER_PAIR", 1),
        (solutions, "PATIENCE", 1),
        (solutions, "PATIENCE_PER_PAIR", 1),
    ):
        stack.enter_context(mock.patch.object(module, name, value))


def results_of(rng):
    """Let agents learn random tasks one after the other; yield everything that they compute."""
    tasks = draw_tasks(rng)
    table_agent = draw_table_agent(rng, tasks)
    for i in rng.integers(len(tasks), size=4):
        length = {"episodes": int(rng.integers(1, 20)), "max_steps": int(rng.integers(1, 12))}
        yield hl.learn(table_agent, tasks[i], **length, seed=int(i))
        yield table_agent.Q
    agent = draw_agent(rng, tasks)
    for i in rng.integers(len(tasks), size=rng.integers(4, 8)):
        yield from learn_task(agent, tasks[i], rng)
    yield packed(agent.memory)
    yield str(hl.audit(agent.memory, exact=bool(rng.integers(2))))
    yield str(hl.audit(agent.memory, d_max=0.1 * span(tasks[0])))
    yield str(hl.audit(agent.memory, hl.Nearness(rewards=0.1, transitions=0.1)))
    yield str(hl.audit(agent.memory, p_min=0.4))
    if len(agent.memory.sources) > 1:
        near = hl.learned_nearness(agent.memory)
        yield near.rewards, near.transitions


def draw_tasks(rng):
    """Draw a few similar tasks, of which some may lack actions."""
    shape = Shape(
        n_states=int(rng.integers(1, 9)),
        n_actions=int(rng.integers(1, 4)),
        branching=1,
        gamma=float(rng.choice([0.0, 0.5, 0.9, 0.995], p=[0.1, 0.3, 0.4, 0.2])),
        terminating=float(rng.choice([0.0, 0.3])),
        reward_range=RANGES[rng.integers(len(RANGES))],
    )
    shape = shape._replace(branching=int(rng.integers(1, min(3, shape.n_states) + 1)))
    first, *others = (draw_task(rng, shape) for _ in range(rng.integers(2, 5)))
    weights = {"rewards": rng.choice([0.0, 0.1, 1.0]), "transitions": rng.choice([0.0, 0.1, 1.0])}
    tasks = [first, *(mixed(first, other, **weights) for other in others)]
    masked = rng.random()
    if masked < 0.3:  # all tasks lack the same actions
        available = draw_available(rng, first)
        return [restricted(m, available) for m in tasks]
    return [restricted(m, draw_available(rng, m)) if masked < 0.6 else m for m in tasks]


def draw_agent(rng, tasks):
    """Draw an agent with one of all combinations of bounds, and with other options."""
    m = tasks[0]
    memory = hl.TaskMemory(
        m.n_states,
        m.n_actions,
        capacity=rng.choice([None, 1, 2]),
        keep=str(rng.choice(["first", "latest", "most_used"])),
    )
    return hl.OptimisticAgent(
        bounds=draw_bounds(rng, tasks),
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=m.gamma,
        reward_range=m.reward_range,
        terminating=any(task.terminating for task in tasks) or bool(rng.integers(2)),
        n_known=int(rng.choice([1, 2, 3], p=[0.7, 0.2, 0.1])),
        refresh=(None, 1.2)[rng.integers(2)],
        epsilon=float(rng.choice([0.0, 0.05])),
        tol=float(rng.choice([1e-6, 1e-2])),
        explore=float(rng.choice([0.0, 0.2])),
        on_refutation=str(rng.choice(["ignore", "warn", "widen"])),
        exact=bool(rng.integers(2)),
        memory=memory,
        seed=int(rng.integers(2**31)),
    )


def draw_table_agent(rng, tasks):
    """Draw an agent on a table."""
    m = tasks[0]
    options = {
        **{"n_states": m.n_states, "n_actions": m.n_actions, "gamma": m.gamma},
        **{"reward_range": m.reward_range, "seed": int(rng.integers(2**31))},
    }
    kinds = [
        lambda: hl.QLearning(start=(None, "v_max", "mean")[rng.integers(3)], **options),
        lambda: hl.QUCB(bonus=(None, 0.5)[rng.integers(2)], **options),
        lambda: hl.DelayedQ(m=2, **options),
        lambda: hl.ShapedLifelong(**options),
        lambda: hl.PolicyReuse(**options),
        lambda: hl.BUMEX(nearness=hl.family_nearness(tasks), **options),
    ]
    return kinds[rng.integers(len(kinds))]()


def draw_bounds(rng, tasks):
    """Draw a bound of each kind, or none, in any order; a learned bound is used after 2 tasks."""
    m, size = tasks[0], span(tasks[0])
    near = hl.family_nearness(tasks)
    learned_after_2 = {"p_min": 0.5, "delta": 0.3}
    d_max = size * rng.choice([0.01, 0.1, 0.3])
    d_max_by_pair = d_max * rng.random((m.n_states, m.n_actions))
    kinds = [
        [
            lambda: hl.NearModels(near),
            lambda: hl.NearModels(hl.Nearness(rewards=near.rewards, transitions=near.transitions)),
            lambda: hl.NearModels(hl.Nearness(rewards=0.1 * size, transitions=0.1)),
            lambda: hl.NearModels(**learned_after_2),
        ],
        [
            lambda: hl.Lipschitz(),
            lambda: hl.Lipschitz(d_max=d_max),
            lambda: hl.Lipschitz(d_max=d_max_by_pair),
            lambda: hl.Lipschitz(**learned_after_2),
            lambda: hl.Lipschitz(d_max=d_max_by_pair, **learned_after_2),
        ],
        [lambda: hl.MaxQ(**learned_after_2)],
        [lambda: hl.Envelope(alpha=0.5, first=1, calibration=1)],
    ]
    chosen = [kind[rng.integers(len(kind))]() for kind in kinds if rng.random() < 0.7]
    has_claims = any(claim is not None for one in chosen for claim in one.claims())
    evidence = draw_evidence(*rng.spawn(1), borrows=not has_claims, near=near)
    return [*evidence, *(chosen[i] for i in rng.permutation(len(chosen)))]


def draw_evidence(rng, *, borrows, near):
    """Draw evidence from the visits of the task, and visits that it borrows, or none."""
    own = [
        lambda: bounds.Bonuses(kind="hoeffding"),
        lambda: bounds.Bonuses(kind="bernstein"),
        lambda: bounds.ConfidenceSets(sets="l1", scale=0.5),
        lambda: bounds.ConfidenceSets(sets="kl", scale=0.5),
        lambda: bounds.GrowingShare(m=4),
    ]
    borrowed = [
        lambda: bounds.PooledVisits(most=3),
        lambda: bounds.PooledVisits(most=np.inf),
        lambda: bounds.Groups(first=1, gap=0.1, evidence=0.1, separation=0.1, delta=0.1),
    ]
    if borrows and rng.random() < 0.1:
        return [bounds.CertifiedSets(near, floor=(None, 0.5)[rng.integers(2)])]
    if rng.random() < 0.2:
        possible = {"successors": near.successors, "terminates": near.terminates}
        sample = str(rng.choice(["episode", "visits"]))
        return [bounds.Posterior(sample=sample, **(possible if rng.random() < 0.5 else {}))]
    if borrows and rng.random() < 0.2:
        return [bounds.NearPosterior(near)]
    if borrows and rng.random() < 0.3:
        return [bounds.Templates(distance=0.3, m=3)]
    kinds = (own, borrowed) if borrows else (own,)
    return [kind[rng.integers(len(kind))]() for kind in kinds if rng.random() < 0.5]


def span(m):
    lo, hi = m.reward_range
    return hi - lo


def learn_task(agent, m, rng):
    """Learn a task in one of several ways; yield everything that the agent computes."""
    way, seed = rng.integers(5), int(rng.integers(2**31))
    length = {"episodes": int(rng.integers(1, 12)), "max_steps": int(rng.integers(1, 12))}
    masks = {"available": m.available} if rng.random() < 0.5 else {}
    if way == 0:  # nothing is known when the task ends
        agent.begin_task(**masks)
        yield from public_arrays(agent)
        agent.end_task()
    elif way == 1:  # masks are observed one after the other
        yield hl.learn(agent, m.to_gymnasium(), **length, seed=seed, masks=True)
    elif way == 2:
        agent.begin_task(**masks)
        yield from random_steps(agent, m, rng)
        agent.drop_task()
    elif way == 3:
        agent.begin_task(**masks)
        yield from random_steps(agent, m, rng)
        yield from reloaded(agent)
        yield hl.learn(agent, m, **length, seed=seed, resume=True)
    else:
        yield hl.learn(agent, m, **length, seed=seed)
    yield from public_arrays(agent)


def reloaded(agent):
    """Yield the values of the agent after it was saved within a task and loaded."""
    with TemporaryDirectory() as folder, suppress(InvalidArgument):  # distances of one's own
        agent.save(Path(folder) / "agent")
        twin = hl.OptimisticAgent.load(Path(folder) / "agent")
        yield twin.Q, twin.U, twin.known, twin.model.counts


def random_steps(agent, m, rng):
    """Let the agent observe some steps anywhere in the task; yield its values after updates."""
    for _ in range(rng.integers(1, 8)):
        s = int(rng.integers(m.n_states))
        agent.observe_mask(s, m.available[s])
        a = agent.act(s)
        t = m.transitions
        j = int(rng.choice(np.arange(*t.indptr[s * m.n_actions + a :][:2])))
        r = float(t.R[s * m.n_actions + a] if t.rewards is None else t.rewards[j])
        ends = t.ends is not None and bool(t.ends[j])
        if agent.observe(s, a, r, int(t.successors[j]), terminated=ends):
            yield agent.Q, agent.U


def public_arrays(agent):
    yield from (agent.Q, agent.U, agent.known, agent.greedy, agent.policy, agent.decider)
    model = agent.model
    yield from (model.rows, model.counts, model.R, model.ends, model.available, model.reached)
    yield str(agent.explain())
    yield from certificates(agent)
    for bound in agent.bounds:
        yield from (bound.U, bound.sources_used())
        for transfer in getattr(bound, "transfers", ()):
            yield transfer.U, transfer.prior_used()
            yield transfer.to_source.D, transfer.to_source.largest
            yield transfer.from_source.D, transfer.from_source.d, transfer.from_source.largest


def certificates(agent):
    """Yield certificates without and with knowledge, from a few backups: bounds hold after any."""
    setting = agent.setting
    lo, hi = setting.reward_range
    near = hl.Nearness(
        rewards=0.1 * (hi - lo),
        transitions=0.1,
        successors=np.ones((setting.n_states, setting.n_actions, setting.n_states), dtype=bool),
    )
    equal = hl.Nearness(rewards=hi - lo, transitions=0.0, successors=near.successors)
    prices = np.clip(agent.model.mean_rewards, lo, hi).reshape(setting.n_states, -1)
    with ExitStack() as stack:
        for name, value in (("MOST_WORK", 20.0), ("MOST_CALLS", 2), ("MOST_ROUNDS", 2)):
            stack.enter_context(mock.patch.object(certified, name, value))
        yield agent.certificate()
        yield agent.certificate(nearness=near, start=0)
        yield agent.certificate(nearness=equal, rewards=prices)


def as_bytes(result):
    """Return the bits of all arrays and numbers in a result."""
    if isinstance(result, np.ndarray):
        return np.ascontiguousarray(result).tobytes()
    if isinstance(result, dict):
        return b"".join(as_bytes(result[key]) for key in sorted(result))
    if isinstance(result, tuple | list):
        return b"".join(as_bytes(item) for item in result)
    if hasattr(result, "__dataclass_fields__"):
        return as_bytes([getattr(result, name) for name in result.__dataclass_fields__])
    return repr(result).encode()
