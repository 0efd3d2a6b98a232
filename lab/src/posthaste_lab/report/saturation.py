"""The measured knee, without a model: the load from which more clients wait longer but get no more throughput."""

import math
from dataclasses import dataclass
from itertools import pairwise

from posthaste_lab.report.cells import Cell, Figure

GROWTH_LEAST = 0.1  # growth of throughput for each doubling of the clients, below which it counts as none
WAITS = ("waiting_mean_s", "response_mean_s")  # figures that grow instead, the more telling one first


@dataclass(frozen=True)
class Load:
    """A level of the load: its number of clients, their throughput, and how long they waited."""

    cell: Cell
    clients: float
    throughput: Figure
    waits: dict[str, Figure]

    def growth(self, later: "Load") -> float:
        """Returns the share by which throughput grows from this level to `later`, for each doubling of the clients."""
        doublings = math.log2(later.clients / self.clients)
        return float((later.throughput.mean / self.throughput.mean) ** (1 / doublings)) - 1


@dataclass(frozen=True)
class Saturation:
    """The saturation of a line of levels. `knee` is the level where it begins; None where no level saturates.

    `growth` is that from `since` (the knee, or else the last level that could be judged) to `last`. `peak` is a level
    after `since` at which throughput had grown, if it fell again until the last level.
    """

    knee: Load | None
    since: Load
    last: Load
    peak: Load | None = None

    @property
    def growth(self) -> float:
        """The growth of throughput from `since` to `last`, for each doubling of the clients."""
        return self.since.growth(self.last)


def saturation(line: list[Cell]) -> Saturation | None:
    """Returns the saturation of a line of cells by ascending load; None where clients do not double, or come at a rate.

    The line saturates at the first level from which on throughput grows by less than `GROWTH_LEAST` per doubling, while
    requests wait longer. A step of less than a doubling counts as a doubling: extrapolated from 45 to 50 clients, its
    growth would be noise. For the same reason levels without another one at least twice as high are not judged.
    Intervals are not used: those of two or three trials are so wide that they hold any growth.
    """
    levels = [level for cell in line if (level := _level(cell)) is not None]
    if len(levels) < 3 or any(low.clients >= high.clients for low, high in pairwise(levels)):
        return None
    last = levels[-1]
    judged = [level for level in levels if 2 * level.clients <= last.clients]
    if not judged:
        return None
    for place, level in enumerate(judged):
        if all(_flat(level, later) for later in levels[place + 1 :]) and _waits_longer(level, last):
            return Saturation(level, level, last)
    return Saturation(None, judged[-1], last, _peak(judged[-1], levels[len(judged) :]))


def _peak(since: Load, later: list[Load]) -> Load | None:
    grown = [level for level in later if not _flat(since, level)]
    if not grown or not _flat(since, later[-1]):
        return None
    return max(grown, key=lambda level: level.throughput.mean)


def _level(cell: Cell) -> Load | None:
    clients, throughput = cell.figure("population"), cell.figure("throughput_per_s")
    if clients is None or throughput is None or clients.mean <= 0 or throughput.mean <= 0:
        return None
    if any(result.figures.get("open_loop") for result in cell.results):
        return None
    waits = {name: figure for name in WAITS if (figure := cell.figure(name)) is not None}
    return Load(cell, clients.mean, throughput, waits)


def _flat(level: Load, later: Load) -> bool:
    doublings = max(1.0, math.log2(later.clients / level.clients))
    return bool(later.throughput.mean < level.throughput.mean * (1 + GROWTH_LEAST) ** doublings)


def _waits_longer(level: Load, last: Load) -> bool:
    return any(level.waits[name].mean < last.waits[name].mean for name in level.waits if name in last.waits)
