//! `run.json`: what ran, where, with which options, from when to when, and how to read the other files.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::machine::Machine;
use super::{Event, RecordError};
use crate::clock::{Clock, ClockPair};
use crate::scheme::Scheme;

/// What a program tells about itself.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// The command line, the program's name first. The caller leaves out secrets.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
    /// Every option with the value in force, wherever it came from.
    pub options: serde_json::Value,
    /// The aggregation window.
    pub window: Duration,
    /// The clock of the program's stamps.
    pub clock: Clock,
    /// The names of what is measured.
    pub scheme: Scheme,
    /// Whether every single request is recorded too.
    pub requests: bool,
}

impl RunInfo {
    /// Returns the words of this program's command line; parts of an argument that are not Unicode are replaced.
    #[must_use]
    pub fn command_line() -> Vec<String> {
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

/// Explains the suffixes and files to readers.
const UNITS: [(&str, &str); 9] = [
    ("_s", "seconds; start_s counts from the program's start"),
    ("_ms", "milliseconds"),
    ("_us", "microseconds"),
    ("_ns", "nanoseconds; those of requests.parquet count from the program's start"),
    ("_bytes", "bytes"),
    ("_per_s", "per second"),
    ("_share", "fraction of the machine's CPU time, 0 to 1"),
    ("latency.hlog", "nanoseconds"),
    ("percentiles", "at most 1/128 above the exact value, never below; means are exact"),
];

#[derive(Debug)]
pub(super) struct RunFile {
    path: PathBuf,
    clock: Clock,
    content: Content,
}

#[derive(Debug, Serialize)]
struct Content {
    command: Vec<String>,
    version: String,
    options: serde_json::Value,
    process_id: u32,
    machine: Machine,
    window_s: f64,
    start_unix_ms: u64,
    start_unix_ns: u64,
    start_monotonic_ns: u64,
    start_clocks: ClockPair,
    end_clocks: Option<ClockPair>,
    /// Null until the run ends; it stays null if the program was killed.
    end_s: Option<f64>,
    /// Values that the program added during the run.
    #[serde(flatten)]
    notes: BTreeMap<&'static str, serde_json::Value>,
    units: BTreeMap<&'static str, &'static str>,
}

impl RunFile {
    pub(super) fn create(dir: &Path, info: RunInfo) -> Result<Self, RecordError> {
        let path = dir.join("run.json");
        let content = Content {
            command: info.command,
            version: info.version,
            options: info.options,
            process_id: std::process::id(),
            machine: Machine::here(),
            window_s: info.window.as_secs_f64(),
            start_unix_ms: info.clock.started_unix_ms(),
            start_unix_ns: info.clock.started_unix_ns(),
            start_monotonic_ns: info.clock.started_monotonic_ns(),
            start_clocks: ClockPair::now(),
            end_clocks: None,
            end_s: None,
            notes: BTreeMap::new(),
            units: BTreeMap::from(UNITS),
        };
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(|source| {
            match source.kind() {
                io::ErrorKind::AlreadyExists => RecordError::Taken { dir: dir.to_owned() },
                _ => RecordError::create(&path, source),
            }
        })?;
        let run = Self { path, clock: info.clock, content };
        file.write_all(run.text().as_bytes()).map_err(|source| RecordError::create(&run.path, source))?;
        Ok(run)
    }

    /// Writes the time of the end.
    pub(super) fn end(&mut self) -> Result<(), RecordError> {
        self.content.end_s = Some(self.clock.now() as f64 / 1e9);
        self.content.end_clocks = Some(ClockPair::now());
        self.rewrite()
    }

    /// Adds a value that became known during the run.
    pub(super) fn note(&mut self, name: &'static str, value: serde_json::Value) -> Result<(), RecordError> {
        self.content.notes.insert(name, value);
        self.rewrite()
    }

    /// Replaces the file by way of a second one, so that `run.json` is whole at every instant.
    fn rewrite(&self) -> Result<(), RecordError> {
        let next = self.path.with_extension("json.new");
        fs::write(&next, self.text()).and_then(|()| fs::rename(&next, &self.path)).map_err(|source| {
            let _ = fs::remove_file(&next);
            RecordError::write(&self.path, source)
        })
    }

    /// Returns the event that tells why the record stopped.
    pub(super) fn stopped(&self, error: &RecordError) -> Event {
        Event::new(self.clock.now(), 0, "record", format!("stopped: {error}"))
    }

    fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.content).expect("keys are strings");
        text.push('\n');
        text
    }
}

#[cfg(test)]
impl RunInfo {
    pub(super) fn for_tests(clock: Clock) -> Self {
        Self {
            command: vec!["posthaste".into()],
            version: "0".into(),
            options: serde_json::Value::Null,
            window: Duration::from_secs(1),
            clock,
            scheme: Scheme::clients(&["send"]),
            requests: false,
        }
    }
}
