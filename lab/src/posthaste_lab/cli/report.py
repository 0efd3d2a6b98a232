"""`posthaste-lab report`: a run's directory as a page."""

from pathlib import Path
from typing import Annotated

import typer

from posthaste_lab.errors import BadArgument


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a run.", metavar="DIR")],
    out: Annotated[Path | None, typer.Option(help="Where the report goes, if not to DIR/report.")] = None,
    summary: Annotated[
        Path | None,
        typer.Option(help="Write one page of Markdown instead, to be kept; - prints it.", metavar="FILE.md"),
    ] = None,
    note: Annotated[str, typer.Option(help="A sentence for the summary on how it was run.")] = "",
) -> None:
    """Write a run's report: one offline page, charts as PNG and SVG, every table as CSV; or a summary of it.

    Example: posthaste-lab report results/clients --summary clients.md
    """
    from posthaste_lab.report import (
        summary_of,
        write_report,
        write_summary,
    )  # slow to load, and other commands do not draw

    if summary is None and note:
        raise BadArgument("--note", note, "stands in a summary: give --summary FILE.md too")
    if summary is not None and out is not None:
        raise BadArgument("--out", str(out), "says where a page goes, and --summary writes none: ask for one of them")
    if summary is None:
        print(write_report(directory, out))
    elif str(summary) == "-":
        print(summary_of(directory, note), end="")
    else:
        write_summary(directory, summary, note)
        print(summary)
