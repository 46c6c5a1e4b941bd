"""Figures of results, as Matplotlib figures that are drawn without a window."""

from heirloom.plot.curves import draw_episodes as draw_episodes
from heirloom.plot.curves import draw_lifelong as draw_lifelong
from heirloom.plot.maps import draw_map as draw_map
from heirloom.plot.maps import draw_on_grid as draw_on_grid
from heirloom.plot.maps import draw_policy as draw_policy
from heirloom.plot.style import save_figure as save_figure
from heirloom.plot.transfer import draw_audit as draw_audit
from heirloom.plot.transfer import draw_transfer as draw_transfer
