"""Several classes, open networks, routing, repair, and the simulation that checks them all."""

import itertools
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthaste_lab import queueing
from posthaste_lab.queueing import BadArgument, Station, UnstableQueue


def test_several_classes_of_one_kind_are_one_class() -> None:
    """Splitting a population in two equal classes changes nothing."""
    one = queueing.solve([Station("a", 0.2), Station("b", 0.5), Station("net", 0.3, "delay")], 12, 1.5)
    two = queueing.solve_multiclass(
        [[0.2, 0.5, 0.3]] * 2, [5, 7], [1.5, 1.5], kinds=["queue", "queue", "delay"], names=["a", "b", "net"]
    )
    assert two.throughput.sum() == pytest.approx(one.throughput[-1])
    assert two.response_time == pytest.approx([one.response_time[-1]] * 2)
    assert two.station_utilization == pytest.approx([one.utilization[s][-1] for s in ("a", "b", "net")])
    assert two.bottleneck == "b"


def test_two_classes_of_lazowska() -> None:
    """Chapter 7: class A needs 1 s of CPU and 3 s of disk, B 2 and 4; one customer of each."""
    solved = queueing.solve_multiclass([[1, 3], [2, 4]], [1, 1])
    # By hand: alone, A is at the CPU for 1/4 of the time and at the disk for 3/4; B for 1/3 and 2/3.
    assert solved.residence_time[0] == pytest.approx([1 * (1 + 1 / 3), 3 * (1 + 2 / 3)])
    assert solved.residence_time[1] == pytest.approx([2 * (1 + 1 / 4), 4 * (1 + 3 / 4)])
    assert solved.throughput == pytest.approx([1 / (4 / 3 + 5), 1 / (2.5 + 7)])


@given(
    st.integers(1, 3).flatmap(
        lambda k: st.tuples(
            st.lists(st.lists(st.floats(0.01, 2), min_size=k, max_size=k), min_size=2, max_size=2),
            st.tuples(st.integers(0, 8), st.integers(1, 8)),
            st.tuples(st.floats(0, 5), st.floats(0, 5)),
        )
    )
)
def test_laws_hold_for_several_classes(
    case: tuple[list[list[float]], tuple[int, int], tuple[float, float]],
) -> None:
    """Little per class and station, nobody lost, no station beyond its speed; Schweitzer is near."""
    demands, people, think = case
    solved = queueing.solve_multiclass(demands, people, think)
    present = np.array(people) > 0
    inside = solved.queue_length.sum(axis=1) + solved.throughput * think
    np.testing.assert_allclose(inside[present], np.array(people)[present], rtol=1e-9)
    assert np.all(solved.station_utilization <= 1 + 1e-9)
    assert np.all(np.isnan(solved.response_time) == ~present)
    near = queueing.solve_multiclass(demands, people, think, method="schweitzer")
    np.testing.assert_allclose(near.throughput, solved.throughput, rtol=0.3)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (([1, 2], [1]), "demands"),
        (([[1.0, 2.0]], [1, 2]), "populations"),
        (([[1.0, 2.0]], [0]), "populations"),
        (([[1.0, -2.0]], [1]), "demands"),
        (([[0.0, 0.0]], [1]), "demands"),
        (([[1.0, 2.0]], [1], [1, 2]), "think_times"),
        (([[1.0, 2.0]] * 3, [300, 300, 300]), "populations"),
    ],
)
def test_classes_that_do_not_fit_are_refused(arguments: tuple[object, ...], argument: str) -> None:
    """With the name of the argument; too many mixes are an error that names the way out."""
    with pytest.raises(BadArgument) as caught:
        queueing.solve_multiclass(*arguments)  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_an_open_network_is_queues_side_by_side() -> None:
    """Jackson: each station as if alone."""
    solved = queueing.open_network(
        [Station("a", 0.1), Station.from_visits("b", 2, 0.15, "multi", 3), Station("net", 0.4, "delay")], 6.0
    )
    a, b = queueing.mm1(6, 10), queueing.mmm(12, 1 / 0.15, 3)
    assert solved.residence_time["a"] == pytest.approx(a.mean_response)
    assert solved.residence_time["b"] == pytest.approx(2 * b.mean_response)
    assert solved.queue_length["b"] == pytest.approx(b.mean_jobs)
    assert solved.utilization == pytest.approx({"a": 0.6, "b": 0.6, "net": 2.4})
    assert solved.response_time == pytest.approx(a.mean_response + 2 * b.mean_response + 0.4)
    assert solved.saturation == pytest.approx(1 / 0.6)


@given(st.floats(0.01, 0.97), st.integers(1, 30))
def test_speeds_of_several_servers_are_several_servers(load: float, m: int) -> None:
    """A load-dependent station whose speed is min(j, m) is one of m servers."""
    rate = load * m / 0.5
    pool = queueing.open_network([Station("x", 0.5, "multi", m)], rate)
    curve = queueing.open_network([Station("x", 0.5, "load_dependent", rates=tuple(range(1, m + 1)))], rate)
    assert curve.response_time == pytest.approx(pool.response_time, rel=1e-9)
    assert curve.utilization["x"] == pytest.approx(1 - queueing.mmm(rate, 2.0, m).p0, rel=1e-6)


def test_a_closed_network_of_many_who_think_long_is_an_open_one() -> None:
    """The limit both theories share."""
    stations = [Station("a", 0.1), Station("b", 0.25, "multi", 2)]
    closed = queueing.solve(stations, 2000, 2000 / 5.0)
    opened = queueing.open_network(stations, 5.0)
    assert closed.response_time[-1] == pytest.approx(opened.response_time, rel=5e-3)


def test_several_classes_share_an_open_network() -> None:
    """Residence is demand over what is left of the station: D / (1 - U)."""
    solved = queueing.open_network([Station("a", (0.1, 0.3)), Station("net", (1.0, 2.0), "delay")], [2.0, 1.0])
    assert solved.utilization["a"] == pytest.approx(0.5)
    assert solved.residence_time["a"] == pytest.approx([0.2, 0.6])
    assert solved.response_time == pytest.approx([1.2, 2.6])


def test_an_open_network_that_cannot_keep_up_is_refused() -> None:
    """At the station that would never be idle."""
    with pytest.raises(UnstableQueue, match="arrival_rate"):
        queueing.open_network([Station("a", 0.1), Station("b", 0.5, "multi", 2)], 4.0)
    with pytest.raises(BadArgument, match="demand"):
        queueing.open_network([Station("a", 0.1)], [1.0, 2.0])
    with pytest.raises(BadArgument, match="arrival_rate"):
        queueing.open_network([Station("a", 0.1)], 0)


def test_what_enters_a_station_has_left_another() -> None:
    """Or the routing is refused: one with a part that is never left had been answered with 10^16 visits of it."""
    rng, answered = np.random.default_rng(1), 0
    for _ in range(600):
        n = rng.integers(2, 6)
        routing = rng.random((n, n)) * (rng.random((n, n)) < 0.5)
        routing[routing.sum(axis=1) == 0, 0] = 1
        routing /= routing.sum(axis=1, keepdims=True)
        try:
            visits = queueing.visit_ratios(routing)
        except BadArgument:
            continue
        answered += 1
        assert visits[0] == pytest.approx(1)
        assert visits @ routing == pytest.approx(visits, rel=1e-6)
        assert visits.max() < 1e9
    assert answered > 100


def test_visit_ratios_of_a_central_server() -> None:
    """The CPU sends a request out with 1/8, to one disk with 5/8, to the other with 2/8."""
    closed = queueing.visit_ratios([[0.125, 0.625, 0.25], [1, 0, 0], [1, 0, 0]])
    assert closed == pytest.approx([1, 0.625, 0.25])
    opened = queueing.visit_ratios([[0, 0.625, 0.25], [1, 0, 0], [1, 0, 0]], external=[3, 0, 0])
    assert opened == pytest.approx([8, 5, 2])


@pytest.mark.parametrize(
    ("routing", "external", "argument"),
    [
        ([[0.5, 0.4], [1, 0]], None, "routing"),
        ([[1, 0], [0, 1]], None, "routing"),
        ([[0.5, 0.6], [0, 0]], [1, 0], "routing"),
        ([[0, 1], [1, 0]], [1, 0], "routing"),
        ([[0, -1], [1, 0]], None, "routing"),
        ([[0, 1]], None, "routing"),
        ([[0, 1], [0, 0]], [0, 0], "external"),
        ([[0, 1], [0, 0]], [1], "external"),
    ],
)
def test_a_routing_that_loses_or_traps_requests_is_refused(
    routing: list[list[float]], external: list[float] | None, argument: str
) -> None:
    """Rows that do not add up, parts that are never left."""
    with pytest.raises(BadArgument) as caught:
        queueing.visit_ratios(routing, external)
    assert caught.value.argument == argument


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.01, 10), st.floats(0.01, 10))
def test_laws_hold_for_machines(machines: int, crew: int, failure: float, repair: float) -> None:
    """Little, flow in equals flow out, probabilities; and the closed network it is."""
    model = queueing.machine_repair(machines, crew, failure, repair)
    assert sum(model.prob_jobs(n) for n in range(machines + 2)) == pytest.approx(1)
    assert model.throughput == pytest.approx(failure * model.mean_up)
    assert model.mean_response == pytest.approx(1 / repair + model.mean_wait)
    assert model.availability == pytest.approx(model.mean_up / machines)
    if machines > 1:  # one that breaks sees the others as they would be without it
        others = queueing.machine_repair(machines - 1, crew, failure, repair)
        assert model.p_wait == pytest.approx(sum(others.prob_jobs(n) for n in range(crew, machines)), abs=1e-9)
    station = Station("crew", 1 / repair, "multi", crew)
    closed = queueing.solve([station], machines, 1 / failure)
    assert closed.throughput[-1] == pytest.approx(model.throughput)
    assert closed.queue_length["crew"][-1] == pytest.approx(model.mean_jobs)


@pytest.mark.parametrize("machines", [1000, 8_786, 1_000_000])
@pytest.mark.parametrize("failure", [1e3, 1e5, 1e10])
def test_machines_that_are_hardly_ever_up_are_so_for_a_positive_time(machines: int, failure: float) -> None:
    """All repairers are busy then, so that as many break as they mend: a share of 10^-16, not one below 0."""
    model = queueing.machine_repair(machines, 3, failure, 2.0)
    assert model.mean_up == pytest.approx(6 / failure, rel=1e-12)
    assert model.availability == pytest.approx(6 / failure / machines, rel=1e-12)
    assert model.throughput == pytest.approx(6, rel=1e-12)
    assert model.mean_jobs <= machines
    assert model.p_wait <= 1
    assert sum(model.probabilities) == pytest.approx(1, rel=1e-12)


def test_one_machine_is_up_and_down() -> None:
    """Availability is up time over both."""
    model = queueing.machine_repair(1, 1, 0.1, 0.4)
    assert model.availability == pytest.approx(0.8)
    assert model.p_wait == 0


CASES = {
    "mm1": lambda: queueing.mm1(6, 10),
    "mmm": lambda: queueing.mmm(24, 10, 4),
    "mmmk": lambda: queueing.mmmk(30, 10, 2, 5),
    "mg1": lambda: queueing.mg1(6, 0.1, 0.3),
    "constant": lambda: queueing.mg1(6, 0.1, 0),
    "side by side": lambda: queueing.parallel_mm1(18, 10, 3),
    "closed": lambda: queueing.solve(
        [
            Station("a", 0.02),
            Station("b", 0.08, "multi", 3),
            Station("c", 0.03, "load_dependent", rates=(1, 1.4, 1.2)),
            Station("net", 0.1, "delay"),
        ],
        10,
        0.2,
    ),
    "open": lambda: queueing.open_network([Station("a", 0.1), Station("b", 0.3, "multi", 3)], 6.0),
    "open classes": lambda: queueing.open_network(
        [Station("a", (0.1, 0.05)), Station("b", (0.3, 0.2), "multi", 3)], [3.0, 4.0]
    ),
    "classes": lambda: queueing.solve_multiclass([[0.1, 0.2], [0.3, 0.05]], [3, 4], [1, 2]),
    "repair": lambda: queueing.machine_repair(12, 2, 0.1, 0.5),
}


@pytest.mark.parametrize("model", CASES.values(), ids=CASES.keys())
def test_a_simulation_agrees(model: object) -> None:
    """Every figure of every kind of model lies in the interval of runs that know no formula."""
    result = queueing.simulate(model(), completions=3000, repetitions=6, seed=7, confidence=0.999)  # type: ignore[operator]
    assert not result.disagreements(), result.table()
    assert result.table().columns == ["figure", "model", "simulated", "low", "high", "agrees"]


def test_a_simulation_finds_a_model_that_is_wrong() -> None:
    """Figures of another queue do not pass: here the service rate was taken for that of all servers together."""
    right, wrong = queueing.mmm(24, 10, 4), queueing.mm1(24, 40)
    simulation = queueing.simulate(right, completions=3000, repetitions=6)
    figures = {f.name: f for f in simulation.figures}
    response = replace(figures["response time"], model=wrong.mean_response)
    assert not response.agrees
    told = replace(simulation, figures=tuple((figures | {"response time": response}).values()))
    assert told.disagreements() == (*simulation.disagreements(), response)
    assert told.table().filter(~pl.col("agrees"))["figure"].to_list() == [f.name for f in told.disagreements()]


def test_a_simulation_repeats_itself_from_its_seed() -> None:
    """The same seed, the same figures; another seed, others; and one run alone has no interval."""
    runs = [
        queueing.simulate(queueing.mm1(5, 10), completions=200, repetitions=2, seed=seed).figures for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert all(a != b for a, b in itertools.pairwise(runs[1:]))
    with pytest.raises(BadArgument, match="repetitions"):
        queueing.simulate(queueing.mm1(5, 10), repetitions=1)


def test_nobody_who_never_comes_is_simulated() -> None:
    """A class without arrivals is not compared, and keeps nothing from being simulated but where there is no other."""
    stations = [queueing.Station("cpu", (0.1, 0.3))]
    figures = queueing.simulate(queueing.open_network(stations, [5, 0]), completions=3000, seed=7).figures
    assert [figure.name for figure in figures] == ["response time of class 1", "mean number cpu"]
    assert all(figure.agrees for figure in figures)
    with pytest.raises(BadArgument, match="arrival_rate = 0"):
        queueing.simulate(queueing.mm1(0, 5))
