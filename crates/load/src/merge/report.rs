//! What several load generators measured together.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::cache::dialogue::CacheDialogue;
use crate::dialogue::Dialogue as _;
use crate::error::LoadError;
use crate::merge::read::ReadRecord;
use crate::merge::timeline::Timeline;
use crate::queue::dialogue::QueueDialogue;
use crate::report::Response;
use crate::table::{self, Row};
use crate::tally::{Counts, histogram};

/// Share of a generator's measured time that must be common to all; less makes the whole doubtful.
const COMMON_SHARE_MIN: f64 = 0.5;
/// Significant digits of the histograms in records.
const RECORDED_DIGITS: u8 = 2;

/// The merged report.
#[derive(Clone, Debug, Serialize)]
pub struct Merged {
    /// What relates the generators in time.
    pub clock: String,
    /// How far that relation may be off, in microseconds; None if unknown.
    pub clock_error_us: Option<f64>,
    /// Length of what all of them measured, in seconds.
    pub common_s: f64,
    /// Clients of all generators.
    pub clients: u64,
    /// Requests served per second: the sum of the generators' throughputs.
    pub throughput_per_s: f64,
    /// Requests refused per second.
    pub errors_per_s: f64,
    /// Outcomes within the common stretch.
    #[serde(flatten)]
    pub counts: Counts,
    /// Response times of all requests, refused ones too.
    pub response: Response,
    /// Figures of every kind of request.
    pub kinds: BTreeMap<String, MergedKind>,
    /// Promises that `--check` of any of them found broken.
    pub violations: u64,
    /// Connections of any of them that ended early.
    pub connections_lost: u64,
    /// Requests of any of them that were never answered.
    pub unanswered: u64,
    /// Number of generators of which no request was served.
    pub unserved: u64,
    /// Number of generators whose `--check` could not be completed.
    pub unchecked: u64,
    /// Of caches: the keys that were asked for.
    #[serde(flatten)]
    pub keys: Option<MergedKeys>,
    /// Every generator.
    pub parts: Vec<Part>,
    /// Whether the figures speak of the server.
    pub valid: bool,
    /// Why the figures do not speak of the server.
    pub invalid_because: Vec<String>,
    /// What the tier calls a request that found nothing.
    #[serde(skip)]
    nulls: &'static str,
}

/// The keys that generators of a cache asked for, each in all that it measured itself, since windows do not count keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MergedKeys {
    /// Keys that had a value.
    pub hits: u64,
    /// Keys that had none.
    pub misses: u64,
    /// Keys asked for per second: the sum of the generators' rates.
    pub keys_per_s: f64,
}

/// One kind of request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MergedKind {
    /// Requests served per second.
    pub throughput_per_s: f64,
    /// Outcomes.
    #[serde(flatten)]
    pub counts: Counts,
    /// Response times of all requests, refused ones too.
    pub response: Response,
}

/// One generator.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Directory of its record.
    pub record: String,
    /// Number of its clients.
    pub clients: u64,
    /// What it added to the throughput.
    pub throughput_per_s: f64,
    /// Length of its windows that count, in seconds.
    pub counted_s: f64,
    /// Length of what it measured, in seconds.
    pub measured_s: f64,
}

/// Figures of one kind of request while they are summed up.
struct Sum {
    throughput_per_s: f64,
    errors_per_s: f64,
    counts: Counts,
    response_us: f64,
    responses: Histogram<u64>,
}

impl Sum {
    fn new() -> Self {
        Self {
            throughput_per_s: 0.0,
            errors_per_s: 0.0,
            counts: Counts::default(),
            response_us: 0.0,
            // As records have them: with other digits, adding would put each value at the lower end of its bucket.
            responses: histogram(RECORDED_DIGITS),
        }
    }

    /// Returns the response times; the mean is exact, the rest is read off the histogram.
    fn response(&self) -> Response {
        let requests = (self.counts.served() + self.counts.errors).max(1);
        Response { mean_us: self.response_us / requests as f64, ..Response::of(&self.responses) }
    }
}

impl Merged {
    /// Adds up the records.
    ///
    /// # Errors
    /// One of them has no whole window in the common stretch.
    pub(super) fn of(records: &[ReadRecord], timeline: &Timeline) -> Result<Self, LoadError> {
        let mut kinds: BTreeMap<String, Sum> = BTreeMap::new();
        let mut parts = Vec::new();
        let mut doubts = Vec::new();
        for (place, record) in records.iter().enumerate() {
            let part = add(record, place, timeline, &mut kinds)?;
            // Not judged by `counted_s`, which leaves out windows that lie across an edge of the common stretch.
            let common_s = timeline.common_s.1 - timeline.common_s.0;
            if common_s < part.measured_s * COMMON_SHARE_MIN {
                doubts.push(format!(
                    "{} measured {:.1} s, of which only {common_s:.1} s are common to all",
                    part.record, part.measured_s
                ));
            }
            if let Some(twin) = records[..place].iter().find(|earlier| earlier.draws_as(record)) {
                doubts.push(format!(
                    "{} and {} drew the same, so their requests came in step: give each generator a --seed of its own",
                    twin.name, record.name
                ));
            }
            if let Some(violations @ 1..) = record.violations() {
                doubts.push(format!(
                    "{}: {violations} violations of what the server promises; its report names them",
                    record.name
                ));
            }
            let unasked = record.unasked();
            if !unasked.is_empty() {
                doubts.push(format!("{}: the check is not complete: {}", record.name, unasked.join("; ")));
            }
            doubts.extend(record.doubts().into_iter().map(|doubt| format!("{}: {doubt}", record.name)));
            parts.push(part);
        }
        let mut all = kinds.remove("all").unwrap_or_else(Sum::new);
        if all.counts.served() == 0 {
            doubts.push("no request was served in the time that all records measured".to_owned());
        }
        kinds.values().for_each(|kind| {
            all.responses.add(&kind.responses).expect("all histograms have the same bounds");
        });
        let kind = |(name, sum): (String, Sum)| {
            let (throughput_per_s, counts, response) = (sum.throughput_per_s, sum.counts, sum.response());
            (name, MergedKind { throughput_per_s, counts, response })
        };
        let sum = |of: fn(&ReadRecord) -> Option<u64>| records.iter().filter_map(of).sum();
        Ok(Self {
            clock: timeline.clock.clone(),
            clock_error_us: timeline.error_us,
            common_s: timeline.common_s.1 - timeline.common_s.0,
            clients: parts.iter().map(|part| part.clients).sum(),
            throughput_per_s: all.throughput_per_s,
            errors_per_s: all.errors_per_s,
            counts: all.counts,
            response: all.response(),
            kinds: kinds.into_iter().map(kind).collect(),
            violations: sum(ReadRecord::violations),
            connections_lost: sum(ReadRecord::connections_lost),
            unanswered: sum(ReadRecord::unanswered),
            unserved: records.iter().filter(|record| record.served() == Some(0)).count() as u64,
            unchecked: records.iter().filter(|record| !record.unasked().is_empty()).count() as u64,
            keys: keys(records),
            parts,
            valid: doubts.is_empty(),
            invalid_because: doubts,
            nulls: nulls(&records[0]),
        })
    }
}

impl Merged {
    /// Returns whether all of it is a success, by the rule for a single run.
    ///
    /// # Errors
    /// A part failed; the text says how.
    pub fn verdict(&self) -> Result<(), LoadError> {
        let failures =
            [self.violations, self.connections_lost, self.unanswered, self.unserved, self.unchecked];
        if failures.iter().any(|failures| *failures > 0) || self.counts.served() == 0 {
            return Err(LoadError::Failed(self.invalid_because.join("; ")));
        }
        Ok(())
    }
}

/// Adds up the keys of all records; None if a record does not tell, as none of a queue does.
fn keys(records: &[ReadRecord]) -> Option<MergedKeys> {
    records.iter().try_fold(MergedKeys { hits: 0, misses: 0, keys_per_s: 0.0 }, |all, record| {
        let (hits, misses) = record.keys()?;
        let (from, to) = record.measured()?;
        let keys_per_s = if to > from { (hits + misses) as f64 / (to - from) } else { 0.0 };
        Some(MergedKeys {
            hits: all.hits + hits,
            misses: all.misses + misses,
            keys_per_s: all.keys_per_s + keys_per_s,
        })
    })
}

/// Returns what the record's tier calls a request that found nothing. Only a cache's record has a ratio of sets to
/// gets.
fn nulls(record: &ReadRecord) -> &'static str {
    if record.option("ratio").is_null() { QueueDialogue::NULLS } else { CacheDialogue::NULLS }
}

/// Adds one record's windows of the common stretch.
fn add(
    record: &ReadRecord,
    place: usize,
    timeline: &Timeline,
    kinds: &mut BTreeMap<String, Sum>,
) -> Result<Part, LoadError> {
    let counting: Vec<_> =
        record.windows.iter().filter(|row| timeline.holds(place, row.start_s, row.length_s)).collect();
    let counted_s: f64 = counting.iter().filter(|row| row.kind == "all").map(|row| row.length_s).sum();
    if counted_s == 0.0 {
        return Err(LoadError::Failed(format!(
            "{} has no whole window within the {:.1} s that all records measured: start them with the same --start-at, \
             or measure for longer",
            record.name,
            timeline.common_s.1 - timeline.common_s.0
        )));
    }
    let mut served = 0;
    for row in &counting {
        let sum = kinds.entry(row.kind.clone()).or_insert_with(Sum::new);
        sum.throughput_per_s += (row.ok + row.null) as f64 / counted_s;
        sum.errors_per_s += row.errors as f64 / counted_s;
        sum.counts.absorb(Counts { ok: row.ok, nulls: row.null, errors: row.errors });
        sum.response_us += row.response_mean_us * (row.ok + row.null + row.errors) as f64;
        served += if row.kind == "all" { row.ok + row.null } else { 0 };
    }
    let millis = |start_s: f64| (start_s * 1e3).round() as i64;
    let windows: HashSet<(&str, i64)> =
        counting.iter().map(|row| (row.kind.as_str(), millis(row.start_s))).collect();
    record.for_each_response(|kind, start_s, responses| {
        // The log cuts times to milliseconds, and windows are longer than that.
        let start_ms = millis(start_s);
        if !(start_ms - 1..=start_ms + 1).any(|near| windows.contains(&(kind, near))) {
            return Ok(());
        }
        let sum = kinds.entry(kind.to_owned()).or_insert_with(Sum::new);
        sum.responses.add(responses).map_err(|error| {
            LoadError::Failed(format!("{}: a histogram of {kind} is none of ours: {error}", record.name))
        })
    })?;
    let (from, to) = record.measured().unwrap_or_default();
    Ok(Part {
        record: record.name.clone(),
        clients: record.option("clients").as_u64().unwrap_or(0),
        throughput_per_s: served as f64 / counted_s,
        counted_s,
        measured_s: to - from,
    })
}

impl Merged {
    /// The load generators, one by one.
    fn write_parts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = match self.clock_error_us {
            Some(0.0) => String::new(),
            Some(us) => format!(", to within {us:.0} us"),
            None => ", whose error is not known".to_owned(),
        };
        writeln!(
            f,
            "{} load generators, {} clients, {:.1} s measured by all, related by {}{error}\n",
            self.parts.len(),
            self.clients,
            self.common_s,
            self.clock
        )?;
        self.parts
            .iter()
            .try_for_each(|part| writeln!(f, "{:>10.0} served/s  {}", part.throughput_per_s, part.record))
    }

    /// Keys of gets, where any were asked for.
    fn write_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(MergedKeys { hits, misses, keys_per_s }) =
            self.keys.filter(|keys| keys.hits + keys.misses > 0)
        else {
            return Ok(());
        };
        let share = 100.0 * hits as f64 / (hits + misses) as f64;
        writeln!(
            f,
            "\nkeys: {hits} hits, {misses} misses ({share:.2} % hits, {keys_per_s:.0} keys/s), each in all that it measured"
        )
    }
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_parts(f)?;
        writeln!(f)?;
        let all = MergedKind {
            throughput_per_s: self.throughput_per_s,
            counts: self.counts,
            response: self.response,
        };
        let kinds = self.kinds.iter().map(|(name, kind)| (name.as_str(), *kind)).chain([("all", all)]);
        let rows: Vec<_> = kinds
            .map(|(name, MergedKind { throughput_per_s, counts, response })| {
                let timed = counts.served() + counts.errors;
                Row { name, throughput_per_s, counts, response, timed }
            })
            .collect();
        table::write(f, self.nulls, &rows)?;
        self.write_keys(f)?;
        self.invalid_because.iter().try_for_each(|doubt| writeln!(f, "NOT VALID: {doubt}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_percentiles_are_never_below_what_was_recorded() {
        let (mut sum, mut recorded) = (Sum::new(), histogram(RECORDED_DIGITS));
        recorded.record_n(1_000_999, 10).expect("in range");
        sum.responses.add(&recorded).expect("the same bounds");
        let response = Response::of(&sum.responses);
        for us in [response.p50_us, response.p99_us, response.max_us] {
            assert!((1000.999..=1000.999 * (1.0 + 1.0 / 128.0)).contains(&us), "{us}");
        }
    }
}
