"""`posthaste-lab report`: a run's directory as a page."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a run.", metavar="DIR")],
    out: Annotated[Path | None, typer.Option(help="Where the report goes, if not to DIR/report.")] = None,
) -> None:
    """Write a run's report: one offline page, charts as PNG and SVG, every table as CSV."""
    from posthaste_lab.report import write_report  # drawing is slow to load, and other commands do not draw

    print(write_report(directory, out))
