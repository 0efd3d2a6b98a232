"""A 2^k design: which factors matter, by how much, and how surely."""

import math

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.plan import aliased
from posthaste_lab.experiments.results import Run
from posthaste_lab.experiments.spans import counted
from posthaste_lab.experiments.tables import Transform
from posthaste_lab.factorial import Effects, analyze
from posthaste_lab.factorial.effects import OTHER_SHARES
from posthaste_lab.factorial.plots import EFFECTS_SHOWN, RATE, one_over
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.charts import effects_chart, residuals_chart
from posthaste_lab.report.charts.effects import SHOWN_MAX
from posthaste_lab.report.charts.style import left_out
from posthaste_lab.report.quantities import MU, digits, percent, time_unit
from posthaste_lab.report.sections.parts import ChartItem, Section, TableItem

BLOCKED = (
    " Each interval holds by itself: of twenty effects that do nothing, one is called significant. Each repetition was "
    "run as a block: what it does to all combinations alike is told apart from error and widens the interval of the "
    "mean only."
)


def design_section(run: Run, cells: list[Cell]) -> Section | None:
    """Returns effects on each requested figure, or why they cannot be told; None if this is no 2^k design."""
    if not run.two_levels:
        return None
    analyses = run.experiment.report.analyses
    section = Section("effects", "Which factors matter", [_levels(run)])
    for name, transform in analyses:
        whole = _whole_repetitions(run, cells, name)
        lacking = _lacking(run, cells, name, whole)
        if lacking is not None:
            section.paragraphs.append(lacking)
        if not whole:
            continue
        first = not section.items
        try:
            effects, unit = _analyzed(run, cells, name, whole, transform)
        except BadArgument as error:
            section.paragraphs.append(f"Effects on {name} cannot be told ({transform}): {error}.")
            continue
        turns = [_turns(run, cell, whole) for cell in cells]
        _show(section, effects, unit, name, "" if first else f"-{name}", turns, several=len(analyses) > 1)
    return section


def _whole_repetitions(run: Run, cells: list[Cell], name: str) -> list[int]:
    """Returns the repetitions in which every combination has this figure; each is a block, so others can be dropped."""
    if len(cells) < _combinations(run):
        return []
    return sorted(set.intersection(*(set(cell.by_repetition(name)) for cell in cells)))


def _lacking(run: Run, cells: list[Cell], name: str, whole: list[int]) -> str | None:
    """Returns a sentence about the trials that the analysis of a figure lacks or drops; None if there are none."""
    empty = _combinations(run) - sum(bool(cell.by_repetition(name)) for cell in cells)
    if empty:
        return (
            f"Effects on {name} cannot be told: no trial that counts has it in {empty} of the {_combinations(run)} "
            "combinations."
        )
    if not whole:
        return f"Effects on {name} cannot be told: there is no repetition in which all combinations have it."
    dropped = sum(repetition not in whole for cell in cells for repetition in cell.by_repetition(name))
    if not dropped:
        return None
    return (
        f"Effects on {name} are told from what was run whole, repetition {' and '.join(map(str, whole))}; "
        f"{counted(dropped, 'trial')} of the other repetitions, in which some are missing, "
        f"{'is' if dropped == 1 else 'are'} not looked at."
    )


def _analyzed(run: Run, cells: list[Cell], name: str, whole: list[int], transform: Transform) -> tuple[Effects, str]:
    """Returns the effects on a figure in these repetitions, and its unit."""
    factors = run.experiment.factors
    signs = [[1 if cell.levels[f] == factors[f].levels[1] else -1 for f in factors] for cell in cells]
    known = [cell.by_repetition(name) for cell in cells]
    values = [[figures[repetition] for repetition in whole] for figures in known]
    factor, unit = _unit(name, [value for row in values for value in row], transform)
    scaled = [[value * factor for value in row] for row in values]
    return analyze(signs, scaled, list(factors), transform=transform, blocked=True), unit


def _combinations(run: Run) -> int:
    return len({trial["cell"] for trial in run.plan["trials"]})


def _turns(run: Run, cell: Cell, whole: list[int]) -> list[int]:
    """Returns the turns of a cell's trials of these repetitions."""
    by_repetition = {result.repetition: run.turns[result.name] for result in cell.results}
    return [by_repetition[repetition] for repetition in whole]


def _show(
    section: Section,
    effects: Effects,
    unit: str,
    name: str,
    suffix: str,
    turns: list[list[int]],
    *,
    several: bool,
) -> None:
    """Adds advice, table and charts of one analysis to the section."""
    # The advice is about the figure as measured, whatever transform was requested.
    section.paragraphs.append(f"Advice on the model{f' for {name}' if several else ''}: {effects.advice}.")
    notes = [f"{note[0].upper()}{note[1:]}." for note in effects.notes]
    section.paragraphs.extend(note for note in notes if note not in section.paragraphs)
    source = f"trials.csv: {name}"
    repeated = effects.degrees_of_freedom > 0
    surely = (
        " with 95 % intervals; empty squares are not significant" if repeated else "; one repetition has no intervals"
    )
    count = len(effects.effects) - 1
    not_drawn = left_out(min(count, SHOWN_MAX), count, "effects", "the largest")
    on = f" on {_measured(effects, name, unit)}" if several else ""
    section.items.append(_table(effects, f"effects{suffix}", name, unit, source))
    section.items.append(
        ChartItem(
            f"effects{suffix}", f"Effects{on} by size{surely}.{not_drawn}", source, lambda: effects_chart(effects, unit)
        )
    )
    if repeated:
        section.items.append(
            ChartItem(
                f"residuals{suffix}",
                f"Residuals{f' of {_measured(effects, name, unit)}' if several else ''}: a funnel on the left asks for "
                "logarithms, a bend on the right says they are not normal, a slope below is a drift over the run; "
                "empty squares are not significant."
                + left_out(min(count, EFFECTS_SHOWN), count, "effects", "the largest"),
                source,
                lambda: residuals_chart(effects, unit, turns),
            )
        )


def _unit(name: str, values: list[float], transform: Transform) -> tuple[float, str]:
    if name.endswith("_per_s") and transform == "reciprocal":
        return 1e-6, f"{RATE}{MU}s"  # the reciprocal of thousands per second would be written with exponents
    if name.endswith("_per_s"):
        return 1.0, "requests per second"
    return time_unit(max(values)) if name.endswith("_s") else (1.0, name)


def _levels(run: Run) -> str:
    levels = "; ".join(
        f"{name}: {factor.levels[0]} (low), {factor.levels[1]} (high)"
        for name, factor in run.experiment.factors.items()
    )
    found = aliased(run.experiment)
    if found is None:
        return f"Levels: {levels}."
    return (
        f"Levels: {levels}. This is a fraction of resolution {found.resolution}; each effect stands for all its "
        "aliases."
    )


def _table(effects: Effects, called: str, name: str, unit: str, source: str) -> TableItem:
    rows, raw = [], []
    logarithms = effects.transform == "log"
    ranked = sorted((e for e in effects.effects if e != "I"), key=lambda e: -abs(effects.effects[e]))
    for effect in ["I", *ranked]:
        interval = effects.intervals.get(effect)
        low, high = (interval.low, interval.high) if interval is not None else (math.nan, math.nan)
        share = effects.variation.get(effect)
        significant = effects.significant.get(effect)
        rows.append(
            [
                "mean" if effect == "I" else effect,
                digits(effects.effects[effect]),
                "none without repetitions" if interval is None else f"{digits(low)} to {digits(high)}",
                "" if share is None else percent(share),
                "" if effect == "I" else "unknown" if significant is None else "yes" if significant else "no",
                *([_on_its_own_scale(effects, effect, unit)] if logarithms else []),
                *([", ".join(effects.aliases.get(effect, ()))] if effects.aliases else []),
            ]
        )
        raw.append({"effect": effect, "q": effects.effects[effect], "low": low, "high": high, "variation": share})
    for rest in OTHER_SHARES:
        if rest in effects.variation:
            share = effects.variation[rest] if effects.degrees_of_freedom else None
            known = "unknown" if share is None else percent(share)
            rows.append([rest, "", "", known, "", *([""] if logarithms else []), *([""] if effects.aliases else [])])
            raw.append({"effect": rest, "variation": share})
    return TableItem(
        called,
        f"Effects on {_measured(effects, name, unit)} (q, half of the change from low to high) and shares of variation."
        + (BLOCKED if effects.degrees_of_freedom else ""),
        source,
        [
            *("effect", "q", "95 % interval", "share of variation", "significant"),
            *(["that is"] if logarithms else []),
            *(["aliased with"] if effects.aliases else []),
        ],
        rows,
        raw,
    )


def _measured(effects: Effects, name: str, unit: str) -> str:
    """Returns the quantity to which the effects refer, with its unit."""
    if effects.transform == "log":
        return f"the natural logarithm of {name} in {unit}"
    return f"1 / {name} in {one_over(unit)}" if effects.transform == "reciprocal" else f"{name} in {unit}"


def _on_its_own_scale(effects: Effects, effect: str, unit: str) -> str:
    """Returns in words what an effect on the logarithm does to the response; empty for more than two factors."""
    together = len(effect.split(":"))
    if effect == "I":
        return f"geometric mean of {digits(math.exp(effects.effects[effect]))} {unit}"
    if together == 1:
        return f"high is {digits(effects.multipliers[effect], 3)} times low"
    ratio = digits(effects.multipliers[effect] ** 2, 3)
    return f"where one is high, the other's ratio is {ratio} times that where it is low" if together == 2 else ""
