"""Effects that a fractional design cannot tell apart: aliases, defining relation, resolution.

They are found by the algebra of words, and again by comparing columns of the sign table. The two ways share no code,
and a difference is an error: libraries have printed wrong resolutions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from posthaste_lab.checks import count
from posthaste_lab.errors import BadArgument, NumericalError
from posthaste_lab.factorial.design import design
from posthaste_lab.factorial.words import (
    Word,
    all_effects,
    factor_names,
    generators_of,
    label,
    parse_generators,
    with_generated,
)

FACTORS_MAX = 14  # 16,384 effects by brute force in well under a second


@dataclass(frozen=True)
class Aliases:
    """The alias structure of a 2^(k-p) design.

    `defining_relation` holds the words that equal I, shortest first, with "-" where they equal -I; `resolution` is
    the length of the shortest (0 for a full design, which has none). `sets` maps the simplest effect of each set to
    all effects aliased with it; "-" before an effect says that it is subtracted instead of added.
    """

    factors: tuple[str, ...]
    runs: int
    resolution: int
    defining_relation: tuple[str, ...]
    sets: dict[str, tuple[str, ...]]

    def of(self, effect: str) -> tuple[str, ...]:
        """Returns the other effects with which one is aliased, with "-" before those of opposite sign."""
        wanted = effect.removeprefix("-")
        for members in self.sets.values():
            signs = {member.removeprefix("-"): -1 if member.startswith("-") else 1 for member in members}
            if wanted in signs:
                own = signs.pop(wanted) * (-1 if effect.startswith("-") else 1)
                return tuple(name if sign == own else f"-{name}" for name, sign in signs.items())
        raise BadArgument("effect", effect, f"must be made of {', '.join(self.factors)}")


def aliases(k: int | Iterable[str], generators: Iterable[str] = ()) -> Aliases:
    """Returns the aliases of a design of `k` factors in all (or the named ones) with the given generators.

    Box, Hunter and Hunter, Statistics for Experimenters, on fractional designs; Jain (1991), chapter 19. Resolution
    III mixes main effects with interactions of two factors, IV two-factor interactions among themselves, V neither.
    Raises BadArgument for generators that cannot be understood.
    """
    generators = generators_of(generators)
    names = with_generated(factor_names(k, "k"), generators)
    if count("k", len(names)) > FACTORS_MAX:
        raise BadArgument("k", len(names), f"must be at most {FACTORS_MAX}")
    words = [word.times(Word(frozenset([i]))) for i, word in parse_generators(generators, names).items()]
    relation = [_product(chosen) for size in range(1, len(words) + 1) for chosen in combinations(words, size)]
    sets = _by_algebra(relation, len(names))
    _must_match_the_columns(sets, design(names, generators=generators))
    relation.sort(key=lambda word: (len(word.factors), sorted(word.factors)))
    return Aliases(
        factors=tuple(names),
        runs=2 ** (len(names) - len(words)),
        resolution=len(relation[0].factors) if relation else 0,
        defining_relation=tuple(_written(word, names) for word in relation),
        sets={_written(members[0], names): tuple(_written(m, names) for m in members) for members in sets},
    )


def _product(words: Iterable[Word]) -> Word:
    result = Word(frozenset())
    for word in words:
        result = result.times(word)
    return result


def _written(word: Word, names: list[str]) -> str:
    return ("-" if word.sign < 0 else "") + label(word.factors, names)


def _by_algebra(relation: list[Word], k: int) -> list[list[Word]]:
    seen: set[frozenset[int]] = set()
    sets = []
    for effect in all_effects(k):
        if effect not in seen:
            members = [Word(effect), *(word.times(Word(effect)) for word in relation)]
            members.sort(key=lambda word: (len(word.factors), sorted(word.factors)))
            seen.update(word.factors for word in members)
            sets.append(members)
    return sets


def _must_match_the_columns(sets: list[list[Word]], signs: np.ndarray) -> None:
    """Raises NumericalError unless columns are equal within each set, up to the sign, and differ between sets."""
    columns = set()
    for members in sets:
        first = signs[:, sorted(members[0].factors)].prod(axis=1)
        for member in members:
            if not np.array_equal(signs[:, sorted(member.factors)].prod(axis=1) * member.sign, first):
                raise NumericalError(f"the algebra of {members} does not match the sign table")
        columns.add((first * first[0]).tobytes())
    if len(columns) != len(sets):
        raise NumericalError("two sets of aliases have the same column")
