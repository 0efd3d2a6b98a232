"""Section on whether the figures are credible: operational laws on every trial, and the load generator's own checks."""

from posthaste_lab.experiments.results import Result, Run
from posthaste_lab.laws import Verdict
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.laws import verdicts
from posthaste_lab.report.quantities import percent
from posthaste_lab.report.sections.parts import Section, TableItem


def trust_section(run: Run, _cells: list[Cell]) -> Section | None:
    """Returns a verdict for every law and trial; None when the trials have no figures to which a law applies."""
    judged = [(result, verdict) for result in run.finished for verdict in verdicts(result)]
    section = Section("trust", "Whether the figures hold together")
    if judged:
        broken = [verdict for _, verdict in judged if not verdict.holds]
        section.paragraphs.append(
            f"{len(judged) - len(broken)} of {len(judged)} checks hold, within {_tolerances(judged)} and what the "
            "edges of the measured time explain."
            + (" A figure that breaks a law is wrong, or means something else than its name." if broken else "")
        )
        section.items.append(_laws_table(judged))
    generators = [result for result in run.finished if "generator_utilization" in result.figures]
    if generators:
        section.items.append(_generator_table(generators))
    return section if section.items else None


def _tolerances(judged: list[tuple[Result, Verdict]]) -> str:
    """Returns the tolerances of all checks in words: what is added up exactly has a smaller one than what is timed."""
    least, *others = sorted({verdict.tolerance for _, verdict in judged})
    return f"{percent(least)} to {percent(others[-1])}, by the law," if others else percent(least)


def _laws_table(judged: list[tuple[Result, Verdict]]) -> TableItem:
    worst: dict[str, list[tuple[Result, Verdict]]] = {}
    for result, verdict in judged:
        worst.setdefault(verdict.law, []).append((result, verdict))
    rows = []
    for law, all_of_it in worst.items():
        result, verdict = max(all_of_it, key=lambda pair: (not pair[1].holds, abs(pair[1].difference)))
        holds = sum(v.holds for _, v in all_of_it)
        shares = percent(verdict.difference), percent(verdict.tolerance)
        rows.append([law, f"{holds} of {len(all_of_it)}", result.name, *shares, verdict.message])
    raw = [
        {"trial": r.name, "law": v.law, "expected": v.expected, "observed": v.observed, "difference": v.difference,
         "tolerance": v.tolerance, "holds": v.holds}
        for r, v in judged
    ]  # fmt: skip
    heads = ["law", "holds in trials", "farthest off", "by", "tolerance", "there"]
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
