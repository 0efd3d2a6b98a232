"""What an experiment file may say. Everything is checked before anything starts.

The shapes stand here as classes, so that a key misspelled or of the wrong type is found by the library that knows
best how; rules that join several keys follow below them, in sentences. Options of programs are not known here: a part
hands them on, and `options` asks the program itself whether it has them.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from posthaste_lab.experiments.names import name_problems
from posthaste_lab.experiments.problems import BadExperiment, did_you_mean
from posthaste_lab.experiments.spans import NO_SPAN, seconds
from posthaste_lab.factorial import design
from posthaste_lab.factorial.words import with_generated

LINKS = "links"
INSTANCES_MAX = 1000  # of a part: more processes than a machine has use for
TRIALS_MAX = 100_000  # of a run, which are laid out before the first: some days of the shortest there are
# The context of what people wrote: a time has its unit there, where one that was read already is a number of seconds.
FROM_FILE = object()
Level = bool | int | float | str
Value = Level | list[Level]
Transform = Literal["none", "log", "reciprocal"]


def same_level(one: Level, other: Level) -> bool:
    """Whether two levels are the same to a program: 200 is 200.0 and "200"; true is no number."""
    return isinstance(one, bool) == isinstance(other, bool) and (one == other or str(one) == str(other))


def _is_key_of(level: Level, key: str) -> bool:
    """Whether a key of the file, which is a text, means this level: `true`, 0.50, 1e6, a word."""
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
    """A table of the file: no unknown keys, no types bent into others."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Trim(Strict):
    """What to cut away at both ends of a trial: times, or shares of its duration such as "12%"."""

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
    """`[run]`: how long, how often, in which order."""

    duration: Span
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 3
    trim: Trim = Trim()
    seed: Annotated[int, Field(ge=0)] = 1
    window: Span = 1.0


class Factor(Strict):
    """`[factors.NAME]`: what is varied, and what that sets."""

    levels: Annotated[list[Level], Field(min_length=1)]
    sets: str | list[str] | None = None
    settings: dict[str, dict[str, Value]] | None = None
    unit: str = ""

    @property
    def numeric(self) -> bool:
        """Whether levels are numbers, so that a scale makes sense."""
        return all(isinstance(level, int | float) and not isinstance(level, bool) for level in self.levels)

    def assignments(self, level: Level) -> dict[str, Value]:
        """What a level sets: values by "part.option". One without a table, which is refused, sets nothing."""
        if self.settings is not None:
            return self._settings_of(level) or {}
        targets = [self.sets] if isinstance(self.sets, str) else self.sets or []
        return dict.fromkeys(targets, level)

    def _settings_of(self, level: Level) -> dict[str, Value] | None:
        """The table of a level; None where there is none."""
        return next((table for key, table in (self.settings or {}).items() if _is_key_of(level, key)), None)

    def without_settings(self) -> list[Level]:
        """Levels that have no table."""
        return [level for level in self.levels if self._settings_of(level) is None]


class Part(BaseModel):
    """`[parts.NAME]`: a program to run; every key but these is an option of it."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    kind: str
    instances: Annotated[int, Field(ge=1, le=INSTANCES_MAX)] = 1
    __pydantic_extra__: dict[str, Value]

    @property
    def options(self) -> dict[str, Value]:
        """Options by name, without dashes."""
        return self.__pydantic_extra__


class Place(Strict):
    """`[placement.PART]`: on which host of hosts.toml, and on which of its cores."""

    host: str = "local"
    cpus: Annotated[str, Field(pattern=r"^[0-9]+[0-9,:-]*$")] | None = None


class Link(Strict):
    """`[links.PART]`: what the way to a part is like, in each direction; as loopback where nothing is said."""

    bandwidth: Annotated[str, Field(pattern=r"^[1-9]\d*[kmg]bit$")] | None = None
    delay: Span = 0.0


class Claim(Strict):
    """`[[claims]]`: a piece of the hypothesis that figures can decide.

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
    """`[[accept]]`: what every trial must keep, or its figures are not accepted: it is marked, and stays."""

    figure: str
    at_least: Limit | None = None
    at_most: Limit | None = None

    def objection(self, figures: Mapping[str, Any]) -> str | None:
        """What a trial with these figures breaks, in a sentence; None when it keeps the limits."""
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
    """`[report]`: which factor is the load on the horizontal axis, and which figures a design is analyzed by.

    Each of `response` has the transform at its place; a single transform is that of all.
    """

    x: str | None = None
    response: Annotated[list[str], BeforeValidator(_several), Field(min_length=1)] = ["throughput_per_s"]
    transform: Annotated[list[Transform], BeforeValidator(_several), Field(min_length=1)] = ["none"]

    @property
    def analyses(self) -> list[tuple[str, Transform]]:
        """What a design is analyzed by: figures, each with its transform."""
        transforms = self.transform * len(self.response) if len(self.transform) == 1 else self.transform
        return list(zip(self.response, transforms, strict=True))


class Quick(Strict):
    """`[quick]`: what `--quick` changes, to try an experiment in a minute or so."""

    duration: Span | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] | None = None
    trim: Trim | None = None
    window: Span | None = None
    levels: dict[str, list[Level]] = {}


class Experiment(Strict):
    """A whole file."""

    title: Sentence
    question: Sentence
    hypothesis: Sentence
    reference: Sentence | None = None
    run: RunRules
    parts: Annotated[dict[Name, Part], Field(min_length=1)]
    factors: dict[str, Factor] = {}
    design: Design | None = None
    placement: dict[str, Place] = {}
    links: dict[str, Link] = {}
    accept: list[Acceptance] = []
    claims: list[Claim] = []
    report: ReportRules = ReportRules()
    quick: Quick | None = None

    @model_validator(mode="after")
    def _whole(self) -> "Experiment":
        problems = [
            *_run_problems(self),
            *(problem for name in self.factors for problem in _factor_problems(self, name)),
            *name_problems(self),
            *_design_problems(self),
            *_claim_problems(self),
            *_report_problems(self),
            *(
                f"placement.{name}: is none of the parts {', '.join(self.parts)}"
                for name in self.placement
                if name not in self.parts
            ),
            *(
                f"quick.levels.{name}: is none of the factors {', '.join(self.factors)}"
                for name in (self.quick.levels if self.quick is not None else ())
                if name not in self.factors
            ),
            *_link_problems(self),
        ]
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def two_levels(self) -> bool:
        """Whether it is a 2^k design with effects to tell apart: of one factor, the claim says it all."""
        return len(self.factors) > 1 and all(len(factor.levels) == 2 for factor in self.factors.values())

    @property
    def trimmed(self) -> tuple[float, float, float]:
        """Seconds before what is measured, of what is measured, and after."""
        head, tail = self.run.trim.cut(self.run.duration)
        return head, self.run.duration - head - tail, tail

    def host_of(self, part: str) -> str:
        """The name of the machine that a part runs on."""
        place = self.placement.get(part)
        return "local" if place is None else place.host

    def quickly(self) -> "Experiment":
        """The same question, asked in a hurry: what `[quick]` says takes the place of `[run]` and of levels."""
        if self.quick is None:
            raise BadExperiment(self.title, ["has no [quick] table, which says what to shorten"])
        content = self.model_dump(exclude_none=True)
        quick = self.quick.model_dump(exclude_none=True)
        for name, levels in quick.pop("levels").items():
            content["factors"][name]["levels"] = levels
        content["run"] |= quick
        content["claims"] = [claim for claim in content.get("claims", []) if _can_decide(claim, content["factors"])]
        del content["quick"]
        return _checked(content, f"{self.title} [quick]")


def _can_decide(claim: dict[str, Any], factors: dict[str, Any]) -> bool:
    """Whether the levels a claim is about are still there."""
    named = [*claim.get("where", {}).items(), *claim.get("than", {}).items()]
    return all(any(same_level(level, known) for known in factors[name]["levels"]) for name, level in named)


def load(path: Path) -> Experiment:
    """Read and check an experiment file. Raises BadExperiment with every problem found."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadExperiment(str(path), [f"cannot be read: {error.strerror}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadExperiment(str(path), [f"is not TOML: {error}"]) from None
    return _checked(content, str(path), FROM_FILE)


def _checked(content: dict[str, Any], where: str, context: object = None) -> Experiment:
    try:
        experiment = Experiment.model_validate(content, context=context)
        if experiment.quick is not None:
            experiment.quickly()
    except ValidationError as error:
        raise BadExperiment(where, _sentences(error)) from None
    except BadExperiment as of_quick:
        raise BadExperiment(where, [f"with [quick]: {problem}" for problem in of_quick.problems]) from None
    return experiment


def _sentences(error: ValidationError) -> list[str]:
    """One sentence for each key: a value that could be of several types is complained about once."""
    found: dict[str, str] = {}
    for each in error.errors():
        message = each["msg"].removeprefix("Value error, ")
        if not each["loc"]:  # from `_whole`, which names its keys itself
            found |= {line: line for line in message.split("\n")}
            continue
        key = ".".join(str(step) for step in each["loc"] if not _TYPE.fullmatch(str(step)))
        shown = "" if each["type"] in ("missing", "extra_forbidden") else f" = {each['input']!r}"
        said = {"missing": "is missing", "extra_forbidden": "is no key of this table"}.get(each["type"], message)
        if each["type"] == "extra_forbidden":
            *table, wrong = each["loc"]
            said += did_you_mean(str(wrong), _keys_of(table))
        found.setdefault(key, f"{key}{shown}: {said}")
    return list(found.values())


def _keys_of(steps: Sequence[int | str]) -> list[str]:
    """The keys of the table that these steps lead to from the top of the file."""
    at: Any = Experiment
    for step in steps:
        # Into a table by its key, or into whatever a list or a table of names holds.
        at = at.model_fields[step].annotation if hasattr(at, "model_fields") else get_args(at)[-1]
        if NoneType in get_args(at):
            at, _ = get_args(at)
    return list(at.model_fields)


# Steps into the branches of a union, which a reader of the file does not know.
_TYPE = re.compile(r"bool|int|float|str|constrained-float|(function-\w+|list)\[.*\]")


def _run_problems(experiment: Experiment) -> list[str]:
    run, problems = experiment.run, []
    try:
        measured = experiment.trimmed[1]
        if measured <= 0:
            problems.append(f"run.duration = {run.duration:g} s: nothing is left after run.trim; it must be longer")
    except ValueError as error:
        problems.append(f"run.{error}")
    if run.window < 0.01:
        problems.append(f"run.window = {run.window:g} s: must be at least 10ms")
    cells = math.prod(len(factor.levels) for factor in experiment.factors.values())
    if experiment.design is not None:
        cells >>= len(experiment.design.generators)  # each halves the design
    if cells * run.repetitions > TRIALS_MAX:
        problems.append(
            f"factors: {cells:,} combinations, each run {run.repetitions} times, are more than the {TRIALS_MAX:,} "
            "trials that a run may have; leave out levels, or ask in several experiments"
        )
    return problems


def _factor_problems(experiment: Experiment, name: str) -> list[str]:
    factor, key, problems = experiment.factors[name], f"factors.{name}", []
    if any(same_level(one, other) for one, other in combinations(factor.levels, 2)):
        problems.append(f"{key}.levels = {factor.levels}: each must be there once")
    if any(isinstance(level, float) and not math.isfinite(level) for level in factor.levels):
        problems.append(f"{key}.levels = {factor.levels}: each must be finite")
    if (factor.sets is None) == (factor.settings is None):
        return [
            *problems,
            f"{key}: needs either sets (one option takes the level) or settings (a table for each level)",
        ]
    if factor.settings is not None:
        missing = factor.without_settings()
        if missing:
            return [*problems, f"{key}.settings: has no table for the level {missing[0]!r}"]
    if not any(factor.assignments(level) for level in factor.levels):
        named = "sets" if factor.settings is None else "settings"
        problems.append(f"{key}.{named}: sets nothing at any level, so all would measure the same; name a PART.OPTION")
    for target in dict.fromkeys(target for level in factor.levels for target in factor.assignments(level)):
        part, dot, option = target.partition(".")
        if part == LINKS:
            continue  # checked with the links
        if not dot or part not in experiment.parts or not option:
            problems.append(
                f"{key} sets {target!r}: must be PART.OPTION with one of the parts {', '.join(experiment.parts)}"
            )
    return problems


def _design_problems(experiment: Experiment) -> list[str]:
    if experiment.design is None:
        return []
    more = [name for name, factor in experiment.factors.items() if len(factor.levels) != 2]
    if more:
        return [f"design: a fraction is of factors with two levels, and {more[0]} has another number"]
    factors, generators = list(experiment.factors), experiment.design.generators
    try:
        further = with_generated(factors, generators)[len(factors) :]
        design(factors, generators=generators)
    except ValueError as error:
        return [f"design.{error}"]
    said = f"is none of the {len(factors)} factors, nor the letter of one"
    return [f"design.generators: {name} {said}" for name in further]


def _claim_problems(experiment: Experiment) -> list[str]:
    problems = [
        problem
        for place, rule in enumerate(experiment.accept)
        for problem in _limit_problems(f"accept.{place}", rule, "it accepts everything")
    ]
    for place, claim in enumerate(experiment.claims):
        key = f"claims.{place}"
        problems += _limit_problems(key, claim, "nothing could refute it")
        for table, cells in (("where", claim.where), ("than", claim.than or {})):
            for name, level in cells.items():
                if name not in experiment.factors:
                    problems.append(f"{key}.{table}.{name}: is none of the factors {', '.join(experiment.factors)}")
                elif not any(same_level(level, known) for known in experiment.factors[name].levels):
                    problems.append(f"{key}.{table}.{name} = {level!r}: is no level of this factor")
        if claim.than is not None and _are_the_same(claim.where, claim.than):
            problems.append(
                f"{key}.than = {claim.than}: is the same as where, and a ratio to itself is 1; name other levels, or "
                "leave than out"
            )
    return problems


def _limit_problems(key: str, rule: Claim | Acceptance, without: str) -> list[str]:
    """What is wrong with the limits of a rule; `without` any, it is no rule."""
    if rule.at_least is None and rule.at_most is None:
        return [f"{key}: needs at_least or at_most, or {without}"]
    if rule.at_least is not None and rule.at_most is not None and rule.at_least > rule.at_most:
        return [
            f"{key}.at_least = {rule.at_least:g}: is above at_most = {rule.at_most:g}, and no figure keeps both; "
            "exchange them"
        ]
    return []


def _are_the_same(where: Mapping[str, Level], than: Mapping[str, Level]) -> bool:
    return where.keys() == than.keys() and all(same_level(where[name], than[name]) for name in where)


def _link_problems(experiment: Experiment) -> list[str]:
    problems = [
        f"links.{name}: is none of the parts {', '.join(experiment.parts)}"
        for name in experiment.links
        if name not in experiment.parts
    ]
    elsewhere = [name for name, place in experiment.placement.items() if place.host != "local"]
    if experiment.links and elsewhere:
        problems.append(f"links: are made on this machine, and placement.{elsewhere[0]} is on another")
    for name, factor in experiment.factors.items():
        for level in factor.levels if factor.sets or factor.settings else []:
            settings = {t: v for t, v in factor.assignments(level).items() if t.startswith(f"{LINKS}.")}
            problems += [f"factors.{name}: {said}" for said in _bad_settings(experiment, settings)]
    return list(dict.fromkeys(problems))


def _bad_settings(experiment: Experiment, settings: Mapping[str, Value]) -> list[str]:
    """What is wrong with the settings of links by a level."""
    found = []
    for target, value in settings.items():
        part, _, option = target.removeprefix(f"{LINKS}.").partition(".")
        if part not in experiment.links or option not in Link.model_fields:
            found.append(
                f"sets {target!r}: must be {LINKS}.PART.bandwidth or .delay, of a part with a table in [{LINKS}]"
            )
            continue
        try:
            Link.model_validate({option: value}, context=FROM_FILE)
        except ValidationError as error:
            found.append(f"{target} = {value!r}: {error.errors()[0]['msg'].removeprefix('Value error, ')}")
    return found


def _report_problems(experiment: Experiment) -> list[str]:
    rules, problems = experiment.report, []
    if rules.x is not None and rules.x not in experiment.factors:
        problems.append(f"report.x = {rules.x!r}: is none of the factors {', '.join(experiment.factors)}")
    elif rules.x is not None and not experiment.factors[rules.x].numeric:
        levels = experiment.factors[rules.x].levels
        problems.append(f"report.x = {rules.x!r}: must be a factor of numbers, and its levels are {levels}")
    if len(rules.transform) not in (1, len(rules.response)):
        problems.append(
            f"report.transform = {rules.transform}: must be one for all of report.response, or one for each of them"
        )
    if len(set(rules.response)) < len(rules.response):
        problems.append(f"report.response = {rules.response}: each must be there once")
    return problems
