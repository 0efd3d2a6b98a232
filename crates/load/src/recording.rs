//! The record of a run, from the clients' side: what `--record DIR` leaves.
//!
//! A thread closes a window every second and writes it, beside the threads that drive the clients. Windows begin
//! with the first request, so that they fit the measured stretch; what was before is one window without requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use posthaste_measure::{Clock, Event, Events, Meter, Record, RecordError, RunInfo, Scheme};
use serde_json::json;

use crate::bench::Bench;
use crate::clock::Schedule;
use crate::dialogue::Dialogue;
use crate::error::LoadError;
use crate::probe::Relation;
use crate::stderr::complain;
use crate::tally::Window;
use crate::watch::Watch;

/// A record being written.
#[derive(Debug)]
pub(crate) struct Recording {
    dir: PathBuf,
    record: Record,
    meter: Arc<Meter>,
    /// Whether the first request is due. A record that is dropped before is removed, or the next attempt would find it.
    begun: AtomicBool,
}

impl Recording {
    /// Begins the record, if there is to be one: before the run is prepared, so that a directory that cannot be used
    /// costs no time.
    ///
    /// # Errors
    /// The directory holds a record already or cannot be written.
    pub(crate) fn begin<B: Bench>(bench: &B, clock: Clock) -> Result<Option<Self>, LoadError> {
        let options = bench.options();
        let Some(dir) = options.record.clone() else { return Ok(None) };
        let scheme = Scheme::clients(<B::Dialogue as Dialogue>::KINDS);
        let info = RunInfo {
            command: RunInfo::command_line(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            options: serde_json::to_value(bench).unwrap_or_default(),
            window: options.window,
            clock,
            scheme,
            requests: options.record_requests,
        };
        let record = Record::create(&dir, info, Events::kept(clock)).map_err(LoadError::Record)?;
        let meter = Meter::new(scheme, options.window, clock, record.backlog());
        Ok(Some(Self { dir, record, meter, begun: AtomicBool::new(false) }))
    }

    /// Creates the watch of one thread.
    pub(crate) fn watch(&self) -> Watch {
        Watch::new(self.meter.clock(), self.meter.recorder())
    }

    /// Notes what is to be measured, for readers of the record of a run that has not ended.
    pub(crate) fn announce(&self, window: Window) {
        // With --requests everything is measured, from the first request to the last; `end` notes how long that was.
        if window.end < u64::MAX {
            self.measured(window);
        }
    }

    fn measured(&self, Window { start, end }: Window) {
        let seconds = |ns: u64| json!(ns as f64 / 1e9);
        tell(self.record.note("measured", json!({ "start_s": seconds(start), "end_s": seconds(end) })));
    }

    /// Notes which phases the run had.
    fn phases(&self, &Schedule { origin, window, stop, .. }: &Schedule) {
        let phases = [
            ("warm-up", origin, window.start),
            ("measured", window.start, window.end),
            ("cool-down", window.end, stop),
        ];
        for (kind, from, to) in phases.into_iter().filter(|(_, from, to)| from < to) {
            self.record.event(Event::new(from, to - from, "bench", kind));
        }
    }

    /// Notes how the servers' clocks relate to this one.
    pub(crate) fn relate(&self, relations: &[Relation]) {
        if !relations.is_empty() {
            tell(self.record.note("clock_relations", json!(relations)));
        }
    }

    /// Closes the window of the set-up, before the first request, however late the thread begins that closes the
    /// others.
    pub(crate) fn set_up_is_over(&self) {
        self.begun.store(true, Ordering::Relaxed);
        self.close_window();
    }

    /// Closes windows, counted in whole windows from `origin`, until `ended` is closed.
    pub(crate) fn keep(&self, origin: u64, ended: &Receiver<()>) {
        let now = || Duration::from_nanos(self.meter.clock().now());
        let mut due = self.meter.next_turn(Duration::from_nanos(origin), now());
        loop {
            let more = ended.recv_timeout(due.saturating_sub(now())) == Err(RecvTimeoutError::Timeout);
            due = self.meter.next_turn(due, now());
            self.close_window();
            if !more {
                return;
            }
        }
    }

    fn close_window(&self) {
        tell(self.record.window(&self.meter.turn(&[])));
    }

    /// Ends the record: notes its phases as they were kept, and writes the run's summary beside it.
    pub(crate) fn end(&self, kept: &Schedule, summary: &str) {
        self.measured(kept.window);
        self.phases(kept);
        let path = self.dir.join("summary.json");
        if let Err(error) = std::fs::write(&path, summary) {
            complain(format_args!("posthaste: cannot write {}: {error}", path.display()));
            // Part of a summary would pass for a damaged record.
            let _ = std::fs::remove_file(&path);
        }
        match self.record.finish() {
            Ok(ended) if ended.not_recorded > 0 => complain(format_args!(
                "posthaste: the disk did not keep up: {} of {} requests are missing in requests.parquet; windows and \
                 histograms hold them all",
                ended.not_recorded,
                ended.recorded + ended.not_recorded
            )),
            Ok(_) => {}
            Err(error) => complain(format_args!("posthaste: {error}")),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !self.begun.load(Ordering::Relaxed) {
            self.record.discard();
        }
    }
}

/// Complains if a record cannot go on, which it reports once; that does not end the run.
fn tell(written: Result<(), RecordError>) {
    if let Err(error) = written {
        complain(format_args!("posthaste: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use posthaste_measure::{ClientStamps, Ending, Noted};

    use super::*;
    use crate::queue::options::tests::parse;
    use crate::tally::Tally;

    /// The requests of each window of a record.
    fn requests(record: &std::path::Path) -> Vec<String> {
        let rows = fs::read_to_string(record.join("windows.csv")).expect("windows");
        let cells = rows.lines().map(|row| row.split(',').collect::<Vec<_>>());
        cells.filter(|row| row[2] == "all").map(|row| row[3].to_owned()).collect()
    }

    #[test]
    fn what_is_answered_before_windows_are_kept_is_not_of_the_set_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let record = dir.path().join("record");
        let bench = parse(&format!("--record {}", record.display()));
        let recording = Recording::begin(&bench, Clock::start()).expect("a record").expect("it is asked for");
        recording.set_up_is_over();
        let origin = recording.meter.clock().now();
        let (mut watch, window) = (recording.watch(), Window { start: 0, end: u64::MAX });
        watch.keep(Noted::new(0, Ending::Ok, ClientStamps::default()));
        watch.finish_batch(0, &mut Tally::new(window, 1, false));
        watch.turn_ended();
        // The thread that keeps windows begins only when all is over.
        let (end, ended) = channel();
        drop(end);
        recording.keep(origin, &ended);
        assert_eq!(requests(&record), ["0", "1"]);
    }
}
