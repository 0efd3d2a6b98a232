"""A run of a system whose figures are all known: simulated by SimPy, with files as the runner leaves them.

It shares no formula with the model it checks: it has clients, a waiting line, a place that handles requests one at a
time or in turns, and servers that take all waiting requests.
"""

import json
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from math import log2
from pathlib import Path
from typing import Any

import polars as pl
import simpy
from hdrh.histogram import HdrHistogram

Steps = Generator[simpy.Event, object, None]
EXPERIMENT = """
title = "A simulated system"
question = "Is the model found again?"
hypothesis = "It is."

[run]
duration = "1s"
repetitions = {repetitions}

[parts.tier]
kind = "queue"
record-requests = true

[parts.load]
kind = "bench queue"
connect = "{{tier}}"

[factors.clients]
levels = {clients}
sets = "load.clients"
"""
SIZE = """
[factors.size]
levels = {levels}
sets = "load.message-bytes"
unit = "bytes"
"""
ENVIRONMENT = {
    "started": "2026-01-01T00:00:00+00:00",
    "programs": {"posthaste": "a simulation"},
    "laboratory": "of its tests",
    "python": "any",
    "libraries": {},
    "hosts": {"local": {"cores": "as many as needed"}},
}


@dataclass(frozen=True)
class System:
    """What it takes, in seconds; `servers` batches may be under way at once."""

    batch: float = 0.001
    request: float = 0.00002
    path: float = 0.002
    handling: float = 0.0
    together: float = 0.0  # for each turn of handling, which takes all who wait for it; 0: one at a time
    think: float = 0.0
    visits: float = 1.0
    more_visits: float = 0.0  # for each doubling of the clients
    lone: float | None = None  # the way of a client that is alone, if it has another one
    scv: float = 0.0
    limit: int = 256
    servers: int = 1
    turn: float = 0.0  # from a batch's answers to taking the next
    contention: float = 0.0  # for each other batch under way when one begins
    wake: float = 0.0  # for whoever finds nobody being served
    several: float = 0.0  # for a batch of more than one request
    stalled: float = 0.0  # the share of batches that take fifty times as long
    gather: float = 0.0  # the longest wait for those who were answered, as over PostgreSQL
    reserve: float = 0.0  # how long requests wait for a server that works before another one takes them
    tier: str = "queue"  # which tier left the record: queue, cache workers, cache pipelined

    @property
    def options(self) -> dict[str, int | str | None]:
        """As the record of such a tier has them."""
        if self.tier == "queue":
            store = "postgres://localhost/test" if self.gather else "memory:"
            return {"batch": self.limit, "workers": self.servers, "store": store}
        return {"workers": self.servers if self.tier == "cache workers" else None}


@dataclass
class SimulatedTrial:
    """One trial of a system, as events come about."""

    system: System
    clients: int
    random: random.Random
    env: simpy.Environment = field(default_factory=simpy.Environment)
    rows: list[dict[str, int | str | None]] = field(default_factory=list)
    responses: list[tuple[float, float]] = field(default_factory=list)
    services: list[float] = field(default_factory=list)
    under_way: int = 0
    arrivals: list[float] = field(default_factory=list)
    since: float = 0.0  # when the first of those that wait came, or the last batch was taken
    turn: tuple[float, float, int] = (0.0, 0.0, 0)  # the last one's end, until when it was waited then, its requests
    share: float = 1.0  # of those answered, who came back while they were waited for

    def run(self, duration: float) -> None:
        """Let it run."""
        self.line = simpy.Store(self.env)
        self.handler = simpy.Resource(self.env)
        self.at_hand: list[simpy.Event] = []
        self.came_to_hand = self.env.event()
        if self.system.together:
            self.env.process(self._handle_in_turns())
        self.arrival, self.ended = self.env.event(), self.env.event()
        for _ in range(self.clients):
            self.env.process(self._client())
        for _ in range(self.system.servers):
            self.env.process(self._server())
        self.env.run(duration)

    def _some(self, mean: float) -> float:
        return self.random.expovariate(1 / mean) if mean else 0.0

    def _client(self) -> Steps:
        while True:
            yield self.env.timeout(self._some(self.system.think))
            begun = self.env.now
            stretches = 4 if self.system.gather else 1
            path, visits = self._way()
            yield self.env.timeout(sum(self._some(path / stretches) for _ in range(stretches)))
            if self.system.together:
                handled = self.env.event()
                self.at_hand.append(handled)
                self.came_to_hand.succeed()
                self.came_to_hand = self.env.event()
                yield handled
            elif self.system.handling:
                with self.handler.request() as turn:
                    yield turn
                    yield self.env.timeout(self._some(self.system.handling))
            stamps: dict[str, float] = {"enqueued": self.env.now}
            if self.random.random() < visits:
                stamps["done"] = -1.0
                answered = self.env.event()
                self.since = self.since if self.line.items else self.env.now
                yield self.line.put((stamps, answered))
                self.arrivals.append(self.env.now)
                self.arrival.succeed()
                self.arrival = self.env.event()
                yield answered
            now = round(self.env.now * 1e9)
            lined = "done" in stamps
            self.rows.append(
                {
                    "kind": "pop" if lined else "peek",
                    "ending": "ok",
                    "received_ns": round(stamps["enqueued"] * 1e9) if lined else now - 1000,
                    "enqueued_ns": round(stamps["enqueued"] * 1e9) if lined else now,
                    # Nobody takes a request at the instant it comes: the clocks of the real program differ by more.
                    "dequeued_ns": round(stamps["dequeued"] * 1e9) + 1 if lined else now,
                    "sent_ns": None,
                    "answered_ns": now,
                    "replied_ns": now,
                }
            )
            self.responses.append((self.env.now, self.env.now - begun))

    def _way(self) -> tuple[float, float]:
        """How long the way takes, and the share of requests that goes by the line."""
        system = self.system
        path = system.path if self.clients > 1 or system.lone is None else system.lone
        return path, system.visits + system.more_visits * log2(self.clients)

    def _handle_in_turns(self) -> Steps:
        while True:
            if not self.at_hand:
                yield self.came_to_hand
            taken, self.at_hand = self.at_hand, []
            yield self.env.timeout(self._some(self.system.together + len(taken) * self.system.handling))
            for handled in taken:
                handled.succeed()

    def _server(self) -> Steps:
        system = self.system
        while True:
            idle = not self.line.items
            batch: list[Any] = []
            if system.reserve:
                yield from self._stand_by()
            else:
                batch.append((yield self.line.get()))
            woken = idle and self.under_way == 0
            while self.line.items and len(batch) < system.limit:
                batch.append(self.line.items.pop(0))
            self.since = self.env.now
            for stamps, _ in batch:
                stamps["dequeued"] = self.env.now
            spread = self.random.gammavariate(1 / system.scv, system.scv) if system.scv else 1.0
            took = system.batch + system.request * len(batch) + system.contention * self.under_way
            took += (system.wake if woken else 0.0) + (system.several if len(batch) > 1 else 0.0)
            took *= spread * (50.0 if system.stalled and self.random.random() < system.stalled else 1.0)
            self.under_way += 1
            yield self.env.timeout(took)
            self.under_way -= 1
            self.ended.succeed()
            self.ended = self.env.event()
            self.services += [took] * len(batch)
            for _, answered in batch:
                answered.succeed()
            if system.turn:
                yield self.env.timeout(system.turn)
            if system.gather:
                yield from self._gather(len(batch), took)

    def _stand_by(self) -> Steps:
        """A server waits while others work, unless a whole batch waits, or one request for too long."""
        while True:
            waiting, due = len(self.line.items), self.since + self.system.reserve * self.under_way
            if waiting and (self.under_way == 0 or waiting >= self.system.limit or self.env.now >= due):
                return
            late = [self.env.timeout(due - self.env.now)] if waiting else []
            yield self.env.any_of([self.arrival, self.ended, *late])

    def _gather(self, answered: int, took: float) -> Steps:
        """The one server waits for those it has answered, as many of whom as came back before."""
        now, (ended, until, before) = self.env.now, self.turn
        if before:
            came = bisect_left(self.arrivals, until) - bisect_left(self.arrivals, ended)
            self.share += (min(came, before) / before - self.share) / 4
        until = now + min(took / 4, self.system.gather)
        self.turn = (now, until, answered)
        expected = len(self.line.items) + round(answered * self.share)
        while len(self.line.items) < expected <= 48 and self.env.now < until:
            yield self.arrival | self.env.timeout(until - self.env.now)


def write_run(
    directory: Path, system: System | dict[int, System], clients: list[int], repetitions: int = 3, requests: int = 3000
) -> Path:
    """A run's directory with trials of some `requests` each; several systems are those of a factor's levels, `size`."""
    systems = system if isinstance(system, dict) else {0: system}
    cells = [(size, n) for size in systems for n in clients]
    trials: list[dict[str, Any]] = [
        {
            "name": f"{cell:03}-r{repetition}",
            "place": 1,
            "cell": cell,
            "repetition": repetition,
            "levels": {"clients": n} | ({"size": size} if isinstance(system, dict) else {}),
        }
        for cell, (size, n) in enumerate(cells, start=1)
        for repetition in range(1, repetitions + 1)
    ]
    directory.mkdir(parents=True, exist_ok=True)
    text = EXPERIMENT.format(repetitions=repetitions, clients=clients)
    text += SIZE.format(levels=list(systems)) if isinstance(system, dict) else ""
    (directory / "experiment.toml").write_text(text, "utf-8")
    plan = {"seed": 1, "trials": trials, "quick": False, "experiment_sha256": "0" * 64, "environment": ENVIRONMENT}
    (directory / "plan.json").write_text(json.dumps(plan), "utf-8")
    for trial in trials:
        of = systems[trial["levels"].get("size", 0)]
        _write_trial(directory / "trials" / str(trial["name"]), trial, of, requests)
    return directory


def _write_trial(directory: Path, trial: dict[str, Any], system: System, requests: int) -> None:
    clients = trial["levels"]["clients"]
    least = system.think + system.path + system.batch + system.request
    duration = requests * least / clients * 1.5
    simulated = SimulatedTrial(system, clients, random.Random(trial["repetition"] * 1000 + clients))  # noqa: S311 - no secret
    simulated.run(duration)
    begin = 0.1 * duration
    seen = [response for at, response in simulated.responses if at >= begin]
    figures = {
        "throughput_per_s": len(seen) / (duration - begin),
        "response_mean_s": sum(seen) / len(seen),
        "population": clients,
        "clients": clients,
        "think_time_s": system.think,
        "open_loop": False,
        "service_when_any_mean_s": sum(simulated.services) / max(1, len(simulated.services)),
    }
    record = directory / "tier" / "record"
    record.mkdir(parents=True)
    if system.tier == "queue":
        pl.DataFrame(simulated.rows, orient="row", schema_overrides={"sent_ns": pl.Int64}).write_parquet(
            record / "requests.parquet"
        )
    run = {
        "start_unix_ms": 0,
        "end_s": duration,
        "requests_not_recorded": 0,
        "options": system.options,
    }
    (record / "run.json").write_text(json.dumps(run), "utf-8")
    _write_windows(record, simulated, duration, figures["response_mean_s"])
    (record / "system.csv").write_text(f"start_s,length_s,cpu_s\n0,{duration},0.1\n", "utf-8")
    for events in (record / "events.csv", directory / "events.csv"):
        events.write_text("start_s,duration_ms,source,kind\n", "utf-8")
    whole = trial | {"status": "finished", "reason": "", "objections": [], "figures": figures, "kinds": {}}
    (directory / "trial.json").write_text(
        json.dumps(whole | {"measured_unix_s": [begin, duration], "commands": {}}), "utf-8"
    )


def _write_windows(record: Path, simulated: SimulatedTrial, duration: float, response_s: float) -> None:
    """Writes the only window, and its histograms, in which all requests of a kind took as long."""
    counts = Counter(str(row["kind"]) for row in simulated.rows)
    rows = [
        f"0,{duration},{kind},{count},0,{response_s * 1e6}\n"
        for kind, count in [*counts.items(), ("all", counts.total())]
    ]
    (record / "windows.csv").write_text(
        "start_s,length_s,kind,requests,errors,response_mean_us\n" + "".join(rows), "utf-8"
    )
    lines = ["#[BaseTime: 0.000 (seconds since epoch)]\n"]
    for kind, count in counts.items():
        histogram = HdrHistogram(1, 3_600_000_000_000, 2)
        histogram.record_value(round(response_s * 1e9), count)
        lines.append(f"Tag={kind}/response,0.000,{duration:.3f},1.0,{histogram.encode().decode()}\n")
    (record / "latency.hlog").write_text("".join(lines), "utf-8")
