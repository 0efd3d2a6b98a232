"""The system behind a fitted model: its figures, its fixed settings, and its solution for a number of clients.

There are three kinds, which differ in what a worker takes from the waiting line:

    batches    all waiting requests at once: the queue tier
    workers    one request, and nothing else until it is answered: the cache tier with --workers N
    turns      no line: a network thread takes what arrived since its last turn: the cache tier, pipelined

For the first two the time in the store is measured request by request or batch by batch. For turns it is fitted, since
no stamp shows when a turn begins.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from posthaste_lab.checks import FloatArray
from posthaste_lab.queueing.batching import BatchServer, batch_server
from posthaste_lab.queueing.pool import batch_pool

Kind = Literal["batches", "workers", "turns"]
UNKNOWN: dict[Kind, tuple[str, ...]] = {
    "batches": ("path_s", "handling_s", "turn_s"),
    "workers": ("path_s", "handling_s", "turn_s"),
    "turns": ("path_s", "batch_s", "request_in_batch_s", "wake_s"),
}
LAST = ("turn_s", "wake_s")  # fitted only to as many numbers of clients
COUNTS_FOR_LAST = 4
SOLUTIONS_KEPT = 10_000  # a few hundred bytes each; a model with all of its curves takes some hundreds


@dataclass(frozen=True)
class Setting:
    """Everything that is not fitted: think time, most requests in a batch, workers of each middleware, middlewares.

    A worker waits at most `gather_s` for clients that are about to come back, and requests wait `reserve_s` for a busy
    worker before another one takes them: see `queueing.taking`.
    """

    kind: Kind
    think_time_s: float
    batch_limit: int | None
    workers: int | None
    middlewares: int
    gather_s: float = 0.0
    reserve_s: float = 0.0

    def is_alone(self, population: int) -> bool:
        """Returns whether so many clients leave one at each middleware, with a way of its own (`lone_path_s`).

        The network thread of a tier with a store of its own does the batch of such a client itself, and wakes nobody.
        """
        return self.kind == "batches" and not self.gather_s and population == self.middlewares

    def fitted(self, populations: Collection[int]) -> int:
        """Returns how many figures are fitted to these numbers of clients, the way of a lone client among them."""
        return len(self.unknown(len(populations))) + any(map(self.is_alone, populations))

    def unknown(self, counts: int) -> tuple[str, ...]:
        """Returns the figures to fit, which no stamp shows; `counts` is how many numbers of clients were measured.

        A lone client counts: its way is met by a figure of its own, and bounds those of the others from below.
        """
        names = UNKNOWN[self.kind]
        if counts >= COUNTS_FOR_LAST and not self.gather_s:
            return names
        return tuple(name for name in names if name not in LAST)

    @property
    def is_simulated(self) -> bool:
        """Whether the solution comes from a simulation and has noise: see `queueing.batch_pool`."""
        return self.kind == "batches" and ((self.workers or 1) > 1 or self.gather_s > 0)


class Figures(BaseModel):
    """The figures of the stations, in seconds: store, way, handling and waking up.

    A batch of n takes `batch_s + n request_in_batch_s`, `contention_s` more for each other batch under way, and
    `wake_s` more if the store was idle; `bends` correct that by n. `batch_scv` is the squared coefficient of variation
    of batch times, `batch_shape` their distribution where it was measured (otherwise a gamma distribution). `visits` is
    the share of requests that reach the store, `visits_by_clients` the same by the number of clients of a middleware,
    interpolated over its logarithm. `path_s` is the way, where nobody waits; `lone_path_s` that of a client that is
    alone, with its handling (0: not measured). To handle k requests takes `turn_s + k handling_s`. See
    `queueing.batch_pool` and `queueing.batch_server`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    batch_s: float
    request_in_batch_s: float
    contention_s: float
    batch_scv: float
    visits: float
    path_s: float
    handling_s: float
    turn_s: float = 0.0
    lone_path_s: float = 0.0
    wake_s: float = 0.0
    visits_by_clients: tuple[tuple[float, float], ...] = ()
    bends: tuple[tuple[float, float], ...] = ()
    batch_shape: tuple[tuple[float, float], ...] = ()

    def solved(self, population: int, setting: Setting) -> BatchServer:
        """Solves the system for `population` clients, spread evenly over its middlewares."""
        if setting.middlewares == 1:
            return _solved_one(self, population, setting)
        fewer = max(1, population // setting.middlewares)
        share = max(0.0, population / setting.middlewares - fewer)
        first = _solved_one(self, fewer, setting)
        second = first if share == 0 else _solved_one(self, fewer + 1, setting)
        # Each middleware serves its own clients, and nothing without any: throughputs add up, shares of time are means
        # over all of them, and the response time follows from the throughput.
        serving = min(setting.middlewares, population)
        serving_share = serving / setting.middlewares
        throughput = serving * ((1 - share) * first.throughput + share * second.throughput)
        return BatchServer(
            population=population,
            think_time=setting.think_time_s,
            throughput=throughput,
            response_time=population / throughput - setting.think_time_s,
            mean_batch=(1 - share) * first.mean_batch + share * second.mean_batch,
            utilization=serving_share * ((1 - share) * first.utilization + share * second.utilization),
            handling_utilization=serving_share
            * ((1 - share) * first.handling_utilization + share * second.handling_utilization),
        )

    def visits_of(self, population: float) -> float:
        """Returns the share of requests that reach the store with so many clients of a middleware."""
        if not self.visits_by_clients:
            return self.visits
        counts, shares = zip(*self.visits_by_clients, strict=True)
        return float(np.interp(np.log(population), np.log(counts), shares))

    def batch_alone_s(self) -> float:
        """Returns the mean time of a batch of one request, while no other is under way."""
        bend = _bend_at(self, [1.0])[0] if self.bends else 0.0
        return self.batch_s + self.request_in_batch_s + float(bend)

    def solved_alone(self, setting: Setting) -> BatchServer:
        """Solves the system for one client, which never waits."""
        store = self.visits_of(1) * self.batch_alone_s()
        response = store + self.lone_path_s
        cycle = response + setting.think_time_s
        return BatchServer(
            population=1,
            think_time=setting.think_time_s,
            throughput=1 / cycle,
            response_time=response,
            mean_batch=1.0,
            utilization=store / cycle,
            handling_utilization=min(self.lone_path_s, self.turn_s + self.handling_s) / cycle,
        )


@lru_cache(maxsize=SOLUTIONS_KEPT)
def _solved_one(figures: Figures, population: int, setting: Setting) -> BatchServer:
    """Solves the system of one middleware. Bottleneck, curves and validation ask for many solutions again."""
    if population == 1 and figures.lone_path_s > 0:
        return figures.solved_alone(setting)
    visits = figures.visits_of(population)
    if setting.kind == "batches" and setting.workers == 1 and setting.batch_limit == 1:
        # The pool would take service times for exponential, and here their distribution was measured.
        return batch_server(
            population,
            figures.batch_s,
            figures.request_in_batch_s,
            think_time=setting.think_time_s,
            path_time=figures.path_s,
            handling_time=figures.handling_s,
            turn_time=figures.turn_s,
            visits=visits,
            batch_limit=1,
            scv=figures.batch_scv,
            wake_time=figures.wake_s,
            bends=figures.bends,
            shape=figures.batch_shape,
        )
    return batch_pool(
        population,
        setting.workers or 1,
        figures.batch_s,
        figures.request_in_batch_s,
        contention=figures.contention_s,
        think_time=setting.think_time_s,
        path_time=figures.path_s,
        handling_time=figures.handling_s,
        turn_time=figures.turn_s,
        visits=visits,
        batch_limit=setting.batch_limit,
        scv=figures.batch_scv,
        wake_time=figures.wake_s,
        bends=figures.bends,
        shape=figures.batch_shape,
        gather_time=setting.gather_s,
        reserve_after=setting.reserve_s,
    )


# Names of the figures that are single numbers.
PLAIN = tuple(name for name in Figures.model_fields if name not in ("bends", "batch_shape", "visits_by_clients"))


def between(first: Figures, second: Figures, share: float) -> Figures:
    """Returns the figures interpolated at `share` of the way from the first to the second."""
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in PLAIN}
    found = {name: math.fsum((low * (1 - share), high * share)) for name, (low, high) in pairs.items()}
    sizes = sorted({size for figures in (first, second) for size, _ in figures.bends})
    bends = (1 - share) * _bend_at(first, sizes) + share * _bend_at(second, sizes)
    if not (first.lone_path_s and second.lone_path_s):
        found["lone_path_s"] = 0.0
    counts = sorted({clients for figures in (first, second) for clients, _ in figures.visits_by_clients})
    visits = ((n, (1 - share) * first.visits_of(n) + share * second.visits_of(n)) for n in counts)
    return Figures(
        **found,
        bends=tuple(zip(sizes, bends.tolist(), strict=True)),
        visits_by_clients=tuple(visits),
        batch_shape=_mixed(first.batch_shape, second.batch_shape, share),
    )


def _mixed(
    first: tuple[tuple[float, float], ...], second: tuple[tuple[float, float], ...], share: float
) -> tuple[tuple[float, float], ...]:
    """Returns the mixture of both distributions; empty where one was not measured."""
    if not first or not second:
        return ()
    parts = ((first, 1 - share), (second, share))
    return tuple((point, weight * each) for shape, weight in parts for point, each in shape if weight > 0)


def _bend_at(figures: Figures, sizes: list[float]) -> FloatArray:
    if not figures.bends:
        return np.zeros(len(sizes))
    return np.interp(sizes, [size for size, _ in figures.bends], [seconds for _, seconds in figures.bends])
