"""Batches, found again in what was recorded of single requests.

Requests that a worker took at the same instant and that were answered at the same instant were one batch. The time
of a batch is taken from when the store could have begun it (the batch before was answered, and a request was there)
to its answer: so the turns between batches and the waking of workers are in it, as they are in the response time.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from posthaste_lab.checks import FloatArray
from posthaste_lab.errors import BadArgument


@dataclass(frozen=True)
class Batches:
    """All batches of a trial, by size: how many of it, and the sums of their times and of the squares, in seconds.

    `visits` is the share of requests that went by the line; `together` the mean number of batches under way while
    there is one.
    """

    sizes: FloatArray
    counts: FloatArray
    times_s: FloatArray
    squares_s2: FloatArray
    visits: float
    together: float


def read_batches(record: Path, measured_unix_s: tuple[float, float]) -> Batches:
    """Batches answered in the measured time. Raises BadArgument when the record does not hold single requests."""
    path = record / "requests.parquet"
    if not path.exists():
        raise BadArgument(
            "DIR", str(record), "holds no requests.parquet: give the tier record-requests = true in the experiment"
        )
    run = json.loads((record / "run.json").read_text("utf-8"))
    if run.get("requests_not_recorded"):
        raise BadArgument(
            "DIR",
            str(record),
            f"lacks {run['requests_not_recorded']} requests, as the disk did not keep up: batches would be too small",
        )
    begin, end = ((at - run["start_unix_ms"] / 1e3) * 1e9 for at in measured_unix_s)
    requests = pl.scan_parquet(path).filter(pl.col("replied_ns").is_between(begin, end))
    # A request answered on the spot has no time in the line: its stamps are empty or the same.
    lined = pl.col("dequeued_ns") > pl.col("enqueued_ns")
    total, in_line = requests.select(pl.len(), lined.sum().alias("lined")).collect().row(0)
    if not in_line:
        raise BadArgument("DIR", str(record), "holds no request that went by the waiting line: nothing to fit")
    return _by_size(_in_order(requests.filter(lined)), in_line / total)


def _in_order(lined: pl.LazyFrame) -> pl.DataFrame:
    """A row for each batch, by the time of its answer."""
    return (
        lined.group_by("dequeued_ns", "answered_ns")
        .agg(size=pl.len(), first_ns=pl.col("enqueued_ns").min())
        .sort("answered_ns")
        .with_columns(before_ns=pl.col("answered_ns").shift(1))
        .drop_nulls("before_ns")
        .with_columns(
            time_s=(pl.col("answered_ns") - pl.max_horizontal("before_ns", "first_ns")) / 1e9,
            alone_s=(pl.col("answered_ns") - pl.max_horizontal("before_ns", "dequeued_ns")) / 1e9,
            service_s=(pl.col("answered_ns") - pl.col("dequeued_ns")) / 1e9,
        )
        .collect()
    )


def _by_size(batches: pl.DataFrame, visits: float) -> Batches:
    table = (
        batches.group_by("size")
        .agg(
            number=pl.len(),
            times=pl.col("time_s").sum(),
            squares=(pl.col("time_s") ** 2).sum(),
        )
        .sort("size")
    )
    alone = float(batches["alone_s"].sum())
    return Batches(
        sizes=table["size"].to_numpy().astype(np.float64),
        counts=table["number"].to_numpy().astype(np.float64),
        times_s=table["times"].to_numpy(),
        squares_s2=table["squares"].to_numpy(),
        visits=visits,
        together=float(batches["service_s"].sum()) / alone if alone > 0 else float("inf"),
    )


def merged(trials: list[Batches]) -> Batches:
    """The batches of several trials as one table; visits weighted by requests in line, `together` by time."""
    sizes = np.unique(np.concatenate([trial.sizes for trial in trials]))
    sums = {name: np.zeros(len(sizes)) for name in ("counts", "times_s", "squares_s2")}
    for trial in trials:
        places = np.searchsorted(sizes, trial.sizes)
        for name, total in sums.items():
            total[places] += getattr(trial, name)
    time = np.array([trial.times_s.sum() for trial in trials])
    return Batches(
        sizes,
        sums["counts"],
        sums["times_s"],
        sums["squares_s2"],
        visits=float(np.mean([trial.visits for trial in trials])),
        together=float(np.average([trial.together for trial in trials], weights=time)),
    )


def line_through(batches: Batches) -> tuple[float, float, float]:
    """Time of a batch as a + b n: a, b in seconds, and the squared coefficient of variation about it.

    Weighted least squares over all batches. What varies is the disk, by a share of the time it takes, so a batch
    weighs one over the square of its expected time; that being known only afterwards, it is done twice over.
    """
    counts, means = batches.counts, batches.times_s / batches.counts
    weights = counts / means.mean() ** 2
    a = b = 0.0
    for _ in range(3):
        a, b = _weighted_line(batches.sizes, means, weights)
        weights = counts / (a + b * batches.sizes) ** 2
    expected = a + b * batches.sizes
    squares = batches.squares_s2 - 2 * expected * batches.times_s + counts * expected**2
    return a, b, max(0.0, float((squares / expected**2).sum() / counts.sum()))  # a difference: rounding may show


def _weighted_line(x: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Intercept and slope, neither below zero: a batch takes no negative time, nor does a request in it."""
    middle, level = np.average(x, weights=weights), np.average(y, weights=weights)
    spread = np.sum(weights * (x - middle) ** 2)
    slope = max(0.0, float(np.sum(weights * (x - middle) * (y - level)) / spread)) if spread > 0 else 0.0
    intercept = float(level - slope * middle)
    if intercept >= 0:
        return intercept, slope
    return 0.0, float(np.sum(weights * x * y) / np.sum(weights * x * x))
