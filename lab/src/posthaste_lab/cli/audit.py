"""`posthaste-lab audit FILE.csv`: what cannot be true in a table of figures."""

from pathlib import Path
from typing import Annotated

import typer

from posthaste_lab import laws
from posthaste_lab.cli.show import console, read_csv, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.spans import counted
from posthaste_lab.laws.operational import TOLERANCE
from posthaste_lab.laws.reading import NAMES, quantity_and_unit, rows_of


def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="A row for each run, named columns.")],
    tolerance: Annotated[float, typer.Option(help="How far a law may be missed, as a share.")] = TOLERANCE,
    unit: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=UNIT", help="Unit of a column whose name does not say.")
    ] = None,
) -> None:
    """Check every row against the operational laws and look for known slips.

    Columns are known by name: clients, throughput_rps, response_time_ms, think_time_ms, service_time_ms, servers,
    utilization, queue_length, … Exit code 1 when an error was found, 0 when there are only warnings, or nothing; 2 when
    nothing in the file could be checked.

    Example: posthaste-lab audit runs.csv --unit response_time=ms
    """
    units = dict(_pair(each) for each in unit or [])
    frame = read_csv(file)
    unknown = [name for name in units if name not in frame.columns and name not in NAMES]
    if unknown:
        raise BadArgument("--unit", unknown[0], f"must be one of the columns: {', '.join(frame.columns)}")
    findings = laws.audit(frame, tolerance, units)
    rows = rows_of(frame)
    applied = sum(len(laws.check(row, tolerance, units)) for row in rows)
    if not findings and not laws.compared(frame, tolerance, units):
        known = [name for name in frame.columns if quantity_and_unit(name)]
        what = f"no law applies to {', '.join(known)} alone" if known else "no column was recognized"
        raise BadArgument("FILE", str(file), f"cannot be checked: {what}; see --help for the names of columns")
    out = console()
    if findings:
        lines = [("table" if f.row is None else str(f.row + 1), f.severity, f.law, f.message) for f in findings]
        shown = table("", ("row", "severity", "law", "what"), lines)
        for column in shown.columns:
            column.justify = "left"
        out.print(shown)
    errors = sum(f.severity == "error" for f in findings)
    out.print(
        f"{counted(len(rows), 'row')}, laws applied {counted(applied, 'time')}: "
        f"{counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}"
    )
    raise typer.Exit(1 if errors else 0)


def _pair(text: str) -> tuple[str, str]:
    column, separator, unit = text.partition("=")
    if not separator:
        raise BadArgument("--unit", text, "must look like response_time=ms")
    return column, unit
