"""An experiment file as a whole.

All of it is checked before anything starts: first its tables one by one, then rules that join keys of several tables.
"""

import re
import tomllib
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

from pydantic import Field, PrivateAttr, ValidationError, model_validator

from posthaste_lab.experiments.contradictions import contradictions
from posthaste_lab.experiments.problems import BadExperiment, did_you_mean
from posthaste_lab.experiments.tables import (
    FROM_FILE,
    Acceptance,
    Claim,
    Design,
    Factor,
    Link,
    Name,
    Part,
    Place,
    Quick,
    ReportRules,
    RunRules,
    Sentence,
    Strict,
    same_level,
)


class Experiment(Strict):
    """The content of an experiment file."""

    title: Sentence
    question: Sentence
    hypothesis: Sentence
    reference: Sentence | None = None
    run: RunRules
    parts: Annotated[dict[Name, Part], Field(min_length=1)]
    factors: dict[str, Factor] = Field(default_factory=dict)
    design: Design | None = None
    placement: dict[str, Place] = Field(default_factory=dict)
    links: dict[str, Link] = Field(default_factory=dict)
    accept: list[Acceptance] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)
    report: ReportRules = ReportRules()
    quick: Quick | None = None
    _dropped: tuple[Claim, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _whole(self) -> "Experiment":
        problems = contradictions(self)
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def dropped(self) -> tuple[Claim, ...]:
        """The claims of the file that this short version of it cannot decide, since it leaves out their levels."""
        return self._dropped

    @property
    def two_levels(self) -> bool:
        """Whether it is a 2^k design with effects to tell apart, that is with two factors or more."""
        return len(self.factors) > 1 and all(len(factor.levels) == 2 for factor in self.factors.values())

    @property
    def trimmed(self) -> tuple[float, float, float]:
        """Seconds of a trial before the measured time, of the measured time, and after it."""
        head, tail = self.run.trim.cut(self.run.duration)
        return head, self.run.duration - head - tail, tail

    def host_of(self, part: str) -> str:
        """The name of the machine that a part runs on."""
        place = self.placement.get(part)
        return "local" if place is None else place.host

    def quickly(self) -> "Experiment":
        """Returns the short version of the experiment: `[quick]` replaces keys of `[run]` and levels of factors."""
        if self.quick is None:
            raise BadExperiment(self.title, ["has no [quick] table, which says what to shorten"])
        content = self.model_dump(exclude_none=True)
        quick = self.quick.model_dump(exclude_none=True)
        for name, levels in quick.pop("levels").items():
            content["factors"][name]["levels"] = levels
        content["run"] |= quick
        kept = [_can_decide(claim, content["factors"]) for claim in self.claims]
        content["claims"] = list(compress(content["claims"], kept))
        del content["quick"]
        shorter = _checked(content, f"{self.title} [quick]")
        shorter._dropped = tuple(claim for claim, is_kept in zip(self.claims, kept, strict=True) if not is_kept)
        return shorter


def _can_decide(claim: Claim, factors: dict[str, Any]) -> bool:
    """Returns whether the levels of a claim are still among those of the factors."""
    named = [*claim.where.items(), *(claim.than or {}).items()]
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
    """Returns one sentence for each wrong key, also where its value could have been of several types."""
    found: dict[str, str] = {}
    types: dict[str, list[str]] = {}
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
        if each["type"] == "model_type":
            said = f"must be a table with the keys {', '.join(_keys_of(each['loc']))}"
        if each["type"] in _TYPE_NAMES and (key in types or key not in found):
            # Of a union each type has an error of its own, and together they tell what the value may be.
            named = types.setdefault(key, [])
            if _TYPE_NAMES[each["type"]] not in named:
                named.append(_TYPE_NAMES[each["type"]])
            found[key] = f"{key}{shown}: must be {' or '.join(named)}"
        found.setdefault(key, f"{key}{shown}: {said}")
    return list(found.values())


def _keys_of(steps: Sequence[int | str]) -> list[str]:
    """Returns the keys of the table at the end of these steps from the top of the file."""
    at: Any = Experiment
    for step in steps:
        # A step goes into a table by its key, or into the element type of a list or of a table of names.
        at = at.model_fields[step].annotation if hasattr(at, "model_fields") else get_args(at)[-1]
        if NoneType in get_args(at):
            at, _ = get_args(at)
    return list(at.model_fields)


# What a value must be, by the type of the error that says it is not.
_TYPE_NAMES = {
    "bool_type": "true or false",
    "int_type": "a number",
    "float_type": "a number",
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": "a table",
}

# Steps of pydantic into the branches of a union, which mean nothing to the author of the file.
_TYPE = re.compile(r"bool|int|float|str|constrained-float|(function-\w+|list)\[.*\]")
