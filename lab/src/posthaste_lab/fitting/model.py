"""`model.json`: fitted figures with units in their names, what they were fitted to, and how far that carries."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.batching import BatchServer, batch_server

FORMAT: Literal["posthaste-lab model"] = "posthaste-lab model"
VERSION: Literal[1] = 1
FILE = "model.json"
Level = bool | int | float | str


class Whole(BaseModel):
    """No unknown keys, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Figures(Whole):
    """The figures of the four places; see `queueing.batch_server`."""

    batch_s: float
    request_in_batch_s: float
    batch_scv: float
    visits: float
    path_s: float
    handling_s: float

    def solved(self, population: int, think_time_s: float, batch_limit: int) -> BatchServer:
        """The system with so many clients."""
        return batch_server(
            population,
            self.batch_s,
            self.request_in_batch_s,
            think_time=think_time_s,
            path_time=self.path_s,
            handling_time=self.handling_s,
            visits=self.visits,
            batch_limit=batch_limit,
            scv=self.batch_scv,
        )


class Bounds(Whole):
    """Student's interval over repetitions."""

    low: float
    high: float


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
    batch_requests_max: int


class Model(Whole):
    """One combination of levels of all factors but the number of clients."""

    where: dict[str, Level]
    think_time_s: float
    batch_limit: int
    workers: int
    figures: Figures
    intervals: dict[str, Bounds]
    by_repetition: list[Figures]
    throughput_spread_share: float
    response_spread_share: float
    throughput_max_per_s: float
    range: Range
    points: list[Point]
    bottleneck: Bottleneck

    @property
    def degrees_of_freedom(self) -> int:
        """Of the spreads: trials less the two figures that were fitted to them."""
        return max(1, sum(point.trials for point in self.points) - 2)


class FittedModel(Whole):
    """All of a run."""

    format: Literal["posthaste-lab model"] = FORMAT
    version: Literal[1] = VERSION
    title: str
    experiment_sha256: str
    confidence: float
    models: list[Model]

    def one(self, where: dict[str, str]) -> Model:
        """The model of a combination of levels, given as text. Raises BadArgument when not exactly one fits."""
        fitting = [
            model
            for model in self.models
            if all(name in model.where and str(model.where[name]) == level for name, level in where.items())
        ]
        if len(fitting) != 1:
            known = "; ".join(spoken(model) for model in self.models)
            raise BadArgument("--where", where, f"must name one combination, and {len(fitting)} of these fit: {known}")
        return fitting[0]


def spoken(model: Model) -> str:
    """The combination a model is of, as --where takes it."""
    return ",".join(f"{name}={level}" for name, level in model.where.items()) or "the only one"


def write_model(fitted: FittedModel, directory: Path) -> Path:
    """Write it into the run's directory."""
    path = directory / FILE
    path.write_text(fitted.model_dump_json(indent=2) + "\n", "utf-8")
    return path


def read_model(directory: Path) -> FittedModel:
    """Read what `write_model` wrote. Raises BadArgument when it is not there, or of another version."""
    path = directory / FILE
    if not path.exists():
        raise BadArgument("DIR", str(directory), f"holds no {FILE}; posthaste-lab fit makes one")
    try:
        return FittedModel.model_validate_json(path.read_text("utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadArgument("DIR", str(path), f"is no model this program reads ({where}: {first['msg']})") from None
