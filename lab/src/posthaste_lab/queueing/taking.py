"""When a free server takes the waiting requests.

In the textbooks it takes them at once. The queue tier has two more rules, which are simulated here as they are
(`path/gathering.rs` and `path/waiting_line.rs` in `crates/server/src`):

Gathering: a server that takes all waiting requests splits clients that come back at once into two groups that alternate
for ever, and each of them waits for two batches of half the size. Where a batch has a high cost of its own, a server
therefore waits a moment for the clients it has just answered. Earlier batches tell how many of them come back in that
moment; if none did, the server does not wait.

Reserve: one server does the work, and the others are its reserve. If they took requests while it works, they would cut
one large batch into many small ones. So they take only if a whole batch waits, or the first request has waited long.
"""

from dataclasses import dataclass

WAIT_SHARE = 0.25  # a server waits after a batch for at most this share of the batch's time
EXPECTED_MAX = 48  # a server does not wait if it expects more clients than this
LAST_BATCH_WEIGHT = 0.25  # weight of the last batch in the moving average of the share of clients that come back


@dataclass
class Taking:
    """State of the two rules, and what is known of waiting requests and of clients that may come back.

    `limit`: most requests in a batch. `gather_time`: longest wait for clients that may come back, in seconds.
    `reserve_after`: a request is taken while other servers work once it has waited for this time, in seconds, times the
    number of working servers.
    """

    limit: int
    gather_time: float = 0.0
    reserve_after: float = 0.0
    since: float = 0.0  # since when the first waiting request has waited
    return_share: float = 1.0  # of the clients of a batch that came back in time: a moving average
    answered: int = 0
    arrived: int = 0
    deadline: float = 0.0
    expected: int = 0

    def comes(self, now: float, waiting: int) -> None:
        """Records that a request joins `waiting` others in the line."""
        if not waiting:
            self.since = now
        self.arrived += now < self.deadline

    def batch_begins(self, now: float) -> None:
        """Records that a batch begins: as in the tier, the wait of requests left in the line is counted from now on."""
        self.since = now

    def batch_ends(self, now: float, took: float, answered: int, waiting: int) -> None:
        """Records that a batch which `took` seconds has answered `answered` requests, while `waiting` wait."""
        if self.answered:
            returned = min(self.arrived, self.answered) / self.answered
            self.return_share += (returned - self.return_share) * LAST_BATCH_WEIGHT
        self.answered, self.arrived = answered, 0
        self.deadline = now + min(took * WAIT_SHARE, self.gather_time)
        expected = waiting + round(answered * self.return_share)
        self.expected = expected if expected <= EXPECTED_MAX else 0

    def takes_at(self, now: float, waiting: int, working: int) -> float:
        """Returns when a free server takes the waiting requests if nothing else happens; `working` others are busy."""
        if waiting >= self.limit:
            return now
        if working:
            return max(now, self.since + self.reserve_after * working)
        return max(now, self.deadline) if waiting < self.expected else now
