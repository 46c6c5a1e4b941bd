"""The known rows of all sources, ordered by pair, with their radii, for `kernels.audit`."""

import numpy as np

from heirloom.kernels.audit import ComparedRows
from heirloom.transfer.nearness.rows import gathered
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting
from heirloom.transfer.source import Source


def rows_by_pair(sources: list[Source], radii: list[Radii], setting: Setting) -> ComparedRows:
    """Return the known rows of `sources`, ordered by pair and then by task.

    Larger radii than the width of the reward range, or than 1 for transitions, prove nothing more
    and are reduced to these.
    """
    n_pairs, (lo, hi) = setting.n_pairs, setting.reward_range
    own = [gathered(source) for source in sources]
    lengths = [one.pairs.size for one in own]
    sizes = np.array([source.rows.p.size for source in sources], dtype=np.int64)
    pairs = _joined([one.pairs for one in own], np.int64)
    order = np.argsort(pairs, kind="stable")
    shift = np.repeat(np.cumsum(sizes) - sizes, lengths)[order]
    start = np.zeros(n_pairs + 1, dtype=np.int64)
    np.cumsum(np.bincount(pairs, minlength=n_pairs), out=start[1:])
    eta = [radius.rewards[one.pairs] for radius, one in zip(radii, own, strict=True)]
    tau = [radius.transitions[one.pairs] for radius, one in zip(radii, own, strict=True)]
    return ComparedRows(
        start=start,
        source=np.repeat(np.arange(len(sources)), lengths)[order],
        R=_joined([one.R for one in own], np.float64)[order],
        ends=_joined([one.ends for one in own], np.float64)[order],
        first=_joined([one.first for one in own], np.int64)[order] + shift,
        last=_joined([one.last for one in own], np.int64)[order] + shift,
        successors=_joined([source.rows.successors for source in sources], np.int32),
        p=_joined([source.rows.p for source in sources], np.float64),
        eta=np.minimum(_joined(eta, np.float64)[order], hi - lo),
        tau=np.minimum(_joined(tau, np.float64)[order], 1.0),
    )


def _joined(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=dtype), *arrays]).astype(dtype, copy=False)
