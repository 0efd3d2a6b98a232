"""Tests the one-pass summary of single requests against NumPy on the same rows."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from programs import lab

from posthaste_lab.errors import BadArgument
from posthaste_lab.report.requests import SLICES, measured_ns, read_requests

ROWS = 40_000
KINDS = ("send", "pop", "peek")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tier's record of three kinds; peeks are answered on the spot, some pops are errors."""
    directory = tmp_path_factory.mktemp("record")
    random = np.random.default_rng(3)
    kind = np.array(KINDS)[random.integers(0, 3, ROWS)]
    received = np.sort(random.integers(0, 20_000_000_000, ROWS))
    waiting, service = random.exponential(2e5, ROWS).astype(np.int64), random.exponential(1e6, ROWS).astype(np.int64)
    lined = kind != "peek"
    answered = np.where(lined, received + 1500 + waiting + service, received + 3000)
    stamps = {
        "enqueued_ns": received + 1000,
        "dequeued_ns": received + 1000 + waiting,
        "sent_ns": received + 1500 + waiting,
    }
    nothing = pl.Series([None] * ROWS, dtype=pl.Int64)
    frame = pl.DataFrame(
        {
            "kind": kind,
            "ending": np.where((kind == "pop") & (random.random(ROWS) < 0.1), "error", "ok"),
            "received_ns": received,
            **{name: pl.Series(values).zip_with(pl.Series(lined), nothing) for name, values in stamps.items()},
            "answered_ns": answered,
            "replied_ns": answered + 700,
        }
    )
    frame.write_parquet(directory / "requests.parquet")
    return directory


def test_counts_and_means_are_exact_and_percentiles_never_below(record: Path) -> None:
    """Of each kind and of all; a percentile is at most a bucket's width above the exact one."""
    rows = pl.read_parquet(record / "requests.parquet").with_columns(took=pl.col("replied_ns") - pl.col("received_ns"))
    found = read_requests(record)
    assert found.total == ROWS
    assert sorted(found.kinds) == sorted(KINDS)
    for kind in (None, *KINDS):
        took = (rows if kind is None else rows.filter(pl.col("kind") == kind))["took"].to_numpy() / 1e9
        spread = found.spread(kind)
        assert spread.total == len(took)
        assert found.mean_s(kind) == pytest.approx(took.mean())
        assert found.longest_s(kind) == pytest.approx(took.max())
        for share in (0.01, 0.5, 0.9, 0.99):
            exact = float(np.quantile(took, share, method="inverted_cdf"))
            assert exact * (1 - 1e-9) <= spread.percentile(share) <= exact * 1.0222
    assert found.errors() == found.errors("pop") == rows.filter(pl.col("ending") == "error").height


def test_the_stages_of_a_request_add_up_whatever_it_passed(record: Path) -> None:
    """A stage without stamps took no time, and its time falls into the next."""
    found = read_requests(record)
    for kind in (None, *KINDS):
        assert sum(found.mean_s(kind, stage) for stage in found.stages) == pytest.approx(found.mean_s(kind))
    assert found.mean_s("peek", "waiting") == 0
    assert found.mean_s("peek", "service") == pytest.approx(3e-6)
    assert found.mean_s("send", "waiting") == pytest.approx(2e-4, rel=0.05)


def test_the_heat_map_holds_every_request_at_its_time(record: Path) -> None:
    """Slices and buckets have edges, and nothing is lost between them."""
    slices, times, numbers = read_requests(record).heat()
    assert numbers.shape == (SLICES, len(times) - 1)
    assert len(slices) == SLICES + 1
    assert numbers.sum() == ROWS
    ended = pl.read_parquet(record / "requests.parquet")["replied_ns"].to_numpy()
    expected, _ = np.histogram(ended, bins=SLICES, range=(ended.min(), ended.max()))
    assert numbers.sum(axis=1) == pytest.approx(expected, abs=2)


def test_only_the_measured_time_counts(record: Path) -> None:
    """Warm-up and cool-down are in the file."""
    part = read_requests(record, (5e9, 10e9))
    ended = pl.read_parquet(record / "requests.parquet")["replied_ns"]
    assert part.total == ended.is_between(5e9, 10e9).sum()
    assert part.slice_s * SLICES == pytest.approx(5)
    with pytest.raises(BadArgument, match="no request that ended"):
        read_requests(record, (50e9, 60e9))


def test_the_clients_record_has_stages_of_its_own(tmp_path: Path) -> None:
    """Read by the same function."""
    pl.DataFrame(
        {
            "kind": ["get"] * 3,
            "ending": ["ok"] * 3,
            "due_ns": [0, 10, 20],
            "begun_ns": [0, 10, 25],
            "encoded_ns": [1, 11, 26],
            "arrived_ns": [1001, 2011, 3026],
            "parsed_ns": [1002, 2012, 3027],
        }
    ).write_parquet(tmp_path / "requests.parquet")
    found = read_requests(tmp_path / "requests.parquet")
    assert found.seen_by == "the clients"
    assert found.mean_s(None, "network") == pytest.approx(2e-6)
    assert found.mean_s(None, "schedule") == pytest.approx(5e-9 / 3)


def test_the_program_prints_a_row_for_each_kind(record: Path, tmp_path: Path) -> None:
    """The same figures for programs; where requests are too few for a percentile, it says so."""
    said = json.loads(lab("requests", record, "--json").stdout)
    assert {row["kind"] for row in said} == {"all", *KINDS}
    whole = read_requests(record)
    assert said[0]["requests"] == ROWS
    assert said[0]["p99_s"] == pytest.approx(whole.spread().percentile(0.99))
    assert said[0]["p99.99_s"] is None
    assert said[0]["waiting_mean_s"] == pytest.approx(whole.mean_s(None, "waiting"))
    shown = lab("requests", record).stdout
    assert "too few" in shown
    assert f"{ROWS:,} requests" in shown
    assert "20.0 s, all that was recorded" in shown
    assert "holds no requests.parquet" in lab("requests", tmp_path, code=2).stderr


def test_the_program_leaves_out_warm_up_and_cool_down(record: Path, tmp_path: Path) -> None:
    """Of a load generator's record, which says when it measured; the heading says so, and --all takes them in."""
    rows = pl.read_parquet(record / "requests.parquet")
    rows.write_parquet(tmp_path / "requests.parquet")
    run: dict[str, object] = {"measured": {"start_s": 5.0, "end_s": 10.0}}
    (tmp_path / "run.json").write_text(json.dumps(run), "utf-8")
    inside = int(rows["replied_ns"].is_between(5_000_000_000, 10_000_000_000).sum())
    for path in (tmp_path, tmp_path / "requests.parquet"):
        assert f"{inside:,} requests in the 5.0 s that were measured" in lab("requests", path).stdout
    assert f"{ROWS:,} requests in 20.0 s, all that was recorded" in lab("requests", tmp_path, "--all").stdout
    assert json.loads(lab("requests", tmp_path, "--json").stdout)[0]["requests"] == inside
    (tmp_path / "run.json").write_text(json.dumps(run | {"measured": None}), "utf-8")
    assert measured_ns(tmp_path) is None
    (tmp_path / "run.json").write_text(json.dumps(run | {"measured": 5}), "utf-8")
    assert "run.json" in lab("requests", tmp_path, code=2).stderr
