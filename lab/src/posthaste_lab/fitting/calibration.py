"""Finds the figures of the stations from what was measured.

The time of a batch and the share of requests in the line follow from recorded stamps (`batches.cost_of`), the way of a
lone client from its response time. The other figures that no stamp shows (`Setting.unknown`) are fitted: they bring the
model nearest to the measured throughput and response time, by least squares of relative differences. A difference of
5 % in throughput counts as much as one of 10 % in response time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from posthaste_lab.checks import FloatArray, fraction
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.results import Run
from posthaste_lab.fitting.batches import Batches, cost_of, merged
from posthaste_lab.fitting.bottleneck import find_bottleneck
from posthaste_lab.fitting.curves import with_curves
from posthaste_lab.fitting.model import BEYOND, FactorNote, FittedModel, IntervalValue, Model, Point, Range
from posthaste_lab.fitting.observations import Observation, observations
from posthaste_lab.fitting.spread import over_repetitions
from posthaste_lab.fitting.system import PLAIN, Figures, Setting
from posthaste_lab.queueing import BatchServer

THROUGHPUT_UNIT, RESPONSE_UNIT = 0.05, 0.10  # relative differences that count alike
TOGETHER_MAX = 1.15  # mean batches under way at once that pass for one worker: 1, and more if the tier answers early
SMALL_STEP, LARGE_STEP = 1e-3, 0.1  # relative steps of the fit; a simulated answer has noise of about one percent
TRIES, TRIES_IF_SIMULATED = 40, 12  # evaluations of the fit; with a simulated system more of them only fit the noise
LEAST_S = {"path_s": 1e-7, "batch_s": 1e-7}  # nothing takes no time, and clients must be somewhere


@dataclass(frozen=True)
class Cell:
    """Means over all trials with one number of clients; throughput per second, times in seconds."""

    population: int
    throughput: float
    response: float
    think: float

    def solved(self, figures: Figures, setting: Setting) -> BatchServer:
        """Solves the model for clients that pause as long as these did."""
        return figures.solved(self.population, replace(setting, think_time_s=self.think))


def fit_run(run: Run, clients: Iterable[int] | None = None, confidence: float = 0.95) -> FittedModel:
    """Fit a model to each combination of levels of a run, or to its trials with these numbers of `clients` only.

    Raises BadArgument when the model does not suit the run, or the run has too few numbers of clients: at least two are
    needed, and three of kind "turns" or where one client alone has a way of its own (`Figures.lone_path_s`).
    """
    level = fraction("confidence", confidence)
    chosen = observations(run)
    wanted = None if clients is None else set(clients)
    if wanted is not None:
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
        calibrated_to=None if wanted is None else sorted(wanted),
        factors=_factors(run),
        models=[with_curves(fit_group(group, level), level) for group in groups.values()],
    )


def _factors(run: Run) -> dict[str, FactorNote]:
    return {
        name: FactorNote(
            sets=sorted({target for level in factor.levels for target in factor.assignments(level)}),
            levels=factor.levels,
            unit=factor.unit,
        )
        for name, factor in run.experiment.factors.items()
    }


def fit_group(seen: list[Observation], confidence: float = 0.95) -> Model:
    """Fits one model to trials that differ by clients and repetition alone."""
    first = _checked(seen)
    setting = first.setting
    figures = fit_figures(seen)
    by_repetition = [fit_figures(part, figures) for part in _repetitions(seen)]
    solved = {cell.population: cell.solved(figures, setting) for cell in _cells(seen)}
    fitted = setting.fitted(solved)
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
    return Model(
        where=first.where,
        kind=setting.kind,
        think_time_s=setting.think_time_s,
        batch_limit=setting.batch_limit,
        workers=setting.workers,
        middlewares=setting.middlewares,
        gather_s=setting.gather_s,
        reserve_s=setting.reserve_s,
        figures=figures,
        intervals=_intervals(figures, by_repetition, confidence),
        by_repetition=by_repetition,
        throughput_spread_share=_spread(
            [each.throughput_per_s / solved[each.population].throughput - 1 for each in seen], fitted
        ),
        response_spread_share=_spread(
            [each.response_time_s / solved[each.population].response_time - 1 for each in seen], fitted
        ),
        throughput_max_per_s=max(point.throughput_per_s for point in points),
        range=_range(seen, points),
        points=points,
        bottleneck=find_bottleneck(figures, by_repetition, points[-1].clients, setting, confidence),
    )


def _range(seen: list[Observation], points: list[Point]) -> Range:
    sizes = [each.batches.size_max for each in seen if each.batches is not None]
    return Range(
        clients_min=points[0].clients,
        clients_max=BEYOND * points[-1].clients,
        batch_requests_max=max(sizes) if sizes else None,
    )


def fit_figures(seen: list[Observation], near: Figures | None = None) -> Figures:
    """Returns the figures that come nearest to these trials; the search begins at `near`, if given."""
    cells, setting = _cells(seen), seen[0].setting
    measured = _measured(seen, cells)
    names = setting.unknown(len(cells))

    def figures(unknown: FloatArray) -> Figures:
        found = {name: max(LEAST_S.get(name, 0.0), float(each)) for name, each in zip(names, unknown, strict=True)}
        # Among others nobody has a shorter way than alone.
        shortest = measured.lone_path_s - found.get("handling_s", 0.0) - found.get("turn_s", 0.0)
        return measured.model_copy(update=found | {"path_s": max(found["path_s"], shortest)})

    def differences(unknown: FloatArray) -> FloatArray:
        model = figures(unknown)
        pairs = [(cell.solved(model, setting), cell) for cell in cells]
        return np.array(
            [np.log(model.throughput / cell.throughput) / THROUGHPUT_UNIT for model, cell in pairs]
            + [np.log(model.response_time / cell.response) / RESPONSE_UNIT for model, cell in pairs]
        )

    guess = _guess(cells, measured, setting) if near is None else {name: getattr(near, name) for name in names}
    start = np.array([guess[name] for name in names])
    scale = np.maximum(start, 1e-6)
    found = least_squares(
        differences,
        np.maximum(start, 1e-3 * scale),
        bounds=(0.0, np.inf),
        x_scale=scale,
        diff_step=LARGE_STEP if setting.is_simulated else SMALL_STEP,
        xtol=1e-4,
        ftol=1e-5,
        max_nfev=TRIES_IF_SIMULATED if setting.is_simulated else TRIES,
    )
    return figures(found.x)


def _measured(seen: list[Observation], cells: list[Cell]) -> Figures:
    """Returns the figures that were measured; those to be fitted are 0."""
    recorded: dict[int, list[Batches]] = {}
    for each in seen:
        if each.batches is not None:
            recorded.setdefault(each.population, []).append(each.batches)
    if not recorded:
        return Figures(
            batch_s=0.0, request_in_batch_s=0.0, contention_s=0.0, batch_scv=0.0, visits=1.0, path_s=0.0, handling_s=0.0
        )
    groups = [merged(trials) for trials in recorded.values()]
    setting = seen[0].setting
    cost = cost_of(groups, setting)
    figures = Figures(
        batch_s=cost.batch_s,
        request_in_batch_s=cost.request_s,
        contention_s=cost.contention_s,
        batch_scv=cost.scv,
        visits=merged(groups).visits,
        visits_by_clients=_visits_by_clients(recorded, setting),
        path_s=0.0,
        handling_s=0.0,
        bends=cost.bends,
        # Of kind "workers" only mean times are recorded, and the distribution of means is another one.
        batch_shape=cost.shape if setting.kind == "batches" else (),
    )
    return figures.model_copy(update={"lone_path_s": _lone_path_s(cells[0], figures, setting)})


def _visits_by_clients(recorded: dict[int, list[Batches]], setting: Setting) -> tuple[tuple[float, float], ...]:
    """Returns the share of requests that go by the line, by the clients of a middleware; empty: all do.

    A tier answers reads on the spot unless they concern what is under way, so it depends on how many are.
    """
    shares = {count / setting.middlewares: merged(trials).visits for count, trials in sorted(recorded.items())}
    return () if all(share == 1 for share in shares.values()) else tuple(shares.items())


def _lone_path_s(fewest: Cell, figures: Figures, setting: Setting) -> float:
    """Returns what a request of a lone client takes beside the store; 0 if none was measured, or it is as ever."""
    if not setting.is_alone(fewest.population):
        return 0.0
    return max(0.0, fewest.response - figures.visits_of(1) * figures.batch_alone_s())


def _guess(cells: list[Cell], measured: Figures, setting: Setting) -> dict[str, float]:
    """Returns where the search begins.

    The fewest clients, which hardly queue, give the path time; the most clients, whose throughput handling limits, give
    the handling time, and a turn takes as much again. Of kind "turns", half of the fewest clients' response time is the
    way, half a turn, and a quarter of it waking up; at the most clients only the time of each request counts.
    """
    fewest, most = cells[0], cells[-1]
    if setting.kind == "turns":
        half = 0.5 * fewest.response
        each = 0.8 * setting.middlewares / most.throughput
        return {"path_s": half, "batch_s": half, "request_in_batch_s": each, "wake_s": 0.5 * half}
    store = measured.visits * (measured.batch_s + measured.request_in_batch_s)
    path = max(0.1 * fewest.response, fewest.response - store)
    handling = 0.5 * setting.middlewares / most.throughput
    return {"path_s": path, "handling_s": handling, "turn_s": handling}


def _cells(seen: list[Observation]) -> list[Cell]:
    by_population = {n: [each for each in seen if each.population == n] for n in _populations(seen)}
    return [
        Cell(
            population,
            float(np.mean([each.throughput_per_s for each in trials])),
            float(np.mean([each.response_time_s for each in trials])),
            float(np.mean([each.think_kept_s for each in trials])),
        )
        for population, trials in by_population.items()
    ]


def _populations(seen: list[Observation]) -> list[int]:
    return sorted({each.population for each in seen})


def _repetitions(seen: list[Observation]) -> list[list[Observation]]:
    """Groups trials by repetition, of repetitions that have every number of clients; empty if there is only one."""
    all_counts = set(_populations(seen))
    parts = [[e for e in seen if e.repetition == number] for number in sorted({each.repetition for each in seen})]
    whole = [part for part in parts if {each.population for each in part} == all_counts]
    return whole if len(whole) > 1 else []


def _intervals(figures: Figures, by_repetition: list[Figures], confidence: float) -> dict[str, IntervalValue]:
    found = {}
    for name in PLAIN:
        values = [getattr(each, name) for each in by_repetition]
        bounds = over_repetitions(getattr(figures, name), values, confidence)
        if bounds is not None:
            # No figure is below 0, and visits are a share.
            high = min(1.0, bounds.high) if name == "visits" else bounds.high
            found[name] = IntervalValue(low=max(0.0, bounds.low), high=high)
    return found


def _spread(shares: list[float], fitted: int) -> float:
    """Returns the root mean square of the residuals, with a degree of freedom less for each of `fitted` figures."""
    return float(np.sqrt(np.sum(np.square(shares)) / max(1, len(shares) - fitted)))


def _checked(seen: list[Observation]) -> Observation:
    """Returns the first trial, whose setting all share. Raises BadArgument if they differ, or are too few to fit."""
    first, populations = seen[0], _populations(seen)
    alone = any(map(first.setting.is_alone, populations))
    least = len(first.setting.unknown(counts=0)) + alone
    if len(populations) < least:
        raise BadArgument(
            "clients",
            populations,
            f"must be at least {least} numbers: as many as there are figures that no stamp shows"
            + ", and a client that is alone tells of its own way only" * alone,
        )
    if any(each.setting != first.setting for each in seen):
        found = "; ".join(dict.fromkeys(str(each.setting) for each in seen))
        raise BadArgument("trials", found, "must have the same think time, batch limit and workers in a combination")
    recorded = [each.batches for each in seen if each.batches is not None]
    if first.setting.kind == "batches" and first.setting.workers == 1:
        together = merged(recorded).together
        if together > TOGETHER_MAX:
            raise BadArgument("workers", 1, f"have {together:.2f} batches under way at once, as the stamps say")
    return first
