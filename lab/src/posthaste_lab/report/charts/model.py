"""Charts of a fitted model and the measurements: the curve with its interval, and the trials' means with theirs.

The curve is that of the model as it was kept, which may know all points; it is dashed beyond the most clients that it
knows. What a model that was fitted to the filled
points alone says of the hollow ones is a mark beside each of these. The open textbook models are drawn as well, as most
people would have used them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Chart

from posthaste_lab.fitting.model import CurvePoint
from posthaste_lab.fitting.validation import Line
from posthaste_lab.report.charts.style import INK, MIDDLE, legend_above, load_axis, new_figure, thousands
from posthaste_lab.report.quantities import time_unit
from posthaste_lab.stats import MeanInterval

LABELS = 12  # most labels on the horizontal axis
BAND = "#dcdcdc"
BEYOND = (0, (6, 2))  # dashes of a curve
ROOM = 1.12  # height of the plot, as a multiple of the highest point


@dataclass(frozen=True)
class Fit:
    """A model to be drawn: its name, its curve, and measurements with predictions from some of them."""

    name: str
    curve: Sequence[CurvePoint]
    lines: Sequence[Line]


def model_chart(fits: Sequence[Fit]) -> Chart:
    """Draws throughput and mean response time over the clients, a row of two plots for each model."""
    chart = new_figure(3.1 * len(fits) + 0.7)
    grid = chart.subplots(len(fits), 2, squeeze=False)
    factor, unit = time_unit(max(line.response.mean for fit in fits for line in fit.lines))
    for (left, right), fit in zip(grid, fits, strict=True):
        _draw(left, fit, "throughput", 1.0)
        _draw(right, fit, "response", factor)
        _open_models(right, fit, factor)
        left.set_ylabel("throughput (per second)")
        right.set_ylabel(f"mean response time ({unit})")
        for axis in (left, right):
            load_axis(axis, [line.clients for line in fit.lines], "clients", labels=LABELS)
            thousands(axis)
        if len(fits) > 1:
            right.set_title(fit.name)
    legend_above(grid[0, 0], 1)
    legend_above(grid[0, 1], 1)
    return chart


def _draw(axis: Axes, fit: Fit, what: str, factor: float) -> None:
    xs = [point.clients for point in fit.curve]
    answers = [point.throughput_per_s if what == "throughput" else point.response_time_s for point in fit.curve]
    known = [answer for answer in answers if answer.low is not None and answer.high is not None]
    if len(known) == len(answers):
        lows, highs = [(a.low or 0.0) * factor for a in answers], [(a.high or 0.0) * factor for a in answers]
        axis.fill_between(xs, lows, highs, color=BAND, linewidth=0, zorder=0.5)
    _curve(axis, xs, [answer.value * factor for answer in answers], sum(not each.extrapolated for each in fit.curve))
    for calibrated, filled, label in ((True, INK, "measured"), (False, "white", "measured, held out")):
        lines = [line for line in fit.lines if line.calibrated is calibrated]
        if lines:
            measured = [line.throughput if what == "throughput" else line.response for line in lines]
            axis.errorbar(
                [line.clients for line in lines],
                [each.mean * factor for each in measured],
                yerr=[each.half_width * factor for each in measured],
                fmt="o",
                color=INK,
                markerfacecolor=filled,
                markersize=5.5,
                capsize=3.5,
                label=label if what == "throughput" else None,
            )
    predicted = _predictions(axis, fit, what, factor)
    top = max(_upper_end(line.throughput if what == "throughput" else line.response) for line in fit.lines)
    axis.set_ylim(0, ROOM * max(factor * top, *(factor * answer.value for answer in answers), *predicted))


def _curve(axis: Axes, xs: Sequence[int], ys: Sequence[float], known: int) -> None:
    """Draws the curve, dashed from the last of its `known` points on, beyond which no clients were measured."""
    axis.plot(xs[:known], ys[:known], color=INK, linewidth=1.3, label="model, with 95 % interval")
    if known < len(xs):
        beyond = slice(max(0, known - 1), None)
        axis.plot(xs[beyond], ys[beyond], color=INK, linewidth=1.3, linestyle=BEYOND)


def _upper_end(measured: MeanInterval) -> float:
    """Returns how far up the plot must go for a measured mean: an interval of two repetitions may be of any width."""
    half_width = measured.half_width if math.isfinite(measured.half_width) else 0.0
    return measured.mean + min(half_width, measured.mean)


def _predictions(axis: Axes, fit: Fit, what: str, factor: float) -> list[float]:
    """Draws and returns what was predicted of the numbers of clients that were held out."""
    held_out = [line for line in fit.lines if not line.calibrated]
    answers = [
        line.predicted.throughput_per_s.value if what == "throughput" else line.predicted.response_time_s.value
        for line in held_out
    ]
    scaled = [answer * factor for answer in answers]
    label = "predicted from the filled ones" if what == "throughput" else None
    xs = [line.clients for line in held_out]
    axis.plot(xs, scaled, marker="D", linestyle="", color=MIDDLE, markersize=4, zorder=3, label=label)
    return scaled


def _open_models(axis: Axes, fit: Fit, factor: float) -> None:
    """Draws the response times of the open models; those beyond the plot as arrows on its upper edge."""
    top = axis.get_ylim()[1]
    for mark, style, label in (("x", (0, (5, 3)), "M/M/1"), ("+", (0, (1, 2)), "M/M/m")):
        responses = [
            (line.clients, line.predicted.mm1_response_s if mark == "x" else line.predicted.mmm_response_s)
            for line in fit.lines
        ]
        known = [(clients, response * factor) for clients, response in responses if not math.isnan(response)]
        inside = [(clients, response) for clients, response in known if response <= top]
        if inside:
            xs, ys = zip(*inside, strict=True)
            axis.plot(xs, ys, marker=mark, linestyle=style, color=MIDDLE, linewidth=1.2, markersize=6, label=label)
        beyond = [clients for clients, response in known if response > top]
        if beyond:  # an empty line that is not clipped would have no place, and upset the layout
            axis.plot(beyond, [top] * len(beyond), marker="^", linestyle="", color=MIDDLE, markersize=5, clip_on=False)
