"""Puts the records of a trial on one clock: that of its first load, by which the measured time is told.

Programs on one machine share its monotonic clock, so their starts relate exactly, even if the wall clock was set in
between. Servers on another machine were asked by the loads how far their wall clock is off (`clock_relations`). Where
neither helps, a record's own wall clock has to do. docs/reference/record.md has the formulas.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from posthaste_lab.checks import number
from posthaste_lab.files import read_json, reading

ANYWHERE = {"", "0.0.0.0", "[::]"}  # noqa: S104 - hosts to listen at that are no addresses to connect to


class _Machine(NamedTuple):
    """When a record began on the monotonic clock of its machine, which records of one boot share."""

    boot_id: str
    monotonic_ns: float


class _Clock(NamedTuple):
    """The clock of a record: when it began, on the wall clock and the machine's, and what it tells of other clocks."""

    unix_ns: float
    machine: _Machine | None
    listens: list[str]
    offsets_ns: dict[str, float]  # a server's wall clock less this clock, by the server's address

    def ahead_of(self, load: "_Clock") -> float | None:
        """Returns this wall clock less the load's clock, in nanoseconds; None if nothing relates the two."""
        if self is load:
            return 0.0
        if self.machine is not None and load.machine is not None and self.machine.boot_id == load.machine.boot_id:
            return self.unix_ns - load.unix_ns - (self.machine.monotonic_ns - load.machine.monotonic_ns)
        asked = (offset for server, offset in load.offsets_ns.items() if self._answers_at(server))
        return next(asked, None)

    def _answers_at(self, server: str) -> bool:
        """Whether this is the clock of the server, or of another one on its host, which has the same wall clock."""
        host, _, port = server.rpartition(":")
        own = [address.rpartition(":") for address in self.listens]
        return any(host == own_host or (own_host in ANYWHERE and port == own_port) for own_host, _, own_port in own)


def start_unix_s(record: Path) -> float:
    """Returns the instant at which a record's clock began, in seconds since 1970 on the clock of its trial."""
    own, ahead_ns = _related(record)
    return (own.unix_ns - (ahead_ns or 0.0)) / 1e9


def correction_s(record: Path) -> float:
    """Returns what to add to instants of a record's own wall clock, in seconds, for those on the clock of its trial."""
    return -(_related(record)[1] or 0.0) / 1e9


def unrelated(trial: Path) -> list[str]:
    """Returns the parts of a trial that recorded on other machines, whose clocks nothing relates to the first load's.

    Their records are read by their own wall clocks, and are off by as much as those of the machines are apart.
    """
    records = [path for path in sorted(trial.glob("*/record")) if (path / "run.json").exists()]
    clocks = [(path.parent.name, *_related(path)) for path in records]
    return [name for name, own, ahead_ns in clocks if ahead_ns is None and own.machine is not None]


def _related(record: Path) -> tuple[_Clock, float | None]:
    """Returns a record's clock, and its wall clock less the trial's clock in nanoseconds; None if that is unknown."""
    loads = {path: _clock(path) for path in sorted(record.parent.parent.glob("*/record")) if _is_of_a_load(path)}
    own = loads[record] if record in loads else _clock(record)
    return own, _ahead(own, list(loads.values())) if loads else 0.0


def _is_of_a_load(record: Path) -> bool:
    return (record.parent / "summary.json").exists() and (record / "run.json").exists()


def _clock(record: Path) -> _Clock:
    run = read_json(record / "run.json")
    with reading(record / "run.json"):
        boot_id = run.get("machine", {}).get("boot_id")
        listens = run.get("options", {}).get("listen") or []
        answers = sorted(run.get("clock_relations") or [], key=lambda answer: -float(answer["error_us"]))
        started = number("start_monotonic_ns", run.get("start_monotonic_ns", 0))
        return _Clock(
            unix_ns=number("start_unix_ns", run.get("start_unix_ns") or run["start_unix_ms"] * 1e6),
            machine=_Machine(str(boot_id), started) if boot_id else None,
            listens=[listens] if isinstance(listens, str) else [str(address) for address in listens],
            # Of several answers by a server the surest one, which is the last, stays.
            offsets_ns={str(each["server"]): number("offset_us", each["offset_us"]) * 1e3 for each in answers},
        )


def _ahead(own: _Clock, loads: Sequence[_Clock]) -> float | None:
    """Returns a wall clock less that of the first load, in nanoseconds, by way of any load; None if nothing tells."""
    for load in loads:
        between, ahead = _between(load, loads[0]), own.ahead_of(load)
        if between is not None and ahead is not None:
            return between + ahead
    return _between(own, loads[0])


def _between(load: _Clock, first: _Clock) -> float | None:
    """Returns a load's clock less the first one's, in nanoseconds; on two machines by a server that both have asked."""
    if (ahead := load.ahead_of(first)) is not None:
        return ahead
    shared = (server for server in load.offsets_ns if server in first.offsets_ns and not _is_loopback(server))
    return next((first.offsets_ns[server] - load.offsets_ns[server] for server in shared), None)


def _is_loopback(server: str) -> bool:
    """Whether an address means another server on each machine."""
    host = server.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in ("localhost", "unix")
