"""The known rows of all sources, ordered by pair, with their radii, for `kernels.audit`."""

import numpy as np

from heirloom.kernels.audit import Rows
from heirloom.transfer.memory import Source
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting


def rows_by_pair(sources: list[Source], radii: list[Radii], setting: Setting) -> Rows:
    """Return the known rows of `sources`, ordered by pair and then by task.

    Larger radii than the width of the reward range, or than 1 for transitions, prove nothing more
    and are reduced to these.
    """
    n_pairs, (lo, hi) = setting.n_pairs, setting.reward_range
    pairs = [np.flatnonzero(source.known) for source in sources]
    lengths = [own.size for own in pairs]
    sizes = np.array([source.rows.p.size for source in sources], dtype=np.int64)
    shift = np.repeat(np.cumsum(sizes) - sizes, lengths)
    all_pairs = _joined(pairs, np.int64)
    order = np.argsort(all_pairs, kind="stable")
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(all_pairs, minlength=n_pairs), out=start[1:])

    def known(name: str, dtype: type) -> np.ndarray:
        arrays = [getattr(one.rows, name)[own] for one, own in zip(sources, pairs, strict=True)]
        return _joined(arrays, dtype)

    tau = [
        np.minimum(radius.transitions[own], 1.0) for radius, own in zip(radii, pairs, strict=True)
    ]
    eta = np.array([min(radius.reward, hi - lo) for radius in radii], dtype=np.float64)
    return Rows(
        start=start,
        source=np.repeat(np.arange(len(sources)), lengths)[order],
        R=known("R", np.float64)[order],
        ends=known("ends", np.float64)[order],
        first=(known("first", np.int64) + shift)[order],
        last=(known("last", np.int64) + shift)[order],
        successors=_joined([source.rows.successors for source in sources], np.int32),
        p=_joined([source.rows.p for source in sources], np.float64),
        eta=np.repeat(eta, lengths)[order],
        tau=_joined(tau, np.float64)[order],
    )


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype, copy=False)
