"""Validation of a model: it is fitted to a few numbers of clients and compared with all others.

A prediction need not be nearer than the measurement itself is known: where the measurement's own interval is wider than
the target, the interval is the bound. Each number of clients has a bound of its own, so that one which was measured
badly does not widen the bounds of others. What decides is the mean of each error over its bound: one number of clients
may be off by more than its bound where others are off by less, and one that was measured badly mostly is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posthaste_lab.errors import BadArgument
from posthaste_lab.fitting.calibration import fit_group
from posthaste_lab.fitting.model import Model
from posthaste_lab.fitting.observations import Observation
from posthaste_lab.fitting.prediction import Prediction, predict
from posthaste_lab.stats import MeanInterval, mean_interval

THROUGHPUT_TARGET, RESPONSE_TARGET = 0.05, 0.10
CALIBRATED_MAX = 4
LOOSE = 2  # a bound above this multiple of the target says little


@dataclass(frozen=True)
class Line:
    """A number of clients: measured, predicted, and the differences as shares of what was measured."""

    clients: int
    calibrated: bool
    throughput: MeanInterval
    response: MeanInterval
    predicted: Prediction

    @property
    def throughput_error(self) -> float:
        """Error of the predicted throughput, signed, as a share of the measured mean."""
        return self.predicted.throughput_per_s.value / self.throughput.mean - 1

    @property
    def response_error(self) -> float:
        """Error of the predicted response time, signed, as a share of the measured mean."""
        return self.predicted.response_time_s.value / self.response.mean - 1


@dataclass(frozen=True)
class Summary:
    """Mean absolute error over the numbers of clients not fitted to, beside what it may be. All are shares.

    Each number of clients has a bound: the target, or the measurement's own interval where that is wider. `bound` is
    the mean of the bounds, and `taken` that of each error over its own bound.
    """

    error: float
    target: float
    bound: float
    taken: float

    @property
    def kept(self) -> bool:
        """Whether the errors are within their bounds, on average."""
        return self.taken <= 1

    @property
    def met(self) -> bool:
        """Whether the error is within the target itself."""
        return self.error <= self.target

    @property
    def loose(self) -> bool:
        """Whether the measurement is so imprecise that keeping the bounds says little."""
        return self.bound > LOOSE * self.target


@dataclass(frozen=True)
class Validation:
    """The comparison line by line, and its summary for throughput and response time."""

    model: Model
    lines: list[Line]
    throughput: Summary
    response: Summary


def validate(
    seen: Sequence[Observation], calibrate: Sequence[int] | None = None, confidence: float = 0.95
) -> Validation:
    """Fit to the trials with `calibrate` clients (default: four, spread over all), and predict the rest.

    Raises BadArgument when nothing is left to predict, or more than four numbers of clients are fitted to.
    """
    counts = sorted({each.population for each in seen})
    chosen = sorted(set(calibrate)) if calibrate is not None else spread_over(counts)
    if len(chosen) > CALIBRATED_MAX:
        raise BadArgument("--calibrate", chosen, f"must be at most {CALIBRATED_MAX} numbers of clients")
    if not set(chosen) <= set(counts):
        raise BadArgument("--calibrate", chosen, f"must be among the measured numbers of clients {counts}")
    if not set(counts) - set(chosen):
        raise BadArgument("--calibrate", chosen, "leaves no number of clients to predict")
    model = fit_group([each for each in seen if each.population in chosen], confidence)
    lines = [_line(seen, n, model, confidence, calibrated=n in chosen) for n in counts]
    held_out = [line for line in lines if not line.calibrated]
    return Validation(
        model,
        lines,
        _summary([(line.throughput_error, line.throughput) for line in held_out], THROUGHPUT_TARGET),
        _summary([(line.response_error, line.response) for line in held_out], RESPONSE_TARGET),
    )


def spread_over(counts: Sequence[int]) -> list[int]:
    """Returns four of the counts, evenly by rank and including first and last; at most one fewer than there are."""
    number = min(CALIBRATED_MAX, len(counts) - 1)
    places = np.rint(np.linspace(0, len(counts) - 1, max(1, number))).astype(int)
    return [counts[place] for place in places]


def _line(seen: Sequence[Observation], clients: int, model: Model, confidence: float, *, calibrated: bool) -> Line:
    trials = [each for each in seen if each.population == clients]
    if len(trials) < 2:
        raise BadArgument("repetitions", len(trials), f"of {clients} clients must be at least 2, for an interval")
    kept = float(np.mean([each.think_kept_s for each in trials]))
    # The think time that these clients kept is put into the model, so that predict() does not check the load for it.
    (predicted,) = predict(model.model_copy(update={"think_time_s": kept}), [clients], confidence=confidence)
    return Line(
        clients,
        calibrated,
        mean_interval([each.throughput_per_s for each in trials], confidence),
        mean_interval([each.response_time_s for each in trials], confidence),
        predicted,
    )


def _summary(held_out: list[tuple[float, MeanInterval]], target: float) -> Summary:
    errors = [abs(error) for error, _ in held_out]
    bounds = [max(target, measured.half_width / measured.mean) for _, measured in held_out]
    taken = [error / bound for error, bound in zip(errors, bounds, strict=True)]
    return Summary(float(np.mean(errors)), target, float(np.mean(bounds)), float(np.mean(taken)))
