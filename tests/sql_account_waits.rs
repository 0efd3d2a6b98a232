//! Who waits for the end of an application's transaction that has logged an account in for the first time, and who must
//! not.

#[path = "support/client.rs"]
mod client;
#[path = "support/place.rs"]
mod place;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use place::{Place, ask, login, pop, together};
use posthaste_server::accounts::AccountsFile;
use support::patience::wait_until;

/// More connections than a middleware has workers name accounts that a transaction has logged in for the first time;
/// others are served all the while, and those in the same batches too.
#[test]
fn a_transaction_that_logs_somebody_in_keeps_nobody_waiting() {
    const THOSE: usize = 12;
    // All of them one after the other for a second each, or one of them for as long as a middleware waits.
    const WAITS: Duration = Duration::from_secs(10);
    let place = Place::new();
    let (server, mut app) = (place.middleware(&[]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    app.run("BEGIN; SELECT posthaste.login('kept'), posthaste.login('kept_too')");
    let mut those: Vec<_> = (0..THOSE).map(|_| Client::connect(server.addr()).expect("it runs")).collect();
    let begun = Instant::now();
    for _ in 0..3 {
        those.iter_mut().for_each(|one| one.send(&["LOGIN", "kept"]).expect("sent"));
        for _ in 0..20 {
            assert!(ask(&mut bob, &["SEND", "q", "z"]).integer().is_some());
            assert_eq!(pop(&mut bob).as_deref(), Some("z"));
        }
        for one in &mut those {
            let answer = one.answer().expect("it runs");
            let Answer::Error(text) = &answer else { panic!("{answer:?}") };
            assert!(text.starts_with("STORE ") && text.contains("nothing was changed"), "{text}");
        }
        let named = [
            &["SEND", "q", "1"][..],
            &["SEND", "q", "2", "TO", "kept_too"],
            &["SEND", "q", "3"],
            &["SEND", "q", "4", "TO", "kept", "PRIORITY", "1"],
            &["POP", "QUEUE", "q"],
            &["POP", "QUEUE", "q"],
        ];
        let answers = together(&mut bob, &named);
        assert!(answers[0].integer().is_some() && answers[2].integer().is_some(), "{answers:?}");
        assert!(answers[1].is_error("STORE") && answers[3].is_error("STORE"), "{answers:?}");
        assert_eq!([answers[4].body(), answers[5].body()], [Some("1"), Some("3")]);
    }
    assert!(begun.elapsed() < WAITS, "{:?}", begun.elapsed());
    app.run("COMMIT");
    for one in &mut those {
        assert!(!matches!(ask(one, &["LOGIN", "kept"]), Answer::Error(_)), "{}", server.log());
    }
    assert!(ask(&mut bob, &["SEND", "q", "x", "TO", "kept_too"]).integer().is_some());
}

/// Not for a second each, one after the other.
#[test]
fn a_transaction_that_logs_many_in_has_others_wait_for_it_once() {
    const THOSE: usize = 60;
    const WAITS: Duration = Duration::from_secs(THOSE as u64 / 2);
    let place = Place::new();
    let (server, mut app) = (place.middleware(&["--workers", "1"]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    app.run(&format!(
        "BEGIN; SELECT count(posthaste.login('kept ' || n)) FROM generate_series(1, {THOSE}) AS n"
    ));
    let mut those: Vec<_> = (0..THOSE).map(|_| Client::connect(server.addr()).expect("it runs")).collect();
    let begun = Instant::now();
    for (before, one) in those.iter_mut().enumerate() {
        one.send(&["LOGIN", &format!("kept {}", before + 1)]).expect("sent");
    }
    assert!(ask(&mut bob, &["SEND", "q", "x"]).integer().is_some());
    for one in &mut those {
        let answer = one.answer().expect("it runs");
        assert!(answer.is_error("STORE"), "{answer:?}");
    }
    assert!(begun.elapsed() < WAITS, "{:?}", begun.elapsed());
}

/// Not each of them again with every batch, for a moment that adds up.
#[test]
fn accounts_that_a_transaction_keeps_hold_up_later_batches_for_a_moment_together() {
    const THOSE: usize = 200;
    const ROUNDS: usize = 10;
    // One after the other each round takes two seconds.
    const WAITS: Duration = Duration::from_secs(ROUNDS as u64);
    let place = Place::new();
    let (server, mut app) = (place.middleware(&["--workers", "1"]), place.app());
    let mut bob = login(&server, "bob");
    ask(&mut bob, &["QCREATE", "q"]);
    app.run(&format!(
        "BEGIN; SELECT count(posthaste.login('kept_' || n)) FROM generate_series(1, {THOSE}) AS n"
    ));
    let names: Vec<String> = (1..=THOSE).map(|n| format!("kept_{n}")).collect();
    let sends: Vec<_> = names.iter().map(|name| ["SEND", "q", "x", "TO", name]).collect();
    let sends: Vec<_> = sends.iter().map(|words| &words[..]).collect();
    let all_are_refused = |bob: &mut Client| {
        let answers = together(bob, &sends);
        assert!(answers.iter().all(|answer| answer.is_error("STORE")), "{answers:?}");
    };
    // They are found.
    all_are_refused(&mut bob);
    let begun = Instant::now();
    (0..ROUNDS).for_each(|_| all_are_refused(&mut bob));
    assert!(begun.elapsed() < WAITS, "{:?}", begun.elapsed());
    app.run("COMMIT");
    // Those that a batch does not ask for are refused once more.
    wait_until("all are served", || together(&mut bob, &sends).iter().all(|one| one.integer().is_some()));
}

/// Of the accounts in a file, those that a transaction has logged in for the first time are registered at its end, and
/// the others at the start, which does not wait for it.
#[test]
fn a_transaction_that_logs_somebody_in_keeps_no_middleware_from_starting() {
    let place = Place::new();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("accounts.txt");
    for name in ["kept_a", "free", "kept_z"] {
        AccountsFile::set(&file, name, "secret", None).expect("it can be written");
    }
    let mut app = place.app();
    app.run("BEGIN; SELECT posthaste.login('kept_a'), posthaste.login('kept_z')");
    let server = place.middleware(&["--accounts", &file.display().to_string()]);
    let mut free = Client::connect(server.addr()).expect("it runs");
    assert!(ask(&mut free, &["LOGIN", "free", "secret"]).integer().is_some());
    ask(&mut free, &["QCREATE", "q"]);
    assert_eq!(ask(&mut free, &["ACCOUNTS"]).list().len(), 1);
    app.run("COMMIT");
    wait_until("all accounts are registered", || ask(&mut free, &["ACCOUNTS"]).list().len() == 3);
    assert_eq!(ask(&mut free, &["SEND", "q", "hello", "TO", "*"]).integer(), Some(2));
}

/// Whoever does not log in is the account `default`: without it a middleware cannot serve, so it waits for it.
#[test]
fn a_middleware_waits_at_its_start_for_a_transaction_that_keeps_the_default_account() {
    let place = Place::new();
    let mut app = place.app();
    app.run("BEGIN; SELECT posthaste.login('default')");
    let end = thread::spawn(move || {
        // Longer than a LOGIN waits.
        sleep(Duration::from_secs(3));
        app.run("COMMIT");
    });
    let server = place.middleware(&[]);
    end.join().expect("it ends");
    let mut client = Client::connect(server.addr()).expect("it runs");
    assert!(!matches!(ask(&mut client, &["QCREATE", "q"]), Answer::Error(_)));
}
