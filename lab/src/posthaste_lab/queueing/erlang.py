"""Erlang's two formulas, for any number of servers.

The textbook form divides a^m/m! by a sum of such terms, and overflows near m = 150. The recursion for B has only
positive terms below 1, so it is exact to rounding for thousands of servers; C follows from B.
"""

from posthaste_lab.checks import bounded, count, non_negative
from posthaste_lab.errors import UnstableQueue

SERVERS_MAX = 10_000_000  # one step of the recursion each: some seconds


def erlang_b(offered_load: float, servers: int) -> float:
    """Probability that an arrival finds all servers busy and is lost (M/M/m/m, and M/G/m/m).

    `offered_load` is arrival rate over the service rate of one server, in erlang; any value from 0 up.
    B(k) = a B(k-1) / (k + a B(k-1)), B(0) = 1: Bolch et al., Queueing Networks and Markov Chains, 2nd ed.,
    chapter 6; Jagerman, Bell System Technical Journal 53 (1974).
    Without servers every arrival is lost. Raises BadArgument for a negative load or number of servers.
    """
    load = non_negative("offered_load", offered_load)
    blocking = 1.0
    if count("servers", servers, least=0):
        bounded("servers", servers, SERVERS_MAX, "with this many, nobody waits unless they are almost always busy")
    for busy in range(1, int(servers) + 1):
        blocking = load * blocking / (busy + load * blocking)
    return blocking


def erlang_c(offered_load: float, servers: int) -> float:
    """Probability that an arrival has to wait (M/M/m): all servers are busy, and nobody is turned away.

    `offered_load` as in `erlang_b`; it must stay below `servers`. C = B / (1 - rho (1 - B)) with rho = a/m:
    Bolch et al., 2nd ed., chapter 6. Jain, The Art of Computer Systems Performance Analysis, box 31.2,
    denotes the probability by a letter that is easily mistaken for rho.
    Raises UnstableQueue when the load reaches the number of servers.
    """
    load = non_negative("offered_load", offered_load)
    utilization = load / count("servers", servers)
    if utilization >= 1:
        raise UnstableQueue("offered_load", offered_load, utilization)
    blocking = erlang_b(load, servers)
    return blocking / (1 - utilization * (1 - blocking))
