"""Chart of the mean response time of each kind of request over the load, with intervals over repetitions."""

from collections.abc import Sequence
from textwrap import wrap

from matplotlib.figure import Figure as Chart

from posthaste_lab.report.charts.load import Series, beside, highest_drawn, points
from posthaste_lab.report.charts.style import legend_above, load_axis, new_figure, thousands
from posthaste_lab.report.quantities import time_unit

TITLE_WIDTH = 90  # characters of titles that fit side by side


def kinds_over_load_chart(lines: Series, kinds: Sequence[str], x: str, label: str) -> Chart:
    """Draws a plot for each of the lines of cells, with a line for each kind over the factor `x`, all on one scale."""
    columns = min(len(lines), 2)
    rows = -(-len(lines) // columns)
    chart = new_figure(0.8 + 3.4 * rows)
    axes = chart.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    drawn = [cell.kind_figure(kind, "response_mean_s") for cells in lines.values() for cell in cells for kind in kinds]
    factor, unit = time_unit(max((figure.mean for figure in drawn if figure is not None), default=0.0))
    for place, (axis, (name, cells)) in enumerate(zip(axes.flat, lines.items(), strict=False)):
        axis.set_title("\n".join(wrap(name, TITLE_WIDTH // columns)))
        levels = [float(cell.levels[x]) for cell in cells]
        for number, kind in enumerate(kinds):
            xs = beside(levels, number - (len(kinds) - 1) / 2)
            points(axis, xs, [cell.kind_figure(kind, "response_mean_s") for cell in cells], factor, number, kind)
        is_lowest = place + columns >= len(lines)
        load_axis(axis, sorted(set(levels)), label if is_lowest else "", labels=24 // columns)
        axis.tick_params(labelbottom=is_lowest)
        axis.set_ylabel(f"mean response time ({unit})" if place % columns == 0 else "")
        thousands(axis)
    for axis in axes.flat[len(lines) :]:
        axis.remove()
    axes[0, 0].set_ylim(0, factor * highest_drawn(drawn))
    legend_above(axes[0, 0], len(kinds))
    return chart
