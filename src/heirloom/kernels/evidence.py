"""What n visits of a pair say of its model, besides the estimate: rules with a few coefficients.

With L = ln(n (n + 1)), the number of visits n, and the variance of V under the estimate,

    largest mean reward    min(R̂ + √((BONUS + BONUS_LOG L + BONUS_VARIANCE Var V) / n)
                                   + BONUS_INVERSE / n, HIGHEST)
    radius                 min(1, √((RADIUS + RADIUS_LOG L) / n))
    β                      KL_SCALE times the radius of the confidence set (`confidence.kl_radius`)
                           with KL_OUTCOMES possible outcomes and KL_LOG = ln(1 / ε)
    share of the model     min(1, n / FULL), or 0 below FULL visits if STEP; the rest is V_MAX

A rule that has no β or no share leaves `Model.beta` or `Model.share` empty.
"""

import math

import numpy as np

from heirloom.kernels import inlined, njit
from heirloom.kernels.confidence import ROUNDING, log_gamma_excess
from heirloom.kernels.counting import Model

(
    BONUS,
    BONUS_LOG,
    BONUS_VARIANCE,
    BONUS_INVERSE,
    HIGHEST,
    RADIUS,
    RADIUS_LOG,
    KL_SCALE,
    KL_OUTCOMES,
    KL_LOG,
    FULL,
    STEP,
    V_MAX,
) = range(13)


@njit(cache=True, error_model="numpy", _nrt=False)
def describe(model, V, k):
    """Write what the rule says of the models that the visits of pair k admit, which is known."""
    rule, n = model.rule, float(model.looked[k])
    log, bonus = math.log(n * (n + 1.0)), rule[BONUS]
    if rule[BONUS_VARIANCE] > 0.0:
        bonus += rule[BONUS_VARIANCE] * _variance(model, V, k)
    bonus = math.sqrt((bonus + rule[BONUS_LOG] * log) / n) + rule[BONUS_INVERSE] / n
    high = min(model.R[k] + bonus, max(rule[HIGHEST], model.R[k]))
    if model.share.size > 0:
        share = min(1.0, n / rule[FULL])
        if rule[STEP] > 0.0:
            share = math.floor(share)
        model.share[k] = share
        high = share * high + (1.0 - share) * rule[V_MAX]
    model.high[k] = high
    if model.beta.size > 0:
        model.beta[k] = rule[KL_SCALE] * _kl_radius(model, k, n)
        model.radius[k] = min(1.0, math.sqrt(model.beta[k] / 2.0))
    elif model.radius.size > 0:
        model.radius[k] = min(1.0, math.sqrt((rule[RADIUS] + rule[RADIUS_LOG] * log) / n))


@njit(cache=True)
def describe_all(model, V, pairs):
    """Write what the rule says of known pairs, with named tuples made from plain ones."""
    named = Model(*model)
    for k in pairs:
        describe(named, V, k)


@inlined
def _variance(model, V, k):
    """Return the variance of V under the estimated transitions of pair k; ⊥ has the value 0."""
    mean = square = 0.0
    for j in range(model.first[k], model.last[k]):
        v = V[model.successors[j]]
        mean += model.p[j] * v
        square += model.p[j] * v * v
    return max(square - mean * mean, 0.0)


@inlined
def _kl_radius(model, k, n):
    """Return the radius of the confidence set of pair k after n visits."""
    rule = model.rule
    alpha = 1.0 / rule[KL_OUTCOMES]
    log_gamma, total = math.lgamma(alpha), rule[KL_LOG] + ROUNDING
    for j in range(model.first[k], model.last[k]):
        total += log_gamma - log_gamma_excess(np.rint(model.p[j] * n), alpha)
    if model.ends[k] > 0.0:
        total += log_gamma - log_gamma_excess(np.rint(model.ends[k] * n), alpha)
    return max(total + log_gamma_excess(n, 1.0), 0.0) / n
