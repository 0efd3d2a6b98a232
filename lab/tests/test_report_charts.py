"""Charts of reports: what is drawn, what is not and says so, and the line by the law of response times."""

from dataclasses import replace

import numpy as np
import pytest
from inventions import cells, invented
from matplotlib.container import ErrorbarContainer
from matplotlib.text import Text

from posthaste_lab.experiments.results import Run
from posthaste_lab.experiments.tables import Level
from posthaste_lab.report.cells import Cell, cells_of
from posthaste_lab.report.charts import box_chart, kinds_over_load_chart, load_chart
from posthaste_lab.report.charts.load import LAW, fastest
from posthaste_lab.report.charts.style import left_out, legend_above, load_axis, new_figure, styled
from posthaste_lab.report.laws import verdicts
from posthaste_lab.report.records import Spread
from posthaste_lab.report.sections.kinds import kinds_section
from posthaste_lab.report.sections.maxima import maxima_section
from posthaste_lab.report.sections.overview import overview_section
from posthaste_lab.report.sections.parts import ChartItem, TableItem
from posthaste_lab.report.sections.where import where_section
from posthaste_lab.report.warnings import warnings


def test_the_law_takes_the_think_time_as_it_was_kept() -> None:
    """Clients that were asked to pause for 10 ms and paused for 13 break no law; the curve by it lies on the points."""
    kept = {"population": 8, "think_time_s": 0.010, "think_kept_s": 0.013, "response_mean_s": 0.002}
    result = invented(1, 1, throughput_per_s=8 / 0.015, **kept)
    assert [verdict.holds for verdict in verdicts(result)] == [True]
    asked = {name: value for name, value in result.figures.items() if name != "think_kept_s"}
    assert [verdict.holds for verdict in verdicts(replace(result, figures=asked))] == [False]
    chart = load_chart({"": [Cell(1, {"n": 1}, (result,))]}, "n", "n")
    for axis, measured in zip(chart.axes, (8 / 0.015, 2.0), strict=True):  # per second, ms
        law = next(line for line in axis.lines if line.get_linewidth() == 1.6)
        assert float(np.asarray(law.get_ydata(), dtype=np.float64)[0]) == pytest.approx(measured)


def test_a_chart_says_what_it_does_not_show(run: Run) -> None:
    """Of more lines than can be told apart the fastest are drawn, whichever come first."""
    line = cells([100.0], [200.0])
    lines = {f"line {n}": [replace(cell, levels={"n": cell.number}) for cell in line] for n in range(8)}
    slow = {"slow": cells([1.0], [2.0])}
    assert list(fastest(slow | lines)) == list(lines)
    assert (
        left_out(8, 9, "lines", "the fastest")
        == " Of 9 lines only 8 are drawn, the fastest; the table has all of them."
    )
    assert left_out(8, 8, "lines", "the fastest") == ""
    size = run.experiment.factors["size"].model_copy(update={"levels": list(range(9))})
    clients = run.experiment.factors["clients"].model_copy(update={"levels": list(range(10))})
    experiment = run.experiment.model_copy(update={"factors": {"clients": clients, "size": size}})
    first = run.finished[0]
    many = [
        Cell(
            n,
            {"clients": 1, "size": n},
            (replace(first, figures=first.figures | {"throughput_per_s": 100.0 + n}),),
        )
        for n in range(9)
    ]
    section = overview_section(replace(run, experiment=experiment), many)
    (chart,) = (item for item in section.items if item.name == "load")
    assert chart.caption.endswith(
        "Of 9 lines only 8 are drawn, those with the highest throughput; the table has all of them."
    )


@pytest.mark.parametrize(("number", "cut"), [(24, False), (40, True)])
def test_stages_are_drawn_of_all_combinations_or_it_is_said(run: Run, number: int, cut: bool) -> None:
    """Those of each kind of request at two of them, with all in the table of kinds."""
    first = cells_of(run)[0]
    many = [replace(first, number=n, levels={"clients": n, "size": 100}) for n in range(1, number + 1)]
    section = where_section(run, many)
    assert section is not None
    stages, kinds = section.items
    assert stages.caption.endswith(
        "The number is the sum."
        + " Of 40 combinations only 32 are drawn, evenly chosen; trials.csv has all of them." * cut
    )
    assert isinstance(stages, ChartItem)
    with styled():
        assert len(stages.draw().axes[0].get_yticks()) == min(number, 32)
    assert kinds.caption.endswith(
        f"Of {number} combinations only 2 are drawn, the first and the last; the table of kinds has all of them."
    )
    with_x = run.experiment.model_copy(update={"report": run.experiment.report.model_copy(update={"x": "clients"})})
    of_kinds = kinds_section(replace(run, experiment=with_x), many)
    assert of_kinds is not None
    over_load, each = of_kinds.items
    assert "drawn" not in over_load.caption
    assert isinstance(each, TableItem)
    assert [int(row["clients"]) for row in each.raw[:: len(each.raw) // number]] == list(range(1, number + 1))
    two = where_section(run, many[:2])
    assert two is not None
    assert "drawn" not in two.items[1].caption


def test_stages_of_other_requests_than_the_clients_are_not_called_theirs(run: Run) -> None:
    """A stall before the measured time is in a window of the tier that counts whole: shares are of their own sum."""
    stages = {"parse_mean_s": 1e-6, "waiting_mean_s": 4.4e-3, "dispatch_mean_s": 0.0, "service_mean_s": 9.9e-5}
    inside = stages | {"reply_mean_s": 0.0, "tier_response_mean_s": 4.5e-3, "throughput_per_s": 428.0}
    stalled, sound = (invented(1, r, **inside, response_mean_s=seen) for r, seen in ((1, 1.2e-3), (2, 9e-3)))
    for result, said, noted in (
        (stalled, "A request's mean time in the tier, 4.500 ms, is waiting for a worker 97.8 %, ", 1),
        (sound, "A request's mean time of 9.000 ms is outside the tier 50.0 %, waiting for a worker 48.9 %, ", 0),
    ):
        section = where_section(run, [Cell(1, {"n": 1}, (result,))])
        assert section is not None
        assert section.paragraphs[0].startswith(said)
        assert sum("(n = 1: 4.500 ms and 1.200 ms)" in each for each in section.paragraphs[1:]) == noted
        told = warnings(replace(run, results=(result,)))
        assert sum("In 1 trial (001-r1) requests took longer in the tier" in each for each in told) == noted


def test_kinds_of_requests_are_drawn_over_the_load_on_one_scale() -> None:
    """A plot for each level of the other factor, in each a line for each kind, through the means of its own trials."""
    times = {"pop": 0.004, "send": 0.001}

    def cell(clients: int, size: int) -> Cell:
        means = {kind: {"response_mean_s": each * clients * size, "served": 1000} for kind, each in times.items()}
        trials = [replace(invented(clients, r, throughput_per_s=1.0), kinds=means) for r in (1, 2)]
        return Cell(clients, {"clients": clients, "size": size}, tuple(trials))

    lines = {f"size = {size}": [cell(clients, size) for clients in (1, 2, 4)] for size in (1, 2, 3)}
    with styled():
        chart = kinds_over_load_chart(lines, ["pop", "send"], "clients", "clients")
    assert [axis.get_title(loc="left") for axis in chart.axes] == list(lines)
    assert len({axis.get_ylim() for axis in chart.axes}) == 1
    for size, axis in enumerate(chart.axes, 1):
        bars = [each for each in axis.containers if isinstance(each, ErrorbarContainer)]
        assert [each.get_label() for each in bars] == list(times)
        for each, of_one in zip(bars, times.values(), strict=True):
            drawn = np.asarray(each.lines[0].get_ydata(), dtype=np.float64)
            assert drawn == pytest.approx([of_one * clients * size * 1e3 for clients in (1, 2, 4)]), "in ms"


def test_kinds_are_told_where_no_tier_recorded_stages(run: Run) -> None:
    """As of a database alone; and without a factor that is a number there is the table only."""
    figures = {"throughput_per_s": 10.0, "response_mean_s": 0.01, "served": 10}
    measured = [Cell(1, {"n": 1}, (replace(invented(1, 1, **figures), kinds={"send": figures}),))]
    assert where_section(run, measured) is None
    section = kinds_section(replace(run, experiment=run.experiment.model_copy(update={"factors": {}})), measured)
    assert section is not None
    (table,) = section.items
    assert isinstance(table, TableItem)
    assert table.rows[0][:2] == ["1", "send"]
    assert kinds_section(run, [Cell(1, {"n": 1}, (invented(1, 1, **figures),))]) is None


def test_the_law_allows_for_the_edges_of_a_short_trial() -> None:
    """As the load generator does, which called this one sound: 162 answers of 16 clients behind half a second."""
    figures = {"population": 16, "think_time_s": 0.5, "think_kept_s": 0.4577, "response_mean_s": 2.229e-4}
    result = invented(1, 1, throughput_per_s=32.4, served=162, errors=0, **figures)
    assert [verdict.holds for verdict in verdicts(result)] == [True]
    longer = replace(result, figures=result.figures | {"served": 162_000})
    assert [verdict.holds for verdict in verdicts(longer)] == [False]
    known = replace(longer, figures=longer.figures | {"interactive_tolerance": 0.08})
    assert [verdict.holds for verdict in verdicts(known)] == [True]


def test_the_law_is_one_of_all_answers() -> None:
    """A third of them errors that took a tenth of the time: nothing is wrong, and both curves lie on the points."""
    counts = {"throughput_per_s": 100.0, "served": 1000, "errors": 500, "population": 3, "think_time_s": 0.0}
    result = invented(1, 1, **counts, response_mean_s=1 / 35, response_all_mean_s=0.02)
    assert [verdict.holds for verdict in verdicts(result)] == [True]
    chart = load_chart({"": [Cell(1, {"n": 1}, (result,))]}, "n", "n")
    for axis, measured in zip(chart.axes, (100.0, 1e3 / 35), strict=True):  # per second, ms
        law = next(line for line in axis.lines if line.get_linewidth() == 1.6)
        assert float(np.asarray(law.get_ydata(), dtype=np.float64)[0]) == pytest.approx(measured)
    silent = {name: value for name, value in result.figures.items() if name != "response_all_mean_s"}
    assert verdicts(replace(result, figures=silent)) == [], "nobody knows how long the errors took"


def test_the_curve_by_the_law_is_seen_where_it_agrees(run: Run) -> None:
    """It lies on the line of the points then, and must not be below it."""
    measured = [cell for cell in cells_of(run) if cell.levels["size"] == 100]
    with styled():
        chart = load_chart({"": measured}, "clients", "clients")
    for axis in chart.axes:
        (law,) = (line for line in axis.get_lines() if line.get_color() == LAW)
        assert law.get_zorder() > max(line.get_zorder() for line in axis.get_lines() if line is not law)


def test_a_single_trial_has_no_interval(run: Run) -> None:
    """Not one of no height either, which would say that the figure is known exactly."""
    clients = run.experiment.factors["clients"].model_copy(update={"levels": list(range(10))})
    varied = replace(run, experiment=run.experiment.model_copy(update={"factors": {"clients": clients}}))
    repeated = [cell for cell in cells_of(run) if cell.levels["size"] == 100]
    for measured, bars in (([replace(cell, results=cell.results[:1]) for cell in repeated], 0), (repeated, 1)):
        with styled():
            chart = load_chart({"": measured}, "clients", "clients")
        for axis in chart.axes:
            assert [isinstance(each, ErrorbarContainer) and each.has_yerr for each in axis.containers] == [bool(bars)]
            assert axis.containers[0].get_label() == "measured" + ", mean and 95 % interval" * bars
        (item,) = (item for item in overview_section(varied, measured).items if item.name == "load")
        assert ("95 % intervals" in item.caption) == bool(bars)
        assert ("Each point is a single trial" in item.caption) != bool(bars)


@pytest.mark.parametrize(
    ("populations", "is_open", "drawn"),
    [((1, 2, 4), False, True), ((1, 2, 4), True, False), ((8, 16, 32), False, False), ((1, 1, 1), False, False)],
    ids=["from one client on", "open loop", "from eight on", "over workers"],
)
def test_a_line_without_waiting_needs_a_client_that_was_alone(
    populations: tuple[int, ...], *, is_open: bool, drawn: bool
) -> None:
    """Eight clients may wait for each other already; the rate of an open loop is set, and waits for nobody."""
    line = []
    for n, clients in enumerate(populations, start=1):
        rate = 100.0 * n
        trial = invented(
            n, 1, throughput_per_s=rate, response_mean_s=clients / rate, population=clients, open_loop=is_open
        )
        line.append(Cell(n, {"n": n}, (trial,)))
    labels = [str(drawn.get_label()) for drawn in load_chart({"": line}, "n", "n").axes[0].lines]
    assert ("if nobody waited for another" in labels) == drawn


def test_the_curve_by_the_law_is_a_mean_over_trials() -> None:
    """Else it would leave the points wherever trials differ, with no figure wrong."""
    trials = [
        invented(1, r, throughput_per_s=x, response_mean_s=8 / x, population=8) for r, x in ((1, 10.0), (2, 90.0))
    ]
    cell = Cell(1, {"n": 1}, tuple(trials))
    chart = load_chart({"": [cell]}, "n", "n")
    for axis, column in zip(chart.axes, ("throughput_per_s", "response_mean_s"), strict=True):
        measured = cell.figure(column)
        assert measured is not None
        law = next(line for line in axis.lines if line.get_linestyle() == ":" or line.get_linewidth() == 1.6)
        shown = float(np.asarray(law.get_ydata(), dtype=np.float64)[0])
        assert shown == pytest.approx(measured.mean, rel=1e-9) or shown == pytest.approx(measured.mean * 1e3, rel=1e-9)


def test_the_highest_throughput_of_each_configuration_stands_in_a_table(run: Run) -> None:
    """One row for each line of the load chart; where the line ends at its highest point, that is said."""
    clients = run.experiment.factors["clients"].model_copy(update={"levels": [1, 2, 4]})
    experiment = run.experiment.model_copy(update={"factors": {**run.experiment.factors, "clients": clients}})
    varied = replace(run, experiment=experiment)
    line: list[Cell] = []
    for size, rates in ((100, [10.0, 30.0, 20.0]), (1000, [5.0, 6.0, 8.0])):
        for count, rate in zip((1, 2, 4), rates, strict=True):
            levels: dict[str, Level] = {"clients": count, "size": size}
            counted = {"throughput_per_s": rate, "tier_counted_per_s": rate, "waiting_mean_s": 0.5 / rate}
            result = invented(1, 1, population=count, think_time_s=0.0, response_mean_s=count / rate, **counted)
            line.append(Cell(len(line) + 1, levels, (replace(result, levels=levels),)))
    section = maxima_section(varied, line)
    assert section is not None
    (maxima,) = section.items
    assert isinstance(maxima, TableItem)
    assert [row[:3] for row in maxima.rows] == [["100", "2", "30.00"], ["1000", "4 *", "8.000"]]
    assert [raw["highest_level"] for raw in maxima.raw] == [False, True]
    for raw in maxima.raw:
        assert raw["by_law_per_s"] == pytest.approx(raw["throughput_per_s"])
        assert raw["requests_waiting"] == pytest.approx(0.5)
    assert maxima_section(run, cells_of(run)) is None, "two levels are no range to look for a maximum in"


def test_a_whisker_ends_where_ten_requests_lie_beyond() -> None:
    """Of 500 the 99th percentile is too few, the table says, and a box shows no more than that."""
    for number, low, high in ((500, 0.010, 0.490), (20_000, 0.200, 19.8), (20, 0.005, 0.015)):
        spread = Spread.of(np.arange(1, number + 1) / 1000)
        with styled():
            chart = box_chart({"": {"any": spread}})
        ends = [np.asarray(line.get_xdata(), dtype=np.float64) for line in chart.axes[0].get_lines()]
        whiskers = [float(x) for each in ends for x in each if len(each) == 2]
        factor = 1000 if high < 1 else 1
        assert (min(whiskers), max(whiskers)) == pytest.approx((low * factor, high * factor), rel=0.01), number


def test_levels_on_an_axis_are_written_as_they_are() -> None:
    """A mebibyte is no 1.04858e+06."""
    axis = new_figure(2).subplots()
    levels = [0.5, 1000, 65_536, 1_048_576]
    axis.plot(levels, levels)
    load_axis(axis, levels, "bytes")
    write = axis.xaxis.get_major_formatter()
    assert [write(each, None) for each in axis.get_xticks()] == ["0.5", "1000", "65536", "1048576"]


def test_a_legend_covers_no_title() -> None:
    """Of the plot below it, as that of the first of several models has."""
    with styled():
        chart = new_figure(3.5)
        axis = chart.subplots()
        axis.plot([1, 2], [1, 2], label="M/M/1")
        axis.set_title("size = 100")
        legend_above(axis, 1)
        chart.draw_without_rendering()
    (title,) = (text for text in axis.findobj(Text) if text.get_text() == "size = 100")
    legend = axis.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= title.get_window_extent().y1
