"""Plots of residuals, which show whether the assumptions behind a table of effects hold.

There are four views: against the prediction (a funnel suggests logarithms, a bend another model), against the normal
distribution, in the order in which the runs were made (a slope is a drift), and by size beside the effects.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from posthaste_lab.checks import figures
from posthaste_lab.errors import BadArgument
from posthaste_lab.factorial.effects import Effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

EFFECTS_SHOWN = 15  # only the largest effects are drawn
RATE = "requests per "  # how the unit of a rate begins, whose reciprocal is a time per request
INK, FAINT = "#1b1b1b", "#8a8a8a"


def one_over(unit: str) -> str:
    """The unit of a reciprocal."""
    if unit.startswith(RATE):
        return f"{unit.removeprefix(RATE)} per request"
    return f"1 / ({unit})" if " " in unit else f"1 / {unit}"


def numbers(side: "Axis") -> None:
    """Labels an axis with plain numbers and separators of thousands; no factor stands in its corner."""
    from matplotlib.ticker import FuncFormatter

    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"))


def plot_residuals(effects: Effects, unit: str = "", turns: ArrayLike | None = None) -> "Figure":
    """Returns a figure with four views of the residuals of an analysis; `unit` is that of the responses.

    `turns` are the places of the runs in their order, cells x repetitions as the responses; without them the third view
    is in the order of cells, in which a drift does not show. A filled square is significant, an empty one is not.

    Nothing is saved. Without repetitions there are no residuals, and the first three views say so.
    """
    from matplotlib.figure import Figure  # slow to load, and only needed here

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    scale = {"none": unit, "log": "natural logarithm", "reciprocal": one_over(unit) if unit else "reciprocal"}
    of = f" ({scale[effects.transform]})" if scale[effects.transform] else ""
    if effects.degrees_of_freedom:
        _against_prediction(axes[0, 0], effects, of)
        _against_normal(axes[0, 1], effects, of)
        _in_order(axes[1, 0], effects, of, turns)
    else:
        for axis in (axes[0, 0], axes[0, 1], axes[1, 0]):
            axis.text(0.5, 0.5, "no residuals without repetitions", ha="center", va="center", color=FAINT)
            axis.set_axis_off()
    _effects(axes[1, 1], effects, of)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    for side in (axes[0, 0].xaxis, axes[0, 0].yaxis, axes[0, 1].yaxis, axes[1, 0].yaxis, axes[1, 1].xaxis):
        numbers(side)
    return figure


def _zero(axis: "Axes") -> None:
    axis.axhline(0, color=FAINT, linewidth=0.8, zorder=0)


def _against_prediction(axis: "Axes", effects: Effects, of: str) -> None:
    _zero(axis)
    fitted = np.repeat(effects.fitted[:, None], effects.residuals.shape[1], axis=1)
    fitted += 0.0 if effects.blocks is None else effects.blocks
    axis.plot(fitted.ravel(), effects.residuals.ravel(), "o", color=INK, markersize=4, alpha=0.7)
    axis.set(title="Spread against size", xlabel=f"predicted response{of}", ylabel=f"residual{of}")


def _against_normal(axis: "Axes", effects: Effects, of: str) -> None:
    (quantiles, ordered), (slope, start, _) = stats.probplot(effects.residuals.ravel())
    axis.plot(quantiles, start + slope * quantiles, color=FAINT, linewidth=0.8, zorder=0)
    axis.plot(quantiles, ordered, "o", color=INK, markersize=4, alpha=0.7)
    axis.set(title="Normal distribution: points on the line", xlabel="normal quantile", ylabel=f"residual{of}")


def _in_order(axis: "Axes", effects: Effects, of: str, turns: ArrayLike | None) -> None:
    _zero(axis)
    cells, repetitions = effects.residuals.shape
    if turns is not None:
        order = figures("turns", turns)
        if order.shape != effects.residuals.shape:
            raise BadArgument("turns", order.shape, f"must have the shape of the responses, {effects.residuals.shape}")
        # What a drift does to whole repetitions is in their blocks.
        drifted, what = effects.residuals, "residual"
        if effects.blocks is not None:
            drifted, what = effects.residuals + effects.blocks, "residual and repetition"
        axis.plot(order.ravel(), drifted.ravel(), "o", color=INK, markersize=4, alpha=0.7)
        axis.set(title="In the order of the runs: a slope is a drift", xlabel="turn", ylabel=f"{what}{of}")
        return
    for r in range(repetitions):
        axis.plot(range(1, cells + 1), effects.residuals[:, r], "o", color=INK, markersize=4, alpha=0.7)
    axis.set_xticks(range(1, cells + 1) if cells <= 16 else np.linspace(1, cells, 9, dtype=int))
    axis.set(title="Cell by cell", xlabel="cell in standard order", ylabel=f"residual{of}")


def _effects(axis: "Axes", effects: Effects, of: str) -> None:
    named = [name for name in effects.effects if name != "I"]
    ranked = sorted(named, key=lambda name: abs(effects.effects[name]))[-EFFECTS_SHOWN:]
    values = [effects.effects[name] for name in ranked]
    half = effects.intervals[ranked[0]].half_width if effects.intervals else math.nan
    axis.axvline(0, color=FAINT, linewidth=0.8, zorder=0)
    bars = None if math.isnan(half) else np.full(len(values), half)
    axis.errorbar(values, range(len(values)), xerr=bars, fmt="none", color=INK, capsize=3)
    for place, name in enumerate(ranked):
        face = INK if effects.significant.get(name) else "white"
        axis.plot([values[place]], [place], "s", color=INK, markerfacecolor=face, markersize=5)
    axis.set_yticks(range(len(values)), ranked)
    title = "Effects" if len(ranked) == len(named) else f"The {len(ranked)} largest of {len(named)} effects"
    title += "" if math.isnan(half) else f" with {effects.confidence:.0%} intervals"
    axis.set(title=title, xlabel=f"effect{of}")
