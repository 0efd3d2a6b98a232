"""Several servers with one waiting line, each of which takes a batch at a time and slows the others down.

With batches of one request this is the textbook's pool of workers, solved exactly (for exponential times) as a station
whose speed depends on the number of busy servers.

With larger batches there is no textbook model, and obvious approximations are far off: clients that were answered
together come back together, the first of them takes a free server for itself alone, and the rest make up one large
batch. So batch sizes vary and stay so, and their mean says little; Seidmann's split (one server m times as fast, and a
delay), which is right for batches of one, predicts a fifth too much. The system is small enough to be simulated
instead: some twenty thousand requests, always with the same random numbers, so that the same arguments have the same
answer. Two rules keep the noise small:

- Each kind of random decision has a stream of its own, so systems that differ by a client or a figure draw alike.
- Times of batches are drawn from shuffled decks that hold the whole distribution: otherwise a few long batches more or
  less would dominate the answer.

The answer is right to about one percent where batch times hardly vary (to two where servers slow each other down), and
to some five where their scv is 10: that is the chance in so many requests.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import log

import numpy as np

from posthaste_lab.checks import FloatArray, bounded, count, fraction, non_negative
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.batching import (
    CLIENTS_MAX,
    BatchServer,
    Shape,
    batch_distribution,
    batch_server,
    batch_times,
)
from posthaste_lab.queueing.closed import solve
from posthaste_lab.queueing.station import Station
from posthaste_lab.queueing.taking import Taking
from posthaste_lab.queueing.turns import handled

WARM_UP, REQUESTS = 4_000, 24_000  # requests simulated: before figures are taken, and in all
STRETCHES = 4  # exponential stretches of a client's way, where its regularity matters
DECK = 64  # batch times in a deck, which together represent the distribution
# Events: a client comes back; its request reaches the line; a batch is answered; a free server looks again.
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
    turn_time: float
    visits: float
    limit: int
    distribution: tuple[FloatArray, FloatArray]
    wake_time: float
    gather_time: float
    reserve_after: float
    times: list[float]  # of a batch, by its size

    def answer(self, throughput: float, mean_batch: float, utilization: float, handling: float) -> BatchServer:
        """Returns the result with these figures, of which `handling` is how busy that is, and what follows."""
        return BatchServer(
            population=self.population,
            think_time=self.think_time,
            throughput=throughput,
            response_time=self.population / throughput - self.think_time,
            mean_batch=mean_batch,
            utilization=utilization,
            handling_utilization=handling,
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
    turn_time: float = 0.0,
    visits: float = 1.0,
    batch_limit: int | None = None,
    scv: float = 0.0,
    wake_time: float = 0.0,
    bends: Sequence[tuple[float, float]] = (),
    shape: Shape = (),
    gather_time: float = 0.0,
    reserve_after: float = 0.0,
) -> BatchServer:
    """Solves a closed system with `servers` servers, each of which takes all waiting requests when it is free.

    A batch of n takes `batch_time + n request_time`, `contention` more for each other batch under way when it begins,
    and `wake_time` more if all servers were idle. Everything else is as in `batch_server`, which solves the case of one
    server with larger batches and without `gather_time`. `utilization` is that of one server. A free server takes
    waiting requests at once, unless one of two rules delays it (see `queueing.taking`): it waits up to `gather_time`
    for clients about to come back, and while other servers work, until the first request has waited for `reserve_after`
    times their number. Which clients come back in time depends on how regular their way is: with a `gather_time` it has
    four exponential stretches (an scv of 1/4).

    With `batch_limit` = 1 servers, also a single one, always take at once, service times are exponential, `scv` and
    `shape` are ignored, and a request alone in the store counts as one that woke it. With a `turn_time` the throughput
    is then too high where servers and handling are busy all the time, by up to ten percent. With larger batches the
    system is simulated, and the answer is right to about one percent, two where servers slow each other down, or some
    five where batch times vary much (an scv of 10).

    Raises BadArgument for impossible figures.
    """
    one_at_a_time = batch_limit is not None and count("batch_limit", batch_limit) == 1
    servers = count("servers", servers)
    if servers == 1 and non_negative("gather_time", gather_time) == 0 and not one_at_a_time:
        return batch_server(
            population,
            batch_time,
            request_time,
            think_time=think_time,
            path_time=path_time,
            handling_time=handling_time,
            turn_time=turn_time,
            visits=visits,
            batch_limit=batch_limit,
            scv=scv,
            wake_time=wake_time,
            bends=bends,
            shape=shape,
        )
    n = bounded("population", population, CLIENTS_MAX, "with this many, batches are full and only their size matters")
    limit = n if batch_limit is None else count("batch_limit", batch_limit)
    times = batch_times(np.arange(1, min(limit, n) + 1), batch_time, request_time, bends)
    pool = _Pool(
        population=n,
        servers=servers,
        contention=non_negative("contention", contention),
        think_time=non_negative("think_time", think_time),
        path_time=non_negative("path_time", path_time),
        handling_time=non_negative("handling_time", handling_time),
        turn_time=non_negative("turn_time", turn_time),
        visits=1.0 if visits == 1 else fraction("visits", visits),
        limit=limit,
        distribution=batch_distribution(scv, shape),
        wake_time=non_negative("wake_time", wake_time),
        gather_time=non_negative("gather_time", gather_time),
        reserve_after=non_negative("reserve_after", reserve_after),
        times=[0.0, *times.tolist()],
    )
    if think_time + path_time + handling_time + turn_time == 0:
        raise BadArgument("path_time", path_time, "must be above 0, or think_time or handling_time must")
    return _solved(pool) if pool.limit == 1 else _Simulation(pool).run()


def _solved(pool: _Pool) -> BatchServer:
    """Solves batches of one: the textbook's station with several servers, which slow down as more of them are busy.

    All else is one station more, as fast as clients come back with so many of them there (Norton's theorem).
    """
    alone = pool.times[1]
    speeds = [j * alone / (alone + pool.contention * (j - 1)) for j in range(1, pool.servers + 1)]
    if pool.wake_time > 0:
        # A client that is alone found nobody, even before one server: the speed of two is that of a server awake.
        speeds = [alone / (alone + pool.wake_time), *(speeds[1:] or speeds)]
    outside = handled(pool.population, pool.think_time + pool.path_time, pool.handling_time, pool.turn_time)
    back = outside.throughput[1:]
    stations = [
        Station("workers", pool.visits * alone, "load_dependent", rates=tuple(speeds)),
        Station("outside", 1 / float(back[0]), "load_dependent", rates=tuple((back / back[0]).tolist())),
    ]
    solved = solve(stations, pool.population)
    present = solved.distribution("workers")
    busy = float(np.minimum(np.arange(len(present)), pool.servers) @ present)
    handling = float(outside.utilization @ solved.distribution("outside"))
    return pool.answer(float(solved.throughput[-1]), 1.0, busy / pool.servers, handling)


class _Simulation:
    """One simulation of a pool, event by event: clients come back, are handled, wait, and are answered by batches."""

    def __init__(self, pool: _Pool) -> None:
        streams = random.Random(0)  # noqa: S311 - no secret
        chance, in_hand, visits, drawn = (random.Random(streams.random()) for _ in range(4))  # noqa: S311
        self.pool = pool
        self.away = _away(chance, pool.think_time, pool.path_time, STRETCHES if pool.gather_time else 1)
        self.visits = visits.random
        self.varied = _Deck(drawn, *pool.distribution)
        self.handling = _Handling(in_hand, pool.turn_time, pool.handling_time)
        self.taking = Taking(pool.limit, pool.gather_time, pool.reserve_after)
        self.events = sorted((self.away(), COMES, 1, 0.0) for _ in range(pool.population))
        self.now = self.looks_at = 0.0
        self.waiting = self.busy = 0
        self._count_from_here()

    def _count_from_here(self) -> None:
        """Begins to take figures: all before was warm-up."""
        self.since, self.worked, self.handling.worked = self.now, 0.0, 0.0
        self.answered = self.batches = self.in_batches = 0

    def run(self) -> BatchServer:
        """Runs the simulation and returns its figures."""
        self._until_answered(WARM_UP)
        self._count_from_here()
        self._until_answered(REQUESTS - WARM_UP)
        lasted = self.now - self.since
        return self.pool.answer(
            self.answered / lasted,
            self.in_batches / max(1, self.batches),
            min(1.0, self.worked / lasted / self.pool.servers),
            min(1.0, self.handling.worked / lasted),
        )

    def _until_answered(self, requests: int) -> None:
        handling, events, handled_first = self.handling, self.events, self.handling.takes_time
        while self.answered < requests:
            self.now, kind, number, took = heappop(events)
            if kind == COMES and handled_first:
                handling.waiting += 1
            elif kind < ENDS:
                self._reach_line(number)
            elif kind == ENDS:
                self._end_batch(number, took)
            if kind == HANDLED:
                handling.is_busy = False
            if handling.waiting and not handling.is_busy:
                heappush(events, handling.begins(self.now))
            if self.waiting:
                self._begin_batches(no_wake=kind == ENDS)

    def _reach_line(self, number: int) -> None:
        """So many handled requests join the line; those that do not visit the servers are answered at once."""
        for _ in range(number):
            if self.pool.visits == 1 or self.visits() < self.pool.visits:
                self.taking.comes(self.now, self.waiting)
                self.waiting += 1
            else:
                self._answer(1)

    def _end_batch(self, number: int, took: float) -> None:
        self._answer(number)
        self.busy -= 1
        self.taking.batch_ends(self.now, took, number, self.waiting)

    def _answer(self, number: int) -> None:
        self.answered += number
        events, now, away = self.events, self.now, self.away
        for _ in range(number):
            heappush(events, (now + away(), COMES, 1, 0.0))

    def _begin_batches(self, *, no_wake: bool) -> None:
        """Free servers take what waits, each a batch, if it is time; `no_wake`: one of them has just ended another."""
        pool = self.pool
        while self.waiting and self.busy < pool.servers:
            at = self.taking.takes_at(self.now, self.waiting, self.busy)
            if at > self.now:
                if at != self.looks_at:
                    self.looks_at = at
                    heappush(self.events, (at, LOOKS, 0, 0.0))
                return
            self.taking.batch_begins(self.now)
            size = min(self.waiting, pool.limit)
            took = pool.times[size] + pool.contention * self.busy
            took += pool.wake_time if self.busy == 0 and not no_wake else 0.0
            took *= self.varied()
            self.waiting, self.busy = self.waiting - size, self.busy + 1
            self.worked, self.batches, self.in_batches = self.worked + took, self.batches + 1, self.in_batches + size
            heappush(self.events, (self.now + took, ENDS, size, took))


@dataclass
class _Handling:
    """The place where requests are handled: one at a time, or with a turn time all who wait together."""

    chance: random.Random
    turn_time: float
    handling_time: float
    waiting: int = 0
    is_busy: bool = False
    worked: float = 0.0

    @property
    def takes_time(self) -> bool:
        """Whether requests are handled at all."""
        return self.turn_time + self.handling_time > 0

    def begins(self, now: float) -> tuple[float, int, int, float]:
        """Begins to handle those who wait; returns the event that they are done."""
        number = self.waiting if self.turn_time else 1
        took = self.chance.expovariate(1 / (self.turn_time + number * self.handling_time))
        self.waiting, self.is_busy, self.worked = self.waiting - number, True, self.worked + took
        return now + took, HANDLED, number, 0.0


def _away(chance: random.Random, think_time: float, path_time: float, stretches: int) -> Callable[[], float]:
    """Returns what draws the times for which a client is away: thinking, one exponential, and on its way.

    The way has `stretches` equal exponential parts. Means are in seconds.
    """
    rates = [1 / think_time] if think_time else []
    rates += [stretches / path_time] * stretches if path_time else []
    drawn = chance.random
    if len(rates) == 1:
        (rate,) = rates
        return lambda: -log(1.0 - drawn()) / rate
    return lambda: sum([-log(1.0 - drawn()) / rate for rate in rates])


@dataclass
class _Deck:
    """Batch times as multiples of their mean, drawn from shuffled decks, each of which holds the whole distribution."""

    chance: random.Random
    points: FloatArray
    shares: FloatArray
    cards: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        """Draws the next multiple."""
        if not self.cards:
            below, begin = np.cumsum(self.shares)[:-1].tolist(), self.chance.random()
            self.cards = [float(self.points[bisect_right(below, (n + begin) / DECK)]) for n in range(DECK)]
            self.chance.shuffle(self.cards)
        return self.cards.pop()
