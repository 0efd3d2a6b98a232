"""Reads a run's directory: the experiment, the plan, and the figures of each trial."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from posthaste_lab.errors import BadArgument, BadFile
from posthaste_lab.experiments.description import Experiment, load
from posthaste_lab.experiments.figures import Row
from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.losses import losses_of
from posthaste_lab.experiments.omissions import Omission, read_omissions
from posthaste_lab.experiments.remaining import figures_of_rest, middles_of
from posthaste_lab.experiments.tables import Level
from posthaste_lab.files import read_json

Figure = bool | int | float | str | None
NOT_WHOLE = "its records are not whole, so its figures without that span cannot be told"


class _File(BaseModel):
    """Base of the files of a run: the keys that are read; a file may have more."""

    model_config = ConfigDict(extra="allow", frozen=True)


F = TypeVar("F", bound=_File)


class _PlannedTrial(_File):
    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    cell: int


class _Environment(_File):
    started: str
    programs: dict[str, str]
    laboratory: str
    python: str
    libraries: dict[str, str]
    hosts: dict[str, dict[str, Any]]


class _PlanFile(_File):
    seed: int
    quick: bool
    trials: list[_PlannedTrial]
    experiment_sha256: str
    environment: _Environment


class TrialFile(_File):
    """The content of `trial.json`."""

    name: str
    place: int
    cell: int
    repetition: int
    levels: dict[str, Level]
    status: str
    reason: str
    figures: dict[str, Figure]
    kinds: dict[str, dict[str, Figure]]
    measured_unix_s: tuple[FiniteFloat, FiniteFloat] | None
    objections: list[str]
    links: list[dict[str, Any]] = []
    commands: dict[str, str] = {}
    started_unix_s: FiniteFloat | None = None
    took_s: float = 0.0
    cpu_cores: dict[str, FiniteFloat] = {}
    busy: dict[str, FiniteFloat] = {}


@dataclass(frozen=True)
class Result:
    """One trial that is over."""

    name: str
    place: int
    cell: int
    repetition: int
    levels: dict[str, Level]
    finished: bool
    reason: str
    figures: Row
    kinds: dict[str, Row]
    measured_unix_s: tuple[float, float] | None
    directory: Path
    objections: tuple[str, ...] = ()
    links: tuple[dict[str, Any], ...] = ()
    commands: dict[str, str] = field(default_factory=dict)
    omissions: tuple[Omission, ...] = ()
    cpu_cores: dict[str, float] = field(default_factory=dict)  # used by each part in the measured time
    busy: dict[str, float] = field(default_factory=dict)  # share of each machine's CPU time that was not idle then
    losses: tuple[str, ...] = ()  # files that are missing or not whole, a sentence each: see `losses_of`
    started_unix_s: float | None = None

    @property
    def left_out(self) -> str | None:
        """The reason why the whole trial is left out; None when it is not."""
        return next((omission.reason for omission in self.omissions if omission.span is None), None)

    @property
    def counted(self) -> Instants | None:
        """The instants of the trial that count; None where nothing was measured."""
        if self.measured_unix_s is None:
            return None
        begin = self.measured_unix_s[0]
        spans = [omission.span for omission in self.omissions if omission.span is not None]
        return Instants(self.measured_unix_s, tuple((begin + start, begin + end) for start, end in spans))

    def without_omitted(self) -> "Result":
        """Returns the trial with figures of the windows that remain after its omissions.

        A trial whose records are not whole is left out as a whole, since nothing tells what the rest was. Raises
        BadArgument where no window remains, and for a span without any window: the report would say that it was left
        out although nothing was.
        """
        counted = self.counted
        if self.left_out is not None or counted is None or not counted.without:
            return self
        if self.losses:
            return replace(self, omissions=(*self.omissions, Omission(trial=self.name, reason=NOT_WHOLE)))
        self._must_leave_out(counted)
        figures, kinds = figures_of_rest(self.figures, self.records("load"), self.records("tier"), counted)
        if not figures["measured_s"]:
            raise BadArgument("omit", self.name, "no window of its measured time would be left")
        return replace(self, figures=figures, kinds=kinds, cpu_cores={}, busy={})

    def _must_leave_out(self, counted: Instants) -> None:
        """Raises BadArgument unless every omitted span holds the middle of a window of the loads."""
        measured = Instants(counted.measured)
        middles = [middle for middle in middles_of(self.records("load")) if middle in measured]
        for begin, end in counted.without:
            if not middles or any(begin <= middle < end for middle in middles):
                continue
            nearest = min(middles, key=lambda middle: max(begin - middle, middle - end))
            at = [f"{instant - counted.measured[0]:.6g} s" for instant in (begin, end, nearest, counted.measured[1])]
            raise BadArgument(
                "omit",
                self.name,
                f"has no window whose middle lies from {at[0]} to {at[1]}, so nothing would be left out; the nearest "
                f"has its middle at {at[2]} of the {at[3]} that were measured",
            )

    def records(self, role: str) -> list[Path]:
        """Returns the records of the trial's loads or tiers: `role` is "load" or "tier". None if a file is lost."""
        if self.losses:
            return []
        return [
            path
            for path in sorted(self.directory.glob("*/record"))
            if (path.parent / "summary.json").exists() == (role == "load") and (path / "windows.csv").exists()
        ]


@dataclass(frozen=True)
class Run:
    """A run as its directory holds it."""

    directory: Path
    experiment: Experiment
    plan: dict[str, Any]
    results: tuple[Result, ...]
    omissions: tuple[Omission, ...] = ()

    @cached_property
    def finished(self) -> list[Result]:
        """Trials whose figures count, by cell and repetition."""
        counted = (result for result in self.results if result.finished and result.left_out is None)
        return sorted(counted, key=lambda r: (r.cell, r.repetition))

    @cached_property
    def accepted(self) -> list[Result]:
        """Trials of `finished` that broke no rule of acceptance, are whole, and of which nothing is left out.

        Models are fitted to these, and runs are compared by them.
        """
        return [each for each in self.finished if not (each.objections or each.omissions or each.losses)]

    @property
    def lost(self) -> list[str]:
        """What is lost of the trials' records, a sentence without its end for each file."""
        return [f"trial {result.name} is not whole: {loss}" for result in self.results for loss in result.losses]

    @cached_property
    def turns(self) -> dict[str, int]:
        """The turn of each trial that is over, from 1 on; as planned if one of them does not tell when it was run."""
        known = all(result.started_unix_s is not None for result in self.results)
        ordered = sorted(self.results, key=lambda each: ((each.started_unix_s or 0.0) if known else 0.0, each.place))
        return {result.name: turn for turn, result in enumerate(ordered, start=1)}

    @cached_property
    def out_of_turn(self) -> list[str]:
        """The names of trials that were run after one that follows them in the plan."""
        ordered = sorted(self.results, key=lambda result: self.turns[result.name])
        latest = accumulate((result.place for result in ordered), max)
        return [result.name for result, place in zip(ordered, latest, strict=True) if result.place < place]

    @property
    def quick(self) -> bool:
        """Whether this was the short version of the experiment (`--quick`)."""
        return bool(self.plan["quick"])

    @property
    def missing(self) -> int:
        """The number of planned trials that are not over."""
        return len(self.plan["trials"]) - len(self.results)

    @cached_property
    def x(self) -> str | None:
        """The factor on the horizontal axis: the one named in `[report]`, else the factor of numbers with most levels.

        None if no factor of numbers has three levels.
        """
        if self.experiment.report.x is not None:
            return self.experiment.report.x
        numeric = {name: len(factor.levels) for name, factor in self.experiment.factors.items() if factor.numeric}
        best = max(numeric, key=lambda name: numeric[name], default=None)
        return best if best is not None and numeric[best] >= 3 else None

    @property
    def other_factors(self) -> list[str]:
        """Factors that are not the horizontal axis."""
        return [name for name in self.experiment.factors if name != self.x]

    @property
    def two_levels(self) -> bool:
        """Whether it is a 2^k design with effects to tell apart."""
        return self.experiment.two_levels


def read_run(directory: Path) -> Run:
    """Reads a run. Raises BadArgument when the directory holds none."""
    if not (directory / "plan.json").exists():
        raise BadArgument("DIR", str(directory), "holds no run (no plan.json); posthaste-lab run makes one")
    plan = _read(_PlanFile, directory / "plan.json", "plan").model_dump()
    experiment = load(directory / "experiment.toml")
    experiment = experiment.quickly() if plan["quick"] else experiment
    results = []
    for trial in plan["trials"]:
        path = directory / "trials" / trial["name"] / "trial.json"
        if path.exists():
            results.append(_result(read_trial(path), path.parent))
    omissions = read_omissions(directory, {result.name for result in results if result.finished})
    counted = [
        replace(result, omissions=tuple(each for each in omissions if each.trial == result.name)).without_omitted()
        for result in results
    ]
    return Run(directory, experiment, plan, tuple(counted), tuple(omissions))


def read_trial(path: Path, argument: str = "DIR") -> TrialFile:
    """Reads `trial.json`. Raises BadFile when its content is wrong; `argument` is the argument that named the run."""
    return _read(TrialFile, path, "trial", argument)


def _result(held: TrialFile, directory: Path) -> Result:
    return Result(
        name=held.name,
        place=held.place,
        cell=held.cell,
        repetition=held.repetition,
        levels=held.levels,
        finished=held.status == "finished",
        reason=held.reason,
        figures=held.figures,
        kinds=held.kinds,
        measured_unix_s=held.measured_unix_s,
        directory=directory,
        objections=tuple(held.objections),
        links=tuple(held.links),
        started_unix_s=held.started_unix_s,
        commands=held.commands,
        cpu_cores=held.cpu_cores,
        busy=held.busy,
        losses=losses_in(held, directory),
    )


def losses_in(held: TrialFile, directory: Path) -> tuple[str, ...]:
    """Returns a sentence for each lost file of a trial in `directory`; none for a trial that failed."""
    finished = held.status == "finished"
    return losses_of(directory, held.commands, held.figures, held.measured_unix_s) if finished else ()


def _read(kind: type[F], path: Path, name: str, argument: str = "DIR") -> F:
    try:
        return kind.model_validate(read_json(path, argument))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"is no {name} as this version leaves them ({where}: {first['msg']})"
        raise BadFile(argument, str(path), said) from None


def spoken_levels(levels: dict[str, Level]) -> str:
    """Returns levels in words."""
    return ", ".join(f"{name} = {level}" for name, level in levels.items()) or "the only combination"
