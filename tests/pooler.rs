//! Through PgBouncer in transaction mode: no session is ours for longer than a transaction, so nothing may be prepared
//! under a name and nobody is notified. Everything works all the same, only the wakes across middlewares are slower.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/crew.rs"]
mod crew;

#[path = "support/news.rs"]
mod news;

#[path = "support/pooler.rs"]
mod pooler;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::net::SocketAddr;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use crew::Crew;
use news::wait_until_blocked;
use pooler::Pooler;
use postgres::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use session::Session;
use support::Server;
use support::patience::{wait_for, wait_until};

/// Fewer sessions than two middlewares have connections, so that they change hands all the time.
const SESSIONS: usize = 3;

/// A database that is reached through a pooler only.
struct PooledDatabase {
    postgres: Postgres,
    pooler: Pooler,
    database: String,
}

impl PooledDatabase {
    fn new() -> Self {
        let postgres = Postgres::start(&["log_min_messages=warning", "log_min_error_statement=error"]);
        let database = postgres.create_database();
        Self { pooler: Pooler::start(&postgres, SESSIONS), postgres, database }
    }

    fn middleware(&self) -> Server {
        Server::start(&self.pooler.url(&self.database), &[])
    }

    /// Executes SQL as an application that shares the pooler, and returns its output.
    fn execute(&self, sql: &str) -> String {
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command", sql]);
        let output = psql.arg(self.pooler.url(&self.database)).output().expect("psql can be run");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// No statement failed, and the server said nothing that a pooler's user must not hear. Where the machine stands still
    /// a batch may take the second for which another one waits for a queue, and is then asked again.
    fn assert_no_errors_logged(&self) {
        let is_late = |line: &str| line.contains("another transaction holds a lock on queue");
        let is_bad =
            |line: &&str| line.contains("prepared statement") || line.contains("ERROR") && !is_late(line);
        for log in [self.postgres.log(), self.pooler.log()] {
            assert_eq!(log.lines().find(is_bad), None, "{log}");
        }
    }
}

fn login(server: SocketAddr, name: &str) -> Client {
    Client::login(server, name).expect("it runs")
}

/// One request with a plain answer.
fn ask(client: &mut Client, request: &str) -> Answer {
    let words: Vec<&str> = request.split(' ').collect();
    let answer = client.ask(&words).expect("it runs");
    assert!(!matches!(answer, Answer::Error(_)), "{request}: {answer:?}");
    answer
}

#[test]
fn every_kind_of_request_works() {
    let pooled = PooledDatabase::new();
    let server = pooled.middleware();
    let (mut ann, mut bob) = (login(server.addr(), "ann"), login(server.addr(), "bob"));
    let number = |answer: Answer| answer.integer().expect("a number");
    for queue in ["q", "dead", "other"] {
        ask(&mut ann, &format!("QCREATE {queue}"));
    }
    ask(&mut ann, "QCREATE leased DEADLETTER dead AFTER 1");
    assert_eq!(ask(&mut ann, "SENDMANY q one two three").list().len(), 3);
    assert_eq!(ask(&mut bob, "PEEK QUEUE q").body(), Some("one"));
    assert_eq!(ask(&mut bob, "POP QUEUE q").body(), Some("one"));
    assert_eq!(ask(&mut bob, "POP QUEUE q COUNT 5").list().len(), 2);
    assert_eq!(ask(&mut bob, "POP QUEUE q"), Answer::Null);
    let first = number(ask(&mut ann, "SEND q once DEDUP key"));
    assert_eq!(number(ask(&mut ann, "SEND q once DEDUP key")), first);
    ask(&mut ann, "SEND q private TO bob PRIORITY 7 HEADER k v");
    assert_eq!(ask(&mut ann, "POP QUEUE q REQID r").body(), Some("once"));
    assert_eq!(ask(&mut ann, "POP QUEUE q REQID r").body(), Some("once"));
    assert_eq!(ask(&mut bob, "QREADABLE").list().len(), 1);
    assert_eq!(ask(&mut bob, "POP FROM ann").body(), Some("private"));
    ask(&mut ann, "SEND leased work");
    let leased = ask(&mut bob, "POP QUEUE leased LEASE 60000");
    let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
    assert_eq!(number(ask(&mut bob, &format!("EXTEND {receipt} 60000"))), 1);
    assert_eq!(number(ask(&mut bob, &format!("NACK {receipt}"))), 1);
    assert_eq!(number(ask(&mut ann, "QREDRIVE dead other")), 1);
    assert_eq!(ask(&mut bob, "POP QUEUE other").body(), Some("work"));
    ask(&mut ann, "SEND q late DELAY 200");
    assert_eq!(ask(&mut bob, "POP QUEUE q BLOCK 5000").body(), Some("late"));
    ask(&mut ann, "SEND q x");
    assert_eq!(number(ask(&mut ann, "QPURGE q")), 1);
    assert_eq!(number(ask(&mut ann, "QDELETE q")), 0);
    pooled.assert_no_errors_logged();
}

/// The lock of who migrates would stay in a session of the pooler's, and the next one would wait for it for ever.
#[test]
fn a_pooler_is_no_place_to_migrate_through() {
    let pooled = PooledDatabase::new();
    let migrate = |url: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(["migrate", "--store", url]).output().expect("the program runs")
    };
    let empty = pooled.postgres.create_empty_database();
    for database in [&pooled.database, &empty] {
        let refused = migrate(&pooled.pooler.url(database));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("a pooler answers at this address") && said.lines().count() == 1, "{said}");
    }
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1";
    assert_eq!(pooled.postgres.psql("postgres", locks), "0");
    assert!(migrate(&pooled.postgres.url(&empty)).status.success());
}

#[test]
fn an_application_that_is_lent_the_same_sessions_has_the_settings_of_its_role() {
    const SETTINGS: [(&str, &str); 3] = [
        ("idle_in_transaction_session_timeout", "5min"),
        ("statement_timeout", "50s"),
        ("lock_timeout", "40s"),
    ];
    let pooled = PooledDatabase::new();
    for (name, value) in SETTINGS {
        pooled.postgres.psql(&pooled.database, &format!("ALTER ROLE postgres SET {name} = '{value}'"));
    }
    let server = pooled.middleware();
    let mut ann = login(server.addr(), "ann");
    ask(&mut ann, "QCREATE q");
    for _ in 0..20 {
        ask(&mut ann, "SEND q x");
        for (name, value) in SETTINGS {
            assert_eq!(pooled.execute(&format!("SHOW {name}")), value, "{name}");
        }
    }
    pooled.assert_no_errors_logged();
}

/// PgBouncer 1.18 ends when the sender of a cancel request has gone before the request is passed on.
#[test]
fn a_statement_is_cancelled_without_harm_to_a_pooler_that_is_slow_to_pass_it_on() {
    let mut pooled = PooledDatabase::new();
    let server = pooled.middleware();
    let mut ann = login(server.addr(), "ann");
    ask(&mut ann, "QCREATE q");
    ask(&mut ann, "SEND q x");
    let mut slow = Session::open(&pooled.postgres, &pooled.database, "postgres");
    slow.run("BEGIN; LOCK TABLE posthaste.message_aside");
    ann.send(&["POP", "QUEUE", "q"]).expect("it runs");
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
        WHERE query ~ 'posthaste\\.(apply|pop_alone)' AND wait_event_type = 'Lock'";
    wait_for("the pop waits for the table", || match pooled.postgres.psql("postgres", waits).as_str() {
        "t" => Ok(()),
        _ => Err("it does not".to_owned()),
    });
    // A postmaster that stands still takes no further connections; its sessions go on.
    let postmaster = i32::try_from(pooled.postgres.pid()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(postmaster, Signal::STOP).expect("it runs");
    server.wait_for_log("it is told to stop");
    sleep(Duration::from_millis(500));
    kill_process(postmaster, Signal::CONT).expect("it runs");
    let answer = ann.answer().expect("it runs");
    let Answer::Error(said) = &answer else { panic!("{answer:?}") };
    assert!(said.starts_with("STORE ") && said.contains("nothing was changed"), "{said}");
    slow.run("COMMIT");
    assert!(pooled.pooler.is_running(), "{}", pooled.pooler.log());
    assert_eq!(ask(&mut ann, "POP QUEUE q").body(), Some("x"));
}

/// A server that dies in the midst of it may have done it.
#[test]
fn the_outcome_of_a_request_whose_server_the_pooler_has_lost_is_said_to_be_unknown() {
    let mut pooled = PooledDatabase::new();
    let server = pooled.middleware();
    let mut ann = login(server.addr(), "ann");
    ask(&mut ann, "QCREATE q");
    let mut slow = Session::open(&pooled.postgres, &pooled.database, "postgres");
    slow.run("BEGIN; LOCK TABLE posthaste.message_0, posthaste.message_1, posthaste.message_aside");
    ann.send(&["SEND", "q", "x"]).expect("it runs");
    wait_until("the call waits for the tables", || {
        let waits = "SELECT count(*) FROM pg_stat_activity
            WHERE query ~ 'posthaste\\.(apply|send_alone)' AND wait_event_type = 'Lock'";
        pooled.postgres.psql(&pooled.database, waits) != "0"
    });
    pooled.postgres.kill9();
    let answer = ann.answer().expect("it runs");
    let Answer::Error(text) = &answer else { panic!("{answer:?}") };
    assert!(text.starts_with("STORE ") && text.contains("unknown whether the request was done"), "{text}");
}

#[test]
fn every_message_reaches_exactly_one_of_many() {
    let pooled = PooledDatabase::new();
    let servers = [pooled.middleware(), pooled.middleware()];
    let crew = Crew::start(&servers.each_ref().map(Server::addr), 12);
    crew.sends(300);
    let journal = crew.finish(servers[0].addr());
    assert!(journal.failures.is_empty(), "{:?}", journal.failures);
    pooled.assert_no_errors_logged();
}

#[test]
fn a_waiting_pop_finds_what_was_sent_at_another_middleware_within_a_second() {
    let pooled = PooledDatabase::new();
    let servers = [pooled.middleware(), pooled.middleware()];
    let [here, there] = servers.each_ref().map(Server::addr);
    let mut bob = login(there, "bob");
    ask(&mut bob, "QCREATE q");
    let mut found_after = || {
        // Longer than any client here waits for an answer.
        let pop = thread::spawn(move || ask(&mut login(here, "ann"), "POP QUEUE q BLOCK 600000"));
        wait_until_blocked(here, 1);
        let sent = Instant::now();
        ask(&mut bob, "SEND q x");
        assert_eq!(pop.join().expect("the pop").body(), Some("x"));
        sent.elapsed()
    };
    // A second, and what a machine adds that is busy with other things; where that is much, again.
    assert!((0..10).any(|_| (0..5).all(|_| found_after() < Duration::from_millis(1_500))));
    pooled.assert_no_errors_logged();
}

#[test]
fn a_pop_does_not_give_up_before_it_has_looked_for_what_nobody_told_it() {
    const BLOCK: Duration = Duration::from_millis(500);
    let pooled = PooledDatabase::new();
    let servers = [pooled.middleware(), pooled.middleware()];
    let [mut ann, mut bob] = servers.each_ref().map(|server| login(server.addr(), "someone"));
    ask(&mut bob, "QCREATE q");
    for round in 0..5 {
        let mut sent_in_time = || {
            let asked = Instant::now();
            ann.send(&["POP", "QUEUE", "q", "BLOCK", "500"]).expect("it runs");
            sleep(Duration::from_millis(round * 50));
            assert!(ask(&mut bob, "SEND q x").integer().is_some());
            let in_time = asked.elapsed() < BLOCK;
            let popped = ann.answer().expect("it runs");
            if popped == Answer::Null {
                assert!(!in_time, "round {round}: it was there before the end of the wait");
                ask(&mut bob, "QPURGE q");
            } else {
                assert_eq!(popped.body(), Some("x"), "{round}");
            }
            in_time
        };
        // A busy machine may send too late.
        assert!((0..100).any(|_| sent_in_time()), "round {round}: never sent in time");
    }
    pooled.assert_no_errors_logged();
}

/// A null says that there was nothing.
#[test]
fn a_pop_that_cannot_look_a_last_time_does_not_say_that_there_is_nothing() {
    for is_pooled in [true, false] {
        let mut pooled = PooledDatabase::new();
        let direct = pooled.postgres.url(&pooled.database);
        let server = if is_pooled { pooled.middleware() } else { Server::start(&direct, &[]) };
        let mut ann = login(server.addr(), "ann");
        ask(&mut ann, "QCREATE q");
        ann.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
        wait_until_blocked(server.addr(), 1);
        drop(pooled.pooler);
        if !is_pooled {
            pooled.postgres.kill9();
        }
        server.wait_for_log("requests get STORE until it can be reached");
        server.signal("TERM");
        let answer = ann.answer().expect("it answers before it ends");
        let Answer::Error(text) = &answer else { panic!("pooled: {is_pooled}: {answer:?}") };
        // It may have been looking again when the database went away.
        let says_what_happened =
            text.contains("nothing was changed") || text.contains("it is unknown whether");
        assert!(text.starts_with("STORE ") && says_what_happened, "{text}");
    }
}

#[test]
fn who_waits_for_a_queue_gets_nothing_of_the_next_one_of_that_name_though_nobody_says_that_it_is_gone() {
    const WAITS: [&str; 5] = ["", " LEASE 1000", " FROM ann", " NOTOWN", " REQID key"];
    const STRATEGIES: [&str; 5] =
        ["skip-locked", "delete-retry", "for-update", "repeatable-read", "mark-update"];
    let pooled = PooledDatabase::new();
    let alone = STRATEGIES.map(|strategy| (vec!["--pop-strategy", strategy], &WAITS[..1]));
    pooled.postgres.psql(&pooled.database, "SELECT posthaste.login('ann'), posthaste.create_queue('q')");
    for (arguments, waits) in [(vec![], &WAITS[..1]), (vec![], &WAITS[..])].into_iter().chain(alone) {
        let server = Server::start(&pooled.pooler.url(&pooled.database), &arguments);
        let mut waiters: Vec<Client> = waits.iter().map(|_| login(server.addr(), "bob")).collect();
        for (waiter, options) in waiters.iter_mut().zip(waits) {
            let pop = format!("POP QUEUE q BLOCK 600000{options}");
            waiter.send(&pop.split(' ').collect::<Vec<_>>()).expect("it runs");
        }
        wait_until_blocked(server.addr(), waits.len());
        let again = "SELECT delete_queue('q'); SELECT create_queue('q'); SELECT send('ann', 'q', 'new')";
        pooled.postgres.psql(&pooled.database, &format!("SET search_path = posthaste; {again}"));
        for (waiter, options) in waiters.iter_mut().zip(waits) {
            let answer = waiter.answer().expect("it runs");
            let is_refused = matches!(&answer, Answer::Error(text) if text.starts_with("NOQUEUE"));
            assert!(is_refused, "{arguments:?}{options}: {answer:?}");
        }
        assert_eq!(ask(&mut waiters[0], "POP QUEUE q").body(), Some("new"));
    }
    pooled.assert_no_errors_logged();
}
