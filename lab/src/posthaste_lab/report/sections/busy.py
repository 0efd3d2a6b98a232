"""Section about how busy the machines were: CPU cores that each part used, and how little was idle."""

import math
from typing import Any

from posthaste_lab.experiments.kinds import kinds
from posthaste_lab.experiments.results import Run, spoken_levels
from posthaste_lab.report.cells import Cell, Figure, figure_of
from posthaste_lab.report.quantities import PLUS_MINUS, digits, percent
from posthaste_lab.report.sections.parts import Section, TableItem


def busy_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns the section; None where no part told its CPU time."""
    told = [cell for cell in cells if _busiest(run, cell) is not None]
    if not told:
        return None
    hosts = list(dict.fromkeys(host for cell in told for result in cell.results for host in result.busy))
    several = "s were" if len(hosts) > 1 else " was"
    return Section("busy", f"How busy the machine{several}", [_fullest(run, told, hosts)], [_table(run, told, hosts)])


def _cores(cell: Cell, part: str) -> Figure | None:
    return figure_of(cell.results, lambda result: result.cpu_cores.get(part))


def _busy(cell: Cell, host: str) -> Figure | None:
    return figure_of(cell.results, lambda result: result.busy.get(host))


def _parts(run: Run, cells: list[Cell]) -> list[str]:
    """Returns the parts whose CPU time is told, in the order of the file."""
    return [part for part in run.experiment.parts if any(_cores(cell, part) is not None for cell in cells)]


def _busiest(run: Run, cell: Cell) -> str | None:
    """Returns the part that used most CPU time; None where none told it."""
    means = {part: figure.mean for part in run.experiment.parts if (figure := _cores(cell, part)) is not None}
    return max(means, key=lambda part: means[part], default=None)


def _throughput(cell: Cell) -> float:
    figure = cell.figure("throughput_per_s")
    return 0.0 if figure is None else figure.mean


def _fullest(run: Run, cells: list[Cell], hosts: list[str]) -> str:
    """Returns a sentence on the combination with the highest throughput."""
    cell = max(cells, key=_throughput)
    used = {part: figure.mean for part in _parts(run, [cell]) if (figure := _cores(cell, part)) is not None}
    most = max(used, key=lambda part: used[part])
    names = {host: "the machine" if len(hosts) == 1 else host for host in hosts}
    shares = [f"{names[host]} was busy {percent(share.mean)}" for host in hosts if (share := _busy(cell, host))]
    busy = f"{', '.join(shares)} of the time; " if shares else ""
    cores = run.plan["environment"]["hosts"].get(hosts[0] if len(hosts) == 1 else "", {}).get("cores")
    where = f"Where throughput is highest ({spoken_levels(cell.levels)})" if len(cells) > 1 else "In the measured time"
    return (
        f"{where}, {busy}the parts used "
        f"{digits(sum(used.values()), 3)}{f' of its {cores}' if cores else ''} cores, {most} most of it, "
        f"{digits(used[most], 3)}."
    )


def _table(run: Run, cells: list[Cell], hosts: list[str]) -> TableItem:
    parts, rows, raw = _parts(run, cells), [], []
    for cell in cells:
        used = {part: _cores(cell, part) for part in parts}
        busy = {host: _busy(cell, host) for host in hosts}
        busiest = _busiest(run, cell) or ""
        shown = [_shown(figure, 1.0, "") for figure in used.values()]
        shown += [_shown(figure, 100.0, " %") for figure in busy.values()]
        rows.append([*map(str, cell.levels.values()), *shown, busiest])
        named = {f"{part}_cpu_cores": figure for part, figure in used.items()}
        named |= {f"{host}_busy_share": figure for host, figure in busy.items()}
        raw.append({**cell.levels, **_digits(named), "busiest_part": busiest})
    repeated = any(len(cell.results) > 1 for cell in cells)
    silent = [
        name for name, part in run.experiment.parts.items() if name not in parts and kinds()[part.kind].role != "step"
    ]
    return TableItem(
        "busy",
        "CPU cores that each part used in the measured time, all its instances together, and the share of the "
        "machine's CPU time that was not idle, whoever used it"
        f"{'; means over trials with 95 % intervals' if repeated else ''}."
        + (f" Of {', '.join(silent)} it was not measured." if silent else ""),
        "trials/*/trial.json: cpu_cores, busy",
        [
            *run.experiment.factors,
            *(f"{part} (cores)" for part in parts),
            *(["machine busy"] if len(hosts) == 1 else [f"{host} busy" for host in hosts]),
            "busiest part",
        ],
        rows,
        raw,
    )


def _shown(figure: Figure | None, factor: float, unit: str) -> str:
    if figure is None:
        return ""
    known = not math.isnan(figure.low) and figure.half_width > 0
    half = f" {PLUS_MINUS} {digits(figure.half_width * factor, 2)}" if known else ""
    return f"{digits(figure.mean * factor, 3)}{half}{unit}"


def _digits(named: dict[str, Figure | None]) -> dict[str, Any]:
    """Returns means and intervals by name, with all digits."""
    return {
        f"{name}{suffix}": value
        for name, figure in named.items()
        if figure is not None
        for suffix, value in (("", figure.mean), ("_low", figure.low), ("_high", figure.high))
    }
