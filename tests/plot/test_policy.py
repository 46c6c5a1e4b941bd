"""`draw_policy` shows the action of each state, where it was tried, and where it is certain."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

import heirloom as hl
from heirloom.plot.maps import PALE, PALETTE

TABLE = pd.DataFrame(
    {
        "state": ["low, 0", "low, 1", "high, 0", "high, 1"],
        "action": ["buy", "wait", "sell", "buy"],
        "visits": [3, 0, 9, 1],
        "certain": [True, False, False, True],
    }
)
ACTIONS = ["buy", "sell", "wait"]


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def test_cells_have_the_colours_of_actions_and_dots_where_they_are_certain():
    rows, columns = ["low", "low", "high", "high"], [0, 1, 0, 1]
    figure = hl.plot.draw_policy(TABLE, rows=rows, columns=columns, title="policy")
    (ax,) = figure.axes
    image = ax.images[0].get_array()
    for i in range(4):
        place = ("low", "high").index(rows[i]), columns[i]
        colour = PALETTE[ACTIONS.index(TABLE.action[i])]
        assert tuple(image[place]) == to_rgba(colour, 1.0 if TABLE.visits[i] else PALE)
    assert labels(ax.get_yticklabels()) == ["low", "high"]
    assert labels(ax.get_xticklabels()) == ["0", "1"]
    assert ax.collections[0].get_offsets().tolist() == [[0, 0], [1, 1]]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [*ACTIONS, "certain"]
    assert ax.get_title() == "policy"


def test_states_are_the_rows_by_default_and_policies_of_agents_are_drawn(tmp_path):
    m = hl.grid_world(["S..G"], gamma=0.9)
    agent = hl.RMax(n_states=4, n_actions=4, gamma=0.9, seed=0)
    hl.learn(agent, m, episodes=5, max_steps=10, seed=0)
    table = hl.policy_table(agent)
    (ax,) = hl.plot.draw_policy(table).axes
    assert labels(ax.get_yticklabels()) == [str(name) for name in table.state]
    hl.plot.save_figure(hl.plot.draw_policy(table[["state", "action"]]), tmp_path / "policy.png")


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (3, {}, "table is 3"),
        (TABLE[["state"]], {}, "expected a table that policy_table returns"),
        (TABLE, {"rows": ["a"]}, "rows has 1 labels: expected one for each of the 4"),
        (TABLE, {"rows": list("aabb")}, "states 'low, 0' and 'low, 1' have the same row"),
        (
            pd.DataFrame({"state": np.arange(201), "action": 0}),
            {},
            "would have 201 rows: expected at most 200; give rows and columns",
        ),
    ],
)
def test_wrong_tables_and_labels_are_refused(table, options, message):
    with pytest.raises(hl.errors.InvalidArgument, match=message):
        hl.plot.draw_policy(table, **options)
