"""CertifiedRMax: exploration that serves a certificate."""

from typing import Annotated, Unpack

from heirloom.agents.near_rmax import OptionalNearness
from heirloom.agents.optimistic import CommonOptions, OptimisticAgent
from heirloom.agents.optimistic_algorithms import refreshed
from heirloom.errors import InvalidArgument
from heirloom.options import Option, declared
from heirloom.transfer.certified_sets import CertifiedSets, Floor


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
