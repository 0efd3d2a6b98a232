//! `kill -9` of clients: what they were told is true, what they had begun happened whole or not at all, and what they had
//! leased comes back.
//!
//! A client is a process, this test program itself. It keeps its journal in a file, written before each request and
//! after each answer, which survives it.

use std::env;
use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use fastrand::Rng;
use posthaste_history::{Journal, Writer};

use crate::campaign::Campaign;
use crate::crew::{MEMBERS, Setting, create, next_client, next_queues, settle};
use crate::member::{Member, Queues};
use crate::notes::Notes;
use crate::postgres;
use crate::support::patience::wait_until;
use crate::tier::Tier;
use crate::witness::now;

/// Kills in a round.
const ROUND: u64 = 20;

#[test]
fn clients_killed_on_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tier = Tier::start(&format!("embedded:{}", dir.path().display()), 1);
    kill_clients(Campaign::new("client killed, embedded store", 20), &tier);
}

#[test]
fn clients_killed_on_postgresql() {
    let postgres = postgres::shared();
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 1);
    kill_clients(Campaign::new("client killed, PostgreSQL", 20), &tier);
}

fn kill_clients(mut campaign: Campaign, tier: &Tier) {
    let mut dice = Rng::with_seed(1);
    while let kills @ 1.. = campaign.more_until_judged(ROUND) {
        let (queues, home) = (next_queues(), tempfile::tempdir().expect("a temporary directory"));
        create(&tier.setting, &queues);
        let begin = |account| Process::begin(&tier.setting, &queues, account, home.path());
        let mut processes: Vec<Process> = (0..MEMBERS).map(begin).collect();
        let mut journals = Vec::new();
        for _ in 0..kills {
            sleep(Duration::from_millis(dice.u64(40..120)));
            let account = dice.u32(..MEMBERS);
            let killed = std::mem::replace(&mut processes[account as usize], begin(account));
            journals.push(killed.kill());
        }
        sleep(Duration::from_millis(100));
        journals.extend(processes.into_iter().map(Process::finish));
        campaign.count(kills, &settle(&tier.setting, &queues, journals.into_iter(), Vec::new()));
    }
    campaign.has_judged();
    campaign.finish();
}

/// A client in a process of its own.
struct Process {
    child: Child,
    path: PathBuf,
}

impl Process {
    fn begin(setting: &Setting, queues: &Queues, account: u32, home: &Path) -> Self {
        let number = next_client();
        let path = home.join(number.to_string());
        let server = setting.place.of_client(number).expect("it runs");
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "clients::a_client", "--ignored", "--nocapture"]);
        let words = [server.to_string(), number.to_string(), account.to_string()];
        command.env("CLIENT", [&words[..], &[queues.exact.clone(), queues.plain.clone()]].concat().join(" "));
        command.env("CLIENT_JOURNAL", &path);
        // It ends when its input does.
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self { child: child.expect("this program can be run"), path }
    }

    /// Ends it without warning, once it works: its journal.
    fn kill(mut self) -> Journal {
        wait_until("a client has begun", || fs::metadata(&self.path).is_ok_and(|file| file.len() > 0));
        self.child.kill().and_then(|()| self.child.wait()).expect("a child can be killed");
        self.journal()
    }

    /// Lets it finish what it has begun: its journal.
    fn finish(mut self) -> Journal {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("a child can be waited for").success(), "a client failed");
        self.journal()
    }

    /// What it wrote down; whatever it had under way has no end later than now.
    fn journal(&self) -> Journal {
        let mut journal = Journal::read(&self.path).expect("a journal");
        journal.close(now());
        journal
    }
}

/// Not a test: what the processes above do.
#[test]
#[ignore = "a client of the tests beside it"]
fn a_client() {
    let (Ok(words), Some(path)) = (env::var("CLIENT"), env::var_os("CLIENT_JOURNAL")) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let [server, number, account, exact, plain] = words[..] else { panic!("five words") };
    let server: SocketAddr = server.parse().expect("an address");
    let [client, account] = [number, account].map(|text| text.parse::<u32>().expect("a number"));
    let queues = Queues { exact: exact.to_owned(), plain: plain.to_owned() };
    let writer = Writer::create(Path::new(&path), client, &format!("account{account}"));
    let notes = Notes::OnDisk(writer.expect("a journal can be made"));
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new()); // an error is an end too
        told.store(true, Ordering::SeqCst);
    });
    Member::new(&Setting::at(vec![server]), client, account, queues, notes).work(&over);
}
