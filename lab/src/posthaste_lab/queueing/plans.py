"""Plans for the simulation of a solved model: its places, its classes of requests, and the figures to expect."""

from dataclasses import dataclass

import numpy as np

from posthaste_lab.checks import FloatArray
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.closed import ClosedNetwork
from posthaste_lab.queueing.machine_repair import MachineRepair
from posthaste_lab.queueing.multiclass import MultiClass
from posthaste_lab.queueing.open_network import OpenNetwork
from posthaste_lab.queueing.open_queue import OpenQueue
from posthaste_lab.queueing.station import Station


@dataclass(frozen=True)
class Place:
    """A station to be simulated: a queue with servers, a delay, or one that all customers share at `speeds`."""

    name: str
    servers: int = 1
    scv: float = 1.0
    is_delay: bool = False
    speeds: tuple[float, ...] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether all customers are served at once."""
        return self.speeds is not None

    def speed(self, customers: int) -> float:
        """Returns the speed of a shared place with this number of customers."""
        speeds = self.speeds or (1.0,)
        return speeds[min(customers, len(speeds)) - 1]

    @classmethod
    def of(cls, station: Station, *, mixed: bool) -> "Place":
        """Returns the place of a model's station.

        Where classes mix, they share it: in a queue served in order, the model holds only if their times are alike.
        """
        if station.kind == "delay":
            return cls(station.name, is_delay=True)
        if station.rates is not None:
            return cls(station.name, speeds=station.rates)
        if mixed:
            return cls(station.name, speeds=tuple(float(j) for j in range(1, station.servers + 1)))
        return cls(station.name, servers=station.servers)


@dataclass(frozen=True)
class Traffic:
    """One class of requests: a closed population, or a rate of arrivals (per second); and its demand at each place."""

    demands: tuple[float, ...]
    population: int | None = None
    rate: float = 0.0
    think: float = 0.0
    label: str = ""


@dataclass(frozen=True)
class Plan:
    """Everything a simulation run needs, and the figures that the model expects of it."""

    places: tuple[Place, ...]
    classes: tuple[Traffic, ...]
    expected: dict[str, float]
    capacity: int | None = None
    only_one_place: bool = False


def plan_of(model: object) -> Plan:
    """The plan of any solved model."""
    match model:
        case OpenQueue():
            return _open_queue(model)
        case ClosedNetwork():
            return _closed(model)
        case OpenNetwork():
            return _open_network(model)
        case MultiClass():
            return _multiclass(model)
        case MachineRepair():
            return _repair(model)
    raise BadArgument("model", model, "must be a solved model of this package")


def _open_queue(model: OpenQueue) -> Plan:
    side_by_side = " x " in model.model
    expected = {
        "throughput": model.throughput,
        "response time": model.mean_response,
        "mean number": model.mean_jobs,
    }
    if model.capacity is not None:
        expected["refused"] = model.p_block
    if side_by_side:
        places = tuple(Place(f"queue {k + 1}") for k in range(model.servers))
    else:
        places = (Place("queue", servers=model.servers, scv=model.scv),)
    demands = (1 / model.service_rate,) * len(places)
    traffic = Traffic(demands, rate=model.arrival_rate)
    return Plan(places, (traffic,), expected, model.capacity, only_one_place=side_by_side)


def _closed(model: ClosedNetwork) -> Plan:
    expected = {"throughput": float(model.throughput[-1]), "response time": float(model.response_time[-1])}
    expected |= {f"mean number {name}": float(length[-1]) for name, length in model.queue_length.items()}
    demands = tuple(station.single_demand for station in model.stations)
    traffic = Traffic(demands, population=len(model.population), think=model.think_time)
    return Plan(tuple(Place.of(s, mixed=False) for s in model.stations), (traffic,), expected)


def _open_network(model: OpenNetwork) -> Plan:
    rates, responses = np.atleast_1d(model.arrival_rate), np.atleast_1d(model.response_time)
    mixed = len(rates) > 1
    demands = np.array([np.atleast_1d(station.demand) for station in model.stations]).T
    labels = _labels(len(rates))
    # A class without arrivals has no response time to compare.
    expected = {
        f"response time{label}": float(r) for label, r, rate in zip(labels, responses, rates, strict=True) if rate > 0
    }
    expected |= {f"mean number {name}": float(np.sum(length)) for name, length in model.queue_length.items()}
    classes = tuple(
        Traffic(tuple(d.tolist()), rate=float(rate), label=label)
        for d, rate, label in zip(demands, rates, labels, strict=True)
    )
    return Plan(tuple(Place.of(s, mixed=mixed) for s in model.stations), classes, expected)


def _multiclass(model: MultiClass) -> Plan:
    labels = _labels(len(model.populations))
    expected: dict[str, float] = {}
    for c, label in enumerate(labels):
        if model.populations[c] > 0:
            expected[f"throughput{label}"] = float(model.throughput[c])
            expected[f"response time{label}"] = float(model.response_time[c])
    for k, name in enumerate(model.stations):
        expected[f"mean number {name}"] = float(model.queue_length[:, k].sum())
    places = tuple(
        Place(name, is_delay=True) if kind == "delay" else Place(name, speeds=(1.0,))
        for name, kind in zip(model.stations, model.kinds, strict=True)
    )
    classes = tuple(
        Traffic(tuple(_row(model.demands, c)), population=n, think=float(model.think_times[c]), label=labels[c])
        for c, n in enumerate(model.populations)
    )
    return Plan(places, classes, expected)


def _repair(model: MachineRepair) -> Plan:
    expected = {
        "throughput": model.throughput,
        "response time": model.mean_response,
        "mean number": model.mean_jobs,
    }
    traffic = Traffic((1 / model.repair_rate,), population=model.machines, think=1 / model.failure_rate)
    return Plan((Place("repair", servers=model.repairers),), (traffic,), expected)


def _labels(classes: int) -> list[str]:
    return [""] if classes == 1 else [f" of class {c + 1}" for c in range(classes)]


def _row(table: FloatArray, c: int) -> list[float]:
    return [float(figure) for figure in table[c]]
