"""Section about the kinds of requests: the response time of each over the load, and a table of all."""

from posthaste_lab.experiments.results import Run
from posthaste_lab.report.cells import TOO_FEW, Cell, is_luck, series_of
from posthaste_lab.report.charts import kinds_over_load_chart
from posthaste_lab.report.charts.style import SERIES_MAX, left_out
from posthaste_lab.report.quantities import with_interval
from posthaste_lab.report.sections.parts import EVENLY, ChartItem, Section, TableItem, few, x_label

PLOTS_MAX = 6  # more would be taller than a page


def kinds_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns the section; None when no load told kinds apart."""
    told = [cell for cell in cells if any(result.kinds for result in cell.results)]
    if not told:
        return None
    section = Section("kinds", "Kinds of requests")
    if run.x is not None:
        lines = {name: line for name, line in series_of(run, told).items() if len(line) > 1}
        if lines:
            section.items.append(_over_load(run, run.x, lines, _most_frequent(told)))
    section.items.append(_table(run, told))
    return section


def _most_frequent(cells: list[Cell]) -> list[str]:
    """Returns all kinds of requests, the most frequent first."""
    served: dict[str, float] = {}
    for result in (result for cell in cells for result in cell.results):
        for kind, figures in result.kinds.items():
            served[kind] = served.get(kind, 0.0) + float(figures.get("served", 0.0))
    return sorted(served, key=lambda kind: (-served[kind], kind))


def _over_load(run: Run, x: str, lines: dict[str, list[Cell]], kinds: list[str]) -> ChartItem:
    shown = {name: lines[name] for name in few(list(lines), PLOTS_MAX)}
    drawn = sorted(kinds[:SERIES_MAX])
    return ChartItem(
        "kinds-over-load",
        f"Mean response time of each kind of request{', on one scale' if len(shown) > 1 else ''}."
        + left_out(len(shown), len(lines), "plots", EVENLY)
        + left_out(len(drawn), len(kinds), "kinds", "the most frequent"),
        "kinds.csv: response_mean_s",
        lambda: kinds_over_load_chart(shown, drawn, x, x_label(run)),
    )


def _table(run: Run, cells: list[Cell]) -> TableItem:
    columns = ["throughput_per_s", "response_mean_s", "response_p99_s", "waiting_mean_s", "service_mean_s"]
    heads = ["per second", "mean response time", "99th percentile", "waiting", "service"]
    rows, raw = [], []
    for cell in cells:
        for kind in sorted({kind for result in cell.results for kind in result.kinds}):
            trials = [result.kinds.get(kind, {}) for result in cell.results]
            measured = {name: cell.kind_figure(kind, name) for name in columns}
            figures = {name: None if is_luck(name, trials) else each for name, each in measured.items()}
            # A figure that was not measured, such as a percentile of several loads, is empty, not "too few requests".
            absent = {name: "" if each is None else TOO_FEW for name, each in measured.items()}
            text = [absent[name] if each is None else with_interval(name, each) for name, each in figures.items()]
            text[0] = text[0].removesuffix(" per second")
            rows.append([*(str(level) for level in cell.levels.values()), kind, *text])
            known = {name: figure.mean for name, figure in figures.items() if figure is not None}
            raw.append({**cell.levels, "kind": kind, **known})
    repeated = any(len(cell.results) > 1 for cell in cells)
    means = "means over trials with 95 % intervals" if repeated else "of a single trial each"
    return TableItem(
        "kinds",
        f"Each kind of request, {means}.",
        "kinds.csv",
        [*run.experiment.factors, "kind", *heads],
        rows,
        raw,
    )
