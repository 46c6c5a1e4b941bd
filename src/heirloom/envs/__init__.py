"""Tasks and task families; importing this package registers the paper's tasks with Gymnasium."""

from heirloom.envs.grid_env import register

register()
