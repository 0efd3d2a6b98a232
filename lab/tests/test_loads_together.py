"""Tests how simultaneous loads of one trial are joined."""

from dataclasses import replace

import pytest

from posthaste_lab.experiments.figures import READERS, LoadFigures, together


def load_figures(
    *servers: str, counted: float = 100.0, served: int = 60, errors: int = 30, requests: int | None = None
) -> LoadFigures:
    """What a load of a second left that nobody ran."""
    times = {f"{name}_us": 500.0 if served else 0.0 for name in ("mean", "p50", "p90", "p99", "p99.9", "max")}
    counts = {"ok": served, "nulls": 0, "errors": errors}
    each = {"throughput_per_s": float(served), "response": times, **counts}
    summary = each | {
        "options": {"clients": 3, "connect": list(servers), "warmup_s": 1.0, "requests": requests},
        "generator": {"utilization_max": 0.1},
        "middleware": {"counted_per_s": counted, "tolerance": 1 / counted},
        "interactive_law": {"think_us": 2000.0, "response_us": 400.0, "tolerance": 0.02} if served or errors else None,
        "kinds": {"send": each},
    }
    return READERS["bench"](
        summary | {"start_unix_s": 0.0, "duration_s": 1.0, "in_flight_mean": 1.0, "valid": True, "invalid_because": []}
    )


def test_a_load_of_so_many_requests_is_measured_from_the_first() -> None:
    """It has no warm-up, whatever the default of that option says."""
    assert load_figures("a").measured == (1.0, 2.0)
    assert load_figures("a", requests=90).measured == (0.0, 1.0)


def test_what_tiers_counted_is_not_added_up_where_loads_share_them() -> None:
    """Each load was told of all requests of its tiers; the forced flow law would be broken by as many times."""
    one, same, other = load_figures("a", "b"), load_figures("b", "a", counted=110.0), load_figures("c", counted=40.0)
    assert together([one, same]).row["tier_counted_per_s"] == 105.0
    assert together([one, other]).row["tier_counted_per_s"] == 140.0
    assert "tier_counted_per_s" not in together([one, load_figures("b")]).row
    assert "tier_counted_per_s" not in together([one, same, other]).row


@pytest.mark.parametrize(("longest_s", "apart_s", "common"), [(10, 0.4, 9.6), (1, 0.2, 0.8), (0.35, 0.05, 0.3)])
def test_loads_that_start_one_after_the_other_measure_together(longest_s: float, apart_s: float, common: float) -> None:
    """A twentieth apart, or what starting programs takes: what is of all of them is what counts."""
    one, other = load_figures("a"), load_figures("a")
    both = together([replace(one, measured=(0.0, longest_s)), replace(other, measured=(apart_s, longest_s + apart_s))])
    assert both.measured is not None
    assert both.measured[1] - both.measured[0] == pytest.approx(common)
    assert both.row["throughput_per_s"] == 120.0


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([(0, 10), (30, 40)], "load-1 and load-2 measured at different times: all loads together 0.00 s of the 10"),
        ([(5, 15), (0, 10)], "load-1 and load-2 measured at different times: all loads together 5.00 s of the 10.00 s"),
        ([(0, 10), (0.1, 10.1), (0, 3)], "load-1 and load-3 measured at different times: all loads together 2.90 s of"),
        ([(0, 0.3), (0.3, 0.6)], "load-1 and load-2 measured at different times: all loads together 0.00 s of the 0.3"),
    ],
    ids=["disjoint", "half", "one shorter", "disjoint and short"],
)
def test_loads_that_measured_at_different_times_are_no_sum(times: list[tuple[float, float]], said: str) -> None:
    """One that had more to prepare began when the other had ended: what they add up to was never there."""
    loads = [replace(load_figures("a"), name=f"load-{n}", measured=each) for n, each in enumerate(times, start=1)]
    with pytest.raises(ValueError, match=said):
        together(loads)


def test_a_load_that_was_served_nothing_has_no_response_times() -> None:
    """Zeros would be measurements, and make those of the loads beside it shorter."""
    none, some = load_figures("a", served=0), load_figures("a")
    times = {name for name in (*none.row, *none.kinds["send"]) if name.startswith("response")}
    assert times == {"response_all_mean_s"}, "errors take their time"
    for both in (together([none, some]), together([some, none])):
        assert both.row["response_mean_s"] == both.kinds["send"]["response_mean_s"] == 500e-6
        assert both.row["think_kept_s"] == 2e-3
        assert both.row["served"] == 60


def test_bytes_of_several_loads_are_those_of_all_their_answers() -> None:
    """A request that is refused was sent all the same: what all sent is the mean times how many there were."""
    one, other = load_figures("a", served=100, errors=900), load_figures("b", served=1000, errors=0)
    small, large = {"request_bytes_mean": 130.0, "answer_bytes_mean": 10.0}, {"request_bytes_mean": 2000.0}
    both = together(
        [replace(one, row=one.row | small), replace(other, row=other.row | large | {"answer_bytes_mean": 40.0})]
    )
    assert both.row["request_bytes_mean"] == (130 + 2000) / 2
    assert both.row["answer_bytes_mean"] == 25.0


def test_the_laws_are_told_what_the_edges_explain() -> None:
    """By each load; of several loads as much as the one with the most."""
    one, other = load_figures("a", counted=100.0), load_figures("b", counted=50.0)
    assert (one.row["interactive_tolerance"], one.row["tier_counted_tolerance"]) == (0.02, 0.01)
    still = replace(other, row=other.row | {"interactive_tolerance": 0.09})
    both = together([one, still]).row
    assert (both["interactive_tolerance"], both["tier_counted_tolerance"]) == (0.09, 0.02)


def test_the_law_gets_the_times_of_all_answers() -> None:
    """Of several loads each weighs as much as it was answered, errors among it."""
    one, other = load_figures("a"), load_figures("b")
    assert one.row["response_all_mean_s"] == 400e-6
    slow = replace(other, row=other.row | {"errors": 60, "response_all_mean_s": 700e-6})
    answered = [load.row["served"] + load.row["errors"] for load in (one, slow)]
    mean = (answered[0] * 400e-6 + answered[1] * 700e-6) / sum(answered)
    assert together([one, slow]).row["response_all_mean_s"] == pytest.approx(mean)
