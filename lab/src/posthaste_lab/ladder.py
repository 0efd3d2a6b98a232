"""The round numbers at which figures are shown over many decades, such as 1, 2, 5, 10, 20, 50."""

DIGITS = (1, 2, 5)


def ladder(least: int, most: int) -> list[int]:
    """Returns `least`, the round numbers between the two, and `most`."""
    steps = (digit * 10**power for power in range(len(str(most))) for digit in DIGITS)
    return sorted({least, most, *(step for step in steps if least < step < most)})


def decades(first: int, last: int) -> list[float]:
    """Returns the round numbers from 10^first up to below 10^last."""
    return [digit * 10.0**power for power in range(first, last) for digit in DIGITS]
