"""Distributions of response times: percentile curves on log scales, histograms, boxes."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Chart
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from posthaste_lab.report.charts.style import INK, SERIES_MAX, legend_above, line_of, new_figure
from posthaste_lab.report.quantities import time_unit
from posthaste_lab.report.records import Spread

NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)


def percentile_chart(spreads: Mapping[str, Spread]) -> Chart:
    """Response time over percentile; each further nine takes as much room as the one before.

    A curve ends where fewer than ten requests lie beyond: from there on it would be luck.
    """
    chart = new_figure(4.8)
    axis = chart.subplots()
    shown = dict(list(spreads.items())[:SERIES_MAX])
    factor, unit = time_unit(float(np.median([spread.percentile(0.99) for spread in shown.values()])))
    for number, (name, spread) in enumerate(shown.items()):
        below = np.cumsum(spread.counts) / spread.total
        known = np.array([spread.percentile_is_known(share) for share in below])
        odds = 1 / np.maximum(1 - below[known], 1e-12)
        style = line_of(number) | {"markevery": (0.05, 0.2)}
        axis.plot(odds, spread.values_s[known] * factor, label=name, **style)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(left=1)
    ticks = [1 / (1 - share) for share in NINES if 1 / (1 - share) <= axis.get_xlim()[1]]
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda odds, _: f"{100 * (1 - 1 / odds):.6g} %"))
    plain_log(axis.yaxis)
    axis.set_xlabel("share of requests answered within")
    axis.set_ylabel(f"response time ({unit})")
    legend_above(axis)
    return chart


def histogram_chart(spreads: Mapping[str, Spread]) -> Chart:
    """Share of requests by response time, in bins of equal ratio, one plot for each, on the same scales."""
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


def box_chart(spreads: Mapping[str, Spread]) -> Chart:
    """Boxes: the middle half of the requests, its median, whiskers from the 1st to the 99th percentile."""
    chart = new_figure(1.4 + 0.42 * len(spreads))
    axis = chart.subplots()
    factor, unit = time_unit(max(spread.percentile(0.99) for spread in spreads.values()))
    boxes = [
        {
            "label": name,
            "med": spread.percentile(0.5) * factor,
            "q1": spread.percentile(0.25) * factor,
            "q3": spread.percentile(0.75) * factor,
            "whislo": spread.percentile(0.01) * factor,
            "whishi": spread.percentile(0.99) * factor,
        }
        for name, spread in reversed(list(spreads.items()))
    ]
    axis.bxp(
        boxes,
        orientation="horizontal",
        showfliers=False,
        widths=0.5,
        boxprops={"color": INK},
        medianprops={"color": INK, "linewidth": 2.2},
        whiskerprops={"color": INK},
        capprops={"color": INK},
    )
    axis.set_xscale("log")
    plain_log(axis.xaxis)
    axis.set_xlabel(f"response time ({unit}), log scale")
    return chart


def plain_log(axis: Axis) -> None:
    """Numbers as they are on a log scale, not as powers."""
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0), numticks=12))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
