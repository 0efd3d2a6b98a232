"""Reads tables of figures: which column is which quantity, in which unit, and how far it was rounded.

A column's name is a quantity, under any of the names that reports use, and a unit (`response_time_ms`). Only this
module decides what a column means; columns with other names are ignored.

The printed digits of a figure say how precise it is: 0.02 may be anything from 0.015 to 0.025. A check that ignores
that reports rounding as a mistake; the same is true of the interval of a mean over trials. Only text keeps its digits,
so tables from files are best read as text; a number counts as exact.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from math import isfinite, nan
from typing import NamedTuple, cast

import polars as pl

from posthaste_lab.checks import sequence
from posthaste_lab.errors import BadArgument

Row = Mapping[str, object]
Table = pl.DataFrame | Mapping[str, object] | Iterable[Row]

NAMES: dict[str, tuple[str, ...]] = {
    "population": ("population", "clients", "clients_total", "customers"),
    "throughput": ("throughput", "tp", "throughput_client", "tp_client"),
    "response_time": (
        "response_time",
        "response",
        "mean_response",
        "mean_response_time",
        "rt",
        "r_measured",
        "e_r",
        "response_mean",
        "response_all_mean",
    ),
    "modeled_response": ("modeled_response", "modelled_response", "response_model", "rt_model", "r_model"),
    "law_response": ("r_law", "rt_law", "response_law", "response_time_law"),  # printed as N/X - Z
    "think_time": ("think_time", "think", "think_kept"),
    "service_time": ("service_time", "mean_service", "st"),
    "service_stage": ("service_mean",),  # of requests that may share it, so that no busy servers follow
    "waiting_time": (
        "waiting_time",
        "wait",
        "mean_wait",
        "qwt",
        "time_in_queue",
        "queue_waiting_time",
        "e_w",
        "waiting_mean",
    ),
    "servers": ("servers", "workers"),
    "workers_per_mw": ("workers_per_mw", "workers_per_middleware"),
    "middlewares": ("middlewares",),
    "utilization": ("utilization", "utilisation", "utilization_times_1", "rho"),
    "queue_length": ("queue_length", "mean_queue", "e_nq"),
    "number": ("number", "jobs", "mean_jobs", "number_in_system", "e_n"),
    "visits": ("visits", "visit_ratio"),
    "station_throughput": ("station_throughput", "throughput_station", "tier_counted"),
    "answers": ("answers", "answered"),
    "in_flight": ("in_flight", "in_flight_mean"),
    "interactive_tolerance": ("interactive_tolerance",),
    "tier_counted_tolerance": ("tier_counted_tolerance",),
    "arrival_rate": ("arrival_rate", "lambda"),
    "service_rate": ("service_rate", "mu"),
    "var_response": ("var_response", "variance_response", "response_variance", "var_r"),
    "var_wait": ("var_wait", "variance_wait", "wait_variance", "var_w"),
}
# The first of several columns of one quantity is used, except that these win, as they are what the laws need.
PREFERRED = {"population", "think_kept", "response_all_mean"}
QUANTITY = {name: quantity for quantity, names in NAMES.items() for name in names}
COUNTS = {"population", "servers", "workers_per_mw", "middlewares", "answers"}
TIMES = {
    "response_time",
    "modeled_response",
    "law_response",
    "think_time",
    "service_time",
    "service_stage",
    "waiting_time",
}
VARIANCES = {"var_response", "var_wait"}

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0}
SPELLED = {"seconds": "s", "sec": "s", "milliseconds": "ms", "msec": "ms", "microseconds": "us", "nanoseconds": "ns"}
UNITS: dict[str, float] = (
    SECONDS
    | {f"{unit}{squared}": size**2 for unit, size in SECONDS.items() for squared in ("2", "^2")}
    | dict.fromkeys(("rps", "per_s", "1/s", "req/s", "requests/s", "jobs/s", "ops"), 1.0)
    | {"per_ms": 1e3, "1/ms": 1e3, "pct": 1e-2, "%": 1e-2, "": 1.0, "1": 1.0, "jobs": 1.0}
)
SUFFIXES = sorted((unit for unit in UNITS if unit), key=len, reverse=True)
IN_BRACKETS = re.compile(r"(?P<name>.*?)[\s_]*[(\[](?P<unit>[^()\[\]]+)[)\]]$")
# Tables of a line for each quantity, as reports print a model: what the columns of names, figures and units are called.
LONG = {"quantity", "value"}
LONG_UNITS = ("unit", "units", "unit_printed")


class Reading(NamedTuple):
    """One figure: its value in base units (seconds, per second, …), half of its rounding, and the printed figure."""

    value: float
    half: float
    printed: float
    unit: str
    column: str

    @property
    def low(self) -> float:
        """The least value that rounds to this figure."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The largest value that rounds to this figure."""
        return self.value + self.half


Run = dict[str, Reading]


def rows_of(table: Table) -> list[Row]:
    """Returns the rows of a table: a polars or pandas frame, columns by name, or rows."""
    rows = _rows(table)
    return [_row_of_lines(rows)] if _has_a_line_for_each_quantity(rows) else rows


def _has_a_line_for_each_quantity(rows: list[Row]) -> bool:
    names = [row.get("quantity") for row in rows]
    return all(row.keys() >= LONG for row in rows) and len(names) > 1 and len(set(names)) == len(names)


def _row_of_lines(rows: list[Row]) -> Row:
    """Returns the only row of a table of a line for each quantity, with the units of its lines."""
    stated = {str(row["quantity"]): next((row[u] for u in LONG_UNITS if row.get(u)), None) for row in rows}
    figures = {str(row["quantity"]): row["value"] for row in rows}
    units = {name: str(unit) for name, unit in stated.items() if unit is not None}
    return figures | {"units": units}


def _rows(table: Table) -> list[Row]:
    if isinstance(table, pl.DataFrame):
        return list(table.iter_rows(named=True))
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas, without importing it
        return cast(list[Row], table.to_dict("records"))
    if isinstance(table, Mapping):
        return _rows_of_columns(table)
    rows = sequence("table", table)
    for row in rows:
        if not isinstance(row, Mapping):
            raise BadArgument("table", row, "must hold rows with named figures")
    return rows


def _rows_of_columns(table: Mapping[str, object]) -> list[Row]:
    """Returns the rows of columns by name, where a single value holds for all rows; or the mapping as the only row."""
    columns = {
        str(name): list(column)
        for name, column in table.items()
        if isinstance(column, Iterable) and not isinstance(column, str | Mapping)
    }
    # A list may also be one figure of a row, such as shares: in a table a quantity is a list, or everything is.
    if len(columns) < len(table) and not any(quantity_and_unit(name) for name in columns):
        return [table]
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadArgument("table", lengths, "must have as many rows in one column as in the next")
    whole = {str(name): value for name, value in table.items() if str(name) not in columns}
    return [whole | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def quantity_and_unit(column: str) -> tuple[str, str] | None:
    """Returns quantity and unit of a column by its name: `rt_ms` is a response time in ms. None if it is unknown."""
    name = plain(column)
    for suffix in ("", *(f"_{unit}" for unit in SUFFIXES)):
        base = name.removesuffix(suffix)
        if base in QUANTITY and (not suffix or base != name):
            return QUANTITY[base], suffix[1:]
    return None


def plain(column: str) -> str:
    """Returns a column's name as the tables here have it: `Response time (ms)` is `response_time_ms`."""
    name = column.strip().lower()
    if (match := IN_BRACKETS.match(name)) is not None:
        unit = match["unit"].strip()
        name = f"{match['name']}_{'pct' if unit == '%' else SPELLED.get(unit, unit)}"
    return re.sub(r"[\s-]+", "_", name)


def run_of(row: Row, units: Mapping[str, str] | None = None) -> Run:
    """Returns the quantities of a row. Units come from `units`, a "units" entry of the row, or the columns' names."""
    stated = _stated_units(row) | dict(units or {})
    run: Run = {}
    if "effect" in row:  # a line of an analysis, whose figures are differences
        return run
    for column, figure in row.items():
        known = quantity_and_unit(str(column))
        value = number_of(figure)
        if known is None or value is None:
            continue
        quantity, named = known
        unit = _unit(str(column), quantity, named, stated)
        if unit not in UNITS:
            raise BadArgument("units", unit, f"({column}) must be one of {', '.join(u for u in UNITS if u)}")
        # A think time of 0 was set, not measured: if it counted as rounded to seconds, it would excuse any difference.
        is_exact = quantity in COUNTS or (quantity == "think_time" and value == 0)
        half = rounding(figure) if isinstance(figure, str) and not is_exact else 0.0
        half = max(half, _half_of_interval(row, str(column), value))
        base = plain(str(column)).removesuffix(f"_{named}")
        if quantity not in run or base in PREFERRED:
            run[quantity] = Reading(value * UNITS[unit], half * UNITS[unit], value, unit, str(column))
    return _as_laws_mean_it(row, run)


def _half_of_interval(row: Row, column: str, value: float) -> float:
    """Returns half of a figure's interval, of columns `…_low` and `…_high` as our tables have them; 0 without one.

    Such a figure is a mean over trials, and a law that holds in each trial need not hold among their means. At most it
    is nearly the figure itself: a rate or a time is above 0.
    """
    low, high = number_of(row.get(f"{column}_low")), number_of(row.get(f"{column}_high"))
    return 0.0 if low is None or high is None else max(0.0, min((high - low) / 2, 0.99 * value))


def _as_laws_mean_it(row: Row, run: Run) -> Run:
    """Returns the quantities, corrected where names in our own trials.csv, kinds.csv and windows.csv would mislead."""
    if str(row.get("open_loop")).lower() == "true" or str(row.get("kind") or "all") != "all":
        run.pop("population", None)  # there is none in an open loop, and a kind has that of all kinds together
    if "service_count" in row:
        run.pop("service_stage", None)  # a mean over served requests only
    if "tier_counted_per_s" in row:
        run.setdefault("visits", Reading(1.0, 0.0, 1.0, "", "visits of the tier"))
    errors, served = number_of(row.get("errors")), number_of(row.get("served"))
    if served is not None:
        answers = served + (errors or 0.0)
        run.setdefault("answers", Reading(answers, 0.0, answers, "", "answers"))
    if errors and served == 0:
        run.pop("throughput", None)  # it counts no errors, and nothing else took the time of these answers
    if errors and served and "throughput" in run and "response_all_mean_s" in row:
        x, all_of_served = run["throughput"], (served + errors) / served
        run["throughput"] = x._replace(value=x.value * all_of_served, half=x.half * all_of_served)
    return run


def _unit(column: str, quantity: str, named: str, stated: Mapping[str, str]) -> str:
    """Returns the unit of a column: stated for it, in its name, or stated for all times."""
    unit = stated.get(column, stated.get(quantity, named))
    if not unit and "*" in stated and quantity in TIMES | VARIANCES:
        unit = SPELLED.get(stated["*"], stated["*"]) + ("^2" if quantity in VARIANCES else "")
    return SPELLED.get(unit, unit)


def _stated_units(row: Row) -> dict[str, str]:
    """Returns the units of an entry "units" (for all times, or by column) or of entries like "response_time_unit"."""
    stated = {str(c).removesuffix("_unit"): str(u) for c, u in row.items() if str(c).endswith("_unit") and u}
    units = row.get("units", row.get("unit"))
    if isinstance(units, Mapping):
        return stated | {str(column): str(unit) for column, unit in units.items()}
    return stated | {"*": units} if isinstance(units, str) else stated


def number_of(figure: object) -> float | None:
    """Returns a figure as a number; None for an empty cell, a word, or NaN."""
    if isinstance(figure, bool) or figure is None:
        return None
    try:
        value = float(cast(str, figure))
    except (TypeError, ValueError):
        return None
    return value if isfinite(value) else None


def rounding(figure: object) -> float:
    """Returns half a unit of the last printed digit."""
    try:
        exponent = Decimal(str(figure)).as_tuple().exponent
    except InvalidOperation:
        return 0.0
    return 0.5 * 10.0**exponent if isinstance(exponent, int) else nan
