"""The contents of `model.json`: fitted figures with units in their names, what they were fitted to, and their range.

docs/reference/lab.md describes it field by field, for readers in other languages: change both together.
"""

from dataclasses import fields
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.tables import Level
from posthaste_lab.files import read_json, write_whole
from posthaste_lab.fitting.system import Figures, Kind, Setting

FORMAT: Literal["posthaste-lab model"] = "posthaste-lab model"
VERSION: Literal[2] = 2
FILE = "model.json"
SCV_GUESSED = 1.5  # above this scv a gamma distribution is a poor substitute for a distribution that was not measured
NOTHING = 1e-15  # a figure below it, in seconds or as a share, is 0 but for rounding
BEYOND = 2  # predictions are given up to this multiple of the most clients measured


class Whole(BaseModel):
    """Base of the models in this file: unknown keys are refused, and objects are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class IntervalValue(Whole):
    """Student's interval over repetitions."""

    low: float
    high: float


class CurveValue(Whole):
    """A predicted figure and the interval of a further trial's; no bounds with only one repetition."""

    value: float
    low: float | None = None
    high: float | None = None


class Point(Whole):
    """A number of clients to which the model was fitted: means over trials, and the model's answer."""

    clients: int
    trials: int
    throughput_per_s: float
    response_time_s: float
    model_throughput_per_s: float
    model_response_time_s: float


class Effect(Whole):
    """The gain from a stage that takes half as long: by what share throughput rises at the most clients measured."""

    stage: str
    gain_share: float
    interval: IntervalValue | None


class Bottleneck(Whole):
    """The stage that limits the system at the most clients measured, and by how much.

    `lead_share` is the difference between its gain and that of the second stage (see `Effect`).
    """

    clients: int
    stage: str
    lead_share: float
    lead_interval: IntervalValue | None
    store_utilization: float
    store_utilization_interval: IntervalValue | None
    handling_utilization: float
    handling_utilization_interval: IntervalValue | None
    effects: list[Effect]


class Range(Whole):
    """The range that the data support: predictions outside it are refused."""

    clients_min: int
    clients_max: int
    batch_requests_max: int | None


class Change(Whole):
    """The difference of a curve from what was measured: none, another number of workers, or a halved figure."""

    workers: int | None = None
    halved: str | None = None


class CurvePoint(Whole):
    """A prediction; `extrapolated` says whether it is for more clients than were measured."""

    clients: int
    throughput_per_s: CurveValue
    response_time_s: CurveValue
    extrapolated: bool


class Curve(Whole):
    """Predictions for programs that show them without computing them."""

    says: str
    change: Change
    points: list[CurvePoint]


class Model(Whole):
    """The model of one combination of levels of all factors but the number of clients."""

    where: dict[str, Level]
    kind: Kind
    think_time_s: float
    batch_limit: int | None
    workers: int | None
    middlewares: int
    gather_s: float = 0.0
    reserve_s: float = 0.0
    figures: Figures
    intervals: dict[str, IntervalValue]
    by_repetition: list[Figures]
    throughput_spread_share: float
    response_spread_share: float
    throughput_max_per_s: float
    range: Range
    points: list[Point]
    bottleneck: Bottleneck
    curves: list[Curve] = []

    @property
    def setting(self) -> Setting:
        """The setting of the model: everything that is fixed rather than fitted."""
        return Setting(**{field.name: getattr(self, field.name) for field in fields(Setting)})

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the spreads: trials less the figures fitted to them, at least 1.

        That is of the scatter between trials. What the model gets wrong is common to all trials of one number of
        clients, and has only the numbers of clients less the figures; see `unknown_misfit`.
        """
        fitted = self.setting.fitted([point.clients for point in self.points])
        return max(1, sum(point.trials for point in self.points) - fitted)


class FactorNote(Whole):
    """A factor of the experiment: the options it sets, as "part.option", and its levels."""

    sets: list[str]
    levels: list[Level]
    unit: str


class FittedModel(Whole):
    """All models fitted to a run; `calibrated_to` holds the numbers of clients if some were chosen for the fit."""

    format: Literal["posthaste-lab model"] = FORMAT
    version: Literal[2] = VERSION
    title: str
    experiment_sha256: str
    confidence: float
    calibrated_to: list[int] | None = None
    factors: dict[str, FactorNote]
    models: list[Model]


def is_at_zero(bounds: IntervalValue) -> bool:
    """Returns whether all repetitions put a figure at its limit, 0, so that its interval says nothing."""
    return max(abs(bounds.low), abs(bounds.high)) < NOTHING


def spoken(model: Model) -> str:
    """Returns the combination of levels of a model, in the syntax of --where."""
    return ",".join(f"{name}={level}" for name, level in model.where.items()) or "the only one"


def guessed_distribution(model: Model) -> str:
    """Returns a warning where a gamma distribution is a poor substitute for an unknown one; otherwise an empty text."""
    figures = model.figures
    if model.kind != "batches" or figures.batch_shape or figures.batch_scv <= SCV_GUESSED:
        return ""
    return (
        f"the distribution of batches' times is not in the model, and a gamma distribution of their spread (batch_scv "
        f"{figures.batch_scv:.3g}) stands for it, which is a rough guess where some few stall: fit again, or ask for a "
        "level that was measured"
    )


def unknown_misfit(model: Model) -> str:
    """Returns a warning where intervals hold nothing of what the model gets wrong; otherwise an empty text."""
    fitted = model.setting.fitted([point.clients for point in model.points])
    if len(model.points) > fitted or len(model.by_repetition) < 2:
        return ""
    return (
        f"{fitted} figures are fitted to {len(model.points)} numbers of clients, so intervals of predictions hold how "
        "much trials scatter, and not what the model gets wrong: further numbers of clients would show it"
    )


def write_model(fitted: FittedModel, directory: Path) -> Path:
    """Writes `model.json` into the run's directory and returns its path."""
    path = directory / FILE
    write_whole(path, fitted.model_dump_json(indent=2) + "\n")
    return path


def read_model(directory: Path) -> FittedModel:
    """Reads what `write_model` wrote. Raises BadArgument when the file is missing or of another version."""
    path = directory / FILE
    if not path.exists():
        raise BadArgument("DIR", str(directory), f"holds no {FILE}; posthaste-lab fit makes one")
    try:
        return FittedModel.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadArgument("DIR", str(path), f"is no model this program reads ({where}: {first['msg']})") from None
