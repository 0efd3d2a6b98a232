"""Distributions of response times: percentile curves on log scales, histograms, boxes."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Chart
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from posthaste_lab.checks import FloatArray
from posthaste_lab.report.cells import BEYOND_LEAST
from posthaste_lab.report.charts.style import INK, SERIES_MAX, legend_above, line_of, new_figure
from posthaste_lab.report.quantities import time_unit
from posthaste_lab.report.records import Spread

NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)


def percentile_chart(spreads: Mapping[str, Spread]) -> Chart:
    """Draws response time over percentile, on a scale where each further nine takes the same room.

    A curve ends where fewer than ten requests lie beyond: from there on single requests would decide it.
    """
    return percentile_panels({"": spreads})


def percentile_panels(panels: Mapping[str, Mapping[str, Spread]]) -> Chart:
    """Draws percentile curves in a plot for each kind of request, on the same scales and with the same line styles."""
    chart = new_figure(4.4 * len(panels) + 0.4)
    axes = chart.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    names = list(dict.fromkeys(name for spreads in panels.values() for name in spreads))[:SERIES_MAX]
    shown = {kind: [(name, spreads[name]) for name in names if name in spreads] for kind, spreads in panels.items()}
    factor, unit = time_unit(float(np.median([each.percentile(0.99) for some in shown.values() for _, each in some])))
    for axis, (kind, some) in zip(axes, shown.items(), strict=True):
        for name, spread in some:
            below, known = _below(spread), _known(spread)
            if not known.any():
                continue
            odds = 1 / np.maximum(1 - below[known], 1e-12)
            style = line_of(names.index(name)) | {"markevery": (0.05, 0.2)}
            axis.plot(odds, spread.values_s[known] * factor, label=name, **style)
        axis.set_ylabel(f"{kind}: response time ({unit})" if kind else f"response time ({unit})")
    last = axes[-1]
    last.set_xscale("log")
    last.set_yscale("log")
    last.set_xlim(left=1)
    ticks = [1 / (1 - share) for share in NINES if 1 / (1 - share) <= last.get_xlim()[1]]
    last.xaxis.set_major_locator(FixedLocator(ticks))
    last.xaxis.set_minor_locator(NullLocator())
    last.xaxis.set_major_formatter(FuncFormatter(lambda odds, _: f"{100 * (1 - 1 / odds):.6g} %"))
    plain_log(last.yaxis)
    last.set_xlabel("share of requests answered within")
    drawn = {line.get_label() for axis in axes for line in axis.get_lines()}
    missing = drawn - {line.get_label() for line in axes[0].get_lines()}
    for name in (name for name in names if name in missing):  # only in other plots, and the legend is for all
        axes[0].plot([], [], label=name, **line_of(names.index(name)))
    legend_above(axes[0])
    return chart


def has_curve(spread: Spread) -> bool:
    """Returns whether the distribution has requests enough for a percentile curve."""
    return bool(_known(spread).any())


def _below(spread: Spread) -> FloatArray:
    return np.asarray(np.cumsum(spread.counts) / spread.total)


def _known(spread: Spread) -> NDArray[np.bool_]:
    return np.array([spread.percentile_is_known(share) for share in _below(spread)], dtype=bool)


def histogram_chart(spreads: Mapping[str, Spread]) -> Chart:
    """Draws histograms in bins of equal ratio, a plot for each of up to six distributions, on the same scales."""
    shown = dict(list(spreads.items())[:6])
    chart = new_figure(max(2.6, 1.5 * len(shown) + 0.6))
    axes = chart.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    low = min(spread.percentile(0.001) for spread in shown.values())
    high = max(spread.percentile(0.999) for spread in shown.values())
    factor, unit = time_unit(high)
    edges = np.geomspace(low * 0.95, high * 1.05, 61)
    for axis, (name, spread) in zip(axes, shown.items(), strict=True):
        shares, _ = np.histogram(spread.values_s, bins=edges, weights=spread.counts / spread.total)
        axis.stairs(100 * shares, edges * factor, fill=True, facecolor="#8c8c8c", edgecolor=INK, linewidth=0.6)
        axis.set_title(name)
        axis.set_ylabel("% of requests")
    axes[-1].set_xscale("log")
    plain_log(axes[-1].xaxis)
    axes[-1].set_xlabel(f"response time ({unit}); bins of equal ratio, 0.1 % at each end left out")
    return chart


def box_chart(panels: Mapping[str, Mapping[str, Spread]]) -> Chart:
    """Draws boxes: quartiles and median, with whiskers from the 1st to the 99th percentile.

    A whisker ends where fewer than ten requests lie beyond: from there on single requests would decide it. Each kind
    of request has a plot; they are below each other, on one scale.
    """
    counts = [len(spreads) for spreads in panels.values()]
    chart = new_figure(1.0 + sum(0.4 + 0.42 * count for count in counts))
    axes = chart.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=[1 + count for count in counts])
    factor, unit = time_unit(max(spread.percentile(0.99) for some in panels.values() for spread in some.values()))
    for axis, (kind, spreads) in zip(axes[:, 0], panels.items(), strict=True):
        axis.bxp(
            [_box(name, spread, factor) for name, spread in reversed(list(spreads.items()))],
            orientation="horizontal",
            showfliers=False,
            widths=0.5,
            boxprops={"color": INK},
            medianprops={"color": INK, "linewidth": 2.2},
            whiskerprops={"color": INK},
            capprops={"color": INK},
        )
        axis.set_title(kind)
    last = axes[-1, 0]
    last.set_xscale("log")
    plain_log(last.xaxis)
    last.set_xlabel(f"response time ({unit}), log scale")
    return chart


def _box(name: str, spread: Spread, factor: float) -> dict[str, str | float]:
    beyond = min(0.25, max(0.01, BEYOND_LEAST / spread.total))
    places = {"med": 0.5, "q1": 0.25, "q3": 0.75, "whislo": beyond, "whishi": 1 - beyond}
    return {"label": name, **{place: spread.percentile(share) * factor for place, share in places.items()}}


def plain_log(axis: Axis) -> None:
    """Labels a log scale with plain numbers instead of powers."""
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
