"""Plain twins of the posteriors of `transfer/posterior.py`: one pair at a time."""

import math


def moments(counts, prior):
    """Mean and variance of each probability of a Dirichlet distribution, by outcome."""
    shapes = {i: counts.get(i, 0) + prior.get(i, 0.0) for i in {*counts, *prior}}
    total = sum(shapes.values())
    means = {i: a / total for i, a in shapes.items()}
    return {i: (m, m * (1 - m) / (total + 1)) for i, m in means.items()}


def own_reward(rewards, prior, lo, hi):
    """Mean and variance of the normal posterior of a mean reward, from the pair's own rewards."""
    total = len(rewards) + prior
    mean = sum(rewards) / len(rewards) if rewards else 0.0
    spread = sum((r - mean) ** 2 for r in rewards) + prior * (hi - lo) ** 2 / 4
    return (sum(rewards) + prior * (lo + hi) / 2) / total, spread / total / total


def near_prior(pooled, N, possible, t, alpha):
    """The concentration c, and the parameters (c + α) q of an old pair, by outcome."""
    if len(possible) == 1:
        t = 0.0
    q = {i: (1 - t / 2) * pooled.get(i, 0) / N + t / 2 / len(possible) for i in possible}
    S = sum(math.sqrt(x * max(0.0, 1 - x)) for x in q.values())
    c = N if t == 0 else min(N, max(0.0, 2 / math.pi * S**2 / t**2 - 1))
    return c, {i: (c + alpha) * x for i, x in q.items()}


def log_likelihood(counts, shapes):
    """The logarithm of the probability of a sequence with these counts (Dirichlet-multinomial)."""
    total, n = sum(shapes.values()), sum(counts.values())
    found = math.lgamma(total) - math.lgamma(total + n)
    return found + sum(
        math.lgamma(shapes[i] + m) - math.lgamma(shapes[i]) for i, m in counts.items()
    )


def log_normal(x, mean, variance):
    """The logarithm of the normal density, without its constant."""
    return -0.5 * (math.log(variance) + (x - mean) ** 2 / variance)


def probability_of_new(n_tasks, old, new):
    """The posterior probability that a pair is new, from both log likelihoods."""
    return 1 / (1 + (n_tasks + 1) * math.exp(min(700.0, old - new)))


def near_reward(rewards, R, N, r, s2):
    """Mean and variance of the reward of an old pair: (Σ r + c_r R) / (n + c_r), s² / (n + c_r)."""
    c_r = min(N, s2 / (r / 2) ** 2)
    total = len(rewards) + c_r
    return (sum(rewards) + c_r * R) / total, s2 / total
