"""The pictures of the pages for learners, `docs/learn/`, drawn from computed values."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import heirloom as hl
from heirloom.learning.recording import Recording
from heirloom.plot.style import draw_interval, hide_frame, legend_below, new_figure
from heirloom.stats import student_interval

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
N_KNOWN = (1, 2, 3, 5, 10, 15, 20)
REFRESH = {"frozen: refresh=None": None, "refreshed: refresh=1.5": 1.5}
LAST = 50  # episodes
PRIORS = (0.2, 0.5, 0.8, None)


class Comparison(NamedTuple):
    """Values of the actions in the start: of the new task, and what bounds them."""

    optimal: np.ndarray
    bound: np.ndarray
    v_max: float


def grid_task(reward: float, slip: float) -> hl.TabularMDP:
    """Return the grid of the README with this goal reward and slip."""
    return hl.grid_world(CELLS, gamma=0.9, goal_rewards=reward, slip=slip)


def shares_of_the_optimum(n_runs: int = 20) -> dict[str, np.ndarray]:
    """Return mean and late returns of RMax over the optimum, [mean or late, n_known, run]."""
    task = grid_task(1.0, 0.2)
    optimum = hl.optimal_return(task, horizon=25, discounted=False)
    options = {"n_states": 50, "n_actions": 4, "gamma": 0.9}
    found = {}
    for name, refresh in REFRESH.items():
        shares = np.empty((2, len(N_KNOWN), n_runs))
        for i, n_known in enumerate(N_KNOWN):
            for run in range(n_runs):
                agent = hl.RMax(n_known=n_known, refresh=refresh, seed=run, **options)
                returns = hl.learn(agent, task, episodes=200, max_steps=25, seed=run).returns
                shares[:, i, run] = returns.mean() / optimum, returns[-LAST:].mean() / optimum
        found[name] = shares
    return found


def bounds_with_prior(prior: float | None) -> np.ndarray:
    """Return the bounds of LRMax on the values of the cells of a corridor, after an earlier one."""
    options = {"n_states": 21, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent = hl.LRMax(d_max=prior, **options)
    hl.learn(agent, corridor(LEFT, 0.0), episodes=100, max_steps=20, seed=1)
    agent.begin_task()
    return agent.U.max(axis=1)


def bounds_at_the_start() -> Comparison:
    """Compute the optimal values of the new task, and their bounds from the earlier one."""
    earlier, new = grid_task(0.95, 0.05), grid_task(1.0, 0.1)
    bound = hl.near_bound(new, earlier, hl.family_nearness([earlier, new]))
    return Comparison(hl.solve(new).Q[START], bound[START], new.v_max)


def known_pairs() -> dict[str, np.ndarray]:
    """Return which pairs are known to RMax and NearRMax after the new task, [s, a]."""
    return {name: known for name, (known, _) in second_day().items()}


def second_day() -> dict[str, tuple[np.ndarray, Recording]]:
    """Let RMax and NearRMax learn two tasks; return what is known of the second, and recordings."""
    earlier, new = grid_task(0.95, 0.05), grid_task(1.0, 0.1)
    options = {"n_states": 50, "n_actions": 4, "gamma": 0.9, "seed": 0}
    agents = {"RMax": hl.RMax(**options), "NearRMax": hl.NearRMax(nearness=NEAR, **options)}
    found = {}
    for name, agent in agents.items():
        hl.learn(agent, earlier, episodes=200, max_steps=20, seed=1)
        choice = {"first": 20, "every": 20}
        record = hl.learn(agent, new, episodes=200, max_steps=20, seed=2, record=choice)
        assert record.recording is not None
        found[name] = agent.known, record.recording
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
    """Return 21 cells with the start in the middle; the first and the last cell pay."""
    return hl.grid_world(["G.........S.........G"], gamma=0.9, goal_rewards=(left, right))


def bound_of_guess(guess: float) -> float:
    """Return the bound on the value of the right end, if rewards differ by `guess` at most."""
    near = hl.Nearness(rewards=guess, transitions=0)
    return float(hl.near_bound(corridor(LEFT, RIGHT), corridor(LEFT, 0.0), near)[20, 1])


def value_with_guess(guess: float) -> float:
    """Return the value of the policy that an agent with this guess learns, over the optimum."""
    options = {"n_states": 21, "n_actions": 4, "gamma": 0.9, "n_known": 1, "seed": 0}
    near = hl.Nearness(rewards=guess, transitions=0)
    agent = hl.NearRMax(nearness=near, on_refutation="ignore", **options)
    hl.learn(agent, corridor(LEFT, 0.0), episodes=100, max_steps=20, seed=1)
    new = corridor(LEFT, RIGHT)
    hl.learn(agent, new, episodes=300, max_steps=20, seed=2)
    return float(hl.evaluate(new, agent.policy).V[10] / hl.solve(new).V[10])


def draw_visits() -> "Figure":
    """Draw the return of RMax over `n_known`, with frozen and with refreshed models."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for (name, shares), colour in zip(shares_of_the_optimum().items(), (ORANGE, BLUE), strict=True):
        for ax, x in zip(axes, shares, strict=True):
            interval = student_interval(x, axis=1)
            draw_interval(ax, N_KNOWN, interval, color=colour, marker="o", label=name)
    for ax, title in zip(axes, ("all 200 episodes", f"the last {LAST} episodes"), strict=True):
        ax.set_title(title, fontsize="medium")
        ax.set_xlabel("n_known")
        ax.set_xticks([1, 3, 5, 10, 15, 20])
        hide_frame(ax)
    axes[0].set_ylabel("mean return / optimum")
    axes[0].set_ylim(0, 1.05)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def draw_prior() -> "Figure":
    """Draw the bounds of LRMax along a corridor, for several priors and without one."""
    figure, ax = new_figure(6.4, 3.6)
    for prior, alpha in zip(PRIORS, (1.0, 0.7, 0.4, 1.0), strict=True):
        name, colour = ("no prior", ORANGE) if prior is None else (f"d_max={prior}", BLUE)
        y = bounds_with_prior(prior)
        ax.plot(y, color=colour, alpha=alpha)
        ax.annotate(name, (20, y[-1]), (4, 0), textcoords="offset points", va="center")
    optimal = hl.solve(corridor(LEFT, 0.2)).V
    ax.plot(optimal, "k.")
    ax.annotate("optimum", (20, optimal[20]), (4, -3), textcoords="offset points", va="top")
    ax.set_xticks([0, 10, 20], ["left end", "start", "right end"])
    ax.set_ylabel("value of a cell")
    ax.set_ylim(0, 10.5)
    return figure


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


def draw_known() -> "Figure":
    """Draw how many of the four actions are known to each agent in each cell."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, (name, known) in zip(axes, known_pairs().items(), strict=True):
        image = ax.imshow(known.sum(axis=1).reshape(5, 10), vmin=0, vmax=4, cmap="Blues")
        ax.set_title(f"{name}: {known.sum()} of {known.size} pairs", fontsize="medium")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.text(4, 2, "S", ha="center", va="center", color=ORANGE, weight="bold")
        ax.text(9, 0, "G", ha="center", va="center", color=ORANGE, weight="bold")
    figure.colorbar(image, ax=axes, label="known actions", ticks=range(5))
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
        "idea-visits": draw_visits(),
        "idea-prior": draw_prior(),
        "idea-bound": draw_bounds(),
        "idea-known": draw_known(),
        "idea-nearness": draw_nearness(),
        "idea-guess": draw_guess(),
    }
