"""The Lipschitz bounds from many sources at once, updated as the current task is learned.

For each source M̄, D is the distance between models (`kernels.distances`), and the dissimilarity d
the fixed point of

    d = D + γ max_T Σ_s' T max_a' d   over the T within ε of the model, where the model is known
    d = D + γ max d                   where it is not

D only decreases, as more pairs become known and values decrease. d is then lowered from its last
solution along a worklist, and the bound U on the optimal values of the current task is lowered to
Q̄ + d. Each call does a limited amount of work, so that Ctrl-C is handled between calls; d is an
upper bound at any time. In names, `to_source` stands for D and d(M ‖ M̄), from the current task M to
a source M̄, and `from_source` for D and d(M̄ ‖ M).

Functions that Python calls take plain tuples in the order of fields, because numba unpacks them in
half the time that named tuples take, and convert them to named tuples.
"""

from typing import Any, NamedTuple

import numpy as np

from heirloom.kernels import njit
from heirloom.kernels.distances import Parameters, bound_difference, two_largest, worst_case_mean

# Status of d to a source: never solved, solved for earlier values of D, or solved for D as it is.
NEVER_SOLVED, OUTDATED, UP_TO_DATE = range(3)
TO_SOURCE, FROM_SOURCE = range(2)  # columns of `Sources.largest` and `Sources.n_at_largest`
BUDGET, MAX_BACKUPS, LEFT, N_UNFINISHED = range(4)  # entries of `Sources.limits`
MAX_WORK = 20_000_000  # units of work in one call: transitions that backups read
MARGIN = 1e-9  # relative, and larger than rounding errors
LINKS_PER_PAIR = 2  # links to predecessors that are followed before all pairs are examined


class Models(NamedTuple):
    """The known rows of the task, or of all sources one after the other, linked to predecessors.

    Pair k of source i has the row `index[i, k]`, or -1 if it is unknown; the task is number 0. Row
    j has the mean reward `R[j]` and `successors[first[j]:last[j]]`, in increasing order, with
    probabilities `p`, terminates with probability `ends[j]`, and belongs to the pair `row_pair[j]`.
    Source i has the rows from `start[i]` to `start[i + 1] - 1`. The transitions into state s form a
    linked list, which starts at `into[i, s]` and continues with `next_into`, until -1; transition t
    belongs to the pair `owner[t]`.
    """

    index: Any
    start: Any
    row_pair: Any
    R: Any
    ends: Any
    first: Any
    last: Any
    successors: Any
    p: Any
    owner: Any
    into: Any
    next_into: Any


class Solved(NamedTuple):
    """For each source: d over pairs, `d_state` = max_a d over states, and the largest d.

    `pending[k]` bounds how much a backup of pair k would lower d[k], because d decreased at its
    successors since its last backup. `pending_all` bounds the same for every pair, because the
    largest d decreased; it is infinite if the last solution used up its budget. `n_at_largest` is
    the number of states that attain the largest d.
    """

    d: Any
    d_state: Any
    pending: Any
    largest: Any
    pending_all: Any
    n_at_largest: Any


class Sources(NamedTuple):
    """Everything that is kept about all sources i between two updates, over pairs k.

    d stops when one more backup would lower it by at most `slack`. Optimal values never differ by
    more than `cap`, so d starts at `cap` or below. `cap` is infinite if no cap is used. If x is the
    difference of optimal values, G the operator and x <= G(x), then x <= y implies
    x <= min(G(y), cap), because G is monotone. So every iterate from the cap is an upper bound, and
    never above the iterate from an infinite cap.

    `D_to[i, k]` and `D_from[i, k]` are D in both directions, `largest` the largest per source and
    direction, and `n_at_largest` the number of pairs that attain it. d(M̄ ‖ M) is solved again where
    `is_outdated`. `status` is that of d(M ‖ M̄), which is solved only where it has no closed form:
    no unknown pair that attains the largest D. None is before `candidate`.

    D(M ‖ M̄) is weighed with `W_bar[i]`; `heaviest[i]` lists the heaviest states. `least[i]` is a
    lower bound on every D(M ‖ M̄). D(M̄ ‖ M) is weighed with `W`, which decreases: `heavy` lists the
    heaviest states by decreasing weight, with some in reserve, and `is_heavy` marks them; no other
    state weighs more than `outside_bound[0]`. `top_weights` holds the largest weights after the
    last update. Values are at least `floor`.

    `decider` has the number in `tasks` of the source that determines `U`. `useful` marks the
    sources that may still lower a bound; `useful_pair` is the first pair at which they may.

    The rest is room to work: a circular `queue` of pairs to back up, and lists of pairs with the
    marks of their members: those whose d `decreased`, whose U was `lowered`, and that are
    `listed` to be measured. `limits` has the work that a solution and a call may do (see
    `MAX_WORK`), the work that is left in this call, and the number of solutions whose budget was
    used up in this call.
    """

    models: Any
    parameters: Any
    to_source: Any
    from_source: Any
    slack: Any
    cap: Any
    floor: Any
    D_to: Any
    D_from: Any
    largest: Any
    n_at_largest: Any
    is_outdated: Any
    status: Any
    candidate: Any
    W_bar: Any
    heaviest: Any
    least: Any
    W: Any
    heavy: Any
    is_heavy: Any
    outside_bound: Any
    top_weights: Any
    U: Any
    decider: Any
    tasks: Any
    Q: Any
    useful: Any
    useful_pair: Any
    queue: Any
    queued: Any
    decreased: Any
    is_decreased: Any
    lowered: Any
    is_lowered: Any
    listed: Any
    is_listed: Any
    limits: Any


@njit(cache=True)
def _named(sources):
    """Convert a plain tuple of tuples to `Sources`."""
    models, parameters, to_source, from_source = sources[:4]
    return Sources(
        Models(*models),
        Parameters(*parameters),
        Solved(*to_source),
        Solved(*from_source),
        *sources[4:],
    )


@njit(cache=True)
def link_transitions(models):
    """Fill in `index`, `owner`, `into` and `next_into` of the models of all sources."""
    m = Models(*models)
    for i in range(m.index.shape[0]):
        for j in range(m.start[i], m.start[i + 1]):
            m.index[i, m.row_pair[j]] = j
            for t in range(m.first[j], m.last[j]):
                m.owner[t] = m.row_pair[j]
                m.next_into[t] = m.into[i, m.successors[t]]
                m.into[i, m.successors[t]] = t


@njit(cache=True)
def begin_sources(sources):
    """Measure D and solve d of all sources before any pair of the task is known; lower U to Q + d.

    The heaviest states of all sources are already ranked.
    """
    _begin_sources(_named(sources))


@njit(cache=True)
def update_sources(pairs, known_pairs, known, agent_U, V, decreased, active, model, sources):
    """Update D and d of the `active` sources, and lower U to Q + d; return the number of its pairs.

    `pairs` became known since the last update, and V decreased at the `decreased` states. U is
    lowered only at pairs that are unknown in the task, since only these need a bound. They are
    listed in `lowered`. Marks the sources that may still lower U or the agent's own bound
    `agent_U`: as d >= 0, those with Q below both at an unknown pair.
    """
    named = _named(sources)
    n_lowered = _update_sources(
        pairs, known_pairs, known, V, decreased, active, Models(*model), named
    )
    _find_useful(known, agent_U, active, named)
    return n_lowered


@njit(cache=True)
def resume_source(i, direction, model, sources):
    """Continue to lower d of source i in a direction, after its budget was used up.

    U is not lowered.
    """
    named, task = _named(sources), Models(*model)
    named.limits[LEFT], named.limits[N_UNFINISHED] = named.limits[MAX_BACKUPS], 0
    if direction == TO_SOURCE:
        named.to_source.pending_all[i] = 0.0
        _solve_from_queue(i, 0, task, named.D_to[i], named.to_source, named, _queue_all(named))
    else:
        named.from_source.pending_all[i] = 0.0
        _update_from_source(i, named, _queue_all(named))


@njit(cache=True, forceinline=True)
def _begin_sources(sources):
    gamma, Q, cap = sources.parameters.gamma, sources.Q, sources.cap
    D_to, largest, from_source = sources.D_to, sources.largest, sources.from_source
    largest_to, d = sources.to_source.largest, sources.from_source.d
    _measure_sources(sources)
    sources.limits[LEFT], sources.limits[N_UNFINISHED] = sources.limits[MAX_BACKUPS], 0
    for i in range(Q.shape[0]):
        largest_to[i] = min(largest[i, TO_SOURCE] / (1.0 - gamma), cap)
        top = min(largest[i, FROM_SOURCE] / (1.0 - gamma), cap)
        from_source.largest[i] = d[i] = from_source.d_state[i] = top
        from_source.n_at_largest[i] = from_source.d_state.shape[1]
        _update_from_source(i, sources, _queue_initially_lower(i, sources))
        for k in range(d.shape[1]):
            value = Q[i, k] + min(D_to[i, k] + gamma * largest_to[i], d[i, k])
            if value < sources.U[k]:
                sources.U[k] = value
                sources.decider[k] = sources.tasks[i]


@njit(cache=True, forceinline=True)
def _update_sources(pairs, known_pairs, known, V, decreased, active, model, sources):
    to_source, from_source, gamma = sources.to_source, sources.from_source, sources.parameters.gamma
    U, Q, D_to, d_from = sources.U, sources.Q, sources.D_to, from_source.d
    lowered, is_lowered = sources.lowered, sources.is_lowered
    sources.limits[LEFT], sources.limits[N_UNFINISHED] = sources.limits[MAX_BACKUPS], 0
    weighed, n_listed, n_lowered = _weigh(V, decreased, sources), 0, 0
    for i in active:
        if n_listed == 0 and sources.largest[i, FROM_SOURCE] > weighed.least:
            n_listed = _list_pairs(pairs, known_pairs, decreased, model, sources)
    for i in active:
        largest_before = to_source.largest[i]
        unfinished = to_source.pending_all[i] == np.inf or from_source.pending_all[i] == np.inf
        n_queued, n_decreased = 0, 0
        for pair in pairs:
            if D_to[i, pair] > sources.least[i]:
                _remeasure_to_source(i, pair, model, sources)
        _update_to_source(i, pairs, model, sources)
        if sources.largest[i, FROM_SOURCE] > weighed.least:
            n_queued = _remeasure_from_source(
                i, known_pairs, decreased, weighed, n_listed, model, sources
            )
        if sources.is_outdated[i]:
            sources.is_outdated[i], n_queued = False, _queue_all(sources)
        if n_queued > 0 or from_source.pending_all[i] == np.inf:
            n_decreased = _update_from_source(i, sources, n_queued)
        everywhere = unfinished or to_source.largest[i] < largest_before
        for v in range(known.size if everywhere else n_decreased):
            k = v if everywhere else sources.decreased[v]
            d = min(D_to[i, k] + gamma * to_source.largest[i], d_from[i, k])
            if known[k] or Q[i, k] + d >= U[k]:
                continue
            U[k] = Q[i, k] + d
            sources.decider[k] = sources.tasks[i]
            if not is_lowered[k]:
                is_lowered[k] = True
                lowered[n_lowered] = k
                n_lowered += 1
    for v in range(n_lowered):
        is_lowered[lowered[v]] = False
    for v in range(n_listed):
        sources.is_listed[sources.listed[v]] = False
    return n_lowered


@njit(cache=True, forceinline=True)
def _find_useful(known, agent_U, active, sources):
    """Mark the sources whose Q is below U and below the agent's bound at some unknown pair."""
    Q, U = sources.Q, sources.U
    for i in active:
        k = sources.useful_pair[i]  # a pair that is not useful never becomes useful
        while k < known.size and (known[k] or Q[i, k] >= agent_U[k] or Q[i, k] >= U[k]):
            k += 1
        sources.useful_pair[i] = k
        sources.useful[i] = k < known.size


@njit(cache=True)
def _measure_sources(sources):
    """Lower D of all sources in both directions, before any pair of the task is known."""
    m, parameters = sources.models, sources.parameters
    W, heavy, n_ranks = sources.W, sources.heavy, sources.top_weights.size
    least_from, least_one_from = _lower_bounds(W, heavy, n_ranks, parameters)
    for i in range(m.index.shape[0]):
        W_bar, heaviest = sources.W_bar[i], sources.heaviest[i]
        sources.least[i], least_one_to = _lower_bounds(W_bar, heaviest, n_ranks, parameters)
        for D, weights, ranked, least, least_one, direction in (
            (sources.D_to, W_bar, heaviest, sources.least[i], least_one_to, TO_SOURCE),
            (sources.D_from, W, heavy, least_from, least_one_from, FROM_SOURCE),
        ):
            neither = bound_difference(m, -1, m, -1, weights, ranked, parameters)
            for k in range(m.index.shape[1]):
                j = m.index[i, k]
                D[i, k] = min(D[i, k], neither)
                if j >= 0 and D[i, k] > least and D[i, k] > least_one:
                    bound = bound_difference(m, j, m, -1, weights, ranked, parameters)
                    D[i, k] = min(D[i, k], bound)
            sources.largest[i, direction], sources.n_at_largest[i, direction] = _largest(D[i])


class Weighed(NamedTuple):
    """Which D(M̄ ‖ M) may have decreased since the last update, because weights did.

    `anywhere` says that the two largest weights changed, `ranks_changed` that others of the
    heaviest states did. D is at least `least`, and at least `least_one` where only one model is
    known. Two unknown models have the distance `neither`.
    """

    anywhere: Any
    ranks_changed: Any
    least: Any
    least_one: Any
    neither: Any


@njit(cache=True, forceinline=True)
def _weigh(V, decreased, sources):
    """Update the weights of states in the task."""
    m, parameters, W, heavy = sources.models, sources.parameters, sources.W, sources.heavy
    before = two_largest(W, heavy, parameters)
    ranks_changed = _update_weights(V, decreased, sources)
    after = two_largest(W, heavy, parameters)
    least, least_one = _lower_bounds(W, heavy, sources.top_weights.size, parameters)
    neither = bound_difference(m, -1, m, -1, W, heavy, parameters)
    return Weighed(after != before, ranks_changed, least, least_one, neither)


@njit(cache=True, forceinline=True)
def _remeasure_to_source(i, pair, model, sources):
    """Lower D(M ‖ M̄) of source i at `pair`, which became known in the task.

    The weights come from the source and do not change, so no other entry may decrease.
    """
    D_to, largest, n_at_largest = sources.D_to, sources.largest, sources.n_at_largest
    m_bar, j_bar = sources.models, sources.models.index[i, pair]
    W_bar, heaviest = sources.W_bar[i], sources.heaviest[i]
    D = bound_difference(model, pair, m_bar, j_bar, W_bar, heaviest, sources.parameters)
    if D < D_to[i, pair]:
        n_at_largest[i, TO_SOURCE] -= D_to[i, pair] == largest[i, TO_SOURCE]
        D_to[i, pair] = D
        if n_at_largest[i, TO_SOURCE] == 0:
            largest[i, TO_SOURCE], n_at_largest[i, TO_SOURCE] = _largest(D_to[i])
            sources.candidate[i] = 0


@njit(cache=True, forceinline=True)
def _remeasure_from_source(i, known_pairs, decreased, weighed, n_listed, model, sources):
    """Lower D(M̄ ‖ M) of source i, and queue the pairs where it decreased; return their number.

    Its weights come from V, so it may decrease at pairs that lead to one of the `decreased` states
    in either model; those in the task are listed. If the heaviest states became lighter, it may
    decrease at all pairs that are known in either model, because an unknown model may lead to these
    states, and at the others if the distance between two unknown models is below the largest D.
    """
    m_bar, parameters, listed = sources.models, sources.parameters, sources.listed
    index, index_bar, start = model.index[0], m_bar.index[i], m_bar.start
    D_from, largest, n_at_largest = sources.D_from[i], sources.largest, sources.n_at_largest
    top, n_queued, n_marked = largest[i, FROM_SOURCE], 0, n_listed
    one_known_matters = weighed.least_one < top
    own = m_bar.row_pair[start[i] : start[i + 1]]
    candidates, n_candidates, n_own, everywhere = listed, n_listed, 0, False
    if weighed.anywhere and weighed.neither < top:
        everywhere = True
    elif weighed.anywhere or (weighed.ranks_changed and one_known_matters):
        candidates, n_candidates, n_own = known_pairs, known_pairs.size, own.size
    else:
        n_candidates = n_marked = _list_predecessors(decreased, own, m_bar, i, sources, n_listed)
    for c in range(index.size if everywhere else n_candidates + n_own):
        k = c
        if not everywhere:
            k = candidates[c] if c < n_candidates else own[c - n_candidates]
        j, j_bar = index[k], index_bar[k]
        if D_from[k] <= weighed.least or not (one_known_matters or (j >= 0 and j_bar >= 0)):
            continue
        D = bound_difference(m_bar, j_bar, model, j, sources.W, sources.heavy, parameters)
        if D < D_from[k]:
            n_at_largest[i, FROM_SOURCE] -= D_from[k] == top
            D_from[k] = D
            if not sources.queued[k]:
                sources.queued[k] = True
                sources.queue[n_queued] = k
                n_queued += 1
    for c in range(n_listed, n_marked):
        sources.is_listed[listed[c]] = False
    if n_at_largest[i, FROM_SOURCE] == 0:
        largest[i, FROM_SOURCE], n_at_largest[i, FROM_SOURCE] = _largest(D_from)
    if n_queued > 1:  # so that the result does not depend on the candidates
        sources.queue[:n_queued].sort()
    return n_queued


@njit(cache=True)
def _lower_bounds(W, heavy, n_ranks, parameters):
    """Return lower bounds on D: at any pair, and where only one model is known (with a margin).

    If there are more than `n_ranks` states, no row contains all of the `n_ranks` heaviest, so an
    unknown model may lead to one of these which is not in the row.
    """
    lo, hi = parameters.lo, parameters.hi
    most, _ = two_largest(W, heavy, parameters)
    B = parameters.epsilon * (1.0 + parameters.gamma * most)
    left_out = W[heavy[n_ranks - 1]] if n_ranks < W.size else 0.0
    one = (hi - lo) / 2.0 + parameters.gamma * left_out + B
    return min(2.0 * B, B + (hi - lo) / 2.0, hi - lo), one - MARGIN * max(hi - lo, one)


@njit(cache=True, forceinline=True)
def _update_weights(V, decreased, sources):
    """Update the weights and the heaviest states; return whether the largest weights changed.

    States in `heavy` that weigh at least `outside_bound` are the heaviest of all, because no other
    state weighs more. If too few are left, all states are ranked again.
    """
    W, heavy, is_heavy, top_weights = (
        sources.W,
        sources.heavy,
        sources.is_heavy,
        sources.top_weights,
    )
    heavy_moved = False
    for s in decreased:
        W[s] = max(V[s] - sources.floor, 0.0)
        heavy_moved |= is_heavy[s]
    if not heavy_moved:
        return False
    _insertion_sort(W, heavy)
    if W[heavy[top_weights.size - 1]] < sources.outside_bound[0]:
        is_heavy[heavy] = False
        heavy[:] = np.argsort(-W)[: heavy.size]
        sources.outside_bound[0] = W[heavy[-1]]
        is_heavy[heavy] = True
    changed = False
    for r in range(top_weights.size):
        changed |= W[heavy[r]] != top_weights[r]
        top_weights[r] = W[heavy[r]]
    return changed


@njit(cache=True)
def _insertion_sort(W, heavy):
    """Sort states by decreasing weight; fast if only a few are out of order."""
    for i in range(1, heavy.size):
        s = heavy[i]
        w, j = W[s], i
        while j > 0 and W[heavy[j - 1]] < w:
            heavy[j] = heavy[j - 1]
            j -= 1
        heavy[j] = s


@njit(cache=True, forceinline=True)
def _list_pairs(pairs, known_pairs, decreased, model, sources):
    """List `pairs` and the known pairs of the task that may lead to a decreased state.

    Returns the number of pairs, which stay marked in `is_listed`.
    """
    sources.listed[: pairs.size] = pairs
    sources.is_listed[pairs] = True
    return _list_predecessors(decreased, known_pairs, model, 0, sources, pairs.size)


@njit(cache=True)
def _list_predecessors(states, own, models, i, sources, n):
    """Append the pairs of model i that may lead to `states` to the `n` listed pairs, once each.

    `own` are all known pairs of the model. If the states have many predecessors, all of them are
    listed instead, because following the links would take longer. Returns the number of pairs.
    """
    listed, is_listed, left = sources.listed, sources.is_listed, LINKS_PER_PAIR * own.size
    for s in states:
        t = models.into[i, s]
        while t >= 0 and left > 0:
            k = models.owner[t]
            if not is_listed[k]:
                is_listed[k] = True
                listed[n] = k
                n += 1
            t = models.next_into[t]
            left -= 1
    if left <= 0:
        for k in own:
            if not is_listed[k]:
                is_listed[k] = True
                listed[n] = k
                n += 1
    return n


@njit(cache=True)
def _largest(D):
    """Return the largest entry of D, and the number of entries equal to it."""
    top = D.max()
    return top, (top == D).sum()


@njit(cache=True, forceinline=True)
def _update_to_source(i, pairs, model, sources):
    """Lower the largest d from the task to the source i, after `pairs` became known in the task.

    An unknown pair may lead to any state, including its own. So if an unknown pair attains max D,
    then max d = max D / (1 - gamma). Otherwise d is solved for.
    """
    solved, status, D, index = sources.to_source, sources.status, sources.D_to, model.index
    gamma, top, n_pairs = sources.parameters.gamma, sources.largest[i, TO_SOURCE], D.shape[1]
    limit, k = top / (1.0 - gamma), sources.candidate[i]
    while k < n_pairs and (index[0, k] >= 0 or D[i, k] < top):
        k += 1  # these pairs are known or have a smaller D, and both stays so
    sources.candidate[i] = k
    if k < n_pairs:
        solved.largest[i] = min(solved.largest[i], limit)
        status[i] = min(status[i], OUTDATED)
        return
    if status[i] == UP_TO_DATE:
        n_queued = _queue_pairs(pairs, sources)
    else:
        if status[i] == NEVER_SOLVED:
            solved.d[i] = solved.largest[i]
            solved.d_state[i] = solved.largest[i]
        n_queued = _queue_all(sources)
        status[i], solved.pending_all[i], solved.n_at_largest[i] = UP_TO_DATE, 0.0, 0
    if limit < solved.largest[i]:
        _limit_largest(i, limit, gamma, solved)
    _solve_from_queue(i, 0, model, D[i], solved, sources, n_queued)


@njit(cache=True, forceinline=True)
def _update_from_source(i, sources, n_queued):
    """Solve d from the source i to the task, starting at the queued pairs.

    Returns the number of pairs whose d decreased.
    """
    gamma, solved = sources.parameters.gamma, sources.from_source
    limit = sources.largest[i, FROM_SOURCE] / (1.0 - gamma)
    if limit < solved.largest[i]:
        _limit_largest(i, limit, gamma, solved)
    return _solve_from_queue(i, i, sources.models, sources.D_from[i], solved, sources, n_queued)


@njit(cache=True)
def _solve_from_queue(i, m, models, D, solved, sources, n_queued):
    """Lower d of source i from its last solution to the fixed point through model m of `models`.

    It starts at the queued pairs. Whenever `d_state` decreases at a state, the pairs that may lead
    to it are queued. At the end `pending` and `pending_all` are at most slack / 2 each, so no
    backup would lower a pair by more than `slack`. If the budget is used up first, `pending_all` is
    infinite. The pairs whose d decreased are listed in `decreased`, and their number is returned.
    """
    index, ends, first, last = models.index[m], models.ends, models.first, models.last
    successors, p, owner = models.successors, models.p, models.owner
    into, next_into = models.into[m], models.next_into
    gamma, epsilon, slack = sources.parameters.gamma, sources.parameters.epsilon, sources.slack
    d, d_state, pending = solved.d[i], solved.d_state[i], solved.pending[i]
    largest, pending_all, n_at_largest = solved.largest, solved.pending_all, solved.n_at_largest
    queue, queued, limits = sources.queue, sources.queued, sources.limits
    decreased, is_decreased = sources.decreased, sources.is_decreased
    n_actions = d.size // d_state.size
    front, n_decreased = 0, 0
    budget = min(limits[BUDGET], limits[LEFT])
    left = budget
    while True:
        while n_queued > 0:
            k = queue[front]
            front = front + 1 if front + 1 < queue.size else 0
            n_queued -= 1
            queued[k] = False
            pending[k] = 0.0
            next_d, j = largest[i], index[k]
            if j >= 0:
                next_d = worst_case_mean(
                    first[j], last[j], successors, p, ends[j], d_state, largest[i], epsilon
                )
            value = D[k] + gamma * next_d
            if value >= d[k]:
                continue
            d[k] = value
            if not is_decreased[k]:
                is_decreased[k] = True
                decreased[n_decreased] = k
                n_decreased += 1
            s = k // n_actions
            top = d[s * n_actions]
            for a in range(1, n_actions):
                top = max(top, d[s * n_actions + a])
            decrease = d_state[s] - top
            if decrease <= 0.0:
                continue
            n_at_largest[i] -= d_state[s] >= largest[i] and top < largest[i]
            d_state[s] = top
            t = into[s]
            while t >= 0:
                predecessor = owner[t]
                pending[predecessor] += gamma * p[t] * decrease
                if pending[predecessor] > 0.5 * slack and not queued[predecessor] and left > 0:
                    left -= 1
                    queued[predecessor] = True
                    end = front + n_queued
                    queue[end if end < queue.size else end - queue.size] = predecessor
                    n_queued += 1
                t = next_into[t]
        if n_at_largest[i] <= 0:
            _limit_largest(i, d_state.max(), gamma, solved)
        if left <= 0:  # pairs may have been left out of the queue
            pending_all[i] = np.inf
            limits[N_UNFINISHED] += 1
            break
        if pending_all[i] <= 0.5 * slack:
            break
        pending_all[i] = 0.0
        front, n_queued = 0, _queue_all(sources)
        left -= n_queued
    limits[LEFT] -= budget - left
    for c in range(n_decreased):
        is_decreased[decreased[c]] = False
    return n_decreased


@njit(cache=True)
def _limit_largest(i, value, gamma, solved):
    """Lower the largest d of source i to the upper bound `value`.

    Adds to `pending_all` how much this may lower d at other pairs.
    """
    if value < solved.largest[i]:
        solved.pending_all[i] += gamma * (solved.largest[i] - value)
        solved.largest[i] = value
    solved.n_at_largest[i] = (solved.d_state[i] >= solved.largest[i]).sum()


# The functions below fill the queue. They are not inlined in their callers because numba would then
# compile the code that follows a second time, for the literal `n_queued = 0`.


@njit(cache=True)
def _queue_all(sources):
    """Queue all pairs; return their number."""
    for k in range(sources.queue.size):
        sources.queue[k] = k
        sources.queued[k] = True
    return sources.queue.size


@njit(cache=True)
def _queue_pairs(pairs, sources):
    """Queue `pairs`, which are different; return their number."""
    for c in range(pairs.size):
        sources.queue[c] = pairs[c]
        sources.queued[pairs[c]] = True
    return pairs.size


@njit(cache=True)
def _queue_initially_lower(i, sources):
    """Queue the pairs of source i whose first backup may give less than d at the start.

    d at the start is at most the largest D / (1 - gamma). So these are the pairs with a smaller D
    or a row that may terminate. Returns their number.
    """
    D, top, n_queued = sources.D_from[i], sources.largest[i, FROM_SOURCE], 0
    index, ends = sources.models.index[i], sources.models.ends
    for k in range(D.size):
        if D[k] < top or (index[k] >= 0 and ends[index[k]] > 0.0):
            sources.queue[n_queued] = k
            sources.queued[k] = True
            n_queued += 1
    return n_queued
