"""`explain`: where the values `Q` of an agent come from, in arrays and in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from heirloom.agents.certificate import certificate_text
from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.own_bounds import sources_used
from heirloom.arrays import BoolArray, FloatArray, IntArray, frozen
from heirloom.naming import NO_NAMES, Names, number_of
from heirloom.transfer.bound import Details, Dropped
from heirloom.wording import counted, counted_of, were

if TYPE_CHECKING:
    import xarray as xr

V_MAX = "v_max"
MODEL = "learned model"
NOT_DECLARED = "no certificate: agent.certificate() needs declared successors"
WIDTH = 100  # columns of the printed text


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Where `Q` comes from at each pair, how far it relies on the prior, and what is still unknown.

    It is a snapshot: the arrays are [s, a], read-only, and do not change when the agent learns.
    `print` shows a table and what it means for the behaviour of the agent.
    """

    names: tuple[str, ...]
    """Where a value may come from: `v_max`, each bound (and each of its sources, if the bound names
    them: a task, or several together), and the learned model."""
    decider: IntArray
    """Where `Q` comes from, as an index into `names`."""
    bound: IntArray
    """Where `U` comes from, as an index into `names`; it does not change once a pair is known."""
    Q: FloatArray
    U: FloatArray
    known: BoolArray
    counts: IntArray
    """The number of visits; those that were borrowed from other tasks, too."""
    to_explore: BoolArray
    """Unknown pairs that are greedy in a state that the agent has reached: it would choose them."""
    prior_used: dict[str, BoolArray]
    """For each source in use, by its name in `names`: the pairs where d_max is below D̂."""
    dropped: tuple[Dropped, ...]
    """The sources that were dropped in this task, and how many pairs were known at that time.

    No pair was known if the source was dropped at the beginning of the task.
    """
    knowledge_used: dict[str, BoolArray]
    """For each part of a nearness, such as "NearModels, rewards": the pairs whose bound uses it."""
    bound_notes: tuple[str, ...] = ()
    """When each bound is used and valid, if it depends on more than the claims."""
    checks: str = ""
    """How the knowledge is compared with what is learned, and whether that can detect anything."""
    certificate: str = ""
    """What `agent.certificate()` says with what the agent was created with, or why it has none."""
    available: BoolArray | None = None
    """The actions that exist, None for all. Missing ones are not counted anywhere."""

    pair_names: Names = NO_NAMES
    """The names of states and actions, as far as there are any."""
    task_names: Mapping[int, str] = field(default_factory=dict)
    """The number of each stored task with its label and time, such as "3 (Lyon, week 12)"."""

    @property
    def _exists(self) -> BoolArray:
        return np.ones_like(self.known) if self.available is None else self.available

    @property
    def state_names(self) -> tuple[str, ...] | None:
        """The names of the states; None if they have none."""
        return self.pair_names.states

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """The names of the actions; None if they have none."""
        return self.pair_names.actions

    @property
    def n_decided(self) -> dict[str, int]:
        """The number of pairs whose `Q` comes from each of `names`."""
        counts = np.bincount(self.decider[self._exists], minlength=len(self.names)).tolist()
        return dict(zip(self.names, counts, strict=True))

    @property
    def prior_use(self) -> dict[str, float]:
        """The share of pairs at which the prior was used, for each source in use."""
        return {name: float(used[self._exists].mean()) for name, used in self.prior_used.items()}

    def why(self, s: int | str, a: int | str) -> str:
        """Explain in one sentence where `Q` comes from at a pair, given by numbers or names."""
        n_states, n_actions = self.Q.shape
        s = number_of("s", s, n_states, self.state_names)
        a = number_of("a", a, n_actions, self.action_names)
        if not self._exists[s, a]:
            names = self.pair_names
            return f"action {names.action(a)} is not available in state {names.state(s)}"
        bound = self.names[self.bound[s, a]]
        used = [part for part, pairs in self._parts_of(bound).items() if pairs[s, a]]
        bound = V_MAX if bound == V_MAX else f"the upper bound from {bound!r}"
        if used:
            bound += f" (by its {' and '.join(used)})"
        state, action = self.pair_names.state(s), self.pair_names.action(a)
        value = f"Q({state}, {action}) = {self.Q[s, a]:.6g}"
        if not self.known[s, a]:
            return f"{value} is {bound}, because the pair is unknown (visits: {self.counts[s, a]})"
        if self.names[self.decider[s, a]] == MODEL:
            return f"{value} follows from the {MODEL}; {bound} is larger ({self.U[s, a]:.6g})"
        return f"{value} is {bound}, because the {MODEL} does not give a smaller value"

    def _parts_of(self, name: str) -> dict[str, BoolArray]:
        """Return the parts of a nearness that the bound `name` uses, each with its pairs."""
        of_bound = name.partition(", ")[0]
        split = {tuple(key.rsplit(", ", 1)): pairs for key, pairs in self.knowledge_used.items()}
        return {part: pairs for (bound, part), pairs in split.items() if bound == of_bound}

    def to_xarray(self) -> "xr.Dataset":
        """Return all arrays over pairs, with the dimensions `state` and `action`."""
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
        if self.available is not None:
            arrays["available"] = self.available
        dataset = xr.Dataset({name: (("state", "action"), a) for name, a in arrays.items()})
        if self.prior_used:
            dataset["prior_used"] = (
                ("source", "state", "action"),
                np.array(list(self.prior_used.values())),
            )
            dataset = dataset.assign_coords(source=list(self.prior_used))
        return dataset.assign_coords(
            state=np.arange(self.Q.shape[0]),
            action=np.arange(self.Q.shape[1]),
            **self.pair_names.coordinates(),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers mean for the behaviour of the agent, as printed below the table."""
        lines = (line[:1].upper() + line[1:] + "." for line in self.certificate.splitlines())
        return (*self._behaviour(), *self._exploration(), *lines, *self._transfer())

    def __repr__(self) -> str:
        wrapped = (
            fill(note, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
            for note in self.notes
        )
        return "\n".join([*self._table(), *wrapped])

    def _table(self) -> list[str]:
        """The number of pairs whose `Q` comes from each of `names`, known and unknown."""
        title = "Q(s, a) comes from"
        width = max(len(name) for name in (title, *self.names))
        lines = [f"{title:<{width}}  {'pairs':>9}  {'known':>9}  {'unknown':>9}"]
        rows = {name: (self.decider == i) & self._exists for i, name in enumerate(self.names)}
        rows["total"] = self._exists
        for name, pairs in rows.items():
            n, known = int(pairs.sum()), int((pairs & self.known).sum())
            lines.append(f"{name:<{width}}  {n:>9,}  {known:>9,}  {n - known:>9,}")
        return lines

    def _behaviour(self) -> list[str]:
        """What the values of unknown pairs mean for the actions of the agent."""
        unknown = ~self.known & self._exists
        n_unknown = int(unknown.sum())
        n_v_max = int((unknown & (self.decider == 0)).sum())
        notes = []
        if n_v_max:
            notes.append(
                f"Unknown pairs with Q = v_max, the largest possible value: {n_v_max:,}. The agent "
                "prefers them to all actions with a smaller Q, as RMax does."
            )
        if n_unknown > n_v_max:
            notes.append(
                f"Unknown pairs with an upper bound below v_max: {n_unknown - n_v_max:,}. The "
                "agent tries them only where no action has a larger Q."
            )
        return notes

    def _exploration(self) -> list[str]:
        """What the agent will still explore."""
        title = "Unknown pairs the agent would still choose"
        if not self.counts.any():
            return [f"{title}: not counted, because the agent has not taken a step in this task."]
        n = int(self.to_explore.sum())
        if n:
            return [f"{title}: {n:,}. It tries them when it returns to their states."]
        return [
            f"{title}: 0. It has stopped exploring, unless it reaches a new state. Its policy is "
            "guaranteed to be near-optimal only if the bounds are valid and n_known visits gave "
            "accurate models."
        ]

    def _transfer(self) -> list[str]:
        """How far the transferred bounds rely on the prior, and which sources were dropped."""
        notes = [
            f"{name}: the prior was used at {share:.1%} of pairs."
            for name, share in self.prior_use.items()
        ]
        if notes:
            notes.append(
                "At pairs where the prior was not used, the learned models gave a distance that is "
                "no larger. The higher the percentage, the more the bounds depend on the prior. "
                "They are valid only if the prior, given or learned, is an upper bound on the "
                "distance between the models of the tasks."
            )
        if self.knowledge_used:
            counts = (f"{int(x.sum()):,} ({name})" for name, x in self.knowledge_used.items())
            notes.append(
                "Pairs, known or not, whose upper bound U depends on a part of the nearness: "
                f"{', '.join(counts)}. These bounds are valid only if the nearness is true for the "
                "family."
            )
        if self.checks:
            notes.append(self.checks)
        return [
            *notes,
            *self.bound_notes,
            *(self._why_dropped(*dropped) for dropped in self.dropped),
        ]

    def _why_dropped(self, task: int, n_known: int) -> str:
        name = self.task_names.get(task, str(task))
        if n_known == 0:
            return (
                f"Source task {name} is not used, because with this prior it cannot lower a bound."
            )
        return (
            f"Source task {name} was dropped when "
            f"{counted_of(n_known, self._exists.sum(), 'pair')} {were(n_known)} known, because it "
            "could not lower the bounds any further."
        )


def explain(agent: OptimisticAgent) -> Explanation:
    """Return where the values `Q` of the current task, or between tasks of the last, come from."""
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
            _name(agent, i, task): frozen(used.reshape(shape))
            for i, detail in enumerate(details)
            for task, used in detail.prior_used.items()
        },
        dropped=tuple(dropped for detail in details for dropped in detail.dropped),
        knowledge_used={
            f"{_name(agent, i)}, {part}": frozen(used.reshape(shape))
            for i, detail in enumerate(details)
            for part, used in detail.knowledge_used.items()
        },
        bound_notes=tuple(
            f"{_name(agent, i)}: {note}"
            for i, detail in enumerate(details)
            for note in detail.notes
        ),
        checks=_checks(agent),
        certificate=certificate_text(agent) or NOT_DECLARED,
        available=None if agent.task.missing is None else frozen(agent.model.available.copy()),
        pair_names=agent.memory.names,
        task_names={source.task: source.name for source in agent.memory.sources},
    )


def _checks(agent: OptimisticAgent) -> str:
    """Say whether the pairs that become known are compared with the knowledge of the agent."""
    refutation, watch = agent.refutation, agent.task.watch
    if refutation.warned:
        return "The knowledge was refuted: the bounds that rest on it may be invalid."
    if refutation.n_widened:
        return (
            f"The knowledge was refuted and widened {counted(refutation.n_widened, 'time')} so far."
        )
    if watch is None or watch.n_sources == 0:
        return ""
    if watch.blind:
        return (
            f"With n_known = {agent.n_known}, no single pair can contradict the claimed "
            "differences, because the confidence radii of the models are too large. The pooled "
            "test of all pairs, at the end of tasks 2, 4, 8, ..., and excluded successors can. Use "
            "a larger n_known; if tasks are deterministic, use exact=True."
        )
    return "Pairs that become known are compared with the knowledge; nothing contradicts it so far."


def _bounds(agent: OptimisticAgent, details: list[Details]) -> tuple[list[str], IntArray]:
    """Return the possible origins of `U`, and the index of the origin at each pair, [s, a]."""
    names, index = [V_MAX], np.zeros((agent.n_states, agent.n_actions), dtype=np.int64)
    for i, bound in enumerate(agent.bounds):
        is_minimum = agent.decider == i + 1
        source = sources_used(bound, index.size).reshape(index.shape)
        pairs_by_name = {
            _name(agent, i, task): is_minimum & (source == task) for task in details[i].sources
        }
        without_source = is_minimum & ~np.isin(source, details[i].sources)
        if not pairs_by_name or without_source.any():
            pairs_by_name[_name(agent, i)] = without_source
        for name, pairs in pairs_by_name.items():
            index[pairs] = len(names)
            names.append(name)
    return names, index


def _name(agent: OptimisticAgent, i: int, task: int | None = None) -> str:
    """Unique name of the bound i, or of the part of it that comes from a source."""
    name = type(agent.bounds[i]).__name__
    if [type(bound).__name__ for bound in agent.bounds].count(name) > 1:
        name += f" {i + 1}"
    return name if task is None else f"{name}, {agent.memory.source_name(task)}"
