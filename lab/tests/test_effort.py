"""Tests that trials tell how busy they kept their machines, and that the report says who used most."""

import csv
import time
from dataclasses import replace
from pathlib import Path

import pytest
from inventions import invented
from programs import here

from posthaste_lab.experiments.cpu import Watch, busy_share, effort_of
from posthaste_lab.experiments.kinds import kinds
from posthaste_lab.experiments.parts import Instance
from posthaste_lab.experiments.process import Process
from posthaste_lab.experiments.results import Run
from posthaste_lab.report.cells import Cell, cells_of
from posthaste_lab.report.sections.busy import busy_section
from posthaste_lab.report.sections.parts import TableItem

# Keeps a processor busy in a process of its own, as PostgreSQL does for each connection, until the first one is gone.
SPIN = ["sh", "-c", "sh -c 'while kill -0 $PPID 2> /dev/null; do :; done' & wait"]


def instance(directory: Path, part: str, kind: str, process: Process | None = None) -> Instance:
    """A part of a trial, on this machine, with files in a directory of its own."""
    keep = directory / part
    keep.mkdir(exist_ok=True)
    return Instance(part, kinds()[kind], here()["local"], str(directory), keep, {}, 0, process)


def record(keep: Path, rows: str) -> Path:
    """A record that began at 1 s."""
    (keep / "record").mkdir(parents=True)
    (keep / "record" / "run.json").write_text('{"start_unix_ms": 1000}', "utf-8")
    shares = ",".join(f"machine_{name}_share" for name in ("user", "system", "iowait", "steal", "idle"))
    (keep / "record" / "system.csv").write_text(f"start_s,length_s,cpu_s,{shares}\n{rows}", "utf-8")
    return keep / "record"


def test_a_machine_is_busy_when_it_is_not_idle(tmp_path: Path) -> None:
    """To wait for a disk is idle, to be kept from the processor by another machine is not; long windows count more."""
    rows = "0,1,0.5,0.5,0.1,0.1,0.1,0.2\n1,3,0.5,0.2,0.1,0,0,0.7\n4,1,0.1,,,,,\n"
    kept = record(tmp_path, rows)
    assert busy_share(kept, (1.0, 2.0)) == pytest.approx(0.7)
    assert busy_share(kept, (1.0, 6.0)) == pytest.approx((0.7 + 3 * 0.3) / 4)
    assert busy_share(kept, (1.5, 3.0)) == pytest.approx((0.5 * 0.7 + 0.3) / 1.5)
    assert busy_share(kept, (5.0, 6.0)) is None


def test_cores_are_of_all_instances_of_a_part(tmp_path: Path) -> None:
    """And of a part of which one instance does not tell, there are none."""
    measured = (1.0, 3.0)
    load, tier = instance(tmp_path, "load", "bench queue"), instance(tmp_path, "tier", "queue")
    record(load.keep, "0,2,1.0,0.5,0,0,0,0.5\n")
    record(tier.keep, "0,2,3.0,0.7,0,0,0,0.3\n")
    second = replace(tier, keep=tmp_path / "tier-2")
    record(second.keep, "0,2,1.0,0.6,0,0,0,0.4\n")
    store = instance(tmp_path, "m", "memcached")
    found = effort_of([store, tier, second, load], measured)
    assert found.cores == {"tier": 2.0, "load": 0.5}
    assert found.busy == {"local": pytest.approx(0.6)}
    assert found.figures == {"tier_cpu_cores": 2.0, "load_cpu_cores": 0.5, "machine_busy_share": pytest.approx(0.6)}
    (second.keep / "record" / "system.csv").unlink()
    assert effort_of([tier, second, load], measured).cores == {"load": 0.5}


def test_a_server_without_a_record_is_watched_with_its_children(tmp_path: Path) -> None:
    """From /proc, in the form of a record's table, in seconds since the measured time began."""
    process = Process("m", here()["local"], SPIN, str(tmp_path), tmp_path / "m")
    try:
        server = instance(tmp_path, "m", "memcached", process)
        recorded = instance(tmp_path, "tier", "queue", process)
        watch = Watch([server, recorded], 0.1)
        begin = time.time()
        watch.look()
        watch.look_if_due()  # which it is not
        time.sleep(1.0)
        watch.look_if_due()
        watch.look()
        end = time.time()
    finally:
        process.stop()
    watch.write(begin)
    with (tmp_path / "m" / "system.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 2
    assert 0 <= float(rows[0]["start_s"]) < float(rows[1]["start_s"]) < end - begin
    used = sum(float(row["cpu_s"]) for row in rows)
    assert 0.05 < used < 1.1 * (end - begin) + 0.05
    found = effort_of([server], (begin, end))
    assert found.figures == {"memcached_cpu_cores": pytest.approx(used / (end - begin))}
    assert not (tmp_path / "tier" / "system.csv").exists()


def test_every_trial_of_a_run_tells_it(run: Run) -> None:
    """In trials.csv, of tiers and loads; together they use no more than the machine has."""
    with (run.directory / "trials.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row, result in zip(rows, run.finished, strict=True):
        tier, load = float(row["tier_cpu_cores"]), float(row["load_cpu_cores"])
        assert result.cpu_cores == {"tier": tier, "load": load}
        assert tier == pytest.approx(float(row["tier_cpu_s"]) / float(row["measured_s"]), rel=1e-6)
        assert 0 < load < 16
        assert result.busy == {"local": float(row["machine_busy_share"])}
        assert 0 < result.busy["local"] <= 1.001
    page = (run.directory / "report" / "index.html").read_text("utf-8")
    assert "<h2>How busy the machine was</h2>" in page
    assert (run.directory / "report" / "tables" / "busy.csv").exists()


def test_the_report_names_the_busiest_part_of_each_combination(run: Run) -> None:
    """With cores, the machine's share, and what was not measured."""
    efforts = [({"tier": 0.5, "load": 0.25}, 0.5), ({"tier": 0.75, "load": 1.25}, 0.9994)]
    cells = [
        Cell(
            number,
            {"clients": clients, "size": 100},
            tuple(
                replace(invented(number, turn, throughput_per_s=clients), cpu_cores=cores, busy={"local": busy})
                for turn in (1, 2)
            ),
        )
        for number, (clients, (cores, busy)) in enumerate(zip((2, 8), efforts, strict=True), start=1)
    ]
    environment = run.plan["environment"] | {"hosts": {"local": {"cores": "2"}}}
    section = busy_section(replace(run, plan=run.plan | {"environment": environment}), cells)
    assert section is not None
    assert section.paragraphs == [
        "Where throughput is highest (clients = 8, size = 100), the machine was busy 99.9 % of the time; the parts "
        "used 2.00 of its 2 cores, load most of it, 1.25."
    ]
    (table,) = section.items
    assert isinstance(table, TableItem)
    assert table.columns == ["clients", "size", "tier (cores)", "load (cores)", "machine busy", "busiest part"]
    assert [row[-1] for row in table.rows] == ["tier", "load"]
    assert table.rows[0][2:5] == ["0.500", "0.250", "50.0 %"]
    assert table.raw[1]["load_cpu_cores"] == 1.25
    assert table.raw[1]["local_busy_share"] == 0.9994
    assert (
        busy_section(run, [replace(cell, results=(replace(cell.results[0], cpu_cores={}),)) for cell in cells]) is None
    )
    cell = cells_of(run)[0]
    without = [replace(result, cpu_cores={"load": 1.0}) for result in cell.results]
    silent = busy_section(run, [replace(cell, results=tuple(without))])
    assert silent is not None
    assert isinstance(silent.items[0], TableItem)
    assert silent.items[0].caption.endswith(" Of tier it was not measured.")
