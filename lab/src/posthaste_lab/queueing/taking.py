"""When a server that is free takes what waits.

At once, in the books. The queue tier has two rules more, which are played here as they are (`path/gathering.rs` and
`path/waiting_line.rs` in `crates/server/src`):

A server that takes all who wait splits clients who come back at once in two crowds, which take turns for ever: each of
them waits for two batches of half the size. Where a batch has a high price of its own, a server waits a moment for
those it has just answered. How many of them come back in that moment is learnt from the batches before; where nobody
does, nobody is waited for.

One server does the work, and the others are its reserve. Were they to take what comes while it works, they would cut
one large batch into many small ones. So they take only if a whole batch waits, or the first of those who wait has
waited for long.
"""

from dataclasses import dataclass

PART = 0.25  # of a batch's time, at most, is spent on waiting after it
CROWD_MAX = 48  # more clients are not waited for
NEWS = 0.25  # of what is believed of those who come back, what the last batch showed


@dataclass
class Taking:
    """What is known of those who wait and of those who may come back.

    `limit`: requests in a batch, at most. `gather_time`: nobody who may come back is waited for longer, in seconds.
    `reserve_after`: a request is taken while another server works when it has waited for so long, in seconds, times the
    servers that work.
    """

    limit: int
    gather_time: float = 0.0
    reserve_after: float = 0.0
    since: float = 0.0  # when the first of those who wait came
    share: float = 1.0  # of those answered, who came back in that moment: a moving average
    answered: int = 0
    came: int = 0
    until: float = 0.0
    expected: int = 0

    def comes(self, now: float, waiting: int) -> None:
        """One more waits beside so many."""
        if not waiting:
            self.since = now
        self.came += now < self.until

    def batch_begins(self, now: float) -> None:
        """Whoever was left over waits anew, as the tier has it."""
        self.since = now

    def batch_ends(self, now: float, took: float, answered: int, waiting: int) -> None:
        """A batch has answered so many, while others wait."""
        if self.answered:
            self.share += (min(self.came, self.answered) / self.answered - self.share) * NEWS
        self.answered, self.came = answered, 0
        self.until = now + min(took * PART, self.gather_time)
        expected = waiting + round(answered * self.share)
        self.expected = expected if expected <= CROWD_MAX else 0

    def takes_at(self, now: float, waiting: int, working: int) -> float:
        """When a free server takes these if nothing else happens, while so many others work."""
        if waiting >= self.limit:
            return now
        if working:
            return max(now, self.since + self.reserve_after * working)
        return max(now, self.until) if waiting < self.expected else now
