"""Throughput and response time of every combination, as a table and against the load."""

from typing import Any

from posthaste_lab.experiments.results import Run
from posthaste_lab.report.cells import TOO_FEW, Cell, is_luck, series_of
from posthaste_lab.report.charts import cells_chart, load_chart
from posthaste_lab.report.charts.load import fastest
from posthaste_lab.report.charts.style import left_out
from posthaste_lab.report.quantities import with_interval
from posthaste_lab.report.sections.knees import knees
from posthaste_lab.report.sections.parts import ChartItem, Section, TableItem, names_of, x_label

COLUMNS = {
    "throughput_per_s": "throughput",
    "response_mean_s": "mean response time",
    "response_p99_s": "99th percentile",
    "call_mean_s": "mean time of a call",
    "errors": "errors",
}
POINTS = (
    "Points are means over trials with 95 % intervals (one that leaves the plot is wider than it), short lines the "
    "trials themselves"
)
LAW = (
    "; the dotted line is the mean over the trials of what the interactive law, N = X (R + Z), makes of each trial's "
    "figure in the other plot, so it lies on the points unless a figure is wrong. The product of the two means is N "
    "only where the trials agree."
)


def overview_section(run: Run, cells: list[Cell]) -> Section:
    """Returns the most important figures of every combination."""
    section = Section("overview", "Throughput and response time")
    section.items.append(_table(run, cells))
    has_response = any(cell.figure("response_mean_s") is not None for cell in cells)
    if run.x is not None and has_response:
        lines = series_of(run, cells)
        section.items.append(
            ChartItem(
                "load",
                f"Throughput and mean response time. {POINTS if _repeated(cells) else 'Each point is a single trial'}"
                + (LAW if any(_closed(cell) for cell in cells) else ".")
                + left_out(len(fastest(lines)), len(lines), "lines", "those with the highest throughput"),
                "trials.csv: throughput_per_s, response_mean_s, population, think_kept_s",
                lambda: load_chart(lines, run.x or "", x_label(run)),
            )
        )
        said, table = knees(run, cells)
        section.paragraphs.extend(said)
        section.items.extend(table)
    elif len(cells) > 1:
        for name, label in (
            ("throughput_per_s", "throughput (requests per second)"),
            ("response_mean_s", "mean response time"),
        ):
            if any(cell.figure(name) is not None for cell in cells):
                section.items.append(_points(run, cells, name, label))
    return section


def _repeated(cells: list[Cell]) -> bool:
    return max(len(cell.results) for cell in cells) > 1


def _closed(cell: Cell) -> bool:
    return not all(result.figures.get("open_loop") for result in cell.results)


def _points(run: Run, cells: list[Cell], name: str, label: str) -> ChartItem:
    return ChartItem(
        f"combinations-{name.split('_')[0]}",
        "Each combination: "
        + ("mean with 95 % interval, and every trial as a tick." if _repeated(cells) else "its only trial."),
        f"trials.csv: {name}",
        lambda: cells_chart(cells, names_of(run, cells), name, label),
    )


def _table(run: Run, cells: list[Cell]) -> TableItem:
    shown = [name for name in COLUMNS if any(cell.figure(name) is not None for cell in cells)]
    rows, raw = [], []
    for cell in cells:
        row, full = [str(level) for level in cell.levels.values()], dict[str, Any](cell.levels)
        for name in shown:
            figure = cell.figure(name)
            if figure is not None and is_luck(name, (result.figures for result in cell.results)):
                row.append(TOO_FEW)
                continue
            row.append("" if figure is None else with_interval(name, figure))
            if figure is not None:
                full |= {name: figure.mean, f"{name}_low": figure.low, f"{name}_high": figure.high}
        row.append(str(len(cell.results)))
        rows.append(row)
        raw.append(full | {"trials": " ".join(result.name for result in cell.results)})
    repeated = _repeated(cells)
    of_each = (
        " The 99th percentile is each trial's own." if repeated and any("response_p99_s" in row for row in raw) else ""
    )
    intervals = "with Student's 95 % intervals over trials" if repeated else "of a single trial each, so no interval"
    return TableItem(
        "combinations",
        f"Means {intervals}.{of_each}",
        "trials.csv",
        [*run.experiment.factors, *(COLUMNS[name] for name in shown), "trials"],
        rows,
        raw,
    )
