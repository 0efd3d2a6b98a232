"""Reconstructs batches from the recorded time stamps of single requests.

Requests that were taken from the line at the same instant and answered at the same instant were one batch. The time of
a batch ends with its answer. It begins:

- With one worker, when the store could have begun it (the batch before was answered, and a request was waiting). So it
  includes the turns between batches and the wake-up of the worker, as the response time does.
- With one worker that waits for more requests before it takes a batch, at the earliest when the batch was taken: the
  model accounts for that wait itself.
- With several workers, when the batch was taken from the line, as no stamp says which worker took it.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.optimize import isotonic_regression, nnls

from posthaste_lab.checks import FloatArray
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.clocks import start_unix_s
from posthaste_lab.files import read_json, reading, scan_rows
from posthaste_lab.fitting.system import Setting
from posthaste_lab.queueing.batching import EVEN, batch_times

LEAST_S = 1e-7  # lower limit of times: nothing takes no time
BINS = 16  # bins for each factor of e, in which times are summed up
POINTS = 30  # points that represent the distribution of times
SAME = 1.01  # mean sizes within this factor are one group: too near to tell what a request takes


@dataclass(frozen=True)
class Batches:
    """All batches of a trial as a table: a row for each size, number of other batches under way, and bin of times.

    A row holds the number of its batches and the sums of their times (s) and of the squares (s²). `visits` is the share
    of requests that went through the line; `together` the mean number of batches under way while there is any.
    """

    sizes: FloatArray
    others: FloatArray
    bins: FloatArray
    counts: FloatArray
    times_s: FloatArray
    squares_s2: FloatArray
    visits: float
    together: float

    @property
    def size_max(self) -> int:
        """Requests in the largest batch."""
        return int(self.sizes.max())


@dataclass(frozen=True)
class Cost:
    """The time of a batch: a fixed part, one for each request, and one for each other batch under way; its scv.

    `bends` correct it by the number of requests: pairs of a number and the seconds to add, interpolated linearly.
    `shape` is the distribution behind the scv: multiples of the expected time, with a mean of one, and the share of
    batches that took so long; it is empty where times hardly vary.
    """

    batch_s: float
    request_s: float
    contention_s: float
    scv: float
    bends: tuple[tuple[float, float], ...]
    shape: tuple[tuple[float, float], ...]


def of_single_requests(mean_s: float, others: float) -> Batches:
    """Returns the table of a trial with one request in each batch, of which only the mean time is known: one row."""
    return Batches(
        np.array([1.0]),
        np.array([others]),
        np.array([0.0]),
        np.array([1.0]),
        np.array([mean_s]),
        np.array([mean_s**2]),
        visits=1.0,
        together=1.0 + others,
    )


def read_batches(record: Path, measured_unix_s: tuple[float, float], setting: Setting) -> Batches:
    """Reads the batches answered in the measured time. Raises BadArgument for a record without single requests."""
    path = record / "requests.parquet"
    if not path.exists():
        raise BadArgument(
            "DIR", str(record), "holds no requests.parquet: give the tier record-requests = true in the experiment"
        )
    run = read_json(record / "run.json")
    with reading(record):
        return _batches(record, run, measured_unix_s, setting)


def _batches(record: Path, run: dict[str, Any], measured_unix_s: tuple[float, float], setting: Setting) -> Batches:
    if run.get("requests_not_recorded"):
        raise BadArgument(
            "DIR",
            str(record),
            f"lacks {run['requests_not_recorded']} requests, as the disk did not keep up: batches would be too small",
        )
    start_s = start_unix_s(record)
    begin, end = ((instant - start_s) * 1e9 for instant in measured_unix_s)
    requests = scan_rows(record / "requests.parquet").filter(pl.col("replied_ns").is_between(begin, end))
    # A request that was answered at once was never in the line: its stamps are empty or the same.
    lined = pl.col("dequeued_ns") > pl.col("enqueued_ns")
    total, in_line = requests.select(pl.len(), lined.sum().alias("lined")).collect().row(0)
    if not in_line:
        raise BadArgument("DIR", str(record), "holds no request that went by the waiting line: nothing to fit")
    return _summed(_in_order(requests.filter(lined)), in_line / total, setting)


def _in_order(lined: pl.LazyFrame) -> pl.DataFrame:
    """Returns a row for each batch, in the order of answers; the first is left out, as none before it is known."""
    return (
        lined.group_by("dequeued_ns", "answered_ns")
        .agg(size=pl.len(), first_ns=pl.col("enqueued_ns").min())
        .sort("answered_ns")
        .with_columns(before_ns=pl.col("answered_ns").shift(1))
        .drop_nulls("before_ns")
        .with_columns(
            since_free_s=(pl.col("answered_ns") - pl.max_horizontal("before_ns", "first_ns")) / 1e9,
            alone_s=(pl.col("answered_ns") - pl.max_horizontal("before_ns", "dequeued_ns")) / 1e9,
            service_s=(pl.col("answered_ns") - pl.col("dequeued_ns")) / 1e9,
        )
        .collect()
    )


def _summed(batches: pl.DataFrame, visits: float, setting: Setting) -> Batches:
    alone, service = float(batches["alone_s"].sum()), float(batches["service_s"].sum())
    if (setting.workers or 1) == 1:
        time_s = "alone_s" if setting.gather_s else "since_free_s"
        batches = batches.with_columns(time_s=time_s, others=pl.lit(0.0))
    else:
        batches = batches.with_columns(time_s="service_s", others=_others_under_way(batches))
    table = (
        batches.with_columns(bin=(pl.col("time_s").clip(LEAST_S).log() * BINS).floor())
        .group_by("size", "others", "bin")
        .agg(
            number=pl.len(),
            times=pl.col("time_s").sum(),
            squares=(pl.col("time_s") ** 2).sum(),
        )
        .sort("size", "others", "bin")
    )
    return Batches(
        sizes=table["size"].to_numpy().astype(np.float64),
        others=table["others"].to_numpy().astype(np.float64),
        bins=table["bin"].to_numpy(),
        counts=table["number"].to_numpy().astype(np.float64),
        times_s=table["times"].to_numpy(),
        squares_s2=table["squares"].to_numpy(),
        visits=visits,
        together=service / alone if alone > 0 else float("inf"),
    )


def _others_under_way(batches: pl.DataFrame) -> pl.Series:
    """Returns for each batch how many others were under way when it began: begun by then, less answered by then."""
    begun, answered = batches["dequeued_ns"].to_numpy(), batches["answered_ns"].to_numpy()
    before = np.searchsorted(np.sort(begun), begun, side="right") - np.searchsorted(answered, begun, side="right")
    return pl.Series(np.maximum(before - 1, 0).astype(np.float64))


def merged(trials: list[Batches]) -> Batches:
    """Returns the batches of several trials as one table; `visits` is of all requests, `together` weighted by time."""
    keys = ("sizes", "others", "bins")
    columns = (*keys, "counts", "times_s", "squares_s2")
    time = np.array([trial.times_s.sum() for trial in trials])
    in_line = np.array([trial.sizes @ trial.counts for trial in trials])
    requests = in_line / np.array([trial.visits for trial in trials])
    table = (
        pl.DataFrame({name: np.concatenate([getattr(trial, name) for trial in trials]) for name in columns})
        .group_by(*keys)
        .sum()
        .sort(*keys)
    )
    return Batches(
        **{name: table[name].to_numpy() for name in columns},
        visits=float(in_line.sum() / requests.sum()),
        together=float(np.average([trial.together for trial in trials], weights=time)),
    )


def cost_of(groups: list[Batches], setting: Setting) -> Cost:
    """Fits the time of a batch to groups of batches, one for each number of clients.

    With several workers the time is a + b n + c o with n requests and o other batches under way, by least squares over
    all batches. With one worker it is a line a + b n, corrected by the distances of the groups' means (`_bent`), and
    so with several that wait for more requests: the means are then of batches with the fewest others under way.
    """
    whole = merged(groups)
    if setting.gather_s:
        fewest = whole.others.min()
        alone = [_those(group, group.others == fewest) for group in groups if fewest in group.others]
        return _bent(whole, *_with_two(_means(alone)))
    return _plane(whole) if (setting.workers or 1) > 1 else _bent(whole, *_means(groups))


def _means(groups: list[Batches]) -> tuple[FloatArray, FloatArray]:
    """Returns sizes and times of a curve through the mean size and mean time of each group, never falling.

    It is no straight line: small batches hold one kind of request and large ones all kinds, the store plans each kind
    once, and the load on the processors depends on the number of clients too. Means are used instead of single batches
    because a slow moment makes its own batch long and the next one large, which looks like the cost of large batches.
    """
    apart = _apart(groups)
    sizes, counts = np.array([_mean_size(each) for each in apart]), np.array([each.counts.sum() for each in apart])
    times = np.array([each.times_s.sum() for each in apart]) / counts
    return sizes, np.maximum(LEAST_S, isotonic_regression(times, weights=counts).x)


def _with_two(curve: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Returns the curve with a point for batches of two, if there is none.

    A single request takes a shorter way through such a store, so the time of two is extrapolated from larger batches:
    by a line through the smallest and the largest of them.
    """
    sizes, times = curve
    if len(sizes) < 3 or sizes[0] > 1 or sizes[1] <= 2:
        return curve
    slope = (times[-1] - times[1]) / (sizes[-1] - sizes[1])
    two = max(float(times[0]), float(times[1] - slope * (sizes[1] - 2)))
    return np.insert(sizes, 1, 2.0), np.insert(times, 1, two)


def _bent(whole: Batches, sizes: FloatArray, curve: FloatArray) -> Cost:
    """Returns the cost as a line near the curve, with the curve's distances from it as `bends`."""
    columns = [np.ones_like(sizes), sizes][: len(sizes)]
    line, _ = nnls(np.column_stack(columns) / curve[:, None], np.ones_like(curve))
    request_s = float(line[1]) if len(sizes) > 1 else 0.0
    sizes, curve = _from_one(sizes, curve, request_s)
    shortest_s = float(curve[0]) - request_s * (float(sizes[0]) - 1)
    batch_s = min(float(line[0]), shortest_s)  # no batch takes less than the fixed part
    bends = tuple(zip(sizes.tolist(), (curve - batch_s - request_s * sizes).tolist(), strict=True))
    expected = batch_times(whole.sizes, batch_s, request_s, bends)
    contention = _contention(whole, expected)
    scv, shape = _spread(whole, expected + contention * whole.others)
    return Cost(batch_s, request_s, contention, scv, bends, shape)


def _from_one(sizes: FloatArray, curve: FloatArray, request_s: float) -> tuple[FloatArray, FloatArray]:
    """Returns the curve with a point for batches of one where `request_s` for each request less would leave no time.

    Between one and the smallest mean size the time is then proportional to the size. It cannot fall faster: the fixed
    part would be below zero.
    """
    least = float(curve[0] / sizes[0])
    if sizes[0] == 1 or curve[0] - request_s * (sizes[0] - 1) >= least:
        return sizes, curve
    return np.insert(sizes, 0, 1.0), np.insert(curve, 0, least)


def _contention(whole: Batches, expected: FloatArray) -> float:
    """Returns the seconds added by each other batch under way: least squares of relative differences, at least 0."""
    weights = whole.counts * whole.others / expected**2
    squares = float(weights @ whole.others)
    return max(0.0, float(weights @ (whole.times_s / whole.counts - expected)) / squares) if squares > 0 else 0.0


def _those(whole: Batches, chosen: npt.NDArray[np.bool_]) -> Batches:
    columns = ("sizes", "others", "bins", "counts", "times_s", "squares_s2")
    return replace(whole, **{name: getattr(whole, name)[chosen] for name in columns})


def _apart(groups: list[Batches]) -> list[Batches]:
    """Returns the groups in the order of their mean sizes; groups of nearly the same one (see SAME) are merged."""
    found: list[Batches] = []
    for each in sorted(groups, key=_mean_size):
        if found and _mean_size(each) <= SAME * _mean_size(found[-1]):
            found[-1] = merged([found[-1], each])
        else:
            found.append(each)
    return found


def _mean_size(batches: Batches) -> float:
    return float(batches.sizes @ batches.counts / batches.counts.sum())


def _plane(batches: Batches) -> Cost:
    """Fits a + b n + c o by weighted least squares over all batches, none of the three figures below zero.

    The disk's time varies in proportion to itself, so a batch has the weight one over the square of its expected time.
    The expected time is known only after the fit, so the fit is repeated three times.
    """
    counts, means = batches.counts, batches.times_s / batches.counts
    columns = [np.ones_like(means), batches.sizes, batches.others]
    told = [place for place, column in enumerate(columns) if place == 0 or np.ptp(column) > 0]
    matrix = np.column_stack([columns[place] for place in told])
    expected = np.full_like(means, means.mean())
    found = np.zeros(len(told))
    for _ in range(3):
        weights = np.sqrt(counts) / expected
        found, _ = nnls(matrix * weights[:, None], means * weights)
        expected = np.maximum(matrix @ found, LEAST_S)
    whole = np.zeros(len(columns))
    whole[told] = found
    scv, shape = _spread(batches, expected)
    return Cost(float(whole[0]), float(whole[1]), float(whole[2]), scv, (), shape)


def _spread(batches: Batches, expected: FloatArray) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Returns the squared coefficient of variation about the expected times, and the distribution of their ratios.

    The first is a difference, so rounding may make it negative: it is cut at 0. Below EVEN the second is empty.
    """
    squares = batches.squares_s2 - 2 * expected * batches.times_s + batches.counts * expected**2
    scv = max(0.0, float((squares / expected**2).sum() / batches.counts.sum()))
    return scv, _shape(batches, expected) if scv >= EVEN else ()


def _shape(batches: Batches, expected: FloatArray) -> tuple[tuple[float, float], ...]:
    """Returns the distribution of batch times over their expected ones, as up to thirty points.

    Rare stalls do not follow a gamma distribution, and arrivals during a batch depend on the whole distribution. Each
    point is the mean of a slice. Slices are equal in the mean of three shares: of batches, of time and of squared time.
    So some represent the many short batches, and some the few long ones.
    """
    ratios = batches.times_s / batches.counts / expected
    order = np.argsort(ratios, kind="stable")
    ratios, counts = ratios[order], batches.counts[order]
    measures = [np.cumsum(counts * ratios**power) / float(counts @ ratios**power) for power in range(3)]
    slices = np.minimum((np.mean(measures, axis=0) * POINTS).astype(int), POINTS - 1)
    shares = np.bincount(slices, weights=counts, minlength=POINTS)
    sums = np.bincount(slices, weights=counts * ratios, minlength=POINTS)
    mean, there = float(sums.sum() / shares.sum()), shares > 0
    points = sums[there] / shares[there] / mean
    return tuple(zip(points.tolist(), (shares[there] / shares.sum()).tolist(), strict=True))
