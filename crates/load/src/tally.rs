//! What a thread counts: per kind a histogram of response times and the numbers of outcomes, within the
//! measured window only. Histograms keep three digits, and threads' histograms merge without loss.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::dialogue::Outcome;

/// Response times above this are counted as this: 1 hour, in nanoseconds.
pub(crate) const LATENCY_MAX: u64 = 3_600_000_000_000;

/// Number of distinct first words of errors that are counted separately.
const WORDS_MAX: usize = 64;

/// Creates a histogram of nanoseconds with the given number of significant digits.
#[must_use]
pub fn histogram(digits: u8) -> Histogram<u64> {
    // One nanosecond as the least discernible value keeps every multiple of a clock's tick apart.
    Histogram::new_with_bounds(1, LATENCY_MAX, digits)
        .expect("bounds and digits are constants within the limits")
}

/// A stretch of the run, in nanoseconds of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First nanosecond.
    pub start: u64,
    /// First nanosecond after it.
    pub end: u64,
}

impl Window {
    /// Returns whether an instant lies in the window.
    #[must_use]
    pub const fn contains(self, now: u64) -> bool {
        self.start <= now && now < self.end
    }
}

/// How many requests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Answered with what they asked for.
    pub ok: u64,
    /// Found nothing to read.
    pub nulls: u64,
    /// Refused.
    pub errors: u64,
}

impl Counts {
    /// Counts `times` requests that ended alike.
    pub fn add(&mut self, outcome: Outcome, times: u64) {
        match outcome {
            Outcome::Ok => self.ok += times,
            Outcome::Null => self.nulls += times,
            Outcome::Error => self.errors += times,
        }
    }

    /// Adds the counts of another.
    pub fn absorb(&mut self, other: Self) {
        self.ok += other.ok;
        self.nulls += other.nulls;
        self.errors += other.errors;
    }

    /// Returns the number of requests that were served: with what they asked for, or with null.
    #[must_use]
    pub const fn served(self) -> u64 {
        self.ok + self.nulls
    }
}

/// How long the requests and answers were, together: their own bytes, without what TLS and the network add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Bytes of the requests that were answered.
    pub sent_bytes: u64,
    /// Bytes of the answers.
    pub received_bytes: u64,
}

/// Counts and response times together.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Numbers of outcomes.
    pub counts: Counts,
    /// Response times of those served, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Sum of the response times of errors, in nanoseconds.
    pub errors_ns: u64,
}

impl Figures {
    /// Creates empty figures whose histogram has the given number of digits.
    #[must_use]
    pub fn new(digits: u8) -> Self {
        Self { counts: Counts::default(), latency: histogram(digits), errors_ns: 0 }
    }

    /// Counts `times` requests that ended alike and took `nanos` each.
    pub fn record(&mut self, outcome: Outcome, nanos: u64, times: u64) {
        self.counts.add(outcome, times);
        if outcome == Outcome::Error {
            self.errors_ns += nanos * times;
        } else {
            self.latency.saturating_record_n(nanos, times);
        }
    }

    /// Returns the mean response time in nanoseconds, errors included; 0 without any.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let (served, errors) = (self.counts.served(), self.counts.errors);
        (self.latency.mean() * served as f64 + self.errors_ns as f64) / (served + errors).max(1) as f64
    }

    /// Adds the figures of another.
    pub fn absorb(&mut self, other: &Self) {
        self.counts.absorb(other.counts);
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
        self.errors_ns += other.errors_ns;
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        (self.counts, self.errors_ns) = (Counts::default(), 0);
        self.latency.reset();
    }
}

/// What was measured in one window: requests of all kinds together.
#[derive(Clone, Debug)]
pub struct WindowFigures {
    /// Counts and response times.
    pub total: Figures,
    /// Length of the window, in seconds.
    pub duration_s: f64,
}

impl WindowFigures {
    /// Returns the number of requests that were answered, with errors too.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.total.counts.served() + self.total.counts.errors
    }

    /// Returns the number of requests that were answered per second, with errors too.
    #[must_use]
    pub fn answered_per_s(&self) -> f64 {
        self.answered() as f64 / self.duration_s
    }

    /// Returns the mean number of requests in flight, by Little's law; requests that end in errors are in flight like
    /// all others.
    #[must_use]
    pub fn in_flight_mean(&self) -> f64 {
        self.answered() as f64 * self.total.mean_ns() * 1e-9 / self.duration_s
    }
}

/// One thread's counts.
#[derive(Clone, Debug)]
pub struct Tally {
    window: Window,
    kinds: Vec<Figures>,
    words: BTreeMap<String, u64>,
    /// Bytes of what was measured.
    pub traffic: Traffic,
    /// In an open loop: times since requests of all kinds were sent, of those served, in nanoseconds.
    since_sent: Option<Histogram<u64>>,
    /// Figures since the last live line, warm-up and cool-down included; None without a terminal.
    pub live: Option<Figures>,
}

impl Tally {
    /// Creates an empty tally for `kinds` kinds of request.
    #[must_use]
    pub fn new(window: Window, kinds: usize, live: bool) -> Self {
        Self {
            window,
            kinds: vec![Figures::new(3); kinds],
            words: BTreeMap::new(),
            traffic: Traffic::default(),
            since_sent: None,
            live: live.then(|| Figures::new(2)),
        }
    }

    /// Makes the tally of an open loop keep times since requests were sent, which are no response times there.
    #[must_use]
    pub fn paced(self) -> Self {
        Self { since_sent: Some(histogram(3)), ..self }
    }

    /// Ends the measured window at `now`, unless it ends before.
    pub fn end(&mut self, now: u64) {
        self.window.end = self.window.end.min(now);
    }

    /// Returns whether `now` lies in the measured window.
    #[must_use]
    pub const fn measures(&self, now: u64) -> bool {
        self.window.contains(now)
    }

    /// Counts `times` requests of a kind that took `nanos` each. What is not `measured` counts for the live line only.
    pub fn record(&mut self, kind: usize, outcome: Outcome, nanos: u64, times: u64, measured: bool) {
        if let Some(live) = &mut self.live {
            live.record(outcome, nanos, times);
        }
        if measured {
            self.kinds[kind].record(outcome, nanos, times);
        }
    }

    /// Counts how long ago `times` measured requests were sent, in nanoseconds, unless they are of a closed loop.
    pub fn record_since_sent(&mut self, outcome: Outcome, nanos: u64, times: u64) {
        if let Some(since_sent) = self.since_sent.as_mut().filter(|_| outcome != Outcome::Error) {
            since_sent.saturating_record_n(nanos, times);
        }
    }

    /// Counts the lengths of a measured request and its answer.
    pub const fn carry(&mut self, request_bytes: usize, answer_bytes: usize) {
        self.traffic.sent_bytes += request_bytes as u64;
        self.traffic.received_bytes += answer_bytes as u64;
    }

    /// Counts the first word of a measured error.
    pub fn error(&mut self, word: &[u8]) {
        let mut word = String::from_utf8_lossy(&word[..word.len().min(48)]).into_owned();
        if self.words.len() >= WORDS_MAX && !self.words.contains_key(&word) {
            "others".clone_into(&mut word);
        }
        *self.words.entry(word).or_default() += 1;
    }

    /// Adds the tally of another thread.
    pub fn absorb(&mut self, other: &Self) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.absorb(theirs);
        }
        for (word, count) in &other.words {
            *self.words.entry(word.clone()).or_default() += count;
        }
        if let Some(theirs) = &other.since_sent {
            let mine = self.since_sent.get_or_insert_with(|| histogram(3));
            mine.add(theirs).expect("all histograms have the same bounds");
        }
        self.traffic.sent_bytes += other.traffic.sent_bytes;
        self.traffic.received_bytes += other.traffic.received_bytes;
    }

    /// Returns the kinds that occurred, with their figures.
    pub fn kinds(&self) -> impl Iterator<Item = (usize, &Figures)> {
        self.kinds.iter().enumerate().filter(|(_, figures)| figures.counts != Counts::default())
    }

    /// Returns the figures of all kinds together.
    #[must_use]
    pub fn total(&self) -> Figures {
        let mut total = Figures::new(3);
        for figures in &self.kinds {
            total.absorb(figures);
        }
        total
    }

    /// Returns how long ago the served requests of an open loop had been sent, in nanoseconds; None in a closed loop.
    #[must_use]
    pub const fn since_sent(&self) -> Option<&Histogram<u64>> {
        self.since_sent.as_ref()
    }

    /// Returns the number of errors by their first word.
    #[must_use]
    pub fn error_words(&self) -> &BTreeMap<String, u64> {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { start: 1_000, end: 1_000_000_000 };

    #[test]
    fn only_answers_within_the_window_count() {
        let mut tally = Tally::new(WINDOW, 2, false);
        for now in [999, 1_000, 999_999_999, 1_000_000_000] {
            let measured = tally.measures(now);
            tally.record(1, Outcome::Ok, now, 1, measured);
        }
        assert_eq!(tally.total().counts.ok, 2);
        assert_eq!(tally.kinds().map(|(kind, _)| kind).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn errors_are_counted_by_word_and_kept_out_of_response_times() {
        let mut tally = Tally::new(WINDOW, 2, false);
        tally.record(0, Outcome::Error, 5_000, 1, true);
        tally.error(b"BUSY");
        tally.record(0, Outcome::Null, 6_000, 1, true);
        let total = tally.total();
        assert_eq!(total.counts, Counts { ok: 0, nulls: 1, errors: 1 });
        assert_eq!(total.latency.len(), 1);
        assert!((total.mean_ns() - 5_500.0).abs() < 10.0, "but of all answers' mean they are part");
        assert_eq!(tally.error_words().get("BUSY"), Some(&1));
    }

    #[test]
    fn errors_are_in_flight_too() {
        let mut total = Figures::new(3);
        total.record(Outcome::Ok, 100_000_000, 20);
        total.record(Outcome::Error, 500_000_000, 20);
        let in_flight = WindowFigures { total, duration_s: 4.0 }.in_flight_mean();
        assert!((in_flight - 3.0).abs() < 0.01, "{in_flight}");
    }

    #[test]
    fn percentiles_are_within_a_thousandth_and_survive_merging() {
        let mut halves = [Tally::new(WINDOW, 2, false), Tally::new(WINDOW, 2, false)];
        for micros in 1..=10_000 {
            halves[micros % 2].record(0, Outcome::Ok, micros as u64 * 1_000, 1, true);
        }
        let [mut all, other] = halves;
        all.absorb(&other);
        let latency = all.total().latency;
        for (quantile, micros) in [(0.5, 5_000.0), (0.9, 9_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let got = latency.value_at_quantile(quantile) as f64 / 1e3;
            assert!((got / micros - 1.0).abs() < 0.001, "{quantile}: {got} for {micros}");
        }
    }

    #[test]
    fn a_flood_of_different_words_stays_bounded() {
        let mut tally = Tally::new(WINDOW, 2, false);
        for i in 0..1_000 {
            tally.error(format!("E{i}").as_bytes());
        }
        assert!(tally.error_words().len() <= WORDS_MAX + 1);
        assert_eq!(tally.error_words().values().sum::<u64>(), 1_000);
    }
}
