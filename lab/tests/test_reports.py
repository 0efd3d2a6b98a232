"""Recomputes models that reports printed: the same figures where they are right, and the mistake where they are not."""

from pathlib import Path

import polars as pl
import pytest

from posthaste_lab import queueing
from posthaste_lab.laws import audit
from posthaste_lab.queueing import Station

DATA = Path(__file__).parent / "data"


def test_a_closed_network_of_154_queues() -> None:
    """Utilizations at five populations, to the printed digits; times are in ms, though the table says s."""
    parameters = {
        row[0]: row[1] for row in pl.read_csv(DATA / "network_parameters.csv", infer_schema=False).iter_rows()
    }
    stations = []
    for place, count, time in (
        ("network", "network_queues", "network_service_time"),
        ("frontend", "frontend_threads", "frontend_service_time"),
        ("backend", "worker_threads", "worker_service_time"),
        ("database", "database_processes", "database_service_time"),
    ):
        queues = int(parameters[count])
        stations += [Station(f"{place} {i}", float(parameters[time]) * 1e-3 / queues) for i in range(queues)]
    solved = queueing.solve(stations, 160)
    for row in pl.read_csv(DATA / "network_utilization.csv").iter_rows(named=True):
        at = row["clients"] - 1
        assert solved.utilization["database 0"][at] == pytest.approx(row["database"], abs=1e-6)
        assert solved.utilization["network 0"][at] == pytest.approx(row["network_io"], rel=1e-3)
        assert solved.utilization["backend 0"][at] == pytest.approx(row["backend"], rel=1e-3)
    assert solved.bottleneck == "database 0"


def test_pools_as_open_models() -> None:
    """M/M/m with Erlang's C: the printed waits follow from service rates whose fractions were cut off."""
    model = pl.read_csv(DATA / "pool_models.csv").filter(pl.col("row") == "model")
    for row in model.iter_rows(named=True):
        slow, fast = (queueing.mmm(row["lambda_rps"], row["mu_rps"] + cut, row["workers"]) for cut in (0, 1.3))
        assert fast.mean_wait * 1e3 <= row["qwt_ms"] <= slow.mean_wait * 1e3
        assert fast.mean_response * 1e3 <= row["rt_ms"] <= slow.mean_response * 1e3
        assert fast.mean_queue - 0.5 <= row["queue_length"] <= slow.mean_queue + 0.5


def test_what_those_models_say_is_that_they_were_fitted() -> None:
    """With the clients beside them, the audit says so; at a utilization of 0.97 by construction."""
    model = pl.read_csv(DATA / "pool_models.csv").filter(pl.col("row") == "model")
    rows = model.select(
        pl.lit("M/M/m").alias("model"),
        pl.col("workers").replace_strict({8: 30, 16: 60, 32: 120, 64: 240}).alias("clients"),
        pl.col("workers").alias("servers"),
        pl.col("lambda_rps").alias("arrival_rate"),
        pl.col("mu_rps").alias("service_rate"),
    )
    findings = audit(rows)
    assert [(f.row, f.law, f.severity) for f in findings] == [(i, "open model", "error") for i in range(4)]


def test_a_single_server_with_all_its_moments() -> None:
    """Ten printed figures; the variance of response times in its unit, and more jobs than there were clients."""
    printed = {row[0]: row[1] for row in pl.read_csv(DATA / "single_server_model.csv").iter_rows()}
    queue = queueing.mm1(printed["lambda"], printed["mu"])
    assert queue.mean_jobs == pytest.approx(printed["E_n"], abs=0.02)
    assert queue.mean_queue == pytest.approx(printed["E_nq"], abs=0.02)
    assert queue.var_jobs == pytest.approx(printed["Var_n"], rel=2e-3)
    assert queue.mean_response == pytest.approx(printed["E_r"] * 1e-3, abs=5e-6)
    assert queue.mean_wait == pytest.approx(printed["E_w"] * 1e-3, abs=5e-6)
    assert queue.response_percentile(95) == pytest.approx(printed["r_p95"] * 1e-3, abs=5e-6)
    assert queue.var_response == pytest.approx(printed["Var_r"] * 1e-6, rel=1e-3)
    (jobs, variance) = audit(
        [
            {"population": 10, "mean_jobs": printed["E_n"]},
            {"response_time_ms": printed["E_r"], "var_response_us": printed["Var_r"]},
        ]
    )
    assert (jobs.law, variance.law) == ("population", "units")


def test_published_models_as_they_were_printed() -> None:
    """A model for each row beside its measurement, and a line for each quantity: the slips of both are found."""
    (saturated,) = audit(pl.read_csv(DATA / "pool_models.csv", infer_schema=False))
    assert (saturated.row, saturated.law, saturated.severity) == (None, "open model", "warning")
    assert "4 rows of an open model at up to 0.98" in saturated.message
    (variance,) = audit(pl.read_csv(DATA / "single_server_model.csv", infer_schema=False))
    assert (variance.row, variance.law, variance.severity) == (0, "units", "error")
    assert variance.message.startswith("Var_r is in us")


def test_eight_workers_are_never_more_than_busy() -> None:
    """A clean table stays without findings once its workers are named; without them it is asked for them."""
    table = pl.read_csv(DATA / "eight_workers.csv", infer_schema=False)
    assert audit(table.with_columns(workers=pl.lit("8"))) == []
    assert {(f.law, f.severity) for f in audit(table)} == {("service time", "warning")}
