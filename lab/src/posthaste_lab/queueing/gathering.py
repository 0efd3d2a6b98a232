"""Waiting for those who are about to come back, before a batch that has a high price of its own.

A server that takes all who wait splits clients who come back at once in two crowds, which take turns for ever: each of
them waits for two batches of half the size. One that waits a moment for those it has just answered has them all in
one. How many of them come back in that moment is learnt from the batches before; where nobody does, nobody is waited
for.

So the queue tier does over PostgreSQL. Its rule (`crates/server/src/path/gathering.rs`) is played here as it is.
"""

from dataclasses import dataclass

PART = 0.25  # of a batch's time, at most, is spent on waiting after it
CROWD_MAX = 48  # more clients are not waited for
NEWS = 0.25  # of what is believed of those who come back, what the last batch showed


@dataclass
class Gathering:
    """Who is waited for, and until when; `most` is the longest wait in seconds, and with 0 nobody is waited for."""

    most: float
    share: float = 1.0  # of those answered, who came back in that moment: a moving average
    answered: int = 0
    came: int = 0
    until: float = 0.0
    expected: int = 0

    def batch_ends(self, now: float, took: float, answered: int, waiting: int) -> None:
        """A batch has answered so many, while others wait."""
        if self.answered:
            self.share += (min(self.came, self.answered) / self.answered - self.share) * NEWS
        self.answered, self.came = answered, 0
        self.until = now + min(took * PART, self.most)
        expected = waiting + round(answered * self.share)
        self.expected = expected if expected <= CROWD_MAX else 0

    def comes(self, now: float) -> None:
        """One more waits."""
        self.came += now < self.until

    def is_worth(self, now: float, waiting: int) -> bool:
        """Whether a server that is free waits for more than these."""
        return waiting < self.expected and now < self.until
