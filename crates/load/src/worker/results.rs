//! The results of a thread of clients, collected when its loop has ended.

use super::measurement::WindowMeasurement;
use super::{Phase, Worker};
use crate::dialogue::Dialogue;
use crate::tally::Tally;

/// The results of one thread.
#[derive(Debug)]
pub(crate) struct ThreadResults<D: Dialogue> {
    /// What was counted in the window.
    pub(crate) tally: Tally,
    /// What was noted of the window beside it.
    pub(crate) measurement: WindowMeasurement,
    /// Requests of an open loop that were due in the window to clients that were all lost by then.
    pub(crate) without_client: u64,
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
        self.cut_short();
        let mut reasons = self.connections.iter().filter_map(|c| c.broken.as_ref());
        let lost = reasons.next().cloned();
        let lost = lost.map(|first_reason| LostConnections { count: 1 + reasons.count(), first_reason });
        ThreadResults {
            dialogues: self.connections.into_iter().map(|c| c.client.into_dialogue()).collect(),
            shared: self.instruments.shared,
            measurement: self.measurement,
            without_client,
            tally: self.instruments.tally,
            lost,
            unanswered,
        }
    }
}
