//! Limits of large queues over PostgreSQL, which are kept by what is written down of their room: exact to the message,
//! whichever way messages come and go.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use client::{Answer, Client};
use postgres::shared;
use session::Session;
use support::Server;
use support::patience::wait_until;

/// More than what is simply counted for every batch.
const LIMIT: i64 = 300;
/// More than what is counted for every batch while it is full.
const LARGE: i64 = 1100;

/// A queue `q` with limits, in a database of its own.
struct Place {
    database: String,
    server: Server,
    client: Client,
}

impl Place {
    fn new(options: &[&str]) -> Self {
        let database = shared().create_database();
        let server = Server::start(&shared().url(&database), &[]);
        let client = Client::login(server.addr(), "ann").expect("a login");
        let mut place = Self { database, server, client };
        place.ask(&[&["QCREATE", "q"], options].concat());
        place
    }

    fn ask(&mut self, words: &[&str]) -> Answer {
        self.client.ask(words).expect("an answer")
    }

    fn sql(&self, sql: &str) -> String {
        shared().psql(&self.database, sql)
    }

    /// Sends until the queue is full; how many were taken.
    fn fill(&mut self) -> i64 {
        let mut taken = 0;
        loop {
            match self.ask(&["SEND", "q", "four"]) {
                Answer::Integer(_) => taken += 1,
                Answer::Error(why) if why.starts_with("FULL") => return taken,
                other => panic!("{other:?}"),
            }
        }
    }

    /// What QINFO counts.
    fn messages(&mut self) -> i64 {
        match self.ask(&["QINFO", "q"]).get("messages") {
            Some(Answer::Integer(count)) => *count,
            other => panic!("{other:?}"),
        }
    }

    /// Has it hold as many messages, all small.
    fn hold(&mut self, messages: i64) {
        let batch = [&["SENDMANY", "q"][..], &["four"; 50]].concat();
        let mut missing = messages - self.messages();
        while missing > 0 {
            let sent = missing.min(50);
            assert_eq!(self.ask(&batch[..2 + sent as usize]).list().len() as i64, sent);
            missing -= sent;
        }
    }

    /// Fills it, and sends until what leaves it is noted and relied on. Then takes a message away behind everybody's
    /// back: from now on a count would find room for one more.
    fn is_full_and_noted(&mut self) {
        self.hold(LARGE);
        wait_until("what leaves is relied on, a second after it was full", || {
            assert_eq!(self.fill(), 0);
            self.sql("SET search_path = posthaste; SELECT bool_or(is_exact(r)) FROM room r") == "t"
        });
        self.sql("DELETE FROM posthaste.message WHERE id = (SELECT max(id) FROM posthaste.message)");
        self.sql("SELECT setval('posthaste.room_noted_until', posthaste.now_ms() + 3600000)");
    }

    /// As `fill`, long before it is to be counted again.
    fn fill_uncounted(&mut self) -> i64 {
        self.sql("UPDATE posthaste.room SET counted_ms = posthaste.now_ms()");
        self.fill()
    }

    /// Takes a message with a lease: its receipt.
    fn lease(&mut self, queue: &str) -> String {
        let leased = self.ask(&["POP", "QUEUE", queue, "LEASE", "60000"]);
        leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned()
    }

    /// Sends until it is full: exactly as many as there was room for.
    fn fills_up(&mut self) {
        let room = LIMIT - self.messages();
        assert_eq!(self.fill(), room);
        assert_eq!(self.messages(), LIMIT);
    }
}

#[test]
fn a_large_queue_takes_exactly_what_its_limits_allow() {
    for limit in [["MAXMSGS", "300"], ["MAXBYTES", "1200"]] {
        let mut place = Place::new(&limit);
        place.fills_up();
        assert_ne!(place.sql("SELECT count(*) FROM posthaste.room"), "0", "room is written down");
        for popped in [1, 7, 250] {
            for _ in 0..popped {
                place.ask(&["POP", "QUEUE", "q"]);
            }
            assert_eq!(place.fill(), popped, "room for what has gone, and no more");
        }
        place.ask(&["QPURGE", "q"]);
        place.fills_up();
        assert!(
            matches!(place.ask(&["SENDMANY", "q", "a", "b"]), Answer::Error(why) if why.starts_with("FULL"))
        );
        place.ask(&["POP", "QUEUE", "q", "COUNT", "2"]);
        assert_eq!(place.ask(&["SENDMANY", "q", "four", "four"]).list().len(), 2);
        assert_eq!(place.messages(), LIMIT);
    }
}

#[test]
fn room_in_the_middle_of_a_pipeline_is_used() {
    let mut place = Place::new(&["MAXMSGS", "300"]);
    place.fills_up();
    let asked: [&[&str]; 5] =
        [&["SEND", "q", "x"], &["POP", "QUEUE", "q"], &["SEND", "q", "x"], &["SEND", "q", "x"], &["PING"]];
    for words in asked {
        place.client.send(words).expect("it is connected");
    }
    let mut answer = || place.client.answer().expect("an answer");
    assert!(matches!(answer(), Answer::Error(_)), "it was full");
    assert!(matches!(answer(), Answer::List(_)));
    assert!(matches!(answer(), Answer::Integer(_)), "the popped one's place");
    assert!(matches!(answer(), Answer::Error(_)), "it is full again");
    assert!(matches!(answer(), Answer::Text(_)));
}

#[test]
fn what_leaves_a_full_queue_makes_room_without_a_count_whichever_way_it_leaves() {
    let mut place = Place::new(&["MAXMSGS", "1100", "DEADLETTER", "grave", "AFTER", "1"]);
    place.ask(&["QCREATE", "work", "DEADLETTER", "q", "AFTER", "1"]);
    place.ask(&["SEND", "work", "x"]);
    let receipt = place.lease("work");
    assert_eq!(place.ask(&["NACK", &receipt]), Answer::Integer(1));
    place.is_full_and_noted();

    assert_eq!(place.ask(&["QREDRIVE", "q", "work"]), Answer::Integer(1));
    assert_eq!(place.fill_uncounted(), 1, "for a dead letter that starts anew");
    place.ask(&["POP", "QUEUE", "work"]);
    place.ask(&["POP", "QUEUE", "q"]);
    assert!(matches!(place.ask(&["SEND", "q", "soon over", "TTL", "600000"]), Answer::Integer(_)));
    assert_eq!(place.fill_uncounted(), 0, "for one that was popped alone, and no more");
    place.sql("UPDATE posthaste.message SET expires_ms = posthaste.now_ms() + 500 WHERE body = 'soon over'");
    wait_until("its time is over", || place.messages() < LARGE - 1);
    assert_eq!(place.fill_uncounted(), 1, "for one whose time was over");
    assert_eq!(place.ask(&["POP", "QUEUE", "q", "COUNT", "7"]).list().len(), 7);
    assert_eq!(place.fill_uncounted(), 7, "for several that were popped at once");
    place.ask(&["POP", "FROM", "ann"]);
    place.ask(&["POP", "QUEUE", "q", "REQID", "once"]);
    assert_eq!(place.fill_uncounted(), 2, "for those popped by sender, and by the rules");
    let receipt = place.lease("q");
    assert_eq!(place.fill_uncounted(), 0, "a leased one stays in its queue");
    assert_eq!(place.ask(&["ACK", &receipt]), Answer::Integer(1));
    assert_eq!(place.fill_uncounted(), 1, "for one that was acknowledged");
    let receipt = place.lease("q");
    assert_eq!(place.ask(&["NACK", &receipt]), Answer::Integer(1));
    assert_eq!(place.fill_uncounted(), 1, "for one that became a dead letter elsewhere");
    place.sql("SELECT posthaste.pop('shop', 'q', null)");
    assert_eq!(place.fill_uncounted(), 1, "for one that an SQL client popped");
    for strategy in ["skip_locked", "delete_retry", "for_update", "repeatable_read", "mark_update"] {
        place.sql(&format!("SELECT posthaste.pop_{strategy}(null, 0, 1, 'q', null, null, null)"));
        assert_eq!(place.fill_uncounted(), 1, "for one popped by {strategy}");
    }
    assert_eq!(place.messages(), LARGE - 1, "it was not counted, nor was anything noted twice");
    assert_eq!(place.ask(&["QPURGE", "q"]), Answer::Integer(LARGE - 1));
    assert_eq!(place.fill_uncounted(), LARGE - 1, "for all");
}

#[test]
fn what_nobody_noted_is_found_by_the_next_count() {
    let mut place = Place::new(&["MAXMSGS", "1100"]);
    place.is_full_and_noted();
    assert_eq!(place.fill_uncounted(), 0);
    place.sql("UPDATE posthaste.room SET counted_ms = counted_ms - 61000, noted_ms = noted_ms - 61000");
    assert_eq!(place.fill(), 1, "a minute later");
    assert_eq!(place.messages(), LARGE);
}

#[test]
fn what_was_noted_is_not_walked_again_while_a_snapshot_is_held() {
    let mut place = Place::new(&["MAXMSGS", "1100"]);
    place.is_full_and_noted();
    let mut holder = Session::open(shared(), &place.database, "postgres");
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class LIMIT 1");
    for _ in 0..300 {
        place.ask(&["POP", "QUEUE", "q"]);
        assert!(matches!(place.ask(&["SEND", "q", "four"]), Answer::Integer(_)));
    }
    let queue = place.sql("SELECT id FROM posthaste.queue");
    let floor = place.sql(&format!("SET search_path = posthaste; SELECT not_done(room_of({queue}))"));
    let plan = place.sql(&format!(
        "SET enable_bitmapscan = off; SET enable_seqscan = off;
         EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT FROM posthaste.room_taken
         WHERE queue_id = {queue} AND transaction >= '{floor}'"
    ));
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("a plan");
    let walked = plan[0]["Plan"]["Heap Fetches"].as_u64().expect("a number of rows");
    assert!(walked < 50, "{walked} rows of what 300 transactions have noted: {plan}");
}

#[test]
fn what_is_noted_of_queues_to_which_no_batch_sends_is_settled_before_long() {
    let mut place = Place::new(&["MAXMSGS", "1100"]);
    place.hold(300);
    place.sql("SELECT posthaste.send('shop', 'q', 'x') FROM generate_series(1, 40)");
    place.sql("INSERT INTO posthaste.room_taken VALUES (123456, 1, 1)");
    let noted = "SELECT count(*) FROM posthaste.room_taken";
    assert_eq!(place.sql(noted), "41", "by SQL clients, and for a queue that is gone");
    place.sql("SELECT posthaste.settle_rooms()");
    assert_eq!(place.sql(noted), "0");
    assert_eq!(place.sql("SELECT messages FROM posthaste.room"), "760");
    place.hold(LARGE);
    assert_eq!(place.fill(), 0);
}

/// SENDs with keys go one by one, and those to several queues in turn.
#[test]
fn a_full_queue_is_counted_once_until_something_leaves_it() {
    let mut place = Place::new(&["MAXMSGS", "300"]);
    place.fills_up();
    let sends = "SELECT count(*) FROM generate_series(1, 10) AS n, posthaste.queue AS q, LATERAL posthaste.one(posthaste.now_ms(), \
        posthaste.current_part(), 0, 's', 1, q.name, q.id, null, null, null, ('key ' || n)::bytea, null, 'x'::bytea, 0, null, 0, \
        null, 0)";
    place.ask(&["QCREATE", "p", "MAXMSGS", "300"]);
    place.sql(
        "INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
         SELECT 0, id, id, (SELECT id FROM posthaste.queue WHERE name = 'p'), 1, 0, 0, 'x'
         FROM (SELECT nextval('posthaste.message_id') AS id FROM generate_series(1, 300)) AS new",
    );
    let counted = "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'count_room'";
    let set = "SET track_functions = 'all'; SET search_path = posthaste";
    let calls = place.sql(&format!("{set}; BEGIN; {sends}; {counted}; ROLLBACK"));
    assert_eq!(calls.lines().collect::<Vec<_>>(), ["20", "2"], "refusals, and counts of two queues");
}

#[test]
fn what_comes_beside_the_batches_takes_its_room() {
    let mut place = Place::new(&["MAXMSGS", "300"]);
    for _ in 0..260 {
        place.ask(&["SEND", "q", "x"]);
    }
    place.sql("SELECT posthaste.send('shop', 'q', 'x') FROM generate_series(1, 5)");
    place.ask(&["QCREATE", "work", "DEADLETTER", "q", "AFTER", "1"]);
    for _ in 0..4 {
        place.ask(&["SEND", "work", "x"]);
        let receipt = place.lease("work");
        assert_eq!(place.ask(&["NACK", &receipt]), Answer::Integer(1));
    }
    assert_eq!(place.messages(), 269);
    place.fills_up();
    let refused = shared().try_psql(&place.database, "SELECT posthaste.send('shop', 'q', 'x')");
    assert!(refused.is_err_and(|why| why.contains("MAXMSGS")), "an SQL client finds it full too");
    assert_eq!(place.messages(), LIMIT);
    assert_eq!(place.ask(&["QREDRIVE", "q", "work"]), Answer::Integer(4));
    place.fills_up();
    place.ask(&["POP", "QUEUE", "q", "COUNT", "10"]);
    place.sql("SELECT posthaste.send('shop', 'q', 'x') FROM generate_series(1, 3)");
    place.fills_up();
}

#[test]
fn an_sql_client_has_no_say_in_what_room_there_is() {
    let mut place = Place::new(&["MAXMSGS", "300"]);
    let id = place.sql("SELECT id FROM posthaste.queue WHERE name = 'q'");
    let claim = format!("SET posthaste.room = '{id} 1000000 1000000 1'; SET posthaste.\"full\" = '0'");
    let send = |count: i64| {
        format!("SELECT count(posthaste.send('shop', 'q', 'x')) FROM generate_series(1, {count})")
    };
    for before in [0, 250] {
        for _ in 0..before {
            place.ask(&["SEND", "q", "four"]);
        }
        let room = LIMIT - place.messages();
        let refused = shared().try_psql(&place.database, &format!("{claim}; {}", send(room + 1)));
        assert!(refused.is_err_and(|why| why.contains("MAXMSGS")), "one too many, behind {before}");
    }
    // Some of it is taken back, and may be sent again by the same transaction.
    let sent = format!("BEGIN; {}; SAVEPOINT s; {}; ROLLBACK TO s; {}; COMMIT", send(10), send(40), send(40));
    shared().try_psql(&place.database, &sent).expect("there is room for 50");
    assert_eq!(place.messages(), LIMIT);
    // Of transactions that are over nothing stays, once those are over too that began before.
    assert!((0..1000).any(|_| place.sql("SELECT count(*) FROM posthaste.room_beside") == "0"));
    // Nor of those to come, which a dump of another cluster brings along.
    place.sql("INSERT INTO posthaste.room_beside SELECT '9000000000'::xid8, 1, n, 1, 1 FROM generate_series(1, 3) AS n");
    wait_until("it is removed", || place.sql("SELECT count(*) FROM posthaste.room_beside") == "0");
    place.ask(&["POP", "QUEUE", "q", "COUNT", "3"]);
    place.fills_up();
}

#[test]
fn sql_clients_with_snapshots_of_their_own_do_not_fail_for_each_other() {
    let place = Place::new(&["MAXMSGS", "300"]);
    let send = "SELECT posthaste.send('shop', 'q', 'x')";
    let mut old = Session::open(shared(), &place.database, "postgres");
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        place.sql(send);
        old.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM pg_class LIMIT 1"));
        // What the first has noted may be gone by now, which the old one cannot see.
        place.sql(send);
        let sent = old.run(send);
        assert!(sent.parse::<i64>().is_ok(), "{level}: {sent}");
        old.run("COMMIT");
    }
}

#[test]
fn other_limits_are_another_room_and_a_deleted_queue_has_none() {
    let mut place = Place::new(&["MAXMSGS", "250"]);
    assert_eq!(place.fill(), 250);
    place.ask(&["QCREATE", "q", "MAXMSGS", "300"]);
    place.fills_up();
    place.ask(&["QCREATE", "q", "MAXBYTES", "1000000"]);
    assert!(matches!(place.ask(&["SEND", "q", "x"]), Answer::Integer(_)));
    place.ask(&["QCREATE", "q", "MAXMSGS", "300"]);
    assert_eq!(place.fill(), 0, "it holds more than it may now");
    assert_eq!(place.ask(&["QDELETE", "q"]), Answer::Integer(301));
    for table in ["room", "room_taken"] {
        assert_eq!(place.sql(&format!("SELECT count(*) FROM posthaste.{table}")), "0", "{table}");
    }
}

#[test]
fn readers_beside_senders_leave_as_much_room_as_they_take() {
    let mut place = Place::new(&["MAXMSGS", "1100"]);
    place.is_full_and_noted();
    let addr = place.server.addr();
    let asked = |words: &'static [&'static str], times: usize| {
        move || {
            let mut client = Client::login(addr, "ann").expect("a login");
            (0..times).filter(|_| !matches!(client.ask(words), Ok(Answer::Error(_) | Answer::Null))).count()
        }
    };
    let (sent, popped) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4).map(|_| scope.spawn(asked(&["SEND", "q", "four"], 150))).collect();
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(asked(&["POP", "QUEUE", "q"], 50))).collect();
        let by_sender = scope.spawn(asked(&["POP", "FROM", "ann"], 50));
        let sum = |threads: Vec<std::thread::ScopedJoinHandle<'_, usize>>| -> usize {
            threads.into_iter().map(|thread| thread.join().expect("it runs")).sum()
        };
        (sum(senders), sum(readers) + by_sender.join().expect("it runs"))
    });
    assert_eq!(popped, 250);
    assert!(sent <= popped, "{sent} were taken for {popped}");
    assert_eq!(place.fill_uncounted() as usize, popped - sent);
    assert_eq!(place.messages(), LARGE - 1, "it was not counted");
}

#[test]
fn senders_side_by_side_fill_it_to_the_limit_and_not_beyond() {
    let mut place = Place::new(&["MAXMSGS", "300"]);
    let addr = place.server.addr();
    let taken: i64 = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let mut client = Client::connect(addr).expect("a connection");
                    let sent = (0..150)
                        .filter(|_| matches!(client.ask(&["SEND", "q", "four"]), Ok(Answer::Integer(_))));
                    sent.count() as i64
                })
            })
            .collect();
        senders.into_iter().map(|sender| sender.join().expect("it runs")).sum()
    });
    assert_eq!(taken, LIMIT);
    assert_eq!(place.messages(), LIMIT);
}
