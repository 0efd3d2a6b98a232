"""Formats figures for people: significant digits only, and suitable units."""

import math

from posthaste_lab.report.cells import Figure

MINUS = "\N{MINUS SIGN}"
PLUS_MINUS = "\N{PLUS-MINUS SIGN}"
PLACES_MAX = 6  # decimal places; numbers that would need more are written with an exponent
SHARE_LEAST = 5e-6  # smaller shares are rounding errors, and shown as 0 %
MU = "\N{GREEK SMALL LETTER MU}"


def digits(value: float, significant: int = 4) -> str:
    """Formats a number rounded to this many significant digits, with a separator of thousands."""
    if math.isnan(value):
        return "\N{EN DASH}"
    if math.isinf(value):
        return "\N{INFINITY}" if value > 0 else f"{MINUS}\N{INFINITY}"
    if value == 0:
        return "0"
    value = round(value, significant - 1 - math.floor(math.log10(abs(value))))
    places = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    written = f"{value:,.{places}f}" if places <= PLACES_MAX else f"{value:.{significant - 1}e}"
    return written.replace("-", MINUS)


def time(seconds: float, significant: int = 4) -> str:
    """Formats a time in a suitable unit."""
    factor, unit = time_unit(seconds)
    return f"{digits(seconds * factor, significant)} {unit}"


def time_unit(seconds: float) -> tuple[float, str]:
    """Returns a suitable unit for a time, and the factor from seconds to it, which comes first."""
    if math.isnan(seconds) or abs(seconds) >= 1:
        return 1.0, "s"
    return (1e3, "ms") if abs(seconds) >= 1e-3 or seconds == 0 else (1e6, f"{MU}s")


def amount(name: str, value: float, significant: int = 4) -> str:
    """Formats a value with the unit of its figure, whose name is that in trials.csv; a whole count is exact."""
    if name.endswith("_per_s"):
        return f"{digits(value, significant)} per second"
    if name.endswith("_s"):
        return time(value, significant)
    return f"{value:,.0f}".replace("-", MINUS) if value == math.floor(value) else digits(value, significant)


def stated(value: float) -> int:
    """Returns as many significant digits as a number needs that somebody chose, such as a limit; at least four."""
    return max(4, len(f"{abs(value):.12e}".partition("e")[0].replace(".", "").rstrip("0")))


def with_interval(name: str, figure: Figure) -> str:
    """Formats mean and half-width of the interval in the same unit; only the mean if there is none, or it is 0."""
    if math.isnan(figure.low) or figure.half_width == 0:
        return amount(name, figure.mean)
    known = _digits_known(figure)
    if name.endswith("_s") and not name.endswith("_per_s"):
        factor, unit = time_unit(figure.mean)
        return f"{digits(figure.mean * factor, known)} {PLUS_MINUS} {digits(figure.half_width * factor, 2)} {unit}"
    unit = " per second" if name.endswith("_per_s") else ""
    return f"{digits(figure.mean, known)} {PLUS_MINUS} {digits(figure.half_width, 2)}{unit}"


def _digits_known(figure: Figure) -> int:
    """Returns the significant digits of a mean down to the second digit of its half-width, at least four."""
    if not figure.mean or not math.isfinite(figure.half_width):
        return 4
    return max(4, 2 + math.floor(math.log10(abs(figure.mean))) - math.floor(math.log10(figure.half_width)))


def percent(share: float) -> str:
    """Formats a share as percent."""
    return "0 %" if abs(share) < SHARE_LEAST else f"{digits(100 * share, 3)} %"
