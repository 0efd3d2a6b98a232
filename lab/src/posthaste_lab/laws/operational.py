"""The operational laws, each with a verdict: what it expects, what was measured, and whether they agree.

Agreement allows for `tolerance` (a share of the measured figure: 5 % by default, since windows of a run never coincide
to the request) and for the digits with which figures were printed. If the number of answers is known, it also allows
for the edges of the measured time, as the load generator does: they are several percent of a hundred answers, and with
a long think time that is many times the response time. What the load generator itself allowed is known better still:
it saw how long clients stood still together at an edge.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

from posthaste_lab.checks import non_negative, positive
from posthaste_lab.errors import BadArgument
from posthaste_lab.laws.reading import TIMES, VARIANCES, Reading, Row, Run, run_of

TOLERANCE = 0.05
OVER = 0.01  # share by which a limit may be exceeded, because of clocks and edges of windows
# Least uncertainty of a rate, as a share; with a long think time it causes most of a response time's difference.
RATE_UNCERTAIN = 0.01
DEVIATIONS = 3.0  # standard deviations that chance explains, the same as in crates/load/src/laws.rs
PRINTED_LAW = "interactive response time law as printed"
NO_THROUGHPUT = "answers without throughput"
Relative = Literal["measured", "larger"]


@dataclass(frozen=True)
class Verdict:
    """One law applied to one run. `difference` is measured less expected, as a share of the measured figure.

    `holds` allows for tolerance and rounding; `message` says in a sentence what was compared.
    """

    law: str
    expected: float
    observed: float
    difference: float
    tolerance: float
    holds: bool
    message: str


def interactive(
    population: float,
    throughput: float,
    response_time: float,
    think_time: float = 0.0,
    tolerance: float = TOLERANCE,
    relative_to: Relative = "measured",
    answers: float | None = None,
) -> Verdict:
    """Response time law of closed systems: R = N/X - Z, in seconds. Jain (1991), section 33.5.

    The difference is a share of the measured figure, or of the larger of the two, as `relative_to` says. `answers` is
    the number of answers in the measured time; if it is known, the edges of that time are allowed for.
    """
    n, x = _exact("population", population), _exact("throughput", positive("throughput", throughput))
    z, r = _exact("think_time", think_time), _exact("response_time", response_time)
    counted = None if answers is None else _exact("answers", positive("answers", answers))
    return _interactive(n, x, z, r, counted, tolerance, relative_to)


def little(
    throughput: float, time: float, number: float, tolerance: float = TOLERANCE, relative_to: Relative = "measured"
) -> Verdict:
    """Little's law: the mean number in a place is throughput times the mean time spent there. Jain, section 30.3."""
    x, t, n = _exact("throughput", throughput), _exact("time", time), _exact("number", number)
    return _compare("Little's law", lambda a, b: a * b, (x, t), n, tolerance, "number", relative_to)


def utilization(
    throughput: float,
    service_time: float,
    servers: float = 1,
    utilization: float | None = None,
    tolerance: float = TOLERANCE,
    relative_to: Relative = "measured",
) -> Verdict:
    """Utilization law: U = X S / m, and never above 1. Jain, section 33.1.

    Without a measured `utilization` only the bound is checked.
    """
    x, s = _exact("throughput", throughput), _exact("service_time", service_time)
    m = _exact("servers", positive("servers", servers))
    if utilization is None:
        return _at_most("utilization law", lambda a, b, c: a * b / c, (x, s, m), 1.0, tolerance, "utilization")
    u = _exact("utilization", utilization)
    return _compare("utilization law", lambda a, b, c: a * b / c, (x, s, m), u, tolerance, "utilization", relative_to)


def forced_flow(
    throughput: float,
    visits: float,
    station_throughput: float,
    tolerance: float = TOLERANCE,
    relative_to: Relative = "measured",
) -> Verdict:
    """Forced flow law: a station's throughput is the system's times its visits per request. Jain, section 33.2."""
    x, v = _exact("throughput", throughput), _exact("visits", visits)
    y = _exact("station_throughput", station_throughput)
    return _compare("forced flow law", lambda a, b: a * b, (x, v), y, tolerance, "station throughput", relative_to)


def population(population: float, number: float, tolerance: float = TOLERANCE) -> Verdict:
    """Population law: the number in a closed system does not exceed its population; both are counts."""
    n, limit = _exact("number", number), non_negative("population", population)
    return _at_most("population", lambda a: a, (n,), limit, tolerance, "number in the system")


def service(response_time: float, service_time: float, tolerance: float = TOLERANCE) -> Verdict:
    """Service bound: a response time is at least the service time; both in seconds."""
    s, r = _exact("service_time", service_time), non_negative("response_time", response_time)
    return _at_most("response time", lambda a: a, (s,), r, tolerance, "service time")


def check(row: Row, tolerance: float = TOLERANCE, units: Mapping[str, str] | None = None) -> list[Verdict]:
    """Returns a verdict for every law that applies to the figures of a run; see `audit` for the names of columns."""
    non_negative("tolerance", tolerance)
    run = run_of(row, units)
    return [verdict for verdict in (law(run, tolerance) for law in LAWS) if verdict is not None]


def _exact(argument: str, value: float) -> Reading:
    return Reading(non_negative(argument, value), 0.0, value, "", argument)


def _compare(
    law: str,
    formula: Callable[..., float],
    given: tuple[Reading, ...],
    measured: Reading,
    tolerance: float,
    what: str,
    relative_to: Relative = "measured",
    further_slack: float = 0.0,
) -> Verdict:
    expected = formula(*(reading.value for reading in given))
    corners = [formula(*ends) for ends in product(*((reading.low, reading.high) for reading in given))]
    base = max(measured.value, expected) if relative_to == "larger" else measured.value
    if relative_to not in ("measured", "larger"):
        raise BadArgument("relative_to", relative_to, 'must be "measured" or "larger"')
    difference = (measured.value - expected) / base if base else math.copysign(math.inf, measured.value - expected)
    slack = tolerance * abs(base) + further_slack + 1e-12
    holds = min(corners) - slack <= measured.high and measured.low <= max(corners) + slack
    terms = ", ".join(f"{reading.column} {reading.printed:g}" for reading in given)
    message = f"{what} is {measured.value:.6g}, expected {expected:.6g} from {terms}"
    return Verdict(
        law, expected, measured.value, 0.0 if expected == measured.value else difference, tolerance, holds, message
    )


def _at_most(
    law: str, formula: Callable[..., float], given: tuple[Reading, ...], limit: float, tolerance: float, what: str
) -> Verdict:
    value = formula(*(reading.value for reading in given))
    least = min(formula(*ends) for ends in product(*((reading.low, reading.high) for reading in given)))
    holds = least <= limit * (1 + tolerance) + 1e-12
    message = f"{what} is {value:.6g}, at most {limit:.6g} is possible"
    difference = (value - limit) / value if value else 0.0
    return Verdict(law, limit, value, difference, tolerance, holds, message)


def _interactive(
    n: Reading,
    x: Reading,
    z: Reading,
    r: Reading,
    answers: Reading | None,
    tolerance: float,
    relative_to: Relative = "measured",
    told: Reading | None = None,
) -> Verdict:
    """Applies the law; `told` is the share by which the load generator allowed for the rate to be off."""
    law, uncertain = "interactive response time law", 0.0 if told is None else told.value
    if answers is not None and answers.value > 0:
        # Each client is in the middle of a cycle at both edges. The part of the cycle on either side of an edge has the
        # standard deviation of a whole cycle if times are exponential, and less otherwise.
        edges = DEVIATIONS * math.sqrt(2 * max(0.0, n.value)) / answers.value
        uncertain = max(uncertain, RATE_UNCERTAIN + edges)
    slack = max(RATE_UNCERTAIN * z.value, uncertain * n.value / x.value)
    return _compare(law, lambda a, b, c: a / b - c, (n, x, z), r, tolerance, "response time", relative_to, slack)


def _of_interactive(run: Run, tolerance: float) -> Verdict | None:
    if not {"population", "throughput", "response_time"} <= run.keys() or run["throughput"].value <= 0:
        return None
    think = run.get("think_time", Reading(0.0, 0.0, 0.0, "", "think_time"))
    response, answers, told = run["response_time"], run.get("answers"), run.get("interactive_tolerance")
    return _interactive(run["population"], run["throughput"], think, response, answers, tolerance, told=told)


def _of_no_throughput(run: Run, tolerance: float) -> Verdict | None:
    """Checks a throughput of 0 beside a response time, which only answers have; a model may well have both."""
    if not {"throughput", "response_time"} <= run.keys() or "arrival_rate" in run or run["throughput"].value != 0:
        return None
    x, r, n = run["throughput"], run["response_time"], run.get("population")
    think_s = run["think_time"].high if "think_time" in run else 0.0
    if r.value <= 0 or (n is None and x.high > 0):
        return None
    message = f"{x.column} is 0, and yet {r.column} is {r.printed:g}, which only answers have"
    if n is None:
        return Verdict(NO_THROUGHPUT, math.nan, 0.0, -math.inf, tolerance, False, message)
    least = n.value / (r.high + think_s)
    holds = x.high > 0 and least <= x.high * (1 + tolerance)
    message = f"{message}; {n.column} {n.printed:g} would get {least:.3g} of them per second"
    return Verdict(NO_THROUGHPUT, least, 0.0, -math.inf, tolerance, holds, message)


def _of_printed_interactive(run: Run, tolerance: float) -> Verdict | None:
    """Checks what a table says that the law gives: it is computed, so that only rounding can be between them."""
    if not {"population", "throughput", "law_response"} <= run.keys() or run["throughput"].value <= 0:
        return None
    given = (run["population"], run["throughput"], run.get("think_time", Reading(0.0, 0.0, 0.0, "", "think_time")))
    what, tolerance = run["law_response"].column, min(tolerance, OVER)
    return _compare(PRINTED_LAW, lambda a, b, c: a / b - c, given, run["law_response"], tolerance, what)


def _of_little_in_system(run: Run, tolerance: float) -> Verdict | None:
    if not {"throughput", "response_time", "number"} <= run.keys():
        return None
    given = (run["throughput"], run["response_time"])
    return _compare("Little's law", lambda a, b: a * b, given, run["number"], tolerance, "number")


def _of_little_in_queue(run: Run, tolerance: float) -> Verdict | None:
    """Applies Little's law to the waiting time, if known; else `queue_length` may be of waiting or of all requests."""
    if not {"throughput", "queue_length"} <= run.keys():
        return None
    x, length = run["throughput"], run["queue_length"]
    if "waiting_time" in run:
        return _compare("Little's law", lambda a, b: a * b, (x, run["waiting_time"]), length, tolerance, "queue length")
    if "response_time" not in run:
        return None
    r = run["response_time"]
    everybody = _compare("Little's law", lambda a, b: a * b, (x, r), length, tolerance, "queue length")
    if everybody.holds:
        return everybody
    if "service_time" in run and "population" not in run:  # else it may be one of several stations
        waiting = (x, r, run["service_time"])
        verdict = _compare("Little's law", lambda a, b, c: a * (b - c), waiting, length, tolerance, "queue length")
        return verdict if verdict.holds else everybody
    return everybody if length.value > everybody.expected else None


def _of_utilization(run: Run, tolerance: float) -> Verdict | None:
    servers, visits = servers_of(run), run.get("visits")
    if not {"throughput", "service_time", "utilization"} <= run.keys() or servers is None:
        return None
    given = (run["throughput"], run["service_time"], servers)
    verdict = _compare(
        "utilization law", lambda a, b, c: a * b / c, given, run["utilization"], tolerance, "utilization"
    )
    if verdict.holds or visits is None:
        return verdict  # figures of a station, or of a system of one
    return _compare(
        "utilization law",
        lambda a, b, c, v: a * b * v / c,
        (*given, visits),
        run["utilization"],
        tolerance,
        "utilization",
    )


def _of_busy_at_most(run: Run, tolerance: float) -> Verdict | None:
    if "utilization" not in run:
        return None
    return _at_most("utilization law", lambda u: u, (run["utilization"],), 1.0, min(tolerance, OVER), "utilization")


def _of_forced_flow(run: Run, tolerance: float) -> Verdict | None:
    if not {"throughput", "visits", "station_throughput"} <= run.keys():
        return None
    given, counted = (run["throughput"], run["visits"]), run["station_throughput"]
    return _compare(
        "forced flow law",
        lambda a, b: a * b,
        given,
        counted,
        tolerance,
        "station throughput",
        further_slack=_at_edges(run) * counted.value,
    )


def _at_edges(run: Run) -> float:
    """Returns the share of the answers that may lie at the two edges: those under way at each, and one for rounding.

    It is at least what the load generator allowed, which knows how many waited at the end and when servers counted.
    """
    told = run["tier_counted_tolerance"].value if "tier_counted_tolerance" in run else 0.0
    under_way, answers = run.get("in_flight", run.get("population")), run.get("answers")
    if under_way is None or answers is None or answers.value <= 0:
        return told
    return max(told, 2 * (under_way.value + 1) / answers.value)


def _of_population(run: Run, tolerance: float) -> Verdict | None:
    inside = [run[name] for name in ("number", "queue_length") if name in run]
    if "population" not in run or not inside:
        return None
    most = max(inside, key=lambda reading: reading.value)
    return _at_most("population", lambda a: a, (most,), run["population"].value, min(tolerance, OVER), most.column)


def _of_service(run: Run, tolerance: float) -> Verdict | None:
    """Bounds the response time by what is known of its parts: waiting, service, or both together."""
    parts = {
        "waiting": run.get("waiting_time"),
        "service": run.get("service_time", run.get("service_stage")),
    }
    known = {name: part for name, part in parts.items() if part is not None}
    if not known or "response_time" not in run:
        return None
    given, what = (passes_of(run), *known.values()), f"{' and '.join(known)} time"
    most = run["response_time"].high
    return _at_most("response time", lambda v, *each: v * sum(each), given, most, min(tolerance, OVER), what)


def _of_busy_servers(run: Run, tolerance: float) -> Verdict | None:
    servers = servers_of(run)
    if not {"throughput", "service_time"} <= run.keys() or servers is None:
        return None
    busy = (run["throughput"], run["service_time"], passes_of(run))
    what = "throughput times service time"
    return _at_most("service time", lambda a, b, c: a * b * c, busy, servers.value, tolerance, what)


def _of_units(run: Run, tolerance: float) -> Verdict | None:
    """Checks that every quantity has a unit of its kind: squared for a variance, not squared for a time."""
    stated = [run[name] for name in (*sorted(TIMES), *sorted(VARIANCES)) if name in run and run[name].unit]
    if not stated:
        return None
    wrong = [
        r
        for name, r in run.items()
        if r.unit and ((name in VARIANCES and not r.unit.endswith("2")) or (name in TIMES and r.unit.endswith("2")))
    ]
    text = f"{wrong[0].column} is in {wrong[0].unit}" if wrong else "every time and variance is in a unit of its kind"
    return Verdict("units", 0.0, float(len(wrong)), 0.0, tolerance, not wrong, text)


def servers_of(run: Run) -> Reading | None:
    """Returns the servers of a station, stated or workers of each middleware times middlewares; None unless above 0."""
    if "servers" in run:
        found = run["servers"]
    elif "workers_per_mw" in run and "middlewares" in run:
        total = run["workers_per_mw"].value * run["middlewares"].value
        found = Reading(total, 0.0, total, "", "workers of all middlewares")
    else:
        return None
    return found if found.value > 0 else None


def passes_of(run: Run) -> Reading:
    """Returns the visits if below 1, else 1: the throughput may be that of the system, or of the station itself."""
    visits = run.get("visits")
    return visits if visits is not None and visits.value < 1 else Reading(1.0, 0.0, 1.0, "", "visits")


LAWS: tuple[Callable[[Run, float], Verdict | None], ...] = (
    _of_interactive,
    _of_no_throughput,
    _of_printed_interactive,
    _of_little_in_system,
    _of_little_in_queue,
    _of_utilization,
    _of_busy_at_most,
    _of_forced_flow,
    _of_population,
    _of_service,
    _of_busy_servers,
    _of_units,
)
