"""The data of what Matplotlib has drawn, to compare with the data that was to be drawn."""

import numpy as np
from matplotlib.colors import same_color

from heirloom.plot.style import render


def lines(ax):
    """The lines that have a label, by label."""
    return {
        line.get_label(): line for line in ax.get_lines() if not line.get_label().startswith("_")
    }


def unlabelled_lines(ax):
    return [line for line in ax.get_lines() if line.get_label().startswith("_")]


def legend(figure):
    """The labels of the legend, in its order."""
    (drawn,) = figure.legends
    return [text.get_text() for text in drawn.get_texts()]


def band_of(ax, line):
    """The band in the colour of a line, as (x, lower limit, upper limit); None if there is none."""
    bands = [band for band in ax.collections if same_color(band.get_facecolor()[0][:3], rgb(line))]
    if not bands:
        return None
    (band,) = bands
    x, y = band.get_paths()[0].vertices.T
    xs = np.unique(x)
    return xs, np.array([y[x == at].min() for at in xs]), np.array([y[x == at].max() for at in xs])


def rgb(line):
    from matplotlib.colors import to_rgb

    return to_rgb(line.get_color())


def assert_curve(ax, label, x, interval):
    """Assert that a line shows the means, and a band of its colour the intervals, over x."""
    line = lines(ax)[label]
    np.testing.assert_array_equal(line.get_xdata(), x)
    np.testing.assert_array_equal(line.get_ydata(), interval.mean)
    xs, low, high = band_of(ax, line)
    np.testing.assert_array_equal(xs, x)
    np.testing.assert_allclose(low, interval.mean - interval.half_width, rtol=1e-12)
    np.testing.assert_allclose(high, interval.mean + interval.half_width, rtol=1e-12)


def assert_same_bytes(draw):
    """Assert that the same input renders the same image."""
    assert render(draw(), "png") == render(draw(), "png")
