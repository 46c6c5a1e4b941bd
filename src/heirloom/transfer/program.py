"""The dynamic program for `Q`: its arrays, and its solution in calls of limited length.

`kernels.solving.solve` brings `Q` up to date along a queue of states. Each call does a limited
amount of work, so that Ctrl-C is handled between calls. If γ is close to 1, a queue needs about
1 / (1-γ) backups per pair. If values only fall, only greedy pairs are then backed up, and
`complete` backs up all others. `Q` is also set to upper bounds on its fixed point
(`optimistic_program.caps`).

If known pairs are estimated again and again, values are computed to a coarser tolerance, `COARSE`
of the range of rewards: a thousandth of it is less than what a hundred visits leave uncertain. The
values at the end of a task are exact again (`complete`).
"""

from dataclasses import replace

import numpy as np

from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import NotConverged
from heirloom.kernels import solving
from heirloom.kernels.counting import N_TRANSITIONS, NOT_LISTED, Model
from heirloom.kernels.solving import Near, Values
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.rows import Rows, compact
from heirloom.mdp.tabular import reward_scale, value_range
from heirloom.transfer import optimistic_program
from heirloom.transfer.model_sets import ModelSets, combined
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting

# Up to this discount factor the worklist alone is quick enough: 3500 backups per pair suffice.
MAX_PLAIN_GAMMA = 0.99
# Units of work, as `solve` counts it, before the first acceleration of an update.
PATIENCE, PATIENCE_PER_PAIR = 10_000, 200
MIN_ACCELERATIONS = 20
MAX_SWEEPS = 50_000  # work per update, relative to the size of the program; enough for γ = 0.999
COARSE = 1e-3  # largest error of values that are computed again and again, in the range of rewards
ROUNDING = 1e-12  # of lower bounds, relative to the largest value, far above that of backups
ACCURACY = 1e-4  # of lower values, in the range of values; a larger one gives lower bounds too
NO_PAIRS, NO_CAPS = np.empty(0, dtype=np.int64), np.empty(0)


def initial_values(
    setting: Setting, U: FloatArray, decider: IntArray | None = None, *, falls: bool = True
) -> Values:
    """Return `Q` = `U` and its `V`, with the work space of the solver; nothing is known yet.

    `falls` says that no model is estimated twice. `decider` has the number of the bound that
    determines `U` at each pair, 0 by default.
    """
    n_states, n_pairs = setting.n_states, setting.n_pairs
    decider = np.zeros(n_pairs, dtype=np.int64) if decider is None else decider
    budget, slack = solving.MAX_WORK, setting.slack
    if setting.gamma > MAX_PLAIN_GAMMA:
        budget = min(budget, PATIENCE + PATIENCE_PER_PAIR * n_pairs)
    if not falls:
        slack = max(slack, COARSE * reward_scale(setting.reward_range) * (1 - setting.gamma))
    return Values(
        gamma=setting.gamma,
        sense=1.0,
        tie=setting.tie,
        margin=setting.tie if falls and setting.gamma > MAX_PLAIN_GAMMA else np.inf,
        slack=slack,
        falls=falls,
        base=U if falls else U.copy(),
        base_decider=decider if falls else decider.copy(),
        U=U,
        decider=decider,
        Q=U.copy(),
        V=U.reshape(n_states, -1).max(axis=1),
        state=np.repeat(np.arange(n_states), setting.n_actions),
        pending=np.zeros(n_pairs),
        queue=np.empty(n_states, dtype=np.int64),
        queued=np.zeros(n_states, dtype=bool),
        queue_state=np.zeros(2, dtype=np.int64),
        budget=budget,
        pull=np.empty(0),
        most_pull=0.0,
        top=np.zeros(4),
        n_top=np.zeros(1, dtype=np.int64),
        row=np.empty(n_states, dtype=np.int32),
        row_p=np.empty(n_states + 1),
        row_v=np.empty(n_states + 1),
        changed=np.empty(1, dtype=np.int64),
        no_caps=np.empty(0),
    )


def with_near(values: Values, near: Near, *, has_radii: bool = False) -> Values:
    """Return values that depend on `near`, too; `has_radii` says that the model has radii."""
    if not near.any_successor:
        return values
    pull, V = np.zeros(values.Q.size), values.sense * values.V
    pull[near.pairs] = near.t[near.pairs]
    top = max(float(V.max()), 0.0) if near.all_may_end else float(V.max())
    values.top[:] = top, 0.0, 0.0, 0.0
    values.n_top[0] = (V == top).sum() or V.size + 1  # if ⊥ has the largest value, it keeps it
    return values._replace(pull=pull, most_pull=1.0 if has_radii else float(pull.max()))


def upper_values(rows: Rows, setting: Setting, U: FloatArray) -> Values:
    """Return the fixed point of Q = min(U, R + γ Σ T V) on known rows, and Q = U elsewhere."""
    model, values = _model_of(rows, setting), initial_values(setting, U)
    update(model, values, None, np.flatnonzero(rows.known))
    complete(model, values, None, setting.slack)
    return values


def lower_values(rows: Rows, radii: Radii, setting: Setting) -> FloatArray:
    """Return lower bounds on V* of a task whose models are within their radii, over states.

    They are the values of the most pessimistic task that agrees with what is known: known pairs
    have the smallest rewards and the worst transitions within their radii, and unknown pairs have
    the least value that is possible. Values rise from there, until no backup would raise one by
    much; so every value on the way is a bound, from which the error of rounding is subtracted.
    """
    v_min, v_max = value_range(setting.reward_range, setting.gamma, terminating=setting.terminating)
    V, slack = np.full(setting.n_states, v_min), ACCURACY * (1 - setting.gamma) * (v_max - v_min)
    if slack > 0:
        tau = np.minimum(radii.transitions, 1.0)
        model = _model_of(rows, setting)._replace(high=rows.R - radii.rewards, radius=tau)
        base = np.full(setting.n_pairs, v_min)
        values = initial_values(setting, base, falls=False)._replace(sense=-1.0, slack=slack)
        near = combined([(1, ModelSets(radius=tau))], setting, values)
        if near is not None:
            reward = np.full(base.size, -setting.reward_range[0])
            near = near._replace(reward=reward, limit=np.inf)
            values = with_near(values, near, has_radii=True)
            update(model, values, near, np.flatnonzero(rows.known))
        V = values.V
    largest = max(abs(v_min), abs(v_max)) / (1 - setting.gamma)
    return np.maximum(V - ROUNDING * largest, v_min)


def lower_near_values(
    sets: ModelSets, lowest: FloatArray, setting: Setting, available: BoolArray
) -> FloatArray:
    """Return lower bounds on Q* over pairs, if mean rewards are at least `lowest`.

    The transitions of pairs are in `sets`. Actions that are not `available` have -infinity. As in
    `lower_values`, values rise from the least that is possible, and every one on the way is a
    bound, from which the error of rounding is subtracted.
    """
    v_min, v_max = value_range(setting.reward_range, setting.gamma, terminating=setting.terminating)
    base = np.where(available, v_min, -np.inf)
    values = initial_values(setting, base, falls=False)._replace(sense=-1.0, slack=setting.slack)
    near = combined([(1, replace(sets, follows=True))], setting, values, available)  # of all pairs
    if near is not None:
        near = near._replace(reward=-lowest, limit=np.inf)
        values = with_near(values, near)
        blank = LearnedModel(setting.n_states, setting.n_actions, n_known=1)._arrays
        update(blank, values, near, near.pairs)
    largest = max(abs(v_min), abs(v_max)) / (1 - setting.gamma)
    return np.maximum(values.Q - ROUNDING * largest, base)


def _model_of(rows: Rows, setting: Setting) -> Model:
    """Return rows as a learned model, with the lists that the solver needs."""
    rows = compact(rows)  # every transition has an owner
    blank = LearnedModel(setting.n_states, setting.n_actions, n_known=1)._arrays
    n, R = rows.p.size, rows.R.copy()
    blank.sizes[N_TRANSITIONS] = n
    return blank._replace(
        known=rows.known.copy(),
        R=R,
        high=R,
        ends=rows.ends.copy(),
        first=rows.first.copy(),
        last=rows.last.copy(),
        successors=rows.successors.copy(),
        p=rows.p.copy(),
        owner=np.repeat(np.arange(R.size), rows.lengths),
        next_into=np.full(n, NOT_LISTED),
    )


def update(model: Model, values: Values, near: Near | None, pairs: IntArray) -> None:
    """Bring `Q` to its fixed point, starting at `pairs`, whose bound or model changed.

    Raises `NotConverged` as `finish` does.
    """
    solving.solve(*_plain(model, values, near), pairs, NO_CAPS, values.budget)
    if values.queue_state[solving.LENGTH]:
        finish(model, values, near)


def complete(model: Model, values: Values, near: Near | None, slack: float) -> None:
    """Bring `Q` at all pairs to its fixed point, until no backup changes it by more than `slack`.

    Raises `NotConverged` as `finish` does.
    """
    if values.margin < np.inf or values.slack > slack:
        exact = values._replace(margin=np.inf, slack=slack)
        update(model, exact, near, np.arange(values.Q.size))


def finish(model: Model, values: Values, near: Near | None) -> None:
    """Continue an update that used up its budget, until it is done.

    Raises `NotConverged` if this takes too long. `Q` is then still an upper bound, and the next
    update continues with it.
    """
    work, accelerations, budget = 0, 0, solving.MAX_WORK
    size = values.Q.size + int(model.sizes[N_TRANSITIONS])
    if near is not None:
        size += near.p.size + near.link_pair.size
    while values.queue_state[solving.LENGTH]:
        if values.gamma > MAX_PLAIN_GAMMA:
            if accelerations >= MIN_ACCELERATIONS and work > MAX_SWEEPS * size:
                if values.sense < 0:
                    return  # lower values are bounds wherever they stop
                raise _not_converged(model, values, near)
            # Caps are upper bounds. If values may rise, Q is set to them, which would not end.
            is_useful = values.falls or not accelerations
            if values.sense > 0 and is_useful and not model.share.size:
                pairs, caps = optimistic_program.caps(model, values, near)
                arrays, budget = _plain(model, values, near), values.budget + 8 * size
                work += solving.solve(*arrays, pairs, caps, budget)
            accelerations += 1
            budget = min(values.budget * 2**accelerations, solving.MAX_WORK)
        arrays = _plain(model, values, near)
        work += solving.solve(*arrays, NO_PAIRS, NO_CAPS, budget)


def _plain(model: Model, values: Values, near: Near | None) -> tuple[object, object, object]:
    return tuple(model), tuple(values), None if near is None else tuple(near)


def _not_converged(model: Model, values: Values, near: Near | None) -> NotConverged:
    """Describe how far `Q` may still be above its fixed point."""
    decrease = optimistic_program.largest_decrease(model, values, near)
    error = decrease / (1 - values.gamma)
    return NotConverged(
        f"Q is above its fixed point by up to {error:.2g} after {MAX_SWEEPS} sweeps with "
        f"gamma={values.gamma}, and expected within tol={values.slack / (1 - values.gamma):.2g}: "
        f"it is still an upper bound; create the agent with tol={2 * error:.1g} or more, or with a "
        "smaller gamma"
    )
