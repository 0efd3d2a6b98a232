"""`posthaste-lab fit`, `predict`, `validate`: a model from a run, its answers, and how far to trust them."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from posthaste_lab import fitting
from posthaste_lab.cli.show import console, number, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.fitting.model import Bounds, Effect, Model
from posthaste_lab.fitting.observations import left_out, observations
from posthaste_lab.fitting.prediction import Estimate
from posthaste_lab.fitting.validation import CALIBRATED_MAX, Summary
from posthaste_lab.report.results import Run, read_run

Directory = Annotated[Path, typer.Argument(help="Directory of a run.", metavar="DIR")]
Where = Annotated[
    str, typer.Option(help="Levels of the other factors, for a run that has some: size=200,dataset=empty.")
]
WORDS = {
    "batch_s": "time of a batch, whatever its size",
    "request_in_batch_s": "and for each request in it",
    "batch_scv": "squared coefficient of variation of a batch's time",
    "visits": "share of requests that go by the line",
    "path_s": "the way there and back, where nobody waits",
    "handling_s": "handling, one request at a time",
}


def fit(
    directory: Directory,
    calibrate: Annotated[
        str | None, typer.Option(help="Numbers of clients to fit to: 1,8,64 [default: all].", metavar="N,N,…")
    ] = None,
) -> None:
    """Fit a model to a run: DIR/model.json, and which stage is the bottleneck.

    The tier must have recorded single requests: record-requests = true in the experiment.
    """
    counts = None if calibrate is None else _counts(calibrate, "--calibrate")
    run = read_run(directory)
    fitted = fitting.fit_run(run, counts)
    out = console()
    _tell_left_out(out, run)
    for model in fitted.models:
        _print_model(out, model)
    print(f"model: {fitting.write_model(fitted, directory)}")


def predict(
    directory: Directory,
    clients: Annotated[str, typer.Option(help="Numbers of clients: 1,8,64, or from..to.", metavar="N,N,…|N..N")],
    where: Where = "",
    batch: Annotated[int | None, typer.Option(help="Most requests in a batch [default: as measured].")] = None,
    think_time: Annotated[
        float | None, typer.Option(help="Think time in seconds [default: as measured].", metavar="SECONDS")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Workers of the tier [default: as measured].")] = None,
    middlewares: Annotated[int, typer.Option(help="Number of middlewares.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What the fitted model answers, with intervals of one further trial. Refuses what the data do not support.

    A range is answered at 1, 2, 5, 10, … and its ends; name single numbers for others.
    """
    fitted = fitting.read_model(directory)
    model = fitted.one(_levels(where))
    answers = fitting.predict(
        model,
        _counts(clients, "--clients"),
        batch_limit=batch,
        think_time_s=think_time,
        workers=workers,
        middlewares=middlewares,
        confidence=fitted.confidence,
    )
    if as_json:
        print(json.dumps(_without_nan([asdict(answer) for answer in answers]), indent=2))
        return
    rows = [
        (
            f"{answer.clients}{'*' if answer.extrapolated else ''}",
            _estimate(answer.throughput_per_s),
            _estimate(answer.response_time_s, 1e3),
            number(answer.mean_batch_requests),
            _percent(answer.store_utilization),
            _percent(answer.handling_utilization),
            number(answer.mm1_response_s * 1e3),
            number(answer.mmm_response_s * 1e3),
        )
        for answer in answers
    ]
    head = ("clients", "throughput /s", "response ms", "batch", "store busy", "handling busy", "M/M/1 ms", "M/M/m ms")
    out = console()
    out.print(table("", head, rows))
    if any(answer.extrapolated for answer in answers):
        out.print(f"* beyond the {model.points[-1].clients} clients that were measured")
    out.print(_ABOUT_OPEN_MODELS)


_ABOUT_OPEN_MODELS = (
    "M/M/1 and M/M/m (m: requests in a mean batch) are open models given the predicted throughput and the highest "
    "measured one as capacity; - where they have no answer"
)


def validate(
    directory: Directory,
    calibrate: Annotated[
        str | None,
        typer.Option(
            help=f"At most {CALIBRATED_MAX} numbers of clients to fit to [default: spread over all].", metavar="N,N,…"
        ),
    ] = None,
    where: Where = "",
) -> None:
    """Fit to a few numbers of clients, predict the others, compare. Exit code 1 when it is off by more than it may be.

    On average over the clients that were predicted: 5 % of the throughput, 10 % of the mean response time, or the
    measurement's own interval where that is wider.
    """
    run = read_run(directory)
    levels = _levels(where)
    seen = [each for each in observations(run) if all(str(each.where.get(n)) == v for n, v in levels.items())]
    combinations = {repr(each.where) for each in seen}
    if len(combinations) != 1:
        raise BadArgument("--where", where, f"must name one combination of levels, and {len(combinations)} fit")
    found = fitting.validate(seen, None if calibrate is None else _counts(calibrate, "--calibrate"))
    rows = [
        (
            f"{line.clients}{' (fitted)' if line.calibrated else ''}",
            f"{number(line.throughput.mean)} ± {number(line.throughput.half_width)}",
            number(line.predicted.throughput_per_s.value),
            _signed(line.throughput_error),
            f"{number(line.response.mean * 1e3)} ± {number(line.response.half_width * 1e3)}",
            number(line.predicted.response_time_s.value * 1e3),
            _signed(line.response_error),
            number(line.predicted.mm1_response_s * 1e3),
            number(line.predicted.mmm_response_s * 1e3),
        )
        for line in found.lines
    ]
    head = ("clients", "throughput /s", "model", "off by", "response ms", "model", "off by", "M/M/1 ms", "M/M/m ms")
    out = console()
    out.print(table("", head, rows))
    _tell_left_out(out, run)
    out.print(_verdict("throughput", found.throughput))
    out.print(_verdict("mean response time", found.response))
    out.print(_ABOUT_OPEN_MODELS)
    if not (found.throughput.kept and found.response.kept):
        raise typer.Exit(1)


def _tell_left_out(out: Console, run: Run) -> None:
    if names := left_out(run):
        out.print(f"left out, as they broke a rule of acceptance: {', '.join(names)}")


def _verdict(what: str, summary: Summary) -> str:
    return (
        f"{what}: off by {_percent(summary.error)} on average where it was predicted, "
        f"{'within' if summary.kept else 'NOT within'} the bound of {_percent(summary.bound)}"
    )


def _print_model(out: Console, model: Model) -> None:
    names = (f"{name} = {level}" for name, level in model.where.items())
    out.print(
        table(
            ", ".join(names),
            ("figure", "value", "interval over repetitions"),
            [
                (f"{words} ({name})", number(getattr(model.figures, name)), _bounds(model.intervals.get(name)))
                for name, words in WORDS.items()
            ],
        )
    )
    held = model.bottleneck
    out.print(
        f"bottleneck with {held.clients} clients: {held.stage}; the lead over the next is "
        f"{_percent(held.lead_share)} {_bounds(held.lead_interval, percent=True)}"
    )
    out.print(
        table("", ("if it took half", "throughput would rise by", "interval"), [_effect(each) for each in held.effects])
    )
    out.print(
        f"store busy {_percent(held.store_utilization)} of the time, handling {_percent(held.handling_utilization)}"
    )
    reach = model.range
    out.print(
        f"supported by the data: {reach.clients_min} to {reach.clients_max} clients, batches of up to "
        f"{reach.batch_requests_max} requests on average; one trial lies beside the model by "
        f"{_percent(model.throughput_spread_share)} of throughput and {_percent(model.response_spread_share)} of "
        f"response time (root mean square)"
    )
    if not model.by_repetition:
        out.print("one repetition, so no intervals")


def _effect(effect: Effect) -> tuple[str, str, str]:
    return effect.stage, _percent(effect.gain_share), _bounds(effect.interval, percent=True)


def _bounds(bounds: Bounds | None, *, percent: bool = False) -> str:
    if bounds is None:
        return "-"
    write = _percent if percent else number
    return f"[{write(bounds.low)}, {write(bounds.high)}]"


def _estimate(estimate: Estimate, factor: float = 1.0) -> str:
    value = number(estimate.value * factor)
    if math.isnan(estimate.low):
        return value
    return f"{value} [{number(estimate.low * factor)}, {number(estimate.high * factor)}]"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _signed(share: float) -> str:
    return f"{share * 100:+.1f} %"


def _levels(text: str) -> dict[str, str]:
    levels = {}
    for pair in filter(None, text.split(",")):
        name, equals, level = pair.partition("=")
        if not equals:
            raise BadArgument("--where", text, "must look like size=200,dataset=empty")
        levels[name.strip()] = level.strip()
    return levels


def _counts(text: str, option: str) -> list[int]:
    first, dots, last = text.partition("..")
    try:
        if dots:
            return _ladder(int(first), int(last))
        return sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise BadArgument(option, text, "must be numbers such as 1,8,64, or a range such as 1..100") from None


def _ladder(first: int, last: int) -> list[int]:
    if last < first:
        raise ValueError
    steps = [m * 10**e for e in range(7) for m in (1, 2, 5)]
    return sorted({first, last, *(step for step in steps if first < step < last)})


def _without_nan(value: object) -> object:
    """JSON has no word for it but null."""
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
