"""Finds wrong models in tables of measurements: given the wrong rate, or computed with the wrong probability.

A closed system slows its own arrivals down. If its throughput is put into an open model as the arrival rate, the
utilization only says how well the service rate was fitted, and the model's response time explodes while the measured
one does not. And in M/M/m the probability of waiting is not the utilization, although books print similar letters.
"""

import math
import re

from posthaste_lab import queueing
from posthaste_lab.errors import BadArgument
from posthaste_lab.laws.findings import Found
from posthaste_lab.laws.operational import servers_of
from posthaste_lab.laws.reading import Reading, Row, Run, run_of
from posthaste_lab.queueing import UnstableQueue

OPEN_MODEL = re.compile(r"^(\d+ ?x ?)?[MG]/[MGD]/(\d+|m|c)$|^(mm1|mmm|mg1|parallel_mm1|open)$", re.IGNORECASE)
SATURATED = 0.9


def open_model_findings(row: Row, run: Run, tolerance: float) -> Found:
    """Finds an open model of a system with a closed population."""
    if "population" not in run:
        return []
    rate, rho = run.get("arrival_rate"), _utilization(run)
    names_one = OPEN_MODEL.match(str(row.get("model", "")).strip()) is not None
    fed = rate is not None and "throughput" in run and _near(rate.value, run["throughput"].value, tolerance)
    if not (names_one or fed or _is_mm1_of_its_throughput(run) or (rate is not None and "service_rate" in run)):
        return []
    what = f"an open model of a closed system of {run['population'].printed:g} clients"
    if rho is not None and rho >= SATURATED:
        text = (
            f"at {rho:.3g} of saturation it only says how well the service rate was fitted; use a closed model (solve)"
        )
        return [("open model", "error", f"{what}: {text}")]
    text = "clients who wait send nothing, so its arrivals are not open; use a closed model (solve)"
    return [("open model", "warning", f"{what}: {text}")]


def models_beside_measurements(rows: list[Row]) -> Found:
    """Finds open models near saturation in a table whose other rows were measured, where no column has the clients."""
    words = [{str(cell).strip().lower() for cell in row.values() if isinstance(cell, str)} for row in rows]
    if not any("measured" in said for said in words):
        return []
    modeled = [run_of(row) for row, said in zip(rows, words, strict=True) if said & {"model", "modeled", "modelled"}]
    loads = [_utilization(run) for run in modeled if "population" not in run and "arrival_rate" in run]
    saturated = [rho for rho in loads if rho is not None and rho >= SATURATED]
    if not saturated:
        return []
    text = (
        f"{len(saturated)} rows of an open model at up to {max(saturated):.3g} of saturation, beside measurements: if "
        "those are of a closed system (a column `clients` would tell), they only say how well the service rate was "
        "fitted; use a closed model (solve)"
    )
    return [("open model", "warning", text)]


def _utilization(run: Run) -> float | None:
    if "utilization" in run:
        return run["utilization"].value
    rate, servers = run.get("arrival_rate", run.get("throughput")), servers_of(run)
    if rate is None or "service_rate" not in run:
        return None
    capacity = run["service_rate"].value * (servers.value if servers else 1)
    return rate.value / capacity if capacity > 0 else None


def _is_mm1_of_its_throughput(run: Run) -> bool:
    """Returns whether a modeled response time is that of M/M/1 with this throughput and utilization."""
    if not {"throughput", "utilization", "modeled_response"} <= run.keys():
        return False
    x, rho, modeled = run["throughput"], run["utilization"], run["modeled_response"]
    if not 0 < rho.value < 1 or x.value <= 0:
        return False

    def answer(utilization: float) -> float:
        return utilization / (x.value * (1 - utilization)) if utilization < 1 else math.inf

    return answer(rho.low) * 0.95 <= modeled.value <= answer(rho.high) * 1.05


def queueing_probability(row: Row, run: Run, tolerance: float) -> Found:
    """Finds a response time of M/M/m that was computed with rho in place of Erlang's C."""
    servers = servers_of(run)
    response: Reading | None = run.get("modeled_response", run.get("response_time"))
    if not re.match(r"^M/M/(\d+|m|c)$", str(row.get("model", "")).strip(), re.IGNORECASE) or response is None:
        return []
    rate, mu = run.get("arrival_rate", run.get("throughput")), run.get("service_rate")
    if rate is None or mu is None or servers is None or mu.value <= 0 or servers.value < 1:
        return []
    try:
        right = queueing.mmm(rate.value, mu.value, int(servers.value))
    except UnstableQueue as error:
        return [("open model", "error", f"M/M/{int(servers.value)}: {error}")]
    except BadArgument:  # a rate below 0, which another rule reports, or more servers than can be computed
        return []
    if _near(response.value, right.mean_response, min(tolerance, 0.01)):
        return []
    rho = right.utilization
    with_rho = (1 + rho / (right.servers * (1 - rho))) / mu.value
    if _near(response.value, with_rho, 0.005):
        text = (
            f"{response.column} {response.printed:g} follows from the utilization {rho:.3g} where the probability of "
            f"waiting {right.p_wait:.3g} belongs (Erlang's C); right is {right.mean_response:.6g} s"
        )
        return [("queueing probability", "error", text)]
    if _near(response.value, right.mean_response, tolerance):
        return []
    text = f"{response.column} {response.printed:g} is not that of M/M/{right.servers}: {right.mean_response:.6g} s"
    return [("queueing model", "warning", text)]


def _near(a: float, b: float, tolerance: float) -> bool:
    return math.isclose(a, b, rel_tol=tolerance)
