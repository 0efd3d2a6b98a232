"""Simulation of any model, event by event: a check that shares no formula with the model it checks.

Events, clocks and queues are SimPy's; this module only routes the requests. Requests queue in order at plain and
multi-server stations. Where speed depends on the load, or classes share a station, the station works on all requests
at once, and the one that is done is drawn in proportion to their rates: with exponential times that is the same
process, and needs no record of the work left.

The unit of replication is a run: figures are means over runs with Student's interval. What a run begins with is
dropped, because it starts empty: a fifth as many requests as are counted after it.
"""

import math
import random
from collections.abc import Generator
from dataclasses import dataclass

import polars as pl
import simpy

from posthaste_lab.checks import count, fraction
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.closed import ClosedNetwork
from posthaste_lab.queueing.machine_repair import MachineRepair
from posthaste_lab.queueing.multiclass import MultiClass
from posthaste_lab.queueing.open_network import OpenNetwork
from posthaste_lab.queueing.open_queue import OpenQueue
from posthaste_lab.queueing.plans import Place, Plan, Traffic, plan_of
from posthaste_lab.stats.intervals import mean_interval

Model = OpenQueue | OpenNetwork | ClosedNetwork | MultiClass | MachineRepair
Steps = Generator[simpy.Event, object, None]
WARM_UP = 0.2  # requests that are dropped before those that count, as a share of these


@dataclass(frozen=True)
class Compared:
    """One figure of a model beside its simulation: mean and interval over runs."""

    name: str
    model: float
    simulated: float
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """Whether the interval holds the model's figure, give or take a millionth of it and 1e-9 for rounding."""
        slack = 1e-9 + 1e-6 * abs(self.model)
        return self.low - slack <= self.model <= self.high + slack


@dataclass(frozen=True)
class Simulation:
    """The result of simulating a model, beside the model's own figures."""

    figures: tuple[Compared, ...]
    repetitions: int
    completions: int
    confidence: float

    def disagreements(self) -> tuple[Compared, ...]:
        """Figures whose interval does not hold the model's. At 99 %, one in a hundred does so by chance."""
        return tuple(figure for figure in self.figures if not figure.agrees)

    def table(self) -> pl.DataFrame:
        """The figures as a table."""
        return pl.DataFrame(
            [(f.name, f.model, f.simulated, f.low, f.high, f.agrees) for f in self.figures],
            schema=["figure", "model", "simulated", "low", "high", "agrees"],
            orient="row",
        )


def simulate(
    model: Model, *, completions: int = 20_000, repetitions: int = 5, seed: int = 0, confidence: float = 0.99
) -> Simulation:
    """Simulate a solved model and compare: `repetitions` runs in which `completions` requests each count.

    Figures are in the units of the model; their intervals are Student's over runs (Jain, section 25.5). The same seed
    gives the same answer. A closed network is simulated at its largest population. Raises BadArgument
    for fewer than 2 repetitions, since one run has no interval, and for a model in which nobody ever arrives.
    """
    count("completions", completions, least=100)
    count("repetitions", repetitions, least=2)
    plan = plan_of(model)
    if not any(traffic.population or traffic.rate > 0 for traffic in plan.classes):
        raise BadArgument("arrival_rate", 0.0, "must be above 0: nobody would ever come")
    runs = [_Run(plan, random.Random(f"{seed}/{r}")).figures(completions) for r in range(repetitions)]  # noqa: S311
    figures = []
    for name, expected in plan.expected.items():
        interval = mean_interval([run[name] for run in runs], fraction("confidence", confidence))
        figures.append(Compared(name, expected, interval.mean, interval.low, interval.high))
    return Simulation(tuple(figures), repetitions, completions, confidence)


class _Station:
    """A place in a simulation: a queue with servers, or a shared server that works on all requests at once."""

    def __init__(self, env: simpy.Environment, place: Place, rng: random.Random) -> None:
        self.env, self.place, self.rng = env, place, rng
        self.number = 0
        self.area, self.changed_at, self.since = 0.0, 0.0, 0.0
        self.line = simpy.Resource(env, capacity=place.servers) if not place.is_shared else None
        self.inside: list[tuple[float, simpy.Event]] = []
        self.stir = env.event()
        if place.is_shared:
            env.process(self._share())

    def step(self, change: int) -> None:
        self.area += self.number * (self.env.now - self.changed_at)
        self.changed_at = self.env.now
        self.number += change

    def restart(self) -> None:
        self.step(0)
        self.area, self.since = 0.0, self.env.now

    def mean_number(self) -> float:
        self.step(0)
        return self.area / (self.env.now - self.since)

    def visit(self, mean: float) -> Steps:
        self.step(1)
        if self.place.is_delay:
            yield self.env.timeout(self.rng.expovariate(1 / mean))
        elif self.line is not None:
            with self.line.request() as turn:
                yield turn
                yield self.env.timeout(self._service(mean))
        else:
            done = self.env.event()
            self.inside.append((1 / mean, done))
            self._wake()
            yield done
        self.step(-1)

    def _service(self, mean: float) -> float:
        scv = self.place.scv
        if scv == 1:
            return self.rng.expovariate(1 / mean)
        return self.rng.gammavariate(1 / scv, mean * scv) if scv > 0 else mean

    def _wake(self) -> None:
        stirred, self.stir = self.stir, self.env.event()
        stirred.succeed()

    def _share(self) -> Steps:
        while True:
            if not self.inside:
                yield self.stir
                continue
            rates = [rate for rate, _ in self.inside]
            total = self.place.speed(len(rates)) * sum(rates) / len(rates)
            arrival, done = self.stir, self.env.timeout(self.rng.expovariate(total))
            yield arrival | done
            if done.processed and not arrival.triggered:
                who = self.rng.choices(range(len(rates)), rates)[0]
                self.inside.pop(who)[1].succeed()


class _Run:
    """One simulation run of a plan, from an empty system."""

    def __init__(self, plan: Plan, rng: random.Random) -> None:
        self.plan, self.rng = plan, rng
        self.env = simpy.Environment()
        self.stations = [_Station(self.env, place, rng) for place in plan.places]
        self.in_system = 0
        self.restart()
        for which, traffic in enumerate(plan.classes):
            if traffic.rate > 0:
                self.env.process(self._arrive(which, traffic))
            for _ in range(traffic.population or 0):
                self.env.process(self._go_round(which, traffic))

    def restart(self) -> None:
        classes = len(self.plan.classes)
        self.since = self.env.now
        self.done, self.offered, self.refused = [0] * classes, [0] * classes, [0] * classes
        self.spent = [0.0] * classes
        for station in self.stations:
            station.restart()

    def _arrive(self, which: int, traffic: Traffic) -> Steps:
        while True:
            yield self.env.timeout(self.rng.expovariate(traffic.rate))
            self.offered[which] += 1
            if self.plan.capacity is not None and self.in_system >= self.plan.capacity:
                self.refused[which] += 1
            else:
                self.env.process(self._pass(which, traffic))

    def _go_round(self, which: int, traffic: Traffic) -> Steps:
        while True:
            if traffic.think > 0:
                yield self.env.timeout(self.rng.expovariate(1 / traffic.think))
            yield from self._pass(which, traffic)

    def _pass(self, which: int, traffic: Traffic) -> Steps:
        began = self.env.now
        self.in_system += 1
        if self.plan.only_one_place:
            chosen = [self.rng.randrange(len(self.stations))]
        else:
            chosen = list(range(len(self.stations)))
        for k in chosen:
            if traffic.demands[k] > 0:
                yield from self.stations[k].visit(traffic.demands[k])
        self.in_system -= 1
        self.done[which] += 1
        self.spent[which] += self.env.now - began

    def _until(self, completions: int) -> None:
        while sum(self.done) < completions:
            self.env.step()

    def figures(self, completions: int) -> dict[str, float]:
        self._until(math.ceil(WARM_UP * completions))
        self.restart()
        self._until(completions)
        elapsed = self.env.now - self.since
        result = {f"mean number {s.place.name}": s.mean_number() for s in self.stations}
        result["mean number"] = sum(s.mean_number() for s in self.stations)
        for which, traffic in enumerate(self.plan.classes):
            result[f"throughput{traffic.label}"] = self.done[which] / elapsed
            result[f"response time{traffic.label}"] = self.spent[which] / max(1, self.done[which])
            result[f"refused{traffic.label}"] = self.refused[which] / max(1, self.offered[which])
        return result
