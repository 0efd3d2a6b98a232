"""Section about the single requests of one trial, by time of answer and by kind, if a program recorded them."""

from pathlib import Path

from posthaste_lab.errors import BadArgument, BadFile
from posthaste_lab.experiments.clocks import start_unix_s
from posthaste_lab.experiments.results import Result, Run, spoken_levels
from posthaste_lab.report.cells import TOO_FEW, Cell
from posthaste_lab.report.charts import heat_chart, percentile_chart
from posthaste_lab.report.charts.spread import has_curve
from posthaste_lab.report.charts.style import left_out
from posthaste_lab.report.quantities import time
from posthaste_lab.report.requests import FILE, Requests, read_requests
from posthaste_lab.report.sections.parts import ChartItem, Section, TableItem

KINDS_MAX = 6
SHARES = (0.5, 0.9, 0.99, 0.999)


def single_section(_run: Run, cells: list[Cell]) -> Section | None:
    """Returns the section on the trial with the highest throughput; None when no single requests were recorded.

    Trials with omitted windows are not considered.
    """
    whole = [result for cell in cells for result in cell.results if not result.omissions]
    recorded = [(result, record) for result in whole if (record := _record(result))]
    if not recorded:
        return None
    result, record = max(recorded, key=lambda pair: float(pair[0].figures.get("throughput_per_s", 0.0)))
    try:
        found = read_requests(record, _measured_ns(result, record))
    except BadFile:
        raise
    except BadArgument:  # none ended in the measured time
        return None
    section = Section("single", "Request by request")
    section.paragraphs.append(
        f"All {found.total:,} requests of trial {result.name} ({spoken_levels(result.levels)}) in its measured time, "
        f"as {_whose(result, record, found)} saw them: the trial with the highest throughput of those that recorded "
        "single requests."
    )
    source = f"trials/{result.name}/{record.parent.name}/record/{FILE}"
    curves = [(kind, spread) for kind in found.kinds if has_curve(spread := found.spread(kind))]
    kinds = dict(curves[:KINDS_MAX])
    section.items.append(
        ChartItem(
            "requests",
            "Each request at the time it was answered, by its response time: the darker, the more (a logarithmic "
            "scale). Bands are requests of different fates; a gap across them all is a time when nothing was answered.",
            source,
            lambda: heat_chart(*found.heat()),
        )
    )
    if kinds:
        section.items.append(
            ChartItem(
                "requests-kinds",
                "Percentile curves of each kind of request, up to where ten requests lie beyond."
                + left_out(len(kinds), len(found.kinds), "kinds", "the most frequent"),
                source,
                lambda: percentile_chart(kinds),
            )
        )
    section.items.append(_table(found, source))
    return section


def _record(result: Result) -> Path | None:
    """Returns the record with single requests, of the clients or else of the tier; None if there is none."""
    recorded = (record for role in ("load", "tier") for record in result.records(role) if (record / FILE).exists())
    return next(recorded, None)


def _whose(result: Result, record: Path, found: Requests) -> str:
    """Returns who measured the requests: the role, or the part's name if several parts with that role recorded."""
    alike = next(records for role in ("load", "tier") if record in (records := result.records(role)))
    return found.seen_by if len(alike) == 1 else f"{record.parent.name}, one of {len(alike)},"


def _measured_ns(result: Result, record: Path) -> tuple[float, float] | None:
    if result.measured_unix_s is None:
        return None
    start_s = start_unix_s(record)
    begin, end = result.measured_unix_s
    return (begin - start_s) * 1e9, (end - start_s) * 1e9


def _table(found: Requests, source: str) -> TableItem:
    rows, raw = [], []
    for kind in found.kinds:
        spread = found.spread(kind)
        known = [spread.percentile(share) if spread.percentile_is_known(share) else None for share in SHARES]
        times = [TOO_FEW if value is None else time(value) for value in known]
        stages = [found.mean_s(kind, stage) for stage in found.stages]
        rows.append([kind, f"{spread.total:,.0f}", time(found.mean_s(kind)), *times, *map(time, stages)])
        percentiles = {
            f"p{100 * share:g}_s".replace(".", "_"): value for share, value in zip(SHARES, known, strict=True)
        }
        by_stage = {f"{stage}_mean_s": value for stage, value in zip(found.stages, stages, strict=True)}
        raw.append(
            {"kind": kind, "requests": int(spread.total), "mean_s": found.mean_s(kind), **percentiles, **by_stage}
        )
    heads = ["kind", "requests", "mean", *(f"{100 * share:g} %" for share in SHARES), *found.stages]
    return TableItem(
        "requests",
        "Each kind: response time within which this share was answered, and mean time in each stage.",
        source,
        heads,
        rows,
        raw,
    )
