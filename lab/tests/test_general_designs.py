"""Designs of any numbers of levels, balanced or not: beside the sign table, and what cannot be analyzed."""

import math

import polars as pl
import pytest
from scipy import stats as sp

from posthaste_lab import factorial
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.intervals import Interval

MEMORY_CACHE = [[15, 18, 12], [45, 48, 51], [25, 28, 19], [75, 75, 81]]


def approx(value: object, rel: float = 1e-9) -> object:
    """Equal, but for rounding."""
    return pytest.approx(value, rel=rel, abs=1e-9)


def test_general_designs_of_any_levels_and_holes() -> None:
    """Unbalanced: the same table as the sign table where it is balanced, and an honest one where it is not."""
    rows = factorial.design(["A", "B"], replications=3)
    cells = dict(zip(map(tuple, factorial.design(2).tolist()), MEMORY_CACHE, strict=True))
    y = [float(cells[tuple(row)][i // 4]) for i, row in enumerate(rows.tolist())]
    table = pl.DataFrame({"A": rows[:, 0], "B": rows[:, 1], "mips": y})
    whole = factorial.general(table, "mips", ["A", "B"], [("A", "B")])
    assert [line.source for line in whole.table] == ["A", "B", "A:B", "error"]
    assert whole.table[0].sum_squares == approx(12 * 21.5**2)
    assert whole.table[3].sum_squares == approx(102)
    assert whole.coefficients["A[-1]"] == approx(-21.5)
    assert whole.formula == "mips ~ A + B + A:B"
    holes = factorial.general(table[:-1], "mips", ["A", "B"])
    assert holes.table[-1].degrees_of_freedom == 8
    # Each factor after the other: with two levels F is the square of the coefficient's t, in whatever order.
    t = sp.t.ppf(0.975, 8) * holes.coefficients["A[-1]"] / holes.intervals["A[-1]"].half_width
    assert holes.table[0].f == approx(t**2, rel=1e-6)
    assert holes.intervals["A[-1]"].low < holes.coefficients["A[-1]"] < holes.intervals["A[-1]"].high


def test_what_rounding_leaves_in_a_general_design_is_no_effect() -> None:
    """Equal responses have no effects and no error; an effect without error is certain, and the other factor's is 0."""
    factors: dict[str, list[object]] = {"a": ["x", "y"] * 4, "b": ["x", "x", "y", "y"] * 2}
    equal = factorial.general(factors | {"t": [0.1] * 8}, "t", ["a", "b"])
    assert [line.sum_squares for line in equal.table] == [0, 0, 0]
    assert all(math.isnan(line.f) and math.isnan(line.p) for line in equal.table)
    assert equal.coefficients["a[x]"] == equal.error_stdev == 0
    exact = factorial.general(factors | {"t": [0.1, 0.7] * 4}, "t", ["a", "b"], [("a", "b")])
    assert [line.p for line in exact.table[:1]] == [0]
    assert [line.sum_squares for line in exact.table[1:]] == [0, 0, 0]
    assert all(math.isnan(line.p) for line in exact.table[1:])
    assert exact.intervals["b[x]"] == Interval(0, 0)
    assert exact.r_squared == 1


def test_a_model_that_the_data_cannot_tell_is_refused() -> None:
    """Columns that are not there, more coefficients than runs, factors that never differ."""
    table: dict[str, list[object]] = {"a": ["x", "y", "x", "y"], "b": ["x", "y", "x", "y"], "t": [1.0, 2.0, 1.5, 2.5]}
    cases: list[tuple[list[str], list[tuple[str, ...]]]] = [(["c"], []), (["a", "b"], []), (["a"], [("a", "c")])]
    for factors, interactions in cases:
        with pytest.raises(BadArgument):
            factorial.general(table, "t", factors, interactions)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("a", ["x", None, "x", "y", "x", "y"], "factors = 'a': must have a level in every row"),
        ("a", [1.0, math.nan, 1.0, 2.0, 1.0, 2.0], "factors = 'a': must have a level in every row"),
        ("a", ["x"] * 6, "factors = 'a': must have two levels at least"),
        ("t", [1.0, None, 2.0, 3.0, 4.0, 5.0], "response = 't': must be finite in every row"),
        ("t", ["fast"] * 6, "response = .* must hold numbers"),
    ],
)
def test_a_table_with_holes_is_refused(column: str, values: list[object], said: str) -> None:
    """Rows without a level would be left out without a word, and the shares of variation would be of the rest."""
    table: dict[str, list[object]] = {
        "a": ["x", "y"] * 3,
        "b": ["x", "x", "y", "y", "x", "y"],
        "t": [1.0, 2.0, 1.5, 2.5, 1.1, 2.1],
    }
    assert factorial.general(table, "t", ["a", "b"]).r_squared > 0
    with pytest.raises(BadArgument, match=said):
        factorial.general(table | {column: values}, "t", ["a", "b"])


def test_a_table_may_hold_whole_numbers_among_others() -> None:
    """Columns by name, as one writes them down; a factor alone needs no list."""
    table = {"a": [1, 1, 2, 2.5, 2], "y": [1, 2, 3, 4.5, 5]}
    assert factorial.general({"a": [1, 1, 2, 2], "y": [1, 2, 3, 4.5]}, "y", "a").coefficients["Intercept"] == 2.625
    assert {line.source for line in factorial.general(table, "y", ["a"]).table} == {"a", "error"}


def test_a_table_that_is_none_is_refused_by_name() -> None:
    """Columns of several lengths, no columns, no factors."""
    for table, factors, argument in (
        ({"a": [1, 2], "y": [1, 2, 3]}, ["a"], "table"),
        (5, ["a"], "table"),
        ({"a": [1, 2], "y": [1, 2]}, [], "factors"),
        ({"a": [1, 2], "y": [1, 2]}, 5, "factors"),
    ):
        with pytest.raises(BadArgument, match=argument):
            factorial.general(table, "y", factors)  # type: ignore[arg-type]
