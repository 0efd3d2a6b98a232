"""Tests models fitted to systems whose figures are all known, and to one short run of the real programs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fitted import model_of
from programs import SMALL, lab, run_through, write
from simulated import System, write_run

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.results import read_run
from posthaste_lab.fitting import OutsideTheData, fit_run, predict, read_model, validate, write_model
from posthaste_lab.fitting.batches import merged, of_single_requests
from posthaste_lab.fitting.observations import observations
from posthaste_lab.fitting.system import Figures, Setting, between
from posthaste_lab.fitting.validation import _summary, spread_over
from posthaste_lab.queueing import BatchServer
from posthaste_lab.stats import MeanInterval

KNOWN = System(batch=0.001, request=0.00004, path=0.003, handling=0.00006, visits=0.7)
CLIENTS = [1, 4, 12, 24, 48, 96]
CALIBRATED = [1, 12, 48, 96]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the known system."""
    return write_run(tmp_path_factory.mktemp("known") / "run", KNOWN, CLIENTS)


def test_the_figures_of_a_known_system_are_found_again(known: Path) -> None:
    """The batch's time to 2 %, the others nearly; every interval is there and the figure in it."""
    model = fit_run(read_run(known), CALIBRATED).models[0]
    figures = model.figures
    assert figures.batch_s == pytest.approx(KNOWN.batch, rel=0.02)
    assert figures.request_in_batch_s == pytest.approx(KNOWN.request, rel=0.05)
    assert figures.visits == pytest.approx(KNOWN.visits, rel=0.02)
    assert figures.path_s == pytest.approx(KNOWN.path, rel=0.06)
    assert figures.handling_s == pytest.approx(KNOWN.handling, rel=0.1)
    assert figures.batch_scv < 0.01
    assert figures.batch_shape == ()
    assert len(model.by_repetition) == 3
    for name, bounds in model.intervals.items():
        assert bounds.low <= getattr(figures, name) <= bounds.high
    assert model.range.clients_min == 1
    assert model.range.clients_max == 192


def test_rare_stalls_are_fitted_as_what_they_are(tmp_path: Path) -> None:
    """One batch in a hundred takes fifty times as long; the model is given that, and finds the rest again."""
    system = replace(KNOWN, stalled=0.01)
    run = write_run(tmp_path / "run", system, [1, 6, 24, 48], repetitions=2, requests=6000)
    model = model_of(run)
    shape = model.figures.batch_shape
    assert sum(share for _, share in shape) == pytest.approx(1)
    assert sum(value * share for value, share in shape) == pytest.approx(1)
    about = sum(share * (value - 1) ** 2 for value, share in shape)
    assert 8 < about == pytest.approx(model.figures.batch_scv, rel=0.25)
    assert 0.003 < sum(share for value, share in shape if value > 10) < 0.03
    assert len(shape) <= 30
    assert model.figures.path_s == pytest.approx(system.path, rel=0.25)
    for point in model.points:
        assert point.model_throughput_per_s == pytest.approx(point.throughput_per_s, rel=0.1)
    write_model(fit_run(read_run(run)), run)
    assert read_model(run).models[0].figures.batch_shape == shape


def test_a_model_of_before_the_distribution_was_kept_is_read_and_predicts(tmp_path: Path) -> None:
    """By a gamma distribution of its spread, which is nearly the same where batches have one."""
    run = write_run(tmp_path / "run", replace(KNOWN, scv=0.5), [4, 24], repetitions=2, requests=2000)
    fitted = fit_run(read_run(run))
    text = fitted.model_dump()
    for model in text["models"]:
        for figures in (model["figures"], *model["by_repetition"]):
            assert len(figures.pop("batch_shape")) > 20
    (tmp_path / "model.json").write_text(json.dumps(text), "utf-8")
    old = read_model(tmp_path).models[0]
    assert old.figures.batch_shape == ()
    (one,), (other,) = predict(old, [12]), predict(fitted.models[0], [12])
    assert one.throughput_per_s.value == pytest.approx(other.throughput_per_s.value, rel=0.02)


def test_a_distribution_that_is_guessed_is_told(known: Path, tmp_path: Path) -> None:
    """A gamma distribution in place of rare stalls is far from them; near one, or if it is known, nothing is said."""
    fitted = fit_run(read_run(known), CALIBRATED)

    def says(scv: float, shape: tuple[tuple[float, float], ...] = ()) -> str:
        figures = fitted.models[0].figures.model_copy(update={"batch_scv": scv, "batch_shape": shape})
        model = fitted.models[0].model_copy(update={"figures": figures, "by_repetition": []})
        write_model(fitted.model_copy(update={"models": [model]}), tmp_path)
        return lab("predict", tmp_path, "--clients", "8", "--json").stderr

    assert "the distribution of batches' times is not in the model" in says(6.0)
    assert "batch_scv 6" in says(6.0)
    assert says(1.2) == says(6.0, ((0.5, 0.98), (25.5, 0.02))) == ""


def test_between_two_levels_lies_the_distribution_of_both() -> None:
    """By their weights; none where one of them was not measured."""
    first = Figures(
        batch_s=0.001, request_in_batch_s=0.0, contention_s=0.0, batch_scv=0.2, visits=1.0, path_s=0.001,
        handling_s=0.0, batch_shape=((0.5, 0.5), (1.5, 0.5)),
    )  # fmt: skip
    second = first.model_copy(update={"batch_shape": ((1.0, 1.0),)})
    assert between(first, second, 0.25).batch_shape == ((0.5, 0.375), (1.5, 0.375), (1.0, 0.25))
    assert between(first, first.model_copy(update={"batch_shape": ()}), 0.25).batch_shape == ()


def test_the_share_that_goes_by_the_line_is_one_of_all_requests() -> None:
    """Ten of 20 and 90 of 90 are ten in eleven: a trial of one client counts no more than it has requests."""
    few = replace(of_single_requests(0.001, 0.0), counts=np.array([10.0]), visits=0.5)
    many = replace(few, counts=np.array([90.0]), visits=1.0)
    assert merged([few, many]).visits == pytest.approx(10 / 11)


def test_the_turn_between_two_batches_is_part_of_what_a_batch_takes(tmp_path: Path) -> None:
    """Clients wait for it as they do for the store."""
    run = write_run(tmp_path / "run", System(turn=0.0003, path=0.0005), [4, 16, 32], requests=1500)
    assert 0.00124 < model_of(run).figures.batch_s < 0.00132  # a few begin without a turn before


def test_numbers_of_clients_not_fitted_to_lie_within_the_intervals(known: Path) -> None:
    """Means of those in between that were measured, and nearly all trials; the intervals are narrow enough to tell."""
    seen = observations(read_run(known))
    model = fit_run(read_run(known), CALIBRATED).models[0]
    held_out = [each for each in seen if each.population not in CALIBRATED]
    assert len(held_out) == 6
    outside = 0
    for answer in predict(model, {each.population for each in held_out}):
        trials = [each for each in held_out if each.population == answer.clients]
        throughput, response = answer.throughput_per_s, answer.response_time_s
        assert throughput.high - throughput.low < 0.2 * throughput.value
        assert throughput.low <= sum(each.throughput_per_s for each in trials) / 3 <= throughput.high
        assert response.low <= sum(each.response_time_s for each in trials) / 3 <= response.high
        outside += sum(not throughput.low <= each.throughput_per_s <= throughput.high for each in trials)
    assert outside <= 1  # one trial in twenty is expected there


def test_validation_finds_the_model_good_and_the_open_models_bad(known: Path) -> None:
    """Errors over the held-out clients are those of the lines, and within the target; M/M/1 is far off."""
    found = validate(observations(read_run(known)), CALIBRATED)
    held_out = [line for line in found.lines if not line.calibrated]
    assert [line.clients for line in held_out] == [4, 24]
    assert found.throughput.error == pytest.approx(sum(abs(line.throughput_error) for line in held_out) / 2)
    assert found.throughput.kept
    assert found.response.kept
    assert found.throughput.bound >= 0.05
    assert found.throughput.error < 0.05
    assert found.response.error < 0.10
    for line in held_out:
        assert line.predicted.mm1_response_s < 0.5 * line.response.mean


def test_a_validation_that_fails_says_so_with_its_exit_code(known: Path, tmp_path: Path) -> None:
    """Twice the throughput where it is predicted is no good prediction."""
    run = tmp_path / "run"
    shutil.copytree(known, run)
    for path in run.glob("trials/004-*/trial.json"):
        trial = json.loads(path.read_text("utf-8"))
        trial["figures"]["throughput_per_s"] *= 2
        path.write_text(json.dumps(trial), "utf-8")
    said = lab("validate", run, "--calibrate", "1,12,48,96", code=1)
    assert "NOT within the bound" in said.stdout
    assert "within the bound" in lab("validate", known, "--calibrate", "1,12,48,96").stdout


def test_a_bound_that_is_wide_since_little_is_known_says_so(known: Path, tmp_path: Path) -> None:
    """To be within 150 % of what was measured with an interval as wide is no praise of a model."""
    run = tmp_path / "run"
    shutil.copytree(known, run)
    for path, factor in zip(sorted(run.glob("trials/004-*/trial.json")), (0.5, 1.0, 1.5), strict=True):
        trial = json.loads(path.read_text("utf-8"))
        trial["figures"]["throughput_per_s"] *= factor
        path.write_text(json.dumps(trial), "utf-8")
    said = " ".join(lab("validate", run, "--calibrate", "1,12,48,96").stdout.split())
    assert "and not of 5.0 %: the measurement is not known so well itself" in said
    assert "not of" not in lab("validate", known, "--calibrate", "1,12,48,96").stdout


def test_a_point_that_was_measured_badly_widens_no_bound_of_another() -> None:
    """Bounds of 8, 40 and 7 % are 18 % on average, and an error of 20 % is beyond two of them; yet a mean decides."""
    measured = [MeanInterval(1.0, 1 - half, 1 + half, 0.1, 5, 0.95) for half in (0.08, 0.40, 0.07)]
    errors = (0.20, 0.10, -0.20)
    found = _summary(list(zip(errors, measured, strict=True)), 0.05)
    assert found.error < found.bound
    assert found.taken == pytest.approx((0.20 / 0.08 + 0.10 / 0.40 + 0.20 / 0.07) / 3)
    assert not found.kept
    assert _summary(list(zip((0.02, 0.30, 0.02), measured, strict=True)), 0.05).kept
    beyond = [(0.12, measured[0]), (0.02, measured[2])]
    assert not _summary(beyond[:1], 0.05).kept
    assert _summary(beyond, 0.05).taken == pytest.approx((0.12 / 0.08 + 0.02 / 0.07) / 2)
    assert _summary(beyond, 0.05).kept


def test_the_bottleneck_is_what_would_help_most(tmp_path: Path) -> None:
    """The store's batches in one system, the handling in another, each with an interval that does not hold zero."""
    slow_store = write_run(tmp_path / "store", System(path=0.0005), [2, 8, 16], requests=1500)
    slow_hands = write_run(tmp_path / "hands", System(batch=0.0002, handling=0.0004), [2, 8, 32], requests=1500)
    store = model_of(slow_store).bottleneck
    hands = model_of(slow_hands).bottleneck
    assert store.stage == "store, for each batch"
    assert hands.stage == "handling, for each request"
    for held in (store, hands):
        assert held.lead_interval is not None
        assert 0 < held.lead_interval.low < held.lead_share
        assert held.effects[0].gain_share - held.effects[1].gain_share == pytest.approx(held.lead_share)
    assert hands.handling_utilization > 0.9


def test_think_time_is_part_of_the_model_and_can_be_changed(tmp_path: Path) -> None:
    """With other think times the model answers what such a system does."""
    thinking = System(think=0.01)
    model = model_of(write_run(tmp_path / "run", thinking, [1, 8, 128], requests=2500))
    assert model.think_time_s == 0.01
    (busy,) = predict(model, [32], think_time_s=0.0)
    (idle,) = predict(model, [32])
    assert busy.throughput_per_s.value > 1.5 * idle.throughput_per_s.value
    seen = observations(read_run(write_run(tmp_path / "hurried", System(), [32], requests=4000)))
    assert busy.response_time_s.value == pytest.approx(sum(each.response_time_s for each in seen) / 3, rel=0.05)


def test_a_fit_takes_the_think_time_as_it_was_kept(tmp_path: Path) -> None:
    """Clients that were asked to pause for 8 ms and paused for 10 are the system of 10; told is what was asked."""
    run = write_run(tmp_path / "run", System(think=0.01), [2, 8, 32], repetitions=2, requests=800)
    right = model_of(run)
    for path in run.glob("trials/*/trial.json"):
        trial = json.loads(path.read_text("utf-8"))
        trial["figures"] |= {"think_time_s": 0.008, "think_kept_s": 0.01}
        path.write_text(json.dumps(trial), "utf-8")
    fitted = model_of(run)
    assert fitted.figures == right.figures
    assert fitted.points == right.points
    assert fitted.think_time_s == 0.008
    (line,) = (line for line in validate(observations(read_run(run)), [2, 32]).lines if not line.calibrated)
    assert line.predicted.throughput_per_s.value == pytest.approx(8 / (line.predicted.response_time_s.value + 0.01))


def answered(run: Path, **figures: float) -> None:
    """Replaces figures of all trials of a run."""
    for path in run.glob("trials/*/trial.json"):
        trial = json.loads(path.read_text("utf-8"))
        trial["figures"] |= {name: factor * trial["figures"].get(name, 1) for name, factor in figures.items()}
        path.write_text(json.dumps(trial), "utf-8")


def test_a_few_errors_are_answers_like_all_others(known: Path, tmp_path: Path) -> None:
    """N = X (R + Z) is one of all answers: the model is the same as if those had been served."""
    run = Path(shutil.copytree(known, tmp_path / "run"))
    right = observations(read_run(run))
    answered(run, served=995, errors=5, throughput_per_s=0.995)
    with pytest.raises(BadArgument, match="5 errors whose time nobody measured"):
        observations(read_run(run))
    for path in run.glob("trials/*/trial.json"):
        trial = json.loads(path.read_text("utf-8"))
        trial["figures"]["response_all_mean_s"] = trial["figures"]["response_mean_s"]
        trial["figures"]["response_mean_s"] *= 1.004
        path.write_text(json.dumps(trial), "utf-8")
    for seen, wanted in zip(observations(read_run(run)), right, strict=True):
        assert seen.throughput_per_s == pytest.approx(wanted.throughput_per_s)
        assert seen.response_time_s == pytest.approx(wanted.response_time_s)


def test_a_model_of_many_errors_is_refused(known: Path, tmp_path: Path) -> None:
    """Who is refused takes another time than who is served, and the model knows one of them."""
    run = Path(shutil.copytree(known, tmp_path / "run"))
    answered(run, served=500, errors=500, throughput_per_s=0.5, response_all_mean_s=0.001)
    for command in ("fit", "validate"):
        said = " ".join(lab(command, run, code=2).stderr.split())
        assert "trial 001-r1 has 500 errors beside 500 requests served" in said


def test_another_batch_limit_is_answered(tmp_path: Path, known: Path) -> None:
    """As a system with that limit does."""
    limited = System(**(vars(KNOWN) | {"limit": 8}))
    seen = observations(read_run(write_run(tmp_path / "limited", limited, [48], requests=4000)))
    (answer,) = predict(model_of(known), [48], batch_limit=8)
    assert answer.throughput_per_s.value == pytest.approx(seen[0].throughput_per_s, rel=0.05)


def test_what_the_data_do_not_support_is_refused(known: Path, tmp_path: Path) -> None:
    """More clients than twice the most, other workers, several middlewares; a sentence that says what is supported."""
    fitted = fit_run(read_run(known))
    model = fitted.models[0]
    with pytest.raises(OutsideTheData, match="193: is outside what the data support, 1 to 192"):
        predict(model, [96, 193])
    with pytest.raises(OutsideTheData, match="--workers = 4"):
        predict(model, [8], workers=4)
    assert predict(model, [97])[0].extrapolated
    assert not predict(model, [96])[0].extrapolated
    narrow = model.model_copy(update={"range": model.range.model_copy(update={"batch_requests_max": 5})})
    with pytest.raises(OutsideTheData, match="the largest measured had 5"):
        predict(narrow, [96])
    write_model(fitted, tmp_path)
    for option in ("--middlewares", "--message-bytes"):
        assert f"{option} = 2: is outside" in lab("predict", tmp_path, "--clients", "8", option, "2", code=2).stderr


def test_runs_the_model_is_not_made_for_are_refused(tmp_path: Path, known: Path) -> None:
    """Overlapping batches of one worker, single requests not recorded, one number of clients besides a lone one."""
    several = write_run(tmp_path / "several", System(servers=4), [4, 16], requests=600)
    for path in several.glob("trials/*/tier/record/run.json"):
        path.write_text(path.read_text("utf-8").replace('"workers": 4', '"workers": 1'), "utf-8")
    with pytest.raises(BadArgument, match="batches under way at once"):
        fit_run(read_run(several))
    with pytest.raises(BadArgument, match="at least 2 numbers"):
        fit_run(read_run(known), [12])
    with pytest.raises(BadArgument, match=r"at least 3 numbers: .*, and a client that is alone tells of its own way"):
        fit_run(read_run(known), [1, 48])
    with pytest.raises(BadArgument, match="is no number of clients"):
        fit_run(read_run(known), [1, 13])
    bare = tmp_path / "bare"
    shutil.copytree(known, bare)
    for path in bare.glob("trials/*/tier/record/requests.parquet"):
        path.unlink()
    assert "record-requests = true" in lab("fit", bare, code=2).stderr


def test_trials_that_broke_a_rule_of_acceptance_are_left_out(known: Path, tmp_path: Path) -> None:
    """And named; otherwise this one would spoil the fit."""
    run = tmp_path / "run"
    shutil.copytree(known, run)
    path = run / "trials" / "003-r2" / "trial.json"
    trial = json.loads(path.read_text("utf-8"))
    trial["objections"] = ["errors = 3, accepted up to 0"]
    trial["figures"]["throughput_per_s"] *= 3
    path.write_text(json.dumps(trial), "utf-8")
    said = lab("fit", run, "--calibrate", "1,12,48,96").stdout
    assert "left out, by a rule of acceptance or by omit.toml: 003-r2" in said
    assert [point.trials for point in read_model(run).models[0].points] == [3, 2, 3, 3]


def test_one_repetition_gives_a_model_without_intervals(tmp_path: Path) -> None:
    """And the program says so; nothing is made up."""
    once = write_run(tmp_path / "once", System(), [2, 8], repetitions=1, requests=600)
    assert "fewer than two repetitions have all numbers of clients" in lab("fit", once).stdout
    said = json.loads(lab("predict", once, "--clients", "4", "--json").stdout)
    assert said[0]["throughput_per_s"]["low"] is None
    assert said[0]["throughput_per_s"]["value"] > 0
    assert read_model(once).models[0].intervals == {}


def test_clients_that_are_requests_in_flight_are_told(known: Path, tmp_path: Path) -> None:
    """Or 64 clients of the model would be looked for among the 16 of the experiment."""
    run = Path(shutil.copytree(known, tmp_path / "run"))
    about = "clients of the model are requests in flight"
    assert about not in lab("fit", run, "--calibrate", "4,96").stdout
    for path in run.glob("trials/*/trial.json"):
        trial = json.loads(path.read_text("utf-8"))
        trial["figures"]["clients"] = trial["figures"]["population"] / 4
        path.write_text(json.dumps(trial), "utf-8")
    assert about in " ".join(lab("fit", run, "--calibrate", "4,96").stdout.split())
    lab("report", run)
    assert about in (run / "report" / "index.html").read_text("utf-8")


def test_a_model_of_figures_that_the_generator_calls_invalid_says_so(known: Path, tmp_path: Path) -> None:
    """Else what limited the generator would be the system's handling; so does what is predicted and validated."""
    run = Path(shutil.copytree(known, tmp_path / "run"))
    asked = [
        ("fit", run, "--calibrate", "1,12,48,96"),
        ("predict", run, "--clients", "8"),
        ("validate", run, "--calibrate", "1,12,48,96"),
        ("validate", run, "--calibrate", "1,12,48,96", "--markdown"),
    ]
    doubt = "In 1 trial the load generator calls its figures invalid (006-r2), of 006-r2 because it was the limit."
    assert doubt not in " ".join(" ".join(lab(*each).stdout.split()) for each in asked)
    path = run / "trials" / "006-r2" / "trial.json"
    held = json.loads(path.read_text("utf-8"))
    held["figures"] |= {"generator_valid": False, "invalid_because": "it was the limit"}
    path.write_text(json.dumps(held), "utf-8")
    for each in asked:
        assert doubt in " ".join(lab(*each).stdout.split()), each
    said = lab("predict", run, "--clients", "8", "--json")
    assert doubt in " ".join(said.stderr.split())
    assert json.loads(said.stdout)[0]["clients"] == 8


def test_the_program_writes_a_model_and_answers_from_it(known: Path, tmp_path: Path) -> None:
    """What is read back is what was written; a range is answered at round numbers and its ends."""
    run = tmp_path / "run"
    shutil.copytree(known, run)
    said_of_fit = lab("fit", run, "--calibrate", "1,12,48,96").stdout
    assert "bottleneck with 96 clients: handling, for each request" in said_of_fit
    fitted = read_model(run)
    assert fitted == fit_run(read_run(run), CALIBRATED)
    assert json.loads((run / "model.json").read_text("utf-8"))["version"] == 2
    said = json.loads(lab("predict", run, "--clients", "3..60", "--json").stdout)
    assert [answer["clients"] for answer in said] == [3, 5, 10, 20, 50, 60]
    assert "M/M/1" in lab("predict", run, "--clients", "8,190").stdout
    wide = lab("predict", run, "--clients", "1..500", "--json")
    assert "the data support 1 to 192 clients" in wide.stderr
    assert json.loads(wide.stdout)[-1]["clients"] == 192, "as far as they carry"
    printed = lab("predict", run, "--clients", "1..500")
    assert "the data support 1 to 192 clients, and nothing beyond" in printed.stdout, "a file that is kept says so too"
    assert printed.stderr == ""
    assert "the data support" not in lab("predict", run, "--clients", "1..192").stdout
    assert "1 to 192" in lab("predict", run, "--clients", "300..500", code=2).stderr
    for wrong in ("many", "8..4", ""):
        assert "must be numbers" in lab("predict", run, "--clients", wrong, code=2).stderr
    assert (
        "names size, and the factors are" in lab("predict", run, "--clients", "8", "--where", "size=3", code=2).stderr
    )


def test_a_model_of_another_version_is_not_read(tmp_path: Path) -> None:
    """Nor is something else, or nothing."""
    assert "posthaste-lab fit makes one" in lab("predict", tmp_path, "--clients", "8", code=2).stderr
    (tmp_path / "model.json").write_text('{"format": "posthaste-lab model", "version": 1}', "utf-8")
    assert "version" in lab("predict", tmp_path, "--clients", "8", code=2).stderr


def test_four_counts_are_spread_over_all() -> None:
    """First and last among them, and at least one left to predict."""
    assert spread_over([1, 2, 4, 8, 16, 32, 64, 128]) == [1, 4, 32, 128]
    assert spread_over([1, 2, 4]) == [1, 4]


def test_a_run_of_the_real_programs_is_fitted(tmp_path: Path) -> None:
    """From the experiment to the answer; what is measured of the batches is the store's, not a guess."""
    text = SMALL.replace('store = "embedded:{dir}/store"', 'store = "embedded:{dir}/store"\nrecord-requests = true')
    out = tmp_path / "out"
    run_through(write(tmp_path, text), out)
    lab("fit", out)
    model = read_model(out).models[0]
    assert [point.clients for point in model.points] == [2, 8]
    assert 0.2 < model.figures.visits < 0.95  # peeks are answered on the spot
    assert 0 < model.figures.batch_alone_s() < 1  # on a busy machine its fixed part may be 0
    assert model.range.batch_requests_max in range(1, 9)
    (answer,) = predict(model, [4])
    assert answer.throughput_per_s.low <= answer.throughput_per_s.value <= answer.throughput_per_s.high


def test_middlewares_with_unequal_shares_serve_what_each_of_them_serves() -> None:
    """Five clients on two middlewares: what three get and what two get, whose mean response time is by throughput."""
    figures = Figures(
        batch_s=0.001, request_in_batch_s=0.0001, contention_s=0.0, batch_scv=0.2, visits=1.0, path_s=0.0,
        handling_s=0.0,
    )  # fmt: skip

    def solved(clients: int, middlewares: int) -> BatchServer:
        return figures.solved(clients, Setting("batches", 0.0005, 1, 1, middlewares))

    apart = [solved(2, 1), solved(3, 1)]
    both = solved(5, 2)
    assert both.throughput == pytest.approx(sum(each.throughput for each in apart))
    weighted = sum(each.throughput * each.response_time for each in apart) / both.throughput
    assert both.response_time == pytest.approx(weighted)
    alone, one_of_four = solved(1, 1), solved(1, 4)
    assert one_of_four.throughput == pytest.approx(alone.throughput), "the others have nobody to serve"
    assert one_of_four.utilization == pytest.approx(alone.utilization / 4)
    assert solved(3, 4).utilization == pytest.approx(alone.utilization * 3 / 4)
    handled = figures.model_copy(update={"handling_s": 0.0002})
    setting = Setting("batches", 0.0005, 1, 1, 1)
    one, two = handled.solved(1, setting), handled.solved(1, replace(setting, middlewares=2))
    assert two.handling_utilization == pytest.approx(one.handling_utilization / 2)


def test_batches_of_one_keep_the_distribution_that_was_measured_and_workers_have_none() -> None:
    """One worker: a store's even batches are even; of a cache's only a mean is known, and times are exponential."""
    figures = Figures(
        batch_s=0.001,
        request_in_batch_s=0.0,
        contention_s=0.0,
        batch_scv=1e-5,
        visits=1.0,
        path_s=0.007,
        handling_s=0.0,
    )
    store, worker = (figures.solved(8, Setting(kind, 0.0, 1, 1, 1)) for kind in ("batches", "workers"))
    assert store.throughput == pytest.approx(863.6, abs=0.1)
    assert worker.throughput == pytest.approx(821.2, abs=0.1)
