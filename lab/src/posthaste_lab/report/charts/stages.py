"""Charts of the stages of a request, stacked, over the load and for each kind of request.

The stages are consecutive, so their means add up to the tier's mean response time; what clients measure beyond that is
the way to the tier and back and the load generator's own share.
"""

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Chart
from matplotlib.patches import Patch

from posthaste_lab.report.cells import Cell
from posthaste_lab.report.charts.style import INK, MIDDLE, new_figure, same_scale, thousands
from posthaste_lab.report.quantities import time_unit

BARS_LEAST = 3  # fewer vertical bars would be too wide
LABELS_MAX = 90  # characters of labels that fit side by side
TITLE_WIDTH = 100  # characters of titles that fit side by side
STAGES = ("parse", "waiting", "dispatch", "service", "reply", "outside")
WORDS = {
    "parse": "parsing and network thread",
    "waiting": "waiting for a worker",
    "dispatch": "dispatch",
    "service": "service by store or server",
    "reply": "answering",
    "outside": "outside the tier",
}
FILLS: dict[str, dict[str, Any]] = {
    "parse": {"facecolor": "#ffffff", "hatch": ""},
    "waiting": {"facecolor": "#d9d9d9", "hatch": "////"},
    "dispatch": {"facecolor": "#ffffff", "hatch": "...."},
    "service": {"facecolor": "#4a4a4a", "hatch": ""},
    "reply": {"facecolor": "#9c9c9c", "hatch": ""},
    "outside": {"facecolor": "#ffffff", "hatch": "xxxx"},
}
Read = Callable[[str], float | None]


def stage_times(read: Read) -> dict[str, float]:
    """Returns the mean seconds of each stage; "outside" is the time that clients measured beyond the tier's.

    It is never below 0 here: where the tier's is longer, the two are of other requests, as `report.passage` tells.
    """
    times = {stage: value for stage in STAGES[:-1] if (value := read(f"{stage}_mean_s")) is not None}
    seen, inside = read("response_mean_s"), read("tier_response_mean_s")
    if times and seen is not None and inside is not None:
        times["outside"] = max(0.0, seen - inside)
    return times


def stages_chart(cells: Sequence[Cell], names: Sequence[str], label: str) -> Chart:
    """Draws a bar of stages for each cell; bars are horizontal if they are few or their names long."""
    bars = [stage_times(_of_cell(cell)) for cell in cells]
    if len(names) < BARS_LEAST or len(names) * max(map(len, names)) > LABELS_MAX:
        chart = new_figure(1.8 + 0.42 * len(cells))
        _lie(chart.subplots(), names, bars)
    else:
        chart = new_figure(4.6)
        axis = chart.subplots()
        _stack(axis, names, bars)
        axis.set_xlabel(label)
    _legend(chart, bars)
    return chart


def kinds_chart(cells: Sequence[Cell], titles: Sequence[str]) -> Chart:
    """Draws a plot for each of a few cells, with a bar of stages for each kind of request, on one scale."""
    chart = new_figure(4.2 if len(cells) == 1 else 4.6, 9.0)
    axes = chart.subplots(1, len(cells), sharey=True, squeeze=False)[0]
    all_bars = []
    kinds = sorted({kind for cell in cells for result in cell.results for kind in result.kinds})
    for axis, cell, title in zip(axes, cells, titles, strict=True):
        bars = [stage_times(_of_kind(cell, kind)) for kind in kinds]
        all_bars += bars
        _stack(axis, kinds, bars, largest=_highest(cells, kinds))
        axis.set_title("\n".join(wrap(title, TITLE_WIDTH // len(cells))))
        axis.set_xlabel("kind of request")
        axis.tick_params(axis="x", rotation=40 if len(cells) * len(kinds) > 10 else 0)
        if axis is not axes[0]:
            axis.set_ylabel("")
    same_scale(axes)
    _legend(chart, all_bars)
    return chart


def _highest(cells: Sequence[Cell], kinds: Sequence[str]) -> float:
    return max((sum(stage_times(_of_kind(cell, kind)).values()) for cell in cells for kind in kinds), default=0.0)


def _of_cell(cell: Cell) -> Read:
    def read(name: str) -> float | None:
        figure = cell.figure(name)
        return None if figure is None else figure.mean

    return read


def _of_kind(cell: Cell, kind: str) -> Read:
    def read(name: str) -> float | None:
        figure = cell.kind_figure(kind, name)
        return None if figure is None else figure.mean

    return read


def _stack(axis: Axes, names: Sequence[str], bars: Sequence[dict[str, float]], largest: float = 0.0) -> None:
    largest = largest or max((sum(bar.values()) for bar in bars), default=0.0)
    factor, unit = time_unit(largest)
    bottoms = [0.0] * len(bars)
    for stage in STAGES:
        heights = [bar.get(stage, 0.0) * factor for bar in bars]
        if any(height > 0 for height in heights):
            axis.bar(
                range(len(bars)), heights, bottom=bottoms, width=0.66, edgecolor=INK, linewidth=0.7, **FILLS[stage]
            )
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    for place, total in enumerate(bottoms):
        if bars[place]:  # a kind without requests here has no time, which is not a time of 0
            axis.annotate(f"{total:.3g}", (place, total), (0, 2), textcoords="offset points", ha="center", color=MIDDLE)
    axis.set_xticks(range(len(names)), list(names))
    axis.grid(visible=False, axis="x")
    axis.set_ylim(0, largest * factor * 1.12 or 1.0)
    axis.set_ylabel(f"mean time ({unit})")
    thousands(axis)


def _lie(axis: Axes, names: Sequence[str], bars: Sequence[dict[str, float]]) -> None:
    factor, unit = time_unit(max((sum(bar.values()) for bar in bars), default=0.0))
    places = list(range(len(bars)))[::-1]
    lefts = [0.0] * len(bars)
    for stage in STAGES:
        widths = [bar.get(stage, 0.0) * factor for bar in bars]
        if any(width > 0 for width in widths):
            axis.barh(places, widths, left=lefts, height=0.62, edgecolor=INK, linewidth=0.7, **FILLS[stage])
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    for place, total in zip(places, lefts, strict=True):
        axis.annotate(f"{total:.3g}", (total, place), (3, 0), textcoords="offset points", va="center", color=MIDDLE)
    axis.set_yticks(places, list(names))
    axis.grid(visible=False, axis="y")
    axis.set_xlim(0, max(lefts) * 1.06 or 1.0)
    axis.set_xlabel(f"mean time ({unit})")
    thousands(axis, "x")


def _legend(chart: Chart, bars: Sequence[dict[str, float]]) -> None:
    total = max((sum(bar.values()) for bar in bars), default=0.0)
    seen = [stage for stage in STAGES if any(bar.get(stage, 0.0) > 0.002 * total for bar in bars)]
    patches = [Patch(edgecolor=INK, linewidth=0.7, label=WORDS[stage], **FILLS[stage]) for stage in reversed(seen)]
    chart.legend(handles=patches, loc="outside upper left", ncols=3, fontsize=9, frameon=False)
