"""Tests files and directories whose names hold special characters: brackets, stars, question marks, spaces, dots."""

import shutil
from pathlib import Path

import polars as pl
import pytest
from programs import SMALL, lab, run_through, write
from simulated import System, write_run

from posthaste_lab.experiments.results import Run

NAMES = ("run [1]", "run*", "run?.x y")
ANY = "run [1]*?.x y"


def test_a_run_may_lie_in_a_directory_of_any_name(run: Run, tmp_path: Path) -> None:
    """It is reported as one of another name is."""
    shutil.copytree(run.directory, tmp_path / ANY, ignore=shutil.ignore_patterns("report"))
    lab("report", tmp_path / ANY)
    shown = (tmp_path / ANY / "report" / "index.html").read_text("utf-8")
    assert shown == (run.directory / "report" / "index.html").read_text("utf-8")


def test_a_model_is_fitted_in_a_directory_of_any_name(tmp_path: Path) -> None:
    """Single requests, from which it is fitted and which can be summed up, are found there."""
    directory = tmp_path / ANY
    write_run(directory, System(batch=0.001, request=0.00004, path=0.003), [2, 8], repetitions=1, requests=1000)
    lab("fit", directory)
    lab("predict", directory, "--clients", "4")
    record = next(directory.rglob("requests.parquet"))
    assert f"{pl.read_parquet(record, glob=False).height:,} requests" in lab("requests", record.parent).stdout


def test_a_scratch_directory_may_be_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs work in directories of their own, from which a relative name leads elsewhere."""
    monkeypatch.chdir(tmp_path)
    Path("scratch").mkdir()
    run_through(write(tmp_path), tmp_path / "out", "--quick", "--scratch", "scratch")
    assert list(Path("scratch").iterdir()) == []


def test_a_scratch_directory_that_is_none_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """With its name, and not by three trials that fail."""
    said = lab("run", write(tmp_path), "--out", tmp_path / "out", "--scratch", tmp_path / "none", code=2).stderr
    assert said == f"posthaste-lab: --scratch = '{tmp_path / 'none'}': is no directory\n"
    assert not (tmp_path / "out").exists()


def test_a_durable_store_in_memory_is_said_before_it_is_measured(tmp_path: Path) -> None:
    """A sync is free there, and the figures look like those of a fast disk."""
    planned = ("--dry-run", "--scratch", "/dev/shm")  # noqa: S108 - a tmpfs wherever there is Linux
    said = lab("run", write(tmp_path), *planned).stdout
    assert "\nread with care: The data of tier lies in memory (tmpfs)" in said
    forgetful = SMALL.replace("embedded:{dir}/store", "memory:")
    assert "in memory" not in lab("run", write(tmp_path, forgetful), *planned).stdout


def test_a_table_is_read_from_the_file_that_is_named_and_from_no_other(tmp_path: Path) -> None:
    """A name with a star in it is no pattern, by which others would be read as well."""
    text = "clients,throughput,response_time_ms\n32,4000,8\n"
    for name in ("runs.csv", *(f"{name}.csv" for name in NAMES)):
        (tmp_path / name).write_text(text, "utf-8")
    for name in NAMES:
        assert lab("audit", tmp_path / f"{name}.csv").stdout.startswith("1 row, laws applied 2 times: 0 errors")
