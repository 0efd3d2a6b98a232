"""Tests of what the fit knows of handling in turns, of a client that is alone, and of those that pass the line by."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fitted import model_of
from programs import lab
from simulated import System, write_run

from posthaste_lab.experiments.results import read_run
from posthaste_lab.fitting import validate
from posthaste_lab.fitting.bottleneck import halved
from posthaste_lab.fitting.observations import observations
from posthaste_lab.fitting.system import Figures, Setting, between
from posthaste_lab.queueing import batch_server
from posthaste_lab.queueing.turns import handled
from posthaste_lab.stats import mean_interval

SETTING = Setting("batches", 0.0, 256, 1, 1)
PLAIN = Figures(
    batch_s=0.001,
    request_in_batch_s=0.0001,
    contention_s=0.0,
    batch_scv=0.0,
    visits=0.5,
    path_s=0.001,
    handling_s=0.0001,
)
OWN_WAY = System(
    batch=0.001,
    request=0.00004,
    path=0.002,
    handling=0.00005,
    together=0.0004,
    visits=0.6,
    more_visits=0.03,
    lone=0.0005,
)


def test_turns_agree_with_a_simulation() -> None:
    """Of clients who are away and come back, all of whom the next turn takes; the busy share too."""
    for clients, delay, each, turn in (
        (1, 0.001, 0.0002, 0.0003),
        (20, 0.001, 0.00002, 0.0002),
        (60, 0.0002, 0.00001, 0.0001),
    ):
        solved = handled(clients, delay, each, turn)
        runs = [_simulated(clients, delay, each, turn, seed) for seed in range(6)]
        for known, simulated in zip(
            (solved.throughput[-1], solved.utilization[-1]), zip(*runs, strict=True), strict=True
        ):
            interval = mean_interval(simulated, 0.999)
            assert interval.low - 0.003 * known <= known <= interval.high + 0.003 * known, (clients, interval)


def _simulated(clients: int, delay: float, each: float, turn: float, seed: int) -> tuple[float, float]:
    """Throughput and busy share, simulated by hand."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    back, now, served, worked = [chance.expovariate(1 / delay) for _ in range(clients)], 0.0, 0, 0.0
    for _ in range(4000):
        back.sort()
        now = max(now, back[0])
        here = sum(at <= now for at in back)
        took = chance.expovariate(1 / (turn + here * each))
        now, worked, served = now + took, worked + took, served + here
        back = back[here:] + [now + chance.expovariate(1 / delay) for _ in range(here)]
    return served / now, worked / now


def test_between_the_numbers_of_clients_that_are_solved_turns_are_nearly_as_right() -> None:
    """To a thousandth; and clients that are never away are all in every turn."""
    whole = handled(200, 0.001, 0.00001, 0.0002)
    for clients in (3, 47, 113, 181):
        assert whole.throughput[clients] == pytest.approx(
            handled(clients, 0.001, 0.00001, 0.0002).throughput[-1], rel=1e-3
        )
    assert handled(8, 0.0, 0.0001, 0.001).throughput[-1] == pytest.approx(8 / 0.0018)


def test_handling_without_a_turn_is_the_handling_of_before() -> None:
    """One request at a time, whose busy share is its demand times the throughput."""
    solved = batch_server(12, 0.001, 0.0001, path_time=0.002, handling_time=0.0002, visits=0.7)
    assert solved.handling_utilization == pytest.approx(solved.throughput * 0.0002, rel=1e-6)
    turns = batch_server(12, 0.001, 0.0001, path_time=0.002, handling_time=0.0002, turn_time=0.0002, visits=0.7)
    assert turns.throughput < solved.throughput
    assert solved.handling_utilization < turns.handling_utilization < 1


def test_handling_in_turns_limits_many_clients_by_the_request_alone() -> None:
    """A store that takes no time changes nothing of it."""
    many = batch_server(400, 1e-7, 0.0, path_time=0.001, handling_time=0.0001, turn_time=0.001)
    assert many.throughput == pytest.approx(handled(400, 0.001, 0.0001, 0.001).throughput[-1], rel=0.01)
    assert many.throughput == pytest.approx(1 / 0.0001, rel=0.05)


def test_a_system_in_turns_whose_lone_client_has_its_own_way_is_found_again(tmp_path: Path) -> None:
    """And its model predicts the numbers of clients it was not fitted to."""
    run = write_run(tmp_path / "run", OWN_WAY, [1, 2, 5, 12, 28, 64, 128], repetitions=3, requests=8000)
    checked = validate(observations(read_run(run)), [1, 5, 28, 128])
    assert checked.throughput.error < 0.03
    figures = checked.model.figures
    assert figures.lone_path_s == pytest.approx(0.0005 + 0.00045, rel=0.1), "with its handling"
    assert figures.path_s == pytest.approx(OWN_WAY.path, rel=0.15)
    assert figures.handling_s == pytest.approx(OWN_WAY.handling, rel=0.4)
    assert figures.turn_s == pytest.approx(OWN_WAY.together, rel=0.4)
    shares = dict(figures.visits_by_clients)
    assert shares[1] == pytest.approx(0.6, abs=0.03)
    assert shares[28] == pytest.approx(0.744, abs=0.03)


def test_a_lone_client_whose_way_is_a_figure_of_its_own_tells_nothing_of_the_other_figures() -> None:
    """Trials less figures leave one degree of freedom where it is one of two numbers of clients, and not two."""
    assert [SETTING.fitted(clients) for clients in ([1, 64], [2, 64], [1, 5, 28, 128], [2, 5, 28, 128])] == [3, 2, 4, 3]
    assert replace(SETTING, middlewares=2).fitted([2, 64]) == 3
    assert replace(SETTING, gather_s=0.0005).fitted([1, 64]) == 2


def test_a_model_has_as_many_degrees_of_freedom_as_trials_less_figures(tmp_path: Path) -> None:
    """The response time of a lone client, which its way meets exactly, is one of those."""
    model = model_of(write_run(tmp_path / "run", OWN_WAY, [1, 4, 16], repetitions=2, requests=600))
    alone, *_ = model.points
    assert alone.model_response_time_s == pytest.approx(alone.response_time_s)
    assert model.degrees_of_freedom == 6 - 3


def test_a_model_that_meets_all_that_it_was_fitted_to_says_what_its_intervals_hold(tmp_path: Path) -> None:
    """With a further number of clients they hold what it gets wrong as well."""
    told = "numbers of clients, so intervals of predictions hold how much trials scatter"
    run = write_run(tmp_path / "run", OWN_WAY, [1, 4, 12, 24, 48], repetitions=2, requests=600)
    for chosen, is_told in (("1,4,12,48", True), ("1,4,12,24,48", False)):
        said = lab("fit", run, "--calibrate", chosen).stdout
        answered = lab("predict", run, "--clients", "8").stdout
        in_json = lab("predict", run, "--clients", "8", "--json").stderr
        lab("report", run)
        page = (run / "report" / "index.html").read_text("utf-8")
        for text in (said, answered, in_json, page):
            assert (told in " ".join(text.split())) == is_told


def test_too_few_numbers_of_clients_tell_nothing_of_turns(tmp_path: Path) -> None:
    """Three would be met exactly by three figures; a fourth may be one client, whose way bounds those of the others."""
    run = write_run(tmp_path / "run", OWN_WAY, [2, 12, 64], repetitions=2, requests=1500)
    assert model_of(run).figures.turn_s == 0
    assert "turn_s" not in replace(SETTING, gather_s=0.0005).unknown(7), "beside a batch over PostgreSQL it is nothing"


def test_a_lone_client_waits_for_nobody() -> None:
    """Its response time is its way and its share of a batch of one; half the way is half of its own too."""
    figures = PLAIN.model_copy(update={"lone_path_s": 0.0004, "visits_by_clients": ((1.0, 0.5), (9.0, 1.0))})
    alone = figures.solved(1, SETTING)
    assert alone.response_time == pytest.approx(0.0004 + 0.5 * 0.0011)
    assert alone.throughput == pytest.approx(1 / alone.response_time)
    assert alone.utilization == pytest.approx(0.5 * 0.0011 / alone.response_time)
    thinking = figures.solved(1, replace(SETTING, think_time_s=0.01))
    assert thinking.throughput == pytest.approx(1 / (0.01 + alone.response_time))
    assert halved(figures, "path_s").solved(1, SETTING).response_time == pytest.approx(0.0002 + 0.5 * 0.0011)
    assert halved(figures, "batch_s").solved(1, SETTING).response_time == pytest.approx(0.0004 + 0.5 * 0.0006)


def test_two_middlewares_with_a_client_each_have_two_lone_clients() -> None:
    """Twice the throughput."""
    figures = PLAIN.model_copy(update={"lone_path_s": 0.0004})
    one, two = figures.solved(1, SETTING), figures.solved(2, replace(SETTING, middlewares=2))
    assert two.throughput == pytest.approx(2 * one.throughput)


def test_shares_that_go_by_the_line_lie_between_those_measured() -> None:
    """By the logarithm of the clients, and beyond the outermost as there."""
    figures = PLAIN.model_copy(update={"visits_by_clients": ((1.0, 0.6), (16.0, 0.8))})
    assert [figures.visits_of(n) for n in (1, 4, 16, 100)] == pytest.approx([0.6, 0.7, 0.8, 0.8])
    assert PLAIN.visits_of(4) == 0.5


def test_between_two_levels_lie_shares_and_ways_of_lone_clients() -> None:
    """Where both were measured; a way of one level alone is none."""
    first = PLAIN.model_copy(update={"lone_path_s": 0.001, "visits_by_clients": ((1.0, 0.6), (16.0, 0.8))})
    second = PLAIN.model_copy(update={"lone_path_s": 0.002, "visits_by_clients": ((4.0, 0.9),)})
    middle = between(first, second, 0.5)
    assert middle.lone_path_s == pytest.approx(0.0015)
    assert np.array(middle.visits_by_clients) == pytest.approx(np.array([(1, 0.75), (4, 0.8), (16, 0.85)]))
    assert between(first, PLAIN, 0.5).lone_path_s == 0
    # One client of two middlewares is half a one of each.
    halves = PLAIN.model_copy(update={"visits_by_clients": ((0.5, 0.6), (16.0, 0.8))})
    assert dict(between(halves, halves, 0.5).visits_by_clients) == pytest.approx({0.5: 0.6, 16.0: 0.8})
