"""Which figures the trials of an experiment can have, so that a figure that none will have is refused before the run.

The lists hold what each reader of `figures.py` takes from a summary, and what tiers record; a test compares them with
real trials.
"""

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.figures import LARGEST, MEANS, STAGES, SUMS, TRAFFIC
from posthaste_lab.experiments.kinds import Kind, kinds
from posthaste_lab.experiments.problems import did_you_mean
from posthaste_lab.experiments.tables import ReportRules, Value

EFFORT = ("load_cpu_cores", "machine_busy_share")
OF_LOADS = {
    "bench": frozenset(
        {
            "throughput_per_s",
            *(f"response_{name}_s" for name in ("mean", "p50", "p90", "p99", "p99_9", "max", "all_mean")),
            *("served", "ok", "nulls", "errors"),
            *TRAFFIC,
            *("measured_s", "clients", "population", "think_time_s", "think_kept_s", "open_loop", "in_flight_mean"),
            *("generator_utilization", "generator_valid", "violations"),
            *("tier_counted_per_s", "tier_counted_tolerance", "interactive_tolerance"),
            *EFFORT,
        }
    ),
    "bench-store": frozenset(
        {"throughput_per_s", "measured_s", "batch", "call_mean_s", "call_p99_s", "raw_append_per_s"}
    ),
}
OF_TIERS = frozenset(
    {
        *(f"{stage}_mean_s" for stage in STAGES),
        *("waiting_when_any_mean_s", "service_when_any_mean_s"),
        *("tier_requests", "tier_errors", "tier_response_mean_s", "tier_cpu_s", "tier_cpu_cores"),
    }
)
# Servers without a record, whose CPU time is read from /proc on this machine.
OF_WATCHED = {
    name: f"{name}_cpu_cores" for name, kind in kinds().items() if kind.role == "server" and not kind.recorded
}
ALL = OF_TIERS.union(OF_WATCHED.values(), *OF_LOADS.values())
# The figures of several loads together.
OF_SEVERAL = SUMS | LARGEST | MEANS | {"generator_valid", "tier_counted_per_s", *EFFORT}


def figure_problems(experiment: Experiment) -> list[str]:
    """Returns a problem for each named figure that no trial can have; none if a kind is unknown, reported elsewhere."""
    if any(part.kind not in kinds() for part in experiment.parts.values()):
        return []
    known = figures_of(experiment)
    named = [
        *((f"accept.{place}.figure", rule.figure) for place, rule in enumerate(experiment.accept)),
        *((f"claims.{place}.figure", claim.figure) for place, claim in enumerate(experiment.claims)),
        *(("report.response", name) for name in experiment.report.response),
    ]
    return [f"{key} = {name!r}: {_objection(name, known)}" for key, name in named if name not in known]


def unused_rules(experiment: Experiment) -> list[str]:
    """Returns a problem for each key of `[report]` that would be ignored, as the experiment is no 2^k design."""
    rules, usual = experiment.report, ReportRules()
    if experiment.two_levels:
        return []
    why = "is for the effects of a design, of two factors or more with two levels each; leave it out"
    return [
        f"report.{key} = {getattr(rules, key)}: {why}"
        for key in ("response", "transform")
        if getattr(rules, key) != getattr(usual, key)
    ]


def _objection(name: str, known: frozenset[str]) -> str:
    if name in ALL:
        return "is a figure that no trial of these parts has"
    return f"is no figure{did_you_mean(name, known)}"


def figures_of(experiment: Experiment) -> frozenset[str]:
    """Returns the figures that a trial can have; it may still lack some, such as times if nothing was served."""
    roles = {name: kinds()[part.kind] for name, part in experiment.parts.items()}
    loads = [_of_load(experiment, name, kind) for name, kind in roles.items() if kind.summary]
    fewest = sum(_fewest(experiment, name) for name, kind in roles.items() if kind.summary)
    of_loads = frozenset.intersection(*loads) if loads else frozenset()
    if fewest > 1:
        of_loads &= OF_SEVERAL
    watched = {OF_WATCHED[kind.name] for kind in roles.values() if kind.name in OF_WATCHED}
    recorded = any(kind.role == "server" and kind.recorded for kind in roles.values())
    return of_loads | watched | (OF_TIERS if recorded else frozenset())


def _of_load(experiment: Experiment, part: str, kind: Kind) -> frozenset[str]:
    figures = OF_LOADS[kind.summary or ""]
    # A file of options (`config`) may set `check` too.
    checks = any(value is not False for option in ("check", "config") for value in _values(experiment, part, option))
    return figures if checks else figures - {"violations"}


def _fewest(experiment: Experiment, part: str) -> int:
    counts = [experiment.parts[part].instances, *_values(experiment, part, "instances")]
    return min(count for count in counts if isinstance(count, int))


def _values(experiment: Experiment, part: str, option: str) -> list[Value]:
    """Returns all values of a part's option: from the part itself, and from levels of factors."""
    target, options = f"{part}.{option}", experiment.parts[part].options
    by_levels = [
        settings[target]
        for factor in experiment.factors.values()
        for level in factor.levels
        if target in (settings := factor.assignments(level))
    ]
    return [*([options[option]] if option in options else []), *by_levels]
