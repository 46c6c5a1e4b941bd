"""Learning on a table `Q` in compiled code: the choice of an action, one step, and whole episodes.

An agent that is called step by step and `rollout` call the same functions with the same random
numbers, so both give the same bits.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import inlined, njit
from heirloom.kernels.counting import Model, has_room, log_is_full, log_step
from heirloom.kernels.rollout import (
    DONE,
    NO_CHOICES,
    NO_ROOM,
    NO_UNIFORMS,
    Run,
    Task,
    _count_new,
    choose_greedy,
    drawn,
    first_above,
)

MEAN, UCB, DELAYED = range(3)
NOW, CHANGED, EPISODE = range(3)
GAIN, DISCOUNT, REUSE, POLICY, BEST, STEPS = range(6)
NUMBERS = 3  # random numbers that a step, or the beginning of an episode, may use
LOWEST = -np.finfo(np.float64).max  # the values of all available actions are above


class Table(NamedTuple):
    """A table `Q` over pairs k = s * A + a, and what the rule that updates it needs.

    `rule` is MEAN for a moving mean, UCB for one with a bonus, or DELAYED for means of `m` samples;
    `learn` has their formulas. With probability `explore` an action is
    random, in proportion to `weights` over pairs if there are any. A missing action has
    Q = -infinity. Arrays that a rule does not use are empty.

    `visits` counts the visits of each pair (DELAYED: its samples). `sums` and `learns` belong to
    UCB and DELAYED. `clock` holds the time step, that of the last change of `Q`, and the number of
    episodes begun. `last` is the time of the last attempt to update a pair (DELAYED), or the last
    episode in which it was visited.

    `shaping` is added to rewards, and `Q` of a visited pair stays from `lower` to `upper`.

    `episode` holds, in this order: the discounted return so far, the discount, the probability of
    following an earlier policy, the policy (0 for the own one, i for `policies[i - 1]`), the best
    return of all episodes that are over, and the number of steps. `gains` and `uses` hold the mean
    return of each policy, in multiples of `unit`, and how often it was chosen: with weight
    exp(τ gain), where τ is `heat` times the number of episodes that are over. The probability
    of following it is `reuse` at first, and falls by the factor `decay` at each step. `path` counts
    the visits of an episode (of `last[k]`), and `best_path` those of the best one.
    """

    rule: Any
    n_actions: Any
    gamma: Any
    explore: Any
    rate: Any
    horizon: Any
    bonus: Any
    log: Any
    m: Any
    unit: Any
    reuse: Any
    decay: Any
    heat: Any
    Q: Any
    sums: Any
    visits: Any
    last: Any
    learns: Any
    clock: Any
    shaping: Any
    lower: Any
    upper: Any
    weights: Any
    policies: Any
    gains: Any
    uses: Any
    episode: Any
    path: Any
    best_path: Any


@njit(cache=True)
def act(table, s, choices, at):
    """Call `choose` with a named tuple made from a plain one."""
    return choose(Table(*table), s, choices, at)


@njit(cache=True)
def observe(table, k, r, s_next, ended):
    """Call `learn` with a named tuple made from a plain one."""
    learn(Table(*table), k, r, s_next, ended)


@njit(cache=True)
def begin_episode(table, choices, at):
    """Call `begin` with a named tuple made from a plain one."""
    return begin(Table(*table), choices, at)


@inlined
def choose(table, s, choices, at):
    """Return the pair to try in state s, and how many random numbers were used, from `at` on."""
    Q, n_actions = table.Q, table.n_actions
    first, used = s * n_actions, 0
    if table.policies.size > 0 and table.episode[POLICY] > 0.0:
        k = first + table.policies[int(table.episode[POLICY]) - 1, s]
        used = 1
        if choices[at] < table.episode[REUSE] and Q[k] > -np.inf:
            return k, used
    u, v = choices[at + used], choices[at + used + 1]
    if u < table.explore:
        if table.weights.size > 0:
            return _weighted(table.weights, first, n_actions, v), used + 2
        return choose_greedy(Q, first, n_actions, LOWEST, v), used + 2
    k, n_best = first, 1
    for i in range(first + 1, first + n_actions):
        if Q[i] > Q[k]:
            k, n_best = i, 1
        elif Q[i] == Q[k]:
            n_best += 1
    if n_best == 1:
        return k, used + 1
    return choose_greedy(Q, first, n_actions, Q[k], v), used + 2


@inlined
def _weighted(weights, first, n_actions, u):
    """Return one of the pairs first, ..., first + n_actions - 1, in proportion to its weight."""
    total, chosen = 0.0, first
    for k in range(first, first + n_actions):
        total += weights[k]
    left = u * total
    for k in range(first, first + n_actions):
        if weights[k] > 0.0:
            chosen = k
            left -= weights[k]
            if left < 0.0:
                break
    return chosen


@inlined
def learn(table, k, r, s_next, ended):
    """Update `Q[k]` after a step with reward r to s_next, where x = r + γ max Q(s_next, .).

    MEAN       Q += α (x - Q), limited to [lower, upper]; α = rate, or α_n if that is 0
    UCB        sums += α_n (x + b - sums),  Q = min(Q, sums),
               b = bonus √(H ι / n),  ι = log + ln (n+1)(n+2), or 1 if log is negative
    DELAYED    after m samples: if Q - mean(x) >= 2 rate, Q = mean(x) + rate

    with n visits of the pair, H = horizon and α_n = (H+1) / (H+n).
    """
    Q, x = table.Q, r
    if table.shaping.size > 0:
        x += table.shaping[k]
    if not ended:
        highest = Q[s_next * table.n_actions]
        for i in range(s_next * table.n_actions + 1, (s_next + 1) * table.n_actions):
            highest = max(highest, Q[i])
        x += table.gamma * highest
    if table.rule == DELAYED:
        _learn_delayed(table, k, x)
    else:
        table.visits[k] += 1
        n, H = table.visits[k], table.horizon
        rate = (H + 1.0) / (H + n)
        if table.rule == UCB:
            log = 1.0 if table.log < 0.0 else table.log + np.log((n + 1.0) * (n + 2.0))
            x += table.bonus * np.sqrt(H * log / n)
            table.sums[k] += rate * (x - table.sums[k])
            Q[k] = min(Q[k], table.sums[k])
        else:
            Q[k] += (table.rate if table.rate > 0.0 else rate) * (x - Q[k])
            if table.lower.size > 0:
                Q[k] = min(max(Q[k], table.lower[k]), table.upper[k])
    if table.episode.size > 0:
        _follow_episode(table, k, r)


@inlined
def _learn_delayed(table, k, x):
    """Collect a sample of pair k, and attempt to update it with every m-th one.

    After a failed attempt the pair collects no more samples, unless `Q` changed at any pair since
    the attempt before.
    """
    clock, last = table.clock, table.last
    clock[NOW] += 1
    if not table.learns[k]:
        table.learns[k] = last[k] < clock[CHANGED]
        return
    table.visits[k] += 1
    table.sums[k] += x
    if table.visits[k] < table.m:
        return
    mean = table.sums[k] / table.m
    if table.Q[k] - mean >= 2.0 * table.rate:
        table.Q[k] = mean + table.rate
        clock[CHANGED] = clock[NOW]
    elif last[k] >= clock[CHANGED]:
        table.learns[k] = False
    last[k], table.visits[k], table.sums[k] = clock[NOW], 0, 0.0


@inlined
def _follow_episode(table, k, r):
    """Add a step to the return of the episode, and to its visits."""
    episode = table.episode
    episode[GAIN] += episode[DISCOUNT] * r
    episode[DISCOUNT] *= table.gamma
    episode[REUSE] *= table.decay
    episode[STEPS] += 1.0
    if table.path.size > 0:
        if table.last[k] != table.clock[EPISODE]:
            table.last[k], table.path[k] = table.clock[EPISODE], 0
        table.path[k] += 1


@inlined
def begin(table, choices, at):
    """End the last episode and begin the next one; return how many random numbers were used."""
    episode, gains = table.episode, table.gains
    if episode.size == 0:
        return 0
    if episode[STEPS] > 0.0:
        if gains.size > 0:
            i = int(episode[POLICY])
            table.uses[i] += 1
            gains[i] += (episode[GAIN] / table.unit - gains[i]) / table.uses[i]
        if table.path.size > 0 and episode[GAIN] > episode[BEST]:
            episode[BEST] = episode[GAIN]
            for k in range(table.path.size):
                visited = table.last[k] == table.clock[EPISODE]
                table.best_path[k] = table.path[k] if visited else 0
    episode[GAIN], episode[DISCOUNT], episode[REUSE], episode[STEPS] = 0.0, 1.0, table.reuse, 0.0
    table.clock[EPISODE] += 1
    if gains.size < 2:
        return 0
    tau, total, highest = table.heat * (table.clock[EPISODE] - 1), 0.0, gains[0]
    for i in range(gains.size):
        highest = max(highest, gains[i])
    for i in range(gains.size):
        total += np.exp(tau * (gains[i] - highest))
    left, i = choices[at] * total, -1
    while left >= 0.0 and i < gains.size - 1:
        i += 1
        left -= np.exp(tau * (gains[i] - highest))
    episode[POLICY] = i
    return 1


@njit(cache=True)
def rollout(task, table, model, run, episodes, max_steps):
    """Call `_rollout` with named tuples made from plain ones."""
    return _rollout(Task(*task), Table(*table), _named(model), Run(*run), episodes, max_steps)


@njit(cache=True)
def _named(model):
    """Return a named tuple for a plain one, or None for None, which compiles to less code."""
    if model is None:
        return None
    return Model(*model)


@njit(cache=True, error_model="numpy", _nrt=False)
def _rollout(task, table, model, run, episodes, max_steps):
    """Act and learn in steps drawn from `task` until `episodes` episodes are done.

    If there is a `model`, it counts the steps. Returns DONE, or the reason for stopping earlier:
    NO_UNIFORMS or NO_CHOICES if random numbers ran out, NO_ROOM if the model must grow. The next
    call resumes where this one stopped.
    """
    at, status = run.at, DONE
    episode, step, s, steps, uniform, choice, updates = at
    discount, room = run.discount[0], True
    if model is not None:
        room = has_room(model.sizes, model.outcomes, model.p, model.widest)
    while episode < episodes:
        if uniform == run.uniforms.size:
            status = NO_UNIFORMS
            break
        if choice + NUMBERS > run.choices.size:
            status = NO_CHOICES
            break
        if not room:
            status = NO_ROOM
            break
        if model is not None:
            if log_is_full(model):
                status = NO_ROOM
                break
        u = run.uniforms[uniform]
        uniform += 1
        if s < 0:
            s, step, discount = task.start_states[first_above(task.start_sums, u)], 0, 1.0
            run.starts[s] += 1
            choice += begin(table, run.choices, choice)
            continue
        k, used = choose(table, s, run.choices, choice)
        choice += used
        j = drawn(task.sums, task.indptr[k], task.indptr[k + 1] - 1, u)
        reward, ended, s = task.rewards[j], task.ends[j], task.successors[j]
        run.returns[episode] += reward
        run.discounted[episode] += discount * reward
        discount *= table.gamma
        step += 1
        steps += 1
        if model is not None:
            i = task.entries[j]
            if i < 0:
                i = _count_new(model, task.entries, k, j, -1 - s if ended else s, reward)
                room = has_room(model.sizes, model.outcomes, model.p, model.widest)
            log_step(model, i, reward)
            model.times[i] += 1
            model.counts[k] += 1
        learn(table, k, reward, s, ended)
        if ended or step == max_steps:
            episode += 1
            s = -1
    at[:] = episode, step, s, steps, uniform, choice, updates
    run.discount[0] = discount
    return status
