"""Pages of replays: what they contain, and what is refused."""

import base64
import inspect
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import heirloom as hl
from heirloom.cli.app import app
from heirloom.envs.toy_text import cliff_walking, frozen_lake, taxi
from heirloom.errors import CannotWrite, InvalidArgument
from heirloom.mdp.scene import Scene
from heirloom.report.replay import TAXI_WALLS, action_names, as_data, as_scene, directions
from heirloom.runs.recordings import recordings
from tests.report.recordings import HOSTILE, maze_recordings, table_recording
from tests.small_run import FAST


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay") / "run"
    hl.run(FAST.with_changes(record={"agents": ["RMax", "LRMax(0.1)"]}), folder, jobs=1)
    return folder


def data_in(page):
    text = re.search(r'class="hlr-data">([^<]*)<', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_pages_of_replays_and_reports_have_one_policy(run, tmp_path):
    """A page that is opened from disk may load nothing that is not in it."""
    pages = hl.replay(run, tmp_path / "replay.html"), hl.write_report(run, tmp_path / "report.html")
    policies = [
        re.findall('<meta http-equiv="([^"]*)" content="([^"]*)">', p.read_text()) for p in pages
    ]
    ((name, policy),) = policies[0]
    assert policies[1] == policies[0]
    assert name == "Content-Security-Policy"
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy


def test_page_contains_the_recorded_arrays(tmp_path):
    recordings = maze_recordings()
    path = hl.replay(list(recordings), tmp_path / "replay.html")
    found = data_in(path.read_text())
    assert len(found["recordings"]) == len(recordings)
    for entry, r in zip(found["recordings"], recordings, strict=True):
        assert entry["states"] == r.states.tolist()
        assert entry["chosen"] == r.actions.tolist()
        assert entry["certificate"] == r.certificate.splitlines()
        for name, changes in r.layers.items():
            assert entry["changes"][name]["pairs"] == changes.pairs.tolist()
            values = np.array(entry["changes"][name]["values"], dtype=float)
            assert np.allclose(values, changes.values, rtol=1e-5, atol=0)


def test_page_contains_no_markup_of_hostile_names(tmp_path):
    path = hl.replay([*maze_recordings(), table_recording()], tmp_path / "replay.html")
    page = path.read_text()
    assert "onclick" not in page.replace("&lt;b onclick", "").replace("onclick: act", "")
    assert "<i>state" not in page
    assert "\x1b" not in page
    assert page.count("</script>") == 2
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_page_is_small(tmp_path):
    path = hl.replay(list(maze_recordings()), tmp_path / "replay.html")
    assert path.stat().st_size < 100_000


def test_infinite_numbers_are_written_in_json():
    agent = hl.OptimisticAgent(
        bounds=[], n_states=1, n_actions=1, gamma=0.5, n_known=1, reward_range=(0, 1e200), seed=0
    )
    m = hl.TabularMDP([[1e200]], [[[1.0]]], gamma=0.5, reward_range=(0, 1e200))
    recording = hl.learn(agent, m, episodes=1, max_steps=1, seed=0, record=True).recording
    entry = as_data([recording])["recordings"][0]
    assert entry["changes"]["Q"]["values"][0] is None
    lowest = recording.layers["Q"]._replace(values=np.array([-np.inf], dtype="f4"))
    missing = replace(recording, layers=recording.layers | {"Q": lowest})
    entry = as_data([missing])["recordings"][0]
    assert entry["changes"]["Q"]["values"][0] is False


def test_name_of_the_function_is_not_that_of_a_package(tmp_path):
    """Importing a package `heirloom.replay` would hide the function."""
    __import__("heirloom.report.replay")
    assert inspect.isfunction(hl.replay)
    assert hl.replay(table_recording(), tmp_path / "a.html").exists()


def test_recordings_of_a_run_can_be_chosen(run, tmp_path):
    assert len(recordings(run)) == 6
    chosen = recordings(run, agents=["RMax"], repetition=1, task=2)
    assert [(r.agent, r.task) for r in chosen] == [("RMax", 2)]
    page = hl.replay(run, tmp_path / "a.html", agents="RMax", task=2).read_text()
    assert [entry["task"] for entry in data_in(page)["recordings"]] == [2]


def test_command_writes_a_page(run, tmp_path):
    out = tmp_path / "a.html"
    options = ["--agent", "RMax", "--agent", "LRMax(0.1)", "--task", "2", "--repetition", "1"]
    result = CliRunner().invoke(app, ["replay", str(run), *options, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert str(out) in result.output
    assert [entry["agent"] for entry in data_in(out.read_text())["recordings"]] == [
        "RMax",
        "LRMax(0.1)",
    ]


def test_run_without_recordings_is_refused_with_a_remedy(tmp_path):
    hl.run(FAST.with_changes(repetitions=1, tasks=1, episodes=2), tmp_path / "run", jobs=1)
    with pytest.raises(InvalidArgument, match=r"add `record = true` to its spec"):
        hl.replay(tmp_path / "run", tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"agents": "LRMax(0.2)"}, r"it has recordings of 'RMax', 'LRMax\(0.1\)'"),
        ({"task": 9}, "in repetitions 1 and tasks 1, 2, 3"),
        ({"agents": "RMx"}, "agents contains 'RMx': expected some of 'RMax'"),
        ({"agents": [3]}, "agents contains 3: expected some of 'RMax'"),
    ],
)
def test_choice_without_recordings_is_refused(run, tmp_path, choice, message):
    with pytest.raises(InvalidArgument, match=message):
        hl.replay(run, tmp_path / "a.html", **choice)


@pytest.mark.parametrize("source", [None, 3, [], [3], {"a": 1}])
def test_what_is_neither_a_run_nor_a_recording_is_refused(source, tmp_path):
    with pytest.raises(InvalidArgument, match="expected recordings"):
        hl.replay(source, tmp_path / "a.html")


def test_recording_without_episodes_is_refused(tmp_path):
    agent = hl.RMax(n_states=6, n_actions=2, gamma=0.9, n_known=2, seed=0)
    m, nothing = hl.garnet(6, 2, branching=2, gamma=0.9, seed=0), {"first": 0, "last": 0}
    recording = hl.learn(agent, m, episodes=2, max_steps=3, seed=0, record=nothing).recording
    with pytest.raises(InvalidArgument, match="no episode was recorded"):
        hl.replay(recording, tmp_path / "a.html")
    with pytest.raises(InvalidArgument, match="there is no recording"):
        hl.replay(list(maze_recordings()), tmp_path / "a.html", task=7)


def test_file_that_cannot_be_written_is_an_error(tmp_path):
    assert hl.replay(table_recording(), tmp_path / "new" / "a") == tmp_path / "new" / "a.html"
    with pytest.raises(CannotWrite, match="choose another file, in a folder that you may write to"):
        hl.replay(table_recording(), tmp_path / "new" / "a.html" / "b.html")


@pytest.mark.parametrize(
    ("m", "style"),
    [(frozen_lake(), "FrozenLake"), (cliff_walking(), "CliffWalking"), (taxi(), "Taxi")],
)
def test_tasks_of_gymnasium_have_their_own_maps(m, style):
    lo, hi = m.reward_range
    agent = hl.RMax(
        n_states=m.n_states,
        n_actions=m.n_actions,
        gamma=0.95,
        n_known=1,
        reward_range=(lo, hi),
        seed=0,
    )
    r = hl.learn(agent, m, episodes=2, max_steps=5, seed=0, record=True).recording
    scene = as_scene(r)
    assert r.scene.style == style
    assert len(scene["positions"]) == m.n_states
    moves = ((-1, 0), (0, 1), (1, 0), (0, -1))
    turns, T = directions(r), m.T
    for s in range(m.n_states):
        row, column = scene["positions"][s]
        for a, turn in enumerate(turns):
            if turn is not None and not m.ends[s].any() and style == "Taxi":
                dr, dc = moves[turn]
                t = scene["positions"][T[[s * m.n_actions + a]].indices[0]]
                wall = (row, column + min(0, dc)) in TAXI_WALLS and dc
                inside = 0 <= row + dr < 5 and 0 <= column + dc < 5
                assert t == ([row + dr, column + dc] if inside and not wall else [row, column])


def test_map_that_does_not_fit_its_task_is_not_drawn():
    wrong = replace(table_recording(), scene=Scene("grid", ("..", "..")))
    assert as_scene(wrong) == {"kind": "table"}
    assert action_names(table_recording()) == ["0", "1"]


def test_closed_cell_of_a_grid_is_marked_in_its_map():
    scene = maze_recordings()[0].scene
    assert "X" in "".join(scene.cells)
    assert len(as_scene(maze_recordings()[0])["positions"]) == maze_recordings()[0].n_states
    assert HOSTILE == maze_recordings()[0].agent


def test_report_of_a_run_contains_its_replay(run, tmp_path):
    page = hl.write_report(run, tmp_path / "report.html").read_text()
    assert 'id="replay"' in page
    assert len(data_in(page)["recordings"]) == 6
