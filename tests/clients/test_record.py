"""The record of a run, read by the tools that others use: polars, and HdrHistogram's reader for Python."""

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from tier import Tier, program

STAMPS = {
    "tier": ["received", "enqueued", "dequeued", "sent", "answered", "replied"],
    "clients": ["due", "begun", "encoded", "arrived", "parsed"],
}
LONGEST_NS = 3_600_000_000_000


@pytest.fixture
def records(tmp_path: Path, start: Callable[..., Tier]) -> dict[str, Path]:
    """A short load, recorded by the tier and by the clients."""
    records = {side: tmp_path / side for side in STAMPS}
    tier = start("--record", str(records["tier"]), "--record-requests", "--window", "200ms")
    subprocess.run(
        [
            *(program(), "bench", "queue", "--connect", f"127.0.0.1:{tier.port}", "--clients", "4"),
            *("--warmup", "100ms", "--duration", "1s", "--cooldown", "100ms", "--window", "200ms"),
            *("--record", records["clients"], "--record-requests"),
        ],
        check=True,
        capture_output=True,
    )
    assert tier.stop() == 0
    return records


def windows(record: Path) -> polars.DataFrame:
    """The table of windows."""
    return polars.read_csv(record / "windows.csv", infer_schema_length=None)


def histograms(record: Path) -> dict[str, list[HdrHistogram]]:
    """The histograms of every window, by tag."""
    reader = HistogramLogReader(str(record / "latency.hlog"), HdrHistogram(1, LONGEST_NS, 2))
    found: dict[str, list[HdrHistogram]] = {}
    while histogram := reader.get_next_interval_histogram():
        found.setdefault(histogram.get_tag(), []).append(histogram)
    reader.close()
    return found


@pytest.mark.parametrize("side", STAMPS)
def test_polars_reads_every_request_with_its_stamps(records: dict[str, Path], side: str) -> None:
    """Every row has its stamps in order, and there are as many as the windows count."""
    requests = polars.read_parquet(records[side] / "requests.parquet")
    stamps = [f"{stamp}_ns" for stamp in STAMPS[side]]
    assert set(stamps) < set(requests.columns)
    assert requests.schema["kind"] == polars.String
    assert requests.schema[stamps[0]] == polars.Int64
    passed = requests.select(polars.concat_list(stamps).list.drop_nulls().alias("passed"))
    assert passed.select((polars.col("passed") == polars.col("passed").list.sort()).all()).item()
    counted = windows(records[side]).filter(polars.col("kind") == "all")["requests"].sum()
    assert requests.height == counted
    sends = requests.filter(polars.col("kind") == "send")
    lengths = (polars.col("request_bytes") > 200) & (polars.col("answer_bytes") >= len(":1\r\n"))
    assert sends.height > 0
    assert sends.filter(~lengths).is_empty()
    assert set(requests["ending"].unique()) <= {"ok", "null", "error"}


@pytest.mark.parametrize("side", STAMPS)
def test_other_tools_read_the_histograms_and_find_what_the_windows_say(
    records: dict[str, Path], side: str
) -> None:
    """The counts agree exactly, the durations within the histogram's two digits."""
    found = histograms(records[side])
    table = windows(records[side]).filter(polars.col("kind") == "send")
    sends = found["send/response"]
    assert [histogram.get_total_count() for histogram in sends] == table["requests"].to_list()
    for histogram, (mean_us, max_us) in zip(
        sends, table.select("response_mean_us", "response_max_us").rows(), strict=True
    ):
        assert histogram.get_mean_value() / 1000 == pytest.approx(mean_us, rel=0.01)
        # Tools agree on the last of the requests, not on the rank of a percentile between two of a few.
        assert histogram.get_value_at_percentile(100) / 1000 == pytest.approx(max_us, rel=0.01)


def test_units_stand_in_the_names_of_all_columns(records: dict[str, Path]) -> None:
    """A figure with a unit carries it in its name; what has none is a count, a name or a share."""
    units = ("_s", "_ms", "_us", "_ns", "_bytes", "_share", "_per_s")
    plain = {"kind", "ending", "client", "source", "ok", "null", "errors", "requests", "threads"}
    plain |= {"open_files", "connections", "line_requests"}
    plain |= {"machine_interrupts", "machine_context_switches", "machine_load_average"}
    for record in records.values():
        for table in ("windows.csv", "system.csv", "events.csv"):
            with (record / table).open() as file:
                head = next(csv.reader(file))
            counts = {name for name in head if name.endswith("_count") or name.startswith("context_switches")}
            assert {name for name in head if not name.endswith(units)} <= plain | counts, table
        columns = polars.read_parquet_schema(record / "requests.parquet")
        assert {name for name in columns if not name.endswith(units)} <= plain


def test_run_json_says_what_ran_where_and_when(records: dict[str, Path]) -> None:
    """Both sides tell their start on both clocks; the clients tell what was measured."""
    runs = {side: json.loads((record / "run.json").read_text()) for side, record in records.items()}
    for run in runs.values():
        assert run["start_clocks"]["unix_ns"] < run["end_clocks"]["unix_ns"]
        assert run["requests_recorded"] > 0
        assert run["requests_not_recorded"] == 0
    measured = runs["clients"]["measured"]
    assert measured["end_s"] - measured["start_s"] == pytest.approx(1.0)
    summary = json.loads((records["clients"] / "summary.json").read_text())
    assert summary["options"]["record_requests"]
