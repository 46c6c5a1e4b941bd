"""Learning one task in compiled code: draw steps, count them, and update the values.

Steps drawn by `rollout` and steps taken in an environment give bitwise identical results, because
both are counted in the same entries (`counting`), and processed by `counting.look` and
`solving.update`.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import inlined, njit
from heirloom.kernels.checking import Check, pair_contradicts
from heirloom.kernels.counting import (
    Model,
    add_excess,
    entry_of,
    has_room,
    log_is_full,
    log_start,
    log_step,
    look,
)
from heirloom.kernels.evidence import describe
from heirloom.kernels.solving import LENGTH, MAX_WORK, Values, named_near, update

(
    DONE,
    KNOWN,
    LOOKED,
    NO_UNIFORMS,
    NO_CHOICES,
    NO_ROOM,
    UNFINISHED,
    PAUSED,
    REFUTED,
    REFUTED_AGAIN,
    PLANNED,
) = range(11)
EPISODE, STEP, STATE, STEPS, UNIFORM, CHOICE, UPDATES = range(7)
SHORT = 8  # transitions that are searched one after the other


class Task(NamedTuple):
    """An exact task to draw from: `rewards` per transition, and `ends` marks terminal transitions.

    `sums` holds the cumulative probabilities of the transitions of each pair, and `start_sums`
    those of `start_states`. `entries` holds for each transition the entry of the model that counts
    it, or -1.
    """

    indptr: Any
    successors: Any
    sums: Any
    rewards: Any
    ends: Any
    start_states: Any
    start_sums: Any
    entries: Any


class Run(NamedTuple):
    """The progress of a run, its random numbers and its results.

    `at` holds, in this order: the episode, the step within it, the state (-1 before the episode
    starts), the number of steps, how many numbers of `uniforms` and of `choices` were
    used, and the number of updates. `starts` counts the first states of episodes.
    """

    at: Any
    discount: Any
    uniforms: Any
    choices: Any
    returns: Any
    discounted: Any
    update_steps: Any
    starts: Any


@njit(cache=True)
def cumulative(indptr, p, sums):
    """Write the cumulative sums of each row of p."""
    for k in range(indptr.size - 1):
        total = 0.0
        for j in range(indptr[k], indptr[k + 1]):
            total += p[j]
            sums[j] = total


@njit(cache=True)
def rollout(
    task, model, values, near, check, run, episodes, max_steps, explore, pause, pause_looks, plan_at
):
    """Call `_rollout` with named tuples made from plain ones."""
    named = Task(*task), Model(*model), Values(*values), named_near(near), _named_check(check)
    return _rollout(*named, Run(*run), episodes, max_steps, explore, pause, pause_looks, plan_at)


@njit(cache=True)
def _named_check(check):
    """Return a named tuple for a plain one, or None for None, which compiles to less code."""
    if check is None:
        return None
    return Check(*check)


@njit(cache=True, error_model="numpy", _nrt=False)
def _rollout(
    task, model, values, near, check, run, episodes, max_steps, explore, pause, pause_looks, plan_at
):
    """Act greedily on `Q` in steps drawn from `task`, until `episodes` episodes are done.

    With probability `explore`, a step takes the action that `explored` returns instead.

    Returns a status and a pair. The status is DONE, or the reason for stopping earlier: REFUTED if
    a pair became known and contradicts `check`, REFUTED_AGAIN if a known pair does so that was
    looked at again; KNOWN if `pause` and another pair became known, LOOKED if `pause_looks` and a
    known pair was looked at again (in these cases the pair is returned, and `Q` is not yet updated
    for it); NO_UNIFORMS or NO_CHOICES if random numbers ran out; NO_ROOM if the model must grow;
    UNFINISHED if an update of `Q` used up its budget, so that the caller must finish it; PAUSED if
    all updates of this call took long, so that Python can handle Ctrl-C; PLANNED after `plan_at`
    steps, so that new values are planned. The next call resumes where this one stopped.
    """
    at, Q = run.at, values.Q
    n_actions = Q.size // values.V.size
    episode, step, s, steps, uniform, choice, updates = at
    discount, status, pair, work = run.discount[0], DONE, -1, 0
    room = has_room(model.sizes, model.outcomes, model.p, model.widest)
    while episode < episodes:
        if uniform == run.uniforms.size:
            status = NO_UNIFORMS
            break
        u = run.uniforms[uniform]
        if log_is_full(model):
            status = NO_ROOM
            break
        if s < 0:
            s, step, discount = task.start_states[first_above(task.start_sums, u)], 0, 1.0
            run.starts[s] += 1
            log_start(model, s)
            uniform += 1
            continue
        if choice == run.choices.size:
            status = NO_CHOICES
            break
        if not room:
            status = NO_ROOM
            break
        k, used = choose(model, values, s * n_actions, n_actions, explore, run.choices[choice])
        choice += used
        uniform += 1
        j = drawn(task.sums, task.indptr[k], task.indptr[k + 1] - 1, u)
        reward, ended, s = task.rewards[j], task.ends[j], task.successors[j]
        run.returns[episode] += reward
        run.discounted[episode] += discount * reward
        discount *= values.gamma
        step += 1
        steps += 1
        i = task.entries[j]
        if i < 0:
            i = _count_new(model, task.entries, k, j, -1 - s if ended else s, reward)
            room = has_room(model.sizes, model.outcomes, model.p, model.widest)
        log_step(model, i, reward)
        model.times[i] += 1
        model.counts[k] += 1
        if ended or step == max_steps:
            episode += 1
            s = -1
        if model.counts[k] == model.next_look[k]:
            is_first = not model.known[k]
            look(model, k)
            if model.rule.size > 0:
                describe(model, values.V, k)
            room = has_room(model.sizes, model.outcomes, model.p, model.widest)
            if is_first:
                run.update_steps[updates] = steps
                updates += 1
            if check is not None:
                if pair_contradicts(model, check, k, model.counts[k]):
                    status, pair = REFUTED if is_first else REFUTED_AGAIN, k
                    break
            if pause if is_first else pause_looks:
                status, pair = KNOWN if is_first else LOOKED, k
                break
            work += update_pair(model, values, near, k)
            if values.queue_state[LENGTH] > 0:
                status = UNFINISHED
                break
            if work > MAX_WORK:
                status = PAUSED
                break
        if steps >= plan_at:
            status = PLANNED
            break
    at[:] = episode, step, s, steps, uniform, choice, updates
    run.discount[0] = discount
    return status, pair


@inlined
def update_pair(model, values, near, k):
    """Bring the values up to date after a look at pair k; return the work done."""
    values.changed[0] = k
    return update(model, values, near, values.changed, values.no_caps, values.budget)


@inlined
def _count_new(model, entries, k, j, outcome, reward):
    """Find or add the entry of an outcome of pair k, and assign it to transition j of the task.

    If another transition has the same outcome with another reward, none is assigned.
    """
    i = entry_of(
        *(model.head, model.next_entry, model.outcomes, model.times, model.rewards),
        *(model.excess, model.place, model.sizes, k, outcome, reward),
    )
    if model.rewards[i] == reward:
        entries[j] = i
    else:
        add_excess(model.rewards, model.excess, i, reward)
    return i


@inlined
def choose(model, values, first, n_actions, explore, u):
    """Choose a pair as `_rollout` describes; return it, and 1 if the random number u was used."""
    Q, tie, k = values.Q, values.tie, first
    best, second = Q[k], -np.inf
    for i in range(first + 1, first + n_actions):
        q = Q[i]
        if q > best:
            best, second, k = q, best, i
        elif q > second:
            second = q
    if explore > 0.0:
        if u < explore:
            k = explored(model.known, model.counts, Q, first, n_actions, u / explore)
        elif second >= best - tie:
            u = (u - explore) / (1.0 - explore)
            k = choose_greedy(Q, first, n_actions, best - tie, u)
        return k, 1
    if second >= best - tie:
        return choose_greedy(Q, first, n_actions, best - tie, u), 1
    return k, 0


@inlined
def drawn(sums, j, last, u):
    """Return the first of the transitions j, ..., last whose cumulative probability is above u."""
    while last - j > SHORT:
        middle = (j + last) // 2
        if sums[middle] > u:
            last = middle
        else:
            j = middle + 1
    while j < last and u >= sums[j]:
        j += 1
    return j


@njit(cache=True)
def explored(known, counts, Q, first, n_actions, u):
    """Return the unknown pair among first, ..., first + n_actions - 1 with the fewest visits.

    If all of them are known, return one of them, each equally likely if u is uniform in [0, 1).
    Pairs with Q = -infinity are actions that are not available.
    """
    best, n_available = -1, 0
    for k in range(first, first + n_actions):
        if Q[k] == -np.inf:
            continue
        n_available += 1
        if not known[k] and (best < 0 or counts[k] < counts[best]):
            best = k
    if best >= 0:
        return best
    left = min(int(u * n_available), n_available - 1)
    best = first
    while left > 0 or Q[best] == -np.inf:
        left -= Q[best] > -np.inf
        best += 1
    return best


@njit(cache=True)
def first_above(sums, u):
    """Return the index of the first entry above u in the increasing `sums`, or the last index."""
    low, high = 0, sums.size - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def choose_greedy(Q, first, n_actions, threshold, u):
    """Choose one of the pairs first, ..., first + n_actions - 1 with Q >= threshold.

    If u is uniform in [0, 1), all of them are equally likely.
    """
    n_greedy = 0
    for k in range(first, first + n_actions):
        n_greedy += Q[k] >= threshold
    left = int(u * n_greedy)
    for k in range(first, first + n_actions):
        if Q[k] >= threshold:
            if left == 0:
                return k
            left -= 1
    return first  # pragma: no cover -- not reached for u < 1; numba needs an integer here
