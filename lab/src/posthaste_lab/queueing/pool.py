"""Several servers before one line, each taking a batch at a time, who hinder each other.

With a limit of one request this is a pool of workers as every book has it, and solved as such: a station whose speed
depends on how many are busy, exactly (for exponential times).

With larger batches no book has it, and what one would try is far off: clients who were answered together come back
together, the first of them takes a free server for itself alone, and the others make up one large batch. So sizes
spread and stay spread, and a mean value of them says little; taking the servers apart into one that is m times as fast
and a delay (Seidmann's way, right for batches of one) promises a fifth too much. The system is small enough to be
played instead: some twenty thousand requests, always with the same random numbers, so that the same question has the
same answer, to about one percent.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from posthaste_lab.checks import bounded, count, fraction, non_negative
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.batching import CLIENTS_MAX, BatchServer, batch_server, batch_times
from posthaste_lab.queueing.closed import solve
from posthaste_lab.queueing.station import Station

WARM_UP, REQUESTS = 4_000, 24_000  # played in all
COMES, HANDLED, ENDS = 0, 1, 2  # a client comes back; its request is at the line; a batch is answered


@dataclass(frozen=True)
class _Pool:
    """The arguments of `batch_pool`, checked."""

    population: int
    servers: int
    contention: float
    think_time: float
    path_time: float
    handling_time: float
    visits: float
    limit: int
    scv: float
    wake_time: float
    times: list[float]  # of a batch, by its size

    def answer(self, throughput: float, mean_batch: float, utilization: float) -> BatchServer:
        """What follows from these three."""
        return BatchServer(
            population=self.population,
            think_time=self.think_time,
            throughput=throughput,
            response_time=self.population / throughput - self.think_time,
            mean_batch=mean_batch,
            utilization=utilization,
            handling_utilization=throughput * self.handling_time,
        )


def batch_pool(
    population: int,
    servers: int,
    batch_time: float,
    request_time: float,
    *,
    contention: float = 0.0,
    think_time: float = 0.0,
    path_time: float = 0.0,
    handling_time: float = 0.0,
    visits: float = 1.0,
    batch_limit: int | None = None,
    scv: float = 0.0,
    wake_time: float = 0.0,
    bends: Sequence[tuple[float, float]] = (),
) -> BatchServer:
    """A closed system before `servers` servers, each of which takes all who wait when it is free.

    A batch of n takes `batch_time + n request_time + contention` for each other batch under way when it begins, and
    `wake_time` more if all servers were idle. Everything else as `batch_server`, which this is with one server.
    `utilization` is that of one server. With `batch_limit` = 1, times of service are taken for exponential, `scv` for
    nothing, and whoever is alone for one who found nobody; with larger batches the system is played, and the answer is
    right to about one percent.

    Raises BadArgument for what cannot be.
    """
    if count("servers", servers) == 1:
        return batch_server(
            population,
            batch_time,
            request_time,
            think_time=think_time,
            path_time=path_time,
            handling_time=handling_time,
            visits=visits,
            batch_limit=batch_limit,
            scv=scv,
            wake_time=wake_time,
            bends=bends,
        )
    n = bounded("population", population, CLIENTS_MAX, "with so many, batches are full and only their size matters")
    limit = n if batch_limit is None else count("batch_limit", batch_limit)
    times = batch_times(np.arange(1, min(limit, n) + 1), batch_time, request_time, bends)
    pool = _Pool(
        population=n,
        servers=servers,
        contention=non_negative("contention", contention),
        think_time=non_negative("think_time", think_time),
        path_time=non_negative("path_time", path_time),
        handling_time=non_negative("handling_time", handling_time),
        visits=1.0 if visits == 1 else fraction("visits", visits),
        limit=limit,
        scv=non_negative("scv", scv),
        wake_time=non_negative("wake_time", wake_time),
        times=[0.0, *times.tolist()],
    )
    if think_time + path_time + handling_time == 0:
        raise BadArgument("path_time", path_time, "must be above 0, or think_time or handling_time must")
    return _solved(pool) if pool.limit == 1 else _played(pool)


def _solved(pool: _Pool) -> BatchServer:
    """The books' station with several servers, each the slower the more of them are busy."""
    alone = pool.times[1]
    speeds = [j * alone / (alone + pool.contention * (j - 1)) for j in range(1, pool.servers + 1)]
    speeds[0] = alone / (alone + pool.wake_time)
    stations = [Station("workers", pool.visits * alone, "load_dependent", rates=tuple(speeds))]
    if pool.handling_time > 0:
        stations.append(Station("handling", pool.handling_time))
    solved = solve(stations, pool.population, pool.think_time + pool.path_time)
    present = solved.distribution("workers")
    busy = float(np.minimum(np.arange(len(present)), pool.servers) @ present)
    return pool.answer(float(solved.throughput[-1]), 1.0, busy / pool.servers)


def _played(pool: _Pool) -> BatchServer:
    """Event by event: clients come back, are handled one at a time, wait, and are answered batch by batch."""
    chance = random.Random(pool.population)  # noqa: S311 - no secret
    away = _Away(chance, pool.think_time, pool.path_time)
    events = [(away(), COMES, 1) for _ in range(pool.population)]
    events.sort()
    waiting = busy = answered = counted = batches = 0
    free_at = began = worked = now = 0.0
    while answered < REQUESTS:
        now, kind, number = heappop(events)
        if kind == COMES and pool.handling_time > 0:
            free_at = max(now, free_at) + chance.expovariate(1 / pool.handling_time)
            heappush(events, (free_at, HANDLED, 1))
        elif kind != ENDS and (pool.visits == 1 or chance.random() < pool.visits):
            waiting += 1
        else:
            busy -= kind == ENDS
            answered += number
            for _ in range(number):
                heappush(events, (now + away(), COMES, 1))
        while waiting and busy < pool.servers:
            size = min(waiting, pool.limit)
            took = pool.times[size] + pool.contention * busy
            took += pool.wake_time if busy == 0 and kind != ENDS else 0.0
            took *= chance.gammavariate(1 / pool.scv, pool.scv) if pool.scv else 1.0
            waiting, busy, worked, batches = waiting - size, busy + 1, worked + took, batches + 1
            counted += size
            heappush(events, (now + took, ENDS, size))
        if not began and answered >= WARM_UP:
            began, worked, batches, counted, answered = now, 0.0, 0, 0, WARM_UP
    lasted = now - began
    return pool.answer(
        (answered - WARM_UP) / lasted, counted / max(1, batches), min(1.0, worked / lasted / pool.servers)
    )


@dataclass(frozen=True)
class _Away:
    """How long a client thinks and is on its way."""

    chance: random.Random
    think_time: float
    path_time: float

    def __call__(self) -> float:
        """Both exponential."""
        thought = self.chance.expovariate(1 / self.think_time) if self.think_time else 0.0
        return thought + (self.chance.expovariate(1 / self.path_time) if self.path_time else 0.0)
