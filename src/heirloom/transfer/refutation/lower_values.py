"""Lower bounds on the optimal values of a learned task, from its known pairs only.

A prior `d_max` bounds D = |R - R̄| + γ Σ (V̄ - c) |T - T̄|, with the optimal values V̄ of the weighing
task. Only a lower bound on D refutes it, which needs lower bounds on V̄. They are the values of the
most pessimistic task that agrees with what is known: known pairs have the smallest rewards and the
worst transitions within their radii, and unknown pairs have the value `v_min`.
"""

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.mdp.rows import Rows
from heirloom.mdp.tabular import value_range
from heirloom.transfer import program
from heirloom.transfer.radii import Radii
from heirloom.transfer.setting import Setting

TOLERANCE = (
    1e-4  # relative to the width of the range of values; a larger one gives lower bounds too
)
ROUNDING = 1e-12  # relative to the largest value, far above the error of the backups


def lower_values(rows: Rows, radii: Radii, setting: Setting) -> FloatArray:
    """Return lower bounds on V* of a task whose models are within their radii, over states."""
    v_min, v_max = value_range(setting.reward_range, setting.gamma, terminating=setting.terminating)
    V = np.full(setting.n_states, v_min)
    slack = TOLERANCE * (1 - setting.gamma) * (v_max - v_min)
    if slack > 0:
        V = program.lower_values(rows, radii.rewards, radii.transitions, setting, v_min, slack).V
    largest = max(abs(v_min), abs(v_max)) / (1 - setting.gamma)
    return np.maximum(V - ROUNDING * largest, v_min)


def lower_weights(V: FloatArray, setting: Setting) -> FloatArray:
    """Return lower bounds W = V - c on the weights of states."""
    return np.maximum(V - setting.floor, 0.0)


def two_largest(W: FloatArray, setting: Setting) -> tuple[float, float]:
    """Return the largest weight of an outcome, and the sum of the two largest ones."""
    weights = np.append(W, -setting.floor) if setting.terminating else W
    ordered = np.sort(weights)[-2:]
    return float(ordered[-1]), float(ordered.sum()) if ordered.size > 1 else 0.0
