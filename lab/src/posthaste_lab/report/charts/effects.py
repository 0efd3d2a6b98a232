"""Charts of a 2^k design: effects by size with their intervals, and residuals, which may contradict the model."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Chart

from posthaste_lab.factorial import Effects, plot_residuals
from posthaste_lab.factorial.plots import numbers, one_over
from posthaste_lab.report.charts.style import INK, MIDDLE, new_figure

SHOWN_MAX = 31


def effects_chart(effects: Effects, unit: str) -> Chart:
    """Draws the effects (half of the change from low to high level) with intervals, the largest on top.

    A filled square is significant, an empty one is not.
    """
    ranked = sorted((name for name in effects.effects if name != "I"), key=lambda name: abs(effects.effects[name]))
    ranked = ranked[-SHOWN_MAX:]
    chart = new_figure(1.3 + 0.36 * len(ranked))
    axis = chart.subplots()
    axis.axvline(0, color=MIDDLE, linewidth=0.9)
    for place, name in enumerate(ranked):
        interval = effects.intervals.get(name)
        half = None if interval is None else [interval.half_width]
        face = INK if effects.significant.get(name) else "white"
        axis.errorbar(
            [effects.effects[name]], [place], xerr=half, fmt="s", color=INK, mfc=face, markersize=5.5, capsize=4
        )
    axis.set_yticks(range(len(ranked)), ranked)
    axis.set_ylim(-0.6, len(ranked) - 0.4)
    scale = {"none": unit, "log": "natural logarithm", "reciprocal": one_over(unit)}[effects.transform]
    numbers(axis.xaxis)
    axis.set_xlabel(f"effect, half of the change from low to high ({scale})")
    return chart


def residuals_chart(effects: Effects, unit: str, turns: Sequence[Sequence[int]]) -> Chart:
    """Draws residuals against prediction, normal quantiles and the turns of the trials."""
    return plot_residuals(effects, unit, turns)
