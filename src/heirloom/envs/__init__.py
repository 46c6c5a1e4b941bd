"""Tasks and task families; importing this package registers the paper's tasks with Gymnasium."""

from heirloom.envs.registration import register

register()
