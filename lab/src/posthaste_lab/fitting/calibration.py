"""The figures of the stations, found from what was measured.

What a batch takes, and how many requests go by the line, is measured and need not be guessed: a line through the
measured times of batches (`batches.line_through`). What remains is two figures: the time on the way where nobody
waits, and the time during which one request is handled at a time. They are those with which the model comes nearest
to the measured throughput and response time, by least squares of relative differences. A difference of 5 % in
throughput counts as much as one of 10 % in response time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from posthaste_lab.checks import FloatArray, fraction
from posthaste_lab.errors import BadArgument
from posthaste_lab.fitting.batches import line_through, merged
from posthaste_lab.fitting.bottleneck import find_bottleneck
from posthaste_lab.fitting.model import Bounds, Figures, FittedModel, Model, Point, Range
from posthaste_lab.fitting.observations import Observation, observations
from posthaste_lab.fitting.spread import over_repetitions
from posthaste_lab.report.results import Run

THROUGHPUT_UNIT, RESPONSE_UNIT = 0.05, 0.10  # differences that count alike
TOGETHER_MAX = 1.15  # batches under way at once; one worker has 1
BEYOND = 2  # how many times the most clients measured may be asked for
PATH_LEAST_S = 1e-7  # nothing travels in no time, and the model must have somewhere for clients to be


@dataclass(frozen=True)
class Cell:
    """A number of clients: means over its trials."""

    population: int
    throughput: float
    response: float


def fit_run(run: Run, clients: Iterable[int] | None = None, confidence: float = 0.95) -> FittedModel:
    """Fit a model to each combination of levels of a run, or to its trials with these numbers of `clients` only.

    Raises BadArgument when the run is not one the model is made for, or says too little: at least two numbers of
    clients are needed.
    """
    level = fraction("confidence", confidence)
    chosen = observations(run)
    if clients is not None:
        wanted = set(clients)
        missing = wanted - {each.population for each in chosen}
        if missing:
            raise BadArgument("--calibrate", min(missing), f"is no number of clients that {run.directory} has")
        chosen = [each for each in chosen if each.population in wanted]
    groups: dict[str, list[Observation]] = {}
    for each in chosen:
        groups.setdefault(repr(each.where), []).append(each)
    return FittedModel(
        title=run.experiment.title,
        experiment_sha256=run.plan["experiment_sha256"],
        confidence=level,
        models=[fit_group(group, level) for group in groups.values()],
    )


def fit_group(seen: list[Observation], confidence: float = 0.95) -> Model:
    """One model from trials that differ by clients and repetition alone."""
    first = _checked(seen)
    figures = fit_figures(seen)
    by_repetition = [fit_figures(part, figures) for part in _repetitions(seen)]
    solved = {n: figures.solved(n, first.think_time_s, first.batch_limit) for n in _populations(seen)}
    points = [
        Point(
            clients=cell.population,
            trials=sum(each.population == cell.population for each in seen),
            throughput_per_s=cell.throughput,
            response_time_s=cell.response,
            model_throughput_per_s=solved[cell.population].throughput,
            model_response_time_s=solved[cell.population].response_time,
        )
        for cell in _cells(seen)
    ]
    most = points[-1].clients
    return Model(
        where=first.where,
        think_time_s=first.think_time_s,
        batch_limit=first.batch_limit,
        workers=first.workers,
        figures=figures,
        intervals=_intervals(figures, by_repetition, confidence),
        by_repetition=by_repetition,
        throughput_spread_share=_spread(
            [each.throughput_per_s / solved[each.population].throughput - 1 for each in seen]
        ),
        response_spread_share=_spread(
            [each.response_time_s / solved[each.population].response_time - 1 for each in seen]
        ),
        throughput_max_per_s=max(point.throughput_per_s for point in points),
        range=Range(
            clients_min=points[0].clients,
            clients_max=BEYOND * most,
            batch_requests_max=int(max(each.batches.sizes.max() for each in seen)),
        ),
        points=points,
        bottleneck=find_bottleneck(figures, by_repetition, most, first.think_time_s, first.batch_limit, confidence),
    )


def fit_figures(seen: list[Observation], near: Figures | None = None) -> Figures:
    """The figures that come nearest to these trials, searched from `near`."""
    cells, first = _cells(seen), seen[0]
    batches = merged([each.batches for each in seen])
    batch_s, request_s, scv = line_through(batches)

    def figures(unknown: FloatArray) -> Figures:
        return Figures(
            batch_s=batch_s,
            request_in_batch_s=request_s,
            batch_scv=scv,
            visits=batches.visits,
            path_s=max(PATH_LEAST_S, float(unknown[0])),
            handling_s=float(unknown[1]),
        )

    def differences(unknown: FloatArray) -> FloatArray:
        model = figures(unknown)
        solved = [model.solved(cell.population, first.think_time_s, first.batch_limit) for cell in cells]
        pairs = list(zip(solved, cells, strict=True))
        return np.array(
            [np.log(model.throughput / cell.throughput) / THROUGHPUT_UNIT for model, cell in pairs]
            + [np.log(model.response_time / cell.response) / RESPONSE_UNIT for model, cell in pairs]
        )

    start = np.array([near.path_s, near.handling_s]) if near else _guess(cells, batches.visits * (batch_s + request_s))
    scale = np.maximum(start, 1e-6)
    found = least_squares(
        differences,
        np.maximum(start, 1e-3 * scale),
        bounds=(0.0, np.inf),
        x_scale=scale,
        diff_step=1e-3,
        xtol=1e-4,
        ftol=1e-5,
        max_nfev=40,
    )
    return figures(found.x)


def _guess(cells: list[Cell], store_s: float) -> FloatArray:
    """The way from the fewest clients, who hardly meet; handling from the most, who cannot be faster than it."""
    fewest, most = cells[0], cells[-1]
    return np.array([max(0.1 * fewest.response, fewest.response - store_s), 0.5 / most.throughput])


def _cells(seen: list[Observation]) -> list[Cell]:
    return [
        Cell(
            population,
            float(np.mean([each.throughput_per_s for each in seen if each.population == population])),
            float(np.mean([each.response_time_s for each in seen if each.population == population])),
        )
        for population in _populations(seen)
    ]


def _populations(seen: list[Observation]) -> list[int]:
    return sorted({each.population for each in seen})


def _repetitions(seen: list[Observation]) -> list[list[Observation]]:
    """Trials by repetition, of those that have every number of clients; none when there is only one."""
    all_counts = set(_populations(seen))
    parts = [[e for e in seen if e.repetition == number] for number in sorted({each.repetition for each in seen})]
    whole = [part for part in parts if {each.population for each in part} == all_counts]
    return whole if len(whole) > 1 else []


def _intervals(figures: Figures, by_repetition: list[Figures], confidence: float) -> dict[str, Bounds]:
    found = {}
    for name in Figures.model_fields:
        values = [getattr(each, name) for each in by_repetition]
        bounds = over_repetitions(getattr(figures, name), values, confidence)
        if bounds is not None:
            found[name] = Bounds(low=max(0.0, bounds.low), high=bounds.high)
    return found


def _spread(shares: list[float]) -> float:
    """Root mean square of what the model leaves, two figures having been fitted."""
    return float(np.sqrt(np.sum(np.square(shares)) / max(1, len(shares) - 2)))


def _checked(seen: list[Observation]) -> Observation:
    """What all trials have in common. Raises BadArgument when it differs, or when there is too little."""
    first = seen[0]
    if len(_populations(seen)) < 2:
        raise BadArgument("clients", _populations(seen), "must be at least two numbers: one says nothing about waiting")
    for name in ("think_time_s", "batch_limit", "workers"):
        values = sorted({getattr(each, name) for each in seen})
        if len(values) > 1:
            raise BadArgument(name, values, "must be the same in all trials of a combination")
    together = merged([each.batches for each in seen]).together
    if together > TOGETHER_MAX:
        raise BadArgument(
            "workers",
            first.workers,
            f"have {together:.2f} batches under way at once on average, and the model has one; run with workers = 1",
        )
    return first
