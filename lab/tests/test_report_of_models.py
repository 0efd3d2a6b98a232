"""What a report says of a fitted model and of single requests, held against what they are made from."""

import csv
import json
import math
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from programs import lab
from simulated import System, write_run

from posthaste_lab import fitting
from posthaste_lab.cli.fit import _bounds
from posthaste_lab.experiments.results import read_run
from posthaste_lab.fitting import read_model, validate
from posthaste_lab.fitting.model import IntervalValue
from posthaste_lab.fitting.observations import observations
from posthaste_lab.fitting.words import FIGURES
from posthaste_lab.report.cells import cells_of
from posthaste_lab.report.requests import read_requests
from posthaste_lab.report.sections.model import model_section
from posthaste_lab.report.sections.parts import ChartItem, TableItem
from posthaste_lab.report.sections.single import single_section

CLIENTS = [1, 4, 12, 24, 48]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a model and a report."""
    out = write_run(tmp_path_factory.mktemp("models") / "run", System(path=0.002, visits=0.8), CLIENTS, requests=1500)
    lab("fit", out)
    lab("report", out)
    return out


def table(run: Path, name: str) -> list[dict[str, str]]:
    """A table of the report."""
    with (run / "report" / "tables" / f"{name}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_model_and_measurement_stand_side_by_side_with_their_errors(run: Path) -> None:
    """Those of a validation, which was not fitted to the numbers of clients without a star."""
    found = validate(observations(read_run(run)))
    rows = table(run, "model-errors")
    assert [int(row["clients"]) for row in rows] == CLIENTS
    for row, line in zip(rows, found.lines, strict=True):
        assert float(row["throughput_error"]) == pytest.approx(line.throughput_error, abs=1e-6)
        assert float(row["response_mean_s"]) == pytest.approx(line.response.mean)
        assert row["fitted_to"] == str(line.calibrated)
    page = (run / "report" / "index.html").read_text("utf-8")
    for words in (
        "A model of it",
        "M/M/1",
        "The data support 1 to 96 clients, and nothing beyond",
        "The bottleneck with 48 clients is",
        "Fitted to 1,",
        "What to change",
    ):
        assert words in page, words
    assert "The data support 1 to 96 clients, and nothing beyond" in page
    assert (run / "report" / "figures" / "model.svg").exists()


def test_the_curve_is_dashed_where_nothing_was_measured(run: Path) -> None:
    """It goes to twice the most clients, and would look there as sure as among the points."""
    section = model_section(read_run(run), [])
    assert section is not None
    item = section.items[0]
    assert isinstance(item, ChartItem)
    assert "dashed beyond the most clients that it was fitted to" in item.caption
    for axis in item.draw().axes:
        curve, beyond = (line for line in axis.get_lines() if line.get_linewidth() == 1.3)
        assert curve.get_linestyle() == "-"
        assert beyond.get_linestyle() == "--"
        ends = [np.asarray(line.get_xdata())[[0, -1]].tolist() for line in (curve, beyond)]
        assert ends == [[1, 48], [48, 50]]


def test_what_was_predicted_is_drawn_and_not_what_a_model_of_all_points_says(run: Path) -> None:
    """The line passes by the hollow points as it was fitted to them; the diamonds beside these were not."""
    section = model_section(read_run(run), [])
    assert section is not None
    item = section.items[0]
    assert isinstance(item, ChartItem)
    held_out = [line for line in validate(observations(read_run(run))).lines if not line.calibrated]
    answers = [[line.predicted.throughput_per_s.value for line in held_out]]
    answers.append([line.predicted.response_time_s.value * 1e3 for line in held_out])
    for axis, expected in zip(item.draw().axes, answers, strict=True):
        (marks,) = (line for line in axis.get_lines() if line.get_marker() == "D")
        assert np.asarray(marks.get_xdata()).tolist() == [line.clients for line in held_out]
        assert np.asarray(marks.get_ydata()) == pytest.approx(expected)
    curve = {point.clients: point.throughput_per_s.value for point in read_model(run).models[0].curves[0].points}
    assert [curve[line.clients] for line in held_out] != pytest.approx(answers[0], rel=1e-6)


def test_an_open_model_with_more_requests_than_clients_is_marked(run: Path) -> None:
    """Next to its capacity M/M/1 answers what no closed system can have: X R beyond N."""
    model = read_model(run).models[0]
    answers = fitting.predict(model, [24, 48])
    for answer in answers:
        for response in (answer.mm1_response_s, answer.mmm_response_s, answer.response_time_s.value):
            inside = answer.throughput_per_s.value * response
            assert answer.exceeds_clients(response) == (inside > 1.05 * answer.clients)
    few, many = answers
    assert not few.exceeds_clients(few.mm1_response_s)
    assert many.exceeds_clients(many.mm1_response_s)
    assert not many.exceeds_clients(math.nan)
    said = lab("predict", run, "--clients", "24,48").stdout
    lines = {words[0]: words for line in said.splitlines() if (words := line.split())}
    assert [word[-1] == "!" for word in (lines["24"][-1], lines["48"][-1], lines["48"][-2])] == [False, True, True]
    assert "! more requests than clients" in said
    assert "more requests than clients" not in lab("predict", run, "--clients", "24").stdout
    page = (run / "report" / "index.html").read_text("utf-8")
    marked = [line.predicted for line in validate(observations(read_run(run))).lines]
    times = [(each, time) for each in marked for time in (each.mm1_response_s, each.mmm_response_s)]
    assert page.count("ms, more requests than clients") == sum(each.exceeds_clients(time) for each, time in times) > 0


def test_what_a_change_would_bring_is_the_models_own_figure(run: Path) -> None:
    """The same as in model.json, the most rewarding first."""
    effects = read_model(run).models[0].bottleneck.effects
    rows = table(run, "model-gains")
    assert [row["stage"] for row in rows] == [effect.stage for effect in effects]
    assert float(rows[0]["gain_share"]) == effects[0].gain_share
    assert {row["figure"] for row in table(run, "model-figures")} == set(FIGURES["batches"])


def test_a_report_shows_the_figures_that_a_model_of_its_kind_has(run: Path, tmp_path: Path) -> None:
    """Of workers only mean times are known, whose spread is none of the times that the model takes for exponential."""
    out = Path(shutil.copytree(run, tmp_path / "run"))
    held = json.loads((out / "model.json").read_text("utf-8"))
    held["models"][0]["kind"] = "workers"
    (out / "model.json").write_text(json.dumps(held), "utf-8")
    section = model_section(read_run(out), [])
    assert section is not None
    (figures,) = (item for item in section.items if item.name == "model-figures")
    assert isinstance(figures, TableItem)
    assert [row["figure"] for row in figures.raw] == list(FIGURES["workers"])


def test_single_requests_are_shown_of_the_trial_with_most_throughput(run: Path) -> None:
    """Those of its measured time, and no others."""
    best = max(read_run(run).finished, key=lambda result: result.figures["throughput_per_s"])
    assert best.measured_unix_s is not None
    begin, end = (at * 1e9 for at in best.measured_unix_s)
    found = read_requests(best.directory / "tier" / "record", (begin, end))
    rows = {row["kind"]: row for row in table(run, "requests")}
    assert set(rows) == {"pop", "peek"}
    for kind, row in rows.items():
        assert float(row["mean_s"]) == pytest.approx(found.mean_s(kind))
    page = (run / "report" / "index.html").read_text("utf-8")
    assert f"All {found.total:,} requests of trial {best.name}" in page


def test_a_kind_of_which_too_little_is_known_has_no_curve(run: Path, tmp_path: Path) -> None:
    """A name without a line would be looked for; the table has it, and says that its requests are too few."""
    more = tmp_path / "run"
    shutil.copytree(run, more)
    best = max(read_run(more).finished, key=lambda result: result.figures["throughput_per_s"])
    file = best.directory / "tier" / "record" / "requests.parquet"
    rows = pl.read_parquet(file)
    pl.concat([rows, rows[len(rows) // 2 :][:5].with_columns(kind=pl.lit("rare"))]).write_parquet(file)
    section = single_section(read_run(more), cells_of(read_run(more)))
    assert section is not None
    _, curves, each = section.items
    assert isinstance(curves, ChartItem)
    assert curves.caption.endswith("Of 3 kinds only 1 is drawn, the most frequent; the table has all of them.")
    legend = curves.draw().axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["pop"]  # every peek takes as long
    assert isinstance(each, TableItem)
    assert {row["kind"] for row in each.raw} == {"pop", "peek", "rare"}


def test_without_a_model_the_report_has_no_such_section(tmp_path: Path) -> None:
    """Nor with too few numbers of clients a validation."""
    out = write_run(tmp_path / "run", System(), [2, 8], repetitions=1, requests=400)
    lab("report", out)
    assert "A model of it" not in (out / "report" / "index.html").read_text("utf-8")
    lab("fit", out)
    lab("report", out)
    page = (out / "report" / "index.html").read_text("utf-8")
    assert "A model of it" in page
    assert "Fitted to 2," not in page


def test_of_many_models_a_few_are_told_and_it_is_said_so(tmp_path: Path) -> None:
    """The tables have them all."""
    systems = {size: System(batch=0.001 * size, visits=0.99) for size in range(1, 6)}
    out = write_run(tmp_path / "run", systems, [2, 4, 12], repetitions=2, requests=300)
    lab("fit", out)
    section = model_section(read_run(out), [])
    assert section is not None
    assert "This is told of 4 of the 5 combinations, evenly chosen; the tables have all of them." in section.paragraphs
    chart, errors, *_ = section.items
    assert chart.caption.endswith("Of 5 combinations only 4 are drawn, evenly chosen; the table has all of them.")
    assert isinstance(errors, TableItem)
    assert {row["size"] for row in errors.raw} == {1, 2, 3, 4, 5}
    # Student's interval of a share that is nearly 1, of two repetitions, would go beyond it.
    assert max(model.intervals["visits"].high for model in read_model(out).models) == 1.0


def told(run: Path) -> tuple[str, str]:
    """What the report says of the model, and below its chart."""
    section = model_section(read_run(run), [])
    assert section is not None
    return " ".join(section.paragraphs), section.items[0].caption


def test_a_model_of_a_part_is_not_passed_off_as_one_of_all(run: Path, tmp_path: Path) -> None:
    """Fitted to some of the clients, before a trial was left out, or before the run went on."""
    whole = "is to be expected, from all that was measured."
    said, caption = told(run)
    assert "was fitted to" not in said
    assert whole in caption
    less = Path(shutil.copytree(run, tmp_path / "less"))
    omitted = '[[omit]]\ntrial = "002-r1"\nreason = "a backup ran"\n'
    (less / "omit.toml").write_text(omitted, "utf-8")
    said, caption = told(less)
    assert (
        "model.json was fitted to 15 trials of 1, 4, 12, 24, 48 clients, and what was measured and counts by now are "
        "14 trials of 1, 4, 12, 24, 48 clients: fit again."
    ) in said
    assert "is to be expected, from 15 trials of 1, 4, 12, 24, 48 clients." in caption
    lab("fit", less)
    assert whole in told(less)[1]
    (less / "omit.toml").unlink()
    assert "model.json was fitted to 14 trials of" in told(less)[0], "as of a run that went on"
    lab("fit", less, "--calibrate", "4,24")
    said, caption = told(less)
    assert (
        "model.json was fitted to 6 trials of 4, 24 clients, as was chosen; it does not know 9 trials of 1, 12, 48 "
        "clients."
    ) in said
    assert "fit again" not in said
    assert "is to be expected, from 6 trials of 4, 24 clients." in caption
    (less / "omit.toml").write_text(omitted, "utf-8")
    assert "model.json was fitted to 6 trials of 4, 24 clients, and what was measured" in told(less)[0], (
        "one is left out"
    )


def test_a_model_of_another_experiment_is_called_that(run: Path, tmp_path: Path) -> None:
    """The file beside the run may have been copied there, or the experiment have been changed."""
    other = Path(shutil.copytree(run, tmp_path / "run"))
    model = json.loads((other / "model.json").read_text("utf-8"))
    model |= {"experiment_sha256": "1" * 64, "title": "Another system"}
    (other / "model.json").write_text(json.dumps(model), "utf-8")
    said, caption = told(other)
    assert "model.json was fitted to a run of another experiment file, 'Another system': fit this one." in said
    assert "is to be expected, from another experiment file's 15 trials of 1, 4, 12, 24, 48 clients." in caption


def test_a_report_with_a_model_of_what_cannot_be_fitted_any_more_is_written(run: Path, tmp_path: Path) -> None:
    """Trials with many errors came afterwards, or all trials were left out: the rest of the page is as good as ever."""
    refused = Path(shutil.copytree(run, tmp_path / "refused"))
    path = refused / "trials" / "002-r1" / "trial.json"
    trial = json.loads(path.read_text("utf-8"))
    trial["figures"] |= {"served": 50, "errors": 50}
    path.write_text(json.dumps(trial), "utf-8")
    section = model_section(read_run(refused), [])
    assert section is not None
    assert "It cannot be held against what was measured. DIR = " in " ".join(section.paragraphs)
    assert [item.name for item in section.items] == ["model-figures", "model-gains"]


def test_combinations_that_were_measured_later_are_missing_and_it_is_said_so(tmp_path: Path) -> None:
    """And one of which all is left out by now has no validation."""
    systems = {1: System(), 2: System(batch=0.002)}
    out = write_run(tmp_path / "run", systems, [2, 8], repetitions=2, requests=300)
    for later in out.glob("trials/00[34]-*"):
        later.rename(out / later.name)
    lab("fit", out)
    for later in out.glob("00[34]-*"):
        later.rename(out / "trials" / later.name)
    (section, said) = (model_section(read_run(out), []), "Measured, and not in model.json: 1 combination. Fit again.")
    assert section is not None
    assert said in section.paragraphs
    gone = "".join(f'[[omit]]\ntrial = "00{n}-r{r}"\nreason = "-"\n' for n in (1, 2) for r in (1, 2))
    (out / "omit.toml").write_text(gone, "utf-8")
    section = model_section(read_run(out), [])
    assert section is not None
    assert "and what was measured and counts by now are none: fit again." in " ".join(section.paragraphs)
    assert "M/M/1" not in " ".join(section.paragraphs), "no chart and no table has them"


def test_a_model_within_bounds_that_are_wide_is_not_praised(run: Path, tmp_path: Path) -> None:
    """They are wide since the measurement is known so badly; nor is a bottleneck that may be another one."""
    wide = tmp_path / "run"
    shutil.copytree(run, wide)
    for trial in wide.glob("trials/*-r1/trial.json"):
        text = json.loads(trial.read_text("utf-8"))
        text["figures"]["throughput_per_s"] *= 0.5
        trial.write_text(json.dumps(text), "utf-8")
    model = json.loads((wide / "model.json").read_text("utf-8"))
    held = model["models"][0]["bottleneck"]
    held |= {"lead_share": 0.1, "lead_interval": {"low": 0.0, "high": 0.3}}
    (wide / "model.json").write_text(json.dumps(model), "utf-8")
    praised, doubted = (model_section(read_run(directory), []) for directory in (run, wide))
    assert praised is not None
    assert doubted is not None
    for said in (
        "they would be 5.00 % and 10.0 %, but the measurement is not known so well itself",
        f"Its lead over {held['effects'][1]['stage']} is 10.0 % (interval 0 % to 30.0 %), so it may be that one",
    ):
        assert said in " ".join(doubted.paragraphs)
        assert said not in " ".join(praised.paragraphs)


def test_a_summary_has_verdict_figures_and_where_they_come_from(run: Path, tmp_path: Path) -> None:
    """In Markdown, with a note if there is one."""
    lab("report", run, "--summary", tmp_path / "kept" / "run.md", "--note", "Played, not measured.")
    text = (tmp_path / "kept" / "run.md").read_text("utf-8")
    for words in ("# A simulated system", "**Verdict: ", "- Played, not measured.", "| clients | throughput |",
                  "15 trials of 1 s", "a simulation", "SHA-256 000000"):  # fmt: skip
        assert words in text, words
    assert not [word for word in ("nan", "None") if word in text]


def test_a_figure_at_its_limit_is_called_that(run: Path, tmp_path: Path) -> None:
    """An interval from 0 to 8e-20 s would be one of rounding errors."""
    bound = Path(shutil.copytree(run, tmp_path / "run"))
    model = json.loads((bound / "model.json").read_text("utf-8"))
    model["models"][0]["intervals"]["handling_s"] = {"low": 0.0, "high": 8.231e-20}
    (bound / "model.json").write_text(json.dumps(model), "utf-8")
    section = model_section(read_run(bound), [])
    assert section is not None
    (figures,) = (item for item in section.items if item.name == "model-figures")
    assert isinstance(figures, TableItem)
    assert {row[0]: row[-1] for row in figures.rows}["handling_s"] == "at its limit, 0"
    assert _bounds(IntervalValue(low=0.0, high=8.231e-20)) == "at its limit, 0"


def test_a_summary_can_be_printed(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is called - would be hard to get rid of."""
    monkeypatch.chdir(tmp_path)
    printed = lab("report", run, "--summary", "-").stdout
    assert printed.startswith("# A simulated system\n")
    assert list(tmp_path.iterdir()) == []
    lab("report", run, "--summary", "kept.md")
    assert (tmp_path / "kept.md").read_text("utf-8") == printed
