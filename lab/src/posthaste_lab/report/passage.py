"""Compares the time that requests spent in the tier with the time that their clients measured, which includes it."""

import math
from collections.abc import Iterator
from pathlib import Path

from posthaste_lab.experiments.results import Result
from posthaste_lab.experiments.windows import ALL, WINDOWS, windows_of
from posthaste_lab.files import reading
from posthaste_lab.laws import Verdict
from posthaste_lab.laws.operational import TOLERANCE

LAW = "time in the tier"

Spell = tuple[float, float, float]  # begin and end of a window, and the time that its requests took, in seconds


def of_time_in_tier(result: Result) -> Iterator[Verdict]:
    """Yields the verdict on the sums of both times in the measured time; none without records of tiers and loads.

    Tiers and loads close their windows at different instants, and a stall at an edge may be in one window and not in
    the other. So of the loads every window counts that overlaps those of the tiers: the requests in these are then all
    among them, give or take those that were on their way back.
    """
    counted, loads = result.counted, result.records("load")
    if counted is None or counted.without or not loads:
        return
    inside = [
        spell for record in result.records("tier") for spell in _spells(record) if (spell[0] + spell[1]) / 2 in counted
    ]
    taken = math.fsum(took for _, _, took in inside)
    if not taken:
        return
    begin, end = min(spell[0] for spell in inside), max(spell[1] for spell in inside)
    outside = [spell for record in loads for spell in _spells(record) if spell[0] < end and spell[1] > begin]
    most = math.fsum(took for _, _, took in outside)
    yield Verdict(
        LAW,
        most,
        taken,
        max(0.0, (taken - most) / taken),  # less is as it should be
        TOLERANCE,
        taken <= most * (1 + TOLERANCE),
        f"requests were in the tier for {taken:.4g} s in all, and their clients measured at most {most:.4g} s for them",
    )


def of_other_requests(measured_s: float | None, in_tier_s: float | None) -> bool:
    """Returns whether the tier's mean response time is of other requests than its clients', which includes it.

    Windows of a tier count whole or not at all, so what stalled at an edge of the measured time may be in one mean
    only. False where either is not known.
    """
    return measured_s is not None and in_tier_s is not None and in_tier_s > measured_s * (1 + TOLERANCE)


def _spells(record: Path) -> list[Spell]:
    with reading(record / WINDOWS):
        return [
            (
                middle - float(row["length_s"]) / 2,
                middle + float(row["length_s"]) / 2,
                float(row["requests"]) * float(row["response_mean_us"] or 0) / 1e6,
            )
            for middle, row in windows_of(record)
            if row["kind"] == ALL
        ]
