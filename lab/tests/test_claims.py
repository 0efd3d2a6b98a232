"""Tests how figures decide claims, and what counts as chance."""

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from inventions import cells, invented
from programs import SMALL, lab

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.results import Run
from posthaste_lab.experiments.tables import FROM_FILE, Claim, Level
from posthaste_lab.report.cells import Cell, cells_of
from posthaste_lab.report.verdict import decide, decisions_of, overall
from posthaste_lab.report.warnings import warnings


@pytest.mark.parametrize(
    ("throughputs", "limit", "word"),
    [
        (([100.0, 101.0, 99.0], [300.0, 303.0, 297.0]), 2.0, "holds"),
        (([100.0, 101.0, 99.0], [150.0, 151.0, 149.0]), 2.0, "is refuted"),
        (([100.0, 130.0, 70.0], [200.0, 250.0, 170.0]), 2.0, "is undecided"),
        (([100.0], [300.0]), 2.0, "is undecided"),
    ],
    ids=["holds", "refuted", "wide", "once"],
)
def test_a_claim_is_decided_by_the_whole_interval(
    throughputs: tuple[list[float], list[float]], limit: float, word: str
) -> None:
    """Not by the mean; a single repetition decides nothing."""
    claim = Claim(says="twice", figure="throughput_per_s", where={"n": 2}, than={"n": 1}, at_least=limit)
    decision = decide(claim, cells(*throughputs))
    assert decision.word == word
    assert decision.value == pytest.approx(sum(throughputs[1]) / sum(throughputs[0]), rel=0.03)
    verdicts = {"holds": "its claims hold", "is refuted": "refuted", "is undecided": "undecided"}
    assert overall([decision]) == verdicts[word]


def test_a_decision_by_figures_of_the_generator_says_so() -> None:
    """Who reads that a claim holds need not look for that elsewhere."""
    claim = Claim(says="fast", figure="throughput_per_s", where={"n": 1}, at_least=50)
    for valid, said in (
        ((True, True), ""),
        ((True, False), "; the load generator calls 1 of these 2 trials not valid"),
    ):
        trials = [invented(1, r, throughput_per_s=100.0 + r, generator_valid=v) for r, v in enumerate(valid, start=1)]
        decision = decide(claim, [Cell(1, {"n": 1}, tuple(trials))])
        assert decision.word == "holds"
        assert decision.why.rpartition(" per second")[2] == said


@pytest.mark.parametrize("repetitions", [2, 3, 7])
@pytest.mark.parametrize("combinations", [1, 3, 7])
def test_a_figure_that_never_varies_keeps_the_limit_that_it_lies_on(repetitions: int, combinations: int) -> None:
    """A setting, say: sums of tenths are off by a last digit, and so are powers of logarithms."""
    set_to = [
        Cell(n, {"n": n}, tuple(invented(n, r, think_time_s=0.1 * n) for r in range(1, repetitions + 1)))
        for n in range(1, combinations + 1)
    ]
    mean = sum(0.1 * n for n in range(1, combinations + 1)) / combinations
    whole = Claim(says="as set", figure="think_time_s", at_least=mean, at_most=mean)
    assert decide(whole, set_to).word == "holds"
    assert decide(whole.model_copy(update={"at_least": mean * (1 + 1e-9), "at_most": 1.0}), set_to).word == "is refuted"
    where: dict[str, Level] = {"n": combinations}
    than: dict[str, Level] = {"n": 1}
    times = Claim(says="n times", figure="think_time_s", where=where, than=than, at_least=1, at_most=combinations)
    assert decide(times, set_to).word == "holds"


def test_an_interval_of_a_time_does_not_go_below_0() -> None:
    """Student's of two trials would, and says then that it was cut; what was claimed keeps all of its digits."""
    claim = Claim(says="fast", figure="response_mean_s", where={"n": 1}, at_most=0.0123456)
    for trials, said in (
        ((0.0002, 0.0014), "interval 0 ms to 8.424 ms (cut at 0)"),
        ((0.0010, 0.0011), "414.7 μs to "),
    ):
        cell = Cell(1, {"n": 1}, tuple(invented(1, r, response_mean_s=x) for r, x in enumerate(trials, start=1)))
        decision = decide(claim, [cell])
        assert decision.word == "holds"
        assert decision.low >= 0
        assert said in decision.why
        assert ("cut at 0" in decision.why) == (decision.low == 0)
        assert decision.why.endswith("claimed at most 12.3456 ms")


def test_two_repetitions_are_few_and_it_is_said(run: Run) -> None:
    """Their intervals are wide by Student's t alone."""
    for repetitions, told in ((2, 1), (3, 0)):
        rules = run.experiment.run.model_copy(update={"repetitions": repetitions})
        said = warnings(replace(run, experiment=run.experiment.model_copy(update={"run": rules})))
        assert sum("Student's t is 12.7" in each for each in said) == told


def test_a_percentile_of_too_few_requests_decides_nothing() -> None:
    """Of 900 requests nine lie beyond the 99th; the report shows no such figure, and a claim is not decided by it."""

    def measured(served: int, at: int = 1) -> list[Cell]:
        trials = [
            invented(1, r, response_p99_s=0.001 * x, served=served if r == at else 100_000)
            for r, x in ((1, 1.0), (2, 1.01), (3, 0.99))
        ]
        return [Cell(1, {"n": 1}, tuple(trials))]

    claim = Claim(says="fast", figure="response_p99_s", where={"n": 1}, at_most=0.01)
    for at in (1, 3):
        decision = decide(claim, measured(900, at))
        assert decision.word == "is undecided"
        assert decision.why == "too few requests beyond it, fewer than 10 in a trial: longer trials would tell"
        assert decision.trials == ("001-r1", "001-r2", "001-r3")
    assert decide(claim, measured(1000)).word == "holds"
    refuted = claim.model_copy(update={"at_most": 0.0001})
    assert decide(refuted, measured(900)).word == "is undecided"


def test_a_claim_about_true_is_not_about_1() -> None:
    """They are equal to Python, and two levels to an experiment."""
    one, true = cells([100.0, 101.0, 99.0], [300.0, 303.0, 297.0])
    measured = [replace(one, levels={"n": 1}), replace(true, levels={"n": True})]
    claim = Claim(says="thrice", figure="throughput_per_s", where={"n": True}, than={"n": 1}, at_least=2.9)
    assert decide(claim, measured).word == "holds"


def two_sides(rates: Mapping[tuple[int, str], Sequence[float | None]]) -> list[Cell]:
    """Cells of n and of another factor with throughputs by repetition; None is a trial that failed."""
    found = []
    for number, ((n, mode), each) in enumerate(rates.items(), start=1):
        levels: dict[str, Level] = {"n": n, "mode": mode}
        trials = [invented(number, r, throughput_per_s=x) for r, x in enumerate(each, start=1) if x is not None]
        found.append(Cell(number, levels, tuple(replace(trial, levels=levels) for trial in trials)))
    return found


TWICE = Claim(says="twice", figure="throughput_per_s", where={"n": 2}, than={"n": 1}, at_least=1.9, at_most=2.1)


def test_what_another_factor_does_is_no_chance_of_a_claim() -> None:
    """Each mode twice as fast, surely; the tenfold between modes says nothing against it."""
    noise = (1.0, 1.01, 0.99)
    rates = {(n, mode): [n * rate * x for x in noise] for n in (1, 2) for mode, rate in (("slow", 100), ("fast", 1000))}
    decision = decide(TWICE, two_sides(rates))
    assert decision.word == "holds"
    assert decision.value == pytest.approx(2.0)
    assert len(decision.trials) == 12


def test_what_a_repetition_does_to_all_its_trials_is_no_chance_of_a_ratio() -> None:
    """A machine that gets three times slower leaves the ratio as it was; of a mean it is all the chance there is."""
    slower = (1.0, 0.6, 0.3)
    measured = cells([100 * x for x in slower], [200 * x * y for x, y in zip(slower, (1, 1.01, 0.99), strict=True)])
    assert decide(TWICE, measured).word == "holds"
    mean = decide(Claim(says="?", figure="throughput_per_s", where={}, at_least=1), measured)
    assert mean.low == 0 < mean.value < mean.high, "it would reach below"


def test_a_claim_weighs_combinations_alike_whatever_failed() -> None:
    """And takes chance from within them, pooled, where too few repetitions are whole."""
    measured = two_sides(
        {
            (1, "slow"): [100.0, 102.0, None],
            (1, "fast"): [1000.0, None, 1020.0],
            (2, "slow"): [200.0, None, None],
            (2, "fast"): [2000.0, 2040.0, 1990.0],
        }
    )
    decision = decide(TWICE, measured)
    assert decision.value == pytest.approx(2.0, rel=0.02)
    logarithms = [np.log(list(cell.by_repetition("throughput_per_s").values())) for cell in measured]
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in logarithms)
    t = 2.776445  # of 1 + 1 + 0 + 2 degrees of freedom
    half = t * np.sqrt(squares / 4 * sum(1 / len(each) for each in logarithms) / 4)
    assert np.log(decision.high / decision.value) == pytest.approx(half, rel=1e-6)
    assert decision.word == "holds"
    assert len(decision.trials) == 8


def test_a_combination_without_trials_leaves_its_claim_open(run: Run) -> None:
    """The mean of the others is not the mean that was claimed; nor does one repetition of several decide anything."""
    all_of_it = cells_of(run)
    assert decisions_of(run, all_of_it)[0].word == "holds"
    decision = decisions_of(run, all_of_it[1:])[0]
    assert decision.word == "is undecided"
    assert decision.why == "no trial tells of clients = 2, size = 100"
    once = two_sides({(n, mode): [n * rate] for n in (1, 2) for mode, rate in (("slow", 100.0), ("fast", 1000.0))})
    assert decide(TWICE, once).word == "is undecided"


def test_what_a_quick_version_leaves_out_was_not_measured() -> None:
    """Not even where all other claims hold: the hypothesis is of both."""
    rest = '[[claims]]\nsays = "it answers"\nfigure = "throughput_per_s"\nat_least = 0.0001\n\n[quick]'
    experiment = Experiment.model_validate(tomllib.loads(SMALL.replace("[quick]", rest)), context=FROM_FILE)
    measured = cells([100.0, 101.0, 99.0])
    quick = [Cell(1, {"clients": 2}, measured[0].results)]
    decisions = decisions_of(Run(Path("nowhere"), experiment.quickly(), {"quick": True}, ()), quick)
    assert [(decision.claim.says, decision.word) for decision in decisions] == [
        ("it answers", "holds"),
        ("more clients get more", "was not measured"),
    ]
    assert decisions[1].why == "the quick version leaves out its levels"
    assert overall(decisions) == "not decided: a claim is about what was not measured"


def test_a_claim_about_a_mean_is_decided_by_its_interval() -> None:
    """With a limit above and below."""
    measured = cells([100.0, 101.0, 99.0])
    within = Claim(says="near 100", figure="throughput_per_s", where={"n": 1}, at_least=90, at_most=110)
    above = Claim(says="above", figure="throughput_per_s", where={"n": 1}, at_least=200)
    assert [decide(claim, measured).word for claim in (within, above)] == ["holds", "is refuted"]
    assert overall([decide(within, measured), decide(above, measured)]) == "refuted"
    assert overall([]).startswith("not decided")


def test_a_claim_about_what_no_trial_has_is_not_undecided() -> None:
    """More repetitions would tell nothing; it says so, and what was meant. Where no trial is over, nobody knows yet."""
    measured = cells([100.0, 101.0, 99.0])
    slip = Claim(says="?", figure="throughput", where={"n": 1}, at_least=0)
    decision = decide(slip, measured)
    assert decision.word == "was not measured"
    assert decision.why == "no trial has a figure throughput; did you mean throughput_per_s?"
    lost = decide(Claim(says="?", figure="tier_counted_per_s", where={}, at_least=0), measured)
    assert lost.why == "no trial has a figure tier_counted_per_s"
    assert overall([decision]) == "not decided: a claim is about what was not measured"
    assert decide(slip, [Cell(1, {"n": 1}, ())]).word == "is undecided"


def test_the_report_shows_what_was_not_measured(run: Run, tmp_path: Path) -> None:
    """A file that was run before anybody looked at the names of its figures is reported all the same."""
    shutil.copytree(run.directory, tmp_path / "out", ignore=shutil.ignore_patterns("report"))
    held = tmp_path / "out" / "experiment.toml"
    held.write_text(held.read_text("utf-8").replace('figure = "throughput_per_s"', 'figure = "throughput"'), "utf-8")
    lab("report", tmp_path / "out", "--summary", tmp_path / "summary.md")
    lab("report", tmp_path / "out")
    for page in (tmp_path / "summary.md", tmp_path / "out" / "report" / "index.html"):
        said = page.read_text("utf-8")
        assert "was not measured" in said
        assert "did you mean throughput_per_s?" in said
        assert "undecided" not in said
