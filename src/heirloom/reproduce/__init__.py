"""The paper's experiments, run and reported: figures, claims, `summary.json`."""

from heirloom.reproduce.illustrations import bounds_illustration, prior_illustration
from heirloom.reproduce.lifelong import corridor, maze, tight
from heirloom.reproduce.negative import negative_transfer
from heirloom.reproduce.priors import bounds, prior_use
from heirloom.reproduce.report import Options, Report, Reproduction

__all__ = ["ALIKE", "REPRODUCTIONS", "Options", "Report", "reproduce"]

REPRODUCTIONS: dict[str, Reproduction] = {
    "tight": tight,
    "bounds": bounds,
    "corridor": corridor,
    "maze": maze,
    "prior-use": prior_use,
    "negative-transfer": negative_transfer,
    "bounds-illustration": bounds_illustration,
    "prior-illustration": prior_illustration,
}
ALIKE = ("prior-use", "negative-transfer", "bounds-illustration", "prior-illustration")
"""Those whose variants do not differ."""


def reproduce(experiment: str, options: Options) -> Report:
    """Run an experiment, or go on with it, and write what comes out of it to its place."""
    report = REPRODUCTIONS[experiment](options)
    head = {
        "experiment": experiment,
        "variant": "both" if experiment in ALIKE else options.variant,
    }
    if options.quick:
        head["quick"] = (
            "a quick look, with few repetitions and less of all else, not the experiment"
        )
    report.summary = {**head, **report.summary}
    report.write(options.place)
    return report
