"""The program `posthaste-lab`: the laboratory's functions for whoever has a file and no Python at hand.

Exit codes: 0 all is well, 1 something was found or failed, 2 wrong use. Errors are one line on stderr.
"""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from posthaste_lab.cli import audit, factorial, models, report, run
from posthaste_lab.experiments.problems import BadExperiment, RunFailed

app = typer.Typer(
    help="Posthaste's laboratory: models, statistics and laws for measured systems.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("models")(models.models)
app.command("factorial")(factorial.factorial)
app.command("audit")(audit.audit)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"posthaste-lab {version('posthaste-lab')}")
        raise typer.Exit


@app.callback()
def _options(
    _wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Posthaste's laboratory: models, statistics and laws for measured systems."""


def main() -> None:
    """Run the program. What is wrong with the input becomes one line, not a trace."""
    try:
        app()
    except BadExperiment as error:
        for problem in error.problems:
            typer.echo(f"posthaste-lab: {error.where}: {problem}", err=True)
        sys.exit(2)
    except RunFailed as error:
        typer.echo(f"posthaste-lab: {error}", err=True)
        sys.exit(1)
    except (ValueError, OSError) as error:
        typer.echo(f"posthaste-lab: {error}", err=True)
        sys.exit(2)
