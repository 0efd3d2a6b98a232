"""The elements of sections, and helpers that several sections use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from matplotlib.figure import Figure as Chart

from posthaste_lab.experiments.results import Run, spoken_levels
from posthaste_lab.report.cells import Cell

T = TypeVar("T")
EVENLY = "evenly chosen"


@dataclass(frozen=True)
class ChartItem:
    """A chart; `draw` makes it, `caption` says how to read it, `source` where its figures come from."""

    name: str
    caption: str
    source: str
    draw: Callable[[], Chart]


@dataclass(frozen=True)
class TableItem:
    """A table: text for the page, and the same rows with all digits for its CSV."""

    name: str
    caption: str
    source: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    raw: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    anchor: str
    title: str
    paragraphs: list[str] = field(default_factory=list)
    items: list[ChartItem | TableItem] = field(default_factory=list)


def few(things: Sequence[T], most: int) -> list[T]:
    """Returns at most `most` of the things, evenly spaced, with the first and the last."""
    if len(things) <= most:
        return list(things)
    return [things[round(place * (len(things) - 1) / (most - 1))] for place in range(most)]


def load_of(cell: Cell) -> float:
    """Returns the number of clients of a cell; 0 where it was not recorded."""
    population = cell.figure("population")
    return 0.0 if population is None else population.mean


def names_of(run: Run, cells: Sequence[Cell]) -> list[str]:
    """Returns names of cells: their levels, or the level alone if there is only one factor."""
    if len(run.experiment.factors) == 1 and run.x is not None:
        return [str(cell.levels[run.x]) for cell in cells]
    return [spoken_levels(cell.levels) for cell in cells]


def x_label(run: Run) -> str:
    """The label of the horizontal axis."""
    if run.x is None:
        return "combination of levels"
    unit = run.experiment.factors[run.x].unit
    return f"{run.x} ({unit})" if unit and unit != run.x else run.x
