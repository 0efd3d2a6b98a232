//! Which requests are due: the first ones, those of clients whose think time is over, and the arrivals of an open loop.

use std::cmp::Reverse;

use mio::Token;

use super::{Phase, RunContext, Worker};
use crate::dialogue::Dialogue;
use crate::pace::ThinkEnd;

/// Largest number of arrivals handed out in one turn, so that a turn ends even at a rate that cannot be reached.
const ARRIVALS_MAX: usize = 65_536;

impl<D: Dialogue> Worker<'_, D> {
    /// Sends the first requests: each client's at once and in one write, like all later ones; with think times, after
    /// pauses.
    pub(super) fn begin(&mut self, pipeline: usize) {
        let now = self.context.clock.now();
        if self.arrivals.is_some() {
            return;
        }
        let RunContext { think, seed, .. } = self.context;
        if think.is_none() {
            self.begin_late(now, self.connections.len() * pipeline);
            (0..self.connections.len()).for_each(|i| self.send(i, pipeline, now, now));
            return;
        }
        let first = think.first(self.share, pipeline, seed, &mut self.think_rng);
        self.think_ends.extend(first.into_iter().map(|end| Reverse(ThinkEnd { at: now + end.at, ..end })));
        self.wake(now);
    }

    /// Sends the requests of clients whose think time is over, and those that have arrived.
    pub(super) fn wake(&mut self, now: u64) {
        while let Some(&Reverse(end)) = self.think_ends.peek()
            && end.at <= now
        {
            self.think_ends.pop();
            self.send(end.client, 1, end.at, now);
        }
        for _ in 0..ARRIVALS_MAX {
            let Some(arrivals) = self.arrivals.as_mut().filter(|arrivals| arrivals.next() <= now) else {
                break;
            };
            let at = arrivals.next();
            arrivals.advance();
            let i = self.next_in_turn();
            self.connections[i].client.arrival(at);
            self.send(i, 1, at, now);
            if self.connections[i].client.behind() > self.context.behind_max {
                self.context.halt.overrun();
                break;
            }
        }
    }

    /// Sends up to `requests` of a client that were due at `due`, as far as it is free.
    pub(super) fn send(&mut self, i: usize, requests: usize, due: u64, now: u64) {
        if let Some(watch) = &mut self.instruments.watch {
            watch.read_clock();
        }
        let connection = &mut self.connections[i];
        if connection.issue(requests, now, &mut self.instruments) {
            self.last_activity = self.last_activity.max(now);
            if self.phase == Phase::Measure {
                self.measurement.late.saturating_record(now.saturating_sub(due).max(1));
            }
            connection.flush(self.poll.registry(), Token(i));
        }
    }

    /// Returns the client of the next arrival: they take turns, and a broken one is skipped while there is another.
    fn next_in_turn(&mut self) -> usize {
        for _ in 0..self.connections.len() {
            self.last_client = (self.last_client + 1) % self.connections.len();
            if self.connections[self.last_client].broken.is_none() {
                break;
            }
        }
        self.last_client
    }
}
