"""The known rows of the sources and of the current task, in the form that kernels take."""

from typing import Any, NamedTuple

import numpy as np

from heirloom.arrays import IntArray
from heirloom.kernels import dissimilarity, distances
from heirloom.kernels.counting import Model
from heirloom.transfer.source import Source


class KnownRows(NamedTuple):
    """Models in the forms that `kernels.distances` and `kernels.dissimilarity` take.

    Both share the same arrays.
    """

    linked: distances.LinkedRows
    graph: dissimilarity.Graph

    @classmethod
    def of_sources(cls, sources: list[Source], n_states: int, n_pairs: int) -> "KnownRows":
        """Join the known rows of all sources, one source after the other."""
        pairs = [np.flatnonzero(source.known) for source in sources]
        lengths = [len(known) for known in pairs]
        offsets = np.cumsum([0, *(source.rows.p.size for source in sources)])

        def joined(name: str) -> Any:
            return np.concatenate(
                [getattr(s.rows, name)[k] for s, k in zip(sources, pairs, strict=True)]
            )

        row_offsets = np.repeat(offsets[:-1], lengths)
        rows = distances.PlainRows(
            R=joined("R"),
            ends=joined("ends"),
            first=joined("first") + row_offsets,
            last=joined("last") + row_offsets,
            successors=np.concatenate([source.rows.successors for source in sources]),
            p=np.concatenate([source.rows.p for source in sources]),
        )
        linked = distances.LinkedRows(
            index=np.full((len(sources), n_pairs), -1),
            start=np.cumsum([0, *lengths]),
            row_pair=np.concatenate(pairs),
            rows=rows,
            owner=np.empty(offsets[-1], dtype=np.int64),
            into=np.full((len(sources), n_states), -1),
            next_into=np.empty(offsets[-1], dtype=np.int64),
        )
        graph = _graph(linked)
        dissimilarity.link_transitions(tuple(graph), linked.start, linked.row_pair)
        return cls(linked, graph)

    @classmethod
    def of_task(cls, model: Model, index: IntArray) -> "KnownRows":
        """Wrap the first looks at the current task: `index[k]` is k if known, else -1."""
        unused = np.empty(0, dtype=np.int64)
        linked = distances.LinkedRows(
            index=index,
            start=unused,
            row_pair=unused,
            rows=distances.PlainRows(
                model.R_1, model.ends_1, model.first_1, model.last_1, model.successors, model.p
            ),
            owner=model.owner,
            into=model.into_1,
            next_into=model.next_into_1,
        )
        return cls(linked, _graph(linked))


def _graph(linked: distances.LinkedRows) -> dissimilarity.Graph:
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


def plain_tuples(value: Any) -> Any:
    """Convert named tuples, nested ones too, to plain tuples."""
    return tuple(plain_tuples(item) for item in value) if isinstance(value, tuple) else value
