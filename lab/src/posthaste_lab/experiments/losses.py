"""Finds what is missing of the files that a trial left: disks fill up, copies break off, people clear away.

A record that was cut can be read like a whole one, and tells other percentiles. So its files are compared with each
other and with `trial.json`, which was written when the trial ended:

- every file of a record is there, of each part that was told to leave one;
- windows follow each other without a gap until the end, of the program or, for a load, of the measured time;
- histograms hold as many response times as the windows count requests, of each kind;
- the loads' windows count as many requests in the measured time as `trial.json` says were answered, give or take those
  of windows at its edges; the tiers' windows exactly as many as it says of them.
"""

import csv
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import SEEK_END
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from hdrh.codec import HdrCookieException, HdrLengthException
from hdrh.histogram import HdrHistogram

from posthaste_lab.errors import BadFile
from posthaste_lab.experiments.figures import Row, read_stages
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.spans import spoken
from posthaste_lab.experiments.windows import ALL, WINDOWS
from posthaste_lab.files import read_json, reading, scan_rows

RUN, HISTOGRAMS, SYSTEM, EVENTS = "run.json", "latency.hlog", "system.csv", "events.csv"
REQUESTS = "requests.parquet"
SUMMARY = "summary.json"  # beside a load's record, and the sign that it is a load's
# By how much instants may differ that belong together: on a busy machine a window is opened and closed late.
EDGE_S = 0.25
DIGITS_S = 1e-3  # one window begins where the one before it ended, but for the last digits printed
NO_HISTOGRAM = (HdrCookieException, HdrLengthException, RuntimeError)

Lost = tuple[Path, str]  # a file, and what is wrong with it


class _Window(NamedTuple):
    begin_s: float
    end_s: float
    kind: str = ALL
    requests: int = 0


@dataclass(frozen=True)
class _Part:
    """One process of a trial that was to leave a record: its directory, and the words of its command."""

    directory: Path
    words: frozenset[str]

    @property
    def record(self) -> Path:
        """The directory of its record."""
        return self.directory / "record"

    @property
    def is_load(self) -> bool:
        """Whether it was a load."""
        return "--json" in self.words or (self.directory / SUMMARY).exists()

    @property
    def files(self) -> list[Path]:
        """The files that it should have left."""
        names = [RUN, WINDOWS, HISTOGRAMS, SYSTEM, EVENTS]
        names += [REQUESTS] if "--record-requests" in self.words else []
        return [self.record / name for name in names] + ([self.directory / SUMMARY] if self.is_load else [])


def losses_of(
    trial: Path, commands: Mapping[str, str], figures: Row, measured: tuple[float, float] | None
) -> tuple[str, ...]:
    """Returns a sentence for each file that is missing or not whole, which begins with the file's path in the trial.

    `trial` is the directory of a finished trial; the others are from its `trial.json`: command lines by part, figures,
    and the measured time in seconds since 1970. A trial without measured time, as of `bench store`, leaves no records.
    """
    if measured is None:
        return ()
    parts = _parts(trial, commands)
    lost = [] if (trial / EVENTS).exists() else [(trial / EVENTS, "is missing")]
    for part in parts:
        lost += _caught(_of_part(part))
    if not lost:
        lost += _caught(_of_loads([part.record for part in parts if part.is_load], figures))
        lost += _caught(_of_tiers([part.record for part in parts if not part.is_load], figures, Instants(measured)))
    return tuple(f"{path.relative_to(trial)} {what}" for path, what in lost)


def _parts(trial: Path, commands: Mapping[str, str]) -> list[_Part]:
    """Returns the parts that were told to leave a record, and those that left one."""
    words = {name: frozenset(shlex.split(command)) for name, command in commands.items()}
    told = {name for name, given in words.items() if "--record" in given}
    left = {path.parent.name for path in trial.glob("*/record")}
    return [_Part(trial / name, words.get(name, frozenset())) for name in sorted(told | left)]


def _caught(lost: Iterator[Lost]) -> Iterator[Lost]:
    """Yields what is lost, and a file that cannot be read as what is wrong with it."""
    try:
        yield from lost
    except BadFile as error:
        yield Path(str(error.value)), error.rule


def _of_part(part: _Part) -> Iterator[Lost]:
    if not part.record.is_dir():
        yield part.record, "is missing"
        return
    missing = [path for path in part.files if not path.exists()]
    yield from ((path, "is missing") for path in missing)
    if missing:
        return
    broken = [each for name in (WINDOWS, HISTOGRAMS, SYSTEM, EVENTS) for each in _broken_off(part.record / name)]
    if broken:
        yield from broken
        return
    run, windows = _run(part.record), _windows(part.record)
    least_end_s = _least_end_s(run, part)
    yield from _lapses(part.record / SYSTEM, _rows_of_system(part.record), least_end_s)
    lapses = list(_lapses(part.record / WINDOWS, [each for each in windows if each.kind == ALL], least_end_s))
    yield from lapses or _of_counts(part.record, windows)
    if (part.record / REQUESTS).exists():
        yield from _of_requests(part.record, run)
    if part.is_load:
        read_json(part.directory / SUMMARY)


def _run(record: Path) -> dict[str, Any]:
    with reading(record / RUN):
        return dict(read_json(record / RUN))


def _windows(record: Path) -> list[_Window]:
    with reading(record / WINDOWS), (record / WINDOWS).open(newline="") as lines:
        return [
            _Window(begin := float(row["start_s"]), begin + float(row["length_s"]), row["kind"], int(row["requests"]))
            for row in csv.DictReader(lines)
        ]


def _rows_of_system(record: Path) -> list[_Window]:
    with reading(record / SYSTEM), (record / SYSTEM).open(newline="") as lines:
        return [
            _Window(begin := float(row["start_s"]), begin + float(row["length_s"])) for row in csv.DictReader(lines)
        ]


def _least_end_s(run: Mapping[str, Any], part: _Part) -> float:
    """Returns until when a part recorded at least, in seconds of its own clock; 0 where its record does not say.

    Windows of a load end with those of its phases and go on until all is answered; a tier closes its last one while it
    stops.
    """
    with reading(part.record / RUN):
        window_s = float(run.get("window_s") or 0.0)
        if measured := run.get("measured"):
            return float(measured["end_s"]) - window_s
        return float(run.get("end_s") or 0.0) - max(window_s, EDGE_S)


def _lapses(path: Path, windows: Sequence[_Window], least_end_s: float) -> Iterator[Lost]:
    """Yields the first gap between a table's windows, and that they end too early."""
    if not windows:
        yield path, "holds no window"
        return
    for one, other in pairwise(windows):
        if abs(other.begin_s - one.end_s) > DIGITS_S:
            yield path, f"lacks what lies between {spoken(one.end_s)} and {spoken(other.begin_s)} of the program's time"
            break
    if windows[-1].end_s < least_end_s:
        yield (
            path,
            f"ends at {spoken(windows[-1].end_s)} of the program's time, which went on beyond {spoken(least_end_s)}",
        )


def _broken_off(path: Path) -> Iterator[Lost]:
    """Yields that a file ends within a line."""
    with reading(path), path.open("rb") as content:
        content.seek(0, SEEK_END)
        content.seek(max(0, content.tell() - 1))
        if content.read() not in {b"", b"\n"}:
            yield path, "breaks off within a line"


def _of_counts(record: Path, windows: Sequence[_Window]) -> Iterator[Lost]:
    """Yields a disagreement among the windows' counts, or with the histograms."""
    by_kind = Counter[str]()
    for each in windows:
        if each.requests:
            by_kind[each.kind] += each.requests
    whole = by_kind.pop(ALL, 0)
    if by_kind.total() != whole:
        yield record / WINDOWS, f"counts {by_kind.total():,} requests by kind and {whole:,} in all"
    else:
        yield from _of_histograms(record, by_kind)


def _of_histograms(record: Path, by_kind: Counter[str]) -> Iterator[Lost]:
    """Yields a disagreement between the histograms of response times and the windows' counts."""
    held = Counter[str]()
    path = record / HISTOGRAMS
    with reading(path), path.open(encoding="utf-8") as lines:
        for line in lines:
            tag, _, rest = line.partition(",")
            kind, _, stage = tag.removeprefix("Tag=").partition("/")
            if stage == "response":
                held[kind] += _total(rest.split(",")[3].strip())
    if held.total() != by_kind.total():
        yield (
            path,
            f"holds {held.total():,} response times, and {WINDOWS} beside it counts {by_kind.total():,} requests",
        )
    elif held != by_kind:
        yield path, f"holds response times of other kinds of request than {WINDOWS} beside it counts"


def _total(encoded: str) -> int:
    """Returns the number of values in an encoded histogram. Raises ValueError when it is none."""
    try:
        return int(HdrHistogram.decode(encoded).get_total_count())
    except NO_HISTOGRAM as error:
        raise ValueError(f"no histogram: {error}") from None


def _of_requests(record: Path, run: Mapping[str, Any]) -> Iterator[Lost]:
    """Yields a disagreement between the number of single requests and what the record says of it."""
    with reading(record / REQUESTS):
        held = scan_rows(record / REQUESTS).select(pl.len()).collect().item()
    recorded = run.get("requests_recorded")
    if recorded is not None and held != recorded:
        yield record / REQUESTS, f"holds {held:,} requests, and {RUN} beside it says {recorded}"


def _of_loads(records: Sequence[Path], figures: Row) -> Iterator[Lost]:
    """Yields a disagreement between the loads' windows in the measured time and the answers that `trial.json` has."""
    if not records or "served" not in figures:
        return
    answered = figures["served"] + (figures.get("errors") or 0)
    least = most = 0
    for record in records:
        run = _run(record)
        with reading(record / RUN):
            if not run.get("measured"):
                return
            begin_s, end_s = (float(run["measured"][name]) for name in ("start_s", "end_s"))
            # Which window an answer at an edge falls into is decided beside the path.
            edge_s = max(EDGE_S, float(run["window_s"]))
        for each in _windows(record):
            if each.kind == ALL:
                least += each.requests * (each.begin_s >= begin_s + edge_s and each.end_s <= end_s - edge_s)
                most += each.requests * (each.end_s > begin_s - edge_s and each.begin_s < end_s + edge_s)
    if not least <= answered <= most:
        yield from _disagreeing(records, f"{least:,} to {most:,}", answered)


def _of_tiers(records: Sequence[Path], figures: Row, measured: Instants) -> Iterator[Lost]:
    """Yields a disagreement between the tiers' windows in the measured time and what `trial.json` has of them."""
    counted = read_stages(records, measured).get(ALL, {}).get("tier_requests")
    if counted is not None and "tier_requests" in figures and counted != figures["tier_requests"]:
        yield from _disagreeing(records, f"{counted:,}", figures["tier_requests"])


def _disagreeing(records: Sequence[Path], counted: str, said: float) -> Iterator[Lost]:
    all_of_them = " with those beside it" if len(records) > 1 else ""
    what = f"counts {counted} requests in the measured time{all_of_them}, and trial.json has {said:,}"
    yield from ((record / WINDOWS, what) for record in records)
