"""Confidence sets of distributions around counts, and the extreme means over them.

A pair has K possible outcomes, declared before any data. After counts N with n = Σ N_i, the set is

    C = { q : KL(p̂, q) <= β },    n β = Σ N_i ln(N_i / n) - ln(B(α + N) / B(α)) + ln(1 / ε),

where p̂ = N / n, α = 1 / K, and B is the multivariate beta function of K equal parameters. C
contains the true distribution q after all numbers of visits at once with probability 1 - ε: the
likelihood of the outcomes, averaged over distributions drawn from Dirichlet(α), divided by their
true likelihood is a martingale that starts at 1, so that it ever exceeds 1 / ε with probability ε
at most (Ville, 1939), and its logarithm is n (KL(p̂, q) - β) + ln(1 / ε).

Every number ν that is at least all W gives an upper bound on the mean of W over C: by Jensen's
inequality,

    ln Σ q (ν - W) >= Σ p̂ ln(q (ν - W) / p̂) >= Σ p̂ ln(ν - W) - β,    so that
    Σ q W <= ν - exp(Σ p̂ ln(ν - W) - β),

and the smallest of these bounds is attained. So functions below may stop at any ν.
"""

import math

import numpy as np

from heirloom.kernels import njit

MANY = 1000.0  # counts from which Stirling's series is off by at most 3e-12
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
ROUNDING = 1e-9  # added to n β, above its error for hundreds of outcomes
NEWTON_STEPS = 40
SMALLEST_LOG = -60.0  # of x / (max W - min W), below which the bound is max W up to rounding
LONGEST_STEP = 8.0
GOLDEN = (math.sqrt(5) - 1) / 2
GOLDEN_STEPS = 10  # after which the bound is at most 1e-6 of the range of V too large
ACCURACY = 1e-4  # of the logarithm of ν - max W: the bound is flat there, and 1e-8 too large


@njit(cache=True)
def log_gamma_excess(N, a):
    """Return ln Γ(N + a) - N ln N + N for N > 0 and 0 < a <= 1, without cancellation."""
    if N < MANY:
        return math.lgamma(N + a) - N * math.log(N) + N
    # Bernoulli's polynomials of a.
    second = a * a - a + 1 / 6
    third = a * (a - 0.5) * (a - 1)
    return (a - 0.5) * math.log(N) + HALF_LOG_2_PI + second / (2 * N) - third / (6 * N * N)


@njit(cache=True)
def kl_radius(counts, n_outcomes, log_inverse):
    """Return β after `counts`, of which some may be 0, of `n_outcomes` possible outcomes.

    `log_inverse` is ln(1 / ε). β is infinite without visits. Counts may be fractions.
    """
    n, total = 0.0, log_inverse + ROUNDING
    alpha = 1.0 / n_outcomes
    log_gamma = math.lgamma(alpha)
    for i in range(counts.size):
        if counts[i] > 0:
            n += counts[i]
            total += log_gamma - log_gamma_excess(float(counts[i]), alpha)
    if n == 0.0:
        return np.inf
    return max(total + log_gamma_excess(n, 1.0), 0.0) / n


@njit(cache=True, error_model="numpy")
def largest_mean(p, W, sign, W_unseen, beta):
    """Return max Σ q (sign W) over the distributions q with KL(p, q) <= β, from above.

    `p` is positive and sums to 1, and W has its outcomes. `W_unseen` is the largest sign W of a
    possible outcome that was not seen, -infinity if there is none.

    With ν = w + x, w = max W and u = (w - W) / x, the bound is w - x expm1(a - β), and its
    derivative in ln x has the sign of -g, where

        a = Σ p ln(1 + u),    s = Σ p u / (1 + u),    g = a + ln(1 - s) - β

    decreases as x grows. Newton's method in ln x, within a bracket, solves g = 0.
    """
    top, bottom, mean = -np.inf, np.inf, 0.0
    for i in range(p.size):
        w = sign * W[i]
        top, bottom = max(top, w), min(bottom, w)
        mean += p[i] * w
    if beta == np.inf or p.size == 0:
        return max(top, W_unseen)
    best = max(top, W_unseen)
    if best == bottom:
        return best
    if beta <= 0.0:
        return mean
    low = -np.inf  # of ln x
    if W_unseen > top:
        x = W_unseen - top
        a, s, _ = _terms(p, W, sign, top, x)
        best = min(best, top - x * math.expm1(a - beta))
        if a + math.log1p(-s) <= beta:
            return best
        low = math.log(x)
    low = max(low, math.log(top - bottom) + SMALLEST_LOG)
    high = np.inf
    variance = 0.0
    for i in range(p.size):
        variance += p[i] * (sign * W[i] - mean) ** 2
    at = max(0.5 * math.log(variance / (2 * beta)), low)
    for _ in range(NEWTON_STEPS):
        x = math.exp(at)
        a, s, q = _terms(p, W, sign, top, x)
        g = a + math.log1p(-s) - beta
        if g > 0.0:
            low = at
        else:
            high = at
        step = g / (s - q / (1.0 - s))
        if not abs(step) > ACCURACY:
            break
        at += min(max(step, -LONGEST_STEP), LONGEST_STEP)
        if not low < at < high:
            at = (low + high) / 2 if high < np.inf else low + LONGEST_STEP
            if not low < at < high:
                break
    return max(min(best, top - x * math.expm1(a - beta)), mean)


@njit(cache=True, error_model="numpy")
def _terms(p, W, sign, top, x):
    """Return a, s and Σ p u / (1 + u)², as in `largest_mean`."""
    a = s = q = 0.0
    for i in range(p.size):
        u = (top - sign * W[i]) / x
        if u > 0.0:
            share = p[i] * u / (1.0 + u)
            a += p[i] * math.log1p(u)
            s += share
            q += share / (1.0 + u)
    return a, s, q


@njit(cache=True)
def widened(p, R, V, sign, unseen, V_top, gamma, t, beta, work):
    """Return an upper bound on Σ T sign (R + γ V) over all T within total variation t of some q.

    q is a distribution with KL(p, q) <= β, and the rewards R belong to the outcomes of q, as in
    `largest_mean`. `unseen` holds the largest R and the largest R + γ V of a possible outcome that
    was not seen, both -infinity if there is none. `V_top` is the largest value that T can reach.
    `unseen` and `V_top` have the sign already. `work` has room for as many numbers as p. For every
    λ >= 0, and with sign R and sign V,

        γ t λ + max over q of Σ q (R + γ max(V, V_top - λ))

    is such a bound, and convex in λ: T moves mass t, and gains λ by it at most. λ = 0, where pieces
    of it meet, and the golden section next to the best of these are tried. Also returns the best λ
    as a share of the largest one.
    """
    common = p, R, V, sign, unseen, V_top, gamma, t, beta, work
    last = _last_piece(V, sign, unseen, V_top, gamma)
    if t == 0.0 or last == 0.0:
        return _at_lambda(last, *common), 1.0
    best, best_at = _at_lambda(0.0, *common), 0.0
    for i in range(p.size + 1):
        at = _piece(i, V, sign, unseen, V_top, gamma)
        if 0.0 < at < np.inf:
            value = _at_lambda(at, *common)
            if value < best:
                best, best_at = value, at
    low, high = 0.0, np.inf
    for i in range(p.size + 1):
        at = _piece(i, V, sign, unseen, V_top, gamma)
        if at < best_at:
            low = max(low, at)
        elif at > best_at:
            high = min(high, at)
    high = min(high, last)
    inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_inner, at_outer = _at_lambda(inner, *common), _at_lambda(outer, *common)
    for _ in range(GOLDEN_STEPS):
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - GOLDEN * (high - low)
            at_inner = _at_lambda(inner, *common)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + GOLDEN * (high - low)
            at_outer = _at_lambda(outer, *common)
    if at_inner < best:
        best, best_at = at_inner, inner
    if at_outer < best:
        best, best_at = at_outer, outer
    return best, best_at / last


@njit(cache=True)
def widened_at(share, p, R, V, sign, unseen, V_top, gamma, t, beta, work):
    """Return the bound of `widened` for the λ that is a share of the largest one."""
    at = share * _last_piece(V, sign, unseen, V_top, gamma)
    return _at_lambda(at, p, R, V, sign, unseen, V_top, gamma, t, beta, work)


@njit(cache=True)
def _last_piece(V, sign, unseen, V_top, gamma):
    """Return the largest λ at which the bound changes its form; 0 if there is none."""
    last = 0.0
    for i in range(V.size + 1):
        at = _piece(i, V, sign, unseen, V_top, gamma)
        if at < np.inf:
            last = max(last, at)
    return last


@njit(cache=True)
def _piece(i, V, sign, unseen, V_top, gamma):
    """Return the λ at which max(V, V_top - λ) of outcome i changes; the last is the unseen one."""
    if i < V.size:
        return V_top - sign * V[i]
    if unseen[1] == -np.inf or gamma == 0.0:
        return np.inf
    return V_top - (unseen[1] - unseen[0]) / gamma


@njit(cache=True)
def _at_lambda(at, p, R, V, sign, unseen, V_top, gamma, t, beta, work):
    """Return the bound for λ = `at`."""
    for i in range(p.size):
        work[i] = sign * R[i] + gamma * max(sign * V[i], V_top - at)
    W_unseen = unseen[1]
    if W_unseen > -np.inf:
        W_unseen = max(W_unseen, unseen[0] + gamma * (V_top - at))
    return gamma * t * at + largest_mean(p, work[: p.size], 1.0, W_unseen, beta)
