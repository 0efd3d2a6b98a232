//! Clocks that jump by an hour, forth and back: the middleware's and the database's.
//!
//! `wall_clock.c` stands between a program and the wall clock of its machine; a file says how wrong that is. (libfaketime
//! would do, if it did not allocate memory for it: it broke PostgreSQL's heap where signal handlers ask for the time.)
//!
//! The embedded store counts on the monotonic clock while it runs, and so does the middleware over PostgreSQL, whose
//! time is the database's: there is nothing that a jump may change. When the database's own clock jumps, leases end
//! early or late by the hour and keys are forgotten early, which no program can tell from an hour that passed; nothing
//! may be lost, doubled or out of order for that.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::campaign::Campaign;
use crate::client::{Answer, Client};
use crate::crew::rounds;
use crate::postgres::{self, Postgres};
use crate::support::Server;
use crate::support::patience::wait_until;
use crate::tier::Tier;

/// A lease, which must end whatever the clock does.
const LEASE_MS: &str = "300";

/// The wall clock of some processes.
struct WallClock {
    home: tempfile::TempDir,
}

impl WallClock {
    /// A right one.
    fn new() -> Self {
        let clock = Self { home: tempfile::tempdir_in("/tmp").expect("a temporary directory") };
        open_to_all(clock.home.path());
        fs::write(clock.file(), 0_i64.to_ne_bytes()).expect("a file");
        // Whoever has built these tests has it, to link them.
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(clock.library());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/wall_clock.c");
        assert!(
            compiler.arg(source).status().expect("a compiler").success(),
            "wall_clock.c does not compile"
        );
        clock
    }

    /// What processes need in their environment to read it.
    fn environment(&self) -> Vec<(String, String)> {
        let pairs = [("LD_PRELOAD", self.library()), ("WALL_CLOCK", self.file())];
        pairs.map(|(name, path)| (name.to_owned(), path.display().to_string())).to_vec()
    }

    /// Whether a running process has it.
    fn is_that_of(&self, pid: u32) -> bool {
        let library = self.library().display().to_string();
        fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs").contains(&library)
    }

    /// Sets it so many seconds ahead, or back, for everybody at once.
    fn set(&self, ahead_s: i64) {
        let file = OpenOptions::new().write(true).open(self.file()).expect("it is there");
        file.write_all_at(&ahead_s.to_ne_bytes(), 0).expect("room for it");
    }

    /// A jump, time in which something may go wrong, and the jump back.
    fn jump(&self, dice: &mut Rng, meanwhile: impl FnOnce()) {
        self.set(if dice.bool() { 3600 } else { -3600 });
        assert!(self.error().abs() > 3000, "the clock has not jumped: {} s", self.error());
        sleep(Duration::from_millis(dice.u64(50..300)));
        meanwhile();
        self.set(0);
    }

    /// How wrong it is for a program that is started now, in seconds.
    fn error(&self) -> i64 {
        let mut date = Command::new("date");
        let date = date.arg("+%s").envs(self.environment()).output().expect("date can be run");
        let shown: i64 = String::from_utf8_lossy(&date.stdout).trim().parse().expect("seconds");
        shown - now_s()
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("clock")
    }

    fn library(&self) -> PathBuf {
        self.home.path().join("wall_clock.so")
    }
}

#[test]
fn clocks_of_middlewares_over_the_embedded_store_jump() {
    let clock = WallClock::new();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = format!("embedded:{}", dir.path().display());
    let tier = Tier::start_with(&store, 1, &clock.environment());
    assert!(clock.is_that_of(tier.server(0).pid()), "the program has another clock");
    let mut campaign = Campaign::new("middleware's clock jumps by an hour, embedded store", 6);
    rounds(&mut campaign, 5, &tier.setting, |dice| clock.jump(dice, || a_lease_ends(tier.server(0))));
    campaign.finish();
}

#[test]
fn clocks_of_middlewares_over_postgresql_jump() {
    let clock = WallClock::new();
    let postgres = postgres::shared();
    let tier = Tier::start_with(&postgres.url(&postgres.create_database()), 1, &clock.environment());
    assert!(clock.is_that_of(tier.server(0).pid()), "the program has another clock");
    let mut campaign = Campaign::new("middleware's clock jumps by an hour, PostgreSQL", 6);
    rounds(&mut campaign, 5, &tier.setting, |dice| clock.jump(dice, || a_lease_ends(tier.server(0))));
    campaign.finish();
}

#[test]
fn clocks_of_databases_jump() {
    let clock = WallClock::new();
    let mut postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    postgres.restart_with(clock.environment());
    let tier = Tier::start(&postgres.url(&database), 2).without_leases();
    let mut campaign = Campaign::new("database's clock jumps by an hour (no leases)", 6);
    rounds(&mut campaign, 5, &tier.setting, |dice| {
        clock.jump(dice, || {
            let shown =
                postgres.psql("postgres", "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint");
            let error = shown.parse::<i64>().expect("seconds") - now_s();
            assert!(error.abs() > 3000, "the database's clock has not jumped: {error} s");
            a_lease_ends(tier.server(0));
        });
    });
    campaign.finish();
}

/// A store that was killed and is opened under a clock that is an hour wrong has everything, in its order.
#[test]
fn stores_opened_under_a_wrong_clock_are_whole() {
    let clock = WallClock::new();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = format!("embedded:{}", dir.path().display());
    let mut last = 0;
    let mut tier = Tier::start_with(&store, 1, &clock.environment());
    ask(tier.server(0), &["QCREATE", "q"]);
    for offset in [-3600, 3600, 0, 3600, -3600, 0] {
        let sent = ask(tier.server(0), &["SEND", "q", &offset.to_string()]).integer().expect("an id");
        assert!(sent > last, "an id after {last}: {sent}");
        last = sent;
        tier.kill(0);
        clock.set(offset);
        tier.start_again(0);
        a_lease_ends(tier.server(0));
    }
    let bodies: Vec<Answer> = (0..6).map(|_| ask(tier.server(0), &["POP", "QUEUE", "q"])).collect();
    let bodies: Vec<&str> = bodies.iter().filter_map(Answer::body).collect();
    assert_eq!(bodies, ["-3600", "3600", "0", "3600", "-3600", "0"]);
    assert_eq!(ask(tier.server(0), &["POP", "QUEUE", "q"]), Answer::Null);
}

/// Seconds since 1970, by the machine's own clock.
fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    now.as_secs().cast_signed()
}

/// Leases a message of its own, and waits until it is back.
fn a_lease_ends(server: &Server) {
    ask(server, &["QCREATE", "leases"]);
    ask(server, &["SEND", "leases", "x"]);
    let leased = ask(server, &["POP", "QUEUE", "leases", "LEASE", LEASE_MS]);
    assert_eq!(leased.body(), Some("x"), "{leased:?}");
    wait_until(format!("a lease of {LEASE_MS} ms has ended"), || {
        ask(server, &["POP", "QUEUE", "leases"]) != Answer::Null
    });
}

fn ask(server: &Server, words: &[&str]) -> Answer {
    Client::connect(server.addr()).expect("it runs").ask(words).expect("it runs")
}

/// PostgreSQL runs as another user, who must be able to read the time.
fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("a directory of ours");
}
