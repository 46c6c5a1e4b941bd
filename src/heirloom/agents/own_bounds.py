"""What bounds must be and return; those of the user are checked whenever they are called."""

from collections.abc import Sequence

import numpy as np

from heirloom.arrays import IntArray
from heirloom.errors import InvalidArgument
from heirloom.mdp.learned import LearnedModel
from heirloom.mdp.tabular import value_range
from heirloom.transfer.bound import Bound
from heirloom.transfer.memory import TaskMemory
from heirloom.transfer.setting import Setting
from heirloom.validation import shown

# The methods of a bound that an agent calls.
BOUND_METHODS = [name for name, value in vars(Bound).items() if name[0] != "_" and callable(value)]


def checked_bounds(bounds: Sequence[Bound]) -> list[Bound]:
    """Return the bounds as a list; raise `InvalidArgument` unless all have the right methods."""
    expected = "expected a list of bounds, such as [Lipschitz(d_max=0.1)]"
    if not isinstance(bounds, list | tuple):
        raise InvalidArgument(f"bounds is {shown(bounds)}: {expected}")
    for bound in bounds:
        if isinstance(bound, type):
            raise InvalidArgument(
                f"bounds contains the class {bound.__name__}: expected an instance, "
                f"{bound.__name__}(...)"
            )
        missing = [name for name in BOUND_METHODS if not callable(getattr(bound, name, None))]
        if missing:
            raise InvalidArgument(
                f"bounds contains {shown(bound)}, which has no method {missing[0]}: {expected}; "
                "derive a user-defined bound from heirloom.Bound"
            )
    return list(bounds)


def sources_used(bound: Bound, n_pairs: int) -> IntArray:
    """Return `sources_used` of a bound; raise `InvalidArgument` unless it has one task per pair."""
    used = bound.sources_used()
    is_valid = isinstance(used, np.ndarray) and used.dtype.kind in "iu" and used.shape == (n_pairs,)
    if not is_valid:
        raise InvalidArgument(
            f"sources_used of the bound {type(bound).__name__} returned {shown(used)}: expected an "
            f"array of whole numbers of shape ({n_pairs},), the task that decides U at each pair"
        )
    return used


def checked_pairs(bound: Bound, method: str, pairs: object, n_pairs: int) -> IntArray:
    """Return the pairs that a method of a bound returned; raise `InvalidArgument` unless valid."""
    name = type(bound).__name__
    if not isinstance(pairs, np.ndarray) or pairs.ndim != 1 or pairs.dtype.kind not in "iu":
        raise InvalidArgument(
            f"{method} of the bound {name} returned {shown(pairs)}: expected an array of whole "
            "numbers, the pairs k = s * A + a that it has changed"
        )
    outside = pairs[(pairs < 0) | (pairs >= n_pairs)]
    if outside.size:
        raise InvalidArgument(
            f"{method} of the bound {name} returned pair {outside[0]}: expected pairs from 0 to "
            f"{n_pairs - 1}"
        )
    return pairs.astype(np.int64, copy=False)


def is_user_defined(bound: Bound) -> bool:
    """Return whether a bound is of the user, and not one of Heirloom."""
    return not type(bound).__module__.startswith("heirloom.")


def begun(bound: Bound, setting: Setting, model: LearnedModel, memory: TaskMemory) -> bool:
    """Begin a task; raise `InvalidArgument` unless the bound returns a bool and has a valid `U`."""
    is_refined = bound.begin_task(setting, model, memory)
    if not isinstance(is_refined, bool | np.bool_):
        name = type(bound).__name__
        raise InvalidArgument(
            f"begin_task of the bound {name} returned {shown(is_refined)}: expected True if U is "
            "refined while the task is learned, otherwise False"
        )
    check_array(bound, "begin_task", setting.n_pairs)
    check_numbers(bound, "begin_task", np.flatnonzero(model.available.reshape(-1)), setting)
    return bool(is_refined)


def check_array(bound: Bound, method: str, n_pairs: int) -> None:
    """Raise `InvalidArgument` unless `U` is a float64 array over pairs."""
    U = getattr(bound, "U", None)
    if not isinstance(U, np.ndarray) or U.shape != (n_pairs,) or U.dtype != np.float64:
        found = f"{U.dtype} of shape {U.shape}" if isinstance(U, np.ndarray) else type(U).__name__
        raise InvalidArgument(
            f"U of the bound {type(bound).__name__} is {found}: {method} must set it to a float64 "
            f"array over the pairs k = s * A + a, of shape ({n_pairs},)"
        )


def check_numbers(bound: Bound, method: str, pairs: IntArray, setting: Setting) -> None:
    """Raise `InvalidArgument` if `U` cannot be an upper bound: if it is NaN, or below `v_min`.

    Infinity is an upper bound: the agent then uses `v_max`.
    """
    v_min, v_max = value_range(setting.reward_range, setting.gamma, terminating=setting.terminating)
    lowest = v_min - 1e-9 * max(abs(v_min), abs(v_max))
    U = bound.U[pairs]
    if U.min(initial=np.inf) >= lowest:  # False if there is a NaN
        return
    k = int(pairs[np.flatnonzero(~(U >= lowest))[0]])
    name = type(bound).__name__
    if np.isnan(bound.U[k]):
        raise InvalidArgument(
            f"U of the bound {name} is NaN at pair {k}: {method} must set it to a number"
        )
    raise InvalidArgument(
        f"U of the bound {name} is {bound.U[k]:g} at pair {k}, below {v_min:g}, the smallest "
        f"possible value with rewards in {setting.reward_range} and gamma={setting.gamma}: "
        f"{method} must set it to an upper bound on Q*"
    )
