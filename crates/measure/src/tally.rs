//! What is counted about requests: endings, time per stage, three distributions; per kind.
//!
//! The same type is filled by a recorder, merged for a window and summed up for the whole life, so a window
//! cannot mean something else than a total.

use crate::distribution::{Distribution, microseconds, ratio};
use crate::figures::{Figures, KindFigures};
use crate::stage::{Ending, Stamps};

/// Requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    endings: [u64; 3],
    stages_ns: [u64; 5],
    waiting: Distribution,
    service: Distribution,
    response: Distribution,
}

impl Tally {
    /// Counts one request.
    #[inline]
    pub fn note(&mut self, ending: Ending, stamps: &Stamps) {
        let stages = stamps.stages();
        self.endings[ending as usize] += 1;
        for (sum, stage) in self.stages_ns.iter_mut().zip(stages) {
            *sum = sum.saturating_add(stage);
        }
        if stamps.has_waited() {
            self.waiting.record(stages[1]);
        }
        if stamps.was_served() {
            self.service.record(stages[3]);
        }
        self.response.record(stages.iter().sum());
    }

    /// Adds everything `other` counted.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.endings.iter_mut().zip(other.endings) {
            *sum += count;
        }
        for (sum, stage) in self.stages_ns.iter_mut().zip(other.stages_ns) {
            *sum = sum.saturating_add(stage);
        }
        self.waiting.add(&other.waiting);
        self.service.add(&other.service);
        self.response.add(&other.response);
    }

    /// Requests that ended so.
    #[must_use]
    pub fn ended(&self, ending: Ending) -> u64 {
        self.endings[ending as usize]
    }

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.endings.iter().sum()
    }

    /// The distributions with the names they carry in files: waiting and service of the requests that waited
    /// and were served, response of all.
    #[must_use]
    pub fn distributions(&self) -> [(&'static str, &Distribution); 3] {
        [("waiting", &self.waiting), ("service", &self.service), ("response", &self.response)]
    }

    /// The figures over `length_s` seconds.
    #[must_use]
    pub fn figures(&self, kind: &'static str, length_s: f64) -> KindFigures {
        let requests = self.requests();
        let mean_us = |stage: usize| ratio(self.stages_ns[stage], requests) / 1000.0;
        KindFigures {
            kind,
            requests,
            ok: self.ended(Ending::Ok),
            null: self.ended(Ending::Null),
            errors: self.ended(Ending::Error),
            requests_per_s: if length_s > 0.0 { requests as f64 / length_s } else { 0.0 },
            parse_mean_us: mean_us(0),
            dispatch_mean_us: mean_us(2),
            reply_mean_us: mean_us(4),
            waiting: self.waiting.summary(),
            service: self.service.summary(),
            response: self.response.summary(),
        }
    }

    fn reset(&mut self) {
        self.endings = [0; 3];
        self.stages_ns = [0; 5];
        self.waiting.reset();
        self.service.reset();
        self.response.reset();
    }
}

/// One tally per kind that has occurred; a kind that never occurs costs one pointer.
#[derive(Clone, Debug)]
pub struct Tallies {
    kinds: &'static [&'static str],
    by_kind: Vec<Option<Box<Tally>>>,
}

impl Tallies {
    /// Nothing counted yet. A request's kind is its place in `kinds`.
    #[must_use]
    pub fn new(kinds: &'static [&'static str]) -> Self {
        Self { kinds, by_kind: kinds.iter().map(|_| None).collect() }
    }

    /// Counts one request. Panics when `kind` has no name.
    #[inline]
    pub fn note(&mut self, kind: u8, ending: Ending, stamps: &Stamps) {
        self.by_kind[usize::from(kind)].get_or_insert_default().note(ending, stamps);
    }

    /// Adds everything `other` counted; both are of the same table of kinds.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.by_kind.iter_mut().zip(&other.by_kind) {
            if let Some(theirs) = theirs.as_ref().filter(|tally| tally.requests() > 0) {
                mine.get_or_insert_default().add(theirs);
            }
        }
    }

    /// Kinds with at least one request, in the table's order.
    pub fn active(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        self.kinds.iter().copied().zip(&self.by_kind).filter_map(|(kind, tally)| {
            let tally = tally.as_deref().filter(|tally| tally.requests() > 0)?;
            Some((kind, tally))
        })
    }

    /// All kinds together.
    #[must_use]
    pub fn all(&self) -> Tally {
        let mut all = Tally::default();
        self.active().for_each(|(_, tally)| all.add(tally));
        all
    }

    /// The figures over `length_ns` nanoseconds.
    #[must_use]
    pub fn figures(&self, length_ns: u64) -> Figures {
        let length_s = microseconds(length_ns) / 1e6;
        Figures {
            length_s,
            all: self.all().figures("all", length_s),
            kinds: self.active().map(|(kind, tally)| tally.figures(kind, length_s)).collect(),
        }
    }

    /// Forgets everything, keeps the memory.
    pub(crate) fn reset(&mut self) {
        for tally in self.by_kind.iter_mut().flatten().filter(|tally| tally.requests() > 0) {
            tally.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: &[&str] = &["send", "pop"];

    #[test]
    fn only_requests_that_waited_and_were_served_enter_those_distributions() {
        let mut tallies = Tallies::new(KINDS);
        let served = Stamps {
            received: 1000,
            enqueued: 1000,
            dequeued: 1000,
            sent: 1100,
            answered: 1500,
            replied: 2000,
        };
        let refused = Stamps { received: 1000, replied: 1200, ..Stamps::default() };
        tallies.note(0, Ending::Ok, &served);
        tallies.note(0, Ending::Error, &refused);
        let figures = tallies.figures(1_000_000_000);
        let send = &figures.kinds[0];
        assert_eq!((send.waiting.count, send.service.count, send.response.count), (1, 1, 2));
        assert_eq!((send.ok, send.errors, send.requests), (1, 1, 2));
        assert!((send.service.mean_us - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_means_of_the_stages_add_up_to_the_mean_response() {
        let mut tallies = Tallies::new(KINDS);
        for i in 1..100 {
            let at = |k: u64| 1000 * k * i;
            let stamps = Stamps {
                received: at(1),
                enqueued: at(2),
                dequeued: at(4),
                sent: at(5),
                answered: at(9),
                replied: at(10),
            };
            tallies.note(1, Ending::Ok, &stamps);
        }
        let pop = tallies.all().figures("all", 1.0);
        let stages = pop.parse_mean_us
            + pop.waiting.mean_us
            + pop.dispatch_mean_us
            + pop.service.mean_us
            + pop.reply_mean_us;
        assert!((stages - pop.response.mean_us).abs() < 1e-6);
    }
}
