"""Removes what an earlier report of a run wrote and the new one does not: it would look as if it were of both.

A report keeps a list of its files, so that nothing else in its directory is touched.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from posthaste_lab.files import write_whole

LIST = "files.txt"
OURS = re.compile(r"figures/[\w.-]+\.(png|svg)|tables/[\w.-]+\.csv")  # whatever else is in the list stays


def replace_files(directory: Path, files: Iterable[str]) -> None:
    """Removes the files in the list of `directory` that are not among `files`, and keeps these as the list."""
    kept = sorted(set(files))
    held = directory / LIST
    earlier = held.read_text("utf-8", "replace").splitlines() if held.is_file() else []
    for name in set(earlier).difference(kept):
        if OURS.fullmatch(name):
            (directory / name).unlink(missing_ok=True)
    write_whole(held, "".join(f"{name}\n" for name in kept))
