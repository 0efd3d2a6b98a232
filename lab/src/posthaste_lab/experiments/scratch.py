"""Scratch directories of a trial on its machines, noted in the trial's own directory until they are removed.

If the laboratory is killed, its programs end by themselves, but their data stays. When the trial is run again, the note
tells what to remove.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from posthaste_lab.experiments.hosts import PREFIX, Host
from posthaste_lab.experiments.journal import OUT, write_json
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.files import read_json, reading

NOTE = "scratch.json"


@dataclass(frozen=True)
class Scratch:
    """The scratch directories of the trial whose own directory is `trial`."""

    trial: Path

    def make(self, stack: ExitStack, host: Host) -> str:
        """Makes a new empty directory on a machine, removed when `stack` unwinds."""
        directory = host.make_directory()
        stack.callback(self._remove, host, directory)
        self._note([*self.noted(), (host.name, directory)])
        return directory

    def noted(self) -> list[tuple[str, str]]:
        """Returns the names of machines and the directories on them that were made and not removed."""
        path = self.trial / NOTE
        if not path.exists():
            return []
        held = read_json(path, OUT)
        with reading(path, OUT):
            return [(str(host), str(directory)) for host, directory in held]

    def clear(self, hosts: Mapping[str, Host]) -> list[str]:
        """Removes what a killed laboratory has left; returns a sentence for each directory that could not be."""
        stays = []
        for name, directory in self.noted():
            host = hosts.get(name)
            try:
                if host is None:
                    raise RunFailed("this machine is not among those of the run")
                # Only directories with our prefix are ever removed, whatever the note contains.
                if not PurePosixPath(directory).name.startswith(PREFIX):
                    raise RunFailed("it is none of ours")
                self._remove(host, directory)
            except RunFailed as failure:
                stays.append(f"{directory} on {name} stays: {failure}")
        return stays

    def _remove(self, host: Host, directory: str) -> None:
        host.remove_directory(directory)
        self._note([each for each in self.noted() if each != (host.name, directory)])

    def _note(self, directories: list[tuple[str, str]]) -> None:
        if directories:
            write_json(self.trial / NOTE, directories)
        else:
            (self.trial / NOTE).unlink(missing_ok=True)
