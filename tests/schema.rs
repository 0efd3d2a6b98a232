//! The schema and whoever uses it: one with a hole, one that a role with short patience makes, one that is made anew
//! beneath a middleware. What `posthaste migrate` itself does is in `migrate.rs`.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/program.rs"]
mod called;

use std::process::Stdio;

use called::{program, refusal, run};
use client::Client;
use postgres::shared;
use support::Server;

#[test]
fn a_schema_with_a_hole_is_refused() {
    let server = shared();
    let database = server.create_database();
    server.psql(&database, "DELETE FROM posthaste.migration WHERE number = 3");
    let url = server.url(&database);
    for words in [&["migrate", "--store", &url][..], &["queue", "--http", "off", "--store", &url]] {
        let (line, code) = refusal(&run(words));
        assert_eq!(code, Some(1));
        assert!(line.contains("0003_rules.sql is not noted") && line.contains("restore a backup"), "{line}");
    }
}

#[test]
fn a_role_with_short_timeouts_migrates_too_and_waits_for_others_that_do() {
    let server = shared();
    let database = server.create_empty_database_for("hasty");
    server.psql("postgres", "ALTER ROLE hasty SET lock_timeout = '1ms'");
    let url = server.url(&database).replace("postgres@", "hasty@");
    let start = || program(&["migrate", "--store", &url]).stderr(Stdio::piped()).spawn().expect("it runs");
    let running: Vec<_> = (0..3).map(|_| start()).collect();
    for child in running {
        let output = child.wait_with_output().expect("it can be waited for");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Whoever calls one of them could put tables, functions and operators of their own in its way.
#[test]
fn what_runs_with_the_owner_s_rights_has_a_search_path_of_its_own() {
    let database = shared().create_database();
    let those = "FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace AND (prosecdef OR prorettype = 'trigger'::regtype)";
    let count: u32 = shared().psql(&database, &format!("SELECT count(*) {those}")).parse().expect("a number");
    assert!(count >= 11, "8 functions for clients and some triggers: {count}");
    let open = "AND 'search_path=posthaste, pg_temp' <> ALL(coalesce(proconfig, '{}'))";
    assert_eq!(shared().psql(&database, &format!("SELECT proname {those} {open}")), "");
}

#[test]
fn a_middleware_takes_a_schema_made_anew_for_another_server() {
    let server = shared();
    let database = server.create_database();
    let url = server.url(&database);
    server.psql(&database, "ALTER SCHEMA posthaste RENAME TO anew");
    assert!(run(&["migrate", "--store", &url]).status.success());
    let middleware = Server::start(&url, &[]);
    let mut ask = {
        let mut client = Client::login(middleware.addr(), "alice").expect("it runs");
        move |words: &[&str]| client.ask(words).expect("it runs")
    };
    let _others: Vec<_> =
        ["bob", "eve"].map(|name| Client::login(middleware.addr(), name).expect("it runs")).into();
    // What is read below ids like these is remembered to hold nothing.
    server.psql(&database, "SELECT setval('posthaste.message_id', 1000000000)");
    ask(&["QCREATE", "q"]);
    assert!(ask(&["SEND", "q", "before", "TO", "bob"]).integer().is_some());
    let thousand = [&["SENDMANY", "q"][..], &["x"; 1000]].concat();
    for _ in 0..3 {
        assert_eq!(ask(&thousand).list().len(), 1000);
        assert_eq!(ask(&["POP", "QUEUE", "q", "COUNT", "1000"]).list().len(), 1000);
    }
    // At once: the middleware looks by itself every second.
    server.psql(&database, "ALTER SCHEMA posthaste RENAME TO before; ALTER SCHEMA anew RENAME TO posthaste");

    // Numbers of messages and accounts begin again, and mean others than before: the first request must know already.
    ask(&["QCREATE", "q"]);
    assert!(ask(&["SEND", "q", "after"]).integer().is_some());
    assert_eq!(ask(&["POP", "QUEUE", "q"]).body(), Some("after"));
    assert!(ask(&["SEND", "q", "secret", "TO", "bob"]).integer().is_some());
    let recipient =
        "SELECT name FROM posthaste.message LEFT JOIN posthaste.account AS a ON a.id = recipient_id";
    assert_eq!(server.psql(&database, recipient), "bob", "or whoever logs in as the third");
    let eve = Client::login(middleware.addr(), "eve").expect("it runs");
    let bob = Client::login(middleware.addr(), "bob").expect("it runs");
    for (mut client, body) in [(eve, None), (bob, Some("secret"))] {
        assert_eq!(client.ask(&["POP", "QUEUE", "q"]).expect("it runs").body(), body);
    }
}
