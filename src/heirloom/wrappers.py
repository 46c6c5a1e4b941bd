"""Wrappers that number the observations of Gymnasium environments."""

from heirloom.envs.binned import Binned as Binned
from heirloom.envs.numbered import Numbered as Numbered
