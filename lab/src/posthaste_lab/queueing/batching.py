"""One server that takes all waiting requests as one batch: the model of a store that commits in batches.

A batch of n takes `batch_time + n request_time`, and requests that arrive meanwhile wait for the next batch. That is
no station of a product-form network, and modelling it as one (a load-dependent station with exponential times) is wrong
by a third where clients think: they then wait for the rest of one batch, not for a whole one. But between two ends of a
batch nothing happens except arrivals, so the number of requests waiting at the end of a batch is a Markov chain of N+1
states, and it can be solved without approximation.

The clients outside the server form a closed network of their own (they think, travel, and pass a place that handles one
request at a time). By Norton's theorem the server sees it as a single source whose rate depends on the number of
clients in it (Chandy, Herzog and Woo, IBM J. Res. Dev. 19, 1975). That rate is the one of the long run, and a batch
that has just ended has put its clients on their way all at once, so where they travel and are handled it is an
approximation. To simulate them instead would be right to 0.3 % for constant batch times, but it makes a fit 40 times as
slow, and where times vary it has more chance in it than this is off by. The chain at the ends of services is Kendall's
(1953), for bulk service Bailey's (1954).

An idle server is asleep, and the first request waits until it has woken up: the first service after an idle time is
longer than the others (Welch, Oper. Res. 12, 1964). That is why two clients may be served faster than one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.linalg import expm
from scipy.special import gammainc, gammaincinv

from posthaste_lab.checks import FloatArray, bounded, count, fraction, non_negative
from posthaste_lab.errors import BadArgument, NumericalError
from posthaste_lab.queueing.turns import handled

IntArray = npt.NDArray[np.int_]

Shape = Sequence[tuple[float, float]]

# Slices of equal probability that represent the distribution of a batch's time. 30 are within 0.3 % of a thousand of
# them up to an scv of 10, within 1 % up to 25. Its moments need fewer points, but arrivals during a batch depend on the
# mean of exp(-rate time), which three points miss by orders of magnitude where the distribution has a long tail.
SLICES = 30
EVEN = 0.01  # scv below which three points are as good as the slices: a gamma distribution is then as good as normal
TICKS = 4096  # ticks in the shortest batch: the resolution of batch times where arrivals during a batch are counted
DOUBLINGS_MAX = 20
NOTHING = 1e-200  # smaller probabilities are set to 0: numbers near the smallest double are slow and lose digits
SETTLING_STEPS = 128
CLIENTS_MAX = 10_000  # the transition matrix of the chain has the square of it entries: 800 MB


@dataclass(frozen=True)
class BatchServer:
    """Steady state of N clients and a server that serves in batches.

    `throughput` in requests per second and `response_time` in seconds (without think time) count all requests, also
    those that do not visit the server. `mean_batch` is the mean number of requests in a batch. `utilization` is the
    share of time the server has a batch, `handling_utilization` that of the place that handles requests.
    """

    population: int
    think_time: float
    throughput: float
    response_time: float
    mean_batch: float
    utilization: float
    handling_utilization: float


def batch_server(
    population: int,
    batch_time: float,
    request_time: float,
    *,
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
) -> BatchServer:
    """Solves a closed system whose server takes all n waiting requests in `batch_time + n request_time` seconds.

    Each of `population` clients thinks for `think_time`, travels for `path_time` (both exponential, without queueing),
    is handled for `handling_time` one at a time, and visits the server with probability `visits`, else its request is
    done. With a `turn_time` all k who wait to be handled are, in a turn of `turn_time + k handling_time`. A batch holds
    at most `batch_limit` requests. A batch that finds the server idle takes `wake_time` longer. `bends` correct the
    time of a batch of n: pairs of n and seconds to add, interpolated linearly, constant beyond the outermost pairs.
    `scv` is the squared coefficient of variation of a batch's time (0: always the same; else a gamma distribution).
    `shape` replaces the gamma distribution by another one, such as a measured one: pairs of a time, as a multiple of
    the mean, and the share of batches that take so long.

    For batches of constant time, and clients that either travel (or think) or are handled, the solution is exact but
    for rounding: arrivals during a batch are counted with its time rounded to 1/4096 of the shortest one. If clients
    are handled and away otherwise too, the throughput is too low: by at most five percent for constant times (where the
    time away is about half of a batch's and the handling is nearly as slow as the store), two at an scv of 0.3, one
    where the time away is a tenth or five times of a batch's; by nothing where handling hardly takes time. If clients
    both think and travel, the two times are replaced by one exponential time with the sum of their means, which is off
    by a few percent at most. With a gamma distribution the solution is within 0.3 % of it up to an scv of 10,
    within 1 % up to 25.

    Raises BadArgument for impossible figures: no time at all in the server, or none outside it.
    """
    n = bounded("population", population, CLIENTS_MAX, "with this many, batches are full and only their size matters")
    away = non_negative("think_time", think_time) + non_negative("path_time", path_time)
    handling, turn = non_negative("handling_time", handling_time), non_negative("turn_time", turn_time)
    share = 1.0 if visits == 1 else fraction("visits", visits)
    limit = n if batch_limit is None else count("batch_limit", batch_limit)
    distribution = batch_distribution(scv, shape)
    if away + handling + turn == 0:
        raise BadArgument("path_time", path_time, "must be above 0, or think_time or handling_time must")

    waiting = np.concatenate([[1], np.arange(1, n + 1)])  # when a batch begins; state 0: an arrival woke the server
    sizes = np.minimum(waiting, limit)
    times = batch_times(sizes, batch_time, request_time, bends)
    times[0] += non_negative("wake_time", wake_time)
    outside = handled(n, away / share, handling / share, turn / share)
    rates = outside.throughput
    transitions = _transitions(sizes, _left_outside(rates, n - waiting, times, distribution))
    begins = _stationary(transitions)
    busy = float(begins @ times)
    cycle = busy + float(begins[0]) / float(rates[-1])
    served = float(begins @ sizes)
    throughput = served / cycle / share
    return BatchServer(
        population=n,
        think_time=think_time,
        throughput=throughput,
        response_time=n / throughput - think_time,
        mean_batch=served,
        utilization=busy / cycle,
        # That of the clients outside when as many come back as do in the mean.
        handling_utilization=float(np.interp(throughput * share, outside.throughput, outside.utilization)),
    )


def batch_times(
    sizes: IntArray | FloatArray, batch_time: float, request_time: float, bends: Sequence[tuple[float, float]]
) -> FloatArray:
    """Returns the times of batches of these sizes: a straight line, corrected by `bends`.

    Raises BadArgument when a time is not above 0.
    """
    fixed, each = non_negative("batch_time", batch_time), non_negative("request_time", request_time)
    if fixed + each == 0:
        raise BadArgument("batch_time", batch_time, "must be above 0, or request_time must")
    at = [size for size, _ in bends]
    if any(size < 1 for size in at) or any(after <= before for before, after in pairwise(at)):
        raise BadArgument("bends", list(bends), "must be of ascending numbers of requests, from 1 on")
    by = [seconds for _, seconds in bends]
    times = fixed + each * sizes + (np.interp(sizes, at, by) if by else 0.0)
    if not (times > 0).all():
        raise BadArgument("bends", list(bends), "must leave every batch some time")
    return np.asarray(times, dtype=np.float64)


def batch_distribution(scv: float, shape: Shape = ()) -> tuple[FloatArray, FloatArray]:
    """Returns a batch's time as a discrete distribution: multiples of its mean, and their probabilities.

    A gamma distribution is cut into slices of equal probability, each represented by its mean, which follows from the
    gamma distribution with one degree more between the slice's ends. Raises BadArgument for a `shape` that is no
    distribution.
    """
    spread = non_negative("scv", scv)
    if len(shape) > 0:
        return _normalized(shape)
    if spread == 0:
        return np.ones(1), np.ones(1)
    if spread < EVEN:
        away = np.sqrt(3 * spread)
        return np.array([1 - away, 1.0, 1 + away]), np.array([1, 4, 1]) / 6
    ends = gammaincinv(1 / spread, np.linspace(0, 1, SLICES + 1)[1:-1])
    below = np.concatenate([[0.0], gammainc(1 / spread + 1, ends), [1.0]])
    return np.asarray(np.diff(below) * SLICES), np.full(SLICES, 1 / SLICES)


def _normalized(shape: Shape) -> tuple[FloatArray, FloatArray]:
    """Returns the values and shares of `shape`, scaled so that the shares add up to 1 and the mean is 1."""
    values, shares = (np.array(column, dtype=np.float64) for column in zip(*shape, strict=True))
    if not (np.isfinite(values).all() and np.isfinite(shares).all() and (values >= 0).all() and (shares >= 0).all()):
        raise BadArgument("shape", list(shape), "must be pairs of a time and a share, neither below 0")
    shares = shares / max(float(shares.sum()), NOTHING)
    mean = float(values @ shares)
    if not mean > 0:
        raise BadArgument("shape", list(shape), "must leave batches some time")
    return values / mean, shares


def _left_outside(
    rates: FloatArray, outside: IntArray, times: FloatArray, distribution: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Returns a row for each batch: the distribution of the number of clients still outside at its end.

    `outside` holds the number outside at its beginning. Their departures are a pure death process, so its transitions
    over a tick are one matrix exponential, and over any number of ticks a product of repeated squares of that matrix.
    """
    points, shares = distribution
    spans = np.outer(points, times)
    # Ticks divide the shortest batch at its mean time; the shortest slice of a wide one is too short for arrivals.
    doublings = min(DOUBLINGS_MAX, int(np.ceil(np.log2(spans.max() / min(times.min(), spans.max()) * TICKS))))
    tick = spans.max() / 2**doublings
    ticks = np.minimum(np.maximum(np.rint(spans / tick), 1), 2**doublings - 1).astype(int).ravel()
    step = _cleared(expm((np.diag(rates[1:], -1) - np.diag(rates)) * tick))
    rows = np.zeros((len(ticks), len(rates)))
    rows[np.arange(len(ticks)), np.tile(outside, len(points))] = 1.0
    for bit in range(doublings):
        chosen = (ticks >> bit) & 1 == 1
        rows[chosen] = rows[chosen] @ step
        step = _cleared(step @ step)
    transitions = np.tensordot(shares, rows.reshape(len(points), len(times), len(rates)), axes=1)
    return np.asarray(transitions / transitions.sum(axis=1, keepdims=True))


def _transitions(sizes: IntArray, left: FloatArray) -> FloatArray:
    """Returns the transition matrix of the chain: requests waiting at the end of a batch, and of the next one."""
    population = len(sizes) - 1
    transitions = np.zeros((population + 1, population + 1))
    for row, size in enumerate(sizes.tolist()):
        transitions[row, : population - size + 1] = left[row, : population - size + 1][::-1]
    return np.asarray(transitions / transitions.sum(axis=1, keepdims=True))


def _cleared(transitions: FloatArray) -> FloatArray:
    return np.where(transitions < NOTHING, 0.0, transitions)


def _stationary(transitions: FloatArray) -> FloatArray:
    """Returns the stationary distribution by the elimination of Grassmann, Taksar and Heyman (1985).

    It never subtracts, so chains that hardly mix do no harm (two halves of the clients may alternate for ever).
    The rarest states are eliminated first, so that no step divides by a tiny probability.
    """
    rough = _after_some_steps(transitions)
    order = np.argsort(-rough, kind="stable")
    a = _cleared(transitions)[np.ix_(order, order)]
    for k in range(len(a) - 1, 0, -1):
        total = a[k, :k].sum()
        if total < NOTHING:  # the chain is reducible: it stays in the part in which it began
            return rough
        a[:k, k] /= total
        a[:k, :k] += np.outer(a[:k, k], a[k, :k])
    shares = np.zeros(len(a))
    shares[0] = 1.0
    for k in range(1, len(a)):
        shares[k] = shares[:k] @ a[:k, k]
        shares /= shares.max()  # otherwise states that are likelier by many orders of magnitude overflow
    sorted_back = np.empty(len(a))
    sorted_back[order] = shares / shares.sum()
    if not np.isfinite(sorted_back).all():
        raise NumericalError(f"a chain of batches without a long run, of {len(transitions)} states")
    return sorted_back


def _after_some_steps(transitions: FloatArray) -> FloatArray:
    """Returns roughly the long-run distribution of the chain when all clients arrive at once at first."""
    shares = np.zeros(len(transitions))
    shares[-1] = 1.0
    total = np.zeros(len(transitions))
    for step in range(2 * SETTLING_STEPS):
        shares = _cleared(shares @ transitions)
        total += shares if step >= SETTLING_STEPS else 0.0
    return np.asarray(total / total.sum())
