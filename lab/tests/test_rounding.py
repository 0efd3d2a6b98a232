"""Figures without any variance: what rounding leaves of them is no finding."""

import math

import numpy as np
import pytest

from posthaste_lab import factorial, stats
from posthaste_lab.factorial import Effects

SIGNS = [(-1, -1), (1, -1), (-1, 1), (1, 1)]


def analyzed(cells: list[float], repetitions: int = 2) -> Effects:
    """Responses that are the same in each repetition."""
    return factorial.analyze(SIGNS, [[cell] * repetitions for cell in cells])


def test_an_effect_that_is_rounding_is_not_significant() -> None:
    """Only A does something, and it does it without error; in any case rounding has no share of the variation."""
    found = analyzed([4.78, 3.86, 4.78, 3.86])
    assert found.effects["B"] == found.effects["A:B"] == 0
    assert found.significant == {"I": True, "A": True, "B": False, "A:B": False}
    assert found.variation == {"A": pytest.approx(1), "B": 0, "A:B": 0, "error": 0}
    nothing = analyzed([0.7, 0.7, 0.7, 0.7], repetitions=3)
    assert nothing.variation == {"A": 0, "B": 0, "A:B": 0, "error": 0}
    assert not nothing.significant["A"]


def test_no_model_is_advised_by_rounding() -> None:
    """Equal responses have no variation beyond main effects, and errors that are none do not grow."""
    assert analyzed([0.1] * 4, repetitions=3).advice == "additive: nothing varies, so nothing tells one from the other"
    blocks = factorial.analyze(SIGNS, [[0.1, 0.2, 0.3]] * 4, blocked=True).advice
    assert blocks.startswith("additive: nothing varies within a repetition")
    assert "logarithms explain about as much" in analyzed([0.1, 0.7, 0.1, 0.7], repetitions=3).advice


def test_a_contrast_of_equal_effects_is_not_significant() -> None:
    """A and B do the same, to the last digit but one."""
    found = analyzed([1.1, 1.2, 1.2, 1.7], repetitions=3)
    assert not found.contrast({"A": 1, "B": -1}).significant


def test_one_factor_without_any_variance_tests_nothing() -> None:
    """Three figures and four, all the same: their sums round differently."""
    found = factorial.one_factor({"a": [0.7] * 3, "b": [0.7] * 4})
    assert math.isnan(found.f)
    assert math.isnan(found.p)
    assert found.effects == {"a": 0, "b": 0}
    assert found.differences["a", "b"].holds(0)
    apart = factorial.one_factor({"a": [0.7] * 3, "b": [0.8] * 4})
    assert (apart.f, apart.p) == (math.inf, 0)


def test_two_factors_without_any_variance_test_nothing() -> None:
    """With repetitions and without."""
    for table in (np.full((3, 4, 3), 0.7), np.full((3, 7), 2.21)):
        found = factorial.two_factor(table)
        assert all(math.isnan(line.f) and math.isnan(line.p) for line in found.table)
        assert set(found.row_effects.values()) == {0.0}


def test_equal_figures_do_not_differ() -> None:
    """However many there are of each."""
    alike = stats.compare_means([2.21] * 4, [2.21] * 7)
    assert (alike.difference, alike.p_value, alike.significant) == (0, 1, False)
    pairs = stats.compare_paired([0.1 + 0.2, 0.7], [0.3, 0.7])
    assert (pairs.difference, pairs.p_value, pairs.significant) == (0, 1, False)
    apart = stats.compare_means([2.21] * 4, [2.22] * 7)
    assert apart.p_value == 0
    assert apart.significant


def test_a_series_that_never_changes_remembers_nothing() -> None:
    """Its mean is off by a last digit, and all deviations are that one."""
    flat = stats.batch_means([468.38] * 60)
    assert (flat.lag1, flat.settled, flat.batch_size) == (0, True, 1)
    assert flat.effective_n == 60


def test_equal_figures_have_themselves_as_mean_and_no_spread() -> None:
    """The sum of three tenths is more than 0.3, which is no spread and no step over a limit."""
    for figure in (0.1, -0.1, 0.7, 1e-3):
        found = stats.mean_interval([figure] * 3)
        assert (found.mean, found.low, found.high, found.stdev) == (figure, figure, figure, 0)
        merged = stats.merge_runs([figure] * 3, [0] * 3, [7, 3, 5])
        assert (merged.mean, merged.stdev, merged.between_stdev, merged.within_stdev) == (figure, 0, 0, 0)
    last_digit = stats.mean_interval([0.3, 0.1 + 0.2])
    assert (last_digit.stdev, last_digit.half_width) == (0, 0)


def test_a_small_difference_that_was_measured_stays() -> None:
    """A millionth of the figures, as clocks and counters tell it."""
    assert stats.compare_means([1.000001, 1.0000011], [1.0, 1.0000001]).p_value < 0.05
    assert analyzed([1.0, 1.000001, 1.0, 1.000001]).significant["A"]
    assert stats.mean_interval([1.0, 1.000001]).half_width > 0
    assert stats.merge_runs([1.0, 1.000001], [0, 0], [3, 3]).between_stdev > 0
