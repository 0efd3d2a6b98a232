"""Tests that reports show what was measured, and need no network."""

import csv
import ctypes
import io
import json
import re
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hdrh.histogram import HdrHistogram
from inventions import invented
from programs import lab
from simulated import System, write_run

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.results import Result, Run, read_run, spoken_levels
from posthaste_lab.experiments.tables import Link, Part
from posthaste_lab.factorial import analyze
from posthaste_lab.fitting.model import FittedModel, write_model
from posthaste_lab.report import write_report, write_summary
from posthaste_lab.report.cells import Cell, Figure, cells_of, is_luck
from posthaste_lab.report.charts import kinds_chart, load_chart, percentile_panels
from posthaste_lab.report.charts.style import styled
from posthaste_lab.report.laws import verdicts
from posthaste_lab.report.quantities import amount, digits, stated, with_interval
from posthaste_lab.report.records import Spread, events, response_times, response_times_by_kind, trace
from posthaste_lab.report.sections.design import design_section
from posthaste_lab.report.sections.kinds import kinds_section
from posthaste_lab.report.sections.network import link_bits_per_s, network_section
from posthaste_lab.report.sections.over_time import trimming, warm_up_s, warm_up_verdict
from posthaste_lab.report.sections.overview import overview_section
from posthaste_lab.report.sections.parts import ChartItem, TableItem
from posthaste_lab.report.sections.setup import setup_section
from posthaste_lab.report.sections.where import where_section
from posthaste_lab.report.warnings import warnings
from posthaste_lab.stats import batch_means, mean_interval


def table(run: Run, name: str) -> list[dict[str, str]]:
    """A table of the report."""
    with (run.directory / "report" / "tables" / f"{name}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_page_stands_alone(run: Run) -> None:
    """Nothing is fetched from anywhere; charts are inside; every link beside it leads somewhere."""
    directory = run.directory / "report"
    page = (directory / "index.html").read_text("utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "<script" not in page
    assert page.count('src="data:image/svg+xml;base64,') == len(list((directory / "figures").glob("*.svg"))) >= 7
    for link in re.findall(r'href="([^#"]+)"', page):
        assert (directory / link).stat().st_size > 0, link
    for figure in (directory / "figures").glob("*.svg"):
        assert figure.with_suffix(".png").stat().st_size > 0


def test_question_and_verdict_come_first(run: Run) -> None:
    """Before any figure."""
    page = (run.directory / "report" / "index.html").read_text("utf-8")
    order = ["Does it run?", "Hypothesis", "Verdict", "more clients get more", "Found", "<section"]
    assert [page.index(words) for words in order] == sorted(page.index(words) for words in order)


def test_a_table_has_the_interval_that_its_rows_give(run: Run) -> None:
    """Computed again from trials.csv, whose rows it names."""
    with (run.directory / "trials.csv").open(newline="") as lines:
        trials = {row["trial"]: row for row in csv.DictReader(lines)}
    rows = table(run, "combinations")
    assert len(rows) == 4
    for row in rows:
        named = [trials[name] for name in row["trials"].split()]
        assert len(named) == 2
        assert all(trial["clients"] == row["clients"] and trial["size"] == row["size"] for trial in named)
        interval = mean_interval([float(trial["response_mean_s"]) for trial in named])
        assert float(row["response_mean_s"]) == pytest.approx(interval.mean)
        assert float(row["response_mean_s_low"]) == pytest.approx(interval.low)


def test_what_the_network_carries_is_told_in_bytes(run: Run) -> None:
    """From the same rows; longer messages are longer requests, and a gigabit carries fewer of them."""
    rows = table(run, "network")
    assert len(rows) == 4
    for row in rows:
        request, answer = float(row["request_bytes_mean"]), float(row["answer_bytes_mean"])
        assert float(row["most_per_s"]) == pytest.approx(125e6 / max(request, answer))
        assert row["link_used"] == "nan"
    by_size = {row["size"]: float(row["request_bytes_mean"]) for row in rows}
    assert by_size["1000"] > by_size["100"]


def test_a_link_bounds_what_a_tier_can_serve(run: Run) -> None:
    """By what it carries in one direction, once for each instance that the loads ask."""
    bandwidth = {"part": "tier", "bandwidth": "8mbit", "delay_s": 0.0, "delay_by": None}
    slow = run.experiment.model_copy(update={"links": {"tier": Link(bandwidth="8mbit")}})
    linked = replace(run, experiment=slow, results=tuple(replace(each, links=(bandwidth,)) for each in run.results))
    assert link_bits_per_s(linked, linked.finished[0]) == 8e6
    section = network_section(linked, cells_of(linked))
    assert section is not None
    (item,) = section.items
    assert isinstance(item, TableItem)
    assert all(len(row) == len(item.columns) for row in item.rows)
    fullest = max(item.raw, key=lambda row: float(row["link_used"]))
    busier = max(float(fullest["sent_bytes_per_s"]), float(fullest["received_bytes_per_s"]))
    assert fullest["link_used"] == pytest.approx(busier / 1e6)
    assert f"the link bears {digits(float(fullest['most_per_s']), 3)} such requests" in section.paragraphs[0]


def test_a_link_to_a_part_with_a_hyphen_in_its_name_is_one(run: Run) -> None:
    """As all names of parts that an experiment may have."""
    parts = run.experiment.parts
    load = parts["load"].model_copy(update={"connect": "{the-tier}"})
    named = run.experiment.model_copy(update={"parts": {"the-tier": parts["tier"], "load": load}})
    link = {"part": "the-tier", "bandwidth": "8mbit", "delay_s": 0.0, "delay_by": None}
    result = replace(run.finished[0], links=(link,))
    assert link_bits_per_s(replace(run, experiment=named), result) == 8e6


def test_a_design_of_two_levels_is_analyzed_as_such(run: Run) -> None:
    """Effects as `factorial.analyze` has them of the same rows, repetitions as blocks, in the unit of the table."""
    found = {row["effect"]: row for row in table(run, "effects")}
    signs, values = [], []
    for cell in cells_of(run):
        signs.append([1 if cell.levels["clients"] == 8 else -1, 1 if cell.levels["size"] == 1000 else -1])
        values.append([result.figures["response_mean_s"] for result in cell.results])
    effects = analyze(signs, values, ["clients", "size"], blocked=True)
    scale = float(found["I"]["q"]) / effects.effects["I"]
    assert scale in (pytest.approx(1e3), pytest.approx(1e6))
    for name, value in effects.effects.items():
        assert float(found[name]["q"]) == pytest.approx(value * scale)
        assert float(found[name]["high"]) == pytest.approx(effects.intervals[name].high * scale)
    for rest in ("repetitions", "error"):
        assert float(found[rest]["variation"]) == pytest.approx(effects.variation[rest])
    section = design_section(run, cells_of(run))
    assert section is not None
    assert "Each interval holds by itself" in section.items[0].caption
    assert "Each repetition was run as a block" in section.items[0].caption


def test_a_level_may_hold_dollars(run: Run) -> None:
    """They are no formula; and what is infinite has a sign for it."""
    named = {f"size = $a_{n}$": [cell] for n, cell in enumerate(cells_of(run)[:2])}
    with styled():
        load_chart(named, "clients", "$x^$").savefig(io.BytesIO(), format="svg")
    assert [digits(value) for value in (float("inf"), float("-inf"))] == ["\N{INFINITY}", "\N{MINUS SIGN}\N{INFINITY}"]


def test_kinds_of_request_are_compared_where_little_else_differs(run: Run) -> None:
    """At the lightest and the heaviest load of the same size, under titles that do not run into each other."""
    measured = cells_of(run)
    section = where_section(run, [cell for cell in measured if cell.levels != {"clients": 2, "size": 100}])
    assert section is not None
    chart = section.items[1]
    assert isinstance(chart, ChartItem)
    with styled():
        assert [axis.get_title(loc="left") for axis in chart.draw().axes] == [
            "clients = 2, size = 1000",
            "clients = 8, size = 1000",
        ]
        long = "clients = 96, workers = 64, middlewares = 1, requests = gets, and more"
        titles = [axis.get_title(loc="left") for axis in kinds_chart(measured[:2], [long, long]).axes]
    assert all(0 < len(line) <= 50 for title in titles for line in title.split("\n"))


def test_a_kind_that_was_not_asked_has_no_time_at_all(run: Run) -> None:
    """A 0 above no bar would say that it was fast."""
    first, second = cells_of(run)[:2]
    other = [replace(r, kinds={"other": next(iter(r.kinds.values()))}) for r in second.results]
    with styled():
        chart = kinds_chart([first, replace(second, results=tuple(other))], ["first", "second"])
    sums = [[text.get_text() for text in axis.texts] for axis in chart.axes]
    assert [len(each) for each in sums] == [len(first.results[0].kinds), 1]
    assert "0" not in sums[0] + sums[1]


def test_captions_tell_of_what_is_drawn_and_of_nothing_else(run: Run) -> None:
    """No law of an open loop, no intervals where each combination was run once, no percentile that is luck."""
    measured = [cell for cell in cells_of(run) if cell.levels["size"] == 100]
    one = {"clients": run.experiment.factors["clients"].model_copy(update={"levels": [1, 8, 9]})}
    loaded = replace(run, experiment=run.experiment.model_copy(update={"factors": one}))

    def captions(run: Run, **figures: object) -> list[str]:
        changed = [
            replace(cell, results=tuple(replace(r, figures=r.figures | figures) for r in cell.results))
            for cell in measured
        ]
        return [item.caption for item in overview_section(run, changed).items]

    assert "the dotted line is the mean over the trials of what the interactive law" in captions(loaded)[1]
    assert captions(loaded, open_loop=True)[1].endswith("short lines the trials themselves.")
    assert "percentile" not in captions(loaded, served=10)[0]
    assert captions(loaded, served=100_000)[0].endswith("The 99th percentile is each trial's own.")
    once = [replace(cell, results=cell.results[:1]) for cell in cells_of(run)]
    assert [item.caption for item in overview_section(run, once).items][1:] == ["Each combination: its only trial."] * 2


def requests_within(result: Result, wider_by_s: float) -> int:
    """Of all windows whose middle lies in the measured time, or so much beside it."""
    assert result.measured_unix_s is not None
    record = result.directory / "load" / "record"
    zero = json.loads((record / "run.json").read_text("utf-8"))["start_unix_ms"] / 1e3
    begin, end = (at - zero for at in result.measured_unix_s)
    middle = pl.col("start_s") + pl.col("length_s") / 2
    windows = pl.read_csv(record / "windows.csv").filter(pl.col("kind") == "all")
    return int(windows.filter(middle.is_between(begin - wider_by_s, end + wider_by_s))["requests"].sum())


def test_histograms_hold_the_requests_of_the_measured_time(run: Run) -> None:
    """Those of all windows whose middle lies in it, as the table of windows counts them."""
    for cell in cells_of(run):
        spread = response_times(cell.results)
        assert spread is not None
        assert spread.seen_by == "the clients"
        # The histograms' times have three digits.
        inside, touching = (sum(requests_within(result, by_s) for result in cell.results) for by_s in (-2e-3, 2e-3))
        assert 0 < inside <= spread.total <= touching
        assert 0 < spread.percentile(0.5) <= max(result.figures["response_max_s"] for result in cell.results)


def test_each_kind_of_request_has_percentiles_of_its_own(run: Run) -> None:
    """What was sent and what was popped, as the load generator counted them; together they are all requests."""
    rows = table(run, "percentiles")
    for cell in cells_of(run):
        by_kind = response_times_by_kind(cell.results)
        assert set(by_kind) == {kind for result in cell.results for kind in result.kinds}
        assert len(by_kind) > 1
        whole = response_times(cell.results)
        assert whole is not None
        assert whole.total == sum(spread.total for spread in by_kind.values())
        shown = {row["kind"]: row for row in rows if row["combination"] == spoken_levels(cell.levels)}
        assert set(shown) == {*by_kind, "all"}
        for kind, spread in by_kind.items():
            assert float(shown[kind]["requests"]) == spread.total
            if spread.percentile_is_known(0.5):
                assert float(shown[kind]["p50_s"]) == pytest.approx(spread.percentile(0.5))
            else:
                assert shown[kind]["p50_s"] == ""


def test_ten_requests_beyond_a_percentile_are_ten() -> None:
    """100 (1 - 0.9) is a little less than 10 in floating point."""
    assert Spread.of(range(100)).percentile_is_known(0.9)
    assert not Spread.of(range(99)).percentile_is_known(0.9)


def test_one_legend_names_the_curves_of_all_kinds_and_no_others() -> None:
    """Those of a combination that has only the second kind, and of none that has too few requests for a curve."""
    many, few = Spread.of(np.linspace(0.001, 0.002, 100)), Spread.of([0.001] * 5)
    with styled():
        chart = percentile_panels({"pop": {"first": many, "rare": few}, "send": {"first": many, "second": many}})
    legend = chart.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]


def test_distributions_put_together_lose_nothing() -> None:
    """Values that both have are counted once, with the requests of both."""
    both = Spread.together([Spread.of([1.0, 2.0], "the clients"), Spread.of([2.0, 3.0, 3.0])])
    assert both.values_s.tolist() == [1.0, 2.0, 3.0]
    assert both.counts.tolist() == [1.0, 2.0, 2.0]
    assert both.seen_by == "the clients"


def test_the_tier_measured_the_same_requests_and_less_of_their_time(run: Run) -> None:
    """What the clients saw beyond it is the network's and their own."""
    for cell in cells_of(run):
        seen, inside = (response_times(cell.results, role) for role in ("load", "tier"))
        assert seen is not None
        assert inside is not None
        assert (seen.seen_by, inside.seen_by) == ("the clients", "the middle tier")
        # Not all of them are the same ones: each side cuts off the beginning and the end by its own clock.
        assert inside.percentile(0.5) < 1.05 * seen.percentile(0.5)


def test_a_trace_covers_the_load_and_nothing_else(run: Run) -> None:
    """From warm-up to cool-down, in seconds from where the measured time begins."""
    head, measured, tail = run.experiment.trimmed
    found = trace(run.finished[0], head, tail)
    assert found is not None
    assert -head <= found.middle_s.min() < found.middle_s.max() <= measured + tail
    assert found.measured_s == pytest.approx(measured)
    assert events(run.finished[0]) == []


def test_several_loads_are_seen_as_one(run: Run, tmp_path: Path) -> None:
    """The same load beside itself: twice the throughput and twice the requests, at the same times."""
    head, _, tail = run.experiment.trimmed
    one = run.finished[0]
    two = replace(one, directory=Path(shutil.copytree(one.directory, tmp_path / "trial")))
    shutil.copytree(one.directory / "load", two.directory / "load-2")
    seen, twice = trace(one, head, tail), trace(two, head, tail)
    assert seen is not None
    assert twice is not None
    assert twice.throughput_per_s == pytest.approx(2 * seen.throughput_per_s)
    assert twice.response_mean_s == pytest.approx(seen.response_mean_s, nan_ok=True)
    spread, wider = response_times((one,)), response_times((two,))
    assert spread is not None
    assert wider is not None
    assert wider.counts.tolist() == (2 * spread.counts).tolist()


def test_a_trace_counts_no_errors(run: Run, tmp_path: Path) -> None:
    """Its throughput is that of every other figure."""
    result = replace(run.finished[0], directory=Path(shutil.copytree(run.finished[0].directory, tmp_path / "trial")))
    path = result.directory / "load" / "record" / "windows.csv"
    windows = pl.read_csv(path).with_columns(errors=pl.col("requests") - 1)
    windows.write_csv(path)
    found = trace(result, *run.experiment.trimmed[::2])
    assert found is not None
    lengths_s = windows.filter(pl.col("kind") == "all")["length_s"].to_numpy()  # the last is a short one
    for one_in_s in 1 / found.throughput_per_s:  # one in each window, but for the last digit of where a short one ends
        assert np.abs(lengths_s - one_in_s).min() < 0.1 * one_in_s + 1e-4


def test_the_laws_are_asked_of_every_trial(run: Run) -> None:
    """And a figure that breaks one is found out."""
    result = run.finished[0]
    of_figures = {"interactive response time law", "forced flow law", "sum of the stages"}
    assert {verdict.law for verdict in verdicts(result)} == of_figures | {"population", "time in the tier"}
    assert all(verdict.holds for each in run.finished for verdict in verdicts(each) if verdict.law not in of_figures)
    assert result.figures["response_all_mean_s"] == pytest.approx(result.figures["response_mean_s"], rel=1e-3)
    slip = replace(result, figures=result.figures | {"response_all_mean_s": result.figures["response_mean_s"] * 2})
    assert "interactive response time law" in [v.law for v in verdicts(slip) if not v.holds]
    open_loop = replace(slip, figures=slip.figures | {"open_loop": True})
    assert "interactive response time law" not in [v.law for v in verdicts(open_loop)]
    tolerances = {row["law"]: float(row["tolerance"]) for row in table(run, "laws")}
    assert tolerances["interactive response time law"] == 0.05
    assert tolerances["sum of the stages"] == 0.01
    page = (run.directory / "report" / "index.html").read_text("utf-8")
    assert "checks hold, within 1.00 % to 5.00 %, by the law, and what" in page


def test_what_a_reader_must_know_is_said_first(run: Run) -> None:
    """Failed and missing trials, invalid generators, errors, broken laws, one repetition."""
    # On a busy machine other generators may have been late too.
    first, *others = (replace(each, figures=each.figures | {"generator_valid": True}) for each in run.finished)
    broken = first.figures | {"response_all_mean_s": 1.0, "errors": 3, "generator_valid": False, "violations": 2}
    broken["invalid_because"] = "it was late"
    failed = replace(others[0], finished=False, reason="it fell over")
    worse = replace(run, results=(replace(first, figures=broken), failed, *others[1:-1]))
    said = " ".join(warnings(worse))
    for words in ("1 trial failed", "1 trial of the plan still to run", "figures invalid", "law does not hold",
                  "with an error: 3 requests", "own check: 2 answers",
                  f"({first.name}), of {first.name} because it was late."):  # fmt: skip
        assert words in said, words
    machines = {"local": run.plan["environment"]["hosts"]["local"] | {"file system of the stores": "tmpfs"}}
    in_memory = replace(run, plan=run.plan | {"environment": run.plan["environment"] | {"hosts": machines}})
    assert "The data of tier lies in memory (tmpfs)" in " ".join(warnings(in_memory))
    # On a busy machine a generator may have been late.
    valid = (replace(each, figures=each.figures | {"generator_valid": True}) for each in run.results)
    sound = " ".join(warnings(replace(run, results=tuple(valid))))
    assert not [words for words in ("failed", "to run", "invalid", "with an error", "own check") if words in sound]


def test_what_levels_set_is_not_told_as_fixed(run: Run) -> None:
    """What the file says of an option is then not what ran."""
    parts = {name: part.model_copy() for name, part in run.experiment.parts.items()}
    parts["load"] = Part.model_validate({"kind": "bench queue", "connect": "{tier}", "clients": 16})
    shown = replace(run, experiment=run.experiment.model_copy(update={"parts": parts}))
    (table,) = (item for item in setup_section(shown, cells_of(shown)).items if item.name == "parts")
    assert isinstance(table, TableItem)
    assert table.rows[1] == ["load", "bench queue", "1", "local", "any", "connect = {tier}, clients = by clients"]


def test_small_numbers_keep_their_digits() -> None:
    """An effect on one over a throughput is a millionth, and not a row of zeros."""
    assert [digits(x) for x in (1.99362e-6, -8.35327e-4, 0.0025, 12345.6)] == [
        "1.994e\N{MINUS SIGN}06",
        "\N{MINUS SIGN}8.353e\N{MINUS SIGN}04",
        "0.002500",
        "12,350",
    ]
    assert [digits(x, 2) for x in (747_590.0, 7638.0, 0.996, -47_262.0)] == [
        "750,000",
        "7,600",
        "1.0",
        "\N{MINUS SIGN}47,000",
    ]


def test_no_more_digits_are_shown_than_are_known() -> None:
    """A half-width has two; a mean has those down to them, and a count or a limit that somebody chose has all."""
    assert (
        with_interval("throughput_per_s", Figure(17_909.0, -29_353.0, 65_171.0, (), ())) == "17,910 ± 47,000 per second"
    )
    assert with_interval("throughput_per_s", Figure(99_905.4, 99_893.4, 99_917.4, (), ())) == "99,905 ± 12 per second"
    assert with_interval("response_mean_s", Figure(7.61e-4, -6.877e-3, 8.399e-3, (), ())) == "761.0 ± 7,600 μs"
    assert amount("errors", 123_456.0) == "123,456"
    assert amount("throughput_per_s", 123_456.0, stated(123_456.0)) == "123,456 per second"


def test_tables_name_no_percentile_that_is_one_requests_luck(run: Run) -> None:
    """The 99th of 999 requests in one of the trials is left out; of a thousand in each it is there."""
    few, enough = ([{"served": 1000}, {"served": number}] for number in (999, 1000))
    assert is_luck("response_p99_s", few)
    assert not is_luck("response_p99_s", enough)
    assert is_luck("response_p99_9_s", enough)
    assert not is_luck("response_mean_s", few)
    for served, shown in ((999, "too few requests"), (1000, "20.00 ms")):
        figures = {"response_mean_s": 0.01, "response_p99_s": 0.02, "service_mean_s": 0.01, "served": served}
        measured = [Cell(1, {"n": 1}, (replace(invented(1, 1, **figures), kinds={"send": figures}),))]
        of_kinds = kinds_section(run, measured)
        assert of_kinds is not None
        for item in (overview_section(run, measured).items[0], of_kinds.items[-1]):
            assert isinstance(item, TableItem)
            assert shown in item.rows[0]
    several = {"response_mean_s": 0.01, "service_mean_s": 0.01, "served": 10}
    of_kinds = kinds_section(run, [Cell(1, {"n": 1}, (replace(invented(1, 1, **several), kinds={"send": several}),))])
    assert of_kinds is not None
    assert isinstance(of_kinds.items[-1], TableItem)
    assert "too few requests" not in of_kinds.items[-1].rows[0], "of several loads no number of them would do"


def test_a_percentile_needs_requests_beyond_it() -> None:
    """Ten at least: of a thousand requests there is no 99.9th percentile worth the name."""
    spread = Spread.of([0.001] * 500 + [0.002] * 490 + [0.1] * 10)
    assert spread.percentile(0.5) == 0.001
    assert spread.percentile(0.985) == 0.002
    assert spread.percentile_is_known(0.99)
    assert not spread.percentile_is_known(0.999)


def test_the_measured_time_is_told_as_it_was(run: Run) -> None:
    """A load may end before its time."""
    found = trace(run.finished[0], 0.1, 0.05)
    assert found is not None
    lasted = {each: replace(run.finished[0], figures={"measured_s": each}) for each in (0.3, 0.35, 12.0)}
    as_said = trimming(run, [(lasted[0.35], found)])
    assert as_said.endswith("every figure of this report is of the 0.35 s between.")
    longer = trimming(run, [(lasted[each], found) for each in (0.3, 12.0)])
    assert longer.endswith("That is 0.35 s by the file, and was from 0.3 s to 12 s.")


def test_a_warm_up_that_was_not_trimmed_is_noticed(run: Run) -> None:
    """By MSER-5 on the windows under load."""
    found = trace(run.finished[0], 0.1, 0.05)
    assert found is not None
    middle = np.linspace(-9.5, 89.5, 100, dtype=np.float64)
    rising = np.where(middle < 10, 10.0, 100.0)
    slow = replace(found, middle_s=middle, throughput_per_s=rising, measured_s=90.0, length_s=np.ones(100))
    late = warm_up_s(slow, 10.0)
    assert late == pytest.approx(20, abs=5.5)
    assert "trial with windows enough to tell took longer" in warm_up_verdict([(run.finished[0], slow)], 10.0)


def test_a_warm_up_that_was_trimmed_exactly_is_no_finding(run: Run) -> None:
    """What MSER-5 keeps begins where its first window begins, not in the middle of it."""
    found = trace(run.finished[0], 0.1, 0.05)
    assert found is not None
    middle = np.linspace(-9.5, 89.5, 100, dtype=np.float64)
    rising = np.where(middle < 0, 10.0, 100.0)
    trimmed = replace(found, middle_s=middle, throughput_per_s=rising, measured_s=90.0, length_s=np.ones(100))
    assert warm_up_s(trimmed, 10.0) == pytest.approx(10.0)
    assert "each of 1 trial was steady" in warm_up_verdict([(run.finished[0], trimmed)], 10.0)


def test_a_trial_that_never_settled_is_not_called_steady(run: Run) -> None:
    """However much of it is trimmed: what MSER-5 keeps is no more than half, and that drifts as well."""
    found = trace(run.finished[0], 0.1, 0.05)
    assert found is not None
    middle = np.linspace(-59.5, 39.5, 100, dtype=np.float64)
    drifting = replace(
        found, middle_s=middle, throughput_per_s=100 * np.exp(middle / 200), measured_s=40.0, length_s=np.ones(100)
    )
    level = replace(drifting, throughput_per_s=np.full(100, 100.0))
    one, two = run.finished[:2]
    assert warm_up_s(drifting, 60.0) == np.inf
    never = f"1 of the 1 trial with windows enough to tell did not settle within the first half ({one.name}): measure"
    said = warm_up_verdict([(one, drifting)], 60.0)
    assert never in said
    assert "steady" not in said
    both = warm_up_verdict([(one, drifting), (two, level)], 60.0)
    assert "each of 1 trial was steady by then" in both
    assert f"1 of the 2 trials with windows enough to tell did not settle within the first half ({one.name})" in both


def test_of_a_few_windows_the_report_does_not_judge(run: Run) -> None:
    """It says how many it takes."""
    found = trace(run.finished[0], 0.1, 0.05)
    assert found is not None
    middle = np.arange(60, dtype=np.float64) - 6.7
    drifting = replace(
        found, middle_s=middle, throughput_per_s=np.exp(middle / 30), measured_s=50.0, length_s=np.ones(60)
    )
    assert warm_up_s(drifting, 7.2) is None
    said = warm_up_verdict([(run.finished[0], drifting)], 7.2)
    assert said.startswith("Too few windows were recorded to check by MSER-5")
    assert "it takes 100 of a trial" in said


def test_an_hour_of_windows_is_not_held_in_memory_at_once(tmp_path: Path) -> None:
    """Of many histograms there are a few at a time beside their sum, as many as wait for Python to clear them away."""
    out = write_run(tmp_path / "run", System(), [1], repetitions=1, requests=300)
    windows, histogram = 1000, HdrHistogram(1, 3_600_000_000_000, 2)
    histogram.record_value(1_000_000)
    encoded = histogram.encode().decode()
    line = f"Tag=pop/response,{{}},0.001,1.0,{encoded}\n"
    (result,) = read_run(out).results
    assert result.measured_unix_s is not None
    begin_s, end_s = result.measured_unix_s
    starts = np.linspace(begin_s + 0.001, end_s - 0.003, windows)
    log = "#[BaseTime: 0.000 (seconds since epoch)]\n" + "".join(line.format(f"{start:.3f}") for start in starts)
    (result.directory / "tier" / "record" / "latency.hlog").write_text(log, "utf-8")
    tracemalloc.start()
    spread = response_times((result,))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert spread is not None
    assert spread.total == windows
    assert most_bytes < windows / 4 * ctypes.sizeof(histogram.counts)


def test_a_window_counts_for_as_long_as_it_is(run: Run) -> None:
    """A stall of ten windows is one long window, perhaps with some of no length behind it: a tenth all the same."""
    found = trace(run.finished[0], 0.1, 0.05)
    assert found is not None
    for scraps in (0, 9):
        lengths = np.array([1.0] * 50 + [10.0] + [1e-6] * scraps + [1.0] * 40)
        throughput = np.where(lengths == 1.0, 100.0, 0.0)
        stalled = replace(found, middle_s=np.cumsum(lengths), throughput_per_s=throughput, length_s=lengths)
        even, piece_s = stalled.evenly(np.ones(len(lengths), dtype=bool))
        assert len(even) == 100
        assert piece_s == pytest.approx(1.0)
        assert even.tolist() == pytest.approx([100.0] * 50 + [0.0] * 10 + [100.0] * 40, abs=0.01)
        assert batch_means(even).mean == pytest.approx(90.0)


class FullDisk:
    """Stands in for writing a text: half of it fits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on."""
        monkeypatch.setattr(Path, "write_text", lambda path, text, *_: self.write(path, text))

    def write(self, path: Path, text: str) -> int:
        """Up to there."""
        path.write_bytes(text.encode()[: len(text) // 2])
        raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_earlier_report_summary_and_model(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, and nothing beside it."""
    names = ("index.html", "summary.md", "model.json")
    for name in names:
        (tmp_path / name).write_text("earlier", "utf-8")
    FullDisk(monkeypatch)
    for write_anew in (
        lambda: write_report(run.directory, tmp_path),
        lambda: write_summary(run.directory, tmp_path / "summary.md"),
        lambda: write_model(FittedModel.model_construct(title="anew"), tmp_path),
    ):
        with pytest.raises(OSError, match="No space left"):
            write_anew()
    assert {name: (tmp_path / name).read_text("utf-8") for name in names} == dict.fromkeys(names, "earlier")
    assert not list(tmp_path.glob("*.new"))


def test_what_would_do_nothing_is_refused(run: Run, tmp_path: Path) -> None:
    """A note is of a summary, a directory of a page."""
    said = lab("report", run.directory, "--note", "alone on the machine", code=2).stderr
    assert "--note = 'alone on the machine': stands in a summary: give --summary FILE.md too" in said
    summary = tmp_path / "summary.md"
    said = lab("report", run.directory, "--summary", summary, "--out", tmp_path / "page", code=2).stderr
    assert "--out = " in said
    assert not summary.exists()


def test_a_run_that_is_none_is_refused(tmp_path: Path, run: Run) -> None:
    """So is one without a finished trial."""
    with pytest.raises(BadArgument, match="holds no run"):
        write_report(tmp_path)
    shutil.copy(run.directory / "experiment.toml", tmp_path)
    shutil.copy(run.directory / "plan.json", tmp_path)
    with pytest.raises(BadArgument, match="no finished trial"):
        write_report(tmp_path)
    name = json.loads((tmp_path / "plan.json").read_text("utf-8"))["trials"][0]["name"]
    (tmp_path / "trials" / name).mkdir(parents=True)
    (tmp_path / "trials" / name / "trial.json").write_text("{}")
    with pytest.raises(BadArgument, match="no trial as this version leaves them"):
        write_report(tmp_path)
