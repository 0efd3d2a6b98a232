"""Designs with two levels: the combinations to run, and their order."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from posthaste_lab.checks import FloatArray, bounded, count, figures
from posthaste_lab.errors import BadArgument
from posthaste_lab.factorial.words import factor_names, generators_of, parse_generators, with_generated

Signs = npt.NDArray[np.int64]

RUNS_MAX = 10_000_000  # rows of a design, 8 bytes for each factor


def design(
    factors: int | Iterable[str],
    replications: int = 1,
    generators: Iterable[str] | None = None,
    seed: int | None = None,
) -> Signs:
    """Rows of -1/+1, a column for each factor: every run of a 2^k or, with generators, a 2^(k-p) design.

    In standard order the first factor changes fastest. Replications follow as further blocks of the same rows. With a
    `seed`, all runs are shuffled, as they should be run: drift in time then affects every level alike. The same seed
    gives the same order. `generators` define factors by others, as in ["D=ABC"], listed or not; `aliases` says which
    effects that mixes up. `collect` brings responses back into standard order.

    Raises BadArgument for generators that cannot be understood or leave no base, and for more than 10,000,000 runs.
    """
    relations = generators_of(generators)
    names = with_generated(factor_names(factors), relations)
    made = parse_generators(relations, names)
    base = [i for i in range(len(names)) if i not in made]
    if not base:
        raise BadArgument("generators", relations, "must leave factors to generate from")
    runs = np.arange(2 ** len(base))
    signs = np.empty((len(runs), len(names)), dtype=np.int64)
    for place, factor in enumerate(base):
        signs[:, factor] = 2 * (runs >> place & 1) - 1
    for factor, word in made.items():
        signs[:, factor] = word.sign * signs[:, sorted(word.factors)].prod(axis=1)
    most = max(1, RUNS_MAX // len(runs))
    rows = np.tile(signs, (bounded("replications", replications, most, "fewer runs tell the effects as well"), 1))
    return rows if seed is None else np.random.default_rng(count("seed", seed, least=0)).permutation(rows)


def collect(rows: Sequence[Sequence[int]] | Signs, responses: Sequence[float] | FloatArray) -> tuple[Signs, FloatArray]:
    """Returns runs in any order as `analyze` takes them: each cell once, in standard order, with its row of responses.

    Raises BadArgument when some cell was run more often than another: the sign table is for balanced data (use
    `general` for other data).
    """
    given, values = figures("rows", rows), figures("responses", responses)
    if not np.isin(given, (-1, 1)).all():
        raise BadArgument("rows", np.setdiff1d(given, (-1, 1)).tolist(), "must hold -1 and +1 only")
    table = given.astype(np.int64)
    if table.ndim != 2 or len(table) != len(values) or values.ndim != 1:
        raise BadArgument("responses", values.shape, f"must hold one figure for each of the {len(table)} rows")
    cells: dict[tuple[int, ...], list[float]] = {}
    for row, value in zip(table.tolist(), values.tolist(), strict=True):
        cells.setdefault(tuple(row), []).append(value)
    counts = {len(repeated) for repeated in cells.values()}
    if len(counts) > 1:
        few = min(cells, key=lambda cell: len(cells[cell]))
        raise BadArgument(
            "rows",
            few,
            f"was run {min(counts)} times and another cell {max(counts)}; analyze them with general()",
        )
    ordered = sorted(cells, key=lambda cell: cell[::-1])
    return np.array(ordered, dtype=np.int64), np.array([cells[cell] for cell in ordered])
