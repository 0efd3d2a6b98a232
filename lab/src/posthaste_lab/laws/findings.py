"""What an audit finds: something impossible or doubtful, and how sure that is."""

from typing import Literal, NamedTuple

Severity = Literal["error", "warning"]
Found = list[tuple[str, Severity, str]]  # of a row or a table: laws, severities and messages


class Finding(NamedTuple):
    """Something impossible or doubtful in a table. `row` counts from 0; None means the table as a whole.

    An "error" contradicts a law; a "warning" may have an innocent explanation, which the message names.
    """

    row: int | None
    law: str
    severity: Severity
    message: str
