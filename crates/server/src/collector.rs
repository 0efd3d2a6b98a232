//! The collector thread: closes a window every second and writes the record.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use posthaste_measure::{Ended, Meter, Record};

/// A handle to the collector thread, by which it is stopped.
pub struct Collector {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Collector {
    /// Starts the thread. `gauges` returns the levels to note at the end of each window, by the same names every time.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(
        meter: Arc<Meter>,
        gauges: impl Fn() -> Vec<(&'static str, u64)> + Send + 'static,
        record: Option<Record>,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("collector".into()).spawn(move || {
            let mut record = record;
            let start = Instant::now();
            let mut next = meter.window();
            while let Err(RecvTimeoutError::Timeout) =
                stopped.recv_timeout(next.saturating_sub(start.elapsed()))
            {
                next = meter.next_turn(next, start.elapsed());
                close_window(&meter, &gauges(), &mut record);
            }
            close_window(&meter, &gauges(), &mut record);
            record.iter().for_each(finish);
        })?;
        Ok(Self { stop, thread })
    }

    /// Closes the last window and finishes the record.
    pub fn stop(self) {
        drop(self.stop);
        // A panic there was reported when it happened.
        let _ = self.thread.join();
    }
}

/// Finishes the record, and logs what it lacks.
fn finish(record: &Record) {
    match record.finish() {
        Ok(Ended { recorded, not_recorded }) if not_recorded > 0 => tracing::warn!(
            recorded,
            not_recorded,
            "the disk did not keep up: requests are missing in requests.parquet; windows and histograms hold them all"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!("{error}"),
    }
}

fn close_window(meter: &Meter, gauges: &[(&'static str, u64)], record: &mut Option<Record>) {
    let end = meter.turn(gauges);
    if let Some(Err(error)) = record.as_ref().map(|record| record.window(&end)) {
        tracing::warn!("recording ends: {error}");
        *record = None;
    }
}
