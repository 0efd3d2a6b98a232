"""Machines that break and repairers who mend them: the finite source, M/M/c//N.

It also models clients of one pool of workers: a machine that is "up" is a client that thinks, a machine that is "down"
is a client that waits for an answer. Unlike M/M/m it cannot be unstable, and arrivals slow down as more clients wait.
Lazowska et al., chapter 8, has it as a network; Bolch et al., 2nd ed., chapter 6. It is solved as a birth-death chain,
added up in logarithms.
"""

from dataclasses import dataclass, field

import numpy as np

from posthaste_lab.checks import FloatArray, bounded, count, positive

MACHINES_MAX = 1_000_000  # the chain has one state for each number of machines that are down


@dataclass(frozen=True, eq=False)
class MachineRepair:
    """Figures of the finite source in its steady state. Jobs are machines that are down, waiting or in repair.

    `availability` is the share of time a machine is up, `throughput` repairs per second, `utilization` the busy share
    of a repairer, `p_wait` the probability that a machine that breaks finds no repairer free; times in seconds.
    """

    machines: int
    repairers: int
    failure_rate: float
    repair_rate: float
    throughput: float
    utilization: float
    availability: float
    p0: float
    p_wait: float
    mean_jobs: float
    var_jobs: float
    mean_queue: float
    mean_up: float
    mean_response: float
    mean_wait: float
    probabilities: FloatArray = field(repr=False)

    def prob_jobs(self, n: int) -> float:
        """Probability that exactly `n` machines are down, seen at any time."""
        return float(self.probabilities[n]) if count("n", n, least=0) <= self.machines else 0.0


def machine_repair(machines: int, repairers: int, failure_rate: float, repair_rate: float) -> MachineRepair:
    """Machine repair model: each of `machines` breaks at `failure_rate` while up; a repairer mends at `repair_rate`.

    Rates per second, of one machine and one repairer; times in seconds. With n down, machines break at (N - n) times
    `failure_rate` and are mended at min(n, c) times `repair_rate`: Bolch et al., 2nd ed., chapter 6. Raises
    BadArgument for counts or rates that cannot be.
    """
    population = bounded("machines", machines, MACHINES_MAX, "this many are an endless source, as in mmm")
    crew = count("repairers", repairers)
    failure, repair = positive("failure_rate", failure_rate), positive("repair_rate", repair_rate)
    down = np.arange(population + 1)
    breaking = (population - down[:-1]) * failure
    mending = np.minimum(down[1:], crew) * repair
    log_weights = np.concatenate([[0.0], np.cumsum(np.log(breaking) - np.log(mending))])
    p = np.exp(log_weights - log_weights.max())
    p /= p.sum()  # not by logarithms: of a million states theirs have few digits left
    mean_jobs = min(float(population), float(p @ down))  # sums leave some digits too much
    mean_queue = float(p @ np.maximum(down - crew, 0))
    throughput = float(p[1:] @ mending)
    mean_up = throughput / failure  # as the rest of those that are down it would be lost in rounding, or negative
    # A machine that breaks sees a state with a probability proportional to the machines still up in it.
    seen = p[:-1] * breaking
    seen /= seen.sum()
    return MachineRepair(
        machines=population,
        repairers=crew,
        failure_rate=failure,
        repair_rate=repair,
        throughput=throughput,
        utilization=min(1.0, throughput / (crew * repair)),
        availability=mean_up / population,
        p0=float(p[0]),
        p_wait=min(1.0, float(seen[crew:].sum())),
        mean_jobs=mean_jobs,
        var_jobs=float(p @ (down - mean_jobs) ** 2),
        mean_queue=mean_queue,
        mean_up=mean_up,
        mean_response=mean_jobs / throughput,
        mean_wait=mean_queue / throughput,
        probabilities=p,
    )
