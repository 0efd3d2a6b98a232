"""Models of tiers whose workers overlap, or have no line; levels between those measured; several middlewares."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from fitted import figures_of, model_of
from programs import lab
from simulated import System, write_run

from posthaste_lab.cli.validate import Found
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.results import Run, read_run
from posthaste_lab.fitting import OutsideTheData, fit_run, model_at, predict, validate, write_model
from posthaste_lab.fitting.bottleneck import halved
from posthaste_lab.fitting.levels import factor_of_middlewares
from posthaste_lab.fitting.model import FittedModel, Model
from posthaste_lab.fitting.observations import GATHER_S, RESERVE_S, observations
from posthaste_lab.fitting.validation import Summary, Validation

CLIENTS = [1, 4, 12, 32, 64]
CALIBRATED = [1, 12, 64]
WORKERS = System(
    batch=0.0004, request=0.0, path=0.0003, handling=0.00004, contention=0.00003, scv=1.0, limit=1, servers=8,
    tier="cache workers",
)  # fmt: skip
TURNS = System(batch=0.00005, request=0.00001, path=0.00012, tier="cache pipelined")
ASLEEP = System(batch=0.00004, request=0.00001, path=0.00003, wake=0.00006, tier="cache pipelined")
BATCHES = System(batch=0.006, request=0.0002, path=0.0005, servers=4, contention=0.0002, reserve=0.005)

GATHERING = System(batch=0.0003, request=0.00001, several=0.0002, path=0.00003, handling=0.00001, gather=0.0005)


@pytest.mark.parametrize(
    ("system", "kind"),
    [(WORKERS, "workers"), (TURNS, "turns"), (BATCHES, "batches"), (GATHERING, "batches")],
    ids=["workers", "turns", "pool", "gathering"],
)
def test_each_kind_of_tier_is_predicted_where_it_was_not_fitted(tmp_path: Path, system: System, kind: str) -> None:
    """Within the targets, with M/M/1 far off beside it."""
    run = read_run(write_run(tmp_path / "run", system, CLIENTS, repetitions=2, requests=2500))
    found = validate(observations(run), CALIBRATED)
    assert found.model.kind == kind
    assert found.throughput.kept
    assert found.response.kept
    assert found.throughput.error < 0.05
    assert found.response.error < 0.10


def test_the_figures_of_workers_are_found_again(tmp_path: Path) -> None:
    """From mean times of service alone: what a request takes, and what each other busy worker costs it."""
    run = write_run(tmp_path / "run", WORKERS, CLIENTS, requests=2500)
    model = model_of(run)
    assert (model.workers, model.batch_limit, model.range.batch_requests_max) == (8, 1, 1)
    assert model.figures.batch_s == pytest.approx(WORKERS.batch, rel=0.1)
    assert model.figures.contention_s == pytest.approx(WORKERS.contention, rel=0.25)
    assert model.figures.handling_s == pytest.approx(WORKERS.handling, rel=0.25)
    assert model.bottleneck.stage in ("worker, for each request", "worker, for each other one that is busy")


def test_a_tier_that_waits_for_those_who_come_back_is_fitted_with_that_wait(tmp_path: Path) -> None:
    """And from batches by their size: one request alone costs less than several, and nobody measured two clients."""
    run = read_run(write_run(tmp_path / "run", GATHERING, [1, 2, 5, 12, 28], repetitions=2, requests=2500))
    found = validate(observations(run), [1, 12, 28])
    assert found.model.gather_s == GATHER_S
    assert [line.clients for line in found.lines if abs(line.throughput_error) > 0.05] == []
    setting = found.model.setting
    crowds, one = (found.model.figures.solved(12, each) for each in (replace(setting, gather_s=0.0), setting))
    assert crowds.throughput < 0.85 * one.throughput


def test_workers_of_the_program_wait_as_long_as_is_believed_here() -> None:
    """For those who come back, and for a worker under way."""
    limits = (Path(__file__).parents[2] / "crates/server/src/path/limits.rs").read_text("utf-8")
    found = dict(re.findall(r"(\w+): Duration = Duration::from_(\w+\(\d+\))", limits))
    assert found["GATHER_MAX"] == f"micros({GATHER_S * 1e6:.0f})"
    assert found["RESERVE_AFTER"] == f"millis({RESERVE_S * 1e3:.0f})"


def test_workers_are_as_busy_with_errors_as_without(tmp_path: Path) -> None:
    """By Little's law of all that they answered."""
    run = write_run(tmp_path / "run", WORKERS, [4], repetitions=1, requests=600)
    (right,) = observations(read_run(run))
    (path,) = run.glob("trials/*/trial.json")
    trial = json.loads(path.read_text("utf-8"))
    figures = trial["figures"]
    figures |= {"served": 991, "errors": 9, "response_all_mean_s": figures["response_mean_s"]}
    figures["throughput_per_s"] *= 0.991
    path.write_text(json.dumps(trial), "utf-8")
    (seen,) = observations(read_run(run))
    assert seen.batches is not None
    assert right.batches is not None
    assert seen.batches.together == pytest.approx(right.batches.together)


def test_fewer_workers_are_answered_and_more_are_refused(tmp_path: Path) -> None:
    """As a tier with so many does; they are among the curves for other programs too."""
    model = fit_run(read_run(write_run(tmp_path / "run", WORKERS, CLIENTS, requests=2500))).models[0]
    fewer = System(**(vars(WORKERS) | {"servers": 2}))
    seen = observations(read_run(write_run(tmp_path / "fewer", fewer, [32], requests=5000)))
    (answer,) = predict(model, [32], workers=2)
    measured = sum(each.throughput_per_s for each in seen) / len(seen)
    assert answer.throughput_per_s.value == pytest.approx(measured, rel=0.06)
    with pytest.raises(OutsideTheData, match="--workers = 9: is outside what the data support, 1 to 8"):
        predict(model, [32], workers=9)
    with pytest.raises(OutsideTheData, match="no batches"):
        predict(model, [32], batch_limit=4)
    assert [curve.change.workers for curve in model.curves if curve.change.workers] == [1, 2, 4]


def test_a_think_time_leads_no_farther_than_clients_do(tmp_path: Path) -> None:
    """It decides how many requests are there at once, as the clients do: up to twice the most is answered."""
    system = System(**(vars(WORKERS) | {"think": 0.02}))
    run = write_run(tmp_path / "run", system, [4, 32], requests=1500)
    model = model_of(run)
    inside = [point.throughput_per_s * point.response_time_s for point in model.points]
    assert inside[-1] < 4, "of 32 clients most think"
    with pytest.raises(OutsideTheData, match=r"--think-time = 0\.0: leaves 32 of 32 clients' requests in the system"):
        predict(model, [32], think_time_s=0.0)
    assert not predict(model, [32], think_time_s=0.02)[0].extrapolated
    shorter = predict(model, [32], think_time_s=0.015)[0]
    assert shorter.throughput_per_s.value * shorter.response_time_s.value > 1.05 * inside[-1]
    assert shorter.extrapolated
    with pytest.raises(OutsideTheData, match="outside what the data support"):
        predict(model, [4], think_time_s=1.0)
    write_model(fit_run(read_run(run)), run)
    assert "16* " in lab("predict", run, "--clients", "16", "--think-time", "0.008").stdout


def test_a_tier_without_workers_has_none_to_change(tmp_path: Path) -> None:
    """And needs three numbers of clients, since three figures are fitted."""
    run = write_run(tmp_path / "run", TURNS, [1, 8, 32], requests=1500)
    model = model_of(run)
    assert model.workers is None
    assert model.range.batch_requests_max is None
    with pytest.raises(OutsideTheData, match="has none"):
        predict(model, [8], workers=2)
    with pytest.raises(BadArgument, match="at least 3 numbers"):
        fit_run(read_run(run), [1, 8])


def test_what_waking_costs_is_told_from_four_numbers_of_clients(tmp_path: Path) -> None:
    """Of three it is not: it is the last of four figures that are fitted."""
    run = write_run(tmp_path / "run", ASLEEP, [1, 2, 4, 12, 32], requests=4000)
    found = validate(observations(read_run(run)), [1, 4, 12, 32])
    assert found.model.figures.wake_s == pytest.approx(ASLEEP.wake, rel=0.25)
    assert found.response.error < 0.05
    without = validate(observations(read_run(run)), [1, 4, 32])
    assert without.model.figures.wake_s == 0
    assert without.response.error > found.response.error


def test_a_batch_of_several_may_take_longer_than_a_line_says(tmp_path: Path) -> None:
    """Where one request is done in one step and several in more: the model bends with the measured times."""
    system = System(batch=0.0004, request=0.00001, path=0.0002, several=0.0004)
    run = write_run(tmp_path / "run", system, [1, 2, 4, 12, 32], requests=3000)
    found = validate(observations(read_run(run)), [1, 4, 12, 32])
    figures = found.model.figures
    assert len(figures.bends) == 4  # one for each number of clients, at its mean size
    (one, first), *_, (most, last) = figures.bends
    assert one == 1
    alone = figures.batch_s + figures.request_in_batch_s + first
    assert alone == pytest.approx(system.batch + system.request, rel=0.02)
    large = figures.batch_s + most * figures.request_in_batch_s + last
    assert large == pytest.approx(system.batch + system.several + most * system.request, rel=0.02)
    assert found.response.error < 0.05
    assert halved(figures, "request_in_batch_s").bends[-1] == (most, last / 2)


def test_a_batch_on_a_line_needs_no_bends(tmp_path: Path) -> None:
    """They are what chance makes of them."""
    model = model_of(write_run(tmp_path / "run", System(), [1, 8, 32], requests=2000))
    assert all(abs(seconds) < 0.01 * model.figures.batch_s for _, seconds in model.figures.bends)


def test_what_a_batch_costs_others_is_told_from_its_own_time(tmp_path: Path) -> None:
    """Of batches that overlap: the plane through their times has the slope of each."""
    figures = figures_of(write_run(tmp_path / "run", BATCHES, CLIENTS, requests=2500))
    assert figures.batch_s == pytest.approx(BATCHES.batch, rel=0.05)
    assert figures.request_in_batch_s == pytest.approx(BATCHES.request, rel=0.1)
    assert figures.contention_s == pytest.approx(BATCHES.contention, rel=0.1)


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> FittedModel:
    """Messages of 100 and of 300 bytes, each byte of which takes 0.2 us in the store."""
    systems = {size: System(request=size * 2e-7, path=0.001) for size in (100, 300)}
    return fit_run(read_run(write_run(tmp_path_factory.mktemp("sizes") / "run", systems, [2, 8, 32], requests=1500)))


def test_a_level_between_two_is_answered_and_one_beyond_is_refused(sizes: FittedModel, tmp_path: Path) -> None:
    """As a system with that level does."""
    seen = observations(read_run(write_run(tmp_path / "run", System(request=4e-5, path=0.001), [32], requests=3000)))
    (answer,) = predict(model_at(sizes, {"size": "200"}), [32])
    assert answer.throughput_per_s.value == pytest.approx(seen[0].throughput_per_s, rel=0.04)
    assert answer.throughput_per_s.low < answer.throughput_per_s.value < answer.throughput_per_s.high
    assert model_at(sizes, {"size": "100"}) == sizes.models[0]
    for level, said in (("301", "100 to 300"), ("large", "is no level of this factor: 100, 300")):
        with pytest.raises(OutsideTheData, match=said):
            model_at(sizes, {"size": level})
    with pytest.raises(BadArgument, match="must name one combination"):
        model_at(sizes, {})
    with pytest.raises(BadArgument, match="names colour, and the factors are size"):
        model_at(sizes, {"colour": "red"})


def test_an_option_that_a_factor_sets_is_one_of_its_levels(sizes: FittedModel, tmp_path: Path) -> None:
    """--message-bytes says the same as --where size=."""
    write_model(sizes, tmp_path)
    by_option = lab("predict", tmp_path, "--clients", "8", "--message-bytes", "250", "--json").stdout
    assert by_option == lab("predict", tmp_path, "--clients", "8", "--where", "size=250", "--json").stdout
    assert "100 to 300" in lab("predict", tmp_path, "--clients", "8", "--message-bytes", "400", code=2).stderr


def test_an_answer_between_two_levels_says_so(sizes: FittedModel, tmp_path: Path) -> None:
    """Its table looks as that of a level that was measured."""
    write_model(sizes, tmp_path)
    told = "size = 250 was not measured: every figure is interpolated linearly between 100 and 300"
    for asked in (("--where", "size=250"), ("--message-bytes", "250")):
        assert told in lab("predict", tmp_path, "--clients", "8", *asked).stdout
        said = lab("predict", tmp_path, "--clients", "8", *asked, "--json")
        assert told in said.stderr
        assert json.loads(said.stdout)
    for level in ("100", "300.0"):
        assert "not measured" not in lab("predict", tmp_path, "--clients", "8", "--where", f"size={level}").stdout


def test_an_option_that_contradicts_a_level_is_refused(sizes: FittedModel, tmp_path: Path) -> None:
    """Nobody knows which of the two was meant; twice the same is one."""
    write_model(sizes, tmp_path)
    asked = ("predict", tmp_path, "--clients", "8", "--where", "size=100", "--message-bytes")
    said = lab(*asked, "300", code=2).stderr
    assert "--message-bytes = 300: contradicts --where size=100; leave one of them out" in said
    assert lab(*asked, "100", "--json").stdout == lab(*asked[:-1], "--json").stdout


def test_the_instances_of_other_parts_are_no_middlewares(sizes: FittedModel, tmp_path: Path) -> None:
    """A factor of memcached servers, or of loads, answers nothing about the number of tiers."""
    of_others = {"size": sizes.factors["size"].model_copy(update={"sets": ["server.instances"]})}
    write_model(sizes.model_copy(update={"factors": of_others}), tmp_path)
    said = lab("predict", tmp_path, "--clients", "8", "--where", "size=100", "--middlewares", "300", code=2).stderr
    assert "--middlewares = 300: is outside what the data support, 1" in said
    models = [each.model_copy(update={"middlewares": each.where["size"]}) for each in sizes.models]
    factors = of_others | {"tiers": sizes.factors["size"].model_copy(update={"sets": ["tier.instances"]})}
    models = [each.model_copy(update={"where": {"size": 7, "tiers": each.where["size"]}}) for each in models]
    assert factor_of_middlewares(sizes.model_copy(update={"factors": factors, "models": models})) == "tiers"


def test_two_middlewares_share_the_clients(tmp_path: Path) -> None:
    """Each with half of them; the model of one, twice."""
    run = write_run(tmp_path / "run", System(), [2, 8, 32], requests=1500)
    for trial in run.glob("trials/*/tier"):
        (trial.parent / "tier-2").symlink_to(trial)
        path = trial.parent / "trial.json"
        held = json.loads(path.read_text("utf-8"))
        held["figures"]["population"] *= 2
        held["figures"]["throughput_per_s"] *= 2
        path.write_text(json.dumps(held), "utf-8")
    model = model_of(run)
    assert (model.middlewares, [point.clients for point in model.points]) == (2, [4, 16, 64])
    for point in model.points:
        assert point.model_throughput_per_s == pytest.approx(point.throughput_per_s, rel=0.05)
    even, odd, next_even = predict(model, [16, 17, 18])
    assert even.throughput_per_s.value < odd.throughput_per_s.value < next_even.throughput_per_s.value


def test_the_open_model_has_the_workers_of_all_middlewares(tmp_path: Path) -> None:
    """Throughput and capacity are of all of them: with few clients M/M/m answers what a worker takes, and not half."""
    system = System(batch=0.002, request=0.0, path=0.001, servers=8, limit=1, scv=1.0, tier="cache workers")
    model = model_of(write_run(tmp_path / "run", system, [1, 4, 32], requests=1000))
    two = model.model_copy(update={"middlewares": 2, "throughput_max_per_s": 16 / 0.002})
    (answer,) = predict(two, [2])
    assert answer.throughput_per_s.value < 2000
    assert answer.mmm_response_s == pytest.approx(0.002, rel=0.01)


def test_curves_say_what_predict_says(sizes: FittedModel) -> None:
    """For readers that solve nothing; response time and throughput of a point belong together."""
    model = sizes.models[0]
    measured, *changed = model.curves
    assert measured.says == "as measured"
    shown = [point.clients for point in measured.points]
    assert shown == [2, 5, 8, 10, 20, 32, 50, 64][: len(shown)]
    assert 32 in shown
    for point, answer in zip(measured.points, predict(model, [p.clients for p in measured.points]), strict=True):
        assert point.throughput_per_s.value == answer.throughput_per_s.value
        assert point.extrapolated == (point.clients > 32)
        assert point.throughput_per_s.low is not None
        assert point.clients / point.throughput_per_s.value == pytest.approx(point.response_time_s.value)
    assert {curve.change.halved for curve in changed} >= {"batch_s", "path_s"}
    store = next(curve for curve in changed if curve.change.halved == "batch_s")
    assert store.points[-1].throughput_per_s.value > measured.points[-1].throughput_per_s.value
    for point in store.points:
        for figure in (point.throughput_per_s, point.response_time_s):
            assert figure.low is not None
            assert figure.high is not None
            assert figure.low < figure.value < figure.high


def test_an_error_that_only_the_interval_excuses_has_not_met_the_target() -> None:
    """The table says which of the two it was."""
    run, model = cast("Run", None), cast("Model", None)  # neither is looked at
    close, wide = Summary(0.04, 0.05, 0.05, taken=0.8), Summary(0.07, 0.05, 0.09, taken=0.8)
    far = Summary(0.07, 0.05, 0.09, taken=1.1)

    def verdict(throughput: Summary, response: Summary) -> str:
        return Found(run, "", Validation(model, [], throughput, response)).verdict

    assert verdict(close, close) == "met"
    assert verdict(wide, close) == verdict(close, wide) == "within the interval only"
    assert verdict(far, close) == verdict(wide, far) == "missed"


def test_a_table_for_the_documents_has_every_combination(tmp_path: Path) -> None:
    """Errors, bounds, what M/M/1 says, and where it comes from; exit code as of the table for a terminal."""
    run = write_run(tmp_path / "run", {100: System(), 300: System(batch=0.002)}, CLIENTS, requests=1500)
    said = lab("validate", run, "--calibrate", "1,12,64", "--markdown").stdout
    rows = [line for line in said.splitlines() if line.startswith("| A simulated system: size = ")]
    assert len(rows) == 2
    assert all(row.split(" | ")[1:3] == ["1, 12, 64", "4, 32"] and row.endswith("| met |") for row in rows)
    assert "a simulation" in said
    assert not [word for word in ("nan", "None") if word in said]
    only = lab("validate", run, "--where", "size=300", "--calibrate", "1,12,64").stdout
    assert "size = 300" in only
    assert "size = 100" not in only
    found = validate([each for each in observations(read_run(run)) if each.where == {"size": 100}], CALIBRATED)
    assert math.isfinite(found.lines[1].predicted.mm1_response_s)
