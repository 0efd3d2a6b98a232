"""Section about trials over time: whether they were steady, what disturbed them, and whether enough was trimmed."""

import math
from typing import Any

import numpy as np

from posthaste_lab.experiments.results import Result, Run, spoken_levels
from posthaste_lab.experiments.spans import counted, spoken
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.charts.traces import one_scale, traces_chart
from posthaste_lab.report.quantities import PLUS_MINUS, digits, percent
from posthaste_lab.report.records import Happening, Trace, events, trace
from posthaste_lab.report.sections.parts import ChartItem, Section, TableItem, few
from posthaste_lab.report.steady import Steadiness, steadiness
from posthaste_lab.stats import BatchMeans, batch_means, mser5
from posthaste_lab.stats.series import MSER_LEAST
from posthaste_lab.stats.steadiness import STEADY_LEAST

TRACES_MAX = 6
WINDOWS_LEAST = 20  # fewest windows of a trial from which an interval is computed
# A longer cut must narrow the interval by this share; where windows vary only by chance, one trial in twenty does so.
NARROWER_LEAST = 0.2
CHANGES = "Dashed: the level changed. "
AS_LONG = 0.05  # share by which the measured time may differ from that in the file without a remark


def time_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns the traces; None when there are no recorded windows."""
    head, _, tail = run.experiment.trimmed
    traced = [(result, found) for result in run.finished if (found := trace(result, head, tail)) is not None]
    if not traced:
        return None
    section = Section("time", "Over time, and what was trimmed")
    judged = steadiness(traced)
    section.paragraphs.append(f"{trimming(run, traced)} {warm_up_verdict(traced, head)}")
    section.paragraphs.append(steady_verdict(judged))
    shown = [pair for pair in traced if pair[0].repetition == 1] or traced
    shown = few(shown, TRACES_MAX)
    rows = [(_name(run, result), found, events(result)) for result, found in shown]
    shared = [one_scale(rows, column) for column in (0, 1)]
    names = {result.name: _name(run, result) for result, _ in shown}
    changes_s = {names[each.trial]: each.places_s for each in judged if each.changes and each.trial in names}
    left_out = f", {len(shown)} of {len(traced)} trials" if len(shown) < len(traced) else ""
    section.items.append(
        ChartItem(
            "traces",
            f"Throughput and mean response time as {traced[0][1].seen_by} saw them, a point for each window of "
            f"{spoken(run.experiment.run.window)}{left_out}. Hatched: trimmed, or left out. Marks and gray bands: "
            f"events. {CHANGES if changes_s else ''}{_scales(shared)}",
            "trials/*/*/record/windows.csv, trials/*/events.csv",
            lambda: traces_chart(rows, changes_s),
        )
    )
    if any(happenings for _, _, happenings in rows):
        section.items.append(_events_table(run))
    if judged:
        section.items.append(_steady_table(judged))
    if all(len(cell.results) == 1 for cell in cells):
        section.items.append(_batch_table(traced))
    return section


def trimming(run: Run, traced: list[tuple[Result, Trace]]) -> str:
    """Returns a sentence on what is trimmed; it has the real times where a load took longer or shorter than planned."""
    head, measured, tail = run.experiment.trimmed
    lengths = [measured if result.omissions else _measured_s(result, found) for result, found in traced]
    shortest, longest = min(lengths), max(lengths)
    if max(longest - measured, measured - shortest) > AS_LONG * measured:
        return (
            f"The first {spoken(head)} and the last {spoken(tail)} of each trial's load are trimmed, as the experiment "
            f"file says; every figure of this report is of what lies between. That is {spoken(measured)} by the file, "
            f"and was from {spoken(shortest)} to {spoken(longest)}."
        )
    return (
        f"Of each trial's {spoken(run.experiment.run.duration)} of load, the first {spoken(head)} and the last "
        f"{spoken(tail)} are trimmed, as the experiment file says; every figure of this report is of the "
        f"{spoken(measured)} between."
    )


def _measured_s(result: Result, found: Trace) -> float:
    """Returns the load's own measured time; the trace covers only the time common to all loads."""
    return float(result.figures.get("measured_s", found.measured_s))


def _scales(shared: list[bool]) -> str:
    if all(shared):
        return "All plots of a column share its scale."
    alone = " and ".join(name for name, one in zip(("throughput", "response time"), shared, strict=True) if not one)
    return f"Scales of {alone} differ from plot to plot."


def warm_up_s(found: Trace, head_s: float) -> float | None:
    """Returns the seconds of load until it was steady, by MSER-5 on throughput; None when there are too few windows.

    A cut beyond the head counts only if it narrows the interval of the rest by a fifth. Infinite where the trial was
    not steady within its first half, which is as far as MSER-5 looks.
    """
    loaded = (found.middle_s >= -head_s) & (found.middle_s <= found.measured_s)
    if loaded.sum() < MSER_LEAST:
        return None
    throughput, piece_s = found.evenly(loaded)
    if len(throughput) < MSER_LEAST:
        return None
    cut = mser5(throughput)
    if cut.too_short:
        return math.inf
    begin_s = float(found.middle_s[loaded][0] - found.length_s[loaded][0] / 2) + head_s
    # Without a cut the trial was steady from its beginning.
    steady_s = begin_s + cut * piece_s if cut else 0.0
    if steady_s > head_s and cut.narrower_than(round((head_s - begin_s) / piece_s)) < NARROWER_LEAST:
        return head_s
    return steady_s


def _half_a_window_s(found: Trace) -> float:
    return float(np.median(np.diff(found.middle_s))) / 2


def warm_up_verdict(traced: list[tuple[Result, Trace]], head_s: float) -> str:
    """Returns sentences on whether the trimmed head was long enough."""
    known = [(result.name, found, trial) for result, trial in traced if (found := warm_up_s(trial, head_s)) is not None]
    if not known:
        return (
            f"Too few windows were recorded to check by MSER-5 whether that was enough: it takes {MSER_LEAST} of a "
            "trial, from longer trials or a shorter run.window."
        )
    never = [name for name, found, _ in known if math.isinf(found)]
    settled = [each for each in known if math.isfinite(each[1])]
    # Windows need not begin where the head ends, so half a window is tolerated.
    late = [(name, found) for name, found, trial in settled if found > head_s + _half_a_window_s(trial)]
    told = f"the {counted(len(known), 'trial')} with windows enough to tell"
    said = []
    if settled and not late:
        said.append(f"By MSER-5 on throughput, each of {counted(len(settled), 'trial')} was steady by then.")
    if late:
        worst, longest = max(late, key=lambda pair: pair[1])
        said.append(
            f"By MSER-5 on throughput, {len(late)} of {told} took longer to be steady ({worst} until "
            f"{spoken(longest)}): look at the traces, and trim more if they drift."
        )
    if never:
        said.append(
            f"By MSER-5 on throughput, {len(never)} of {told} did not settle within the first half "
            f"({', '.join(never)}): measure longer."
        )
    return " ".join(said)


def steady_verdict(judged: list[Steadiness]) -> str:
    """Returns sentences on whether trials drifted or changed their level in the measured time."""
    if not judged:
        return (
            f"Too few windows were recorded to tell a drift, or a change of level: it takes {STEADY_LEAST} in the "
            "measured time of a trial."
        )
    wrong = [f"{each.trial}: {each.says}" for each in judged if each.says]
    if not wrong:
        return (
            f"None of {counted(len(judged), 'trial')} with windows enough to tell drifted by a tenth in its measured "
            "time, or changed its level by as much."
        )
    return (
        f"Of {counted(len(judged), 'trial')} with windows enough to tell, {len(wrong)} "
        f"{'was' if len(wrong) == 1 else 'were'} not steady ({'; '.join(wrong)}): a mean says little of "
        f"{'it' if len(wrong) == 1 else 'them'}."
    )


def _steady_table(judged: list[Steadiness]) -> TableItem:
    rows = [
        [
            each.trial,
            f"{percent(each.drift.change / each.mean) if each.mean else ''}",
            digits(each.p_value, 2),
            ", ".join(digits(place, 3) for place in each.places_s) or "none",
            percent(each.levels.largest) if each.places_s else "",
            "no" if each.says else "yes",
        ]
        for each in judged
    ]
    raw = [
        {"trial": each.trial, "figure": each.figure, "change": each.drift.change, "mean": each.mean,
         "p_value": each.p_value, "changes_s": " ".join(f"{place:.6g}" for place in each.places_s),
         "largest_change_share": each.levels.largest, "steady": not each.says}
        for each in judged
    ]  # fmt: skip
    return TableItem(
        "steady",
        f"Whether trials were steady, by their {judged[0].figure}: the drift from first to last window with the "
        "p value of Mann and Kendall's test (over all trials, by Holm), and the instants at which the level changed. "
        "Not steady is what is beyond chance and a tenth.",
        "trials/*/*/record/windows.csv",
        ["trial", "drift", "p", "changes of level (s)", "largest", "steady"],
        rows,
        raw,
    )


def _name(run: Run, result: Result) -> str:
    return f"{spoken_levels(result.levels)} ({result.name})" if run.experiment.factors else result.name


def _events_table(run: Run) -> TableItem:
    counted: dict[tuple[str, str, str], list[Happening]] = {}
    for result in run.finished:
        for event in events(result):
            counted.setdefault((result.name, event.source, event.kind), []).append(event)
    rows, raw = [], []
    for (name, source, kind), found in counted.items():
        lengths = [event.duration_s for event in found]
        text = [name, source, kind, str(len(found)), digits(float(np.mean(lengths)), 3), digits(max(lengths), 3)]
        rows.append(text)
        raw += [
            {"trial": name, "source": source, "kind": kind, "start_s": event.start_s, "duration_s": event.duration_s}
            for event in found
        ]
    heads = ["trial", "source", "kind", "how many", "mean duration (s)", "longest (s)"]
    return TableItem("events", "What took place during the measured time.", "trials/*/events.csv", heads, rows, raw)


def _independent(means: BatchMeans) -> str:
    """Returns in words whether the batches are independent, so that the interval is as wide as it has to be."""
    if means.settled:
        return "yes"
    return "no: the trial is too short" if means.correlated else "not known: too few windows"


def _batch_table(traced: list[tuple[Result, Trace]]) -> TableItem:
    """Returns intervals from batch means of each trial's windows, for runs with one repetition."""
    rows, raw = [], list[dict[str, Any]]()
    for result, found in traced:
        inside = found.counted
        if inside.sum() < WINDOWS_LEAST:
            continue
        means = batch_means(found.evenly(inside)[0])
        half = (means.high - means.low) / 2
        told = f"{digits(means.mean)} {PLUS_MINUS} {digits(half, 2)}"
        rows.append([result.name, told, str(means.batches), _independent(means)])
        raw.append({"trial": result.name, "mean_per_s": means.mean, "low": means.low, "high": means.high})
    return TableItem(
        "batch-means",
        "Throughput of each trial with the 95 % interval that batch means of its windows give; repetitions of the "
        "trial would say more.",
        "trials/*/*/record/windows.csv: requests, errors",
        ["trial", "throughput (per second)", "batches", "batches independent"],
        rows,
        raw,
    )
