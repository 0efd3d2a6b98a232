"""What a command prints about a run beside its figures: what is lost, left out, or to be known before quoting it."""

import typer
from rich.console import Console

from posthaste_lab.experiments.results import Run
from posthaste_lab.fitting.observations import left_out


def tell_lost(run: Run, so: str) -> None:
    """Prints to stderr what is lost of the trials' records, and what follows from it."""
    for lost in run.lost:
        typer.echo(f"posthaste-lab: {lost}; {so}", err=True)


def tell_doubts(out: Console, run: Run, where: str = "") -> None:
    """Prints, after `where`, which trials models and comparisons leave out, and what the report warns of."""
    from posthaste_lab.report.warnings import warnings  # with matplotlib, which is slow to load

    if names := left_out(run):
        out.print(f"{where}left out, by a rule of acceptance or by omit.toml: {', '.join(names)}")
    for warning in warnings(run):
        out.print(f"{where}{warning}")
