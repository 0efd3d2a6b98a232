"""Problems of parts, alone or together, found before anything starts by asking the programs for their options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.hosts import Host
from posthaste_lab.experiments.kinds import BENCH_QUEUE, PLACEHOLDER, Kind, kinds, known_options
from posthaste_lab.experiments.problems import did_you_mean
from posthaste_lab.experiments.tables import INSTANCES_MAX, LINKS, Value

SEARCH = "find-max-rate"
REQUESTS = "requests"
OWN_PLACEHOLDERS = {
    "address", "host", "port", "dir", "record", "summary", "duration", "head", "tail", "window", "seed", "user"
}  # fmt: skip
# Placeholders for keys of [run], which hold for all parts: if a part set such an option, the report would be false.
OF_RUN = {
    "{duration}": "run.duration less run.trim",
    "{head}": "run.trim.head",
    "{tail}": "run.trim.tail",
    "{window}": "run.window",
    "{seed}": "run.seed",
}
# Name of an instance of a part that has several.
NUMBERED = re.compile(r"(.+)-([1-9]\d*)")


@dataclass(frozen=True)
class _Given:
    """What the parts are given over all trials."""

    settings: dict[str, dict[str, list[Value]]]  # all values, by part and option
    instances: dict[str, int]  # the most instances, by part
    problems: list[str]


def check_parts(experiment: Experiment, hosts: Mapping[str, Host]) -> list[str]:
    """Returns problems with the parts: unknown kinds, options that programs lack, placeholders and windows in vain.

    A part on an unknown machine, which is reported elsewhere, is checked as if it were on this one.
    """
    given = _given(experiment)
    problems = [*given.problems]
    before: list[str] = []
    for name, part in experiment.parts.items():
        problems += _load_problems(name, part.kind, given)
        kind = kinds().get(part.kind)
        if kind is None:
            problems.append(f"parts.{name}.kind = {part.kind!r}: is none of {', '.join(kinds())}")
        else:
            host = hosts.get(experiment.host_of(name), hosts["local"])
            problems += _settings_of_the_run(name, kind, given.settings[name])
            problems += _option_problems(name, kind, given.settings[name], before, host)
        before.append(name)
    return [
        *problems,
        *_unasked_links(experiment),
        *_untrimmed_loads(experiment),
        *_names_of_instances(given.instances),
        *_nothing_measured(experiment),
    ]


def _given(experiment: Experiment) -> _Given:
    settings: dict[str, dict[str, list[Value]]] = {
        name: {option: [value] for option, value in part.options.items()} for name, part in experiment.parts.items()
    }
    given = _Given(settings, {name: part.instances for name, part in experiment.parts.items()}, [])
    for factor in experiment.factors.values():
        for level in factor.levels:
            for target, value in factor.assignments(level).items():
                name, _, option = target.partition(".")
                if name == LINKS:
                    continue
                if option != "instances":
                    settings[name].setdefault(option, []).append(value)
                elif not isinstance(value, int) or not 1 <= value <= INSTANCES_MAX:
                    given.problems.append(f"{target} = {value!r}: must be a whole number from 1 to {INSTANCES_MAX}")
                else:
                    given.instances[name] = max(given.instances[name], value)
    return given


def _load_problems(name: str, kind: str, given: _Given) -> list[str]:
    """Returns the options of a load that cannot work in a trial."""
    settings, instances, problems = given.settings[name], given.instances[name], []
    if kind == BENCH_QUEUE and True in settings.get("check", []) and instances > 1:
        problems.append(f"parts.{name}.check = True: needs its queues to itself, and there are {instances} of it")
    if any(value is not False for value in settings.get(SEARCH, [])):
        problems.append(
            f"parts.{name}.{SEARCH}: makes many runs of run.duration, and a trial is one; make {name}.rate a factor"
        )
    if any(value is not False for value in settings.get(REQUESTS, [])):
        problems.append(
            f"parts.{name}.{REQUESTS}: ends a load when all are done, and a trial lasts run.duration; leave it out"
        )
    return problems


def _settings_of_the_run(name: str, kind: Kind, settings: Mapping[str, list[Value]]) -> list[str]:
    """Returns problems with options that `[run]` determines, which a part may not set itself."""
    return [
        f"parts.{name}.{option}: is what {OF_RUN[str(stands)]} says, of every part and trial; set it there"
        for option, stands in kind.defaults.items()
        if stands in OF_RUN and option in settings
    ]


def _nothing_measured(experiment: Experiment) -> list[str]:
    """Returns problems of experiments without any load, or with windows longer than the measured time."""
    known = {name: kinds()[part.kind] for name, part in experiment.parts.items() if part.kind in kinds()}
    problems = []
    if not any(kind.role == "load" for kind in known.values()):
        problems.append(f"parts: none of {', '.join(experiment.parts)} is a load, so nothing would be measured")
    windowed = [name for name, kind in known.items() if "window" in kind.defaults]
    window, measured = experiment.run.window, experiment.trimmed[1]
    if windowed and window > measured:
        unless = "" if "window" in experiment.run.model_fields_set else " (as it is unless you set it)"
        problems.append(
            f"run.window = {window:g} s{unless}: must be at most the {measured:g} s that are measured, or no window of "
            f"{', '.join(windowed)} lies within"
        )
    return problems


def _names_of_instances(most: Mapping[str, int]) -> list[str]:
    """Returns problems of parts named like an instance of another part: the files of both would mix."""
    pairs = [(name, NUMBERED.fullmatch(name)) for name in most]
    return [
        f"parts.{name}: is what instance {match[2]} of parts.{match[1]} is called; call it something else"
        for name, match in pairs
        if match is not None and 1 < most.get(match[1], 0) >= int(match[2])
    ]


def _unasked_links(experiment: Experiment) -> list[str]:
    """Returns problems of links to parts without connections: no packet would pass, but the report would show them."""
    found = {name: kinds().get(experiment.parts[name].kind) for name in experiment.links}
    return [
        f"links.{name}: is the way to a server, and {kind.name} is a {kind.role}, which nobody connects to; name the "
        "part that it asks"
        for name, kind in found.items()
        if kind is not None and kind.role != "server"
    ]


def _untrimmed_loads(experiment: Experiment) -> list[str]:
    """Returns problems of loads that measure all the time although run.trim is set: the report would be false."""
    head, _, tail = experiment.trimmed
    if head + tail == 0:
        return []
    found = {name: kinds().get(part.kind) for name, part in experiment.parts.items()}
    loads = {name: kind for name, kind in found.items() if kind is not None and kind.role == "load"}
    return [
        f"run.trim: cuts nothing of parts.{name}, since a {kind.name} has no time before and after what it measures; "
        "take run.trim out"
        for name, kind in loads.items()
        if "{head}" not in kind.defaults.values()
    ]


def _option_problems(
    part: str, kind: Kind, settings: dict[str, list[Value]], before: list[str], host: Host
) -> list[str]:
    known = known_options(kind.name, host)
    if not known:
        arguments = " ".join([kind.program, *kind.arguments])
        return [f"parts.{part}.kind = {kind.name!r}: this program has no such command ({arguments})"]
    problems = []
    for option, values in settings.items():
        if option not in known:
            problems.append(f"parts.{part}.{option}: {kind.name} has no such option{did_you_mean(option, known)}")
        for value in values:
            for each in value if isinstance(value, list) else [value]:
                unknown = set(PLACEHOLDER.findall(str(each))) - OWN_PLACEHOLDERS - set(before)
                if unknown:
                    problems.append(
                        f"parts.{part}.{option} = {each!r}: {{{min(unknown)}}} is no part that starts before this one"
                    )
    return problems
