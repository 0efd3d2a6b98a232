"""Tests what a batch of a size takes, and how that scatters, from tables of batches whose times are all known."""

from dataclasses import replace

import numpy as np
import pytest

from posthaste_lab.fitting.batches import Batches, cost_of, of_single_requests
from posthaste_lab.fitting.bottleneck import halved
from posthaste_lab.fitting.system import Figures, Setting
from posthaste_lab.queueing.batching import batch_times

SETTING = Setting("batches", 0.0, 256, 1, 1)


def batches(sizes: list[int], times_s: list[float]) -> Batches:
    """A hundred batches of each size, all of which take as long."""
    times = np.array(times_s)
    return replace(
        of_single_requests(0.0, 0.0),
        sizes=np.array(sizes, dtype=np.float64),
        others=np.zeros(len(sizes)),
        bins=np.zeros(len(sizes)),
        counts=np.full(len(sizes), 100.0),
        times_s=100 * times,
        squares_s2=100 * times**2,
    )


def figures_of(groups: list[Batches]) -> Figures:
    """The figures of the store alone."""
    cost = cost_of(groups, SETTING)
    return Figures(
        batch_s=cost.batch_s,
        request_in_batch_s=cost.request_s,
        contention_s=cost.contention_s,
        batch_scv=cost.scv,
        visits=1.0,
        path_s=0.0001,
        handling_s=0.0,
        bends=cost.bends,
        batch_shape=cost.shape,
    )


@pytest.mark.parametrize(
    ("sizes", "times_ms"),
    [([32, 64], [1.0, 2.4]), ([10, 20, 100], [1.0, 3.0, 11.0]), ([8, 64], [1.0, 1.2]), ([1, 64], [0.5, 1.2])],
    ids=["steeper than its size", "a fixed part above the smallest", "flat", "from one on"],
)
def test_a_batch_smaller_than_any_measured_still_takes_some_time(sizes: list[int], times_ms: list[float]) -> None:
    """As measured at the mean sizes, never falling between them, and with half of any stage still above zero."""
    groups = [batches([size], [time / 1e3]) for size, time in zip(sizes, times_ms, strict=True)]
    figures = figures_of(groups)

    def times(of: Figures) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return batch_times(np.arange(1, 101), of.batch_s, of.request_in_batch_s, of.bends)

    assert times(figures)[np.array(sizes) - 1] == pytest.approx(np.array(times_ms) / 1e3)
    assert (np.diff(times(figures)) >= 0).all()
    assert figures.batch_s <= times(figures)[0]
    for name in ("batch_s", "request_in_batch_s"):
        assert (times(halved(figures, name)) > 0).all()
    assert figures.solved(4, SETTING).throughput > 0


def test_what_a_batch_takes_by_its_size_is_no_scatter() -> None:
    """Half of the largest group's batches are larger than its mean, and as regular as all others."""
    small, large = list(range(1, 12)), list(range(20, 61))
    groups = [batches(sizes, [0.0005 + 0.00002 * size for size in sizes]) for sizes in (small, large)]
    cost = cost_of(groups, SETTING)
    assert (cost.batch_s, cost.request_s) == pytest.approx((0.0005, 0.00002))
    assert cost.scv == pytest.approx(0, abs=1e-9)
    assert cost.shape == ()
