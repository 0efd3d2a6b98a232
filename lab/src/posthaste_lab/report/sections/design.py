"""A 2^k design: which factors matter, by how much, and how surely."""

import math

from posthaste_lab.experiments.plan import aliased
from posthaste_lab.experiments.results import Run
from posthaste_lab.factorial import Effects, analyze
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.charts import effects_chart, residuals_chart
from posthaste_lab.report.quantities import digits, percent, time_unit
from posthaste_lab.report.sections.parts import ChartItem, Section, TableItem


def design_section(run: Run, cells: list[Cell]) -> Section | None:
    """Effects; None when the factors do not have two levels each, or a cell has no figures."""
    name = run.experiment.report.response
    figures = [cell.figure(name) for cell in cells]
    planned = len({trial["cell"] for trial in run.plan["trials"]})
    counts = {0 if figure is None else len(figure.values) for figure in figures}
    if not run.two_levels or len(cells) < planned or len(cells) < 2 or len(counts) != 1 or counts == {0}:
        return None
    factors = run.experiment.factors
    signs = [[1 if cell.levels[f] == factors[f].levels[1] else -1 for f in factors] for cell in cells]
    factor, unit = _unit(name, [value for figure in figures if figure is not None for value in figure.values])
    values = [[value * factor for value in figure.values] for figure in figures if figure is not None]
    effects = analyze(signs, values, list(factors), transform=run.experiment.report.transform)
    section = Section("effects", "Which factors matter", _sentences(run, effects))
    source = f"trials.csv: {name}"
    repeated = effects.degrees_of_freedom > 0
    surely = (
        " with 95 % intervals; empty squares are not significant" if repeated else "; one repetition has no intervals"
    )
    section.items.append(_table(effects, name, unit, source))
    section.items.append(
        ChartItem("effects", f"Effects by size{surely}.", source, lambda: effects_chart(effects, unit))
    )
    if repeated:
        section.items.append(
            ChartItem(
                "residuals",
                "Residuals: a funnel on the left asks for logarithms, a bend on the right says they are not normal.",
                source,
                lambda: residuals_chart(effects, unit),
            )
        )
    return section


def _unit(name: str, values: list[float]) -> tuple[float, str]:
    if name.endswith("_per_s"):
        return 1.0, "requests per second"
    return time_unit(max(values)) if name.endswith("_s") else (1.0, name)


def _sentences(run: Run, effects: Effects) -> list[str]:
    levels = "; ".join(
        f"{name}: {factor.levels[0]} (low), {factor.levels[1]} (high)"
        for name, factor in run.experiment.factors.items()
    )
    said = [f"Levels: {levels}.", f"Advice on the model: {effects.advice}."]
    found = aliased(run.experiment)
    if found is not None:
        said.append(f"This is a fraction of resolution {found.resolution}; each effect stands for all its aliases.")
    return said + list(effects.notes)


def _table(effects: Effects, name: str, unit: str, source: str) -> TableItem:
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
                "unknown" if significant is None else "yes" if significant else "no",
                *([_on_its_own_scale(effects, effect, unit)] if logarithms else []),
            ]
        )
        raw.append({"effect": effect, "q": effects.effects[effect], "low": low, "high": high, "variation": share})
    rows.append(["error", "", "", percent(effects.variation["error"]), "", *([""] if logarithms else [])])
    raw.append({"effect": "error", "variation": effects.variation["error"]})
    return TableItem(
        "effects",
        f"Effects on {_measured(effects, name, unit)} (q, half of the change from low to high), shares of variation, "
        "intervals from the spread between repetitions.",
        source,
        ["effect", "q", "95 % interval", "share of variation", "significant", *(["means"] if logarithms else [])],
        rows,
        raw,
    )


def _measured(effects: Effects, name: str, unit: str) -> str:
    """What the effects are effects on."""
    if effects.transform == "log":
        return f"the natural logarithm of {name} in {unit}"
    return f"1 / {name} in 1 / ({unit})" if effects.transform == "reciprocal" else f"{name} in {unit}"


def _on_its_own_scale(effects: Effects, effect: str, unit: str) -> str:
    """What an effect on the logarithm does to the response itself."""
    if effect == "I":
        return f"geometric mean of {digits(math.exp(effects.effects[effect]))} {unit}"
    return f"high is {digits(effects.multipliers[effect], 3)} times low"
