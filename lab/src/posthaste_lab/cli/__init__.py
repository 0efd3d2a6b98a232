"""The program `posthaste-lab`: the laboratory's functions on the command line.

Exit codes: 0 all is well, 1 something was found or failed, 2 wrong use. Errors are one line on stderr.
"""

import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from posthaste_lab.cli import audit, check, compare, factorial, fit, models, report, requests, run, validate
from posthaste_lab.errors import NumericalError
from posthaste_lab.experiments.problems import BadExperiment, RunFailed

app = typer.Typer(
    help="Posthaste's laboratory: models, statistics and laws for measured systems.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("check")(check.check)
app.command("compare")(compare.compare)
app.command("fit")(fit.fit)
app.command("predict")(fit.predict)
app.command("validate")(validate.validate)
app.command("requests")(requests.requests)
app.command("models")(models.models)
app.command("factorial")(factorial.factorial)
app.command("audit")(audit.audit)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"posthaste-lab {version('posthaste-lab')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Posthaste's laboratory: models, statistics and laws for measured systems."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Runs the program. Each error is printed as one line, not as a box or a trace."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may lack letters of names and units
            stream.reconfigure(errors="replace")
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        _fail(error.format_message(), error.exit_code)
    except BadExperiment as error:
        for problem in error.problems:
            typer.echo(f"posthaste-lab: {error.where}: {problem}", err=True)
        sys.exit(2)
    except MemoryError:
        _fail("this takes more memory than there is", 1)
    except (RunFailed, NumericalError, OSError) as error:
        _fail(str(error), 1)
    except ValueError as error:
        _fail(str(error), 2)
    except ArithmeticError as error:
        _fail(f"these figures are too large or too small to compute with ({error})", 2)
    except typer.Abort:
        _fail("interrupted", 1)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"posthaste-lab: {' '.join(message.split())}", err=True)
    sys.exit(code)
