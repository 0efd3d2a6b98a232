"""Style and helpers that all charts share."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from matplotlib import rc_context as matplotlib_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Chart
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from posthaste_lab.factorial.plots import numbers

INK, MIDDLE, FAINT = "#1b1b1b", "#6b6b6b", "#b9b9b9"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)), (0, (1, 1)), (0, (8, 3, 2, 3, 2, 3)))
GRAYS = ("#1b1b1b", "#5c5c5c", "#8c8c8c", "#3f3f3f", "#a8a8a8", "#747474", "#2d2d2d", "#9a9a9a")
WIDTH = 9.0
SERIES_MAX = 8
LEGEND_WIDTH, SAMPLE_WIDTH = 110, 10  # widths in characters of the legend, and of the line sample before a name
LEVEL_DIGITS = 12  # digits of a level on an axis: with six, a mebibyte would be 1.04858e+06
LOG_RATIO = 10.0  # a factor whose levels span a larger ratio is drawn on a logarithmic scale
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MIDDLE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # names of levels may hold a dollar
    "svg.fonttype": "path",
    "svg.hashsalt": "posthaste-lab",  # the same figures give the same file
}


def styled() -> AbstractContextManager[None]:
    """Returns a context with the style, in which charts are drawn and saved."""
    return matplotlib_context(STYLE)


def new_figure(height: float, width: float = WIDTH) -> Chart:
    """An empty figure."""
    return Chart(figsize=(width, height), layout="constrained")


def left_out(shown: int, of: int, things: str, which: str, where: str = "the table") -> str:
    """Returns a sentence for the caption of a chart that does not show everything; empty if it does."""
    drawn = f"{shown} {'is' if shown == 1 else 'are'} drawn"
    return f" Of {of} {things} only {drawn}, {which}; {where} has all of them." if of > shown else ""


def line_of(number: int) -> dict[str, Any]:
    """Returns the look of the n-th line of a chart."""
    return {
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
        "color": GRAYS[number % len(GRAYS)],
        "markersize": 5,
        "linewidth": 1.3,
    }


def load_axis(axis: Axes, levels: Sequence[float], label: str, labels: int = 24) -> None:
    """Sets up the horizontal axis of a factor: its levels are the ticks, on a log scale if they span more than tenfold.

    Levels nearer to each other than the axis over `labels` have no tick of their own.
    """
    if min(levels) > 0 and max(levels) / min(levels) > LOG_RATIO:
        axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(FixedLocator(_apart(axis, sorted(set(levels)), labels)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.{LEVEL_DIGITS}g}"))
    axis.set_xlabel(label)


def _apart(axis: Axes, levels: list[float], labels: int) -> list[float]:
    """Returns levels far enough from each other that their labels do not touch."""
    shown: list[float] = []
    log = axis.get_xscale() == "log"
    span = max(levels) / min(levels) if log else max(levels) - min(levels)
    for level in levels:
        if not shown:
            shown.append(level)
            continue
        gap = level / shown[-1] if log else level - shown[-1]
        if gap >= (span ** (1 / labels) if log else span / labels):
            shown.append(level)
    return shown


def thousands(axis: Axes, which: str = "y") -> None:
    """Labels an axis with separators of thousands."""
    numbers(axis.yaxis if which == "y" else axis.xaxis)


def legend_above(axis: Axes, columns: int = 3) -> None:
    """Puts the legend above the plot and its title, where it covers nothing."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        measured_first = sorted(zip(handles, labels, strict=True), key=lambda pair: isinstance(pair[0], Line2D))
        handles, labels = [handle for handle, _ in measured_first], [label for _, label in measured_first]
        columns = max(1, min(columns, LEGEND_WIDTH // (max(map(len, labels)) + SAMPLE_WIDTH)))
        axis.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0, 1.13 if axis.get_title("left") else 1.01),
            ncols=columns,
            borderaxespad=0,
            handlelength=3.2,
        )


def same_scale(axes: Iterable[Axes]) -> None:
    """Gives plots that are to be compared the same vertical scale."""
    listed = list(axes)
    top = max(axis.get_ylim()[1] for axis in listed)
    for axis in listed:
        axis.set_ylim(0, top)
