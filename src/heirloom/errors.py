"""Every exception that Heirloom raises on purpose.

    HeirloomError
    ├── InvalidTask             (ValueError)    arrays that do not describe a task
    ├── InvalidArgument         (ValueError)    any other argument with a bad value
    ├── IncompatibleTasks       (ValueError)    tasks that cannot be compared with each other
    ├── UnsupportedEnvironment  (TypeError)     an environment that Heirloom cannot read
    ├── WrongOrder              (RuntimeError)  verbs of an agent called out of order
    ├── NotConverged            (ArithmeticError)  an accuracy that could not be certified
    ├── InvalidFile             (ValueError)    a file that is not Heirloom's, or is damaged
    ├── CannotWrite             (OSError)       a file that could not be written
    └── WorkerLost              (RuntimeError)  a process of a run that died

A message names the value, the place and the remedy.
"""


class HeirloomError(Exception):
    """Base of all exceptions of Heirloom."""


class InvalidTask(HeirloomError, ValueError):
    """The arrays given do not describe a finite decision problem."""


class InvalidArgument(HeirloomError, ValueError):
    """An argument has a value outside its domain."""


class IncompatibleTasks(HeirloomError, ValueError):
    """Two tasks do not share their states, their actions or their discount factor."""


class UnsupportedEnvironment(HeirloomError, TypeError):
    """An environment is not discrete, or lacks the transition table that is asked for."""


class WrongOrder(HeirloomError, RuntimeError):
    """An agent acts, learns or ends outside of a task, or begins one within another."""


class NotConverged(HeirloomError, ArithmeticError):
    """The accuracy asked for could not be certified."""


class InvalidFile(HeirloomError, ValueError):
    """A file is missing, damaged, of a newer format, or holds something else."""


class CannotWrite(HeirloomError, OSError):
    """A file could not be written; what was there before is still there."""


class WorkerLost(HeirloomError, RuntimeError):
    """A process that computed a part of a run died, of a lack of memory perhaps."""
