"""Service stations, of which the networks are made.

There are four kinds, which differ by their speed with j customers there, relative to one customer alone:

    queue             1               one server, first come first served
    delay             j               all customers are served at once, none waits
    multi             min(j, m)       m servers, one line
    load_dependent    rates[j-1]      anything: batches, contention, a table of measurements

With j customers a station completes services at the rate speed(j) / demand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from posthaste_lab.checks import FloatArray, count, non_negative, positive, sequence
from posthaste_lab.errors import BadArgument

Kind = Literal["queue", "delay", "multi", "load_dependent"]

POPULATION_MAX = 1_000_000  # customers of a closed network: some seconds of computation for each station


@dataclass(frozen=True)
class Station:
    """A service station, with its demand: seconds of service a request needs there over all its visits.

    `kind` is one of the module's four; `servers` is used only by "multi", `rates` only by "load_dependent": its speeds
    with 1, 2, … customers, of which the last holds for more. A mean demand of 0 is allowed (an unused station).
    Open networks of several classes take a sequence of demands, one for each class.
    Lazowska et al., Quantitative System Performance (1984), chapters 6 and 8.
    """

    name: str
    demand: float | tuple[float, ...]
    kind: Kind = "queue"
    servers: int = 1
    rates: tuple[float, ...] | None = None
    visits: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the kind and its figures fit together."""
        if not isinstance(self.name, str) or not self.name:
            raise BadArgument("name", self.name, "must be a text")
        if not isinstance(self.kind, str) or self.kind not in get_args(Kind):
            raise BadArgument("kind", self.kind, f"must be one of {', '.join(get_args(Kind))}")
        if isinstance(self.demand, np.ndarray) and self.demand.ndim == 0:
            object.__setattr__(self, "demand", float(self.demand))
        if isinstance(self.demand, Iterable) and not isinstance(self.demand, str | bytes):
            demands = sequence("demand", self.demand)
            object.__setattr__(self, "demand", tuple(non_negative("demand", d) for d in demands))
            if not self.demand:
                raise BadArgument("demand", self.demand, "must hold a figure for at least one class")
        else:
            object.__setattr__(self, "demand", non_negative("demand", self.demand))
        object.__setattr__(self, "servers", count("servers", self.servers))
        object.__setattr__(self, "visits", non_negative("visits", self.visits))
        if self.servers > 1 and self.kind != "multi":
            raise BadArgument(
                "servers", self.servers, f'only kind="multi" has servers, and {self.name!r} is {self.kind!r}'
            )
        if (self.rates is not None) != (self.kind == "load_dependent"):
            raise BadArgument("rates", self.rates, 'must be given with kind="load_dependent", and only there')
        if self.rates is not None:
            object.__setattr__(self, "rates", tuple(positive("rates", rate) for rate in sequence("rates", self.rates)))
            if not self.rates:
                raise BadArgument("rates", self.rates, "must hold at least the speed with one customer")

    @classmethod
    def from_visits(
        cls,
        name: str,
        visits: float,
        service_time: float,
        kind: Kind = "queue",
        servers: int = 1,
        rates: Iterable[float] | None = None,
    ) -> "Station":
        """A station from a request's visits and the seconds of service at each: demand = visits x service time.

        The service time must not contain waiting: a residence time under load makes every model wrong.
        """
        total = non_negative("visits", visits) * non_negative("service_time", service_time)
        speeds = None if rates is None else tuple(sequence("rates", rates))
        return cls(name, total, kind, servers, speeds, visits=visits)

    @property
    def single_demand(self) -> float:
        """The demand of a station with one class, in seconds. Raises BadArgument for one with several."""
        if isinstance(self.demand, tuple):
            raise BadArgument("demand", self.demand, f"must be one figure here, not one for each class ({self.name!r})")
        return self.demand

    def speeds(self, population: int) -> FloatArray:
        """Speed with 1 to `population` customers, relative to one customer alone at a plain queue."""
        j = np.arange(1, population + 1, dtype=np.float64)
        if self.kind == "delay":
            return j
        if self.rates is not None:
            held = np.minimum(j.astype(int), len(self.rates)) - 1
            return np.asarray(np.asarray(self.rates)[held])
        return np.minimum(j, self.servers)

    @property
    def top_speed(self) -> float:
        """The highest speed at any number of customers; infinite for a delay."""
        if self.kind == "delay":
            return float("inf")
        return max(self.rates) if self.rates is not None else float(self.servers)

    @property
    def last_speed(self) -> float:
        """The speed with very many customers, which contention may have lowered; infinite for a delay."""
        return self.rates[-1] if self.rates is not None else self.top_speed

    @property
    def is_fixed_rate(self) -> bool:
        """Whether the arrival theorem alone solves the station: a plain queue or a delay."""
        return self.kind in ("queue", "delay") or (self.kind == "multi" and self.servers == 1)


def checked(stations: Iterable[Station]) -> tuple[Station, ...]:
    """Returns the stations of a network. Raises BadArgument for none, or a name used twice."""
    result = tuple(sequence("stations", stations))
    for station in result:
        if not isinstance(station, Station):
            raise BadArgument("stations", station, "must hold Station objects")
    names = [station.name for station in result]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise BadArgument("stations", repeated, "must have different names")
    if not names:
        raise BadArgument("stations", [], "must hold at least one station")
    return result


def rates_from_table(table: Mapping[int, float], gaps: Literal["step", "linear"] = "linear") -> tuple[float, ...]:
    """Speeds of a load-dependent station from measurements with gaps: {customers: speed} to a speed for each number.

    Between two entries the speed is interpolated ("linear") or that of the lower one ("step"); the last one holds for
    more customers. The choice changes predictions, so report it with them. Raises BadArgument for a table that does
    not start at 1.
    """
    known = sorted(count("table", customers) for customers in table)
    if not known or known[0] != 1:
        raise BadArgument("table", dict(table), "must start with the speed of 1 customer")
    speeds = [positive("table", table[customers]) for customers in known]
    wanted = np.arange(1, known[-1] + 1)
    if gaps == "linear":
        return tuple(float(speed) for speed in np.interp(wanted, known, speeds))
    if gaps == "step":
        return tuple(speeds[i - 1] for i in np.searchsorted(known, wanted, side="right"))
    raise BadArgument("gaps", gaps, 'must be "step" or "linear"')
