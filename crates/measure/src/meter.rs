//! The collector: once per window it empties all recorders into a window and a total.
//!
//! Nothing here is on a request's path. The program has a thread that calls [`Meter::turn`] once per window
//! and once more at the end; everything else reads what the last turn left. A window's length is measured,
//! not assumed, so a late collector makes a longer window and not a wrong rate.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::backlog::Backlog;
use crate::clock::Clock;
use crate::distribution::microseconds;
use crate::figures::{Figures, Window};
use crate::lock::lock;
use crate::recorder::{Cell, Recorder};
use crate::scheme::Scheme;
use crate::stage::Ending;
use crate::tally::Tallies;

/// Age of the oldest window in [`Meter::windows`], in nanoseconds.
const KEPT_NS: u64 = 15 * 60 * 1_000_000_000;

/// Most windows kept in memory, as many as 15 minutes have of 100 ms: one answer may have to show all of them.
const KEPT_MAX: usize = 9_000;

/// The measurement of one program, shared by its threads.
#[derive(Debug)]
pub struct Meter {
    scheme: Scheme,
    window: Duration,
    clock: Clock,
    backlog: Option<Arc<Backlog>>,
    cells: Mutex<Vec<Arc<Cell>>>,
    book: Mutex<Book>,
}

/// Results of the turns so far.
#[derive(Debug)]
struct Book {
    total: Tallies,
    windows: VecDeque<Arc<Window>>,
    opened_ns: u64,
    begun_ns: u64,
    /// Exchanged with each recorder's tallies and always empty between turns, so that no thread on the
    /// request path allocates.
    spare: Tallies,
}

/// One closed window: its figures and the histograms behind them.
#[derive(Debug)]
pub struct WindowEnd {
    /// The figures, also kept by the meter.
    pub window: Arc<Window>,
    /// The tallies behind the figures.
    pub tallies: Tallies,
}

impl Meter {
    /// Makes a meter for requests of this scheme. `window` is how often the owner means to call
    /// [`Meter::turn`]; `backlog` also gets every single request, when a record of them is kept
    /// ([`Record::backlog`](crate::Record::backlog)).
    ///
    /// Panics when a kind's name has other characters than letters, digits, `_`, `-` and `.`, or is `all`:
    /// names stand in file formats, and the table is part of the program.
    #[must_use]
    pub fn new(scheme: Scheme, window: Duration, clock: Clock, backlog: Option<Arc<Backlog>>) -> Arc<Self> {
        scheme.check();
        let now = clock.now();
        Arc::new(Self {
            scheme,
            window,
            clock,
            backlog,
            cells: Mutex::new(Vec::new()),
            book: Mutex::new(Book {
                total: Tallies::new(scheme),
                windows: VecDeque::new(),
                opened_ns: now,
                begun_ns: now,
                spare: Tallies::new(scheme),
            }),
        })
    }

    /// Makes a recorder for one thread.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        let cell = Arc::new(Cell::new(self.scheme, self.backlog.clone()));
        lock(&self.cells).push(Arc::clone(&cell));
        Recorder::new(cell)
    }

    /// Closes the window: everything handed over since the last turn. `gauges` are current levels, with the
    /// same names at every call.
    pub fn turn(&self, gauges: &[(&'static str, u64)]) -> WindowEnd {
        let mut book = lock(&self.book);
        let tallies = self.collect(&mut book.spare);
        let (start, end) = (book.opened_ns, self.clock.now());
        let window = Arc::new(Window {
            start_s: microseconds(start) / 1e6,
            start_unix_ms: self.clock.started_unix_ms() + start / 1_000_000,
            figures: tallies.figures(end - start),
            gauges: gauges.iter().copied().collect(),
        });
        book.total.add(&tallies);
        book.opened_ns = end;
        book.keep(Arc::clone(&window), microseconds(end.saturating_sub(KEPT_NS)) / 1e6);
        WindowEnd { window, tallies }
    }

    /// Returns the closed windows of the last 15 minutes, the last 9,000 at most, oldest first.
    #[must_use]
    pub fn windows(&self) -> Vec<Arc<Window>> {
        lock(&self.book).windows.iter().cloned().collect()
    }

    /// Returns the last closed window.
    #[must_use]
    pub fn last_window(&self) -> Option<Arc<Window>> {
        lock(&self.book).windows.back().cloned()
    }

    /// Returns the figures of the whole run up to the last turn.
    #[must_use]
    pub fn totals(&self) -> Figures {
        let book = lock(&self.book);
        book.total.figures(book.opened_ns - book.begun_ns)
    }

    /// Returns the tallies of the whole run up to the last turn, as a copy, so that a slow reader delays nobody.
    #[must_use]
    pub fn tallies(&self) -> Tallies {
        lock(&self.book).total.clone()
    }

    /// Returns how many requests of these kinds have ended like this until now, whether or not their window is closed.
    #[must_use]
    pub fn ended_so_far(&self, kinds: &[&str], ending: Ending) -> u64 {
        let of = |tallies: &Tallies| {
            let chosen = tallies.active().filter(|(kind, _)| kinds.contains(kind));
            chosen.map(|(_, tally)| tally.ended(ending)).sum::<u64>()
        };
        // Nothing may move from a recorder to the total between the two sums.
        let book = lock(&self.book);
        let open: u64 = lock(&self.cells).iter().map(|cell| cell.count(of)).sum();
        of(&book.total) + open
    }

    /// Returns how many requests were counted until now, whether or not their window is closed.
    #[must_use]
    pub fn requests_so_far(&self) -> u64 {
        // Nothing may move from a recorder to the total between the two sums.
        let book = lock(&self.book);
        let open: u64 = lock(&self.cells).iter().map(|cell| cell.count(Tallies::requests)).sum();
        book.total.requests() + open
    }

    /// Returns how often [`Meter::turn`] is meant to be called.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Returns when the next turn is due, after the one that was due at `due` and is made at `now`: a whole number
    /// of windows after `due`, and at least half a window after `now`, so that no tiny window follows a late turn.
    #[must_use]
    pub fn next_turn(&self, due: Duration, now: Duration) -> Duration {
        let next = due.saturating_add(self.window);
        let late = now.saturating_add(self.window / 2).saturating_sub(next);
        let left_out = late.as_nanos().div_ceil(self.window.as_nanos().max(1));
        next.saturating_add(self.window.saturating_mul(u32::try_from(left_out).unwrap_or(u32::MAX)))
    }

    /// Returns the clock that stamps are taken from.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Empties all recorders, and then removes those whose threads have ended.
    fn collect(&self, spare: &mut Tallies) -> Tallies {
        let mut tallies = Tallies::new(self.scheme);
        lock(&self.cells).retain_mut(|cell| {
            // Checked before the swap: a recorder gone by now has handed over everything it had.
            let ended = Arc::get_mut(cell).is_some();
            cell.swap(spare);
            tallies.add(spare);
            spare.reset();
            !ended
        });
        tallies
    }
}

impl Book {
    fn keep(&mut self, window: Arc<Window>, oldest_s: f64) {
        self.windows.push_back(window);
        while self.windows.len() > KEPT_MAX
            || self.windows.front().is_some_and(|window| window.start_s < oldest_s)
        {
            self.windows.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> Book {
        Book {
            total: Tallies::new(Scheme::clients(&[])),
            windows: VecDeque::new(),
            opened_ns: 0,
            begun_ns: 0,
            spare: Tallies::new(Scheme::clients(&[])),
        }
    }

    fn window(start_s: f64) -> Arc<Window> {
        let figures = Tallies::new(Scheme::clients(&[])).figures(1_000_000_000);
        Arc::new(Window { start_s, start_unix_ms: 0, figures, gauges: [].into() })
    }

    #[test]
    fn only_windows_that_began_within_the_kept_time_are_kept() {
        let mut book = book();
        for second in 0..10_u32 {
            book.keep(window(f64::from(second)), f64::from(second) - 3.0);
        }
        let kept: Vec<f64> = book.windows.iter().map(|window| window.start_s).collect();
        assert_eq!(kept, [6.0, 7.0, 8.0, 9.0]);
    }

    #[test]
    fn a_turn_that_was_late_is_followed_by_no_scraps_of_windows() {
        let ms = Duration::from_millis;
        let meter = Meter::new(Scheme::clients(&[]), ms(1000), Clock::start(), None);
        for (now, next) in
            [(5000, 6000), (5003, 6000), (5499, 6000), (5501, 7000), (7999, 9000), (65_000, 66_000)]
        {
            assert_eq!(meter.next_turn(ms(5000), ms(now)), ms(next), "made at {now} ms");
        }
        assert!(meter.next_turn(Duration::MAX, Duration::MAX) == Duration::MAX);
    }

    #[test]
    fn of_short_windows_only_the_last_are_kept() {
        let mut book = book();
        for number in 0..9_005_u32 {
            book.keep(window(f64::from(number)), 0.0);
        }
        let ends =
            [book.windows.front(), book.windows.back()].map(|window| window.map(|window| window.start_s));
        assert_eq!((book.windows.len(), ends), (9_000, [Some(5.0), Some(9_004.0)]));
    }
}
