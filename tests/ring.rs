//! The ring turns under load, while a transaction elsewhere is held open that keeps every dead row from being removed:
//! no message is lost, doubled or out of order, and the tables stay small.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::collections::VecDeque;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use client::{Answer, Client};
use postgres::Postgres;
use session::Session;
use support::Server;
use support::ends::Ends;
use support::patience::wait_until;

/// Turns that each load must bring about for the test to mean anything, and in how many goes: on a slow machine little
/// passes through the ring in one.
const TURNS: i64 = 3;
const GOES: usize = 30;
/// Of the ring with its indexes; what passes through it is several times as much.
const BYTES_MAX: i64 = 64 << 20;

/// A load over both middlewares that checks every answer; large bodies fill the ring soon.
fn load(servers: &[Server], workload: &[&str]) {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    bench.args(["bench", "queue", "--check", "--duration", "5s", "--warmup", "0s", "--cooldown", "0s"]);
    bench.args(["--clients", "32", "--message-bytes", "1900"]).args(workload);
    for server in servers {
        bench.args(["--connect", &server.addr().to_string()]);
    }
    let output = bench.output().expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{workload:?}: {}", String::from_utf8_lossy(&said));
}

/// Load until the ring has turned often enough.
fn turn(server: &Postgres, database: &str, servers: &[Server; 2], workload: &[&str]) {
    let turns = || number(server, database, "SELECT last_value FROM posthaste.ring_turn");
    let before = turns();
    for _ in 0..GOES {
        load(servers, workload);
        if turns() - before >= TURNS {
            return;
        }
    }
    panic!("{workload:?}: only {} turns", turns() - before);
}

fn number(server: &Postgres, database: &str, sql: &str) -> i64 {
    server.psql(database, sql).parse().expect("a number")
}

#[test]
fn the_ring_turns_under_load_although_a_transaction_is_held_open() {
    let server = Postgres::start(&["fsync=off"]);
    let database = server.create_database();
    let servers = [(); 2].map(|()| Server::start(&server.url(&database), &[]));
    let mut elsewhere = Session::open(&server, &database, "postgres");
    elsewhere.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    for workload in [
        &["--workload", "pairs", "--preload", "500"][..],
        &["--workload", "twelve-step"],
        &["--workload", "mix:send=0.45,pop=0.45,peek=0.1"],
    ] {
        turn(&server, &database, &servers, workload);
        let bytes = "SELECT pg_total_relation_size('posthaste.message_0') + pg_total_relation_size('posthaste.message_1')";
        let bytes = number(&server, &database, bytes);
        assert!(bytes < BYTES_MAX, "{workload:?}: {bytes} bytes in the ring");
        assert_eq!(number(&server, &database, "SELECT count(*) FROM posthaste.message"), 0, "{workload:?}");
    }
    assert!(
        elsewhere.run("SELECT count(*) FROM pg_class").parse::<i64>().is_ok(),
        "it was open all the time"
    );
    for server in servers {
        assert!(!server.log().contains("WARN"), "{}", server.log());
    }
}

/// Messages that nobody reads, and how many are read at once in the end: an answer has its limit.
const UNREAD: usize = 5000;
const AT_ONCE: &str = "500";

/// They would keep their part of the ring from being emptied, with every message that came after them.
#[test]
fn what_nobody_reads_is_set_aside_and_not_forgotten() {
    let server = Postgres::start(&["fsync=off"]);
    let database = server.create_database();
    let servers = [(); 2].map(|()| Server::start(&server.url(&database), &[]));
    let mut client = Client::login(servers[0].addr(), "reader").expect("a login");
    client.ask(&["QCREATE", "unread"]).expect("it runs");
    for first in (0..UNREAD).step_by(500) {
        let bodies: Vec<String> = (first..first + 500).map(|number| format!("{number:0900}")).collect();
        let words = ["SENDMANY", "unread"].into_iter().chain(bodies.iter().map(String::as_str));
        let sent = client.ask(&words.collect::<Vec<_>>()).expect("it runs");
        assert!(matches!(sent, Answer::List(_)), "{sent:?}");
    }
    turn(&server, &database, &servers, &["--workload", "pairs"]);
    assert_eq!(number(&server, &database, "SELECT count(*) FROM posthaste.message_aside"), UNREAD as i64);
    let mut read = Vec::new();
    while let Answer::List(messages) =
        client.ask(&["POP", "QUEUE", "unread", "COUNT", AT_ONCE]).expect("it runs")
        && !messages.is_empty()
    {
        read.extend(
            messages
                .iter()
                .map(|message| message.body().expect("a body").parse::<usize>().expect("a number")),
        );
    }
    assert!(read.into_iter().eq(0..UNREAD), "all of them, in their order");
}

/// A ring that cannot turn, because somebody has locked it as a dump does, and that is full of what is gone.
struct Stuck {
    server: Postgres,
    database: String,
    middleware: Server,
    client: Client,
    dump: Session,
}

impl Stuck {
    fn new() -> Self {
        let server = Postgres::start(&["fsync=off", "autovacuum=off", "track_functions=all"]);
        let database = server.create_database();
        let middleware = Server::start(&server.url(&database), &[]);
        let mut client = Client::login(middleware.addr(), "reader").expect("a login");
        for queue in ["passing", "old", "new", "mine", "empty"] {
            client.ask(&["QCREATE", queue]).expect("it runs");
        }
        let mut dump = Session::open(&server, &database, "postgres");
        dump.run("BEGIN; LOCK TABLE posthaste.message_0, posthaste.message_1 IN ACCESS SHARE MODE");
        server.psql(&database, PASSED);
        Self { server, database, middleware, client, dump }
    }

    fn sql(&self, sql: &str) -> String {
        self.server.psql(&self.database, sql)
    }

    fn calls(&self, function: &str) -> i64 {
        let sql = format!(
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = '{function}'"
        );
        self.sql(&sql).parse().expect("a number")
    }

    /// The same for certain: a session tells its figures when it does something a second after it told them last.
    fn told_calls(&mut self, function: &str) -> i64 {
        sleep(Duration::from_millis(1500));
        self.pass();
        self.calls(function)
    }

    fn ask(&mut self, words: &[&str]) -> Answer {
        self.client.ask(words).expect("it runs")
    }

    fn readable(&mut self) -> Vec<String> {
        let names = self.ask(&["QREADABLE"]).list();
        names.iter().map(|name| name.text().expect("a name").to_owned()).collect()
    }

    /// A figure that INFO tells.
    fn figure(&mut self, name: &str) -> u64 {
        let info = self.ask(&["INFO"]);
        let line = info
            .text()
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {info:?}"))
    }

    /// Sends and takes so many that a middleware asks what is left.
    fn pass(&mut self) {
        let words = ["SENDMANY", "passing"].into_iter().chain(std::iter::repeat_n("x", 500));
        let words: Vec<_> = words.collect();
        for _ in 0..4 {
            self.ask(&words);
            self.ask(&["POP", "QUEUE", "passing", "COUNT", "500"]);
        }
    }
}

/// More than a ring has that is read from end to end.
const PASSED: &str = "
    INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
    SELECT posthaste.current_part(), id, posthaste.place_of(0, id), 1, 1, 0, 1, repeat('x', 700)::bytea
        FROM (SELECT nextval('posthaste.message_id') AS id FROM generate_series(1, 160000)) AS n;
    DELETE FROM posthaste.message WHERE ring IN (0, 1)";

/// What is left below no place, from where on it is looked for, and what is.
const LOWEST: &str =
    "SELECT lowest = (SELECT min(place) FROM posthaste.message WHERE ring IN (0, 1)) AND is_long
    FROM posthaste.lowest_place(posthaste.newest_id(), 0, 20000)";

#[test]
fn a_ring_that_cannot_turn_is_read_from_its_oldest_message_on() {
    let mut stuck = Stuck::new();
    stuck.ask(&["SEND", "old", "x"]);
    assert_eq!(stuck.sql(LOWEST), "t", "one message, behind many that are gone");
    stuck.ask(&["SEND", "mine", "x", "TO", "reader"]);
    stuck.ask(&["SEND", "new", "x", "TO", "another"]);
    stuck.ask(&["SEND", "new", "x"]);
    wait_until("the short way is taken", || {
        stuck.pass();
        assert_eq!(stuck.readable(), ["old", "new", "mine"], "by the order in which they were made");
        stuck.calls("queues_since") > 0 && stuck.calls("take_census") > 0
    });
    assert_eq!(stuck.sql(LOWEST), "t", "still the oldest one");
    for (queue, left) in [("old", &["new", "mine"][..]), ("mine", &["new"]), ("new", &[])] {
        assert_eq!(stuck.ask(&["POP", "QUEUE", queue]).body(), Some("x"));
        assert_eq!(stuck.readable(), left);
    }
    assert_eq!(stuck.sql("SELECT count(*) FROM posthaste.message"), "1", "that of another");
    assert_eq!(stuck.sql(LOWEST), "t", "it counts like any");
    assert!(!stuck.middleware.log().contains("WARN"), "{}", stuck.middleware.log());
}

#[test]
fn how_long_a_transaction_keeps_the_ring_and_dead_rows_is_told() {
    let mut stuck = Stuck::new();
    stuck.dump.run("SELECT pg_current_xact_id()");
    let figures = ["keeper_ring_locked_ms", "oldest_transaction_ms"];
    wait_until("both wait", || figures.iter().all(|name| stuck.figure(name) > 0));
    stuck.dump.run("COMMIT");
    wait_until("neither waits", || figures.iter().all(|name| stuck.figure(name) == 0));
}

/// More than is counted at once, of one queue and in the end of another.
const STOCK: &str = "
    INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
    SELECT posthaste.current_part(), id, posthaste.place_of(0, id), (SELECT id FROM posthaste.queue WHERE name = q), 1, 0, 1, 'x'
        FROM (SELECT nextval('posthaste.message_id') AS id, CASE WHEN n <= 60000 THEN 'old' ELSE 'new' END AS q
            FROM generate_series(1, 60005) AS n ORDER BY n) AS stock";

#[test]
fn a_large_stock_in_a_ring_that_cannot_turn_is_counted_piece_by_piece() {
    let mut stuck = Stuck::new();
    stuck.sql(STOCK);
    wait_until("it is counted", || {
        stuck.pass();
        assert_eq!(stuck.readable(), ["old", "new"]);
        stuck.calls("take_census") >= 5 && stuck.calls("first_places") >= 5
    });
    for left in (0..5).rev() {
        assert_eq!(stuck.ask(&["POP", "QUEUE", "new"]).body(), Some("x"));
        let expected = if left > 0 { &["old", "new"][..] } else { &["old"] };
        assert_eq!(stuck.readable(), expected);
    }
    assert_eq!(stuck.ask(&["QPURGE", "old"]).integer(), Some(60_000));
    assert!(stuck.readable().is_empty());
    for _ in 0..3 {
        stuck.pass();
        assert!(stuck.readable().is_empty());
    }
    assert!(!stuck.middleware.log().contains("WARN"), "{}", stuck.middleware.log());
}

/// Whoever brings no floor along, because it has just connected, or looks by the rules, or is an SQL client, walks what
/// is left and not what is gone.
#[test]
fn a_ring_that_cannot_turn_is_walked_by_nobody() {
    const WALKED_MAX: i64 = 20_000;
    let mut stuck = Stuck::new();
    wait_until("a floor is written down", || {
        stuck.pass();
        stuck.sql("SELECT count(*) FROM posthaste.ring_floor") != "0"
    });
    let newcomer = Server::start(&stuck.server.url(&stuck.database), &[]);
    let walked =
        "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('message_0', 'message_1')";
    let told = |stuck: &mut Stuck| {
        stuck.told_calls("apply");
        stuck.sql(walked).parse::<i64>().expect("a number")
    };
    let before = told(&mut stuck);
    // A pass of its own reads some thousands.
    let passing = told(&mut stuck) - before;
    let before = told(&mut stuck);
    let mut new = Client::login(newcomer.addr(), "reader").expect("a login");
    for words in [
        &["PEEK", "QUEUE", "passing"][..],
        &["POP", "QUEUE", "passing"],
        &["POP", "QUEUE", "passing", "REQID", "k"],
        &["POP", "QUEUE", "passing", "NOTOWN"],
        &["POP", "FROM", "reader"],
        &["PEEK", "QUEUE", "passing", "COUNT", "100"],
    ] {
        assert!(matches!(new.ask(words).expect("it runs"), Answer::Null | Answer::List(_)), "{words:?}");
    }
    assert_eq!(new.ask(&["QINFO", "passing"]).expect("it runs").get("messages"), Some(&Answer::Integer(0)));
    assert!(matches!(new.ask(&["QLIST"]).expect("it runs"), Answer::List(_)));
    assert_eq!(stuck.sql("SELECT count(*) FROM posthaste.pop('reader', 'passing')"), "0");
    assert_eq!(stuck.sql("SELECT count(*) FROM posthaste.readable('reader')"), "0");
    assert_eq!(new.ask(&["QDELETE", "passing"]).expect("it runs").integer(), Some(0));
    new.ask(&["QCREATE", "passing"]).expect("it runs");
    let read = told(&mut stuck) - before;
    assert!(read - passing < WALKED_MAX, "{read} entries were read, {passing} by one pass alone");
}

/// A vacuum keeps the index by place from being summarized, so all that came since it began would be read for every
/// question.
#[test]
fn a_ring_that_cannot_turn_is_not_read_by_place_while_it_is_vacuumed() {
    let mut stuck = Stuck::new();
    stuck.ask(&["SEND", "old", "x"]);
    wait_until("the short way is taken", || {
        stuck.pass();
        assert_eq!(stuck.readable(), ["old"]);
        stuck.calls("queues_since") > 0
    });
    let mut vacuum = Session::open(&stuck.server, &stuck.database, "postgres");
    vacuum.run("BEGIN; LOCK TABLE posthaste.message_0, posthaste.message_1 IN SHARE UPDATE EXCLUSIVE MODE");
    wait_until("the short way is taken no more", || {
        let before = stuck.told_calls("queues_since");
        for _ in 0..5 {
            assert_eq!(stuck.readable(), ["old"]);
        }
        stuck.told_calls("queues_since") == before
    });
    vacuum.run("ROLLBACK");
    let before = stuck.told_calls("queues_since");
    wait_until("the short way is taken again", || {
        stuck.pass();
        assert_eq!(stuck.readable(), ["old"]);
        stuck.calls("queues_since") > before
    });
    assert!(!stuck.middleware.log().contains("WARN"), "{}", stuck.middleware.log());
}

/// Queues of the one who looks, and how often something is done with them.
const OWN: usize = 12;
const DEEDS: usize = 3000;

/// What a middleware knows of a ring that cannot turn is a moment old, and nobody may see that.
#[test]
fn a_ring_that_cannot_turn_is_read_right_while_others_fill_it() {
    let mut stuck = Stuck::new();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let servers = [Server::start(&stuck.server.url(&stuck.database), &[])];
    let over = AtomicBool::new(false);
    let names: Vec<String> = (0..OWN).map(|number| format!("own-{number:02}")).collect();
    for name in &names {
        stuck.ask(&["QCREATE", name]);
    }
    let mut waiting = vec![VecDeque::new(); OWN];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                load(&servers, &["--workload", "twelve-step"]);
            }
        });
        let _ends = Ends(&over);
        for deed in 0..DEEDS {
            let (at, body) = (random.usize(..OWN), deed.to_string());
            let name = &names[at];
            match random.u8(..4) {
                0 if random.bool() => drop(stuck.ask(&["SEND", name, &body])),
                0 => drop(stuck.ask(&["SEND", name, &body, "TO", "reader"])),
                1 => {
                    let popped = stuck.ask(&["POP", "QUEUE", name]);
                    let expected: Option<String> = waiting[at].pop_front();
                    assert_eq!(popped.body(), expected.as_deref(), "seed {seed}, deed {deed}");
                    continue;
                }
                2 => {
                    let popped = stuck.ask(&["POP", "FROM", "reader"]);
                    let oldest = (0..OWN)
                        .filter(|&queue| !waiting[queue].is_empty())
                        .min_by_key(|&queue| waiting[queue][0].parse::<usize>().expect("a number"));
                    let expected = oldest.and_then(|queue| waiting[queue].pop_front());
                    assert_eq!(popped.body(), expected.as_deref(), "seed {seed}, deed {deed}");
                    continue;
                }
                _ => {
                    let mut seen = stuck.readable();
                    seen.retain(|name| name.starts_with("own-"));
                    let expected: Vec<_> = (0..OWN)
                        .filter(|&queue| !waiting[queue].is_empty())
                        .map(|queue| &names[queue])
                        .collect();
                    assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "seed {seed}, deed {deed}");
                    continue;
                }
            }
            waiting[at].push_back(body);
        }
    });
    assert!(stuck.calls("take_census") > 0, "somebody counted");
    assert!(stuck.calls("queues_since") > 0, "and looked at what came since");
    assert!(!stuck.middleware.log().contains("WARN"), "{}", stuck.middleware.log());
}

#[test]
fn a_look_at_the_part_that_empties_reads_nothing_of_what_was_removed_before_the_last_one() {
    let server = Postgres::start(&["fsync=off", "autovacuum=off"]);
    let database = server.create_database();
    let sql = |text: &str| server.psql(&database, &format!("SET search_path = posthaste; {text}"));
    if &*sql("SHOW server_version_num") < "140000" {
        return; // it reads all of it
    }
    sql("SELECT create_queue('q'), log_in('ann')");
    sql("INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
        SELECT current_part(), id, place_of(0, id), 1, 1, 0, 0, repeat('x', 300)::bytea FROM generate_series(1, 100000) AS id");
    assert_eq!(sql("SELECT said FROM turn_ring(0, 1000, 2000, null, null)"), "turned");
    sql("DELETE FROM message WHERE id <= 99000");
    let look = |head: &str| format!("turn_ring(1 << 30, 1000, 2000, null, {head})");
    // All pages that were looked at, in memory or not.
    let pages = |head: &str| {
        let plan = sql(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {}", look(head)));
        let count = |name: &str| -> u64 {
            let (_, rest) = plan.split_once(name).expect("it counts pages");
            rest[..rest.find([',', '\n']).expect("a line")].trim().parse().expect("a number")
        };
        count("\"Shared Hit Blocks\":") + count("\"Shared Read Blocks\":")
    };
    let seen = sql(&format!("SELECT head FROM {}", look("null")));
    let [whole, rest] = ["null", &format!("'{seen}'")].map(pages);
    assert!(rest * 4 < whole, "{rest} pages of {whole}");
    // What comes late, before it, is not overlooked in the end.
    sql("DELETE FROM message");
    server.psql(&database, "VACUUM posthaste.message_0, posthaste.message_1");
    sql("INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
        SELECT 1 - current_part(), 1, place_of(0, 1), 1, 1, 0, 0, 'x'");
    for head in [&*seen, ""] {
        sql(&format!("SELECT turn_ring(0, 1000, 2000, null, nullif('{head}', ''))"));
    }
    assert_eq!(sql("SELECT count(*) FROM message WHERE ring = 2"), "1");
}

/// All who use the ring wait while a piece of it is set aside, and large messages take as long as many small ones.
#[test]
fn what_is_set_aside_at_once_is_bounded_by_its_bytes_too() {
    const PIECE_BYTES: i64 = 4 << 20;
    let server = Postgres::start(&["fsync=off", "autovacuum=off"]);
    let database = server.create_database();
    let sql = |text: &str| server.psql(&database, &format!("SET search_path = posthaste; {text}"));
    sql("SELECT create_queue('q'), log_in('ann')");
    // One that is more than a piece, and such as are stored elsewhere.
    sql("INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, headers, body)
        SELECT current_part(), id, place_of(0, id), 1, 1, 0, 0, decode('0000', 'hex'), convert_to(repeat('x', CASE id WHEN 30 THEN 6000000 ELSE 200000 END), 'UTF8')
        FROM generate_series(1, 60) AS id");
    let aside = || -> (i64, i64) {
        let said = sql("SELECT count(*), coalesce(sum(octet_length(body)), 0) FROM message_aside");
        let (rows, bytes) = said.split_once('|').expect("two figures");
        (rows.parse().expect("a number"), bytes.parse().expect("a number"))
    };
    assert_eq!(sql("SELECT said FROM turn_ring(0, 1000, 2000, null, null)"), "turned");
    let look = |oldest: &str, head: &str| {
        let said = sql(&format!(
            "SELECT said, oldest, head FROM turn_ring(0, 1000, 2000, nullif('{oldest}', '')::bigint, nullif('{head}', ''))"
        ));
        let mut said = said.splitn(3, '|').map(str::to_owned);
        [(); 3].map(|()| said.next().expect("three answers"))
    };
    let [said, mut oldest, mut head] = look("", "");
    assert!(said.starts_with("backlog"), "it may be read: {said}");
    let mut before = aside();
    let mut pieces = Vec::new();
    loop {
        let [said, next, at] = look(&oldest, &head);
        let now = aside();
        let (rows, bytes) = (now.0 - before.0, now.1 - before.1);
        if said.starts_with("emptied") {
            assert_eq!(rows, 0, "they were set aside before");
            break;
        }
        assert!(said.starts_with("eased"), "{said}");
        assert!(rows > 0 && (rows == 1 || bytes <= PIECE_BYTES), "{rows} messages of {bytes} bytes: {said}");
        pieces.push(rows);
        (before, oldest, head) = (now, next, at);
    }
    assert_eq!(before.0, 60, "{pieces:?}");
    assert!(pieces.contains(&20), "as many as it may be: {pieces:?}");
}

/// A statement that stores messages with these ids and so many bytes in the part that is appended to.
fn stored(from: i64, to: i64, bytes: usize) -> String {
    format!(
        "INSERT INTO message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
        SELECT current_part(), id, place_of(0, id), 1, 1, 0, 0, convert_to(repeat('x', {bytes}), 'UTF8')
        FROM generate_series({from}, {to}) AS id"
    )
}

/// PostgreSQL stores them outside of the rows, where nothing but the turn gives back their space.
#[test]
fn the_ring_turns_by_the_bytes_of_large_bodies_too() {
    let server = Postgres::start(&["fsync=off", "autovacuum=off"]);
    let database = server.create_database();
    let sql = |text: &str| server.psql(&database, &format!("SET search_path = posthaste; {text}"));
    sql("SELECT create_queue('q'), log_in('ann')");
    let send = |from, to| sql(&stored(from, to, 65000));
    let look = || sql("SELECT said FROM turn_ring(64 << 10, 1000, 2000, null, null)");
    send(1, 10);
    assert_eq!(look(), "", "less than a MiB");
    send(11, 100);
    assert_eq!(look(), "turned");
    // A backlog is left where it is until the current part is five times as large.
    send(101, 300);
    assert_eq!(look(), "backlog in message_0");
    send(301, 650);
    assert!(look().starts_with("eased message_0"));
}

/// Each turn leaves rows of `pg_class` that such a transaction may see, for which the next ones take longer.
#[test]
fn under_a_transaction_that_keeps_many_turns_the_ring_turns_more_seldom() {
    let server = Postgres::start(&["fsync=off", "autovacuum=off"]);
    let database = server.create_database();
    let sql = |text: &str| server.psql(&database, &format!("SET search_path = posthaste; {text}"));
    let send = |from, to| sql(&stored(from, to, 1000));
    let look = || sql("SELECT said FROM turn_ring(64 << 10, 1000, 2000, null, null)");
    let mut elsewhere = Session::open(&server, &database, "postgres");
    elsewhere.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    // Rows of pg_class like those that turns leave, but 18 in each transaction instead of eight.
    let dead = "DO $$ BEGIN FOR round IN 1 .. 300 LOOP
        GRANT SELECT ON ALL TABLES IN SCHEMA posthaste TO PUBLIC; COMMIT;
        REVOKE SELECT ON ALL TABLES IN SCHEMA posthaste FROM PUBLIC; COMMIT;
        END LOOP; END $$";
    server.psql(&database, dead);
    wait_until("the statistics know", || sql("SELECT kept_truncations() >= 1000") == "t");
    send(1, 80);
    assert_eq!(look(), "", "twice as much is needed now");
    send(81, 160);
    assert_eq!(look(), "turned");
    elsewhere.run("COMMIT");
    server.psql(&database, "VACUUM pg_class");
    wait_until("the statistics know", || sql("SELECT kept_truncations() < 100") == "t");
    sql("DELETE FROM message");
    assert_eq!(look(), "emptied message_0");
    send(161, 240);
    assert_eq!(look(), "turned");
}
