"""Predicts what was not measured, with an interval; refuses where the data say nothing.

The interval is that of the mean of one further trial. It adds two parts as squares: how the repetitions' models differ,
and how far the fitted trials lie from the model. It does not cover what the model leaves out; `validate` shows that.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from posthaste_lab.checks import count, non_negative
from posthaste_lab.errors import BadArgument
from posthaste_lab.fitting.model import BEYOND, Model
from posthaste_lab.fitting.system import Setting
from posthaste_lab.queueing import mm1, mmm

ROUNDING = 1e-9
NEAR = 0.05  # tolerance, as a share, within which a load counts as measured


class OutsideTheData(BadArgument):
    """Raised for a question that the data cannot answer."""


@dataclass(frozen=True)
class Estimate:
    """A predicted figure and the interval of a further trial's; its bounds are NaN with only one repetition."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Prediction:
    """The model's prediction for a number of clients.

    `extrapolated`: whether that is beyond the most clients, or the highest load, measured.
    `mm1_response_s`, `mmm_response_s`: response times of the open textbook models at the predicted throughput, with the
    highest measured throughput as their capacity. M/M/m has as many servers as there are workers, or requests in a mean
    batch, at all middlewares together, as that throughput is of all. NaN where they have no answer.
    """

    clients: int
    throughput_per_s: Estimate
    response_time_s: Estimate
    mean_batch_requests: float
    store_utilization: float
    handling_utilization: float
    extrapolated: bool
    mm1_response_s: float
    mmm_response_s: float

    def exceeds_clients(self, response_s: float) -> bool:
        """Whether such a response time, by Little's law, takes over 5 % more requests in the system than clients."""
        return self.throughput_per_s.value * response_s > self.clients * (1 + NEAR)


def predict(
    model: Model,
    clients: Iterable[int],
    *,
    batch_limit: int | None = None,
    think_time_s: float | None = None,
    workers: int | None = None,
    confidence: float = 0.95,
) -> list[Prediction]:
    """Returns predictions for these numbers of clients, and perhaps another batch limit, think time or fewer workers.

    Raises OutsideTheData beyond what the data support. More workers than measured are refused too: nothing shows how
    they would slow each other down.
    """
    setting = model.setting
    if workers is not None:
        setting = replace(setting, workers=_fewer_workers(model, workers))
    if batch_limit is not None:
        if model.batch_limit is None or model.kind != "batches":
            raise OutsideTheData("--batch", batch_limit, "is outside what the data support: this tier has no batches")
        setting = replace(setting, batch_limit=count("--batch", batch_limit))
    if think_time_s is not None:
        setting = replace(setting, think_time_s=non_negative("--think-time", think_time_s))
    found = [_predict_one(model, count("--clients", n), setting, confidence) for n in clients]
    return found if think_time_s is None else [_of_measured_load(model, answer, think_time_s) for answer in found]


def _of_measured_load(model: Model, answer: Prediction, think_time_s: float) -> Prediction:
    """Returns the answer if the mean number of requests in the system was measured, or is up to twice the highest.

    That number depends on the think time as it does on the number of clients, since clients that think have no request
    in the system. If one client alone was measured, all lighter loads count as measured: nothing queues there either.
    """
    inside = answer.throughput_per_s.value * answer.response_time_s.value
    measured = [point.throughput_per_s * point.response_time_s for point in model.points]
    fewest, most = 0.0 if model.range.clients_min == 1 else min(measured), max(measured)
    if not fewest * (1 - NEAR) <= inside <= BEYOND * most * (1 + NEAR):
        raise OutsideTheData(
            "--think-time",
            think_time_s,
            f"leaves {inside:.3g} of {answer.clients} clients' requests in the system at once, which is outside what "
            f"the data support, {fewest:.3g} to {BEYOND * most:.3g}",
        )
    return replace(answer, extrapolated=answer.extrapolated or inside > most * (1 + NEAR))


def _fewer_workers(model: Model, wanted: int) -> int:
    most = model.workers
    if most is None:
        raise OutsideTheData("--workers", wanted, "is outside what the data support: this tier has none")
    if not 1 <= wanted <= most:
        supported = "1" if most == 1 else f"1 to {most}"
        raise OutsideTheData(
            "--workers", wanted, f"is outside what the data support, {supported}: run an experiment with it"
        )
    return wanted


def _predict_one(model: Model, clients: int, setting: Setting, confidence: float) -> Prediction:
    reach = model.range
    if not reach.clients_min <= clients <= reach.clients_max:
        raise OutsideTheData(
            "--clients", clients, f"is outside what the data support, {reach.clients_min} to {reach.clients_max}"
        )
    solved = model.figures.solved(clients, setting)
    if reach.batch_requests_max is not None and solved.mean_batch > reach.batch_requests_max:
        raise OutsideTheData(
            "--clients",
            clients,
            f"makes batches of {solved.mean_batch:.0f} requests on average, and the largest measured had "
            f"{reach.batch_requests_max}",
        )
    parts = [each.solved(clients, setting) for each in model.by_repetition]
    capacity = max(model.throughput_max_per_s, solved.throughput)
    at_each = setting.workers or 1 if model.kind == "workers" else max(1, round(solved.mean_batch))
    return Prediction(
        clients=clients,
        throughput_per_s=_estimate(
            model,
            solved.throughput,
            [part.throughput for part in parts],
            model.throughput_spread_share,
            confidence,
        ),
        response_time_s=_estimate(
            model,
            solved.response_time,
            [part.response_time for part in parts],
            model.response_spread_share,
            confidence,
        ),
        mean_batch_requests=solved.mean_batch,
        store_utilization=solved.utilization,
        handling_utilization=solved.handling_utilization,
        extrapolated=clients > model.points[-1].clients,
        mm1_response_s=_open_response(solved.throughput, capacity, 1),
        mmm_response_s=_open_response(solved.throughput, capacity, at_each * setting.middlewares),
    )


def _estimate(model: Model, value: float, parts: list[float], spread_share: float, confidence: float) -> Estimate:
    if len(parts) < 2:
        return Estimate(value, math.nan, math.nan)
    side = (1 + confidence) / 2
    between = float(np.std(parts, ddof=1)) / math.sqrt(len(parts)) * float(stats.t.ppf(side, len(parts) - 1))
    beside = spread_share * value * float(stats.t.ppf(side, model.degrees_of_freedom))
    half = math.hypot(between, beside)
    return Estimate(value, max(0.0, value - half), value + half)


def _open_response(throughput: float, capacity: float, servers: int) -> float:
    """Returns the response time of M/M/1 or M/M/m in seconds; NaN at full capacity, where there is none."""
    if throughput >= capacity * (1 - ROUNDING):
        return math.nan
    if servers == 1:
        return mm1(throughput, capacity).mean_response
    return mmm(throughput, capacity / servers, servers).mean_response
