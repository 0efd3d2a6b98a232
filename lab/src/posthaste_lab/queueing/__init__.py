"""Queueing models: open queues, closed and open networks, bounds, and a simulation to check them by.

docs/background/models.md says which model answers which question. Times are in seconds, rates per second. Impossible
input (a negative rate, a queue that grows for ever) raises an error that names the argument and its value.
"""

from posthaste_lab.errors import BadArgument, NumericalError, UnstableQueue
from posthaste_lab.queueing.batching import BatchServer, batch_server
from posthaste_lab.queueing.bounds import Bounds, bounds
from posthaste_lab.queueing.closed import ClosedNetwork, convolution, interactive_response_time, solve
from posthaste_lab.queueing.erlang import erlang_b, erlang_c
from posthaste_lab.queueing.machine_repair import MachineRepair, machine_repair
from posthaste_lab.queueing.mg1 import mg1
from posthaste_lab.queueing.mmm import mm1, mmm, parallel_mm1
from posthaste_lab.queueing.mmmk import mmmk
from posthaste_lab.queueing.multiclass import MultiClass, solve_multiclass
from posthaste_lab.queueing.open_network import OpenNetwork, open_network
from posthaste_lab.queueing.open_queue import OpenQueue
from posthaste_lab.queueing.pool import batch_pool
from posthaste_lab.queueing.routing import visit_ratios
from posthaste_lab.queueing.simulation import Simulation, simulate
from posthaste_lab.queueing.station import Station, rates_from_table

__all__ = [
    "BadArgument",
    "BatchServer",
    "Bounds",
    "ClosedNetwork",
    "MachineRepair",
    "MultiClass",
    "NumericalError",
    "OpenNetwork",
    "OpenQueue",
    "Simulation",
    "Station",
    "UnstableQueue",
    "batch_pool",
    "batch_server",
    "bounds",
    "convolution",
    "erlang_b",
    "erlang_c",
    "interactive_response_time",
    "machine_repair",
    "mg1",
    "mm1",
    "mmm",
    "mmmk",
    "open_network",
    "parallel_mm1",
    "rates_from_table",
    "simulate",
    "solve",
    "solve_multiclass",
    "visit_ratios",
]
