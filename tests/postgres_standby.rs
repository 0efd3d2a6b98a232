//! Several servers in the URL: a standby is passed over, and takes over when it is promoted.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/crew.rs"]
mod crew;

#[path = "support/news.rs"]
mod news;

#[path = "support/pair.rs"]
mod pair;

#[path = "support/pooler.rs"]
mod pooler;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use crew::Crew;
use news::wait_until_blocked;
use pair::{primary, standby_of, url};
use pooler::Pooler;
use postgres::Postgres;
use session::Session;
use support::Server;
use support::patience::wait_for;

/// Two servers, the second of which has everything that the first one acknowledged; and a database.
fn pair() -> (Postgres, Postgres, String) {
    let primary = primary();
    let database = primary.create_database();
    let standby = standby_of(&primary);
    (primary, standby, database)
}

#[test]
fn a_standby_is_refused_and_the_next_server_asked() {
    let (primary, standby, database) = pair();
    // By its own word, or by what is refused of it.
    for attributes in ["", "?target_session_attrs=any"] {
        let mut alone = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        let store = standby.url(&database) + attributes;
        alone.args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", &store]);
        let output = alone.output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("takes no writes") && said.contains("name the primary"), "{said}");
    }
    let server = Server::start(&url([&standby, &primary], &database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    assert!(client.ask(&["SEND", "q", "hello"]).expect("it runs").integer().is_some());
    let popped = client.ask(&["POP", "QUEUE", "q"]).expect("it runs");
    assert_eq!(popped.body(), Some("hello"));
}

#[test]
fn a_promoted_standby_has_everything_and_is_found() {
    let (mut primary, standby, database) = pair();
    let server = Server::start_with_http(&url([&primary, &standby], &database), &[]);
    let crew = Crew::start(&[server.addr()], 6);
    crew.is_busy();
    primary.kill9();
    wait_for("it says why it is not ready", || {
        let (status, said) = server.readiness();
        let says_why = status == 503 && said.contains("is it running") && said.contains("takes no writes");
        if says_why { Ok(()) } else { Err(format!("{status} {said}")) }
    });
    crew.notices();
    standby.promote();
    wait_until_used(&mut Client::connect(server.addr()).expect("it runs"));
    crew.is_busy();
    crew.finish(server.addr());
}

/// As at a switch, if the pooler is the first to know.
#[test]
fn a_pooler_that_leads_to_a_standby_is_asked_again_until_that_takes_over() {
    const SESSIONS: usize = 3;
    let (primary, standby, database) = pair();
    let pooler = Pooler::start(&primary, SESSIONS);
    let server = Server::start_with_http(&pooler.url(&database), &[]);
    let [mut ann, mut bob] = ["ann", "bob"].map(|name| Client::login(server.addr(), name).expect("it runs"));
    ask(&mut ann, "QCREATE q");
    bob.send(&["POP", "QUEUE", "q", "BLOCK", "600000"]).expect("it runs");
    wait_until_blocked(server.addr(), 1);
    pooler.turn_to(&standby, SESSIONS);
    // Not for bob: the first one may still come to the primary.
    wait_for("requests are told why", || match ann.ask(&["SEND", "q", "y", "TO", "ann"]).expect("it runs") {
        Answer::Error(text) if text.contains("takes no writes") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    let (status, said) = server.readiness();
    assert!(status == 503 && said.contains("takes no writes"), "{status} {said}");
    standby.promote();
    wait_until_used(&mut ann);
    ask(&mut ann, "SEND q x");
    assert_eq!(bob.answer().expect("it has waited on").body(), Some("x"));
}

#[test]
fn whoever_asks_is_told_that_writes_wait_for_a_standby() {
    let primary = primary();
    let database = primary.create_database();
    let server = Server::start(&primary.url(&database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    let advice = || {
        let mut admin = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        let output = admin.args(["admin", "store", "--store", &primary.url(&database)]).output();
        String::from_utf8_lossy(&output.expect("the program runs").stdout).into_owned()
    };
    assert!(!advice().contains("wait for a standby"), "nobody does");
    confirmed_by(&primary, "ANY 1 (gone)");
    let mut sent = 0;
    // The first may be confirmed yet, for the server hears of its settings a moment later.
    wait_for("the advice", || {
        client.send(&["SEND", "q", "hello"]).expect("it runs");
        sent += 1;
        let said = advice();
        let is_told = said.contains("writes wait for a standby") && said.contains("'ANY 1 (gone)'");
        assert!(!said.contains("pg_cancel_backend"), "that would help nobody: {said}");
        if is_told { Ok(()) } else { Err(said) }
    });
    confirmed_by(&primary, "");
    for _ in 0..sent {
        assert!(client.answer().expect("it runs").integer().is_some());
    }
}

/// Somebody who wants to go on without a standby may end the wait for it: what was written then is on this server
/// alone, and gone after a failover.
#[test]
fn the_outcome_of_a_write_that_no_standby_has_confirmed_is_said_to_be_unknown() {
    let primary = primary();
    let database = primary.create_database();
    let server = Server::start(&primary.url(&database), &[]);
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    confirmed_by(&primary, "ANY 1 (gone)");
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
        WHERE wait_event = 'SyncRep' AND query ~ 'posthaste.(send_alone|apply)'";
    let mut sent = 0;
    // The first may be confirmed yet, for the server hears of its settings a moment later.
    wait_for("somebody ends the wait", || {
        client.send(&["SEND", "q", "hello"]).expect("it runs");
        sent += 1;
        let ended = primary.psql("postgres", cancel);
        if ended == "t" { Ok(()) } else { Err(ended) }
    });
    let mut answers = (0..sent).map(|_| client.answer().expect("it runs"));
    let told = answers.find_map(|answer| match answer {
        Answer::Error(text) => Some(text),
        _ => None,
    });
    let told = told.expect("not all are said to be done");
    assert!(told.starts_with("STORE ") && told.contains("standby") && told.contains("unknown"), "{told}");
    confirmed_by(&primary, "");
    assert!(answers.all(|answer| answer.integer().is_some()));
    let popped = client.ask(&["POP", "QUEUE", "q", "COUNT", "10000"]).expect("it runs");
    assert_eq!(popped.list().len(), sent, "it was done here");
}

/// What hangs for one of them would hang for each.
#[test]
fn logins_that_no_standby_confirms_are_given_up_together() {
    const THOSE: usize = 6;
    // A database is waited for that does not answer for 30 s.
    const WAITS: Duration = Duration::from_secs(80);
    let primary = primary();
    let database = primary.create_database();
    let server = Server::start(&primary.url(&database), &["--workers", "1"]);
    let mut ann = Client::login(server.addr(), "ann").expect("it runs");
    ask(&mut ann, "QCREATE q");
    let connect = || Client::connect(server.addr()).expect("it runs");
    let (mut first, mut those) = (connect(), [(); THOSE].map(|()| connect()));
    // The worker waits for this transaction for a second, and takes the others together after it.
    let mut app = Session::open(&primary, &database, "postgres");
    app.run("BEGIN; SELECT posthaste.login('kept')");
    first.send(&["LOGIN", "kept"]).expect("it runs");
    confirmed_by(&primary, "ANY 1 (gone)");
    let begun = Instant::now();
    for (one, number) in those.iter_mut().zip(0..) {
        one.send(&["LOGIN", &format!("new_{number}")]).expect("it runs");
    }
    ann.send(&["PEEK", "QUEUE", "q"]).expect("it runs");
    for one in &mut those {
        let answer = one.answer().expect("it runs");
        assert!(answer.is_error("STORE"), "{answer:?}");
    }
    assert_eq!(ann.answer().expect("it runs"), Answer::Null, "who writes nothing is served");
    assert!(begun.elapsed() < WAITS, "{:?}", begun.elapsed());
    confirmed_by(&primary, "");
    wait_for("they are let in", || match those[0].ask(&["LOGIN", "new_0"]).expect("it runs") {
        Answer::Integer(_) => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
}

/// Has every write wait for these standbys.
fn confirmed_by(primary: &Postgres, standbys: &str) {
    primary.psql("postgres", &format!("ALTER SYSTEM SET synchronous_standby_names = '{standbys}'"));
    primary.psql("postgres", "SELECT pg_reload_conf()");
}

/// Waits until a promoted standby is used.
#[track_caller]
fn wait_until_used(client: &mut Client) {
    wait_for("the promoted standby is used", || {
        let answer = client.ask(&["QCREATE", "probe"]).expect("it runs");
        if answer.integer().is_some() { Ok(()) } else { Err(format!("{answer:?}")) }
    });
}

/// A standby that has what is on the primary now, and will get nothing more.
fn laggard_of(primary: &Postgres) -> Postgres {
    let standby = Postgres::standby_of(primary, &["hot_standby=on"]);
    standby.psql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
    standby.psql("postgres", "SELECT pg_reload_conf()");
    let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
    wait_for("the standby follows no more", || {
        if standby.psql("postgres", receivers) == "0" { Ok(()) } else { Err(standby.log()) }
    });
    standby
}

/// What one request is answered, which is no error.
fn ask(client: &mut Client, request: &str) -> Answer {
    let answer = client.ask(&request.split(' ').collect::<Vec<_>>()).expect("it runs");
    assert!(!matches!(answer, Answer::Error(_)), "{request}: {answer:?}");
    answer
}

#[test]
fn who_takes_over_from_an_earlier_state_gives_nobody_what_is_for_another_and_overlooks_nothing() {
    const SESSIONS: usize = 3;
    for is_pooled in [false, true] {
        let mut primary = primary();
        let database = primary.create_database();
        primary.psql(&database, "SELECT posthaste.create_queue('q')");
        let standby = laggard_of(&primary);
        let pooler = is_pooled.then(|| Pooler::start(&primary, SESSIONS));
        let direct = url([&primary, &standby], &database);
        let server = Server::start(&pooler.as_ref().map_or(direct, |pooler| pooler.url(&database)), &[]);
        let login = |name: &str| Client::login(server.addr(), name).expect("it runs");
        let (mut ann, mut bob) = (login("ann"), login("bob"));
        // It learns bob's number, and below which ids there is nothing.
        let many = format!("SENDMANY q{}", " x".repeat(60));
        for _ in 0..20 {
            ask(&mut ann, &many);
            assert_eq!(ask(&mut bob, "POP QUEUE q COUNT 60").list().len(), 60);
            ask(&mut ann, "SEND q before TO bob");
            assert_eq!(ask(&mut bob, "POP QUEUE q").body(), Some("before"));
        }
        let number = ask(&mut bob, "LOGIN bob").integer().expect("a number");

        primary.kill9();
        standby.promote();
        let eve =
            format!("SELECT setval('posthaste.account_id', {number}, false); SELECT posthaste.login('eve')");
        assert!(
            standby.psql(&database, &eve).ends_with(&number.to_string()),
            "she has the number that bob had"
        );
        if let Some(pooler) = &pooler {
            pooler.turn_to(&standby, SESSIONS);
        }
        wait_until_used(&mut ann);

        let mut eve = login("eve");
        ask(&mut ann, "SEND q secret TO bob");
        assert_eq!(ask(&mut eve, "POP QUEUE q"), Answer::Null, "it is not hers");
        let secret = ask(&mut bob, "POP QUEUE q");
        assert_eq!((secret.body(), secret.get("from").and_then(Answer::text)), (Some("secret"), Some("ann")));
        ask(&mut bob, "SEND q reply TO ann");
        ask(&mut eve, "SEND q other TO ann");
        assert_eq!(ask(&mut ann, "POP FROM bob").body(), Some("reply"));
        assert_eq!(ask(&mut ann, "POP FROM eve").body(), Some("other"));
        ask(&mut ann, "SEND q anyone");
        assert_eq!(ask(&mut eve, "POP QUEUE q").body(), Some("anyone"));
    }
}

/// Who stands in the accounts file, and has not logged in since.
#[test]
fn who_takes_over_from_an_earlier_state_knows_all_who_have_an_account() {
    let mut primary = primary();
    let database = primary.create_database();
    for queue in ["open", "strict"] {
        primary.psql(&database, &format!("SELECT posthaste.create_queue('{queue}')"));
    }
    primary.psql(&database, "UPDATE posthaste.queue SET only_known = true WHERE name = 'strict'");
    let standby = laggard_of(&primary);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("accounts.txt");
    for name in ["ann", "bob", "eve"] {
        let mut add = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        add.args(["admin", "account", "add", name, "--file"]).arg(&file);
        let mut add = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program runs");
        add.stdin.take().expect("stdin is piped").write_all(b"sesame").expect("it reads");
        assert!(add.wait().expect("it ends").success());
    }
    let arguments = ["--accounts", file.to_str().expect("a path")];
    let server = Server::start(&url([&primary, &standby], &database), &arguments);
    let login = |name: &str| {
        let mut client = Client::connect(server.addr()).expect("it runs");
        ask(&mut client, &format!("AUTH {name} sesame"));
        client
    };
    let mut ann = login("ann");
    ask(&mut ann, "SEND strict before TO bob");

    primary.kill9();
    assert_eq!(standby.psql(&database, "SELECT count(*) FROM posthaste.account WHERE known"), "0");
    standby.promote();
    wait_until_used(&mut ann);
    ask(&mut ann, "SEND strict after TO bob");
    ask(&mut ann, "SEND open everyone TO *");
    for (name, queue, body) in
        [("bob", "strict", "after"), ("bob", "open", "everyone"), ("eve", "open", "everyone")]
    {
        assert_eq!(ask(&mut login(name), &format!("POP QUEUE {queue}")).body(), Some(body), "{name}");
    }
}
