"""Conversion of the names and labels in a `TaskMemory` to and from bytes, JSON in UTF-8.

    {"states": [...], "actions": [...], "tasks": {"3": [label, time], ...}, "edges": [[...], ...]}

`edges` has the edges of bins that are the states, for each dimension. Keys without names are left
out. Names are texts only: nothing in them is ever evaluated.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.errors import InvalidFile
from heirloom.naming import checked_label
from heirloom.transfer.bins import checked_edges, n_bins

if TYPE_CHECKING:
    from heirloom.transfer.memory import TaskMemory
    from heirloom.transfer.source import Source


def packed_names(memory: "TaskMemory", sources: "list[Source]") -> np.ndarray | None:
    """Return the names of a memory and the labels of its stored tasks; None if there are none."""
    labels = {str(one.task): [one.label, one.time] for one in sources if one.label or one.time}
    found: dict[str, Any] = {"states": memory.state_names, "actions": memory.action_names}
    found = {key: names for key, names in found.items() if names is not None}
    if labels:
        found["tasks"] = labels
    if memory.edges is not None:
        found["edges"] = [row.tolist() for row in memory.edges]
    return np.frombuffer(json.dumps(found).encode(), dtype=np.uint8) if found else None


def restore_names(memory: "TaskMemory", data: np.ndarray) -> None:
    """Give a memory the names and labels of its file; raise an error unless they are valid."""
    found = json.loads(data.tobytes().decode())
    if not isinstance(found, dict):
        raise InvalidFile("the names are not a JSON object")
    for key in ("states", "actions"):
        if not _are_texts(found.get(key, [])):
            raise InvalidFile(f"the names of {key} are not texts")
    memory.set_names(state_names=found.get("states"), action_names=found.get("actions"))
    if "edges" in found:
        memory.edges = checked_edges(found["edges"])
        if n_bins(memory.edges) != memory.n_states:
            raise InvalidFile(f"the edges do not make {memory.n_states} bins")
    for task, texts in found.get("tasks", {}).items():
        if not (_are_texts(texts) and len(texts) == 2):
            raise InvalidFile(f"the label of task {task} is not two texts")
        label, time = (checked_label("label", text) for text in texts)
        memory.label(int(task), label, time=time)


def _are_texts(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)
