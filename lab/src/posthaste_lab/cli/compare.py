"""`posthaste-lab compare BASE NEW`: what differs between two runs, with its interval and size."""

import math
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from posthaste_lab.cli.doubts import tell_doubts, tell_lost
from posthaste_lab.cli.show import console, number, signed, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.environment import other_machines
from posthaste_lab.experiments.figures import Row
from posthaste_lab.experiments.results import Run, read_run, spoken_levels
from posthaste_lab.stats import compare_means

FIGURES = "throughput_per_s,response_mean_s,response_p99_s"
LOGARITHM_MAX = 700.0  # of numbers that a float can hold


def compare(
    base: Annotated[Path, typer.Argument(help="Directory of the run to compare with.", metavar="BASE")],
    new: Annotated[Path, typer.Argument(help="Directory of the other run.", metavar="NEW")],
    figure: Annotated[str, typer.Option(help="Columns of trials.csv to compare.", metavar="COLUMN,…")] = FIGURES,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
) -> None:
    """Compare two runs combination by combination: each figure's change, its interval, and its size.

    Trials of the two runs are independent samples (Welch); those that fit would leave out are not among them. The
    change is that of the geometric mean from BASE to NEW, with the interval of the ratio: it is told on logarithms, and
    so are the p value and the effect size, Hedges' g: the change in standard deviations between trials. Of a figure
    that is not above 0 in every trial it is the difference, in the unit of the figure. The interval of the bootstrap
    needs 8 trials.

    Example: posthaste-lab compare results/before results/after
    """
    from posthaste_lab.report.cells import TOO_FEW, is_luck  # with matplotlib, which is slow to load

    runs = _read("BASE", base), _read("NEW", new)
    names = [name.strip() for name in figure.split(",")]
    before, after = (_values(run, names) for run in runs)
    shared = [key for key in before if key in after]
    if not shared:
        raise BadArgument("NEW", str(new), f"shares no combination of levels with {base} that has {', '.join(names)}")
    rows, intervals = [], 0
    for levels, name in shared:
        old, others = before[levels, name], after[levels, name]
        means = number(_mean(old.values)), number(_mean(others.values))
        if is_luck(name, [*old.trials, *others.trials]):
            told = Told("-", TOO_FEW)
        else:
            told = _told(old.values, others.values, confidence)
        intervals += told.p_value != "-"
        rows.append((levels, name, *means, *told))
    ends = f"{confidence:.0%} interval"
    head = ("levels", "figure", "base", "new", "change", ends, "p", "effect size", "bootstrap")
    out = console()
    out.print(table("", head, rows))
    if intervals > 1:
        out.print(
            f"each of these {intervals} intervals holds by itself: where nothing has changed, one in "
            f"{1 / (1 - confidence):.3g} of them excludes 0 all the same"
        )
    if missing := {levels for levels, _ in before.keys() ^ after.keys()} - {levels for levels, _ in shared}:
        out.print(f"in one of the runs only: {'; '.join(sorted(missing))}")
    if runs[0].plan["experiment_sha256"] != runs[1].plan["experiment_sha256"]:
        out.print("note: the experiment files of the two runs are not the same, and what differs may be theirs")
    if differ := other_machines(*(run.plan["environment"] for run in runs)):
        out.print(f"note: the runs are of different machines, and what differs may be theirs: {'; '.join(differ)}")
    for run in runs:
        tell_doubts(out, run, f"{run.directory}: ")


def _read(argument: str, directory: Path) -> Run:
    """Reads a run. Raises BadArgument when it holds no trial to compare."""
    run = read_run(directory)
    tell_lost(run, "the comparison leaves it out")
    if not run.accepted:
        raise BadArgument(argument, str(directory), "holds no trial that is finished, accepted and whole")
    return run


class Values(NamedTuple):
    """A figure's values over the trials of a combination, and the figures of these trials."""

    values: list[float]
    trials: list[Row]


def _values(run: Run, names: list[str]) -> dict[tuple[str, str], Values]:
    """Returns the values of each figure over the trials, by levels in words and the figure's name."""
    found: dict[tuple[str, str], Values] = {}
    for result in run.accepted:
        for name in names:
            value = result.figures.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                values, trials = found.setdefault((spoken_levels(result.levels), name), Values([], []))
                values.append(float(value))
                trials.append(result.figures)
    return found


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


class Told(NamedTuple):
    """What a row tells of a change."""

    change: str
    interval: str
    p_value: str = "-"
    effect_size: str = "-"
    bootstrap: str = "-"


def _told(old: list[float], others: list[float], confidence: float) -> Told:
    above_0 = min(*old, *others) > 0
    scale, said = (math.log, _ratio) if above_0 else (float, number)
    before, after = [scale(value) for value in old], [scale(value) for value in others]
    if min(len(old), len(others)) < 2:
        return Told(said(_mean(after) - _mean(before)), "one trial has none")
    found = compare_means(after, before, confidence)
    drawn = found.bootstrap
    return Told(
        said(found.difference),
        f"[{said(found.low)}, {said(found.high)}]",
        number(found.p_value),
        number(found.effect_size),
        "-" if drawn is None else f"[{said(drawn.low)}, {said(drawn.high)}]",
    )


def _ratio(logarithm: float) -> str:
    """Returns the change by a factor that is given as its logarithm."""
    return signed(math.expm1(logarithm) if logarithm < LOGARITHM_MAX else math.inf)
