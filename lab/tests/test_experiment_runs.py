"""Tests runs of real programs: their files, and that nothing is lost, doubled or left running whatever happens."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from programs import SMALL, here, lab, lab_command, left_running, program, run_through, write

from posthaste_lab.errors import BadFile
from posthaste_lab.experiments import load, run
from posthaste_lab.experiments.columns import figures_of
from posthaste_lab.experiments.cpu import cpu_seconds
from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.environment import differences
from posthaste_lab.experiments.hosts import this_machine
from posthaste_lab.experiments.journal import Journal
from posthaste_lab.experiments.kinds import kinds
from posthaste_lab.experiments.parts import Instance, Parts
from posthaste_lab.experiments.plan import Trial
from posthaste_lab.experiments.postgresql import events, trusted
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.experiments.process import Process
from posthaste_lab.experiments.trial import _stop_servers, run_trial


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small experiment, run once."""
    directory = tmp_path_factory.mktemp("run")
    run_through(write(directory), directory / "out")
    return directory / "out"


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory for stores that other users may enter, in which nothing may be left and nothing run afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="posthaste-lab-test-"))
    directory.chmod(0o755)
    yield directory
    assert left_running(directory) == []
    directory.rmdir()


def table(path: Path) -> list[dict[str, str]]:
    """A CSV."""
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def journal(directory: Path) -> list[tuple[str, str]]:
    """Trials and what became of them, in order."""
    return [(row["trial"], row["event"]) for row in table(directory / "journal.csv")]


def wait_for(path: Path) -> None:
    """Until it is there."""
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


def test_a_run_leaves_a_row_for_each_trial_that_agrees_with_its_records(finished: Path) -> None:
    """Throughput and counts of trials.csv are those of the load generator's summary, stages those of the tier."""
    rows = table(finished / "trials.csv")
    assert [row["trial"] for row in rows] == ["001-r1", "001-r2", "002-r1", "002-r2"]
    for row in rows:
        trial = finished / "trials" / row["trial"]
        summary = json.loads((trial / "load" / "summary.json").read_text("utf-8"))
        assert row["status"] == "finished"
        assert float(row["throughput_per_s"]) == summary["throughput_per_s"]
        assert float(row["response_p99_s"]) == pytest.approx(summary["response"]["p99_us"] / 1e6)
        assert int(row["clients"]) == summary["options"]["clients"]
        assert float(row["think_kept_s"]) == summary["interactive_law"]["think_us"] / 1e6
        assert summary["options"]["duration_s"] == pytest.approx(0.35)
        assert int(row["violations"]) == 0
        stages = [float(row[f"{s}_mean_s"]) for s in ("parse", "waiting", "dispatch", "service", "reply")]
        assert sum(stages) == pytest.approx(float(row["tier_response_mean_s"]), rel=0.02)
        for name in ("run.json", "windows.csv", "latency.hlog", "system.csv", "events.csv"):
            assert (trial / "tier" / "record" / name).exists()
    kinds = table(finished / "kinds.csv")
    assert {row["kind"] for row in kinds} >= {"send", "pop", "peek", "readable", "create", "delete"}


def test_the_figures_that_a_trial_can_have_are_those_that_it_has(finished: Path) -> None:
    """Or a figure would be refused that is there, or taken that never comes. Words are no figures."""
    for trial in finished.glob("trials/*/trial.json"):
        measured = json.loads(trial.read_text("utf-8"))["figures"]
        assert measured.keys() - {"invalid_because"} == figures_of(load(finished / "experiment.toml"))


def test_trials_differ_by_what_the_plan_says(finished: Path) -> None:
    """Repetitions have seeds of their own; the order is the plan's."""
    plan = json.loads((finished / "plan.json").read_text("utf-8"))
    started = [trial for trial, event in journal(finished) if event == "started"]
    assert started == [trial["name"] for trial in plan["trials"]]
    seeds = {
        name: json.loads((finished / "trials" / name / "load" / "summary.json").read_text("utf-8"))["seed"]
        for name in started
    }
    assert seeds == {"001-r1": 8, "002-r1": 8, "001-r2": 9, "002-r2": 9}
    assert plan["environment"]["programs"]["posthaste"].startswith("posthaste ")
    assert plan["environment"]["hosts"]["local"]["cores"]


def test_a_run_goes_on_where_it_stopped(finished: Path, tmp_path: Path) -> None:
    """Finished trials are not repeated; a half one is, and the journal says so."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (out / "trials" / "002-r1" / "trial.json").unlink()
    kept = (out / "trials" / "001-r1" / "trial.json").read_bytes()
    before = len(journal(out))
    lab("run", out / "experiment.toml", "--out", out)
    after = journal(out)[before:]
    assert after == [
        ("", "resumed"),
        ("002-r1", "cleared"),
        ("002-r1", "started"),
        ("002-r1", "finished"),
        ("", "ended"),
    ]
    assert (out / "trials" / "001-r1" / "trial.json").read_bytes() == kept
    rows = table(out / "trials.csv")
    assert len(rows) == 4
    (out / "trials.csv").write_text("", "utf-8")  # interrupted between the end of the last trial and its rows
    lab("run", out / "experiment.toml", "--out", out)
    assert table(out / "trials.csv") == rows


@pytest.mark.parametrize(
    ("stumbles", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (BadFile("DIR", "run.json", "is not as our programs leave it"), "is not as our programs leave it"),
        (KeyError("start_unix_ms"), "what a part left has no 'start_unix_ms'"),
    ],
)
def test_whatever_a_trial_stumbles_over_costs_no_more_than_that_trial(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stumbles: Exception, said: str
) -> None:
    """The others are run, and the reason stands in its place."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    for name in ("001-r1", "002-r1"):
        (out / "trials" / name / "trial.json").unlink()

    def stumble(experiment: Experiment, trial: Trial, *more: Any) -> dict[str, Any]:  # noqa: ANN401
        if trial.name == "001-r1":
            raise stumbles
        return run_trial(experiment, trial, *more)

    monkeypatch.setattr(run, "run_trial", stumble)
    lab("run", out / "experiment.toml", "--out", out, code=1)
    ends = dict(journal(out))
    assert (ends["001-r1"], ends["002-r1"]) == ("failed", "finished")
    assert said in json.loads((out / "trials" / "001-r1" / "trial.json").read_text("utf-8"))["reason"]


def test_a_load_without_a_record_is_given_no_window(tmp_path: Path) -> None:
    """It is the record's, and refused without one; that of a tier is more."""
    text = SMALL.replace("check = true", "check = true\nrecord = false")
    lab("run", write(tmp_path, text), "--out", tmp_path / "run", "--quick")
    trial = json.loads((tmp_path / "run" / "trials" / "001-r1" / "trial.json").read_text("utf-8"))
    assert trial["status"] == "finished"
    assert "--window" not in trial["commands"]["load"]
    assert "--window" in trial["commands"]["tier"]


def test_a_record_that_does_not_tell_of_the_measured_time_has_no_cpu_time(tmp_path: Path) -> None:
    """NaN would be no JSON."""
    (tmp_path / "run.json").write_text('{"start_unix_ms": 1000}', "utf-8")
    (tmp_path / "system.csv").write_text("start_s,length_s,cpu_s\n0,1,0.25\n1,1,0.5\n2,1,\n", "utf-8")
    asked = (None, (1.0, 3.0), (3.0, 4.0), (4.0, 5.0))
    assert [cpu_seconds(tmp_path, measured) for measured in asked] == [0.75, 0.75, None, None]


def test_a_window_at_an_end_of_the_measured_time_counts_with_what_lies_within(tmp_path: Path) -> None:
    """Or the time used would be off by up to a window, where the time measured is not."""
    (tmp_path / "run.json").write_text('{"start_unix_ms": 1000}', "utf-8")
    (tmp_path / "system.csv").write_text("start_s,length_s,cpu_s\n0,1,0.25\n1,1,0.5\n2,0,0.0\n", "utf-8")
    shares = {(1.25, 2.75): 0.75 * 0.25 + 0.75 * 0.5, (2.4, 2.6): 0.2 * 0.5, (0.0, 1.5): 0.5 * 0.25}
    assert {measured: cpu_seconds(tmp_path, measured) for measured in shares} == pytest.approx(shares)


def test_a_directory_of_another_experiment_is_refused(finished: Path, tmp_path: Path) -> None:
    """So are one with something else in it, and the quick version in the full one's place."""
    other = write(tmp_path, SMALL.replace("seed = 7", "seed = 8"))
    assert "another experiment" in lab("run", other, "--out", finished, code=2).stderr
    assert "another experiment" in lab("run", finished / "experiment.toml", "--quick", "--out", finished, code=2).stderr
    assert "something that is no run" in lab("run", other, "--out", tmp_path, code=2).stderr


def test_a_run_that_could_not_even_lay_out_its_directory_is_begun_there(tmp_path: Path) -> None:
    """The disk was full, or the power went, before the plan was on it. One with trials has lost its plan."""
    path, out = write(tmp_path), tmp_path / "out"
    (out / "trials").mkdir(parents=True)
    for name in (".lock", "experiment.toml", "plan.json.new"):
        (out / name).write_text("title = ", "utf-8")
    with Journal(out).alone():
        pass
    (out / "trials" / "001-r1").mkdir()
    assert "something that is no run" in lab("run", path, "--out", out, code=2).stderr


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("plan.json", "{}"),
        ("plan.json", "[]"),
        ("plan.json", '{"seed": 7, "tri'),
        ("trials/001-r1/trial.json", "{}"),
        ("trials/001-r1/trial.json", ""),
        ("trials/001-r1/scratch.json", "[1"),
    ],
)
def test_a_run_does_not_go_on_from_a_damaged_file(finished: Path, tmp_path: Path, name: str, held: str) -> None:
    """It is named, in a line, and what is there stays as it is."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    if name.endswith("scratch.json"):
        (out / name).with_name("trial.json").unlink()
    (out / name).write_text(held, "utf-8")
    said = lab("run", out / "experiment.toml", "--out", out, code=2).stderr.splitlines()
    assert said[-1].startswith(f"posthaste-lab: --out = '{out / name}': is no")
    assert (out / name).read_text("utf-8") == held


def test_a_directory_that_is_being_run_in_is_refused(finished: Path) -> None:
    """Two would clear each other's trials; the one that is there is not disturbed, and nobody waits for a dead one."""
    before = journal(finished)
    with Journal(finished).alone():
        said = lab("run", finished / "experiment.toml", "--out", finished, code=2).stderr
    assert "is being run by another process" in said
    assert journal(finished) == before
    lab("run", finished / "experiment.toml", "--out", finished)


def test_a_run_does_not_go_on_with_another_program_or_disk(finished: Path, tmp_path: Path) -> None:
    """Half of its trials would be of something else, and nobody could tell; a busier machine is the same machine."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    plan = json.loads((out / "plan.json").read_text("utf-8"))
    around = plan["environment"]
    around["hosts"]["local"] |= {"disk of the stores": "/dev/other", "load average at the start": "9 9 9"}
    around["sha256"]["local"] = "0" * 64
    (out / "plan.json").write_text(json.dumps(plan), "utf-8")
    said = lab("run", out / "experiment.toml", "--out", out, code=2).stderr.splitlines()
    assert len(said) == 2
    assert f"posthaste on local (SHA-256) was {'0' * 64} and is " in said[0]
    assert "disk of the stores of local was /dev/other and is " in said[1]


def test_a_program_that_is_replaced_while_a_run_goes_on_stops_it(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build during the night would be measured with the rest; one that left the same program is none."""
    copy, out = tmp_path / "posthaste", tmp_path / "out"
    shutil.copy(program(), copy)

    def replacing(experiment: Experiment, trial: Trial, *more: Any) -> dict[str, Any]:  # noqa: ANN401
        result = run_trial(experiment, trial, *more)
        built = shutil.copy(copy, tmp_path / "built")
        if trial.place == 2:
            with Path(built).open("ab") as end:
                end.write(b"another")
        Path(built).replace(copy)
        return result

    monkeypatch.setattr(run, "run_trial", replacing)
    arguments = ("run", write(tmp_path), "--out", out, "--scratch", scratch, "--posthaste", copy)
    said = lab(*arguments, code=1).stderr
    assert "posthaste on local is not the program any more that this run was begun with" in said
    assert len(table(out / "trials.csv")) == 2
    assert "posthaste on local (SHA-256) was " in lab(*arguments, code=2).stderr


def test_a_machine_that_was_started_anew_is_the_same_machine(finished: Path) -> None:
    """Its kernel has some kB more or less for itself; with half of its memory it is another."""
    held = json.loads((finished / "plan.json").read_text("utf-8"))["environment"]
    memory = int(held["hosts"]["local"]["memory"].removesuffix(" kB"))

    def found(now: int) -> list[str]:
        return differences(held, held | {"hosts": {"local": held["hosts"]["local"] | {"memory": f"{now} kB"}}})

    assert found(memory) == found(memory - 16) == found(memory + 16) == []
    assert found(memory // 2) == [f"memory of local was {memory} kB and is {memory // 2} kB"]


def test_a_trial_that_fails_is_told_and_not_repeated_unasked(tmp_path: Path, scratch: Path) -> None:
    """The others run; its reason names the part and its last word; --retry-failed tries it again."""
    text = SMALL.replace("repetitions = 2", "repetitions = 1").replace("[2, 8]", "[2, 8, 0]")
    path, out = write(tmp_path, text), tmp_path / "out"
    done = lab("run", path, "--out", out, "--scratch", scratch, code=1)
    assert "failed: trial 003-r1: load ended with 2 during the trial; its last word: " in done.stderr
    assert "trials that failed: 1;" in done.stderr
    assert [row["status"] for row in table(out / "trials.csv")] == ["finished", "finished", "failed"]
    lab("run", path, "--out", out, "--scratch", scratch, code=1)
    assert journal(out).count(("003-r1", "started")) == 1
    lab("run", path, "--out", out, "--scratch", scratch, "--retry-failed", code=1)
    assert journal(out).count(("003-r1", "started")) == 2
    assert journal(out).count(("001-r1", "started")) == 1


def test_a_trial_that_is_not_accepted_is_marked_and_kept(tmp_path: Path, scratch: Path) -> None:
    """Nobody drops it silently: a row as any other, a word on why, and exit code 1."""
    text = SMALL.replace("repetitions = 2", "repetitions = 1")
    text += '[[accept]]\nfigure = "errors"\nat_most = 0\n[[accept]]\nfigure = "population"\nat_most = 4\n'
    out = tmp_path / "out"
    done = lab("run", write(tmp_path, text), "--out", out, "--scratch", scratch, code=1)
    assert "not accepted: trial 002-r1: population = 8, accepted up to 4" in done.stderr
    assert [row["accepted"] for row in table(out / "trials.csv")] == ["True", "False"]
    lab("report", out)
    assert "Trial 002-r1 is not accepted" in (out / "report" / "index.html").read_text("utf-8")


def test_a_setup_that_never_works_stops_after_three_failures(tmp_path: Path, scratch: Path) -> None:
    """A night of failures would tell no more."""
    text = SMALL.replace("{tier}", "127.0.0.1:1").replace("repetitions = 2", "repetitions = 4")
    done = lab("run", write(tmp_path, text), "--out", tmp_path / "out", "--scratch", scratch, code=1)
    assert "3 trials in a row failed, the last because load ended with 1" in done.stderr
    assert [event for _, event in journal(tmp_path / "out")].count("failed") == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "check = true",
            'workload = "pair"',
            "load ended with 2 during the trial; its last word: posthaste: invalid value",
        ),
        (
            "embedded:{dir}/store",
            "memry:",
            "tier ended with 2 before it was ready; its last word: posthaste: --store: ",
        ),
    ],
    ids=["load", "server"],
)
def test_a_part_that_refuses_what_it_is_given_stops_the_run_at_once(
    tmp_path: Path, scratch: Path, old: str, new: str, said: str
) -> None:
    """The next trial would give it the same. It says so in its own words, and again when the run is taken up."""
    path, out = write(tmp_path, SMALL.replace(old, new)), tmp_path / "out"
    for times in (1, 2):
        done = lab("run", path, "--out", out, "--scratch", scratch, code=1)
        assert f"a part refuses what it is given, which no repetition mends: {said}" in done.stderr
        assert [event for _, event in journal(out)].count("started") == times


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
    ids=["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"],
)
def test_an_interruption_leaves_nothing_running_and_the_run_can_go_on(
    tmp_path: Path, scratch: Path, number: signal.Signals
) -> None:
    """Even when the laboratory itself is killed: its programs end; its data goes when the half trial is run again."""
    text = SMALL.replace("repetitions = 2", "repetitions = 1")
    slow = text.replace('duration = "500ms"', 'duration = "20s"')
    path, out = write(tmp_path, slow), tmp_path / "out"
    environment = os.environ | {"POSTHASTE": str(program())}
    # Under nohup SIGHUP is ignored, and what the tests start would inherit that.
    command = ["env", "--default-signal=HUP", *lab_command("run", path, "--out", out, "--scratch", scratch)]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    first = json.loads(_when_there(out / "plan.json"))["trials"][0]["name"]
    wait_for(out / "trials" / first / "load" / "stderr.log")
    assert left_running(scratch)
    running.send_signal(number)
    said = running.communicate(timeout=120)[1]
    if number == signal.SIGKILL:
        deadline = time.monotonic() + 60
        while left_running(scratch) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(scratch.iterdir()), "a killed program removes nothing"
        _take_up_and_interrupt(command, environment, out / "trials" / first)
    else:
        assert running.returncode == 130
        assert said.splitlines()[-1] == "posthaste-lab: interrupted; the same command goes on from here"
        assert journal(out)[-1] == (first, "interrupted")
    assert not (out / "trials" / first / "trial.json").exists()


def _take_up_and_interrupt(command: list[str], environment: dict[str, str], trial: Path) -> None:
    """Go on with a run that was killed in a trial, until that trial has begun anew."""
    (trial / "load" / "stderr.log").unlink()
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(trial / "load" / "stderr.log")
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=120) == 130


def _when_there(path: Path) -> str:
    wait_for(path)
    return path.read_text("utf-8")


def test_a_tier_that_dies_ends_its_trial_at_once(tmp_path: Path, scratch: Path) -> None:
    """And the reason says who died and how."""
    text = SMALL.split("[[claims]]")[0].replace("repetitions = 2", "repetitions = 1").replace("[2, 8]", "[2]")
    path, out = write(tmp_path, text.replace('duration = "500ms"', 'duration = "30s"')), tmp_path / "out"
    environment = os.environ | {"POSTHASTE": str(program())}
    command = lab_command("run", path, "--out", out, "--scratch", scratch)
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(out / "trials" / "001-r1" / "load" / "stderr.log")
    for pid in _pids(f"embedded:{scratch}"):
        os.kill(pid, signal.SIGKILL)
    said = running.communicate(timeout=120)[1]
    assert running.returncode == 1
    assert "failed: trial 001-r1: tier was killed by signal 9 during the trial" in said


def test_a_server_that_ended_when_its_load_did_has_not_stopped_in_order(tmp_path: Path) -> None:
    """What makes it end may be that clients leave; nobody has told it to."""
    parts = Parts(load(write(tmp_path)), here(), tmp_path, 1)
    tier = Instance("tier", kinds()["queue"], here()["local"], "/", tmp_path / "tier", {}, 1)
    tier.process = Process("tier", tier.host, ["sh", "-c", "echo alas >&2; exit 3"], "/", tier.keep)
    tier.process.wait_done(10)
    parts.instances.append(tier)
    with pytest.raises(RunFailed, match="tier ended with 3 before it was told to stop; its last word: alas"):
        _stop_servers(parts)
    assert tier.process.stop() == 3


def _pids(words: str) -> list[int]:
    """Programs, not the guards that stand before them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments[0] == bytes(program().resolve()) and any(words.encode() in argument for argument in arguments):
            found.append(int(path.parent.name))
    return found


def test_over_a_postgresql_of_its_own_and_beside_memcached(tmp_path: Path, scratch: Path) -> None:
    """Stores of the distribution's packages are started where they are to be, set up and gone."""
    text = SMALL.replace(
        "[parts.tier]",
        '[parts.database]\nkind = "postgresql"\nsynchronous_commit = "off"\n\n[parts.other]\nkind = "memcached"\n'
        'memory-limit = 16\n\n[parts.schema]\nkind = "migrate"\nstore = "{database}"\n\n[parts.tier]\nworkers = 2',
    )
    text = text.replace('store = "embedded:{dir}/store"', 'store = "{database}"').replace("[2, 8]", "[2]")
    text = text.replace("repetitions = 2", "repetitions = 1").replace("where = { clients = 8 }", "")
    path, out = write(tmp_path, text + '\n[placement]\ndatabase = { cpus = "0" }\n'), tmp_path / "out"
    run_through(path, out, "--scratch", scratch)
    (row,) = table(out / "trials.csv")
    assert int(row["served"]) > 0
    assert int(row["violations"]) == 0
    held = json.loads((out / "trials" / "001-r1" / "trial.json").read_text("utf-8"))
    assert held["commands"]["database"].startswith("taskset -c 0 ")
    assert "synchronous_commit=off" in held["commands"]["database"]
    assert "memcached" in held["commands"]["other"]


def test_what_a_postgresql_did_meanwhile_is_read_from_its_log(tmp_path: Path) -> None:
    """A line is written at the end of it, that of a vacuum before the one that says how long it took."""
    log = tmp_path / "stderr.log"
    log.write_text(
        "1000.500 LOG:  checkpoint complete: wrote 3 buffers (0.0%); write=0.2 s, sync=0.1 s, total=0.500 s; ...\n"
        '1002.000 LOG:  automatic vacuum of table "posthaste.public.message": index scans: 0\n'
        "\tsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.25 s\n"
        '1003.000 LOG:  automatic aggressive vacuum to prevent wraparound of table "x.y.z": index scans: 1\n'
        "\tsystem usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 1.00 s\n"
        "1004.000 ERROR:  elapsed: 9.00 s\n"
    )
    assert events(log, 1000.0, "database") == [
        (0.0, 500.0, "database", "checkpoint"),
        (1.75, 250.0, "database", "automatic vacuum"),
        (2.0, 1000.0, "database", "automatic aggressive vacuum"),
    ]


def own_address() -> str:
    """An address of this machine that is no loopback; skips where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way, suppress(OSError):
        way.connect(("198.51.100.1", 9))  # nothing is sent
        address = str(way.getsockname()[0])
        if not address.startswith("127."):
            return address
    pytest.skip("this machine has no address but loopback")


def test_a_postgresql_takes_connections_from_the_machines_of_the_experiment(tmp_path: Path, scratch: Path) -> None:
    """By the address that hosts.toml gives; of itself it knows loopback only. And from nobody else."""
    text = """
        title = "A store"
        question = "Is it reached?"
        hypothesis = "It is."
        [run]
        duration = "300ms"
        repetitions = 1
        [parts.database]
        kind = "postgresql"
        [parts.schema]
        kind = "migrate"
        store = "{database}"
        [parts.load]
        kind = "bench store"
        store = "{database}"
        connections = 2
        batch = 16
    """
    hosts, out = tmp_path / "hosts.toml", tmp_path / "out"
    hosts.write_text(f'[local]\naddress = "{own_address()}"\n')
    run_through(write(tmp_path, text), out, "--scratch", scratch, "--hosts", hosts)
    (row,) = table(out / "trials.csv")
    assert float(row["throughput_per_s"]) > 0
    local = replace(this_machine(program()), address=own_address())
    assert trusted(local) == [f"host all all {own_address()}/32 trust"]


def test_an_address_that_leads_nowhere_is_named() -> None:
    """Before a server is started for nothing."""
    with pytest.raises(RunFailed, match=r"the address of local, mars\.\.invalid, leads nowhere"):
        trusted(replace(this_machine(program()), address="mars..invalid"))


def test_a_program_that_ignores_its_stop_is_ended_all_the_same(tmp_path: Path) -> None:
    """The guard is patient, then it is not."""
    host = this_machine(program())
    ignorant = ["sh", "-c", "trap '' TERM; echo up >&2; while :; do sleep 0.1; done"]
    stubborn = Process("stubborn", host, ignorant, "/", tmp_path, grace_s=0.5)
    stubborn.wait_ready("up", "", 10)
    assert stubborn.stop() == 128 + signal.SIGKILL
    quick = Process("quick", host, ["sh", "-c", "echo so long >&2; exit 3"], "/", tmp_path / "quick")
    assert quick.wait_done(10) == 3
    assert quick.epitaph("at once") == "quick ended with 3 at once; its last word: so long"
    with pytest.raises(RunFailed, match="quick ended with 3 before it was ready"):
        quick.wait_ready("never", "", 5)
    assert quick.stop() == 3


def test_levels_stand_in_tables_beside_a_figure_of_their_name(tmp_path: Path) -> None:
    """Two loads of 8 clients each are 16 clients, at the level 8; the figure is in trial.json."""
    trial = {"name": "001-r1", "place": 1, "cell": 1, "repetition": 1, "levels": {"clients": 8}, "status": "finished"}
    result = trial | {"objections": [], "took_s": 1.0, "figures": {"clients": 16, "served": 5}}
    Journal(tmp_path).write_tables([result | {"kinds": {"send": {"clients": 16}}}])
    for name in ("trials.csv", "kinds.csv"):
        with (tmp_path / name).open(newline="") as lines:
            (row,) = csv.DictReader(lines)
        assert row["clients"] == "8"


def test_a_trial_whose_loads_measured_at_different_times_fails(tmp_path: Path) -> None:
    """It says which they were, and what to do."""
    text = SMALL.replace("check = true", "").replace("levels = [2, 8]", "levels = [2]").split("[[claims]]")[0]
    late = '[parts.late]\nkind = "bench queue"\nconnect = "{tier}"\npreload = 50000\n\n[factors.clients]'
    path = write(tmp_path, text.replace("[factors.clients]", late).replace("repetitions = 2", "repetitions = 1"))
    said = lab("run", path, "--out", tmp_path / "out", code=1).stderr
    assert "trial 001-r1: load and late measured at different times" in said or "late and load measured at" in said
    assert "have them prepare the same (preload, dataset, clients)" in said


def test_loads_beside_each_other_draw_for_themselves_and_share_no_account(tmp_path: Path) -> None:
    """Under one seed they would ask the same at the same time; under one account they would take each other's work."""
    text = SMALL.replace("check = true", "instances = 2").replace("levels = [2, 8]", "levels = [3]")
    other = '[parts.other]\nkind = "bench queue"\nconnect = "{tier}"\nclients = 2\n\n[factors.clients]'
    text = text.replace("[factors.clients]", other).split("[[claims]]")[0].replace("repetitions = 2", "repetitions = 1")
    run_through(write(tmp_path, text), tmp_path / "out")
    trial = json.loads((tmp_path / "out" / "trials" / "001-r1" / "trial.json").read_text("utf-8"))
    given = {name: command.split() for name, command in trial["commands"].items() if name != "tier"}
    seeds = {name: int(words[words.index("--seed") + 1]) for name, words in given.items()}
    assert seeds == {"load-1": 8, "load-2": 1_000_008, "other": 2_000_008}
    first = {
        name: words[words.index("--first-client") + 1] for name, words in given.items() if "--first-client" in words
    }
    assert first == {"load-2": "4", "other": "7"}
    assert trial["figures"]["clients"] == 8
