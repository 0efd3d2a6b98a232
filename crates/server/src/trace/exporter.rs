//! The thread that sends spans to a collector, those of about a second in one request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use posthaste_measure::Clock;

use super::{Ended, otlp};

/// Most messages whose spans wait to be sent.
const WAITING_MAX: usize = 8192;
/// Most messages in one request, and how long the first waits for others.
const BATCH_MAX: usize = 512;
const BATCH_WITHIN: Duration = Duration::from_secs(1);
/// How long a collector may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Path of the request, appended to the collector's URL.
const PATH: &str = "/v1/traces";

/// A message to the thread.
enum Mail {
    /// A traced message whose request has ended.
    Ended(Ended),
    /// Send what is there, and then drop the sender in here.
    Now(SyncSender<()>),
}

/// A handle to the exporting thread.
#[derive(Debug)]
pub struct Tracer {
    mail: SyncSender<Mail>,
    lost: Arc<AtomicU64>,
}

impl Tracer {
    /// Starts the thread that sends spans to the collector at `url`, such as `http://127.0.0.1:4318`.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(url: &str, clock: Clock) -> io::Result<Self> {
        let (mail, waiting) = sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let url = format!("{}{PATH}", url.trim_end_matches('/').trim_end_matches(PATH));
        let config = ureq::Agent::config_builder().timeout_global(Some(ANSWER_WITHIN)).proxy(None);
        let exporter =
            Exporter { url, agent: config.build().into(), clock, lost: Arc::clone(&lost), works: true };
        Builder::new().name("traces".into()).spawn(move || exporter.run(&waiting))?;
        Ok(Self { mail, lost })
    }

    /// Queues a traced message whose request has ended, or counts it as lost.
    pub fn take(&self, ended: Ended) {
        if self.mail.try_send(Mail::Ended(ended)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends what is there, before the process ends.
    pub fn finish(&self) {
        let (done, handed_over) = sync_channel(1);
        if self.mail.try_send(Mail::Now(done)).is_ok() {
            // The sender is dropped when all is sent.
            let _ = handed_over.recv_timeout(ANSWER_WITHIN);
        }
    }

    /// Returns how many traced messages the collector was not told of.
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
    works: bool,
}

impl Exporter {
    /// Runs until every handle is dropped.
    fn run(mut self, waiting: &Receiver<Mail>) {
        while let Ok(first) = waiting.recv() {
            let mut asked = None;
            let batch = gather(first, waiting, &mut asked);
            if !batch.is_empty() {
                self.hand_over(&batch);
            }
            drop(asked);
        }
    }

    fn hand_over(&mut self, batch: &[Ended]) {
        let body = otlp::export(batch, self.clock, || fastrand::u64(1..)).to_string();
        let sent = self.agent.post(&self.url).header("Content-Type", "application/json").send(body);
        match sent {
            Ok(_) if self.works => {}
            Ok(_) => {
                self.works = true;
                tracing::info!("the collector of traces takes them again");
            }
            Err(error) => {
                self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
                if std::mem::replace(&mut self.works, false) {
                    tracing::warn!("{}: {error}; traces are lost until it takes them", self.url);
                }
            }
        }
    }
}

/// Collects what arrives within a while of the first message; stops early when `finish` asks for all there is.
fn gather(first: Mail, waiting: &Receiver<Mail>, asked: &mut Option<SyncSender<()>>) -> Vec<Ended> {
    let until = Instant::now() + BATCH_WITHIN;
    let mut batch = Vec::new();
    let mut mail = Ok(first);
    loop {
        match mail {
            Ok(Mail::Ended(ended)) => batch.push(ended),
            Ok(Mail::Now(done)) => *asked = Some(done),
            Err(_) => return batch,
        }
        if asked.is_some() || batch.len() == BATCH_MAX {
            return batch;
        }
        mail = waiting.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}
