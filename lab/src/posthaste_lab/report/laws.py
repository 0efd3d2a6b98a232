"""The operational laws applied to the trials of a run."""

import math
from pathlib import Path

import numpy as np
import polars as pl

from posthaste_lab.checks import FloatArray
from posthaste_lab.experiments.clocks import start_unix_s
from posthaste_lab.experiments.figures import answered_per_s, kept_think_s, response_of_all_s
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.results import Result
from posthaste_lab.files import read_table, reading
from posthaste_lab.laws import Verdict, check
from posthaste_lab.laws.operational import TOLERANCE
from posthaste_lab.stats import batch_means

# The laws' names for a trial's columns.
NAMES = {
    "population": "population",
    "throughput_per_s": "throughput",
    "tier_counted_per_s": "station_throughput",
    "in_flight_mean": "in_flight",
    "interactive_tolerance": "interactive_tolerance",
    "tier_counted_tolerance": "tier_counted_tolerance",
}
LINE = "Little's law of the waiting line"
SAMPLES_LEAST = 40  # lengths of the line from which its mean is known with an interval
BY_CHANCE = 0.997  # confidence of that interval: three standard deviations, as for the other laws
STALL = 1.5  # usual lengths from which a window is a stall, in which nobody looked at the line


def verdicts(result: Result) -> list[Verdict]:
    """Applies the laws to all answers of a trial, errors included: they take time of client and tier as well.

    An open loop has no population, so the laws of closed systems do not apply to it.
    """
    row = {law: result.figures[column] for column, law in NAMES.items() if column in result.figures}
    row["think_time"] = kept_think_s(result.figures)
    response = response_of_all_s(result.figures)
    if response is None and "response_mean_s" in result.figures:
        row.pop("population", None)  # the time of errors is not known, so the law cannot be applied
        response = float(result.figures["response_mean_s"])
    if response is not None:
        row["response_time"] = response
    if result.figures.get("open_loop"):
        row.pop("population", None)
    if "throughput" in row:
        row["throughput"] = answered_per_s(result.figures)
    if "served" in result.figures:
        row["answers"] = float(result.figures["served"]) + float(result.figures.get("errors") or 0)
    if "station_throughput" in row:
        row["visits"] = 1.0  # every request passes the tier once
    of_all = check(row) if {"throughput", "response_time"} <= row.keys() and row["throughput"] > 0 else []
    return [*of_all, *([line] if (line := _of_waiting_line(result)) is not None else [])]


def _of_waiting_line(result: Result) -> Verdict | None:
    """Compares how many requests were seen waiting in the tiers with how long requests waited; None if that is unknown.

    The two are measured apart: the length of the line is looked at when a window ends.
    """
    counted = result.counted
    if counted is None:
        return None
    expected = observed = variance = 0.0
    records = result.records("tier")
    for record in records:
        seen = _line(record, counted)
        if seen is None:
            return None
        lengths, waited = seen
        known = batch_means(lengths, confidence=BY_CHANCE)
        # A short line may have been empty at every look, which leaves no scatter to tell how well its mean is known.
        half_width = known.half_width + math.log(1 / (1 - BY_CHANCE)) / len(lengths)
        expected, observed, variance = expected + waited, observed + known.mean, variance + half_width**2
    if not records or expected + observed == 0:
        return None
    off, chance = abs(observed - expected), math.sqrt(variance)
    return Verdict(
        LINE,
        expected,
        observed,
        (observed - expected) / max(observed, expected),
        TOLERANCE,
        off <= TOLERANCE * max(observed, expected) + chance,
        f"{observed:.4g} requests were seen waiting on average, known to {chance:.2g}; rate times waiting time is "
        f"{expected:.4g}",
    )


def _line(record: Path, counted: Instants) -> tuple[FloatArray, float] | None:
    """Returns the lengths of a tier's line at the ends of its windows, and rate times waiting time; None if unknown."""
    with reading(record / "windows.csv"):
        windows = read_table(record / "windows.csv", infer_schema_length=None).filter(pl.col("kind") == "all")
        if not {"line_requests", "waiting_count", "waiting_mean_us"} <= set(windows.columns):
            return None
        since = start_unix_s(record)
        waited = pl.col("waiting_count").cast(pl.Float64, strict=False) * pl.col("waiting_mean_us").cast(
            pl.Float64, strict=False
        )
        rows = windows.select(
            middle=pl.col("start_s") + pl.col("length_s") / 2 + since,
            length_s=pl.col("length_s").cast(pl.Float64),
            line=pl.col("line_requests").cast(pl.Float64),
            waited_s=waited.fill_null(0.0) / 1e6,
        ).drop_nulls()
    rows = rows.filter(pl.Series([middle in counted for middle in rows["middle"]], dtype=pl.Boolean))
    lengths_s = rows["length_s"].to_numpy()
    if len(rows) < SAMPLES_LEAST or lengths_s.max() > STALL * np.median(lengths_s):
        return None
    return rows["line"].to_numpy(), float(rows["waited_s"].sum()) / float(lengths_s.sum())
