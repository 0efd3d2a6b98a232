"""What a trial says about the system: its load, what the clients saw, and its batches."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.description import Level
from posthaste_lab.fitting.batches import Batches, read_batches
from posthaste_lab.report.results import Result, Run


@dataclass(frozen=True)
class Observation:
    """One trial. Times in seconds, rates per second; `where` holds the levels of all factors but the clients."""

    trial: str
    repetition: int
    where: dict[str, Level]
    population: int
    think_time_s: float
    throughput_per_s: float
    response_time_s: float
    batch_limit: int
    workers: int
    batches: Batches


def observations(run: Run) -> list[Observation]:
    """Every accepted trial of a run. Raises BadArgument for runs that the model is not made for."""
    accepted = [result for result in run.finished if not result.objections]
    if not accepted:
        raise BadArgument("DIR", str(run.directory), "holds no trial that is finished and accepted")
    return [_observation(run, result) for result in accepted]


def left_out(run: Run) -> list[str]:
    """Names of finished trials that broke a rule of acceptance."""
    return [result.name for result in run.finished if result.objections]


def _observation(run: Run, result: Result) -> Observation:
    figures = result.figures
    if figures.get("open_loop"):
        raise BadArgument("DIR", str(run.directory), "holds open loops (rate), and the model is of closed ones")
    if "response_mean_s" not in figures or result.measured_unix_s is None:
        raise BadArgument("DIR", str(run.directory), f"trial {result.name} has no response times of clients")
    record = _only_tier(result)
    options = _options(record)
    return Observation(
        trial=result.name,
        repetition=result.repetition,
        where={name: level for name, level in result.levels.items() if not _is_clients(run, name)},
        population=int(figures["population"]),
        think_time_s=float(figures["think_time_s"]),
        throughput_per_s=float(figures["throughput_per_s"]),
        response_time_s=float(figures["response_mean_s"]),
        batch_limit=int(options["batch"]),
        workers=int(options.get("workers") or 1),
        batches=read_batches(record, result.measured_unix_s),
    )


def _is_clients(run: Run, name: str) -> bool:
    """Whether a factor sets the number of clients and nothing else."""
    factor = run.experiment.factors[name]
    targets = {target for level in factor.levels for target in factor.assignments(level)}
    return {target.partition(".")[2] for target in targets} == {"clients"}


def _only_tier(result: Result) -> Path:
    tiers = [
        path
        for path in sorted(result.directory.glob("*/record"))
        if (path / "run.json").exists() and not (path.parent / "summary.json").exists()
    ]
    if len(tiers) != 1:
        raise BadArgument(
            "DIR", str(result.directory), f"has records of {len(tiers)} middlewares, and the model is of one"
        )
    return tiers[0]


def _options(record: Path) -> dict[str, Any]:
    options: dict[str, Any] = json.loads((record / "run.json").read_text("utf-8"))["options"]
    if "batch" not in options:
        raise BadArgument("DIR", str(record), "is of a tier without batches; the model is of the queue tier")
    return options
