"""What can be wrong with an experiment, and what can go wrong in a run."""

import difflib
from collections.abc import Iterable


class BadExperiment(ValueError):  # noqa: N818 - read aloud, it is one
    """A description that cannot be run. `problems` says of each thing wrong in `where`: key, value, rule."""

    def __init__(self, where: str, problems: Iterable[str]) -> None:
        """Say what is wrong in the file `where`."""
        self.where, self.problems = where, list(problems)
        super().__init__("; ".join(f"{where}: {problem}" for problem in self.problems))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to add to a complaint about a word that is not known: the nearest one that is, if one is near."""
    near = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class RunFailed(RuntimeError):  # noqa: N818 - read aloud, it is one
    """A run, or one trial of it, could not be done; the text says which part said what."""


class UsedWrongly(RunFailed):
    """A part refused what it was given, so it will refuse it the next time too."""
