"""The figure of an audit labels states and actions."""

import pytest

import heirloom as hl


def audit(**names):
    """Audit two tasks with two states and two actions, which differ in one reward."""
    options = {"n_states": 2, "n_actions": 2, "gamma": 0.9, "n_known": 1, "seed": 0}
    agent = hl.RMax(**options)
    T = [[[1.0, 0.0], [0.0, 1.0]]] * 2
    for i, reward in enumerate((0.2, 0.6)):
        m = hl.TabularMDP([[0.0, 0.5], [reward, 0.0]], T, gamma=0.9, **names)
        hl.learn(agent, m, episodes=20, max_steps=10, seed=i)
    return hl.audit(agent.memory, exact=True)


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_states_and_actions_with_names_are_labelled_by_them():
    names = {"state_names": ["$idle$", "running " * 4], "action_names": ["keep", "switch"]}
    figure = hl.plot.draw_audit(audit(**names))
    last = figure.axes[2]
    assert ticks(last.yaxis) == ["keep", "switch"]
    assert ticks(last.xaxis) == [r"\$idle\$", "running running r…"]
    assert [ticks(ax.xaxis) for ax in figure.axes[:2]] == [["", ""]] * 2


@pytest.mark.parametrize("given", [{}, {"action_names": ["keep", "switch"]}])
def test_states_without_names_are_labelled_by_numbers(given):
    figure = hl.plot.draw_audit(audit(**given))
    assert ticks(figure.axes[2].yaxis) == (["keep", "switch"] if given else ["0", "1"])
    assert all(float(place).is_integer() for place in figure.axes[2].get_xticks())
