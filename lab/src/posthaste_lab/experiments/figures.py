"""The figures of a trial: one row for the whole, and one for each kind of request.

Figures of the load come from the load generator's own summary of the measured time; stages come from the tiers'
records, cut to the same time. Names carry their units; times are seconds. What was not measured is left out: zero
would be a measurement.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posthaste_lab.experiments.instants import Instants
from posthaste_lab.experiments.windows import WINDOWS, windows_of
from posthaste_lab.files import read_json, reading

Row = dict[str, Any]
PERCENTILES = ("p50", "p90", "p99", "p99.9")
TRAFFIC = ("sent_bytes_per_s", "received_bytes_per_s", "request_bytes_mean", "answer_bytes_mean")
# Options of a load that make its requests due by the clock.
OPEN_PACES = ("rate", "rate_per_client", "rate_profile", "replay")
STAGES = ("parse", "waiting", "dispatch", "service", "reply")
# Rates add up only if measured at the same time: the time common to all loads is at least this share of the longest.
SHARE_OF_ALL = 0.95
# Allowed in any case, however short a trial is, since programs are started one after the other.
STARTED_APART_S = 0.25


@dataclass(frozen=True)
class LoadFigures:
    """One load's summary: the whole, each kind of request, the measured time (seconds since 1970), and its servers."""

    row: Row
    kinds: dict[str, Row]
    measured: tuple[float, float] | None
    servers: frozenset[str] = frozenset()
    name: str = "a load"


def read_summary(reader: str, path: Path) -> LoadFigures:
    """Reads the summary that a load left. Raises OSError or ValueError when the file is missing or not whole."""
    summary = read_json(path)
    with reading(path):
        return READERS[reader](summary)


def _bench(summary: dict[str, Any]) -> LoadFigures:
    """Reads the summary of `posthaste bench queue` and `bench cache`."""
    options, generator = summary["options"], summary["generator"]
    served = summary["ok"] + summary["nulls"]
    row: Row = {
        "throughput_per_s": summary["throughput_per_s"],
        **_response(summary["response"], served),
        "served": served,
        "ok": summary["ok"],
        "nulls": summary["nulls"],
        "errors": summary["errors"],
        **{name: summary[name] for name in TRAFFIC if name in summary},
        "measured_s": summary["duration_s"],
        "clients": options["clients"],
        "population": options["clients"] * options.get("pipeline", 1),
        "think_time_s": options.get("think_ms", 0.0) / 1e3,
        "open_loop": any(options.get(pace) for pace in OPEN_PACES),
        "in_flight_mean": summary["in_flight_mean"],
        "generator_utilization": generator["utilization_max"],
        "generator_valid": summary["valid"],
        "invalid_because": "; ".join(summary["invalid_because"]),
    }
    if summary.get("interactive_law"):
        row["think_kept_s"] = summary["interactive_law"]["think_us"] / 1e6
        row["response_all_mean_s"] = summary["interactive_law"]["response_us"] / 1e6
        row["interactive_tolerance"] = summary["interactive_law"]["tolerance"]
    if summary.get("middleware"):
        row["tier_counted_per_s"] = summary["middleware"]["counted_per_s"]
        row["tier_counted_tolerance"] = summary["middleware"]["tolerance"]
    if summary.get("check"):
        row["violations"] = summary["check"].get("violations", 0)
    kinds = {
        kind: {
            "throughput_per_s": each["throughput_per_s"],
            "served": each["ok"] + each["nulls"],
            "nulls": each["nulls"],
            "errors": each["errors"],
            **_response(each["response"], each["ok"] + each["nulls"]),
        }
        for kind, each in summary["kinds"].items()
    }
    # A run limited by a number of requests has no warm-up, whatever the option's default says.
    begin = summary["start_unix_s"] + (0.0 if options.get("requests") else options["warmup_s"])
    return LoadFigures(row, kinds, (begin, begin + summary["duration_s"]), frozenset(options["connect"]))


def kept_think_s(figures: Row) -> float:
    """Returns the mean pause of clients between answer and next request, in seconds.

    It is the measured one, of which random draws and delays are part, or the configured one where none was measured.
    """
    kept = figures.get("think_kept_s")
    return float((figures.get("think_time_s") or 0.0) if kept is None else kept)


def answered_per_s(figures: Row) -> float:
    """Returns all answers per second, errors included: the throughput of the interactive law."""
    served, errors = figures.get("served") or 0, figures.get("errors") or 0
    return float(figures["throughput_per_s"]) * ((served + errors) / served if served else 1.0)


def response_of_all_s(figures: Row) -> float | None:
    """Returns the mean response time of all answers, errors included; None where it was not measured."""
    if "response_all_mean_s" not in figures and figures.get("errors"):
        return None
    response = figures.get("response_all_mean_s", figures.get("response_mean_s"))
    return None if response is None else float(response)


def _response(response: dict[str, float], served: int) -> Row:
    """Returns the times of served requests; nothing if there are none, as the summary's zeros are then no times."""
    if not served:
        return {}
    named = {f"response_{name}_s": response[f"{name}_us"] / 1e6 for name in ("mean", *PERCENTILES, "max")}
    return {name.replace("p99.9", "p99_9"): value for name, value in named.items()}


def _bench_store(summary: dict[str, Any]) -> LoadFigures:
    """Reads `posthaste bench store`: one row, since a trial sets one batch size and one number of connections."""
    (only,) = summary["rows"]
    row: Row = {
        "throughput_per_s": only["operations_per_s"],
        "measured_s": summary["duration_s"],  # the repetitions share it
        "batch": only["batch"],
    }
    if "call_mean_ms" in only:
        row |= {"call_mean_s": only["call_mean_ms"] / 1e3, "call_p99_s": only["call_p99_ms"] / 1e3}
    if "raw_append_per_s" in only:
        row |= {"raw_append_per_s": only["raw_append_per_s"]}
    kinds = {
        kind: {
            "throughput_per_s": each["operations_per_s"],
            "served": each["operations"],
            "response_mean_s": each["mean_ms"] / 1e3,
            "response_p99_s": each["p99_ms"] / 1e3,
        }
        for kind, each in only.get("kinds", {}).items()
    }
    return LoadFigures(row, kinds, None)


READERS: dict[str, Callable[[dict[str, Any]], LoadFigures]] = {"bench": _bench, "bench-store": _bench_store}


def together(loads: list[LoadFigures]) -> LoadFigures:
    """Joins several simultaneous loads to one: rates and counts add up, means are weighted by requests served.

    Means over all answers are weighted by all answers, errors included. Percentiles of the loads do not give those of
    the whole, so they are left out. Raises ValueError for loads that measured at different times, since the sum of
    their rates never existed.
    """
    if len(loads) == 1:
        return loads[0]
    kinds = sorted({kind for load in loads for kind in load.kinds})
    return LoadFigures(
        _joined([load.row for load in loads]) | _counted_together(loads),
        {kind: _joined([load.kinds[kind] for load in loads if kind in load.kinds]) for kind in kinds},
        _measured_by_all(loads),
    )


def _measured_by_all(loads: list[LoadFigures]) -> tuple[float, float] | None:
    """Returns the time in which all loads measured; None where none of them says when."""
    times = [(*load.measured, load.name) for load in loads if load.measured]
    if not times:
        return None
    begin, _, last = max(times)
    end, first = min((end, name) for _, end, name in times)
    own_begin, own_end, longest = max(times, key=lambda each: each[1] - each[0])
    own_s, common_s = own_end - own_begin, max(end - begin, 0.0)
    if not common_s or own_s - common_s > max((1 - SHARE_OF_ALL) * own_s, STARTED_APART_S):
        other = last if begin - own_begin > own_end - end else first
        raise ValueError(
            f"{longest} and {other} measured at different times: all loads together {common_s:.2f} s of the "
            f"{own_s:.2f} s of {longest}; have them prepare the same (preload, dataset, clients), or make run.duration "
            "longer"
        )
    return begin, end


def _counted_together(loads: list[LoadFigures]) -> Row:
    """Returns the rate that the tiers counted, where it can be told.

    Loads with the same servers were each told the whole rate; rates of loads with separate servers add up; for servers
    that overlap in part there is no figure.
    """
    counted = [load.row["tier_counted_per_s"] for load in loads if "tier_counted_per_s" in load.row]
    asked = {load.servers for load in loads}
    if len(counted) < len(loads):
        return {}
    if len(asked) == 1:
        return {"tier_counted_per_s": sum(counted) / len(counted)}
    apart = sum(map(len, asked)) == len(frozenset().union(*asked))
    return {"tier_counted_per_s": sum(counted)} if apart and len(asked) == len(loads) else {}


SUMS = {
    "throughput_per_s",
    "served",
    "ok",
    "nulls",
    "errors",
    "clients",
    "population",
    "in_flight_mean",
    "sent_bytes_per_s",
    "received_bytes_per_s",
    "violations",
}
LARGEST = {
    "generator_utilization",
    "interactive_tolerance",
    "tier_counted_tolerance",
    "response_max_s",
    "measured_s",
    "open_loop",
    "batch",
}
MEANS = {
    "response_mean_s",
    "response_all_mean_s",
    "think_time_s",
    "think_kept_s",
    "call_mean_s",
    "request_bytes_mean",
    "answer_bytes_mean",
}
OF_SERVED = {"response_mean_s", "response_max_s"}
OF_ANSWERED = {"response_all_mean_s", "think_kept_s", "request_bytes_mean", "answer_bytes_mean"}


def _joined(rows: list[Row]) -> Row:
    joined: Row = {}
    served = [row.get("served", 1) for row in rows]
    answered = [count + row.get("errors", 0) for count, row in zip(served, rows, strict=True)]
    for name in dict.fromkeys(name for row in rows for name in row):
        counts = answered if name in OF_ANSWERED else served
        weighed = list(zip(rows, counts, strict=True))
        if name in OF_SERVED | OF_ANSWERED:  # a load that served nothing has no times
            weighed = [(row, count) for row, count in weighed if count] or weighed
        values = [row[name] for row, _ in weighed if name in row]
        if len(values) < len(weighed):
            continue
        weights = [count for _, count in weighed]
        if name in SUMS:
            joined[name] = sum(values)
        elif name in LARGEST:
            joined[name] = max(values)
        elif name in MEANS and sum(weights) > 0:
            joined[name] = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
        elif name == "generator_valid":
            joined[name] = all(values)
        elif name == "invalid_because":
            joined[name] = "; ".join(value for value in values if value)
    return joined


def read_stages(records: Iterable[Path], counted: Instants | None) -> dict[str, Row]:
    """Returns the mean time of each stage by kind of request (ALL for the whole), over the given records of tiers.

    Only windows whose middle is in `counted` are used (None: all), weighted by their requests.
    """
    sums: dict[str, dict[str, float]] = {}
    for record in records:
        with reading(record / WINDOWS):
            for middle, window in windows_of(record):
                if counted is None or middle in counted:
                    _add(sums.setdefault(window["kind"], {}), window)
    return {kind: _stage_means(total) for kind, total in sums.items() if total.get("requests")}


def _add(total: dict[str, float], window: dict[str, str]) -> None:
    requests = float(window["requests"])
    total["requests"] = total.get("requests", 0.0) + requests
    total["errors"] = total.get("errors", 0.0) + float(window["errors"])
    for stage in (*STAGES, "response"):
        mean = window.get(f"{stage}_mean_us", "")
        if mean:
            # Waiting and service have means over the requests that had them; in the mean over all, others count as 0.
            count = float(window.get(f"{stage}_count") or requests)
            total[stage] = total.get(stage, 0.0) + float(mean) * count
            total[f"{stage}_count"] = total.get(f"{stage}_count", 0.0) + count


def _stage_means(total: dict[str, float]) -> Row:
    requests = total["requests"]
    row: Row = {"tier_requests": int(requests), "tier_errors": int(total["errors"])}
    row |= {f"{stage}_mean_s": total.get(stage, 0.0) / requests / 1e6 for stage in STAGES}
    row["tier_response_mean_s"] = total.get("response", 0.0) / requests / 1e6
    for stage in ("waiting", "service"):
        if total.get(f"{stage}_count"):
            row[f"{stage}_when_any_mean_s"] = total[stage] / total[f"{stage}_count"] / 1e6
    return row
