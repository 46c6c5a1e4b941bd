"""The pictures of `docs/ideas.md`, drawn from computed values.

They show what a bound from an earlier task is, what nearness means, and why a guess can hurt.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import heirloom as hl
from heirloom.plot.style import hide_frame, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = """
    .........G
    ..........
    ....S.....
    ..........
    .........."""
ACTIONS = ("up", "right", "down", "left")
START = 24
NEAR = hl.Nearness(rewards=0.05, transitions=0.05)
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.75"
LEFT, RIGHT = 0.5, 1.0  # what the ends of the corridor pay in the new task
GUESSES = np.linspace(0.0, 1.0, 41)


class Comparison(NamedTuple):
    """Values of the actions in the start: of the new task, and what bounds them."""

    optimal: np.ndarray
    bound: np.ndarray
    v_max: float


def grid_task(reward: float, slip: float) -> hl.TabularMDP:
    """Return the grid of the README with this goal reward and slip."""
    return hl.grid_world(CELLS, gamma=0.9, goal_rewards=reward, slip=slip)


def bounds_at_the_start() -> Comparison:
    """Compute the optimal values of the new task, and their bounds from the earlier one."""
    earlier, new = grid_task(0.95, 0.05), grid_task(1.0, 0.1)
    bound = hl.near_bound(new, earlier, hl.family_nearness([earlier, new]))
    return Comparison(hl.solve(new).Q[START], bound[START], new.v_max)


def explored() -> dict[str, np.ndarray]:
    """Return which pairs RMax and NearRMax explore in the new task, [s, a]."""
    earlier, new = grid_task(0.95, 0.05), grid_task(1.0, 0.1)
    options = {"n_states": 50, "n_actions": 4, "gamma": 0.9, "seed": 0}
    agents = {"RMax": hl.RMax(**options), "NearRMax": hl.NearRMax(nearness=NEAR, **options)}
    found = {}
    for name, agent in agents.items():
        hl.learn(agent, earlier, episodes=200, max_steps=20, seed=1)
        hl.learn(agent, new, episodes=200, max_steps=20, seed=2)
        found[name] = agent.known
    return found


def drawn_rewards(n: int = 40) -> np.ndarray:
    """Return the mean rewards of four pairs in n machines of different weeks, [task, pair]."""
    from heirloom.envs.maintenance import Machines

    family = Machines()
    rng = np.random.default_rng(0)
    return np.array([family.draw(rng).R[[0, 2, 4, 4], [0, 0, 0, 2]] for _ in range(n)])


def nearness_of_rewards() -> np.ndarray:
    """Return by how much the mean rewards of these four pairs can differ."""
    from heirloom.envs.maintenance import Machines

    return Machines().nearness.rewards[[0, 2, 4, 4], [0, 0, 0, 2]]


def corridor(left: float, right: float) -> hl.TabularMDP:
    """Return 21 cells with the start in the middle; actions in the first and last cell pay."""
    cells = np.arange(21)
    T = np.zeros((21, 2, 21))
    T[cells, 0, np.maximum(cells - 1, 0)] = 1
    T[cells, 1, np.minimum(cells + 1, 20)] = 1
    R = np.zeros((21, 2))
    R[0], R[20] = left, right
    return hl.TabularMDP(R, T, gamma=0.9, start=10)


def bound_of_guess(guess: float) -> float:
    """Return the bound on the value of the right end, if rewards differ by `guess` at most."""
    near = hl.Nearness(rewards=guess, transitions=0)
    return float(hl.near_bound(corridor(LEFT, RIGHT), corridor(LEFT, 0.0), near)[20, 1])


def value_with_guess(guess: float) -> float:
    """Return the value of the policy that an agent with this guess learns, over the optimum."""
    options = {"n_states": 21, "n_actions": 2, "gamma": 0.9, "n_known": 1, "seed": 0}
    near = hl.Nearness(rewards=guess, transitions=0)
    agent = hl.NearRMax(nearness=near, on_refutation="ignore", **options)
    hl.learn(agent, corridor(LEFT, 0.0), episodes=100, max_steps=20, seed=1)
    new = corridor(LEFT, RIGHT)
    hl.learn(agent, new, episodes=300, max_steps=20, seed=2)
    return float(hl.evaluate(new, agent.policy).V[10] / hl.solve(new).V[10])


def draw_bounds() -> "Figure":
    """Draw the values of four actions under their bounds, and the largest value."""
    found = bounds_at_the_start()
    figure, ax = new_figure(6.4, 3.6)
    x = np.arange(4)
    ax.bar(x, np.full(4, found.v_max), 0.7, color="none", edgecolor=GREY, label="RMax: v_max")
    ax.bar(x, found.bound, 0.5, color=BLUE, alpha=0.35, label="bound from the earlier task")
    ax.bar(x, found.optimal, 0.3, color=BLUE, label="optimal value, unknown to the agent")
    best = found.optimal.max()
    ax.axhline(best, color=ORANGE, linestyle="--", label="the best action")
    for i in np.flatnonzero(found.bound < best):
        ax.text(i, found.bound[i] + 0.25, "not tried", ha="center")
    ax.set_xticks(x, ACTIONS)
    ax.set_ylabel("value in the start")
    legend_below(figure)
    return figure


def draw_explored() -> "Figure":
    """Draw how many of the four actions each agent explored in each cell."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, (name, known) in zip(axes, explored().items(), strict=True):
        image = ax.imshow(known.sum(axis=1).reshape(5, 10), vmin=0, vmax=4, cmap="Blues")
        ax.set_title(f"{name}: {known.sum()} of {known.size} pairs", fontsize="medium")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.text(4, 2, "S", ha="center", va="center", color=ORANGE, weight="bold")
        ax.text(9, 0, "G", ha="center", va="center", color=ORANGE, weight="bold")
    figure.colorbar(image, ax=axes, label="explored actions", ticks=range(5))
    return figure


def draw_nearness() -> "Figure":
    """Draw mean rewards of many tasks, and what one of them implies for all others."""
    drawn, near = drawn_rewards(), nearness_of_rewards()
    figure, ax = new_figure(6.4, 3.6)
    x = np.arange(drawn.shape[1])
    jitter = np.random.default_rng(1).uniform(-0.12, 0.12, drawn.shape)
    source = drawn[0]
    ax.bar(
        x,
        2 * near,
        0.5,
        bottom=source - near,
        color=BLUE,
        alpha=0.2,
        label="possible after week 1",
    )
    ax.plot((x + jitter).ravel(), drawn.ravel(), ".", color="0.35", label="other weeks")
    ax.plot(x, source, "D", color=ORANGE, label="week 1, the source")
    names = ["run, new", "run, worn", "run, worn out", "repair, worn out"]
    ax.set_xticks(x, names)
    ax.set_ylabel("mean reward of a shift, in euros")
    legend_below(figure)
    return figure


def draw_guess() -> "Figure":
    """Draw the bound that follows from a guess, and the value that it costs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    bounds, values = figure.subplots(1, 2)
    optimal = hl.solve(corridor(LEFT, RIGHT)).Q
    y = [bound_of_guess(guess) for guess in GUESSES]
    bounds.plot(GUESSES, y, color=BLUE, label="bound on the right end")
    bounds.axhline(optimal[20, 1], color=ORANGE, linestyle="--", label="value of the right end")
    bounds.axhline(optimal[0, 0], color=GREEN, linestyle=":", label="value of the left end")
    bounds.set_ylabel("value")
    values.plot(GUESSES, [value_with_guess(g) for g in GUESSES], "o-", markersize=3, color=BLUE)
    values.set_ylabel("learned value / optimum")
    values.set_ylim(0, 1.05)
    for ax in (bounds, values):
        ax.axvspan(0, RIGHT, color=ORANGE, alpha=0.07, linewidth=0)
        ax.set_xlabel("claimed difference of rewards")
        hide_frame(ax)
    legend_below(figure)
    return figure


def draw() -> dict[str, "Figure"]:
    """Draw all pictures, by name."""
    return {
        "idea-bound": draw_bounds(),
        "idea-explored": draw_explored(),
        "idea-nearness": draw_nearness(),
        "idea-guess": draw_guess(),
    }
