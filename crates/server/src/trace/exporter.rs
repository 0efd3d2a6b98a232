//! The thread that sends spans to a collector, those of about a second in one request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
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

    /// Exports everything queued so far, before the process ends. A collector that does not answer delays that by twice
    /// [`ANSWER_WITHIN`] at most.
    pub fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        // A full queue has room again after the export that is under way, which has its time limit.
        if self.commands.send(Command::Flush(done)).is_err() {
            return;
        }
        // The sender is dropped when all is sent.
        if is_done.recv_timeout(ANSWER_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the collector of traces took too long: those that still waited for it are lost");
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use posthaste_measure::Stamps;

    use super::super::{Action, Context, StoredAs, TracedMessage};
    use super::*;

    /// A collector: counts the messages that it is told of, and answers nothing before it is open.
    #[derive(Default)]
    struct Collector {
        is_open: AtomicBool,
        messages: AtomicU64,
    }

    impl Collector {
        /// Starts it; returns its URL.
        fn start(self: &Arc<Self>) -> String {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let collector = Arc::clone(self);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let (stream, collector) = (stream.expect("a socket"), Arc::clone(&collector));
                    thread::spawn(move || collector.serve(stream));
                }
            });
            url
        }

        fn serve(&self, stream: TcpStream) {
            let mut answers = stream.try_clone().expect("a socket");
            let mut requests = BufReader::new(stream);
            let mut length = 0;
            let mut line = String::new();
            while let Ok(1..) = requests.read_line(&mut line) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                if line == "\r\n" {
                    let mut body = vec![0; length];
                    requests.read_exact(&mut body).expect("a body");
                    while !self.is_open.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    let body = String::from_utf8(body).expect("JSON");
                    self.messages.fetch_add(body.matches("\"send q\"").count() as u64, Ordering::Relaxed);
                    answers.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("it listens");
                }
                line.clear();
            }
        }
    }

    #[test]
    fn a_full_queue_is_exported_too_before_the_end() {
        let collector = Arc::new(Collector::default());
        let tracer = Tracer::start(&collector.start(), Clock::start()).expect("a thread");
        let message = TracedMessage {
            request_index: 0,
            action: Action::Send,
            parent: Context { trace: 1, span: 1 },
            stored_as: StoredAs::Message(1),
            queue: "q".into(),
            body_bytes: 1,
        };
        let request = TracedRequest { message, request: "1-1".into(), stamps: Stamps::default() };
        let mut enqueued = 0;
        while tracer.lost() == 0 {
            tracer.enqueue(request.clone());
            enqueued += 1;
        }
        let opener = {
            let collector = Arc::clone(&collector);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(100));
                collector.is_open.store(true, Ordering::Relaxed);
            })
        };
        tracer.flush();
        assert_eq!(collector.messages.load(Ordering::Relaxed), enqueued - tracer.lost());
        opener.join().expect("it opened");
    }
}
