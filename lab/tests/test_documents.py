"""The code in the documents runs. Times are shortened; nothing else is changed."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ROOT, here, lab, run_through

from posthaste_lab.experiments import load
from posthaste_lab.experiments.part_problems import check_parts

SHORTER = {'duration = "4s"': 'duration = "500ms"', 'head = "800ms", tail = "200ms"': 'head = "100ms", tail = "50ms"'}
SHORTER |= {"repetitions = 3": "repetitions = 1", "levels = [1, 4, 16, 64]": "levels = [1, 4, 64]"}


def blocks(document: str, language: str) -> list[str]:
    """The pieces of code of one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs" / document).read_text("utf-8"), re.M | re.S)


def test_the_tutorial_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files, its commands from the first dry run on, its Python."""
    monkeypatch.chdir(tmp_path)
    for text in blocks("tutorial.md", "toml"):
        name = text.split("\n", 1)[0].removeprefix("# ")
        for long, short in SHORTER.items():
            assert long in text or ("levels" in long and name != "first.toml")
            text = text.replace(long, short)
        Path(name).write_text(text, "utf-8")
    _, *commands = blocks("tutorial.md", "sh")
    for line in "".join(commands).splitlines():
        called, *arguments = line.split()
        assert called == "posthaste-lab"
        if arguments[0] == "run" and "--dry-run" not in arguments:
            _, path, option, out, *place = arguments
            assert option == "--out"
            assert place == ["--scratch", "."]  # the default may be in memory, where no disk is measured
            run_through(Path(path), Path(out), *place)
        else:
            lab(*arguments)
    assert "A model of it" in Path("first", "report", "index.html").read_text("utf-8")
    for out in ("first", "second"):
        page = Path(out, "report", "index.html").read_text("utf-8")
        assert ("Which factors matter" in page) == (out == "second")
        assert "Where the time goes" in page
    code = "\n".join(blocks("tutorial.md", "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("clients: predicted") == 2
    assert done.stdout.count("clients:") == 2 + 3
    assert "a disk that serves one at a time would do" in done.stdout


def test_the_readme_repeats_the_performance_page() -> None:
    """Its figure and the spread of it are those of the last rounds."""
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    row = r"^\| posthaste / Redis list, pairs, connections 64, depth 1 \|.*?\| ([\d.]+) \[([\d.]+)\.\.([\d.]+)\] \|"
    (measured,) = re.findall(row, page, re.M)
    told = re.findall(
        r"([\d.]+) times at 64 connections \(([\d.]+) to ([\d.]+) in (\w+) rounds",
        (ROOT / "README.md").read_text("utf-8"),
    )
    assert told == [(*measured, "five")]
    assert re.search(r"`cargo bench --bench side-by-side -- .* durable [^`]*`, five rounds,", page)


def test_the_reference_shows_a_file_that_runs(tmp_path: Path) -> None:
    """Both versions of it."""
    text = next(text for text in blocks("reference/experiments.md", "toml") if text.startswith("# size.toml"))
    path = tmp_path / "size.toml"
    path.write_text(text, "utf-8")
    experiment = load(path)
    assert check_parts(experiment, here()) == []
    assert check_parts(experiment.quickly(), here()) == []


def test_the_reference_names_every_key_of_the_file() -> None:
    """And every kind of part."""
    from posthaste_lab.experiments.description import Experiment
    from posthaste_lab.experiments.kinds import kinds
    from posthaste_lab.experiments.tables import Claim, Factor, Quick, RunRules

    reference = (ROOT / "docs" / "reference" / "experiments.md").read_text("utf-8")
    for table in (Experiment, RunRules, Factor, Claim, Quick):
        for key in table.model_fields:
            assert re.search(rf"`[a-zA-Z._*]*{key}[a-zA-Z._*]*`|`{key}", reference), key
    for kind in kinds():
        assert f"`{kind}`" in reference


RESULTS = sorted((ROOT / "experiments" / "results").glob("*.md"))


@pytest.mark.parametrize("page", RESULTS, ids=lambda page: page.stem)
def test_a_page_of_results_names_the_file_it_was_measured_with(page: Path) -> None:
    """Where the experiment has been changed since, it says so; and it claims nothing that it cannot know."""
    text = page.read_text("utf-8")
    held = hashlib.sha256((ROOT / "experiments" / f"{page.stem}.toml").read_bytes()).hexdigest()[:16]
    (told,) = re.findall(r"Experiment file: SHA-256 ([0-9a-f]{16})…(.*)", text)
    assert told == (held, "") or (told[0] != held and told[1] == ", an older version of the file.")
    if "none without repetitions" in text:
        assert "| error |  |  | unknown |" in text
    assert not re.search(r"^\| [^ |]+:[^ |]+ \|.*high is", text, re.M), "of an interaction"
    assert "from 0 ms to 0 ms" not in text
