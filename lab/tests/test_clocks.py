"""Tests that the records of a trial are put on one clock, whatever the wall clocks of its machines show."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hdrh.histogram import HdrHistogram
from inventions import invented
from programs import here
from simulated import System, write_run

from posthaste_lab.errors import BadFile
from posthaste_lab.experiments.clocks import correction_s, start_unix_s, unrelated
from posthaste_lab.experiments.cpu import Watch, cpu_seconds
from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.figures import LoadFigures, read_stages
from posthaste_lab.experiments.hosts import this_machine
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.kinds import POSTGRESQL, kinds
from posthaste_lab.experiments.parts import Instance, Parts
from posthaste_lab.experiments.remaining import middles_of
from posthaste_lab.experiments.results import read_run
from posthaste_lab.experiments.trial import _effort, _on_the_common_clock, _write_events
from posthaste_lab.fitting.observations import observations
from posthaste_lab.report.records import response_times
from posthaste_lab.report.soundness import checks_of
from posthaste_lab.report.warnings import warnings

BEGAN_S = 1_000_000.0  # the first load's start, on its wall clock
HERE, THERE = "here", "there"  # boots of two machines


def record(
    trial: Path,
    part: str,
    boot: str,
    unix_s: float,
    monotonic_s: float,
    listen: str | None = None,
    offsets_s: dict[str, float] | None = None,
) -> Path:
    """A record with these starts; of a load, if it has asked servers how far their wall clocks are off."""
    kept = trial / part / "record"
    kept.mkdir(parents=True)
    run: dict[str, Any] = {
        "start_unix_ms": round(unix_s * 1e3),
        "start_unix_ns": round(unix_s * 1e9),
        "start_monotonic_ns": round(monotonic_s * 1e9),
        "machine": {"boot_id": boot},
        "options": {"listen": [listen]} if listen is not None else {},
    }
    if offsets_s is not None:
        (kept.parent / "summary.json").write_text("{}", "utf-8")
        run["clock_relations"] = [
            {"server": server, "offset_us": offset_s * 1e6, "error_us": 50.0} for server, offset_s in offsets_s.items()
        ]
    (kept / "run.json").write_text(json.dumps(run), "utf-8")
    return kept


def test_on_one_machine_the_monotonic_clock_decides(tmp_path: Path) -> None:
    """The wall clock was set back by three seconds after the tier had started, five seconds before the load."""
    load = record(tmp_path, "load", HERE, BEGAN_S, 105.0, offsets_s={})
    tier = record(tmp_path, "tier", HERE, BEGAN_S - 2.0, 100.0, "127.0.0.1:0")
    assert start_unix_s(load) == BEGAN_S
    assert start_unix_s(tier) == pytest.approx(BEGAN_S - 5.0)
    assert correction_s(tier) == pytest.approx(-3.0)
    assert unrelated(tmp_path) == []


def test_of_another_machine_the_load_knows_how_far_its_wall_clock_is_off(tmp_path: Path) -> None:
    """A second ahead, by the surest answer; a tier beside the one that was asked has the same clock."""
    load = record(tmp_path, "load", HERE, BEGAN_S, 105.0, offsets_s={"10.0.0.7:4000": 1.0})
    run = json.loads((load / "run.json").read_text("utf-8"))
    run["clock_relations"] += [{"server": "10.0.0.7:4000", "offset_us": 2e6, "error_us": 900.0}]
    (load / "run.json").write_text(json.dumps(run), "utf-8")
    tier = record(tmp_path, "tier-1", THERE, BEGAN_S + 1.0 - 5.0, 7.0, "10.0.0.7:0")
    beside = record(tmp_path, "tier-2", THERE, BEGAN_S + 1.0 - 4.0, 8.0, "10.0.0.7:0")
    assert start_unix_s(tier) == pytest.approx(BEGAN_S - 5.0)
    assert start_unix_s(beside) == pytest.approx(BEGAN_S - 4.0)
    assert unrelated(tmp_path) == []


def test_a_tier_that_listens_anywhere_is_known_by_its_port(tmp_path: Path) -> None:
    """And a load that was not told of it does not take another one for it."""
    record(tmp_path, "load", HERE, BEGAN_S, 105.0, offsets_s={"db.example:7411": 1.0})
    tier = record(tmp_path, "tier", THERE, BEGAN_S - 4.0, 7.0, "0.0.0.0:7411")
    other = record(tmp_path, "other", "third", BEGAN_S - 4.0, 7.0, "0.0.0.0:7412")
    assert start_unix_s(tier) == pytest.approx(BEGAN_S - 5.0)
    assert start_unix_s(other) == BEGAN_S - 4.0
    assert unrelated(tmp_path) == ["other"]


def test_loads_on_two_machines_meet_at_a_server_that_both_asked(tmp_path: Path) -> None:
    """The second one's wall clock is 2 s ahead of the first one's; the server that only it asked is ahead by 5 s."""
    record(tmp_path, "load-1", HERE, BEGAN_S, 100.0, offsets_s={"10.0.0.7:1": 3.0})
    second = record(tmp_path, "load-2", THERE, BEGAN_S + 2.5, 9.0, offsets_s={"10.0.0.7:1": 1.0, "10.0.0.8:1": 3.0})
    tier = record(tmp_path, "tier", "third", BEGAN_S, 1.0, "10.0.0.8:1")
    assert start_unix_s(second) == pytest.approx(BEGAN_S + 0.5)
    assert start_unix_s(tier) == pytest.approx(BEGAN_S - 5.0)


def test_what_a_second_load_measured_is_on_the_clock_of_the_first(tmp_path: Path) -> None:
    """Or the time that both measured would be too short by what their wall clocks are apart."""
    record(tmp_path, "load-1", HERE, BEGAN_S, 100.0, offsets_s={"10.0.0.7:1": 3.0})
    kept = record(tmp_path, "load-2", THERE, BEGAN_S + 2.5, 9.0, offsets_s={"10.0.0.7:1": 1.0}).parent
    second = Instance("load", kinds()["bench queue"], here()["local"], "", kept, {}, 0)
    figures = LoadFigures({}, {}, (BEGAN_S + 3.5, BEGAN_S + 4.5))
    assert _on_the_common_clock(figures, second).measured == pytest.approx((BEGAN_S + 1.5, BEGAN_S + 2.5))
    assert _on_the_common_clock(replace(figures, measured=None), second).measured is None
    (kept / "record" / "run.json").unlink()
    assert _on_the_common_clock(figures, second) == figures


def parts_of(trial: Path, *kept: tuple[str, str, str]) -> Parts:
    """The parts of a trial: names, kinds and machines."""
    parts = Parts(cast("Experiment", None), {}, trial, 0)
    for name, kind, host in kept:
        (trial / name).mkdir(exist_ok=True)
        there = replace(this_machine(Path("posthaste")), name=host)
        parts.instances.append(Instance(name, kinds()[kind], there, "", trial / name, {}, 0))
    return parts


def test_events_that_others_left_are_a_failure_of_the_trial_and_not_of_the_run(tmp_path: Path) -> None:
    """A row that was cut off has no number where one is looked for."""
    record(tmp_path, "load", HERE, BEGAN_S, 100.0, offsets_s={})
    kept = record(tmp_path, "tier", HERE, BEGAN_S, 100.0)
    (kept / "events.csv").write_text("start_s,duration_ms,source,kind\n1.0\n", "utf-8")
    with pytest.raises(BadFile, match=r"tier/record/events\.csv"):
        _write_events(parts_of(tmp_path, ("tier", "queue", "local")), (BEGAN_S, BEGAN_S + 1.0))


def test_what_a_server_without_a_record_did_is_placed_by_a_record_from_its_machine(tmp_path: Path) -> None:
    """The load's wall clock is 2 s behind that of the machine of tier and database, and of the laboratory."""
    record(tmp_path, "load", THERE, BEGAN_S, 100.0, offsets_s={"10.0.0.7:1": 2.0})
    record(tmp_path, "tier", HERE, BEGAN_S + 2.0, 9.0, "10.0.0.7:1")
    parts = parts_of(tmp_path, ("load", "bench queue", "far"), ("tier", "queue", "local"), ("db", POSTGRESQL, "local"))
    log = f"{BEGAN_S + 6.5:.3f} LOG:  checkpoint complete: wrote 3 buffers; total=0.5 s\n"
    (tmp_path / "db" / "stderr.log").write_text(log, "utf-8")
    measured = (BEGAN_S + 3.0, BEGAN_S + 5.0)
    _write_events(parts, measured)
    assert (tmp_path / "events.csv").read_text("utf-8").splitlines()[1:] == ["1.000000,500.000,db,checkpoint"]
    samples = {"db": [(BEGAN_S + second, used_s) for second, used_s in ((5.0, 1.0), (6.0, 1.5), (7.0, 3.0))]}
    found = _effort(parts, Watch(parts.instances, 1.0, samples), measured)
    assert found.cores["db"] == pytest.approx(1.0), "2 s of CPU time in the 2 s that were measured"


def test_a_server_of_its_own_on_each_machine_relates_nothing(tmp_path: Path) -> None:
    """Of an address such as 127.0.0.1 there is one on each."""
    record(tmp_path, "load-1", HERE, BEGAN_S, 100.0, offsets_s={"127.0.0.1:1": 3.0})
    second = record(tmp_path, "load-2", THERE, BEGAN_S + 2.5, 9.0, offsets_s={"127.0.0.1:1": 1.0})
    assert start_unix_s(second) == BEGAN_S + 2.5
    assert unrelated(tmp_path) == ["load-2"]


def test_without_a_load_that_recorded_each_has_its_own_wall_clock(tmp_path: Path) -> None:
    """And a record of which the start is no number is refused by its name."""
    tier = record(tmp_path, "tier", HERE, BEGAN_S, 100.0, "127.0.0.1:0")
    assert (start_unix_s(tier), correction_s(tier), unrelated(tmp_path)) == (BEGAN_S, 0.0, [])
    (tier / "run.json").write_text('{"start_unix_ms": "yesterday"}', "utf-8")
    with pytest.raises(BadFile, match=r"tier/record/run\.json"):
        start_unix_s(tier)


def test_all_that_a_record_holds_is_at_its_place_on_the_common_clock(tmp_path: Path) -> None:
    """The tier's wall clock is 3 s ahead: windows, CPU time and histograms are of the second that was measured."""
    record(tmp_path, "load", HERE, BEGAN_S, 100.0, offsets_s={"10.0.0.7:1": 3.0})
    tier = record(tmp_path, "tier", THERE, BEGAN_S + 3.0, 9.0, "10.0.0.7:1")
    windows = ["start_s,length_s,kind,requests,errors,response_mean_us"]
    windows += [f"{second},1,all,{100 + second},0,{1000 * second}" for second in range(5)]
    (tier / "windows.csv").write_text("\n".join(windows) + "\n", "utf-8")
    cpu = ["start_s,length_s,cpu_s", *(f"{second},1,0.{second}" for second in range(5))]
    (tier / "system.csv").write_text("\n".join(cpu) + "\n", "utf-8")
    lines = [f"#[BaseTime: {BEGAN_S + 3:.3f} (seconds since epoch)]\n"]
    for second in range(5):
        histogram = HdrHistogram(1, 3_600_000_000_000, 2)
        histogram.record_value(1_000_000, 100 + second)
        lines.append(f"Tag=send/response,{second}.000,1.000,1.0,{histogram.encode().decode()}\n")
    (tier / "latency.hlog").write_text("".join(lines), "utf-8")
    measured = (BEGAN_S + 2.0, BEGAN_S + 3.0)
    assert middles_of([tier])[2] == pytest.approx(BEGAN_S + 2.5)
    assert read_stages([tier], Instants(measured))["all"]["tier_requests"] == 102
    assert cpu_seconds(tier, measured) == pytest.approx(0.2)
    trial = replace(invented(1, 1), directory=tmp_path, measured_unix_s=measured)
    seen = response_times((trial,), "tier")
    assert seen is not None
    assert seen.total == 102


def test_batches_are_those_of_the_measured_time(tmp_path: Path) -> None:
    """Of a tier whose wall clock is ahead they are the same; if nothing relates its clock, the report says so."""
    run = read_run(write_run(tmp_path / "run", System(), [8], repetitions=1, requests=400))
    (trial,) = run.results
    (before,) = (each.batches for each in observations(run))
    load = record(trial.directory, "load", HERE, 0.001, 100.0, offsets_s={"10.0.0.7:1": 1.5})
    path = trial.directory / "tier" / "record" / "run.json"
    told = json.loads(path.read_text("utf-8"))
    told |= {"start_unix_ms": 1500, "start_monotonic_ns": 7, "machine": {"boot_id": THERE}}
    told["options"] |= {"listen": ["10.0.0.7:1"]}
    path.write_text(json.dumps(told), "utf-8")
    (after,) = (each.batches for each in observations(run))
    assert before is not None
    assert after is not None
    assert after.counts.tolist() == before.counts.tolist()
    assert not [check for check in checks_of(run) if check.name == "clocks"]
    assert not [said for said in warnings(run) if "clock" in said]
    silent = json.loads((load / "run.json").read_text("utf-8")) | {"clock_relations": None}
    (load / "run.json").write_text(json.dumps(silent), "utf-8")
    assert [(each.about, each.word) for each in checks_of(run) if each.name == "clocks"] == [(trial.name, "not known")]
    (said,) = (said for said in warnings(run) if "clock" in said)
    assert (
        f"nothing relates the clock of tier, on another machine, to that of the load generator ({trial.name})" in said
    )
