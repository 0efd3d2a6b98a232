"""Sums up the single requests of a record in one pass that keeps none of them in memory.

A minute at full speed is some ten million rows, an hour more than memory holds. So each row is counted, as it is read,
in a cell of kind of request, slice of time and bucket of response time (buckets have equal ratios). There are at most
some hundred thousand cells, however many requests there were. Means are exact; a percentile is at most a bucket's
width, 2.2 %, above the exact one, and never below.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from posthaste_lab.checks import FloatArray
from posthaste_lab.errors import BadArgument
from posthaste_lab.files import read_json, reading, scan_rows
from posthaste_lab.report.records import Spread

TIER = ("received_ns", "enqueued_ns", "dequeued_ns", "sent_ns", "answered_ns", "replied_ns")
TIER_STAGES = ("parse", "waiting", "dispatch", "service", "reply")
CLIENTS = ("due_ns", "begun_ns", "encoded_ns", "arrived_ns", "parsed_ns")
CLIENT_STAGES = ("schedule", "serialization", "network", "deserialization")
PER_DOUBLING = 32  # buckets for each doubling of the response time
SLICES = 120
FILE = "requests.parquet"
RUN = "run.json"


@dataclass(frozen=True)
class Requests:
    """All requests of a record, counted in cells.

    `cells` has columns kind, slice, bucket, number, took_s (a sum), max_s, errors, and the sum of each of `stages`;
    slices are `slice_s` seconds long and begin at the first answer.
    """

    cells: pl.DataFrame
    stages: tuple[str, ...]
    slice_s: float
    seen_by: str

    @property
    def total(self) -> int:
        """Number of requests."""
        return int(self.cells["number"].sum())

    @cached_property
    def kinds(self) -> list[str]:
        """Kinds of request, the most frequent first."""
        counted = (
            self.cells.group_by("kind").agg(pl.col("number").sum()).sort("number", "kind", descending=[True, False])
        )
        return counted["kind"].to_list()

    def spread(self, kind: str | None = None) -> Spread:
        """Returns the distribution of response times, of one kind or of all; values are the upper ends of buckets."""
        rows = self._rows(kind).group_by("bucket").agg(pl.col("number").sum()).sort("bucket")
        values = upper_end_s(rows["bucket"].to_numpy())
        return Spread(
            np.minimum(values, self.longest_s(kind)), rows["number"].to_numpy().astype(np.float64), self.seen_by
        )

    def mean_s(self, kind: str | None = None, stage: str = "took") -> float:
        """Returns the mean response time, or that of one stage, in which requests that did not pass it count as 0."""
        rows = self._rows(kind)
        return float(rows[f"{stage}_s"].sum()) / float(rows["number"].sum())

    def longest_s(self, kind: str | None = None) -> float:
        """Returns the longest response time."""
        return float(self._rows(kind)["max_s"].max() or 0.0)  # type: ignore[arg-type]

    def errors(self, kind: str | None = None) -> int:
        """Returns the number of requests that ended in an error."""
        return int(self._rows(kind)["errors"].sum())

    def heat(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns edges of slices (s), edges of buckets (s), and the number of requests in each slice and bucket."""
        rows = self.cells.group_by("slice", "bucket").agg(pl.col("number").sum())
        low, high = int(rows["bucket"].min()), int(rows["bucket"].max())  # type: ignore[arg-type]
        numbers = np.zeros((SLICES, high - low + 1))
        numbers[rows["slice"].to_numpy(), rows["bucket"].to_numpy() - low] = rows["number"].to_numpy()
        return (
            np.arange(SLICES + 1, dtype=np.float64) * self.slice_s,
            upper_end_s(np.arange(low - 1, high + 1)),
            numbers,
        )

    def _rows(self, kind: str | None) -> pl.DataFrame:
        return self.cells if kind is None else self.cells.filter(pl.col("kind") == kind)


def upper_end_s(buckets: np.ndarray) -> FloatArray:
    """Returns the longest time that falls into a bucket, in seconds."""
    return np.asarray(2.0 ** ((buckets + 1) / PER_DOUBLING) / 1e9, dtype=np.float64)


def read_requests(path: Path, measured_ns: tuple[float, float] | None = None) -> Requests:
    """Sums up `requests.parquet` of a record, or only its requests that ended between two instants.

    `path` is the file, or the record's directory. Raises BadArgument when the file is missing or empty.
    """
    file = path / FILE if path.is_dir() else path
    if not file.exists():
        raise BadArgument("RECORD", str(path), f"holds no {FILE}: records have it with --record-requests")
    with reading(file, "RECORD"):
        return _summed_up(scan_rows(file), file, measured_ns)


def measured_ns(path: Path) -> tuple[float, float] | None:
    """Returns the instants between which a load generator measured, as `run.json` has them; None for other records.

    `path` is the record's directory, or a file in it.
    """
    file = (path if path.is_dir() else path.parent) / RUN
    if not file.exists():
        return None
    run = read_json(file, "RECORD")
    with reading(file, "RECORD"):
        if (measured := run.get("measured")) is None:
            return None
        return float(measured["start_s"]) * 1e9, float(measured["end_s"]) * 1e9  # as the stamps, since the start


def _summed_up(rows: pl.LazyFrame, file: Path, measured_ns: tuple[float, float] | None) -> Requests:
    is_tier = TIER[0] in rows.collect_schema().names()
    stamps, stages, seen_by = (
        (TIER, TIER_STAGES, "the middle tier") if is_tier else (CLIENTS, CLIENT_STAGES, "the clients")
    )
    begin, end = measured_ns or _first_and_last(rows, stamps[-1], file)
    rows = rows.filter(pl.col(stamps[-1]).is_between(begin, end))
    width = max(1.0, (end - begin) / SLICES)
    cells = _in_cells(rows, stamps, stages, begin, width).collect(engine="streaming")
    if cells.is_empty():
        raise BadArgument("RECORD", str(file), "holds no request that ended in the time asked for")
    return Requests(cells, stages, width / 1e9, seen_by)


def _first_and_last(rows: pl.LazyFrame, last_stamp: str, file: Path) -> tuple[float, float]:
    ended = pl.col(last_stamp)
    begin, end = rows.select(ended.min().alias("begin"), ended.max().alias("end")).collect(engine="streaming").row(0)
    if begin is None:
        raise BadArgument("RECORD", str(file), "holds no request")
    return float(begin), float(end)


def _in_cells(
    rows: pl.LazyFrame, stamps: tuple[str, ...], stages: tuple[str, ...], begin: float, width: float
) -> pl.LazyFrame:
    """Returns the query of the one pass. A stage without a stamp was not passed; its time falls into the next one."""
    filled, at = [pl.col(stamps[0])], pl.col(stamps[0])
    for stamp in stamps[1:]:
        at = pl.coalesce(pl.col(stamp), at)
        filled.append(at)
    took = pl.col(stamps[-1]) - pl.col(stamps[0])
    spans = {f"{name}_s": (after - before) for name, before, after in zip(stages, filled, filled[1:], strict=False)}
    sliced = ((pl.col(stamps[-1]) - begin) / width).floor().clip(0, SLICES - 1).cast(pl.Int32)
    bucket = (pl.max_horizontal(took, pl.lit(1)).cast(pl.Float64).log(2) * PER_DOUBLING).ceil().cast(pl.Int32) - 1
    return (
        rows.select(
            "kind",
            slice=sliced,
            bucket=bucket,
            took_s=took,
            errors=(pl.col("ending") == "error").cast(pl.Int64),
            **spans,
        )
        .group_by("kind", "slice", "bucket")
        .agg(
            pl.len().cast(pl.Int64).alias("number"),
            (pl.col("took_s").max() / 1e9).alias("max_s"),
            pl.col("errors").sum(),
            *((pl.col(name).sum() / 1e9) for name in ("took_s", *spans)),
        )
    )
