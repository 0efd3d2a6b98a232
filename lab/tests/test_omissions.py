"""Tests omissions from a finished run: they need a reason, and the report names them."""

import csv
from pathlib import Path

import pytest
from programs import SMALL, lab, run_through, write

from posthaste_lab.errors import BadArgument, BadFile
from posthaste_lab.experiments.clocks import start_unix_s
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.results import Result, read_run
from posthaste_lab.report.cells import cells_of
from posthaste_lab.report.records import response_times, trace
from posthaste_lab.report.warnings import warnings

WINDOW = """
[[omit]]
trial = "001-r1"
start = "100ms"
end = "200ms"
reason = "a backup ran"
"""
TRIAL = """
[[omit]]
trial = "002-r1"
reason = "the network was down"
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    place = tmp_path_factory.mktemp("omissions")
    run_through(write(place, SMALL), place / "out")
    return place / "out"


def trial(directory: Path, omissions: str) -> Result:
    """Trial 001-r1 with these omissions."""
    (directory / "omit.toml").write_text(omissions, "utf-8")
    return next(result for result in read_run(directory).results if result.name == "001-r1")


def windows_without(result: Result, begin_s: float, end_s: float) -> tuple[float, float, float]:
    """Throughput, mean response time and length of the windows of its load outside of a span, computed by hand."""
    record = result.directory / "load" / "record"
    assert result.measured_unix_s is not None
    since = start_unix_s(record) - result.measured_unix_s[0]
    measured_s = result.measured_unix_s[1] - result.measured_unix_s[0]
    served = took = length = 0.0
    with (record / "windows.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            middle = float(row["start_s"]) + float(row["length_s"]) / 2 + since
            if row["kind"] == "all" and 0 <= middle <= measured_s and not begin_s <= middle < end_s:
                served += float(row["requests"])
                took += float(row["requests"]) * float(row["response_mean_us"] or 0.0) / 1e6
                length += float(row["length_s"])
    return served / length, took / served, length


def test_figures_are_of_the_windows_that_remain(directory: Path) -> None:
    """Throughput, response time, distributions; kinds add up; what only the whole time tells is left out."""
    whole = trial(directory, "omit = []")
    before = response_times((whole,))
    seen = trace(whole, 0.0, 0.0)
    assert seen is not None
    # A busy machine makes windows longer than asked for, so one that there is.
    served = [float(m) for m, rate in zip(seen.middle_s, seen.throughput_per_s, strict=True) if rate > 0]
    begin, end = int(served[1] * 1e3) - 2, int(served[1] * 1e3) + 3
    rest = trial(directory, WINDOW.replace("100ms", f"{begin}ms").replace("200ms", f"{end}ms"))
    after = response_times((rest,))
    rate, mean, length = windows_without(whole, begin / 1e3, end / 1e3)
    assert rest.figures["throughput_per_s"] == pytest.approx(rate)
    assert rest.figures["response_mean_s"] == pytest.approx(mean)
    assert rest.figures["response_all_mean_s"] == rest.figures["response_mean_s"]
    assert rest.figures["measured_s"] == pytest.approx(length)
    assert sum(kind["served"] for kind in rest.kinds.values()) == rest.figures["served"]
    assert set(rest.kinds) == set(whole.kinds)
    assert rest.figures["service_mean_s"] > 0
    assert "response_p99_s" not in rest.figures
    assert rest.figures["population"] == whole.figures["population"]
    assert before is not None
    assert after is not None
    assert after.total < before.total
    left = trace(rest, 0.0, 0.0)
    assert left is not None
    assert left.counted.sum() == seen.counted.sum() - 1


def test_a_trial_left_out_is_in_no_figure(directory: Path) -> None:
    """But in the list of trials, and among what must be read with care, with its reason."""
    (directory / "omit.toml").write_text(WINDOW + TRIAL, "utf-8")
    run = read_run(directory)
    assert "002-r1" not in {result.name for cell in cells_of(run) for result in cell.results}
    assert "Left out is trial 002-r1: the network was down" in warnings(run)
    assert "Left out is of trial 001-r1 what lies from 0.1 s to 0.2 s: a backup ran" in warnings(run)
    lab("report", directory)
    page = (directory / "report" / "index.html").read_text("utf-8")
    assert page.count("the network was down") == 2
    assert page.count("a backup ran") == 2


def test_a_run_of_which_nothing_is_left_is_refused_and_not_called_unfinished(directory: Path) -> None:
    """Nothing checked is nothing that holds."""
    names = [result.name for result in read_run(directory).results]
    (directory / "omit.toml").write_text("".join(TRIAL.replace("002-r1", name) for name in names), "utf-8")
    assert "only trials that its omit.toml leaves out" in lab("check", directory, code=2).stderr
    for ask in (("report", directory), ("report", directory, "--summary", "-")):
        assert "no finished trial that its omit.toml does not leave out" in lab(*ask, code=2).stderr
    (directory / "omit.toml").unlink()


@pytest.mark.parametrize(
    ("omissions", "said"),
    [
        ('[[omit]]\ntrial = "001-r1"', "omit.0.reason: is missing"),
        (TRIAL.replace("trial =", "trail ="), "omit.0.trail: is no key of this table; did you mean trial?"),
        (TRIAL.replace("[[omit]]", "[[omits]]"), "omits: is no key of this table; did you mean omit?"),
        (TRIAL.replace("the network was down", " "), "omit.0.reason: must say something"),
        (TRIAL.replace("002-r1", "009-r1"), "trial = '009-r1': is no finished trial of this run"),
        (WINDOW.replace('end = "200ms"', ""), "needs start and end, or neither"),
        (WINDOW.replace("200ms", "50ms"), "must end after it starts"),
        (WINDOW.replace('"200ms"', "1"), "omit.0.end: must be a time with its unit"),
        ("[[omit]", "is not TOML"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(directory: Path, omissions: str, said: str) -> None:
    """Nothing is left out without a reason, or by mistake."""
    with pytest.raises(BadFile) as raised:
        trial(directory, omissions)
    assert said in str(raised.value)


def test_something_must_remain(directory: Path) -> None:
    """Who wants nothing of a trial leaves the whole of it out."""
    with pytest.raises(BadArgument, match="no window of its measured time would be left"):
        trial(directory, WINDOW.replace("100ms", "0s").replace("200ms", "10s"))


def test_a_span_without_a_window_leaves_nothing_out(directory: Path) -> None:
    """Beyond the end, or between the middles of two windows: what is said to be left out is."""
    seen = trace(trial(directory, "omit = []"), 0.0, 0.0)
    assert seen is not None
    first, second = (round(float(middle) * 1e6) for middle in seen.middle_s[:2])
    between = WINDOW.replace("100ms", f"{first + 10}us").replace("200ms", f"{second - 10}us")
    for omissions in (WINDOW.replace("100ms", "10s").replace("200ms", "11s"), WINDOW + between):
        with pytest.raises(BadArgument, match=r"omit = '001-r1': has no window whose middle lies from .* nearest has"):
            trial(directory, omissions)
    held = trial(directory, WINDOW.replace("100ms", f"{first - 10}us").replace("200ms", f"{first + 10}us"))
    assert held.omissions


def test_instants_that_count() -> None:
    """Both ends of the measured time, the first instant of a span not, the last one again."""
    counted = Instants((10.0, 20.0), ((12.0, 13.0),))
    assert [instant in counted for instant in (9.9, 10.0, 11.9, 12.0, 12.9, 13.0, 20.0, 20.1)] == [
        False, True, True, False, False, True, True, False,
    ]  # fmt: skip
