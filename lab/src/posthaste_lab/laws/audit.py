"""Finds what is impossible in a table of figures.

- The laws are checked row by row. Where one fails, the finding names the known mistake that explains it, if any: a
  wrong unit, a rate divided by a time, a service time that contains waiting.
- A figure that is no number, in a column whose quantity is known, is reported: what was not read was not checked.
- Other rules cover percentiles out of order, shares that do not add up, an open model whose arrival rate is the
  throughput of a closed system, and effects without intervals.

Some published table broke each of these rules.
"""

import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise

from posthaste_lab.checks import non_negative
from posthaste_lab.laws.differences import printed_differences
from posthaste_lab.laws.findings import Finding, Found, Severity
from posthaste_lab.laws.models import models_beside_measurements, open_model_findings, queueing_probability
from posthaste_lab.laws.operational import TOLERANCE, Verdict, check, passes_of, servers_of
from posthaste_lab.laws.reading import (
    SECONDS,
    Row,
    Run,
    Table,
    number_of,
    plain,
    quantity_and_unit,
    rounding,
    rows_of,
    run_of,
)

SPREAD_LEAST, SPREAD_MOST = 0.02, 50.0  # coefficients of variation beyond which a variance is in another unit
PERCENTILE = re.compile(r"(?:(?P<of>.*)_)?(?:p(?P<share>\d+(?:[._]\d+)?)|max)(?:_(?P<unit>s|ms|us|ns))?$")
SHARE = re.compile(r"(^|_)share(_pct)?$|^share_")
# Shares that are not parts of one whole: of hits among reads, of errors among answers, of what a change would gain.
SINGLE_SHARE = re.compile(r"(^|_)(busy|error|gain|hit|lead|miss|null|spread)_share(_pct)?$|_spread_share(_pct)?$")
VARIATION = re.compile(r"variation")
INTERVALS = re.compile(
    r"interval|(^|_)(low|high|lower|upper|ci|ci95|stderr|significant)($|_)|standard_error|confidence"
)


def audit(table: Table, tolerance: float = TOLERANCE, units: Mapping[str, str] | None = None) -> list[Finding]:
    """Returns the mistakes in a table of measured or modeled runs; an empty list means that it may be true.

    `table` is a frame, columns by name, or rows with named figures. Columns are known by name (population or
    clients, throughput, response_time, think_time, service_time, waiting_time, servers or workers, utilization,
    queue_length, number or jobs, visits, arrival_rate, service_rate, var_response, p50, p99, …), with a unit as
    their ending (`_ms`, `_us`, `_rps`, `_pct`), in a "units" entry of the row, or in `units`; without one they are
    in seconds and per second. Other columns are ignored. Figures given as text count as rounded to their last digit.
    Raises BadArgument for an unknown unit.
    """
    rows, tolerance = rows_of(table), non_negative("tolerance", tolerance)
    findings = _unreadable(rows)
    for index, row in enumerate(rows):
        run = run_of(row, units)
        for rule in ROW_RULES:
            findings.extend(Finding(index, *found) for found in rule(row, run, tolerance, units))
    for table_rule in TABLE_RULES:
        findings.extend(Finding(None, *found) for found in table_rule(rows))
    return findings


def compared(table: Table, tolerance: float = TOLERANCE, units: Mapping[str, str] | None = None) -> int:
    """Returns how often something in a table could be held against something else; 0 means that nothing was checked."""
    rows = rows_of(table)
    laws = sum(len(check(row, tolerance, units)) for row in rows)
    ordered = sum(sum(PERCENTILE.match(plain(str(c))) is not None for c in row) > 1 for row in rows)
    shared = sum(len(_figures_of_shares(row)[0]) > 1 for row in rows) + len(_columns_of_shares(rows))
    return laws + ordered + shared + _have_effects(rows)


def _unreadable(rows: list[Row]) -> list[Finding]:
    """Finds cells that are no number, in columns that hold numbers: 4,600 or 12 ms; an empty one was not measured."""
    columns = dict.fromkeys(str(name) for row in rows if "effect" not in row for name in row)
    known = [c for c in columns if quantity_and_unit(c) or PERCENTILE.match(plain(c))]
    findings: list[Finding] = []
    for column in known:
        cells = [(index, row.get(column)) for index, row in enumerate(rows)]
        if not any(re.search(r"\d", str(cell)) for _, cell in cells):
            continue  # a column of words, which happens to have the name of a quantity
        findings.extend(
            Finding(index, "figures", "error", f'{column} is "{cell}", which is no number; leave it empty if unknown')
            for index, cell in cells
            if isinstance(cell, str) and not _is_number_or_missing(cell)
        )
    return sorted(findings, key=lambda finding: finding.row or 0)


def _is_number_or_missing(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return not cell.strip()
    return True


def _laws(row: Row, run: Run, tolerance: float, units: Mapping[str, str] | None) -> Found:
    found: Found = []
    for verdict in check(row, tolerance, units):
        if not verdict.holds:
            found.append(_explained(verdict, run))
    return found


def _explained(verdict: Verdict, run: Run) -> tuple[str, Severity, str]:
    """Returns the finding for a broken law, with the mistake behind it where it is a known one."""
    factor = _unit_slip(verdict)
    if factor and verdict.law != "units":
        return (
            "units",
            "error",
            f"{verdict.message}: {factor} between them, so some figure is in another unit ({verdict.law})",
        )
    match verdict.law:
        case "interactive response time law":
            return _interactive_explained(verdict, run)
        case "interactive response time law as printed":
            return _printed_explained(verdict, run)
        case "Little's law" if _divided(run, verdict):
            return verdict.law, "error", f"{verdict.message}: it is throughput divided by time, and Little multiplies"
        case "utilization law" if verdict.expected == 1:
            hint = (
                "if it is in percent, say so in its name (_pct)"
                if verdict.observed > 10
                else "nobody is busier than always"
            )
            if {"throughput", "service_time"} <= run.keys():
                hint = "throughput times a service time that contains waiting is a queue length, not a utilization"
            return verdict.law, "error", f"{verdict.message}; {hint}"
        case "service time":
            text = f"throughput times service time keeps {verdict.observed:.3g} servers busy, of {verdict.expected:g}"
            return verdict.law, "error", f"{text}; the service time contains waiting"
        case "answers without throughput":
            return verdict.law, "error", verdict.message
        case "population":
            return verdict.law, "error", f"{verdict.message}: more than there are clients"
        case "response time":
            return verdict.law, "error", f"{verdict.message}: a response takes at least its waiting and its service"
        case "units":
            return verdict.law, "error", f"{verdict.message}; a variance has the unit squared, a time has not"
        case _:
            return verdict.law, "error", f"{verdict.message}: {abs(verdict.difference):.1%} apart"


def _interactive_explained(verdict: Verdict, run: Run) -> tuple[str, Severity, str]:
    apart = f"{abs(verdict.difference):.1%} apart"
    if verdict.observed < verdict.expected and "think_time" not in run:
        missing = verdict.expected - verdict.observed
        hint = f"a think time, or a way to where this was measured, of {missing:.4g} s would explain it"
        return verdict.law, "warning", f"{verdict.message}: {apart}; {hint}"
    hint = "windows that differ, errors not counted, or clients not counted"
    return verdict.law, "error", f"{verdict.message}: {apart}; {hint}"


def _printed_explained(verdict: Verdict, run: Run) -> tuple[str, Severity, str]:
    missing = verdict.expected - verdict.observed
    if missing > 0 and "think_time" not in run:
        text = f"a think time of {missing:.4g} s would explain it (a column `think_time` would tell)"
        return verdict.law, "warning", f"{verdict.message}; {text}"
    return verdict.law, "error", f"{verdict.message}: nothing but rounding can be between them"


def _unit_slip(verdict: Verdict) -> str:
    if not verdict.expected or not verdict.observed or verdict.expected == 1:
        return ""
    ratio = abs(verdict.observed / verdict.expected)
    if ratio == 0:  # too small for a number
        return ""
    for power in (3, 6, 9):
        if abs(abs(math.log10(ratio)) - power) < math.log10(1.25):
            return f"a factor of 10^{power}"
    return ""


def _divided(run: Run, verdict: Verdict) -> bool:
    if not {"throughput", "response_time"} <= run.keys() or not run["response_time"].printed:
        return False
    quotients = (
        run["throughput"].printed / run["response_time"].printed,
        run["throughput"].value / run["response_time"].value,
    )
    return any(math.isclose(quotient, verdict.observed, rel_tol=0.02) for quotient in quotients)


def _servers_unknown(_row: Row, run: Run, tolerance: float, _units: Mapping[str, str] | None) -> Found:
    if not {"throughput", "service_time"} <= run.keys() or servers_of(run) or "utilization" in run:
        return []
    busy = run["throughput"].value * run["service_time"].value * passes_of(run).value
    if busy <= 1 + tolerance:
        return []
    text = f"{busy:.3g} servers are busy on average; unless there are that many, the service time contains waiting"
    return [("service time", "warning", f"{text} (a column `servers` would tell)")]


def _variances(_row: Row, run: Run, _tolerance: float, _units: Mapping[str, str] | None) -> Found:
    """Finds variances that do not fit their means, and so are probably in another unit."""
    found: Found = []
    for variance, mean in (("var_response", "response_time"), ("var_wait", "waiting_time")):
        if variance in run and mean in run and run[mean].value > 0 and run[variance].value > 0:
            unit_is_wrong = run[variance].unit and not run[variance].unit.endswith("2")
            spread = math.sqrt(run[variance].value) / run[mean].value
            if not unit_is_wrong and not SPREAD_LEAST <= spread <= SPREAD_MOST:
                text = f"{run[variance].column} {run[variance].printed:g} beside a mean of {run[mean].printed:g}"
                found.append(
                    ("units", "warning", f"{text} is a spread of {spread:.2g} times the mean; is it in another unit?")
                )
    return found


def _signs(_row: Row, run: Run, _tolerance: float, _units: Mapping[str, str] | None) -> Found:
    below: Found = [("figures", "error", f"{r.column} is {r.printed:g}, below 0") for r in run.values() if r.value < 0]
    servers = run.get("servers")  # 0 workers are allowed: a tier may work without
    if servers is not None and servers.value == 0 and servers.column.strip().lower() == "servers":
        below.append(("figures", "error", f"{servers.column} is 0, and somebody has to serve"))
    return below


def _percentiles(row: Row, _run: Run, _tolerance: float, _units: Mapping[str, str] | None) -> Found:
    """Finds percentiles of one quantity that are smaller than lower ones, or larger than its maximum."""
    known: dict[tuple[str, bool], list[tuple[float, float, str, float]]] = {}
    for column, figure in row.items():
        match, value = PERCENTILE.match(plain(str(column))), number_of(figure)
        if value is not None and match:
            group = match["of"] or "", match["unit"] is None
            seconds = value * SECONDS.get(match["unit"], 1.0)
            known.setdefault(group, []).append((_percent(match["share"]), seconds, str(column), value))
    for has_no_unit in (False, True):  # a maximum without a name belongs to the only named quantity
        named = [group for group in known if group[0] and group[1] == has_no_unit]
        if len(named) == 1:
            known[named[0]] += known.pop(("", has_no_unit), [])
    return [
        ("percentiles", "error", f"{b} is {there:g}, below {a}, which is {here:g}")
        for group in known.values()
        for (_, x, a, here), (_, y, b, there) in pairwise(sorted(group))
        if y < x * (1 - 1e-9)
    ]


def _percent(share: str | None) -> float:
    """Returns the percent that p50, p99_9, p999, p100 and the maximum (100) stand for."""
    if share is None or share == "100":
        return 100.0
    digits = share.replace("_", ".")  # p99_9 and p99.9
    return float(digits) if "." in digits or len(digits) < 3 else float(f"{digits[:2]}.{digits[2:]}")


def _shares_of_a_row(row: Row, _run: Run, _tolerance: float, _units: Mapping[str, str] | None) -> Found:
    """Finds shares of a row, in a list or in columns that begin or end with `share`, that do not add up to a whole."""
    figures, percent = _figures_of_shares(row)
    if len(figures) < 2:
        return []
    listed = any(str(name).lower() == "shares" for name in row)
    return _must_add_up(figures, percent=percent, severity="error" if listed else "warning")


def _figures_of_shares(row: Row) -> tuple[list[object], bool]:
    """Returns the shares of a row, and whether they are in percent."""
    listed = next((figure for name, figure in row.items() if str(name).lower() == "shares"), None)
    if isinstance(listed, Mapping):
        listed = list(listed.values())
    named = [name for name in (str(each).lower() for each in row) if SHARE.search(name) and _is_part(name)]
    figures = list(listed) if isinstance(listed, list | tuple) else [row[n] for n in row if str(n).lower() in named]
    return figures, any(name.endswith("_pct") for name in named)


def _is_part(name: str) -> bool:
    return not SINGLE_SHARE.search(name)


def _must_add_up(figures: list[object], *, percent: bool, severity: Severity) -> Found:
    values = [(number_of(figure), rounding(figure)) for figure in figures]
    present = [(value, half) for value, half in values if value is not None]
    if len(present) < 2:
        return []
    total = sum(value for value, _ in present)
    whole = 100.0 if percent or total > 10 else 1.0
    slack = sum(min(half, 0.01 * whole) for _, half in present) + 1e-9 * whole
    if abs(total - whole) <= slack:
        return []
    doubt = "" if severity == "error" else "; if they are parts of one whole, one is missing or wrong"
    return [("shares", severity, f"shares add up to {total:.6g}, not to {whole:g}{doubt}")]


def _shares_of_a_column(rows: list[Row]) -> Found:
    """Finds columns of shares, of variation or of anything, that do not add up over the table."""
    found: Found = []
    for column in _columns_of_shares(rows):
        figures = [row.get(column) for row in rows if str(row.get("effect", "")) not in ("I", "mean", "SST", "total")]
        sure: Severity = "error" if VARIATION.search(column.lower()) else "warning"
        for law, severity, message in _must_add_up(figures, percent=column.endswith("_pct"), severity=sure):
            found.append((law, severity, f"{column}: {message}"))
    return found


def _columns_of_shares(rows: list[Row]) -> list[str]:
    columns = {str(name) for row in rows for name in row}
    shares = [c for c in columns if "share" in c.lower() and _is_part(c.lower())]
    variation = [c for c in columns if VARIATION.search(c.lower()) and "coefficient" not in c.lower()]
    return sorted(variation + (shares if len(shares) == 1 else []))


def _have_effects(rows: list[Row]) -> bool:
    return any(str(name).lower() in ("effect", "effects") for row in rows for name in row)


def _effects_without_intervals(rows: list[Row]) -> Found:
    columns = {str(name).lower() for row in rows for name in row}
    if not _have_effects(rows):
        return []
    if any(INTERVALS.search(column) for column in columns):
        return []
    return [("intervals", "warning", "effects without intervals: which of them differ from zero cannot be said")]


def _units_that_change(rows: list[Row]) -> Found:
    """Finds columns whose unit changes between rows, which looks like a trend and is none."""
    found: Found = []
    stated: dict[str, set[str]] = {}
    for row in rows:
        for reading in run_of(row).values():
            stated.setdefault(reading.column, set()).add(reading.unit)
    for column, units in stated.items():
        if len(units) > 1:
            found.append(
                ("units", "warning", f"{column} is in {' and in '.join(sorted(u or 'no unit' for u in units))}")
            )
    return found


def _differences(row: Row, run: Run, _tolerance: float, _units: Mapping[str, str] | None) -> Found:
    return printed_differences(row, run)


def _models(row: Row, run: Run, tolerance: float, _units: Mapping[str, str] | None) -> Found:
    return open_model_findings(row, run, tolerance) + queueing_probability(row, run, tolerance)


RowRule = Callable[[Row, Run, float, Mapping[str, str] | None], Found]
ROW_RULES: tuple[RowRule, ...] = (
    _signs,
    _laws,
    _servers_unknown,
    _variances,
    _percentiles,
    _shares_of_a_row,
    _differences,
    _models,
)
TABLE_RULES: tuple[Callable[[list[Row]], Found], ...] = (
    _shares_of_a_column,
    _effects_without_intervals,
    _units_that_change,
    models_beside_measurements,
)
