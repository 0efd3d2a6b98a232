"""Reads from each trial what the fit needs: its load, what the clients measured, and how long workers took."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.figures import Row, answered_per_s, kept_think_s, response_of_all_s
from posthaste_lab.experiments.results import Result, Run
from posthaste_lab.experiments.tables import Level
from posthaste_lab.files import read_json, reading
from posthaste_lab.fitting.batches import Batches, merged, of_single_requests, read_batches
from posthaste_lab.fitting.system import Kind, Setting

ONE_AT_A_TIME = 1
GATHER_S = 0.0005  # longest wait of a tier over PostgreSQL for clients that may come back
RESERVE_S = 0.005  # time that requests wait for a busy worker before another one takes them
ERRORS_MAX_SHARE = 0.01  # errors among all answers: they take another time, and the model has one kind of request only


@dataclass(frozen=True)
class Observation:
    """One trial. Times in seconds, rates per second; `where` holds the levels of all factors but the clients.

    The setting's think time is the configured one, by which trials are grouped; `think_kept_s` is how long clients
    paused on average: the mean of a few hundred draws is some percent off, and a late client pauses longer. Throughput
    and response time are of all answers, the few errors included, as N = X (R + Z) requires.

    `batches` is None for turns, as nothing shows when a worker's time begins: see `Kind`.
    """

    trial: str
    repetition: int
    where: dict[str, Level]
    population: int
    setting: Setting
    think_kept_s: float
    throughput_per_s: float
    response_time_s: float
    batches: Batches | None


def observations(run: Run) -> list[Observation]:
    """Returns accepted trials whose records are whole. Raises BadArgument for runs that the model does not suit."""
    if not run.accepted:
        raise BadArgument("DIR", str(run.directory), "holds no trial that is finished, accepted and whole")
    found = []
    for result in run.accepted:
        with reading(result.directory / "trial.json"):
            found.append(_observation(run, result))
    return found


def about_clients(run: Run) -> str:
    """Returns what the model counts as a client where that is not the experiment's; otherwise an empty text."""
    pairs = [(result.figures.get("clients"), result.figures.get("population")) for result in run.finished]
    if all(clients is None or clients == population for clients, population in pairs):
        return ""
    return "each client keeps several requests in flight (pipeline), so clients of the model are requests in flight"


def left_out(run: Run) -> list[str]:
    """Returns the names of finished trials that broke a rule of acceptance, or of which something was left out."""
    return [result.name for result in run.results if result.finished and (result.objections or result.omissions)]


def _observation(run: Run, result: Result) -> Observation:
    figures = result.figures
    if figures.get("open_loop"):
        raise BadArgument("DIR", str(run.directory), "holds open loops (rate), and the model is of closed ones")
    if "response_mean_s" not in figures or result.measured_unix_s is None:
        raise BadArgument("DIR", str(run.directory), f"trial {result.name} has no response times of clients")
    response_s = _response_s(run, result.name, figures)
    tiers = _tiers(result)
    setting = _setting(tiers, float(figures["think_time_s"]))
    return Observation(
        trial=result.name,
        repetition=result.repetition,
        where={name: level for name, level in result.levels.items() if not _is_clients(run, name)},
        population=int(figures["population"]),
        setting=setting,
        think_kept_s=kept_think_s(figures),
        throughput_per_s=answered_per_s(figures),
        response_time_s=response_s,
        batches=_batches(tiers, result, setting),
    )


def _response_s(run: Run, trial: str, figures: Row) -> float:
    """Returns the mean response time of all answers, in seconds.

    Raises BadArgument where errors are many, or their time was not measured.
    """
    errors, served = figures.get("errors") or 0, figures.get("served") or 0
    instead = "leave the trial out by omit.toml, or measure where nothing is refused"
    if errors > ERRORS_MAX_SHARE * (served + errors):
        raise BadArgument(
            "DIR",
            str(run.directory),
            f"trial {trial} has {errors} errors beside {served} requests served, and the model is of those: {instead}",
        )
    response_s = response_of_all_s(figures)
    if response_s is None:
        raise BadArgument(
            "DIR", str(run.directory), f"trial {trial} has {errors} errors whose time nobody measured: {instead}"
        )
    return response_s


def _batches(tiers: list[Path], result: Result, setting: Setting) -> Batches | None:
    if setting.kind == "batches" and result.measured_unix_s is not None:
        return merged([read_batches(tier, result.measured_unix_s, setting) for tier in tiers])
    if setting.kind == "workers":
        return _of_workers(result, setting)
    return None


def _of_workers(result: Result, setting: Setting) -> Batches:
    """Returns one row from the mean service time; Little's law gives the busy workers, without single requests."""
    figures, workers = result.figures, setting.workers or 1
    service = figures.get("service_when_any_mean_s")
    if service is None:
        raise BadArgument("DIR", str(result.directory), "has no record of the tier with times of service")
    taken = float(service) + float(figures.get("dispatch_mean_s", 0.0))
    busy = answered_per_s(figures) / setting.middlewares * taken
    clients = float(figures["population"]) / setting.middlewares
    # An arriving request sees only the requests of other clients: with one client, none.
    return of_single_requests(taken, min(workers - 1, busy * max(0.0, clients - 1) / clients))


def _is_clients(run: Run, name: str) -> bool:
    """Whether a factor sets the number of clients and nothing else."""
    factor = run.experiment.factors[name]
    targets = {target for level in factor.levels for target in factor.assignments(level)}
    return {target.partition(".")[2] for target in targets} == {"clients"}


def _tiers(result: Result) -> list[Path]:
    tiers = [
        path
        for path in sorted(result.directory.glob("*/record"))
        if (path / "run.json").exists() and not (path.parent / "summary.json").exists()
    ]
    if not tiers:
        raise BadArgument("DIR", str(result.directory), "has no record of a tier, and the model is of one")
    return tiers


def _setting(tiers: list[Path], think_time_s: float) -> Setting:
    held = [_options(tier) for tier in tiers]
    if any((each.get("batch"), each.get("workers")) != (held[0].get("batch"), held[0].get("workers")) for each in held):
        raise BadArgument("DIR", str(tiers[0]), "is of a tier with other workers or batches than those beside it")
    batch, workers = held[0].get("batch"), held[0].get("workers")
    if batch is not None:
        gather_s = GATHER_S if str(held[0].get("store")).startswith("postgres") else 0.0
        return Setting("batches", think_time_s, int(batch), int(workers or 1), len(tiers), gather_s, RESERVE_S)
    kind: Kind = "turns" if workers is None else "workers"
    limit = None if workers is None else ONE_AT_A_TIME
    return Setting(kind, think_time_s, limit, workers, len(tiers))


def _options(record: Path) -> dict[str, Any]:
    run = read_json(record / "run.json")
    with reading(record / "run.json"):
        return dict(run["options"])
