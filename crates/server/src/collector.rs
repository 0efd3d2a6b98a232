//! The collector thread: closes a window every second and writes the record.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use posthaste_measure::{Ended, Record};

use crate::house::House;

/// The thread and the way to stop it.
pub struct Collector {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Collector {
    /// Starts it.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(house: Arc<House>, record: Option<Record>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("collector".into()).spawn(move || {
            let mut record = record;
            let window = house.meter.window();
            let mut next = Instant::now() + window;
            while let Err(RecvTimeoutError::Timeout) =
                stopped.recv_timeout(next.saturating_duration_since(Instant::now()))
            {
                next += window;
                close_window(&house, &mut record);
            }
            close_window(&house, &mut record);
            record.iter().for_each(end);
        })?;
        Ok(Self { stop, thread })
    }

    /// Closes the last window and ends the record.
    pub fn stop(self) {
        drop(self.stop);
        // A panic there was reported when it happened.
        let _ = self.thread.join();
    }
}

/// Ends the record and says what it lacks.
fn end(record: &Record) {
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

fn close_window(house: &House, record: &mut Option<Record>) {
    let gauges = [("line_requests", house.line.len() as u64), ("connections", house.clients.len() as u64)];
    let turn = house.meter.turn(&gauges);
    if let Some(Err(error)) = record.as_ref().map(|record| record.window(&turn)) {
        tracing::warn!("recording ends: {error}");
        *record = None;
    }
}
