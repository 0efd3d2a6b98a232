"""Tests the server of batches against closed forms, a simulation, and bounds that no system can exceed."""

import random
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import SimulatedTrial, System

from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing import batch_server
from posthaste_lab.queueing.batching import Shape, batch_distribution
from posthaste_lab.stats import mean_interval


def test_one_client_never_waits() -> None:
    """Its round is the sum of all times, whatever their laws."""
    solved = batch_server(1, 0.001, 0.0002, think_time=0.01, path_time=0.002, scv=3.0)
    assert solved.throughput == pytest.approx(1 / 0.0132)
    assert solved.response_time == pytest.approx(0.0032)
    assert solved.mean_batch == pytest.approx(1)


def test_two_halves_of_the_clients_take_turns_where_nothing_else_takes_time() -> None:
    """Everybody is served in every second batch: R = 2 a + b N."""
    for clients in (2, 7, 64):
        solved = batch_server(clients, 0.001, 0.00001, path_time=1e-7)
        assert solved.response_time == pytest.approx(0.002 + 0.00001 * clients, rel=1e-3)
        assert solved.mean_batch == pytest.approx(clients / 2, rel=1e-3)


def test_the_arithmetic_of_the_page_on_batching_is_the_model_s() -> None:
    """100 clients, a flush of 1 ms and 10 us for each request: docs/background/batching.md."""
    solved = batch_server(100, 0.001, 1e-5, path_time=1e-6)
    assert round(solved.throughput, -3) == 33_000
    assert solved.response_time == pytest.approx(0.003, rel=1e-2)
    assert solved.mean_batch == pytest.approx(50, rel=1e-2)


def test_clients_who_are_gone_for_no_time_at_all_are_no_trouble() -> None:
    """Halves that would take turns for longer than there are numbers for, with even and with uneven batches."""
    # Where batches vary much, some are so short that nobody comes back meanwhile, and halves come together again.
    for scv, off in ((0.0, 0.03), (0.3, 0.03), (4.0, 0.12)):
        for path in (1e-7, 1e-6, 3e-5):
            for visits in (1.0, 0.7):
                solved = batch_server(64, 0.004, 0.00002, path_time=path, scv=scv, visits=visits)
                assert solved.throughput * visits == pytest.approx(64 / (0.008 + 0.00002 * 64), rel=off)
    uneven = batch_server(64, 0.00184, 0.000101, path_time=4.7e-06, handling_time=3.49e-06, visits=0.9993, scv=1.387)
    assert uneven.throughput == pytest.approx(64 / (0.00368 + 0.000101 * 64), rel=0.03)


def test_a_full_batch_is_the_most_there_is() -> None:
    """With far more clients than a batch holds, throughput is B / (a + b B)."""
    solved = batch_server(100, 0.001, 0.0001, path_time=0.001, batch_limit=8)
    assert solved.throughput == pytest.approx(8 / 0.0018, rel=1e-6)
    assert solved.utilization == pytest.approx(1)


def test_what_is_handled_one_at_a_time_is_a_limit_too() -> None:
    """However large the batches."""
    solved = batch_server(300, 0.001, 0.0, path_time=0.001, handling_time=0.0001)
    assert solved.throughput == pytest.approx(10_000, rel=1e-3)
    assert solved.handling_utilization == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(("clients", "handling", "exact"), [(8, 0.1, 3.6135), (20, 0.1, 8.3165), (20, 0.05, 9.1659)])
def test_a_way_and_handling_cost_no_more_than_is_admitted(clients: int, handling: float, exact: float) -> None:
    """Even batches twice as long as the way; `exact` is from the chain that knows where each client outside is."""
    solved = batch_server(clients, 1.0, 0.0, path_time=0.5, handling_time=handling)
    assert 0.95 * exact < solved.throughput < exact


def test_clients_who_think_wait_for_the_rest_of_one_batch() -> None:
    """With very many of them arrivals are random: R = T/2 + T; a load-dependent station would say 2 T."""
    solved = batch_server(300, 0.001, 0.0, think_time=0.1)
    assert solved.utilization > 0.9
    assert solved.response_time == pytest.approx(0.0015, rel=0.05)


SYSTEMS = {
    "thinking": (10, System(path=0.005, request=0.0001)),
    "hurried": (12, System(path=0.0003, request=0.0001)),
    "small batches": (40, System(path=0.02, request=0.00005, limit=4)),
    "handled one at a time": (20, System(path=0.001, handling=0.00008)),
    "handled in turns": (20, System(path=0.001, handling=0.00002, together=0.0002)),
    "some pass the line by": (20, System(path=0.001, visits=0.6)),
    "uneven batches": (20, System(path=0.004, scv=1.5)),
    "nearly even batches": (20, System(path=0.004, scv=0.009)),
    "asleep when idle": (5, System(path=0.002, batch=0.0005, wake=0.001)),
    "asleep when idle, small and uneven batches": (9, System(path=0.01, wake=0.002, limit=2, scv=0.5)),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_model_agrees_with_a_simulation(name: str) -> None:
    """Throughput and response time lie in a 99.9 % interval over runs, or within 1 % of its middle."""
    clients, system = SYSTEMS[name]
    solved = batch_server(
        clients,
        system.batch,
        system.request,
        path_time=system.path,
        handling_time=system.handling,
        turn_time=system.together,
        visits=system.visits,
        batch_limit=system.limit,
        scv=system.scv,
        wake_time=system.wake,
    )
    rates = []
    for seed in range(6):
        simulated = SimulatedTrial(system, clients, random.Random(seed))  # noqa: S311 - no secret
        simulated.run(1.2)
        rates.append(sum(at >= 0.2 for at, _ in simulated.responses))
    interval = mean_interval(rates, 0.999)
    slack = 0.01 * interval.mean
    assert interval.low - slack <= solved.throughput <= interval.high + slack
    assert interval.half_width < 0.08 * interval.mean


def test_the_distribution_of_a_batch_tells_who_comes_meanwhile() -> None:
    """The mean of exp(-rate T), for a gamma distribution of mean 1; three points would be wrong by magnitudes."""
    for scv in (0.02, 0.5, 1.0, 2.0, 4.0, 10.0, 25.0):
        points, shares = batch_distribution(scv)
        assert shares.sum() == pytest.approx(1)
        assert points @ shares == pytest.approx(1)
        for rate in (0.1, 1.0, 3.0, 10.0, 30.0):
            assert shares @ np.exp(-rate * points) == pytest.approx((1 + rate * scv) ** (-1 / scv), abs=0.005)


STALLS = ((0.5, 0.98), (25.5, 0.02))  # one batch in fifty takes fifty times as long as the others


def simulated(clients: int, away: float, scv: float = 0.0, shape: Shape = (), requests: int = 150_000) -> float:
    """Requests per second of clients who are away for a while, before batches of 1 s and 0.1 s more for each."""
    chance = random.Random(1)  # noqa: S311 - no secret
    values, shares = zip(*shape, strict=True) if shape else ((), ())
    returns = sorted(chance.expovariate(1 / away) for _ in range(clients))
    now, answered = 0.0, 0
    while answered < requests:
        now = max(now, returns[0])
        size = bisect_right(returns, now)
        took = 1 + 0.1 * size
        took *= chance.gammavariate(1 / scv, scv) if scv else chance.choices(values, shares)[0] if shape else 1.0
        now, answered = now + took, answered + size
        returns = sorted([*returns[size:], *(now + chance.expovariate(1 / away) for _ in range(size))])
    return answered / now


@pytest.mark.parametrize("scv", [0.0, 0.5, 1.0, 2.0, 4.0, 10.0])
def test_uneven_batches_serve_what_they_do(scv: float) -> None:
    """Within 2 % of a long play, and what chance is in that: 40,000 batches of an scv of 10 are known to 1.6 %."""
    slack = 0.02 + 2 * np.sqrt(scv / 40_000)
    for away in (0.5, 2.0):
        solved = batch_server(10, 1.0, 0.1, think_time=away, scv=scv)
        assert solved.throughput == pytest.approx(simulated(10, away, scv), rel=slack)


def test_a_law_of_its_own_stands_for_rare_stalls() -> None:
    """Times and shares count as they are to each other. A gamma distribution of the same spread serves a third less."""
    expected = simulated(10, 0.5, shape=STALLS)
    solved = batch_server(10, 1.0, 0.1, think_time=0.5, shape=STALLS)
    assert solved.throughput == pytest.approx(expected, rel=0.03)
    scaled = [(7 * value, 100 * share) for value, share in STALLS]
    assert batch_server(10, 1.0, 0.1, think_time=0.5, shape=scaled).throughput == pytest.approx(solved.throughput)
    scv = sum(share * (value - 1) ** 2 for value, share in STALLS)
    assert batch_server(10, 1.0, 0.1, think_time=0.5, scv=scv).throughput < 0.7 * solved.throughput
    even = batch_server(10, 1.0, 0.1, think_time=0.5)
    assert batch_server(10, 1.0, 0.1, think_time=0.5, shape=[(3.0, 1.0)], scv=9.0) == even


def test_what_a_batch_takes_may_bend_with_its_size() -> None:
    """Straight between two sizes that are named, level beyond them; full batches are of the most there is."""
    for limit, seconds in ((1, 0.0011), (2, 0.0015), (4, 0.0023), (8, 0.0027)):
        solved = batch_server(60, 0.001, 0.0001, path_time=0.001, batch_limit=limit, bends=[(1, 0.0), (4, 0.0009)])
        assert solved.throughput == pytest.approx(limit / seconds, rel=1e-3)
    lower = batch_server(60, 0.001, 0.0001, path_time=0.001, batch_limit=8, bends=[(1, -0.0002)])
    assert lower.throughput == pytest.approx(8 / 0.0016, rel=1e-3)


def test_a_second_client_keeps_the_server_awake() -> None:
    """Alone everybody waits for the waking too; so two may get more than twice as much."""
    one, two = (batch_server(n, 0.0001, 0.00001, path_time=0.0001, wake_time=0.001) for n in (1, 2))
    assert one.response_time == pytest.approx(0.00121)
    assert two.throughput > 2.2 * one.throughput
    assert batch_server(2, 0.0001, 0.00001, path_time=0.0001).response_time < two.response_time


times = st.floats(1e-5, 1e-2)


@given(a=times, b=times, path=times, handling=times, visits=st.floats(0.1, 1.0), limit=st.integers(1, 40))
def test_no_law_is_broken(a: float, b: float, path: float, handling: float, visits: float, limit: int) -> None:
    """More clients never get less; nothing is busy for more than all the time; nobody waits for less than nothing."""
    before = 0.0
    for clients in (1, 2, 5, 17):
        solved = batch_server(clients, a, b, path_time=path, handling_time=handling, visits=visits, batch_limit=limit)
        assert solved.throughput >= before * (1 - 1e-4)
        assert 0 < solved.utilization <= 1 + 1e-9
        assert 0 < solved.handling_utilization <= 1 + 1e-4  # times are rounded where it is asked who came meanwhile
        assert 1 - 1e-9 <= solved.mean_batch <= min(limit, clients) + 1e-9
        assert solved.response_time >= path + handling + visits * (a + b) - 1e-9
        assert solved.throughput * visits * (a + b * limit) / limit <= 1 + 1e-9
        before = solved.throughput


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"population": 0}, "population"),
        ({"batch_time": 0.0, "request_time": 0.0}, "batch_time"),
        ({"batch_time": -1.0}, "batch_time"),
        ({"path_time": 0.0}, "path_time"),
        ({"handling_time": -1.0}, "handling_time"),
        ({"visits": 1.5}, "visits"),
        ({"batch_limit": 0}, "batch_limit"),
        ({"scv": np.nan}, "scv"),
        ({"wake_time": -0.1}, "wake_time"),
        ({"bends": [(2, 0.0), (1, 0.0)]}, "bends"),
        ({"shape": [(1.0, 0.5), (-1.0, 0.5)]}, "shape"),
        ({"shape": [(1.0, 0.0)]}, "shape"),
        ({"shape": [(0.0, 1.0)]}, "shape"),
        ({"shape": [(float("inf"), 1.0)]}, "shape"),
        ({"bends": [(0, 0.0)]}, "bends"),
        ({"bends": [(1, -0.5)]}, "bends"),
    ],
)
def test_what_cannot_be_is_an_error_that_names_it(arguments: dict[str, float], named: str) -> None:
    """And nothing is computed."""
    whole = {"population": 4, "batch_time": 0.001, "request_time": 0.0001, "path_time": 0.001} | arguments
    with pytest.raises(BadArgument, match=named):
        batch_server(**whole)  # type: ignore[arg-type]
