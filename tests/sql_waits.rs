//! Who waits for whom where applications call the SQL functions in transactions of their own, and who must not.

#[path = "support/client.rs"]
mod client;
#[path = "support/news.rs"]
mod news;
#[path = "support/place.rs"]
mod place;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::Answer;
use news::{is_told, wait_until_blocked};
use place::{BLOCK, Place, ask, begin_together, login, pop, together};
use postgres::shared;
use session::Session;
use support::ends::Ends;
use support::patience::wait_until;

/// How long a middleware waits for the database.
const GIVEN_UP: Duration = Duration::from_secs(30);

#[test]
fn whoever_waits_for_a_transaction_keeps_nobody_else_waiting() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    app.run("BEGIN; SELECT posthaste.delete_queue('q')");
    bob.send(&["SEND", "q", "x"]).expect("it runs");
    // The SEND waits by now, or will without harm; the newcomer's number is noted while it does.
    sleep(Duration::from_millis(200));
    drop(login(&server, "newcomer"));
    let mut ann = login(&server, "bob");
    assert_eq!(ask(&mut ann, &["PING"]).text(), Some("PONG"));
    app.run("COMMIT");
    assert!(bob.answer().expect("it runs").is_error("NOQUEUE"));
}

/// Two middlewares look all the time whether the queue is free.
#[test]
fn a_transaction_that_others_wait_for_makes_the_queue_anew_that_it_has_deleted() {
    let place = Place::new();
    let (servers, mut app) = ([(); 2].map(|()| place.middleware(&[])), place.app());
    app.run("SELECT posthaste.create_queue('q')");
    app.run("BEGIN; SELECT posthaste.delete_queue('q')");
    let mut those = servers.each_ref().map(|server| login(server, "ann"));
    for (server, one) in servers.iter().zip(&mut those) {
        one.send(&["SEND", "q", "x"]).expect("sent");
        server.wait_for_log("another transaction holds a lock on the row of queue 'q'");
    }
    // Each look waits for a second.
    sleep(Duration::from_millis(1500));
    let made = app.run("SELECT posthaste.create_queue('q')");
    assert!(made.parse::<i64>().is_ok(), "{made}");
    app.run("COMMIT");
    for one in &mut those {
        let answer = one.answer().expect("it runs");
        assert!(answer.integer().is_some(), "{answer:?}");
    }
}

/// More connections than a middleware has workers ask for a queue whose row a transaction keeps; others are served all
/// the while.
#[test]
fn a_transaction_that_is_left_open_keeps_only_those_waiting_who_ask_for_its_queue() {
    const THOSE: usize = 12;
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    for (end, answered) in [("ROLLBACK", "sent"), ("COMMIT", "NOQUEUE")] {
        for queue in ["q", "other"] {
            ask(&mut bob, &["QCREATE", queue]);
        }
        app.run("BEGIN; SELECT posthaste.delete_queue('q')");
        let mut those: Vec<_> = (0..THOSE).map(|_| login(&server, "ann")).collect();
        for one in &mut those {
            // What stands before it in its pipeline is done, and what stands behind it is done after it.
            for words in [&["SEND", "other", "x"][..], &["SEND", "q", "y"], &["POP", "QUEUE", "other"]] {
                one.send(words).expect("sent");
            }
            assert!(one.answer().expect("it runs").integer().is_some());
        }
        let begun = Instant::now();
        for _ in 0..50 {
            assert!(ask(&mut bob, &["SEND", "other", "z", "TO", "bob"]).integer().is_some());
            assert_eq!(ask(&mut bob, &["POP", "QUEUE", "other", "FROM", "bob"]).body(), Some("z"));
        }
        assert!(begun.elapsed() < GIVEN_UP, "{:?}", begun.elapsed());
        app.run(end);
        for one in &mut those {
            let answer = one.answer().expect("it runs");
            match answered {
                "sent" => assert!(answer.integer().is_some(), "{answer:?}"),
                word => assert!(answer.is_error(word), "{answer:?}"),
            }
            assert_eq!(one.answer().expect("it runs").body(), Some("x"));
        }
    }
    assert!(
        server.log().contains("another transaction holds a lock on the row of queue 'q'"),
        "{}",
        server.log()
    );
}

/// Holders of leases whose rows a transaction keeps, each of whom is told so after two seconds, ask again at once.
#[test]
fn who_holds_leases_that_a_transaction_keeps_has_others_wait_for_that_once() {
    const HOLDERS: usize = 32;
    const ROUNDS: usize = 3;
    // What waits with the first of them waits as long; after that nothing does. All of them one after the other take a
    // minute.
    const WAITS: Duration = Duration::from_secs(8);
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    for queue in ["q", "other"] {
        ask(&mut bob, &["QCREATE", queue]);
    }
    let mut holders: Vec<_> = (0..HOLDERS)
        .map(|_| {
            ask(&mut bob, &["SEND", "q", "x"]);
            let mut holder = login(&server, "ann");
            let leased = ask(&mut holder, &["POP", "QUEUE", "q", "LEASE", "600000"]);
            (holder, leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned())
        })
        .collect();
    app.run("BEGIN; SELECT posthaste.delete_queue('q')");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (server, over, ends) = (&server, &over, Ends(&over));
        let others: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn(move || {
                    let (name, mut waited) = (format!("other {number}"), Vec::new());
                    let mut one = login(server, &name);
                    while !over.load(Ordering::Relaxed) {
                        let begun = Instant::now();
                        assert!(ask(&mut one, &["SEND", "other", "y", "TO", &name]).integer().is_some());
                        assert_eq!(ask(&mut one, &["POP", "QUEUE", "other"]).body(), Some("y"));
                        waited.push(begun.elapsed());
                    }
                    waited
                })
            })
            .collect();
        sleep(Duration::from_millis(200)); // they are at it
        for (number, (holder, receipt)) in holders.iter_mut().enumerate() {
            scope.spawn(move || {
                let requests = [&["ACK", receipt][..], &["NACK", receipt], &["EXTEND", receipt, "600000"]];
                let words = requests[number % requests.len()];
                for _ in 0..ROUNDS {
                    let answer = ask(holder, words);
                    assert!(answer.is_error("STORE"), "{words:?} while it is locked: {answer:?}");
                }
            });
        }
        sleep(2 * WAITS);
        drop(ends);
        for other in others {
            let waited = other.join().expect("no panic");
            let long = waited.iter().filter(|waited| **waited > Duration::from_secs(1)).collect::<Vec<_>>();
            println!("{} requests, those that waited: {long:?}", waited.len());
            assert!(long.iter().copied().sum::<Duration>() < WAITS, "{long:?}");
        }
    });
    app.run("ROLLBACK");
    for (holder, receipt) in &mut holders {
        assert_eq!(ask(holder, &["ACK", receipt]), Answer::Integer(1), "{}", server.log());
    }
}

/// More connections than a middleware has workers make a queue that a transaction is making.
#[test]
fn a_transaction_that_makes_a_queue_keeps_only_those_waiting_who_make_it_too() {
    const THOSE: usize = 12;
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "other"]);
    for end in ["ROLLBACK", "COMMIT"] {
        let id = app.run("BEGIN; SELECT posthaste.create_queue('q')");
        let mut those: Vec<_> = (0..THOSE).map(|_| login(&server, "ann")).collect();
        those.iter_mut().for_each(|one| one.send(&["QCREATE", "q"]).expect("sent"));
        let begun = Instant::now();
        for _ in 0..50 {
            assert!(ask(&mut bob, &["SEND", "other", "z"]).integer().is_some());
        }
        assert!(begun.elapsed() < GIVEN_UP, "{:?}", begun.elapsed());
        app.run(end);
        for one in &mut those {
            let made = one.answer().expect("it runs").integer().expect("a number");
            assert_eq!(made.to_string() == id, end == "COMMIT");
        }
        ask(&mut bob, &["QDELETE", "q"]);
    }
}

#[test]
fn who_asks_for_a_queue_that_stays_locked_is_told_so_in_the_end() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    // One waits for a message and goes on with that, whatever others are told.
    let mut ann = login(&server, "ann");
    ann.send(BLOCK).expect("sent");
    wait_until_blocked(server.addr(), 1);
    ask(&mut bob, &["QCREATE", "r"]);
    app.run("BEGIN; SELECT posthaste.delete_queue('q'), posthaste.delete_queue('r')");
    let begun = Instant::now();
    // What came together has waited together.
    let answers = together(&mut bob, &[&["SEND", "q", "x"], &["SEND", "r", "x"], &["SEND", "q", "x"]]);
    assert!(begun.elapsed() < 2 * GIVEN_UP, "{:?}", begun.elapsed());
    for (answer, queue) in answers.iter().zip(["q", "r", "q"]) {
        let Answer::Error(text) = answer else { panic!("{answer:?}") };
        let names = format!("queue '{queue}'");
        assert!(
            text.starts_with("STORE ") && text.contains(&names) && text.contains("nothing was changed"),
            "{text}"
        );
    }
    app.run("ROLLBACK");
    assert!(ask(&mut bob, &["SEND", "q", "y"]).integer().is_some());
    assert_eq!(ann.answer().expect("an answer").body(), Some("y"));
}

#[test]
fn a_blocked_pop_is_woken_by_the_commit_and_not_before() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for send in ["send('app', 'q', 'x')", "send('new', 'q', 'x', 'bob')"] {
        bob.send(BLOCK).expect("sent");
        wait_until_blocked(server.addr(), 1);
        app.run(&format!("BEGIN; SELECT posthaste.{send}"));
        let (committed, popped) = thread::scope(|scope| {
            let popper = scope.spawn(|| (bob.answer().expect("an answer"), Instant::now()));
            sleep(Duration::from_millis(1300)); // longer than it takes all to look for themselves
            let committed = Instant::now();
            app.run("COMMIT");
            (committed, popper.join().expect("no panic"))
        });
        assert_eq!(popped.0.body(), Some("x"), "{send}");
        assert!(popped.1 > committed, "{send}: before the commit");
        let woken_after = || {
            bob.send(BLOCK).expect("sent");
            wait_until_blocked(server.addr(), 1);
            app.run(&format!("BEGIN; SELECT posthaste.{send}"));
            let committed = Instant::now();
            app.run("COMMIT");
            assert_eq!(bob.answer().expect("an answer").body(), Some("x"), "{send}");
            committed.elapsed()
        };
        assert!(is_told(woken_after), "{send}: not by the commit");
    }
}

#[test]
fn who_begins_to_wait_before_the_commit_is_told_and_else_nobody() {
    let place = Place::new();
    let (mut app, mut listener) = (place.app(), Session::open(shared(), &place.database, "postgres"));
    let queue = app.run("SELECT posthaste.create_queue('q')");
    let alice = app.run("SELECT posthaste.login('alice')");
    let bob = app.run("SELECT posthaste.login('bob')");
    listener.run("LISTEN posthaste");
    let mut heard = || {
        let said = listener.run("SELECT pg_sleep(0.1)");
        let told = said.lines().filter_map(|line| line.split_once("with payload ")?.1.split('"').nth(1));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    app.run("SELECT posthaste.send('alice', 'q', 'x')");
    assert_eq!(heard(), [""; 0], "nobody waits");
    app.run("BEGIN; SELECT posthaste.send('alice', 'q', 'x'), posthaste.send('alice', 'q', 'x', 'bob')");
    place.as_owner("SELECT posthaste.watch_news(1, 600000)");
    assert_eq!(heard(), [""; 0], "not committed");
    app.run("COMMIT");
    assert_eq!(heard(), [format!("0 {queue},{alice},0"), format!("0 {queue},{alice},{bob}")]);
    app.run("BEGIN; SELECT posthaste.send('alice', 'q', 'x'); ROLLBACK");
    assert_eq!(heard(), [""; 0], "taken back");
    app.run("SELECT posthaste.delete_queue('q')");
    assert_eq!(heard(), [format!("0 {queue},0,0")], "sender 0: the queue is gone");
}

#[test]
fn a_blocked_pop_learns_that_its_queue_was_deleted() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    let woken_after = || {
        ask(&mut bob, &["QCREATE", "q"]);
        bob.send(BLOCK).expect("sent");
        wait_until_blocked(server.addr(), 1);
        let deleted = Instant::now();
        assert_eq!(app.run("SELECT posthaste.delete_queue('q')"), "0");
        assert!(bob.answer().expect("an answer").is_error("NOQUEUE"));
        deleted.elapsed()
    };
    assert!(is_told(woken_after));
}

#[test]
fn an_open_transaction_keeps_no_middleware_waiting() {
    let place = Place::new();
    let (server, mut app) = (place.middleware(&["--workers", "1"]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    ask(&mut bob, &["SEND", "q", "first"]);
    app.run("BEGIN; SELECT posthaste.send('first named', 'q', 'by sql', 'newcomer')");
    app.run("SELECT * FROM posthaste.pop('bob', 'q')");
    // Whoever waited for this transaction would wait for good: it ends when all of them have their answers.
    let mut newcomer = login(&server, "newcomer");
    assert!(ask(&mut newcomer, &["SEND", "q", "by resp", "TO", "first named"]).integer().is_some());
    assert!(ask(&mut bob, &["SEND", "q", "to newcomer", "TO", "newcomer"]).integer().is_some());
    app.run("COMMIT");
    // The accounts were made by others meanwhile; the message belongs to them now, ahead of the younger one.
    assert_eq!(pop(&mut newcomer).as_deref(), Some("by sql"));
    let message = ask(&mut newcomer, &["POP", "FROM", "bob"]);
    assert_eq!(message.body(), Some("to newcomer"));
    let mut first = login(&server, "first named");
    assert_eq!(pop(&mut first).as_deref(), Some("by resp"));
    let twice = "SELECT count(*), count(DISTINCT name) FROM posthaste.account";
    assert_eq!(place.as_owner(twice), "4|4", "bob, these two, and default");
    assert_eq!(place.as_owner("SELECT count(*) FROM posthaste.newcomer"), "0");
}

#[test]
fn a_lease_counts_from_when_the_queue_was_free_and_not_from_when_it_was_asked_for() {
    const LEASE: &str = "600000";
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    for pop in
        [&["POP", "QUEUE", "q", "LEASE", LEASE][..], &["POP", "QUEUE", "q", "COUNT", "2", "LEASE", LEASE]]
    {
        ask(&mut bob, &["SEND", "q", "x"]);
        let mut slow = Session::open(shared(), &place.database, "postgres");
        slow.run("BEGIN; SELECT FROM posthaste.queue WHERE name = 'q' FOR UPDATE");
        bob.send(pop).expect("sent");
        place.wait_for_waiting("it waits for the queue's row");
        let free = place.as_owner("SELECT posthaste.now_ms()");
        slow.run("COMMIT");
        bob.answer().expect("an answer");
        let in_time = format!("SELECT bool_and(due_ms >= {free} + {LEASE}) FROM posthaste.message");
        assert_eq!(place.as_owner(&in_time), "t", "{pop:?}");
        ask(&mut bob, &["QPURGE", "q"]);
    }
}

/// What a batch waits for in the middle takes nothing off the leases that it gives before and after.
#[test]
fn a_lease_counts_from_when_its_batch_waits_no_more() {
    const LEASE: &str = "600000";
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    let mut slow = Session::open(shared(), &place.database, "postgres");
    ask(&mut bob, &["QCREATE", "q"]);
    let receipt =
        |leased: &Answer| leased.get("receipt").and_then(Answer::text).expect("a receipt").to_owned();
    for waits in ["ACK", "NACK", "QDELETE", "QPURGE"] {
        for (kind, waits_first) in (0..4).flat_map(|kind| [(kind, true), (kind, false)]) {
            ask(&mut bob, &["QCREATE", "held"]);
            ask(&mut bob, &["SEND", "held", "x"]);
            let held = receipt(&ask(&mut bob, &["POP", "QUEUE", "held", "LEASE", LEASE]));
            slow.run("BEGIN; SELECT FROM posthaste.message WHERE holder_id IS NOT NULL FOR UPDATE");
            ask(&mut bob, &["SENDMANY", "q", "1", "2"]);
            let first = receipt(&ask(&mut bob, &["POP", "QUEUE", "q", "LEASE", LEASE]));
            let pop: &[&str] = &["POP", "QUEUE", "q", "LEASE", LEASE];
            let leases: &[&[&str]] = match kind {
                0 => &[pop],
                1 => &[pop, pop],
                2 => &[&["POP", "QUEUE", "q", "BROADCAST", "LEASE", LEASE]],
                _ => &[&["EXTEND", &first, LEASE]],
            };
            let waiting: &[&[&str]] =
                if waits.starts_with('Q') { &[&[waits, "held"]] } else { &[&[waits, &held]] };
            let [before, after] = if waits_first { [waiting, leases] } else { [leases, waiting] };
            let begun: u64 = place.as_owner("SELECT posthaste.now_ms()").parse().expect("a number");
            begin_together(&mut bob, &[before, after].concat());
            // The queue is waited for in vain, for 300 ms; the lease until it is let go.
            let mut until = begun + 300;
            if !waits.starts_with('Q') {
                place.wait_for_waiting("it waits for the row");
                sleep(Duration::from_millis(100));
                until = place.as_owner("SELECT posthaste.now_ms()").parse().expect("a number");
                slow.run("COMMIT");
            }
            for _ in 0..=leases.len() {
                let answer = bob.answer().expect("an answer");
                assert!(!matches!(answer, Answer::Error(_)) || answer.is_error("BUSY"), "{answer:?}");
            }
            // What was leased alone before has its time from then.
            let last = if kind == 3 { "min" } else { "max" };
            let due = place.as_owner(&format!(
                "SELECT {last}(due_ms) - {LEASE} FROM posthaste.message JOIN posthaste.queue q ON q.id = queue_id WHERE q.name = 'q'"
            ));
            let due: u64 = due.parse().expect("a number");
            assert!(due >= until, "{waits}, kind {kind}, waits first: {waits_first}: {due} < {until}");
            slow.run("COMMIT");
            for queue in ["held", "q"] {
                ask(&mut bob, &["QPURGE", queue]);
            }
        }
    }
}

/// Whoever deletes and purges queues that a transaction uses is told so, and waits for that once.
#[test]
fn a_batch_waits_once_for_queues_that_are_in_use() {
    const QUEUES: usize = 16;
    // Without it: 300 ms for each, 4.8 s.
    const WAITS: Duration = Duration::from_secs(3);
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let [mut bob, mut eve] = ["bob", "eve"].map(|name| login(&server, name));
    let names: Vec<String> = (0..QUEUES).map(|number| format!("used{number}")).collect();
    ask(&mut bob, &["QCREATE", "q"]);
    app.run("BEGIN");
    for (number, name) in names.iter().enumerate() {
        ask(&mut bob, &["QCREATE", name]);
        ask(&mut bob, &["SEND", name, "x"]);
        app.run(&format!("SELECT posthaste.pop('app', '{name}')"));
        if number % 2 == 0 {
            app.run(&format!("SELECT posthaste.send('app', '{name}', 'y')"));
        }
    }
    let mut waits_once = |word: &str| {
        let words: Vec<[&str; 2]> = names.iter().map(|name| [word, name.as_str()]).collect();
        let mut pipeline: Vec<&[&str]> = vec![&["SEND", "q", "1"]];
        pipeline.extend(words.iter().map(|words| &words[..]));
        let begun = Instant::now();
        begin_together(&mut bob, &pipeline);
        sleep(Duration::from_millis(50));
        // It uses a queue that the batch keeps locked.
        assert!(ask(&mut eve, &["SEND", "q", "2"]).integer().is_some());
        let waited = begun.elapsed();
        println!("{word}: another one was answered after {waited:?}");
        assert!(bob.answer().expect("an answer").integer().is_some());
        for _ in &names {
            let answer = bob.answer().expect("an answer");
            assert!(answer.is_error("BUSY"), "{word}: {answer:?}");
        }
        waited < WAITS
    };
    for word in ["QDELETE", "QPURGE"] {
        assert!((0..10).any(|_| waits_once(word)), "{word}: ten times it waited for each");
    }
    app.run("ROLLBACK");
    let words: Vec<[&str; 2]> = names.iter().map(|name| ["QDELETE", name.as_str()]).collect();
    let pipeline: Vec<&[&str]> = words.iter().map(|words| &words[..]).collect();
    for answer in together(&mut bob, &pipeline) {
        assert_eq!(answer, Answer::Integer(1));
    }
}

/// Each of the others passes over what the transaction has taken, and must not look at all of it again for each message.
#[test]
fn a_transaction_that_takes_many_messages_does_not_slow_down_those_who_pass_them_over() {
    const TAKEN: usize = 1000;
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    place.as_owner(&format!(
        "SELECT count(posthaste.send('app', 'q', n::text)) FROM generate_series(0, {TAKEN} + 2) n"
    ));
    let take = format!(
        "SELECT count(*) FROM (SELECT posthaste.pop('app', 'q') FROM generate_series(1, {TAKEN})) AS taken"
    );
    assert_eq!(app.run(&format!("BEGIN; {take}")), TAKEN.to_string());
    // What one pop looks at, as often as it looks.
    let looked =
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'message_aside'";
    let popped = "SELECT count(*) FROM posthaste.pop('app', 'q')";
    let read = place.as_owner(&format!("BEGIN; {popped}; {looked}; ROLLBACK"));
    let read: usize = read.lines().last().and_then(|read| read.parse().ok()).expect("a number");
    assert!((TAKEN..20 * TAKEN).contains(&read), "{read} rows for one message behind {TAKEN}");
    for body in [TAKEN, TAKEN + 1, TAKEN + 2] {
        assert_eq!(pop(&mut bob), Some(body.to_string()));
    }
    assert_eq!(pop(&mut bob), None);
    app.run("ROLLBACK");
    assert_eq!(pop(&mut bob).as_deref(), Some("0"));
}

/// In one batch, each of several pops need not try again what another one has just found taken.
#[test]
fn pops_of_one_batch_learn_from_each_other_what_is_taken() {
    const TAKEN: usize = 2000;
    const POPS: usize = 64;
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    place.as_owner(&format!(
        "SELECT count(posthaste.send('app', 'q', n::text)) FROM generate_series(1, {TAKEN}) n"
    ));
    app.run(&format!(
        "BEGIN; SELECT count(*) FROM (SELECT posthaste.pop('app', 'q') FROM generate_series(1, {TAKEN})) AS taken"
    ));
    let pops = format!(
        "SELECT count(*) FROM generate_series(1, {POPS}) AS n, LATERAL posthaste.pop_one(n, posthaste.now_ms(), n, \
         (SELECT id FROM posthaste.queue), null, false, false, 1, null) AS a WHERE a.kind = 'e'"
    );
    let tried = "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'take'";
    let said = place.as_owner(&format!(
        "SET track_functions = 'all'; SET search_path = posthaste; BEGIN; SET LOCAL posthaste.passed = '0'; {pops}; {tried}; ROLLBACK"
    ));
    let said: Vec<usize> = said.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(said, [POPS, TAKEN], "pops that found nothing, and messages that were tried");
}

/// A POP that comes too late for a message may lock the row that the winner's lease made of it, until it commits.
#[test]
fn what_a_holder_does_is_never_refused_because_somebody_has_the_row_locked() {
    let place = Place::new();
    let server = place.middleware(&[]);
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    ask(&mut bob, &["SEND", "q", "x"]);
    let leased = ask(&mut bob, &["POP", "QUEUE", "q", "LEASE", "600000"]);
    let receipt = leased.get("receipt").and_then(Answer::text).expect("a receipt");
    let mut late = Session::open(shared(), &place.database, "postgres");
    late.run("BEGIN; SELECT id FROM posthaste.message WHERE holder_id IS NOT NULL FOR UPDATE");
    let requests = [&["EXTEND", receipt, "600000"][..], &["NACK", receipt], &["ACK", receipt]];
    for words in requests {
        let answer = ask(&mut bob, words);
        assert!(answer.is_error("STORE"), "{words:?} while it is locked: {answer:?}");
    }
    late.run("ROLLBACK");
    assert_eq!(ask(&mut bob, &["EXTEND", receipt, "600000"]), Answer::Integer(1));
    assert_eq!(ask(&mut bob, &["ACK", receipt]), Answer::Integer(1));
}

#[test]
fn who_makes_the_same_queue_takes_turns_and_gives_up_in_time() {
    let place = Place::new();
    let (mut first, mut second) = (place.app(), place.app());
    first.run("BEGIN; SELECT posthaste.create_queue('q')");
    assert!(second.run("SELECT posthaste.create_queue('q')").starts_with("ERROR:  PHBSY:"));
    first.run("ROLLBACK");
    // Where the machine stands still for longer than it is asked again, the second one gives up: then another queue.
    let takes_its_turn = |attempt: usize| {
        let create = format!("SELECT posthaste.create_queue('q{attempt}')");
        let id = first.run(&format!("BEGIN; {create}"));
        second.begin(&create);
        let asks = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%create_queue%' AND wait_event = 'PgSleep' AND datname = current_database()";
        wait_until("the second one asks", || place.as_owner(asks) != "0" || second.has_answered());
        first.run("COMMIT");
        let answer = second.finish();
        assert!(answer == id || answer.starts_with("ERROR:  PHBSY:"), "{answer}");
        answer == id
    };
    assert!((0..20).any(takes_its_turn), "it never takes its turn");
}

/// Whose row it has not locked.
#[test]
fn a_batch_that_makes_a_queue_without_a_name_takes_no_other_for_one_of_its_own() {
    let place = Place::new();
    let mut batch = Session::open(shared(), &place.database, "postgres");
    batch.run("SET search_path = posthaste; BEGIN");
    let mine = batch.run("SELECT add_queue(null)");
    let foreign = place.as_owner("SELECT posthaste.create_queue(null)");
    let made = |at: &str| {
        format!("SELECT with_made(ARRAY[null, null]::bigint[], ARRAY['{mine}', '{foreign}'], ARRAY[{at}])")
    };
    assert_eq!(batch.run(&made("0")), format!("{{{mine},NULL}}"));
    assert_eq!(batch.run(&made("0, 2")), format!("{{{mine},{foreign}}}"), "by its name, which was locked");
}
