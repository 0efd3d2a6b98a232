"""Convolution in logarithms: closed networks with stations of any kind, at any population.

The probability of a state is a product over the stations, so the sum over all states with n customers, G(n), is a
convolution of one sequence for each station, and throughput is G(n-1)/G(n). Those sums span thousands of orders of
magnitude, so they are kept as logarithms; all terms are positive, so nothing cancels.

For several servers the textbooks get the probability of an empty station as one minus all others. That is *not* done
here: the difference loses digits exponentially. With 12 servers and 140 customers it ends in negative throughput, while
every small test passes. For the same reason the distribution at a station is computed from the convolution of the
*other* stations; dividing the station out of G would be a difference again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import gammaln, logsumexp, xlogy

from posthaste_lab.checks import FloatArray
from posthaste_lab.queueing.mva import Curves
from posthaste_lab.queueing.station import Station

BLOCK_TERMS = 2_000_000  # terms computed at a time, 16 MB: larger blocks are no faster, and this fits any memory


@dataclass(frozen=True)
class Weights:
    """Logarithms of the stations' sequences, grouped by how they enter the convolution.

    Demands are divided by `scale` (the bottleneck's demand), which divides G(n) by scale^n and keeps the logarithms
    small. `base` is the convolution of all delays, the think time and the plain queues; `others` holds the sequence of
    each station whose speed depends on its load.
    """

    network: tuple[Station, ...]
    think: float
    scale: float
    base: FloatArray
    others: dict[str, FloatArray]

    @classmethod
    def of(cls, network: tuple[Station, ...], population: int, think: float) -> "Weights":
        """Weights for 0 to `population` customers."""
        shares = [s.single_demand / s.speeds(population).max() for s in network if s.kind != "delay"]
        scale = max(shares, default=0.0) or think + sum(s.single_demand for s in network)
        base = _free(network, population, think, scale)
        for station in network:
            if station.is_fixed_rate and station.kind != "delay" and station.single_demand > 0:
                base = _fold_in_plain_queue(base, station.single_demand / scale)
        others = {s.name: _log_weights(s, population, scale) for s in network if not s.is_fixed_rate}
        return cls(network, think, scale, base, others)


def _free(stations: Iterable[Station], population: int, think: float, scale: float) -> FloatArray:
    """Returns the sequence of the think time and all delays as one: nothing queues there, so their demands add up."""
    n = np.arange(population + 1)
    demand = think + sum(station.single_demand for station in stations if station.kind == "delay")
    return np.asarray(xlogy(n, demand / scale) - gammaln(n + 1))


def _log_weights(station: Station, population: int, scale: float) -> FloatArray:
    """Logarithm of demand^j over the product of the first j speeds, j = 0 to N."""
    j = np.arange(population + 1)
    log_speeds = np.concatenate([[0.0], np.cumsum(np.log(station.speeds(population)))])
    return np.asarray(xlogy(j, station.single_demand / scale) - log_speeds)


def _fold_in_plain_queue(log_g: FloatArray, demand: float) -> FloatArray:
    """G(n) + d G(n-1) + d^2 G(n-2) + …: a running sum, once d^n is divided out."""
    slope = np.arange(len(log_g)) * np.log(demand)
    return np.asarray(np.logaddexp.accumulate(log_g - slope) + slope)


def log_convolve(a: FloatArray, b: FloatArray) -> FloatArray:
    """Logarithms of the convolution of exp(a) and exp(b), cut to their common length."""
    length = len(a)
    padded = np.concatenate([np.full(length - 1, -np.inf), b])
    rows = sliding_window_view(padded, length)[:, ::-1]  # row n holds b[n], b[n-1], …, b[0], and nothing
    step = max(1, BLOCK_TERMS // length)
    result = np.empty(length)
    for start in range(0, length, step):
        end = min(start + step, length)
        terms = a[:end] + rows[start:end, :end]
        peak = terms.max(axis=1, keepdims=True)
        np.subtract(terms, np.where(np.isfinite(peak), peak, 0.0), out=terms)
        with np.errstate(divide="ignore"):
            result[start:end] = np.log(np.exp(terms, out=terms).sum(axis=1)) + peak[:, 0]
    return result


def _without_each(base: FloatArray, others: dict[str, FloatArray]) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Returns log G of all stations, and for each station in `others` log G of the network without it."""
    names = list(others)
    before = [base]
    for name in names:
        before.append(log_convolve(before[-1], others[name]))
    without: dict[str, FloatArray] = {}
    after: FloatArray | None = None
    for i in reversed(range(len(names))):
        without[names[i]] = before[i] if after is None else log_convolve(before[i], after)
        after = others[names[i]] if after is None else log_convolve(after, others[names[i]])
    return before[-1], without


def solve(weights: Weights) -> Curves:
    """Returns throughput from G, queues of plain stations by the arrival theorem, others from their distributions."""
    log_g, without = _without_each(weights.base, weights.others)
    throughput = np.exp(log_g[:-1] - log_g[1:]) / weights.scale
    lengths, busy = [], []
    for station in weights.network:
        demand = station.single_demand
        if station.kind == "delay":
            length = share = throughput * demand
        elif station.is_fixed_rate:
            length, share = _arrival_theorem(throughput * demand), throughput * demand
        else:
            own, rest = weights.others[station.name], without[station.name]
            length = _mean_number(own, rest, log_g)
            empty = np.exp(rest[1:] - log_g[1:])
            share = throughput * demand / station.servers if station.kind == "multi" else 1 - empty
        lengths.append(length)
        busy.append(share)
    queue_length = np.array(lengths).T
    return Curves(throughput, np.array(busy).T, queue_length, queue_length / throughput[:, None])


def _arrival_theorem(utilization: FloatArray) -> FloatArray:
    """Q(n) = U(n) (1 + Q(n-1)): holds for a plain queue whatever the other stations are."""
    lengths = np.empty(len(utilization))
    previous = 0.0
    for n, busy in enumerate(utilization.tolist()):
        previous = busy * (1 + previous)
        lengths[n] = previous
    return lengths


def _mean_number(own: FloatArray, rest: FloatArray, log_g: FloatArray) -> FloatArray:
    """Sum over j of j P(j customers there), for each population."""
    with np.errstate(divide="ignore"):
        weighted = own + np.log(np.arange(len(own)))
    return np.exp(log_convolve(weighted, rest) - log_g)[1:]


def marginal(network: tuple[Station, ...], name: str, population: int, think: float) -> FloatArray:
    """P(j customers at a station), j = 0 to N, from the convolution of all other stations."""
    own_station = next(station for station in network if station.name == name)
    rest_weights = Weights.of(network, population, think)
    scale = rest_weights.scale
    others = [station for station in network if station.name != name]
    rest = _free(others, population, think, scale)
    for station in others:
        if station.kind == "delay" or station.single_demand == 0:
            continue
        if station.is_fixed_rate:
            rest = _fold_in_plain_queue(rest, station.single_demand / scale)
        else:
            rest = log_convolve(rest, _log_weights(station, population, scale))
    terms = _log_weights(own_station, population, scale) + rest[::-1]
    return np.asarray(np.exp(terms - logsumexp(terms)))
