"""Which part of a trial counts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Instants:
    """The instants that count, in seconds since 1970: those of the measured time outside the spans `without`."""

    measured: tuple[float, float]
    without: tuple[tuple[float, float], ...] = ()

    def __contains__(self, instant: object) -> bool:
        """Whether this instant counts."""
        if not isinstance(instant, float) or not self.measured[0] <= instant <= self.measured[1]:
            return False
        return not any(begin <= instant < end for begin, end in self.without)
