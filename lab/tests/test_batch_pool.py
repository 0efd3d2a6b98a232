"""Tests several servers of batches against closed forms, a simulation, and textbooks for batches of one request."""

import random
from itertools import pairwise

import pytest
from simulated import SimulatedTrial, System

from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing import Station, batch_pool, batch_server, solve
from posthaste_lab.stats import MeanInterval, mean_interval


def test_one_server_is_the_server_of_batches() -> None:
    """Exactly."""
    for clients in (1, 5, 30):
        alone = batch_server(clients, 0.001, 0.0001, path_time=0.002, visits=0.7, scv=0.5)
        assert batch_pool(clients, 1, 0.001, 0.0001, path_time=0.002, visits=0.7, scv=0.5) == alone


def test_batches_of_one_are_the_pool_of_the_books() -> None:
    """With and without a place where requests are handled one at a time."""
    pool = batch_pool(20, 4, 0.01, 0.0, batch_limit=1, think_time=0.05, path_time=0.01)
    book = solve([Station("pool", 0.01, "multi", servers=4), Station("way", 0.01, "delay")], 20, think_time=0.05)
    assert pool.throughput == pytest.approx(book.throughput[-1])
    assert pool.response_time == pytest.approx(book.response_time[-1])
    assert pool.utilization == pytest.approx(book.utilization["pool"][-1])
    handled = batch_pool(200, 4, 0.001, 0.0, batch_limit=1, path_time=0.01, handling_time=0.001)
    assert handled.throughput == pytest.approx(1000, rel=1e-3)
    assert handled.handling_utilization == pytest.approx(1, rel=1e-3)


def test_one_worker_of_one_request_is_of_the_same_law_as_several() -> None:
    """Exponential: of constant times, which are those of larger batches, it would serve 5 % more."""
    one = batch_pool(8, 1, 0.001, 0.0, batch_limit=1, path_time=0.007, scv=1e-5)
    book = solve([Station("worker", 0.001), Station("way", 0.007, "delay")], 8)
    assert one.throughput == pytest.approx(book.throughput[-1])
    assert one.throughput == pytest.approx(821.2, abs=0.1)
    assert one.utilization == pytest.approx(book.utilization["worker"][-1])


def test_one_worker_of_one_request_is_woken_by_those_who_find_nobody() -> None:
    """A client alone each time; of many hardly one."""
    alone, many = (batch_pool(n, 1, 0.001, 0.0, batch_limit=1, path_time=0.001, wake_time=0.003) for n in (1, 50))
    assert alone.response_time == pytest.approx(0.005)
    assert many.throughput == pytest.approx(1000, rel=1e-3)


def test_workers_who_hinder_each_other_reach_a_limit_that_more_of_them_do_not_move() -> None:
    """One over the contention."""
    for servers in (32, 64):
        solved = batch_pool(400, servers, 0.0001, 0.0, contention=0.0001, batch_limit=1, path_time=0.0001)
        assert solved.throughput == pytest.approx(10_000, rel=0.01)


def test_the_same_question_has_the_same_answer() -> None:
    """Though the system is simulated."""
    first = batch_pool(30, 4, 0.01, 0.0001, path_time=0.001, visits=0.8, scv=0.4)
    assert batch_pool(30, 4, 0.01, 0.0001, path_time=0.001, visits=0.8, scv=0.4) == first


def test_a_whole_number_of_servers_may_be_written_with_a_point() -> None:
    """As everywhere: 2.0 are two."""
    for limit in (1, None):
        two = batch_pool(10, 2, 0.01, 0.001, path_time=0.01, batch_limit=limit)
        assert batch_pool(10, 2.0, 0.01, 0.001, path_time=0.01, batch_limit=limit) == two  # type: ignore[arg-type]


def test_full_batches_at_all_servers_are_the_most_there_is() -> None:
    """They answer m B / (a + b B)."""
    solved = batch_pool(200, 4, 0.001, 0.0001, path_time=0.001, batch_limit=8)
    assert solved.throughput == pytest.approx(4 * 8 / 0.0018, rel=0.01)
    assert solved.mean_batch == pytest.approx(8, rel=0.01)
    assert solved.utilization == pytest.approx(1, rel=0.01)


SYSTEMS = {
    "busy": (48, System(batch=0.002, request=0.0001, path=0.0005, servers=4), 0.01),
    "half busy": (8, System(batch=0.002, request=0.0001, path=0.004, servers=4), 0.01),
    "idle": (2, System(batch=0.002, request=0.0001, path=0.004, servers=4), 0.01),
    "hindering": (48, System(batch=0.002, request=0.0001, path=0.0005, servers=4, contention=0.0005), 0.02),
    "handled and passed by": (
        20,
        System(batch=0.002, request=0.0001, path=0.001, handling=0.0002, visits=0.6, servers=4, scv=0.5),
        0.01,
    ),
    "handled in turns": (
        20,
        # So short a reserve changes only that one server takes all who come together, and not each server one of them.
        System(
            batch=0.002, request=0.0001, path=0.001, handling=0.00005, together=0.0003, visits=0.6, servers=4,
            reserve=1e-6,
        ),
        0.01,
    ),
    "one at a time, handled in turns": (
        24,
        System(
            batch=0.001, request=0.0, path=0.001, handling=0.00005, together=0.0002, servers=8, scv=1.0, limit=1
        ),
        0.06,  # as much as is admitted where both are busy all the time
    ),
    "one at a time": (24, System(batch=0.002, request=0.0, path=0.002, servers=8, scv=1.0, limit=1), 0.01),
    "one at a time, hindering": (
        24,
        System(batch=0.001, request=0.0, path=0.001, servers=8, scv=1.0, limit=1, contention=0.0003),
        0.02,
    ),
    "with a reserve": (
        48, System(batch=0.002, request=0.0001, path=0.003, servers=4, contention=0.0005, reserve=0.001), 0.01,
    ),
    "with a reserve for full batches": (
        64, System(batch=0.001, request=0.00005, path=0.0005, servers=3, limit=12, scv=0.5, reserve=0.005), 0.02,
    ),
    "gathering": (24, System(batch=0.002, request=0.0001, path=0.0002, gather=0.0005), 0.01),
    "gathering some of them": (
        24, System(batch=0.001, request=0.0001, path=0.0002, think=0.0005, gather=0.0005, scv=0.3), 0.02,
    ),
    "gathering few of many": (
        80, System(batch=0.002, request=0.0001, path=0.001, handling=0.00002, gather=0.0005), 0.01,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_model_agrees_with_a_simulation(name: str) -> None:
    """Throughput lies within a percent or two of a 99.9 % interval over runs, which is known to a percent."""
    clients, system, slack = SYSTEMS[name]
    solved = batch_pool(
        clients,
        system.servers,
        system.batch,
        system.request,
        contention=system.contention,
        think_time=system.think,
        path_time=system.path,
        handling_time=system.handling,
        turn_time=system.together,
        visits=system.visits,
        batch_limit=system.limit,
        scv=system.scv,
        gather_time=system.gather,
        reserve_after=system.reserve,
    )
    interval = simulated_throughput(system, clients)
    assert interval.half_width < 0.01 * interval.mean
    assert interval.low - slack * interval.mean <= solved.throughput <= interval.high + slack * interval.mean


def simulated_throughput(system: System, clients: int) -> MeanInterval:
    """Over as many runs as it takes to know it to a percent."""
    rates, lasting = list[float](), max(3.0, 40 / clients)
    for seed in range(100):
        simulated = SimulatedTrial(system, clients, random.Random(seed))  # noqa: S311 - no secret
        simulated.run(0.2 + lasting)
        rates.append(sum(at >= 0.2 for at, _ in simulated.responses) / lasting)
        if len(rates) >= 6 and (known := mean_interval(rates, 0.999)).half_width < 0.01 * known.mean:
            break
    return mean_interval(rates, 0.999)


def test_a_server_that_waits_for_those_who_come_back_has_them_in_one_batch() -> None:
    """Two crowds become one; a client alone, who is the one waited for, is as fast as before, thinking or not."""
    crowds = batch_pool(12, 1, 0.001, 0.0, path_time=0.00002)
    one = batch_pool(12, 1, 0.001, 0.0, path_time=0.00002, gather_time=0.0005)
    assert crowds.mean_batch < 8
    assert one.mean_batch > 11.5
    assert one.throughput > 1.5 * crowds.throughput
    for think in (0.0, 0.05):
        alone = batch_pool(1, 1, 0.001, 0.0, path_time=0.001, think_time=think)
        waited = batch_pool(1, 1, 0.001, 0.0, path_time=0.001, think_time=think, gather_time=0.0005)
        assert waited.throughput == pytest.approx(alone.throughput, rel=0.02)


def test_uneven_batches_make_no_jumps_from_one_client_to_the_next() -> None:
    """Systems that differ by a client draw alike, and as many long batches as the distribution says."""
    rates = [batch_pool(n, 2, 1.0, 0.1, think_time=0.5, scv=10.0).throughput for n in range(8, 16)]
    assert all(after > before for before, after in pairwise(rates))
    assert rates[2] == pytest.approx(3.24, rel=0.05)  # as a play of a million requests has it


def test_a_distribution_of_its_own_is_simulated_too() -> None:
    """Even batches by another name are even; rare stalls of one server hold up half."""
    even = batch_pool(10, 2, 1.0, 0.1, think_time=0.5)
    assert batch_pool(10, 2, 1.0, 0.1, think_time=0.5, shape=[(2.0, 1.0)], scv=3.0) == even
    stalls = batch_pool(10, 2, 1.0, 0.1, think_time=0.5, shape=[(0.5, 0.98), (25.5, 0.02)])
    alone = batch_pool(10, 1, 1.0, 0.1, think_time=0.5, shape=[(0.5, 0.98), (25.5, 0.02)])
    assert alone.throughput < stalls.throughput < 1.1 * even.throughput


def test_more_clients_never_get_less_unless_servers_hinder_each_other() -> None:
    """And nothing is busy for more than all the time."""
    before = 0.0
    for clients in (1, 2, 4, 8, 16, 32, 64):
        solved = batch_pool(clients, 4, 0.001, 0.00005, path_time=0.0005)
        assert solved.throughput >= before * (1 - 0.01)
        assert 0 < solved.utilization <= 1 + 1e-9
        before = solved.throughput


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"servers": 0}, "servers"),
        ({"contention": -1.0}, "contention"),
        ({"gather_time": -1.0, "servers": 1}, "gather_time"),
        ({"reserve_after": -1.0}, "reserve_after"),
        ({"batch_limit": 1, "batch_time": 0.0, "request_time": 0.0}, "batch_time"),
        ({"batch_limit": 1, "path_time": 0.0}, "path_time"),
        ({"visits": 2.0}, "visits"),
    ],
)
def test_what_cannot_be_is_an_error_that_names_it(arguments: dict[str, float], named: str) -> None:
    """And nothing is computed."""
    whole = {"population": 4, "servers": 3, "batch_time": 0.001, "request_time": 0.0001, "path_time": 0.001} | arguments
    with pytest.raises(BadArgument, match=named):
        batch_pool(**whole)  # type: ignore[arg-type]
