"""Tests that figures beyond any system are refused by name, or answered rightly, but never end in another error."""

import math
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest

from posthaste_lab import factorial, laws, queueing, stats
from posthaste_lab.checks import LARGEST, LEAST
from posthaste_lab.queueing import BadArgument, Station

REFUSED: list[tuple[Callable[[], object], str, str]] = [
    (lambda: queueing.mm1(0.5, 1e308), "service_rate", "1e+50"),
    (lambda: queueing.mm1(1e-320, 1e-308), "service_rate", "1e-50"),
    (lambda: queueing.mmm(0.5, 1e308, 2), "service_rate", "1e+50"),
    (lambda: queueing.mmm(0.5, 1, 10**308), "servers", "9,007,199,254,740,992"),
    (lambda: queueing.mmmk(0.5, 1e308, 2, 5), "service_rate", "1e+50"),
    (lambda: queueing.mmmk(3, 1e-320, 2, 5), "service_rate", "1e-50"),
    (lambda: queueing.parallel_mm1(0.5, 1e308, 2), "service_rate", "1e+50"),
    (lambda: queueing.mg1(0.5, 1, 1e308), "scv", "1e+50"),
    (lambda: queueing.machine_repair(5, 10**308, 1, 1), "repairers", "9,007,199,254,740,992"),
    (lambda: queueing.machine_repair(5, 1, 1e308, 1), "failure_rate", "1e+50"),
    (lambda: queueing.open_network([Station("cpu", 1e308)], 1e-308), "demand", "1e+50"),
    (lambda: queueing.bounds([Station("cpu", 1)], 5, 1e308), "think_time", "1e+50"),
    (lambda: queueing.solve([Station("cpu", 1)], 5, 1e308), "think_time", "1e+50"),
    (lambda: queueing.solve([Station("cpu", 1)], 5, method=np.array([])), "method", "exact"),  # type: ignore[arg-type]
    (lambda: queueing.solve_multiclass([[1e308]], [2]), "demands", "1e+50"),
    (lambda: factorial.design(3, 10**308), "replications", "9,007,199,254,740,992"),
    (lambda: factorial.design(3, 10**12), "replications", "1,250,000"),
    (lambda: factorial.analyze([[-1], [1]], [[1e308], [1.0]]), "responses", "1e+70"),
    (lambda: factorial.analyze([[-1], [1]], [[1e-320], [1.0]], transform="reciprocal"), "responses", "1e-70"),
    (lambda: factorial.two_factor([[1e308, 1.0], [2.0, 3.0]]), "responses", "1e+70"),
    (lambda: stats.proportion_interval(3, 10**308), "n", "9,007,199,254,740,992"),
    (lambda: stats.percentile_interval([1, 2, 3], 1e-320), "q", "1.1e-16"),
    (lambda: stats.mean_interval([1e308] * 5), "samples", "1e+70"),
    (lambda: stats.compare_means([1e150, -1e150], [1, 2]), "a", "1e+70"),
    (lambda: stats.usl_fit([1e-320, 2, 4, 8], [1, 2, 3, 4]), "n", "1e-50"),
    (lambda: laws.little(3, 1e308, 1), "time", "1e+50"),
]


@pytest.mark.parametrize(("call", "argument", "limit"), REFUSED)
def test_what_no_system_has_is_refused_with_its_limit(call: Callable[[], object], argument: str, limit: str) -> None:
    """The message has the argument and the limit, and the error is the one that every bad argument raises."""
    with pytest.raises(BadArgument) as caught:
        call()
    assert caught.value.argument == argument
    assert limit in caught.value.rule


@pytest.mark.parametrize("service", [2 * LEAST, 1e-30, 1e30, LARGEST / 2])
@pytest.mark.parametrize("load", [0.0, 1e-9, 0.5])
def test_within_the_limits_every_figure_is_a_number(load: float, service: float) -> None:
    """Squares and fourth powers of the largest and the least figures are still finite."""
    rate = load * service
    for queue in (
        queueing.mm1(rate, service),
        queueing.mmm(rate, service, 3),
        queueing.mmmk(rate, service, 3, 9),
        queueing.parallel_mm1(rate, service, 3),
        queueing.mg1(rate, 1 / service, LARGEST),
    ):
        figures = [getattr(queue, each.name) for each in fields(queue)]
        assert all(math.isfinite(figure) for figure in figures if isinstance(figure, float)), queue


def test_nobody_is_busier_than_always() -> None:
    """Thousands of steps leave some digits too much: 1.0000000000001705 for three thousand clients."""
    for method in ("exact", "schweitzer", "convolution"):
        solved = queueing.solve(
            [Station("db", 0.01), Station("cpu", 0.004), Station("way", 0.5, "delay")], 3000, 0.1, method
        )
        assert solved.utilization["db"].max() <= 1
        assert solved.utilization["way"].max() > 1  # of a delay it is the number there
    for servers in (1, 3, 7):
        for crowd in (10, 300, 5000):
            assert queueing.machine_repair(crowd, servers, 1e9, 1).utilization <= 1
            assert queueing.mmmk(1e9, 1, servers, crowd).utilization <= 1
