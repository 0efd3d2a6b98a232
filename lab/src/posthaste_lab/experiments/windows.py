"""Reads the windows of a record, each at its place on the clock of the trial."""

import csv
from pathlib import Path

from posthaste_lab.experiments.clocks import start_unix_s
from posthaste_lab.files import reading

WINDOWS = "windows.csv"
ALL = "all"  # the kind of request in rows, and in tables of figures, about all kinds together

Window = tuple[float, dict[str, str]]


def windows_of(record: Path) -> list[Window]:
    """Returns the rows of all windows, each with the middle of its window in seconds since 1970.

    A window counts as a whole, or not at all: it is the middle that decides.
    """
    since = start_unix_s(record)
    with reading(record / WINDOWS), (record / WINDOWS).open(newline="") as lines:
        return [(since + float(row["start_s"]) + float(row["length_s"]) / 2, row) for row in csv.DictReader(lines)]
