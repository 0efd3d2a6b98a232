"""The code in the documents, run: what a page shows is what happens."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if re.search(r"```python\n[^`]*posthaste_lab", page.read_text("utf-8"))
    and page.name != "tutorial.md"  # its code needs what its commands leave: test_documents.py runs both
)


def test_there_are_pages_to_run() -> None:
    """Or the next test would pass without running anything."""
    names = {page.name for page in PAGES}
    assert {"models.md", "lab.md"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, in one session, as a reader would type it; assertions in it hold."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    session: dict[str, object] = {}
    for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        lines_above = "\n" * text[: block.start(1)].count("\n")  # so that a failure names the page's own line
        exec(compile(lines_above + block[1], str(page), "exec"), session)  # noqa: S102 - our own pages
