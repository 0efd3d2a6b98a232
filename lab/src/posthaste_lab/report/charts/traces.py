"""Charts of trials over time, with events: they show whether a mean is meaningful.

Trimmed parts are drawn too, shaded. Events are bands as wide as their duration, with a mark on top, as short ones are
too thin to see; each kind has a mark and a hatch of its own. Instants at which the level changed are dashed lines.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Chart
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from posthaste_lab.report.charts.style import INK, MIDDLE, new_figure, same_scale, thousands
from posthaste_lab.report.quantities import time_unit
from posthaste_lab.report.records import Happening, Trace

SCALE_RATIO_MAX = 6.0
EVENT_MARKS = ("v", "^", "D", "s", "P", "X", "o", "<", ">", "p", "*", "h")
CHANGE: Any = {"color": INK, "linewidth": 1.0, "linestyle": (0, (4, 3))}
BAND: Any = {"facecolor": "#d4d4d4", "edgecolor": "#8c8c8c", "linewidth": 0}
EVENT_HATCHES = ("", "////", "....", "xxxx", "----", "||||", "++++")


class Look(NamedTuple):
    """How events of one kind are drawn: apart from all other kinds without any color."""

    mark: str
    face: str
    hatch: str


def look_of(place: int) -> Look:
    """Returns the look of the n-th kind: marks filled, then the same ones hollow, then numbers."""
    rounds, shape = divmod(place, len(EVENT_MARKS))
    mark = EVENT_MARKS[shape] if rounds < 2 else f"${place + 1}$"
    return Look(mark, "white" if rounds == 1 else MIDDLE, EVENT_HATCHES[place % len(EVENT_HATCHES)])


def traces_chart(
    traces: Sequence[tuple[str, Trace, list[Happening]]], changes_s: Mapping[str, Sequence[float]] | None = None
) -> Chart:
    """Draws throughput and response time over time, two plots for each trial, on one scale if all are visible on it.

    `changes_s` has by a trial's name the instants at which its level changed.
    """
    rows = len(traces)
    alone = rows == 1  # then both plots have the whole width, one above the other
    chart = new_figure(5.2 if alone else 2.0 * rows + 0.8)
    grid = chart.subplots(2 if alone else rows, 1 if alone else 2, sharex="col", squeeze=False)
    axes = grid.T if alone else grid
    slowest = max(float(_finite_max(trace)) for _, trace, _ in traces)
    factor, unit = time_unit(slowest)
    kinds = sorted({f"{event.source}: {event.kind}" for _, _, events in traces for event in events})
    looks = {kind: look_of(place) for place, kind in enumerate(kinds)}
    changed = changes_s or {}
    for (left, right), (name, trace, _) in zip(axes, traces, strict=True):
        left.plot(trace.middle_s, trace.throughput_per_s, color=INK, linewidth=1.1, marker=".", markersize=3)
        right.plot(trace.middle_s, trace.response_mean_s * factor, color=INK, linewidth=1.1, marker=".", markersize=3)
        left.set_title(name)
        for axis in (left, right):
            _shade(axis, trace)
    for column in (0, 1):
        if one_scale(traces, column):
            same_scale(axes[:, column])
        else:
            for axis in axes[:, column]:
                axis.set_ylim(bottom=0)
    for (left, right), (name, trace, events) in zip(axes, traces, strict=True):
        for axis in (left, right):
            _events(axis, events, trace, looks)
            for instant in changed.get(name, ()):
                axis.axvline(instant, **CHANGE)
            thousands(axis)
    axes[-1, 0].set_xlabel("time since the measured part began (s)")
    axes[-1, 1].set_xlabel("time since the measured part began (s)")
    for place in range(rows):
        axes[place, 0].set_ylabel("requests\nper second")
        axes[place, 1].set_ylabel(f"mean response\ntime ({unit})")
    _legend(chart, looks, any(changed.get(name) for name, _, _ in traces))
    return chart


def one_scale(traces: Sequence[tuple[str, Trace, list[Happening]]], column: int) -> bool:
    """Returns whether all traces are visible on a shared scale (`column` 0: of throughput, 1: of response time)."""
    series = [trace.response_mean_s if column else trace.throughput_per_s for _, trace, _ in traces]
    tops = [float(np.nanmax(each)) for each in series if len(each) and not np.isnan(each).all()]
    return not tops or max(tops) <= SCALE_RATIO_MAX * min(tops)


def _finite_max(trace: Trace) -> float:
    known = trace.response_mean_s[trace.response_mean_s == trace.response_mean_s]
    return float(known.max()) if len(known) else 0.0


def _shade(axis: Axes, trace: Trace) -> None:
    begin, end = float(trace.middle_s.min()), float(trace.middle_s.max())
    for left, right in ((begin, 0.0), *trace.omitted_s, (trace.measured_s, end)):
        if right > left:
            axis.axvspan(left, right, facecolor="#efefef", edgecolor="#d0d0d0", hatch="\\\\\\", linewidth=0, zorder=0)


def _events(axis: Axes, events: Sequence[Happening], trace: Trace, looks: dict[str, Look]) -> None:
    top = axis.get_ylim()[1]
    begin, end = float(trace.middle_s.min()), float(trace.middle_s.max())
    for event in events:
        if begin <= event.start_s <= end:
            mark, face, hatch = looks[f"{event.source}: {event.kind}"]
            axis.axvspan(event.start_s, event.start_s + event.duration_s, hatch=hatch, zorder=0.5, **BAND)
            axis.plot([event.start_s], [top * 0.97], mark, color=MIDDLE, mfc=face, markersize=4.5, clip_on=False)


def _legend(chart: Chart, looks: dict[str, Look], has_changes: bool) -> None:
    handles: list[Any] = [Patch(facecolor="#efefef", edgecolor="#b0b0b0", hatch="\\\\\\")]
    labels = ["trimmed, or left out"]
    if has_changes:
        handles.append(Line2D([], [], **CHANGE))
        labels.append("the level changed")
    for kind, (mark, face, hatch) in looks.items():
        dot = Line2D([], [], marker=mark, linestyle="", color=MIDDLE, mfc=face, markersize=5)
        handles.append((Patch(hatch=hatch, **BAND), dot))
        labels.append(kind)
    chart.legend(handles, labels, loc="outside upper left", ncols=3, fontsize=9, frameon=False)
