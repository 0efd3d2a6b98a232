"""Effects as sets of factors, and the parser of generators such as "D=ABC".

A product of sign columns is a set of factors, since a factor that occurs twice cancels. So effects multiply by
symmetric difference, which is all the algebra that fractions need.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from numbers import Real
from typing import NamedTuple, cast

from posthaste_lab.checks import count, sequence
from posthaste_lab.errors import BadArgument

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"  # without I, which is the identity
FACTORS_MAX = 20  # a million effects: more would not fit into memory


class Word(NamedTuple):
    """A product of factors (by index) with its sign."""

    factors: frozenset[int]
    sign: int = 1

    def times(self, other: "Word") -> "Word":
        """Returns the product of two words; a factor that occurs twice cancels."""
        return Word(self.factors ^ other.factors, self.sign * other.sign)


def factor_names(factors: int | Iterable[str], argument: str = "factors") -> list[str]:
    """Returns names of factors: as given, or A, B, C, … for a number. `argument` is their name in error messages."""
    if isinstance(factors, Real):  # numpy's numbers among them
        number = count(argument, cast(float, factors))
        names = list(LETTERS[:number])
    else:
        names = [str(f) for f in sequence(argument, cast(Iterable[str], factors))]
        number = len(names)
    if number > FACTORS_MAX:
        raise BadArgument(argument, factors, f"must be at most {FACTORS_MAX}")
    if not names or len(set(names)) < len(names) or "I" in names:
        raise BadArgument(argument, names, 'must be different names, at least one, none of them "I"')
    return names


def label(word: Iterable[int], names: Sequence[str]) -> str:
    """Returns the name of an effect: I, A, A:B."""
    return ":".join(names[i] for i in sorted(word)) or "I"


def all_effects(k: int) -> list[frozenset[int]]:
    """Returns all 2^k effects: the mean, main effects, interactions of two, of three, and so on."""
    return [frozenset(chosen) for size in range(k + 1) for chosen in combinations(range(k), size)]


def generators_of(generators: Iterable[str] | None) -> list[str]:
    """Returns generators as a list. Raises BadArgument unless all of them are texts."""
    texts = sequence("generators", () if generators is None else generators)
    for text in texts:
        if not isinstance(text, str):
            raise BadArgument("generators", text, 'must look like "D=ABC"')
    return texts


def with_generated(names: Sequence[str], generators: Iterable[str]) -> list[str]:
    """Returns the factors followed by those that only a generator names, such as D for A, B, C and "D=ABC".

    A product of factors, such as AB, is the name of none.
    """
    known = {*names, *LETTERS[: len(names)]}
    made = [text.partition("=")[0].strip() for text in generators]
    further = [name for name in made if not set(_parts(name, names)) <= known]
    return [*names, *dict.fromkeys(further)]


def parse_generators(generators: Iterable[str], names: Sequence[str]) -> dict[int, Word]:
    """Returns the words of generators, by the index of the factor that each defines.

    They read "D=ABC", "D=-ABC", or "disk=cpu:memory" with longer names, which the letters A, B, C, … (without I) may
    replace by position.
    """
    result: dict[int, Word] = {}
    for text in generators:
        match = re.fullmatch(r"\s*(\S+)\s*=\s*([+-]?)\s*(\S+)\s*", text)
        if not match:
            raise BadArgument("generators", text, 'must look like "D=ABC"')
        made, sign, product = match.groups()
        target, *others = _indices(made, names, text)
        word = frozenset(_indices(product, names, text))
        if others or target in result or target in word or len(word) < 2:
            raise BadArgument("generators", text, "must define another factor as the product of at least two others")
        result[target] = Word(word, -1 if sign == "-" else 1)
    for target, product_of in result.items():
        if product_of.factors & set(result):
            raise BadArgument("generators", label([target], names), "must be made of factors that no generator defines")
    return result


def _parts(text: str, names: Sequence[str]) -> list[str]:
    """Returns the names of which a text is a product, joined by colons or stars, or letter by letter."""
    if text in names:
        return [text]
    parts = re.split(r"[:*]", text)
    return parts if len(parts) > 1 else list(text)


def _indices(text: str, names: Sequence[str], generator: str) -> list[int]:
    found = []
    for part in _parts(text, names):
        if part in names:
            found.append(list(names).index(part))
        elif part in LETTERS[: len(names)] and len(part) == 1:
            found.append(LETTERS.index(part))
        else:
            raise BadArgument("generators", generator, f"names {part!r}, which is none of {', '.join(names)}")
    if len(set(found)) < len(found) or (text not in names and "=" in text):
        raise BadArgument("generators", generator, "must name each factor once")
    return found
