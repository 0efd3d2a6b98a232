"""Batches, found again in what was recorded of single requests.

Requests that a worker took at the same instant and that were answered at the same instant were one batch. With one
worker the time of a batch is taken from when the store could have begun it (the batch before was answered, and a
request was there) to its answer: so the turns between batches and the waking of the worker are in it, as they are in
the response time. Where the worker waits for others before it takes, it is taken from then: that wait is the model's.
With several, no stamp says which of them took it, and it is taken from the line to its answer.
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
from posthaste_lab.files import read_json, reading, scan_rows
from posthaste_lab.fitting.system import Setting
from posthaste_lab.queueing.batching import EVEN

LEAST_S = 1e-7  # nothing is done in no time
BINS = 16  # of a factor of e, in which times are alike enough to be kept as one
POINTS = 30  # that stand for the law of times
ALIKE = 1.25  # sizes within this factor are taken together, where each size is a point of its own
SAME = 1.01  # sizes nearer to each other than this tell nothing of what a request takes


@dataclass(frozen=True)
class Batches:
    """All batches of a trial, by size, by how many others were under way, and by about how long they took.

    Of each how many, and sums of times and squares (s). `visits` is the share of requests that went by the line;
    `together` the mean number of batches under way while there is one.
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
    """What a batch takes: its own time, that of each request, that of each other batch under way; its spread (SCV).

    `bends` say by how much a batch of so many requests takes longer than that, with straight lines between. `shape` is
    the law behind the spread: multiples of what was expected, about a mean of one, and the share of batches that took
    so long; even batches have none.
    """

    batch_s: float
    request_s: float
    contention_s: float
    scv: float
    bends: tuple[tuple[float, float], ...]
    shape: tuple[tuple[float, float], ...]


def of_single_requests(mean_s: float, others: float) -> Batches:
    """A trial of batches of one request each, of which only the mean time is known; it counts once."""
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
    """Batches answered in the measured time. Raises BadArgument when the record does not hold single requests."""
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
    begin, end = ((at - run["start_unix_ms"] / 1e3) * 1e9 for at in measured_unix_s)
    requests = scan_rows(record / "requests.parquet").filter(pl.col("replied_ns").is_between(begin, end))
    # A request answered on the spot has no time in the line: its stamps are empty or the same.
    lined = pl.col("dequeued_ns") > pl.col("enqueued_ns")
    total, in_line = requests.select(pl.len(), lined.sum().alias("lined")).collect().row(0)
    if not in_line:
        raise BadArgument("DIR", str(record), "holds no request that went by the waiting line: nothing to fit")
    return _summed(_in_order(requests.filter(lined)), in_line / total, setting)


def _in_order(lined: pl.LazyFrame) -> pl.DataFrame:
    """A row for each batch, by the time of its answer."""
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
    """How many other batches were under way when each began: begun by then, less answered by then."""
    begun, answered = batches["dequeued_ns"].to_numpy(), batches["answered_ns"].to_numpy()
    before = np.searchsorted(np.sort(begun), begun, side="right") - np.searchsorted(answered, begun, side="right")
    return pl.Series(np.maximum(before - 1, 0).astype(np.float64))


def merged(trials: list[Batches]) -> Batches:
    """The batches of several trials as one table; visits are a share of all their requests, `together` goes by time."""
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
    """What a batch takes, from the batches of each number of clients.

    With several workers it is a + b n + c o with n requests and o other batches under way, by least squares over all
    batches. With one it is a line too, and how far the means of the groups lie from it (`_bent`). Where workers wait
    for others, how large a batch is has hardly to do with how long the one before it took, so all batches of a size
    are a group; of several workers those that were alone.
    """
    whole = merged(groups)
    if setting.gather_s:
        alone = _those(whole, whole.others == whole.others.min())
        return _bent(whole, *_with_two(_means(_by_size(alone))))
    return _plane(whole) if (setting.workers or 1) > 1 else _bent(whole, *_means(groups))


def _means(groups: list[Batches]) -> tuple[FloatArray, FloatArray]:
    """Sizes and times of a curve through the mean size and mean time of each group, never falling.

    Few requests are of one kind and many of all, a store plans each kind once, and who else wants the processors
    depends on the number of clients too: so it is no straight line. And it is the means that tell, not the single
    batches: what is slow for a while makes its own batch long and the next one large, and would pass for what a large
    batch takes.
    """
    apart = _apart(groups)
    sizes, counts = np.array([_mean_size(each) for each in apart]), np.array([each.counts.sum() for each in apart])
    times = np.array([each.times_s.sum() for each in apart]) / counts
    return sizes, np.maximum(LEAST_S, isotonic_regression(times, weights=counts).x)


def _with_two(curve: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The same with a batch of two, where none was seen.

    A request alone has a shorter way through such a store, so what two take is told by the larger ones: by a line
    through the smallest and the largest of them.
    """
    sizes, times = curve
    if len(sizes) < 3 or sizes[0] > 1 or sizes[1] <= 2:
        return curve
    slope = (times[-1] - times[1]) / (sizes[-1] - sizes[1])
    two = max(float(times[0]), float(times[1] - slope * (sizes[1] - 2)))
    return np.insert(sizes, 1, 2.0), np.insert(times, 1, two)


def _bent(whole: Batches, sizes: FloatArray, curve: FloatArray) -> Cost:
    """A line near the curve, and how far the curve lies from it."""
    columns = [np.ones_like(sizes), sizes][: len(sizes)]
    line, _ = nnls(np.column_stack(columns) / curve[:, None], np.ones_like(curve))
    batch_s = min(float(line[0]), float(curve[0]))  # what all batches take is not more than the shortest
    request_s = float(line[1]) if len(sizes) > 1 else 0.0
    bends = zip(sizes.tolist(), (curve - batch_s - request_s * sizes).tolist(), strict=True)
    expected = np.interp(whole.sizes, sizes, curve)
    contention = _contention(whole, expected)
    scv, shape = _spread(whole, expected + contention * whole.others)
    return Cost(batch_s, request_s, contention, scv, tuple(bends), shape)


def _contention(whole: Batches, expected: FloatArray) -> float:
    """By how much each other batch under way made one longer than expected: least squares of shares, not below zero."""
    weights = whole.counts * whole.others / expected**2
    squares = float(weights @ whole.others)
    return max(0.0, float(weights @ (whole.times_s / whole.counts - expected)) / squares) if squares > 0 else 0.0


def _by_size(whole: Batches) -> list[Batches]:
    """Batches of about a size, whatever the number of clients."""
    places = np.floor(np.log(whole.sizes) / np.log(ALIKE))
    return [_those(whole, places == place) for place in np.unique(places)]


def _those(whole: Batches, chosen: npt.NDArray[np.bool_]) -> Batches:
    columns = ("sizes", "others", "bins", "counts", "times_s", "squares_s2")
    return replace(whole, **{name: getattr(whole, name)[chosen] for name in columns})


def _apart(groups: list[Batches]) -> list[Batches]:
    """By mean size; those whose sizes are the same are one."""
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
    """Weighted least squares over all batches, none of the three figures below zero.

    What varies is the disk, by a share of the time it takes, so a batch weighs one over the square of its expected
    time; that being known only afterwards, it is done three times over.
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
    """Squared coefficient of variation about what was expected, a difference, so rounding may show; and the law of it.

    Of even batches there is none to tell.
    """
    squares = batches.squares_s2 - 2 * expected * batches.times_s + batches.counts * expected**2
    scv = max(0.0, float((squares / expected**2).sum() / batches.counts.sum()))
    return scv, _shape(batches, expected) if scv >= EVEN else ()


def _shape(batches: Batches, expected: FloatArray) -> tuple[tuple[float, float], ...]:
    """The law of how much longer batches took than expected, as some thirty points.

    Rare stalls are no gamma law, and it is the whole law that says who comes meanwhile. Each point is the mean of a
    slice. Slices are as large as each other by the sum of three shares: of batches, of time and of its squares. So
    there are some for the many short batches, and for the few that are long.
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
