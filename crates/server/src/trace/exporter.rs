//! The thread that sends spans to a collector, those of about a second in one request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use posthaste_measure::Clock;

use super::{TracedRequest, otlp};

/// Most messages whose spans wait to be sent.
const QUEUED_MAX: usize = 8192;
/// Most messages in one request, and how long the first waits for others.
const BATCH_MAX: usize = 512;
const BATCH_WITHIN: Duration = Duration::from_secs(1);
/// How long a collector may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Path of the request, appended to the collector's URL.
const PATH: &str = "/v1/traces";

/// A command to the exporting thread.
enum Command {
    /// Export the spans of this request.
    Export(TracedRequest),
    /// Export everything queued so far, and then drop the sender.
    Flush(SyncSender<()>),
}

/// A handle to the exporting thread.
#[derive(Debug)]
pub struct Tracer {
    commands: SyncSender<Command>,
    lost: Arc<AtomicU64>,
}

impl Tracer {
    /// Starts the thread that sends spans to the collector at `url`, such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(url: &str, clock: Clock) -> io::Result<Self> {
        let (commands, received) = sync_channel(QUEUED_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let url = format!("{}{PATH}", url.trim_end_matches('/').trim_end_matches(PATH));
        let config = ureq::Agent::config_builder().timeout_global(Some(ANSWER_WITHIN)).proxy(None);
        let exporter =
            Exporter { url, agent: config.build().into(), clock, lost: Arc::clone(&lost), accepts: true };
        Builder::new().name("traces".into()).spawn(move || exporter.run(&received))?;
        Ok(Self { commands, lost })
    }

    /// Queues a traced message whose request has ended, or counts it as lost.
    pub fn enqueue(&self, request: TracedRequest) {
        if self.commands.try_send(Command::Export(request)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Exports everything queued so far, before the process ends.
    pub fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if self.commands.try_send(Command::Flush(done)).is_ok() {
            // The sender is dropped when all is sent.
            let _ = is_done.recv_timeout(ANSWER_WITHIN);
        }
    }

    /// Returns how many traced messages did not reach the collector.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

struct Exporter {
    url: String,
    agent: ureq::Agent,
    clock: Clock,
    lost: Arc<AtomicU64>,
    /// Whether the collector accepted the last export.
    accepts: bool,
}

impl Exporter {
    /// Runs until every handle is dropped.
    fn run(mut self, commands: &Receiver<Command>) {
        while let Ok(first) = commands.recv() {
            let Batch { requests, flush } = collect_batch(first, commands);
            if !requests.is_empty() {
                self.export(&requests);
            }
            drop(flush);
        }
    }

    fn export(&mut self, batch: &[TracedRequest]) {
        let body = otlp::export(batch, self.clock, || fastrand::u64(1..)).to_string();
        let sent = self.agent.post(&self.url).header("Content-Type", "application/json").send(body);
        match sent {
            Ok(_) if self.accepts => {}
            Ok(_) => {
                self.accepts = true;
                tracing::info!("the collector of traces takes them again");
            }
            Err(error) => {
                self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
                if std::mem::replace(&mut self.accepts, false) {
                    tracing::warn!("{}: {error}; traces are lost until it takes them", self.url);
                }
            }
        }
    }
}

/// What one request to the collector exports.
struct Batch {
    requests: Vec<TracedRequest>,
    /// Dropped after the export, so that a `flush` that waits for it returns.
    flush: Option<SyncSender<()>>,
}

/// Collects what arrives within a while of the first command; a flush ends the batch at once.
fn collect_batch(first: Command, commands: &Receiver<Command>) -> Batch {
    let deadline = Instant::now() + BATCH_WITHIN;
    let mut batch = Batch { requests: Vec::new(), flush: None };
    let mut command = Ok(first);
    loop {
        match command {
            Ok(Command::Export(request)) => batch.requests.push(request),
            Ok(Command::Flush(done)) => return Batch { flush: Some(done), ..batch },
            Err(_) => return batch,
        }
        if batch.requests.len() == BATCH_MAX {
            return batch;
        }
        command = commands.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}
