"""The sample sizes of the theory: each is enough for its guarantee, and no smaller one is."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import heirloom as hl
from tests.reference import exact
from tests.strategies import RANGES

probabilities = st.floats(1e-3, 1.0)


def probability_of_missing(draws, *probabilities):
    """Return the exact probability that independent draws miss at least one of these tasks.

    It is that of a Markov chain over the set of tasks seen so far, in integers over a common
    denominator.
    """
    chances = [Fraction(p) for p in probabilities]
    denominator = math.lcm(*(p.denominator for p in chances))
    seen_sets = list(itertools.product((False, True), repeat=len(chances)))
    chain = np.zeros((len(seen_sets), len(seen_sets)), dtype=object)
    for i, seen in enumerate(seen_sets):
        chain[i, i] += int((1 - sum(chances)) * denominator)
        for task, p in enumerate(chances):
            next_seen = (*seen[:task], True, *seen[task + 1 :])
            chain[i, seen_sets.index(next_seen)] += int(p * denominator)
    seen_all = np.linalg.matrix_power(chain, draws)[0, -1]
    return 1 - Fraction(seen_all, denominator**draws)


@given(probabilities, probabilities)
@example(p_min=0.5, delta=0.25)
@example(p_min=1.0, delta=1.0)
def test_tasks_for_max_q_is_the_smallest_number_that_includes_a_task(p_min, delta):
    m = hl.theory.tasks_for_max_q(p_min, delta)
    assert probability_of_missing(m, p_min) <= delta
    assert m == 1 or probability_of_missing(m - 1, p_min) > delta


@given(st.floats(1e-3, 0.5), probabilities)
@example(p_min=0.5, delta=0.25)
@example(p_min=0.4790565952338352, delta=0.9999999999999999)
def test_tasks_for_distance_is_the_smallest_number_that_includes_two_tasks(p_min, delta):
    m = hl.theory.tasks_for_distance(p_min, delta)
    assert probability_of_missing(m, p_min, p_min) <= delta
    assert m == 1 or probability_of_missing(m - 1, p_min, p_min) > delta


@given(st.floats(0.05, 0.5), probabilities, st.floats(0, 1), st.floats(0, 1))
def test_tasks_with_probability_above_p_min_are_included_too(p_min, delta, share, other_share):
    """`p_min` is a lower bound on the probabilities of tasks, which need not be equal."""
    p = p_min + share * (0.5 - p_min)
    other = p_min + other_share * (0.5 - p_min)
    assume(p + other <= 1)
    assert probability_of_missing(hl.theory.tasks_for_max_q(p_min, delta), p) <= delta
    assert probability_of_missing(hl.theory.tasks_for_distance(p_min, delta), p, other) <= delta


@pytest.mark.parametrize("draws", [2, 3, 5])
def test_numbers_of_tasks_agree_with_the_enumeration_of_all_draws(draws):
    """Four equally likely tasks: δ is the exact share of sequences that miss what is needed."""
    sequences = list(itertools.product(range(4), repeat=draws))
    for tasks_for, needed in (
        (hl.theory.tasks_for_max_q, {0}),
        (hl.theory.tasks_for_distance, {0, 1}),
    ):
        missed = sum(not needed <= set(sequence) for sequence in sequences) / len(sequences)
        assert tasks_for(0.25, missed) == draws
        assert tasks_for(0.25, np.nextafter(missed, 0)) == draws + 1


@given(st.floats(0.5, 1.0, exclude_min=True), probabilities)
def test_one_task_with_probability_above_one_half_is_all_that_must_be_included(p_min, delta):
    """Above 1/2 no second task has probability p_min."""
    m = hl.theory.tasks_for_distance(p_min, delta)
    assert probability_of_missing(m, p_min) <= delta
    assert m == 1 or probability_of_missing(m - 1, p_min) > delta


def test_max_q_init_starts_at_task_15_in_the_papers_experiment():
    """Erratum 4: δ = 0.05 starts it at task 15; the reported start at 12 belongs to δ = 0.1."""
    assert hl.theory.tasks_for_max_q(1 / 5, 0.05) + 1 == 15
    assert hl.theory.tasks_for_max_q(1 / 5, 0.1) + 1 == 12


@pytest.mark.parametrize("p_min", [1e-6, 1e-10, 1e-17])
def test_tiny_probabilities_lose_no_precision(p_min):
    """As p_min → 0, draws of a task are a Poisson process: m p_min tends to a constant.

    With x = m p_min, a task is missed with probability e^-x, and one of two with 1 - (1 - e^-x)².
    """
    x = hl.theory.tasks_for_max_q(p_min, 0.05) * p_min
    assert math.exp(-x) == pytest.approx(0.05, rel=1e-4)
    x = hl.theory.tasks_for_distance(p_min, 0.05) * p_min
    assert 1 - (1 - math.exp(-x)) ** 2 == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("bad", [0, -0.1, 1.1, None, "often", np.nan])
def test_p_min_and_delta_outside_their_range_are_rejected(bad):
    for tasks_for in (hl.theory.tasks_for_max_q, hl.theory.tasks_for_distance):
        with pytest.raises(hl.errors.InvalidArgument, match=r"p_min is .*: expected a probability"):
            tasks_for(bad, 0.1)
        with pytest.raises(hl.errors.InvalidArgument, match=r"delta is .*: expected a probability"):
            tasks_for(0.1, bad)


def test_numbers_of_any_real_type_are_accepted():
    """Comparisons with fractions need float64."""
    for number in (np.float32(0.25), np.float64(0.25), Fraction(1, 4), np.array(0.25)):
        assert hl.theory.tasks_for_distance(number, number) == hl.theory.tasks_for_distance(
            0.25, 0.25
        )
        assert hl.theory.tasks_for_max_q(number, number) == hl.theory.tasks_for_max_q(0.25, 0.25)


def test_extreme_numbers_do_not_overflow():
    assert hl.theory.tasks_for_max_q(1e-300, 0.5) == pytest.approx(math.log(2) * 1e300)
    with pytest.raises(hl.errors.InvalidArgument, match="p_min is 5e-324"):
        hl.theory.tasks_for_max_q(5e-324, 0.5)
    assert hl.theory.value_iterations(0.5, 1e-320) == math.ceil(
        2 * (320 * math.log(10) + math.log(2))
    )
    options = {"epsilon": 1e308, "delta": 0.1}
    assert hl.theory.n_known_for(2, 2, **options) == 1
    large = {"epsilon": 1e199, "delta": 0.1, "reward_range": (0.0, 1e200)}
    assert hl.theory.n_known_for(1, 1, **large, terminating=False) == math.ceil(50 * math.log(40))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("precision", [1e-6, 0.01, 1.0, 5.0, 2000.0])
def test_value_iterations_reach_the_precision_in_the_worst_task(gamma, precision):
    """One state with reward 1: from V = 0, its error is the largest of all rewards in [0, 1]."""
    V = 0.0
    for _ in range(hl.theory.value_iterations(gamma, precision)):
        V = 1 + gamma * V
    assert 1 / (1 - gamma) - V <= precision


sizes = st.fixed_dictionaries(
    {
        "n_states": st.integers(1, 60),
        "n_actions": st.integers(1, 5),
        "epsilon": st.floats(0.01, 2.0),
        "delta": st.floats(1e-4, 1.0),
        "n_sources": st.integers(0, 20),
        "reward_range": st.sampled_from(RANGES),
        "terminating": st.booleans(),
    }
)


class TestNKnown:
    @given(sizes)
    def test_n_known_is_the_smallest_number_that_satisfies_both_concentration_inequalities(
        self, options
    ):
        """Each pair of each task may fail in two ways, and all these failures share δ equally."""
        n_outcomes = options["n_states"] + options["terminating"]
        lo, hi = options["reward_range"]
        n_pairs = (options["n_sources"] + 1) * options["n_states"] * options["n_actions"]
        log_share = math.log(options["delta"]) - math.log(2 * n_pairs)

        def log_failure(visits):
            """Of the likelier of the two failures, by Hoeffding and by Weissman et al."""
            hoeffding = math.log(2) - 2 * visits * (options["epsilon"] / (hi - lo)) ** 2
            if n_outcomes == 1:
                return hoeffding
            return max(
                hoeffding, math.log(2**n_outcomes - 2) - visits * options["epsilon"] ** 2 / 2
            )

        n_known = hl.theory.n_known_for(**options)
        assert log_failure(n_known) <= log_share + 1e-9
        assert n_known == 1 or log_failure(n_known - 1) > log_share - 1e-9

    def test_n_known_equals_values_computed_by_hand(self):
        """δ' = 0.1 / 12, four outcomes: 2 (ln 14 + ln 120) / 0.05² = 5941.24.

        One outcome leaves the rewards: δ' = 0.1 / 2, ln 40 / (2 · 0.1²) = 184.4.
        """
        assert hl.theory.n_known_for(3, 2, epsilon=0.05, delta=0.1) == 5942
        assert hl.theory.n_known_for(1, 1, epsilon=0.1, delta=0.1, terminating=False) == 185

    @given(sizes, st.floats(1.01, 3.0))
    def test_n_known_with_refresh_is_the_smallest_number_whose_later_failures_share_delta(
        self, options, refresh
    ):
        """The probabilities of failure after n_known, n_known + 1, ... visits are added up."""
        options = {**options, "epsilon": max(options["epsilon"], 0.1)}
        n_outcomes = options["n_states"] + options["terminating"]
        lo, hi = options["reward_range"]
        n_pairs = (options["n_sources"] + 1) * options["n_states"] * options["n_actions"]
        log_share = math.log(options["delta"]) - math.log(2 * n_pairs)
        rates = {2 * (options["epsilon"] / (hi - lo)) ** 2: math.log(2)}
        if n_outcomes > 1:
            rates[options["epsilon"] ** 2 / 2] = math.log(2**n_outcomes - 2)

        def log_failures(n):
            more = np.arange(100_000)
            return max(
                log_c - rate * n + math.log(np.exp(-rate * more).sum())
                for rate, log_c in rates.items()
            )

        n_known = hl.theory.n_known_for(**options, refresh=refresh)
        assume(n_known < 1e6 and min(rates) > 1e-3)
        assert log_failures(n_known) <= log_share + 1e-9
        assert n_known == 1 or log_failures(n_known - 1) > log_share - 1e-9
        assert n_known >= hl.theory.n_known_for(**options)

    def test_estimates_after_all_later_visits_are_accurate_with_probability_one_minus_delta(self):
        """400 streams of outcomes of two states; a fifth of the visits is not enough."""
        options = {"epsilon": 0.4, "delta": 0.2, "terminating": False}
        n_known, runs = hl.theory.n_known_for(2, 1, **options, refresh=1.5), 400
        p = np.random.default_rng(0).uniform(size=(runs, 2, 1))
        seen = np.random.default_rng(1).uniform(size=(runs, 2, 10 * n_known)) < p
        visits = np.arange(1, 10 * n_known + 1)
        distance = 2 * np.abs(seen.cumsum(axis=2) / visits - p)  # in L1 norm

        def failures(n):
            return (distance[:, :, n - 1 :] > options["epsilon"]).any(axis=(1, 2)).sum()

        assert failures(n_known) <= options["delta"] * runs
        assert failures(n_known // 5) > options["delta"] * runs

    @given(sizes)
    def test_n_known_grows_with_the_problem_and_with_the_accuracy(self, options):
        lo, hi = options["reward_range"]
        harder = [
            {"n_states": options["n_states"] + 1},
            {"n_actions": options["n_actions"] + 1},
            {"epsilon": options["epsilon"] / 2},
            {"delta": options["delta"] / 2},
            {"n_sources": options["n_sources"] + 1},
            {"reward_range": (lo - 1, hi + 1)},
            {"terminating": True},
        ]
        n_known = hl.theory.n_known_for(**options)
        assert all(hl.theory.n_known_for(**{**options, **change}) >= n_known for change in harder)

    def test_rewards_determine_n_known_if_their_range_is_wide(self):
        few = hl.theory.n_known_for(2, 1, epsilon=0.1, delta=0.1, reward_range=(0, 1))
        many = hl.theory.n_known_for(2, 1, epsilon=0.1, delta=0.1, reward_range=(-50, 50))
        assert many > 100 * few

    @pytest.mark.parametrize("n_states", [10**3, 10**5, 10**7])
    def test_many_states_do_not_overflow(self, n_states):
        """The number of subsets, 2^n, dominates: n_known tends to 2 n ln 2 / ε²."""
        n_known = hl.theory.n_known_for(n_states, 4, epsilon=0.1, delta=0.05)
        assert n_known == pytest.approx(2 * n_states * math.log(2) / 0.01, rel=0.05)

    @pytest.mark.parametrize(
        "bad",
        [
            {"epsilon": 0},
            {"epsilon": -1},
            {"epsilon": 1e-170},
            {"delta": 0},
            {"delta": 1.5},
            {"n_sources": -1},
            {"refresh": 1.0},
        ],
    )
    def test_arguments_outside_their_range_are_rejected(self, bad):
        with pytest.raises(hl.errors.InvalidArgument, match=f"{next(iter(bad))} is"):
            hl.theory.n_known_for(2, 2, **{"epsilon": 0.1, "delta": 0.1, **bad})

    def test_models_are_accurate_at_every_pair_with_probability_one_minus_delta(self):
        """300 simulated tasks with Bernoulli rewards; a fifth of the visits is not enough."""
        epsilon, delta, runs = 0.4, 0.2, 300

        def failures(visits):
            rng, count = np.random.default_rng(20), 0
            for _ in range(runs):
                m = hl.garnet(2, 2, branching=2, gamma=0.9, seed=rng, terminating=0.2)
                p, R = exact.dense(m).T.reshape(4, 3), m.R.reshape(4)
                empirical_p = rng.multinomial(visits, p / p.sum(axis=1, keepdims=True)) / visits
                empirical_R = rng.binomial(visits, R) / visits
                count += bool(
                    (np.abs(empirical_p - p).sum(axis=1) > epsilon).any()
                    or (np.abs(empirical_R - R) > epsilon).any()
                )
            return count

        n_known = hl.theory.n_known_for(2, 2, epsilon=epsilon, delta=delta)
        assert failures(n_known) <= delta * runs
        assert failures(n_known // 5) > delta * runs
