"""Chart of every request by time and response time: what a mean hides shows here as a second band."""

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Chart

from posthaste_lab.checks import FloatArray
from posthaste_lab.report.charts.spread import plain_log
from posthaste_lab.report.charts.style import new_figure
from posthaste_lab.report.quantities import time_unit

LIGHTEST = 0.6  # lower end of the color scale, so that a single request is visible on white
BANDS_MAX = 160  # bands of response time; more of them would be too thin to see


def heat_chart(slices_s: FloatArray, times_s: FloatArray, numbers: FloatArray) -> Chart:
    """Draws requests by time of answer and response time, on log scales of response time and of darkness."""
    chart = new_figure(4.4)
    axis = chart.subplots()
    edges, joined = _fewer(times_s, numbers)
    factor, unit = time_unit(float(edges[-1]))
    shown = np.ma.masked_equal(joined.T, 0)
    mesh = axis.pcolormesh(
        slices_s,
        edges * factor,
        shown,
        cmap="Greys",
        norm=LogNorm(LIGHTEST, max(1.0, float(joined.max()))),
        rasterized=True,
    )
    axis.set_yscale("log")
    plain_log(axis.yaxis)
    axis.grid(visible=False)
    axis.set_xlabel("time since the measured part began (s)")
    axis.set_ylabel(f"response time ({unit})")
    bar = chart.colorbar(mesh, ax=axis, pad=0.01)
    plain_log(bar.ax.yaxis)
    bar.set_label(f"requests in {slices_s[1] - slices_s[0]:.3g} s")
    return chart


def _fewer(edges: FloatArray, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns edges and numbers with neighboring buckets joined, so that at most BANDS_MAX are left."""
    together = -(-numbers.shape[1] // BANDS_MAX)
    starts = np.arange(0, numbers.shape[1], together)
    return np.append(edges[:-1][starts], edges[-1]), np.add.reduceat(numbers, starts, axis=1)
