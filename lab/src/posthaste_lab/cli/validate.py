"""`posthaste-lab validate`: how far to trust a fitted model, as tables for a terminal or for a page of documents."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from posthaste_lab import fitting
from posthaste_lab.cli.doubts import tell_doubts, tell_lost
from posthaste_lab.cli.fit import ABOUT_OPEN_MODELS, Where, counts_of, levels_of
from posthaste_lab.cli.show import console, number, percent, signed, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.results import Run, read_run
from posthaste_lab.fitting.levels import Asked
from posthaste_lab.fitting.observations import Observation, observations
from posthaste_lab.fitting.validation import CALIBRATED_MAX, Line, Summary, Validation

HEAD = ("clients", "throughput /s", "model", "off by", "response ms", "model", "off by", "M/M/1 ms", "M/M/m ms")


@dataclass(frozen=True)
class Found:
    """One combination of levels of a run, validated."""

    run: Run
    title: str
    validation: Validation

    @property
    def kept(self) -> bool:
        """Whether both errors are within their bounds."""
        return self.validation.throughput.kept and self.validation.response.kept

    @property
    def verdict(self) -> str:
        """The verdict in words; "met" means the target itself, not only the measurement's wider interval."""
        if not self.kept:
            return "missed"
        met = self.validation.throughput.met and self.validation.response.met
        return "met" if met else "within the interval only"


def validate(
    directories: Annotated[list[Path], typer.Argument(help="Directories of runs.", metavar="DIR…")],
    calibrate: Annotated[
        str | None,
        typer.Option(
            help=f"At most {CALIBRATED_MAX} numbers of clients to fit to [default: spread over all].", metavar="N,N,…"
        ),
    ] = None,
    where: Where = "",
    markdown: Annotated[bool, typer.Option(help="Write the tables in Markdown, with where they come from.")] = False,
) -> None:
    """Fit to a few numbers of clients, predict the others, compare. Exit code 1 when it is off by more than it may be.

    It may be off by 5 % of the throughput, 10 % of the mean response time, or the measurement's own interval where that
    is wider: what counts is the mean, over the clients that were predicted, of each error's share of what it may be.
    Every combination of the levels of other factors is a row.

    Example: posthaste-lab validate results/validation --calibrate 1,5,28,128
    """
    counts = None if calibrate is None else counts_of(calibrate, "--calibrate")
    wanted = {name: Asked.of(level) for name, level in levels_of(where).items()}
    found = [each for directory in directories for each in _found(_read(directory), wanted, counts)]
    if not found:
        raise BadArgument("--where", where, "fits no trial")
    if markdown:
        print(_as_markdown(found))
    else:
        _show(found)
    if not all(each.kept for each in found):
        raise typer.Exit(1)


def _read(directory: Path) -> Run:
    run = read_run(directory)
    tell_lost(run, "the model leaves it out")
    return run


def _found(run: Run, wanted: dict[str, Asked], counts: list[int] | None) -> list[Found]:
    groups: dict[str, list[Observation]] = {}
    for each in observations(run):
        if all(name in each.where and level.fits(each.where[name]) for name, level in wanted.items()):
            groups.setdefault(repr(each.where), []).append(each)
    return [Found(run, _title(run, group[0]), fitting.validate(group, counts)) for group in groups.values()]


def _title(run: Run, first: Observation) -> str:
    levels = ", ".join(f"{name} = {level}" for name, level in first.where.items())
    return f"{run.experiment.title}: {levels}" if levels else run.experiment.title


def _show(found: list[Found]) -> None:
    out = console()
    for each in found:
        out.print(table(each.title, HEAD, [_cells(line) for line in each.validation.lines]))
        out.print(_verdict("throughput", each.validation.throughput))
        out.print(_verdict("mean response time", each.validation.response))
    for run in {id(each.run): each.run for each in found}.values():
        tell_doubts(out, run, f"{run.directory}: ")
    out.print(ABOUT_OPEN_MODELS)


def _cells(line: Line) -> tuple[str, ...]:
    return (
        f"{line.clients}{' (fitted)' if line.calibrated else ''}",
        f"{number(line.throughput.mean)} ± {number(line.throughput.half_width)}",
        number(line.predicted.throughput_per_s.value),
        signed(line.throughput_error),
        f"{number(line.response.mean * 1e3)} ± {number(line.response.half_width * 1e3)}",
        number(line.predicted.response_time_s.value * 1e3),
        signed(line.response_error),
        number(line.predicted.mm1_response_s * 1e3),
        number(line.predicted.mmm_response_s * 1e3),
    )


def _verdict(what: str, summary: Summary) -> str:
    loose = f", and not of {percent(summary.target)}: the measurement is not known so well itself"
    return (
        f"{what}: off by {percent(summary.error)} on average where it was predicted, "
        f"{'within' if summary.kept else 'NOT within'} the bounds, of which it takes {percent(summary.taken)}; they "
        f"are of {percent(summary.bound)} on average{loose * summary.loose}"
    )


def _as_markdown(found: list[Found]) -> str:
    """Returns a table with a row for each combination, then a table of each, as docs/performance.md shows them."""
    head = ["configuration", "fitted to", "predicted", "throughput off by", "response off by", "M/M/1", "M/M/m", ""]
    parts = [_grid(head, [_summary_row(each) for each in found])]
    parts.append(
        "Errors are means of absolute values over the numbers of clients that were predicted. In brackets are the "
        "mean of their bounds, and the mean of each error over its own bound, which must not exceed 100 %. Errors of "
        "M/M/1 and M/M/m are of the response time, where these have an answer."
    )
    for each in found:
        parts += [
            f"**{each.title}**. {_provenance(each.run)}",
            _grid(HEAD, [_cells(line) for line in each.validation.lines]),
        ]
    return "\n\n".join(parts)


def _summary_row(each: Found) -> list[str]:
    lines, found = each.validation.lines, each.validation
    predicted = [line for line in lines if not line.calibrated]
    return [
        each.title,
        ", ".join(str(line.clients) for line in lines if line.calibrated),
        ", ".join(str(line.clients) for line in predicted),
        _error(found.throughput),
        _error(found.response),
        _open_error([line.predicted.mm1_response_s / line.response.mean - 1 for line in predicted]),
        _open_error([line.predicted.mmm_response_s / line.response.mean - 1 for line in predicted]),
        each.verdict,
    ]


def _error(summary: Summary) -> str:
    return f"{percent(summary.error)} ({percent(summary.bound)}, {percent(summary.taken)})"


def _open_error(errors: list[float]) -> str:
    known = [abs(error) for error in errors if not math.isnan(error)]
    return percent(float(np.mean(known))) if known else "-"


def _provenance(run: Run) -> str:
    """Returns the origin of the figures, and what the report warns of, in sentences."""
    from posthaste_lab.report.warnings import warnings  # with matplotlib, which is slow to load

    around, rules = run.plan["environment"], run.experiment.run
    machine = around["hosts"]["local"]
    said = [
        f"{around['programs'].get('posthaste', 'posthaste')}, {machine.get('cpu', 'processor unknown')}, "
        f"{machine.get('cores', '?')} cores, {machine.get('system', '')}, begun {around['started']}: "
        f"{rules.repetitions} repetitions of {rules.duration:g} s, shuffled by seed {run.plan['seed']}.",
    ]
    return " ".join([*said, *warnings(run)])


def _grid(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
