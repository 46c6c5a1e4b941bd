"""The paper's tasks: as registered environments, as families, and as pictures."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import heirloom as hl
from heirloom.envs import paper_families, paper_tasks
from heirloom.envs.grid import GridMap, grid_world
from heirloom.envs.paper_tasks import CELL, GridEnv, as_pixels, as_text

IDS = ["Tight", "Corridor", "Maze", "HeatMap", "TShape"]
FAMILIES = {
    "tight, text": paper_families.Tight("text"),
    "tight, released": paper_families.Tight("released"),
    "corridor, text": paper_families.Corridor("text"),
    "corridor, released": paper_families.Corridor("released"),
    "maze, text": paper_families.Maze("text"),
    "maze, released": paper_families.Maze("released"),
    "heat map": paper_families.HeatMap(),
    "T": paper_families.TShape(3),
}


@pytest.mark.parametrize("name", IDS)
class TestRegistered:
    def test_environment_passes_gymnasiums_check(self, name):
        for mode in (None, "ansi", "rgb_array"):
            env = gym.make(f"heirloom.envs:heirloom/{name}-v0", render_mode=mode)
            check_env(env.unwrapped, skip_render_check=mode is None)

    def test_transition_table_is_that_of_the_task(self, name):
        env = gym.make(f"heirloom/{name}-v0")
        task = env.unwrapped.task
        read = hl.TabularMDP.from_gymnasium(env, gamma=task.gamma)
        assert abs(task.T - read.T).max() < 1e-12
        assert task.R == pytest.approx(read.R)
        assert np.array_equal(task.start, read.start)

    def test_rendering_shows_the_agent_and_the_goal(self, name):
        env = gym.make(f"heirloom/{name}-v0", render_mode="ansi")
        env.reset(seed=0)
        text = env.render()
        assert text.count("@") == 1
        assert text.count("G") >= 1
        env = gym.make(f"heirloom/{name}-v0", render_mode="rgb_array")
        env.reset(seed=0)
        before = env.render()
        rows = text.splitlines()
        assert before.shape == (CELL * len(rows), CELL * len(rows[0]), 3)
        other_states = [s for s in range(env.unwrapped.task.n_states) if s != env.unwrapped.s]
        env.unwrapped.s = other_states[0]
        assert (env.render() != before).any()


def test_episodes_have_the_time_limits_of_the_paper():
    steps = {name: gym.spec(f"heirloom/{name}-v0").max_episode_steps for name in IDS[:4]}
    assert steps == {"Tight": 10, "Corridor": 11, "Maze": 15, "HeatMap": 30}


@pytest.mark.parametrize("name", FAMILIES)
def test_family_draws_comparable_tasks_that_depend_only_on_the_generator(name):
    family = FAMILIES[name]
    rng = np.random.default_rng(0)
    tasks = [family.draw(rng) for _ in range(20)]
    for m in tasks:
        hl.model_pseudometric(tasks[0], m, np.ones(m.n_states))
        assert m.gamma == family.gamma == 0.9
        assert m.reward_range == (0.0, 1.0)
    rng = np.random.default_rng(0)
    for m in tasks:
        assert np.array_equal(m.R, family.draw(rng).R)


@pytest.mark.parametrize(("variant", "least"), [("text", 0.8), ("released", 0.9)])
def test_variants_draw_rewards_and_slip_from_their_intervals(variant, least):
    rng = np.random.default_rng(1)
    rewards = [paper_families.Tight(variant).draw(rng).R.max() for _ in range(200)]
    # In the released variant slip lowers the mean reward below the reward of the goal.
    assert least - 0.1 <= min(rewards) < least + 0.07
    assert max(rewards) <= 1
    rewards = [paper_families.Corridor(variant).draw(rng).R.max() for _ in range(200)]
    assert least <= min(rewards) < least + 0.01
    smallest_p = [paper_families.Maze(variant).draw(rng).T.data.min() for _ in range(20)]
    assert (min(smallest_p) < 1) == (variant == "released")


def test_corridor_has_the_hand_computed_values():
    m = paper_tasks.corridor(0.9)
    assert (m.n_states, m.n_actions) == (20, 2)
    assert m.start[10] == 1
    V = hl.solve(m).V
    assert V[10] == pytest.approx(0.9 * 0.9**8)
    assert hl.optimal_return(m, horizon=11, discounted=False) == pytest.approx(0.9)


@pytest.mark.parametrize(("layout", "steps"), [("orange", 13), ("green", 7)])
def test_shortest_path_of_a_maze_layout_has_the_length_of_the_authors_map(layout, steps):
    m = paper_tasks.maze(layout)
    start = int(m.start.argmax())
    assert m.n_states == 77
    assert hl.solve(m).V[start] == pytest.approx(0.9 ** (steps - 1))
    assert hl.optimal_return(m, horizon=steps, discounted=False) == pytest.approx(1)
    assert hl.optimal_return(m, horizon=steps - 1, discounted=False) == 0


def test_maze_layouts_differ_exactly_at_moves_into_a_cell_that_one_of_them_closes():
    orange, green = (paper_tasks.maze(layout) for layout in ("orange", "green"))
    differing = set(np.unique(abs(orange.T - green.T).nonzero()[0]).tolist())
    cells = [(i, j) for i in range(11) for j in range(11) if paper_tasks.MAZE[i][j] != "#"]
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left
    into_closable = {
        4 * s + a
        for s, (i, j) in enumerate(cells)
        for a, (down, right) in enumerate(moves)
        if (i + down, j + right) in cells and paper_tasks.MAZE[i + down][j + right] in "og"
    }
    assert differing == into_closable
    assert len(differing) == 23


def test_closed_cell_is_a_state_that_cannot_be_entered():
    cells = ("S.a", "..G")
    open_, closed = (grid_world(GridMap.read(cells, closed=c), gamma=0.9) for c in ("", "a"))
    assert open_.n_states == closed.n_states == 6
    entering = np.flatnonzero(closed.T[:, [2]].toarray().ravel())
    assert set(entering // 4) == {2}
    assert open_.T[[1 * 4 + 1]].toarray()[0, 2] == 1


def test_heat_map_rewards_at_the_start_are_the_hand_computed_ones():
    first, second = paper_families.HeatMap().all_tasks
    start = int(first.start.argmax())
    assert first.R[start] == pytest.approx(np.exp(-(3**2 + 3**2) / 2))
    assert second.R[start] == pytest.approx(0.6 * np.exp(-(2**2 + 3**2) / (2 * 1.5**2)))
    assert first.R.max() == 1.0
    assert first.n_states == 12
    assert not first.terminating


def test_t_shapes_differ_only_in_the_goal():
    up, down = (paper_tasks.t_shape(4, goal=goal) for goal in ("up", "down"))
    assert up.n_states == 4 + 4
    start = int(up.start.argmax())
    for m in (up, down):
        assert hl.solve(m).V[start] == pytest.approx(0.9 ** (4 + 1))
    assert abs(up.T - down.T).max() == 0


def test_text_shows_closed_cells_as_walls_and_image_shows_the_goal():
    symbols = np.array([list(row) for row in GridMap.read(("S#", "aG"), closed="a").scene.cells])
    assert as_text(symbols, 2) == "S#\n#@"
    pixels = as_pixels(symbols)
    assert pixels.shape == (2 * CELL, 2 * CELL, 3)
    middle = CELL // 2
    assert tuple(pixels[CELL + middle, CELL + middle]) == (0, 158, 115)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: paper_tasks.maze("blue"), "layout is 'blue'"),
        (lambda: paper_tasks.t_shape(2, goal="left"), "goal is 'left'"),
        (lambda: paper_tasks.t_shape(-1, goal="up"), "k is -1"),
        (
            lambda: paper_families.Tight("draft").draw(np.random.default_rng(0)),
            "variant is 'draft'",
        ),
        (lambda: paper_families.Maze("draft").draw(np.random.default_rng(0)), "variant is 'draft'"),
        (lambda: GridMap.read(("S.G",), closed="a"), "closed is 'a'"),
        (lambda: paper_tasks.heat_map(cells=["S.."]), "the map has 0 goals"),
        (lambda: paper_tasks.heat_map(cells=["SGG"]), "the map has 2 goals"),
        (lambda: paper_tasks.heat_map(cells=5), "the map is 5"),
        (lambda: paper_tasks.heat_map(width=0), "width is 0"),
        (lambda: paper_tasks.heat_map(width="a"), "width is 'a'"),
        (lambda: paper_tasks.heat_map(peak="a"), "peak is 'a'"),
        (lambda: grid_world("S.G", gamma=0.9, actions=("left", "jump")), "actions is"),
        (lambda: grid_world("S.G", gamma=0.9, actions=()), "actions is"),
        (lambda: grid_world("S.G", gamma=0.9, actions=("up",), slip=0.1), "no action to slip to"),
        (
            lambda: grid_world("S.G", gamma=0.9, cell_rewards=[1.0]),
            r"cell_rewards has shape \(1,\)",
        ),
        (lambda: GridEnv(hl.TabularMDP([[0.0]], [[[1.0]]], gamma=0.9)), "the task has no map"),
        (lambda: GridEnv(paper_tasks.corridor(1.0), render_mode="x"), "render_mode is 'x'"),
    ],
)
def test_invalid_argument_is_reported(make, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        make()


def test_size_that_would_exhaust_memory_is_refused():
    with pytest.raises(
        hl.errors.InvalidArgument, match=r"k is 10000000000: expected .* from 0 to 100,000"
    ):
        paper_families.TShape(k=10**10).draw(np.random.default_rng(0))
