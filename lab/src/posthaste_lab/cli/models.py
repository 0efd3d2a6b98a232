"""`posthaste-lab models`: which models there are, and what they answer."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from posthaste_lab import queueing
from posthaste_lab.checks import count
from posthaste_lab.cli.show import console, number, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.ladder import ladder
from posthaste_lab.queueing import ClosedNetwork, OpenNetwork, OpenQueue, Station


class Entry(NamedTuple):
    """A model, and the question it answers."""

    call: Callable[..., Any]
    question: str
    source: str


MODELS: dict[str, Entry] = {
    "mm1": Entry(queueing.mm1, "one server, random arrivals: how long do requests wait?", "Jain box 31.1"),
    "mmm": Entry(queueing.mmm, "one line before several servers", "Jain box 31.2"),
    "mmmk": Entry(queueing.mmmk, "the same with room for K: how many are turned away?", "Jain box 31.3"),
    "mg1": Entry(queueing.mg1, "one server, service times of any spread", "Pollaczek, Khinchine"),
    "parallel_mm1": Entry(queueing.parallel_mm1, "several queues side by side: what is sharing a line worth?", ""),
    "erlang_b": Entry(queueing.erlang_b, "probability that all servers are busy and a call is lost", "Erlang"),
    "erlang_c": Entry(queueing.erlang_c, "probability of waiting", "Erlang"),
    "machine_repair": Entry(queueing.machine_repair, "few clients before a pool: the finite source", "Bolch ch. 6"),
    "batch_server": Entry(
        queueing.batch_server, "clients before a store that takes all who wait at once", "Bailey; Kendall"
    ),
    "batch_pool": Entry(queueing.batch_pool, "the same with several workers, who may hinder each other", ""),
    "interactive_response_time": Entry(
        queueing.interactive_response_time, "do clients, throughput and response time fit?", "Jain 33.5"
    ),
    "solve": Entry(queueing.solve, "clients that wait for answers: curves of X and R, the bottleneck", "Jain ch. 34"),
    "bounds": Entry(queueing.bounds, "what no system with these demands can exceed; the knee", "Lazowska ch. 5"),
    "open_network": Entry(queueing.open_network, "requests at a given rate through several stations", "Jackson"),
    "solve_multiclass": Entry(queueing.solve_multiclass, "several kinds of clients", "Lazowska ch. 7"),
    "visit_ratios": Entry(queueing.visit_ratios, "how often a request comes by each station", "Jain 33.2"),
    "convolution": Entry(queueing.convolution, "as solve, by Buzen's convolution in logarithms", "Bolch 8.1"),
    "simulate": Entry(queueing.simulate, "an open queue, a network or a finite source, simulated and compared", ""),
}
ONLY_IN_PYTHON = ("solve_multiclass", "visit_ratios", "simulate")
ONLY_LISTS = ("bends", "shape")  # arguments that are no figures
OF_STATIONS = ("solve", "convolution", "bounds", "open_network")

NO_UNIT = "\N{EN DASH}"  # of numbers, shares and their variances
UNITS = {
    figure: unit
    for unit, figures in {
        "1/s": ("arrival_rate", "service_rate", "throughput", "failure_rate", "repair_rate"),
        "s": (
            "mean_response",
            "mean_wait",
            "response_time",
            "think_time",
            "response_percentile",
            "wait_percentile",
            "interactive_response_time",
        ),
        "s²": ("var_response", "var_wait"),
        NO_UNIT: (
            *("servers", "capacity", "machines", "repairers", "population"),
            *("utilization", "handling_utilization", "availability", "p0", "p_wait", "p_block", "scv"),
            *("mean_jobs", "var_jobs", "mean_queue", "var_queue", "mean_up", "mean_batch"),
            *("erlang_b", "erlang_c"),
        ),
    }.items()
    for figure in figures
}
"""The unit of each figure that is printed under its name, and of each model that answers with a single one."""


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Which model; without it, all are listed.")
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]…", help="Its arguments, and stations of networks.")
    ] = None,
) -> None:
    """List the queueing models, or compute one. Seconds and per second.

    A station is NAME=DEMAND, with :8 behind it for 8 servers, or :delay for a place without a line.

    Examples:
      posthaste-lab models

      posthaste-lab models mmm arrival_rate=80 service_rate=30 servers=4

      posthaste-lab models solve population=100 think_time=1 cpu=0.005 db=0.04:8 network=0.002:delay

    """
    out = console()
    if name is None:
        lines = [(each, entry.question, entry.source, _parameters(entry.call)) for each, entry in MODELS.items()]
        shown = table("", ("model", "question", "source", "arguments"), lines)
        for column in shown.columns:
            column.justify = "left"
        out.print(shown)
        return
    if name not in MODELS:
        raise BadArgument("MODEL", name, f"must be one of {', '.join(MODELS)}")
    if name in ONLY_IN_PYTHON:
        raise BadArgument("MODEL", name, f"takes tables: call posthaste_lab.queueing.{name} from Python")
    given: dict[str, str] = {}
    for key, value in map(_pair, arguments or []):
        if key in given:
            raise BadArgument(key, value, f"is given twice, first as {given[key]}")
        given[key] = value
    _print(out, name, _compute(name, given))


def _parameters(call: Callable[..., Any]) -> str:
    """Returns the arguments of a model, but those that only refine it: keywords that may be left out."""
    taken = inspect.signature(call).parameters.values()
    return ", ".join(p.name for p in taken if p.kind != p.KEYWORD_ONLY or p.default is p.empty)


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name or not value:
        raise BadArgument("NAME=VALUE", text, "must look like arrival_rate=80")
    return name, value


def _compute(name: str, given: dict[str, str]) -> object:
    call, taken = MODELS[name].call, inspect.signature(MODELS[name].call).parameters
    figures_of = [key for key in taken if key not in ("stations", *ONLY_LISTS)]
    known = {key: value for key, value in given.items() if key in figures_of}
    rest = {key: value for key, value in given.items() if key not in known}
    if name not in OF_STATIONS and rest:
        raise BadArgument("NAME=VALUE", next(iter(rest)), f"must be one of {', '.join(figures_of)}")
    for station in rest:
        if meant := get_close_matches(station, figures_of, 1, cutoff=0.8):
            raise BadArgument("NAME=VALUE", station, f"looks like {meant[0]}: a station must have another name")
    missing = [p.name for p in taken.values() if p.default is p.empty and p.name not in known and p.name != "stations"]
    if missing:
        raise BadArgument("NAME=VALUE", ", ".join(missing), f"must be given too: {name} takes {_parameters(call)}")
    figures = {key: value if key == "method" else _figure(key, value) for key, value in known.items()}
    if name in OF_STATIONS:
        return call([_station(key, value) for key, value in rest.items()], **figures)
    return call(**figures)


def _figure(name: str, text: str) -> float | int:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise BadArgument(name, text, "must be a number") from None


def _station(name: str, text: str) -> Station:
    demand, _, kind = text.partition(":")
    if kind == "delay":
        return Station(name, _figure(name, demand), "delay")
    servers = count(f"servers of {name}", _figure(name, kind)) if kind else 1
    return Station(name, _figure(name, demand), "multi" if servers > 1 else "queue", servers)


def _print(out: Console, name: str, solved: object) -> None:
    match solved:
        case float() | int():
            out.print(number(solved) if UNITS[name] == NO_UNIT else f"{number(solved)} {UNITS[name]}")
        case ClosedNetwork():
            _print_closed(out, solved)
        case OpenNetwork():
            _print_open(out, solved)
        case queueing.Bounds():
            _print_bounds(out, solved)
        case _ if is_dataclass(solved):
            _print_figures(out, solved)


def _print_figures(out: Console, solved: object) -> None:
    shown = [(f.name, getattr(solved, f.name)) for f in fields(solved)]  # type: ignore[arg-type]
    lines = [(name, number(value), UNITS[name]) for name, value in shown if isinstance(value, float | int)]
    if isinstance(solved, OpenQueue):
        for q in (50, 95, 99):
            for percentile in (solved.response_percentile, solved.wait_percentile):
                name = percentile.__name__
                lines.append((f"{name}({q})", number(percentile(q)), UNITS[name]))
    made = table(getattr(solved, "model", type(solved).__name__), ("figure", "value", "unit"), lines)
    made.columns[-1].justify = "left"
    out.print(made)


def _print_closed(out: Console, solved: ClosedNetwork) -> None:
    limits = queueing.bounds(solved.stations, len(solved.population), solved.think_time)
    rows = [
        (str(n), number(float(solved.throughput[n - 1])), number(float(solved.response_time[n - 1])))
        for n in ladder(1, len(solved.population))
    ]
    out.print(table("", ("clients", "throughput /s", "response s"), rows))
    _print_stations(
        out,
        f"with {len(solved.population)} clients",
        [
            (
                s.name,
                number(float(solved.utilization[s.name][-1])),
                number(float(solved.queue_length[s.name][-1])),
                number(float(solved.residence_time[s.name][-1])),
            )
            for s in solved.stations
        ],
    )
    out.print(f"bottleneck: {solved.bottleneck}; clients begin to meet at {number(limits.knee)}")


def _print_open(out: Console, solved: OpenNetwork) -> None:
    _print_stations(
        out,
        "",
        [
            (
                s.name,
                number(solved.utilization[s.name]),
                number(float(solved.queue_length[s.name])),
                number(float(solved.residence_time[s.name])),
            )
            for s in solved.stations
        ],
    )
    out.print(f"response: {number(float(solved.response_time))} s")
    out.print(f"bottleneck: {solved.bottleneck}; arrivals can grow {number(solved.saturation)} times")


def _print_stations(out: Console, title: str, rows: Iterable[Iterable[str]]) -> None:
    out.print(table(title, ("station", "utilization", "number there", "seconds there"), rows))


def _print_bounds(out: Console, limits: queueing.Bounds) -> None:
    rows = [
        (
            str(n),
            *(
                number(float(curve[n - 1]))
                for curve in (
                    limits.throughput_lower,
                    limits.throughput_upper,
                    limits.response_lower,
                    limits.response_upper,
                )
            ),
        )
        for n in ladder(1, len(limits.population))
    ]
    head = ("clients", "throughput from", "to /s", "response from", "to s")
    out.print(table("", head, rows))
    out.print(f"clients begin to meet at {number(limits.knee)}")
