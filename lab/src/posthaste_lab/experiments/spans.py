"""Spans of time, and numbers of things, as people write them: 500ms, 20s, 2m, 1h; 1 trial, 3 trials."""

import re

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
NO_SPAN = "must be a time with its unit, such as 500ms, 20s or 2m"


def seconds(text: str) -> float:
    """The span in seconds. Raises ValueError for what is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)", text)
    if not match:
        if text == "0":
            return 0.0
        raise ValueError(NO_SPAN)
    return float(match[1]) * SECONDS[match[2]]


def spoken(span_s: float) -> str:
    """A span for people: 12 s, 3 min 20 s, 1 h 5 min."""
    whole = round(span_s)
    if whole < 120:
        return f"{span_s:.3g} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def milliseconds(span_s: float) -> str:
    """A span as an argument of a program, to the millisecond."""
    return f"{round(span_s * 1000)}ms"


def counted(number: int, word: str) -> str:
    """So many of something: 1 trial, 3 trials."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
