"""Exceptions that Heirloom raises deliberately.

    HeirloomError
    ├── InvalidTask             (ValueError)    arrays that do not describe a task
    ├── InvalidArgument         (ValueError)    any other argument with a bad value
    ├── IncompatibleTasks       (ValueError)    tasks that cannot be compared with each other
    ├── UnsupportedEnvironment  (TypeError)     an environment that Heirloom cannot read
    ├── WrongOrder              (RuntimeError)  methods of an agent called out of order
    ├── NotConverged            (ArithmeticError)  an accuracy that could not be certified
    ├── InvalidFile             (ValueError)    a file that is damaged, or not written by Heirloom
    ├── RefutedKnowledge        (ValueError)    a claim that what was learned contradicts
    ├── CannotWrite             (OSError)       a file that could not be written
    └── WorkerLost              (RuntimeError)  a worker process that died during a run

A message states the value that was found and where, what was expected, and what to do. An error
with several messages shows one per line. Control characters in messages are escaped.
"""

from importlib.util import find_spec

from heirloom.wording import printable


class HeirloomError(Exception):
    """Base class of all exceptions of Heirloom."""

    def __str__(self) -> str:
        return "\n".join(printable(message) for message in self.args)


class InvalidTask(HeirloomError, ValueError):
    """Arrays, or a transition table, do not describe a finite MDP."""


class InvalidArgument(HeirloomError, ValueError):
    """An argument has a value outside its domain."""


class IncompatibleTasks(HeirloomError, ValueError):
    """Two tasks differ in their states, their actions or their discount factor."""


class UnsupportedEnvironment(HeirloomError, TypeError):
    """An environment is not discrete, or lacks a transition table where one is required."""


class WrongOrder(HeirloomError, RuntimeError):
    """A method of an agent was called out of order, such as `act` before `begin_task`."""


class NotConverged(HeirloomError, ArithmeticError):
    """The requested accuracy could not be certified."""


class InvalidFile(HeirloomError, ValueError):
    """A file is missing, damaged, of a newer format, or of another kind."""


class RefutedKnowledge(HeirloomError, ValueError):
    """What was learned contradicts a claim, such as a nearness or a prior."""


class RefutedKnowledgeWarning(UserWarning):
    """What was learned contradicts a claim; bounds that rest on it may be invalid."""


class CannotWrite(HeirloomError, OSError):
    """A file could not be written; its previous content is unchanged."""


class WorkerLost(HeirloomError, RuntimeError):
    """A worker process of a run died, possibly for lack of memory."""


def missing(what: str, extra: str) -> InvalidArgument:
    """Return the error of something that needs an extra, with the command that installs it."""
    return InvalidArgument(
        f"{what}, for which libraries are not installed: pip install '.[{extra}]' in the clone"
    )


def is_installed(*modules: str) -> bool:
    """Whether all these modules can be imported; nothing is imported."""
    return all(find_spec(module) is not None for module in modules)
