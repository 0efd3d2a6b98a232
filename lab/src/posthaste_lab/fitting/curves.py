"""Adds curves of predictions to a model, for readers of `model.json` that solve nothing, such as the console."""

import math

from posthaste_lab.fitting.bottleneck import halved, stages
from posthaste_lab.fitting.model import Change, Curve, CurvePoint, CurveValue, Model
from posthaste_lab.fitting.prediction import Estimate, OutsideTheData, Prediction, predict
from posthaste_lab.ladder import ladder


def with_curves(model: Model, confidence: float) -> Model:
    """Returns the model with its curves: as measured, with fewer workers, and with each stage taking half as long."""
    curves = [_curve(model, "as measured", Change(), confidence)]
    for workers in _fewer(model.workers or 1):
        says = "1 worker" if workers == 1 else f"{workers} workers"
        curves.append(_curve(model, says, Change(workers=workers), confidence))
    for name, said in stages(model.figures, model.kind).items():
        parts = [halved(each, name) for each in model.by_repetition]
        changed = model.model_copy(update={"figures": halved(model.figures, name), "by_repetition": parts})
        curves.append(_curve(changed, f"{said}: half", Change(halved=name), confidence))
    return model.model_copy(update={"curves": [curve for curve in curves if curve.points]})


def _fewer(workers: int) -> list[int]:
    """Powers of two below the number of workers."""
    return [2**power for power in range(16) if 2**power < workers]


def clients_of(model: Model) -> list[int]:
    """Returns 1, 2, 5, 10, … clients and the measured numbers, within the range that the data support."""
    return sorted({*ladder(model.range.clients_min, model.range.clients_max), *(each.clients for each in model.points)})


def _curve(model: Model, says: str, change: Change, confidence: float) -> Curve:
    points: list[CurvePoint] = []
    for clients in clients_of(model):
        try:
            (answer,) = predict(model, [clients], workers=change.workers, confidence=confidence)
        except OutsideTheData:  # batches larger than measured: more clients only make them larger
            break
        points.append(_point(answer))
    return Curve(says=says, change=change, points=points)


def _point(answer: Prediction) -> CurvePoint:
    return CurvePoint(
        clients=answer.clients,
        throughput_per_s=_value(answer.throughput_per_s),
        response_time_s=_value(answer.response_time_s),
        extrapolated=answer.extrapolated,
    )


def _value(estimate: Estimate) -> CurveValue:
    """Returns an estimate for `model.json`: bounds that are NaN become null, as JSON has no NaN."""
    if math.isnan(estimate.low):
        return CurveValue(value=estimate.value)
    return CurveValue(value=estimate.value, low=estimate.low, high=estimate.high)
