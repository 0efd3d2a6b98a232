//! Second opinions on a run's throughput: what the interactive law says it must be, and what the servers counted.
//!
//! Both count the same requests as the clients, but for some at the edges of the window. Among many requests those do
//! not matter; of a hundred they are several percent, and must not pass for a mistake.

use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::pace::ThinkTimes;
use crate::probe::Counted;
use crate::run_options::RunOptions;
use crate::tally::WindowFigures;

/// The interactive response time law, X = N / (R + Z): what a closed loop must serve given its response and think times
/// (Jain, The Art of Computer Systems Performance Analysis, 1991, section 33.5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct InteractiveLaw {
    /// R, in microseconds: the mean of every answer, errors too.
    pub response_us: f64,
    /// Z, in microseconds: the mean of the think times drawn, and how late requests were sent after them on average.
    pub think_us: f64,
    /// N / (R + Z), requests per second.
    pub predicted_per_s: f64,
    /// Requests per second that the clients counted: every answer, errors too.
    pub measured_per_s: f64,
    /// The measured as a share of the predicted, less 1.
    pub difference: f64,
    /// How large a difference the edges of the window and the clock explain.
    pub tolerance: f64,
}

/// What the servers themselves counted in the measured stretch, beside what the clients counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Middleware {
    /// Requests that all servers answered, per second.
    pub counted_per_s: f64,
    /// Requests per second that the clients counted: every answer, errors too.
    pub measured_per_s: f64,
    /// The measured as a share of the counted, less 1.
    pub difference: f64,
    /// How large a difference the edges of the window and the clock explain.
    pub tolerance: f64,
}

impl Middleware {
    /// Compares the servers' count with that of the clients in the same window, at whose end so many requests waited.
    pub(crate) fn of(counted: Counted, window: &WindowFigures, waiting: u64) -> Self {
        let Counted { per_s: counted_per_s, edges_share } = counted;
        let (requests, measured_per_s) = (window.answered(), window.answered_per_s());
        // If the servers counted nothing there is nothing to divide by: any request counts as a difference of 100 %.
        let difference = match (counted_per_s > 0.0, requests) {
            (true, _) => measured_per_s / counted_per_s - 1.0,
            (false, 0) => 0.0,
            (false, _) => 1.0,
        };
        // At each edge: the requests in flight, and the request that asks for the count.
        let in_flight = window.in_flight_mean();
        let at_edges = in_flight + in_flight.max(waiting as f64) + 2.0;
        let tolerance = DIFFERENCE_MAX + at_edges / requests.max(1) as f64 + edges_share;
        Self { counted_per_s, measured_per_s, difference, tolerance }
    }

    /// Returns whether both counts agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.difference.abs() <= self.tolerance
    }
}

impl fmt::Display for Middleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counted_per_s, measured_per_s, difference, tolerance } = self;
        let verdict =
            if self.agrees() { "they agree" } else { "THEY DISAGREE, is somebody else using the server?" };
        write!(
            f,
            "middleware: counted {counted_per_s:.0} requests/s, measured {measured_per_s:.0} ({:+.2} %, tolerance {:.2} %): {verdict}",
            difference * 100.0,
            tolerance * 100.0
        )
    }
}

/// A difference that the clock explains, however many requests there are.
const DIFFERENCE_MAX: f64 = 0.01;

/// Number of standard deviations that chance explains.
const DEVIATIONS_MAX: f64 = 3.0;

impl InteractiveLaw {
    /// Returns the law's prediction for a closed loop; None for an open one, with --requests, or if nothing was
    /// answered. Errors count too, since clients wait for them.
    #[must_use]
    pub fn of(
        bench: &RunOptions,
        window: &WindowFigures,
        think_times: ThinkTimes,
        late: &Histogram<u64>,
        edges_ns: i64,
    ) -> Option<Self> {
        let answers = window.answered();
        // With --requests clients stop one after the other, so N is not constant.
        if bench.is_open() || bench.requests.is_some() || answers == 0 {
            return None;
        }
        let in_flight = f64::from(bench.clients) * f64::from(bench.pipeline);
        let late_us = if late.is_empty() { 0.0 } else { late.mean() / 1e3 };
        let think_us = think_times.mean_us() + late_us;
        let response_us = window.total.mean_ns() / 1e3;
        let measured_per_s = window.answered_per_s();
        let predicted_per_s = in_flight / ((response_us + think_us) * 1e-6);
        let difference = measured_per_s / predicted_per_s - 1.0;
        // Each client is in the middle of a cycle at both edges. The part of the cycle inside the window has the
        // deviation of a whole cycle when times are exponential, and less otherwise.
        let fewest = (answers as f64).min(predicted_per_s * window.duration_s);
        let by_chance = DEVIATIONS_MAX * (2.0 * in_flight).sqrt() / fewest;
        // When all clients stand still together at an edge it is no matter of chance, but how long they did is known.
        let by_edges = edges_ns.unsigned_abs() as f64 * 1e-9 / (in_flight * window.duration_s);
        let tolerance = DIFFERENCE_MAX + by_chance + by_edges;
        Some(Self { response_us, think_us, predicted_per_s, measured_per_s, difference, tolerance })
    }

    /// Returns whether prediction and measurement agree.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.difference.abs() <= self.tolerance
    }
}

impl fmt::Display for InteractiveLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { predicted_per_s, measured_per_s, difference, tolerance, .. } = self;
        let verdict = if self.holds() { "they agree" } else { "THEY DISAGREE" };
        write!(
            f,
            "interactive law: N / (R + Z) = {predicted_per_s:.0} requests/s, measured {measured_per_s:.0} ({:+.2} %, tolerance {:.2} %): {verdict}",
            difference * 100.0,
            tolerance * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Outcome;
    use crate::tally::{Figures, histogram};

    /// A window in which so many requests were served, each in `response_ns`.
    fn window(requests: u64, response_ns: u64, duration_s: f64) -> WindowFigures {
        let mut total = Figures::new(3);
        total.record(Outcome::Ok, response_ns, requests);
        WindowFigures { total, duration_s }
    }

    #[test]
    fn a_few_requests_at_the_edges_are_no_disagreement_and_one_in_fifty_of_many_is() {
        // By Little's law 0.4 requests are in flight.
        let said = |requests: u64, counted: f64| {
            let counted = Counted { per_s: counted, edges_share: 0.0 };
            Middleware::of(counted, &window(requests, 400_000_000 / requests.max(1), 1.0), 0).to_string()
        };
        assert!(said(97, 100.0).ends_with("measured 97 (-3.00 %, tolerance 3.89 %): they agree"));
        assert!(said(97, 110.0).contains("THEY DISAGREE"));
        assert!(said(100_000, 98_000.0).contains("THEY DISAGREE"));
        assert!(said(100_000, 0.0).contains("THEY DISAGREE"), "it was not this server that answered");
        assert!(said(0, 0.0).contains("they agree"));
    }

    #[test]
    fn what_waited_at_the_end_and_a_count_that_came_late_are_no_disagreement() {
        let agrees = |edges_share, waiting| {
            let counted = Counted { per_s: 97_000.0, edges_share };
            Middleware::of(counted, &window(100_000, 4_000, 1.0), waiting).agrees()
        };
        assert!(!agrees(0.0, 0), "3 % more than the servers counted");
        assert!(agrees(0.025, 0) && agrees(0.0, 2_500));
    }

    #[test]
    fn one_answer_where_one_in_minutes_is_due_is_no_disagreement() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            run: RunOptions,
        }
        let Line { run } = clap::Parser::parse_from(["bench", "--clients", "16", "--think", "1h"]);
        let mut think_times = ThinkTimes::default();
        think_times.add(3_600_000_000_000);
        let law = InteractiveLaw::of(&run, &window(1, 1_000_000, 1.0), think_times, &histogram(3), 0);
        let law = law.expect("a closed loop");
        assert!(law.holds());
        let said = law.to_string();
        assert!(said.contains(", tolerance ") && said.ends_with(" %): they agree"), "{said}");
    }

    #[test]
    fn cycles_that_the_edges_cut_are_no_disagreement_and_one_in_fifty_of_many_is() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            run: RunOptions,
        }
        let Line { run } = clap::Parser::parse_from(["bench", "--clients", "10"]);
        let holds_with = |edges_ns: i64, answers: u64, measured_s: f64| {
            // Ten clients, a millisecond each: 10,000 in a second.
            let window = window(answers, 1_000_000, measured_s);
            let law = InteractiveLaw::of(&run, &window, ThinkTimes::default(), &histogram(3), edges_ns);
            law.expect("a closed loop").holds()
        };
        let holds = |answers: u64, measured_s: f64| holds_with(0, answers, measured_s);
        assert!(holds(80, 0.0085), "6 % more than there were, of 80");
        assert!(!holds(80, 0.011), "a third less of them");
        assert!(!holds(100_000, 10.2), "2 % more, of many");
        // All ten stood still for the last 200 ms.
        assert!(holds_with(10 * 200_000_000, 100_000, 10.2));
        assert!(!holds_with(10 * 200_000_000, 100_000, 10.5));
    }
}
