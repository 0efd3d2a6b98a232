"""`model.json`: fitted figures with units in their names, what they were fitted to, and how far that carries.

docs/reference/lab.md describes it field by field, for readers in other languages: a change here is a change there.
"""

from dataclasses import fields
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from posthaste_lab.errors import BadArgument
from posthaste_lab.files import read_json, write_whole
from posthaste_lab.fitting.system import Figures, Kind, Setting

FORMAT: Literal["posthaste-lab model"] = "posthaste-lab model"
VERSION: Literal[2] = 2
FILE = "model.json"
SCV_GUESSED = 1.5  # above it a gamma law in place of the one that was not measured is far from it
BEYOND = 2  # how many times the most clients measured may be asked for
Level = bool | int | float | str


class Whole(BaseModel):
    """No unknown keys, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Bounds(Whole):
    """Student's interval over repetitions."""

    low: float
    high: float


class CurveValue(Whole):
    """A figure and where a further trial's is to be expected; without bounds where one repetition is all there was."""

    value: float
    low: float | None = None
    high: float | None = None


class Point(Whole):
    """A number of clients that the model was fitted to: means over trials, and the model's answer."""

    clients: int
    trials: int
    throughput_per_s: float
    response_time_s: float
    model_throughput_per_s: float
    model_response_time_s: float


class Effect(Whole):
    """What a stage is worth: by what share throughput would rise, at the most clients measured, if it took half."""

    stage: str
    gain_share: float
    interval: Bounds | None


class Bottleneck(Whole):
    """Which stage holds the system up at the most clients measured, and by how much."""

    clients: int
    stage: str
    lead_share: float
    lead_interval: Bounds | None
    store_utilization: float
    store_utilization_interval: Bounds | None
    handling_utilization: float
    handling_utilization_interval: Bounds | None
    effects: list[Effect]


class Range(Whole):
    """What the data support: predictions beyond are refused."""

    clients_min: int
    clients_max: int
    batch_requests_max: int | None


class Change(Whole):
    """What a curve changes: nothing, the number of workers, or a figure that is half of what was measured."""

    workers: int | None = None
    halved: str | None = None


class CurvePoint(Whole):
    """A prediction; `extrapolated`: beyond the most clients measured."""

    clients: int
    throughput_per_s: CurveValue
    response_time_s: CurveValue
    extrapolated: bool


class Curve(Whole):
    """Predictions for whoever shows them without computing them."""

    says: str
    change: Change
    points: list[CurvePoint]


class Model(Whole):
    """One combination of levels of all factors but the number of clients."""

    where: dict[str, Level]
    kind: Kind
    think_time_s: float
    batch_limit: int | None
    workers: int | None
    middlewares: int
    gather_s: float = 0.0
    reserve_s: float = 0.0
    figures: Figures
    intervals: dict[str, Bounds]
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
        """What is fixed in it."""
        return Setting(**{field.name: getattr(self, field.name) for field in fields(Setting)})

    @property
    def degrees_of_freedom(self) -> int:
        """Of the spreads: trials less the figures that were fitted to them."""
        return max(1, sum(point.trials for point in self.points) - len(self.setting.unknown(len(self.points))))


class FactorNote(Whole):
    """A factor of the experiment: the options it sets, as "part.option", and its levels."""

    sets: list[str]
    levels: list[Level]
    unit: str


class FittedModel(Whole):
    """All of a run."""

    format: Literal["posthaste-lab model"] = FORMAT
    version: Literal[2] = VERSION
    title: str
    experiment_sha256: str
    confidence: float
    factors: dict[str, FactorNote]
    models: list[Model]


def spoken(model: Model) -> str:
    """The combination a model is of, as --where takes it."""
    return ",".join(f"{name}={level}" for name, level in model.where.items()) or "the only one"


def guessed_law(model: Model) -> str:
    """What to mind where a gamma law stands for one that is not known and far from it; empty elsewhere."""
    figures = model.figures
    if model.kind != "batches" or figures.batch_shape or figures.batch_scv <= SCV_GUESSED:
        return ""
    return (
        f"the law of batches' times is not in the model, and a gamma law of their spread (batch_scv "
        f"{figures.batch_scv:.3g}) stands for it, which is a rough guess where some few stall: fit again, or ask for a "
        "level that was measured"
    )


def write_model(fitted: FittedModel, directory: Path) -> Path:
    """Write it into the run's directory."""
    path = directory / FILE
    write_whole(path, fitted.model_dump_json(indent=2) + "\n")
    return path


def read_model(directory: Path) -> FittedModel:
    """Read what `write_model` wrote. Raises BadArgument when it is not there, or of another version."""
    path = directory / FILE
    if not path.exists():
        raise BadArgument("DIR", str(directory), f"holds no {FILE}; posthaste-lab fit makes one")
    try:
        return FittedModel.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadArgument("DIR", str(path), f"is no model this program reads ({where}: {first['msg']})") from None
