"""The errors of the package, as a tree.

    ValueError
    └── BadArgument          an argument without an answer; names it, its value, and the rule
        ├── BadFile          a file that is not as our programs leave it
        └── UnstableQueue    more work arrives than can be done, so that every mean is infinite
    ArithmeticError
    └── NumericalError       a solver's result failed its own checks: a defect of the solver, which is not returned

Impossible input is never clipped, guessed or turned into NaN: it raises.
"""


class BadArgument(ValueError):  # noqa: N818 - read aloud, it is one
    """Raised for an impossible argument. `argument`, `value` and `rule` hold the parts of the message, for programs."""

    def __init__(self, argument: str, value: object, rule: str) -> None:
        """Makes the message from the argument's name, its value, and the rule that it breaks."""
        super().__init__(f"{argument} = {value!r}: {rule}")
        self.argument = argument
        self.value = value
        self.rule = rule


class BadFile(BadArgument):
    """Raised for a file that is not as our programs leave it."""


class UnstableQueue(BadArgument):
    """Raised when work arrives faster than it is served: the queue grows for ever and no mean exists."""

    def __init__(self, argument: str, value: object, utilization: float) -> None:
        """Makes the message from the argument that is too high, and the utilization that it would need."""
        super().__init__(
            argument,
            value,
            f"needs a utilization of {utilization:.6g} per server, and a line that never empties has no means; "
            "it must be below 1 (a closed system is never unstable: see solve)",
        )
        self.utilization = utilization


class NumericalError(ArithmeticError):
    """Raised when a solution fails the checks that every solution must pass; please report it with its input."""
