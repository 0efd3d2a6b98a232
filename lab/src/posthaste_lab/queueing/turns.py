"""Clients that are away for a while and then handled, one at a time or in turns that take all who wait.

Between two ends of a turn nothing happens but arrivals, so the number in the next turn is a Markov chain, as in
`batching`. Here a turn's time is exponential, and so the chain has a closed form: of the clients away, another one
comes before the turn ends with the probability of their rate over the sum of both rates. Clients handled one at a time
are a network of the textbooks, a queue and a delay.
"""

from dataclasses import dataclass

import numpy as np

from posthaste_lab.checks import FloatArray
from posthaste_lab.queueing.closed import solve
from posthaste_lab.queueing.station import Station

SOLVED = 24  # numbers of clients for which the chain is solved; in between the mean time of a round is interpolated


@dataclass(frozen=True)
class Handled:
    """Steady states with 0, 1, … clients: how many are handled per second, and the share of time the place is busy."""

    throughput: FloatArray
    utilization: FloatArray


def handled(population: int, delay: float, handling_time: float, turn_time: float) -> Handled:
    """Solves clients who are away for `delay` seconds, and of whom k are handled in `turn_time + k handling_time`.

    Times away are exponential, and so are those of turns. Without a `turn_time` clients are handled one at a time. At
    least one of the three times must be above 0.
    """
    counts = np.arange(1, population + 1)
    if turn_time > 0:
        some = np.unique(np.rint(np.geomspace(1, population, SOLVED)).astype(int))
        rounds, busy = np.array([_round(int(n), delay, handling_time, turn_time) for n in some]).T
        throughput = counts / np.interp(counts, some, rounds)
        utilization = np.interp(counts, some, busy)
    elif handling_time > 0:
        network = solve([Station("handling", handling_time)], population, delay)
        throughput, utilization = network.throughput, network.utilization["handling"]
    else:
        throughput, utilization = counts / delay, np.zeros(population)
    return Handled(np.concatenate([[0.0], throughput]), np.concatenate([[0.0], utilization]))


def _round(clients: int, delay: float, each: float, turn: float) -> tuple[float, float]:
    """Returns the mean seconds from one handling of a client to its next, and the share of time the place is busy."""
    sizes = np.arange(1, clients + 1)
    times = turn + each * sizes
    if delay == 0:  # all of them are in every turn
        return float(times[-1]), 1.0
    away = np.maximum(clients - sizes[:, None] - np.arange(clients), 0)  # when so many have come since the turn began
    comes = away / (away + delay / times[:, None])
    at_least = np.column_stack([np.ones(clients), np.cumprod(comes, axis=1)])
    transitions = at_least[:, :-1] - at_least[:, 1:]  # that none, one, … come during a turn of each size
    nobody = transitions[:, 0].copy()
    if clients > 1:
        transitions = np.column_stack([transitions[:, 1:], np.zeros(clients)])
        transitions[:, 0] += nobody  # the first who comes then is a turn
    else:
        transitions = np.ones((1, 1))
    shares = _long_run(transitions)
    busy = float(shares @ times)
    cycle = busy + float(shares @ nobody) * delay / clients
    return clients * cycle / float(shares @ sizes), busy / cycle


def _long_run(transitions: FloatArray) -> FloatArray:
    """Returns the stationary distribution of a chain, in which every state leads to a turn of one client."""
    equations = transitions.T - np.eye(len(transitions))
    equations[0] = 1.0
    shares = np.linalg.solve(equations, np.eye(len(transitions))[0])
    return np.asarray(np.maximum(shares, 0.0))
