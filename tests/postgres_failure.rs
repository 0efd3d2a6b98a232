//! What becomes of requests when the database fails under load: nothing acknowledged is lost, nothing is delivered
//! twice, nobody waits in vain, and the service returns by itself.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/crew.rs"]
mod crew;

#[path = "support/cut.rs"]
mod cut;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::cell::RefCell;
use std::iter;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use crew::Crew;
use cut::Wire;
use postgres::{Postgres, Stop};
use rustix::process::{Pid, Signal, kill_process};
use session::Session;
use support::Server;
use support::patience::{RECOVERY, wait_for, wait_within};

/// Requests that get `STORE` in so short a time that none of them waits for the database to be tried again, which is
/// once a second.
const REFUSED: usize = 60;
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

/// How long a pop on an empty queue waits: longer than any client here waits for an answer.
const BLOCK: &str = "600000";

/// How often something is done anew because a pop that waits was just looking for itself, as it does once a second. If
/// it is cut off then, nobody knows what it got.
const TRIES: usize = 5;

/// Asks once over a connection of its own.
fn ask(server: SocketAddr, words: &[&str]) -> Answer {
    Client::connect(server).expect("the server runs").ask(words).expect("the server runs")
}

fn is_ready(server: &Server) -> Result<(), String> {
    let (status, said) = server.readiness();
    if (status, said.as_str()) == (200, "ready") { Ok(()) } else { Err(format!("{status} {said}")) }
}

/// Not ready, for a reason with these words; a restart would not help.
fn is_in_trouble(server: &Server, words: &str) -> Result<(), String> {
    let (status, said) = server.readiness();
    assert!(!said.contains("restart") && !said.contains("sesame"), "{said}");
    if status == 503 && said.contains(words) { Ok(()) } else { Err(format!("{status} {said}")) }
}

/// The service is there again, for requests and for whoever asks whether it is.
fn wait_until_back(server: &Server) {
    wait_for("requests are answered again", || match ask(server.addr(), &["QCREATE", "probe"]) {
        Answer::Integer(_) => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    wait_for("it says that it is ready", || is_ready(server));
}

/// A pop that waits for the queue `waiting`, before anybody else is there to wait.
fn waiting_pop(server: SocketAddr) -> JoinHandle<Answer> {
    ask(server, &["QCREATE", "waiting"]);
    ask(server, &["QCREATE", "probe"]);
    let pop = thread::spawn(move || ask(server, &["POP", "QUEUE", "waiting", "BLOCK", BLOCK]));
    wait_for("a pop waits", || match ask(server, &["INFO"]).text() {
        Some(text) if text.contains("blocked_clients:1\r\n") => Ok(()),
        text => Err(format!("{text:?}")),
    });
    pop
}

/// Whether the pop that waited all the time gets what is sent now. It may have been cut off while it looked.
fn gets_what_is_sent(server: SocketAddr, pop: JoinHandle<Answer>) -> bool {
    let answer = ask(server, &["SEND", "waiting", "at last"]);
    assert!(answer.integer().is_some(), "{answer:?}");
    let popped = pop.join().expect("the pop");
    let cut_off =
        matches!(&popped, Answer::Error(text) if text.starts_with("STORE ") && text.contains("unknown"));
    assert!(cut_off || popped.body() == Some("at last"), "{popped:?}");
    if cut_off {
        ask(server, &["QPURGE", "waiting"]);
    }
    !cut_off
}

/// Tries anew until a pop that waits gets through what is done.
fn a_pop_gets_through(mut what: impl FnMut() -> bool) {
    assert!((0..TRIES).any(|_| what()), "no pop that waits gets through");
}

/// An outage under load: `begin` makes the database fail for the reason that readiness then tells with `words`.
fn outage(
    postgres: &mut Postgres,
    server: &Server,
    words: &str,
    mut begin: impl FnMut(&mut Postgres),
    mut end: impl FnMut(&mut Postgres),
) {
    a_pop_gets_through(|| {
        wait_for("it is ready", || is_ready(server));
        let pop = waiting_pop(server.addr());
        let crew = Crew::start(&[server.addr()], 6);
        crew.is_busy();
        begin(postgres);
        wait_for("it says why it is not ready", || is_in_trouble(server, words));
        crew.notices();
        requests_get_store(server);
        end(postgres);
        wait_until_back(server);
        let got_through = gets_what_is_sent(server.addr(), pop);
        crew.is_busy();
        crew.finish(server.addr());
        got_through
    });
    assert!(!server.log().contains("sesame"), "{}", server.log());
}

/// None of them waits for the database.
fn requests_get_store(server: &Server) {
    let ask = || ask(server.addr(), &["SEND", "probe", "x"]);
    // Not necessarily the first: processes of a killed postmaster may finish what they have begun.
    wait_for("requests get STORE", || match ask() {
        answer if answer.is_error("STORE") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    let start = Instant::now();
    let refused = (0..REFUSED).filter(|_| ask().is_error("STORE")).count();
    assert!(refused > REFUSED / 2, "only {refused} got STORE");
    assert!(start.elapsed() < REFUSED_WITHIN, "{REFUSED} answers took {:?}", start.elapsed());
}

/// A server of its own, and a middleware over a database in it.
fn both(settings: &[&str]) -> (Postgres, Server) {
    let postgres = Postgres::start(settings);
    let server = Server::start_with_http(&postgres.url(&postgres.create_database()), &[]);
    (postgres, server)
}

#[test]
fn a_stopped_database_is_waited_for() {
    for how in [Stop::Fast, Stop::Immediate] {
        let (mut postgres, server) = both(&[]);
        outage(&mut postgres, &server, "is it running", |it| it.stop(how), Postgres::start_again);
    }
}

#[test]
fn a_killed_database_is_waited_for() {
    let (mut postgres, server) = both(&[]);
    outage(&mut postgres, &server, "is it running", Postgres::kill9, Postgres::start_again);
}

#[test]
fn a_restarted_database_is_found_again() {
    let (mut postgres, server) = both(&[]);
    a_pop_gets_through(|| {
        let pop = waiting_pop(server.addr());
        let crew = Crew::start(&[server.addr()], 6);
        for how in [Stop::Fast, Stop::Immediate, Stop::Fast] {
            crew.is_busy();
            postgres.stop(how);
            postgres.start_again();
            wait_until_back(&server);
        }
        let got_through = gets_what_is_sent(server.addr(), pop);
        crew.finish(server.addr());
        got_through
    });
}

#[test]
fn an_idle_middleware_does_not_make_clients_find_out_about_a_restart() {
    let (mut postgres, server) = both(&[]);
    ask(server.addr(), &["QCREATE", "probe"]);
    postgres.stop(Stop::Fast);
    postgres.start_again();
    wait_for("it says that it is ready", || is_ready(&server));
    let answer = ask(server.addr(), &["SEND", "probe", "x"]);
    assert!(answer.integer().is_some(), "{answer:?}");
}

/// As long as a stop may take here that waits for nobody: less than a database is waited for.
const STOPPED: Duration = Duration::from_secs(25);

#[test]
fn a_middleware_can_be_stopped_while_there_is_no_database() {
    let mut postgres = Postgres::start(&[]);
    let url = postgres.url(&postgres.create_database());
    let server = Server::start_with_http(&url, &["--drain", "300s"]);
    ask(server.addr(), &["QCREATE", "probe"]);
    postgres.stop(Stop::Fast);
    wait_for("it says why it is not ready", || is_in_trouble(&server, "is it running"));
    let start = Instant::now();
    assert!(server.stop().success());
    assert!(start.elapsed() < STOPPED, "it took {:?}", start.elapsed());
}

#[test]
fn a_middleware_can_be_stopped_while_the_database_is_frozen() {
    let postgres = Postgres::start(&[]);
    for asks in [false, true] {
        let server = Server::start(&postgres.url(&postgres.create_database()), &["--drain", "1s"]);
        let mut client = Client::connect(server.addr()).expect("the server runs");
        client.ask(&["QCREATE", "probe"]).expect("the server runs");
        postgres.signal_all(Signal::STOP);
        if asks {
            client.send(&["SEND", "probe", "x"]).expect("the server reads");
        }
        let start = Instant::now();
        let ended = server.stop();
        let took = start.elapsed();
        postgres.signal_all(Signal::CONT);
        assert!(ended.success() && took < STOPPED, "asked: {asks}, it took {took:?}");
    }
}

#[test]
fn backends_are_terminated_again_and_again() {
    let (postgres, server) = both(&[]);
    a_pop_gets_through(|| {
        let pop = waiting_pop(server.addr());
        let crew = Crew::start(&[server.addr()], 6);
        for _ in 0..10 {
            crew.sends(12);
            let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'posthaste'";
            assert_ne!(postgres.psql("postgres", sql), "0", "nobody was connected");
        }
        wait_until_back(&server);
        let got_through = gets_what_is_sent(server.addr(), pop);
        crew.finish(server.addr());
        got_through
    });
}

/// A backend that is killed takes the others and the shared memory with it, and whatever of the log was there only.
#[test]
fn a_killed_backend_takes_nothing_acknowledged_with_it() {
    let (postgres, server) = both(&[]);
    let crew = Crew::start(&[server.addr()], 24);
    for _ in 0..8 {
        crew.sends(24);
        // The probe below may have been answered by a worker that the last kill reached only then.
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'posthaste' AND query LIKE '%posthaste.apply%' LIMIT 1";
        let pid = wait_for("a worker has asked for something", || {
            let found = postgres.try_psql("postgres", sql)?;
            found.parse().ok().and_then(Pid::from_raw).ok_or(found)
        });
        let _ = kill_process(pid, Signal::KILL); // it may have ended by itself
        wait_within(RECOVERY, "PostgreSQL has recovered", || {
            match ask(server.addr(), &["QCREATE", "probe"]) {
                Answer::Integer(_) => Ok(()),
                answer => Err(format!("{answer:?}")),
            }
        });
    }
    crew.finish(server.addr());
}

#[test]
fn connections_are_cut_in_mid_transaction() {
    let postgres = Postgres::start(&[]);
    let wire = Wire::to(postgres.port());
    let database = postgres.create_database();
    let url = format!("postgres://postgres@127.0.0.1:{}/{database}", wire.port());
    let server = Server::start_with_http(&url, &[]);
    let crew = Crew::start(&[server.addr()], 6);
    let mut cuts = 0;
    while cuts < 20 || !crew.has_noticed() {
        assert!(cuts < 1_000, "no cut was noticed");
        crew.sends(6);
        wire.cut();
        cuts += 1;
    }
    wait_until_back(&server);
    crew.finish(server.addr());
}

/// A server that lets in so many, nobody kept back.
fn with_few_connections(most: usize) -> Postgres {
    Postgres::start(&[&format!("max_connections={most}"), "superuser_reserved_connections=0"])
}

/// Ends all connections and has other programs take so many, before a middleware of this database comes back.
fn take_connections(postgres: &Postgres, database: &str, number: usize) -> Vec<Session> {
    // The middleware is kept out until the others are in.
    let allow = |yes: bool| format!("ALTER DATABASE {database} WITH ALLOW_CONNECTIONS {yes}");
    postgres.psql("postgres", &allow(false));
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> pg_backend_pid()";
    postgres.psql("postgres", sql);
    let mut others: Vec<Session> =
        (0..number).map(|_| Session::open_once_let_in(postgres, "postgres", "postgres")).collect();
    assert_eq!(others[0].run(&allow(true)), "");
    others
}

#[test]
fn other_programs_take_all_connections_and_leave_again() {
    const MOST: usize = 12;
    let mut postgres = with_few_connections(MOST);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &[]);
    let others = RefCell::new(Vec::new());
    let take_all =
        |postgres: &mut Postgres| others.borrow_mut().extend(take_connections(postgres, &database, MOST));
    outage(&mut postgres, &server, "max_connections", take_all, |_| others.borrow_mut().clear());
}

/// Clients that together keep so many workers busy as have a connection or want one; everybody is served.
fn all_are_served(server: &Server) {
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::connect(server.addr()).expect("it runs");
                for _ in 0..50 {
                    let sent = client.ask(&["SEND", "q", "x"]).expect("it runs");
                    assert!(sent.integer().is_some(), "{sent:?}");
                }
            });
        }
    });
    is_ready(server).expect("the database can be reached");
}

/// While one connection works, those who cannot have their own share it.
#[test]
fn a_worker_without_a_connection_of_its_own_waits_for_another_s() {
    const MOST: usize = 12;
    let postgres = with_few_connections(MOST);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &["--batch", "1", "--workers", "8"]);
    ask(server.addr(), &["QCREATE", "q"]);
    // Those who were let in keep their places.
    let _others: Vec<Session> =
        iter::from_fn(|| Session::open_if_let_in(&postgres, "postgres", "postgres")).collect();
    all_are_served(&server);
    server.wait_for_log("the connections that work are shared");
}

#[test]
fn a_worker_whose_connection_has_ended_waits_for_another_s() {
    const MOST: usize = 12;
    /// The keeper's, and one for all workers.
    const LEFT: usize = 2;
    let postgres = with_few_connections(MOST);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &["--batch", "1", "--workers", "8"]);
    ask(server.addr(), &["QCREATE", "q"]);
    wait_for("several workers are connected", || {
        all_are_served(&server);
        match info(&server, "links_idle") {
            Some(2..) => Ok(()),
            idle => Err(format!("{idle:?}")),
        }
    });
    let _others = take_connections(&postgres, &database, MOST - LEFT);
    wait_until_back(&server);
    let ticks = info(&server, "keeper_ticks");
    wait_for("the keeper is connected", || match info(&server, "keeper_ticks") {
        now if now > ticks => Ok(()),
        now => Err(format!("{now:?}")),
    });
    all_are_served(&server);
    server.wait_for_log("the connections that work are shared");
}

/// The thread that looks whether the queue is free has no connection of its own then.
#[test]
fn a_locked_queue_keeps_no_others_waiting_though_no_further_connection_is_let_in() {
    const MOST: usize = 12;
    const MEANWHILE: Duration = Duration::from_secs(10);
    // Longer than a request takes that does not wait for the row.
    const LONG: Duration = Duration::from_millis(500);
    let postgres = with_few_connections(MOST);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &["--workers", "1"]);
    for queue in ["q", "other"] {
        ask(server.addr(), &["QCREATE", queue]);
    }
    let mut app = Session::open(&postgres, &database, "postgres");
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL";
    let present: usize = app.run(count).parse().expect("a number");
    let mut others: Vec<Session> =
        (present..MOST).map(|_| Session::open(&postgres, "postgres", "postgres")).collect();
    others.iter_mut().for_each(|other| assert_eq!(other.run("SELECT 1"), "1"));
    let mut waits = Client::connect(server.addr()).expect("it runs");
    let mut bystander = Client::connect(server.addr()).expect("it runs");
    for end in ["it is told so", "it goes on"] {
        app.run("BEGIN; SELECT FROM posthaste.queue WHERE name = 'q' FOR UPDATE");
        waits.send(&["SEND", "q", "x"]).expect("sent");
        let begun = Instant::now();
        let mut waited = Duration::ZERO;
        while begun.elapsed() < MEANWHILE {
            let asked = Instant::now();
            bystander.ask(&["SEND", "other", "x"]).expect("an answer").integer().expect("sent");
            waited += Some(asked.elapsed()).filter(|took| *took > LONG).unwrap_or_default();
        }
        assert!(waited < MEANWHILE / 2, "others waited {waited:?} of {MEANWHILE:?}");
        if end == "it goes on" {
            app.run("ROLLBACK");
        }
        let answer = waits.answer().expect("an answer");
        assert_eq!(answer.is_error("STORE"), end == "it is told so", "{answer:?}");
        app.run("ROLLBACK");
    }
}

/// A figure of INFO.
fn info(server: &Server, name: &str) -> Option<u64> {
    let text = ask(server.addr(), &["INFO"]);
    let found = text.text()?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.and_then(|value| value.parse().ok())
}

#[test]
fn a_changed_password_is_told_and_one_changed_back_works() {
    let mut postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let role = |password: &str| format!("ALTER ROLE app PASSWORD '{password}'");
    postgres.psql("postgres", "CREATE ROLE app SUPERUSER LOGIN");
    postgres.psql("postgres", &role("sesame"));
    postgres.admit_over_tcp("host all all 127.0.0.1/32 scram-sha-256");
    let url = format!("postgres://app:sesame@127.0.0.1:{}/{database}", postgres.port());
    let server = Server::start_with_http(&url, &[]);
    let change = |postgres: &mut Postgres| {
        postgres.psql("postgres", &role("other"));
        postgres
            .psql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'");
    };
    let change_back = |postgres: &mut Postgres| drop(postgres.psql("postgres", &role("sesame")));
    outage(&mut postgres, &server, "check user and password", change, change_back);
}

#[test]
fn a_database_that_takes_no_writes_for_a_while_is_waited_for() {
    let (mut postgres, server) = both(&[]);
    let writes = |postgres: &mut Postgres, refused: &str| {
        postgres.psql("postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {refused}"));
        postgres.psql("postgres", "SELECT pg_reload_conf()");
    };
    outage(&mut postgres, &server, "takes no writes", |it| writes(it, "on"), |it| writes(it, "off"));
}

/// Less than a database that does not answer is waited for.
const WAITED_FOR: Duration = Duration::from_secs(25);

#[test]
fn a_frozen_database_is_waited_for() {
    let (postgres, server) = both(&[]);
    let addr = server.addr();
    a_pop_gets_through(|| {
        let pop = waiting_pop(addr);
        let crew = Crew::start(&[addr], 6);
        crew.is_busy();
        postgres.signal_all(Signal::STOP);
        let frozen = Instant::now();
        let request = thread::spawn(move || ask(addr, &["SEND", "probe", "x"]));
        wait_for("it says why it is not ready", || is_in_trouble(&server, "has not answered"));
        let waits = !request.is_finished();
        postgres.signal_all(Signal::CONT);
        let answer = request.join().expect("the request");
        // Where the machine itself stands still for longer, the request and the pop are given up: then again.
        let in_time = frozen.elapsed() < WAITED_FOR;
        assert!(!in_time || waits && answer.integer().is_some(), "waits: {waits}, {answer:?}");
        wait_until_back(&server);
        let got_through = gets_what_is_sent(addr, pop);
        assert!(!in_time || got_through, "the pop was given up");
        crew.is_busy();
        crew.finish(addr);
        in_time
    });
}

/// A database and a middleware with one worker, whose connection has prepared what `send` asks.
fn with_one_worker() -> (Postgres, String, Server) {
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &["--workers", "1"]);
    ask(server.addr(), &["QCREATE", "probe"]);
    wait_for("sessions are known to be kept", || match ask(server.addr(), &["INFO"]).text() {
        Some(text) if text.contains("keeper_listens:1\r\n") => Ok(()),
        text => Err(format!("{text:?}")),
    });
    assert!(send_once(&server, "before").integer().is_some());
    (postgres, database, server)
}

/// A SEND that may be repeated.
fn send_once(server: &Server, body: &str) -> Answer {
    ask(server.addr(), &["SEND", "probe", body, "DEDUP", body])
}

/// The bodies of all messages, the oldest first.
fn bodies(postgres: &Postgres, database: &str) -> String {
    let sql = "SELECT string_agg(convert_from(body, 'UTF8'), ',' ORDER BY id) FROM posthaste.message";
    postgres.psql(database, sql)
}

/// The database was given up, and nobody can know what it does yet.
fn is_given_up(answer: &Answer) {
    let says = |words: &str| matches!(answer, Answer::Error(text) if text.contains(words));
    assert!(answer.is_error("STORE") && says("has not answered for 30 seconds"), "{answer:?}");
    assert!(says("it is unknown whether the request was done"), "{answer:?}");
}

#[test]
fn what_a_database_does_after_it_was_given_up_does_no_harm() {
    let (postgres, database, server) = with_one_worker();
    postgres.signal_all(Signal::STOP);
    is_given_up(&send_once(&server, "late"));
    is_in_trouble(&server, "").expect("it says that it is not ready");
    postgres.signal_all(Signal::CONT);
    wait_for("what was given up is done", || match bodies(&postgres, &database).as_str() {
        "before,late" => Ok(()),
        bodies => Err(bodies.to_owned()),
    });
    wait_until_back(&server);
    let again = send_once(&server, "late");
    assert!(again.integer().is_some(), "{again:?}");
    assert_eq!(bodies(&postgres, &database), "before,late");
}

#[test]
fn a_request_that_was_given_up_may_be_done_after_its_repetition() {
    let (postgres, database, server) = with_one_worker();
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'posthaste' AND query LIKE '%posthaste.apply%'";
    let pid = postgres.psql("postgres", sql).parse().ok().and_then(Pid::from_raw).expect("one worker");
    let signal = |signal| kill_process(pid, signal).expect("it runs");
    signal(Signal::STOP);
    is_given_up(&send_once(&server, "late"));
    let again = send_once(&server, "late");
    assert!(again.integer().is_some(), "{again:?}");
    signal(Signal::CONT);
    let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {}", pid.as_raw_nonzero());
    wait_for("the session that was given up ends", || match postgres.psql("postgres", &is_there).as_str() {
        "0" => Ok(()),
        _ => Err("it is there".to_owned()),
    });
    assert_eq!(bodies(&postgres, &database), "before,late");
    assert_eq!(send_once(&server, "late"), again);
    wait_until_back(&server);
}

/// Whoever was not answered must not find later that their message is gone.
#[test]
fn a_call_that_is_given_up_takes_nothing_when_its_queue_is_free_again() {
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &[]);
    ask(server.addr(), &["QCREATE", "q"]);
    ask(server.addr(), &["SEND", "q", "x"]);
    let mut slow = Session::open(&postgres, &database, "postgres");
    slow.run("BEGIN; SELECT FROM posthaste.queue WHERE name = 'q' FOR UPDATE");
    for pop in [&["POP", "QUEUE", "q"][..], &["POP", "QUEUE", "q", "COUNT", "5"]] {
        let answer = ask(server.addr(), pop);
        let Answer::Error(said) = &answer else { panic!("{answer:?}") };
        assert!(said.starts_with("STORE ") && said.contains("nothing was changed"), "{said}");
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        wait_for("nobody waits any more", || match slow.run(waits).as_str() {
            "0" => Ok(()),
            waiting => Err(format!("{waiting} do")),
        });
    }
    slow.run("COMMIT");
    assert_eq!(ask(server.addr(), &["POP", "QUEUE", "q"]).body(), Some("x"));
}
