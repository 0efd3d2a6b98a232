"""Tests that the saturation of throughput is found in curves with a known knee, and not in curves without one."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.results import Result, Run
from posthaste_lab.experiments.tables import Level
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.saturation import saturation
from posthaste_lab.report.sections.knees import knees


def line(throughputs: dict[int, float], **more: object) -> list[Cell]:
    """Cells of closed loops without think time, so that response times follow by the law."""
    found = []
    for place, (clients, rate) in enumerate(throughputs.items(), start=1):
        figures = {"population": clients, "throughput_per_s": rate, "response_mean_s": clients / rate, **more}
        levels: dict[str, Level] = {"clients": clients}
        trial = Result(f"{place:03}-r1", place, place, 1, levels, True, "", figures, {}, None, Path("nowhere"))
        found.append(Cell(place, levels, (trial,)))
    return found


def run_of(levels: list[int]) -> Run:
    """A run over clients that nobody ran."""
    experiment = Experiment.model_validate(
        {
            "title": "t",
            "question": "q",
            "hypothesis": "h",
            "run": {"duration": 1.0},
            "parts": {"load": {"kind": "bench queue"}},
            "factors": {"clients": {"levels": levels, "sets": "load.clients"}},
        }
    )
    return Run(Path("nowhere"), experiment, {"quick": False, "trials": []}, ())


# X = min(N, 16) * 1000, and a little more for every doubling beyond.
KNEE_AT_16 = {1: 1000.0, 2: 2000.0, 4: 4000.0, 8: 8000.0, 16: 16000.0, 32: 16400.0, 64: 16500.0}


def test_the_knee_is_the_first_level_from_which_on_nothing_is_gained() -> None:
    """Though every level from there on is as flat; growth is a share for each doubling."""
    found = saturation(line(KNEE_AT_16))
    assert found is not None
    assert found.knee is not None
    assert found.knee.clients == 16
    assert found.growth == pytest.approx(math.sqrt(16500 / 16000) - 1)


def test_a_line_that_still_grows_does_not_saturate() -> None:
    """Its growth is told from the last doubling. A pause in the middle is no knee."""
    for curve in ({1: 10.0, 2: 20.0, 4: 39.0, 8: 75.0}, {1: 10.0, 2: 10.1, 4: 20.0, 8: 39.0}):
        found = saturation(line(curve))
        assert found is not None
        assert found.knee is None
        assert found.growth == pytest.approx(curve[8] / curve[4] - 1)


def test_close_levels_are_not_judged_by_their_noise() -> None:
    """2 % more from 45 to 50 clients would be 14 % per doubling; and of 45 alone nobody knows."""
    found = saturation(line({5: 500.0, 15: 1000.0, 40: 1010.0, 45: 1000.0, 50: 1020.0}))
    assert found is not None
    assert found.knee is not None
    assert found.knee.clients == 15
    rising = saturation(line({5: 500.0, 15: 1500.0, 45: 4500.0, 50: 4510.0}))
    assert rising is not None
    assert rising.knee is None


def test_what_is_no_load_of_clients_has_no_knee() -> None:
    """Requests at a rate; a factor that is not the clients; two levels."""
    assert saturation(line(KNEE_AT_16, open_loop=True)) is None
    assert saturation(line(KNEE_AT_16, population=64)) is None
    assert saturation(line({1: 10.0, 64: 11.0})) is None


def test_the_report_says_where_and_by_which_figures() -> None:
    """Or that no level saturates."""
    said, (table,) = knees(run_of(list(KNEE_AT_16)), line(KNEE_AT_16))
    assert said == [
        "Throughput saturates at clients = 16, with 16,000 per second: from there to clients = 64 it changes by "
        "1.55 % for each doubling of the clients (growth by less than 10.0 % counts as none), response time from "
        "1.000 ms to 3.879 ms."
    ]
    assert table.rows == [["16", "64", "16,000", "16,500", "1.000 ms", "3.879 ms", "1.55 %"]]
    assert table.raw[0]["saturates_at"] == 16
    slow_at_first = {1: 10.0, 2: 10.5, 4: 21.0}
    (none,), (table,) = knees(run_of(list(slow_at_first)), line(slow_at_first))
    assert none == (
        "No level of clients saturates: from 2 to 4 throughput still grows by 100 % for each doubling of the clients."
    )
    assert table.rows[0][0] == "none"
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_where_throughput_stands_still_and_nobody_waits_longer_it_is_said_so() -> None:
    """That it grows would be wrong."""
    thinking = line({1: 10.0, 2: 20.0, 4: 20.2}, response_mean_s=0.001)
    (said,), _ = knees(run_of([1, 2, 4]), thinking)
    assert said == (
        "No level of clients saturates: where throughput grows no more at the end, requests wait no longer (growth by "
        "less than 10.0 % counts as none)."
    )


def test_a_throughput_that_rises_and_falls_again_is_said_to() -> None:
    """Requests wait the longer for it, so nobody may read that they do not."""
    falling = line({2: 500.0, 8: 1000.0, 12: 1300.0, 16: 1050.0})
    (said,), _ = knees(run_of([2, 8, 12, 16]), falling)
    assert said == (
        "No level of clients saturates: from 8 to 16 throughput rises and falls again, from 1,000 per second to 1,300 "
        "per second at clients = 12 and 1,050 per second at the end."
    )


def test_waiting_is_shown_where_a_tier_recorded_it() -> None:
    """Beside the response time."""
    waiting = [
        replace(cell, results=tuple(replace(r, figures={**r.figures, "waiting_mean_s": 0.001}) for r in cell.results))
        for cell in line(KNEE_AT_16)
    ]
    (said,), (table,) = knees(run_of(list(KNEE_AT_16)), waiting)
    assert "waiting from 1.000 ms to 1.000 ms and response time from" in said
    assert "waiting there" in table.columns


def test_in_a_tier_without_a_line_nothing_is_said_of_waiting() -> None:
    """Nobody waits there, and "from 0 ms to 0 ms" is no news."""
    (said,), _ = knees(run_of(list(KNEE_AT_16)), line(KNEE_AT_16, waiting_mean_s=0.0))
    assert "waiting" not in said
    assert said.endswith(", response time from 1.000 ms to 3.879 ms.")
