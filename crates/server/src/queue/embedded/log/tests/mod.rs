//! What the log promises, tried on real files and on a simulated disk.

mod copies;
mod crash;
mod damage;
mod moving;
mod promises;
mod simulated;
mod space;
mod watched;

use std::path::Path;
use std::sync::Arc;

use super::{
    Location, Log, LogError, OpenError, Options, Owner, Purpose, Sweep, SweepStep, Swept, SweptRecord,
};
use simulated::SimulatedDisk;

/// The smallest segments, so that a few records fill several.
const SMALL: Options = Options { segment_bytes: 16 << 10, spare_segments: 1, prepares_ahead: true };

/// Every record with its place.
type Records = Vec<(Location, Vec<u8>)>;

impl Owner for Records {
    fn replay(&mut self, at: Location, record: &[u8]) -> Result<(), String> {
        self.push((at, record.to_vec()));
        Ok(())
    }
}

fn open(directory: &Path) -> Result<(Log, Records), OpenError> {
    let mut records = Records::new();
    let log = Log::open(directory, SMALL, &mut records)?;
    Ok((log, records))
}

fn open_simulated(disk: &SimulatedDisk) -> Result<(Log, Records), OpenError> {
    let mut records = Records::new();
    let options = Options { prepares_ahead: false, ..SMALL };
    let log = Log::open_on(Arc::new(disk.clone()), options, &mut records)?;
    Ok((log, records))
}

/// Seals, writes and takes back one commit.
fn commit(log: &mut Log) -> Result<(), LogError> {
    let Some(mut commit) = log.seal() else {
        return Ok(());
    };
    let result = commit.sync();
    log.committed(commit, &result);
    result
}

/// Appends records of `bytes` bytes, each its own commit, and returns what was appended.
fn fill(log: &mut Log, count: usize, bytes: usize) -> Records {
    let mut records = Records::new();
    for number in 0..count {
        let record = vec![number.to_le_bytes()[0] | 1; bytes];
        log.reserve(bytes as u64 + 16, Purpose::Add).unwrap();
        records.push((log.append(&record), record));
        commit(log).unwrap();
    }
    records
}

/// Sweeps the whole oldest segment and returns its records.
fn sweep(log: &mut Log, bytes_max: usize) -> Result<Records, LogError> {
    let (mut cursor, mut swept) = (Sweep::default(), Swept::default());
    let mut records = Records::new();
    loop {
        let step = log.sweep(&mut cursor, bytes_max, &mut swept)?;
        let payload = |range: &std::ops::Range<usize>| swept.bytes[range.clone()].to_vec();
        records.extend(swept.records.iter().map(|record| (record.at, payload(&record.range))));
        if step == SweepStep::End {
            return Ok(records);
        }
    }
}
