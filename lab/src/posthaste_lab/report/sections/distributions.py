"""Section about the distribution of response times, which a mean hides."""

import math
from collections.abc import Sequence

import numpy as np

from posthaste_lab.experiments.results import Run, spoken_levels
from posthaste_lab.experiments.windows import ALL
from posthaste_lab.ladder import decades
from posthaste_lab.report.cells import TOO_FEW, Cell
from posthaste_lab.report.charts import box_chart, histogram_chart, percentile_panels
from posthaste_lab.report.charts.style import left_out
from posthaste_lab.report.quantities import time
from posthaste_lab.report.records import ROLES, Spread, response_times, response_times_by_kind
from posthaste_lab.report.sections.parts import EVENLY, ChartItem, Section, TableItem, few, load_of, names_of

SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999)
CURVES_MAX, HISTOGRAMS_MAX, KINDS_MAX = 6, 4, 3
LIMITS_MAX = 10  # columns of the table of shares
ByKind = dict[str, Spread]


def distributions_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns percentiles, boxes and histograms of each kind of request; None when there are no recorded histograms."""
    names = names_of(run, cells)
    if run.x is not None and len(run.experiment.factors) == 1:
        names = [f"{run.x} = {name}" for name in names]
    spreads = {
        name: found for name, cell in zip(names, cells, strict=True) if (found := response_times_by_kind(cell.results))
    }
    if not spreads:
        return None
    seen_by = next(spread.seen_by for kinds in spreads.values() for spread in kinds.values())
    section = Section("spread", "How response times are spread")
    errors = any(result.figures.get("errors") for cell in cells for result in cell.results)
    section.paragraphs.append(
        f"Response times of all requests as {seen_by} measured them, repetitions merged"
        f"{', those answered with an error among them' if errors else ''}. A percentile is given where at least ten "
        "requests lie beyond it."
    )
    source = "trials/*/*/record/latency.hlog"
    kinds = _kinds(spreads)
    curves = _panels(spreads, few(list(spreads), CURVES_MAX), kinds)
    boxes = _panels(spreads, list(spreads), kinds)
    binned = few(list(spreads), max(2, HISTOGRAMS_MAX // len(kinds)))
    histograms = {
        f"{name}, {kind}" if kind else name: spread
        for kind, some in _panels(spreads, binned, kinds).items()
        for name, spread in some.items()
    }
    each = _each(spreads, kinds)
    section.items.extend(
        [
            ChartItem(
                "percentiles",
                "Percentile curves: both scales are logarithmic, the horizontal one in odds, so each "
                f"further nine takes as much room as the one before.{each}"
                + left_out(CURVES_MAX, len(spreads), "combinations", EVENLY),
                source,
                lambda: percentile_panels(curves),
            ),
            ChartItem(
                "boxes",
                "Boxes hold the middle half of the requests with the median; whiskers reach from the 1st to the 99th "
                f"percentile, as far as ten requests lie beyond.{each}",
                source,
                lambda: box_chart(boxes),
            ),
            ChartItem(
                "histograms",
                "Histograms on the same scales." + left_out(len(binned), len(spreads), "combinations", EVENLY),
                source,
                lambda: histogram_chart(histograms),
            ),
        ]
    )
    section.items.extend(_views(max(cells, key=load_of), source))
    section.items.append(_table(spreads, source))
    section.items.append(_shares_table(spreads, source))
    return section


def _kinds(spreads: dict[str, ByKind]) -> list[str]:
    """Returns the most frequent kinds of request, in the order of their names."""
    totals: dict[str, float] = {}
    for by_kind in spreads.values():
        for kind, spread in by_kind.items():
            totals[kind] = totals.get(kind, 0.0) + spread.total
    return sorted(sorted(totals, key=lambda kind: -totals[kind])[:KINDS_MAX])


def _panels(spreads: dict[str, ByKind], names: list[str], kinds: list[str]) -> dict[str, dict[str, Spread]]:
    """Returns the distributions of these combinations by kind of request; a single kind has an empty name."""
    found = {kind: {name: spreads[name][kind] for name in names if kind in spreads[name]} for kind in kinds}
    return {kind if len(kinds) > 1 else "": some for kind, some in found.items() if some}


def _each(spreads: dict[str, ByKind], kinds: list[str]) -> str:
    if len(kinds) == 1:
        return ""
    more = len({kind for by_kind in spreads.values() for kind in by_kind}) - len(kinds)
    rare = f"; the table has the {more} with the fewest requests as well" if more else ""
    return f" Each kind of request has a plot of its own{rare}."


def _views(cell: Cell, source: str) -> list[ChartItem]:
    """Returns a chart of the times that clients and middle tier measured, if both left a record."""
    views = {name: found for role, name in ROLES.items() if (found := response_times(cell.results, role)) is not None}
    if len(views) < len(ROLES):
        return []
    caption = (
        f"The same requests ({spoken_levels(cell.levels)}), all kinds together, as {' and '.join(ROLES.values())} "
        "measured them: what lies between is the network and the load generator."
    )
    return [ChartItem("views", caption, source, lambda: histogram_chart(views))]


def _table(spreads: dict[str, ByKind], source: str) -> TableItem:
    several = len({kind for by_kind in spreads.values() for kind in by_kind}) > 1
    rows, raw = [], []
    for name, by_kind in spreads.items():
        together = {ALL: Spread.together(list(by_kind.values()))}
        for kind, spread in (by_kind | together if several else together).items():
            known = {share: spread.percentile(share) for share in SHARES if spread.percentile_is_known(share)}
            times = [time(known[share]) if share in known else TOO_FEW for share in SHARES]
            of_kind = [kind] if several else []
            rows.append([name, *of_kind, *times, time(float(spread.values_s[-1])), f"{spread.total:,.0f}"])
            percentiles = {f"p{100 * share:g}_s".replace(".", "_"): value for share, value in known.items()}
            raw.append({"combination": name, "kind": kind, "requests": int(spread.total), **percentiles})
    heads = [*(f"{100 * share:g} %" for share in SHARES), "largest", "requests"]
    return TableItem(
        "percentiles",
        "Response time within which this share was answered.",
        source,
        ["combination", *(["kind"] if several else []), *heads],
        rows,
        raw,
    )


def limits_of(spreads: Sequence[Spread]) -> list[float]:
    """Returns times of 1, 2, 5, 10, … in seconds, up to one within which nearly all requests of all were answered.

    They are at most `LIMITS_MAX`, and begin where some request of any distribution is faster.
    """
    first = min(spread.percentile(0.01) for spread in spreads)
    last = max(spread.percentile(0.999) for spread in spreads)
    times = decades(-9, 5)
    begin = max(0, int(np.searchsorted(times, first)))
    end = min(int(np.searchsorted(times, last)), len(times) - 1) + 1
    return times[max(begin, end - LIMITS_MAX) : end]


def _shares_table(spreads: dict[str, ByKind], source: str) -> TableItem:
    several = len({kind for by_kind in spreads.values() for kind in by_kind}) > 1
    limits = limits_of([spread for by_kind in spreads.values() for spread in by_kind.values()])
    rows, raw = [], []
    for name, by_kind in spreads.items():
        together = {ALL: Spread.together(list(by_kind.values()))}
        for kind, spread in (by_kind | together if several else together).items():
            shares = [spread.share_within(limit) for limit in limits]
            rows.append([name, *([kind] if several else []), *(_share(share) for share in shares)])
            named = {f"within_{limit * 1e6:.12g}_us": share for limit, share in zip(limits, shares, strict=True)}
            raw.append({"combination": name, "kind": kind, "requests": int(spread.total), **named})
    return TableItem(
        "within",
        "Share of the requests answered within this time, rounded down. A request counts with the upper end of its "
        "bucket in the histogram, up to 0.8 % above its time.",
        source,
        ["combination", *(["kind"] if several else []), *(time(limit, 1) for limit in limits)],
        rows,
        raw,
    )


def _share(share: float) -> str:
    """Formats a share to a hundredth of a percent, rounded down: one that is nearly all must not look like all."""
    return f"{math.floor(share * 10_000 + 1e-9) / 100:g} %"
