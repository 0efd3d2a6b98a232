"""Tests that two runs are compared combination by combination."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
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
    found = stats.compare_means(np.log(after), np.log(before))
    (line,) = (line.split() for line in told.splitlines() if "clients = 8 " in line and "throughput_per_s" in line)
    assert f"{100 * np.expm1(found.difference):+.1f}" in line
    assert f"[{100 * np.expm1(found.low):+.1f}" in line
    assert f"{found.effect_size:.5g}" in line
    assert line[-1] == "-", "three trials are too few for the bootstrap"
    assert "in one of the runs only: clients = 1; clients = 16" in told
    assert "different machines" not in told


def with_figures(run: Path, **figures: list[float]) -> Path:
    """The run with these figures in its trials, in their order."""
    for number, path in enumerate(sorted(run.glob("trials/*/trial.json"))):
        held = json.loads(path.read_text("utf-8"))
        held["figures"] |= {name: values[number] for name, values in figures.items()}
        path.write_text(json.dumps(held), "utf-8")
    return run


def row(told: str, figure: str) -> str:
    """The row of a figure."""
    (line,) = (line for line in told.splitlines() if f" {figure} " in line)
    return line


def test_a_change_is_known_no_better_than_both_of_its_means(tmp_path: Path) -> None:
    """Twice as much from a base that scatters as NEW does: the ends are ratios, and each is the other's reciprocal."""
    low, high = [90.0, 100.0, 110.0], [180.0, 200.0, 220.0]
    base, new = (write_run(tmp_path / name, System(), [4], repetitions=3, requests=100) for name in ("base", "new"))
    with_figures(base, throughput_per_s=low, blanks=[0.0, 1.0, 2.0])
    with_figures(new, throughput_per_s=high, blanks=[3.0, 3.0, 6.0])
    up = lab("compare", base, new, "--figure", "throughput_per_s,blanks").stdout
    down = lab("compare", new, base, "--figure", "throughput_per_s").stdout
    ends = [
        [1 + float(each) / 100 for each in re.findall(r"([+-][\d.]+) %", row(said, "throughput_per_s"))]
        for said in (up, down)
    ]
    assert ends[0][0] == pytest.approx(2, abs=1e-3)
    assert [1 / each for each in ends[1]] == pytest.approx([ends[0][0], ends[0][2], ends[0][1]], rel=2e-3)
    assert ends[0][2] / 2 == pytest.approx(2 / ends[0][1], rel=2e-3)
    assert " 3 " in row(up, "blanks"), "a difference, as no ratio to a zero can be formed"
    assert "each of these 2 intervals holds by itself: where nothing has changed, one in 20 of them excludes 0" in up
    assert "by itself" not in down


def test_a_percentile_of_too_few_requests_is_not_compared(tmp_path: Path) -> None:
    """As the report leaves it out."""
    base, new = (write_run(tmp_path / name, System(), [4], repetitions=2, requests=100) for name in ("base", "new"))
    for run, served in ((base, 5000.0), (new, 500.0)):
        with_figures(run, response_p99_s=[0.1, 0.2], response_p90_s=[0.1, 0.2], served=[served, served])
    said = lab("compare", base, new, "--figure", "response_p99_s,response_p90_s").stdout
    assert "too few requests" in row(said, "response_p99_s")
    assert row(said, "response_p99_s").split()[-3:] == ["-", "-", "-"]
    assert "too few requests" not in row(said, "response_p90_s")


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


def test_a_machine_at_another_time_is_no_other_machine(tmp_path: Path) -> None:
    """Its load average and some kB of its memory are never the same twice; what differs between two is named."""
    base, new = (write_run(tmp_path / name, System(), [4], repetitions=2, requests=100) for name in ("base", "new"))
    machine = {"cores": "2", "memory": "24684100 kB", "load average at the start": "0.10 0.20 0.30"}
    later = machine | {"memory": "24684096 kB", "load average at the start": "2.32 2.36 2.69"}
    for hosts, said in (
        ({"local": later}, ""),
        ({"local": later | {"cores": "4"}}, "cores of local was 2 and is 4"),
        ({"local": later, "server": machine}, "server is in one of them only"),
    ):
        for run, held in ((base, {"local": machine}), (new, hosts)):
            plan = json.loads((run / "plan.json").read_text("utf-8"))
            plan["environment"]["hosts"] = held
            (run / "plan.json").write_text(json.dumps(plan), "utf-8")
        told = lab("compare", base, new).stdout
        assert ("different machines" in told) == bool(said)
        assert said in told


def test_runs_of_two_files_are_compared_with_a_note(tmp_path: Path) -> None:
    """A level of the same name may be of another system."""
    base, new = (write_run(tmp_path / name, System(), [4], repetitions=2, requests=100) for name in ("base", "new"))
    note = "the experiment files of the two runs are not the same"
    assert note not in lab("compare", base, new).stdout
    plan = json.loads((new / "plan.json").read_text("utf-8"))
    (new / "plan.json").write_text(json.dumps(plan | {"experiment_sha256": "1" * 64}), "utf-8")
    assert note in lab("compare", base, new).stdout


def test_many_trials_have_an_interval_of_the_bootstrap(tmp_path: Path) -> None:
    """From eight on."""
    runs = [
        write_run(tmp_path / name, System(batch=batch), [4], repetitions=8, requests=100)
        for name, batch in (("base", 0.001), ("new", 0.002))
    ]
    told = lab("compare", *runs, "--figure", "response_mean_s").stdout
    (line,) = (line for line in told.splitlines() if "response_mean_s" in line)
    assert line.count("[") == 2
