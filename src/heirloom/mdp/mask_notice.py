"""A notice, logged once, that the masks of available actions of an environment are not used."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heirloom.arrays import BoolArray

if TYPE_CHECKING:
    import gymnasium as gym


class MaskNotice:
    """Log once that an environment gives masks which are not used."""

    announced = False

    @classmethod
    def look(cls, env: "gym.Env[Any, Any]", info: Mapping[str, Any]) -> None:
        """Log the message if a mask of the current state excludes an action.

        The mask is `info["action_mask"]`, or what the method `action_masks()` returns.
        """
        if cls.announced:
            return
        mask = info.get("action_mask")
        if mask is None and callable(ask := getattr(env.unwrapped, "action_masks", None)):
            with contextlib.suppress(Exception):  # a mask that is not used must not be an error
                mask = ask()
        if mask is not None and not np.all(mask):
            cls._announce(env)

    @classmethod
    def look_at_states(cls, env: "gym.Env[Any, Any]", available: BoolArray) -> None:
        """Log the message if `action_mask(s)` of the environment excludes an available action.

        `available` has the actions of the transition table of the environment, [s, a].
        """
        ask = getattr(env.unwrapped, "action_mask", None)
        if cls.announced or not callable(ask):
            return
        with contextlib.suppress(Exception):  # a mask that is not used must not be an error
            if any((np.equal(ask(s), 0) & row).any() for s, row in enumerate(available)):
                cls._announce(env)

    @classmethod
    @contextlib.contextmanager
    def silent(cls) -> Iterator[None]:
        """Log nothing inside of the context: for code that ignores masks knowingly."""
        before, cls.announced = cls.announced, True
        try:
            yield
        finally:
            cls.announced = before

    @classmethod
    def _announce(cls, env: "gym.Env[Any, Any]") -> None:
        cls.announced = True
        logging.getLogger("heirloom").warning(
            "heirloom: %s gives masks of available actions, which are not used: to use them, call "
            "learn, compare or TabularMDP.from_gymnasium with masks=True. In some environments a "
            "mask excludes actions that exist and merely do nothing.",
            env,
        )
