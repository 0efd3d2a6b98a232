"""Invented trials and their cells, for tests of what is computed from figures."""

from pathlib import Path

from posthaste_lab.experiments.results import Result
from posthaste_lab.report.cells import Cell


def invented(cell: int, repetition: int, **figures: object) -> Result:
    """A trial nobody ran."""
    name = f"{cell:03}-r{repetition}"
    return Result(name, 1, cell, repetition, {"n": cell}, True, "", dict(figures), {}, None, Path("nowhere"))


def cells(*throughputs: list[float]) -> list[Cell]:
    """Cells with these throughputs."""
    return [
        Cell(n, {"n": n}, tuple(invented(n, r, throughput_per_s=x) for r, x in enumerate(each, start=1)))
        for n, each in enumerate(throughputs, start=1)
    ]
