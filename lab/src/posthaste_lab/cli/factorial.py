"""`posthaste-lab factorial FILE.csv`: effects of a design with two levels, from a file of runs."""

import math
import re
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer

from posthaste_lab import factorial as designs
from posthaste_lab.cli.show import console, number, read_csv, table
from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.spans import counted
from posthaste_lab.factorial.effects import OTHER_SHARES, Effects, Transform

SIGNS: set[float | str] = {-1.0, 1.0}
REPETITION = "repetition"  # name of the column in trials.csv
NONE_WHOLE = "must hold one in which every combination of levels was run; without --blocks each run stands for itself"


def factorial(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="A row for each cell, or for each run.")],
    factors: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Columns that are factors (default: those of -1 and +1).")
    ] = None,
    response: Annotated[
        str | None, typer.Option(metavar="COLUMN,…", help="Columns of the response, repetitions side by side.")
    ] = None,
    transform: Annotated[Transform, typer.Option(help="None is additive, log multiplicative.")] = "none",
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    blocks: Annotated[
        bool, typer.Option("--blocks", help="Each repetition of all cells was run in turn, as posthaste-lab run does.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.svg|png", help="Where to draw the residuals.")] = None,
) -> None:
    """Effects, shares of variation, intervals, and whether to add or multiply.

    A factor's column holds two values, -1 and +1 or any other two (then name it with --factors; the smaller, or the
    first in the alphabet, is the low level). Repetitions stand in columns that count up from 0 or 1 (y1, y2, y3), or
    in rows with the same levels. With --blocks a column "repetition" says which of them a row is of, and only whole
    ones are looked at; without it that is told by the order of rows.

    Example: posthaste-lab factorial runs.csv --factors middlewares,workers --response tp1,tp2,tp3
    """
    frame = read_csv(file)
    names = _names(factors) if factors else _sign_columns(frame)
    named = [_levels(frame, name) for name in names]
    signs = np.column_stack([found for found, _ in named])
    columns = _names(response) if response else _responses(frame, [*names, REPETITION] if blocks else names)
    for column in columns:
        if column in names or columns.count(column) > 1:
            raise BadArgument("--response", column, "must be a column beside the factors, named once")
    values = np.column_stack([_figures(frame, column) for column in columns])
    left_out = 0
    if len(np.unique(signs, axis=0)) < len(signs):
        if blocks and REPETITION in frame.columns and REPETITION not in (*names, *columns):
            signs, values, left_out = _whole_blocks(signs, values, frame[REPETITION].to_list())
        else:
            rows = np.repeat(signs, values.shape[1], axis=0)
            signs, values = designs.collect(rows, values.ravel())
    effects = designs.analyze(signs, values, names, transform, confidence, blocked=blocks)
    _print(effects, columns, dict(zip(names, (said for _, said in named), strict=True)))
    if left_out:
        are = "is" if left_out == 1 else "are"
        console().print(f"note: {counted(left_out, 'run')} of repetitions that lack others {are} not looked at")
    if plot:
        designs.plot_residuals(effects).savefig(plot)
        console().print(f"residuals are drawn in {plot}")


def _whole_blocks(
    signs: np.ndarray, values: np.ndarray, repetitions: list[str | None]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns cells in standard order with a column for each complete repetition, and the number of other runs.

    Rows name their repetition: by their order alone, runs after a missing one would count to an earlier repetition.
    """
    cells: dict[tuple[int, ...], dict[tuple[float | str, int], float]] = {}
    for row, figures, repetition in zip(signs.tolist(), values.tolist(), map(_level, repetitions), strict=True):
        for place, figure in enumerate(figures):
            known = cells.setdefault(tuple(row), {})
            if (repetition, place) in known:
                raise BadArgument(REPETITION, repetition, "must be there once for each combination of levels")
            known[repetition, place] = figure
    whole = [block for block in next(iter(cells.values())) if all(block in known for known in cells.values())]
    if not whole:
        raise BadArgument(REPETITION, list(dict.fromkeys(repetitions)), NONE_WHOLE)
    ordered = sorted(cells, key=lambda cell: cell[::-1])
    left_out = sum(len(known) - len(whole) for known in cells.values())
    return np.array(ordered), np.array([[cells[cell][block] for block in whole] for cell in ordered]), left_out


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _print(effects: Effects, columns: list[str], levels: dict[str, str]) -> None:
    out = console()
    factors = ", ".join(f"{name}{f' ({said})' if said else ''}" for name, said in levels.items())
    out.print(f"response {', '.join(columns)}; factors {factors}; transform {effects.transform}")
    lines = []
    for name, q in effects.effects.items():
        interval = effects.intervals.get(name)
        known = (number(interval.low), number(interval.high)) if interval else ("-", "-")
        verdict = ("yes" if effects.significant[name] else "no") if interval else "?"
        share = f"{100 * effects.variation[name]:.2f}" if name != "I" else ""
        aliased = ", ".join(effects.aliases.get(name, ()))
        lines.append((name, number(q), *known, verdict if name != "I" else "", share, aliased))
    rest = {name: effects.variation[name] for name in OTHER_SHARES if name in effects.variation}
    told = effects.degrees_of_freedom > 0
    lines += [(name, "", "", "", "", f"{100 * share:.2f}" if told else "?", "") for name, share in rest.items()]
    ends = f"{effects.confidence:.0%} low", f"{effects.confidence:.0%} high"
    head = ("effect", "q", *ends, "differs from 0", "variation %", "aliased with")
    out.print(table("", head if effects.aliases else head[:-1], lines if effects.aliases else [x[:-1] for x in lines]))
    if told:
        out.print(
            f"each interval holds by itself: of effects that do nothing, one in {1 / (1 - effects.confidence):.3g} "
            "differs from 0 all the same"
        )
    for note in effects.notes:
        out.print(f"note: {note}")
    out.print(f"model: {effects.advice}")
    out.print("q is half of the change from the low level to the high one")


def _sign_columns(frame: pl.DataFrame) -> list[str]:
    """Returns the columns of -1 and +1, without products of other columns that a sign table also has (I, AB, A*B)."""
    found = [
        name for name in frame.columns if frame[name].null_count() == 0 and _distinct(frame[name].to_list()) <= SIGNS
    ]
    single = [name for name in found if _distinct(frame[name].to_list()) == SIGNS]

    def is_product(name: str) -> bool:
        parts = re.split(r"[:*]", name) if re.search(r"[:*]", name) else list(name)
        return len(parts) > 1 and all(part in single for part in parts)

    names = [name for name in single if not is_product(name)]
    if not names:
        raise BadArgument("FILE", frame.columns, "has no column of -1 and +1: name the factors with --factors")
    return names


def _responses(frame: pl.DataFrame, factors: list[str]) -> list[str]:
    """Returns all other columns with figures, if they are repetitions of one response; gaps are refused later.

    Those of p50_ms and p99_ms are none, though they differ by a number alone.
    """
    numeric = frame.select(pl.all().cast(pl.Float64, strict=False))
    signs = {name for name in frame.columns if _distinct(frame[name].to_list()) <= SIGNS}
    others = [n for n in frame.columns if n not in factors and n not in signs and numeric[n].count() > 0]
    stems = {re.sub(r"\d+", "#", name) for name in others}
    numbers = zip(*(map(int, re.findall(r"\d+", name)) for name in others), strict=False)
    varied = [sorted(each) for each in numbers if len(set(each)) > 1]
    if not others:
        raise BadArgument("FILE", frame.columns, "has no column of figures beside the factors")
    counted_up = any(varied == [list(range(first, first + len(others)))] for first in (0, 1))
    if len(stems) > 1 or (len(others) > 1 and not counted_up):
        raise BadArgument("FILE", others, "holds several responses: name the columns of one with --response")
    return others


def _levels(frame: pl.DataFrame, name: str) -> tuple[np.ndarray, str]:
    """Returns the signs of a column, and in words which level is low and which high, unless they are -1 and +1."""
    values = [_level(value) for value in _column(frame, name).to_list()]
    ordered = sorted(set(values), key=float if _all_numbers(values) else str)
    if len(ordered) != 2:
        raise BadArgument(
            "--factors", name, f"must have two levels, not {len(ordered)} (use posthaste_lab.factorial.general)"
        )
    low, high = (number(level) if isinstance(level, float) else level for level in ordered)
    said = "" if set(ordered) == SIGNS else f"{low} is low, {high} is high"
    return np.array([1 if value == ordered[1] else -1 for value in values]), said


def _level(text: str | None) -> float | str:
    """Returns a level as a number if it is one, so that 1, +1 and 1.0 are the same; else as text."""
    try:
        value = float(text or "")
    except ValueError:
        return str(text)
    return str(text) if math.isnan(value) else value


def _distinct(values: list[str | None]) -> set[float | str]:
    return {_level(value) for value in values}


def _all_numbers(values: list[float | str]) -> bool:
    return all(isinstance(value, float) for value in values)


def _figures(frame: pl.DataFrame, name: str) -> np.ndarray:
    column = _column(frame, name)
    figures = column.cast(pl.Float64, strict=False)
    if figures.null_count():
        row = figures.is_null().arg_max() or 0
        held = f"holds {column[row]!r}" if column[row] else "holds nothing"
        raise BadArgument("--response", name, f"must be a figure in every row, and row {row + 1} {held}")
    return figures.to_numpy()


def _column(frame: pl.DataFrame, name: str) -> pl.Series:
    if name not in frame.columns:
        raise BadArgument("FILE", name, f"must be one of its columns: {', '.join(frame.columns)}")
    return frame[name]
