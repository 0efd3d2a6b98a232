"""Tests that lost and cut files of a run are noticed, named, and tell no figures."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from programs import lab
from simulated import System, write_run

from posthaste_lab.experiments.results import Run, read_run
from posthaste_lab.fitting.observations import observations
from posthaste_lab.report import write_report
from posthaste_lab.report.cells import cells_of
from posthaste_lab.report.records import events, response_times, trace
from posthaste_lab.report.warnings import warnings

TRIAL = "001-r1"


@pytest.fixture
def copy(run: Run, tmp_path: Path) -> Path:
    """A copy of a run, to lose files of."""
    shutil.copytree(run.directory, tmp_path / "out", ignore=shutil.ignore_patterns("report"))
    return tmp_path / "out"


def cut(path: Path, keep: Callable[[int], int] = lambda lines: lines // 2) -> None:
    """As by `head`."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[: keep(len(lines))]), "utf-8")


def without_a_row(path: Path) -> None:
    """One in the middle is gone."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    del lines[len(lines) // 2]
    path.write_text("".join(lines), "utf-8")


def half_a_line_short(path: Path) -> None:
    """The last line broke off."""
    path.write_bytes(path.read_bytes()[:-20])


def losses(directory: Path, trial: str = TRIAL) -> tuple[str, ...]:
    """What is lost of a trial."""
    return next(result.losses for result in read_run(directory).results if result.name == trial)


def test_of_a_whole_run_nothing_is_lost(run: Run) -> None:
    """Nor is it said."""
    assert run.lost == []
    assert not [said for said in warnings(run) if "not whole" in said]


@pytest.mark.parametrize(
    "name",
    [
        "events.csv",
        "load/summary.json",
        *(
            f"{part}/record/{name}"
            for part in ("load", "tier")
            for name in ("run.json", "windows.csv", "latency.hlog", "system.csv", "events.csv")
        ),
    ],
)
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    """Whichever it is; so is a whole record."""
    (copy / "trials" / TRIAL / name).unlink()
    assert losses(copy) == (f"{name} is missing",)
    if name.endswith("latency.hlog"):
        record = (copy / "trials" / TRIAL / name).parent
        shutil.rmtree(record)
        assert losses(copy) == (f"{record.parent.name}/record is missing",)


@pytest.mark.parametrize("part", ["load", "tier"])
@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("latency.hlog", cut, " response times, and windows.csv beside it counts "),
        ("latency.hlog", half_a_line_short, "breaks off within a line"),
        ("windows.csv", cut, " of the program's time, which went on beyond "),
        ("windows.csv", without_a_row, ("lacks what lies between ", " requests by kind and ")),
        ("windows.csv", half_a_line_short, "breaks off within a line"),
        ("windows.csv", lambda path: cut(path, lambda _: 1), "holds no window"),
        ("system.csv", cut, " of the program's time, which went on beyond "),
        ("system.csv", without_a_row, "lacks what lies between "),
        ("run.json", cut, " is not as our programs leave it "),
    ],
)
def test_a_cut_file_is_named(
    copy: Path, part: str, name: str, damage: Callable[[Path], None], said: str | tuple[str, ...]
) -> None:
    """With what shows it, in one sentence."""
    path = copy / "trials" / TRIAL / part / "record" / name
    damage(path)
    (found,) = losses(copy)
    assert found.startswith(f"{part}/record/{name} ")
    assert any(words in found for words in ([said] if isinstance(said, str) else said))


@pytest.mark.parametrize("part", ["load", "tier"])
def test_a_record_of_another_trial_is_noticed(copy: Path, part: str) -> None:
    """It is whole, but `trial.json` counts other requests: far more, as windows at the edges may count or not."""
    held = copy / "trials" / TRIAL / "trial.json"
    figures = json.loads(held.read_text("utf-8"))
    figures["figures"]["served" if part == "load" else "tier_requests"] *= 100
    held.write_text(json.dumps(figures), "utf-8")
    (found,) = losses(copy)
    assert found.startswith(f"{part}/record/windows.csv counts ")
    assert found.endswith("requests in the measured time, and trial.json has " + found.rsplit(" ", 1)[1])


def test_the_report_leaves_out_what_is_not_whole_and_says_so(copy: Path, run: Run) -> None:
    """Of both trials of a combination; the others, and what trial.json holds of these, stay."""
    whole = {cell.number: response_times(cell.results) for cell in cells_of(run)}
    for trial in (TRIAL, "001-r2"):
        cut(copy / "trials" / trial / "load" / "record" / "latency.hlog")
    page = write_report(copy).read_text("utf-8")
    for trial in (TRIAL, "001-r2"):
        assert f"Trial {trial} is not whole: load/record/latency.hlog holds " in page
    with (copy / "report" / "tables" / "combinations.csv").open(newline="") as lines:
        assert len(list(csv.DictReader(lines))) == 4
    damaged = read_run(copy)
    for cell in cells_of(damaged):
        spread, before = response_times(cell.results), whole[cell.number]
        assert before is not None
        assert (spread is None) == (cell.number == 1)
        assert spread is None or spread.total == before.total
    assert [events(result) for result in damaged.finished if result.losses] == [[], []]
    assert trace(damaged.finished[0], 0.0, 0.0) is None
    assert trace(damaged.finished[2], 0.0, 0.0) is not None


def test_what_cannot_be_taken_out_of_a_trial_takes_all_of_it_out(copy: Path) -> None:
    """Without the windows there are no figures of the rest."""
    (copy / "omit.toml").write_text(
        f'[[omit]]\ntrial = "{TRIAL}"\nstart = "0ms"\nend = "100ms"\nreason = "a backup ran"\n', "utf-8"
    )
    assert TRIAL in [result.name for result in read_run(copy).finished]
    (copy / "trials" / TRIAL / "load" / "record" / "windows.csv").unlink()
    assert TRIAL not in [result.name for result in read_run(copy).finished]
    assert "without that span cannot be told" in next(
        result.left_out or "" for result in read_run(copy).results if result.name == TRIAL
    )


def test_a_run_says_which_of_its_trials_are_not_whole(copy: Path) -> None:
    """Though all of them are done, and runs them again where their directories were removed."""
    path = copy / "trials" / TRIAL / "tier" / "record" / "windows.csv"
    path.unlink()
    said = lab("run", copy / "experiment.toml", "--out", copy, code=1)
    assert said.stdout.startswith("8 trials finished in ")
    assert f"not whole: trial {TRIAL}: tier/record/windows.csv is missing" in said.stderr
    assert "trials whose records are not whole: 1; " in said.stderr
    shutil.rmtree(copy / "trials" / TRIAL)
    lab("run", copy / "experiment.toml", "--out", copy)
    assert path.exists()


def test_a_model_is_fitted_to_whole_trials_only(tmp_path: Path) -> None:
    """And whoever fits or asks one learns of the others."""
    out = write_run(tmp_path / "run", System(), [1, 8, 32], requests=600)
    assert lab("fit", out).stderr == ""
    (out / "trials" / TRIAL / "tier" / "record" / "latency.hlog").unlink()
    loss = f"posthaste-lab: trial {TRIAL} is not whole: tier/record/latency.hlog is missing; "
    assert lab("fit", out).stderr == f"{loss}the model leaves it out\n"
    assert len(observations(read_run(out))) == 8
    assert lab("predict", out, "--clients", "8").stderr == f"{loss}a model fitted now would leave it out\n"
    requests = out / "trials" / "001-r2" / "tier" / "record" / "requests.parquet"
    run = requests.with_name("run.json")
    run.write_text(json.dumps(json.loads(run.read_text("utf-8")) | {"requests_recorded": 1}), "utf-8")
    rows = pl.read_parquet(requests).height
    assert losses(out, "001-r2") == (
        f"tier/record/requests.parquet holds {rows:,} requests, and run.json beside it says 1",
    )
    half_a_line_short(requests)
    assert losses(out, "001-r2")[0].startswith("tier/record/requests.parquet is not as our programs leave it")
