"""One trial: starts the parts, waits for the loads, stops the parts, fetches their records, and sums them up.

`trial.json` is written last, and under another name first, so a trial is done if and only if the file exists. A trial's
directory without it belongs to a trial that runs or was interrupted.
"""

import csv
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from posthaste_lab.experiments import postgresql
from posthaste_lab.experiments.clocks import correction_s, start_unix_s
from posthaste_lab.experiments.cpu import Effort, Watch, cpu_seconds, effort_of
from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.figures import LoadFigures, Row, read_stages, read_summary, together
from posthaste_lab.experiments.hosts import Host, Local
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.kinds import POSTGRESQL
from posthaste_lab.experiments.links import BY_KERNEL, BY_PAUSE, Shaper, isolate
from posthaste_lab.experiments.parts import Instance, Parts, spoken
from posthaste_lab.experiments.plan import Trial, links_of, options_of
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.experiments.windows import ALL, WINDOWS
from posthaste_lab.files import reading

# How much longer than its duration a load may take on a busy machine: to connect, prepare data, and check answers.
SLACK_S = 300.0
POLL_S = 0.05
SETTLE_S = 1.0


def run_trial(experiment: Experiment, trial: Trial, hosts: dict[str, Host], directory: Path) -> dict[str, Any]:
    """Runs the trial and returns the content of `trial.json`. Raises RunFailed when a part fails.

    In every case, KeyboardInterrupt included, nothing of the trial still runs afterwards.
    """
    parts = Parts(experiment, hosts, directory, experiment.run.seed + trial.repetition)
    started = time.time()
    with ExitStack() as stack:
        _lay_links(stack, parts, trial)
        parts.bring_up(stack, options_of(experiment, trial))
        watch = Watch(parts.instances, experiment.run.window)
        _await_loads(parts, parts.start_loads(stack), experiment.run.duration, watch)
        commands = {instance.keep.name: spoken(instance) for instance in parts.instances}
        _stop_servers(parts)
        _fetch(parts)
    figures, kinds, measured = _sum_up(parts)
    effort = _effort(parts, watch, measured)
    return asdict(trial) | {
        "status": "finished",
        "reason": "",
        "started_unix_s": started,
        "took_s": time.time() - started,
        "measured_unix_s": measured,
        "commands": commands,
        "figures": figures | effort.figures,
        "kinds": kinds,
        "objections": [
            said for rule in experiment.accept if (said := rule.objection(figures | effort.figures)) is not None
        ],
        "links": _links_as_made(parts),
        "cpu_cores": effort.cores,
        "busy": effort.busy,
    }


def _lay_links(stack: ExitStack, parts: Parts, trial: Trial) -> None:
    """Gives the trial a network namespace of its own, if any of its parts has a link."""
    parts.links = links_of(parts.experiment, trial)
    local = parts.hosts["local"]
    if parts.links and isinstance(local, Local):
        namespace = isolate(stack, local, parts.directory / "network")
        parts.hosts = parts.hosts | {"local": namespace}
        parts.shaper = Shaper(namespace)


def _links_as_made(parts: Parts) -> list[dict[str, Any]]:
    """Returns the trial's links, and how their delay was made."""
    return [
        {
            "part": part,
            "bandwidth": link.bandwidth,
            "delay_s": link.delay,
            "delay_by": BY_PAUSE if part in parts.delays_by_loads else BY_KERNEL if link.delay else None,
        }
        for part, link in parts.links.items()
    ]


def _await_loads(parts: Parts, loads: list[Instance], duration_s: float, watch: Watch) -> None:
    watch.look()
    deadline = time.monotonic() + duration_s + SLACK_S
    running = list(loads)
    while running:
        parts.must_all_be_up()
        watch.look_if_due()
        for load in list(running):
            process = load.process
            status = process.ended() if process is not None else None
            if process is None or status is None:
                continue
            if status != 0:
                _blame_a_server(parts)
                raise process.failure("during the trial")
            running.remove(load)
        if time.monotonic() > deadline:
            raise RunFailed(f"{running[0].keep.name} did not end within {duration_s + SLACK_S:g} s")
        time.sleep(POLL_S)
    watch.look()


def _blame_a_server(parts: Parts) -> None:
    """Raises RunFailed for a server that has ended: the load may have failed because of it, sooner than was noticed."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        parts.must_all_be_up()
        time.sleep(POLL_S)


def _stop_servers(parts: Parts) -> None:
    """Stops the servers in the opposite order, so that they complete their records. Raises RunFailed for a bad end."""
    for instance in reversed(parts.instances):
        process = instance.process
        if process is None or instance.kind.role != "server":
            continue
        if process.ended() is not None:
            raise process.failure("before it was told to stop")
        if process.stop() not in (0, 128 + 15, 128 + 2):
            raise process.failure("when it was told to stop")


def _fetch(parts: Parts) -> None:
    for instance in parts.instances:
        given = instance.kind.defaults
        if instance.kind.role == "load":
            instance.host.fetch(instance.summary, instance.keep / "summary.json")
        if "record" in given:
            instance.host.fetch(instance.record, instance.keep / "record")


def _sum_up(parts: Parts) -> tuple[Row, dict[str, Row], tuple[float, float] | None]:
    try:
        loads = together([_summary(load) for load in parts.instances if load.kind.summary])
    except ValueError as error:
        raise RunFailed(str(error)) from None
    tiers = [each.keep / "record" for each in parts.instances if each.kind.role == "server"]
    records = [record for record in tiers if (record / WINDOWS).exists()]
    stages = read_stages(records, None if loads.measured is None else Instants(loads.measured))
    row = loads.row | stages.get(ALL, {})
    used = [cpu_seconds(record, loads.measured) for record in records]
    told = [cpu_s for cpu_s in used if cpu_s is not None]
    if records and len(told) == len(used):
        row["tier_cpu_s"] = sum(told)
    kinds = {kind: figures | stages.get(kind, {}) for kind, figures in loads.kinds.items()}
    if loads.measured is not None:
        _write_events(parts, loads.measured)
    return row, kinds, loads.measured


def _effort(parts: Parts, watch: Watch, measured: tuple[float, float] | None) -> Effort:
    if measured is None:
        return Effort({}, {}, {})
    watch.write(measured[0] - _correction_of(parts, "local"))
    return effort_of(parts.instances, measured)


def _correction_of(parts: Parts, host: str) -> float:
    """Returns what to add to a machine's wall clock for the clock of the trial, by a record from there; 0 without one.

    CPU samples and the log of PostgreSQL tell instants of that clock, and no record of their own.
    """
    records = (instance.keep / "record" for instance in parts.instances if instance.host.name == host)
    return next((correction_s(record) for record in records if (record / "run.json").exists()), 0.0)


def _summary(load: Instance) -> LoadFigures:
    path = load.keep / "summary.json"
    try:
        return _on_the_common_clock(replace(read_summary(load.kind.summary or "", path), name=load.keep.name), load)
    except (OSError, ValueError, KeyError) as error:
        raise RunFailed(f"{load.keep.name} left no summary that can be read in {path}: {error!r}") from None


def _on_the_common_clock(figures: LoadFigures, load: Instance) -> LoadFigures:
    """Returns the figures of a load with its measured time on the clock of the trial, if its record relates the two."""
    record = load.keep / "record"
    if figures.measured is None or not (record / "run.json").exists():
        return figures
    begin, end = (instant + correction_s(record) for instant in figures.measured)
    return replace(figures, measured=(begin, end))


def _write_events(parts: Parts, measured: tuple[float, float]) -> None:
    """Writes all parts' events to one file, in seconds from the beginning of the measured time."""
    rows = []
    for instance in parts.instances:
        if instance.kind.name == POSTGRESQL:
            origin = measured[0] - _correction_of(parts, instance.host.name)
            rows += postgresql.events(instance.keep / "stderr.log", origin, instance.keep.name)
        path = instance.keep / "record" / "events.csv"
        if path.exists():
            since = start_unix_s(path.parent) - measured[0]
            with reading(path), path.open(newline="") as lines:
                rows += [
                    (
                        float(each["start_s"]) + since,
                        float(each["duration_ms"]),
                        f"{instance.keep.name} {each['source']}",
                        each["kind"],
                    )
                    for each in csv.DictReader(lines)
                ]
    with (parts.directory / "events.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["start_s", "duration_ms", "source", "kind"])
        table.writerows((f"{start:.6f}", f"{took:.3f}", source, kind) for start, took, source, kind in sorted(rows))
