"""Formats figures for a terminal: few digits, aligned, and the same in a pipe as on a screen."""

import math
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from posthaste_lab.errors import BadArgument
from posthaste_lab.files import read_table

PIPE_WIDTH = 160  # columns of a table in a pipe: wide enough that no cell is cut


def console(*, stderr: bool = False) -> Console:
    """Returns the console to write to; in a pipe, which has no width, it is wide enough not to cut tables."""
    to = sys.stderr if stderr else sys.stdout
    width = shutil.get_terminal_size().columns if to.isatty() else PIPE_WIDTH
    return Console(
        stderr=stderr, width=width, highlight=False, markup=False, emoji=False
    )  # names in brackets are names


def number(value: float) -> str:
    """Formats a figure with five significant digits."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "unlimited" if value > 0 else "-unlimited"
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"
    return f"{value:.3e}"


def percent(share: float) -> str:
    """A share as percent."""
    return f"{share * 100:.1f} %"


def signed(share: float) -> str:
    """A difference as percent, with its sign."""
    return f"{share * 100:+.1f} %"


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table whose first column is words and whose others are figures."""
    made = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def read_csv(path: Path) -> pl.DataFrame:
    """Reads a CSV as text without surrounding spaces, so that the printed digits of its figures stay known."""
    if not path.is_file():
        raise BadArgument("FILE", str(path), "is no file")
    try:
        frame = read_table(path, infer_schema=False).rename(str.strip).with_columns(pl.all().str.strip_chars())
    except pl.exceptions.PolarsError as error:
        raise BadArgument("FILE", str(path), f"cannot be read as CSV: {str(error).splitlines()[0]}") from None
    if frame.width == 1 and (separator := next((s for s in ";\t" if s in frame.columns[0]), None)):
        called = "semicolons" if separator == ";" else "tabs"
        raise BadArgument("FILE", str(path), f"is separated by {called}, and must be by commas")
    # Editors and spreadsheets may leave empty rows at the end.
    frame = frame.filter(pl.any_horizontal(pl.all().is_not_null() & (pl.all() != "")))
    if frame.is_empty():
        raise BadArgument("FILE", str(path), "has no rows")
    return frame
