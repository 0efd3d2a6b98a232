//! Two middlewares over one database: what happens at one wakes whoever waits at the other.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/news.rs"]
mod news;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use news::{is_told, wait_until_blocked};
use session::Session;
use support::Server;
use support::patience::wait_until;

/// Longer than any client here waits for an answer: a pop that nobody wakes fails its test.
const BLOCK: &str = "POP QUEUE q BLOCK 600000";

/// How many pops wait together.
const POPS: usize = 5;

struct Two {
    database: String,
    here: Server,
    there: Server,
}

impl Two {
    fn new() -> Self {
        let postgres = postgres::shared();
        let database = postgres.create_database();
        let url = postgres.url(&database);
        Self { database, here: Server::start(&url, &[]), there: Server::start(&url, &[]) }
    }

    fn bob(&self) -> Client {
        let mut bob = Client::login(self.there.addr(), "bob").expect("it runs");
        ask(&mut bob, "QCREATE q");
        bob
    }

    /// Pops at the one, waiting when this returns; with each answer comes the time at which it came.
    fn waiting_pops(&self, pops: usize) -> Vec<JoinHandle<(Answer, Instant)>> {
        let here = self.here.addr();
        let pop = move || (ask(&mut Client::login(here, "ann").expect("it runs"), BLOCK), Instant::now());
        let pops: Vec<_> = (0..pops).map(|_| thread::spawn(pop)).collect();
        wait_until_blocked(here, pops.len());
        pops
    }
}

fn ask(client: &mut Client, request: &str) -> Answer {
    let words: Vec<&str> = request.split(' ').collect();
    client.ask(&words).expect("it runs")
}

/// Each pop got a message, the last of them this long after `since`; before it they waited.
fn woken(pops: Vec<JoinHandle<(Answer, Instant)>>, since: Instant) -> Duration {
    let late = pops.into_iter().map(|pop| {
        let (answer, at) = pop.join().expect("the pop");
        assert_eq!(answer.body(), Some("x"), "{answer:?}");
        at.checked_duration_since(since).expect("not before")
    });
    late.max().expect("there are pops")
}

#[test]
fn a_send_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        let pop = two.waiting_pops(1);
        let sent = Instant::now();
        ask(&mut bob, "SEND q x");
        woken(pop, sent)
    };
    assert!(is_told(after));
}

#[test]
fn a_message_given_back_there_wakes_a_pop_here() {
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        ask(&mut bob, "SEND q x");
        let leased = ask(&mut bob, "POP QUEUE q LEASE 600000");
        let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
        let pop = two.waiting_pops(1);
        let given_back = Instant::now();
        assert_eq!(ask(&mut bob, &format!("NACK {receipt}")).integer(), Some(1));
        woken(pop, given_back)
    };
    assert!(is_told(after));
}

#[test]
fn the_end_of_a_lease_there_wakes_a_pop_here() {
    const LEASE: Duration = Duration::from_millis(300);
    let two = Two::new();
    let mut bob = two.bob();
    let after = || {
        ask(&mut bob, "SEND q x");
        let asked = Instant::now();
        assert_eq!(ask(&mut bob, "POP QUEUE q LEASE 300").body(), Some("x"));
        let answered = Instant::now();
        let here = two.here.addr();
        let mut ann = Client::login(here, "ann").expect("it runs");
        assert_eq!(ask(&mut ann, BLOCK).body(), Some("x"));
        assert!(asked.elapsed() >= LEASE, "the lease had not ended");
        answered.elapsed().saturating_sub(LEASE)
    };
    assert!(is_told(after));
}

#[test]
fn messages_sent_together_wake_as_many_pops() {
    let two = Two::new();
    let mut bob = two.bob();
    let mut ben = Client::login(two.here.addr(), "ben").expect("it runs");
    let bodies = " x".repeat(POPS);
    for sender in [&mut ben, &mut bob] {
        let after = || {
            let pops = two.waiting_pops(POPS);
            let sent = Instant::now();
            ask(sender, &format!("SENDMANY q{bodies}"));
            woken(pops, sent)
        };
        assert!(is_told(after));
    }
}

#[test]
fn a_pop_waits_no_longer_than_it_said() {
    let two = Two::new();
    let mut bob = two.bob();
    let mut wait = || {
        let start = Instant::now();
        // Longer than it takes until all look for themselves: the wait must not begin anew with that.
        assert_eq!(ask(&mut bob, "POP QUEUE q BLOCK 2500"), Answer::Null);
        let time = start.elapsed();
        assert!(time >= Duration::from_millis(2_450), "{time:?}");
        time
    };
    // Again where the machine was busy with other things; less than one more second, so that none began anew.
    assert!((0..10).any(|_| wait() < Duration::from_millis(3_400)));
}

/// A client that repeats a pop at another middleware, because the first one is slow, need not know that it is.
#[test]
fn a_pop_of_all_queues_that_is_repeated_there_while_it_is_done_here_gets_the_same() {
    let two = Two::new();
    let mut bob = two.bob();
    let [mut here, mut there] =
        [&two.here, &two.there].map(|server| Client::login(server.addr(), "ann").expect("it runs"));
    let mut slow = Session::open(postgres::shared(), &two.database, "postgres");
    let waits =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'posthaste.remembered_pop'::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    // On a busy machine a moment may be longer than it is waited for.
    let gets_the_same = (0..10).any(|number| {
        ask(&mut bob, "SEND q x");
        slow.run("BEGIN; LOCK TABLE posthaste.remembered_pop IN SHARE MODE");
        let key = number.to_string();
        let words = ["POP", "FROM", "bob", "REQID", &key];
        here.send(&words).expect("it is connected");
        wait_until("it waits for the lock", || postgres::shared().psql(&two.database, waits) != "0");
        there.send(&words).expect("it is connected");
        sleep(Duration::from_millis(100));
        slow.run("COMMIT");
        let [first, second] = [&mut here, &mut there].map(|client| client.answer().expect("an answer"));
        assert_eq!(first.body(), Some("x"));
        assert!(second == first || second.is_error("BUSY"), "{second:?}");
        second == first
    });
    assert!(gets_the_same);
}

/// A figure of the keeper at `here`.
fn figure(two: &Two, name: &str) -> u64 {
    let info = ask(&mut Client::connect(two.here.addr()).expect("it runs"), "INFO");
    let line =
        info.text().and_then(|text| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {info:?}"))
}

/// A client that asks for the same all the time, whatever becomes of it.
fn asks_on(two: &Two, request: &'static str, over: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (here, over) = (two.here.addr(), Arc::clone(over));
    thread::spawn(move || {
        let mut client = Client::login(here, "ann").expect("it runs");
        while !over.load(Ordering::SeqCst) {
            ask(&mut client, request);
        }
    })
}

/// The keeper has something to tell all the time, so it is in the midst of its work that it finds its connection gone.
#[test]
fn news_is_heard_again_after_a_lost_connection() {
    let two = Two::new();
    let mut bob = two.bob();
    ask(&mut bob, "QCREATE busy");
    let over = Arc::new(AtomicBool::new(false));
    let clients = [asks_on(&two, "POP QUEUE q BLOCK 1000", &over), asks_on(&two, "SEND busy x", &over)];
    let postgres = postgres::shared();
    for _ in 0..8 {
        let ended = postgres.psql(
            "postgres",
            &format!(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                 WHERE application_name = 'posthaste' AND datname = '{}'",
                two.database
            ),
        );
        assert_ne!(ended, "0", "nobody was connected");
        let (ticks, before) = (figure(&two, "keeper_ticks"), figure(&two, "keeper_news_heard"));
        wait_until("the keeper goes on", || figure(&two, "keeper_ticks") > ticks + 2);
        // What was told before the end may have been heard since.
        let before = before.max(figure(&two, "keeper_news_heard"));
        wait_until("news is heard", || {
            ask(&mut bob, "SEND q x");
            figure(&two, "keeper_news_heard") > before
        });
    }
    over.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("a client"));
}

/// Makes `tell_news` begin with these statements, and waits until a pop that waits here is to be told of news.
fn telling_begins_with(two: &Two, statements: &str) {
    let sql = |text: &str| postgres::shared().psql(&two.database, text);
    sql(&format!(
        "CREATE SEQUENCE tells;
         ALTER FUNCTION posthaste.tell_news RENAME TO tell_truly;
         CREATE FUNCTION posthaste.tell_news(teller bigint, news text) RETURNS boolean LANGUAGE plpgsql AS $$
         BEGIN {statements} RETURN posthaste.tell_truly(teller, news); END $$"
    ));
    let watched = "SELECT count(*) FROM posthaste.watch WHERE until_ms > posthaste.now_ms()";
    wait_until("the others know that a pop waits", || sql(watched) == "1");
}

#[test]
fn news_that_could_not_be_told_is_told_afterwards() {
    let two = Two::new();
    let mut bob = two.bob();
    let pop = two.waiting_pops(1);
    telling_begins_with(&two, "IF nextval('public.tells') < 4 THEN RAISE 'not now'; END IF;");
    let before = figure(&two, "keeper_news_heard");
    let sent = Instant::now();
    ask(&mut bob, "SEND q x");
    wait_until("news is heard", || figure(&two, "keeper_news_heard") > before);
    woken(pop, sent);
}

/// Too many to look by turns before their time is over.
#[test]
fn who_waits_among_many_looks_once_more_before_null() {
    const MANY: usize = 1000;
    const IN_TIME: Duration = Duration::from_millis(1500);
    let two = Two::new();
    let mut bob = two.bob();
    let pop = two.waiting_pops(1);
    telling_begins_with(&two, "RETURN true;");
    let mut clients: Vec<_> =
        (0..MANY).map(|_| Client::login(two.here.addr(), "ann").expect("it runs")).collect();
    let mut of_all = |verb: &str, body: &[&str]| {
        let queues = (0..MANY).map(|own| format!("own-{own}"));
        queues.for_each(|queue| bob.send(&[&[verb, &queue], body].concat()).expect("it runs"));
        (0..MANY).for_each(|_| assert!(bob.answer().expect("it runs").integer().is_some()));
    };
    of_all("QCREATE", &[]);
    // On a busy machine some may have waited to the end before there is anything to be found.
    let found = (0..10).find_map(|_| {
        of_all("QPURGE", &[]);
        let begun = Instant::now();
        for (own, client) in clients.iter_mut().enumerate() {
            client.send(&["POP", "QUEUE", &format!("own-{own}"), "BLOCK", "2500"]).expect("it runs");
        }
        of_all("SEND", &["x"]);
        let is_in_time = begun.elapsed() < IN_TIME;
        let answers = clients.iter_mut().map(|client| client.answer().expect("it runs"));
        let found = answers.filter(|answer| answer.body() == Some("x")).count();
        is_in_time.then_some(found)
    });
    assert_eq!(found, Some(MANY));
    ask(&mut bob, "SEND q x");
    pop.into_iter().for_each(|pop| drop(pop.join().expect("the pop")));
}

/// It sends nothing.
#[test]
fn a_send_that_repeats_another_one_is_no_news() {
    let two = Two::new();
    drop(two.bob());
    let mut ann = Client::login(two.here.addr(), "ann").expect("it runs");
    let goes_on = |two: &Two| {
        let ticks = figure(two, "keeper_ticks");
        wait_until("the keeper goes on", || figure(two, "keeper_ticks") > ticks + 2);
    };
    let told = figure(&two, "keeper_news_told");
    ask(&mut ann, "SEND q x DEDUP key");
    wait_until("news is told", || figure(&two, "keeper_news_told") > told);
    goes_on(&two);
    let told = figure(&two, "keeper_news_told");
    for _ in 0..5 {
        ask(&mut ann, "SEND q x DEDUP key");
        goes_on(&two);
    }
    assert_eq!(figure(&two, "keeper_news_told"), told);
}

/// With a snapshot of its own a call would not see what was committed while it waited for a lock.
#[test]
fn a_database_whose_transactions_have_another_isolation_level_is_used_all_the_same() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    let other = format!("ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'");
    postgres.psql("postgres", &other);
    let server = Server::start(&postgres.url(&database), &[]);
    let mut bob = Client::login(server.addr(), "bob").expect("it runs");
    ask(&mut bob, "QCREATE q");
    let pops: Vec<_> = (0..POPS)
        .map(|_| {
            let addr = server.addr();
            thread::spawn(move || ask(&mut Client::login(addr, "ann").expect("it runs"), BLOCK))
        })
        .collect();
    wait_until_blocked(server.addr(), POPS);
    for _ in 0..POPS {
        ask(&mut bob, "SEND q x");
    }
    assert!(pops.into_iter().all(|pop| pop.join().expect("no panic").body() == Some("x")));
    assert_eq!(ask(&mut bob, "POP QUEUE q"), Answer::Null);
    let refused =
        postgres.try_psql(&database, "SELECT posthaste.pop_alone(null, 1, 'q', null, null, null, 0, 0)");
    let why = refused.expect_err("this session has the database's setting");
    assert!(why.contains("must be read committed: ALTER ROLE postgres SET"), "{why}");
    for call in ["upkeep(null, 0, 1000)", "turn_ring(1, 1, 2000, null, null)", "sweep('q', 0, 0, 0, 0, 20)"] {
        let refused = postgres.try_psql(&database, &format!("SELECT posthaste.{call}"));
        assert!(refused.is_err_and(|why| why.contains("read committed")), "{call}");
        // PostgreSQL executes this level as READ COMMITTED.
        let call = format!("BEGIN ISOLATION LEVEL READ UNCOMMITTED; SELECT posthaste.{call}; ROLLBACK");
        assert!(postgres.try_psql(&database, &call).is_ok(), "{call}");
    }
}

/// What waits for longer is waited for all the same; and what somebody ends is tried in parts.
#[test]
fn a_database_that_ends_statements_early_is_used_all_the_same() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    postgres.psql("postgres", &format!("ALTER DATABASE {database} SET statement_timeout = '300ms'"));
    let server = Server::start(&postgres.url(&database), &[]);
    let mut bob = Client::login(server.addr(), "bob").expect("it runs");
    for queue in ["q", "other"] {
        ask(&mut bob, &format!("QCREATE {queue}"));
    }
    let mut app = Session::open(postgres, &database, "postgres");
    // Its own statements may take as long as a busy machine needs.
    app.run("SET statement_timeout = 0");
    app.run("BEGIN; SELECT FROM posthaste.queue WHERE name = 'q' FOR UPDATE");
    bob.send(&["SEND", "q", "x"]).expect("sent");
    sleep(Duration::from_millis(700));
    app.run("COMMIT");
    assert!(bob.answer().expect("an answer").integer().is_some(), "{}", server.log());

    app.run("BEGIN; SELECT FROM posthaste.queue WHERE name = 'q' FOR UPDATE");
    // In one go, so that they stand in one batch.
    bob.write(b"*3\r\n$4\r\nSEND\r\n$5\r\nother\r\n$1\r\ny\r\n*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n$1\r\ny\r\n")
        .expect("sent");
    let end = format!(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE wait_event = 'transactionid' AND datname = '{database}'"
    );
    wait_until("somebody ends it", || postgres.psql("postgres", &end) == "t");
    assert!(bob.answer().expect("an answer").integer().is_some(), "{}", server.log());
    app.run("COMMIT");
    assert!(bob.answer().expect("an answer").integer().is_some(), "{}", server.log());
    assert!(
        server.log().contains("PostgreSQL has ended what was asked: canceling statement"),
        "{}",
        server.log()
    );
}

/// Waits and transactions have limits for others, and a batch waits all the same.
#[test]
fn a_database_that_ends_waits_early_is_used_all_the_same() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    postgres.psql("postgres", "CREATE ROLE patient SUPERUSER LOGIN");
    for name in ["lock_timeout", "transaction_timeout"] {
        let is_known = format!("SELECT count(*) FROM pg_settings WHERE name = '{name}'");
        if postgres.psql("postgres", &is_known) == "1" {
            postgres.psql("postgres", &format!("ALTER DATABASE {database} SET {name} = '50ms'"));
            postgres.psql("postgres", &format!("ALTER ROLE patient SET {name} = 0"));
        }
    }
    let server = Server::start(&postgres.url(&database), &[]);
    let mut bob = Client::login(server.addr(), "bob").expect("it runs");
    ask(&mut bob, "QCREATE q");
    let mut patient = Session::open(postgres, &database, "patient");
    patient.run("BEGIN; SELECT pg_advisory_xact_lock(hashtext('posthaste.append'), 0)");
    bob.send(&["SEND", "q", "x"]).expect("sent");
    sleep(Duration::from_millis(500));
    patient.run("COMMIT");
    assert!(bob.answer().expect("an answer").integer().is_some(), "{}", server.log());
    assert_eq!(ask(&mut bob, "POP QUEUE q").body(), Some("x"));
    assert!(!server.log().contains("is tried in parts"), "{}", server.log());
}

/// Which keeps rows from being deleted that nothing identifies.
#[test]
fn a_publication_of_all_tables_keeps_nobody_from_working() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    postgres.psql(&database, "CREATE PUBLICATION everything FOR ALL TABLES");
    let unidentified = "SELECT string_agg(c.relname, ' ') FROM pg_publication_tables p
        JOIN pg_class c ON c.oid = format('%I.%I', p.schemaname, p.tablename)::regclass
        WHERE c.relreplident = 'n' OR c.relreplident = 'd'
            AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)";
    assert_eq!(postgres.psql(&database, unidentified), "");
    let server = Server::start(&postgres.url(&database), &[]);
    let mut bob = Client::login(server.addr(), "bob").expect("it runs");
    ask(&mut bob, "QCREATE q MAXMSGS 300");
    let many: Vec<_> = ["SENDMANY", "q"].into_iter().chain(std::iter::repeat_n("x", 250)).collect();
    assert_eq!(bob.ask(&many).expect("it runs").list().len(), 250);
    postgres.psql(&database, "SELECT posthaste.send('new', 'q', 'x', 'newer')");
    ask(&mut bob, "SEND q x");
    assert_eq!(ask(&mut bob, "POP QUEUE q").body(), Some("x"));
    let leased = ask(&mut bob, "POP QUEUE q LEASE 60000");
    let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
    assert_eq!(ask(&mut bob, &format!("NACK {receipt}")), Answer::Integer(1));
    assert_eq!(ask(&mut bob, "QDELETE q"), Answer::Integer(251));
    postgres
        .psql(&database, "SELECT posthaste.turn_ring(0, 1000, 2000, null, null) FROM generate_series(1, 4)");
    assert_eq!(postgres.psql(&database, "SELECT since_ms > 0 FROM posthaste.ring"), "t");
}

/// A keeper asks for so much at a time, so that no round takes long.
#[test]
fn keys_whose_time_is_over_are_forgotten_a_part_at_a_time() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    let sql = |sql: &str| postgres.psql(&database, sql);
    sql(
        "INSERT INTO posthaste.remembered_send SELECT 1, 1, n::text::bytea, n, 1 FROM generate_series(1, 25) AS n",
    );
    sql(
        "INSERT INTO posthaste.remembered_pop SELECT 1, 1, n::text::bytea, n, '{}', '{}', false FROM generate_series(1, 15) AS n",
    );
    for (done, left) in [(0, "15|5"), (0, "5|0"), (1000, "0|0")] {
        assert_eq!(sql("SELECT number, due_ms FROM posthaste.upkeep(1000, 0, 10)"), format!("{done}|1000"));
        let counted = "SELECT (SELECT count(*) FROM posthaste.remembered_send), (SELECT count(*) FROM posthaste.remembered_pop)";
        assert_eq!(sql(counted), left);
    }
}

/// A middleware remembers numbers of accounts, and a standby that took over may hold an earlier state.
#[test]
fn what_is_for_an_account_that_is_not_there_is_not_given_to_anyone() {
    let postgres = postgres::shared();
    let database = postgres.create_database();
    postgres.psql(&database, "SELECT posthaste.login('ann'), posthaste.create_queue('q')");
    postgres.psql(&database, "UPDATE posthaste.queue SET forbid_self = true");
    let step = |recipient: &str| {
        format!(
            "send_step_guarded(1, 0::smallint, '{{1}}', '{{0}}', '{{1}}', '{{1}}', '{{{recipient}}}', '{{0}}', '{{null}}', '{{0}}', '{{null}}', '{{x}}')"
        )
    };
    for call in
        ["send_alone(null, 1, 'q', 4711, 'x')", "send_unbatched(null, 0, 1, 'q', 4711, 'x')", &step("4711")]
    {
        // As the functions call each other.
        let refused = postgres.try_psql(&database, &format!("SET search_path = posthaste; SELECT {call}"));
        assert!(refused.is_err_and(|why| why.contains("no account has the number 4711")), "{call}");
    }
    assert_eq!(postgres.psql(&database, "SELECT count(*) FROM posthaste.message"), "0");
    postgres.psql(&database, &format!("SET search_path = posthaste; SELECT {}", step("0")));
    assert_eq!(postgres.psql(&database, "SELECT count(*) FROM posthaste.message"), "1", "0 is anyone");
}

/// As where a database was copied without its sequences while a middleware was connected: ids are given again.
#[test]
fn two_messages_in_one_place_are_not_two_replies_to_one_request() {
    let two = Two::new();
    let mut bob = two.bob();
    postgres::shared().psql(
        &two.database,
        "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
            SELECT posthaste.current_part(), 1, posthaste.place_of(0, 1), 1, 1, 0, posthaste.now_ms(), 'x'
            FROM generate_series(1, 2); SELECT setval('posthaste.message_id', 1)",
    );
    bob.write(b"POP QUEUE q\r\nPOP QUEUE q\r\nQCREATE other\r\n").expect("it runs");
    let answers: Vec<Answer> = (0..3).map(|_| bob.answer().expect("an answer")).collect();
    assert_eq!(answers[..2].iter().filter(|answer| answer.body().is_some()).count(), 1, "{answers:?}");
    assert!(answers[2].integer().is_some(), "{answers:?}");
    wait_until("it is logged", || two.there.log().contains("gave the messages [1, 1] to a request for one"));
}
