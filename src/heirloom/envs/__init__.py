"""Tasks and families of tasks; importing this registers the paper's with Gymnasium."""

from heirloom.envs.registration import register

register()
