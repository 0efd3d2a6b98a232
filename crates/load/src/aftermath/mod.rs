//! After the last answer: the results of all threads become one, and the report is drawn up.

mod doubts;

use std::time::{SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use crate::bench::{Bench, FinishedClients, Settled};
use crate::cpu::CpuTime;
use crate::dialogue::Dialogue;
use crate::laws::{InteractiveLaw, Middleware};
use crate::pace::ThinkTimes;
use crate::probe::Counted;
use crate::report::{Generator, KindReport, Report, Response, TrafficReport};
use crate::tally::{Tally, Window, WindowFigures, histogram};
use crate::timetable::Timetable;
use crate::worker::{ThreadResults, WindowMeasurement};
use doubts::{Evidence, Reasons};

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
            let (cpu, window_s) = (one.measurement.cpu(), one.measurement.length_s());
            let utilization = cpu.share_of(window_s);
            all.utilization += utilization / threads;
            all.utilization_max = all.utilization_max.max(utilization);
            let without_rest = cpu.share_without_rest(window_s);
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
        self.tally.absorb(&one.tally);
        self.add_measurement(&one.measurement);
        self.without_client += one.without_client;
        self.unanswered += one.unanswered;
        if let Some(lost) = one.lost {
            self.connections_lost += lost.count;
            self.first_loss.get_or_insert(lost.first_reason);
        }
        (one.dialogues, one.shared)
    }

    fn add_measurement(&mut self, one: &WindowMeasurement) {
        self.window_s = self.window_s.max(one.length_s());
        self.window_end = self.window_end.max(one.end_ns());
        self.cpu.absorb(one.cpu());
        self.turn_max = self.turn_max.max(one.turn_max);
        self.late.add(&one.late).expect("all histograms have the same bounds");
        self.think_times.absorb(one.think_times);
        self.behind += one.behind;
        self.waiting.add(&one.waiting).expect("all histograms have the same bounds");
        self.edges_ns = self.edges_ns.saturating_add(one.edges_ns);
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

/// How a run went, beside what its threads found out.
#[derive(Clone, Debug)]
pub(crate) struct RunCourse {
    /// Time of the first request.
    pub(crate) start: SystemTime,
    /// Length of the warm-up in seconds: less than was asked for if the run ended during it.
    pub(crate) warmup_s: f64,
    /// Whether the run ended before its time, or had no set end.
    pub(crate) cut_short: bool,
    /// Whether it was ended because ever more requests were due.
    pub(crate) overrun: bool,
    /// When requests were due in an open loop.
    pub(crate) timetable: Option<Timetable>,
    /// What the servers counted meanwhile; None if that is not known.
    pub(crate) counted: Option<Counted>,
}

/// Draws up the report.
pub(crate) fn report<B: Bench>(
    bench: B,
    course: RunCourse,
    results: RunResults,
    settled: Settled<B>,
) -> Report<B> {
    let options = bench.options();
    let duration_s =
        if course.cut_short { results.window_s.max(1e-9) } else { options.duration.as_secs_f64() };
    let window = WindowFigures { total: results.tally.total(), duration_s };
    let (all, counts) = (KindReport::of(&window.total, duration_s), window.total.counts);
    let requests = window.answered();
    let law = InteractiveLaw::of(options, &window, results.think_times, &results.late, results.edges_ns);
    let middleware = course.counted.map(|counted| Middleware::of(counted, &window, results.waiting.len()));
    let evidence = Evidence {
        options,
        course: &course,
        results: &results,
        window: &window,
        law: law.as_ref(),
        middleware: middleware.as_ref(),
    };
    let Reasons { bottleneck, invalid_because, failed_because } = evidence.reasons();
    Report {
        version: env!("CARGO_PKG_VERSION"),
        seed: options.seed,
        start_unix_s: course.start.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        warmup_s: course.warmup_s,
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
