"""Mean value analysis of stations that work at a fixed rate: exact, and Schweitzer's approximation.

The arrival theorem says that a customer arriving at a station finds the queue of a network with one customer less, so
N steps give the curve from 1 to N. All terms are positive, so no digits are lost however large N is.
"""

from dataclasses import dataclass

import numpy as np

from posthaste_lab.checks import FloatArray
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.station import Station

HALVINGS = 200  # of the interval that holds the throughput: more of them change no double


@dataclass(frozen=True)
class Curves:
    """The result of every solver: rows are populations 1 to N, columns are stations."""

    throughput: FloatArray
    utilization: FloatArray
    queue_length: FloatArray
    residence_time: FloatArray


def exact(network: tuple[Station, ...], population: int, think: float) -> Curves:
    """Reiser and Lavenberg's recursion for plain queues and delays."""
    demands = np.array([station.single_demand for station in network])
    queueing = np.array([station.kind != "delay" for station in network], dtype=np.float64)
    lengths = np.zeros((population + 1, len(network)))
    for n in range(1, population + 1):
        residence = demands * (1 + queueing * lengths[n - 1])
        lengths[n] = residence * (n / (think + residence.sum()))
    residence = demands * (1 + queueing * lengths[:-1])
    throughput = np.arange(1, population + 1) / (think + residence.sum(axis=1))
    return Curves(throughput, np.outer(throughput, demands), lengths[1:], residence)


def schweitzer(network: tuple[Station, ...], population: int, think: float) -> Curves:
    """Schweitzer and Bard's approximation: a customer finds (N-1)/N of the queue of its own population.

    Textbooks iterate it to a fixed point, which takes long near the knee. With one class the queue lengths follow from
    the throughput, which leaves one increasing function of the throughput; its zero is found by bisection, for all
    populations at once.
    """
    for station in network:
        if station.kind == "load_dependent":
            raise BadArgument(
                "method", "schweitzer", f'knows no load-dependent stations ({station.name!r}); use "exact"'
            )
    servers = np.array([station.servers for station in network], dtype=np.float64)
    total = np.array([station.single_demand for station in network])
    is_delay = np.array([station.kind == "delay" for station in network])
    queued = np.where(is_delay, 0.0, total / servers)
    delayed = total - queued
    n = np.arange(1.0, population + 1)[:, None]
    met = queued * (n - 1) / n

    def lengths(x: FloatArray) -> FloatArray:
        return np.asarray(x * queued / np.maximum(1 - x * met, 1e-300) + x * delayed)

    low, high = np.zeros_like(n), n / (think + total.sum())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        too_much = lengths(middle).sum(axis=1, keepdims=True) + middle * think > n
        too_much |= np.any(middle * met >= 1, axis=1, keepdims=True)
        low, high = np.where(too_much, low, middle), np.where(too_much, middle, high)
    length = lengths(low)
    busy = np.where(is_delay, total, total / servers)
    return Curves(low[:, 0], low * busy, length, length / low)
