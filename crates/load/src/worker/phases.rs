//! The phases of a run as a thread goes through them, and what counts at the edges of the measured window.
//!
//! An answer counts by when it is read, so some requests lie across an edge. For each of them it is noted how long it has
//! waited at the edge: at the start before an answer of the same turn is read, since that is measured already; at the end
//! after requests that were due by then are sent, and before an answer is read, since that is in no figure any more.

use std::cmp::Reverse;

use super::{FINISH_MAX, Worker};
use crate::connection::Connection;
use crate::dialogue::Dialogue;
use crate::pace::ThinkEnd;
use crate::progress::Live;
use crate::timespan::nanos;

/// The phase of the run that a worker is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    WarmUp,
    Measure,
    CoolDown,
    Finish,
}

impl<D: Dialogue> Worker<'_, D> {
    /// Moves to the phase that `now` lies in; returns whether every client is done.
    pub(super) fn advance(&mut self, now: u64) -> bool {
        let schedule = self.context.schedule;
        if self.phase == Phase::WarmUp && now >= schedule.window.start {
            self.phase = Phase::Measure;
            self.measurement.begin(now, waited(&self.connections, schedule.window.start));
        }
        if self.phase == Phase::Measure && now >= schedule.window.end {
            self.phase = Phase::CoolDown;
            let behind = self.connections.iter().map(|c| c.client.behind()).sum();
            self.measurement.end(now, waited(&self.connections, schedule.window.end), behind);
            self.count_unsent(schedule.window.end);
        }
        if self.phase == Phase::CoolDown && now >= schedule.stop {
            self.phase = Phase::Finish;
            self.stop(now);
        }
        if now >= self.next_live
            && let (Some(live), Some(figures)) = (self.context.live, &mut self.instruments.tally.live)
        {
            live.take(figures);
            self.next_live = now + Live::PERIOD_NANOS;
        }
        self.connections.iter().all(Connection::is_done)
    }

    /// Crosses an edge of the window that lies before `woke`, when this turn's answers are not read yet.
    pub(super) fn cross_edges(&mut self, woke: u64) {
        let window = self.context.schedule.window;
        if self.phase == Phase::Measure && woke >= window.end {
            self.wake(woke);
            self.advance(woke);
        } else if self.phase == Phase::WarmUp && woke >= window.start {
            self.advance(woke);
        }
    }

    /// Notes that so many requests are sent only `now`, although a window without a warm-up begins with them.
    pub(super) fn begin_late(&mut self, now: u64, requests: usize) {
        let missed = now.saturating_sub(self.context.schedule.window.start);
        self.measurement.edges_ns += (missed * requests as u64).cast_signed();
    }

    /// Ends the window before its time, if all clients are done or lost by then.
    pub(super) fn cut_short(&mut self) {
        if self.phase <= Phase::Measure {
            self.measurement.cut_short(self.context.clock.now(), self.phase == Phase::Measure);
        }
    }

    /// Ends the schedule now, if the run is to end before its time.
    pub(super) fn end_early_if_halted(&mut self, now: u64) {
        let schedule = &mut self.context.schedule;
        if self.context.halt.is_called() && schedule.stop > now {
            schedule.window.start = schedule.window.start.min(now);
            schedule.window.end = schedule.window.end.min(now);
            (schedule.stop, schedule.give_up) = (now, now.saturating_add(nanos(FINISH_MAX)));
            self.instruments.tally.end(now);
        }
    }

    /// Counts requests as waiting that were due by `end` and not even handed to a client, since a turn hands out only
    /// so many.
    fn count_unsent(&mut self, end: u64) {
        let Some(arrivals) = &self.arrivals else { return };
        self.measurement.add_unsent(arrivals.expected(0, end), end.saturating_sub(arrivals.next()));
    }

    /// Ends think times and arrivals: clients continue at once with what is half done.
    fn stop(&mut self, now: u64) {
        for connection in &mut self.connections {
            connection.client.stop();
        }
        if self.arrivals.take().is_some() {
            // A client that waits for an arrival has nothing in flight whose answer would make it continue.
            (0..self.connections.len()).for_each(|i| self.send(i, usize::MAX, now, now));
        }
        for Reverse(end) in std::mem::take(&mut self.think_ends) {
            self.think_ends.push(Reverse(ThinkEnd { at: now, ..end }));
        }
        self.wake(now);
    }
}

/// Returns how long each request that is not answered has waited at `end`, in nanoseconds.
fn waited<D: Dialogue>(connections: &[Connection<D>], end: u64) -> impl Iterator<Item = u64> {
    connections.iter().flat_map(move |one| one.client.waiting(end))
}
