"""Tests edited, cut and foreign files: the answer is a sentence that names the file, never a traceback.

Each example takes a good file, breaks it in a realistic way, and gives it to the program as a user would.
FUZZ_EXAMPLES=n tries n of each kind instead of a few, and different ones each time (`make fuzz-lab`).
"""

import contextlib
import copy
import csv
import io
import json
import os
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from programs import ROOT, SMALL, program
from simulated import System, write_run

from posthaste_lab.cli import main
from posthaste_lab.experiments.description import load
from posthaste_lab.experiments.hosts import load_hosts, this_machine
from posthaste_lab.experiments.problems import BadExperiment

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
FEW = 15
pytestmark = [pytest.mark.timeout(0 if EXAMPLES else 600), pytest.mark.filterwarnings("ignore")]

# What stands where something else should, in JSON.
STRANGE = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    1e308,
    -0.0,
    "",
    "a",
    "NaN",
    "1e999",
    [],
    [1],
    {},
    {"a": 1},
    "\n\u2028\x00",
]
# And in tables.
CELLS = ["", "nan", "inf", "-1", "1e999", "a", '"', ",", "\x00", "9" * 40, "0x1f", " 1 "]


def tries(number: int) -> Callable[[Any], Any]:
    """Settings for so many examples, or for as many as are asked for."""
    return settings(
        max_examples=EXAMPLES or number,
        derandomize=not EXAMPLES,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def told(*arguments: object) -> str:
    """What the program says on stderr, which is nothing or lines of its own; it ends with a code of its own."""
    said, argv = io.StringIO(), sys.argv
    sys.argv = ["posthaste-lab", *map(str, arguments)]
    try:
        with (
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(io.StringIO()),
            pytest.raises(SystemExit) as end,
        ):
            main()
    finally:
        sys.argv = argv
    lines = said.getvalue().splitlines()
    assert end.value.code in (0, 1, 2), said.getvalue()
    assert all(line.startswith("posthaste-lab: ") for line in lines), said.getvalue()
    assert (end.value.code == 2) <= bool(lines)
    return said.getvalue()


def assert_told(read: Callable[[], object]) -> None:
    """It can be read, or all that is wrong is told, in a line each."""
    problems: list[str] = ["none"]
    try:
        read()
    except BadExperiment as error:
        problems = error.problems
    assert problems
    assert all(problem and "\n" not in problem for problem in problems), problems


# Ways to break things


@st.composite
def broken_bytes(draw: st.DrawFn, good: bytes) -> bytes:
    """Bytes of which some are others, missing, or more."""
    at = draw(st.integers(0, len(good)))
    removed = draw(st.sampled_from([0, 0, 1, 4, 100, len(good)]))
    put = draw(
        st.one_of(st.just(b""), st.binary(max_size=8), st.sampled_from([b"\n", b"\xff\xfe", b"{", b'"', b"[[", b","]))
    )
    return good[:at] + put + good[at + removed :]


def places(value: object, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(found for key, each in inner for found in places(each, (*way, key)))]


@st.composite
def broken_value(draw: st.DrawFn, good: object) -> object:
    """A value of which one inner one is missing, another, or there twice."""
    found: Any = copy.deepcopy(good)
    way = draw(st.sampled_from(places(found)))
    if not way:
        return draw(st.sampled_from(STRANGE))
    parent = found
    for key in way[:-1]:
        parent = parent[key]
    match draw(st.sampled_from(["other", "other", "gone", "more"])):
        case "other":
            parent[way[-1]] = copy.deepcopy(draw(st.sampled_from(STRANGE)))
        case "gone":
            del parent[way[-1]]
        case "more" if isinstance(parent, list):
            parent.insert(0, copy.deepcopy(parent[-1]))
        case _:
            parent["another"] = copy.deepcopy(draw(st.sampled_from(STRANGE)))
    return found


@st.composite
def broken_table(draw: st.DrawFn, good: str) -> str:
    """A CSV of which a cell is another, or a row or a column is missing or there twice."""
    rows = list(csv.reader(io.StringIO(good)))
    row = draw(st.integers(0, len(rows) - 1))
    column = draw(st.integers(0, len(rows[row]) - 1))
    match draw(st.sampled_from(["cell", "cell", "cell", "row", "column", "twice"])):
        case "cell":
            rows[row][column] = draw(st.sampled_from(CELLS))
        case "row":
            del rows[row]
        case "column":
            rows = [each[:column] + each[column + 1 :] for each in rows]
        case _:
            rows.insert(row, rows[row])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def toml(value: object) -> str:
    """A value as TOML, in one line; what TOML has no word for becomes a text."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case dict():
            return "{ " + ", ".join(f"{json.dumps(str(key))} = {toml(each)}" for key, each in value.items()) + " }"
        case list():
            return "[" + ", ".join(toml(each) for each in value) + "]"
        case _:
            return json.dumps("" if value is None else str(value)).replace("\\u007f", "")


def document(value: object) -> str:
    """A table as a TOML file."""
    if not isinstance(value, dict):
        return toml(value)
    return "".join(f"{json.dumps(str(key))} = {toml(each)}\n" for key, each in value.items())


def broken_file(good: bytes, name: str) -> st.SearchStrategy[bytes]:
    """A file broken in its bytes, or in what they mean."""
    raw = broken_bytes(good)
    if name.endswith(".json"):
        return st.one_of(raw, broken_value(json.loads(good)).map(lambda value: json.dumps(value).encode()))
    if name.endswith(".toml"):
        value = tomllib.loads(good.decode())
        return st.one_of(raw, broken_value(value).map(lambda value: document(value).encode()))
    if name.endswith(".csv"):
        return st.one_of(raw, broken_table(good.decode()).map(str.encode))
    return raw


# What is read


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all that is read of one, and a model fitted to it."""
    directory = write_run(tmp_path_factory.mktemp("good") / "run", System(), [2, 4], repetitions=1, requests=200)
    told("fit", directory)
    for trial in directory.glob("trials/*"):
        rows = "start_s,duration_ms,source,kind\n0.0,1.5,tier,checkpoint\n"
        (trial / "events.csv").write_text(rows, "utf-8")
    return directory


def files_of(directory: Path) -> list[str]:
    """The files of its first trial, and of itself."""
    found = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    return [name for name in found if not name.startswith("trials/002")]


@given(data=st.data())
@tries(FEW * 4)
def test_a_broken_run(good_run: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Every file of a run, and every command that reads some of them."""
    directory = tmp_path / "run"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(good_run, directory)
    name = data.draw(st.sampled_from(files_of(good_run)))
    broken = data.draw(broken_file((good_run / name).read_bytes(), name))
    (directory / name).write_bytes(broken)
    command = data.draw(st.sampled_from(["fit", "predict", "validate", "requests"]))
    match command:
        case "predict":
            told("predict", directory, "--clients", "2,4")
        case "requests":
            told("requests", directory / "trials" / "001-r1" / "tier" / "record")
        case _:
            told(command, directory)


@given(data=st.data())
@tries(3)
def test_a_report_of_a_broken_run(good_run: Path, tmp_path: Path, data: st.DataObject) -> None:
    """The same, with charts: few, for they take long."""
    directory = tmp_path / "run"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(good_run, directory)
    name = data.draw(st.sampled_from(files_of(good_run)))
    (directory / name).write_bytes(data.draw(broken_file((good_run / name).read_bytes(), name)))
    told("report", directory, "--out", tmp_path / "report")


@given(broken=broken_file(SMALL.encode(), "experiment.toml"), quick=st.booleans())
@example(broken=b"[[" * 5000, quick=False)
@tries(FEW * 4)
def test_a_broken_experiment(tmp_path: Path, broken: bytes, quick: bool) -> None:
    """Its description is understood or refused."""
    path = tmp_path / "experiment.toml"
    path.write_bytes(broken)

    def understood() -> None:
        described = load(path)
        if quick:
            described.quickly()

    assert_told(understood)


@pytest.mark.parametrize("file", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
@given(data=st.data())
@tries(3)
def test_a_broken_question(tmp_path: Path, file: Path, data: st.DataObject) -> None:
    """The same of all experiments there are, as their user runs them, but without running anything."""
    path = tmp_path / "experiment.toml"
    path.write_bytes(data.draw(broken_file(file.read_bytes(), file.name)))
    told("run", path, "--dry-run", "--posthaste", program(), "--out", tmp_path / "out")


HOSTS = """
[local]
address = "10.0.0.1"
[far]
ssh = "me@far"
address = "10.0.0.2"
posthaste = "/opt/posthaste"
options = ["-p", "22"]
"""


@given(broken=broken_file(HOSTS.encode(), "hosts.toml"))
@tries(FEW * 2)
def test_broken_hosts(tmp_path: Path, broken: bytes) -> None:
    """Other machines."""
    path = tmp_path / "hosts.toml"
    path.write_bytes(broken)
    assert_told(lambda: load_hosts(path, this_machine(Path("posthaste"))))


FIGURES = """clients,model,throughput_rps,response_time_ms,think_time_ms,service_time_ms,servers,utilization
1,M/M/1,99.5,10.05,0,10,1,0.995
8,M/M/2,198.1,40.1,0.5,10,2,0.99
64,,199.9,320,1,10,2,0.9995
"""
SIGNS = "A,B,y1,y2\n-1,-1,10,11\n1,-1,20,21.5\n-1,1,12,12.5\n1,1,31,30\n"


@given(broken=broken_file(FIGURES.encode(), "figures.csv"))
@tries(FEW * 2)
def test_a_broken_table(tmp_path: Path, broken: bytes) -> None:
    """Of figures that are to be audited."""
    path = tmp_path / "figures.csv"
    path.write_bytes(broken)
    told("audit", path)


@given(broken=broken_file(SIGNS.encode(), "signs.csv"), transform=st.sampled_from(["none", "log"]))
@tries(FEW * 2)
def test_a_broken_design(tmp_path: Path, broken: bytes, transform: str) -> None:
    """Of signs and responses."""
    path = tmp_path / "signs.csv"
    path.write_bytes(broken)
    told("factorial", path, "--transform", transform)
