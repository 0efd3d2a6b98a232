"""The operational laws applied to the trials of a run."""

from collections.abc import Iterator

from posthaste_lab.experiments.figures import STAGES, answered_per_s, kept_think_s, response_of_all_s
from posthaste_lab.experiments.results import Result
from posthaste_lab.laws import Verdict, check
from posthaste_lab.laws.operational import OVER
from posthaste_lab.report.line import of_waiting_line
from posthaste_lab.report.passage import of_time_in_tier

# The laws' names for a trial's columns.
NAMES = {
    "population": "population",
    "throughput_per_s": "throughput",
    "tier_counted_per_s": "station_throughput",
    "in_flight_mean": "in_flight",
    "interactive_tolerance": "interactive_tolerance",
    "tier_counted_tolerance": "tier_counted_tolerance",
}
STAGES_LAW = "sum of the stages"


def verdicts(result: Result) -> list[Verdict]:
    """Returns the verdict of every law that applies to a trial, by its figures or by its records."""
    return [*_of_all_answers(result), *_of_stages(result), *of_waiting_line(result), *of_time_in_tier(result)]


def _of_all_answers(result: Result) -> list[Verdict]:
    """Applies the laws to all answers of a trial, errors included: they take time of client and tier as well.

    An open loop has no population, so the laws of closed systems do not apply to it.
    """
    row = {law: result.figures[column] for column, law in NAMES.items() if column in result.figures}
    row["think_time"] = kept_think_s(result.figures)
    response = response_of_all_s(result.figures)
    if response is None and "response_mean_s" in result.figures:
        row.pop("population", None)  # the time of errors is not known, so the law cannot be applied
        response = float(result.figures["response_mean_s"])
    if response is not None:
        row["response_time"] = response
    if result.figures.get("open_loop"):
        row.pop("population", None)
    if "throughput" in row:
        row["throughput"] = answered_per_s(result.figures)
    if "served" in result.figures:
        row["answers"] = float(result.figures["served"]) + float(result.figures.get("errors") or 0)
    if "station_throughput" in row:
        row["visits"] = 1.0  # every request passes the tier once
    return check(row) if {"throughput", "response_time"} <= row.keys() and row["throughput"] > 0 else []


def _of_stages(result: Result) -> Iterator[Verdict]:
    """Compares the tier's response time with the sum of its stages, which follow each other without a gap."""
    times = [result.figures.get(f"{stage}_mean_s") for stage in STAGES]
    whole = result.figures.get("tier_response_mean_s")
    known = [float(time) for time in times if time is not None]
    if not whole or len(known) < len(STAGES):
        return
    total = sum(known)
    yield Verdict(
        STAGES_LAW,
        whole,
        total,
        (total - whole) / whole,
        OVER,
        abs(total - whole) <= OVER * whole,
        f"the stages of a request add up to {total:.6g} s, and its time in the tier is {whole:.6g} s",
    )
