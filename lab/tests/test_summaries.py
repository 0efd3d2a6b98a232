"""Tests what is read from the summaries that loads leave."""

import json
from pathlib import Path
from typing import Any

from posthaste_lab.experiments.columns import OF_LOADS
from posthaste_lab.experiments.figures import LoadFigures, read_summary


def test_the_repetitions_of_bench_store_share_its_duration(tmp_path: Path) -> None:
    """So a trial lasts as long as the one figure says, however many of them there are."""
    row = {"batch": 16, "operations_per_s": 1000.0, "raw_append_per_s": 9.0, "call_mean_ms": 1.0, "call_p99_ms": 2.0}
    summary = {"duration_s": 6.0, "repetitions": 3, "rows": [row]}
    figures = _bench_store_figures(summary, tmp_path).row
    assert figures["measured_s"] == 6.0
    assert figures.keys() == OF_LOADS["bench-store"]


def test_each_kind_of_request_to_a_database_alone_has_figures(tmp_path: Path) -> None:
    """A request takes as long as the call that it is in."""
    row = {"batch": 1, "operations_per_s": 400.0, "call_mean_ms": 1.0, "call_p99_ms": 2.0}
    pop = {"operations": 600, "operations_per_s": 100.0, "mean_ms": 4.0, "p99_ms": 8.0}
    summary = {"duration_s": 6.0, "repetitions": 3, "rows": [row | {"kinds": {"pop": pop}}]}
    assert _bench_store_figures(summary, tmp_path).kinds == {
        "pop": {"throughput_per_s": 100.0, "served": 600, "response_mean_s": 0.004, "response_p99_s": 0.008}
    }


def _bench_store_figures(summary: dict[str, Any], directory: Path) -> LoadFigures:
    (directory / "summary.json").write_text(json.dumps(summary))
    return read_summary("bench-store", directory / "summary.json")
