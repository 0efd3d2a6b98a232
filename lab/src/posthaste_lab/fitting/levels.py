"""Finds the model for levels of factors that were measured, or lie between two measured ones.

Between two measured levels of a number every figure is interpolated linearly: right for costs in proportion to bytes, a
fair guess for the rest, and only further levels can check it. Beyond the outermost levels, and between levels that are
no numbers, there is no answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.tables import Level
from posthaste_lab.fitting.model import FittedModel, Model, Range, spoken
from posthaste_lab.fitting.prediction import OutsideTheData
from posthaste_lab.fitting.system import Figures, between


@dataclass(frozen=True)
class Asked:
    """A requested level: its text, and its number if it is one."""

    text: str
    number: float | None

    @classmethod
    def of(cls, text: str) -> "Asked":
        """Reads the text of a level."""
        try:
            return cls(text, float(text))
        except ValueError:
            return cls(text, None)

    def fits(self, level: Level) -> bool:
        """Returns whether the text means this level: 64 is 64.0, and True is no number."""
        if isinstance(level, int | float) and not isinstance(level, bool) and self.number is not None:
            return float(level) == self.number
        return str(level).lower() == self.text.lower()


def model_at(fitted: FittedModel, where: Mapping[str, str]) -> Model:
    """Returns the model of a combination of levels; `where` has their texts by the factors' names.

    Raises BadArgument when a name is no factor, or a varied factor is missing; OutsideTheData for a level that neither
    was measured nor lies between two measured ones.
    """
    for name in where:
        if name not in fitted.models[0].where:
            known = ", ".join(fitted.models[0].where) or "none but the clients"
            raise BadArgument("--where", dict(where), f"names {name}, and the factors are {known}")
    return _at(fitted.models, {name: Asked.of(text) for name, text in where.items()})


def interpolated(fitted: FittedModel, where: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each level that was not measured, once `model_at` has answered for `where`."""
    models, said = fitted.models, []
    for name, text in where.items():
        level = Asked.of(text)
        having = [model for model in models if level.fits(model.where[name])]
        if not having:
            low, high, _ = _neighbors(models, name, level)
            said.append(
                f"{name} = {text} was not measured: every figure is interpolated linearly between {low} and {high}, a "
                "guess whose error the intervals do not cover"
            )
        models = having or models
    return said


def factor_of(fitted: FittedModel, *options: str) -> str | None:
    """Returns the name of the factor that sets one of these options of a part, if there is one."""
    for name, factor in fitted.factors.items():
        if {target.partition(".")[2] for target in factor.sets} & set(options):
            return name
    return None


def factor_of_middlewares(fitted: FittedModel) -> str | None:
    """Returns the name of the factor that sets the number of middlewares, if there is one.

    Its levels must be those numbers, as loads and memcached servers have instances as well.
    """
    for name, factor in fitted.factors.items():
        is_of_instances = any(target.endswith(".instances") for target in factor.sets)
        if is_of_instances and all(model.where.get(name) == model.middlewares for model in fitted.models):
            return name
    return None


def _at(models: list[Model], asked: dict[str, Asked]) -> Model:
    """Returns the one model at the levels asked for: factor by factor, those of its level, or two neighbors joined."""
    for name, level in asked.items():
        having = [model for model in models if level.fits(model.where[name])]
        if not having:
            low, high, share = _neighbors(models, name, level)
            rest = {other: wanted for other, wanted in asked.items() if other != name}
            return _joined(
                _at([model for model in models if model.where[name] == low], rest),
                _at([model for model in models if model.where[name] == high], rest),
                share,
                {name: level.number or 0.0},
            )
        models = having
    if len(models) != 1:
        known = "; ".join(spoken(model) for model in models)
        said = ",".join(f"{name}={level.text}" for name, level in asked.items())
        raise BadArgument("--where", said, f"must name one combination, and {len(models)} of these fit: {known}")
    return models[0]


def _neighbors(models: list[Model], name: str, asked: Asked) -> tuple[Level, Level, float]:
    """Returns the measured levels below and above `asked`, and the share of the way from the first to the second."""
    measured = [model.where[name] for model in models]
    known = ", ".join(dict.fromkeys(str(level) for level in measured))
    numbers = sorted({level for level in measured if isinstance(level, int | float) and not isinstance(level, bool)})
    if asked.number is None or len(numbers) < len(set(map(str, measured))):
        raise OutsideTheData(f"--where {name}", asked.text, f"is no level of this factor: {known}")
    below = [level for level in numbers if level < asked.number]
    above = [level for level in numbers if level > asked.number]
    if not below or not above:
        raise OutsideTheData(
            f"--where {name}",
            asked.text,
            f"is outside what the data support, {numbers[0]} to {numbers[-1]}: run an experiment with it",
        )
    low, high = below[-1], above[0]
    return low, high, (asked.number - low) / (high - low)


def _joined(first: Model, second: Model, share: float, level: dict[str, float]) -> Model:
    """Returns the model interpolated at `share` of the way from `first` to `second`, in the range that both support."""
    if (first.kind, first.think_time_s) != (second.kind, second.think_time_s):
        raise OutsideTheData("--where", level, "lies between two systems of different kinds")
    update: dict[str, Any] = {
        "where": first.where
        | {name: int(number) if number == int(number) else number for name, number in level.items()},
        "batch_limit": _whole(first.batch_limit, second.batch_limit, share),
        "workers": _whole(first.workers, second.workers, share),
        "middlewares": _whole(first.middlewares, second.middlewares, share),
        "figures": between(first.figures, second.figures, share),
        "by_repetition": _repetitions(first.by_repetition, second.by_repetition, share),
        "throughput_spread_share": max(first.throughput_spread_share, second.throughput_spread_share),
        "response_spread_share": max(first.response_spread_share, second.response_spread_share),
        "throughput_max_per_s": (1 - share) * first.throughput_max_per_s + share * second.throughput_max_per_s,
        "range": _range(first.range, second.range),
        "points": min(first.points, second.points, key=lambda points: points[-1].clients),
        "intervals": {},
        "curves": [],
    }
    return first.model_copy(update=update)


def _whole(low: int | None, high: int | None, share: float) -> int | None:
    """Returns an interpolated count, rounded: there are no fractions of workers."""
    if low is None or high is None or low == high:
        return low
    return round(low + share * (high - low))


def _repetitions(first: list[Figures], second: list[Figures], share: float) -> list[Figures]:
    return [between(low, high, share) for low, high in zip(first, second, strict=False)]


def _range(first: Range, second: Range) -> Range:
    sizes = [size for size in (first.batch_requests_max, second.batch_requests_max) if size is not None]
    return Range(
        clients_min=max(first.clients_min, second.clients_min),
        clients_max=min(first.clients_max, second.clients_max),
        batch_requests_max=max(sizes) if sizes else None,
    )
