"""Posterior sampling, without and with a prior from earlier tasks."""

from typing import Annotated, Any, Literal, Unpack

from heirloom.agents.algorithm_options import TaskKnowledge
from heirloom.agents.near_rmax import GivenNearness
from heirloom.agents.optimistic import AgentOptions, OptimisticAgent
from heirloom.errors import InvalidArgument
from heirloom.options import Option, declared
from heirloom.transfer.borrowed import Pool, pooled
from heirloom.transfer.posterior import PRIOR, NearPosterior, Posterior, Rewards, Sample, Strength


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
        successors: Annotated[
            Any,
            Option(
                "the successors that are possible: booleans [s, a, s'], or sparse of shape "
                '(S·A, S); by default all states. In a spec, "family" for those of the family, '
                "with the pairs at which its tasks can terminate.",
                spec=Literal["family"] | None,
            ),
        ] = None,
        terminates: Annotated[
            Any,
            Option(
                "the pairs at which a transition can terminate, booleans [s, a]; by default all.",
                spec=None,
            ),
        ] = None,
        rewards: Rewards = "normal",
        sample: Sample = "episode",
        prior: Strength = PRIOR,
        pool: Pool = 0.0,
        **options: Unpack[AgentOptions],
    ) -> None:
        possible = {"successors": successors, "terminates": terminates}
        posterior = Posterior(rewards=rewards, sample=sample, prior=prior, **possible)
        super().__init__(bounds=[*pooled(pool), posterior], **options)


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


def with_successors(options: dict[str, Any], known: TaskKnowledge) -> dict[str, Any]:
    """Return the options of a spec for PSRL."""
    if options["successors"] != "family":
        return options
    if (nearness := known.nearness()) is None:
        raise InvalidArgument(
            "successors is 'family', but the family does not know them: leave successors out"
        )
    return {**options, "successors": nearness.successors, "terminates": nearness.terminates}
