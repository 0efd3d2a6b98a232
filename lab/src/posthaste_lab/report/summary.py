"""Summarizes a run on one page of Markdown, to be kept beside the experiment: verdict, figures, and their origin.

The records are not copied; the summary says itself how far to trust it.
"""

from collections.abc import Iterable
from pathlib import Path

from posthaste_lab.experiments.results import Run
from posthaste_lab.experiments.spans import counted, spoken
from posthaste_lab.files import write_whole
from posthaste_lab.report.cells import cells_of, read_finished
from posthaste_lab.report.sections import TableItem
from posthaste_lab.report.sections.design import design_section
from posthaste_lab.report.sections.model import model_section
from posthaste_lab.report.sections.overview import overview_section
from posthaste_lab.report.sections.where import where_section
from posthaste_lab.report.verdict import decisions_of, overall
from posthaste_lab.report.warnings import warnings


def write_summary(directory: Path, to: Path, note: str = "") -> None:
    """Writes the summary of the run in `directory` to `to`: see `summary_of`."""
    text = summary_of(directory, note)
    to.parent.mkdir(parents=True, exist_ok=True)
    write_whole(to, text)


def summary_of(directory: Path, note: str = "") -> str:
    """Returns the summary of the run in `directory`; `note` is an additional sentence on how it was run.

    Raises BadArgument when there is no run, or none of its trials is over and counts.
    """
    run = read_finished(directory, "sum up")
    return "\n\n".join(part for part in _parts(run, note) if part) + "\n"


def _parts(run: Run, note: str) -> Iterable[str]:
    cells = cells_of(run)
    decisions = decisions_of(run, cells)
    yield f"# {run.experiment.title}"
    yield f"{run.experiment.question}\n\n**Hypothesis.** {run.experiment.hypothesis}"
    yield f"**Verdict: {overall(decisions)}.**"
    yield "\n".join(f"- {decision.claim.says}: **{decision.word}** ({decision.why})" for decision in decisions)
    yield _care(run, note)
    overview = overview_section(run, cells)
    yield _table(next(item for item in overview.items if isinstance(item, TableItem)))
    yield " ".join(overview.paragraphs)
    where = where_section(run, cells)
    yield where.paragraphs[0] if where is not None else ""
    design = design_section(run, cells)
    yield " ".join(design.paragraphs) if design is not None else ""
    yield from (_table(item) for item in (design.items if design is not None else []) if isinstance(item, TableItem))
    model = model_section(run, cells)
    yield " ".join(model.paragraphs) if model is not None else ""
    yield _provenance(run)


def _care(run: Run, note: str) -> str:
    said = [*([note] if note else []), *warnings(run)]
    return "Read with care:\n\n" + "\n".join(f"- {warning}" for warning in said) if said else ""


def _table(item: TableItem) -> str:
    lines = [item.columns, ["---"] * len(item.columns), *item.rows]
    grid = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
    return f"{item.caption}\n\n{grid}"


def _machine(told: dict[str, str]) -> str:
    facts = [told.get("system"), told.get("cpu"), f"{told.get('cores', '?')} cores", told.get("memory")]
    return ", ".join(fact for fact in facts if fact)


def _provenance(run: Run) -> str:
    around, rules = run.plan["environment"], run.experiment.run
    programs = ", ".join(around["programs"].values())
    machines = "; ".join(f"{name}: {_machine(machine)}" for name, machine in around["hosts"].items())
    head, measured, tail = (spoken(each) for each in run.experiment.trimmed)
    return (
        f"{counted(len(run.finished), 'trial')} of {spoken(rules.duration)} "
        f"({head} and {tail} trimmed, {measured} measured), "
        f"{rules.repetitions} of each combination, shuffled by seed {run.plan['seed']}, begun {around['started']}. "
        f"Programs: {programs}; laboratory {around['laboratory']}. Machines: {machines}. Load average before: "
        f"{around['hosts'].get('local', {}).get('load average at the start', 'unknown')}. Experiment file: SHA-256 "
        f"{run.plan['experiment_sha256'][:16]}…"
    )
