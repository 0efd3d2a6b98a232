"""Every link between the project's own pages leads somewhere, and every page can be reached.

Offline: addresses of other sites are not asked. Anchors are made of headings as forges do it: lower case, spaces to
hyphens, other punctuation gone, a number behind those that repeat.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "README.md"
MAP = ROOT / "docs" / "architecture" / "files.md"

CHAPTERS = {
    "front": "The front, which both tiers have",
    "path": "The path, in the order of its files",
    "http": "HTTP",
    "queue": "Stores",
    "queue/embedded": "The embedded store",
    "queue/embedded/log": "The embedded store",
    "queue/postgres": "The store in PostgreSQL",
    "cache": "The cache tier",
    "cache/router": "The cache tier",
}
"""Folders of the server whose files each have their words in the architecture, and in which chapter. Folders that lie
beside these are named as a whole, or file by file as well."""


def tracked() -> list[Path]:
    """The pages that belong to the project."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted(ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists())


@cache
def tokens(page: Path) -> list[Token]:
    """A page, as its reader's renderer understands it."""
    return MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8"))


def links(page: Path) -> Iterator[str]:
    """Where a page points, pictures included."""
    for block in tokens(page):
        for token in block.children or []:
            target = token.attrGet("href") or token.attrGet("src")
            if target is not None:
                yield unquote(str(target))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The places of a page that a link may name."""
    found: set[str] = set()
    blocks = tokens(page)
    for heading, content in pairwise(blocks):
        if heading.type == "heading_open":
            title = "".join(part.content for part in content.children or [])
            name = plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            number = 0
            while name in found:
                number += 1
                name = f"{plain}-{number}"
            found.add(name)
    return frozenset(found)


def wrong(page: Path, link: str) -> str | None:
    """What is wrong with a link; None: nothing, or it leads to another site."""
    if re.match(r"[a-z]+:", link):
        return None
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"{link}: there is no {target.relative_to(ROOT)}"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{link}: {target.relative_to(ROOT)} has no heading for #{anchor}"
    return None


@pytest.mark.parametrize("page", tracked(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading that it has."""
    assert [found for link in links(page) if (found := wrong(page, link))] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    """A page that nothing leads to is not read."""
    reached: set[Path] = set()
    ahead = [INDEX]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if not re.match(r"[a-z]+:", link) and target.is_file():
                ahead.append(target)
            if target.is_dir():
                ahead += target.rglob("*.md")
    pages = {page for page in tracked() if page.is_relative_to(ROOT / "docs")}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - reached) == []


def test_every_link_between_the_pages_of_the_package_leads_somewhere() -> None:
    """The Debian package brings what its pages link to, in the places that links name."""
    package = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["package"]["metadata"]["deb"]
    doc = "usr/share/doc/posthaste/"
    brought: set[Path] = set()
    for source, target, _ in package["assets"]:
        found = [path for path in ROOT.glob(source) if path.is_file()] if target.startswith(doc) else []
        # What a pattern found keeps its place below the part of the pattern that is none.
        kept = source.partition("*")[0].rpartition("/")[0] if "*" in source else str(Path(source).parent)
        assert not found or Path(target.removeprefix(doc)) == Path(kept), source
        brought.update(found)
    folders = {folder for path in brought for folder in path.parents}
    missing = {
        f"{page.relative_to(ROOT)}: {link}"
        for page in brought
        if page.suffix == ".md"
        for link in links(page)
        if not re.match(r"[a-z]+:|#", link)
        and (page.parent / link.partition("#")[0]).resolve() not in brought | folders
    }
    assert sorted(missing) == []
    assert ROOT / "docs" / "README.md" in brought


def chapters() -> dict[str, str]:
    """The chapters of the architecture by their titles."""
    parts = re.split(r"^## (.+)$", MAP.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def unmapped(source: Path, told: dict[str, str]) -> bool:
    """Whether the architecture does not say what this file of the server does."""
    folder = source.parent.as_posix()
    if folder in CHAPTERS:
        names = [source.name]
        text = told[CHAPTERS[folder]]
    else:
        names = [source.name, f"{source.parent.name}/"]
        text = "".join(told.values())
    return not any(re.search(rf"`(\w+/)*{re.escape(name)}`", text) for name in names)


def test_the_architecture_says_where_everything_of_the_server_is() -> None:
    """Each file by its name, or its folder; what `mod.rs` and `lib.rs` hold is said of the whole."""
    below = ROOT / "crates" / "server" / "src"
    files = [file.relative_to(below) for file in below.rglob("*.rs")]
    product = [
        file for file in files if file.name not in {"mod.rs", "lib.rs", "tests.rs"} and "tests" not in file.parts
    ]
    told = chapters()
    assert len(product) > 200
    assert [str(file) for file in sorted(product) if unmapped(file, told)] == []
    assert unmapped(Path("http/no_such_file.rs"), told)


def test_the_checker_finds_what_is_wrong() -> None:
    """Or it would prove nothing."""
    assert wrong(INDEX, "nowhere.md") is not None
    assert wrong(INDEX, "glossary.md#nowhere") is not None
    assert wrong(INDEX, "glossary.md#measuring") is None
    assert wrong(INDEX, "https://example.org/nowhere") is None
