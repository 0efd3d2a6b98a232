"""Files that programs of ours left, read back: whatever is wrong with one is a sentence with its name.

Nobody looks at them before they are read. But disks fill up, people edit, copies break off, and the next version leaves
other things; none of that is worth more than a line, and none of it may pass for a measurement. So what is written here
is written whole.
"""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from posthaste_lab.errors import BadArgument, BadFile

# What Python and its libraries say of a value that is missing, of another type, or of another size than it should be.
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
    """What is done within takes values from the file `path`: if they are not what they should be, raises BadFile."""
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
    """What a JSON file says. Raises BadFile when it says nothing."""
    with reading(path, argument):
        return json.loads(path.read_text("utf-8"))


def read_table(path: Path, **options: Any) -> pl.DataFrame:  # noqa: ANN401 - those of polars
    """A CSV, by the name it has: polars would take brackets, stars and question marks in it for a pattern."""
    return pl.read_csv(path, glob=False, **options)


def scan_rows(path: Path) -> pl.LazyFrame:
    """A Parquet file, in the same way."""
    return pl.scan_parquet(path, glob=False)


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all: until then an earlier one stays. What is no file, as a pipe, is written to."""
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
