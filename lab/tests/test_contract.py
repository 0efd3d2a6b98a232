"""The names that users rely on: a change here breaks somebody's notebook."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from posthaste_lab import factorial, laws, queueing, stats

OPEN_QUEUE = (
    "utilization p0 p_wait mean_jobs var_jobs mean_queue var_queue mean_response var_response mean_wait var_wait"
)
SIGNATURES: list[tuple[Callable[..., Any], str]] = [
    (queueing.mm1, "arrival_rate service_rate"),
    (queueing.mmm, "arrival_rate service_rate servers"),
    (queueing.mmmk, "arrival_rate service_rate servers capacity"),
    (queueing.mg1, "arrival_rate mean_service_time scv"),
    (queueing.parallel_mm1, "arrival_rate service_rate queues"),
    (queueing.Station.from_visits, "name visits service_time"),
    (queueing.solve, "stations population think_time method"),
    (queueing.bounds, "stations population think_time"),
    (queueing.interactive_response_time, "population throughput think_time"),
    (queueing.solve_multiclass, "demands populations think_times"),
    (queueing.convolution, "stations population"),
    (queueing.erlang_b, "offered_load servers"),
    (queueing.erlang_c, "offered_load servers"),
    (queueing.visit_ratios, "routing external"),
    (queueing.open_network, "stations arrival_rate"),
    (queueing.machine_repair, "machines repairers failure_rate repair_rate"),
    (factorial.design, "factors replications generators seed"),
    (factorial.aliases, "k generators"),
    (factorial.analyze, "signs responses names transform confidence"),
    (factorial.one_factor, "responses"),
    (factorial.two_factor, "responses"),
    (stats.mean_interval, "samples confidence"),
    (stats.proportion_interval, "successes n confidence"),
    (stats.percentile_interval, "samples q confidence"),
    (stats.compare_paired, "a b"),
    (stats.compare_means, "a b"),
    (stats.sample_size, "mean stdev relative_error confidence"),
    (stats.batch_means, "series batches"),
    (stats.mser5, "series"),
    (stats.trim, "frame head tail"),
    (stats.merge_runs, "means stdevs counts"),
    (stats.usl_fit, "n throughput"),
    (laws.audit, "table"),
]


@pytest.mark.parametrize(("function", "names"), SIGNATURES, ids=lambda each: getattr(each, "__name__", None))
def test_arguments_keep_their_names_and_order(function: Callable[..., Any], names: str) -> None:
    """They may be given by position or by name."""
    wanted = names.split()
    assert list(inspect.signature(function).parameters)[: len(wanted)] == wanted


@pytest.mark.parametrize("module", [queueing, stats, factorial, laws])
def test_every_public_function_says_what_it_does(module: object) -> None:
    """Meaning, errors, and where a formula comes from, in its docstring."""
    for name in module.__all__:  # type: ignore[attr-defined]
        documented = inspect.getdoc(getattr(module, name))
        assert documented, name
        assert len(documented) > 40, name


def test_figures_keep_their_names() -> None:
    """Of what is answered."""
    for queue in (queueing.mm1(1, 2), queueing.mmm(1, 2, 2), queueing.mg1(1, 0.5, 2), queueing.parallel_mm1(1, 2, 2)):
        assert all(np.isfinite(getattr(queue, name)) for name in OPEN_QUEUE.split())
    limited = queueing.mmmk(1, 2, 1, 3)
    assert limited.throughput == pytest.approx(1 - limited.p_block)
    solved = queueing.solve([queueing.Station("a", 0.1), queueing.Station("b", demand=0.2)], population=5)
    assert solved.population.tolist() == [1, 2, 3, 4, 5]
    for name in ("throughput", "response_time"):
        assert getattr(solved, name).shape == (5,)
    for by_station in (solved.utilization, solved.queue_length, solved.residence_time):
        assert by_station["b"].shape == (5,)
    limits = queueing.bounds(solved.stations, 5)
    for name in ("throughput_upper", "throughput_lower", "response_lower", "response_upper"):
        assert getattr(limits, name).shape == (5,)
    effects = factorial.analyze([[-1, -1], [1, -1], [-1, 1], [1, 1]], [[1, 2], [3, 4], [5, 6], [7, 9]], ["A", "B"])
    assert list(effects.effects) == ["I", "A", "B", "A:B"]
    assert list(effects.variation) == ["A", "B", "A:B", "error"]
    for name in ["standard_error", "intervals", "significant", "residuals", "mean", "sse", "sst", "advice"]:
        assert hasattr(effects, name)
    fit = stats.usl_fit([1, 2, 4, 8, 16], [10, 19, 35, 60, 80])
    assert set(fit.intervals) == {"lam", "sigma", "kappa"}
    (finding,) = laws.audit([{"utilization": 1.4}])
    row, law, severity, message = finding
    assert (row, law, severity) == (0, "utilization law", "error")
    assert "1.4" in message


STATIONS = [queueing.Station("cpu", 0.02), queueing.Station("disk", 0.05)]
SIGNS, RESPONSES = [[-1, -1], [1, -1], [-1, 1], [1, 1]], [[15, 18], [45, 48], [25, 28], [75, 81]]
# What each argument may be. One after the other is replaced by what no function can take.
CALLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (queueing.mm1, {"arrival_rate": 0.5, "service_rate": 1}),
    (queueing.mmm, {"arrival_rate": 0.5, "service_rate": 1, "servers": 2}),
    (queueing.mmmk, {"arrival_rate": 0.5, "service_rate": 1, "servers": 2, "capacity": 5}),
    (queueing.mg1, {"arrival_rate": 0.5, "mean_service_time": 1, "scv": 0.5}),
    (queueing.parallel_mm1, {"arrival_rate": 0.5, "service_rate": 1, "queues": 2}),
    (queueing.mm1(1, 2).response_percentile, {"q": 0.5}),
    (queueing.mm1(1, 2).wait_percentile, {"q": 0.5}),
    (queueing.mm1(1, 2).prob_jobs, {"n": 2}),
    (queueing.Station, {"name": "a", "demand": 0.1, "kind": "multi", "servers": 2}),
    (queueing.Station, {"name": "a", "demand": 0.1, "kind": "load_dependent", "rates": [1, 2]}),
    (queueing.Station.from_visits, {"name": "a", "visits": 2, "service_time": 0.1}),
    (queueing.solve, {"stations": STATIONS, "population": 3, "think_time": 1, "method": "exact"}),
    (queueing.solve(STATIONS, 3).what_if, {"demand": 0.1, "servers": 2, "name": "cpu"}),
    (queueing.bounds, {"stations": STATIONS, "population": 3, "think_time": 1}),
    (queueing.interactive_response_time, {"population": 3, "throughput": 10, "think_time": 0.1}),
    (queueing.solve_multiclass, {"demands": [[0.1, 0.2], [0.3, 0.1]], "populations": [1, 2], "think_times": [0, 1]}),
    (queueing.convolution, {"stations": STATIONS, "population": 3}),
    (queueing.erlang_b, {"offered_load": 1, "servers": 2}),
    (queueing.erlang_c, {"offered_load": 1, "servers": 2}),
    (queueing.visit_ratios, {"routing": [[0, 0.5], [1, 0]], "external": [1, 0]}),
    (queueing.open_network, {"stations": STATIONS, "arrival_rate": 5}),
    (queueing.machine_repair, {"machines": 5, "repairers": 2, "failure_rate": 0.1, "repair_rate": 1}),
    (factorial.design, {"factors": 4, "replications": 2, "generators": ["D=ABC"], "seed": 1}),
    (factorial.aliases, {"k": 4, "generators": ["D=ABC"]}),
    (
        factorial.analyze,
        {"signs": SIGNS, "responses": RESPONSES, "names": ["A", "B"], "transform": "log", "confidence": 0.9},
    ),
    (factorial.analyze(SIGNS, RESPONSES).contrast, {"weights": {"A": 1, "B": -1}}),
    (factorial.analyze(SIGNS, RESPONSES).predict, {"cell": (1, 1), "future": 2}),
    (factorial.one_factor, {"responses": [[1, 2, 3], [2, 3, 5]]}),
    (factorial.two_factor, {"responses": [[1, 2, 3], [2, 3, 5]]}),
    (stats.mean_interval, {"samples": [1, 2, 3], "confidence": 0.9}),
    (stats.proportion_interval, {"successes": 1, "n": 3, "confidence": 0.9}),
    (stats.percentile_interval, {"samples": [1, 2, 3], "q": 0.5, "confidence": 0.9}),
    (stats.compare_paired, {"a": [1, 2, 3], "b": [2, 3, 5]}),
    (stats.compare_means, {"a": [1, 2, 3], "b": [2, 3, 5]}),
    (stats.sample_size, {"mean": 1, "stdev": 1, "relative_error": 0.1, "confidence": 0.9}),
    (stats.batch_means, {"series": range(100), "batches": 10}),
    (stats.mser5, {"series": range(100)}),
    (stats.trim, {"head": 0.1, "tail": 0.1, "frame": range(100)}),
    (stats.merge_runs, {"means": [1, 2], "stdevs": [1, 1], "counts": [3, 4]}),
    (stats.usl_fit, {"n": [1, 2, 4, 8, 16], "throughput": [1, 1.9, 3.5, 6, 9]}),
    (laws.audit, {"table": [{"throughput": 1, "population": 2}], "tolerance": 0.1}),
]
STRANGE: list[object] = [object(), 1 + 2j, ["a", None], [[1], [1, 2]], {"no": "such"}, {1: 2, 3: 4}, 10**400, math.nan]
NO_NUMBERS: list[object] = ["1", "2", b"1", True, np.True_]


@pytest.mark.parametrize(("function", "arguments"), CALLS, ids=lambda each: getattr(each, "__name__", None))
def test_what_no_function_can_take_is_refused_by_name(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """A ValueError, whatever it is, that names the argument: never what Python or numpy stumbled over."""
    function(**arguments)
    for argument in arguments:
        for value in STRANGE:
            if isinstance(value, list | dict) and argument in ("k", "factors", "names", "table", "frame", "responses"):
                continue  # these take many a list
            with pytest.raises(ValueError, match=argument):
                function(**(arguments | {argument: value}))


OF_TEXT = [
    "k",
    "names",
    "name",
    "kind",
    "method",
    "transform",
    "factors",
    "generators",
    "weights",
    "stations",
    "table",
    "frame",
]


@pytest.mark.parametrize(("function", "arguments"), CALLS, ids=lambda each: getattr(each, "__name__", None))
def test_text_and_truth_values_are_no_numbers(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Python would read "2" as 2 and True as 1, and formulas behind stumble over what they then get."""
    for argument in arguments:
        for value in [] if argument in OF_TEXT else NO_NUMBERS:
            with pytest.raises(ValueError, match=argument):
                function(**(arguments | {argument: value}))


def test_numbers_come_in_many_types() -> None:
    """Those of numpy, and whole ones among the others."""
    assert factorial.design(np.int64(3)).tolist() == factorial.design(3.0).tolist() == factorial.design(3).tolist()  # type: ignore[arg-type]
    assert factorial.aliases(np.int64(4), ["D=ABC"]).resolution == 4  # type: ignore[arg-type]
    assert stats.batch_means(range(100), 10.0).batch_size == 10  # type: ignore[arg-type]
    assert queueing.Station("a", np.array(0.5)).demand == 0.5  # type: ignore[arg-type]
    assert queueing.mmmk(1, 1, 2.0, np.float64(5)).model == "M/M/2/5"  # type: ignore[arg-type]


def test_what_a_mask_hides_is_missing() -> None:
    """As NaN is: the figure behind it is nobody's."""
    hidden = np.ma.masked_greater(np.array([1, 2, 999]), 100)
    with pytest.raises(ValueError, match="samples = nan"):
        stats.mean_interval(hidden)
    with pytest.raises(ValueError, match="samples"):
        stats.mean_interval(np.array([1 + 2j, 3]))


def test_runs_to_collect_are_of_two_levels() -> None:
    """A level in between had been cut to a whole number."""
    for rows in ([[0.9], [-0.9]], [["a"], ["b"]], [[math.nan], [1]]):
        with pytest.raises(ValueError, match="rows"):
            factorial.collect(rows, [1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize("q", [99.99999999999999, 1 - 1e-16])
def test_the_farthest_percentile_is_a_number(q: float) -> None:
    """Written in percent it is nearer to 100 than digits tell, which had been a division by 0."""
    queue = queueing.mm1(1, 2)
    assert queue.response_percentile(q) == pytest.approx(36.7, abs=0.1)
    assert not stats.percentile_interval([1, 2, 3], q).enough
