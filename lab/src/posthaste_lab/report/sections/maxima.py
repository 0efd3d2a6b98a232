"""Section about the highest throughput of each configuration over the load, with other figures at that load."""

from collections.abc import Callable
from typing import Any

from posthaste_lab.experiments.figures import kept_think_s, response_of_all_s
from posthaste_lab.experiments.results import Result, Run
from posthaste_lab.report.cells import Cell, Figure, figure_of, series_of
from posthaste_lab.report.quantities import with_interval
from posthaste_lab.report.sections.parts import Section, TableItem

Read = Callable[[Result], float | None]


def maxima_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns a row for each line of the load chart; None when the load is not varied, or is the only factor."""
    if run.x is None or not run.other_factors:
        return None
    lines = [line for line in series_of(run, cells).values() if len(line) > 1 and _best(line) is not None]
    return (
        Section("maxima", "The highest throughput of each configuration", [], [_table(run, lines)]) if lines else None
    )


def _best(line: list[Cell]) -> Cell | None:
    known = [(figure.mean, cell) for cell in line if (figure := cell.figure("throughput_per_s")) is not None]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _by_law(result: Result) -> float | None:
    """X = N / (R + Z), of a closed system (Jain 1991, section 33.5); of all answers, as R is."""
    figures = result.figures
    response = response_of_all_s(figures)
    if figures.get("open_loop") or not figures.get("population") or not response:
        return None
    return float(figures["population"]) / (response + kept_think_s(figures))


def _waiting(result: Result) -> float | None:
    """Returns the mean number of requests waiting in the tier, by Little's law: throughput times waiting time."""
    rate, wait = result.figures.get("tier_counted_per_s"), result.figures.get("waiting_mean_s")
    return None if rate is None or wait is None else float(rate) * float(wait)


def _nulls(result: Result) -> float | None:
    served, nulls = result.figures.get("served"), result.figures.get("nulls")
    return 100.0 * float(nulls) / float(served) if served and nulls is not None else None


def _named(name: str) -> Read:
    return lambda result: result.figures.get(name)


# For each column its heading, the name of its figure, which determines the unit, and a reader of a trial's figure.
COLUMNS: list[tuple[str, str, Read]] = [
    ("clients counted", "throughput_per_s", _named("throughput_per_s")),
    ("tier counted", "tier_counted_per_s", _named("tier_counted_per_s")),
    ("by the law", "by_law_per_s", _by_law),
    ("response time", "response_mean_s", _named("response_mean_s")),
    ("waiting", "waiting_mean_s", _named("waiting_mean_s")),
    ("in line", "requests_waiting", _waiting),
    ("service", "service_mean_s", _named("service_mean_s")),
    ("empty (%)", "nulls_pct", _nulls),
]


def _table(run: Run, lines: list[list[Cell]]) -> TableItem:
    best = [(line, cell) for line in lines if (cell := _best(line)) is not None]
    read: list[list[Figure | None]] = [
        [figure_of(cell.results, column) for _, _, column in COLUMNS] for _, cell in best
    ]
    shown = [place for place in range(len(COLUMNS)) if any(figures[place] is not None for figures in read)]
    rows, raw = [], []
    at_the_end = False
    for (line, cell), figures in zip(best, read, strict=True):
        is_last = cell is line[-1]
        at_the_end |= is_last
        others = [str(cell.levels[name]) for name in run.other_factors]
        row = [*others, f"{cell.levels[run.x or '']}{' *' if is_last else ''}"]
        full: dict[str, Any] = {**cell.levels, "highest_level": is_last}
        for place in shown:
            figure, name = figures[place], COLUMNS[place][1]
            row.append("" if figure is None else with_interval(name, figure).removesuffix(" per second"))
            if figure is not None:
                full |= {name: figure.mean, f"{name}_low": figure.low, f"{name}_high": figure.high}
        rows.append(row)
        raw.append(full)
    more = f" * The highest level of {run.x}: with more there may be more." if at_the_end else ""
    return TableItem(
        "maxima",
        f"Where throughput is highest over {run.x}: as clients and tier counted it, and as the interactive law gives "
        "it, N / (R + Z), of all answers, errors among them, per second. In line are throughput times waiting, by "
        f"Little's law; empty are misses and nulls.{more}",
        "trials.csv",
        [*run.other_factors, str(run.x), *(COLUMNS[place][0] for place in shown)],
        rows,
        raw,
    )
