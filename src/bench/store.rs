//! `posthaste bench store`: drives a store directly, without network and request path: the "database alone" experiment.
//!
//! Beside an embedded store, as many bytes as its log grows by are appended to a plain file and synced, in
//! turn with the store, so that the figure can be read as a share of what the disk allows.

use std::error::Error;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use posthaste_load::SummaryFile;
use posthaste_server::queue::answer::Answer;
use posthaste_server::queue::choice::StoreChoice;
use posthaste_server::queue::embedded::{Embedded, EmbeddedOptions};
use posthaste_server::queue::memory::Memory;
use posthaste_server::queue::mock::Mock;
use posthaste_server::queue::rules::{AccountId, Ask, Commit as _, Rules};
use posthaste_server::time::Time;
use posthaste_wire::encode::Protocol;
use posthaste_wire::operation::{Operation, Pop, Selection, Send};
use posthaste_wire::span::Span;
use serde::Serialize;

use super::{raw, store_postgres};
use crate::config::Misuse;
use crate::flags::{BenchStoreFlags, StoreWorkload};
use crate::queue;
use crate::stdout::say;

/// Most bytes of bodies in one batch; they are in memory several times.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// Shortest time in which something can be measured.
const PART_MIN: Duration = Duration::from_millis(1);

/// One measured batch size.
#[derive(Debug, Serialize)]
struct Row {
    batch: usize,
    operations_per_s: f64,
    raw_append_per_s: Option<f64>,
    ratio: Option<f64>,
    raw_bytes_per_operation: Option<f64>,
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report {
    store: String,
    message_bytes: usize,
    preload: u64,
    preload_s: f64,
    reopen_s: Option<f64>,
    duration_s: f64,
    repetitions: usize,
    rows: Vec<Row>,
}

/// Runs every batch size and prints a table.
pub(crate) fn run(flags: &BenchStoreFlags) -> Result<(), Box<dyn Error>> {
    let choice: StoreChoice = flags.store.parse().map_err(|error| Misuse(format!("--store: {error}")))?;
    let unbatched = queue::popping(&flags.popping, &choice, flags.batch.iter().copied().max().unwrap_or(1));
    let unbatched = unbatched.map_err(Misuse)?;
    refuse_a_batch_too_large(flags).map_err(Misuse)?;
    refuse_parts_too_short(flags).map_err(Misuse)?;
    if !matches!(choice, StoreChoice::Postgres(_)) {
        refuse_what_needs_a_database(flags).map_err(Misuse)?;
    }
    let json = flags.json.as_deref().map(SummaryFile::open).transpose()?;
    let report = match &choice {
        StoreChoice::Memory => measure(flags, Memory::new(1), None)?,
        StoreChoice::Mock(bytes) => measure(flags, Mock::new(vec![b'x'; *bytes]), None)?,
        StoreChoice::Embedded(dir) => {
            match dir.read_dir().map(Iterator::count) {
                Ok(0) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Ok(_) => return Err(format!("{} is not empty: name a new directory", dir.display()).into()),
                Err(error) => return Err(format!("cannot use {}: {error}", dir.display()).into()),
            }
            raw::has_room(dir)?;
            let store = Embedded::open(dir, EmbeddedOptions::default())?;
            let mut report = measure(flags, store, Some(dir))?;
            let start = Instant::now();
            drop(Embedded::open(dir, EmbeddedOptions::default())?);
            report.reopen_s = Some(start.elapsed().as_secs_f64());
            report
        }
        StoreChoice::Postgres(address) => {
            let ran = store_postgres::run(flags, address, unbatched, json);
            return ran.map_err(|error| error as Box<dyn Error>);
        }
    };
    let mut text = shown(&report);
    if let StoreChoice::Embedded(dir) = &choice {
        let _ = writeln!(text, "the store stays in {}: remove it before another run there", dir.display());
    }
    say(&text)?;
    if let Some(json) = json {
        json.write(&serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

fn refuse_a_batch_too_large(flags: &BenchStoreFlags) -> Result<(), String> {
    let largest = flags.batch.iter().copied().max().unwrap_or(1);
    match largest.checked_mul(flags.message_bytes) {
        Some(bytes) if bytes <= BATCH_BYTES_MAX => Ok(()),
        _ => Err(format!(
            "--batch {largest} of --message-bytes {} are more than 1 GiB in one commit: lower one of them",
            flags.message_bytes
        )),
    }
}

fn refuse_parts_too_short(flags: &BenchStoreFlags) -> Result<(), String> {
    let part = flags.duration / u32::try_from(flags.repetitions).unwrap_or(u32::MAX);
    if part >= PART_MIN {
        return Ok(());
    }
    Err(format!(
        "--duration {:?} in --repetitions {} are parts of {part:?}, in which nothing can be measured; {PART_MIN:?} is the least",
        flags.duration, flags.repetitions
    ))
}

fn refuse_what_needs_a_database(flags: &BenchStoreFlags) -> Result<(), String> {
    if !flags.connections.is_empty() {
        return Err("--connections is for postgres:// stores only".into());
    }
    if flags.workload == StoreWorkload::TwelveStep {
        return Err("--workload twelve-step is for postgres:// stores only".into());
    }
    Ok(())
}

/// Returns the first line of the output: what was measured.
pub(crate) fn heading(store: &str, message_bytes: usize, preload: u64) -> String {
    format!("{store}, {message_bytes} B bodies, {preload} messages in it\n")
}

fn shown(report: &Report) -> String {
    let mut text = heading(&report.store, report.message_bytes, report.preload);
    let _ = writeln!(text, "{:>6} {:>16} {:>16} {:>7}", "batch", "operations/s", "raw append/s", "ratio");
    for row in &report.rows {
        let number =
            |value: Option<f64>, digits| value.map_or("-".into(), |value| format!("{value:.digits$}"));
        let _ = writeln!(
            text,
            "{:>6} {:>16.0} {:>16} {:>7}",
            row.batch,
            row.operations_per_s,
            number(row.raw_append_per_s, 0),
            number(row.ratio, 2)
        );
    }
    if let Some(seconds) = report.reopen_s {
        let _ = writeln!(text, "opened again in {seconds:.2} s");
    }
    text
}

fn measure<R: Rules>(
    flags: &BenchStoreFlags,
    store: R,
    dir: Option<&Path>,
) -> Result<Report, Box<dyn Error>> {
    let mut driver = Driver::new(store, flags.message_bytes)?;
    let growth = driver.log_growth()?;
    let start = Instant::now();
    driver.preload(flags.preload)?;
    let preload_s = start.elapsed().as_secs_f64();
    let mut rows = Vec::new();
    for &batch in &flags.batch {
        let slice = flags.duration / u32::try_from(flags.repetitions)?;
        let batches = driver.batches(flags.workload, batch);
        let raw_bytes = [0, 1].map(|turn: usize| growth.of_batch(&batches[turn]));
        let (mut ours, mut raws) = (Vec::new(), Vec::new());
        for _ in 0..flags.repetitions {
            ours.push(driver.run(&batches, slice)?);
            if let Some(dir) = dir {
                raws.push(raw::append(dir, batch, raw_bytes, slice)?);
            }
        }
        let operations_per_s = median(&mut ours);
        let raw_append_per_s = (!raws.is_empty()).then(|| median(&mut raws));
        let ratio = raw_append_per_s.map(|raw| operations_per_s / raw);
        let raw_bytes_per_operation =
            raw_append_per_s.map(|_| raw_bytes.iter().sum::<u64>() as f64 / (2 * batch) as f64);
        rows.push(Row { batch, operations_per_s, raw_append_per_s, ratio, raw_bytes_per_operation });
    }
    Ok(Report {
        store: flags.store.to_string(),
        message_bytes: flags.message_bytes,
        preload: flags.preload,
        preload_s,
        reopen_s: None,
        duration_s: flags.duration.as_secs_f64(),
        repetitions: flags.repetitions,
        rows,
    })
}

/// Sorts the values and returns their median; for an even number of them, the mean of the middle two.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// Bytes that a log grows by with each commit, and with each request in it.
#[derive(Clone, Copy, Debug)]
struct LogGrowth {
    commit: u64,
    send: u64,
    pop: u64,
}

impl LogGrowth {
    fn of_batch(&self, operations: &[Operation]) -> u64 {
        let pops =
            operations.iter().filter(|operation| matches!(operation, Operation::Pop(_))).count() as u64;
        self.commit + self.pop * pops + self.send * (operations.len() as u64 - pops)
    }
}

/// A store, and the two requests it is driven with.
struct Driver<R: Rules> {
    store: R,
    time: Time,
    account: AccountId,
    bytes: Vec<u8>,
    send: Operation,
    pop: Operation,
    answers: Vec<u8>,
}

impl<R: Rules> Driver<R> {
    fn new(store: R, body_bytes: usize) -> Result<Self, Box<dyn Error>> {
        let queue = Span { start: 0, len: 1 };
        let mut bytes = b"q".to_vec();
        bytes.resize(1 + body_bytes, b'x');
        let body = Span { start: 1, len: u32::try_from(body_bytes)? };
        let select = Selection { queue: Some(queue), ..Selection::default() };
        let mut driver = Self {
            store,
            time: Time::start(),
            account: 0,
            bytes,
            send: Operation::Send(Send::plain(queue, body)),
            pop: Operation::Pop(Pop { select, ..Pop::default() }),
            answers: Vec::new(),
        };
        driver.account = driver.store.account(b"bench")?;
        let create = Operation::CreateQueue { name: Some(queue), options: None };
        driver.batch(std::slice::from_ref(&create))?;
        Ok(driver)
    }

    fn preload(&mut self, messages: u64) -> Result<(), Box<dyn Error>> {
        const BATCH: u64 = 256;
        let batch = vec![self.send.clone(); usize::try_from(BATCH)?];
        for _ in 0..messages / BATCH {
            self.batch(&batch)?;
        }
        self.batch(&batch[..usize::try_from(messages % BATCH)?])
    }

    /// Returns two batches to be executed in turn, so that pairs are complete at batch size 1 as well.
    fn batches(&self, workload: StoreWorkload, batch: usize) -> [Vec<Operation>; 2] {
        let operation = |i: usize| match workload {
            StoreWorkload::Pairs if i % 2 == 1 => self.pop.clone(),
            _ => self.send.clone(),
        };
        [(0..batch).map(operation).collect(), (batch..2 * batch).map(operation).collect()]
    }

    /// Measures by how much the log grows; the messages sent for that are removed again.
    fn log_growth(&mut self) -> Result<LogGrowth, Box<dyn Error>> {
        let [one_send, nine_sends] = [1, 9].map(|many| vec![self.send.clone(); many]);
        let [one_pop, nine_pops] = [1, 9].map(|many| vec![self.pop.clone(); many]);
        let send_alone = self.growth_by(&one_send)?;
        let send = (self.growth_by(&nine_sends)? - send_alone) / 8;
        let pop_alone = self.growth_by(&one_pop)?;
        let pop = (self.growth_by(&nine_pops)? - pop_alone) / 8;
        Ok(LogGrowth { commit: send_alone - send, send, pop })
    }

    fn growth_by(&mut self, operations: &[Operation]) -> Result<u64, Box<dyn Error>> {
        let before = self.log_bytes();
        self.batch(operations)?;
        Ok(self.log_bytes() - before)
    }

    /// Returns the size of the log; 0 when the store has none.
    fn log_bytes(&self) -> u64 {
        let figures = self.store.figures();
        figures.iter().find(|(name, _)| *name == "log_bytes").map_or(0, |(_, bytes)| *bytes)
    }

    /// Returns operations per second over these batches.
    fn run(&mut self, batches: &[Vec<Operation>; 2], span: Duration) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        let mut done = 0;
        loop {
            for operations in batches {
                self.batch(operations)?;
                done += operations.len();
            }
            // Checked at the end, so that even the shortest time measures something.
            let elapsed = start.elapsed();
            if elapsed >= span {
                return Ok(done as f64 / elapsed.as_secs_f64());
            }
        }
    }

    /// Executes and commits one batch.
    fn batch(&mut self, operations: &[Operation]) -> Result<(), Box<dyn Error>> {
        let now = self.time.millis();
        let mut news = Vec::new();
        self.store.prepare(operations.len(), operations.len() * self.bytes.len())?;
        self.store.tick(now, &mut news);
        for operation in operations {
            let ask = Ask { account: self.account, operation, bytes: &self.bytes };
            self.answers.clear();
            self.store.execute(now, ask, &mut Answer::new(&mut self.answers, Protocol::Resp2), &mut news);
            if self.answers.first() == Some(&b'-') {
                return Err(String::from_utf8_lossy(&self.answers).trim_end().into());
            }
        }
        if let Some(mut commit) = self.store.seal() {
            let result = commit.sync();
            self.store.committed(commit, &result);
            result?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_given_what_the_log_grows_by() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Embedded::open(dir.path(), EmbeddedOptions::default()).expect("a store");
        let mut driver = Driver::new(store, 200).expect("a driver");
        let growth = driver.log_growth().expect("a log");
        for workload in [StoreWorkload::Send, StoreWorkload::Pairs] {
            for operations in driver.batches(workload, 33) {
                let grown = driver.growth_by(&operations).expect("a batch");
                let told = growth.of_batch(&operations);
                assert!(grown.abs_diff(told) <= 33, "{workload:?}: {grown} bytes, told {told}");
            }
        }
    }

    #[test]
    fn a_median_of_an_even_number_lies_between_the_middle_two() {
        for (mut values, middle) in [(vec![7.0], 7.0), (vec![4.0, 1.0], 2.5), (vec![9.0, 1.0, 2.0], 2.0)] {
            assert!((median(&mut values) - middle).abs() < 1e-12, "{values:?}");
        }
    }
}
