"""Series of figures in the order of measurement: neighbors are correlated, and the beginning is a warm-up.

An interval that takes a run's seconds as independent is too narrow, by 4.4 times where neighbors correlate by 0.9.
Means of batches that are long enough to be uncorrelated repair that.
"""

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl
from scipy import stats

from posthaste_lab.checks import FloatArray, count, fraction, non_negative, samples
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.rounding import squares_without_rounding, without_rounding

LAG_SMALL = 0.1  # lag-1 correlation of batch means with which the interval is at most a tenth too narrow
BATCHES_LEAST = 16
MSER_BATCH = 5
MSER_LEAST = 100  # samples: of 24 that vary only by chance, the best cut is the last possible one in four of ten cases
ROUNDING = 1e-12  # share of a sum of squares that counts as rounding: some thousand times a float's precision

Frame = TypeVar("Frame")  # a frame or series of polars or pandas, an array, a list


@dataclass(frozen=True)
class BatchMeans:
    """The mean of a correlated series, its interval, and the batches behind it. Unpacks to (low, high).

    `lag1` is the correlation of neighboring batches; `effective_n` the number of independent samples with the same
    information as the series. `settled` says that this correlation is at most 0.1; otherwise the interval may be too
    narrow. `correlated` says that it is beyond chance: then it is too narrow, and the run too short.
    """

    mean: float
    low: float
    high: float
    batches: int
    batch_size: int
    lag1: float
    effective_n: float
    settled: bool
    correlated: bool
    confidence: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as written after +-."""
        return (self.high - self.low) / 2

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


def batch_means(series: Iterable[float], batches: int | None = None, confidence: float = 0.95) -> BatchMeans:
    """Returns the interval of the mean of one long run, from means of consecutive batches.

    Without `batches`, the batch size is doubled until the lag-1 correlation of batch means falls to 0.1, while at least
    16 batches are left. Samples that fill no batch are dropped at the beginning, where the run is least steady.
    Jain (1991), section 25.5.2; Law, Simulation Modeling and Analysis, chapter 9.
    """
    values = samples("series", series, least=4)
    level = fraction("confidence", confidence)
    if batches is not None:
        batches = count("batches", batches, least=2)
        if batches > len(values):
            raise BadArgument("batches", batches, f"must not exceed the {len(values)} samples")
        size = len(values) // batches
    else:
        size = 1
        while _lag1(_batched(values, size)) > LAG_SMALL and len(values) // (2 * size) >= BATCHES_LEAST:
            size *= 2
    means = _batched(values, size) if batches is None else _batched(values, size)[-batches:]
    lag1 = _lag1(means)
    mean, spread = float(means.mean()), without_rounding(float(means.std(ddof=1)), means) / math.sqrt(len(means))
    half = float(stats.t.ppf((1 + level) / 2, len(means) - 1)) * spread
    variance = float(values.var(ddof=1))
    return BatchMeans(
        mean=mean,
        low=mean - half,
        high=mean + half,
        batches=len(means),
        batch_size=size,
        lag1=lag1,
        effective_n=min(float(len(values)), variance / spread**2) if spread > 0 else float(len(values)),
        settled=lag1 <= LAG_SMALL,
        correlated=lag1 > max(LAG_SMALL, 1.645 / math.sqrt(len(means))),
        confidence=level,
    )


def _batched(values: FloatArray, size: int) -> FloatArray:
    whole = len(values) // size
    return np.asarray(values[len(values) - whole * size :].reshape(whole, size).mean(axis=1))


def _lag1(values: FloatArray) -> float:
    centered = values - values.mean()
    squares = squares_without_rounding(float(centered @ centered), values)
    return float(centered[:-1] @ centered[1:]) / squares if squares > 0 else 0.0


class WarmUp(int):
    """The number of samples to drop at the beginning: an index, which also knows how reliable it is.

    `enough` is false for fewer than 100 samples, whose best cut is chance. `too_short` means that there are enough,
    and the best cut lies at its limit of half the run, so the run never settled. `note` says either in words.
    """

    enough: bool
    too_short: bool
    note: str
    _spreads: FloatArray

    def __new__(cls, cut: int, *, samples: int, spreads: FloatArray) -> "WarmUp":
        """Makes a cut with its verdict; `spreads` are the statistics of MSER-5 for each cut up to half the run."""
        self = super().__new__(cls, cut)
        limit = (len(spreads) - 1) * MSER_BATCH
        self.enough = samples >= MSER_LEAST
        self.too_short = self.enough and cut == limit
        self.note = ""
        if not self.enough:
            self.note = f"too few samples to tell: {samples} of the {MSER_LEAST} that MSER-5 takes"
        elif self.too_short:
            self.note = f"the run did not settle within its first half ({limit} samples): measure longer"
        self._spreads = spreads
        return self

    def narrower_than(self, cut: int) -> float:
        """Returns the share by which the interval of the rest is narrower than if `cut` samples were dropped.

        `cut` is rounded up to a multiple of five. Returns 0 for one beyond half the run, about which nothing is known.
        """
        place = math.ceil(cut / MSER_BATCH)
        if place >= len(self._spreads) or self._spreads[place] <= 0:
            return 0.0
        return 1 - math.sqrt(float(self._spreads[self // MSER_BATCH] / self._spreads[place]))


def mser5(series: Iterable[float]) -> WarmUp:
    """Returns the end of the warm-up by MSER-5: the cut that makes the interval of the rest narrowest.

    Over means of five, the cut d minimizes the sum of squares of the rest over (n-d)^2, for d up to half of the run.
    White, Simulation 69 (1997); White, Cobb and Spratt, Winter Simulation Conference 2000. The result is the number of
    samples to drop: keep series[mser5(series):]. It needs 20 samples, and 100 to be more than chance
    (`WarmUp.enough`).
    """
    values = samples("series", series, least=4 * MSER_BATCH)
    means = values[: len(values) // MSER_BATCH * MSER_BATCH].reshape(-1, MSER_BATCH).mean(axis=1)
    left = np.arange(len(means), 0, -1)
    shifted = means - means.mean()  # against cancellation in the sums of squares
    sums, squares = np.cumsum(shifted[::-1])[::-1], np.cumsum(shifted[::-1] ** 2)[::-1]
    deviations = squares - sums**2 / left
    # In a constant series rounding must not choose between cuts.
    deviations[deviations <= ROUNDING * squares] = 0.0
    spreads = (deviations / left.astype(np.float64) ** 2)[: len(means) // 2 + 1]
    return WarmUp(int(np.argmin(spreads)) * MSER_BATCH, samples=len(values), spreads=spreads)


def trim(
    frame: Frame,
    head: float = 0.12,
    tail: float = 0.05,
    *,
    head_s: float | None = None,
    tail_s: float | None = None,
    time: str = "elapsed_s",
) -> Frame:
    """Drops the beginning and the end of a run: shares of its rows, or seconds of its clock.

    `frame` is a table, a series or a list in the order of measurement. With `head_s` or `tail_s` the shares are not
    used; the column `time` has each row's seconds. Rows on the border are kept. Raises BadArgument when nothing would
    be left.
    """
    if head_s is not None or tail_s is not None:
        return _trim_by_clock(frame, non_negative("head_s", head_s or 0.0), non_negative("tail_s", tail_s or 0.0), time)
    for argument, share in (("head", head), ("tail", tail)):
        if not 0 <= non_negative(argument, share) < 1:
            raise BadArgument(argument, share, "must be a share below 1")
    rows: Any = getattr(frame, "iloc", frame)  # pandas slices by labels otherwise
    if rows is frame and not isinstance(frame, pl.DataFrame | pl.Series | Sequence | np.ndarray):
        raise BadArgument("frame", frame, "must be a table, a series or a list")
    # 12 % of 100 rows are 12: a rounding error of the product must not make them 13.
    size = len(cast(Sized, frame))
    first, last = math.floor(size * head + 1e-9), math.ceil(size * (1 - tail) - 1e-9)
    if first >= last or head + tail >= 1:  # shares that overlap leave nothing, though rounding may leave a row
        raise BadArgument("head", head, f"and tail = {tail!r} leave nothing of {size} rows")
    return cast(Frame, rows[first:last])


def _trim_by_clock(frame: Frame, head_s: float, tail_s: float, time: str) -> Frame:
    table: Any = frame
    if time not in getattr(table, "columns", ()):
        raise BadArgument("time", time, "must name a column of seconds in the table")
    clock = pl.Series(time, table[time])
    if not clock.dtype.is_numeric() or clock.null_count() == len(clock):
        raise BadArgument("time", time, f"names no seconds in any of the {len(clock)} rows of the table")
    begin, end = float(clock.min()) + head_s, float(clock.max()) - tail_s  # type: ignore[arg-type]
    within = clock.is_between(begin, end).fill_null(False)
    if not within.any():
        raise BadArgument("head_s", head_s, f"and tail_s = {tail_s!r} leave nothing of the run")
    return cast(Frame, table.filter(within) if isinstance(table, pl.DataFrame) else table[within.to_numpy()])
