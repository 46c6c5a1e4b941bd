"""Algorithms of others on a table `Q`: without transfer, and with visits or policies kept."""

import math
from typing import Annotated, Any, Unpack

import numpy as np

from heirloom.agents.optimistic import SeedOption
from heirloom.agents.tables import OptimisticTableOptions, TableAgent, TableOptions
from heirloom.arrays import BoolArray, FloatArray
from heirloom.kernels import tables
from heirloom.mdp.tabular import reward_scale
from heirloom.options import Option, declared

DeltaOption = Annotated[
    float, Option("δ, the probability of failure, where theory sets constants.", gt=0, lt=1)
]


@declared
class QUCB(TableAgent):
    """Q-learning with a bonus for pairs with few visits (discounted Q-UCB, Dong et al., ICLR 2020).

    With n visits of a pair, and `V(s') = max_a' Q̂(s', a')`,

        Q <- (1-α) Q + α (r + b + γ V(s')),   Q̂ <- min(Q̂, Q),   α = (H+1) / (H+n),

    and actions are greedy on Q̂, which starts at `v_max`. In practice H = 1 / (1-γ) and
    `b = c (hi - lo) √(H/n)`, with c = `bonus`; nothing is proved of this.

    With `bonus=None` the constants are those of theory: `H = ln(1 / ((1-γ) ε₁)) / ln(1/γ)` and
    `b = 4 √2 W √(H ι / n)`, `ι = ln(S A (n+1) (n+2) / δ)`, where W is the width of the range of
    r + γ V*(s'), and 1 / (1-γ) for rewards in [0, 1]. Then, in each task, Q̂ >= Q* at all times
    with probability 1 - δ: Hoeffding's inequality for `Σ α_i (r + γ V*(s'))`, whose weights have
    `Σ α_i² <= 2 H / n`, needs a bonus of `W √(H ι / n)` only. The paper proves a sample complexity
    of `Õ(S A / (ε² (1-γ)⁷))`.
    """

    shown = ("bonus",)

    def __init__(
        self,
        *,
        bonus: Annotated[
            float | None,
            Option('c, the scale of the bonus to tune; None, in a spec "none", for theory.', ge=0),
        ] = 0.4,
        epsilon1: Annotated[
            float, Option("ε₁ of the paper's H, if bonus is None.", gt=0, lt=1)
        ] = 0.01,
        delta: DeltaOption = 0.05,
        seed: SeedOption = None,
        **options: Unpack[TableOptions],
    ) -> None:
        own = {"bonus": bonus, "epsilon1": epsilon1, "delta": delta, "seed": seed}
        super().__init__({**own, **options})

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        gamma, bonus, n_pairs = self.gamma, self.options["bonus"], available.size
        H, log = 1 / (1 - gamma), -1.0
        if bonus is not None:
            scale = bonus * reward_scale(self.setting.reward_range)
        else:
            H = math.log(1 / ((1 - gamma) * self.options["epsilon1"]))
            H = max(1.0, H / math.log(1 / gamma)) if gamma > 0 else 1.0
            scale = 4 * math.sqrt(2) * _width(self)
            log = math.log(n_pairs / self.options["delta"])
        Q = np.full(n_pairs, self.v_max)
        fields = {"rule": tables.UCB, "horizon": H, "bonus": scale, "log": log}
        return Q, {**fields, "sums": Q.copy()}


@declared
class DelayedQ(TableAgent):
    """Delayed Q-learning (Strehl et al., ICML 2006): `Q` falls, after m samples of a pair at once.

    Actions are greedy on Q, which starts at `v_max`. After m samples `x = r + γ max_a' Q(s', a')`
    of a pair, if `Q - mean(x) >= 2 ε₁`, then `Q <- mean(x) + ε₁`. After an attempt that failed a
    pair collects no samples until `Q` has changed at another pair.

    In practice m and ε₁ are small, and nothing is proved of this. With `m=None`,

        m = ⌈W² / (2 ε₁²) ln(3 S A (1 + S A W / ε₁) / δ)⌉

    as in the paper, where W is the width of the range of r + γ V*(s'), 1 / (1-γ) for rewards in
    [0, 1], and `ε₁ = ε (1-γ) / 9` for an accuracy ε of values. Between two changes of `Q`, of which
    there are at most S A W / ε₁, a pair is attempted at most twice. So by Hoeffding's inequality
    for the mean of r + γ V*(s') in an attempt, in each task Q >= Q* at all times with probability
    1 - 2δ/3. The paper proves a sample complexity of `Õ(S A / (ε⁴ (1-γ)⁸))` with probability 1 - δ.
    """

    shown = ("m", "epsilon1")

    def __init__(
        self,
        *,
        m: Annotated[
            int | None,
            Option('samples per attempt to update Q; None, in a spec "none", for theory.', ge=1),
        ] = 50,
        epsilon1: Annotated[
            float,
            Option("ε₁, in multiples of hi - lo: half of the least decrease of Q to tune.", gt=0),
        ] = 0.002,
        delta: DeltaOption = 0.05,
        seed: SeedOption = None,
        **options: Unpack[TableOptions],
    ) -> None:
        own = {"m": m, "epsilon1": epsilon1, "delta": delta, "seed": seed}
        super().__init__({**own, **options})

    @property
    def m(self) -> int:
        """The number of samples per attempt to update a pair."""
        if self.options["m"] is not None:
            return self.options["m"]
        W = _width(self) / self._epsilon1
        n_pairs = self.setting.n_pairs
        log = math.log(3 * n_pairs * (1 + n_pairs * W) / self.options["delta"])
        return max(1, math.ceil(min(W**2 / 2 * log, 2.0**62)))

    @property
    def _epsilon1(self) -> float:
        return self.options["epsilon1"] * reward_scale(self.setting.reward_range)

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        n_pairs = available.size
        fields = {"rule": tables.DELAYED, "rate": self._epsilon1, "m": self.m}
        arrays: dict[str, Any] = {"last": np.zeros(n_pairs, dtype=np.int64)}
        arrays |= {"sums": np.zeros(n_pairs), "learns": np.ones(n_pairs, dtype=bool)}
        return np.full(n_pairs, self.v_max), {**fields, **arrays}


@declared
class ShapedLifelong(TableAgent):
    """Q-learning with rewards for what good episodes did (SR-LLRL, Chu et al., 2021); no guarantee.

        r' = r + c (1-γ) (v_max - v_min) N(s, a) / N(s)

    N counts the visits in the best episode of each earlier task, the one with the largest
    discounted return. `Q` starts at `v_max`, so that the first task is learned as by Q-learning.
    The shaping is not potential-based: it can change which policy is optimal. With c = 1, as in the
    paper, an agent may avoid the goal of a task that terminates there, and walk to and fro on its
    way; therefore the default of `shaping` is smaller. If you call the agent step by step, call
    `begin_episode` too.
    """

    shown = ("learning_rate", "exploration")

    def __init__(
        self,
        *,
        shaping: Annotated[
            float, Option("c, the scale of the shaping to tune; 1 in the paper.", ge=0)
        ] = 0.01,
        **options: Unpack[OptimisticTableOptions],
    ) -> None:
        super().__init__({"shaping": shaping, **options})
        self.kept = {"N": np.zeros(self.setting.n_pairs, dtype=np.int64)}

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        n_pairs = available.size
        N = self.kept["N"].reshape(self.n_states, self.n_actions)
        share = N / np.maximum(N.sum(axis=1, keepdims=True), 1)
        whole = ("last", "path", "best_path")
        arrays: dict[str, Any] = {name: np.zeros(n_pairs, dtype=np.int64) for name in whole}
        scale = self.options["shaping"] * (1 - self.gamma) * (self.v_max - self.v_min)
        arrays["shaping"] = scale * share.reshape(-1)
        return np.full(n_pairs, self.v_max), {**arrays, "episode": _no_episode()}

    def _end(self) -> None:
        self.kept["N"] += self._table.best_path


@declared
class PolicyReuse(TableAgent):
    """Q-learning that tries earlier policies (PRQ-learning, Fernández and Veloso, 2006).

    Before each episode one of the policies is chosen, the greedy ones of earlier tasks or the own
    one, with probability ∝ exp(τ W), where W is the mean of its discounted returns in this task,
    in multiples of hi - lo, and τ grows by `heat` with each episode. An earlier policy is followed
    with probability ψ = `reuse` at the first step, which falls by the factor `decay` at each step;
    otherwise, and with the own policy, actions are ε-greedy on `Q` (greedy in the paper, if the own
    policy was chosen). `Q` starts at `v_max` in the first task, where there is nothing to reuse,
    and at `v_min` later, as in the paper: earlier policies lead the way. No guarantee. All earlier
    policies are kept. If you call the agent step by step, call `begin_episode` too.
    """

    shown = ("learning_rate", "exploration", "reuse")

    def __init__(
        self,
        *,
        reuse: Annotated[
            float,
            Option("ψ, the probability of following an earlier policy at first.", ge=0, le=1),
        ] = 1.0,
        decay: Annotated[
            float, Option("ν, the factor by which ψ falls at each step.", ge=0, le=1)
        ] = 0.95,
        heat: Annotated[
            float, Option("by how much τ, the inverse temperature, grows per episode.", ge=0)
        ] = 0.05,
        **options: Unpack[OptimisticTableOptions],
    ) -> None:
        super().__init__({"reuse": reuse, "decay": decay, "heat": heat, **options})
        self.kept = {"policies": np.empty((0, self.n_states), dtype=np.int64)}

    def _begin(self, available: BoolArray) -> tuple[FloatArray, dict[str, Any]]:
        policies, options = self.kept["policies"], self.options
        fields = {name: options[name] for name in ("reuse", "decay", "heat")}
        fields |= {"unit": reward_scale(self.setting.reward_range), "policies": policies}
        gains, uses = np.zeros(len(policies) + 1), np.zeros(len(policies) + 1, dtype=np.int64)
        arrays = {"gains": gains, "uses": uses, "episode": _no_episode()}
        first = self.v_min if len(policies) else self.v_max
        return np.full(available.size, first), {**fields, **arrays}

    def _end(self) -> None:
        self.kept["policies"] = np.vstack([self.kept["policies"], self.policy])


def _width(agent: TableAgent) -> float:
    """Return the width of the range of r + γ V*(s'), which can exceed a `v_max` that is given."""
    continues = agent.v_max > 0 or not agent.setting.terminating
    highest = agent.setting.reward_range[1] + agent.gamma * (agent.v_max if continues else 0.0)
    return highest - agent.v_min


def _no_episode() -> FloatArray:
    """Return the state of a task before its first episode."""
    episode = np.zeros(6)
    episode[tables.BEST] = -np.inf
    return episode
