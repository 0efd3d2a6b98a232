"""Where more clients bring no more throughput, only longer waiting: the knee as it was measured, without a model."""

import math
from dataclasses import dataclass
from itertools import pairwise

from posthaste_lab.report.cells import Cell, Figure

GROWTH_LEAST = 0.1  # of the throughput, for each doubling of the clients: below it, it has stopped growing
WAITS = ("waiting_mean_s", "response_mean_s")  # what grows instead, the one that says more first


@dataclass(frozen=True)
class Level:
    """A level of the load: how many clients, what they got, and how long they waited."""

    cell: Cell
    clients: float
    throughput: Figure
    waits: dict[str, Figure]

    def growth(self, later: "Level") -> float:
        """By what share throughput grows from here to `later`, for each doubling of the clients."""
        doublings = math.log2(later.clients / self.clients)
        return float((later.throughput.mean / self.throughput.mean) ** (1 / doublings)) - 1


@dataclass(frozen=True)
class Saturation:
    """A line of levels: where it saturates, None where no level does; growth is from there, or at the end.

    `peak` is a level behind `since` at which throughput had grown, where it has lost that again at the last one.
    """

    knee: Level | None
    since: Level
    last: Level
    peak: Level | None = None

    @property
    def growth(self) -> float:
        """Of the throughput, for each doubling of the clients from `since` to `last`."""
        return self.since.growth(self.last)


def saturation(line: list[Cell]) -> Saturation | None:
    """What a line of cells by ascending load tells; None where clients do not double, or arrive at a rate.

    It saturates at the first level from which on throughput grows by less than `GROWTH_LEAST` per doubling, while
    requests wait longer. Less than a doubling counts as one: between 45 and 50 clients the growth of a whole doubling
    would be made of noise. For the same reason levels that have no other twice as high above them are not judged.
    Intervals decide nothing here: those of two or three trials are so wide that they hold any growth.
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


def _peak(since: Level, later: list[Level]) -> Level | None:
    grown = [level for level in later if not _flat(since, level)]
    if not grown or not _flat(since, later[-1]):
        return None
    return max(grown, key=lambda level: level.throughput.mean)


def _level(cell: Cell) -> Level | None:
    clients, throughput = cell.figure("population"), cell.figure("throughput_per_s")
    if clients is None or throughput is None or clients.mean <= 0 or throughput.mean <= 0:
        return None
    if any(result.figures.get("open_loop") for result in cell.results):
        return None
    waits = {name: figure for name in WAITS if (figure := cell.figure(name)) is not None}
    return Level(cell, clients.mean, throughput, waits)


def _flat(level: Level, later: Level) -> bool:
    doublings = max(1.0, math.log2(later.clients / level.clients))
    return bool(later.throughput.mean < level.throughput.mean * (1 + GROWTH_LEAST) ** doublings)


def _waits_longer(level: Level, last: Level) -> bool:
    return any(level.waits[name].mean < last.waits[name].mean for name in level.waits if name in last.waits)
