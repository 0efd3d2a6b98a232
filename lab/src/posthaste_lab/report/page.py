"""Writes the report: one self-contained page, and beside it every chart as PNG and SVG and every table as CSV.

Of an earlier report in the same place nothing stays.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG

from posthaste_lab.experiments.journal import write_table
from posthaste_lab.experiments.results import spoken_levels
from posthaste_lab.files import write_whole
from posthaste_lab.report.cells import Cell, cells_of, read_finished
from posthaste_lab.report.charts.style import styled
from posthaste_lab.report.leftovers import replace_files
from posthaste_lab.report.quantities import with_interval
from posthaste_lab.report.sections import SECTIONS, ChartItem, Section, TableItem
from posthaste_lab.report.verdict import Decision, decisions_of, overall
from posthaste_lab.report.warnings import warnings

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

    Raises BadArgument when there is no run, or none of its trials is over and counts.
    """
    run = read_finished(directory, "report")
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
    replace_files(target, (name for section in sections for item in section.items for name in _files_of(item)))
    return index


def _files_of(item: ChartItem | TableItem) -> list[str]:
    """Returns the files that `_item` writes, by their paths in the report."""
    if isinstance(item, TableItem):
        return [f"tables/{item.name}.csv"]
    return [f"figures/{item.name}.{ending}" for ending in ("png", "svg")]


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
