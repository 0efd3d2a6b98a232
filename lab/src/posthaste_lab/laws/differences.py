"""Checks the differences that a table prints between a measured response time and the law's.

A difference may have either sign, and a share of it may be of the measured figure or of the law's, whichever is larger:
reports do both.
"""

import re

from posthaste_lab.laws.findings import Found
from posthaste_lab.laws.reading import SECONDS, Row, Run, number_of, plain, rounding

DIFFERENCE = re.compile(r"(abs_|absolute_|rel_|relative_)?(difference|diff)_(?P<unit>pct|s|ms|us|ns)$")
OFF, OFF_LEAST = 0.05, 1e-3  # shares, of the difference and of the response time, that rounding may have left


def printed_differences(row: Row, run: Run) -> Found:
    """Finds differences that are not those of the two response times beside them."""
    if not {"response_time", "law_response"} <= run.keys():
        return []
    measured, law = run["response_time"], run["law_response"]
    if measured.value <= 0 or law.value <= 0:
        return []
    apart, half = abs(measured.value - law.value), measured.half + law.half
    found: Found = []
    for column, figure in row.items():
        match, printed = DIFFERENCE.match(plain(str(column))), number_of(figure)
        if match is None or printed is None:
            continue
        unit = match["unit"]
        bases = (measured.value, law.value) if unit == "pct" else (1.0,)
        size = 0.01 if unit == "pct" else SECONDS[unit]
        own = rounding(figure) * size if isinstance(figure, str) else 0.0
        slack = OFF * apart + OFF_LEAST * max(measured.value, law.value) + half
        if all(abs(abs(printed) * size - apart / base) > slack / base + own for base in bases):
            right = " or ".join(dict.fromkeys(f"{apart / base / size:.4g}" for base in bases))
            text = f"{column} is {printed:g}, and between {measured.column} {measured.printed:g} and {law.column}"
            found.append(("difference", "error", f"{text} {law.printed:g} it is {right}"))
    return found
