"""Describes where each line of the load chart saturates, in sentences and a table."""

import math
from typing import Any

from posthaste_lab.experiments.results import Run
from posthaste_lab.report.cells import Cell, Figure, series_of
from posthaste_lab.report.quantities import percent, time, with_interval
from posthaste_lab.report.saturation import GROWTH_LEAST, Load, Saturation, saturation
from posthaste_lab.report.sections.parts import TableItem

WORDS = {"waiting_mean_s": "waiting", "response_mean_s": "response time"}
SENTENCES_MAX = 4  # with more lines only the table describes them


def knees(run: Run, cells: list[Cell]) -> tuple[list[str], list[TableItem]]:
    """Returns sentences and a table; empty where the load does not consist of clients in closed loops."""
    found = {name: at for name, line in series_of(run, cells).items() if (at := saturation(line)) is not None}
    if not found:
        return [], []
    saturated = sum(at.knee is not None for at in found.values())
    if saturated and len(found) > SENTENCES_MAX:
        said = [f"Throughput saturates in {saturated} of {len(found)} configurations, at the levels of the table."]
    elif saturated:
        said = [_sentence(run, name, at) for name, at in found.items()]
    else:
        said = [f"No level of {run.x} saturates: {_ends(run, list(found.values()))}."]
    return said, [_table(run, found)]


def _ends(run: Run, found: list[Saturation]) -> str:
    """Describes the highest levels: throughput still grows, or rose and fell, or requests wait no longer."""
    slowest = min(found, key=lambda at: at.growth)
    where = f"from {slowest.since.cell.levels[run.x or '']} to {slowest.last.cell.levels[run.x or '']}"
    if (peak := slowest.peak) is not None:
        return (
            f"{where} throughput rises and falls again, from {_rate(slowest.since)} to {_rate(peak)} at {run.x} = "
            f"{peak.cell.levels[run.x or '']} and {_rate(slowest.last)} at the end"
        )
    if slowest.growth < GROWTH_LEAST:
        return f"where throughput grows no more at the end, requests wait no longer ({_rule()})"
    least = "" if len(found) == 1 else " at least"
    return f"{where} throughput still grows by{least} {percent(slowest.growth)} for each doubling of the clients"


def _rate(level: Load) -> str:
    return with_interval("throughput_per_s", level.throughput)


def _rule() -> str:
    return f"growth by less than {percent(GROWTH_LEAST)} counts as none"


def _sentence(run: Run, name: str, at: Saturation) -> str:
    where = f" with {name}" if name else ""
    if at.knee is None:
        return f"Throughput does not saturate{where}: {_ends(run, [at])}."
    last = f"{run.x} = {at.last.cell.levels[run.x or '']}"
    waits = " and ".join(
        f"{words} from {time(at.knee.waits[figure].mean)} to {time(at.last.waits[figure].mean)}"
        for figure, words in WORDS.items()
        if figure in at.knee.waits and figure in at.last.waits
        # In a tier without a line nobody waits.
        if at.knee.waits[figure].mean > 0 or at.last.waits[figure].mean > 0
    )
    return (
        f"Throughput saturates{where} at {run.x} = {at.knee.cell.levels[run.x or '']}, with "
        f"{with_interval('throughput_per_s', at.knee.throughput)}: from there to {last} it changes by "
        f"{percent(at.growth)} for each doubling of the clients ({_rule()}){waits and f', {waits}'}."
    )


def _table(run: Run, found: dict[str, Saturation]) -> TableItem:
    waits = [name for name in WORDS if any(name in at.since.waits for at in found.values())]
    rows, raw = [], []
    for at in found.values():
        others = {name: at.since.cell.levels[name] for name in run.other_factors}
        knee, last = at.knee, at.last.cell.levels[run.x or ""]
        level = None if knee is None else knee.cell.levels[run.x or ""]
        row = [*map(str, others.values()), "none" if level is None else str(level), str(last)]
        full: dict[str, Any] = {**others, "saturates_at": level, "last": last, "growth_per_doubling": at.growth}
        for name in ("throughput_per_s", *waits):
            here, there = (None if each is None else _figure(each, name) for each in (knee, at.last))
            row += [_text(name, here), _text(name, there)]
            full |= {f"{name}_there": _mean(here), f"{name}_last": _mean(there)}
        rows.append([*row, percent(at.growth)])
        raw.append(full)
    pairs = [words for name in waits for words in (f"{WORDS[name]} there", "at the highest")]
    return TableItem(
        "saturation",
        f"Where throughput stops growing over {run.x}: the first level from which on it grows by less than "
        f"{percent(GROWTH_LEAST)} for each doubling of the clients while requests wait longer, beside the highest "
        "level measured. Growth is from there on; where no level saturates, over the last doubling.",
        "trials.csv: throughput_per_s, population, waiting_mean_s, response_mean_s",
        [*run.other_factors, f"from {run.x}", "highest", "throughput there", "at the highest", *pairs, "growth"],
        rows,
        raw,
    )


def _figure(level: Load, name: str) -> Figure | None:
    return level.throughput if name == "throughput_per_s" else level.waits.get(name)


def _text(name: str, figure: Figure | None) -> str:
    return "" if figure is None else with_interval(name, figure).removesuffix(" per second")


def _mean(figure: Figure | None) -> float:
    return math.nan if figure is None else figure.mean
