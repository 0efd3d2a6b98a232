"""What can go wrong, drawn as a tree.

    ValueError
    └── BadArgument          an argument that no answer exists for; names it, its value, and the rule
        ├── BadFile          a file that is not as our programs leave it
        └── UnstableQueue    more work arrives than can be done, so that every mean is infinite
    ArithmeticError
    └── NumericalError       a solver's own checks failed: a defect here, never a wrong answer out there

Nothing is clipped, guessed or turned into NaN: a model fed with the impossible says so.
"""


class BadArgument(ValueError):  # noqa: N818 - read aloud, it is one
    """An argument that cannot be. `argument` and `value` say which, for programs."""

    def __init__(self, argument: str, value: object, rule: str) -> None:
        """Say which argument has which value, and what it has to be."""
        super().__init__(f"{argument} = {value!r}: {rule}")
        self.argument = argument
        self.value = value
        self.rule = rule


class BadFile(BadArgument):
    """A file that is not as our programs leave it."""


class UnstableQueue(BadArgument):
    """Work arrives faster than it is served, so the line grows for ever and no mean exists."""

    def __init__(self, argument: str, value: object, utilization: float) -> None:
        """Say which argument asks too much, and what utilization it would need."""
        super().__init__(
            argument,
            value,
            f"needs a utilization of {utilization:.6g} per server, and a line that never empties has no means; "
            "it must be below 1 (a closed system is never unstable: see solve)",
        )
        self.utilization = utilization


class NumericalError(ArithmeticError):
    """A solution failed the checks that every solution must pass; please report it with its input."""
