"""Reads what the programs of a trial recorded: windows over time, events, histograms."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from numpy.typing import NDArray

from posthaste_lab.checks import FloatArray
from posthaste_lab.experiments.clocks import correction_s, start_unix_s
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.results import Result
from posthaste_lab.experiments.windows import ALL, WINDOWS
from posthaste_lab.files import read_table, reading
from posthaste_lab.report.cells import are_few

# Events of a load generator about its own phases, which are not shown: the shading of the chart shows them already.
PHASES = ("warm-up", "measured", "cool-down")
# Parts that measure response times, the preferred one first.
ROLES = {"load": "the clients", "tier": "the middle tier"}
PIECES_MAX = 1_000_000  # pieces of a trace: in seconds more than a week, which no trial takes
NANOSECONDS_MAX = 3_600_000_000_000  # an hour: range of the histogram to merge into; a decoded one has its own range


@dataclass(frozen=True)
class Trace:
    """A trial over time, in seconds from the beginning of the measured time; a point for each window.

    Throughput is defined as in the figures: answered requests without errors.
    """

    middle_s: FloatArray
    throughput_per_s: FloatArray
    response_mean_s: FloatArray
    measured_s: float
    seen_by: str
    length_s: FloatArray
    omitted_s: tuple[tuple[float, float], ...] = ()

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Mask of the windows that lie in the measured time and are not omitted."""
        counted = Instants((0.0, self.measured_s), self.omitted_s)
        return np.array([float(middle) in counted for middle in self.middle_s], dtype=bool)

    def evenly(self, chosen: NDArray[np.bool_]) -> tuple[FloatArray, float]:
        """Returns the throughput of the chosen windows, joined and cut into pieces of equal length, and that length.

        The length is about that of most windows. A program that stood still closed one long window, which has the
        weight of all the windows that it should have closed.
        """
        lengths, throughput = self.length_s[chosen], self.throughput_per_s[chosen]
        ends = np.concatenate([[0.0], np.cumsum(lengths)])
        usual, all_s = float(np.median(lengths)), float(ends[-1])
        if not (usual > 0 and np.isfinite(all_s)):
            return throughput, usual
        pieces = min(round(all_s / usual), PIECES_MAX)
        instants = np.linspace(0.0, all_s, pieces + 1)
        served = np.interp(instants, ends, np.concatenate([[0.0], np.cumsum(throughput * lengths)]))
        piece_s = all_s / pieces
        return np.diff(served) / piece_s, piece_s


@dataclass(frozen=True)
class Happening:
    """An event during a trial; its start counts from the beginning of the measured time."""

    start_s: float
    duration_s: float
    source: str
    kind: str


@dataclass(frozen=True)
class Spread:
    """A distribution of times: ascending values in seconds, with the number of requests of each."""

    values_s: FloatArray
    counts: FloatArray
    seen_by: str

    @classmethod
    def of(cls, times_s: Iterable[float], seen_by: str = "") -> "Spread":
        """Returns the distribution of single times."""
        values, counts = np.unique(np.fromiter(times_s, dtype=np.float64), return_counts=True)
        return cls(values, counts.astype(np.float64), seen_by)

    @classmethod
    def together(cls, spreads: Sequence["Spread"]) -> "Spread":
        """Merges several distributions to one; `seen_by` is that of the first."""
        values, places = np.unique(np.concatenate([each.values_s for each in spreads]), return_inverse=True)
        counts = np.bincount(places, weights=np.concatenate([each.counts for each in spreads]))
        return cls(values, counts.astype(np.float64), spreads[0].seen_by)

    @property
    def total(self) -> float:
        """The number of requests."""
        return float(self.counts.sum())

    def percentile(self, share: float) -> float:
        """Returns the value at or below which `share` of the requests lie."""
        place = int(np.searchsorted(np.cumsum(self.counts), share * self.total))
        return float(self.values_s[min(place, len(self.values_s) - 1)])

    def share_within(self, limit_s: float) -> float:
        """Returns the share of the requests that took at most this time.

        Of a recorded histogram each request counts with the upper end of its bucket, up to 0.8 % above its time.
        """
        return float(self.counts[: int(np.searchsorted(self.values_s, limit_s, side="right"))].sum()) / self.total

    def percentile_is_known(self, share: float) -> bool:
        """Returns whether at least ten requests lie beyond the percentile; otherwise single requests decide it."""
        return not are_few(self.total * (1 - share))


def viewpoint(result: Result) -> tuple[list[Path], str] | None:
    """Returns the records to use, those of all loads, else of all tiers, and the name of that role."""
    for role, name in ROLES.items():
        records = result.records(role)
        if records:
            return records, name
    return None


def trace(result: Result, head_s: float, tail_s: float) -> Trace | None:
    """Returns the trial over time, as long as it was under load; None when no program recorded windows.

    With several records the windows of the first one are the points. Windows of other records begin and end at other
    times, so their contents are assumed to be spread evenly over each of them.
    """
    view = viewpoint(result)
    if view is None or result.measured_unix_s is None:
        return None
    records, seen_by = view
    begin, end = result.measured_unix_s
    windows = [_windows(record, begin) for record in records]
    middle_s = (pl.col("begin_s") + pl.col("end_s")) / 2
    first = windows[0].filter(middle_s.is_between(-head_s, end - begin + tail_s))
    if first.is_empty():
        return None
    begins, ends = first["begin_s"].to_numpy(), first["end_s"].to_numpy()
    served, requests, took = (
        sum((_between(each, name, begins, ends) for each in windows), np.zeros(len(first)))
        for name in ("served", "requests", "took_s")
    )
    return Trace(
        (begins + ends) / 2,
        served / (ends - begins),
        np.divide(took, requests, out=np.full(len(first), np.nan), where=requests > 0),
        end - begin,
        seen_by,
        ends - begins,
        tuple(omission.span for omission in result.omissions if omission.span is not None),
    )


def _windows(record: Path, zero_unix_s: float) -> pl.DataFrame:
    """Returns a record's windows in order: begin, end, requests served, all requests, and the sum of their times."""
    since = start_unix_s(record) - zero_unix_s
    with reading(record / WINDOWS):
        rows = read_table(record / WINDOWS, infer_schema_length=None).filter(pl.col("kind") == ALL)
        requests = pl.col("requests").cast(pl.Float64)
        return rows.select(
            begin_s=pl.col("start_s") + since,
            end_s=pl.col("start_s") + pl.col("length_s") + since,
            served=requests - pl.col("errors").cast(pl.Float64),
            requests=requests,
            took_s=pl.col("response_mean_us").cast(pl.Float64, strict=False).fill_null(0.0) * requests / 1e6,
        ).sort("begin_s")


def _between(windows: pl.DataFrame, name: str, begins: FloatArray, ends: FloatArray) -> FloatArray:
    """Returns the part of a column of windows that falls between each begin and end."""
    if windows.is_empty():
        return np.zeros(len(begins))
    # One window ends where the next begins, but for the last digit printed.
    instants = np.maximum.accumulate(windows.select("begin_s", "end_s").to_numpy().ravel())
    until = np.cumsum(windows[name].to_numpy())
    sums = np.column_stack([np.concatenate([[0.0], until[:-1]]), until]).ravel()
    return np.asarray(np.interp(ends, instants, sums) - np.interp(begins, instants, sums))


def events(result: Result) -> list[Happening]:
    """Returns the events that overlap the measured time; none if a file of the trial is lost."""
    path = result.directory / "events.csv"
    if result.losses or not path.exists() or result.measured_unix_s is None:
        return []
    end_s = result.measured_unix_s[1] - result.measured_unix_s[0]
    with reading(path), path.open(newline="") as lines:
        found = [
            Happening(float(row["start_s"]), float(row["duration_ms"]) / 1e3, row["source"], row["kind"])
            for row in csv.DictReader(lines)
            if row["kind"] not in PHASES
        ]
    return [event for event in found if event.start_s <= end_s and event.start_s + event.duration_s >= 0]


def response_times(results: tuple[Result, ...], role: str | None = None) -> Spread | None:
    """Returns the response times of all requests in the measured time of these trials, merged without loss.

    They are those measured by the clients, else by the middle tier; or by `role`, one of `ROLES`. None without a
    record.
    """
    kinds = list(response_times_by_kind(results, role).values())
    return Spread.together(kinds) if kinds else None


def response_times_by_kind(results: tuple[Result, ...], role: str | None = None) -> dict[str, Spread]:
    """Returns response times as `response_times` does, but apart for each kind of request (GET, SET, …)."""
    merged: dict[str, HdrHistogram] = {}
    seen_by = ""
    for result in results:
        view = viewpoint(result) if role is None else (result.records(role), ROLES[role])
        if view is None or (counted := result.counted) is None:
            continue
        seen_by = view[1]
        for record in view[0]:
            for kind, histogram in _histograms(record, counted):
                merged.setdefault(kind, HdrHistogram(1, NANOSECONDS_MAX, 2)).add(histogram)
    return {
        kind: _spread(histogram, seen_by) for kind, histogram in sorted(merged.items()) if histogram.get_total_count()
    }


def _spread(histogram: HdrHistogram, seen_by: str) -> Spread:
    steps = [(item.value_iterated_to, item.count_at_value_iterated_to) for item in histogram.get_recorded_iterator()]
    values, counts = np.array(steps, dtype=np.float64).T
    return Spread(values / 1e9, counts, seen_by)


def _histograms(record: Path, counted: Instants) -> Iterator[tuple[str, HdrHistogram]]:
    """Yields the histograms of response times with their kind of request, of windows whose middle is in `counted`.

    They are read one at a time, since the windows of an hour would take too much memory at once.
    """
    path, later_s = record / "latency.hlog", correction_s(record)
    with reading(path):
        reader = HistogramLogReader(str(path), HdrHistogram(1, NANOSECONDS_MAX, 2))
        try:
            while (histogram := reader.get_next_interval_histogram()) is not None:
                middle = (histogram.get_start_time_stamp() + histogram.get_end_time_stamp()) / 2e3 + later_s
                kind, _, stage = histogram.get_tag().partition("/")
                if kind != ALL and stage == "response" and middle in counted:
                    yield kind, histogram
        finally:
            reader.close()
