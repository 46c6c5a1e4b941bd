"""Why an agent's `Q` is what it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.transfer.bound import Details, Dropped
from heirloom.validation import whole_number

if TYPE_CHECKING:
    import xarray as xr

MODEL = "learned model"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Which bound and which source decides at each pair, and what is still to explore.

    It is a snapshot: arrays are [s, a], read-only, and do not follow the agent. Printed, it is a
    table.
    """

    names: tuple[str, ...]
    """What may decide: `v_max`, the bounds, for `Lipschitz` each source, and the learned model."""
    decider: IntArray
    """What decides `Q`, as a place in `names`."""
    bound: IntArray
    """What decides `U`, as a place in `names`; where a pair is known, did when it became so."""
    Q: FloatArray
    U: FloatArray
    known: BoolArray
    counts: IntArray
    """Visits that counted."""
    to_explore: BoolArray
    """Unknown pairs that are greedy in a state that was reached: what would be tried there."""
    prior_used: dict[str, BoolArray]
    """By the name of each source in use: where the prior is below D̂, strictly."""
    dropped: tuple[Dropped, ...]
    """The sources that were dropped in this task, and how many pairs were known then."""

    @property
    def n_decided(self) -> dict[str, int]:
        """How many pairs each decides."""
        number = np.bincount(self.decider.reshape(-1), minlength=len(self.names)).tolist()
        return dict(zip(self.names, number, strict=True))

    @property
    def prior_use(self) -> dict[str, float]:
        """By the name of each source in use: at what part of the pairs the prior decides."""
        return {name: float(where.mean()) for name, where in self.prior_used.items()}

    def why(self, s: int, a: int) -> str:
        """What decides at a pair, in a sentence."""
        n_states, n_actions = self.Q.shape
        s = whole_number("s", s, least=0, most=n_states - 1)
        a = whole_number("a", a, least=0, most=n_actions - 1)
        bound, what = self.names[self.bound[s, a]], self.names[self.decider[s, a]]
        if not self.known[s, a]:
            sentence = f"Q({s}, {a}) = {self.Q[s, a]:.6g} is the bound of {what}: "
            return sentence + f"the pair is unknown, with {self.counts[s, a]} visits"
        if what == MODEL:
            return f"Q({s}, {a}) = {self.Q[s, a]:.6g} follows from the {MODEL} (U is {bound}'s)"
        return f"Q({s}, {a}) = {self.Q[s, a]:.6g} is the bound of {what}, below the {MODEL}'s value"

    def to_xarray(self) -> "xr.Dataset":
        """All arrays over pairs, with the dimensions `state` and `action`."""
        import xarray as xr

        names = np.array(self.names, dtype=object)
        arrays = {
            "Q": self.Q,
            "U": self.U,
            "known": self.known,
            "counts": self.counts,
            "to_explore": self.to_explore,
            "decider": names[self.decider],
            "bound": names[self.bound],
        }
        dataset = xr.Dataset({name: (("state", "action"), a) for name, a in arrays.items()})
        if self.prior_used:
            dataset["prior_used"] = (
                ("source", "state", "action"),
                np.array(list(self.prior_used.values())),
            )
            dataset = dataset.assign_coords(source=list(self.prior_used))
        return dataset.assign_coords(
            state=np.arange(self.Q.shape[0]), action=np.arange(self.Q.shape[1])
        )

    def __repr__(self) -> str:
        number = self.n_decided
        width = max(len(name) for name in ("decided by", *self.names))
        lines = [f"{'decided by':<{width}}  {'pairs':>9}  {'known':>9}  {'unknown':>9}"]
        for i, name in enumerate(self.names):
            known = int((self.known & (self.decider == i)).sum())
            n = number[name]
            lines.append(f"{name:<{width}}  {n:>9,}  {known:>9,}  {n - known:>9,}")
        known = int(self.known.sum())
        n = self.known.size
        lines.append(f"{'all':<{width}}  {n:>9,}  {known:>9,}  {n - known:>9,}")
        lines.append(
            f"still to explore: {int(self.to_explore.sum()):,} unknown pairs are greedy in a "
            "state that was reached"
            if self.counts.any()
            else "still to explore: everything, no state was reached yet"
        )
        for name, part in self.prior_use.items():
            lines.append(f"{name}: the prior decides the distance at {part:.1%} of pairs")
        for task, n_known in self.dropped:
            lines.append(f"task {task} was dropped when {n_known:,} pairs were known")
        return "\n".join(lines)


def explain(agent: OptimisticAgent) -> Explanation:
    """A snapshot of the task at hand, or of the last one."""
    shape = agent.n_states, agent.n_actions
    Q, U, known = agent.Q.copy(), agent.U.copy(), agent.known.copy()
    details = [bound.details() for bound in agent.bounds]
    names, bound = _bounds(agent, details)
    arrays = (
        np.where(Q < U, len(names), bound),
        bound,
        Q,
        U,
        known,
        agent.model.counts.copy(),
        ~known & agent.greedy & agent.model.reached[:, None],
    )
    for array in arrays:
        frozen(array)
    return Explanation(
        (*names, MODEL),
        *arrays,
        prior_used={
            _name(agent, i, task): frozen(where.reshape(shape))
            for i, one in enumerate(details)
            for task, where in one.prior_used.items()
        },
        dropped=tuple(dropped for one in details for dropped in one.dropped),
    )


def _bounds(agent: OptimisticAgent, details: list[Details]) -> tuple[list[str], IntArray]:
    """What may decide `U`, and which of them does, [s, a]."""
    names, place = ["v_max"], np.zeros((agent.n_states, agent.n_actions), dtype=np.int64)
    for i, bound in enumerate(agent.bounds):
        here = agent.decider == i + 1
        source = bound.sources_used().reshape(place.shape)
        deciders = {_name(agent, i, task): here & (source == task) for task in details[i].sources}
        if not deciders:
            deciders = {_name(agent, i): here}
        for name, where in deciders.items():
            place[where] = len(names)
            names.append(name)
    return names, place


def _name(agent: OptimisticAgent, i: int, task: int | None = None) -> str:
    """A bound, told apart from others of its kind, and a source of it."""
    name = type(agent.bounds[i]).__name__
    if [type(bound).__name__ for bound in agent.bounds].count(name) > 1:
        name += f" {i + 1}"
    return name if task is None else f"{name}, task {task}"
