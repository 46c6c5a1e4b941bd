"""The families of tasks of the paper's experiments."""

from typing import Literal

from numpy.typing import ArrayLike

from heirloom.envs.grid import grid_world
from heirloom.errors import InvalidArgument
from heirloom.mdp.exact import TabularMDP

Variant = Literal["text", "released"]

TIGHT = (
    "." * 9 + "GG",
    "." * 10 + "G",
    *("." * 11,) * 3,
    "." * 5 + "S" + "." * 5,
    *("." * 11,) * 5,
)


def tight(
    goal_rewards: ArrayLike, slip: float, *, variant: Variant = "released", gamma: float = 0.9
) -> TabularMDP:
    """The 11x11 grid of the main experiment, with three goals in the upper right corner.

    In the text goals pay for acting in them and slipping takes any other action; as released they
    pay for being entered, and slipping goes to the sides. Goals never terminate.
    """
    if variant not in ("text", "released"):
        raise InvalidArgument(f"variant is {variant!r}: it is 'text' or 'released'")
    text = variant == "text"
    return grid_world(
        TIGHT,
        gamma=gamma,
        slip=slip,
        slip_to="others" if text else "sides",
        goal_rewards=goal_rewards,
        reward_on="acting" if text else "entering",
    )
