"""`posthaste-lab compare BASE NEW`: what differs between two runs, with its interval and size."""

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from posthaste_lab.cli.fit import tell_left_out, tell_lost
from posthaste_lab.cli.show import console, number, signed, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.results import Run, read_run, spoken_levels
from posthaste_lab.stats import Comparison, compare_means

FIGURES = "throughput_per_s,response_mean_s,response_p99_s"


def compare(
    base: Annotated[Path, typer.Argument(help="Directory of the run to compare with.", metavar="BASE")],
    new: Annotated[Path, typer.Argument(help="Directory of the other run.", metavar="NEW")],
    figure: Annotated[str, typer.Option(help="Columns of trials.csv to compare.", metavar="COLUMN,…")] = FIGURES,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
) -> None:
    """Compare two runs combination by combination: each figure's change, its interval, and its size.

    Trials of the two runs are independent samples (Welch); those that fit would leave out are not among them. The
    change is NEW less BASE, as a share of BASE. The effect size is Hedges' g: the change in standard deviations between
    trials. The interval of the bootstrap needs 8 trials.

    Example: posthaste-lab compare results/before results/after
    """
    runs = _read("BASE", base), _read("NEW", new)
    names = [name.strip() for name in figure.split(",")]
    before, after = (_values(run, names) for run in runs)
    shared = [key for key in before if key in after]
    if not shared:
        raise BadArgument("NEW", str(new), f"shares no combination of levels with {base} that has {', '.join(names)}")
    rows = []
    for levels, name in shared:
        old, others = before[levels, name], after[levels, name]
        few = min(len(old), len(others)) < 2
        found = None if few else compare_means(others, old, confidence)
        rows.append((levels, name, number(_mean(old)), number(_mean(others)), *_told(old, others, found)))
    ends = f"{confidence:.0%} interval"
    head = ("levels", "figure", "base", "new", "change", ends, "p", "effect size", "bootstrap")
    out = console()
    out.print(table("", head, rows))
    if missing := {levels for levels, _ in before.keys() ^ after.keys()} - {levels for levels, _ in shared}:
        out.print(f"in one of the runs only: {'; '.join(sorted(missing))}")
    if runs[0].plan["environment"]["hosts"] != runs[1].plan["environment"]["hosts"]:
        out.print("note: the runs are of different machines, and what differs may be theirs")
    for run in runs:
        _tell_doubts(out, run)


def _read(argument: str, directory: Path) -> Run:
    """Reads a run. Raises BadArgument when it holds no trial to compare."""
    run = read_run(directory)
    tell_lost(run, "the comparison leaves it out")
    if not run.accepted:
        raise BadArgument(argument, str(directory), "holds no trial that is finished, accepted and whole")
    return run


def _tell_doubts(out: Console, run: Run) -> None:
    """Prints which trials are not compared, and what a reader must know before quoting the others."""
    from posthaste_lab.report.warnings import warnings  # with matplotlib, which is slow to load

    tell_left_out(out, run, f"{run.directory}: ")
    for warning in warnings(run):
        out.print(f"{run.directory}: {warning}")


def _values(run: Run, names: list[str]) -> dict[tuple[str, str], list[float]]:
    """Returns the values of each figure over the trials, by levels in words and the figure's name."""
    found: dict[tuple[str, str], list[float]] = {}
    for result in run.accepted:
        for name in names:
            value = result.figures.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                found.setdefault((spoken_levels(result.levels), name), []).append(float(value))
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _told(old: list[float], others: list[float], found: Comparison | None) -> tuple[str, str, str, str, str]:
    base = _mean(old)
    if found is None:
        return (signed(_mean(others) / base - 1) if base else "-", "one trial has none", "-", "-", "-")
    drawn = found.bootstrap
    return (
        signed(found.relative) if base else "-",
        _shares(found.low, found.high, base),
        number(found.p_value),
        number(found.effect_size),
        "-" if drawn is None else _shares(drawn.low, drawn.high, base),
    )


def _shares(low: float, high: float, base: float) -> str:
    return f"[{signed(low / base)}, {signed(high / base)}]" if base else f"[{number(low)}, {number(high)}]"
