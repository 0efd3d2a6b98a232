"""Laws of the waiting line, whose length the tiers look at when a window ends.

That is measured apart from how long requests wait, so each can be held against the other.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from posthaste_lab import laws
from posthaste_lab.checks import FloatArray
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.results import Result
from posthaste_lab.experiments.windows import ALL, WINDOWS, windows_of
from posthaste_lab.files import reading
from posthaste_lab.laws import Verdict
from posthaste_lab.laws.operational import OVER, TOLERANCE
from posthaste_lab.stats import batch_means

LITTLE = "Little's law of the waiting line"
COLUMNS = {"line_requests", "waiting_count", "waiting_mean_us"}
SAMPLES_LEAST = 40  # lengths of the line from which its mean is known with an interval
BY_CHANCE = 0.997  # confidence of that interval: three standard deviations, as for the other laws
STALL = 1.5  # usual lengths from which a window is a stall, in which nobody looked at the line


@dataclass(frozen=True)
class _Line:
    """The line of one tier: its lengths at the ends of windows, their durations, and all time waited in them (s)."""

    lengths: FloatArray
    windows_s: FloatArray
    waited_s: float

    @property
    def is_known(self) -> bool:
        """Whether its mean length is known with an interval."""
        return len(self.lengths) >= SAMPLES_LEAST and self.windows_s.max() <= STALL * np.median(self.windows_s)


def of_waiting_line(result: Result) -> list[Verdict]:
    """Returns the verdicts on the lines of a trial's tiers, taken together; none where a tier does not tell of its."""
    counted = result.counted
    if counted is None:
        return []
    lines = [_line(record, counted) for record in result.records("tier")]
    known = [line for line in lines if line is not None]
    if not known or len(known) < len(lines):
        return []
    return [verdict for verdict in (_little(known), _population(known, result)) if verdict is not None]


def _little(lines: list[_Line]) -> Verdict | None:
    """Compares how many requests were seen waiting with how long requests waited."""
    if not all(line.is_known for line in lines):
        return None
    expected = observed = variance = 0.0
    for line in lines:
        known = batch_means(line.lengths, confidence=BY_CHANCE)
        # A short line may have been empty at every look, which leaves no scatter to tell how well its mean is known.
        half_width = known.half_width + math.log(1 / (1 - BY_CHANCE)) / len(line.lengths)
        expected += line.waited_s / float(line.windows_s.sum())
        observed, variance = observed + known.mean, variance + half_width**2
    if expected + observed == 0:
        return None
    off, chance = abs(observed - expected), math.sqrt(variance)
    return Verdict(
        LITTLE,
        expected,
        observed,
        (observed - expected) / max(observed, expected),
        TOLERANCE,
        off <= TOLERANCE * max(observed, expected) + chance,
        f"{observed:.4g} requests were seen waiting on average, known to {chance:.2g}; rate times waiting time is "
        f"{expected:.4g}",
    )


def _population(lines: list[_Line], result: Result) -> Verdict | None:
    """Compares how many requests were seen waiting with how many there are in a closed loop."""
    population = result.figures.get("population")
    if population is None or result.figures.get("open_loop"):
        return None
    waiting = sum(float(line.lengths.mean()) for line in lines)
    verdict = laws.population(float(population), waiting, OVER)
    said = f"{waiting:.4g} requests were seen waiting on average, of {population} that there are"
    return replace(verdict, difference=max(0.0, verdict.difference), message=said)  # fewer are as it should be


def _line(record: Path, counted: Instants) -> _Line | None:
    with reading(record / WINDOWS):
        rows = [row for middle, row in windows_of(record) if row["kind"] == ALL and middle in counted]
        if not rows or not rows[0].keys() >= COLUMNS:
            return None
        rows = [row for row in rows if row["line_requests"]]
        waited_us = (float(row["waiting_count"] or 0) * float(row["waiting_mean_us"] or 0) for row in rows)
        line = _Line(
            np.array([float(row["line_requests"]) for row in rows]),
            np.array([float(row["length_s"]) for row in rows]),
            math.fsum(waited_us) / 1e6,
        )
    return line if rows else None
