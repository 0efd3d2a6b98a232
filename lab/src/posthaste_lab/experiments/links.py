"""Links to a part that are slower than this machine's loopback: less bandwidth, more delay.

A trial with links has a network namespace of its own: its loopback is used by its parts only, so that shaping it
affects no other program, and it vanishes with the process that holds it. On that loopback the packets to, and those
from, a part's port pass a traffic class each, limited to the link's bandwidth (HTB's token bucket); everything else
passes freely. Packets are limited to Ethernet's size, otherwise a whole answer would be one packet.

Delay is made by netem where the kernel has it. Elsewhere the load generator makes it: its clients pause for twice the
delay between an answer and the next request. That loads the part as the delay would, but response times do not include
it, and the trial says so.
"""

import re
import sys
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path

from posthaste_lab.experiments.hosts import Local, run
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.experiments.process import Process
from posthaste_lab.experiments.tables import Link

READY_S = 20.0
ETHERNET_BYTES = 1500
UNSHAPED = "100gbit"  # bandwidth of a link that has only a delay
BURST_S, BURST_LEAST_BYTES = 0.001, 15_000  # size of bursts: a few packets, otherwise the timer would limit the rate
BY_PAUSE, BY_KERNEL = "think time of the load", "netem"  # how a delay is made
HOLD = f"ip link set lo up mtu {ETHERNET_BYTES} && echo holding $$ >&2 && exec sleep infinity"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1).close()"


@dataclass(frozen=True)
class Isolated(Local):
    """The local machine, in the network namespace of process `pid`."""

    pid: int

    def command(self, arguments: list[str]) -> list[str]:
        """Returns a command line that runs `arguments` within the namespace."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *arguments]

    def accepts(self, address: str) -> bool:
        """Returns whether a program accepts connections, tried from within the namespace: no other place reaches it."""
        host, _, port = address.rpartition(":")
        try:
            run(self, [sys.executable, "-I", "-c", CONNECT, host, port])
        except RunFailed:
            return False
        return True


def isolate(stack: ExitStack, local: Local, logs: Path) -> Isolated:
    """Makes a namespace for a trial, removed when `stack` unwinds. Raises RunFailed where the system forbids it."""
    holder = Process("network namespace", local, ["unshare", "--net", "sh", "-c", HOLD], "/", logs, grace_s=1)
    stack.callback(holder.stop)
    try:
        pid = holder.wait_ready(r"holding (\d+)", "", READY_S)
    except RunFailed as failure:
        raise RunFailed(
            "links need a network namespace: run as root with iproute2 and util-linux installed, or take the links out "
            f"of the experiment ({failure})"
        ) from None
    held = {field.name: getattr(local, field.name) for field in fields(local)}
    return Isolated(**held, pid=int(pid))


class Shaper:
    """The traffic classes of one namespace's loopback, a pair for each link."""

    def __init__(self, host: Isolated) -> None:
        """Begins without any class: nothing is shaped."""
        self._host, self._classes = host, 0

    def shape(self, link: Link, address: str) -> bool:
        """Shapes packets to and from an address as the link says; returns whether the kernel can delay them as well."""
        port = re.sub(r".*:(\d+).*", r"\1", address)
        if not port.isdecimal():
            raise RunFailed(f"a link needs an address with a port, and has {address}")
        if self._classes == 0:
            self._tc("qdisc add dev lo root handle 1: htb")
        rate = link.bandwidth or UNSHAPED
        burst = max(BURST_LEAST_BYTES, round(bits_per_s(rate) / 8 * BURST_S))
        delayed = True
        for side in ("dport", "sport"):
            self._classes += 1
            number = f"{self._classes:x}"
            self._tc(f"class add dev lo parent 1: classid 1:{number} htb rate {rate} burst {burst} cburst {burst}")
            self._tc(f"filter add dev lo parent 1: protocol ip u32 match ip {side} {port} 0xffff flowid 1:{number}")
            if link.delay > 0:
                delayed = delayed and self._delay(number, link.delay)
        return delayed

    def _delay(self, number: str, delay_s: float) -> bool:
        try:
            self._tc(f"qdisc add dev lo parent 1:{number} netem delay {round(delay_s * 1e6)}us limit 100000")
        except RunFailed as failure:
            if "unknown" in str(failure):  # this kernel has no netem
                return False
            raise
        return True

    def _tc(self, words: str) -> None:
        run(self._host, ["tc", *words.split()])


def bits_per_s(bandwidth: str) -> float:
    """Returns the bits per second of a bandwidth in tc's notation."""
    number, unit = re.fullmatch(r"(\d+)([kmg]bit)", bandwidth).groups()  # type: ignore[union-attr]
    return float(number) * {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}[unit]
