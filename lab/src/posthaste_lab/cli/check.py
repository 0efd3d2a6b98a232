"""`posthaste-lab check DIR`: whether the figures of a run may be relied on."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from posthaste_lab.cli.show import console, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.omissions import FILE as OMISSIONS
from posthaste_lab.experiments.results import read_run
from posthaste_lab.experiments.spans import counted


def check(
    directory: Annotated[Path, typer.Argument(help="Directory of a run.", metavar="DIR")],
    every: Annotated[bool, typer.Option("--all", help="Show every verdict, not only those that do not hold.")] = False,
) -> None:
    """Check every trial of a run: operational laws, load generator, sample sizes, whether it was steady.

    Exit code 1 when a check fails, 2 when there is nothing to check. What cannot be told, such as whether a trial of
    few windows was steady, is said, and fails nothing.

    Example: posthaste-lab check results/clients
    """
    from posthaste_lab.report.soundness import checks_of  # with matplotlib, which is slow to load

    run = read_run(directory)
    if not run.results:
        raise BadArgument("DIR", str(directory), "holds no trial that is over, so there is nothing to check")
    found = checks_of(run)
    if not found:
        why = f"holds only trials that its {OMISSIONS} leaves out, so there is nothing to check"
        raise BadArgument("DIR", str(directory), why)
    out = console()
    if shown := [each for each in found if every or each.word != "holds"]:
        rows = [(each.about or "the run", each.name, each.word, each.why) for each in shown]
        lines = table("", ("trial", "check", "verdict", "why"), rows)
        for column in lines.columns:
            column.justify = "left"
        out.print(lines)
    words = Counter(each.word for each in found)
    out.print(
        f"{directory}: {counted(len(found), 'check')}, {words['holds']} hold, {words['fails']} fail, "
        f"{words['not known']} cannot be told"
    )
    raise typer.Exit(1 if words["fails"] else 0)
