"""Reads files that our programs left, and writes files whole or not at all.

Disks fill up, people edit files, copies break off, and other versions write other content. Whatever is wrong with a
file is reported in one sentence with its name, and must not pass for a measurement.
"""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from posthaste_lab.errors import BadArgument, BadFile

# What Python and its libraries raise for a value that is missing, or of a wrong type or size.
_STRANGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    pl.exceptions.PolarsError,
    zlib.error,
)
_SAID_MAX = 200


@contextmanager
def reading(path: Path, argument: str = "DIR") -> Iterator[None]:
    """Context for code that takes values from the file `path`: errors from wrong values are raised as BadFile."""
    try:
        yield
    except BadArgument:
        raise
    except OSError as error:
        raise BadFile(argument, str(path), f"cannot be read: {error.strerror or error}") from None
    except _STRANGE as error:
        said = " ".join(str(error).split())[:_SAID_MAX]
        raise BadFile(
            argument, str(path), f"is not as our programs leave it ({type(error).__name__}: {said})"
        ) from None


def read_json(path: Path, argument: str = "DIR") -> Any:  # noqa: ANN401 - it may be anything
    """Reads a JSON file. Raises BadFile when it cannot be read."""
    with reading(path, argument):
        return json.loads(path.read_text("utf-8"))


def read_table(path: Path, **options: Any) -> pl.DataFrame:  # noqa: ANN401 - those of polars
    """Reads a CSV; brackets, stars and question marks in its name are not taken for a pattern, as polars would."""
    return pl.read_csv(path, glob=False, **options)


def scan_rows(path: Path) -> pl.LazyFrame:
    """Scans a Parquet file; special characters in its name are not taken for a pattern, as polars would."""
    return pl.scan_parquet(path, glob=False)


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole or not at all: an earlier one stays until then. A pipe or device is written to directly."""
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    path = path.resolve()  # behind a symbolic link: the link stays
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_text(text, "utf-8")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
