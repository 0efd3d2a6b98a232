"""Visit ratios: how often a request visits each station, from the routing probabilities.

The traffic equations say that requests enter a station from other stations or from outside: v = e + v P.
Jain, section 33.2; Bolch et al., 2nd ed., chapter 7.
"""

from collections.abc import Sequence

import numpy as np

from posthaste_lab.checks import FloatArray, figures
from posthaste_lab.errors import BadArgument

ROUNDING = 1e-9
VISITS_MOST = 1e12  # visits of one request: more can only be the result of a rounding error


def visit_ratios(
    routing: Sequence[Sequence[float]] | FloatArray, external: Sequence[float] | FloatArray | None = None
) -> FloatArray:
    """Visits to each station per request.

    `routing[i][j]` is the probability of going from station i to j. Without `external` the network is closed: every
    row adds up to 1 and a request is counted at the first station, so its ratio is 1. With `external`, arrivals
    per second from outside at each station, rows may add up to less (the rest leaves), and ratios are per request
    that arrives; times the total arrival rate they are each station's throughput.

    Both solve v = e + v P: Jain, section 33.2; Bolch et al., 2nd ed., chapter 7.

    Raises BadArgument for impossible probabilities, for rows of a closed network that do not add up to 1, and for an
    open network that some requests would never leave.
    """
    matrix = figures("routing", routing)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise BadArgument("routing", matrix.shape, "must be a square table")
    if np.any(~np.isfinite(matrix)) or np.any(matrix < 0):
        raise BadArgument("routing", matrix.tolist(), "must hold probabilities")
    sums = matrix.sum(axis=1)
    return _closed(matrix, sums) if external is None else _open(matrix, sums, external)


def _closed(matrix: FloatArray, sums: FloatArray) -> FloatArray:
    for row, total in enumerate(sums):
        if abs(total - 1) > ROUNDING:
            raise BadArgument(
                "routing",
                matrix[row].tolist(),
                f"row {row} adds up to {total:.6g}; a closed network keeps all: 1",
            )
    # One equation follows from the others and is replaced by v[0] = 1.
    equations = matrix.T - np.eye(len(matrix))
    equations[0] = 0
    equations[0, 0] = 1
    right = np.zeros(len(matrix))
    right[0] = 1
    visits = _solved(equations, right, matrix, "has a part that is never left, or stations that never meet")
    # With rounded probabilities a part of the network that is never left seems to be left once in 10^16 times.
    if np.any(visits < -ROUNDING) or np.any(visits > VISITS_MOST):
        raise BadArgument("routing", matrix.tolist(), "must lead back to the first station from wherever it leads")
    return np.maximum(visits, 0.0)


def _open(matrix: FloatArray, sums: FloatArray, external: Sequence[float] | FloatArray) -> FloatArray:
    arrivals = figures("external", external)
    if arrivals.shape != sums.shape or np.any(~np.isfinite(arrivals)) or np.any(arrivals < 0) or arrivals.sum() == 0:
        raise BadArgument("external", arrivals.tolist(), f"must be {len(sums)} rates, not negative, not all 0")
    for row, total in enumerate(sums):
        if total > 1 + ROUNDING:
            raise BadArgument("routing", matrix[row].tolist(), f"row {row} adds up to {total:.6g}, which is above 1")
    reasons = "keeps some requests for ever; an open network must be left"
    visits = _solved(np.eye(len(matrix)) - matrix.T, arrivals / arrivals.sum(), matrix, reasons)
    if np.any(visits < -ROUNDING) or np.any(visits > VISITS_MOST):
        raise BadArgument("routing", matrix.tolist(), reasons)
    return np.maximum(visits, 0.0)


def _solved(equations: FloatArray, right: FloatArray, matrix: FloatArray, reason: str) -> FloatArray:
    try:
        return np.asarray(np.linalg.solve(equations, right))
    except np.linalg.LinAlgError:
        raise BadArgument("routing", matrix.tolist(), reason) from None
