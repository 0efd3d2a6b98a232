"""Charts of throughput and response time against the load, with intervals over repetitions.

By the interactive law, N = X (R + Z), each figure of a trial follows from the other. So each plot also shows the mean
over the trials of what the law derives from a trial's other figure; where it leaves the points, a figure is wrong. (The
product of the two means is another matter: it is N only if the trials agree.)
"""

import math
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Chart

from posthaste_lab.experiments.figures import Row, answered_per_s, kept_think_s, response_of_all_s
from posthaste_lab.report.cells import Cell, Figure, figure_of
from posthaste_lab.report.charts.style import (
    FAINT,
    INK,
    LOG_RATIO,
    MIDDLE,
    SERIES_MAX,
    legend_above,
    line_of,
    load_axis,
    new_figure,
    thousands,
)
from posthaste_lab.report.quantities import time_unit

DODGE = 0.008  # horizontal distance of neighboring lines' points, as a share of the axis
LAW = "#a4a4a4"
Series = dict[str, list[Cell]]


def load_chart(series: Series, x: str, label: str) -> Chart:
    """Draws throughput above response time over the factor `x`."""
    chart = new_figure(7.2)
    top, bottom = chart.subplots(2, 1, sharex=True)
    shown = fastest(series)
    factor, unit = time_unit(_largest(shown, "response_mean_s"))
    for number, (name, cells) in enumerate(shown.items()):
        xs = beside([float(cell.levels[x]) for cell in cells], number - (len(shown) - 1) / 2)
        label_of = name or ("measured, mean and 95 % interval" if _have_intervals(cells) else "measured")
        points(top, xs, [cell.figure("throughput_per_s") for cell in cells], 1.0, number, label_of)
        points(bottom, xs, [cell.figure("response_mean_s") for cell in cells], factor, number, label_of)
        only = number == 0
        law = "by the law, N = X (R + Z), from each trial's other figure" if only else None
        _line(top, xs, [_throughput_by_law(cell) for cell in cells], law)
        _line(bottom, xs, [_response_by_law(cell) * factor for cell in cells], None)
    if len(shown) == 1:
        cells = next(iter(shown.values()))
        _light_load(top, cells, x)
    levels = sorted({float(cell.levels[x]) for cells in shown.values() for cell in cells})
    load_axis(bottom, levels, label)
    top.set_ylabel("throughput (requests per second)")
    bottom.set_ylabel(f"mean response time ({unit})")
    for axis in (top, bottom):
        thousands(axis)
    _scale(top, shown, "throughput_per_s", 1.0)
    _scale(bottom, shown, "response_mean_s", factor)
    legend_above(top, 2)
    return chart


def fastest(series: Series) -> Series:
    """Returns the lines with the highest throughput, as many as can be told apart, in their order."""

    def highest(name: str) -> float:
        figures = [cell.figure("throughput_per_s") for cell in series[name]]
        return max((figure.mean for figure in figures if figure is not None), default=0.0)

    chosen = set(sorted(series, key=highest, reverse=True)[:SERIES_MAX])
    return {name: cells for name, cells in series.items() if name in chosen}


def cells_chart(cells: Sequence[Cell], names: Sequence[str], figure: str, label: str) -> Chart:
    """Draws one figure for each combination as points with intervals, for factors that are no numbers."""
    chart = new_figure(1.2 + 0.36 * len(cells))
    axis = chart.subplots()
    factor, unit = (1.0, "") if figure.endswith("_per_s") else time_unit(_largest({"": list(cells)}, figure))
    for place, cell in enumerate(reversed(cells)):
        known = cell.figure(figure)
        if known is not None:
            half = None if math.isnan(known.low) else [known.half_width * factor]
            axis.plot([v * factor for v in known.values], [place] * len(known.values), "|", color=MIDDLE, markersize=9)
            axis.errorbar([known.mean * factor], [place], xerr=half, fmt="o", color=INK, markersize=5, capsize=4)
    axis.set_yticks(range(len(cells)), list(reversed(names)))
    axis.set_ylim(-0.6, len(cells) - 0.4)
    axis.set_xlim(left=0)
    axis.set_xlabel(f"{label} ({unit})" if unit else label)
    thousands(axis, "x")
    return chart


def beside(xs: list[float], step: float) -> list[float]:
    """Returns the positions of a line's points, shifted a little so that intervals of several lines do not overlap."""
    if min(xs) > 0 and max(xs) / min(xs) > LOG_RATIO:
        return [x * (max(xs) / min(xs)) ** (DODGE * step) for x in xs]
    return [x + (max(xs) - min(xs)) * DODGE * step for x in xs]


def points(
    axis: Axes, xs: Sequence[float], figures: Sequence[Figure | None], factor: float, number: int, label: str
) -> None:
    """Draws the n-th line of a chart through the means of figures, with their intervals and a tick for each trial."""
    known = [(x, figure) for x, figure in zip(xs, figures, strict=True) if figure is not None]
    if not known:
        return
    means = [figure.mean * factor for _, figure in known]
    halves = [figure.half_width * factor for _, figure in known]  # NaN, and so no bar, where there is one trial
    bars = None if all(map(math.isnan, halves)) else halves
    for x, figure in known:
        axis.plot([x] * len(figure.values), [v * factor for v in figure.values], "_", color=MIDDLE, markersize=11)
    axis.errorbar([x for x, _ in known], means, yerr=bars, capsize=3.5, label=label, **line_of(number))


def _have_intervals(cells: Sequence[Cell]) -> bool:
    return any(len(cell.results) > 1 for cell in cells)


def _line(axis: Axes, xs: Sequence[float], ys: Sequence[float], label: str | None) -> None:
    if all(math.isnan(y) for y in ys):
        return
    # Drawn above the points, and lighter, so that it is visible where both agree.
    axis.plot(xs, ys, linestyle=(0, (1, 1.5)), color=LAW, linewidth=1.6, label=label, zorder=3)


def _scale(axis: Axes, series: Series, name: str, factor: float) -> None:
    axis.set_ylim(0, factor * highest_drawn([cell.figure(name) for cells in series.values() for cell in cells]))


def highest_drawn(figures: Sequence[Figure | None]) -> float:
    """Returns the end of a scale, a little above the trials; intervals of few trials may be far higher, and are cut."""
    known = [figure for figure in figures if figure is not None]
    highest = max((value for figure in known for value in figure.values), default=1.0)
    wanted = max((figure.high for figure in known if not math.isnan(figure.high)), default=highest)
    return min(wanted, 1.5 * highest) * 1.05 if wanted > highest else 1.1 * highest


def _light_load(axis: Axes, cells: list[Cell], x: str) -> None:
    """Draws the throughput of a closed system without waiting: N over the round trip time of a client that was alone.

    Nothing is drawn where none was alone: clients of the first level may wait for each other there already. Nor for an
    open loop, whose requests come by the clock, however long earlier ones take.
    """
    if any(result.figures.get("open_loop") for cell in cells for result in cell.results):
        return
    first = cells[0]
    response, population = first.figure("response_mean_s"), first.figure("population")
    if response is None or population is None or response.mean <= 0 or population.mean > 1:
        return
    think = figure_of(first.results, lambda result: kept_think_s(result.figures))
    slope = 1 / (response.mean + (think.mean if think else 0.0))
    highest = max(figure.mean for cell in cells if (figure := cell.figure("throughput_per_s")) is not None)
    xs, ys = [], []
    for cell in cells:
        here = cell.figure("population")
        if here is not None and here.mean * slope <= 1.6 * highest:
            xs.append(float(cell.levels[x]))
            ys.append(here.mean * slope)
    if len(set(ys)) > 1:
        axis.plot(xs, ys, color=FAINT, linewidth=1.2, label="if nobody waited for another", zorder=1)


def _throughput_by_law(cell: Cell) -> float:
    """Returns the mean over trials of N / (R + Z), which is not the same as the quotient of means.

    The law is one of all answers; the result is scaled to those without an error, as the throughput is.
    """
    return _mean_by_law(
        cell, lambda f, r: f["population"] / (r + kept_think_s(f)) * f["throughput_per_s"] / answered_per_s(f)
    )


def _response_by_law(cell: Cell) -> float:
    """Returns the mean over trials of N / X - Z of all answers, corrected to that of answers without an error."""
    return _mean_by_law(
        cell, lambda f, r: f["population"] / answered_per_s(f) - kept_think_s(f) + float(f["response_mean_s"]) - r
    )


def _mean_by_law(cell: Cell, law: Callable[[Row, float], float]) -> float:
    """Returns the mean over trials of `law`, called with a trial's figures and the response time of all its answers."""
    trials = [result.figures for result in cell.results]
    closed = [f for f in trials if not f.get("open_loop") and f.keys() >= {"population", "response_mean_s"}]
    usable = [(f, r) for f in closed if f["throughput_per_s"] > 0 and (r := response_of_all_s(f))]
    return sum(law(f, r) for f, r in usable) / len(usable) if usable else math.nan


def _largest(series: Series, name: str) -> float:
    figures = [cell.figure(name) for cells in series.values() for cell in cells]
    return max((figure.mean for figure in figures if figure is not None), default=0.0)
