"""Trends and changes of level: found where they are, and not in correlated noise."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats as scipy_stats

from posthaste_lab import stats
from posthaste_lab.checks import FloatArray
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.steadiness import _segments


def noise(seed: int, size: int = 100, lag1: float = 0.0) -> FloatArray:
    """A steady series around 100 with deviation 1, whose neighbors correlate by `lag1`."""
    fresh = np.random.default_rng(seed).normal(size=size + 200) * np.sqrt(1 - lag1**2)
    values = [0.0]
    for each in fresh:
        values.append(lag1 * values[-1] + each)
    return 100 + np.array(values[-size:])


@pytest.mark.parametrize(("lag1", "at_most"), [(-0.4, 0.05), (0.0, 0.09), (0.6, 0.12), (0.8, 0.15)])
def test_a_trend_is_seldom_found_in_steady_noise(lag1: float, at_most: float) -> None:
    """Without a look at the correlation, half of the series with 0.8 would have one."""
    series = [noise(seed, lag1=lag1) for seed in range(150)]
    assert sum(stats.trend(each).p_value < 0.05 for each in series) / len(series) <= at_most
    assert sum(len(stats.change_points(each).places) > 0 for each in series) / len(series) <= at_most
    naive = [scipy_stats.kendalltau(range(len(each)), each).pvalue < 0.05 for each in series]
    assert lag1 < 0.7 or sum(naive) / len(series) > 0.3


def test_a_trend_is_found_with_its_size() -> None:
    """In correlated noise too, and a fall as a rise."""
    ramp = np.linspace(0, 10, 200)
    for sign in (1, -1):
        found = stats.trend(noise(2, 200, 0.5) + sign * ramp)
        assert found.p_value < 0.001
        assert found.change == pytest.approx(sign * 10, rel=0.2)
        assert found.slope == pytest.approx(found.change / 199)
        assert found.lag1 == pytest.approx(0.5, abs=0.2)


def test_without_correlation_it_is_the_test_of_kendall() -> None:
    """Ties included; and Sen's slope is scipy's."""
    values = np.round(noise(3, 60, -0.3))
    found = stats.trend(values)
    assert found.lag1 < 0
    assert found.p_value == pytest.approx(scipy_stats.kendalltau(range(60), values, method="asymptotic").pvalue)
    assert found.slope == pytest.approx(scipy_stats.theilslopes(values)[0])


def test_a_long_series_is_looked_at_in_pieces() -> None:
    """With slope, change and places of the series itself."""
    values = noise(4, 4321) + np.where(np.arange(4321) < 3000, 0.0, 5.0)
    found = stats.change_points(values)
    assert [abs(place - 3000) <= 5 for place in found.places] == [True]
    assert found.means == pytest.approx((100, 105), abs=0.2)
    ramp = stats.trend(noise(5, 4321) + 0.01 * np.arange(4321))
    assert ramp.slope == pytest.approx(0.01, rel=0.05)
    assert ramp.change == pytest.approx(43.2, rel=0.05)


def test_levels_are_found_where_they_begin() -> None:
    """Up and down again; the change is a share of the higher level."""
    values = noise(6, 120, 0.3) - np.where((np.arange(120) >= 50) & (np.arange(120) < 80), 20.0, 0.0)
    found = stats.change_points(values)
    assert len(found.places) == 2
    assert abs(found.places[0] - 50) <= 1
    assert abs(found.places[1] - 80) <= 1
    assert found.largest == pytest.approx(0.2, abs=0.02)


def test_an_outlier_is_no_level() -> None:
    """Two windows without an answer are a stall."""
    values = noise(7)
    values[40:42] = 0.0
    assert all(found > 60 for found in stats.change_points(values).means)
    assert stats.trend(values).p_value > 0.05


def test_the_segments_are_the_best_ones() -> None:
    """As all ways to cut a short series say: what is pruned could not have been better."""
    for seed in range(20):
        values = noise(seed, 18)
        values[9:] += seed % 3
        penalty = 3.0

        def cost(cuts: list[int], values: FloatArray = values, penalty: float = penalty) -> float:
            ends = [0, *cuts, len(values)]
            parts = [values[a:b] for a, b in pairwise(ends)]
            return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + penalty * len(cuts)

        ways: list[list[int]] = [[]]
        ways += [[a] for a in range(5, 14)] + [[a, b] for a in range(5, 9) for b in range(a + 5, 14)]
        assert cost(_segments(values, penalty)) == pytest.approx(min(map(cost, ways)))


def test_a_constant_series_is_steady_and_a_short_one_unknown() -> None:
    """Nor is a rounding error a level; fewer than 40 samples are few, and fewer than 10 none."""
    for values in ([5.0] * 50, [0.1 + 0.2] * 25 + [0.3] * 25):
        assert stats.trend(values).p_value == 1.0
        assert stats.change_points(values).places == ()
    step = stats.change_points([1.0] * 25 + [2.0] * 25)
    assert (step.places, step.means, step.largest) == ((25,), (1.0, 2.0), 0.5)
    assert not stats.trend(noise(8, 39)).enough
    assert not stats.change_points(noise(8, 39)).enough
    assert stats.trend(noise(8, 40)).enough
    with pytest.raises(BadArgument):
        stats.trend([1.0] * 9)
