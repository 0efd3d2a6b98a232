"""How response times are spread: what a mean hides."""

from posthaste_lab.experiments.results import Run, spoken_levels
from posthaste_lab.report.cells import TOO_FEW, Cell
from posthaste_lab.report.charts import box_chart, histogram_chart, percentile_chart
from posthaste_lab.report.quantities import time
from posthaste_lab.report.records import ROLES, Spread, response_times
from posthaste_lab.report.sections.parts import ChartItem, Section, TableItem, few, load_of, names_of

SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999)
CURVES_MAX, HISTOGRAMS_MAX = 6, 4


def distributions_section(run: Run, cells: list[Cell]) -> Section | None:
    """Percentiles, boxes, histograms; None when nothing recorded histograms."""
    names = names_of(run, cells)
    if run.x is not None and len(run.experiment.factors) == 1:
        names = [f"{run.x} = {name}" for name in names]
    spreads = {
        name: found
        for name, cell in zip(names, cells, strict=True)
        if (found := response_times(cell.results)) is not None
    }
    if not spreads:
        return None
    seen_by = next(iter(spreads.values())).seen_by
    section = Section("spread", "How response times are spread")
    errors = any(result.figures.get("errors") for cell in cells for result in cell.results)
    section.paragraphs.append(
        f"Response times of all requests as {seen_by} measured them, repetitions merged"
        f"{', those answered with an error among them' if errors else ''}. A percentile is given where at least ten "
        "requests lie beyond it."
    )
    source = "trials/*/*/record/latency.hlog"
    curves = {name: spreads[name] for name in few(list(spreads), CURVES_MAX)}
    histograms = {name: spreads[name] for name in few(list(spreads), HISTOGRAMS_MAX)}
    section.items.extend(
        [
            ChartItem(
                "percentiles",
                "Percentile curves: both scales are logarithmic, the horizontal one in odds, so each "
                "further nine takes as much room as the one before.",
                source,
                lambda: percentile_chart(curves),
            ),
            ChartItem(
                "boxes",
                "Boxes hold the middle half of the requests with the median; whiskers reach from the 1st to the 99th "
                "percentile.",
                source,
                lambda: box_chart(spreads),
            ),
            ChartItem("histograms", "Histograms on the same scales.", source, lambda: histogram_chart(histograms)),
        ]
    )
    section.items.extend(_views(max(cells, key=load_of), source))
    section.items.append(_table(spreads, source))
    return section


def _views(cell: Cell, source: str) -> list[ChartItem]:
    """What the clients measured beside what the middle tier did, where both left a record."""
    views = {name: found for role, name in ROLES.items() if (found := response_times(cell.results, role)) is not None}
    if len(views) < len(ROLES):
        return []
    caption = (
        f"The same requests ({spoken_levels(cell.levels)}) as {' and '.join(ROLES.values())} measured them: what lies "
        "between is the network and the load generator."
    )
    return [ChartItem("views", caption, source, lambda: histogram_chart(views))]


def _table(spreads: dict[str, Spread], source: str) -> TableItem:
    rows, raw = [], []
    for name, spread in spreads.items():
        known = {share: spread.percentile(share) for share in SHARES if spread.percentile_is_known(share)}
        cells = [time(known[share]) if share in known else TOO_FEW for share in SHARES]
        rows.append([name, *cells, time(float(spread.values_s[-1])), f"{spread.total:,.0f}"])
        percentiles = {f"p{100 * share:g}_s".replace(".", "_"): value for share, value in known.items()}
        raw.append({"combination": name, "requests": int(spread.total), **percentiles})
    heads = ["combination", *(f"{100 * share:g} %" for share in SHARES), "largest", "requests"]
    return TableItem("percentiles", "Response time within which so many were answered.", source, heads, rows, raw)
