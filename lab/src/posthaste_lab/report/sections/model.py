"""Section about the fitted model: its errors, the bottleneck, and the gain from changes.

It exists if `posthaste-lab fit` has left a model in the run's directory. To show how far to trust it, the model is
fitted again to a few numbers of clients, and predicts the others.
"""

import math
from collections import Counter
from typing import Any

from posthaste_lab.errors import BadArgument, BadFile
from posthaste_lab.experiments.results import Run
from posthaste_lab.fitting import read_model, validate
from posthaste_lab.fitting.model import (
    FILE,
    Bottleneck,
    FittedModel,
    IntervalValue,
    guessed_distribution,
    is_at_zero,
    unknown_misfit,
)
from posthaste_lab.fitting.observations import Observation, about_clients, observations
from posthaste_lab.fitting.prediction import Prediction
from posthaste_lab.fitting.validation import Line, Validation
from posthaste_lab.fitting.words import FIGURES, SYSTEMS
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.charts.model import Fit, model_chart
from posthaste_lab.report.charts.style import left_out
from posthaste_lab.report.quantities import PLUS_MINUS, digits, percent, time
from posthaste_lab.report.sections.model_origin import Tried, basis, differences
from posthaste_lab.report.sections.parts import EVENLY, ChartItem, Section, TableItem, few

SHOWN_MAX = 4
OPEN_MODELS = (
    " M/M/1 and M/M/m, which stand beside it, are given the predicted throughput and the highest measured one as "
    "capacity: a closed system seen as an open one."
)


def model_section(run: Run, _cells: list[Cell]) -> Section | None:
    """Returns the section; None when no model was fitted."""
    if not (run.directory / FILE).exists():
        return None
    fitted = read_model(run.directory)
    try:
        seen, refused = observations(run), ""
    except BadFile:
        raise
    except BadArgument as why:  # a trial was added, or is no longer omitted, since the fit
        seen, refused = [], f"It cannot be held against what was measured. {why}."
    tried = _tried(run, fitted, seen)
    section = Section(
        "model", "A model of it", [sentence for each in few(tried, SHOWN_MAX) for sentence in _said(each)]
    )
    if about := about_clients(run):
        section.paragraphs.append(f"{about[0].upper()}{about[1:]}.")
    section.paragraphs.extend([refused] if refused else differences(fitted, few(tried, SHOWN_MAX), seen))
    if len(tried) > SHOWN_MAX:
        section.paragraphs.append(
            f"This is told of {SHOWN_MAX} of the {len(tried)} combinations, {EVENLY}; the tables have all of them."
        )
    validated = [each for each in tried if each.validation is not None]
    section.paragraphs.append(
        f"It consists of {SYSTEMS[tried[0].model.kind]}. {_reach(tried)}{OPEN_MODELS if validated else ''}"
    )
    if validated:
        shown = few(validated, SHOWN_MAX)
        fits = [_fit(each) for each in shown]
        section.items.append(
            ChartItem(
                "model",
                "Model and measurement; bars are 95 % intervals over trials. Diamonds are what a model fitted to the "
                f"filled points alone says of the hollow ones. The line is the model of {FILE}, dashed beyond the most "
                "clients that it was fitted to; in the gray band the mean of one further trial is to be expected, from "
                f"{basis(shown)}. Arrows: an open model's answer "
                "beyond the plot." + left_out(SHOWN_MAX, len(validated), "combinations", EVENLY),
                f"{FILE}, trials.csv",
                lambda: model_chart(fits),
            )
        )
        section.items.append(_error_table(validated))
    section.items.extend([_figures_table(tried), _gains_table(tried)])
    return section


def _tried(run: Run, fitted: FittedModel, seen: list[Observation]) -> list[Tried]:
    of_this_run = fitted.experiment_sha256 == run.plan["experiment_sha256"]
    tried = []
    for model in fitted.models:
        own = [each for each in seen if each.where == model.where]
        trials = Counter(each.population for each in own)
        chosen = None if fitted.calibrated_to is None else tuple(fitted.calibrated_to)
        tried.append(Tried(model, _validation(own), trials, of_this_run, chosen))
    return tried


def _validation(seen: list[Observation]) -> Validation | None:
    if not seen:
        return None
    try:
        return validate(seen)
    except BadArgument:  # too few numbers of clients to leave one out, or one repetition
        return None


def _fit(tried: Tried) -> Fit:
    lines = tried.validation.lines if tried.validation is not None else []
    return Fit(tried.name, tried.model.curves[0].points, lines)


def _said(tried: Tried) -> list[str]:
    """Returns sentences on the bottleneck and the errors of a model."""
    held = tried.model.bottleneck
    where = f"With {tried.name}: " if tried.name else ""
    first = held.effects[0]
    said = [
        f"{where}The bottleneck with {held.clients} clients is {held.stage}: if it took half as long, throughput would "
        f"rise by {percent(first.gain_share)}{_bounds(first.interval)}.{_unsure(held)}"
    ]
    if guess := guessed_distribution(tried.model):
        said.append(f"{where}{guess[0].upper()}{guess[1:]}.")
    if misfit := unknown_misfit(tried.model):
        said.append(f"{where}{misfit}.")
    found = tried.validation
    if found is not None:
        fitted = ", ".join(str(line.clients) for line in found.lines if line.calibrated)
        kept = "within" if found.throughput.kept and found.response.kept else "not within"
        said.append(
            f"{where}Fitted to {fitted} clients, it is off by {percent(found.throughput.error)} of the throughput and "
            f"{percent(found.response.error)} of the mean response time on average at the others, which is {kept} the "
            f"bounds: {percent(found.throughput.taken)} and {percent(found.response.taken)} of them, which are "
            f"{percent(found.throughput.bound)} and {percent(found.response.bound)} on average{_loose(found)}."
        )
    return said


def _unsure(held: Bottleneck) -> str:
    """Returns a sentence where repetitions disagree on the bottleneck, as its lead may be 0; otherwise empty."""
    if held.lead_interval is None or held.lead_interval.low > 0 or len(held.effects) < 2:
        return ""
    return (
        f" Its lead over {held.effects[1].stage} is {percent(held.lead_share)}{_bounds(held.lead_interval)}, so it may "
        "be that one as well: more repetitions would tell."
    )


def _loose(found: Validation) -> str:
    """Returns a remark where wide bounds test the model only little; otherwise empty."""
    if not (found.throughput.loose or found.response.loose):
        return ""
    return (
        f"; they would be {percent(found.throughput.target)} and {percent(found.response.target)}, but the measurement "
        "is not known so well itself: more repetitions would test the model harder"
    )


def _bounds(bounds: IntervalValue | None) -> str:
    return "" if bounds is None else f" (interval {percent(bounds.low)} to {percent(bounds.high)})"


def _error_table(validated: list[Tried]) -> TableItem:
    rows, raw = [], list[dict[str, Any]]()
    for each in validated:
        for line in each.validation.lines if each.validation is not None else []:
            rows.append([*([each.name] if each.name else []), *_error_row(line)])
            raw.append(each.model.where | _error_figures(line))
    heads = ["clients", "throughput (per second)", "model", "off by", "mean response time", "model", "off by"]
    return TableItem(
        "model-errors",
        "Measured, with 95 % intervals, and what the model says; it was fitted to the numbers of clients with a star.",
        f"{FILE}, trials.csv",
        [*(["combination"] if validated[0].name else []), *heads, "M/M/1", "M/M/m"],
        rows,
        raw,
    )


def _error_row(line: Line) -> list[str]:
    throughput, response, answer = line.throughput, line.response, line.predicted
    return [
        f"{line.clients}{'*' if line.calibrated else ''}",
        f"{digits(throughput.mean)} {PLUS_MINUS} {digits(throughput.half_width, 2)}",
        digits(answer.throughput_per_s.value),
        percent(line.throughput_error),
        f"{time(response.mean)} {PLUS_MINUS} {time(response.half_width)}",
        time(answer.response_time_s.value),
        percent(line.response_error),
        _open(answer, answer.mm1_response_s),
        _open(answer, answer.mmm_response_s),
    ]


def _open(answer: Prediction, response_s: float) -> str:
    """Returns an open model's response time, marked where, by Little's law, no closed system can have it."""
    if math.isnan(response_s):
        return "no answer"
    return time(response_s) + (", more requests than clients" if answer.exceeds_clients(response_s) else "")


def _error_figures(line: Line) -> dict[str, Any]:
    return {
        "clients": line.clients,
        "fitted_to": line.calibrated,
        "throughput_per_s": line.throughput.mean,
        "throughput_half_width_per_s": line.throughput.half_width,
        "model_throughput_per_s": line.predicted.throughput_per_s.value,
        "throughput_error": line.throughput_error,
        "response_mean_s": line.response.mean,
        "response_half_width_s": line.response.half_width,
        "model_response_s": line.predicted.response_time_s.value,
        "response_error": line.response_error,
        "mm1_response_s": line.predicted.mm1_response_s,
        "mmm_response_s": line.predicted.mmm_response_s,
    }


def _figures_table(tried: list[Tried]) -> TableItem:
    rows, raw = [], list[dict[str, Any]]()
    for each in tried:
        for name in FIGURES[each.model.kind]:
            value = getattr(each.model.figures, name)
            bounds = each.model.intervals.get(name)
            write = time if name.endswith("_s") else digits
            between = "" if bounds is None else f"{write(bounds.low)} to {write(bounds.high)}"
            if bounds is not None and is_at_zero(bounds):
                between = "at its limit, 0"
            rows.append([*([each.name] if each.name else []), name, write(value), between])
            low, high = (bounds.low, bounds.high) if bounds is not None else (None, None)
            raw.append(each.model.where | {"figure": name, "value": value, "low": low, "high": high})
    return TableItem(
        "model-figures",
        "The model's figures; their names are explained in the reference of the laboratory.",
        FILE,
        [*(["combination"] if tried[0].name else []), "figure", "value", "95 % interval"],
        rows,
        raw,
    )


def _reach(tried: list[Tried]) -> str:
    """Returns a sentence on the numbers of clients for which there are predictions."""
    ranges = {(each.model.range.clients_min, each.model.range.clients_max) for each in tried}
    told = " or ".join(f"{least:,} to {most:,}" for least, most in sorted(ranges))
    return f"The data support {told} clients, and nothing beyond: that is where `predict` and the console end."


def _gains_table(tried: list[Tried]) -> TableItem:
    rows, raw = [], list[dict[str, Any]]()
    for each in tried:
        for effect in each.model.bottleneck.effects:
            bounds = effect.interval
            between = "" if bounds is None else f"{percent(bounds.low)} to {percent(bounds.high)}"
            rows.append([*([each.name] if each.name else []), effect.stage, percent(effect.gain_share), between])
            raw.append(each.model.where | {"stage": effect.stage, "gain_share": effect.gain_share})
    return TableItem(
        "model-gains",
        "What to change: by how much throughput would rise at the most clients measured, if a stage took half as long.",
        FILE,
        [*(["combination"] if tried[0].name else []), "stage", "throughput would rise by", "95 % interval"],
        rows,
        raw,
    )
