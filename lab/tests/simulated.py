"""A run of a system that is known to the last figure: played by SimPy, and left behind as the runner would leave it.

It shares no formula with the model it checks: clients, a line, a place that handles one at a time, and a server that
takes all who wait.
"""

import json
import random
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import simpy

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


@dataclass(frozen=True)
class System:
    """What it takes, in seconds; `servers` batches may be under way at once."""

    batch: float = 0.001
    request: float = 0.00002
    path: float = 0.002
    handling: float = 0.0
    think: float = 0.0
    visits: float = 1.0
    scv: float = 0.0
    limit: int = 256
    servers: int = 1
    turn: float = 0.0  # from a batch's answers to taking the next


@dataclass
class Played:
    """One trial of a system, as events come about."""

    system: System
    clients: int
    random: random.Random
    env: simpy.Environment = field(default_factory=simpy.Environment)
    rows: list[dict[str, int | None]] = field(default_factory=list)
    responses: list[tuple[float, float]] = field(default_factory=list)

    def play(self, duration: float) -> None:
        """Let it run."""
        self.line = simpy.Store(self.env)
        self.handler = simpy.Resource(self.env)
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
            yield self.env.timeout(self._some(self.system.path))
            if self.system.handling:
                with self.handler.request() as turn:
                    yield turn
                    yield self.env.timeout(self._some(self.system.handling))
            stamps: dict[str, float] = {"enqueued": self.env.now}
            if self.random.random() < self.system.visits:
                stamps["done"] = -1.0
                answered = self.env.event()
                yield self.line.put((stamps, answered))
                yield answered
            now = round(self.env.now * 1e9)
            lined = "done" in stamps
            self.rows.append(
                {
                    "enqueued_ns": round(stamps["enqueued"] * 1e9) if lined else now,
                    # Nobody takes a request at the instant it comes: the clocks of the real program differ by more.
                    "dequeued_ns": round(stamps["dequeued"] * 1e9) + 1 if lined else now,
                    "answered_ns": now,
                    "replied_ns": now,
                }
            )
            self.responses.append((self.env.now, self.env.now - begun))

    def _server(self) -> Steps:
        system = self.system
        while True:
            first: Any = yield self.line.get()
            batch = [first]
            while self.line.items and len(batch) < system.limit:
                batch.append(self.line.items.pop(0))
            for stamps, _ in batch:
                stamps["dequeued"] = self.env.now
            spread = self.random.gammavariate(1 / system.scv, system.scv) if system.scv else 1.0
            yield self.env.timeout((system.batch + system.request * len(batch)) * spread)
            for _, answered in batch:
                answered.succeed()
            if system.turn:
                yield self.env.timeout(system.turn)


def write_run(directory: Path, system: System, clients: list[int], repetitions: int = 3, requests: int = 3000) -> Path:
    """A run's directory with trials of some `requests` each."""
    trials = [
        {
            "name": f"{cell:03}-r{repetition}",
            "place": 1,
            "cell": cell,
            "repetition": repetition,
            "levels": {"clients": n},
        }
        for cell, n in enumerate(clients, start=1)
        for repetition in range(1, repetitions + 1)
    ]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "experiment.toml").write_text(EXPERIMENT.format(repetitions=repetitions, clients=clients), "utf-8")
    plan = {"seed": 1, "trials": trials, "quick": False, "experiment_sha256": "0" * 64}
    (directory / "plan.json").write_text(json.dumps(plan), "utf-8")
    for trial in trials:
        _write_trial(directory / "trials" / str(trial["name"]), trial, system, requests)
    return directory


def _write_trial(directory: Path, trial: dict[str, Any], system: System, requests: int) -> None:
    clients = trial["levels"]["clients"]
    least = system.think + system.path + system.batch + system.request
    duration = requests * least / clients * 1.5
    played = Played(system, clients, random.Random(trial["repetition"] * 1000 + clients))  # noqa: S311 - no secret
    played.play(duration)
    begin = 0.1 * duration
    seen = [response for at, response in played.responses if at >= begin]
    figures = {
        "throughput_per_s": len(seen) / (duration - begin),
        "response_mean_s": sum(seen) / len(seen),
        "population": clients,
        "clients": clients,
        "think_time_s": system.think,
        "open_loop": False,
    }
    record = directory / "tier" / "record"
    record.mkdir(parents=True)
    pl.DataFrame(played.rows, orient="row").write_parquet(record / "requests.parquet")
    run = {
        "start_unix_ms": 0,
        "requests_not_recorded": 0,
        "options": {"batch": system.limit, "workers": system.servers},
    }
    (record / "run.json").write_text(json.dumps(run), "utf-8")
    (record / "windows.csv").write_text("start_s,length_s\n", "utf-8")
    whole = trial | {"status": "finished", "reason": "", "objections": [], "figures": figures, "kinds": {}}
    (directory / "trial.json").write_text(json.dumps(whole | {"measured_unix_s": [begin, duration]}), "utf-8")
