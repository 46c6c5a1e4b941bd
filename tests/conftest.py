import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.golden import stored
from tests.small_run import Command

# The same examples in every run: a failure is found again by running the test again.
settings.register_profile(
    "heirloom",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("heirloom")

# In the background of a script Ctrl-C is ignored, and commands would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    return f"golden run: {stored.comparison_mode()}"


@pytest.fixture(autouse=True)
def no_command_is_left():
    """A command that a failed test did not wait for would take the processors from others."""
    yield
    for command in Command.started:
        if command.process.poll() is None:
            command.kill()
            command.process.communicate()
    Command.started.clear()
