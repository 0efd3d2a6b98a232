"""The tables of an experiment file, each a class.

pydantic finds misspelled keys and wrong types. Options of programs are not known here: a part passes them on, and
`part_problems` checks that the program itself lists them.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from posthaste_lab.experiments.spans import NO_SPAN, seconds

LINKS = "links"
INSTANCES_MAX = 1000  # of a part: more processes than a machine has use for
# Validation context of a file: a time needs its unit there, while a time that was read before is a number of seconds.
FROM_FILE = object()
Level = bool | int | float | str
Value = Level | list[Level]
Transform = Literal["none", "log", "reciprocal"]


def same_level(one: Level, other: Level) -> bool:
    """Returns whether two levels are the same to a program: 200 is 200.0 and "200"; true is no number."""
    return isinstance(one, bool) == isinstance(other, bool) and (one == other or str(one) == str(other))


def _is_key_of(level: Level, key: str) -> bool:
    """Returns whether a key of the file, which is a text, means this level: `true`, 0.50, 1e6, a word."""
    if isinstance(level, str):
        return key == level
    if isinstance(level, bool):
        return key.lower() == str(level).lower()
    try:
        return float(key) == level
    except ValueError:
        return False


def _span(value: object, told: ValidationInfo) -> object:
    if isinstance(value, str):
        return seconds(value)
    if told.context is FROM_FILE and value != 0:
        raise ValueError(NO_SPAN)
    return value


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _sentence(text: str) -> str:
    if not text.strip():
        raise ValueError("must say something")
    return " ".join(text.split())


Span = Annotated[float, BeforeValidator(_span), Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[float, Field(allow_inf_nan=False)]
Sentence = Annotated[str, AfterValidator(_sentence)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]


class Strict(BaseModel):
    """Base of the tables of the file: unknown keys are refused, and values are not converted to other types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Trim(Strict):
    """What is cut off at both ends of a trial: times, or shares of its duration such as "12%"."""

    head: Span | str = 0.0
    tail: Span | str = 0.0

    def cut(self, duration_s: float) -> tuple[float, float]:
        """Seconds to cut at the beginning and at the end."""
        return _cut("head", self.head, duration_s), _cut("tail", self.tail, duration_s)


def _cut(end: str, amount: float | str, duration_s: float) -> float:
    if isinstance(amount, (int, float)):
        return float(amount)
    if amount.endswith("%"):
        try:
            share = float(amount[:-1]) / 100
        except ValueError:
            share = -1.0
        if 0 <= share < 1:
            return share * duration_s
        raise ValueError(f"trim.{end} = {amount!r}: must be a share from 0% to below 100%")
    try:
        return seconds(amount)
    except ValueError as error:
        raise ValueError(f"trim.{end} = {amount!r}: {error}") from None


class RunRules(Strict):
    """`[run]`: duration of a trial, repetitions, and the seed of the order; times in seconds."""

    duration: Span
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 3
    trim: Trim = Trim()
    seed: Annotated[int, Field(ge=0)] = 1
    window: Span = 1.0


class Factor(Strict):
    """`[factors.NAME]`: the levels of a factor, and the options that they set."""

    levels: Annotated[list[Level], Field(min_length=1)]
    sets: str | list[str] | None = None
    settings: dict[str, dict[str, Value]] | None = None
    unit: str = ""

    @property
    def numeric(self) -> bool:
        """Whether levels are numbers, so that a scale makes sense."""
        return all(isinstance(level, int | float) and not isinstance(level, bool) for level in self.levels)

    def assignments(self, level: Level) -> dict[str, Value]:
        """Returns the values that a level sets, by "part.option"; empty for a level without a table (an error)."""
        if self.settings is not None:
            return self._settings_of(level) or {}
        targets = [self.sets] if isinstance(self.sets, str) else self.sets or []
        return dict.fromkeys(targets, level)

    def _settings_of(self, level: Level) -> dict[str, Value] | None:
        """Returns the table of settings of a level; None where there is none."""
        return next((table for key, table in (self.settings or {}).items() if _is_key_of(level, key)), None)

    def without_settings(self) -> list[Level]:
        """Returns the levels that have no table of settings."""
        return [level for level in self.levels if self._settings_of(level) is None]


class Part(BaseModel):
    """`[parts.NAME]`: a program to run; every key but `kind` and `instances` is an option of it."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    kind: str
    instances: Annotated[int, Field(ge=1, le=INSTANCES_MAX)] = 1
    __pydantic_extra__: dict[str, Value]

    @property
    def options(self) -> dict[str, Value]:
        """Options by name, without dashes."""
        return self.__pydantic_extra__


class Place(Strict):
    """`[placement.PART]`: the host of hosts.toml and the cores on which a part runs."""

    host: str = "local"
    cpus: Annotated[str, Field(pattern=r"^[0-9]+[0-9,:-]*$")] | None = None


class Link(Strict):
    """`[links.PART]`: bandwidth and delay to a part, in each direction; those of loopback where not given."""

    bandwidth: Annotated[str, Field(pattern=r"^[1-9]\d*[kmg]bit$")] | None = None
    delay: Span = 0.0


class Claim(Strict):
    """`[[claims]]`: a part of the hypothesis that figures can decide.

    The mean of `figure` in the cells of `where`, or with `than` its ratio to that in the cells of `than`, must lie
    between `at_least` and `at_most`.
    """

    says: Sentence
    figure: str
    where: dict[str, Level] = {}
    than: dict[str, Level] | None = None
    at_least: Limit | None = None
    at_most: Limit | None = None


class Acceptance(Strict):
    """`[[accept]]`: limits for a figure of every trial; a trial outside them is kept, but marked as not accepted."""

    figure: str
    at_least: Limit | None = None
    at_most: Limit | None = None

    def objection(self, figures: Mapping[str, Any]) -> str | None:
        """Returns a sentence about the limit that these figures break; None when they keep both."""
        value = figures.get(self.figure)
        if value is None:
            return f"{self.figure} was not measured"
        if not isinstance(value, int | float) or math.isnan(value):
            return f"{self.figure} = {value}: is no number"
        if self.at_least is not None and value < self.at_least:
            return f"{self.figure} = {value:g}, accepted from {self.at_least:g}"
        if self.at_most is not None and value > self.at_most:
            return f"{self.figure} = {value:g}, accepted up to {self.at_most:g}"
        return None


class Design(Strict):
    """`[design]`: generators of a fraction, such as ["D=ABC"]."""

    generators: Annotated[list[str], Field(min_length=1)]


class ReportRules(Strict):
    """`[report]`: the factor on the horizontal axis, and the figures for which a design is analyzed.

    Each of `response` has the transform at its place; a single transform holds for all.
    """

    x: str | None = None
    response: Annotated[list[str], BeforeValidator(_several), Field(min_length=1)] = ["throughput_per_s"]
    transform: Annotated[list[Transform], BeforeValidator(_several), Field(min_length=1)] = ["none"]

    @property
    def analyses(self) -> list[tuple[str, Transform]]:
        """The figures for which a design is analyzed, each with its transform."""
        transforms = self.transform * len(self.response) if len(self.transform) == 1 else self.transform
        return list(zip(self.response, transforms, strict=True))


class Quick(Strict):
    """`[quick]`: what `--quick` changes, to try an experiment in a minute or so."""

    duration: Span | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] | None = None
    trim: Trim | None = None
    window: Span | None = None
    levels: dict[str, list[Level]] = {}
