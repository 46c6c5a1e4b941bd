"""The agents that `knowledge` compares: what each of them knows about a family of tasks."""

from typing import Any

from heirloom.studies.families import Setting, two_numbers, valid_prior

RMAX, VALID = "RMax", "LRMax (valid prior)"
BEST = "RMax (best n_known)"
"""The best of RMAX and TUNED in a family, chosen by the returns that are shown."""
TUNED = {f"RMax (n_known={n})": n for n in (1, 2, 5, 10, 20)}
NUMBERS, SUCCESSORS, ARRAYS = (
    f"NearRMax ({known})" for known in ("two numbers", "numbers, successors", "arrays")
)
TRUE = (NUMBERS, SUCCESSORS, ARRAYS)

HALF, TENTH = (f"NearRMax ({factor} of the arrays)" for factor in ("half", "a tenth"))
EQUAL = "NearRMax (all tasks equal)"
SCALES = {HALF: 0.5, TENTH: 0.1, EQUAL: 0.0}
FALSE = tuple(SCALES)

TENTH_WIDENING, EQUAL_WIDENING = (
    f"NearRMax ({claim}, widening)" for claim in ("a tenth", "all tasks equal")
)
UNCHECKED = {TENTH_WIDENING: TENTH, EQUAL_WIDENING: EQUAL}
"""The agent with the same false knowledge and without checks, by the agent that widens it."""
CHECKED = tuple(UNCHECKED)

LEARNED, MAX_Q, ENVELOPE = "NearRMax (learned)", "MaxQInit", "EnvelopeRMax"
LEARNING = (LEARNED, MAX_Q, ENVELOPE)
ALPHA = 0.2  # of the envelope; 0.05 needs more tasks than most families of the study have

NAMED = (RMAX, *TUNED, BEST, VALID, *TRUE, *FALSE, *CHECKED, *LEARNING)
"""All agents but that with a guessed prior, whose name contains the guess."""


def agents_of(setting: Setting) -> list[dict[str, Any]]:
    """Return the agents of a family, as tables of a spec."""
    numbers = two_numbers(setting.task_family)
    lrmax = {"algorithm": "LRMax", **setting.lrmax_options}
    tuned = {} if setting.deterministic else TUNED  # one visit is best if it shows all
    agents: list[dict[str, Any]] = [
        {"name": RMAX, "algorithm": "RMax"},
        *(
            {"name": name, "algorithm": "RMax", "n_known": n_known}
            for name, n_known in tuned.items()
            if n_known != setting.options["n_known"]
        ),
        {"name": VALID, **lrmax, "d_max": valid_prior(setting.task_family)},
    ]
    if setting.guess is not None:
        agents.append({**lrmax, "d_max": setting.guess})
    near: dict[str, dict[str, Any]] = {
        NUMBERS: {"nearness": numbers},
        SUCCESSORS: {"nearness": {**numbers, "successors": "family"}},
        ARRAYS: {"nearness": "family"},
        **{name: {**_false(name), "on_refutation": "ignore"} for name in FALSE},
        **{
            name: {**_false(unchecked), "on_refutation": "widen", "exact": setting.deterministic}
            for name, unchecked in UNCHECKED.items()
        },
        LEARNED: {"nearness": "learned"},
    }
    agents += [{"name": name, "algorithm": "NearRMax", **known} for name, known in near.items()]
    agents += [
        {"name": MAX_Q, "algorithm": "MaxQInit"},
        {"name": ENVELOPE, "algorithm": "EnvelopeRMax", "alpha": ALPHA},
    ]
    return agents


def _false(name: str) -> dict[str, Any]:
    """Return the nearness of the family multiplied by a number below 1."""
    return {"nearness": "family", "nearness_scale": SCALES[name]}
