"""Distances between exact tasks, and between their states."""

from heirloom.metrics.bisimulation import bisimulation_metric as bisimulation_metric
from heirloom.metrics.bisimulation import gbsm as gbsm
from heirloom.metrics.bisimulation import gbsm_bound as gbsm_bound
from heirloom.metrics.pseudometrics import dissimilarity as dissimilarity
from heirloom.metrics.pseudometrics import family_distance as family_distance
from heirloom.metrics.pseudometrics import global_pseudometric as global_pseudometric
from heirloom.metrics.pseudometrics import lipschitz_bound as lipschitz_bound
from heirloom.metrics.pseudometrics import local_pseudometric as local_pseudometric
from heirloom.metrics.pseudometrics import model_pseudometric as model_pseudometric
from heirloom.metrics.pseudometrics import policy_q_pseudometric as policy_q_pseudometric
from heirloom.metrics.pseudometrics import policy_v_pseudometric as policy_v_pseudometric
