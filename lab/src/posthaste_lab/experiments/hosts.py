"""Machines on which parts run: this one, and others reached by ssh with the user's own configuration.

Both have the same interface: a command line for the machine is turned into a command line to run here. Output of a
remote program arrives here as it is written; its files are fetched when the trial is over.
"""

import os
import random
import shlex
import shutil
import socket
import subprocess
import tempfile
import tomllib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.problems import BadExperiment, RunFailed
from posthaste_lab.experiments.tables import Strict

# ssh must not ask for passwords, and must give up on a machine that does not answer. In the midst of a trial this takes
# a minute, and a packet each 15 s while nothing comes from there; TCP alone would take two hours.
ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", *ALIVE)
COMMAND_TIMEOUT_S = 120
FETCH_TIMEOUT_S = 1800  # for some gigabytes of single requests over a slow network
PREFIX = "posthaste-lab-"  # of the names of scratch directories
# Keys that a table "local" in hosts.toml may not have, with what to do instead.
ELSEWHERE = {
    "ssh": "nobody goes there by ssh",
    "posthaste": "say it with --posthaste",
    "scratch": "say it with --scratch",
    "options": "nobody goes there by ssh",
}


@dataclass(frozen=True)
class Host(ABC):
    """A machine; `address` is the one under which parts on other machines reach parts on it."""

    name: str
    address: str
    posthaste: Path
    scratch: str

    @abstractmethod
    def command(self, arguments: list[str]) -> list[str]:
        """Returns a command line that, run here, runs `arguments` on the host."""

    @abstractmethod
    def free_port(self) -> int:
        """Returns a TCP port that is probably not in use."""

    def accepts(self, address: str) -> bool:
        """Returns whether a program accepts connections at an address."""
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=1):
                return True
        except OSError:
            return False

    @abstractmethod
    def make_directory(self) -> str:
        """Makes a new empty directory on the host that all its users may enter."""

    @abstractmethod
    def remove_directory(self, directory: str) -> None:
        """Removes a directory on the host with its contents."""

    @abstractmethod
    def fetch(self, path: str, to: Path) -> None:
        """Copies the file or directory `path` on the host to `to` here; does nothing when there is none."""


def run(host: Host, arguments: list[str]) -> str:
    """Runs a short command on a host and returns its output. Raises RunFailed with its last line if it fails."""
    command = host.command(arguments)
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False, start_new_session=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"{shlex.join(arguments)} on {host.name}: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RunFailed(
            f"{shlex.join(arguments)} on {host.name} ended with {done.returncode}: {said[-1] if said else 'no word'}"
        )
    return done.stdout


@dataclass(frozen=True)
class Local(Host):
    """The machine on which the laboratory runs."""

    def command(self, arguments: list[str]) -> list[str]:
        """Returns the command line unchanged."""
        return arguments

    def free_port(self) -> int:
        """Returns a port that the system has just found free."""
        with socket.socket() as listener:
            listener.bind((self.address, 0))
            return int(listener.getsockname()[1])

    def make_directory(self) -> str:
        """Makes a directory below the scratch directory."""
        directory = tempfile.mkdtemp(prefix=PREFIX, dir=self.scratch)
        os.chmod(directory, 0o755)  # noqa: S103 - a database runs as another user
        return directory

    def remove_directory(self, directory: str) -> None:
        """Removes the directory with its contents."""
        shutil.rmtree(directory, ignore_errors=True)

    def fetch(self, path: str, to: Path) -> None:
        """Copies instead of moving, since the scratch directory may be on another file system."""
        if Path(path).is_dir():
            shutil.copytree(path, to, dirs_exist_ok=True)
        elif Path(path).exists():
            shutil.copyfile(path, to)


class RemoteTable(Strict):
    """A table of hosts.toml. The one named "local" holds only the address under which others reach this machine."""

    ssh: str = ""
    address: Annotated[str, Field(min_length=1)]
    posthaste: str = "posthaste"
    scratch: str = "/tmp"  # noqa: S108 - on another machine, with a name of mktemp's below it
    options: Annotated[list[str], Field(default_factory=list)]


@dataclass(frozen=True)
class Remote(Host):
    """Another machine, reached by ssh."""

    ssh: str
    options: tuple[str, ...] = ()

    def command(self, arguments: list[str]) -> list[str]:
        """Returns an ssh command; ssh passes `arguments`, quoted to one line, to a shell on the host."""
        return [*SSH, *self.options, "--", self.ssh, shlex.join(arguments)]

    def free_port(self) -> int:
        """Returns a random port; a program that finds it in use reports that."""
        return random.SystemRandom().randint(20_000, 32_000)

    def make_directory(self) -> str:
        """Makes a directory below the host's scratch directory."""
        directory = run(self, ["mktemp", "-d", f"{self.scratch}/{PREFIX}XXXXXXXX"]).strip()
        run(self, ["chmod", "755", directory])
        return directory

    def remove_directory(self, directory: str) -> None:
        """Removes the directory with its contents."""
        run(self, ["rm", "-rf", "--", directory])

    def fetch(self, path: str, to: Path) -> None:
        """Copies the files as one stream of tar."""
        if not run(self, ["sh", "-c", 'test ! -e "$0" || echo there', path]):
            return
        with tempfile.TemporaryDirectory(dir=to.parent) as unpacked:
            pack = self.command(["tar", "-C", str(Path(path).parent), "-cf", "-", Path(path).name])
            with subprocess.Popen(pack, stdout=subprocess.PIPE, start_new_session=True) as packing:  # noqa: S603
                unpack = ["tar", "-C", unpacked, "-xf", "-"]
                try:
                    done = subprocess.run(unpack, stdin=packing.stdout, check=False, timeout=FETCH_TIMEOUT_S)  # noqa: S603
                except subprocess.TimeoutExpired:
                    packing.kill()
                    raise RunFailed(f"{path} on {self.name} was not fetched within {FETCH_TIMEOUT_S:g} s") from None
            if packing.returncode or done.returncode:
                raise RunFailed(f"{path} on {self.name} could not be fetched")
            Path(unpacked, Path(path).name).rename(to)


def this_machine(posthaste: Path, scratch: Path | None = None) -> Local:
    """Returns this machine, whose parts reach each other on loopback."""
    # Programs work in directories of their own, from which a relative path leads elsewhere.
    return Local("local", "127.0.0.1", posthaste, str((scratch or Path(tempfile.gettempdir())).absolute()))


def load_hosts(path: Path | None, local: Local) -> dict[str, Host]:
    """Returns all machines by name: "local", and those of hosts.toml. Raises BadExperiment for a wrong file."""
    if path is None:
        return {"local": local}
    try:
        tables = TypeAdapter(dict[str, RemoteTable]).validate_python(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise BadExperiment(str(path), [f"cannot be read: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadExperiment(str(path), [f"is not TOML: {error}"]) from None
    except ValidationError as error:
        said = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        raise BadExperiment(str(path), said) from None
    problems = [problem for name, table in tables.items() for problem in _problems(name, table)]
    if problems:
        raise BadExperiment(str(path), problems)
    hosts: dict[str, Host] = {"local": local}
    for name, table in tables.items():
        if name == "local":
            hosts[name] = replace(local, address=table.address)
        else:
            posthaste, options = Path(table.posthaste), tuple(table.options)
            hosts[name] = Remote(name, table.address, posthaste, table.scratch, table.ssh, options)
    return hosts


def _problems(name: str, table: RemoteTable) -> list[str]:
    """Returns the problems of a table that is well-formed."""
    if name == "local":
        said = sorted(table.model_fields_set & ELSEWHERE.keys())
        return [
            f"local.{key}: is not said here, where this machine has its address alone; {ELSEWHERE[key]}" for key in said
        ]
    problems = [] if table.ssh else [f"{name}.ssh: is missing; it says how ssh reaches this machine"]
    # Programs there work in directories of their own, from which a relative path leads elsewhere.
    if not table.scratch.startswith("/"):
        problems.append(f"{name}.scratch = {table.scratch!r}: must begin with /")
    if "/" in table.posthaste and not table.posthaste.startswith("/"):
        problems.append(f"{name}.posthaste = {table.posthaste!r}: must begin with /, or be a name on PATH")
    return problems


def hosts_of(experiment: Experiment, hosts: dict[str, Host]) -> dict[str, Host]:
    """Returns the machines of an experiment's parts; this machine is always among them, since it controls the parts."""
    used = {"local"} | {place.host for place in experiment.placement.values()}
    return {name: host for name, host in hosts.items() if name in used}


@cache
def unprivileged_user(host: Host) -> str | None:
    """Returns the user as whom to run a server that refuses root; None when commands on the host do not run as root."""
    if run(host, ["id", "-u"]).strip() != "0":
        return None
    users = run(host, ["getent", "passwd"])
    names = {line.split(":", 1)[0] for line in users.splitlines()}
    return next((name for name in ("postgres", "nobody") if name in names), "nobody")
