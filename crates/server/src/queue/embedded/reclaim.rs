//! Gives disk space back: empties the oldest log segment and drops it.
//!
//! The oldest segment is dropped at once if nothing in it is needed. Otherwise it is swept when little of it lives,
//! or when the log has grown to more than twice what lives in it: whatever still has its home there is recorded
//! again, in its present state, at the log's end. So a few messages that stay for months keep nothing else on the
//! disk, and every live byte is written at most about once for every byte that is freed.
//!
//! The work is done in small steps, each in the commit of a batch, and goes on by itself when no requests come. A
//! step looks at twice as many bytes as the batch adds: so in a log that holds more than twice what lives in it, more
//! is freed than added, and a commit takes at most a few times as long as it would alone. Purged messages count as
//! living until they are freed (see [`discarded`](super::discarded)), which keeps the same pace.
//!
//! On a full disk a sweep writes into the last space there is, and frees some only at its end. So there it begins
//! only if it will fit, is done in one go, and requests leave some space for it (see [`Purpose`]). And it begins
//! sooner: when less than half of the oldest segment lives, or the log has one segment more than twice what lives.

use super::effect::Effect;
use super::log::{Location, LogError, Purpose, Sweep, SweepStep, Swept};
use super::record::bounds::{COUNTERS_BYTES, PRESENT_STATE_BYTES};
use super::{Embedded, RETRY_MS};
use crate::queue::EVENT_SOURCE;
use crate::queue::rules::Millis;

/// Least number of bytes of an old segment that are looked at with one commit.
const STEP_BYTES: u64 = 64 << 10;

/// Number of bytes that are looked at for every byte that the commit adds.
const PACE: u64 = 2;

/// Most bytes of memory kept for the next piece.
const BUFFER_KEPT: usize = 1 << 20;

/// Segments that the log may hold beyond twice what lives in it.
const SLACK_SEGMENTS: u64 = 4;

/// A segment is swept at once when less than one in this many of its bytes lives: that costs next to nothing, and its
/// file is used again instead of a new one being filled.
const NEARLY_EMPTY: u64 = 8;

/// What a sweep takes beside its records: frames, the counters, and what is reserved for a record beyond its size.
const SWEEP_BYTES: u64 = 1024;

/// The progress of reclaiming.
pub(super) struct Reclaim {
    segment_bytes: u64,
    sweep: Sweep,
    /// Segment whose sweep has begun, and so will be finished.
    sweeping: Option<u32>,
    /// When that sweep began, on the clock of the events.
    since_ns: u64,
    /// A damaged segment, which stays as long as something lives in it.
    damaged: Option<u32>,
    /// When the oldest segment, which could not be read, is tried again.
    retry_at: Option<Millis>,
    swept: Swept,
}

/// The segment to empty and drop.
struct Work {
    segment: u32,
    /// Whether it is done in one go, not one step with each commit.
    is_whole: bool,
}

impl Reclaim {
    pub(super) fn new(segment_bytes: u64) -> Self {
        Self {
            segment_bytes,
            sweep: Sweep::default(),
            sweeping: None,
            since_ns: 0,
            damaged: None,
            retry_at: None,
            swept: Swept::default(),
        }
    }

    /// Returns how many segments are kept because they cannot be read.
    pub(super) fn unreadable(&self) -> u64 {
        u64::from(self.damaged.is_some() || self.retry_at.is_some())
    }
}

impl Embedded {
    /// Returns when a commit should free something. On a full disk, what does not fit now is tried again soon.
    pub(super) fn next_reclaim(&self) -> Option<Millis> {
        if self.reclaimable().is_some() {
            return Some(self.clock);
        }
        let is_full = self.log.oldest().is_some() && self.log.last_space().is_some();
        let retry_at = self.reclaim.retry_at.filter(|at| *at > self.clock);
        retry_at.into_iter().chain(is_full.then_some(self.clock + RETRY_MS)).min()
    }

    /// Does the next piece of work, if there is any.
    pub(super) fn reclaim_step(&mut self) {
        let Some(Work { segment, is_whole }) = self.reclaimable() else { return };
        let bytes = usize::try_from(STEP_BYTES.max(PACE * self.added)).unwrap_or(usize::MAX);
        if self.stock.live.of(segment) > 0 {
            while self.sweep_step(segment, bytes) == SweepStep::More {
                if !is_whole || self.stalled || self.is_unreadable(segment) {
                    return;
                }
            }
        }
        self.drop_segment(segment);
    }

    /// Returns the work to do now.
    fn reclaimable(&self) -> Option<Work> {
        let oldest = self.log.oldest()?;
        let live = self.stock.live.of(oldest);
        if live == 0 {
            return Some(Work { segment: oldest, is_whole: true });
        }
        let last_space = self.log.last_space();
        let is_whole = last_space.is_some();
        let (nearly_empty, slack) = if is_whole { (2, 1) } else { (NEARLY_EMPTY, SLACK_SEGMENTS) };
        let segment_bytes = self.reclaim.segment_bytes;
        let is_wanted = self.reclaim.sweeping == Some(oldest)
            || nearly_empty * live < segment_bytes
            || self.log.total_bytes() > 2 * self.stock.live.total() + slack * segment_bytes;
        let fits = last_space.is_none_or(|left| self.sweep_bytes(live) <= left);
        (is_wanted && fits && !self.is_unreadable(oldest)).then_some(Work { segment: oldest, is_whole })
    }

    /// Returns how many bytes a sweep of a segment with so many live bytes takes. Changes of messages since they were
    /// recorded are recorded with them, but hardly make them more than twice as long.
    fn sweep_bytes(&self, live: u64) -> u64 {
        live + live.min(self.stock.specials() * PRESENT_STATE_BYTES) + SWEEP_BYTES
    }

    /// Records again what lives in the next `bytes` or so of the segment. A step that failed, or found no space for all
    /// of it, is to be repeated, so that more is left.
    fn sweep_step(&mut self, segment: u32, bytes: usize) -> SweepStep {
        let mut swept = std::mem::take(&mut self.reclaim.swept);
        swept.records.clear();
        let mut sweep = self.reclaim.sweep;
        let read = self.log.sweep(&mut sweep, bytes, &mut swept);
        swept.records.retain(|record| self.lives(record.at, &swept.bytes[record.range.clone()]));
        let step = match read {
            Err(error) => {
                self.leave_unread(segment, &error);
                SweepStep::More
            }
            Ok(step) => {
                if self.reclaim.retry_at.take().is_some() {
                    tracing::info!("the oldest file of the log can be read again");
                }
                // Space is claimed for each record by itself: together they might claim far more than they take, and
                // so a new segment for every sweep.
                self.stalled = !swept.records.iter().all(|record| {
                    let fits = self.claim(record.range.len() as u64 + PRESENT_STATE_BYTES);
                    if fits {
                        self.record_again(&swept.bytes[record.range.clone()]);
                    }
                    fits
                });
                if self.reclaim.sweeping.replace(segment) != Some(segment) {
                    self.reclaim.since_ns = self.events.now();
                }
                if self.stalled {
                    SweepStep::More
                } else {
                    self.reclaim.sweep = sweep;
                    step
                }
            }
        };
        swept.clear();
        swept.bytes.shrink_to(BUFFER_KEPT);
        self.reclaim.swept = swept;
        step
    }

    /// Keeps a segment that cannot be read: the readable part is still served, and a reader of the rest gets STORE. A
    /// disk that did not answer may do so later, but damage stays.
    fn leave_unread(&mut self, segment: u32, error: &LogError) {
        if let LogError::Damaged { .. } = error {
            self.reclaim.damaged = Some(segment);
            tracing::error!("{error}; no disk space is given back while something lives in that file");
            return;
        }
        if self.reclaim.retry_at.replace(self.clock + RETRY_MS).is_none() {
            tracing::warn!("{error}; no disk space is given back until that works");
        }
    }

    /// Returns whether the oldest segment cannot be read, or is not to be tried again yet.
    fn is_unreadable(&self, oldest: u32) -> bool {
        self.reclaim.damaged == Some(oldest) || self.reclaim.retry_at.is_some_and(|at| at > self.clock)
    }

    /// Returns whether this record is the home of something.
    fn lives(&self, at: Location, record: &[u8]) -> bool {
        let home = match Effect::decode(record) {
            Ok(Effect::Account { id, .. }) => self.stock.accounts.get(id).map(|account| account.home),
            Ok(Effect::Queue { id, .. }) => self.stock.queues.get(id).and_then(|queue| queue.home),
            Ok(Effect::Message(written)) => {
                self.stock.message(&written.place).map(|message| message.entry.home)
            }
            Ok(Effect::Answered { key, .. } | Effect::Handed { key, .. }) => {
                self.stock.remembered.get(&key).map(|known| known.home)
            }
            _ => None,
        };
        home.is_some_and(|home| home.at == at)
    }

    /// Records again, in its present state, what lives in this record.
    fn record_again(&mut self, record: &[u8]) {
        let Ok(effect) = Effect::decode(record) else { return };
        match effect {
            Effect::Account { id, name, .. } => {
                let known = self.stock.accounts.get(id).is_some_and(|account| account.known);
                self.record(&Effect::Account { id, known, name });
            }
            Effect::Queue { id, name, .. } => {
                let options = self.stock.queues.get(id).map(|queue| queue.options.clone());
                self.record(&Effect::Queue { id, name, options: options.unwrap_or_default() });
            }
            Effect::Message(written) => {
                if let Some(message) = self.stock.message(&written.place) {
                    self.record(&Effect::Message(written.as_now(&message)));
                }
            }
            other => {
                self.record(&other);
            }
        }
    }

    /// Drops the oldest segment, in which nothing is needed any more. A record of the counters replaces its evidence
    /// of the numbers given out.
    fn drop_segment(&mut self, segment: u32) {
        self.stalled = !self.claim(COUNTERS_BYTES);
        if self.stalled {
            return;
        }
        let (message, queue) = (self.stock.last_message(), self.stock.queues.last_id());
        self.record(&Effect::Counters { message, queue });
        if self.log.drop_oldest().is_ok() {
            self.stock.live.forget(segment);
            (self.reclaim.damaged, self.reclaim.retry_at) = (None, None);
        }
        if self.reclaim.sweeping.take().is_some() {
            self.events.since(self.reclaim.since_ns, EVENT_SOURCE, "segment swept");
        }
    }

    /// Reserves space for `bytes` of records, of which every request leaves some free for this. Returns whether it fits.
    fn claim(&mut self, bytes: u64) -> bool {
        self.reserve(bytes, Purpose::Reclaim).is_ok()
    }
}
