"""Runs that went on at another time: what was run out of turn, and what else the machine did by then."""

import shutil
from pathlib import Path

import pytest
from programs import lab

from posthaste_lab.experiments import run as running
from posthaste_lab.experiments.journal import BUSY_AGAIN
from posthaste_lab.experiments.results import Run, read_run
from posthaste_lab.report.cells import cells_of
from posthaste_lab.report.sections.design import _turns
from posthaste_lab.report.sections.parts import TableItem
from posthaste_lab.report.sections.setup import setup_section
from posthaste_lab.report.warnings import warnings


def test_a_trial_that_was_run_later_than_planned_is_told_and_has_its_real_turn(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of another time than its repetition, and perhaps of a machine that others used by then."""
    out = Path(shutil.copytree(run.directory, tmp_path / "out"))
    monkeypatch.setattr(running, "busy_share", lambda _: 1.0)
    lab("run", out / "experiment.toml", "--out", out)
    before = read_run(out)
    assert BUSY_AGAIN not in before.plan["environment"], "nothing was left to run"
    planned = [trial["name"] for trial in before.plan["trials"]]
    assert [before.turns[name] for name in planned] == list(range(1, len(planned) + 1))
    assert not [said for said in warnings(before) if "turn" in said or "resumed" in said]

    shutil.rmtree(out / "trials" / planned[1])
    lab("run", out / "experiment.toml", "--out", out)
    again = read_run(out)
    was_run = [planned[0], *planned[2:], planned[1]]
    assert sorted(planned, key=lambda name: again.turns[name]) == was_run
    assert again.out_of_turn == [planned[1]]
    said = " ".join(warnings(again))
    assert f"Run out of turn, after trials that follow in the plan: {planned[1]}." in said
    assert "busy with something else when the run was resumed" in said
    (trials,) = (item for item in setup_section(again, []).items if item.name == "trials")
    assert isinstance(trials, TableItem)
    assert [row[:2] for row in trials.rows] == [[str(turn), name] for turn, name in enumerate(was_run, start=1)]
    repetitions = sorted({result.repetition for result in again.results})
    turns = {
        result.name: turn
        for cell in cells_of(again)
        for result, turn in zip(cell.results, _turns(again, cell, repetitions), strict=True)
    }
    assert turns == again.turns
