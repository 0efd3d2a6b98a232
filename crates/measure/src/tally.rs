//! Counts of requests, per kind: endings, time per stage, and distributions.
//!
//! The same type is filled by a recorder, merged for a window and summed up for the whole run, so a window
//! and a total cannot mean different things.

use crate::distribution::{Distribution, microseconds, ratio};
use crate::figures::{Figures, KindFigures, Named};
use crate::scheme::{STAGES_MAX, Scheme};
use crate::stage::{Ending, Noted};

/// Counts of the requests of one kind.
#[derive(Clone, Debug)]
pub struct Tally {
    scheme: Scheme,
    endings: [u64; 3],
    stages_ns: [u128; STAGES_MAX],
    counted: u64,
    /// Distributions in the order of the scheme's spreads, the response last.
    spreads: Box<[Distribution]>,
}

impl Tally {
    /// Makes an empty tally.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        let spreads = scheme.spreads().map(|_| Distribution::new()).collect();
        Self { scheme, endings: [0; 3], stages_ns: [0; STAGES_MAX], counted: 0, spreads }
    }

    /// Counts `times` requests that are all like this one.
    #[inline]
    pub fn note(&mut self, noted: &Noted, times: u64) {
        let stages = noted.trail.stages();
        self.endings[noted.ending as usize] += times;
        self.counted += u64::from(noted.counted) * times;
        let mut spreads = self.spreads.iter_mut();
        for (place, stage) in self.scheme.stages.iter().enumerate() {
            let ns = u128::from(stages[place]) * u128::from(times);
            self.stages_ns[place] = self.stages_ns[place].saturating_add(ns);
            if stage.spread
                && let Some(spread) = spreads.next()
                && noted.trail.has_stage(place)
            {
                spread.record(stages[place], times);
            }
        }
        if self.scheme.reported.is_some()
            && let Some(reported) = spreads.next()
            && noted.reported_ns > 0
        {
            reported.record(noted.reported_ns, times);
        }
        if let Some(response) = spreads.next() {
            response.record(stages.iter().sum(), times);
        }
    }

    /// Adds the counts of `other`, which has the same scheme.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.endings.iter_mut().zip(other.endings) {
            *sum += count;
        }
        for (sum, stage) in self.stages_ns.iter_mut().zip(other.stages_ns) {
            *sum = sum.saturating_add(stage);
        }
        self.counted += other.counted;
        for (mine, theirs) in self.spreads.iter_mut().zip(&other.spreads) {
            mine.add(theirs);
        }
    }

    /// Returns the number of requests that ended like this.
    #[must_use]
    pub fn ended(&self, ending: Ending) -> u64 {
        self.endings[ending as usize]
    }

    /// Returns the number of all requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.endings.iter().sum()
    }

    /// Returns the distributions with the names they have in files: those of stages are over the requests
    /// that passed them, the response is over all.
    pub fn distributions(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        self.scheme.spreads().zip(&self.spreads)
    }

    /// Returns the stages by name, with the time in nanoseconds that all requests together spent there.
    pub fn stages(&self) -> impl Iterator<Item = (&'static str, u128)> {
        self.scheme.stages.iter().map(|stage| stage.name).zip(self.stages_ns)
    }

    /// Returns the figures over `length_s` seconds.
    #[must_use]
    pub fn figures(&self, kind: &'static str, length_s: f64) -> KindFigures {
        let requests = self.requests();
        let means = self.scheme.stages.iter().zip(self.stages_ns);
        let counted = self.scheme.counted.map(|counted| (counted.mean, ratio(self.counted.into(), requests)));
        let mut spreads: Vec<_> = self.distributions().map(|(name, d)| (name, d.summary())).collect();
        let response = spreads.pop().map(|(_, response)| response).unwrap_or_default();
        KindFigures {
            kind,
            requests,
            ok: self.ended(Ending::Ok),
            null: self.ended(Ending::Null),
            errors: self.ended(Ending::Error),
            requests_per_s: if length_s > 0.0 { requests as f64 / length_s } else { 0.0 },
            stage_means_us: Named(
                means.map(|(stage, ns)| (stage.mean, ratio(ns, requests) / 1000.0)).collect(),
            ),
            counted_means: Named(counted.into_iter().collect()),
            spreads: Named(spreads),
            response,
        }
    }

    fn reset(&mut self) {
        self.endings = [0; 3];
        self.stages_ns = [0; STAGES_MAX];
        self.counted = 0;
        self.spreads.iter_mut().for_each(Distribution::reset);
    }
}

/// One tally per kind that has occurred; a kind that never occurs costs one pointer.
#[derive(Clone, Debug)]
pub struct Tallies {
    scheme: Scheme,
    by_kind: Vec<Option<Box<Tally>>>,
}

impl Tallies {
    /// Makes empty tallies.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self { scheme, by_kind: scheme.kinds.iter().map(|_| None).collect() }
    }

    /// Counts `times` requests that are all like this one. Panics when its kind has no name.
    #[inline]
    pub fn note(&mut self, noted: &Noted, times: u64) {
        let new = || Box::new(Tally::new(self.scheme));
        self.by_kind[usize::from(noted.kind)].get_or_insert_with(new).note(noted, times);
    }

    /// Adds the counts of `other`, which has the same table of kinds.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.by_kind.iter_mut().zip(&other.by_kind) {
            if let Some(theirs) = theirs.as_ref().filter(|tally| tally.requests() > 0) {
                mine.get_or_insert_with(|| Box::new(Tally::new(self.scheme))).add(theirs);
            }
        }
    }

    /// Returns the kinds with at least one request, in the table's order.
    pub fn active(&self) -> impl Iterator<Item = (&'static str, &Tally)> {
        self.scheme.kinds.iter().copied().zip(&self.by_kind).filter_map(|(kind, tally)| {
            let tally = tally.as_deref().filter(|tally| tally.requests() > 0)?;
            Some((kind, tally))
        })
    }

    /// Returns the number of requests of all kinds.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.by_kind.iter().flatten().map(|tally| tally.requests()).sum()
    }

    /// Returns the sum of all kinds.
    #[must_use]
    pub fn all(&self) -> Tally {
        let mut all = Tally::new(self.scheme);
        self.active().for_each(|(_, tally)| all.add(tally));
        all
    }

    /// Returns the figures over `length_ns` nanoseconds.
    #[must_use]
    pub fn figures(&self, length_ns: u64) -> Figures {
        let length_s = microseconds(length_ns) / 1e6;
        Figures {
            length_s,
            all: self.all().figures("all", length_s),
            kinds: self.active().map(|(kind, tally)| tally.figures(kind, length_s)).collect(),
        }
    }

    /// Removes all counts and keeps the memory.
    pub(crate) fn reset(&mut self) {
        for tally in self.by_kind.iter_mut().flatten().filter(|tally| tally.requests() > 0) {
            tally.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stamps;

    const TIER: Scheme = Scheme::tier(&["send", "pop"], Some("statement"));

    #[test]
    fn only_requests_that_passed_a_stage_enter_its_distribution() {
        let mut tallies = Tallies::new(TIER);
        let served = Stamps {
            received: 1000,
            enqueued: 1000,
            dequeued: 1000,
            sent: 1100,
            answered: 1500,
            replied: 2000,
        };
        let refused = Stamps { received: 1000, replied: 1200, ..Stamps::default() };
        tallies.note(&Noted { reported_ns: 300, ..Noted::new(0, Ending::Ok, served) }, 1);
        tallies.note(&Noted::new(0, Ending::Error, refused), 1);
        let figures = tallies.figures(1_000_000_000);
        let send = &figures.kinds[0];
        let counts = ["waiting", "service", "statement", "response"].map(|name| send.spread(name).count);
        assert_eq!(counts, [1, 1, 1, 2]);
        assert_eq!((send.ok, send.errors, send.requests), (1, 1, 2));
        assert!((send.spread("service").mean_us - 0.4).abs() < 1e-9);
        assert!((send.spread("statement").mean_us - 0.3).abs() < 1e-9);
    }

    #[test]
    fn the_means_of_the_stages_add_up_to_the_mean_response() {
        let mut tallies = Tallies::new(TIER);
        for i in 1..100 {
            let at = |k: u64| 1000 * k * i;
            let mut stamps = Stamps {
                received: at(1),
                enqueued: at(2),
                dequeued: at(4),
                replied: at(10),
                ..Stamps::default()
            };
            if i % 3 > 0 {
                (stamps.sent, stamps.answered) = (at(5), at(9));
            }
            tallies.note(&Noted::new(1, Ending::Ok, stamps), 1);
        }
        let pop = tallies.all().figures("all", 1.0);
        let stages: f64 = pop.stage_means_us.iter().map(|(_, mean)| mean).sum();
        assert!((stages - pop.response.mean_us).abs() < 1e-6, "{pop:?}");
    }

    #[test]
    fn the_mean_of_a_stage_stays_right_when_all_requests_waited_for_centuries_together() {
        let mut tallies = Tallies::new(TIER);
        let hour = 3_600_000_000_000;
        let stamps =
            Stamps { received: 1, enqueued: 1, dequeued: 1 + hour, replied: 1 + hour, ..Stamps::default() };
        tallies.note(&Noted::new(0, Ending::Ok, stamps), 10_000_000);
        let waiting = tallies.all().stages().find(|(stage, _)| *stage == "waiting");
        assert_eq!(waiting, Some(("waiting", 10_000_000 * u128::from(hour))));
    }

    #[test]
    fn requests_counted_together_make_the_difference_that_each_makes() {
        let stamps =
            Stamps { received: 10, enqueued: 12, dequeued: 40, sent: 41, answered: 900, replied: 1_000 };
        let noted = Noted { reported_ns: 300, ..Noted::new(0, Ending::Null, stamps) };
        let (mut together, mut singly) = (Tallies::new(TIER), Tallies::new(TIER));
        together.note(&noted, 5);
        (0..5).for_each(|_| singly.note(&noted, 1));
        assert_eq!(format!("{:?}", together.figures(1)), format!("{:?}", singly.figures(1)));
        assert_eq!(together.all().ended(Ending::Null), 5);
    }
}
