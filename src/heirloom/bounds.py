"""Upper bounds on `Q*` of the current task: the bounds, and what a user-defined one is given."""

from heirloom.transfer.borrowed import Groups as Groups
from heirloom.transfer.borrowed import PooledVisits as PooledVisits
from heirloom.transfer.borrowed import Templates as Templates
from heirloom.transfer.bound import Bound as Bound
from heirloom.transfer.bound import Change as Change
from heirloom.transfer.bound import Constant as Constant
from heirloom.transfer.bound import Details as Details
from heirloom.transfer.bound import Evidence as Evidence
from heirloom.transfer.bound import MaxQ as MaxQ
from heirloom.transfer.certified_sets import CertifiedSets as CertifiedSets
from heirloom.transfer.envelope import Envelope as Envelope
from heirloom.transfer.evidence import Bonuses as Bonuses
from heirloom.transfer.evidence import ConfidenceSets as ConfidenceSets
from heirloom.transfer.evidence import GrowingShare as GrowingShare
from heirloom.transfer.evidence import NearBonuses as NearBonuses
from heirloom.transfer.lipschitz.bound import Lipschitz as Lipschitz
from heirloom.transfer.model_sets import ModelSets as ModelSets
from heirloom.transfer.nearness.bound import NearModels as NearModels
from heirloom.transfer.posterior import NearPosterior as NearPosterior
from heirloom.transfer.posterior import Posterior as Posterior
from heirloom.transfer.setting import Setting as Setting
from heirloom.transfer.source import Source as Source
from heirloom.transfer.value_distance import ValueDistance as ValueDistance
