//! A record of `bench` read back: what the merge needs of it.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry, LogIteratorError};
use serde_json::Value;

use super::histogram;
use crate::error::LoadError;

/// Largest offset of a clock that is believed: a century, in microseconds.
const OFFSET_MAX_US: f64 = 3.2e15;

/// Largest count that is believed: no window has more requests.
const COUNT_MAX: u64 = 1 << 40;

/// One generator's record.
#[derive(Debug)]
pub(super) struct ReadRecord {
    /// Directory of the record, as given.
    pub(super) name: String,
    run: Value,
    summary: Value,
    /// One for each window and kind, and one for `all`.
    pub(super) windows: Vec<WindowRow>,
    /// File of the response times.
    log: PathBuf,
}

/// A row of `windows.csv`.
#[derive(Clone, Debug)]
pub(super) struct WindowRow {
    pub(super) kind: String,
    /// Begin of the window, in seconds of the program's clock.
    pub(super) start_s: f64,
    pub(super) length_s: f64,
    pub(super) ok: u64,
    pub(super) null: u64,
    pub(super) errors: u64,
    pub(super) response_mean_us: f64,
}

/// How a server's wall clock stood to the record's own at one time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Relation {
    /// The server's less the record's.
    pub(super) offset_us: f64,
    /// Largest possible error of the offset.
    pub(super) error_us: f64,
}

/// What a server answered when it was asked for the time.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Time at which it was asked, in seconds of the record's clock.
    at_s: f64,
    relation: Relation,
}

impl Answer {
    fn of(relation: &Value) -> Option<Self> {
        let figure = |name: &str| relation[name].as_f64();
        let (offset_us, error_us) = (figure("offset_us")?, figure("error_us")?);
        Some(Self { at_s: figure("at_s")?, relation: Relation { offset_us, error_us } })
    }
}

impl Relation {
    /// Returns the relation in the middle of what was measured, by the first and the last answer of a server: two clocks
    /// drift apart evenly, as far as anybody knows. The error holds for all that was measured.
    fn of(mut answers: Vec<Answer>, (start_s, end_s): (f64, f64)) -> Option<Self> {
        answers.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        let (first, last) = (answers.first()?, answers.last()?);
        if first.at_s == last.at_s {
            return Some(first.relation);
        }
        let drift = (last.relation.offset_us - first.relation.offset_us) / (last.at_s - first.at_s);
        let since_s = (start_s + end_s) / 2.0 - first.at_s;
        let error_us = first.relation.error_us.max(last.relation.error_us);
        Some(Self {
            offset_us: first.relation.offset_us + drift * since_s,
            error_us: error_us + drift.abs() * (end_s - start_s) / 2.0,
        })
    }
}

impl ReadRecord {
    /// Reads the record in `dir`.
    ///
    /// # Errors
    /// A file is missing or is none of ours; the text names it.
    pub(super) fn open(dir: &Path) -> Result<Self, LoadError> {
        let record = Self {
            name: dir.display().to_string(),
            run: json(&dir.join("run.json"))?,
            summary: json(&dir.join("summary.json"))?,
            windows: windows(&dir.join("windows.csv"))?,
            log: dir.join("latency.hlog"),
        };
        let has_clocks =
            ["start_unix_ns", "start_monotonic_ns"].iter().all(|clock| record.start_ns(clock).is_some());
        if record.measured().is_none() || !has_clocks {
            let path = dir.join("run.json");
            return Err(unreadable(&path, "it is not of a bench that ran to its end"));
        }
        if !record.run["end_s"].is_number() {
            let path = dir.join("run.json");
            return Err(unreadable(&path, "recording stopped before the run ended, as on a full disk"));
        }
        if record.requests_of(|kind| kind == "all") != record.requests_of(|kind| kind != "all") {
            return Err(unreadable(&dir.join("windows.csv"), "rows are missing"));
        }
        if [record.violations(), record.connections_lost(), record.unanswered()].contains(&None) {
            return Err(unreadable(&dir.join("summary.json"), "it counts failures in no numbers"));
        }
        if record.served().is_none() {
            return Err(unreadable(
                &dir.join("summary.json"),
                "it does not say how many requests were served",
            ));
        }
        Ok(record)
    }

    /// Hands the response times of each window to `take`: the kind of request, the start of the window in seconds of
    /// the program's clock, and the histogram. One after the other, since those of an hour are more than memory should
    /// hold.
    ///
    /// # Errors
    /// The file cannot be read, is none of ours or was cut, or `take` found a histogram that is none of ours.
    pub(super) fn for_each_response(
        &self,
        mut take: impl FnMut(&str, f64, &Histogram<u64>) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let path = &self.log;
        let log = fs::read(path).map_err(|error| unreadable(path, error))?;
        let mut deserializer = Deserializer::new();
        let mut found = 0;
        for entry in IntervalLogIterator::new(&log) {
            let entry = entry.map_err(|error| match error {
                LogIteratorError::ParseError { offset } => {
                    unreadable(path, format_args!("at byte {offset} it is no histogram log"))
                }
            })?;
            let LogEntry::Interval(interval) = entry else { continue };
            let tag = interval.tag().map(|tag| tag.as_str().to_owned()).unwrap_or_default();
            let Some(kind) = tag.strip_suffix("/response") else { continue };
            let start_s = interval.start_timestamp().as_secs_f64();
            let histogram =
                histogram::read(&mut deserializer, interval.encoded_histogram()).map_err(|why| {
                    unreadable(path, format_args!("{kind}/response from {start_s:.3} s on: {why}"))
                })?;
            found += histogram.len();
            take(kind, start_s, &histogram)?;
        }
        let requests = self.requests_of(|kind| kind != "all");
        if found != requests {
            return Err(unreadable(
                path,
                format_args!("it holds {found} response times, and windows.csv counts {requests} requests"),
            ));
        }
        Ok(())
    }

    /// Returns how many requests the windows count, of the kinds that are wanted.
    fn requests_of(&self, is_wanted: impl Fn(&str) -> bool) -> u64 {
        let rows = self.windows.iter().filter(|row| is_wanted(&row.kind));
        rows.map(|row| row.ok + row.null + row.errors).sum()
    }

    /// Returns begin and end of what the record measured, in seconds of its clock.
    pub(super) fn measured(&self) -> Option<(f64, f64)> {
        let of = |name: &str| self.run["measured"][name].as_f64();
        Some((of("start_s")?, of("end_s")?))
    }

    /// Returns when the record's clock began: `start_unix_ns` on the wall clock, `start_monotonic_ns` on the machine's.
    pub(super) fn start_ns(&self, clock: &str) -> Option<i128> {
        self.run[clock].as_u64().map(i128::from)
    }

    /// Returns the id of the machine's boot, which two records of one machine share.
    pub(super) fn boot_id(&self) -> Option<&str> {
        self.run["machine"]["boot_id"].as_str()
    }

    /// Returns how each server's wall clock stood to this record's in the middle of what was measured.
    pub(super) fn relations(&self) -> BTreeMap<&str, Relation> {
        let mut answers: BTreeMap<&str, Vec<Answer>> = BTreeMap::new();
        for relation in self.run["clock_relations"].as_array().into_iter().flatten() {
            if let (Some(server), Some(answer)) = (relation["server"].as_str(), Answer::of(relation)) {
                answers.entry(server).or_default().push(answer);
            }
        }
        let measured = self.measured().unwrap_or_default();
        let relations = answers.into_iter().filter_map(|(server, answers)| {
            let relation = Relation::of(answers, measured)?;
            (relation.offset_us.abs() <= OFFSET_MAX_US).then_some((server, relation))
        });
        relations.collect()
    }

    /// Returns the value of an option.
    pub(super) fn option(&self, name: &str) -> &Value {
        &self.run["options"][name]
    }

    /// Returns why the figures do not speak of the server.
    pub(super) fn doubts(&self) -> Vec<String> {
        sentences(&self.summary["invalid_because"])
    }

    /// Returns what the servers could not be asked by `--check`.
    pub(super) fn unasked(&self) -> Vec<String> {
        sentences(&self.summary["check"]["unasked"])
    }

    /// Returns the number of promises that `--check` found broken.
    pub(super) fn violations(&self) -> Option<u64> {
        failures(&self.summary["check"]["violations"])
    }

    /// Returns the number of connections that ended early.
    pub(super) fn connections_lost(&self) -> Option<u64> {
        failures(&self.summary["connections_lost"])
    }

    /// Returns the number of requests that were never answered.
    pub(super) fn unanswered(&self) -> Option<u64> {
        failures(&self.summary["unanswered"])
    }

    /// Returns the number of requests that were served in all that it measured.
    pub(super) fn served(&self) -> Option<u64> {
        let of = |name: &str| self.summary[name].as_u64().filter(|count| *count <= COUNT_MAX);
        Some(of("ok")? + of("nulls")?)
    }

    /// Returns, of a cache, the number of keys asked for that had a value, and of those that had none.
    pub(super) fn keys(&self) -> Option<(u64, u64)> {
        let of = |name: &str| self.summary[name].as_u64().filter(|count| *count <= COUNT_MAX);
        Some((of("hits")?, of("misses")?))
    }

    /// Returns whether both records are of one process.
    pub(super) fn is_same_run(&self, other: &Self) -> bool {
        ["process_id", "start_unix_ns", "start_monotonic_ns"]
            .iter()
            .all(|name| self.run[name] == other.run[name])
    }

    /// Returns whether both drew the same, if only in part: requests of clients of the same numbers, or the arrivals of
    /// an open loop or the think times of a closed one, which are drawn for no client in particular.
    pub(super) fn draws_as(&self, other: &Self) -> bool {
        let has_same_seed = !self.option("seed").is_null() && self.option("seed") == other.option("seed");
        let (mine, theirs) = (self.clients(), other.clients());
        let share_clients = mine.start < theirs.end && theirs.start < mine.end;
        has_same_seed && (self.is_open() || self.thinks() || share_clients)
    }

    /// Returns the numbers of the clients; those of a cache always begin at 1.
    fn clients(&self) -> Range<u64> {
        let first = self.option("first_client").as_u64().unwrap_or(1);
        first..first.saturating_add(self.option("clients").as_u64().unwrap_or(0))
    }

    fn thinks(&self) -> bool {
        self.option("think_ms").as_f64().is_some_and(|ms| ms > 0.0)
    }

    fn is_open(&self) -> bool {
        ["rate", "rate_per_client", "rate_profile", "replay"].iter().any(|name| !self.option(name).is_null())
    }

    /// Returns, in words, the first option that differs and must not.
    pub(super) fn unlike(&self, other: &Self, may_differ: &[&str]) -> Option<String> {
        let (mine, theirs) = (self.run["options"].as_object()?, other.run["options"].as_object()?);
        if self.is_open() != other.is_open() {
            return Some("one is an open loop (--rate), the other a closed one".to_owned());
        }
        let names = mine.keys().chain(theirs.keys()).filter(|name| !may_differ.contains(&name.as_str()));
        names.into_iter().find(|name| mine.get(*name) != theirs.get(*name)).map(|name| {
            let value = |options: &serde_json::Map<String, Value>| {
                options.get(name).map_or_else(|| "not there".to_owned(), Value::to_string)
            };
            format!("{name} is {} in one and {} in the other", value(mine), value(theirs))
        })
    }
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> LoadError {
    LoadError::Failed(format!(
        "cannot read {}: {why}; merge wants directories that `posthaste bench … --record DIR` has left",
        path.display()
    ))
}

fn json(path: &Path) -> Result<Value, LoadError> {
    let text = fs::read(path).map_err(|error| unreadable(path, error))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(path, error))
}

fn windows(path: &Path) -> Result<Vec<WindowRow>, LoadError> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines
        .map(|line| {
            let cells: BTreeMap<&str, &str> = head.iter().copied().zip(line.split(',')).collect();
            let row = || {
                Some(WindowRow {
                    kind: (*cells.get("kind")?).to_owned(),
                    start_s: number(cells.get("start_s")?)?,
                    length_s: number(cells.get("length_s")?)?,
                    ok: count(cells.get("ok")?)?,
                    null: count(cells.get("null")?)?,
                    errors: count(cells.get("errors")?)?,
                    response_mean_us: match *cells.get("response_mean_us")? {
                        // There was no request.
                        "" => 0.0,
                        mean => number(mean)?,
                    },
                })
            };
            row().ok_or_else(|| unreadable(path, format_args!("no window: {}", line.escape_debug())))
        })
        .collect()
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn count(text: &str) -> Option<u64> {
    text.parse().ok().filter(|count| *count <= COUNT_MAX)
}

fn sentences(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|sentence| sentence.as_str().map(str::to_owned)).collect()
}

/// Returns a count of a summary; 0 if nothing was looked for, as without `--check`.
fn failures(count: &Value) -> Option<u64> {
    if count.is_null() { Some(0) } else { count.as_u64().filter(|count| *count <= COUNT_MAX) }
}
