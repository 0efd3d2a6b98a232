//! What a server tells of itself beside the load: its time, and how many requests it has answered.
//!
//! Its time, asked for again and again, gives the offset between two machines' clocks: the answer with the shortest
//! round trip is the one that was least delayed, and the offset cannot be off by more than half of that round trip
//! (the clock filter of NTP, RFC 5905 section 10). Its count of requests, at the beginning and at the end of the
//! measured stretch, is a second opinion on the throughput.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use posthaste_measure::Clock;
use serde::Serialize;

use crate::address::Address;
use crate::bench::Bench;
use crate::error::LoadError;
use crate::tally::Window;

/// Number of questions from which one relation of clocks is taken.
const EXCHANGES: usize = 64;

/// How long a server may take for an answer that no figure of the run depends on. One that takes longer is asked
/// nothing more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Share by which the time that a server's count covers may differ from the measured stretch.
const STRETCH_DIFFERENCE_MAX: f64 = 0.1;

/// A connection that asks one server about itself.
pub trait Probe: Send {
    /// Returns the server's wall clock in nanoseconds since 1970; None if it does not tell.
    fn unix_ns(&mut self) -> Option<u64>;

    /// Returns how many requests the server has answered so far; None if it is a server that does not tell.
    ///
    /// # Errors
    /// The server cannot be asked, or not any more.
    fn count(&mut self) -> Result<Option<Count>, LoadError>;
}

/// Number of requests that a server had answered at some time of its own clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Number of requests.
    pub requests: u64,
    /// Seconds of the server's clock.
    pub at_s: f64,
}

/// What all servers together counted in the measured stretch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    /// Requests answered per second of their clocks.
    pub(crate) per_s: f64,
    /// How late they were asked at both edges, together, as a share of the stretch: as much of it may be another time.
    pub(crate) edges_share: f64,
}

/// How a server's wall clock stands to the run's clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Relation {
    /// As given with `--connect`.
    server: String,
    /// When the relation was found, in seconds of the run's clock.
    at_s: f64,
    /// The server's wall clock less this program's, which is read once at the start and carried on by the monotonic
    /// clock.
    offset_us: f64,
    /// Largest possible error of the offset.
    error_us: f64,
    /// The shortest round trip.
    round_trip_us: f64,
}

/// The servers of a run, each with its probe.
pub(crate) struct Probes(Vec<(String, Box<dyn Probe>)>);

impl Probes {
    /// Connects to the servers.
    pub(crate) fn of<B: Bench>(bench: &B) -> Self {
        Self::with(bench.servers(), |server| bench.probe(server))
    }

    fn with(servers: &[Address], probe: impl Fn(&Address) -> Box<dyn Probe>) -> Self {
        Self(distinct(servers).map(|server| (server.to_string(), probe(server))).collect())
    }

    /// Finds out how all servers' clocks relate to `clock` now.
    pub(crate) fn relate(&mut self, clock: Clock) -> Vec<Relation> {
        let relations = self.0.iter_mut().map(|(server, probe)| relate(server, probe.as_mut(), clock));
        relations.flatten().collect()
    }

    /// Waits until the measured stretch is over; returns what all servers counted in it. None if a server is one that
    /// does not count, or if the clients ended early.
    ///
    /// # Errors
    /// A server could not be asked, or told so late that it counted another stretch.
    pub(crate) fn throughput(
        &mut self,
        clock: Clock,
        window: Window,
        ended: &Receiver<()>,
    ) -> Result<Option<Counted>, LoadError> {
        // With --requests nobody knows when the stretch will be over.
        if window.end == u64::MAX {
            return Ok(None);
        }
        let mut late_ns = 0;
        let mut counts = |at: u64| -> Result<Option<Vec<Count>>, LoadError> {
            let wait = Duration::from_nanos(at.saturating_sub(clock.now()));
            if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return Ok(None);
            }
            let counts = self.0.iter_mut().map(|(_, probe)| probe.count()).collect();
            late_ns += clock.now().saturating_sub(at);
            counts
        };
        let Some(before) = counts(window.start)? else { return Ok(None) };
        let Some(after) = counts(window.end)? else { return Ok(None) };
        let planned_s = (window.end - window.start) as f64 / 1e9;
        let mut per_s = 0.0;
        for ((server, _), (before, after)) in self.0.iter().zip(before.iter().zip(&after)) {
            let counted_s = after.at_s - before.at_s;
            let is_of_window = (counted_s / planned_s - 1.0).abs() <= STRETCH_DIFFERENCE_MAX;
            if !is_of_window {
                return Err(LoadError::Failed(format!(
                    "{server} answered so late that its count is of {counted_s:.3} s and not of {planned_s:.3} s"
                )));
            }
            per_s += after.requests.saturating_sub(before.requests) as f64 / counted_s;
        }
        Ok(Some(Counted { per_s, edges_share: late_ns as f64 / 1e9 / planned_s }))
    }
}

/// Returns each server once: one that is named twice, to get twice the clients, counts all of its requests once.
fn distinct(servers: &[Address]) -> impl Iterator<Item = &Address> {
    let is_first = |(place, server): &(usize, &Address)| !servers[..*place].contains(server);
    servers.iter().enumerate().filter(is_first).map(|(_, server)| server)
}

fn relate(server: &str, probe: &mut dyn Probe, clock: Clock) -> Option<Relation> {
    let mut best: Option<(u64, u64, u64)> = None;
    for _ in 0..EXCHANGES {
        let before = clock.now();
        let unix_ns = probe.unix_ns()?;
        let round_trip = clock.now() - before;
        if best.is_none_or(|(shortest, ..)| round_trip < shortest) {
            best = Some((round_trip, before, unix_ns));
        }
    }
    let (round_trip, before, unix_ns) = best?;
    let middle = before + round_trip / 2;
    let offset_ns = i128::from(unix_ns) - i128::from(clock.started_unix_ns() + middle);
    Some(Relation {
        server: server.to_owned(),
        at_s: middle as f64 / 1e9,
        offset_us: offset_ns as f64 / 1e3,
        error_us: round_trip.div_ceil(2) as f64 / 1e3,
        round_trip_us: round_trip as f64 / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose clock is ahead, and whose answers are late, each by another time.
    struct Ahead {
        clock: Clock,
        by_ns: u64,
        delays_us: Vec<u64>,
    }

    impl Ahead {
        fn by(by_ns: u64) -> Self {
            Self { clock: Clock::start(), by_ns, delays_us: Vec::new() }
        }
    }

    impl Probe for Ahead {
        fn unix_ns(&mut self) -> Option<u64> {
            let now = self.clock.started_unix_ns() + self.clock.now() + self.by_ns;
            std::thread::sleep(Duration::from_micros(self.delays_us.pop().unwrap_or(1_000)));
            Some(now)
        }

        fn count(&mut self) -> Result<Option<Count>, LoadError> {
            Ok(None)
        }
    }

    /// A server that has answered ten requests more, so many milliseconds later, each time it is asked.
    struct Counting {
        ms: u64,
        asked: u64,
    }

    impl Counting {
        fn each(ms: u64) -> Box<dyn Probe> {
            Box::new(Self { ms, asked: 0 })
        }
    }

    impl Probe for Counting {
        fn unix_ns(&mut self) -> Option<u64> {
            None
        }

        fn count(&mut self) -> Result<Option<Count>, LoadError> {
            self.asked += 1;
            Ok(Some(Count { requests: 10 * self.asked, at_s: (self.ms * self.asked) as f64 / 1e3 }))
        }
    }

    /// A server that tells its count once and is gone then, or is gone from the beginning.
    struct Going {
        tells: bool,
    }

    impl Probe for Going {
        fn unix_ns(&mut self) -> Option<u64> {
            None
        }

        fn count(&mut self) -> Result<Option<Count>, LoadError> {
            let tells = std::mem::replace(&mut self.tells, false);
            tells
                .then_some(Some(Count { requests: 0, at_s: 0.0 }))
                .ok_or(LoadError::Failed("gone".to_owned()))
        }
    }

    #[test]
    fn what_some_of_the_servers_counted_is_not_told_as_what_all_did() {
        let servers = ["a:1", "a:2"].map(|text| text.parse().expect("an address"));
        let throughput = |other: fn() -> Box<dyn Probe>| {
            let probe = |server: &Address| {
                if *server == servers[1] { other() } else { Counting::each(10) }
            };
            let (_ends, ended) = std::sync::mpsc::channel();
            let window = Window { start: 0, end: 10_000_000 };
            let counted = Probes::with(&servers, probe).throughput(Clock::start(), window, &ended);
            counted.map(|counted| counted.map(|counted| counted.per_s)).map_err(|error| error.to_string())
        };
        assert_eq!(throughput(|| Counting::each(10)), Ok(Some(2000.0)));
        assert_eq!(throughput(|| Box::new(Ahead::by(0))), Ok(None), "a server that does not count");
        for tells in [false, true] {
            let going: fn() -> Box<dyn Probe> =
                if tells { || Box::new(Going { tells: true }) } else { || Box::new(Going { tells: false }) };
            assert_eq!(throughput(going), Err("gone".to_owned()));
        }
    }

    #[test]
    fn what_a_server_counted_in_another_time_is_not_told() {
        let server = ["a:1".parse().expect("an address")];
        let throughput = |ms| {
            let (_ends, ended) = std::sync::mpsc::channel();
            let window = Window { start: 0, end: 100_000_000 };
            Probes::with(&server, |_| Counting::each(ms)).throughput(Clock::start(), window, &ended)
        };
        assert_eq!([80, 100, 105, 700].map(|ms| throughput(ms).is_ok()), [false, true, true, false]);
        let why = throughput(700).expect_err("seven times as long").to_string();
        assert!(why.contains("a:1 answered so late that its count is of 0.700 s"), "{why}");
    }

    #[test]
    fn how_late_a_server_told_its_count_is_known() {
        let (_ends, ended) = std::sync::mpsc::channel();
        let clock = Clock::start();
        std::thread::sleep(Duration::from_millis(20));
        // The window began 20 ms ago.
        let window = Window { start: 0, end: 100_000_000 };
        let server = ["a:1".parse().expect("an address")];
        let counted = Probes::with(&server, |_| Counting::each(100)).throughput(clock, window, &ended);
        let share = counted.expect("it is there").expect("it tells").edges_share;
        assert!((0.2..20.0).contains(&share), "{share} of 100 ms");
    }

    #[test]
    fn a_server_that_is_named_twice_is_asked_once() {
        let servers = ["a:1", "unix:/b", "a:1", "a:2"].map(|text| text.parse().expect("an address"));
        let asked: Vec<String> = distinct(&servers).map(Address::to_string).collect();
        assert_eq!(asked, ["a:1", "unix:/b", "a:2"]);
    }

    #[test]
    fn the_offset_lies_within_its_error_and_the_shortest_round_trip_counts() {
        let clock = Clock::start();
        let mut server = Ahead { clock, by_ns: 5_000_000_000, delays_us: vec![900, 50, 700] };
        let relation = relate("x", &mut server, clock).expect("it tells");
        assert!((relation.offset_us - 5e6).abs() <= relation.error_us, "{relation:?}");
        assert!((relation.error_us * 2.0 - relation.round_trip_us).abs() < 0.01);
        assert!(relation.round_trip_us >= 50.0, "{relation:?}");
    }
}
