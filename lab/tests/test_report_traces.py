"""Tests of trials over time: kinds of events that tell apart without color, and trials that were not steady."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from inventions import invented
from matplotlib.lines import Line2D
from programs import lab
from scipy.signal import lfilter
from simulated import System, write_run

from posthaste_lab.checks import FloatArray
from posthaste_lab.experiments.results import read_run
from posthaste_lab.report.cells import cells_of
from posthaste_lab.report.charts import traces_chart
from posthaste_lab.report.charts.traces import EVENT_MARKS, look_of
from posthaste_lab.report.records import Happening, Trace
from posthaste_lab.report.sections.over_time import steady_verdict, time_section, warm_up_s
from posthaste_lab.report.sections.parts import TableItem
from posthaste_lab.report.steady import steadiness


def trace_of(values: FloatArray) -> Trace:
    """Windows of 0.1 s with these throughputs."""
    middle = np.asarray((np.arange(len(values)) + 0.5) * 0.1, dtype=np.float64)
    return Trace(middle, values, 1 / values, len(values) * 0.1, "the clients", np.full(len(values), 0.1))


def along(line: Line2D) -> list[float]:
    """The instants of a line's points."""
    return list(np.asarray(line.get_xdata(), dtype=np.float64))


def test_no_two_kinds_of_events_look_alike() -> None:
    """However many there are; and where marks come again they are hollow, then numbers."""
    looks = [look_of(place) for place in range(3 * len(EVENT_MARKS))]
    assert len({(look.mark, look.face) for look in looks}) == len(looks)
    assert len({look.hatch for look in looks[:7]}) == 7


def test_each_kind_of_event_is_drawn_and_named_with_its_look() -> None:
    """In the plots and in the legend, of thirteen kinds too; a change of level is a line of its own."""
    events = [Happening(0.1 + 0.1 * place, 0.05, "tier", f"kind {place:02}") for place in range(13)]
    chart = traces_chart([("a", trace_of(np.full(50, 1000.0)), events)], {"a": [2.5], "b": [1.0]})
    for axis in chart.axes:
        marks = [(line.get_marker(), line.get_markerfacecolor()) for line in axis.get_lines() if len(along(line)) == 1]
        assert len(marks) == len(set(marks)) == 13
        assert [along(line) for line in axis.get_lines() if line.get_linestyle() == "--"] == [[2.5, 2.5]]
    legend = chart.legends[0]
    said = [text.get_text() for text in legend.get_texts()]
    assert said[:3] == ["trimmed, or left out", "the level changed", "tier: kind 00"]
    assert len(said) == 15
    chart = traces_chart([("a", trace_of(np.full(50, 1000.0)), [])])
    assert [text.get_text() for text in chart.legends[0].get_texts()] == ["trimmed, or left out"]


def test_trials_that_were_not_steady_are_named() -> None:
    """With what they did; where all were steady, or too little is known, it says so."""
    random = np.random.default_rng(1)
    steady, falling = 1000 + 10 * random.normal(size=(2, 100))
    falling = falling * np.linspace(1, 0.6, 100)
    results = [replace(invented(1, number), name=f"001-r{number}") for number in (1, 2)]
    said = steady_verdict(steadiness([(results[0], trace_of(steady)), (results[1], trace_of(falling))]))
    assert said.startswith("Of 2 trials with windows enough to tell, 1 was not steady (001-r2: throughput fell by 5")
    said = steady_verdict(steadiness([(results[0], trace_of(steady))]))
    assert said.startswith("None of 1 trial with windows enough to tell drifted by a tenth")
    assert "it takes 40" in steady_verdict([])


def test_the_section_has_a_row_for_each_trial_that_was_judged(tmp_path: Path) -> None:
    """Cut into windows as the simulation did not: one that halves its rate in the middle."""
    out = write_run(tmp_path / "run", System(), [8], repetitions=2, requests=600)
    for path in out.glob("trials/*/tier/record/windows.csv"):
        head, *rows = path.read_text("utf-8").splitlines()
        total = next(row for row in rows if ",all," in row).split(",")
        length = float(total[1]) / 60
        halved = path.parts[-4] == "001-r1"
        counts = [int(total[3]) // 60 // (2 if halved and place > 30 else 1) * 100 + place % 7 for place in range(60)]
        cut = [f"{place * length},{length},all,{count},0,{total[5]}" for place, count in enumerate(counts)]
        path.write_text("\n".join([head, *cut]) + "\n", "utf-8")
    run = read_run(out)
    whole = replace(run, results=tuple(replace(result, losses=()) for result in run.results))
    section = time_section(whole, cells_of(whole))
    assert section is not None
    (table,) = (item for item in section.items if item.name == "steady")
    assert isinstance(table, TableItem)
    assert [(row["trial"], row["steady"]) for row in table.raw] == [("001-r1", False), ("001-r2", True)]
    assert "its level changed by up to 50%" in section.paragraphs[1]
    assert "Dashed: the level changed." in section.items[0].caption
    chart = section.items[0]
    assert not isinstance(chart, TableItem)
    lines = [line for axis in chart.draw().axes for line in axis.get_lines()]
    assert sum(line.get_linestyle() == "--" for line in lines) == 2
    assert "0 fail" not in lab("check", out, code=1).stdout


@pytest.mark.parametrize("lag1", [0.0, 0.5])
@pytest.mark.parametrize(("windows", "accused"), [(100, 0.07), (150, 0.03), (300, 0.01)])
def test_windows_that_vary_by_chance_alone_are_rarely_accused(windows: int, accused: float, lag1: float) -> None:
    """Of steady trials of 100 windows one in twenty, of not settling or of being late; of longer ones fewer."""
    head_s, rng, trials = 0.12 * windows, np.random.default_rng(7), 400
    middle = np.arange(windows, dtype=np.float64) + (0.5 - head_s)
    steady = replace(
        trace_of(np.ones(windows)), middle_s=middle, measured_s=windows - head_s, length_s=np.ones(windows)
    )
    noise = [lfilter([1.0], [1.0, -lag1], rng.normal(0, 20, windows + 50))[50:] for _ in range(trials)]
    told = [warm_up_s(replace(steady, throughput_per_s=1000 + each), head_s) for each in noise]
    assert None not in told
    assert sum(each is not None and each > head_s + 0.5 for each in told) <= accused * trials
