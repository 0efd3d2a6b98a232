//! After the last answer: the results of all threads become one, and the report is drawn up.

use std::time::{SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use crate::bench::{Bench, FinishedClients, Settled};
use crate::cpu::CpuTime;
use crate::dialogue::Dialogue;
use crate::halt::{Halt, is_interrupted};
use crate::laws::{InteractiveLaw, Middleware};
use crate::pace::ThinkTimes;
use crate::report::{Generator, KindReport, Report, Response, TrafficReport, legible};
use crate::run_options::RunOptions;
use crate::tally::{Counts, LATENCY_MAX, Tally, Window, WindowFigures, histogram};
use crate::worker::ThreadResults;

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

/// Share of the requests of an open loop that may wait at the end beyond those that are always in flight.
const BACKLOG_SHARE_MAX: f64 = 0.01;

/// Seconds below which nothing counts as measured.
const NOTHING_S: f64 = 1e-6;

/// The results of all threads together.
#[derive(Debug)]
pub(crate) struct RunResults {
    tally: Tally,
    threads: u32,
    cpu: CpuTime,
    utilization: f64,
    utilization_max: f64,
    /// The thread that had the least rest.
    least_rest: LeastRest,
    /// Length of the window in seconds, as the thread saw it for which it was longest.
    window_s: f64,
    window_end: u64,
    turn_max: u64,
    late: Histogram<u64>,
    think_times: ThinkTimes,
    behind: usize,
    without_client: u64,
    waiting: Histogram<u64>,
    edges_ns: i64,
    connections_lost: usize,
    first_loss: Option<String>,
    unanswered: usize,
}

impl RunResults {
    /// Adds up the results of all threads; returns apart what only the tier understands.
    pub(crate) fn of<B: Bench>(
        thread_results: Vec<ThreadResults<B::Dialogue>>,
    ) -> (Self, FinishedClients<B>) {
        let kinds = <B::Dialogue as Dialogue>::KINDS.len();
        let mut finished = FinishedClients { dialogues: Vec::new(), shared: Vec::new(), unanswered: 0 };
        let mut all = Self {
            tally: Tally::new(Window { start: 0, end: 0 }, kinds, false),
            threads: 0,
            cpu: CpuTime::default(),
            utilization: 0.0,
            utilization_max: 0.0,
            least_rest: LeastRest::default(),
            window_s: 0.0,
            window_end: 0,
            turn_max: 0,
            late: histogram(3),
            think_times: ThinkTimes::default(),
            behind: 0,
            without_client: 0,
            waiting: histogram(3),
            edges_ns: 0,
            connections_lost: 0,
            first_loss: None,
            unanswered: 0,
        };
        let threads = thread_results.len().max(1) as f64;
        for one in thread_results {
            let utilization = one.cpu.share_of(one.window_s);
            all.utilization += utilization / threads;
            all.utilization_max = all.utilization_max.max(utilization);
            let without_rest = one.cpu.share_without_rest(one.window_s);
            if without_rest > all.least_rest.without_rest {
                all.least_rest = LeastRest { without_rest, waiting: without_rest - utilization };
            }
            let (dialogues, shared) = all.add(one);
            finished.dialogues.extend(dialogues);
            finished.shared.push(shared);
        }
        finished.unanswered = all.unanswered;
        (all, finished)
    }

    /// Returns the measured part of the planned window, if every thread came back before its end.
    pub(crate) fn cut_short(&self, planned: Window) -> Option<Window> {
        let (start, end) = (planned.start.min(self.window_end), self.window_end);
        (end < planned.end).then_some(Window { start, end })
    }

    /// Adds the results of a thread; returns what only its tier understands.
    fn add<D: Dialogue>(&mut self, one: ThreadResults<D>) -> (Vec<D>, D::Shared) {
        self.threads += 1;
        self.window_s = self.window_s.max(one.window_s);
        self.window_end = self.window_end.max(one.window_end);
        self.tally.absorb(&one.tally);
        self.cpu.absorb(one.cpu);
        self.turn_max = self.turn_max.max(one.turn_max);
        self.late.add(&one.late).expect("all histograms have the same bounds");
        self.think_times.absorb(one.think_times);
        self.behind += one.behind;
        self.without_client += one.without_client;
        self.waiting.add(&one.waiting).expect("all histograms have the same bounds");
        self.edges_ns = self.edges_ns.saturating_add(one.edges_ns);
        self.unanswered += one.unanswered;
        if let Some(lost) = one.lost {
            self.connections_lost += lost.count;
            self.first_loss.get_or_insert(lost.first_reason);
        }
        (one.dialogues, one.shared)
    }
}

/// How the thread with the least rest spent the window, in shares of it.
#[derive(Clone, Copy, Debug, Default)]
struct LeastRest {
    /// Share in which it was busy, or waited for a processor.
    without_rest: f64,
    /// Share in which it waited for a processor.
    waiting: f64,
}

/// When a run took place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// Time of the first request.
    pub(crate) start: SystemTime,
    /// Length of the warm-up in seconds: less than was asked for if the run ended during it.
    pub(crate) warmup_s: f64,
    /// Whether the run ended before its time, or had no set end.
    pub(crate) cut_short: bool,
}

/// Draws up the report.
pub(crate) fn report<B: Bench>(
    bench: B,
    Kept { start, warmup_s, cut_short }: Kept,
    results: RunResults,
    settled: Settled<B>,
    middleware_per_s: Option<f64>,
    halt: &Halt,
) -> Report<B> {
    let options = bench.options();
    let duration_s = if cut_short { results.window_s.max(1e-9) } else { options.duration.as_secs_f64() };
    let window = WindowFigures { total: results.tally.total(), duration_s };
    let (all, counts) = (KindReport::of(&window.total, duration_s), window.total.counts);
    let requests = window.answered();
    let law = InteractiveLaw::of(options, &window, results.think_times, &results.late, results.edges_ns);
    let middleware = middleware_per_s.map(|counted_per_s| Middleware::of(counted_per_s, &window));
    let mut invalid_because = doubts_of_generator(&results, &all.response);
    let bottleneck = !invalid_because.is_empty();
    let early = ended_early(options, duration_s, halt, cut_short);
    let failed_because = failures(&results, requests, early.as_deref());
    invalid_because.extend(early);
    invalid_because.extend(doubts_of_pace(options, &results, &all.response, &window));
    invalid_because.extend(doubts_of_answers(&results, counts));
    for failure in &failed_because {
        if !invalid_because.contains(failure) {
            invalid_because.push(failure.clone());
        }
    }
    Report {
        version: env!("CARGO_PKG_VERSION"),
        seed: options.seed,
        start_unix_s: start.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        warmup_s,
        duration_s,
        throughput_per_s: all.throughput_per_s,
        errors_per_s: counts.errors as f64 / duration_s,
        counts,
        errors_by_word: results.tally.error_words().clone(),
        response: all.response,
        since_sent: results.tally.since_sent().map(Response::of),
        traffic: TrafficReport::of(results.tally.traffic, requests, duration_s),
        in_flight_mean: window.in_flight_mean(),
        kinds: results
            .tally
            .kinds()
            .map(|(kind, f)| (<B::Dialogue as Dialogue>::KINDS[kind], KindReport::of(f, duration_s)))
            .collect(),
        details: settled.details,
        generator: generator(&results, requests, bottleneck),
        connections_lost: results.connections_lost,
        unanswered: results.unanswered,
        behind: results.behind,
        waiting: results.waiting.len() as usize,
        interactive_law: law,
        middleware,
        valid: invalid_because.is_empty(),
        invalid_because,
        failed_because,
        search: Vec::new(),
        broken_off: false,
        unwritten: None,
        check: settled.check,
        options: bench,
    }
}

/// Returns what the load generator itself used.
fn generator(results: &RunResults, requests: u64, bottleneck: bool) -> Generator {
    Generator {
        threads: results.threads,
        cpu: results.cpu,
        utilization: results.utilization,
        utilization_max: results.utilization_max,
        cpu_us_per_request: if requests > 0 { results.cpu.busy_s() * 1e6 / requests as f64 } else { 0.0 },
        turn_max_us: results.turn_max as f64 / 1e3,
        late_p99_us: results.late.value_at_quantile(0.99) as f64 / 1e3,
        late_max_us: results.late.max() as f64 / 1e3,
        bottleneck,
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
fn ended_early(bench: &RunOptions, measured_s: f64, halt: &Halt, cut_short: bool) -> Option<String> {
    let so_far = if measured_s > NOTHING_S {
        format!("with {measured_s:.1} s measured")
    } else {
        "before anything was measured".to_owned()
    };
    if halt.is_overrun() {
        let rate = legible(bench.total_rate().unwrap_or_default());
        return Some(format!(
            "the run was ended {so_far}, since ever more requests were due and could not be sent: \
             {rate} requests per second are more than the server takes, or this machine sends"
        ));
    }
    if is_interrupted() {
        return Some(format!("the run was interrupted {so_far}"));
    }
    (cut_short && bench.requests.is_none())
        .then(|| format!("the run ended {so_far}, since every client was lost"))
}

/// Returns why an open loop did not do what was due, if so.
fn doubts_of_pace(
    bench: &RunOptions,
    results: &RunResults,
    response: &Response,
    window: &WindowFigures,
) -> Option<String> {
    let rate = bench.total_rate()?;
    if results.behind as f64 > rate * BEHIND_S_MAX {
        return Some(format!(
            "{} requests were due and could not be sent because earlier ones were not answered: the server does not \
             keep up with {} requests per second, or --clients {} with --pipeline {} are too few",
            results.behind,
            legible(rate),
            bench.clients,
            bench.pipeline
        ));
    }
    // A response time is counted when the answer arrives, so requests that wait at the end are in none.
    let (waiting, due) = (results.waiting.len(), rate * window.duration_s);
    let in_flight = window.in_flight_mean();
    if waiting as f64 > in_flight + 1.0 + BACKLOG_SHARE_MAX * due {
        return Some(format!(
            "{waiting} of {due:.0} requests due were not answered at the end, {in_flight:.0} on average: the server did not \
             serve what was due, and response times do not hold how long these waited"
        ));
    }
    let p999_us = response.p999_us;
    let overdue = results.waiting.count_between((p999_us * 1e3) as u64 + 1, LATENCY_MAX);
    // Of the answered requests one in a thousand took as long, too.
    (overdue > 1 + window.total.counts.served() / 1000).then(|| {
        format!(
            "{overdue} requests that were not answered at the end had waited by then for longer than p99.9, {:.1} ms, which \
             would be higher with them",
            p999_us / 1e3
        )
    })
}

/// Returns why the run is a failure, if it is one; of a run that ended before anything was measured, why it ended.
fn failures(results: &RunResults, requests: u64, early: Option<&str>) -> Vec<String> {
    let mut failures = Vec::new();
    if let Some(why) = &results.first_loss {
        let lost = counted(results.connections_lost as u64, "connection");
        failures.push(format!("{lost} ended early, the first because: {why}"));
    }
    if results.unanswered > 0 {
        failures.push(format!("{} had no answer", counted(results.unanswered as u64, "request")));
    }
    if requests == 0 {
        let nothing = "no request was answered within the measured window: give it a longer --duration, or see what the server does";
        let early = early.filter(|_| results.window_s < NOTHING_S);
        failures.push(early.unwrap_or(nothing).to_owned());
    }
    failures
}

/// Returns what else there is to be said against the figures.
fn doubts_of_answers(results: &RunResults, counts: Counts) -> Vec<String> {
    let served = counts.served();
    let requests = served + counts.errors;
    let mut doubts = Vec::new();
    if results.without_client > 0 {
        let due = counted(results.without_client, "request");
        doubts.push(format!("{due} had no client left, because connections were lost"));
    }
    if requests > 0 && served == 0 {
        doubts.push(format!("nothing was served: the server gave {}", counted(requests, "error")));
    }
    doubts
}

/// Returns a count with its noun, "1 request" or "2 requests".
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
