"""Rules that join several keys of an experiment file; each violation is reported as a sentence."""

import math
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

from pydantic import ValidationError

from posthaste_lab.experiments.names import name_problems
from posthaste_lab.experiments.tables import FROM_FILE, LINKS, Acceptance, Claim, Level, Link, Value, same_level
from posthaste_lab.factorial import design
from posthaste_lab.factorial.words import with_generated

if TYPE_CHECKING:
    from posthaste_lab.experiments.description import Experiment

TRIALS_MAX = 100_000  # trials of a run, all planned before the first: some days of the shortest possible ones


def contradictions(experiment: "Experiment") -> list[str]:
    """Returns every problem with keys that do not fit each other."""
    return [
        *_run_problems(experiment),
        *(problem for name in experiment.factors for problem in _factor_problems(experiment, name)),
        *name_problems(experiment),
        *_design_problems(experiment),
        *_claim_problems(experiment),
        *_report_problems(experiment),
        *(
            f"placement.{name}: is none of the parts {', '.join(experiment.parts)}"
            for name in experiment.placement
            if name not in experiment.parts
        ),
        *(
            f"quick.levels.{name}: is none of the factors {', '.join(experiment.factors)}"
            for name in (experiment.quick.levels if experiment.quick is not None else ())
            if name not in experiment.factors
        ),
        *_link_problems(experiment),
    ]


def _run_problems(experiment: "Experiment") -> list[str]:
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


def _factor_problems(experiment: "Experiment", name: str) -> list[str]:
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


def _design_problems(experiment: "Experiment") -> list[str]:
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


def _claim_problems(experiment: "Experiment") -> list[str]:
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
    """Returns what is wrong with the limits of a rule; `without` says what follows if it has none."""
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


def _link_problems(experiment: "Experiment") -> list[str]:
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


def _bad_settings(experiment: "Experiment", settings: Mapping[str, Value]) -> list[str]:
    """Returns what is wrong with a level's settings of links."""
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


def _report_problems(experiment: "Experiment") -> list[str]:
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
