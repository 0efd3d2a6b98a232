//! Power cuts and kills at random instants under random work: everything acknowledged survives, and of what was not
//! acknowledged whole commits or nothing.
//!
//! `LIVES=n` makes each test run at least so many lives in all, instead of the few that fit into `make test`; a line
//! of its output says how many records were acknowledged.

use std::collections::HashMap;

use fastrand::Rng;

use super::super::LogCommit;
use super::*;

/// What the test knows about one log.
struct Model {
    rng: Rng,
    /// Records replayed or acknowledged, in order.
    durable: Records,
    /// Appended but not acknowledged: the records of each reservation.
    doubtful: Vec<Records>,
    /// The commit under way, and how many of the doubtful entries it covers.
    under_way: Option<(LogCommit, usize)>,
    /// Places of the records that are needed, by the number they start with.
    living: HashMap<u64, (Location, Vec<u8>)>,
    next: u64,
    /// Segments below this one hold nothing that is needed.
    floor: u32,
    /// Number of records acknowledged in all lives.
    acknowledged: usize,
}

/// Number of lives of one log.
const LIVES: u64 = 8;

#[test]
fn a_power_cut_at_any_instant_loses_nothing_acknowledged() {
    run_all("power cut", 150, true);
}

#[test]
fn a_kill_at_any_instant_loses_nothing_acknowledged() {
    run_all("kill", 50, false);
}

fn run_all(name: &str, few: u64, power: bool) {
    let lives = std::env::var("LIVES").ok().map(|text| text.parse::<u64>().expect("LIVES is a number"));
    let seeds = lives.map_or(few, |lives| lives.div_ceil(LIVES));
    let acknowledged: usize = (0..seeds).map(|seed| run(seed, power)).sum();
    println!("| {name}, simulated disk | {} | {acknowledged} records | 0 lost |", seeds * LIVES);
}

/// Runs the lives of one log, each ended at a random change of the disk. Returns how many records were acknowledged.
fn run(seed: u64, power: bool) -> usize {
    let mut model = Model {
        rng: Rng::with_seed(seed),
        durable: Records::new(),
        doubtful: Vec::new(),
        under_way: None,
        living: HashMap::new(),
        next: 0,
        floor: 1,
        acknowledged: 0,
    };
    let mut disk = SimulatedDisk::new();
    for life in 0..LIVES {
        disk.cut_after(model.rng.u64(1..600));
        match open_simulated(&disk) {
            Ok((log, found)) => {
                model.check(&found, &format!("seed {seed}, life {life}"));
                let _ = model.work(log);
            }
            Err(OpenError::Log(_)) => {}
            Err(error) => panic!("seed {seed}, life {life}: {error}"),
        }
        disk = if power { disk.after_power_cut(&mut model.rng) } else { disk.after_kill() };
    }
    let (_, found) = open_simulated(&disk).unwrap();
    model.check(&found, &format!("seed {seed}, end"));
    model.acknowledged
}

impl Model {
    /// Compares a replay with what must and may be in it, and goes on from it.
    fn check(&mut self, found: &Records, run: &str) {
        self.under_way = None;
        let first = found.first().map_or(self.floor, |(at, _)| at.segment).min(self.floor);
        let mut expected: Records =
            self.durable.iter().filter(|(at, _)| at.segment >= first).cloned().collect();
        let mut doubtful = std::mem::take(&mut self.doubtful).into_iter();
        while expected.len() < found.len() {
            expected.extend(doubtful.next().unwrap_or_else(|| panic!("{run}: more than was ever appended")));
        }
        assert!(*found == expected, "{run}: {} records found, {} expected", found.len(), expected.len());
        let mut last = HashMap::new();
        for (at, record) in found {
            last.insert(number_of(record), (*at, record.clone()));
        }
        for record in self.durable.iter().map(|(_, record)| number_of(record)) {
            assert!(!self.living.contains_key(&record) || last.contains_key(&record), "{run}: lost {record}");
        }
        self.living.retain(|number, _| last.contains_key(number));
        for (number, place) in &mut self.living {
            *place = last[number].clone();
        }
        self.durable = expected;
    }

    /// Does random work until the power goes off.
    fn work(&mut self, mut log: Log) -> Result<(), LogError> {
        for _ in 0..self.rng.usize(..300) {
            match self.rng.u8(..10) {
                0..6 => self.append(&mut log)?,
                6..8 => self.commit(&mut log)?,
                8 => self.read(&mut log)?,
                _ => self.reclaim(&mut log)?,
            }
        }
        // With a frame under way a log ends without the empty frame and the note of an orderly end.
        log.in_flight |= self.rng.bool();
        Ok(())
    }

    fn append(&mut self, log: &mut Log) -> Result<(), LogError> {
        let count = self.rng.u64(1..8);
        let bytes_max = if self.rng.u8(..40) == 0 { 4_000 } else { 400 };
        let purpose = if self.rng.bool() { Purpose::Add } else { Purpose::Remove };
        log.reserve(count * (bytes_max + 8 + 16), purpose)?;
        let mut batch = Records::new();
        for _ in 0..count {
            let mut record = self.next.to_le_bytes().to_vec();
            record.resize(8 + self.rng.usize(..usize::try_from(bytes_max).unwrap()), self.rng.u8(..));
            let at = log.append(&record);
            self.living.insert(self.next, (at, record.clone()));
            self.next += 1;
            batch.push((at, record));
        }
        self.doubtful.push(batch);
        for _ in 0..self.rng.u64(..=count) {
            let number = self.rng.u64(..self.next);
            self.living.remove(&number);
        }
        Ok(())
    }

    /// Begins a commit, or ends the one under way.
    fn commit(&mut self, log: &mut Log) -> Result<(), LogError> {
        let Some((mut commit, covered)) = self.under_way.take() else {
            self.under_way = log.seal().map(|commit| (commit, self.doubtful.len()));
            return Ok(());
        };
        let result = commit.sync();
        log.committed(commit, &result);
        result?;
        let before = self.durable.len();
        self.durable.extend(self.doubtful.drain(..covered).flatten());
        self.acknowledged += self.durable.len() - before;
        Ok(())
    }

    fn read(&mut self, log: &mut Log) -> Result<(), LogError> {
        for (at, record) in self.living.values().take(20) {
            assert_eq!(log.read(*at, u32::try_from(record.len()).unwrap())?, record);
        }
        Ok(())
    }

    /// Empties and drops the oldest segment.
    fn reclaim(&mut self, log: &mut Log) -> Result<(), LogError> {
        let Some(oldest) = log.oldest() else {
            return Ok(());
        };
        let (mut cursor, mut swept) = (Sweep::default(), Swept::default());
        loop {
            let step = log.sweep(&mut cursor, 3000, &mut swept)?;
            log.reserve((swept.bytes.len() + 16 * swept.records.len()) as u64, Purpose::Reclaim)?;
            let mut moved = Records::new();
            for SweptRecord { at, range } in &swept.records {
                let record = swept.bytes[range.clone()].to_vec();
                let number = number_of(&record);
                if self.living.get(&number).is_some_and(|(place, _)| place == at) {
                    let place = (log.append(&record), record);
                    self.living.insert(number, place.clone());
                    moved.push(place);
                }
            }
            self.doubtful.push(moved);
            if step == SweepStep::End {
                break;
            }
        }
        log.drop_oldest()?;
        self.floor = oldest + 1;
        Ok(())
    }
}

fn number_of(record: &[u8]) -> u64 {
    u64::from_le_bytes(*record.first_chunk().unwrap())
}
