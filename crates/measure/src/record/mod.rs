//! The record of a run: a directory that explains its own figures.
//!
//! | file | holds |
//! | --- | --- |
//! | `run.json` | command, version, machine, options, start and end, units |
//! | `windows.csv` | one row per window and kind that occurred, and one for `all` |
//! | `latency.hlog` | the histograms of every window and kind, in the HdrHistogram log format |
//! | `system.csv` | one row per window: this process and its machine |
//! | `events.csv` | whatever can explain a dip |
//! | `requests.parquet` | every single request, if that was asked for |
//!
//! The collector's thread writes once per window, whole lines in one call per file, so a program killed at
//! any instant leaves lines, not fragments. A failed write stops the record and never the program; it is
//! reported once, and everything written before it stays. A directory that holds a run is refused instead of
//! appended to, because two runs in one file are worth less than none.
//!
//! Only `requests.parquet` is different: a thread of its own writes it, and its format needs a footer, so the
//! file of a killed program cannot be read.

mod columns;
mod error;
mod event;
mod histograms;
mod lines;
mod machine;
mod pages;
mod proc;
mod requests;
mod run;
mod system;
mod windows;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use error::RecordError;
pub use event::{Event, Events};
pub use proc::cpu_ticks;
pub use run::RunInfo;

use crate::backlog::Backlog;
use crate::lock::lock;
use crate::meter::WindowEnd;
use histograms::HistogramLog;
use requests::RequestTable;
use run::RunFile;
use system::SystemTable;
use windows::WindowTable;

/// Files that a record may have made in its directory.
const FILES: [&str; 6] =
    ["run.json", "windows.csv", "latency.hlog", "system.csv", "events.csv", "requests.parquet"];

/// A run being recorded. Shared by reference: any thread may add events, one thread writes the windows.
#[derive(Debug)]
pub struct Record {
    events: Events,
    /// None: the record has ended or was stopped by a failed write.
    files: Mutex<Option<Files>>,
    dir: PathBuf,
    /// Whether this record created the directory.
    made_dir: bool,
}

#[derive(Debug)]
struct Files {
    run: RunFile,
    windows: WindowTable,
    histograms: HistogramLog,
    system: SystemTable,
    events: lines::LineFile,
    requests: Option<RequestTable>,
}

/// Numbers of single requests when a record has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Requests in `requests.parquet`.
    pub recorded: u64,
    /// Requests left out because the disk did not keep up.
    pub not_recorded: u64,
}

impl Record {
    /// Creates `dir` (and its parents) and starts the record of a run, with the events collected in `events`.
    ///
    /// # Errors
    /// The directory holds a run already, or cannot be written.
    pub fn create(dir: &Path, info: RunInfo, events: Events) -> Result<Self, RecordError> {
        let made_dir = !dir.exists();
        fs::create_dir_all(dir).map_err(|source| RecordError::create(dir, source))?;
        // Clean up: half a record would be in the way of the next attempt.
        let new: Vec<&str> = FILES.into_iter().filter(|name| !dir.join(name).exists()).collect();
        let files = Files::create(dir, info).inspect_err(|_| remove(dir, &new, made_dir))?;
        Ok(Self { events, files: Mutex::new(Some(files)), dir: dir.to_owned(), made_dir })
    }

    /// Returns where the meter must send every single request; None: they are not recorded.
    #[must_use]
    pub fn backlog(&self) -> Option<Arc<Backlog>> {
        lock(&self.files).as_ref()?.requests.as_ref().map(RequestTable::backlog)
    }

    /// Adds a value to `run.json` that became known during the run.
    ///
    /// # Errors
    /// As for [`Record::window`].
    pub fn note(&self, name: &'static str, value: serde_json::Value) -> Result<(), RecordError> {
        self.write(|files, _| files.run.note(name, value))
    }

    /// Notes an event. It is written with the next window; no file is touched here.
    pub fn event(&self, event: Event) {
        self.events.add(event);
    }

    /// Writes one closed window with the system's figures and the events since the last one.
    ///
    /// # Errors
    /// A file could not be written. The record has stopped; later calls do nothing and succeed.
    pub fn window(&self, end: &WindowEnd) -> Result<(), RecordError> {
        self.write(|files, events| {
            files.windows.append(&end.window)?;
            files.histograms.append(end)?;
            files.system.append()?;
            files.events.append(&rows(events))?;
            match files.requests.take_if(|table| table.has_failed()) {
                Some(failed) => failed.finish().map(drop),
                None => Ok(()),
            }
        })
    }

    /// Ends the record after the meter's last turn: the last events, the end of `requests.parquet`, and the end in
    /// `run.json`. Later calls of any kind do nothing.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn finish(&self) -> Result<Ended, RecordError> {
        let mut ended = Ended::default();
        self.write(|files, events| {
            files.events.append(&rows(events))?;
            let table = files.requests.take().map(RequestTable::finish).transpose();
            if let Ok(Some(Ended { recorded, not_recorded })) = table {
                files.run.note("requests_recorded", recorded.into())?;
                files.run.note("requests_not_recorded", not_recorded.into())?;
            }
            // The run has come to its end, whether or not the table has.
            files.run.end()?;
            ended = table?.unwrap_or_default();
            Ok(())
        })?;
        *lock(&self.files) = None;
        Ok(ended)
    }

    /// Removes the record of a run that never began: its files, and the directory if the record created it.
    pub fn discard(&self) {
        let Some(files) = lock(&self.files).take() else { return };
        // Files that cannot be finished or removed stay; they hold nothing of value.
        let _ = files.requests.map(RequestTable::finish);
        remove(&self.dir, &FILES, self.made_dir);
    }

    fn write(
        &self,
        work: impl FnOnce(&mut Files, &Events) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        let mut open = lock(&self.files);
        let Some(files) = open.as_mut() else { return Ok(()) };
        let written = work(files, &self.events);
        if let Err(error) = &written {
            // The disk may have no room for this line either; the caller is told in any case.
            let _ = files.events.append(&files.run.stopped(error).row());
            // Its thread would go on for as long as requests are measured. The file may be whole even so.
            let _ = files.requests.take().map(RequestTable::finish);
            *open = None;
        }
        written
    }
}

impl Files {
    fn create(dir: &Path, info: RunInfo) -> Result<Self, RecordError> {
        let (clock, scheme, every_request) = (info.clock, info.scheme, info.requests);
        Ok(Self {
            run: RunFile::create(dir, info)?,
            windows: WindowTable::create(dir)?,
            histograms: HistogramLog::create(dir, &clock)?,
            system: SystemTable::create(dir, &clock)?,
            events: lines::LineFile::create(dir, "events.csv", event::HEAD)?,
            requests: every_request.then(|| RequestTable::create(dir, scheme, clock)).transpose()?,
        })
    }
}

/// Removes those of these files that can be removed, and the directory if the record created it.
fn remove(dir: &Path, files: &[&str], made_dir: bool) {
    files.iter().for_each(|name| drop(fs::remove_file(dir.join(name))));
    if made_dir {
        let _ = fs::remove_dir(dir);
    }
}

fn rows(events: &Events) -> String {
    events.take().iter().map(Event::row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientStamps, Clock, Ending, Meter, Noted, Scheme};
    use std::time::Duration;

    #[test]
    fn a_record_that_cannot_be_made_leaves_nothing_but_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::start();
        let create = || Record::create(dir.path(), RunInfo::for_tests(clock), Events::kept(clock));
        // No file can be made where a directory is.
        fs::create_dir(dir.path().join("events.csv")).unwrap();
        fs::write(dir.path().join("mine.txt"), "text").unwrap();
        let error = create().unwrap_err();
        assert!(error.to_string().contains("events.csv"), "{error}");
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["events.csv", "mine.txt"]);

        fs::remove_dir(dir.path().join("events.csv")).unwrap();
        let record = create().unwrap();
        assert!(matches!(create(), Err(RecordError::Taken { .. })));
        assert!(dir.path().join("run.json").exists(), "the record of somebody else");
        record.finish().unwrap();
    }

    #[test]
    fn a_full_disk_stops_the_record_once_and_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::start();
        let meter = Meter::new(Scheme::clients(&["send"]), Duration::from_secs(1), clock, None);
        let record = Record::create(dir.path(), RunInfo::for_tests(clock), Events::kept(clock)).unwrap();
        record.window(&meter.turn(&[])).unwrap();
        meter.recorder().note(Noted::new(0, Ending::Ok, ClientStamps::default()));
        lock(&record.files).as_mut().unwrap().histograms.fill_disk();

        let error = record.window(&meter.turn(&[])).unwrap_err();
        assert!(error.to_string().contains("latency.hlog"), "{error}");
        assert!(record.window(&meter.turn(&[])).is_ok());
        assert!(record.finish().is_ok());

        let events = fs::read_to_string(dir.path().join("events.csv")).unwrap();
        assert_eq!(events.lines().count(), 2);
        assert!(events.contains(",0.000,record,\"stopped: "), "{events}");
        let windows = fs::read_to_string(dir.path().join("windows.csv")).unwrap();
        assert_eq!(windows.lines().count(), 4, "the rows of two windows, none after them");
    }

    /// A record of every request, and the meter that sends them to it.
    fn of_requests(dir: &Path) -> (Record, Arc<Meter>) {
        let clock = Clock::start();
        let info = RunInfo { requests: true, ..RunInfo::for_tests(clock) };
        let record = Record::create(dir, info, Events::kept(clock)).unwrap();
        let meter = Meter::new(Scheme::clients(&["send"]), Duration::from_secs(1), clock, record.backlog());
        (record, meter)
    }

    /// The same, but that the disk is full for the table of requests.
    fn of_requests_on_full_disk(dir: &Path) -> (Record, Arc<Meter>) {
        let (record, _) = of_requests(dir);
        let clock = Clock::start();
        let table = RequestTable::on_full_disk(dir, Scheme::clients(&["send"]), clock);
        let backlog = table.backlog();
        let of_before = lock(&record.files).as_mut().unwrap().requests.replace(table);
        of_before.map(RequestTable::finish).unwrap().unwrap();
        let meter = Meter::new(Scheme::clients(&["send"]), Duration::from_secs(1), clock, Some(backlog));
        (record, meter)
    }

    fn note(meter: &Arc<Meter>, requests: u32) {
        let mut recorder = meter.recorder();
        (0..requests).for_each(|_| recorder.note(Noted::new(0, Ending::Ok, ClientStamps::default())));
    }

    #[test]
    fn a_record_that_stops_completes_the_table_of_requests() {
        let dir = tempfile::tempdir().unwrap();
        let (record, meter) = of_requests(dir.path());
        note(&meter, 3);
        lock(&record.files).as_mut().unwrap().histograms.fill_disk();
        record.window(&meter.turn(&[])).unwrap_err();
        let table = fs::read(dir.path().join("requests.parquet")).unwrap();
        assert!(table.ends_with(b"PAR1"), "it has its end: {table:?}");
    }

    #[test]
    fn a_table_that_cannot_be_completed_does_not_take_the_end_from_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let (record, meter) = of_requests_on_full_disk(dir.path());
        note(&meter, 3);
        record.window(&meter.turn(&[])).unwrap();
        let error = record.finish().unwrap_err();
        assert!(error.to_string().contains("requests.parquet"), "{error}");
        let run: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.path().join("run.json")).unwrap()).unwrap();
        assert!(run["end_s"].is_f64() && run["requests_recorded"].is_null(), "{run}");
    }

    #[test]
    fn a_table_that_cannot_be_written_stops_the_record_and_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let (record, meter) = of_requests_on_full_disk(dir.path());
        // More than the table keeps in memory.
        note(&meter, 300_000);
        let has_failed = || {
            let files = lock(&record.files);
            files.as_ref().unwrap().requests.as_ref().unwrap().has_failed()
        };
        for _ in 0..600 {
            if has_failed() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let error = record.window(&meter.turn(&[])).unwrap_err();
        assert!(error.to_string().contains("requests.parquet"), "{error}");
        let events = fs::read_to_string(dir.path().join("events.csv")).unwrap();
        assert!(events.contains("stopped: ") && record.finish().is_ok(), "{events}");
    }

    #[test]
    fn a_file_of_the_run_that_cannot_be_replaced_leaves_no_second_one() {
        let dir = tempfile::tempdir().unwrap();
        let (record, _) = of_requests(dir.path());
        fs::remove_file(dir.path().join("run.json")).unwrap();
        // No file takes the place of a directory.
        fs::create_dir(dir.path().join("run.json")).unwrap();
        record.note("measured", serde_json::Value::Null).unwrap_err();
        assert!(!dir.path().join("run.json.new").exists());
    }
}
