"""Section on whether the figures are credible: operational laws on every trial, and the load generator's own checks."""

from posthaste_lab.experiments.figures import answered_per_s, kept_think_s, response_of_all_s
from posthaste_lab.experiments.results import Result, Run
from posthaste_lab.laws import Verdict, check
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.quantities import percent
from posthaste_lab.report.sections.parts import Section, TableItem

# The laws' names for a trial's columns.
NAMES = {
    "population": "population",
    "throughput_per_s": "throughput",
    "tier_counted_per_s": "station_throughput",
    "in_flight_mean": "in_flight",
}


def trust_section(run: Run, _cells: list[Cell]) -> Section | None:
    """Returns a verdict for every law and trial; None when the trials have no figures to which a law applies."""
    judged = [(result, verdict) for result in run.finished for verdict in verdicts(result)]
    section = Section("trust", "Whether the figures hold together")
    if judged:
        broken = [verdict for _, verdict in judged if not verdict.holds]
        section.paragraphs.append(
            f"{len(judged) - len(broken)} of {len(judged)} checks hold, within {percent(judged[0][1].tolerance)} and "
            "what the edges of the measured time explain."
            + (" A figure that breaks a law is wrong, or means something else than its name." if broken else "")
        )
        section.items.append(_laws_table(judged))
    generators = [result for result in run.finished if "generator_utilization" in result.figures]
    if generators:
        section.items.append(_generator_table(generators))
    return section if section.items else None


def verdicts(result: Result) -> list[Verdict]:
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


def _laws_table(judged: list[tuple[Result, Verdict]]) -> TableItem:
    worst: dict[str, list[tuple[Result, Verdict]]] = {}
    for result, verdict in judged:
        worst.setdefault(verdict.law, []).append((result, verdict))
    rows = []
    for law, all_of_it in worst.items():
        result, verdict = max(all_of_it, key=lambda pair: (not pair[1].holds, abs(pair[1].difference)))
        holds = sum(v.holds for _, v in all_of_it)
        rows.append([law, f"{holds} of {len(all_of_it)}", result.name, percent(verdict.difference), verdict.message])
    raw = [
        {"trial": r.name, "law": v.law, "expected": v.expected, "observed": v.observed, "difference": v.difference,
         "holds": v.holds}
        for r, v in judged
    ]  # fmt: skip
    heads = ["law", "holds in trials", "farthest off", "by", "there"]
    return TableItem("laws", "Operational laws on every trial.", "trials.csv", heads, rows, raw)


def _generator_table(results: list[Result]) -> TableItem:
    rows, raw = [], []
    for result in results:
        busy, valid = result.figures["generator_utilization"], result.figures.get("generator_valid")
        word = "yes" if valid else f"no: {result.figures.get('invalid_because') or 'it says so'}"
        rows.append([result.name, percent(busy), word, str(result.figures.get("errors", ""))])
        raw.append({"trial": result.name, "utilization": busy, "valid": valid})
    return TableItem(
        "generator",
        "The load generator about itself: how busy its busiest thread was, and whether its figures speak of the system "
        "and not of itself.",
        "trials.csv: generator_utilization, generator_valid",
        ["trial", "busy", "figures valid", "errors answered"],
        rows,
        raw,
    )
