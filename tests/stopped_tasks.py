"""Memories of tasks that end at random moments, for example when an estimate looks extreme."""

import numpy as np

import heirloom as hl
from heirloom.mdp.rows import Rows

FIRST = 5  # visits of each pair before which no task ends


def stopped_memory(probabilities, rng, ends_at, *, last):
    """Return a memory of tasks with two states and one action, visited in turn.

    In task j every state pays 1 and leads to state 1 with probability `probabilities[j]`.
    `ends_at(means, visits, p)` returns the index of the visit after which the task ends, where
    `means` [visit, state] are its estimates after `visits`, at most `last`.
    """
    memory = hl.TaskMemory(2, 1)
    memory.bind(hl.bounds.Setting(n_states=2, n_actions=1, gamma=0.5, terminating=False))
    visits = np.arange(1, last + 1)[:, None]
    for p in probabilities:
        means = (rng.random((last, 2)) < p).cumsum(axis=0) / visits
        i = ends_at(means[FIRST - 1 :], visits[FIRST - 1 :], p) + FIRST - 1
        rows = Rows(
            known=np.ones(2, dtype=bool),
            counts=np.full(2, i + 1),
            R=means[i],
            ends=np.zeros(2),
            first=np.array([0, 2]),
            last=np.array([2, 4]),
            successors=np.array([0, 1, 0, 1], dtype=np.int32),
            p=np.stack([1 - means[i], means[i]], axis=1).ravel(),
        )
        memory.add(hl.bounds.Source(rows, np.full(2, 2.0), np.full(2, 2.0), n_known=i + 1))
    return memory


def _standardised(means, visits, p):
    return np.abs(means - p) / np.sqrt(p * (1 - p) / visits)


def looks_extreme(errors):
    """Return a rule: a task ends when an estimate is this many standard errors from the truth."""

    def ends_at(means, visits, p):
        is_extreme = (_standardised(means, visits, p) > errors).any(axis=1)
        return int(is_extreme.argmax()) if is_extreme.any() else len(means) - 1

    return ends_at


def is_fixed(means, visits, p):
    """End a task after its last visit."""
    return len(means) - 1


def was_most_extreme(means, visits, p):
    """Choose the most extreme moment in hindsight, which no rule can do while a task is learned."""
    return int(_standardised(means, visits, p).max(axis=1).argmax())
