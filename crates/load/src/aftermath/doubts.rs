//! What speaks against the figures of a run, in sentences for its report.

use super::{RunCourse, RunResults};
use crate::halt::is_interrupted;
use crate::laws::{InteractiveLaw, Middleware};
use crate::report::Response;
use crate::run_options::RunOptions;
use crate::tally::{Counts, LATENCY_MAX, WindowFigures};
use crate::timetable::Timetable;

/// Share of the window above which a thread measured itself: it was busy, or busy and kept from the processor together.
const UTILIZATION_MAX: f64 = 0.95;

/// Lateness of the generator that spoils response times: above this many microseconds, and above this share of the
/// median.
const LATE_US_MIN: f64 = 500.0;
const LATE_SHARE_MAX: f64 = 0.2;
/// Number of requests below which the latest hundredth says nothing.
const LATE_COUNT_MIN: u64 = 100;

/// An open loop cannot keep up when more than the arrivals of this many seconds wait for a client.
const BEHIND_S_MAX: f64 = 0.5;

/// Seconds by which a replay may end before what is measured.
const ENDED_S_MAX: f64 = 1.0;

/// Share of the requests of an open loop that may wait at the end beyond those that are always in flight.
const BACKLOG_SHARE_MAX: f64 = 0.01;

/// Share of the time of all clients of a closed loop that requests may have waited at the end beyond the longest
/// response time.
const BEYOND_LONGEST_SHARE_MAX: f64 = 0.01;

/// Number of answers below which a second opinion on the throughput is shown and held against nobody: chance and the
/// edges of the window decide it.
const COMPARED_MIN: u64 = 1000;

/// Seconds below which nothing counts as measured.
const NOTHING_S: f64 = 1e-6;

/// What is known of a run when its figures are judged.
pub(super) struct Evidence<'a> {
    pub(super) options: &'a RunOptions,
    pub(super) course: &'a RunCourse,
    pub(super) results: &'a RunResults,
    pub(super) window: &'a WindowFigures,
    /// Second opinions on the throughput, where there are some.
    pub(super) law: Option<&'a InteractiveLaw>,
    pub(super) middleware: Option<&'a Middleware>,
}

/// What speaks against a run.
pub(super) struct Reasons {
    /// Whether the load generator may have been the bottleneck.
    pub(super) bottleneck: bool,
    /// Why the figures do not speak of the server, the most telling first.
    pub(super) invalid_because: Vec<String>,
    /// Those of them that make the run a failure.
    pub(super) failed_because: Vec<String>,
}

impl Evidence<'_> {
    /// Returns what speaks against the run. The order is that in which one reason explains the next, and the line of a
    /// search shows only the first: a generator that was too slow itself makes every other figure its own; a run that
    /// ended early did less than was due; what was not sent or not answered shows in the throughput.
    pub(super) fn reasons(&self) -> Reasons {
        let Self { options, course, results, window, law, middleware } = *self;
        let early = ended_early(options, course, window.duration_s);
        let is_whole = early.is_none() && results.connections_lost == 0;
        let failed_because = failures(results, window.total.counts, early.as_deref());
        let mut invalid_because = doubts_of_generator(results, &Response::of(&window.total.latency));
        let bottleneck = !invalid_because.is_empty();
        invalid_because.extend(early);
        // Of a run that ended in the warm-up nothing is asked.
        if window.duration_s > NOTHING_S {
            let timetable = course.timetable.as_ref();
            let pace = timetable
                .and_then(|timetable| doubts_of_pace(options, timetable, course.warmup_s, results, window));
            invalid_because.extend(pace.or_else(|| doubts_of_waiting(options, results, window)));
        }
        invalid_because.extend(without_client(results));
        if is_whole && window.answered() >= COMPARED_MIN {
            invalid_because.extend(doubts_of_throughput(options, law, middleware));
        }
        // That a run ended early may be why it failed, and stands there already.
        for failure in &failed_because {
            if !invalid_because.contains(failure) {
                invalid_because.push(failure.clone());
            }
        }
        Reasons { bottleneck, invalid_because, failed_because }
    }
}

/// Returns why the generator may have been the bottleneck; empty if it was not.
fn doubts_of_generator(results: &RunResults, response: &Response) -> Vec<String> {
    let mut doubts = Vec::new();
    let late_us = results.late.value_at_quantile(0.99) as f64 / 1e3;
    if results.late.len() >= LATE_COUNT_MIN && late_us > LATE_US_MIN.max(LATE_SHARE_MAX * response.p50_us) {
        doubts.push(format!(
            "requests were sent late, one in a hundred by more than {late_us:.0} us, although their clients were free: \
             use more --threads, or another machine"
        ));
    }
    if results.utilization_max > UTILIZATION_MAX {
        doubts.push(format!(
            "a thread of the load generator was busy {:.0} % of the time: use more --threads, or another machine",
            results.utilization_max * 100.0
        ));
    } else if results.least_rest.without_rest > UTILIZATION_MAX {
        doubts.push(format!(
            "a thread of the load generator was kept from the processor for {:.0} % of the time, and busy for the rest: \
             give it processors of its own",
            results.least_rest.waiting * 100.0
        ));
    }
    doubts
}

/// Returns why the run ended before its time, if it did.
fn ended_early(options: &RunOptions, course: &RunCourse, measured_s: f64) -> Option<String> {
    let so_far = if measured_s > NOTHING_S {
        format!("with {measured_s:.1} s measured")
    } else {
        "before anything was measured".to_owned()
    };
    if course.overrun {
        let load = course.timetable.as_ref().map_or_else(String::new, Timetable::described);
        return Some(format!(
            "the run was ended {so_far}, since ever more requests were due and could not be sent: \
             {load} are more than the server takes, or this machine sends"
        ));
    }
    if is_interrupted() {
        return Some(format!("the run was interrupted {so_far}"));
    }
    (course.cut_short && options.requests.is_none())
        .then(|| format!("the run ended {so_far}, since every client was lost"))
}

/// Returns why an open loop did not do what was due, if so, in a window after a warm-up of so many seconds.
fn doubts_of_pace(
    bench: &RunOptions,
    timetable: &Timetable,
    warmup_s: f64,
    results: &RunResults,
    window: &WindowFigures,
) -> Option<String> {
    let end_s = warmup_s + window.duration_s;
    if results.behind as f64 > timetable.due_between(end_s - BEHIND_S_MAX, end_s) {
        return Some(format!(
            "{} requests were due and could not be sent because earlier ones were not answered: the server does not \
             keep up with {}, or --clients {} with --pipeline {} are too few",
            results.behind,
            timetable.described(),
            bench.clients,
            bench.pipeline
        ));
    }
    if let Some(last_s) = timetable.end_s().filter(|last_s| *last_s < end_s - ENDED_S_MAX) {
        return Some(format!(
            "the replay was over {:.1} s before the end of the measured time: give it a --duration of {:.1} s",
            end_s - last_s,
            (last_s - warmup_s).max(0.0)
        ));
    }
    let (waiting, due) = (results.waiting.len(), timetable.due_between(warmup_s, end_s));
    let in_flight = window.in_flight_mean();
    (waiting as f64 > in_flight + 1.0 + BACKLOG_SHARE_MAX * due).then(|| {
        format!(
            "{waiting} of {due:.0} requests due were not answered at the end, {in_flight:.0} on average: the server did not \
             serve what was due, and response times do not hold how long these waited"
        )
    })
}

/// Returns why response times do not hold how long requests waited, if so: a response time is counted when the answer
/// arrives, so requests that wait at the end are in none.
fn doubts_of_waiting(options: &RunOptions, results: &RunResults, window: &WindowFigures) -> Option<String> {
    let (waiting, latency) = (&results.waiting, &window.total.latency);
    // Where nothing was served there is nothing to compare with, and the run has failed.
    if latency.is_empty() {
        return None;
    }
    let p999_us = Response::of(latency).p999_us;
    let overdue = waiting.count_between((p999_us * 1e3) as u64 + 1, LATENCY_MAX);
    // Of the answered requests one in a thousand took as long, too.
    if overdue > 1 + window.total.counts.served() / 1000 {
        return Some(format!(
            "{overdue} requests that were not answered at the end had waited by then for longer than p99.9, {:.1} ms, which \
             would be higher with them",
            p999_us / 1e3
        ));
    }
    // When the clients of a closed loop wait together they are too few for that beside many fast answers.
    let clients_ns = f64::from(options.clients) * f64::from(options.pipeline) * window.duration_s * 1e9;
    let beyond = waiting.iter_recorded().map(|one| {
        one.value_iterated_to().saturating_sub(latency.max()) as f64 * one.count_at_value() as f64
    });
    let stood_still = !options.is_open() && beyond.sum::<f64>() > BEYOND_LONGEST_SHARE_MAX * clients_ns;
    stood_still.then(|| {
        format!(
            "{} not answered at the end had waited by then for up to {:.1} ms, where no response time is longer than \
             {:.1} ms: the server stood still, and response times do not show it",
            counted(waiting.len(), "request"),
            waiting.max() as f64 / 1e6,
            latency.max() as f64 / 1e6
        )
    })
}

/// Returns why the run is a failure, if it is one; of a run that ended before anything was measured, why it ended.
fn failures(results: &RunResults, counts: Counts, early: Option<&str>) -> Vec<String> {
    let (served, errors) = (counts.served(), counts.errors);
    let mut failures = Vec::new();
    if let Some(why) = &results.first_loss {
        let lost = counted(results.connections_lost as u64, "connection");
        failures.push(format!("{lost} ended early, the first because: {why}"));
    }
    if results.unanswered > 0 {
        failures.push(format!("{} had no answer", counted(results.unanswered as u64, "request")));
    }
    if served == 0 && errors > 0 {
        let words: Vec<_> = results.tally.error_words().keys().map(String::as_str).collect();
        let errors = counted(errors, "error");
        failures.push(format!("nothing was served: the server gave {errors} ({})", words.join(", ")));
    } else if served == 0 {
        let nothing = "no request was answered within the measured window: give it a longer --duration, or see what the server does";
        let early = early.filter(|_| results.window_s < NOTHING_S);
        failures.push(early.unwrap_or(nothing).to_owned());
    }
    failures
}

/// Returns how many requests had no client left, if there were any.
fn without_client(results: &RunResults) -> Option<String> {
    (results.without_client > 0).then(|| {
        let due = counted(results.without_client, "request");
        format!("{due} had no client left, because connections were lost")
    })
}

/// Returns which second opinions on the throughput of a whole run, with answers enough, speak against it.
fn doubts_of_throughput(
    options: &RunOptions,
    law: Option<&InteractiveLaw>,
    middleware: Option<&Middleware>,
) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(law) = law.filter(|law| !law.holds()) {
        doubts.push(format!(
            "by the interactive law {:.0} requests per second must have been answered, and {:.0} were counted: \
             something was measured wrongly",
            law.predicted_per_s, law.measured_per_s
        ));
    }
    // In an open loop the rate of the edges need not be that of the whole. With --start-at other generators take part.
    let is_alone = !options.is_open() && options.start_at.is_none();
    if let Some(middleware) = middleware.filter(|middleware| is_alone && !middleware.agrees()) {
        doubts.push(format!(
            "the servers counted {:.0} requests per second and the clients {:.0}: another program uses the servers, \
             there are more of them than were named with --connect, or one side counts wrongly",
            middleware.counted_per_s, middleware.measured_per_s
        ));
    }
    doubts
}

/// Returns a count with its noun, "1 request" or "2 requests".
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueBench;
    use crate::dialogue::Outcome;
    use crate::queue::options::tests::parse;
    use crate::tally::Figures;

    /// What is said of a run of a second in which so many requests were served in a millisecond each, and these waited
    /// at its end for so many milliseconds.
    fn said_of(words: &str, served: u64, waiting: &[(u64, u64)]) -> Option<String> {
        let (mut results, _) = RunResults::of::<QueueBench>(Vec::new());
        for (requests, ms) in waiting {
            results.waiting.record_n(ms * 1_000_000, *requests).expect("a time within the bounds");
        }
        let mut total = Figures::new(3);
        total.record(Outcome::Ok, 1_000_000, served);
        doubts_of_waiting(&parse(words).run, &results, &WindowFigures { total, duration_s: 1.0 })
    }

    #[test]
    fn what_clients_of_a_closed_loop_waited_for_at_the_end_is_a_doubt_once_it_is_a_share_of_their_time() {
        // A hundredth of the time of all clients beyond the longest response time, a millisecond.
        for (words, few, many) in [
            ("--clients 16", (16, 10), (16, 12)),
            ("--clients 4 --pipeline 4", (8, 20), (8, 24)),
            ("--clients 1", (1, 10), (1, 12)),
        ] {
            assert_eq!(said_of(words, 100_000, &[few]), None, "{words}");
            let said = said_of(words, 100_000, &[many]).expect("a doubt");
            assert!(said.contains("no response time is longer than 1.0 ms"), "{said}");
        }
        assert_eq!(said_of("--clients 16", 100_000, &[(16, 1)]), None, "that is how long answers take");
        assert_eq!(said_of("--clients 16", 0, &[(16, 500)]), None, "there is nothing to compare with");
    }

    #[test]
    fn more_that_wait_for_longer_than_a_percentile_than_it_leaves_out_are_a_doubt_in_every_loop() {
        for words in ["--clients 64", "--clients 64 --rate 10000"] {
            assert_eq!(said_of(words, 10_000, &[(11, 5)]), None, "{words}");
            let said = said_of(words, 10_000, &[(12, 5)]).expect("a doubt");
            assert!(said.starts_with("12 requests") && said.contains("longer than p99.9"), "{said}");
        }
    }

    #[test]
    fn a_broken_law_is_a_doubt_and_one_that_holds_is_none() {
        let law = |difference| InteractiveLaw {
            response_us: 1000.0,
            think_us: 0.0,
            predicted_per_s: 16_000.0,
            measured_per_s: 16_000.0 * (1.0 + difference),
            difference,
            tolerance: 0.02,
        };
        let doubts = |difference| doubts_of_throughput(&parse("").run, Some(&law(difference)), None);
        assert!(doubts(0.01).is_empty() && doubts(-0.01).is_empty());
        for difference in [0.03, -0.03] {
            let doubts = doubts(difference);
            assert!(doubts.len() == 1 && doubts[0].contains("by the interactive law 16000"), "{doubts:?}");
        }
    }
}
