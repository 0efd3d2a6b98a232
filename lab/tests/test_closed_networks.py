"""Tests closed networks: textbook figures, and three solvers against each other and an enumeration of all states."""

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthaste_lab import queueing
from posthaste_lab.queueing import BadArgument, ClosedNetwork, Station
from posthaste_lab.queueing.closed import Method

demands = st.floats(1e-4, 10)
plain_or_delay = st.builds(
    lambda demand, kind: (demand, kind, 1, None), demands, st.sampled_from(["queue", "queue", "delay"])
)
multi = st.builds(lambda demand, servers: (demand, "multi", servers, None), demands, st.integers(1, 20))
dependent = st.builds(
    lambda demand, rates: (demand, "load_dependent", 1, tuple(rates)),
    demands,
    st.lists(st.floats(0.2, 8), min_size=1, max_size=6),
)


def network(parts: Iterable[tuple[float, str, int, tuple[float, ...] | None]]) -> list[Station]:
    """Stations with names."""
    return [Station(f"s{i}", d, kind, m, rates) for i, (d, kind, m, rates) in enumerate(parts)]  # type: ignore[arg-type]


fixed_networks = st.lists(plain_or_delay, min_size=1, max_size=5).map(network)
any_networks = st.lists(st.one_of(plain_or_delay, multi, dependent), min_size=1, max_size=4).map(network)
think_times = st.one_of(st.just(0.0), st.floats(0.01, 50))


def compositions(total: int, parts: int) -> Iterable[tuple[int, ...]]:
    """All ways to place customers at stations."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def counted(stations: list[Station], population: int, think: float) -> tuple[float, list[float]]:
    """Throughput and queue lengths from the product form, every state by itself."""
    speeds = [s.speeds(population).tolist() for s in stations]
    work = [s.single_demand for s in stations]
    if think:
        speeds, work = [*speeds, list(range(1, population + 1))], [*work, think]

    def weight(k: int, n: int) -> float:
        return math.prod(float(work[k] / speeds[k][j]) for j in range(n))

    def states(n: int) -> list[tuple[tuple[int, ...], float]]:
        return [
            (state, math.prod(weight(k, there) for k, there in enumerate(state)))
            for state in compositions(n, len(work))
        ]

    now, before = states(population), states(population - 1)
    total = sum(w for _, w in now)
    lengths = [sum(state[k] * w for state, w in now) / total for k in range(len(stations))]
    return sum(w for _, w in before) / total, lengths


def same(a: ClosedNetwork, b: ClosedNetwork, rel: float) -> None:
    """Two solutions agree, at every population and station."""
    np.testing.assert_allclose(a.throughput, b.throughput, rtol=rel)
    np.testing.assert_allclose(a.response_time, b.response_time, rtol=rel, atol=1e-12)
    for name in a.queue_length:
        np.testing.assert_allclose(a.queue_length[name], b.queue_length[name], rtol=rel, atol=1e-9)
        np.testing.assert_allclose(a.utilization[name], b.utilization[name], rtol=rel, atol=1e-9)


def test_the_central_server_of_jain() -> None:
    """Section 34.2: a timesharing system, 20 users who think 4 seconds, visits 16, 10, 5 to CPU and two disks."""
    stations = [
        Station.from_visits("cpu", 16, 0.125),
        Station.from_visits("disk A", 10, 0.3),
        Station.from_visits("disk B", 5, 0.2),
    ]
    solved = queueing.solve(stations, 20, 4.0)
    assert solved.response_time[0] == pytest.approx(6)
    assert solved.throughput[0] == pytest.approx(0.1)
    assert solved.response_time[1] == pytest.approx(7.4)
    assert solved.throughput[1] == pytest.approx(2 / 11.4)
    assert solved.bottleneck == "disk A"
    assert solved.throughput[-1] == pytest.approx(1 / 3, rel=1e-3)
    assert solved.utilization["disk A"][-1] == pytest.approx(1, rel=1e-3)


def test_the_bounds_of_jain() -> None:
    """Section 33.6: for the same system, X is at most 1/3, R at least 3N - 4, and the knee is at 10/3 users."""
    stations = [Station("cpu", 2.0), Station("disk A", 3.0), Station("disk B", 1.0)]
    limits = queueing.bounds(stations, 20, 4.0)
    np.testing.assert_allclose(limits.asymptotic.throughput_upper, np.minimum(np.arange(1, 21) / 10, 1 / 3))
    np.testing.assert_allclose(limits.asymptotic.response_lower, np.maximum(6, 3 * np.arange(1, 21) - 4))
    assert limits.knee == pytest.approx(10 / 3)


def test_lazowska_s_balanced_bounds_hold_their_own_network_exactly() -> None:
    """With equal demands and no think time, both balanced-job bounds meet at N / (D (N + K - 1) / K)."""
    limits = queueing.bounds([Station(f"disk {i}", 0.5) for i in range(4)], 30)
    n = np.arange(1, 31)
    np.testing.assert_allclose(limits.balanced.throughput_upper, n / (0.5 * (n + 3)))
    np.testing.assert_allclose(limits.balanced.throughput_lower, n / (0.5 * (n + 3)))


@given(fixed_networks, think_times, st.integers(1, 60))
def test_convolution_is_mean_value_analysis(stations: list[Station], think: float, population: int) -> None:
    """Two methods that share nothing but the product form."""
    same(queueing.solve(stations, population, think), queueing.convolution(stations, population, think), 1e-9)


@given(any_networks, think_times, st.integers(1, 6))
def test_every_state_counted_by_itself_gives_the_same(stations: list[Station], think: float, population: int) -> None:
    """Small cases by brute force, for stations of all kinds."""
    solved = queueing.solve(stations, population, think)
    throughput, lengths = counted(stations, population, think)
    assert solved.throughput[-1] == pytest.approx(throughput, rel=1e-9)
    for station, length in zip(stations, lengths, strict=True):
        assert solved.queue_length[station.name][-1] == pytest.approx(length, rel=1e-8, abs=1e-12)


@given(any_networks, think_times, st.integers(1, 80))
def test_laws_and_bounds_hold(stations: list[Station], think: float, population: int) -> None:
    """Little, the response time shares, utilization, nobody lost, and the bounds contain the solution."""
    solved = queueing.solve(stations, population, think)
    limits = queueing.bounds(stations, population, think)
    n, x = solved.population, solved.throughput
    np.testing.assert_allclose(solved.response_time, n / x - think, rtol=1e-7, atol=1e-9 * think)
    lost = n - sum(solved.queue_length.values()) - x * think
    np.testing.assert_allclose(lost, 0, atol=1e-7 * population)
    for station in stations:
        name = station.name
        np.testing.assert_allclose(solved.queue_length[name], x * solved.residence_time[name], rtol=1e-9)
        if station.kind in ("queue", "multi"):
            np.testing.assert_allclose(solved.utilization[name], x * station.single_demand / station.servers)
            assert np.all(solved.utilization[name] <= 1 + 1e-9)
        shares = solved.distribution(name)
        assert shares.sum() == pytest.approx(1)
        assert np.all(shares >= 0)
        assert shares @ np.arange(len(shares)) == pytest.approx(solved.queue_length[name][-1], rel=1e-7, abs=1e-9)
    assert np.all(x <= limits.throughput_upper * (1 + 1e-9))
    assert np.all(x >= limits.throughput_lower * (1 - 1e-9))
    assert np.all(solved.response_time <= limits.response_upper * (1 + 1e-9) + 1e-9 * (1 + think))
    assert np.all(solved.response_time >= limits.response_lower * (1 - 1e-9) - 1e-9 * (1 + think))


@given(st.lists(st.one_of(plain_or_delay, multi), min_size=1, max_size=4).map(network), think_times)
def test_more_customers_never_lower_throughput(stations: list[Station], think: float) -> None:
    """Where speeds do not fall with the load."""
    x = queueing.solve(stations, 120, think).throughput
    assert np.all(np.diff(x) >= -1e-9 * x[:-1])


def textbook(station: Station, think: float, population: int) -> float:
    """Throughput by mean value analysis as the books extend it for several servers: P(0) is 1 less all the others."""
    shares = [1.0]
    x = 0.0
    for n in range(1, population + 1):
        speeds = station.speeds(n)
        response = sum(station.single_demand * j / speeds[j - 1] * shares[j - 1] for j in range(1, n + 1))
        x = n / (think + response)
        rest = [station.single_demand / speeds[j - 1] * x * shares[j - 1] for j in range(1, n + 1)]
        shares = [1 - sum(rest), *rest]
    return x


@given(multi, st.floats(0.1, 20), st.integers(1, 12))
def test_convolution_is_the_books_recursion_while_that_works(
    part: tuple[float, str, int, None], think: float, population: int
) -> None:
    """For few customers the two agree, so what differs later is rounding, not the model."""
    (station,) = network([part])
    solved = queueing.solve([station], population, think)
    assert solved.throughput[-1] == pytest.approx(textbook(station, think, population), rel=1e-6)


def test_the_books_recursion_fails_where_this_does_not() -> None:
    """With 140 customers it ends below zero, or far off; a reason to have another, and to keep it."""
    station = Station("db", 2.5, "multi", 12)
    assert textbook(station, 20.0, 60) == pytest.approx(queueing.solve([station], 60, 20.0).throughput[-1], rel=1e-9)
    assert not 4.7 < textbook(station, 20.0, 140) < 4.9


def test_twelve_servers_and_140_customers() -> None:
    """Where the textbook's recursion ends in a throughput below zero, this one has seven digits."""
    solved = queueing.solve([Station("db", 2.5, "multi", 12)], 140, 20.0)
    assert solved.throughput[-1] == pytest.approx(4.7995, abs=5e-5)
    assert solved.response_time[-1] == pytest.approx(9.1695, abs=5e-5)


def test_a_thousand_clients_and_500_servers() -> None:
    """Against the birth-death chain of one station with think time, in logarithms of its own."""
    solved = queueing.solve([Station("pool", 2.5, "multi", 500)], 1000, 1.0)
    chain = queueing.machine_repair(1000, 500, 1.0, 1 / 2.5)
    assert solved.throughput[-1] == pytest.approx(chain.throughput, rel=1e-9)
    assert solved.queue_length["pool"][-1] == pytest.approx(chain.mean_jobs, rel=1e-9)
    np.testing.assert_allclose(solved.distribution("pool"), chain.probabilities, atol=1e-10)


def test_a_distribution_beside_delays_is_told_of_a_million_customers() -> None:
    """Delays are think time: with two of them it is the one of a network without, and takes seconds, not hours."""
    disk, most = Station("disk", 2e-6), 1_000_000
    delayed = queueing.solve([disk, Station("way", 0.5, "delay"), Station("back", 1.0, "delay")], most, 0.5)
    shares = delayed.distribution("disk")
    np.testing.assert_allclose(shares, queueing.solve([disk], most, 2.0).distribution("disk"), atol=1e-12)
    assert shares @ np.arange(len(shares)) == pytest.approx(delayed.queue_length["disk"][-1], rel=1e-6)


def test_ten_stations_three_of_them_of_many_servers() -> None:
    """At 1000 customers: several servers in one place, the same as load-dependent speeds."""
    plain = [Station(f"disk {i}", 0.001 * (i + 1)) for i in range(7)]
    pools = [Station(f"pool {i}", 0.02 * (i + 1), "multi", 8 * (i + 1)) for i in range(3)]
    speeds = [Station(s.name, s.demand, "load_dependent", rates=tuple(range(1, s.servers + 1))) for s in pools]
    a, b = queueing.solve(plain + pools, 1000, 1.0), queueing.solve(plain + speeds, 1000, 1.0)
    np.testing.assert_allclose(a.throughput, b.throughput, rtol=1e-12)
    assert a.throughput[-1] == pytest.approx(1 / 0.007, rel=1e-9)
    assert a.bottleneck == "disk 6"


def test_ten_thousand_clients_of_fixed_rate_stations() -> None:
    """Both exact methods to ten digits, where numbers span thousands of orders of magnitude."""
    stations = [*(Station(f"disk {i}", 10.0**-i) for i in range(6)), Station("network", 0.3, "delay")]
    same(queueing.solve(stations, 10_000, 5.0), queueing.convolution(stations, 10_000, 5.0), 1e-9)


def test_as_many_servers_as_customers_are_a_delay() -> None:
    """And one server is a plain queue."""
    rest = [Station("disk", 0.4), Station("cpu", 0.1)]
    a = queueing.solve([*rest, Station("x", 2.0, "multi", 30)], 30)
    b = queueing.solve([*rest, Station("x", 2.0, "delay")], 30)
    np.testing.assert_allclose(a.throughput, b.throughput, rtol=1e-9)
    np.testing.assert_allclose(a.queue_length["x"], b.queue_length["x"], rtol=1e-9)
    c = queueing.solve([*rest, Station("x", 2.0, "multi", 1)], 30)
    d = queueing.solve([*rest, Station("x", 2.0)], 30)
    same(c, d, 1e-12)


@given(st.lists(st.one_of(plain_or_delay, multi), min_size=1, max_size=5).map(network), think_times)
def test_schweitzer_is_near(stations: list[Station], think: float) -> None:
    """Within some percent for plain queues, within a third at the knee of many servers; exact for one customer."""
    near, right = queueing.solve(stations, 50, think, "schweitzer"), queueing.solve(stations, 50, think)
    few = all(station.servers == 1 for station in stations)
    assert near.throughput[0] == pytest.approx(right.throughput[0])
    np.testing.assert_allclose(near.throughput, right.throughput, rtol=0.08 if few else 0.35)
    np.testing.assert_allclose(near.response_time, near.population / near.throughput - think, atol=1e-6 * (1 + think))


def test_schweitzer_satisfies_its_own_equation() -> None:
    """R = D (1 + (N-1)/N Q) at each queue: the fixed point, not just a number near it."""
    stations = [Station("a", 0.5), Station("b", 0.8), Station("c", 0.1)]
    solved = queueing.solve(stations, 25, 2.0, "schweitzer")
    n = solved.population
    for station in stations:
        expected = station.single_demand * (1 + (n - 1) / n * solved.queue_length[station.name])
        np.testing.assert_allclose(solved.residence_time[station.name], expected, rtol=1e-9)


def test_what_if_answers_with_a_new_solution() -> None:
    """Halving the bottleneck moves it elsewhere; the old solution stays as it was."""
    old = queueing.solve([Station("db", 0.8), Station("cpu", 0.5)], 40, 1.0)
    new = old.what_if("db", demand=0.4)
    assert (old.bottleneck, new.bottleneck) == ("db", "cpu")
    assert new.throughput[-1] == pytest.approx(2.0, rel=1e-3)
    assert old.throughput[-1] == pytest.approx(1.25, rel=1e-3)
    two = old.what_if("db", servers=2)
    assert two.throughput[-1] == pytest.approx(2.0, rel=1e-3)
    same(two.what_if("db", servers=1), old, 1e-12)
    assert old.what_if("cpu", kind="delay").bottleneck == "db"
    assert len(old.what_if("db", population=7, think_time=0).throughput) == 7
    curved = old.what_if("db", rates=[1, 1.5])
    assert curved.throughput[-1] == pytest.approx(1.5 / 0.8, rel=0.01)
    with pytest.raises(BadArgument, match="disk"):
        old.what_if("disk", demand=1)


def test_a_station_that_nobody_needs_changes_nothing() -> None:
    """A demand of 0 is an unused station."""
    stations = [Station("a", 0.5), Station("b", 0.2, "multi", 3)]
    unused = [Station("q", 0.0), Station("d", 0.0, "delay"), Station("m", 0.0, "multi", 4)]
    methods: tuple[Method, ...] = ("exact", "schweitzer", "convolution")
    for method in methods:
        a = queueing.solve(stations, 20, 1.0, method)
        b = queueing.solve(stations + unused, 20, 1.0, method)
        np.testing.assert_allclose(a.throughput, b.throughput, rtol=1e-12)
        assert all(np.allclose(b.queue_length[s.name], 0) for s in unused)


def test_interactive_law() -> None:
    """R = N/X - Z, and figures that cannot belong together are refused."""
    assert queueing.interactive_response_time(192, 10_181) == pytest.approx(0.018859, abs=1e-6)
    assert queueing.interactive_response_time(100, 10, 4) == 6
    with pytest.raises(BadArgument, match="think_time"):
        queueing.interactive_response_time(10, 10, 2)
    with pytest.raises(BadArgument, match="throughput"):
        queueing.interactive_response_time(10, 0)


def test_interactive_law_of_a_whole_curve() -> None:
    """Arrays give an array, and a number beside them holds for all; a wrong figure among them is refused as alone."""
    net = queueing.solve([Station("cpu", 0.01), Station("disk", 0.02)], 50, 1)
    found = queueing.interactive_response_time(net.population, net.throughput, 1)
    assert isinstance(found, np.ndarray)
    assert found == pytest.approx(net.response_time)
    assert np.array_equal(queueing.interactive_response_time([100, 50], 10, [4, 3]), [6, 2])
    assert isinstance(queueing.interactive_response_time(np.float64(100), np.array(10)), float)
    for argument, figures in (
        ("throughput", ([1, 2], [1, 2, 3], 0)),
        ("population", ([1, math.nan], 1, 0)),
        ("think_time", ([30, 10], 10, 2)),
    ):
        with pytest.raises(BadArgument) as caught:
            queueing.interactive_response_time(*figures)
        assert caught.value.argument == argument
    for wrong in ([], [[1], [1, 2]], ["fast"], [0.0, 1.0], [-1.0, 1.0], [math.inf], {1: 2}):
        with pytest.raises(BadArgument, match="throughput"):
            queueing.interactive_response_time(1, wrong)  # type: ignore[arg-type]


def test_a_table_of_speeds_may_have_gaps() -> None:
    """Between measurements it is a line or a step; the caller chooses."""
    table = {1: 1.0, 4: 2.5, 6: 2.0}
    assert queueing.rates_from_table(table) == pytest.approx((1.0, 1.5, 2.0, 2.5, 2.25, 2.0))
    assert queueing.rates_from_table(table, gaps="step") == (1.0, 1.0, 1.0, 2.5, 2.5, 2.0)
    with pytest.raises(BadArgument, match="table"):
        queueing.rates_from_table({2: 1.0})


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Station("a", -1), "demand"),
        (lambda: Station("a", 1, "magic"), "kind"),  # type: ignore[arg-type]
        (lambda: Station("a", 1, "queue", 2), "servers"),
        (lambda: Station("a", 1, "load_dependent"), "rates"),
        (lambda: Station("a", 1, rates=(1.0,)), "rates"),
        (lambda: Station("a", 1, "load_dependent", rates=(1.0, 0.0)), "rates"),
        (lambda: queueing.solve([], 5), "stations"),
        (lambda: queueing.solve([Station("a", 1), Station("a", 2)], 5), "stations"),
        (lambda: queueing.solve([Station("a", 0)], 5), "stations"),
        (lambda: queueing.solve([Station("a", 1)], 0), "population"),
        (lambda: queueing.solve([Station("a", 1)], 5, -1), "think_time"),
        (lambda: queueing.solve([Station("a", 1)], 5, method="best"), "method"),  # type: ignore[arg-type]
        (lambda: queueing.solve([Station("a", 1, "load_dependent", rates=(1.0,))], 5, method="schweitzer"), "method"),
        (lambda: queueing.solve([Station("a", (1.0, 2.0))], 5), "demand"),
        (lambda: queueing.bounds([Station("a", 0)], 5), "stations"),
    ],
)
def test_a_network_that_cannot_be_is_refused(call: object, argument: str) -> None:
    """With the name of what is wrong."""
    with pytest.raises(BadArgument) as caught:
        call()  # type: ignore[operator]
    assert caught.value.argument == argument


def test_knee_and_bottleneck_do_not_depend_on_how_many_clients_were_asked_about() -> None:
    """Of 2 s at ten servers and 1 s at one, the one is in the way, though of a single client nobody sees it."""
    stations = [Station("many", 2.0, "multi", servers=10), Station("one", 1.0)]
    for population in (1, 2, 40):
        assert queueing.solve(stations, population).bottleneck == "one"
        assert queueing.bounds(stations, population).knee == pytest.approx(3.0)
    assert queueing.solve([Station("a", 1.0, "delay"), Station("b", 2.0, "delay")], 3).bottleneck == "b"


def test_a_station_that_many_slow_down_is_the_bottleneck_by_what_is_left_of_its_speed() -> None:
    """Not by the four times that it reaches with two customers: throughput ends at 1 a second, not at 2."""
    crowded = Station("crowded", 1.0, "load_dependent", rates=(1, 4, 1))
    solved = queueing.solve([crowded, Station("other", 0.5)], population=100)
    assert solved.bottleneck == "crowded"
    assert solved.throughput[-1] == pytest.approx(1.0)
    assert solved.utilization["other"][-1] == pytest.approx(0.5)
