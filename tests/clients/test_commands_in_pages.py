"""The commands that pages and packaging show are ones that the program understands.

Each is asked for its help with the words before its first option; every long option must stand in that help.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tier import ROOT, program

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGING = sorted([*(ROOT / "packaging").rglob("*.service"), *(ROOT / "deploy").rglob("*.yaml")])
COMMANDS = {"queue", "cache", "bench", "admin", "migrate", "lab", "man", "completions", "reference"}
# What ends a command on a line of a shell.
END = {"|", "||", "&&", "&", ";", "#", "<", ">", "2>", ">>", "do", "done"}


def lines(page: Path) -> Iterator[str]:
    """The lines of a page's shells; those that go on in the next are one."""
    for language, code in re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
        if language in ("sh", "console"):
            yield from code.replace("\\\n", " ").splitlines()


def commands(page: Path) -> Iterator[list[str]]:
    """The words behind `posthaste` in each of them."""
    for line in lines(page):
        try:
            words = shlex.split(line.removeprefix("$ ").replace(";", " ; "), comments=True)
        except ValueError:
            continue  # no command: what a program answered
        for at, word in enumerate(words):
            rest = words[at + 1 :]
            if Path(word).name == "posthaste" and rest and rest[0] in COMMANDS:
                end = next((end for end, word in enumerate(rest) if word in END), len(rest))
                yield rest[:end]


def packaged(path: Path) -> Iterator[list[str]]:
    """The commands of a unit, or of a container's arguments."""
    text = path.read_text("utf-8")
    yield from (shlex.split(line)[1:] for line in re.findall(r"^ExecStart=(.*)$", text, re.M))
    for words in re.findall(r"(?:command|args):((?:\n +- (?:queue|cache|--\S+))+)", text):
        yield words.replace("- ", "").split()


@cache
def known(words: tuple[str, ...]) -> set[str]:
    """The options in the help of a command."""
    asked = [str(program()), *words, "--help"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
    return (
        set(re.findall(r"--[a-z][a-z-]*", said))
        | set(re.findall(r"^ +(-[a-zA-Z]),", said, re.M))
        | {"--version"}
    )


def check(found: list[list[str]]) -> None:
    """Every option of these commands is known."""
    for words in found:
        if words[0] == "lab":
            continue  # the laboratory's own
        first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
        asked = {word.partition("=")[0] for word in words[first:] if word.startswith("--")}
        missing = asked - known(tuple(words[:first]))
        assert not missing, f"posthaste {' '.join(words)}: {', '.join(sorted(missing))} is not in its help"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_are_understood(page: Path) -> None:
    """Words and options."""
    check(list(commands(page)))


@pytest.mark.parametrize("path", PACKAGING, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_packaging_are_understood(path: Path) -> None:
    """Words and options."""
    check(list(packaged(path)))


def test_secrets_are_made_for_their_owner_alone() -> None:
    """Shell by shell: what is random is written where nobody else may read it."""
    shells = [
        code
        for page in PAGES
        for code in re.findall(r"^```sh\n.*?^```$", page.read_text("utf-8"), re.M | re.S)
    ]
    making = [code for code in shells if "openssl rand" in code]
    assert len(making) >= 4
    for code in making:
        assert "umask 077" in code.partition("openssl rand")[0], code


def test_there_are_commands_to_check() -> None:
    """Or nothing would have been checked."""
    assert len(list(commands(ROOT / "docs" / "guides" / "scale-out.md"))) >= 3
    assert sum(len(list(packaged(path))) for path in PACKAGING) >= 5
    with pytest.raises(AssertionError, match="--nonsense"):
        check([["queue", "--nonsense"]])
