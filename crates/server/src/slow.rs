//! Logs requests that took too long: whose they were and where their time went.
//!
//! Writing to the log may block, and a network thread must not: lines are written by a thread of their own. If all
//! requests are slow, most lines would be alike: so the number of lines a second is limited, and a line says how many
//! requests were left out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use posthaste_measure::{Ending, Trail};

/// Most requests that wait to be logged.
const QUEUED_MAX: usize = 1024;

/// Most lines in a second.
const LINES_PER_SECOND_MAX: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// A slow request, as it is logged.
#[derive(Debug)]
pub struct SlowRequest {
    /// The request's name: the client's number and the request's on its connection.
    pub request: String,
    /// The client's peer; None: it has disconnected.
    pub peer: Option<String>,
    /// The client's account; None: it has disconnected.
    pub account: Option<String>,
    /// The queue that the request named, if any.
    pub queue: Option<String>,
    /// The request's kind.
    pub kind: &'static str,
    /// How the request ended.
    pub ending: Ending,
    /// The request's stamps, in the order of the stages.
    pub trail: Trail,
    /// The time that the store reported for the batch, in nanoseconds; 0: none.
    pub reported_ns: u64,
    /// The trace of a message in the request, in base16, if there is one.
    pub trace: Option<String>,
    /// Length of the request in bytes; 0: not counted.
    pub request_bytes: u32,
    /// Length of the answer in bytes; 0: not counted.
    pub answer_bytes: u32,
}

impl SlowRequest {
    /// Returns a request of which only the name is known.
    #[must_use]
    pub fn of(request: String) -> Self {
        Self {
            request,
            peer: None,
            account: None,
            queue: None,
            kind: "",
            ending: Ending::Ok,
            trail: Trail::default(),
            reported_ns: 0,
            trace: None,
            request_bytes: 0,
            answer_bytes: 0,
        }
    }
}

/// The log of slow requests.
#[derive(Debug)]
pub struct SlowLog {
    limit_ns: u64,
    count: AtomicU64,
    /// Requests left out since this was last logged.
    left_out: Arc<AtomicU64>,
    requests: SyncSender<SlowRequest>,
}

impl SlowLog {
    /// Starts the thread that logs requests that take longer than `limit`.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(limit: Duration) -> io::Result<Self> {
        let (requests, queued) = sync_channel(QUEUED_MAX);
        let left_out = Arc::new(AtomicU64::new(0));
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let shared = Arc::clone(&left_out);
        Builder::new().name("slow-log".into()).spawn(move || write_lines(&queued, &shared))?;
        Ok(Self { limit_ns, count: AtomicU64::new(0), left_out, requests })
    }

    /// Returns whether a request with this response time is slow.
    #[must_use]
    pub fn is_slow(&self, response_ns: u64) -> bool {
        response_ns > self.limit_ns
    }

    /// Logs a slow request, or counts it as left out.
    pub fn log(&self, request: SlowRequest) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if self.requests.try_send(request).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many slow requests there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

fn write_lines(queued: &Receiver<SlowRequest>, left_out: &AtomicU64) {
    let mut second_began = Instant::now();
    let mut lines = 0;
    loop {
        // The number of requests left out is logged when the second is over, even if no other is slow by then.
        let wait = match left_out.load(Ordering::Relaxed) {
            0 => Duration::MAX,
            _ => SECOND.saturating_sub(second_began.elapsed()),
        };
        let next = queued.recv_timeout(wait);
        if second_began.elapsed() >= SECOND {
            (second_began, lines) = (Instant::now(), 0);
            let requests = left_out.swap(0, Ordering::Relaxed);
            if requests > 0 {
                tracing::warn!(requests, "more slow requests than are told one by one");
            }
        }
        match next {
            Ok(request) if lines < LINES_PER_SECOND_MAX => {
                lines += 1;
                write_line(&request);
            }
            Ok(_) => {
                left_out.fetch_add(1, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn write_line(slow: &SlowRequest) {
    let [parse_ms, waiting_ms, dispatch_ms, service_ms, reply_ms] = slow.trail.stages().map(milliseconds);
    tracing::warn!(
        request = slow.request,
        kind = slow.kind,
        ending = slow.ending.name(),
        response_ms = milliseconds(slow.trail.response()),
        parse_ms,
        waiting_ms,
        dispatch_ms,
        service_ms,
        store_ms = (slow.reported_ns > 0).then(|| milliseconds(slow.reported_ns)),
        reply_ms,
        queue = slow.queue,
        account = slow.account,
        peer = slow.peer,
        trace = slow.trace,
        request_bytes = (slow.request_bytes > 0).then_some(slow.request_bytes),
        answer_bytes = (slow.answer_bytes > 0).then_some(slow.answer_bytes),
        "slow request"
    );
}

/// Returns nanoseconds as milliseconds, cut to whole microseconds.
fn milliseconds(ns: u64) -> f64 {
    (ns / 1000) as f64 / 1000.0
}
