"""Tests that a run is checked trial by trial, and that what is wrong fails it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inventions import invented
from programs import lab
from simulated import System, write_run

from posthaste_lab.checks import FloatArray
from posthaste_lab.cli.run import _conclude
from posthaste_lab.experiments.results import Result, read_run
from posthaste_lab.experiments.run import Outcome
from posthaste_lab.report.laws import STAGES_LAW, verdicts
from posthaste_lab.report.line import LITTLE
from posthaste_lab.report.passage import LAW
from posthaste_lab.report.records import Trace
from posthaste_lab.report.soundness import checks_of, trials_to_doubt
from posthaste_lab.report.steady import steadiness

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Four trials with nothing wrong."""
    return write_run(tmp_path / "run", System(), [1, 8], repetitions=2, requests=400)


def change(run: Path, how: Change, trial: str = "001-r1") -> None:
    """Changes the figures of a trial."""
    path = run / "trials" / trial / "trial.json"
    held = json.loads(path.read_text("utf-8"))
    how(held["figures"])
    path.write_text(json.dumps(held), "utf-8")


def test_a_run_with_nothing_wrong_passes(run: Path) -> None:
    """What is not known, of so few windows, is said and fails nothing."""
    told = lab("check", run).stdout
    assert "0 fail, 4 cannot be told" in told
    assert told.count("fewer than 40 windows") == 4
    assert "interactive" not in told
    assert lab("check", run, "--all").stdout.count("interactive response time law") == 4


@pytest.mark.parametrize(
    ("how", "name", "why"),
    [
        (lambda f: f.update(population=2), "interactive response time law", "response time is"),
        (lambda f: f.update(generator_valid=False, invalid_because="it was late"), "load generator", "it was late"),
        (lambda f: f.update(response_p99_s=0.1, served=999), "sample size", "999 requests served"),
        (lambda f: f.update(machine_busy_share=1.2), "utilization", "utilization is 1.2, at most 1"),
        (lambda f: f.update(tier_counted_per_s=2 * f["throughput_per_s"]), "forced flow law", "station throughput"),
    ],
    ids=["interactive", "generator", "few", "busy", "counted"],
)
def test_each_figure_that_is_wrong_fails_the_run(run: Path, how: Change, name: str, why: str) -> None:
    """With its trial, the check and the reason, and exit code 1."""
    change(run, how)
    told = " ".join(lab("check", run, code=1).stdout.split())
    assert f"001-r1 {name} fails" in told
    assert why in told
    assert "1 fail," in told


def test_trials_that_are_missing_failed_or_alone_fail_the_run(run: Path) -> None:
    """And a record that is not whole."""
    (run / "trials" / "001-r1" / "trial.json").rename(run / "kept")
    held = json.loads((run / "trials" / "002-r1" / "trial.json").read_text("utf-8"))
    held |= {"status": "failed", "reason": "the tier ended"}
    (run / "trials" / "002-r1" / "trial.json").write_text(json.dumps(held), "utf-8")
    (run / "trials" / "002-r2" / "tier" / "record" / "latency.hlog").unlink()
    failing = {(each.about, each.name) for each in checks_of(read_run(run)) if each.word == "fails"}
    assert failing == {
        ("", "complete"),
        ("002-r1", "finished"),
        ("002-r2", "whole records"),
        ("clients = 1", "repetitions"),
        ("clients = 8", "repetitions"),
    }


def test_a_directory_with_nothing_in_it_is_wrong_use(run: Path) -> None:
    """A check of nothing must not pass."""
    for path in run.glob("trials/*/trial.json"):
        path.unlink()
    assert "nothing to check" in lab("check", run, code=2).stderr


def test_at_its_end_a_run_names_the_trials_to_doubt(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that the load generator calls not valid, or that break a law; the exit code is that of a run that went."""
    outcome = Outcome(4, {}, {}, {})
    _conclude(outcome, run)
    assert "doubtful" not in "".join(capsys.readouterr())
    change(run, lambda f: f.update(generator_valid=False, invalid_because="it was late"))
    change(run, lambda f: f.update(population=2), "001-r2")
    _conclude(outcome, run)
    out, err = capsys.readouterr()
    assert f"doubtful: 2 trials; all verdicts: posthaste-lab check {run}" in out
    assert "doubtful: trial 001-r1: it was late" in err
    assert "doubtful: trial 001-r2: response time is" in err
    assert list(trials_to_doubt(read_run(run))) == ["001-r1", "001-r2"]


def traced(values: FloatArray, trial: str = "001-r1", **figures: object) -> tuple[Result, Trace]:
    """A trial whose windows of 0.1 s have these throughputs, and a tenth of a second each as their response times."""
    middle = np.asarray((np.arange(len(values)) + 0.5) * 0.1, dtype=np.float64)
    result = replace(invented(1, 1, **figures), name=trial)
    windows = np.full(len(values), 0.1)
    return result, Trace(middle, values, values / 1e4, len(values) * 0.1, "the clients", windows)


def noise(seed: int, size: int = 100) -> FloatArray:
    """A steady throughput of 1000 per second, with a deviation of 20."""
    return 1000 + 20 * np.random.default_rng(seed).normal(size=size)


def test_a_drift_and_a_change_of_level_are_not_steady() -> None:
    """With their size, and of a change its instant."""
    (drifting,) = steadiness([traced(noise(1) * np.linspace(1, 0.8, 100))])
    assert drifting.drifts
    assert drifting.says.startswith("throughput fell by 2")
    (jumping,) = steadiness([traced(noise(2) * np.where(np.arange(100) < 60, 1.0, 0.7))])
    assert jumping.changes
    assert jumping.places_s[0] == pytest.approx(6.0, abs=0.11)
    assert "its level changed by up to 30% (at 6 s)" in jumping.says


def test_small_or_chance_changes_are_steady() -> None:
    """A drift of 5 % is certain and small; of fifty steady trials chance makes one look drifting, but for Holm."""
    (small,) = steadiness([traced(noise(3) * np.linspace(1, 0.95, 100))])
    assert small.p_value < 0.001
    assert small.says == ""
    loud = [traced(1000 + 10 * (noise(seed) - 1000), f"{seed:03}-r1") for seed in range(50)]
    judged = steadiness(loud)
    assert any(each.drift.p_value < 0.05 for each in judged)
    assert not any(each.drifts for each in judged)


def test_an_open_loop_is_judged_by_its_response_times() -> None:
    """Its throughput is what was asked for. With fewer than 40 windows no trial is judged."""
    ramp = noise(4) * np.linspace(1, 2, 100)
    (found,) = steadiness([traced(ramp, open_loop=True)])
    assert found.says.startswith("mean response time rose by")
    assert steadiness([traced(noise(5, 39))]) == []


def with_a_line(directory: Path, lengths: FloatArray, waited_ms: float, stall: bool = False) -> Result:
    """A trial whose tier saw such a line, and answered ten requests per window of 0.1 s, that waited so long."""
    record = directory / "tier" / "record"
    record.mkdir(parents=True)
    (record / "run.json").write_text('{"start_unix_ms": 0}', "utf-8")
    rows, at = ["start_s,length_s,kind,requests,errors,waiting_count,waiting_mean_us,line_requests"], 0.0
    for place, length in enumerate(lengths):
        took = 0.4 if stall and place == 10 else 0.1
        rows.append(f"{at:.3f},{took},all,10,0,10,{waited_ms * 1e3},{length:.0f}")
        at += took
    (record / "windows.csv").write_text("\n".join(rows) + "\n", "utf-8")
    return replace(invented(1, 1), directory=directory, measured_unix_s=(0.0, at))


@pytest.mark.parametrize(("waited_ms", "holds"), [(50.0, True), (100.0, False), (25.0, False)])
def test_the_waiting_line_is_as_long_as_its_requests_wait(tmp_path: Path, waited_ms: float, holds: bool) -> None:
    """Five on average, at a hundred per second, wait for 50 ms."""
    lengths = np.random.default_rng(1).poisson(5, 200).astype(float)
    (verdict,) = verdicts(with_a_line(tmp_path, lengths, waited_ms))
    assert verdict.law == LITTLE
    assert verdict.holds == holds
    assert verdict.expected == pytest.approx(waited_ms / 10)


@pytest.mark.parametrize(("waited_ms", "holds"), [(0.01, True), (5.0, False)])
def test_a_short_line_may_be_empty_whenever_it_is_looked_at(tmp_path: Path, waited_ms: float, holds: bool) -> None:
    """A thousandth of a request is seldom seen in 200 looks; half of one would be."""
    (verdict,) = verdicts(with_a_line(tmp_path, np.zeros(200), waited_ms))
    assert verdict.holds == holds


@pytest.mark.parametrize(("length", "holds"), [(7.0, True), (9.0, False)])
def test_a_line_is_not_longer_than_the_population(tmp_path: Path, length: float, holds: bool) -> None:
    """Of a closed loop, however few looks there were; an open loop has none."""
    few = with_a_line(tmp_path, np.full(10, length), 1.0)
    assert verdicts(few) == []
    closed = replace(few, figures=few.figures | {"population": 8})
    (verdict,) = verdicts(closed)
    assert (verdict.law, verdict.holds, verdict.difference > 0) == ("population", holds, not holds)
    assert verdict.message == f"{length:g} requests were seen waiting on average, of 8 that there are"
    assert verdicts(replace(closed, figures=closed.figures | {"open_loop": True})) == []


@pytest.mark.parametrize(("service_s", "holds"), [(0.006, True), (0.0065, False)])
def test_stages_add_up_to_the_time_in_the_tier(service_s: float, holds: bool) -> None:
    """To a percent: they follow each other without a gap."""
    stages = {"parse_mean_s": 0.001, "waiting_mean_s": 0.002, "dispatch_mean_s": 0.0, "reply_mean_s": 0.001}
    result = invented(1, 1, **stages, service_mean_s=service_s, tier_response_mean_s=0.01)
    (verdict,) = verdicts(result)
    assert (verdict.law, verdict.holds) == (STAGES_LAW, holds)
    assert verdicts(invented(1, 1, **stages, tier_response_mean_s=0.01)) == [], "one of them is not known"


def with_both_views(directory: Path, inside_ms: float, stall_ms: float) -> Result:
    """A trial of a hundred requests a second, which take 10 ms for clients and so long in the tier.

    In the last window of either all take longer by the stall; the tier's windows end half a second after the clients'.
    """
    for part, start_ms, mean_ms in (("load", 0, 10.0), ("tier", 500, inside_ms)):
        record = directory / part / "record"
        record.mkdir(parents=True)
        (record / "run.json").write_text(f'{{"start_unix_ms": {start_ms}}}', "utf-8")
        rows = [f"{second},1,all,100,0,{mean_ms * 1e3}" for second in range(10)]
        rows.append(f"10,1,all,100,0,{(mean_ms + stall_ms) * 1e3}")
        (record / "windows.csv").write_text(
            "start_s,length_s,kind,requests,errors,response_mean_us\n" + "\n".join(rows) + "\n", "utf-8"
        )
    (directory / "load" / "summary.json").write_text("{}", "utf-8")
    return replace(invented(1, 1), directory=directory, measured_unix_s=(0.6, 11.0))


@pytest.mark.parametrize(("inside_ms", "stall_ms", "holds"), [(9.9, 0.0, True), (12.0, 0.0, False), (9.9, 8.0, True)])
def test_no_request_is_longer_in_the_tier_than_its_client_waits(
    tmp_path: Path, inside_ms: float, stall_ms: float, holds: bool
) -> None:
    """A mean that says so is a mistake, which a chart of stages would not show; a stall at an edge is none."""
    result = with_both_views(tmp_path, inside_ms, stall_ms)
    (verdict,) = verdicts(result)
    assert (verdict.law, verdict.holds, verdict.difference > 0) == (LAW, holds, not holds)
    (tmp_path / "load" / "summary.json").unlink()
    assert verdicts(result) == [], "nobody knows what the clients measured"


def test_nobody_looks_at_the_line_during_a_stall(tmp_path: Path) -> None:
    """Nor do a few looks tell its length."""
    lengths = np.full(200, 5.0)
    assert verdicts(with_a_line(tmp_path / "stall", lengths, 100.0, stall=True)) == []
    assert verdicts(with_a_line(tmp_path / "few", lengths[:39], 100.0)) == []
