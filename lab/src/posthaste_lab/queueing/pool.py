"""Several servers before one line, each taking a batch at a time, who hinder each other.

With a limit of one request this is a pool of workers as every book has it, and solved as such: a station whose speed
depends on how many are busy, exactly (for exponential times).

With larger batches no book has it, and what one would try is far off: clients who were answered together come back
together, the first of them takes a free server for itself alone, and the others make up one large batch. So sizes
spread and stay spread, and a mean value of them says little; taking the servers apart into one that is m times as fast
and a delay (Seidmann's way, right for batches of one) promises a fifth too much. The system is small enough to be
played instead: some twenty thousand requests, always with the same random numbers, so that the same question has the
same answer. Chance has a stream for each thing it decides, so systems that differ by a client or by a figure draw
alike; and times of batches come from shuffled decks that hold the whole law, or a few long batches more or less would
be most of the answer. It is right to about one percent where batches are even, and to some five where they vary as much
as an scv of 10 says.
"""

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from posthaste_lab.checks import FloatArray, bounded, count, fraction, non_negative
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.batching import CLIENTS_MAX, BatchServer, Shape, batch_law, batch_server, batch_times
from posthaste_lab.queueing.closed import solve
from posthaste_lab.queueing.station import Station
from posthaste_lab.queueing.taking import Taking

WARM_UP, REQUESTS = 4_000, 24_000  # played in all
STRETCHES = 4  # of a client's way, where it matters how regular that is
DECK = 64  # batches that have the law between them
# A client comes back; its request is at the line; a batch is answered; a free server looks again.
COMES, HANDLED, ENDS, LOOKS = 0, 1, 2, 3


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
    law: tuple[FloatArray, FloatArray]
    wake_time: float
    gather_time: float
    reserve_after: float
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
    shape: Shape = (),
    gather_time: float = 0.0,
    reserve_after: float = 0.0,
) -> BatchServer:
    """A closed system before `servers` servers, each of which takes all who wait when it is free.

    A batch of n takes `batch_time + n request_time + contention` for each other batch under way when it begins, and
    `wake_time` more if all servers were idle. Everything else as `batch_server`, which this is with one server.
    `utilization` is that of one server. Servers take what waits at once, unless there is a `gather_time`, for which
    one waits at most for those who are about to come back, or a `reserve_after`, before which (times the servers that
    work) nothing is taken while another one works: see `queueing.taking`. Who is in time for one that waits depends on
    how regular the way is: with a `gather_time` it has four exponential stretches (an scv of 1/4).

    With `batch_limit` = 1 servers take at once in any case, times of service are taken for exponential, `scv` and
    `shape` for nothing, and whoever is alone for one who found nobody. With larger batches the system is played, and
    the answer is right to about one percent, or some five where batches vary much (an scv of 10).

    Raises BadArgument for what cannot be.
    """
    if count("servers", servers) == 1 and non_negative("gather_time", gather_time) == 0:
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
            shape=shape,
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
        law=batch_law(scv, shape),
        wake_time=non_negative("wake_time", wake_time),
        gather_time=non_negative("gather_time", gather_time),
        reserve_after=non_negative("reserve_after", reserve_after),
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
    streams = random.Random(0)  # noqa: S311 - no secret
    chance, handled, visits, drawn = (random.Random(streams.random()) for _ in range(4))  # noqa: S311
    stretches = STRETCHES if pool.gather_time else 1
    away, varied = _Away(chance, pool.think_time, pool.path_time, stretches), _Deck(drawn, *pool.law)
    taking = Taking(pool.limit, pool.gather_time, pool.reserve_after)
    events = [(away(), COMES, 1, 0.0) for _ in range(pool.population)]
    events.sort()
    waiting = busy = answered = counted = batches = 0
    free_at = began = worked = now = looks_at = 0.0
    while answered < REQUESTS:
        now, kind, number, took = heappop(events)
        if kind == COMES and pool.handling_time > 0:
            free_at = max(now, free_at) + handled.expovariate(1 / pool.handling_time)
            heappush(events, (free_at, HANDLED, 1, 0.0))
        elif kind < ENDS and (pool.visits == 1 or visits.random() < pool.visits):
            taking.comes(now, waiting)
            waiting += 1
        elif kind != LOOKS:
            answered += number
            for _ in range(number):
                heappush(events, (now + away(), COMES, 1, 0.0))
        if kind == ENDS:
            busy -= 1
            taking.batch_ends(now, took, number, waiting)
        while waiting and busy < pool.servers:
            at = taking.takes_at(now, waiting, busy)
            if at > now:
                if at != looks_at:
                    looks_at = at
                    heappush(events, (at, LOOKS, 0, 0.0))
                break
            taking.batch_begins(now)
            size = min(waiting, pool.limit)
            took = pool.times[size] + pool.contention * busy
            took += pool.wake_time if busy == 0 and kind != ENDS else 0.0
            took *= varied()
            waiting, busy, worked, batches = waiting - size, busy + 1, worked + took, batches + 1
            counted += size
            heappush(events, (now + took, ENDS, size, took))
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
    stretches: int  # of the way, alike and exponential; so is the thinking

    def __call__(self) -> float:
        """Both together."""
        away = self.chance.expovariate(1 / self.think_time) if self.think_time else 0.0
        if self.path_time:
            for _ in range(self.stretches):
                away += self.chance.expovariate(self.stretches / self.path_time)
        return away


@dataclass
class _Deck:
    """By what times of batches differ from their mean: each deck has them as often as the law says, in any order."""

    chance: random.Random
    points: FloatArray
    shares: FloatArray
    cards: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        """The next card."""
        if not self.cards:
            below, begin = np.cumsum(self.shares)[:-1].tolist(), self.chance.random()
            self.cards = [float(self.points[bisect_right(below, (n + begin) / DECK)]) for n in range(DECK)]
            self.chance.shuffle(self.cards)
        return self.cards.pop()
