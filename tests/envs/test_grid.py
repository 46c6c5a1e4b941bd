"""Grid worlds: the transitions and rewards of small maps, checked by hand."""

import numpy as np
import pytest

import heirloom as hl
from heirloom.envs.grid import grid_world
from heirloom.envs.paper_tasks import TIGHT, tight

UP, RIGHT, DOWN, LEFT = range(4)


def row(m, s, a):
    return m.T[[s * 4 + a]].toarray()[0].tolist()


class TestMoves:
    """
    S . G
    . # .      states 0 1 2 / 3 4
    """

    MAP = "S.G\n.#."

    def test_moves_stop_at_walls_and_borders(self):
        m = grid_world(self.MAP, gamma=0.9)
        successors = [[row(m, s, a).index(1.0) for a in range(4)] for s in range(5)]
        assert successors == [[0, 1, 3, 0], [1, 2, 1, 0], [2, 2, 4, 1], [0, 3, 3, 3], [2, 4, 4, 4]]
        assert m.start.tolist() == [1, 0, 0, 0, 0]
        assert m.action_names == ("up", "right", "down", "left")

    def test_slipping_to_others_takes_each_other_action_equally_often(self):
        m = grid_world(self.MAP, gamma=0.9, slip=0.3)
        assert row(m, 0, RIGHT) == pytest.approx([0.2, 0.7, 0, 0.1, 0])

    def test_slipping_to_sides_takes_each_perpendicular_action_equally_often(self):
        m = grid_world(self.MAP, gamma=0.9, slip=0.3, slip_to="sides")
        assert row(m, 0, RIGHT) == pytest.approx([0.15, 0.7, 0, 0.15, 0])
        assert row(m, 0, DOWN) == pytest.approx([0.15, 0.15, 0, 0.7, 0])

    def test_goal_pays_for_acting_in_it(self):
        m = grid_world(self.MAP, gamma=0.9, slip=0.3, goal_rewards=0.5)
        assert (m.R == np.where(np.arange(5) == 2, 0.5, 0)[:, None]).all()

    def test_goal_pays_for_being_entered(self):
        m = grid_world(self.MAP, gamma=0.9, slip=0.3, goal_rewards=0.5, reward_on="entering")
        np.testing.assert_allclose(m.R.ravel(), 0.5 * m.T.toarray()[:, 2])

    def test_transition_paid_by_a_terminal_goal_terminates(self):
        entering = grid_world(self.MAP, gamma=0.9, reward_on="entering", terminal=True)
        assert hl.solve(entering).V[0] == pytest.approx(0.9)
        assert np.array_equal(entering.ends.ravel(), entering.T.toarray()[:, 2])
        acting = grid_world(self.MAP, gamma=0.9, terminal=True)
        assert hl.solve(acting).V[0] == pytest.approx(0.81)
        assert (acting.ends == (np.arange(5) == 2)[:, None]).all()

    def test_each_goal_can_have_its_own_reward(self):
        m = grid_world("GSG", gamma=0.9, goal_rewards=[0.25, 0.75])
        assert m.R[:, 0].tolist() == [0.25, 0, 0.75]

    def test_map_without_start_begins_in_a_uniformly_drawn_state(self):
        assert grid_world("..G", gamma=0.9).start == pytest.approx(np.full(3, 1 / 3))

    @pytest.mark.parametrize(
        ("cells", "options", "message"),
        [
            ("", {}, "the map has rows"),
            (["..", "."], {}, "rows of the same length"),
            ("..X", {}, "the map contains 'X'"),
            ("##", {}, "only walls"),
            (None, {}, "the map is None"),
            ([1, 2], {}, r"the map is \[1, 2\]"),
            ("..G", {"slip": 1.5}, "slip is 1.5"),
            ("..G", {"slip": "often"}, "slip is 'often'"),
            ("..G", {"goal_rewards": "gold"}, "goal_rewards is not an array of real numbers"),
            ("..G", {"slip_to": "anywhere"}, "slip_to is 'anywhere'"),
            ("..G", {"reward_on": "leaving"}, "reward_on is 'leaving'"),
            ("..G", {"goal_rewards": [1, 1]}, "one for each goal of the map, which has 1 goal"),
        ],
    )
    def test_invalid_map_or_option_is_reported(self, cells, options, message):
        with pytest.raises(hl.errors.InvalidArgument, match=message):
            grid_world(cells, gamma=0.9, **options)


class TestTight:
    def test_map_has_the_start_and_goals_of_the_paper(self):
        assert len(TIGHT) == 11
        m = tight([0.7, 0.8, 0.9], 0.0, variant="text")
        assert m.n_states == 121
        assert m.start.argmax() == 60
        assert {int(s): m.R[s, 0] for s in np.flatnonzero(m.R[:, 0])} == {9: 0.7, 10: 0.8, 21: 0.9}

    def test_optimal_return_matches_the_hand_computed_one(self):
        """A goal next to the corner is nine moves away from the centre."""
        acting = tight(1.0, 0.0, variant="text")
        assert hl.optimal_return(acting, horizon=9) == 0
        assert hl.optimal_return(acting, horizon=10) == pytest.approx(0.9**9)
        entering = tight(1.0, 0.0, variant="released")
        assert hl.optimal_return(entering, horizon=9) == pytest.approx(0.9**8)
        assert hl.solve(entering).V[60] == pytest.approx(0.9**8 / (1 - 0.9))

    def test_unknown_variant_is_rejected(self):
        with pytest.raises(hl.errors.InvalidArgument, match="variant is 'txt'"):
            tight(1.0, 0.0, variant="txt")

    def test_nan_reward_is_rejected(self):
        with pytest.raises(
            hl.errors.InvalidArgument, match="goal_rewards has a number that is not fin"
        ):
            tight(np.nan, 0.0, variant="text")

    def test_variants_differ_in_the_number_of_moves_that_slipping_can_take(self):
        text, released = (tight(1.0, 0.06, variant=v) for v in ("text", "released"))
        assert np.diff(text.transitions.indptr).max() == 4
        assert np.diff(released.transitions.indptr).max() == 3
