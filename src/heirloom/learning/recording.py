"""`Recording`: chosen episodes of a task (`RecordChoice`), and what the agent knew in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from heirloom.arrays import FloatArray, IntArray, frozen
from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.mdp.scene import STYLES, Scene
from heirloom.naming import with_name
from heirloom.storage import archive
from heirloom.storage.archive import Content, take
from heirloom.validation import LARGEST_SIZE, index, one_of, shown, whole_number
from heirloom.wording import counted, counted_of

MOST_STEPS = 10_000
"""Steps of an episode that are recorded; later steps of a longer episode are not."""
MOST_BYTES = 2**28
"""The largest size that the recordings of one job, or of one call of `learn`, may reach."""
BYTES_PER_STEP = 18
BYTES_PER_PAIR = 27  # of a snapshot in which everything changes


@dataclass(frozen=True)
class RecordChoice:
    """Which episodes of a task are recorded, and after which other updates a snapshot is taken.

    Args:
        first: the number of episodes at the beginning of the task.
        last: the number of episodes at its end.
        every: records every k-th episode too: k, 2k, 3k, ....
        updates: takes a snapshot whenever k more pairs have become known, too. In recorded
            episodes, there is one after every change of the model.
    """

    first: int = 3
    last: int = 1
    every: int | None = None
    updates: int | None = None

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            value = whole_number(f"record.{name}", getattr(self, name), least=0, most=LARGEST_SIZE)
            self.__dict__[name] = value
        for name in ("every", "updates"):
            if getattr(self, name) is not None:
                self.__dict__[name] = whole_number(f"record.{name}", getattr(self, name))

    @classmethod
    def read(cls, given: object) -> "Self | None":
        """Return the choice that the argument `record` of `learn` describes; None for nothing."""
        names = [field.name for field in fields(cls)]
        if given is None or given is False:
            return None
        if given is True:
            return cls()
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping) or not all(name in names for name in given):
            raise InvalidArgument(
                f"record is {shown(given)}: expected True, or a dictionary with some of the keys "
                f"{', '.join(names)}, as in {{'first': 3, 'every': 100}}"
            )
        return cls(**given)

    def episodes(self, n: int) -> IntArray:
        """Return the chosen ones of `n` episodes, as increasing indices from 0."""
        chosen = [np.arange(min(self.first, n)), np.arange(max(0, n - self.last), n)]
        if self.every is not None:
            chosen.append(np.arange(self.every - 1, n, self.every))
        return np.unique(np.concatenate(chosen))

    def most_bytes(self, *, episodes: int, steps: int | None, n_pairs: int) -> int:
        """Return a number of bytes that the recording of one task never exceeds."""
        chosen = self._most_episodes(episodes)
        frames = chosen * (1 + min(MOST_STEPS, steps or MOST_STEPS))
        # Each pair becomes known at most once; other agents are recorded before and after episodes.
        snapshots = 2 * chosen + frames + n_pairs // (self.updates or n_pairs + 1)
        return frames * BYTES_PER_STEP + snapshots * (BYTES_PER_PAIR * n_pairs + 40)

    def check_size(self, *, episodes: int, steps: int | None, n_pairs: int, tasks: int = 1) -> None:
        """Raise `InvalidArgument` if the recordings of `tasks` tasks may become too large."""
        size = tasks * self.most_bytes(episodes=episodes, steps=steps, n_pairs=n_pairs)
        if size > MOST_BYTES:
            raise InvalidArgument(
                f"record may keep up to {size / 1e6:,.0f} MB "
                f"({counted(self._most_episodes(episodes), 'episode')} in each of "
                f"{counted(tasks, 'task')} with {counted(n_pairs, 'pair')}): expected at most "
                f"{MOST_BYTES / 1e6:,.0f} MB; record fewer episodes, updates or tasks"
            )

    def _most_episodes(self, n: int) -> int:
        every = 0 if self.every is None else n // self.every
        return min(n, min(self.first, n) + min(self.last, n) + every)


KIND = "recording"
LAYERS = {"Q": "f4", "U": "f4", "known": "bool", "decided": "i2"}
"""The arrays over pairs of a snapshot, and their types in a recording."""


class Changes(NamedTuple):
    """An array over pairs at several times: only the entries that changed from time to time.

    Before the first snapshot, all entries are 0. The changes of snapshot i are
    `pairs[ends[i - 1] : ends[i]]` and the same part of `values`.
    """

    ends: IntArray
    pairs: IntArray
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Recording:
    """Chosen episodes of a task, and snapshots of the agent's knowledge.

    An episode of n steps has n + 1 frames: one per step, with the state, the action and the reward,
    and one for the last state, whose action is -1. Frames of episode i are those from `starts[i]`
    to `starts[i + 1]`.
    """

    agent: str
    repetition: int
    """The number of the repetition, from 1."""
    task: int
    """The number of the task among those of the agent, from 1."""
    n_states: int
    n_actions: int
    n_episodes: int
    """The number of episodes of the task, recorded or not."""
    v_max: float | None
    """The upper bound on all values; None if the agent has none."""
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    scene: Scene | None
    deciders: tuple[str, ...]
    """What the numbers in the layer `decided` mean: `v_max`, or a bound and its source task."""
    episodes: IntArray
    """The numbers of the recorded episodes, from 1."""
    terminated: np.ndarray
    """Whether each of them terminated; otherwise it was truncated."""
    first_steps: IntArray
    """The number of time steps of the task before each of them."""
    starts: IntArray
    states: IntArray
    actions: IntArray
    rewards: FloatArray
    snapshots: IntArray
    """For each frame, the last snapshot before its action, as an index."""
    snapshot_steps: IntArray
    """For each snapshot, the number of time steps of the task before it."""
    update_steps: IntArray
    """The time steps after which the agent updated its model, in the whole task."""
    layers: dict[str, Changes]
    """`Q`, `U`, `known` and `decided` at the snapshots, as far as the agent has them."""
    label: str = ""
    """The label and the time of the task, such as "Lyon, week 12"; empty if it has neither."""
    certificate: str = ""
    """The certificate at the end of the task, or why there is none; empty without successors."""

    def layer(self, name: str, snapshot: int) -> np.ndarray:
        """Return `Q`, `U`, `known` or `decided` at a snapshot, given by its index, [s, a]."""
        changes = self.layers[one_of("name", name, self.layers)]
        snapshot = index("snapshot", snapshot, self.snapshot_steps.size)
        array = np.zeros(self.n_states * self.n_actions, dtype=changes.values.dtype)
        end = changes.ends[snapshot]
        array[changes.pairs[:end]] = changes.values[:end]  # the last assignment counts
        return array.reshape(self.n_states, self.n_actions)

    def __repr__(self) -> str:
        task = with_name(self.task, self.label)
        who = f"{self.agent}, repetition {self.repetition}, task {task}"
        n_steps = self.states.size - self.episodes.size
        return (
            f"Recording({who}: {counted_of(self.episodes.size, self.n_episodes, 'episode')}, "
            f"{counted(n_steps, 'step')}, {counted(self.snapshot_steps.size, 'snapshot')})"
        )


ARRAYS = {
    "episodes": "i8",
    "terminated": "bool",
    "first_steps": "i8",
    "starts": "i8",
    "states": "i4",
    "actions": "i2",
    "rewards": "f8",
    "snapshots": "i4",
    "snapshot_steps": "i8",
    "update_steps": "i8",
}
FIELDS = (
    *("agent", "repetition", "task", "n_states", "n_actions", "n_episodes", "v_max"),
    *("state_names", "action_names", "deciders"),
)
TEXTS = ("label", "certificate")  # absent from a file if they are empty


def encode(recordings: Sequence[Recording]) -> np.ndarray:
    """Return recordings as the bytes of one file, an array of the type uint8; empty for none."""
    if not recordings:
        return np.empty(0, dtype=np.uint8)
    headers, arrays = [], {}
    for i, r in enumerate(recordings):
        header = {name: getattr(r, name) for name in FIELDS}
        scene = None if r.scene is None else [r.scene.style, list(r.scene.cells)]
        texts = {name: getattr(r, name) for name in TEXTS if getattr(r, name)}
        headers.append({**header, **texts, "scene": scene, "layers": list(r.layers)})
        for name in ARRAYS:
            arrays[f"{i}_{name}"] = getattr(r, name)
        for name, changes in r.layers.items():
            for part in Changes._fields:
                arrays[f"{i}_{name}_{part}"] = getattr(changes, part)
    data = archive.encode(KIND, Content({"recordings": headers}, arrays))
    return np.frombuffer(data, dtype=np.uint8)


def decode(data: bytes, where: str) -> list[Recording]:
    """Return the recordings that `encode` wrote; raise `InvalidFile` unless they are intact."""
    if not data:
        return []
    content = archive.decode(data, KIND, where)
    with archive.parsing(where, KIND):
        return [
            _decoded(header, content.arrays, f"{i}_")
            for i, header in enumerate(content.header["recordings"])
        ]


def _decoded(header: dict[str, Any], arrays: dict[str, np.ndarray], prefix: str) -> Recording:
    own = {name: take(arrays, prefix + name, dtype, (-1,)) for name, dtype in ARRAYS.items()}
    fields = {name: header[name] for name in FIELDS}
    for name in ("state_names", "action_names", "deciders"):
        fields[name] = None if fields[name] is None else tuple(str(n) for n in fields[name])
    scene = None if header["scene"] is None else Scene(header["scene"][0], (*header["scene"][1],))
    layers = {}
    for name in header["layers"]:
        types = ("i8", "i4", LAYERS[name])
        layers[name] = Changes(
            *(
                take(arrays, f"{prefix}{name}_{part}", dtype, (-1,))
                for part, dtype in zip(Changes._fields, types, strict=True)
            )
        )
    texts: dict[str, Any] = {name: str(header.get(name, "")) for name in TEXTS}
    recording = Recording(**fields, scene=scene, **own, layers=layers, **texts)
    _check(recording)
    return recording


def _check(r: Recording) -> None:
    """Raise `InvalidFile` if an index of a recording is out of range."""
    frames, n_snapshots, n_pairs = r.states.size, r.snapshot_steps.size, r.n_states * r.n_actions
    ranges = {
        "states": (r.states, 0, r.n_states),
        "actions": (r.actions, -1, r.n_actions),
        "snapshots": (r.snapshots, 0, n_snapshots),
        "starts": (r.starts, 0, frames + 1),
    }
    for name, changes in r.layers.items():
        ranges[f"{name}_ends"] = (changes.ends, 0, changes.pairs.size + 1)
        ranges[f"{name}_pairs"] = (changes.pairs, 0, n_pairs)
        if changes.ends.size != n_snapshots or changes.values.size != changes.pairs.size:
            raise InvalidFile(f"the layer {name!r} does not fit the snapshots")
    if "decided" in r.layers:
        ranges["decided"] = (r.layers["decided"].values, 0, len(r.deciders))
    for name, (array, least, end) in ranges.items():
        if array.size and (array.min() < least or array.max() >= end):
            raise InvalidFile(f"the array {name!r} has an index that is out of range")
    sizes = (r.actions.size, r.rewards.size, r.snapshots.size)
    if sizes != (frames,) * 3 or r.starts.size != r.episodes.size + 1:
        raise InvalidFile("the arrays of frames differ in length")
    if r.scene is not None and r.scene.style not in STYLES:
        raise InvalidFile(f"the map has the style {r.scene.style!r}")


def as_array(values: Sequence[Any], dtype: str) -> np.ndarray:
    """Return a list of numbers as a read-only array of this type."""
    return frozen(np.array(values, dtype=dtype))
