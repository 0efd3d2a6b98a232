"""Tests of the table of shares of the requests that were answered within given times."""

import csv

import pytest

from posthaste_lab.experiments.results import Run, spoken_levels
from posthaste_lab.report.cells import cells_of
from posthaste_lab.report.records import Spread, response_times_by_kind
from posthaste_lab.report.sections.distributions import LIMITS_MAX, _share, limits_of


def test_a_share_within_a_time_is_that_of_the_requests(run: Run) -> None:
    """Of each kind and of all; shares rise with the time."""
    with (run.directory / "report" / "tables" / "within.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    columns = [name for name in rows[0] if name.startswith("within_")]
    assert 3 <= len(columns) <= LIMITS_MAX
    for row in rows:
        (cell,) = (cell for cell in cells_of(run) if spoken_levels(cell.levels) == row["combination"])
        by_kind = response_times_by_kind(cell.results)
        spread = by_kind.get(row["kind"]) or Spread.together(list(by_kind.values()))
        shares = [float(row[name]) for name in columns]
        assert shares == sorted(shares)
        for name, share in zip(columns, shares, strict=True):
            limit = float(name.removeprefix("within_").removesuffix("_us")) / 1e6
            assert share == pytest.approx(spread.counts[spread.values_s <= limit].sum() / spread.total)


def test_limits_span_the_times() -> None:
    """In steps of 1, 2 and 5, of which the last ones are kept; exactly at a limit is within it."""
    times = Spread.of([0.0015] * 500 + [0.002] + [0.018] * 499)
    assert limits_of([times]) == pytest.approx([0.002, 0.005, 0.01, 0.02])
    assert times.share_within(0.002) == pytest.approx(0.501)
    assert times.share_within(0.0019) == pytest.approx(0.5)
    wide = limits_of([Spread.of([1e-6, 10.0])])
    assert (len(wide), wide[-1]) == (LIMITS_MAX, 10.0)


def test_nearly_all_is_not_all() -> None:
    """Shares are rounded down."""
    shown = [_share(share) for share in (0.0, 0.000149, 0.501, 0.99999, 1.0)]
    assert shown == ["0 %", "0.01 %", "50.1 %", "99.99 %", "100 %"]
