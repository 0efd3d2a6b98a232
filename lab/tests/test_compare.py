"""Tests that two runs are compared combination by combination."""

import json
from pathlib import Path

from programs import lab
from simulated import System, write_run

from posthaste_lab import stats
from posthaste_lab.experiments.results import read_run


def test_two_runs_are_compared_where_they_have_the_same_levels(tmp_path: Path) -> None:
    """The figures are those of Welch's comparison; levels that only one run has are named."""
    base = write_run(tmp_path / "base", System(), [1, 8], repetitions=3, requests=300)
    new = write_run(tmp_path / "new", System(batch=0.0012), [8, 16], repetitions=3, requests=300)
    told = lab("compare", base, new).stdout
    before, after = (
        [result.figures["throughput_per_s"] for result in read_run(run).finished if result.levels == {"clients": 8}]
        for run in (base, new)
    )
    found = stats.compare_means(after, before)
    (line,) = (line.split() for line in told.splitlines() if "clients = 8 " in line and "throughput_per_s" in line)
    assert f"{100 * found.relative:+.1f}" in line
    assert f"[{100 * found.low * found.relative / found.difference:+.1f}" in line
    assert f"{found.effect_size:.5g}" in line
    assert line[-1] == "-", "three trials are too few for the bootstrap"
    assert "in one of the runs only: clients = 1; clients = 16" in told
    assert "different machines" not in told


def test_trials_that_no_model_would_use_are_not_compared(tmp_path: Path) -> None:
    """One that broke a rule of acceptance and one that lost a file; what a reader must know is said of both runs."""
    base, new = (write_run(tmp_path / name, System(), [4], repetitions=4, requests=100) for name in ("base", "new"))
    before = lab("compare", base, new).stdout
    assert "left out" not in before
    path = new / "trials" / "001-r2" / "trial.json"
    held = json.loads(path.read_text("utf-8"))
    held["objections"], held["figures"]["throughput_per_s"] = ["errors = 3, accepted up to 0"], 1e9
    path.write_text(json.dumps(held), "utf-8")
    (new / "trials" / "001-r3" / "tier" / "record" / "latency.hlog").unlink()
    plan = json.loads((base / "plan.json").read_text("utf-8"))
    plan["environment"]["busy"] = True
    (base / "plan.json").write_text(json.dumps(plan), "utf-8")
    said = lab("compare", base, new, "--figure", "throughput_per_s")
    kept = [result.figures["throughput_per_s"] for result in read_run(new).accepted]
    assert len(kept) == 2
    (line,) = (line.split() for line in said.stdout.splitlines() if "throughput_per_s" in line)
    assert f"{sum(kept) / 2:.5g}" in line
    assert f"{new}: left out, by a rule of acceptance or by omit.toml: 001-r2" in said.stdout
    assert f"{base}: The machine was busy with something else" in said.stdout
    assert "latency.hlog is missing; the comparison leaves it out" in said.stderr
    for name in ("001-r1", "001-r4"):
        (new / "trials" / name / "tier" / "record" / "latency.hlog").unlink()
    assert "NEW" in lab("compare", base, new, code=2).stderr


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    """A single trial has no interval, other machines are a reason of their own, and nothing shared is wrong use."""
    base = write_run(tmp_path / "base", System(), [4], repetitions=2, requests=300)
    once = write_run(tmp_path / "once", System(), [4], repetitions=1, requests=300)
    other = write_run(tmp_path / "other", System(), [5], repetitions=2, requests=300)
    plan = json.loads((once / "plan.json").read_text("utf-8"))
    plan["environment"]["hosts"] = {"local": {"cores": "two"}}
    (once / "plan.json").write_text(json.dumps(plan), "utf-8")
    told = lab("compare", base, once, "--figure", "throughput_per_s").stdout
    assert "one trial has none" in told
    assert "different machines" in told
    assert "response_mean_s" not in told
    assert "shares no combination" in lab("compare", base, other, code=2).stderr


def test_many_trials_have_an_interval_of_the_bootstrap(tmp_path: Path) -> None:
    """From eight on."""
    runs = [
        write_run(tmp_path / name, System(batch=batch), [4], repetitions=8, requests=100)
        for name, batch in (("base", 0.001), ("new", 0.002))
    ]
    told = lab("compare", *runs, "--figure", "response_mean_s").stdout
    (line,) = (line for line in told.splitlines() if "response_mean_s" in line)
    assert line.count("[") == 2
