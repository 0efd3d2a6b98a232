//! Arrivals of a recorded run, to be repeated: when its requests were due, from `requests.parquet`.
//!
//! The file has its rows in the order of the answers, so all times are read and sorted before the run, eight bytes each.

use std::fs::File;
use std::path::Path;

use parquet::column::reader::ColumnReader;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

/// Largest number of requests, half a gigabyte of times.
const REQUESTS_MAX: i64 = 1 << 26;

/// Rows read at once.
const ROWS: usize = 1 << 16;

/// The longest replay: ten years, in nanoseconds, like any other time.
const SPAN_MAX: f64 = 315_360_000e9;

/// Columns that say when a request came: in the clients' record, and in that of a tier.
const COLUMNS: [&str; 2] = ["due_ns", "received_ns"];

/// When requests are due, in nanoseconds since the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    /// In order.
    times: Vec<u64>,
}

impl Replay {
    /// Reads the arrivals of a record, the file or its directory, and lets them come `speed` times as fast.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the file.
    pub(crate) fn read(path: &Path, speed: f64) -> Result<Self, String> {
        let inside = path.join("requests.parquet");
        let path = if path.is_dir() { &inside } else { path };
        let wrong = |why: String| {
            format!(
                "--replay {}: {why}; name a file that --record with --record-requests has left",
                path.display()
            )
        };
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        let times = arrivals(file).map_err(wrong)?;
        Self::of(times, speed).map_err(wrong)
    }

    /// Puts arrivals in order, the first at 0.
    fn of(mut times: Vec<i64>, speed: f64) -> Result<Self, String> {
        times.sort_unstable();
        let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else {
            return Err("it has no request".to_owned());
        };
        let since = |time: i64| time.abs_diff(first) as f64 / speed;
        if since(last) > SPAN_MAX {
            return Err("its requests lie more than ten years apart".to_owned());
        }
        Ok(Self { times: times.into_iter().map(|time| since(time).round() as u64).collect() })
    }

    /// Returns the number of requests.
    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    /// Returns when the last request is due.
    pub(crate) fn end(&self) -> u64 {
        self.times.last().copied().unwrap_or(0)
    }

    /// Returns how many requests are due before `ns`.
    pub(crate) fn due_by(&self, ns: f64) -> usize {
        self.times.partition_point(|time| (*time as f64) < ns)
    }

    /// Returns when the request of this number is due, counted from 0.
    pub(crate) fn time_of(&self, number: usize) -> Option<u64> {
        self.times.get(number).copied()
    }

    /// Returns how many requests are due at most in any stretch of this length.
    pub(crate) fn due_at_most(&self, stretch_ns: f64) -> usize {
        let mut first = 0;
        let within = self.times.iter().enumerate().map(|(last, time)| {
            while (time - self.times[first]) as f64 > stretch_ns {
                first += 1;
            }
            last - first + 1
        });
        within.max().unwrap_or(0)
    }
}

/// Returns when the requests of a table came, in its order.
fn arrivals(file: File) -> Result<Vec<i64>, String> {
    let unreadable = |error: ParquetError| format!("it cannot be read as Parquet ({error})");
    let table = SerializedFileReader::new(file).map_err(unreadable)?;
    let (metadata, schema) =
        (table.metadata().file_metadata(), table.metadata().file_metadata().schema_descr());
    let named = |name: &&str| schema.columns().iter().position(|column| column.name() == *name);
    let column =
        COLUMNS.iter().find_map(named).ok_or_else(|| format!("it has no column {}", COLUMNS.join(" or ")))?;
    if metadata.num_rows() > REQUESTS_MAX {
        return Err(format!(
            "it has {} requests, and {REQUESTS_MAX} are the most that are replayed",
            metadata.num_rows()
        ));
    }
    let mut times = Vec::new();
    for group in 0..table.num_row_groups() {
        let group = table.get_row_group(group).map_err(unreadable)?;
        let ColumnReader::Int64ColumnReader(mut reader) =
            group.get_column_reader(column).map_err(unreadable)?
        else {
            return Err(format!("its column {} has no numbers of 64 bits", schema.column(column).name()));
        };
        let mut levels = Vec::new();
        loop {
            levels.clear();
            // A file may say that it has fewer rows than it has.
            if times.len() as i64 > REQUESTS_MAX {
                return Err(format!("more than {REQUESTS_MAX} requests are in it"));
            }
            let (rows, ..) =
                reader.read_records(ROWS, Some(&mut levels), None, &mut times).map_err(unreadable)?;
            if rows == 0 {
                break;
            }
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_keep_their_distances_divided_by_the_speed() {
        let replay = |speed| Replay::of(vec![5_000, 9_000, 5_000, 6_000], speed).expect("arrivals");
        assert_eq!(replay(1.0).times, [0, 0, 1_000, 4_000]);
        assert_eq!(replay(2.0).times, [0, 0, 500, 2_000]);
        assert_eq!(replay(0.5).times, [0, 0, 2_000, 8_000]);
        let replay = replay(1.0);
        assert_eq!([0.0, 1.0, 1_000.0, 1_001.0, 9e9].map(|ns| replay.due_by(ns)), [0, 2, 2, 3, 4]);
        assert_eq!(
            (replay.count(), replay.end(), replay.time_of(3), replay.time_of(4)),
            (4, 4_000, Some(4_000), None)
        );
        assert_eq!([0.0, 999.0, 1_000.0, 1e9].map(|ns| replay.due_at_most(ns)), [2, 2, 3, 4]);
    }

    #[test]
    fn what_cannot_be_replayed_is_refused_with_its_name() {
        assert!(Replay::of(Vec::new(), 1.0).expect_err("nothing").contains("no request"));
        assert!(Replay::of(vec![0, i64::MAX], 1e-3).expect_err("too long").contains("ten years"));
        let dir = tempfile::tempdir().expect("a directory");
        let refusal = |path: &Path| Replay::read(path, 1.0).expect_err("no record");
        let missing = refusal(dir.path());
        assert!(
            missing.contains("requests.parquet: No such file") && missing.contains("--record-requests"),
            "{missing}"
        );
        let text = dir.path().join("text");
        std::fs::write(&text, "kind,due_ns\n").expect("a file");
        assert!(refusal(&text).contains("cannot be read as Parquet"), "{}", refusal(&text));
    }
}
