"""`posthaste-lab fit` and `predict`: a model from a run, and its answers."""

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from posthaste_lab import fitting
from posthaste_lab.cli.doubts import tell_doubts, tell_lost
from posthaste_lab.cli.show import console, number, percent, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.journal import PLAN
from posthaste_lab.experiments.results import read_run
from posthaste_lab.fitting.levels import Asked, factor_of, factor_of_middlewares, interpolated
from posthaste_lab.fitting.model import Effect, IntervalValue, Model, guessed_distribution, is_at_zero, unknown_misfit
from posthaste_lab.fitting.observations import about_clients
from posthaste_lab.fitting.prediction import Estimate, Prediction
from posthaste_lab.fitting.words import AT_WORK, FIGURES
from posthaste_lab.ladder import ladder

Directory = Annotated[Path, typer.Argument(help="Directory of a run.", metavar="DIR")]
Where = Annotated[
    str, typer.Option(help="Levels of the other factors, for a run that has some: size=200,dataset=empty.")
]


def fit(
    directory: Directory,
    calibrate: Annotated[
        str | None, typer.Option(help="Numbers of clients to fit to: 1,8,64 [default: all].", metavar="N,N,…")
    ] = None,
) -> None:
    """Fit a model to a run: DIR/model.json, and which stage is the bottleneck.

    A queue tier must have recorded single requests: record-requests = true in the experiment.

    Example: posthaste-lab fit results/validation
    """
    counts = None if calibrate is None else counts_of(calibrate, "--calibrate")
    run = read_run(directory)
    tell_lost(run, "the model leaves it out")
    fitted = fitting.fit_run(run, counts)
    out = console()
    tell_doubts(out, run)
    if about := about_clients(run):
        out.print(about)
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
    workers: Annotated[int | None, typer.Option(help="Workers of each tier [default: as measured].")] = None,
    message_bytes: Annotated[
        int | None, typer.Option(help="Size of messages or values, where it was a factor.", metavar="BYTES")
    ] = None,
    middlewares: Annotated[int | None, typer.Option(help="Number of middlewares [default: as measured].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What the fitted model answers, with intervals of one further trial. Refuses what the data do not support.

    A range is answered at 1, 2, 5, 10, … and its ends, as far as the data carry; name single numbers for others.

    Example: posthaste-lab predict results/validation --clients 1..200 --workers 2
    """
    fitted = fitting.read_model(directory)
    run = read_run(directory) if (directory / PLAN).exists() else None
    if run is not None:
        tell_lost(run, "a model fitted now would leave it out")
    named = levels_of(where)
    sizes = factor_of(fitted, "message-bytes", "value-bytes")
    workers = _by_factor("--workers", workers, named, factor_of(fitted, "workers"))
    middlewares = _by_factor("--middlewares", middlewares, named, factor_of_middlewares(fitted))
    message_bytes = _by_factor("--message-bytes", message_bytes, named, sizes)
    model = fitting.model_at(fitted, named)
    _refuse_others(model, middlewares, message_bytes)
    counts = counts_of(clients, "--clients")
    supported = _supported(model, counts) if ".." in clients else counts
    answers = fitting.predict(
        model,
        supported,
        batch_limit=batch,
        think_time_s=think_time,
        workers=workers,
        confidence=fitted.confidence,
    )
    if guess := guessed_distribution(model):
        print(guess, file=sys.stderr)
    misfit = unknown_misfit(model)
    for sentence in [*interpolated(fitted, named), *([misfit] if misfit else [])]:
        print(sentence, file=sys.stderr if as_json else sys.stdout)
    if run is not None:
        tell_doubts(console(stderr=as_json), run)
    reach = f"the data support {model.range.clients_min} to {model.range.clients_max} clients, and nothing beyond"
    if as_json:
        if supported != counts:
            print(reach, file=sys.stderr)
        print(json.dumps(_without_nan([asdict(answer) for answer in answers]), indent=2))
        return
    rows = [
        (
            f"{answer.clients}{'*' if answer.extrapolated else ''}",
            _estimate(answer.throughput_per_s),
            _estimate(answer.response_time_s, 1e3),
            number(answer.mean_batch_requests),
            percent(answer.store_utilization),
            percent(answer.handling_utilization),
            _open_response(answer, answer.mm1_response_s),
            _open_response(answer, answer.mmm_response_s),
        )
        for answer in answers
    ]
    head = ("clients", "throughput /s", "response ms", "batch", "store busy", "handling busy", "M/M/1 ms", "M/M/m ms")
    out = console()
    out.print(table("", head, rows))
    if any(answer.extrapolated for answer in answers):
        out.print(f"* beyond the load that was measured, of at most {model.points[-1].clients} clients")
    if supported != counts:
        out.print(reach)
    out.print(ABOUT_OPEN_MODELS)
    if any(
        answer.exceeds_clients(each) for answer in answers for each in (answer.mm1_response_s, answer.mmm_response_s)
    ):
        out.print(ABOUT_TOO_MANY)


def _supported(model: Model, counts: list[int]) -> list[int]:
    """Returns the part of a range that the data support, ends included; all of it, to be refused, if none is."""
    least, most = model.range.clients_min, model.range.clients_max
    if counts[-1] < least or counts[0] > most:
        return counts
    return sorted({min(max(clients, least), most) for clients in counts})


def _by_factor(option: str, asked: int | None, named: dict[str, str], factor: str | None) -> int | None:
    """Adds an option to the requested levels if a factor of the experiment sets it; else returns it.

    Raises BadArgument where --where has another level of that factor.
    """
    if asked is None or factor is None:
        return asked
    if factor in named and not Asked.of(named[factor]).fits(asked):
        raise BadArgument(option, asked, f"contradicts --where {factor}={named[factor]}; leave one of them out")
    named[factor] = str(asked)
    return None


def _refuse_others(model: Model, middlewares: int | None, message_bytes: int | None) -> None:
    if middlewares not in (None, model.middlewares):
        raise fitting.OutsideTheData(
            "--middlewares", middlewares, f"is outside what the data support, {model.middlewares}"
        )
    if message_bytes is not None:
        raise fitting.OutsideTheData(
            "--message-bytes", message_bytes, "is outside what the data support: no factor of the experiment sets it"
        )


ABOUT_OPEN_MODELS = (
    "M/M/1 and M/M/m (m: workers, or requests in a mean batch) are open models given the predicted throughput and the "
    "highest measured one as capacity; - where they have no answer"
)

ABOUT_TOO_MANY = "! more requests than clients: with this response time and throughput, by Little's law"


def _open_response(answer: Prediction, response_s: float) -> str:
    """Formats an open model's response time in ms, with a mark where no closed system can have it."""
    return f"{number(response_s * 1e3)}{'!' if answer.exceeds_clients(response_s) else ''}"


def _print_model(out: Console, model: Model) -> None:
    names = (f"{name} = {level}" for name, level in model.where.items())
    out.print(
        table(
            ", ".join(names),
            ("figure", "value", "interval over repetitions"),
            [
                (f"{words} ({name})", number(getattr(model.figures, name)), _bounds(model.intervals.get(name)))
                for name, words in FIGURES[model.kind].items()
            ],
        )
    )
    held = model.bottleneck
    out.print(
        f"bottleneck with {held.clients} clients: {held.stage}; the lead over the next is "
        f"{percent(held.lead_share)} {_bounds(held.lead_interval, share=True)}"
    )
    out.print(
        table("", ("if it took half", "throughput would rise by", "interval"), [_effect(each) for each in held.effects])
    )
    out.print(
        f"{AT_WORK[model.kind]} busy {percent(held.store_utilization)} of the time, handling "
        f"{percent(held.handling_utilization)}"
    )
    reach = model.range
    batches = "" if reach.batch_requests_max is None else f", batches of up to {reach.batch_requests_max} requests"
    out.print(
        f"supported by the data: {reach.clients_min} to {reach.clients_max} clients{batches}; one trial lies beside "
        f"the model by {percent(model.throughput_spread_share)} of throughput and "
        f"{percent(model.response_spread_share)} of response time (root mean square)"
    )
    if misfit := unknown_misfit(model):
        out.print(misfit)
    if not model.by_repetition:
        out.print("fewer than two repetitions have all numbers of clients, so no intervals")


def _effect(effect: Effect) -> tuple[str, str, str]:
    return effect.stage, percent(effect.gain_share), _bounds(effect.interval, share=True)


def _bounds(bounds: IntervalValue | None, *, share: bool = False) -> str:
    if bounds is None:
        return "-"
    if is_at_zero(bounds):
        return "at its limit, 0"
    write = percent if share else number
    return f"[{write(bounds.low)}, {write(bounds.high)}]"


def _estimate(estimate: Estimate, factor: float = 1.0) -> str:
    value = number(estimate.value * factor)
    if math.isnan(estimate.low):
        return value
    return f"{value} [{number(estimate.low * factor)}, {number(estimate.high * factor)}]"


def levels_of(text: str) -> dict[str, str]:
    """Levels by factor, from size=200,dataset=empty."""
    levels = {}
    for pair in filter(None, text.split(",")):
        name, equals, level = pair.partition("=")
        if not equals:
            raise BadArgument("--where", text, "must look like size=200,dataset=empty")
        levels[name.strip()] = level.strip()
    return levels


def counts_of(text: str, option: str) -> list[int]:
    """Numbers of clients, from 1,8,64 or 1..100."""
    first, dots, last = text.partition("..")
    try:
        if dots:
            return _range(int(first), int(last))
        return sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise BadArgument(option, text, "must be numbers such as 1,8,64, or a range such as 1..100") from None


def _range(first: int, last: int) -> list[int]:
    if last < first:
        raise ValueError
    return ladder(first, last)


def _without_nan(value: object) -> object:
    """Returns the value with null in place of NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
