"""Whether trials were steady in their measured time: no drift, and no change from one level to another.

Looked at is what the load leaves free: throughput in a closed loop, response time in an open one. A drift or a change
counts if it is beyond chance and large: by a tenth, with which the mean lies up to 5 % beside what the system did most
of the time, the tolerance of the operational laws.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posthaste_lab.checks import FloatArray
from posthaste_lab.experiments.results import Result
from posthaste_lab.report.records import Trace
from posthaste_lab.stats import ChangePoints, Trend, change_points, trend
from posthaste_lab.stats.steadiness import STEADY_LEAST

CHANGE_LEAST = 0.1  # share by which a drift or a change of level counts
ERROR_SHARE = 0.05  # probability of calling any trial of a steady run a drifting one


@dataclass(frozen=True)
class Steadiness:
    """How steady a trial was. `places_s` are the seconds of its change points, `p_value` that of all trials (Holm)."""

    trial: str
    figure: str
    mean: float
    drift: Trend
    p_value: float
    levels: ChangePoints
    places_s: tuple[float, ...]

    @property
    def drifts(self) -> bool:
        """Whether it rose or fell by a tenth of its mean, beyond chance."""
        return self.p_value < ERROR_SHARE and abs(self.drift.change) > CHANGE_LEAST * abs(self.mean)

    @property
    def changes(self) -> bool:
        """Whether it went from one level to another that differs by a tenth."""
        return self.levels.largest > CHANGE_LEAST

    @property
    def says(self) -> str:
        """What is not steady, in words; empty if nothing is."""
        said = []
        if self.drifts:
            share = self.drift.change / self.mean
            said.append(f"{self.figure} {'rose' if share > 0 else 'fell'} by {abs(share):.0%} while it was measured")
        if self.changes:
            at = ", ".join(f"{place:.3g} s" for place in self.places_s)
            said.append(f"its level changed by up to {self.levels.largest:.0%} (at {at})")
        return ", and ".join(said)


def steadiness(traced: Sequence[tuple[Result, Trace]]) -> list[Steadiness]:
    """Judges the trials that have at least 40 windows in their measured time; others are missing from the result."""
    found = []
    for result, trace in traced:
        figure, values, ends_s = _series(result, trace)
        if len(values) >= STEADY_LEAST:
            found.append((result, figure, values, ends_s, trend(values)))
    adjusted = _holm([drift.p_value for *_, drift in found])
    judged = []
    for (result, figure, values, ends_s, drift), p_value in zip(found, adjusted, strict=True):
        levels = change_points(values)
        places_s = tuple(float(ends_s[place - 1]) for place in levels.places)
        judged.append(Steadiness(result.name, figure, float(values.mean()), drift, p_value, levels, places_s))
    return judged


def _series(result: Result, trace: Trace) -> tuple[str, FloatArray, FloatArray]:
    """Returns the figure's name, its values in pieces of equal length, and the second at which each of them ends."""
    counted = trace.counted
    ends_s = trace.middle_s + trace.length_s / 2
    if result.figures.get("open_loop"):
        known: NDArray[np.bool_] = counted & ~np.isnan(trace.response_mean_s)
        return "mean response time", trace.response_mean_s[known], ends_s[known]
    if not counted.any():
        return "throughput", np.array([]), np.array([])
    values, piece_s = trace.evenly(counted)
    at = np.arange(1, len(values) + 1) * piece_s
    return "throughput", values, np.interp(at, np.cumsum(trace.length_s[counted]), ends_s[counted])


def _holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p values for their number: Holm, Scandinavian Journal of Statistics 6 (1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, most = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = most
    return adjusted
