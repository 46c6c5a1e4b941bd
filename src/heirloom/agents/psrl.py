"""Posterior sampling, without and with a prior from earlier tasks."""

from typing import Unpack

from heirloom.agents.near_rmax import GivenNearness
from heirloom.agents.optimistic import AgentOptions, OptimisticAgent
from heirloom.options import declared
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
