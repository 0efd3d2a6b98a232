"""Writes the report: one self-contained page, and beside it every chart as PNG and SVG and every table as CSV."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.environment import FILE_SYSTEM
from posthaste_lab.experiments.journal import write_table
from posthaste_lab.experiments.links import BY_PAUSE
from posthaste_lab.experiments.memory import in_memory
from posthaste_lab.experiments.results import Run, read_run, spoken_levels
from posthaste_lab.experiments.spans import counted
from posthaste_lab.files import write_whole
from posthaste_lab.report.cells import Cell, cells_of
from posthaste_lab.report.charts.style import styled
from posthaste_lab.report.laws import verdicts
from posthaste_lab.report.quantities import with_interval
from posthaste_lab.report.sections import SECTIONS, ChartItem, Section, TableItem
from posthaste_lab.report.verdict import Decision, decisions_of, overall

PNG_DPI = 150


@dataclass(frozen=True)
class Drawn:
    """A chart as the page shows it."""

    name: str
    caption: str
    source: str
    uri: str
    width: int
    height: int


def write_report(directory: Path, out: Path | None = None) -> Path:
    """Writes the report of the run in `directory` to `out` (by default its `report`), and returns the page's path.

    Raises BadArgument when there is no run, or none of its trials is over.
    """
    run = read_run(directory)
    if not run.finished:
        raise BadArgument("DIR", str(directory), "holds no finished trial yet, so there is nothing to report")
    target = out or directory / "report"
    for name in ("figures", "tables"):
        (target / name).mkdir(parents=True, exist_ok=True)
    cells = cells_of(run)
    sections = [section for make in SECTIONS if (section := make(run, cells)) is not None]
    decisions = decisions_of(run, cells)
    with styled():
        shown = [(section, [_item(item, target) for item in section.items]) for section in sections]
    template = Environment(
        loader=PackageLoader("posthaste_lab.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html.jinja")
    page = template.render(
        run=run,
        experiment=run.experiment,
        verdict=overall(decisions),
        decisions=[(decision, _mark(decision)) for decision in decisions],
        headline=_headline(cells, sections),
        warnings=warnings(run),
        sections=shown,
        is_table=lambda item: isinstance(item, TableItem),
    )
    index = target / "index.html"
    write_whole(index, page)
    return index


def _item(item: ChartItem | TableItem, target: Path) -> Drawn | TableItem:
    if isinstance(item, TableItem):
        write_table(target / "tables" / f"{item.name}.csv", item.raw)
        return item
    chart = item.draw()
    # `savefig` would look for the layout anew for each format, and draw everything once more to do so.
    chart.draw_without_rendering()
    chart.set_layout_engine("none")
    svg = io.BytesIO()
    FigureCanvasSVG(chart).print_svg(svg, metadata={"Date": None})  # type: ignore[no-untyped-call]
    chart.set_dpi(PNG_DPI)
    FigureCanvasAgg(chart).print_png(target / "figures" / f"{item.name}.png")  # type: ignore[no-untyped-call]
    (target / "figures" / f"{item.name}.svg").write_bytes(svg.getvalue())
    uri = "data:image/svg+xml;base64," + base64.b64encode(svg.getvalue()).decode()
    width, height = chart.get_size_inches()
    return Drawn(item.name, item.caption, item.source, uri, round(width * 96), round(height * 96))


def _mark(decision: Decision) -> str:
    marks = {"holds": "\N{CHECK MARK}", "is refuted": "\N{BALLOT X}", "is undecided": "?", "was not measured": "!"}
    return marks[decision.word]


def _headline(cells: Sequence[Cell], sections: Sequence[Section]) -> list[str]:
    """Returns the main results in a few sentences with figures."""
    said = []
    known = [(cell, figure) for cell in cells if (figure := cell.figure("throughput_per_s")) is not None]
    if known:
        cell, figure = max(known, key=lambda pair: pair[1].mean)
        response = cell.figure("response_mean_s")
        mean = f", with a mean response time of {with_interval('response_mean_s', response)}" if response else ""
        highest = f"highest at {spoken_levels(cell.levels)}: " if len(cells) > 1 else ""
        said.append(f"Throughput is {highest}{with_interval('throughput_per_s', figure)}{mean}.")
    said += [section.paragraphs[0] for section in sections if section.anchor in ("where", "model")]
    return said


def warnings(run: Run) -> list[str]:
    """Returns what a reader must know before quoting any figure."""
    found = []
    if run.quick:
        found.append(
            "This is the quick version of the experiment: it shows that it works, its figures are not to be quoted."
        )
    if run.plan["environment"].get("busy"):
        found.append("The machine was busy with something else when the run began, so its figures may be of both.")
    machines = run.plan["environment"]["hosts"]
    if care := in_memory(run.experiment, {name: told.get(FILE_SYSTEM, "") for name, told in machines.items()}):
        found.append(care)
    failed = [result.name for result in run.results if not result.finished]
    if failed:
        found.append(f"{counted(len(failed), 'trial')} failed ({', '.join(failed)}); their reasons are at the end.")
    found += [f"Left out is {omission.says}: {omission.reason}" for omission in run.omissions]
    found += [
        f"{lost[0].upper()}{lost[1:]}. Its distributions, its course over time and its events are left out."
        for lost in run.lost
    ]
    found += [
        f"Trial {result.name} is not accepted, by the file's own rules: {'; '.join(result.objections)}."
        for result in run.finished
        if result.objections
    ]
    if run.missing:
        found.append(f"{counted(run.missing, 'trial')} of the plan still to run.")
    if run.experiment.run.repetitions == 1:
        found.append("Each combination was run once, so nothing here can say how much chance is in it.")
    if run.experiment.run.repetitions == 2:
        found.append(
            "Each combination was run twice only: with one degree of freedom Student's t is 12.7, so the intervals are "
            "several times as wide as those of a third repetition would be."
        )
    invalid = [result for result in run.finished if result.figures.get("generator_valid") is False]
    if invalid:
        why = invalid[0].figures.get("invalid_because")
        found.append(
            f"In {counted(len(invalid), 'trial')} the load generator calls its figures invalid "
            f"({', '.join(result.name for result in invalid)}){f', of {invalid[0].name} because {why}' if why else ''}."
        )
    broken = sorted({result.name for result in run.finished for verdict in verdicts(result) if not verdict.holds})
    if broken:
        found.append(f"In {counted(len(broken), 'trial')} an operational law does not hold ({', '.join(broken)}).")
    paused = sorted({link["part"] for result in run.finished for link in result.links if link["delay_by"] == BY_PAUSE})
    if paused:
        found.append(
            f"The delay of the link to {', '.join(paused)} is made by the load generator, which pauses for the time "
            "there and back, since this kernel cannot delay packets: response times do not hold it."
        )
    answered = sum(int(result.figures.get("errors") or 0) for result in run.finished)
    if answered:
        found.append(f"Answered with an error: {counted(answered, 'request')}; throughput counts the others.")
    violations = sum(int(result.figures.get("violations") or 0) for result in run.finished)
    if violations:
        found.append(f"Wrong by the load generator's own check: {counted(violations, 'answer')}.")
    return found
