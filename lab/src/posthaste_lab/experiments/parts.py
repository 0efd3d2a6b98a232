"""The parts of a trial: started one after the other, and stopped in the opposite order, whatever happens.

A part with several instances is several processes. A placeholder for a part in another's options, such as `{tier}`,
stands for the addresses of all its instances; an option whose value is a list is passed several times.
"""

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from posthaste_lab.experiments import postgresql
from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.hosts import Host, hosts_of, unprivileged_user
from posthaste_lab.experiments.kinds import (
    BENCH_QUEUE,
    PLACEHOLDER,
    POSTGRESQL,
    Kind,
    find_program,
    kinds,
    known_options,
)
from posthaste_lab.experiments.links import Shaper
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.experiments.process import Process
from posthaste_lab.experiments.scratch import Scratch
from posthaste_lab.experiments.spans import milliseconds
from posthaste_lab.experiments.tables import Link, Value

READY_S = 30.0
STEP_S = 120.0
SEEDS_APART = 1_000_000  # distance between the seeds of two loads, larger than the number of repetitions
CLIENTS_DEFAULT = 16  # default of bench queue's option
NO_NETEM = "this kernel cannot delay packets"
LOAD_NETEM = "load its module sch_netem"


@dataclass
class Instance:
    """One process of a part: where it runs, and where its files will be kept."""

    part: str
    kind: Kind
    host: Host
    directory: str
    keep: Path
    options: dict[str, Value]
    seed: int
    process: Process | None = None
    address: str = ""

    @property
    def record(self) -> str:
        """Path of its record, on its host."""
        return f"{self.directory}/record"

    @property
    def summary(self) -> str:
        """Path of its summary, on its host; not in the record's directory, which would be refused if it existed."""
        return f"{self.directory}/summary.json"


@dataclass
class Parts:
    """All parts of one trial."""

    experiment: Experiment
    hosts: dict[str, Host]
    directory: Path
    workload_seed: int
    links: dict[str, Link] = field(default_factory=dict)
    shaper: Shaper | None = None
    instances: list[Instance] = field(default_factory=list)
    delays_by_loads: dict[str, float] = field(default_factory=dict)

    def bring_up(self, stack: ExitStack, options: dict[str, tuple[int, dict[str, Value]]]) -> None:
        """Starts all parts but the loads; they are stopped when `stack` unwinds."""
        for part, (count, given) in options.items():
            for number in range(count):
                instance = self._lay_out(stack, part, number, count, given)
                if instance.kind.role != "load":
                    self._start(stack, instance)

    def start_loads(self, stack: ExitStack) -> list[Instance]:
        """Starts the loads, one right after the other."""
        loads = [instance for instance in self.instances if instance.kind.role == "load"]
        for part, delay_s in self.delays_by_loads.items():
            _pause_for(part, delay_s, loads)
        for instance in loads:
            self._start(stack, instance)
        return loads

    def must_all_be_up(self) -> None:
        """Raises RunFailed when a server has ended."""
        for instance in self.instances:
            process = instance.process
            if instance.kind.role == "server" and process is not None and process.ended() is not None:
                raise process.failure("during the trial")

    def _lay_out(self, stack: ExitStack, part: str, number: int, count: int, options: dict[str, Value]) -> Instance:
        host = self.hosts[self.experiment.host_of(part)]
        directory = Scratch(self.directory).make(stack, host)
        name = part if count == 1 else f"{part}-{number + 1}"
        kind = kinds()[self.experiment.parts[part].kind]
        loads = sum(instance.kind.role == "load" for instance in self.instances)
        seed = self.workload_seed + (SEEDS_APART * loads if kind.role == "load" else 0)
        given = self._accounts(kind, options) | options
        self.instances.append(Instance(part, kind, host, directory, self.directory / name, given, seed))
        return self.instances[-1]

    def _accounts(self, kind: Kind, options: dict[str, Value]) -> dict[str, Value]:
        """Returns the option for a load's first account: after those of earlier loads with the same tiers."""
        if kind.name != BENCH_QUEUE:
            return {}
        beside = [i for i in self.instances if i.kind is kind and i.options.get("connect") == options.get("connect")]
        clients = sum(int(str(instance.options.get("clients", CLIENTS_DEFAULT))) for instance in beside)
        return {"first-client": 1 + clients} if clients else {}

    def _start(self, stack: ExitStack, instance: Instance) -> None:
        name, kind, host = instance.keep.name, instance.kind, instance.host
        if kind.name == POSTGRESQL:
            settings = {option: self._filled(value, instance, 0) for option, value in instance.options.items()}
            clients = hosts_of(self.experiment, self.hosts).values()
            port, directory = host.free_port(), instance.directory
            pinned = self._pinned(instance)
            process = postgresql.start(name, host, settings, directory, instance.keep, clients, port, pinned)
            instance.process = process
            stack.callback(process.stop)
            instance.address = postgresql.make_database(process, directory, port)
            self._link(instance)
            return
        port = host.free_port() if kind.ready == "tcp" else 0
        process = Process(name, host, self._command(instance, port), instance.directory, instance.keep)
        instance.process = process
        stack.callback(process.stop)
        if kind.ready is not None:
            instance.address = process.wait_ready(kind.ready, f"{host.address}:{port}", READY_S)
            self._link(instance)
        elif kind.role == "step" and process.wait_done(STEP_S) != 0:
            raise process.failure("instead of doing its work")

    def _link(self, instance: Instance) -> None:
        """Shapes the way to a started part, if it has a link."""
        link = self.links.get(instance.part)
        if link is not None and self.shaper is not None and not self.shaper.shape(link, instance.address):
            self.delays_by_loads[instance.part] = link.delay

    def _pinned(self, instance: Instance) -> list[str]:
        """Returns the command prefix that keeps an instance on the processors of its part."""
        place = self.experiment.placement.get(instance.part)
        return ["taskset", "-c", place.cpus] if place is not None and place.cpus else []

    def _command(self, instance: Instance, port: int) -> list[str]:
        kind = instance.kind
        program = find_program(kind.program, instance.host)
        options: dict[str, Value] = {
            option: value for option, value in kind.defaults.items() if self._known(instance, option)
        }
        options |= instance.options
        if kind.role == "load" and options.get("record") is False:
            options.pop("window", None)  # without a record there are no windows
        command = [*self._pinned(instance), program, *kind.arguments]
        for option, value in options.items():
            command += _arguments(option, self._filled(value, instance, port))
        return command

    def _known(self, instance: Instance, option: str) -> bool:
        if option == "user":
            return unprivileged_user(instance.host) is not None
        return option not in instance.kind.optional or option in known_options(instance.kind.name, instance.host)

    def _filled(self, value: Value, instance: Instance, port: int) -> Value:
        """Returns a value with its placeholders filled in."""
        if isinstance(value, list):
            return [each for one in value for each in _as_list(self._filled(one, instance, port))]
        if not isinstance(value, str):
            return value
        head, measured, tail = self.experiment.trimmed
        own = {
            "host": instance.host.address,
            "port": str(port),
            "address": f"{instance.host.address}:{port}",
            "dir": instance.directory,
            "record": instance.record,
            "summary": instance.summary,
            "duration": milliseconds(measured),
            "head": milliseconds(head),
            "tail": milliseconds(tail),
            "window": milliseconds(self.experiment.run.window),
            "seed": str(instance.seed),
            "user": unprivileged_user(instance.host) or "",
        }
        whole = PLACEHOLDER.fullmatch(value)
        if whole and whole[1] not in own:
            return self._addresses(whole[1])
        return PLACEHOLDER.sub(lambda m: own.get(m[1]) or ",".join(map(str, self._addresses(m[1]))), value)

    def _addresses(self, part: str) -> list[bool | int | float | str]:
        return [instance.address for instance in self.instances if instance.part == part]


def _pause_for(part: str, delay_s: float, loads: list[Instance]) -> None:
    """Makes the loads that connect to a part pause for twice its delay, since the kernel cannot delay packets."""
    talking = [load for load in loads if f"{{{part}}}" in str(load.options.get("connect"))]
    if not talking:
        raise RunFailed(
            f"links.{part}.delay: {NO_NETEM}, and no load that could pause instead connects to {part}; {LOAD_NETEM} or "
            "delay the way to a part that a load connects to"
        )
    for load in talking:
        if {"think", "rate", "rate-per-client", "rate-profile", "replay"} & load.options.keys():
            raise RunFailed(
                f"links.{part}.delay: {NO_NETEM}, and {load.part} cannot pause instead, as it has a think time or a "
                f"rate; {LOAD_NETEM} or take these out of {load.part}"
            )
        load.options = load.options | {"think": f"{round(2e6 * delay_s)}us"}


def _as_list(value: Value) -> list[bool | int | float | str]:
    return value if isinstance(value, list) else [value]


def _arguments(option: str, value: Value) -> list[str]:
    if value is True:
        return [f"--{option}"]
    if value is False:
        return []
    return [argument for each in _as_list(value) for argument in (f"--{option}", str(each))]


def spoken(instance: Instance) -> str:
    """Returns the command line of an instance, as typed in a shell."""
    return shlex.join(instance.process.arguments) if instance.process else ""
