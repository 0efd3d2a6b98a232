//! What is kept of a round in which a promise was broken, so that it can be found out by whom: the journals, what was
//! allowed, and when faults and stalls were. [`judge_again`] has the same journals judged once more.

use std::fs;
use std::path::{Path, PathBuf};

use posthaste_history::{Answer, Body, Call, Delivery, History, Journal, Key, Outcome, Select, Send, check};

use crate::stalls;
use crate::verdict::Tally;

/// The journals of a round, and what else there is to know of it. All times are those of the journals.
#[derive(Default)]
pub(crate) struct Evidence {
    /// How many nanoseconds are allowed, as [`History`] has them.
    pub(crate) limbo: u64,
    pub(crate) timers_late: u64,
    /// From when to when faults were done and healed.
    pub(crate) faults: Vec<(u64, u64)>,
    pub(crate) journals: Vec<Journal>,
    pub(crate) drains: Vec<Journal>,
}

impl Evidence {
    /// Allows for as much as the machine itself was late: with time that has to pass, and with transactions that have
    /// to end.
    pub(crate) fn allow_for(&mut self, stalls: &[(u64, u64)]) {
        let late = stalls::lateness(stalls);
        self.timers_late += late;
        if self.limbo > 0 {
            self.limbo += late;
        }
    }

    /// The verdict; if it is a bad one, all of this is kept, and the verdict says where.
    pub(crate) fn judge(&self, name: &str) -> Tally {
        let mut tally = Tally::of(&self.history());
        if !tally.broken.is_empty() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR"))
                .join("broken-rounds")
                .join(format!("{}-{name}", std::process::id()));
            self.keep(&kept, &tally).expect("journals can be kept");
            tally.broken.push(format!("journals: {}", kept.display()));
        }
        tally
    }

    fn history(&self) -> History {
        let mut history = History::default();
        (history.limbo, history.timers_late) = (self.limbo, self.timers_late);
        self.journals.iter().for_each(|journal| history.add(journal));
        self.drains.iter().for_each(|journal| history.drain(journal));
        history
    }

    /// When the round began.
    pub(crate) fn begun(&self) -> u64 {
        let journals = self.journals.iter().chain(&self.drains);
        journals.filter_map(|journal| Some(journal.entries().first()?.begin)).min().unwrap_or(0)
    }

    fn keep(&self, directory: &Path, tally: &Tally) -> std::io::Result<()> {
        let mut round = format!("limbo {}\ntimers_late {}\n", self.limbo, self.timers_late);
        for (from, to) in &self.faults {
            round += &format!("fault {from} {to}\n");
        }
        for (from, to) in stalls::since(self.begun()) {
            round += &format!("stall {from} {to}\n");
        }
        round += &tally.broken.join("\n");
        fs::create_dir_all(directory)?;
        fs::write(directory.join("round"), round)?;
        for (journals, kind) in [(&self.journals, "client"), (&self.drains, "drain")] {
            for journal in journals {
                journal.write(directory.join(format!("{kind}-{}", journal.client())))?;
            }
        }
        Ok(())
    }

    fn read(directory: &Path) -> Self {
        let mut evidence = Self::default();
        let round = fs::read_to_string(directory.join("round")).expect("a round that was kept");
        for line in round.lines() {
            let number = |text: &str| text.parse().expect("a number");
            match *line.split(' ').collect::<Vec<_>>() {
                ["limbo", limbo] => evidence.limbo = number(limbo),
                ["timers_late", late] => evidence.timers_late = number(late),
                ["fault", from, to] => evidence.faults.push((number(from), number(to))),
                _ => {}
            }
        }
        for entry in fs::read_dir(directory).expect("a directory") {
            let path: PathBuf = entry.expect("a file").path();
            let journal = || Journal::read(&path).expect("a journal");
            match path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('-')) {
                Some(("client", _)) => evidence.journals.push(journal()),
                Some(("drain", _)) => evidence.drains.push(journal()),
                _ => {}
            }
        }
        evidence
    }
}

/// Not a test: `KEPT=DIRECTORY cargo test --test faults judge_again -- --ignored --nocapture` judges a round that was
/// kept.
#[test]
#[ignore = "for a round that was kept"]
fn judge_again() {
    let Some(directory) = std::env::var_os("KEPT") else { return };
    println!("{}", check(&Evidence::read(Path::new(&directory)).history()));
}

/// What is kept of a round is judged as it was.
#[test]
fn a_broken_round_is_kept() {
    let mut journal = Journal::new(1, "account0");
    let queue = journal.name("plain");
    let asked = [
        (Call::Send(Send::new(queue, Body::of(b"lost"))), Answer::Ids([7].into())),
        (Call::Pop(Select::queue(queue)), Answer::Messages([].into())),
    ];
    for (at, (call, answer)) in (10..).step_by(10).zip(asked) {
        let number = journal.begin(at, call);
        journal.end(number, at + 5, Outcome::Ok(answer));
    }
    let drain = Journal::new(2, "account0");
    let evidence = Evidence {
        limbo: 3,
        timers_late: 4,
        faults: vec![(11, 12)],
        journals: vec![journal],
        drains: vec![drain],
    };
    let tally = evidence.judge("of-a-test");
    let [verdict, place] = &*tally.broken else { panic!("{:?}", tally.broken) };
    let directory = Path::new(place.strip_prefix("journals: ").expect("where they are"));
    let read = Evidence::read(directory);
    fs::remove_dir_all(directory).expect("it was made");
    assert_eq!((read.limbo, read.timers_late, &read.faults), (3, 4, &evidence.faults));
    assert_eq!(check(&read.history()).to_string(), *verdict);
}

/// A lease that ran out while the machine stood still is given back when it goes on, and who asks before that finds
/// nothing.
#[test]
fn a_stall_of_the_machine_is_no_broken_promise() {
    let (second, body) = (1_000_000_000, Body::of(b"leased"));
    let mut journal = Journal::new(1, "account0");
    let (queue, from) = (journal.name("plain"), journal.name("account0"));
    let key = Key::new(9);
    let given = |deliveries, receipt| {
        let (to, headers, first_queue) = (None, None, None);
        let priority = 0;
        Answer::Messages(
            [Delivery { id: 7, queue, from, to, priority, deliveries, headers, body, receipt, first_queue }]
                .into(),
        )
    };
    let pop = Select::queue(queue);
    let asked = [
        (0, Call::Send(Send::new(queue, body)), Answer::Ids([7].into())),
        (1, Call::Pop(Select { lease_ms: 300, ..pop }), given(1, key)),
        (5 * second, Call::Pop(pop), Answer::Messages([].into())),
        (6 * second, Call::Pop(pop), given(2, None)),
    ];
    for (at, call, answer) in asked {
        let number = journal.begin(at, call);
        journal.end(number, at + 1, Outcome::Ok(answer));
    }
    let drains = vec![Journal::new(2, "account0")];
    let mut evidence =
        Evidence { timers_late: second, journals: vec![journal], drains, ..Evidence::default() };
    assert_eq!(check(&evidence.history()).counts.wrong_empties, 1);
    evidence.allow_for(&[(second, 3 * second), (4 * second, 4 * second)]);
    let verdict = check(&evidence.history());
    assert!(verdict.is_valid(), "{verdict}");
}
