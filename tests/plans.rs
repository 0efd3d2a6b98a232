//! Every function reads by index seeks only: the plans that PostgreSQL really used, at a million messages, a thousand
//! queues and 256 accounts.
//!
//! auto_explain writes each statement's plan, those inside functions too, into the server's log with what it cost.
//! So the requests are made as anybody makes them, through a middleware and by SQL, and the log is read afterwards.
//! All of it once before the tables were ever analysed, which is how a part of the ring that was just truncated looks
//! to the planner, and once after.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/stocks.rs"]
mod stocks;
#[path = "support/mod.rs"]
mod support;

use std::io::Write as _;
use std::net::SocketAddr;

use client::{Answer, Client};
use postgres::Postgres;
use serde_json::Value;
use stocks::{LEASES, LOAD, STOCK};
use support::Server;

/// Ways to pop where every request is a statement of its own.
const STRATEGIES: [&str; 5] = ["skip-locked", "delete-retry", "for-update", "repeatable-read", "mark-update"];

/// The tables that may be large.
const LARGE: [&str; 5] = ["message_0", "message_1", "message_aside", "queue", "account"];

/// Rows and pages that one node of a plan may touch for one request: a few levels of a few indexes.
const ROWS: f64 = 50.0;
const PAGES: f64 = 60.0;
/// Pages for one row put in or taken out, six indexes and all.
const PAGES_CHANGED: f64 = 160.0;

/// How the indexes for reading end, and what must be given of each: its first column. Without that it is walked, which an
/// almost empty part of the table does not show.
const FIRST: [(&str, &[&str]); 3] = [
    ("_recipient_id_queue_id_place_idx", &["(recipient_id = "]),
    ("_sender_id_recipient_id_place_idx", &["(sender_id = "]),
    (
        "_queue_id_sender_id_recipient_id_place_idx",
        &["(queue_id = ", "(queue_id >= ", "ROW(queue_id, sender_id) > "],
    ),
];

/// Statements that cost more by design, by how they begin.
const EXEMPT: [&str; 16] = [
    // Once in a connection, of the server's settings: whether the session is ours.
    "SELECT count(*) = 2 FROM pg_settings",
    // turn_ring counts what is left in the part it wants to empty, up to 20,000.
    "SELECT count(*), sum(octet_length(body)), (array_agg(row_at))[1]",
    // And sets some of it aside, all at once, when its time has come: whenever that is. Then it looks for the next.
    "WITH gone AS (\n",
    "SELECT place FROM message_",
    // Once so much has been walked aside that this costs less, what is left there is counted and written anew.
    "SELECT count(*), coalesce(sum(bytes), 0)",
    "SELECT coalesce(array_agg(m), '{}')",
    // A middleware learns names; 256 accounts are three pages, which an index would not make fewer.
    "SELECT name, id FROM (SELECT) AS always LEFT JOIN posthaste.account ON id = ANY(",
    // The keeper reads the ring from end to end while it is small.
    "SELECT least(min(place), up_to) ",
    // And a piece of it otherwise, and counts which lanes hold something there, some at a time.
    "SELECT min(place)  ",
    "SELECT place, queue, sender, recipient FROM (SELECT) AS always LEFT JOIN posthaste.take_census(",
    "SELECT m.queue_id, m.sender_id, m.recipient_id, min(m.place) FROM message m",
    "ARRAY(\n        SELECT least(",
    "SELECT ARRAY(\n        SELECT least(",
    // Whoever connects reads a short ring from end to end.
    "CASE WHEN pg_relation_size('posthaste.message_0')",
    "SELECT CASE WHEN pg_relation_size('posthaste.message_0')",
    // SEND TO * reads the accounts, all of them.
    "SELECT coalesce(array_agg(id ORDER BY id), '{}')",
];

/// How requests are made.
enum By {
    /// By a middleware, one by one on one connection that is `account 1`; an id stands for `{leased}`.
    Resp(&'static [&'static [&'static str]]),
    /// In one go, so that one call does all of them: those of a kind in a step, if there are several.
    Together(&'static [&'static [&'static str]]),
    /// One by one through each middleware with a pop strategy.
    Unbatched(&'static [&'static [&'static str]]),
    /// By the superuser's psql.
    Sql(&'static str),
}

/// What is known to cost more than a few seeks, and why.
enum Cost {
    Seeks,
    /// So many times that, because the request is about so many things.
    Times(f64, &'static str),
    /// As much as the queue holds; only that no table is read from end to end.
    Stock(&'static str),
}

use By::{Resp, Sql, Together, Unbatched};
use Cost::{Seeks, Stock, Times};

const CASES: &[(By, Cost)] = &[
    (Sql("SELECT posthaste.login('account 7')"), Seeks),
    (Sql("SELECT posthaste.login('somebody new ' || random())"), Seeks),
    (Sql("SELECT posthaste.create_queue('queue 7')"), Seeks),
    (Sql("SELECT posthaste.delete_queue(posthaste.create_queue()::text)"), Seeks),
    (Sql("SELECT posthaste.create_queue('made'), posthaste.delete_queue('made')"), Seeks),
    (Sql("SELECT posthaste.delete_queue('queue 999')"), Stock("a full queue goes with its messages")),
    (Sql("SELECT posthaste.create_queue('queue 999')"), Seeks),
    (Sql("SELECT posthaste.sweep('queue 997', 0, 0, 0, 0, 20)"), Times(20.0, "so many messages are removed")),
    (
        Sql("SELECT posthaste.sweep('queue 997', 3, 0, 0, 0, 20)"),
        Times(20.0, "so many leased or delayed messages are removed"),
    ),
    (
        Sql("SELECT posthaste.redrive_some('queue 996', null, 2, 0, 0, 0)"),
        Times(2.0, "what the queue holds aside"),
    ),
    (
        Sql("SELECT posthaste.redrive_some('queue 996', null, 3, 0, 0, 0)"),
        Times(2.0, "what the queue holds aside"),
    ),
    (Sql("SELECT posthaste.send('account 7', 'queue 7', 'x')"), Seeks),
    (Sql("SELECT posthaste.send('account 7', 'queue 7', 'x'::bytea, 'account 8')"), Seeks),
    (Sql("SELECT posthaste.send('new ' || random(), 'queue 7', 'x', 'new ' || random())"), Seeks),
    (
        Sql("SELECT posthaste.send('account 7', 'queue 7', 'x', '*')"),
        Times(300.0, "a copy for every account"),
    ),
    (Sql("SELECT posthaste.upkeep(null, 0, 1000)"), Seeks),
    // As in a batch that has waited.
    (
        Sql(
            "SET search_path = posthaste; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
             SET enable_bitmapscan = off; SET enable_sort = off; \
             SELECT renew_leases(0, 300, '{1000, 2000}', '{p, x, n}', '{1000, null, 5}', '{null, 3000, 0}')",
        ),
        Seeks,
    ),
    (Sql("SELECT * FROM posthaste.peek('account 7', 'queue 7')"), Seeks),
    (Sql("SELECT * FROM posthaste.peek('account 7', sender => 'account 9')"), Seeks),
    (Sql("SELECT * FROM posthaste.peek('account 7', 'queue 7', 'account 9')"), Seeks),
    (Sql("SELECT * FROM posthaste.peek('account 7', sender => 'nobody')"), Seeks),
    (Sql("SELECT * FROM posthaste.pop('account 7', 'queue 7')"), Seeks),
    (Sql("SELECT * FROM posthaste.pop('nobody', 'queue 7')"), Seeks),
    (Sql("SELECT * FROM posthaste.pop('account 7', sender => 'account 9')"), Seeks),
    (Sql("SELECT * FROM posthaste.pop('account 7', 'queue 7', 'account 9')"), Seeks),
    (
        Sql("SELECT * FROM posthaste.readable('account 7')"),
        Times(300.0, "a seek for each of 1,000 queues in each part of the table"),
    ),
    (
        Sql("SELECT * FROM posthaste.readable('account 7', not_own => true)"),
        Times(600.0, "two seeks for each of 1,000 queues in each part"),
    ),
    (Resp(&[&["SEND", "queue 5", "x"], &["SEND", "queue 5", "x", "TO", "account 2"]]), Seeks),
    (Resp(&[&["SEND", "queue 5", "x", "DELAY", "3600000", "PRIORITY", "3", "TTL", "9000000"]]), Seeks),
    (Resp(&[&["SEND", "queue 5", "x", "DEDUP", "key"], &["SEND", "queue 5", "x", "DEDUP", "key"]]), Seeks),
    (Resp(&[&["SEND", "queue 5", "x", "TO", "*"]]), Times(300.0, "a copy for every account")),
    (Resp(&[&["SENDMANY", "queue 5", "x", "y", "z"]]), Seeks),
    (Together(&[&["SEND", "queue 5", "x"], &["SEND", "queue 5", "x", "TO", "account 2"]]), Seeks),
    (Together(&[&["POP", "QUEUE", "queue 5"], &["POP", "QUEUE", "queue 5"]]), Times(2.0, "two messages")),
    (Together(&[&["POP", "QUEUE", "queue 5"], &["PEEK", "QUEUE", "queue 5"]]), Seeks),
    (Together(&[&["POP", "FROM", "account 9"], &["POP", "FROM", "account 9"]]), Times(2.0, "two messages")),
    (Together(&[&["POP", "FROM", "account 9"], &["PEEK", "FROM", "account 9"]]), Seeks),
    (
        Together(&[
            &["POP", "QUEUE", "queue 5", "FROM", "account 9"],
            &["POP", "QUEUE", "queue 5", "FROM", "account 9"],
        ]),
        Times(2.0, "two messages"),
    ),
    (
        Together(&[
            &["POP", "QUEUE", "queue 5", "FROM", "account 9"],
            &["PEEK", "QUEUE", "queue 5", "FROM", "account 9"],
        ]),
        Seeks,
    ),
    (
        Together(&[
            &["POP", "QUEUE", "queue 7", "LEASE", "3600000"],
            &["POP", "QUEUE", "queue 7", "LEASE", "3600000"],
        ]),
        Times(2.0, "two messages"),
    ),
    (Together(&[&["POP", "QUEUE", "queue 7", "LEASE", "3600000"], &["PEEK", "QUEUE", "queue 7"]]), Seeks),
    (Together(&[&["PEEK", "QUEUE", "queue 5"], &["PEEK", "QUEUE", "queue 6"]]), Seeks),
    (Together(&[&["PEEK", "FROM", "account 8"], &["PEEK", "FROM", "account 9"]]), Seeks),
    (
        Together(&[&["QREADABLE"], &["QREADABLE"]]),
        Times(300.0, "a seek for each of 1,000 queues in each part of the table"),
    ),
    (Together(&[&["QCREATE", "made"], &["QCREATE", "queue 5"], &["QDELETE", "made"]]), Seeks),
    (
        Resp(&[&["PEEK", "QUEUE", "queue 5"], &["POP", "QUEUE", "queue 5"], &["POP", "QUEUE", "queue 5"]]),
        Seeks,
    ),
    (Resp(&[&["PEEK", "FROM", "account 9"], &["POP", "FROM", "account 9"]]), Seeks),
    (Resp(&[&["PEEK", "QUEUE", "queue 5", "FROM", "account 9"]]), Seeks),
    (Resp(&[&["POP", "QUEUE", "queue 5", "FROM", "account 9"]]), Seeks),
    (Resp(&[&["POP", "QUEUE", "queue 5", "COUNT", "10"]]), Times(4.0, "ten messages")),
    (Resp(&[&["POP", "QUEUE", "queue 5", "BROADCAST"], &["POP", "QUEUE", "queue 5", "REQID", "key"]]), Seeks),
    (Resp(&[&["POP", "QUEUE", "queue 5", "NOTOWN"]]), Seeks),
    (Resp(&[&["POP", "QUEUE", "queue 5", "LEASE", "3600000"], &["EXTEND", "{leased}", "3600000"]]), Seeks),
    (Resp(&[&["NACK", "{leased}", "DELAY", "3600000"]]), Seeks),
    (Resp(&[&["POP", "QUEUE", "queue 6", "LEASE", "3600000"], &["NACK", "{leased}"]]), Seeks),
    (Resp(&[&["POP", "QUEUE", "queue 6", "LEASE", "3600000"], &["ACK", "{leased}"]]), Seeks),
    (Resp(&[&["QREADABLE"]]), Times(300.0, "a seek for each of 1,000 queues in each part of the table")),
    (Resp(&[&["QREADABLE", "NOTOWN"]]), Times(600.0, "two seeks for each of 1,000 queues in each part")),
    (Resp(&[&["QCREATE", "made"], &["QCREATE"], &["QDELETE", "made"], &["QCREATE", "queue 5"]]), Seeks),
    (Resp(&[&["QCREATE", "graved", "DEADLETTER", "grave", "AFTER", "1", "TTL", "3600000"]]), Seeks),
    (
        Resp(&[
            &["SEND", "graved", "x"],
            &["POP", "QUEUE", "graved", "LEASE", "3600000"],
            &["NACK", "{leased}"],
        ]),
        Seeks,
    ),
    (Resp(&[&["QREDRIVE", "grave"], &["QDELETE", "graved"], &["QDELETE", "grave"]]), Seeks),
    (
        Resp(&[&["QCREATE", "queue 8", "MAXMSGS", "100000"], &["SEND", "queue 8", "x"]]),
        Stock("counts what the queue holds, once"),
    ),
    (Resp(&[&["SEND", "queue 8", "x"], &["SENDMANY", "queue 8", "x", "y"]]), Seeks),
    (Sql("SELECT posthaste.send('account 7', 'queue 8', 'x')"), Seeks),
    (Resp(&[&["SEND", "queue 8", "x", "DEDUP", "with limits"]]), Seeks),
    (Sql("SELECT posthaste.settle_rooms(), posthaste.locked_leases(null, '{990001, 990002, 1}')"), Seeks),
    (Sql("SELECT posthaste.free_queues('{queue 7}', true), posthaste.log_in_all('{account 7, new}')"), Seeks),
    (Sql("SELECT posthaste.meet_all('{account 7, newer}', true, 10)"), Seeks),
    (Unbatched(&[&["SEND", "queue 5", "x"], &["SEND", "queue 5", "x", "TO", "account 1"]]), Seeks),
    (Unbatched(&[&["PEEK", "QUEUE", "queue 5"], &["PEEK", "FROM", "account 9"]]), Seeks),
    (Unbatched(&[&["POP", "QUEUE", "queue 5"], &["POP", "QUEUE", "queue 5", "FROM", "account 9"]]), Seeks),
    (Unbatched(&[&["POP", "FROM", "account 9"], &["POP", "FROM", "account 1"]]), Seeks),
    (
        Unbatched(&[
            &["QCREATE"],
            &["QCREATE", "made"],
            &["SENDMANY", "made", "x", "y"],
            &["SEND", "made", "x"],
            &["SEND", "made", "x", "DELAY", "3600000"],
            &["QDELETE", "made"],
        ]),
        Seeks,
    ),
    (Unbatched(&[&["QREADABLE"]]), Times(300.0, "a seek for each of 1,000 queues in each part of the table")),
    (Resp(&[&["QINFO", "queue 5"]]), Stock("counts what the queue holds")),
    (Resp(&[&["QLIST"]]), Stock("counts what every queue holds")),
    (Resp(&[&["QBROWSE", "queue 5", "COUNT", "5"]]), Stock("sorts what the queue holds")),
    (Resp(&[&["QPURGE", "queue 998"]]), Stock("removes what the queue holds")),
];

/// What workers' statements call, in contrast to those of keepers, which look after the tables meanwhile.
const WORKERS: &[&str] = &["posthaste.apply(", "_alone(", "_unbatched(", "posthaste.pop_"];

/// A plan as auto_explain wrote it.
struct Plan {
    statement: String,
    root: Value,
}

/// The plans in a piece of the server's log. A line of the log that goes on begins with a tab.
fn plans(log: &str) -> Vec<Plan> {
    let mut found = Vec::new();
    let mut lines = log.lines();
    while let Some(line) = lines.next() {
        if !line.ends_with("  plan:") {
            continue;
        }
        let mut text = String::new();
        for line in lines.by_ref() {
            text.push_str(line.trim_start_matches('\t'));
            if line == "\t}" {
                break;
            }
            text.push('\n');
        }
        let explained: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        let statement = explained["Query Text"].as_str().expect("a statement").to_owned();
        found.push(Plan { statement, root: explained["Plan"].clone() });
    }
    found
}

/// What is wrong with a node and those below it; `times`: None does not count.
fn faults(node: &Value, times: Option<f64>, found: &mut Vec<String>) {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let relation = node["Relation Name"].as_str().unwrap_or_default();
    if kind == "Seq Scan" && LARGE.contains(&relation) {
        found.push(format!("reads {relation} from end to end"));
    }
    // It reads all that another index gives for the order's beginning.
    if kind == "Incremental Sort" {
        found.push("sorts what an index does not give in order".to_owned());
    }
    if let Some(times) = times {
        let removed = number("Rows Removed by Filter") + number("Rows Removed by Index Recheck");
        let rows = (number("Actual Rows") + removed) * number("Actual Loops");
        if rows > ROWS * times {
            found.push(format!("{kind} {relation}: {rows} rows"));
        }
        let index = node["Index Name"].as_str().unwrap_or_default();
        let given = node["Index Cond"].as_str().unwrap_or_default();
        // The last that fits: one name ends like another.
        if let Some((_, first)) = FIRST.iter().rfind(|(end, _)| index.ends_with(end))
            && !first.iter().any(|first| given.contains(first))
        {
            found.push(format!("{kind} {relation}: walks {index} where {given}"));
        }
        let pages = number("Shared Hit Blocks") + number("Shared Read Blocks");
        let most = if kind == "ModifyTable" { PAGES_CHANGED } else { PAGES };
        if !relation.is_empty() && pages > most * times {
            found.push(format!("{kind} {relation} by {index}: {pages} pages"));
        }
    }
    for below in node["Plans"].as_array().into_iter().flatten() {
        faults(below, times, found);
    }
}

/// A server with a database.
struct Place {
    postgres: Postgres,
    database: String,
}

impl Place {
    fn new() -> Self {
        let settings =
            ["fsync=off", "wal_level=minimal", "max_wal_senders=0", "max_wal_size=8GB", "autovacuum=off"];
        let postgres =
            Postgres::start(&[&settings[..], &["shared_buffers=512MB", "full_page_writes=off"]].concat());
        let database = postgres.create_database();
        for setting in [
            "session_preload_libraries = 'auto_explain'",
            "auto_explain.log_min_duration = 0",
            "auto_explain.log_nested_statements = on",
            "auto_explain.log_analyze = on",
            "auto_explain.log_timing = off",
            "auto_explain.log_buffers = on",
            "auto_explain.log_format = json",
        ] {
            postgres
                .psql("postgres", &format!("LOAD 'auto_explain'; ALTER DATABASE {database} SET {setting}"));
        }
        Self { postgres, database }
    }

    fn middlewares(&self) -> Middlewares {
        let url = self.postgres.url(&self.database);
        Middlewares {
            one_by_one: Server::start(&url, &["--batch", "1"]),
            together: Server::start(&url, &[]),
            unbatched: STRATEGIES.map(|strategy| Server::start(&url, &["--pop-strategy", strategy])),
        }
    }

    /// The plans of what was done meanwhile.
    fn watched(&self, done: impl FnOnce()) -> Vec<Plan> {
        let before = self.postgres.log_bytes();
        done();
        // The keeper may be in the midst of a line. Of a log of hundreds of megabytes only the end is read.
        let log = self.postgres.log_after(before);
        let whole = log.rfind("\n\t}\n").map_or(0, |end| end + 4);
        plans(&log[..whole])
    }

    /// What is wrong with how a request was done, whose own statement has one of these texts in it.
    fn faults(&self, cost: &Cost, asked: &[&str], done: impl FnOnce()) -> Vec<String> {
        let times = match cost {
            Seeks => Some(1.0),
            Times(times, _) => Some(*times),
            Stock(_) => None,
        };
        let plans = self.watched(done);
        let is_asked = |plan: &Plan| asked.iter().any(|text| plan.statement.contains(text));
        assert!(plans.iter().any(is_asked), "no plan of {asked:?} was seen, so none was checked");
        let mut all = Vec::new();
        for plan in plans.iter().filter(|plan| !EXEMPT.iter().any(|text| plan.statement.starts_with(text))) {
            let mut found = Vec::new();
            faults(&plan.root, times, &mut found);
            all.extend(found.iter().map(|fault| format!("{fault}, in {}", plan.statement)));
        }
        all
    }

    /// A million messages.
    fn load(&self) {
        self.sql(LOAD);
    }

    fn sql(&self, sql: &str) {
        self.postgres.psql(&self.database, sql);
    }
}

/// Several at the same database.
struct Middlewares {
    one_by_one: Server,
    together: Server,
    unbatched: [Server; STRATEGIES.len()],
}

/// Makes requests in one go.
fn make_together(server: SocketAddr, requests: &[&[&str]]) {
    let mut client = Client::login(server, "account 1").expect("a login");
    let mut sent = Vec::new();
    for words in requests {
        write!(sent, "*{}\r\n", words.len()).expect("memory takes it");
        words.iter().for_each(|word| write!(sent, "${}\r\n{word}\r\n", word.len()).expect("memory takes it"));
    }
    client.write(&sent).expect("it reads");
    for words in requests {
        let answer = client.answer().expect("an answer");
        assert!(!matches!(answer, Answer::Error(_)), "{words:?}: {answer:?}");
    }
}

/// Makes requests one by one on one connection; remembers what was leased.
fn make(server: SocketAddr, leased: &mut String, requests: &[&[&str]]) {
    let mut client = Client::login(server, "account 1").expect("a login");
    for request in requests {
        let id = leased.clone();
        let words: Vec<&str> =
            request.iter().map(|word| if *word == "{leased}" { &id } else { *word }).collect();
        let answer = client.ask(&words).expect("an answer");
        assert!(!matches!(answer, Answer::Error(_)), "{words:?}: {answer:?}");
        if words.contains(&"LEASE") {
            *leased = answer.get("id").and_then(Answer::integer).expect("a leased message").to_string();
        } else if words.contains(&id.as_str()) {
            assert_eq!(answer, Answer::Integer(1), "{words:?} took effect");
        }
    }
}

/// Makes all requests once, for a few messages: from now on these middlewares keep the plans.
fn plan_all(servers: &Middlewares) {
    Client::login(servers.one_by_one.addr(), "account 1").expect("a login");
    Client::login(servers.one_by_one.addr(), "account 8").expect("a login");
    let mut client = Client::login(servers.one_by_one.addr(), "account 9").expect("a login");
    for queue in ["queue 5", "queue 6", "queue 7", "queue 998"] {
        client.ask(&["QCREATE", queue]).expect("an answer");
        client.ask(&[&["SENDMANY", queue][..], &["x"; 30]].concat()).expect("an answer");
    }
    let mut leased = String::new();
    for (by, _) in CASES {
        match by {
            Resp(requests) => make(servers.one_by_one.addr(), &mut leased, requests),
            Together(requests) => make_together(servers.together.addr(), requests),
            Unbatched(requests) => {
                servers.unbatched.iter().for_each(|server| make(server.addr(), &mut String::new(), requests));
            }
            Sql(_) => {}
        }
    }
}

fn check_all(place: &Place, when: &str) {
    check_through(place, &place.middlewares(), when);
}

fn check_through(place: &Place, servers: &Middlewares, when: &str) {
    let mut leased = String::new();
    let mut wrong = Vec::new();
    for (by, cost) in CASES {
        let (what, found) = match by {
            Sql(sql) => ((*sql).to_owned(), place.faults(cost, &[sql], || place.sql(sql))),
            Resp(requests) => {
                let asked = || make(servers.one_by_one.addr(), &mut leased, requests);
                let found = place.faults(cost, WORKERS, asked);
                (format!("{requests:?}"), found)
            }
            Together(requests) => {
                let asked = || make_together(servers.together.addr(), requests);
                let found = place.faults(cost, WORKERS, asked);
                (format!("together {requests:?}"), found)
            }
            Unbatched(requests) => {
                let make = |server: &Server| make(server.addr(), &mut String::new(), requests);
                let found =
                    servers.unbatched.iter().flat_map(|server| place.faults(cost, WORKERS, || make(server)));
                (format!("unbatched {requests:?}"), found.collect())
            }
        };
        let why = match cost {
            Seeks => String::new(),
            Times(times, why) => format!(" (allowed {times} times as much: {why})"),
            Stock(why) => format!(" (only from end to end counts: {why})"),
        };
        wrong.extend(found.iter().map(|fault| format!("{what}{why}: {fault}")));
    }
    assert!(wrong.is_empty(), "{when}:\n{}", wrong.join("\n"));
}

/// Without an index each of these must be found out; otherwise the check proves nothing.
fn check_the_check(place: &Place) {
    for (index, read) in [
        ("message_by_sender", "SELECT * FROM posthaste.peek('account 7', sender => 'account 9')"),
        ("message_by_queue", "SELECT * FROM posthaste.peek('account 7', 'queue 7')"),
        ("message_by_both", "SELECT * FROM posthaste.peek('account 7', 'queue 7', 'account 9')"),
    ] {
        let without = format!("BEGIN; DROP INDEX posthaste.{index}; {read}; ROLLBACK");
        assert_eq!(place.faults(&Seeks, &[read], || place.sql(read)), [""; 0], "{index} is there");
        let found = place.faults(&Seeks, &[&without], || place.sql(&without));
        assert!(!found.is_empty(), "without {index} the plan is said to be as good");
    }
}

#[test]
fn every_function_reads_by_index_seeks_at_a_million_messages() {
    let place = Place::new();
    place.load();
    check_all(&place, "before ANALYZE");
    place.sql("VACUUM ANALYZE");
    check_all(&place, "after ANALYZE");
    check_the_check(&place);
}

/// A transaction that meets accounts leaves rows behind that nobody sees, and vacuum may not remove them while somebody
/// keeps a snapshot.
#[test]
fn meeting_an_account_walks_nothing_that_others_have_left_behind() {
    let place = Place::new();
    place.sql("SELECT posthaste.create_queue('queue 7')");
    let left = "INSERT INTO posthaste.newcomer (id, name) SELECT n, 'gone ' || n FROM generate_series(1, 50000) AS n";
    place.sql(&format!("BEGIN; {left}; ROLLBACK"));
    let send = "SELECT posthaste.send('ann', 'queue 7', 'x', 'bob')";
    let pop = "SELECT * FROM posthaste.pop('bob', 'queue 7', 'ann')";
    for sql in
        [format!("BEGIN; {send}; {pop}; SELECT posthaste.login('bob'); ROLLBACK"), format!("{send}; {pop}")]
    {
        assert_eq!(place.faults(&Seeks, &[&sql], || place.sql(&sql)), [""; 0], "{sql}");
    }
}

/// A session keeps the plans it made when there was next to nothing in the tables.
#[test]
fn plans_made_for_empty_tables_do_for_a_million_messages() {
    let place = Place::new();
    place.sql("VACUUM ANALYZE");
    let servers = place.middlewares();
    plan_all(&servers);
    place.sql("DELETE FROM posthaste.message; DELETE FROM posthaste.queue; DELETE FROM posthaste.account");
    place.load();
    check_through(&place, &servers, "planned for empty tables");
}

/// An empty queue is as quickly found empty where others hold everything.
#[test]
fn plans_made_for_a_stock_in_few_queues_do_for_the_others() {
    let place = Place::new();
    place.sql(STOCK);
    place.sql("VACUUM ANALYZE");
    check_all(&place, "a stock in few queues");
}

/// Removing leaves indexes of different lengths, and the shortest looks best to who plans then.
#[test]
fn plans_made_while_an_index_is_longer_than_the_others_keep_to_it() {
    let place = Place::new();
    place.sql(&[STOCK, LEASES].concat());
    place.sql("DELETE FROM posthaste.message");
    place.sql("VACUUM ANALYZE posthaste.message_aside");
    for index in ["sender_id_recipient_id_place_idx", "queue_id_sender_id_recipient_id_place_idx", "by_due"] {
        place.sql(&format!("REINDEX INDEX posthaste.message_aside_{index}"));
    }
    let servers = place.middlewares();
    plan_all(&servers);
    place.sql("DELETE FROM posthaste.message; DELETE FROM posthaste.queue; DELETE FROM posthaste.account");
    place.sql(&[STOCK, LEASES].concat());
    check_through(&place, &servers, "planned while the index by queue was long");
}
