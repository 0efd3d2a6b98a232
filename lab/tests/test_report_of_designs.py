"""Reports of 2^k designs: effects by the figures and scales asked for, and by what was run whole."""

from dataclasses import replace

import numpy as np
import pytest

from posthaste_lab.experiments.results import Run
from posthaste_lab.experiments.tables import Design, Level
from posthaste_lab.factorial import analyze, design
from posthaste_lab.report.cells import cells_of
from posthaste_lab.report.quantities import digits
from posthaste_lab.report.sections.design import design_section
from posthaste_lab.report.sections.parts import ChartItem, TableItem
from posthaste_lab.report.summary import _parts as summary_parts


def test_effects_on_logarithms_say_what_they_do_to_the_response(run: Run) -> None:
    """By what factor high differs from low, which is a ratio of geometric means."""
    rules = run.experiment.report.model_copy(update={"transform": ["log"]})
    logarithmic = replace(run, experiment=run.experiment.model_copy(update={"report": rules}))
    section = design_section(logarithmic, cells_of(run))
    assert section is not None
    (shown,) = (item for item in section.items if isinstance(item, TableItem))
    assert shown.caption.startswith("Effects on the natural logarithm of response_mean_s in ")
    means = {
        level: np.mean([np.log(r.figures["response_mean_s"]) for r in run.finished if r.levels["size"] == level])
        for level in (100, 1000)
    }
    (row,) = (row for row in shown.rows if row[0] == "size")
    assert row[-1] == f"high is {digits(float(np.exp(means[1000] - means[100])), 3)} times low"
    assert row[4] in {"yes", "no"}
    (mean,) = (row for row in shown.rows if row[0] == "mean")
    assert mean[4] == ""
    logs: dict[tuple[Level, Level], float] = {}
    for cell in cells_of(run):
        values = list(cell.by_repetition("response_mean_s").values())
        logs[cell.levels["clients"], cell.levels["size"]] = float(np.log(values).mean())
    few, many = sorted({clients for clients, _ in logs}, key=float)
    ratio = float(np.exp(logs[many, 1000] - logs[many, 100] - logs[few, 1000] + logs[few, 100]))
    (both,) = (row for row in shown.rows if row[0] == "clients:size")
    assert both[-1] == f"where one is high, the other's ratio is {digits(ratio, 3)} times that where it is low"
    assert all(len(row) == len(shown.columns) for row in shown.rows)


def test_what_is_to_be_known_of_effects_stands_in_sentences(run: Run) -> None:
    """A page of Markdown joins them to one paragraph."""
    once = replace(run, results=tuple(result for result in run.results if result.repetition == 1))
    section = design_section(once, cells_of(once))
    assert section is not None
    assert any(said.startswith("No error term: ") for said in section.paragraphs)
    assert all(said[0].isupper() and said.endswith(".") for said in section.paragraphs)


def test_a_design_is_analyzed_by_each_figure_asked_for(run: Run) -> None:
    """With a table of its own, on the scale asked for; of a figure that was not measured it says so."""
    rules = {
        "response": ["throughput_per_s", "response_mean_s", "absent_s"],
        "transform": ["none", "reciprocal", "log"],
    }
    report = run.experiment.report.model_copy(update=rules)
    several = replace(run, experiment=run.experiment.model_copy(update={"report": report}))
    section = design_section(several, cells_of(run))
    assert section is not None
    tables = {item.name: item for item in section.items if isinstance(item, TableItem)}
    assert list(tables) == ["effects", "effects-response_mean_s"]
    assert tables["effects"].caption.startswith("Effects on throughput_per_s in requests per second")
    # In the unit that suits how fast the machine was.
    unit = tables["effects-response_mean_s"].caption.removeprefix("Effects on 1 / response_mean_s in 1 / ")[:2]
    per_s = {"ms": 1e3, "μs": 1e6}[unit]
    inverse = [1 / result.figures["response_mean_s"] for result in run.finished]
    mean = next(row["q"] for row in tables["effects-response_mean_s"].raw if row["effect"] == "I")
    assert mean == pytest.approx(np.mean(inverse) / per_s)
    assert len({item.name for item in section.items}) == 4, "names of files: a chart and a table may share one"
    assert (
        "Effects on absent_s cannot be told: no trial that counts has it in 4 of the 4 combinations."
        in section.paragraphs
    )


def test_a_fraction_names_what_each_effect_is_aliased_with(run: Run) -> None:
    """That there is something says little; and advice is on the figure as it was measured, not on its logarithm."""
    kinds = {name: run.experiment.factors["clients"].model_copy(update={"levels": [0, 1]}) for name in "ABC"}
    report = run.experiment.report.model_copy(
        update={"response": ["throughput_per_s", "served"], "transform": ["log", "none"]}
    )
    asked = {"factors": kinds, "design": Design(generators=["C=AB"]), "claims": [], "report": report}
    experiment = run.experiment.model_copy(update=asked)
    signs = design(["A", "B"], generators=["C=AB"])
    results = [
        replace(
            run.finished[0],
            cell=cell,
            name=f"{cell:03}-r1",
            repetition=1,
            levels={name: int(sign > 0) for name, sign in zip("ABC", row, strict=True)},
            figures={"throughput_per_s": 10.0 * cell, "served": 100 * cell},
        )
        for cell, row in enumerate(signs.tolist(), start=1)
    ]
    trials = [{"cell": result.cell} for result in results]
    fraction = replace(run, experiment=experiment, results=tuple(results), plan=run.plan | {"trials": trials})
    section = design_section(fraction, cells_of(fraction))
    assert section is not None
    table = next(item for item in section.items if isinstance(item, TableItem))
    assert table.columns[-1] == "aliased with"
    assert {row[0]: row[-1] for row in table.rows} == {
        "mean": "A:B:C", "A": "B:C", "B": "A:C", "C": "A:B", "error": "",
    }  # fmt: skip
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert [p.partition(": ")[0] for p in section.paragraphs if p.startswith("Advice")] == [
        "Advice on the model for throughput_per_s",
        "Advice on the model for served",
    ]


def test_a_design_with_nothing_beyond_main_effects_tells_nothing_of_the_model() -> None:
    """Not that logarithms explain no more: nobody can see what either leaves."""
    fraction = design(["A", "B"], generators=["C=AB"])
    once = analyze(fraction, [10, 20, 40, 160])
    assert once.advice == "additive: the simpler one, since nothing of this design lies beyond main effects to tell by"
    twice = analyze(fraction, [[10, 11], [20, 21], [40, 44], [160, 170]])
    assert "beyond main effects lie" in twice.advice


def test_a_scale_that_a_figure_does_not_have_costs_one_analysis(run: Run) -> None:
    """Nobody had an error: there is no logarithm of that, and the rest of the report stands."""
    report = run.experiment.report.model_copy(update={"response": ["errors", "served"], "transform": ["log"]})
    section = design_section(
        replace(run, experiment=run.experiment.model_copy(update={"report": report})), cells_of(run)
    )
    assert section is not None
    assert [item.name for item in section.items if isinstance(item, TableItem)] == ["effects"]
    assert any(p.startswith("Effects on errors cannot be told (log): responses = 0.0") for p in section.paragraphs)


def test_a_design_that_was_run_once_has_no_residuals_to_show(run: Run) -> None:
    """And says that its effects have no intervals."""
    once = replace(run, results=tuple(result for result in run.results if result.repetition == 1))
    section = design_section(once, cells_of(once))
    assert section is not None
    table, chart = section.items
    assert isinstance(table, TableItem)
    assert {row[-1] for row in table.rows} == {"unknown", ""}
    assert chart.caption == "Effects by size; one repetition has no intervals."
    assert table.rows[-1][:4] == ["error", "", "", "unknown"]
    assert table.raw[-1] == {"effect": "error", "variation": None}


def test_a_design_with_trials_missing_is_analyzed_by_what_was_run_whole(run: Run) -> None:
    """By repetitions, each of which is a block; where none is whole it says why there is nothing to see."""
    (first, *others) = run.finished
    one_missing = replace(run, results=tuple(others))
    section = design_section(one_missing, cells_of(one_missing))
    assert section is not None
    (shown,) = (item for item in section.items if isinstance(item, TableItem))
    once = replace(run, results=tuple(result for result in run.results if result.repetition != first.repetition))
    alone = design_section(once, cells_of(once))
    assert alone is not None
    (expected,) = (item for item in alone.items if isinstance(item, TableItem))
    assert shown.rows == expected.rows
    assert any("3 trials of the other repetitions" in paragraph for paragraph in section.paragraphs)
    kept = "\n".join(summary_parts(one_missing, ""))
    assert all(paragraph in kept for paragraph in section.paragraphs), "what is kept says the same"
    for gone, why in [
        ({(first.cell, 1), (first.cell, 2)}, "no trial that counts has it in 1 of the 4 combinations"),
        ({(1, 1), (2, 2)}, "no repetition in which all combinations have it"),
    ]:
        left = replace(run, results=tuple(r for r in run.results if (r.cell, r.repetition) not in gone))
        section = design_section(left, cells_of(left))
        assert section is not None
        assert not section.items
        assert any(why in paragraph for paragraph in section.paragraphs), section.paragraphs


def test_residuals_are_drawn_over_the_run_and_one_over_a_rate_is_a_time(run: Run) -> None:
    """Each trial at its turn, so that a drift shows as a slope."""
    rules = {"response": ["throughput_per_s"], "transform": ["reciprocal"]}
    report = run.experiment.report.model_copy(update=rules)
    section = design_section(
        replace(run, experiment=run.experiment.model_copy(update={"report": report})), cells_of(run)
    )
    assert section is not None
    table, effects, residuals = section.items
    assert "Effects on 1 / throughput_per_s in μs per request" in table.caption
    assert isinstance(effects, ChartItem)
    assert isinstance(residuals, ChartItem)
    assert effects.draw().axes[0].get_xlabel().endswith("(μs per request)")
    order = residuals.draw().axes[2]
    assert order.get_xlabel() == "turn"
    drawn = [np.asarray(line.get_xdata(), dtype=np.float64).tolist() for line in order.lines]
    places = {place for each in drawn if len(each) == len(run.finished) for place in each}
    assert places == {float(result.place) for result in run.finished}
