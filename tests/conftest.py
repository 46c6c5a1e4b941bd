import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.golden import stored
from tests.small_run import Command

# Hypothesis tries the same examples in every run, so that a failure can be reproduced. It tries
# fewer where `make coverage` runs kernels without the compiler, a hundred times slower, and more
# in `make test-full`.
WITHOUT_COMPILER = os.environ.get("NUMBA_DISABLE_JIT") == "1"
settings.register_profile(
    "heirloom",
    derandomize=True,
    deadline=None,
    max_examples=10 if WITHOUT_COMPILER else int(os.environ.get("HEIRLOOM_EXAMPLES", "30")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("heirloom")

# A shell ignores SIGINT for the background commands of a script; commands under test would inherit
# this.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    return f"golden run: {stored.comparison_mode()}"


@pytest.fixture(autouse=True)
def kill_commands_left_running():
    """End commands that a failed test did not wait for; they would slow down other tests."""
    yield
    for command in Command.started:
        if command.process.poll() is None:
            command.kill()
            command.process.communicate()
    Command.started.clear()


def pytest_collection_modifyitems(items):
    """Start the longest tests first, which have their own time limit, so that none runs alone."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)
