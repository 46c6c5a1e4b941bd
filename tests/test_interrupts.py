"""Ctrl-C ends a long call within a second or two, also while compiled code runs."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.small_run import wait_until

LEARNED = """
from heirloom.transfer import optimistic_program, program
import numpy as np
def no_caps(model, values, near):
    return program.NO_PAIRS, np.full(values.Q.size, np.inf)
optimistic_program.caps = no_caps
program.MAX_SWEEPS = 10**12  # without acceleration and limit, learning would take hours
m = hl.TabularMDP([[0.5], [0.2]], [[[0, 1]], [[1, 0]]], gamma=1 - 1e-9)
agent = hl.RMax(n_states=2, n_actions=1, gamma=m.gamma, n_known=1, terminating=False, seed=0)
other = hl.RMax(n_states=2, n_actions=1, gamma=0.5, n_known=1, terminating=False, seed=0)
short = hl.TabularMDP(m.R, m.T, gamma=0.5)
hl.learn(other, short, episodes=1, max_steps=10, seed=0)  # compiles, before the call is timed
call = lambda: hl.learn(agent, m, episodes=1, max_steps=10, seed=0)
"""
DISTANCES = """
from heirloom.transfer.lipschitz import solutions
from heirloom.transfer.optimistic_program import UpperBounds
import numpy as np
no_bounds = lambda D, *_: UpperBounds(np.full(D.size, np.inf), np.inf, 0.0)
solutions.upper_bounds, solutions.PATIENCE, solutions.MAX_ACCELERATIONS = no_bounds, 10**12, 10**12
options = dict(n_states=6, n_actions=2, n_known=1, refresh=None, d_max=0.1, seed=0)
m = hl.garnet(6, 2, branching=1, gamma=1 - 1e-9, seed=0)
short = hl.TabularMDP(m.R, m.T, gamma=0.5)
other, agent = (hl.LRMax(gamma=gamma, **options) for gamma in (0.5, 1 - 1e-9))
for _ in range(2):  # compiles, before the call is timed
    hl.learn(other, short, episodes=1, max_steps=100, seed=0)
hl.learn(agent, m, episodes=1, max_steps=100, seed=0)
call = lambda: hl.learn(agent, m, episodes=1, max_steps=100, seed=0)
"""
SOLVED = """
from heirloom.planning import linear, policy_iteration
policy_iteration.MAX_SWEEPS, linear.MAX_OPERATIONS = 10**12, 0
m = hl.garnet(3000, 1, branching=1, gamma=1 - 1e-9, seed=0)
hl.solve(hl.garnet(600, 1, branching=1, gamma=0.9, seed=0))
call = lambda: hl.solve(m, tol=1e-30)
"""
RETURNS = """
from heirloom.planning import solve as planning
planning.MIN_STEPS = 10**18
m = hl.garnet(1000, 2, branching=3, gamma=0.9, seed=0)
hl.optimal_return(m, horizon=1)
call = lambda: hl.optimal_return(m, horizon=10**15)
"""


def processor_time(process):
    return sum(psutil.Process(process.pid).cpu_times()[:2])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize(
    "code",
    [LEARNED, DISTANCES, SOLVED, RETURNS],
    ids=["learn", "distances", "solve", "returns"],
)
def test_interrupt_ends_a_long_call(code):
    program = f"import heirloom as hl\n{code}\nprint('ready', flush=True)\ncall()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        ready = processor_time(process)
        wait_until(lambda: process.poll() is not None or processor_time(process) > ready + 1)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        used = processor_time(process)
        before = os.times()
        _, stderr = process.communicate()
        taken = sum(os.times()[2:4]) - sum(before[2:4]) - used  # ended processes, with this one
    finally:
        process.kill()
    assert "KeyboardInterrupt" in stderr
    assert taken < 10  # seconds of the processor: half a second on a machine that is not busy
