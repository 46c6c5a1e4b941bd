"""Learning one task: drawing steps, counting them, and keeping `Q` the fixed point that they imply.

    Q = U off K,    Q = min(U, R̂ + γ Σ T̂ V) on K,    V = max_a Q

`settle` goes down to it from the last solution, and stops when no pair would fall by more than
`slack`. A step that is drawn here and one that an environment makes leave the same bits: both end
in `record`, `make_known` and `settle`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

DONE, KNOWN, NO_UNIFORMS, NO_CHOICES, NO_ROOM = range(5)


class Model(NamedTuple):
    """What was learned of a task, over pairs k = s * A + a.

    A known pair has its row in `successors[first[k]:last[k]]` and `p`; the sink has `ends[k]`. What
    leads to a state is linked, from `into[s]` on by `next_into`; `owner` tells the pair of each. No
    row is longer than `widest`. The different outcomes of a pair that is not yet known, and how
    many `times` each was seen, are linked from `head[k]` on. `sizes` holds the numbers of
    transitions and of outcomes, and the first free outcome.
    """

    n_known: Any
    widest: Any
    counts: Any
    known: Any
    reward_sums: Any
    R: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any
    owner: Any
    next_into: Any
    into: Any
    outcomes: Any
    times: Any
    next_outcome: Any
    head: Any
    sizes: Any


class Values(NamedTuple):
    """Bounds, values, and what `settle` keeps: how far each pair may still fall, and its queue.

    Actions whose values are within `tie` of the largest are all greedy. The states whose V fell are
    the first `n_fallen[0]` of `fallen`, and marked in `has_fallen`, until someone forgets them.
    """

    gamma: Any
    tie: Any
    slack: Any
    U: Any
    Q: Any
    V: Any
    pending: Any
    queue: Any
    queued: Any
    decreased: Any
    n_decreased: Any
    is_decreased: Any


class Task(NamedTuple):
    """An exact task to draw from, each transition with its own reward and end.

    `start_sums` are the cumulated probabilities of `start_states`.
    """

    indptr: Any
    successors: Any
    p: Any
    rewards: Any
    ends: Any
    start_states: Any
    start_sums: Any


class Run(NamedTuple):
    """How far a run is, and what it has collected.

    `at` holds the episode, the step in it, the state (-1 before it starts), the steps of the task,
    and the uniform numbers used of `uniforms`, of `choices`.
    """

    at: Any
    discount: Any
    uniforms: Any
    choices: Any
    returns: Any
    discounted: Any
    update_steps: Any


EPISODE, STEP, STATE, STEPS, UNIFORM, CHOICE, UPDATES = range(7)
N_TRANSITIONS, N_OUTCOMES, FREE = range(3)
PLACES = 2**32  # more than there are places for outcomes


@njit(cache=True)
def has_room(sizes, outcomes, p, widest):
    """Whether one more outcome and one more row fit."""
    samples = sizes[FREE] >= 0 or sizes[N_OUTCOMES] < outcomes.size
    return samples and sizes[N_TRANSITIONS] + widest <= p.size


@njit(cache=True)
def record(counts, reward_sums, outcomes, times, next_outcome, head, sizes, k, reward, outcome):
    """Count a visit of the pair k that is not known; `outcome` is the successor, or -1 for ⊥.

    Returns how many visits there were.
    """
    i = head[k]
    while i >= 0 and outcomes[i] != outcome:
        i = next_outcome[i]
    if i < 0:
        i = sizes[FREE]
        if i >= 0:
            sizes[FREE] = next_outcome[i]
        else:
            i = sizes[N_OUTCOMES]
            sizes[N_OUTCOMES] += 1
        outcomes[i] = outcome
        times[i] = 0
        next_outcome[i] = head[k]
        head[k] = i
    times[i] += 1
    reward_sums[k] += reward
    counts[k] += 1
    return counts[k]


@njit(cache=True)
def make_known(model, k):
    """Turn the outcomes of the pair k into its row, and free them."""
    n, different = model.counts[k], 0
    i = model.head[k]
    while i >= 0:
        different += 1
        i = model.next_outcome[i]
    seen = np.empty(different, dtype=np.int64)  # the outcome, then where it stands: in one number
    i = model.head[k]
    for v in range(different):
        seen[v] = (np.int64(model.outcomes[i]) + 1) * PLACES + i
        following = model.next_outcome[i]
        model.next_outcome[i] = model.sizes[FREE]
        model.sizes[FREE] = i
        i = following
    model.head[k] = -1
    seen.sort()
    j = model.sizes[N_TRANSITIONS]
    model.first[k] = j
    for v in range(different):
        outcome, share = seen[v] // PLACES - 1, model.times[seen[v] % PLACES] / n
        if outcome < 0:
            model.ends[k] = share
        else:
            model.successors[j] = outcome
            model.p[j] = share
            model.owner[j] = k
            model.next_into[j] = model.into[outcome]
            model.into[outcome] = j
            j += 1
    model.last[k] = j
    model.sizes[N_TRANSITIONS] = j
    model.R[k] = model.reward_sums[k] / n
    model.known[k] = True


@njit(cache=True)
def update_values(model, values, pairs):
    """`_settle`, of plain tuples too: numba looks into those in half the time."""
    return _update_values(Model(*model), Values(*values), pairs)


@njit(cache=True, error_model="numpy")
def _update_values(model, values, pairs):
    """Lower `Q` and `V` to the fixed point, starting from pairs whose bound or model changed.

    At the end no pair would fall by more than `slack`, so Q is above the fixed point by at most
    slack / (1-γ). Nothing ever rises. Returns the number of backups.
    """
    gamma, slack, U, Q, V = values.gamma, values.slack, values.U, values.Q, values.V
    pending, queue, queued = values.pending, values.queue, values.queued
    decreased, n_decreased, is_decreased = values.decreased, values.n_decreased, values.is_decreased
    known, R, first, last = model.known, model.R, model.first, model.last
    successors, p, owner = model.successors, model.p, model.owner
    into, next_into = model.into, model.next_into
    n_actions = Q.size // V.size
    begin, waiting, backups = 0, 0, 0
    for k in pairs:
        if not queued[k]:
            queued[k] = True
            end = begin + waiting
            queue[end if end < queue.size else end - queue.size] = k
            waiting += 1
    while waiting > 0:
        k = queue[begin]
        begin = begin + 1 if begin + 1 < queue.size else 0
        waiting -= 1
        queued[k] = False
        pending[k] = 0.0
        backups += 1
        value = U[k]
        if known[k]:
            expected = 0.0
            for j in range(first[k], last[k]):
                expected += p[j] * V[successors[j]]
            value = min(value, R[k] + gamma * expected)
        if value >= Q[k]:
            continue
        Q[k] = value
        s = k // n_actions
        best = Q[s * n_actions]
        for a in range(1, n_actions):
            best = max(best, Q[s * n_actions + a])
        fall = V[s] - best
        if fall <= 0.0:
            continue
        V[s] = best
        if not is_decreased[s]:
            is_decreased[s] = True
            decreased[n_decreased[0]] = s
            n_decreased[0] += 1
        j = into[s]
        while j >= 0:
            before = owner[j]
            pending[before] += gamma * p[j] * fall
            if pending[before] > slack and not queued[before]:
                queued[before] = True
                end = begin + waiting
                queue[end if end < queue.size else end - queue.size] = before
                waiting += 1
            j = next_into[j]
    return backups


@njit(cache=True)
def rollout(task, model, values, run, episodes, max_steps, pause):
    """`_rollout`, of plain tuples too: numba looks into those in half the time."""
    named = Task(*task), Model(*model), Values(*values), Run(*run)
    return _rollout(*named, episodes, max_steps, pause)


@njit(cache=True, error_model="numpy")
def _rollout(task, model, values, run, episodes, max_steps, pause):
    """Act greedily on `Q` until `episodes` are done, in steps drawn from `task`.

    Returns DONE, or why it stopped before: KNOWN if `pause` and a pair became known, which is
    returned too and from which `Q` is not yet settled; NO_UNIFORMS or NO_CHOICES if random numbers
    ran out; NO_ROOM if the model must grow. Calling again goes on where it stopped.
    """
    # Local names: each use of a field of a tuple would count a reference to its array.
    indptr, successors, p, rewards, ends = (
        task.indptr,
        task.successors,
        task.p,
        task.rewards,
        task.ends,
    )
    start_states, start_sums = task.start_states, task.start_sums
    known, Q, gamma, tie = model.known, values.Q, values.gamma, values.tie
    n_known, widest, room_p, sizes = model.n_known, model.widest, model.p, model.sizes
    counts, reward_sums, outcomes = model.counts, model.reward_sums, model.outcomes
    times, next_outcome, head = model.times, model.next_outcome, model.head
    at, discounts, uniforms, choices = run.at, run.discount, run.uniforms, run.choices
    returns, discounted, update_steps = run.returns, run.discounted, run.update_steps
    n_actions = Q.size // values.V.size
    episode, step, s, steps, uniform, choice, updates = at
    discount = discounts[0]
    room = has_room(sizes, outcomes, room_p, widest)
    changed = np.empty(1, dtype=np.int64)
    status, pair = DONE, -1
    while episode < episodes:
        if uniform == uniforms.size:
            status = NO_UNIFORMS
            break
        u = uniforms[uniform]
        if s < 0:
            s, step, discount = start_states[first_above(start_sums, u)], 0, 1.0
            uniform += 1
            continue
        if choice == choices.size:
            status = NO_CHOICES
            break
        if not room:
            status = NO_ROOM
            break
        k = s * n_actions
        best, second = Q[k], -np.inf
        for i in range(k + 1, (s + 1) * n_actions):
            q = Q[i]
            if q > best:
                best, second, k = q, best, i
            elif q > second:
                second = q
        if second >= best - tie:
            k = one_of_greedy(Q, s * n_actions, n_actions, best - tie, choices[choice])
            choice += 1
        j, last = indptr[k], indptr[k + 1] - 1
        total = p[j]
        while u >= total and j < last:
            j += 1
            total += p[j]
        uniform += 1
        reward, ended, s = rewards[j], ends[j], successors[j]
        outcome = -1 if ended else s
        returns[episode] += reward
        discounted[episode] += discount * reward
        discount *= gamma
        step += 1
        steps += 1
        if ended or step == max_steps:
            episode += 1
            s = -1
        if not known[k]:
            visits = record(
                counts,
                reward_sums,
                outcomes,
                times,
                next_outcome,
                head,
                sizes,
                k,
                reward,
                outcome,
            )
            became_known = visits >= n_known
            if became_known:
                make_known(model, k)
            room = has_room(sizes, outcomes, room_p, widest)
            if became_known:
                update_steps[updates] = steps
                updates += 1
                if pause:
                    status, pair = KNOWN, k
                    break
                changed[0] = k
                _update_values(model, values, changed)
    at[:] = episode, step, s, steps, uniform, choice, updates
    discounts[0] = discount
    return status, pair


@njit(cache=True)
def first_above(sums, u):
    """The first place of an entry above u in `sums`, which rise; the last if there is none."""
    low, high = 0, sums.size - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def one_of_greedy(Q, first, n_actions, enough, u):
    """One of the pairs first, ..., first + n_actions - 1 with Q >= enough, for u uniform in [0, 1).

    All of them are equally likely.
    """
    n_greedy = 0
    for k in range(first, first + n_actions):
        n_greedy += Q[k] >= enough
    left = int(u * n_greedy)
    for k in range(first, first + n_actions):
        if Q[k] >= enough:
            if left == 0:
                return k
            left -= 1
    return first
