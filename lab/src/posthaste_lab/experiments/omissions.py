"""Omissions: trials, or windows of a trial, that are excluded after a run, with a reason. Nothing is deleted."""

import tomllib
from pathlib import Path

from pydantic import ValidationError, model_validator

from posthaste_lab.errors import BadFile
from posthaste_lab.experiments.problems import did_you_mean
from posthaste_lab.experiments.spans import spoken
from posthaste_lab.experiments.tables import FROM_FILE, Sentence, Span, Strict

FILE = "omit.toml"


class Omission(Strict):
    """`[[omit]]`: a trial, or the windows of it whose middle lies from `start` to `end` of its measured time."""

    trial: str
    start: Span | None = None
    end: Span | None = None
    reason: Sentence

    @model_validator(mode="after")
    def _whole(self) -> "Omission":
        if (self.start is None) != (self.end is None):
            raise ValueError("needs start and end, or neither to leave the whole trial out")
        if self.span is not None and self.span[0] >= self.span[1]:
            raise ValueError("must end after it starts")
        return self

    @property
    def span(self) -> tuple[float, float] | None:
        """Seconds since the measured time began; None where the whole trial is left out."""
        return None if self.start is None or self.end is None else (self.start, self.end)

    @property
    def says(self) -> str:
        """What is left out, in words."""
        if self.span is None:
            return f"trial {self.trial}"
        return f"of trial {self.trial} what lies from {spoken(self.span[0])} to {spoken(self.span[1])}"


class _OmitFile(Strict):
    omit: list[Omission]


def _sentence(error: ValidationError) -> str:
    """Returns the most helpful error: a misspelled key is also missing under its right name, which says less."""
    found = error.errors()
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
    *table, key = first["loc"]
    known = (Omission if table else _OmitFile).model_fields
    said = {"missing": "is missing", "extra_forbidden": "is no key of this table" + did_you_mean(str(key), known)}
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {said.get(first['type'], first['msg'].removeprefix('Value error, '))}"


def read_omissions(directory: Path, trials: set[str]) -> list[Omission]:
    """Reads the omissions of the run in `directory` with these finished `trials`. Raises BadFile for a wrong file."""
    path = directory / FILE
    if not path.exists():
        return []
    try:
        found = _OmitFile.model_validate(tomllib.loads(path.read_text("utf-8")), context=FROM_FILE).omit
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFile("DIR", str(path), f"is not TOML: {error}") from None
    except ValidationError as error:
        raise BadFile("DIR", str(path), _sentence(error)) from None
    for omission in found:
        if omission.trial not in trials:
            raise BadFile("DIR", str(path), f"trial = {omission.trial!r}: is no finished trial of this run")
    return found
