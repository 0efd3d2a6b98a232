"""Section about where the time goes: stages over the load, and by kind of request where it is lightest and heaviest."""

from itertools import product

from posthaste_lab.experiments.results import Run, spoken_levels
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.charts import kinds_chart, stages_chart
from posthaste_lab.report.charts.stages import WORDS, stage_times
from posthaste_lab.report.charts.style import left_out
from posthaste_lab.report.passage import of_other_requests
from posthaste_lab.report.quantities import percent, time
from posthaste_lab.report.sections.parts import EVENLY, ChartItem, Section, few, load_of, names_of, x_label

CELLS_MAX = 32  # most bars; more would be taller than a page


def where_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns the section; None when no tier recorded stages."""
    staged = [cell for cell in cells if shares(cell)]
    if not staged:
        return None
    section = Section("where", "Where the time goes", [bottleneck(staged), *_of_other_requests(staged)])
    shown = few(staged, CELLS_MAX)
    section.items.append(
        ChartItem(
            "stages",
            "Mean time of all requests in each stage of the tier, stacked, and on top what the clients saw beyond it "
            "(network and load generator). The number is the sum."
            + left_out(CELLS_MAX, len(staged), "combinations", EVENLY, "trials.csv"),
            "trials.csv: *_mean_s",
            lambda: stages_chart(shown, names_of(run, shown), x_label(run)),
        )
    )
    ends = _ends(staged)
    section.items.append(
        ChartItem(
            "kinds",
            f"The same for each kind of request{', on one scale' if len(ends) > 1 else ''}."
            + left_out(len(ends), len(staged), "combinations", _at_ends(staged), "the table of kinds"),
            "kinds.csv: *_mean_s",
            lambda: kinds_chart(ends, [spoken_levels(cell.levels) for cell in ends]),
        )
    )
    return section


def shares(cell: Cell) -> dict[str, float]:
    """Returns the share of each stage in their sum, the mean response time; empty when no tier recorded stages.

    It is the tier's own mean where the clients' is not known, or shorter.
    """
    times = stage_times(lambda name: _mean(cell, name))
    total = sum(times.values())
    return {stage: value / total for stage, value in times.items()} if total > 0 else {}


def bottleneck(cells: list[Cell]) -> str:
    """Returns a sentence on the stages that take most of a request's time where throughput is highest."""
    at = max(cells, key=lambda cell: figure.mean if (figure := cell.figure("throughput_per_s")) is not None else 0.0)
    parts = sorted(shares(at).items(), key=lambda item: -item[1])
    listed = ", ".join(f"{WORDS[stage]} {percent(share)}" for stage, share in parts[:3])
    seen, inside = _mean(at, "response_mean_s"), _mean(at, "tier_response_mean_s")
    if inside is not None and (seen is None or seen < inside):
        whole = f" in the tier, {time(inside)},"
    else:
        whole = "" if seen is None else f" of {time(seen)}"
    if len(cells) == 1:
        return f"A request's mean time{whole} is {listed}."
    return f"Where throughput is highest ({spoken_levels(at.levels)}), a request's mean time{whole} is {listed}."


def _of_other_requests(cells: list[Cell]) -> list[str]:
    """Returns a sentence on the cells whose stages are of other requests than their clients' response times."""
    found = [
        f"{spoken_levels(cell.levels) or 'all trials'}: {time(inside)} and {time(seen)}"
        for cell in cells
        if (seen := _mean(cell, "response_mean_s")) is not None
        and (inside := _mean(cell, "tier_response_mean_s")) is not None
        and of_other_requests(_mean(cell, "response_all_mean_s") or seen, inside)
    ]
    if not found:
        return []
    return [
        "Requests took longer in the tier on average than their clients measured, because a stall at an edge of the "
        f"measured time is in one mean only ({'; '.join(found)}). There the stages are those of the tier's requests, "
        "and nothing is shown beyond them."
    ]


def _mean(cell: Cell, name: str) -> float | None:
    figure = cell.figure(name)
    return None if figure is None else figure.mean


def _ends(cells: list[Cell]) -> list[Cell]:
    """Returns a cell of the lightest load and one of the heaviest that differ in as few other levels as possible."""
    loads = [load_of(cell) for cell in cells]
    if min(loads) == max(loads):
        return [cells[0], cells[-1]] if len(cells) > 1 else cells
    light, heavy = ([cell for cell, load in zip(cells, loads, strict=True) if load == of(loads)] for of in (min, max))
    return list(min(product(light, heavy), key=lambda pair: _differences(*pair)))


def _differences(one: Cell, other: Cell) -> int:
    return sum(other.levels[name] != level for name, level in one.levels.items())


def _at_ends(cells: list[Cell]) -> str:
    """Returns in words which of more than two combinations are shown."""
    ends = _ends(cells)
    if load_of(ends[0]) == load_of(ends[-1]):
        return "the first and the last"
    return "one of the lightest and one of the heaviest load"
