"""`learn_from_log`: an agent learns tasks from a table of recorded steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heirloom.agents.optimistic import OptimisticAgent
from heirloom.agents.protocol import Agent, memory_of
from heirloom.arrays import BoolArray, FloatArray, IntArray
from heirloom.errors import InvalidArgument, missing
from heirloom.learning.outcomes import read_existing, takes
from heirloom.learning.plan import check_agent
from heirloom.naming import LONGEST_LABEL, NO_NAMES, shortened
from heirloom.transfer.setting import Setting
from heirloom.validation import LARGEST_REWARD, float_or_nan, shown
from heirloom.wording import counted, counted_of, did_you_mean, reason, were

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "1", "1.0"), 1),
    **dict.fromkeys(("false", "f", "no", "0", "0.0"), 0),
}
ROUNDING = 1e-6  # relative error of rewards, such as that of 32 bits, that is rounded to the range
MOST_SHOWN = 5  # rows of a problem


class Problem(NamedTuple):
    """Rows of a log with the same problem."""

    what: str
    n: int
    """How many rows have it."""
    rows: tuple[int, ...]
    """The first of them, counted from 0 as in `table.iloc`."""
    left_out: bool
    """Whether these rows were left out."""

    def __str__(self) -> str:
        more = ", ..." if self.n > len(self.rows) else ""
        rows = f"{'row' if self.n == 1 else 'rows'} {', '.join(map(str, self.rows))}{more}"
        return f"{self.what}: {self.n:,} ({rows}), {'left out' if self.left_out else 'kept'}"


@dataclass(frozen=True, repr=False)
class LogReport:
    """What an agent has learned from a log, and the rows that had a problem."""

    n_rows: int
    n_used: int
    """The number of rows that the agent has observed."""
    tasks: dict[str, int]
    """The number of rows of each task that the agent has observed, in the order of tasks."""
    lost: tuple[str, ...]
    """The tasks of which no row could be used: the others are a selection."""
    n_visited: int
    """The number of state-action pairs that the log has visited."""
    n_pairs: int
    """The number of all pairs that exist."""
    problems: tuple[Problem, ...]

    def __repr__(self) -> str:
        lines = [
            f"{counted_of(self.n_used, self.n_rows, 'row')} of the log {were(self.n_rows)} "
            f"observed, in {counted(len(self.tasks), 'task')}; "
            f"{counted_of(self.n_visited, self.n_pairs, 'pair')} {were(self.n_pairs)} visited."
        ]
        lines += [f"- {problem}" for problem in self.problems]
        if self.lost:
            lost = ", ".join(shortened(label) for label in self.lost[:MOST_SHOWN])
            lines.append(
                f"- tasks without a usable row: {len(self.lost):,} ({lost}), left out; the others "
                "are a selection"
            )
        return "\n".join(lines)


def learn_from_log(
    agent: Agent,
    table: "pd.DataFrame | str | Path",
    *,
    state: str = "state",
    action: str = "action",
    reward: str = "reward",
    next_state: str | None = "next_state",
    terminated: str | None = "terminated",
    episode: str | None = None,
    task: str | None = None,
    available: ArrayLike | None = None,
) -> LogReport:
    """Let an agent observe the steps of a log: begin each task, observe its rows, and end it.

    The agent learns as from steps of its own, and its memory keeps the tasks as sources. It does
    not matter which rule chose the actions. What that rule never tried stays unknown: an agent
    that explores what it does not know then begins with these pairs, which can lower the return of
    its first episodes.

    Rows that cannot be read are left out and counted in the report, which `print` shows. Rows that
    are left out *because of their outcome*, such as rewards outside of the range, make the rest a
    selection, and what is learned from it is biased; a task that is lost makes a selection of
    tasks, and the memory counts it as dropped. Rewards that are outside of the range by rounding
    only are moved to its end.

    Args:
        agent: the agent, which has not begun a task.
        table: a pandas table, or the path of a CSV or Parquet file. Its rows are steps in the order
            of time.
        state: the column of states: their numbers, or their names if the agent has any
            (`agent.memory.set_names`).
        action: the column of actions, likewise.
        reward: the column of rewards.
        next_state: the column of the states that follow. None takes the state of the next row of
            the episode; the last row of an episode that did not terminate is then left out.
        terminated: the column that says whether the step ended the task's episode for good, not by
            a time limit: booleans, 1 and 0, or texts such as "true" and "no". None if no step did.
        episode: the column that identifies episodes. Without it, all rows between two terminations
            are one episode.
        task: the column that identifies tasks, whose values become their labels. Tasks are learned
            in the order of their first rows. Without it, the log is one task.
        available: the actions that exist in all tasks of the log, booleans [s, a]; None for all. If
            they differ between tasks, call the function for one task after the other.

    Raises `InvalidArgument` if a column is missing or no row is left. The agent has not begun a
    task then.
    """
    check_agent(agent)
    frame = _read(table)
    columns = {
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": next_state,
        "terminated": terminated,
        "episode": episode,
        "task": task,
    }
    twice = frame.columns[frame.columns.duplicated()]
    for name, column in columns.items():
        is_name = isinstance(column, str | int)
        if is_name and column in twice:
            raise InvalidArgument(f"{name} is {shown(column)}, the name of two columns: rename one")
        is_label = is_name and column in frame.columns
        if not is_label and (column is not None or name in ("state", "action", "reward")):
            is_index = is_name and column in frame.index.names
            optional = "" if name in ("state", "action", "reward") else ", or None"
            raise InvalidArgument(
                f"{name} is {shown(column)}, which is no column of the table: expected one of "
                f"{', '.join(map(repr, frame.columns))}{optional}"
                f"{did_you_mean(column, map(str, frame.columns))}"
                f"{'; table.reset_index() has it' if is_index else ''}"
            )
    log = _Log(agent, frame, columns, available)
    if not log.used.any():
        found = "; ".join(map(str, log.problems)) or "it has no rows"
        raise InvalidArgument(f"no row of the log can be used: {found}.{log.remedy}")
    return log.learn()


def _read(table: "pd.DataFrame | str | Path") -> "pd.DataFrame":
    import pandas as pd

    if isinstance(table, str | Path):
        try:
            if Path(table).suffix == ".parquet":
                return pd.read_parquet(table)
            return pd.read_csv(table, low_memory=False)  # each column has one type
        except ImportError:
            raise missing("reading Parquet files", "export") from None
        except (OSError, ValueError) as error:  # those of pandas and pyarrow are ValueErrors
            raise InvalidArgument(f"table is {shown(table)}: {reason(error)}") from error
    if not isinstance(table, pd.DataFrame):
        raise InvalidArgument(
            f"table is {shown(table)}: expected a pandas table, such as pandas.DataFrame(rows), or "
            "the path of a CSV or Parquet file"
        )
    return table


class _Log:
    """The rows of a table, read for one agent."""

    def __init__(
        self,
        agent: Any,
        frame: "pd.DataFrame",
        columns: dict[str, Any],
        available: ArrayLike | None,
    ) -> None:
        self.agent, self.n_rows, self.options = agent, len(frame), {}
        exists = np.ones((agent.n_states, agent.n_actions), dtype=bool)
        if available is not None:
            exists = read_existing(available, *exists.shape)
            self.options = {"available": exists}
        self.used = np.ones(self.n_rows, dtype=bool)
        self.problems: list[Problem] = []
        self.remedy = ""
        given = {key: None if name is None else frame[name] for key, name in columns.items()}
        self.has_episodes = given["episode"] is not None
        memory, (n_states, n_actions) = memory_of(agent), exists.shape
        names = NO_NAMES if memory is None else memory.names
        unplaced = np.zeros(self.n_rows, dtype=bool)
        for key in ("task", "episode"):
            column = given[key]
            if column is not None:
                is_missing = column.isna().to_numpy()
                self._note(f"{key} is missing", is_missing)
                unplaced |= is_missing
        self.gap = np.cumsum(unplaced)
        """The number of earlier rows that may belong to any episode."""
        self.ended = self._flags(given["terminated"])
        self.task, self.labels = _numbered(given["task"], self.n_rows)
        self.episode = self._episodes(given["episode"])
        self.s = self._numbers("state", given["state"], n_states, names.states)
        self.a = self._numbers("action", given["action"], n_actions, names.actions)
        self.r = self._rewards(given["reward"])
        self.s_next = self._next_states(given["next_state"], n_states, names.states)
        self._note("action is not available in the state", ~exists[self.s, self.a])
        self.n_pairs = int(exists.sum())

    def _note(self, what: str, rows: BoolArray, *, left_out: bool = True) -> None:
        """Take note of rows that have a problem, unless they were left out before."""
        rows = rows & self.used
        if rows.any():
            first = tuple(int(row) for row in np.flatnonzero(rows)[:MOST_SHOWN])
            self.problems.append(Problem(what, int(rows.sum()), first, left_out))
            self.used &= ~(rows & left_out)

    def _read(
        self,
        name: str,
        column: "pd.Series",
        value_of: Callable[[Any], int],
        expected: str,
        needed: BoolArray | None = None,
    ) -> IntArray:
        """Return the numbers that values stand for, -1 where there is none."""
        needed = self.used if needed is None else needed
        codes, values = _factorized(column)
        numbers = np.array([*map(value_of, values), -1], dtype=np.int64)[codes]
        self._note(f"{name} is missing", needed & (codes < 0))
        unknown = needed & self.used & (numbers < 0)
        if unknown.any():
            example = shown(values[codes[unknown.argmax()]])
            self._note(f"{name} is {expected} (but {example})", unknown)
        return numbers

    def _numbers(
        self,
        name: str,
        column: "pd.Series",
        size: int,
        names: tuple[str, ...] | None,
        needed: BoolArray | None = None,
    ) -> IntArray:
        """Return the numbers of states or actions, -1 where they cannot be read."""
        known = {each: i for i, each in enumerate(names or ())}
        or_name = "" if names is None else f", or a name such as {shortened(names[0])!r}"
        expected = f"no number from 0 to {size - 1}{or_name}"
        read = self._read(name, column, lambda x: _number(name, x, size, known), expected, needed)
        if names is None and (read < 0).all() and any(isinstance(x, str) for x in column.iloc[:1]):
            self.remedy = " Give the agent the names first: agent.memory.set_names(...)"
        return read

    def _flags(self, column: "pd.Series | None") -> BoolArray:
        """Return which rows terminated."""
        if column is None:
            return np.zeros(self.n_rows, dtype=bool)
        ended = self._read(
            "terminated",
            column,
            lambda value: FLAGS.get(str(value).strip().lower(), -1),
            "neither true nor false",
        )
        setting = getattr(self.agent, "setting", None)
        if isinstance(setting, Setting) and not setting.terminating:
            self._note("terminated, although the agent has terminating=False", ended == 1)
        return ended == 1

    def _episodes(self, column: "pd.Series | None") -> IntArray:
        """Return the number of the episode of each row; tasks have different ones."""
        if column is not None:
            numbers, _ = _numbered(column, self.n_rows)
        else:  # the row after one that terminated begins an episode
            numbers = np.zeros(self.n_rows, dtype=np.int64)
            for rows in _groups(self.task):
                numbers[rows[1:]] = np.cumsum(self.ended[rows[:-1]])
        return self.task * (int(numbers.max(initial=0)) + 1) + numbers

    def _rewards(self, column: "pd.Series") -> FloatArray:
        """Return the rewards; those outside of the range of the agent are left out."""
        import pandas as pd

        r: FloatArray = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        self._note("reward is missing", column.isna().to_numpy())
        lo, hi = -LARGEST_REWARD, LARGEST_REWARD
        wrong = self.used & ~((lo <= r) & (r <= hi))
        if wrong.any():
            example = shown(column.iloc[int(wrong.argmax())])
            self._note(f"reward is no finite number (but {example})", wrong)
        setting = getattr(self.agent, "setting", None)
        if isinstance(setting, Setting):
            lo, hi = setting.reward_range
            rounding = ROUNDING * max(hi - lo, abs(lo), abs(hi))
            r = np.where((lo - rounding <= r) & (r <= hi + rounding), np.clip(r, lo, hi), r)
            outside = self.used & ~((lo <= r) & (r <= hi))
            if outside.any():
                seen = f"from {r[outside].min():g} to {r[outside].max():g}"
                self._note(f"reward is outside the reward_range ({lo:g}, {hi:g}): {seen}", outside)
        return r

    def _next_states(
        self, column: "pd.Series | None", size: int, names: tuple[str, ...] | None
    ) -> IntArray:
        """Return the next states; that of a row that terminated is not used."""
        following = np.full(self.n_rows, -1)  # the state in the next row of the episode, if known
        for rows in _groups(self.episode):
            known = self.gap[rows[1:]] == self.gap[rows[:-1]]
            following[rows[:-1]] = np.where(known, self.s[rows[1:]], -1)
        if column is None:
            self._note(
                "next_state is None, and no row says what followed",
                ~self.ended & (following < 0),
            )
            return np.where(self.ended, self.s, following)
        s_next = self._numbers("next_state", column, size, names, ~self.ended)
        broken = ~self.ended & (following >= 0) & (s_next != following)
        cut = "" if self.has_episodes else "; give episode if a time limit ends episodes"
        self._note(f"next_state is not the state of the next row{cut}", broken, left_out=False)
        return np.where(self.ended, self.s, s_next)

    def learn(self) -> LogReport:
        """Let the agent observe the rows, task by task and episode by episode."""
        agent, used = self.agent, np.flatnonzero(self.used)
        labelled = takes(agent.end_task, "label")
        observe = agent.observe
        begin_episode = getattr(agent, "begin_episode", None)
        n_rows: dict[str, int] = {}
        # The first row of an episode counts, also if it is left out because of its outcome.
        starts = {self.episode[rows[0]]: self.s[rows[0]] for rows in _groups(self.episode)}
        for task in _groups(self.task[used]):
            agent.begin_task(**self.options)
            for rows in _groups(self.episode[used[task]]):
                rows = used[task[rows]]
                if begin_episode is not None:
                    begin_episode()
                start = starts[self.episode[rows[0]]]
                if isinstance(agent, OptimisticAgent) and self.has_episodes and start >= 0:
                    agent.task.start_at(int(start))
                columns = (self.s, self.a, self.r, self.s_next, self.ended)
                steps = zip(*(column[rows].tolist() for column in columns), strict=True)
                for s, a, r, s_next, ended in steps:
                    observe(s, a, r, s_next, terminated=ended)
            label = self.labels[self.task[used[task[0]]]]
            agent.end_task(**({"label": label} if label and labelled else {}))
            key = label or f"task {len(n_rows) + 1}"
            n_rows[key if key not in n_rows else f"{key} [{len(n_rows) + 1}]"] = task.size
        visited = np.unique(self.s[used] * agent.n_actions + self.a[used]).size
        lost = set(range(len(self.labels) - 1)) - set(self.task[used].tolist())
        memory = memory_of(agent)
        if memory is not None:
            memory.n_dropped += len(lost)  # the tasks in the memory are a selection
        return LogReport(
            n_rows=self.n_rows,
            n_used=used.size,
            tasks=n_rows,
            lost=tuple(self.labels[task] for task in sorted(lost)),
            n_visited=visited,
            n_pairs=self.n_pairs,
            problems=tuple(self.problems),
        )


def _numbered(column: "pd.Series | None", n_rows: int) -> tuple[IntArray, list[str]]:
    """Return the number of the value of each row, in the order of first rows, and the values."""
    if column is None:
        return np.zeros(n_rows, dtype=np.int64), ["", ""]
    codes, values = _factorized(column)
    if column.dtype.kind == "f":  # of whole numbers, if some are missing
        values = [int(x) if float(x).is_integer() else x for x in values]
    labels = [str(value)[:LONGEST_LABEL] for value in values]
    return np.where(codes < 0, len(labels), codes), [*labels, ""]  # what is missing is apart


def _groups(numbers: IntArray) -> list[IntArray]:
    """Return the places of each number, in the order of first places."""
    _, first, group = np.unique(numbers, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[group]
    order = np.argsort(place, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if numbers.size else []


def _factorized(column: "pd.Series") -> tuple[IntArray, list[Any]]:
    """Return the number of the value of each row, -1 if it is missing, and the values."""
    try:
        codes, values = column.factorize()
    except TypeError:  # a list, for example
        raise InvalidArgument(
            f"the column {column.name!r} has values such as {shown(column.iloc[0])}: expected "
            "numbers or texts"
        ) from None
    return codes, list(values)


def _number(name: str, value: object, size: int, names: Mapping[str, int]) -> int:
    """Return the number of a state or action that is given by its number or name; -1 for no one."""
    if isinstance(value, str):
        if value in names:
            return names[value]
        try:  # one text in a file makes pandas read the whole column as texts
            value = float(value)
        except ValueError:
            return -1
    number = float_or_nan(value)
    if isinstance(value, bool | np.bool_) or not number.is_integer() or not 0 <= number < size:
        return -1
    text = f"{number:.0f}"
    if names.get(text, number) != number:
        raise InvalidArgument(
            f"{name} is {text} in the log, which is a number and the name of another {name}: read "
            "the column as text to give names (dtype=str), or rename"
        )
    return int(number)
