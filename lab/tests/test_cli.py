"""Tests the program as users see it: what it prints, and its error messages."""

import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from posthaste_lab import queueing
from posthaste_lab.cli import app, main
from posthaste_lab.cli.models import MODELS, NO_UNIT, UNITS, _parameters
from posthaste_lab.errors import NumericalError

DATA = Path(__file__).parent / "data"


def run(*arguments: str, code: int = 0) -> str:
    """What the program prints, if it ends with this code."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """The one line on stderr of a wrong use."""
    monkeypatch.setattr(sys, "argv", ["posthaste-lab", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_a_plus_before_a_level_changes_nothing(tmp_path: Path) -> None:
    """A column that has it in some rows is a factor like the others."""
    runs = tmp_path / "runs.csv"
    runs.write_text("cpu,disk,y\n-1,-1,10\n+1,-1,12\n-1,+1,20\n1,1,26\n", "utf-8")
    printed = run("factorial", str(runs))
    assert "factors cpu, disk;" in printed
    assert run("factorial", str(runs), "--factors", "cpu,disk") == printed
    assert "each interval holds by itself" not in printed, "without repetitions there are none"


def test_next_to_saturation_there_are_means_and_percentiles() -> None:
    """Of M/G/1, too, whose percentiles are of a transform."""
    printed = run("models", "mg1", "arrival_rate=0.9999999", "mean_service_time=1", "scv=1")
    lines = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.strip()}
    assert lines["mean_response"] == ["1.000e+07", "s"]
    assert lines["response_percentile(99)"] == ["4.605e+07", "s"]


def test_rows_without_a_cell_are_none(tmp_path: Path) -> None:
    """Empty lines at the end, and the commas that a spreadsheet leaves there."""
    runs, padded = tmp_path / "runs.csv", tmp_path / "padded.csv"
    text = "cpu,disk,y\n-1,-1,10\n1,-1,12\n-1,1,20\n1,1,26\n"
    runs.write_text(text, "utf-8")
    for end in ("\n\n", ",,\n , ,\n"):
        padded.write_text(text + end, "utf-8")
        assert run("factorial", str(padded)) == run("factorial", str(runs))


def test_names_in_brackets_are_no_markup(tmp_path: Path) -> None:
    """Those of a file's columns, in sentences and in tables."""
    runs = tmp_path / "runs.csv"
    runs.write_text("[bold],[/x],y\n-1,-1,10\n1,-1,12\n-1,1,20\n1,1,26\n", "utf-8")
    printed = run("factorial", str(runs))
    assert "factors [bold], [/x];" in printed
    assert {"[bold]", "[/x]", "[bold]:[/x]"} <= {line.split()[0] for line in printed.splitlines() if line.strip()}


def test_repetitions_are_blocks_only_where_that_is_said(tmp_path: Path) -> None:
    """Then what they do has a line of its own; nothing else tells rows of one kind from the other."""
    runs = tmp_path / "runs.csv"
    runs.write_text("cpu,y1,y2,y3\n-1,10,20,33\n1,12,22,35\n", "utf-8")
    assert "repetitions " not in run("factorial", str(runs))
    lines = {
        line.split()[0]: line.split() for line in run("factorial", str(runs), "--blocks").splitlines() if line.strip()
    }
    assert lines["cpu"][4] == "yes"
    assert lines["error"][-1] == "0.00"
    assert float(lines["repetitions"][-1]) > 90


def test_a_row_is_of_the_block_that_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is missing does not put those after it into other blocks; what is not whole is not looked at."""
    runs = tmp_path / "runs.csv"
    drift = {1: 0, 2: 100, 3: 200}
    rows = [
        f"{cpu},{r},{10 + cpu + drift[r]}" for cpu in (-1, 1) for r in (1, 2, 3) if (cpu, r) not in {(-1, 1), (1, 3)}
    ]
    runs.write_text("cpu,repetition,y\n" + "\n".join(rows), "utf-8")
    said = run("factorial", str(runs), "--blocks")
    assert "note: 2 runs of repetitions that lack others are not looked at" in said
    lines = {line.split()[0]: line.split() for line in said.splitlines() if line.strip()}
    assert lines["cpu"][1] == "1", "within repetition 2, and not -49 or so between two"
    runs.write_text("cpu,repetition,y\n-1,1,10\n-1,1,11\n1,1,12\n1,2,13\n", "utf-8")
    assert "once for each combination" in refused(capsys, monkeypatch, "factorial", str(runs), "--blocks")
    runs.write_text("cpu,repetition,y\n-1,1,10\n-1,2,11\n1,3,12\n1,4,13\n", "utf-8")
    assert "['1', '2', '3', '4']: must hold one in which every" in refused(
        capsys, monkeypatch, "factorial", str(runs), "--blocks"
    )


def test_models_are_listed_with_their_questions() -> None:
    """Every model of the package that answers alone."""
    listed = run("models")
    for name in ("mm1", "mmmk", "mg1", "solve", "bounds", "solve_multiclass", "machine_repair", "simulate"):
        assert name in listed


def test_a_model_takes_the_arguments_that_are_listed() -> None:
    """None that must be given is hidden, as the path of batch_server was; those with a default may be."""
    for name, entry in MODELS.items():
        must = {p.name for p in inspect.signature(entry.call).parameters.values() if p.default is p.empty}
        assert must <= set(_parameters(entry.call).split(", ")), name


def test_a_terminal_without_such_letters_gets_the_figures_all_the_same() -> None:
    """Where it knows ASCII only: "?" stands for what it cannot show."""
    program = [sys.executable, "-m", "posthaste_lab", "models", "mm1", "arrival_rate=80", "service_rate=100"]
    ended = subprocess.run(program, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True)
    lines = [line.replace("|", " ").split() for line in ended.stdout.decode("ascii").splitlines()]
    assert ["var_response", "0.0025", "s?"] in lines


@pytest.mark.parametrize("command", sorted(get_group(app).commands))
def test_the_help_of_every_command_shows_an_example(command: str) -> None:
    """Which is what most readers look for."""
    assert "posthaste-lab " in run(command, "--help").split("Options")[0].partition("Usage")[2].partition("\n")[2]


def test_a_model_is_computed_from_the_command_line() -> None:
    """An open queue, a probability, networks and bounds."""
    assert "0.042794" in run("models", "mmm", "arrival_rate=80", "service_rate=30", "servers=4")
    assert run("models", "erlang_c", "offered_load=7", "servers=10").strip() == "0.22173"
    closed = run("models", "solve", "population=140", "think_time=20", "db=2.5:12", "net=0.001:delay")
    assert "4.799" in closed
    assert "bottleneck: db" in closed
    assert "arrivals can grow 2 times" in run("models", "open_network", "arrival_rate=100", "cpu=0.005")
    assert "meet at 3" in run("models", "bounds", "population=50", "a=0.1", "b=0.2:3")


@pytest.mark.parametrize(
    "solved",
    [
        queueing.mmmk(1, 2, 1, 3),
        queueing.machine_repair(3, 1, 1, 2),
        queueing.batch_server(3, 0.1, 0.1, path_time=0.1),
    ],
)
def test_every_figure_of_a_model_has_a_unit(solved: object) -> None:
    """Also one that will be added; times are in seconds, and their variances in seconds squared."""
    figures = [each.name for each in fields(solved)]  # type: ignore[arg-type]
    units = {name: UNITS[name] for name in figures if isinstance(getattr(solved, name), float | int)}
    for words, unit in (
        (r"(mean|var)_(response|wait)|.*_time", r"s²?"),
        (r".*_rate|throughput", "1/s"),
        ("var_.*", f"s²|{NO_UNIT}"),
    ):
        assert all(re.fullmatch(unit, units[name]) for name in units if re.fullmatch(words, name))


def test_a_model_is_printed_with_its_units() -> None:
    """Beside each figure; a number alone has it behind."""
    lines = [line.split() for line in run("models", "mm1", "arrival_rate=80", "service_rate=100").splitlines()]
    for line in (
        ["figure", "value", "unit"],
        ["arrival_rate", "80", "1/s"],
        ["utilization", "0.8", NO_UNIT],
        ["mean_response", "0.05", "s"],
        ["var_response", "0.0025", "s²"],
        ["var_jobs", "20", NO_UNIT],
        ["response_percentile(95)", "0.14979", "s"],
    ):
        assert line in lines
    assert run("models", "interactive_response_time", "population=10", "throughput=4") == "2.5 s\n"
    assert run("models", "erlang_b", "offered_load=1", "servers=1") == "0.5\n"


def test_effects_of_a_file() -> None:
    """The sign table of a report: which effects differ from zero, and why to add."""
    printed = run("factorial", str(DATA / "sign_table_write_only.csv"), "--response", "tp1_rps,tp2_rps,tp3_rps")
    lines = {line.split()[0]: line for line in printed.splitlines() if line.split()}
    assert "5618.5" in lines["W"]
    assert " yes " in lines["W"]
    assert " no " in lines["M:S"]
    assert "model: additive" in printed
    assert "each interval holds by itself: of effects that do nothing, one in 20 differs from 0 all the same" in printed


def test_levels_may_be_any_two_values_and_repetitions_rows(tmp_path: Path) -> None:
    """Runs as they were made, one a row; the smaller value is the low level."""
    runs = tmp_path / "runs.csv"
    rows = [f"{mw},{c},{1000 * mw + 10 * c + r}" for r in (0, 1, 2) for mw in (2, 1) for c in (16, 8)]
    runs.write_text("middlewares,connections,rps\n" + "\n".join(rows))
    picture = tmp_path / "residuals.svg"
    printed = run("factorial", str(runs), "--factors", "middlewares,connections", "--plot", str(picture))
    lines = {line.split()[0]: line.split() for line in printed.splitlines() if line.split()}
    assert lines["middlewares"][1] == "500"
    assert lines["connections"][1] == "40"
    assert picture.stat().st_size > 1000
    logged = run("factorial", str(runs), "--factors", "middlewares,connections", "--transform", "log")
    assert "transform log" in logged
    assert "factors middlewares (1 is low, 2 is high), connections (8 is low, 16 is high)" in logged


def test_words_say_which_level_is_the_low_one(tmp_path: Path) -> None:
    """The first in the alphabet, which is not the first in the mind."""
    runs = tmp_path / "runs.csv"
    runs.write_text("size,rps\nsmall,10\nlarge,20\nsmall,11\nlarge,21\n", "utf-8")
    assert "factors size (large is low, small is high)" in run("factorial", str(runs), "--factors", "size")
    runs.write_text("size,rps\n-1,10\n1,20\n", "utf-8")
    assert "factors size;" in run("factorial", str(runs))


def test_tables_may_have_spaces_around_what_they_hold(tmp_path: Path) -> None:
    """As whoever types one writes it."""
    runs = tmp_path / "runs.csv"
    runs.write_text("a, b, y1, y2\n-1, -1, 1, 1\n 1, -1, 3, 3\n-1,  1, 5, 5\n 1,  1, 7, 7\n")
    lines = {line.split()[0]: line.split() for line in run("factorial", str(runs)).splitlines() if line.split()}
    assert (lines["a"][1], lines["b"][1]) == ("1", "2")


@pytest.mark.parametrize(
    ("columns", "are_repetitions"),
    [
        ("y1,y2,y3", True),
        ("y2,y0,y1", True),
        ("of_2_ms_1,of_2_ms_2,of_2_ms_3", True),
        ("p50_ms,p90_ms,p99_ms", False),
        ("y2,y3,y4", False),
        ("p50_ms1,p50_ms2,p99_ms1", False),
    ],
)
def test_repetitions_count_up(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    columns: str,
    *,
    are_repetitions: bool,
) -> None:
    """Percentiles differ by a number alone, and have no error in common; whoever means it names them."""
    runs = tmp_path / "runs.csv"
    runs.write_text(f"a,{columns}\n-1,1,2,4\n1,3,5,9\n", "utf-8")
    said = f"response {columns.replace(',', ', ')};"
    if are_repetitions:
        assert said in run("factorial", str(runs))
    else:
        assert "holds several responses" in refused(capsys, monkeypatch, "factorial", str(runs))
        assert said in run("factorial", str(runs), "--response", columns)


@pytest.mark.parametrize(
    ("cell", "arguments", "said"),
    [
        ("", [], "--response = 'y2': must be a figure in every row, and row 4 holds nothing"),
        ("x", [], "--response = 'y2': must be a figure in every row, and row 4 holds 'x'"),
        ("7", ["--response", "y1,y1"], "named once"),
        ("7", ["--response", "y1,a"], "beside the factors"),
    ],
)
def test_a_repetition_with_a_hole_is_not_left_out_in_silence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cell: str,
    arguments: list[str],
    said: str,
) -> None:
    """Nor is one counted twice, or a factor taken for one."""
    runs = tmp_path / "runs.csv"
    runs.write_text(f"a,b,y1,y2,y3\n-1,-1,1,1,1\n1,-1,3,3,3\n-1,1,5,5,5\n1,1,7,{cell},7\n")
    assert said in refused(capsys, monkeypatch, "factorial", str(runs), *arguments)


def test_an_audit_ends_with_1_when_it_found_an_error() -> None:
    """With the row as a reader counts them, and how much was checked."""
    assert "4 errors, 2 warnings" in run("audit", str(DATA / "bottleneck.csv"), code=1)
    assert "0 errors, 0 warnings" in run("audit", str(DATA / "interactive_13.csv"))
    assert "2 warnings" in run("audit", str(DATA / "maximum_points.csv"))


def test_the_exit_code_reaches_the_shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """1 for an audit with errors; 0 for help, which is what no arguments give."""
    for arguments, code in ((["audit", str(DATA / "bottleneck.csv")], 1), ([], 0), (["--version"], 0)):
        monkeypatch.setattr(sys, "argv", ["posthaste-lab", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == code
        assert capsys.readouterr().err == ""


def test_an_audit_takes_units_for_names_without(tmp_path: Path) -> None:
    """In the unit that is said, a law holds."""
    runs = tmp_path / "runs.csv"
    runs.write_text("clients,throughput,response_time\n32,4000,8\n")
    assert "1 row, laws applied 1 time: 1 error, 0 warnings" in run("audit", str(runs), code=1)
    assert "0 errors" in run("audit", str(runs), "--unit", "response_time=ms")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no column was recognized"),
        ("clients,throughput\n32,4600\n", "no law applies to clients, throughput alone"),
        ("clients;throughput;response_time\n32;4600;0.00695\n", "separated by semicolons"),
    ],
)
def test_an_audit_that_checked_nothing_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, said: str
) -> None:
    """With exit code 2: a script must not take it for a table without mistakes."""
    runs = tmp_path / "runs.csv"
    runs.write_text(text, "utf-8")
    assert said in refused(capsys, monkeypatch, "audit", str(runs))


@pytest.mark.parametrize("cell", ['"4,600"', "n/a", "4600 rps"])
def test_an_audit_does_not_pass_over_what_it_cannot_read(tmp_path: Path, cell: str) -> None:
    """A figure that is no number was not checked; an empty cell was not measured."""
    runs = tmp_path / "runs.csv"
    runs.write_text(f"clients,throughput,response_time\n32,4600,0.00695\n32,{cell},0.00695\n", "utf-8")
    said = run("audit", str(runs), code=1)
    assert f'throughput is "{cell.strip(chr(34))}", which is no number' in said
    assert "1 error," in said
    runs.write_text("clients,throughput,response_time\n32,4600,0.00695\n32,,0.00695\n64,NaN,0.00695\n", "utf-8")
    assert "0 errors" in run("audit", str(runs))


def test_an_audit_reads_headings_as_people_write_them(tmp_path: Path) -> None:
    """With capitals, spaces, and units in brackets."""
    runs = tmp_path / "runs.csv"
    for heading in ("Clients,Throughput (req/s),Response Time (ms)", "clients,tp [1/s],mean response time (msec)"):
        runs.write_text(f"{heading}\n32,4600,10\n", "utf-8")
        assert "interactive response time law" in run("audit", str(runs), code=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["models", "mm1", "arrival_rate=5", "service_rate=4"], "arrival_rate = 5: needs a utilization of 1.25"),
        (["models", "mm1", "arrival_rate=5"], "service_rate"),
        (["models", "mm1", "arrival_rate=fast", "service_rate=4"], "arrival_rate = 'fast'"),
        (["models", "mm1", "speed=5"], "'speed'"),
        (["models", "mm7"], "'mm7'"),
        (["models", "simulate"], "from Python"),
        (["models", "mm1", "5"], "arrival_rate=80"),
        (["models", "mm1", "arrival_rate=0", "service_rate=1e-200"], "must lie between 1e-50 and 1e+50"),
        (["audit", "nowhere.csv"], "nowhere.csv"),
        (["audit"], "FILE.csv"),
        (["guess"], "guess"),
        (["factorial", "x.csv", "--transform", "sqrt"], "'none', 'log', 'reciprocal'"),
        (["factorial", "x.csv", "--confidence", "sure"], "--confidence"),
        (["factorial", str(DATA / "sign_table_write_only.csv")], "several responses"),
        (["factorial", str(DATA / "interactive_13.csv")], "--factors"),
        (
            ["factorial", str(DATA / "interactive_13.csv"), "--factors", "clients", "--response", "r_law_ms"],
            "two levels",
        ),
        (["factorial", str(DATA / "interactive_13.csv"), "--factors", "users"], "'users'"),
        (["audit", str(DATA / "bottleneck.csv"), "--unit", "x"], "response_time=ms"),
        (["audit", str(DATA / "interactive_13.csv"), "--unit", "respons_time=ms"], "must be one of the columns"),
        (["audit", str(DATA / "interactive_13.csv"), "--tolerance", "-1"], "tolerance = -1.0"),
        (["models", "mm1", "arrival_rate=1", "arrival_rate=2", "service_rate=3"], "is given twice, first as 1"),
        (["models", "solve", "population=9", "thinktime=1", "db=1"], "looks like think_time: a station must"),
        (["models", "solve", "population=10", "db=1:2.5"], "servers of db = 2.5: must be a whole number"),
        (["models", "batch_server", "population=2", "batch_time=1", "request_time=1", "bends=3"], "'bends'"),
        (["models", "solve", f"population={10**8}", "db=1"], "must be at most 1,000,000, since time and memory grow"),
        (
            ["models", "solve", "population=30000", "db=1:8"],
            "must be at most 20,000, since time and memory grow with it",
        ),
        (["models", "solve", "population=30000", "db=1:8"], "method=schweitzer takes more"),
        (["models", "bounds", f"population={10**8}", "db=1:8"], "must be at most 1,000,000"),
        (["models", "batch_server", f"population={10**6}", "batch_time=1", "request_time=1"], "at most 10,000"),
        (["models", "batch_pool", f"population={10**9}", "servers=2", "batch_time=1", "request_time=1"], "10,000"),
        (
            ["models", "batch_pool", "population=2", "servers=2.5", "batch_time=1", "request_time=1"],
            "servers = 2.5: must be a whole number",
        ),
        (["models", "machine_repair", f"machines={10**9}", "repairers=1", "failure_rate=1", "repair_rate=1"], "mmm"),
        (["models", "mmmk", "arrival_rate=1", "service_rate=1", "servers=2", f"capacity={10**15}"], "1,000,000"),
        (["models", "erlang_c", "offered_load=7", f"servers={10**12}"], "at most 10,000,000"),
    ],
)
def test_wrong_use_is_one_line_and_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """Which argument, its value, and what it has to be."""
    assert said in refused(capsys, monkeypatch, *arguments)


def test_a_model_too_large_for_this_machine_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the bounds of the models are not enough."""

    def asks_for_a_petabyte(**_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("posthaste_lab.cli.app", asks_for_a_petabyte)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "posthaste-lab: this takes more memory than there is\n"


def test_a_machine_that_fails_is_no_wrong_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a file that may not be written: exit code 1."""

    def fails(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("posthaste_lab.cli.app", fails)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "posthaste-lab: [Errno 28] No space left on device\n"


def test_figures_that_no_check_refused_are_wrong_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should a formula overflow in spite of the limits, there is no trace either."""

    def overflows(**_: object) -> None:
        raise OverflowError("math range error")

    monkeypatch.setattr("posthaste_lab.cli.app", overflows)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "too large or too small to compute with (math range error)" in capsys.readouterr().err


def test_a_solver_that_gives_up_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No trace; and exit code 1, for the use was right."""

    def gives_up(**_: object) -> None:
        raise NumericalError("no finite solution")

    monkeypatch.setattr("posthaste_lab.cli.app", gives_up)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == "posthaste-lab: no finite solution\n"
