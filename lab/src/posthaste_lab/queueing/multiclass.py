"""Closed networks of several classes of customers, each with its own demands, population and think time.

The exact recursion visits every mix of populations, (N1+1)(N2+1)… of them: fine for a few dozen customers in each of
two or three classes, hopeless beyond, where Schweitzer's approximation helps. Lazowska et al., chapter 7.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posthaste_lab.checks import FloatArray, count, each, figures, non_negative, sequence
from posthaste_lab.errors import BadArgument, NumericalError

MIXES_MAX = 2_000_000  # mixes times stations, 8 bytes each, in the table of the exact recursion
ROUNDS_MAX = 100_000
CLOSE_ENOUGH = 1e-12


@dataclass(frozen=True, eq=False)
class MultiClass:
    """A solved network of several classes. Rows are classes, columns stations.

    `throughput` (per second) and `response_time` (seconds; NaN for a class without customers) have a figure for
    each class; `residence_time`, `queue_length` and `utilization` one for each class at each station;
    `station_utilization` adds the classes up.
    """

    stations: tuple[str, ...]
    kinds: tuple[str, ...]
    demands: FloatArray
    populations: tuple[int, ...]
    think_times: FloatArray
    method: str
    throughput: FloatArray
    response_time: FloatArray
    residence_time: FloatArray
    queue_length: FloatArray
    utilization: FloatArray
    station_utilization: FloatArray
    bottleneck: str


def solve_multiclass(
    demands: Sequence[Sequence[float]] | FloatArray,
    populations: Sequence[int],
    think_times: Sequence[float] | float = 0.0,
    *,
    kinds: Sequence[Literal["queue", "delay"]] | None = None,
    names: Sequence[str] | None = None,
    method: Literal["exact", "schweitzer"] = "exact",
) -> MultiClass:
    """Solve a closed network of several classes; `demands` are seconds, classes in rows, stations in columns.

    Throughput is per second. A customer of class c spends D_ck (1 + Q_k(N - 1_c)) at station k: Lazowska et al.,
    chapter 7; Bolch et al., 2nd ed., section 8.2. `kinds` says of each station whether customers queue there
    (default) or not; `names` are the stations' names. Raises BadArgument for shapes that do not fit, negative figures,
    or too many mixes of populations for "exact".
    """
    work, people, think = _arguments(demands, populations, think_times)
    stations = work.shape[1]
    kinds = tuple(sequence("kinds", kinds)) if kinds is not None else ("queue",) * stations
    names = tuple(sequence("names", names)) if names is not None else tuple(f"station {k + 1}" for k in range(stations))
    for argument, given in (("kinds", kinds), ("names", names)):
        if len(given) != stations:
            raise BadArgument(argument, given, f"must have an entry for each of the {stations} stations")
    if set(kinds) - {"queue", "delay"}:
        raise BadArgument("kinds", kinds, 'must hold "queue" and "delay" only')
    queueing = np.array([kind == "queue" for kind in kinds], dtype=np.float64)
    if not isinstance(method, str) or method not in ("exact", "schweitzer"):
        raise BadArgument("method", method, 'must be "exact" or "schweitzer"')
    solver = _exact if method == "exact" else _schweitzer
    residence = solver(work, people, think, queueing)
    rounds = residence.sum(axis=1)
    throughput = np.array(people) / np.where(think + rounds > 0, think + rounds, 1.0)
    busy = throughput[:, None] * work
    return MultiClass(
        stations=names,
        kinds=kinds,
        demands=work,
        populations=people,
        think_times=think,
        method=method,
        throughput=throughput,
        response_time=np.where(np.array(people) > 0, rounds, np.nan),
        residence_time=residence,
        queue_length=throughput[:, None] * residence,
        utilization=busy,
        station_utilization=busy.sum(axis=0),
        bottleneck=names[int(np.argmax(busy.sum(axis=0) * np.where(queueing.any(), queueing, 1.0)))],
    )


def _arguments(
    demands: Sequence[Sequence[float]] | FloatArray,
    populations: Sequence[int],
    think_times: Sequence[float] | float,
) -> tuple[FloatArray, tuple[int, ...], FloatArray]:
    work = figures("demands", demands)
    if work.ndim != 2 or 0 in work.shape:
        raise BadArgument("demands", work.shape, "must be a table, classes in rows and stations in columns")
    people = tuple(count("populations", n, least=0) for n in sequence("populations", populations))
    if len(people) != len(work) or sum(people) == 0:
        raise BadArgument("populations", people, f"must have an entry for each of the {len(work)} classes, one above 0")
    think = figures("think_times", think_times)
    if think.ndim > 1 or (think.ndim == 1 and len(think) != len(work)):
        raise BadArgument("think_times", think_times, f"must have an entry for each of the {len(work)} classes")
    think = np.broadcast_to(think, len(work)).copy()
    for argument, given in (("demands", work), ("think_times", think)):
        each(non_negative, argument, given)
    for c, n in enumerate(people):
        if n > 0 and think[c] + work[c].sum() == 0:
            raise BadArgument("demands", work[c].tolist(), f"class {c} must have some demand, or a think time")
    return work, people, think


def _exact(work: FloatArray, people: tuple[int, ...], think: FloatArray, queueing: FloatArray) -> FloatArray:
    """Residence times by the arrival theorem, over every mix: a customer finds the queues of the mix without itself."""
    mixes = math.prod(n + 1 for n in people)
    if mixes * work.shape[1] > MIXES_MAX:
        raise BadArgument("populations", people, f'are {mixes} mixes, too many for "exact"; use method="schweitzer"')
    lengths = np.zeros((*(n + 1 for n in people), work.shape[1]))
    residence = np.zeros_like(work)
    for mix in np.ndindex(*(n + 1 for n in people)):
        total = np.zeros(work.shape[1])
        for c, n in enumerate(mix):
            if n > 0:
                found = lengths[(*mix[:c], n - 1, *mix[c + 1 :])]
                residence[c] = work[c] * (1 + queueing * found)
                total += residence[c] * (n / (think[c] + residence[c].sum()))
            else:
                residence[c] = 0.0
        lengths[mix] = total
    return residence


def _schweitzer(work: FloatArray, people: tuple[int, ...], think: FloatArray, queueing: FloatArray) -> FloatArray:
    """Residence times by Schweitzer's fixed point: a customer finds its own class's queue reduced by one part in N."""
    n = np.array(people, dtype=np.float64)[:, None]
    shorter = np.divide(n - 1, n, out=np.zeros_like(n), where=n > 0)
    lengths = np.where(work > 0, n / work.shape[1], 0.0)
    for _ in range(ROUNDS_MAX):
        others = lengths.sum(axis=0) - lengths
        residence = np.where(n > 0, work * (1 + queueing * (others + lengths * shorter)), 0.0)
        rounds = think + residence.sum(axis=1)
        new = residence * (n[:, 0] / np.where(rounds > 0, rounds, 1.0))[:, None]
        if np.max(np.abs(new - lengths)) <= CLOSE_ENOUGH * sum(people):
            return np.asarray(residence)
        lengths = new
    raise NumericalError(f"Schweitzer's iteration did not settle for populations {people}")
