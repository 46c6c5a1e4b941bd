"""Optimistic algorithms of the field, without and with transfer: bounds and evidence, composed.

UCBVI, MBIE and V-Max use a pair from its first visit on. All look at a pair again whenever its
visits have grown by the factor `refresh`.
"""

from typing import Annotated, Any, Unpack

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.near_rmax import GivenNearness, OptionalNearness, nearness_of
from heirloom.agents.optimistic import AgentOptions, CommonOptions, OptimisticAgent
from heirloom.errors import InvalidArgument
from heirloom.options import Option, chosen, declared
from heirloom.transfer.borrowed import Groups, Pool, Templates, pooled
from heirloom.transfer.bound import Bound
from heirloom.transfer.certified_sets import CertifiedSets, Floor
from heirloom.transfer.envelope import Envelope, EnvelopeOptions
from heirloom.transfer.evidence import (
    Bonuses,
    BonusKind,
    ConfidenceSets,
    GrowingShare,
    NearBonuses,
    SetKind,
)
from heirloom.transfer.posterior import PRIOR, NearPosterior, Posterior, Rewards, Sample, Strength
from heirloom.transfer.value_distance import Beta, ValueDistance


@declared
class UCBVI(OptimisticAgent):
    """UCBVI (Azar et al., 2017): the value of a pair is its estimate and a bonus for few visits.

    With n visits, reward range w = hi - lo and a range of values `span`,

        Q = min(v_max, R̂ + γ Σ T̂ V + b(n)),

    - "hoeffding": `b = c span / √n`; the theory has 7 L for c, with L = ln(5 S A T / δ)
    - "bernstein": `b = c (√((γ² Var V + w²/4) / n) + span / n)`; with the constants and the
      correction of the paper (UCBVI-BF) the regret is nearly optimal
    - "mbie-eb": `b = c w / √n` (Strehl and Littman, 2008), which is PAC with
      `c = √(ln(2 S A m / δ) / 2) / (1-γ)`

    The proofs are for these constants and, for UCBVI, for episodes of a fixed length. `scale` is c,
    which users tune; the defaults are far smaller than the theory and have no guarantee.

    With `pool`, visits of earlier tasks count as own visits: right if tasks do not differ. Or with
    `nearness`, which says how they differ, the value is the smaller one of the own bound and of the
    bound of all earlier visits together, with their bonus, plus what the nearness allows: the
    bound of Zhang and Wang (2021) for tasks one after the other, on the optimal values.
    """

    def __init__(
        self,
        *,
        bonus: Annotated[BonusKind, Option("which bonus.")] = "bernstein",
        scale: Annotated[
            float | None,
            Option("c, the scale of the bonus. By default, a number that works in practice.", ge=0),
        ] = None,
        pool: Pool = 0.0,
        nearness: OptionalNearness = None,
        **options: Unpack[CommonOptions],
    ) -> None:
        own, borrowed = Bonuses(kind=bonus, scale=scale), pooled(pool)
        if borrowed and nearness is not None:
            raise InvalidArgument(
                f"pool is {pool:g}, which takes all tasks to be alike, and nearness says how they "
                "differ: give one of the two"
            )
        bounds: list[Bound] = [*borrowed, own]
        if nearness is not None:
            bounds.append(NearBonuses(nearness, kind=bonus, scale=own.scale))
        super().__init__(bounds=bounds, n_known=1, **refreshed(options))


@declared
class MBIE(OptimisticAgent):
    """MBIE (Strehl and Littman, 2008): the best model of all that are compatible with the visits.

        Q = min(v_max, max { R + γ Σ T V : R <= R̂ + ρ, T near T̂ })

    With `scale` 1, all sets of a task contain the truth at all times with probability 1 - δ, Q is
    then an upper bound on Q*, and MBIE is PAC. This default works in practice and has no guarantee.
    """

    def __init__(
        self,
        *,
        sets: Annotated[
            SetKind, Option('sets of transitions: "l1" balls, or "kl" for relative entropy.')
        ] = "kl",
        delta: Annotated[float, Option("δ, the probability that a set fails.", gt=0, lt=1)] = 0.05,
        scale: Annotated[
            float, Option("factor on the radii of the sets; 1 is the theory.", gt=0)
        ] = 0.1,
        **options: Unpack[CommonOptions],
    ) -> None:
        evidence = ConfidenceSets(sets=sets, delta=delta, scale=scale)
        super().__init__(bounds=[evidence], n_known=1, **refreshed(options))


@declared
class VMax(OptimisticAgent):
    """V-Max (Rao and Whiteson, 2012): a mean of the model and of `v_max`, weighted by the visits.

        Q = (n/m) (R̂ + γ Σ T̂ V) + (1 - n/m) v_max  for n < m visits,    R̂ + γ Σ T̂ V  from m on

    So it uses early visits, where RMax uses none, and has the same bound on its sample complexity,
    for the m of the theory. `m` is a number that users tune. The share of the model grows when a
    pair is looked at.
    """

    def __init__(
        self,
        *,
        m: Annotated[int, Option("the visits after which the model has all weight.", ge=1)] = 20,
        **options: Unpack[CommonOptions],
    ) -> None:
        super().__init__(bounds=[GrowingShare(m=m)], n_known=1, **refreshed(options))


@declared
class FMRL(OptimisticAgent):
    """FMRL (Brunskill and Li, 2013): RMax that recognises which earlier task it faces again.

    If all tasks are of few kinds that differ by Γ or more, and with the constants of the theory,
    the sample complexity of later tasks does not grow with the number of states, with high
    probability. `heirloom.bounds.Groups` has the formulas. The defaults work in practice and have
    no guarantee; a task of a new kind gets the visits of another one.
    """

    def __init__(
        self,
        *,
        first: Annotated[
            int, Option("the number of tasks that are learned before any is recognised.", ge=1)
        ] = 3,
        gap: Annotated[
            float, Option("Γ, up to which models belong to tasks of one group.", gt=0)
        ] = 0.3,
        evidence: Annotated[float, Option("ξ, the evidence that drops a group.", gt=0)] = 0.2,
        separation: Annotated[
            float,
            Option("pairs count whose models differ by this many radii; in the theory 8.", gt=0),
        ] = 1.0,
        delta: Annotated[float, Option("δ of the radii.", gt=0, lt=1)] = 0.01,
        **options: Unpack[AgentOptions],
    ) -> None:
        numbers = {"evidence": evidence, "separation": separation, "delta": delta}
        super().__init__(bounds=[Groups(first=first, gap=gap, **numbers)], **options)


@declared
class TempLe(OptimisticAgent):
    """TempLe, online (Sun et al., 2021): RMax whose pairs share visits with others like them.

    A pair is like another one if its sorted transition probabilities and its mean reward are the
    same up to `distance`; `heirloom.bounds.Templates` has the formulas. If different templates are
    further apart than the estimates are wrong, the sample complexity depends on the number of
    templates instead of the number of pairs, with the constants of the theory. The defaults work
    in practice and have no guarantee.
    """

    def __init__(
        self,
        *,
        distance: Annotated[float, Option("τ̂, up to which a pair joins a template.", gt=0)] = 0.2,
        n_matched: Annotated[
            int, Option("the number of visits after which a pair joins a template.", ge=1)
        ] = 20,
        m: Annotated[
            int, Option("the number of visits, borrowed or not, that make a pair known.", ge=1)
        ] = 40,
        **options: Unpack[CommonOptions],
    ) -> None:
        templates = Templates(distance=distance, m=m)
        super().__init__(bounds=[templates], n_known=n_matched, **refreshed(options))


@declared
class MFRL(OptimisticAgent):
    """RMax with the bound Q̄ + β of earlier tasks, as in multi-fidelity RL (Cutler et al., 2014).

    If β is true and models are exact, the bound is valid, and the bound on the sample complexity is
    at most that of RMax. The paper has a chain of simulators, and returns to a cheaper one where
    that is useful; here every earlier task is a source, and no task is visited again.
    """

    def __init__(self, *, beta: Beta, **options: Unpack[AgentOptions]) -> None:
        super().__init__(bounds=[ValueDistance(beta=beta)], **options)


@declared
class CertifiedRMax(OptimisticAgent):
    """Greedy on upper bounds that hold with a stated probability, to certify a policy soon.

    It acts on the optimal values of the most favourable task in all confidence sets: of its own
    visits, and with a nearness of those of earlier tasks. They are computed anew after 1 % more
    steps. Declare `successors`, `terminates` and `rewards` if you can: without them the sets are
    too large to explore with. `learn(..., until=0.2)` stops once a policy is certified.

    With `floor`, it explores only as long as the expected values of all episodes together keep this
    share of the values that are guaranteed: `heirloom.bounds.CertifiedSets` has the promise. In a
    loop of your own, then call `agent.begin_episode()` before each episode.

    Examples:
        >>> import heirloom as hl
        >>> hl.CertifiedRMax(n_states=9, n_actions=4, gamma=0.9, rewards="per transition")
        CertifiedRMax(n_states=9, n_actions=4, gamma=0.9, n_known=1, bounds: CertifiedSets, \
tasks seen: 0)
    """

    def __init__(
        self,
        *,
        nearness: OptionalNearness = None,
        delta: Annotated[
            float, Option("δ, the probability that a bound fails, in a life.", gt=0, lt=1)
        ] = 0.05,
        floor: Floor = None,
        **options: Unpack[CommonOptions],
    ) -> None:
        if floor is not None and options["explore"] > 0:
            raise InvalidArgument(
                f"floor is {floor:g} and explore is {options['explore']:g}: exploratory steps "
                "would break the promise of floor; leave one of the two out"
            )
        sets = CertifiedSets(nearness, delta=delta, floor=floor)
        super().__init__(bounds=[sets], n_known=1, **refreshed(options))


class EnvelopeRMaxOptions(EnvelopeOptions, AgentOptions):
    """The options of `EnvelopeRMax`."""


@declared
class EnvelopeRMax(OptimisticAgent):
    """RMax with the bound `Envelope`, which needs no knowledge of the family.

    The bound is valid for each later task with probability 1 - α, if tasks are exchangeable.
    Until it is calibrated, the agent takes the same actions as RMax.
    """

    def __init__(self, **options: Unpack[EnvelopeRMaxOptions]) -> None:
        envelope = Envelope(**chosen(EnvelopeOptions, options))
        super().__init__(bounds=[envelope], **chosen(AgentOptions, options))


@declared
class PSRL(OptimisticAgent):
    """Posterior sampling (Osband et al., 2013): greedy on a model that is drawn from a posterior.

    A model is drawn for each episode, with Dirichlet distributions of transitions, and normal or
    Beta ones of mean rewards; `heirloom.bounds.Posterior` has the formulas. A bound on the expected
    regret is proved for finite horizons, if the task is itself drawn from the prior, and planning
    is exact. Here tasks are discounted and values have an error of a thousandth of the range of
    rewards, so that nothing is proved. It transfers nothing between tasks, unless visits of earlier
    ones are pooled with its own.

    In a loop of your own, call `agent.begin_episode()` before each episode.

    Examples:
        >>> import heirloom as hl
        >>> hl.PSRL(n_states=9, n_actions=4, gamma=0.9)
        PSRL(n_states=9, n_actions=4, gamma=0.9, n_known=2, bounds: Posterior, tasks seen: 0)
    """

    def __init__(
        self,
        *,
        posterior: Rewards = "normal",
        sample: Sample = "episode",
        prior: Strength = PRIOR,
        pool: Pool = 0.0,
        **options: Unpack[AgentOptions],
    ) -> None:
        possible = {name: options[name] for name in ("successors", "terminates")}
        sampled = Posterior(rewards=posterior, sample=sample, prior=prior, **possible)
        super().__init__(bounds=[*pooled(pool), sampled], **options)


@declared
class NearPSRL(OptimisticAgent):
    """Posterior sampling with a prior from earlier tasks and a nearness; it guarantees nothing.

    The prior of a pair follows from all visits in earlier tasks and from how much tasks can differ,
    and allows for a pair that is new, whatever the nearness says: `heirloom.bounds.NearPosterior`
    has the formulas. There is nothing to tune. Without earlier visits, a pair that was never tried
    has the value `v_max`.

    Examples:
        >>> import heirloom as hl
        >>> near = hl.Nearness(rewards=0.2, transitions=0.1)
        >>> hl.NearPSRL(nearness=near, n_states=9, n_actions=4, gamma=0.9).bounds[0].plans
        'visits'
    """

    def __init__(
        self,
        *,
        nearness: GivenNearness,
        **options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(bounds=[NearPosterior(nearness)], **options)


def refreshed(options: CommonOptions) -> CommonOptions:
    """Return the options; raise `InvalidArgument` if pairs are looked at only once."""
    if options["refresh"] is None:
        raise InvalidArgument(
            "refresh is None, but values follow the number of visits, which grows: expected a "
            "number above 1"
        )
    return options


def with_nearness(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec with a `Nearness`, if one is described."""
    given = options["nearness"]
    nearness = None if given is None else nearness_of(given, 1.0, known)
    return {**options, "nearness": nearness}
