//! The results of a thread of clients, collected when its loop has ended.

use hdrhistogram::Histogram;

use super::{Mark, Phase, Worker};
use crate::cpu::{CpuReading, CpuTime};
use crate::dialogue::Dialogue;
use crate::pace::ThinkTimes;
use crate::tally::Tally;

/// The results of one thread.
#[derive(Debug)]
pub(crate) struct ThreadResults<D: Dialogue> {
    /// What was counted in the window.
    pub(crate) tally: Tally,
    /// Processor time in the window.
    pub(crate) cpu: CpuTime,
    /// Length of the window as this thread saw it, in seconds, and its end.
    pub(crate) window_s: f64,
    pub(crate) window_end: u64,
    /// The longest turn in the window, in nanoseconds: how late an answer may have been read.
    pub(crate) turn_max: u64,
    /// How late requests were sent, in nanoseconds, although their client was free.
    pub(crate) late: Histogram<u64>,
    /// Think times drawn in the window.
    pub(crate) think_times: ThinkTimes,
    /// Requests of an open loop that were due and not sent at the end of the window.
    pub(crate) behind: usize,
    /// Requests of an open loop that were due in the window to clients that were all lost by then.
    pub(crate) without_client: u64,
    /// How long requests had waited at the end of the window that were not answered by then, whether they were sent or
    /// not; in nanoseconds.
    pub(crate) waiting: Histogram<u64>,
    /// Time that requests spent in the window and that is in no response time, less the time before the window that
    /// response times hold; in nanoseconds, of all clients together.
    pub(crate) edges_ns: i64,
    /// Connections that ended early; None if none did.
    pub(crate) lost: Option<LostConnections>,
    /// Requests never answered.
    pub(crate) unanswered: usize,
    /// The dialogues of the clients.
    pub(crate) dialogues: Vec<D>,
    /// What the clients shared.
    pub(crate) shared: D::Shared,
}

/// The connections of a thread that ended early.
#[derive(Debug)]
pub(crate) struct LostConnections {
    pub(crate) count: usize,
    /// Why the first one ended.
    pub(crate) first_reason: String,
}

impl<D: Dialogue> Worker<'_, D> {
    /// Returns the number of requests that are due in the window and find no client any more.
    fn without_client(&self) -> u64 {
        let window = self.context.schedule.window;
        let Some(arrivals) = self.arrivals.as_ref().filter(|_| window.end < u64::MAX) else { return 0 };
        let due: usize = self.connections.iter().map(|c| c.client.behind()).sum();
        due as u64 + arrivals.expected(window.start, window.end)
    }

    /// Collects the results when all is answered, or given up.
    pub(super) fn into_results(mut self) -> ThreadResults<D> {
        let mut unanswered = 0;
        let without_client = if self.phase <= Phase::Measure { self.without_client() } else { 0 };
        for connection in &mut self.connections {
            unanswered += connection.client.abandon(&mut self.instruments);
        }
        self.end_turn();
        // All clients are done, or lost, before the window's end.
        if self.phase <= Phase::Measure {
            self.end = Mark { now: self.context.clock.now(), cpu: CpuReading::of_this_thread() };
        }
        if self.phase == Phase::WarmUp {
            self.start = self.end;
        }
        let mut reasons = self.connections.iter().filter_map(|c| c.broken.as_ref());
        let lost = reasons.next().cloned();
        let lost = lost.map(|first_reason| LostConnections { count: 1 + reasons.count(), first_reason });
        ThreadResults {
            dialogues: self.connections.into_iter().map(|c| c.client.into_dialogue()).collect(),
            shared: self.instruments.shared,
            cpu: self.end.cpu - self.start.cpu,
            window_s: self.end.now.saturating_sub(self.start.now) as f64 * 1e-9,
            window_end: self.end.now,
            turn_max: self.turn_max,
            late: self.late,
            think_times: self.think_times,
            behind: self.behind,
            without_client,
            waiting: self.waiting,
            edges_ns: self.edges_ns,
            tally: self.instruments.tally,
            lost,
            unanswered,
        }
    }
}
