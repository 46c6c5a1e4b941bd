"""The known rows of all sources one after the other, as the kernels take them."""

from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import IntArray
from heirloom.kernels import dissimilarity, distances
from heirloom.kernels.learning import Model
from heirloom.transfer.memory import Source


class KnownRows(NamedTuple):
    """Models as `kernels.distances` and as `kernels.dissimilarity` take them: the same arrays."""

    linked: distances.Linked
    graph: dissimilarity.Graph

    @classmethod
    def of_sources(cls, sources: list[Source], n_states: int, n_pairs: int) -> "KnownRows":
        """The known rows of sources."""
        pairs = [np.flatnonzero(source.known) for source in sources]
        lengths = [len(known) for known in pairs]
        offsets = np.cumsum([0, *(source.rows.p.size for source in sources)])

        def joined(name: str) -> Any:
            return np.concatenate(
                [getattr(s.rows, name)[k] for s, k in zip(sources, pairs, strict=True)]
            )

        shift = np.repeat(offsets[:-1], lengths)
        rows = distances.Rows(
            R=joined("R"),
            ends=joined("ends"),
            first=joined("first") + shift,
            last=joined("last") + shift,
            successors=np.concatenate([source.rows.successors for source in sources]),
            p=np.concatenate([source.rows.p for source in sources]),
        )
        linked = distances.Linked(
            index=np.full((len(sources), n_pairs), -1),
            start=np.cumsum([0, *lengths]),
            of_row=np.concatenate(pairs),
            rows=rows,
            owner=np.empty(offsets[-1], dtype=np.int64),
            into=np.full((len(sources), n_states), -1),
            next_into=np.empty(offsets[-1], dtype=np.int64),
        )
        made = cls(linked, _graph(linked))
        dissimilarity.link(tuple(made.graph), linked.start, linked.of_row)
        return made

    @classmethod
    def of_task(cls, model: Model, index: IntArray) -> "KnownRows":
        """The known rows of the task at hand, of which `index` knows; row k is that of pair k."""
        nothing = np.empty(0, dtype=np.int64)
        linked = distances.Linked(
            index=index,
            start=nothing,
            of_row=nothing,
            rows=distances.Rows(
                model.R, model.ends, model.first, model.last, model.successors, model.p
            ),
            owner=model.owner,
            into=model.into,
            next_into=model.next_into,
        )
        return cls(linked, _graph(linked))


def _graph(linked: distances.Linked) -> dissimilarity.Graph:
    rows = linked.rows
    return dissimilarity.Graph(
        index=linked.index,
        ends=rows.ends,
        first=rows.first,
        last=rows.last,
        successors=rows.successors,
        p=rows.p,
        owner=linked.owner,
        into=linked.into,
        next_into=linked.next_into,
    )


def plain(value: Any) -> Any:
    """Named tuples within named tuples as plain ones."""
    return tuple(plain(one) for one in value) if isinstance(value, tuple) else value
