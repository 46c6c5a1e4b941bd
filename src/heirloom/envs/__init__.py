"""Tasks and task families; importing this package registers the paper's tasks with Gymnasium."""

from heirloom.envs import paper_tasks
from heirloom.envs.box import BoxFamily as BoxFamily
from heirloom.envs.family import FiniteFamily as FiniteFamily
from heirloom.envs.family import TaskFamily as TaskFamily
from heirloom.envs.grid import GridMap as GridMap
from heirloom.envs.grid import grid_world as grid_world

paper_tasks.register()
