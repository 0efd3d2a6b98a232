"""The errors of experiment files and of runs."""

import difflib
from collections.abc import Iterable


class BadExperiment(ValueError):  # noqa: N818 - read aloud, it is one
    """Raised for an experiment that cannot be run. Each of `problems` names a key of `where`, its value and a rule."""

    def __init__(self, where: str, problems: Iterable[str]) -> None:
        """Makes the message from all problems in the file `where`."""
        self.where, self.problems = where, list(problems)
        super().__init__("; ".join(f"{where}: {problem}" for problem in self.problems))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown word: the most similar known one, if any is similar."""
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class RunFailed(RuntimeError):  # noqa: N818 - read aloud, it is one
    """Raised when a run, or one of its trials, fails; the message names the part and what it reported."""


class UsedWrongly(RunFailed):
    """Raised when a part refuses its options: it would refuse them again, so repeating is useless."""
