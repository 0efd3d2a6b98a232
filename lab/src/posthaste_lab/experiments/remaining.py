"""Computes a trial's figures from the windows that remain when some are omitted.

The load generator's summary covers the whole measured time, so figures that only it has are left out: percentiles, and
the tier's count. Means are over all answers of the windows, errors included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from posthaste_lab.experiments.figures import Row, read_stages
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.windows import ALL, WINDOWS, windows_of
from posthaste_lab.files import reading

# Figures of the load and of its generator that hold for every part of the measured time.
LASTING = (
    "clients",
    "population",
    "think_time_s",
    "think_kept_s",
    "interactive_tolerance",
    "open_loop",
    "generator_utilization",
    "generator_valid",
    "invalid_because",
    "violations",
)


@dataclass
class _Kind:
    """Answers of one kind of request: sums over windows, and the rate of all loads together."""

    requests: float = 0.0
    nulls: float = 0.0
    errors: float = 0.0
    took_s: float = 0.0
    rate: float = 0.0

    def row(self) -> Row:
        """Returns the row of figures, named as in a trial."""
        mean = {"response_mean_s": self.took_s / self.requests} if self.requests else {}
        counts = {"served": self.requests - self.errors, "nulls": self.nulls, "errors": self.errors}
        return {"throughput_per_s": self.rate, **mean, **{name: int(count) for name, count in counts.items()}}


@dataclass
class _Loads:
    kinds: dict[str, _Kind] = field(default_factory=dict)
    lengths: list[float] = field(default_factory=list)

    def add(self, record: Path, counted: Instants) -> None:
        """Adds the windows of one load that count."""
        with reading(record / WINDOWS):
            rows = [row for middle, row in windows_of(record) if middle in counted]
            length = sum(float(row["length_s"]) for row in rows if row["kind"] == ALL)
            for row in rows:
                requests, errors = float(row["requests"]), float(row["errors"])
                kind = self.kinds.setdefault(row["kind"], _Kind())
                kind.requests += requests
                kind.nulls += float(row["null"])
                kind.errors += errors
                kind.took_s += float(row["response_mean_us"] or 0.0) / 1e6 * requests
                kind.rate += (requests - errors) / length if length else 0.0
        self.lengths.append(length)


def middles_of(records: Sequence[Path]) -> list[float]:
    """Returns the middles of all windows of these records, in order, in seconds since 1970: they decide what counts."""
    return sorted({middle for record in records for middle, _ in windows_of(record)})


def figures_of_rest(
    figures: Row, loads: Sequence[Path], tiers: Sequence[Path], counted: Instants
) -> tuple[Row, dict[str, Row]]:
    """Returns a trial's row and those of its kinds of request from windows that count; `figures` is the full row."""
    found = _Loads()
    for record in loads:
        found.add(record, counted)
    stages = read_stages(tiers, counted)
    whole = found.kinds.pop(ALL, _Kind())
    lasting = {name: figures[name] for name in LASTING if name in figures}
    times = {"response_all_mean_s": whole.took_s / whole.requests} if whole.requests else {}
    row = lasting | whole.row() | times | {"measured_s": max(found.lengths, default=0.0)} | stages.get(ALL, {})
    return row, {name: kind.row() | stages.get(name, {}) for name, kind in sorted(found.kinds.items())}
