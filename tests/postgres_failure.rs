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
use std::net::SocketAddr;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use client::{Answer, Client};
use crew::Crew;
use cut::Wire;
use postgres::{Postgres, Stop};
use rustix::process::{Pid, Signal, kill_process};
use session::Session;
use support::Server;

/// How soon the service is back when the database is, or readiness tells; two seconds and what a busy machine adds.
const SOON: Duration = Duration::from_millis(2_500);

/// How long PostgreSQL may need to replay its log after a crash.
const RECOVERY: Duration = Duration::from_secs(30);

/// How soon a request gets `STORE` when the database is known to be away.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How long a pop on an empty queue waits.
const BLOCK: &str = "15000";

/// How long clients work in peace, and without a database.
const WHILE: Duration = Duration::from_millis(600);

/// Asks once over a connection of its own.
fn ask(server: SocketAddr, words: &[&str]) -> Answer {
    Client::connect(server).expect("the server runs").ask(words).expect("the server runs")
}

/// Waits until a condition holds, and says what it saw if that takes too long.
fn soon(what: &str, limit: Duration, mut check: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    while let Err(seen) = check() {
        assert!(start.elapsed() < limit, "{what}: not after {limit:?}; {seen}");
        sleep(Duration::from_millis(10));
    }
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
fn is_back(server: &Server) {
    soon("requests are answered again", SOON, || match ask(server.addr(), &["QCREATE", "probe"]) {
        Answer::Integer(_) => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    soon("it says that it is ready", SOON, || is_ready(server));
}

/// A pop that waits for the queue `waiting`.
fn waiting_pop(server: SocketAddr) -> JoinHandle<Answer> {
    ask(server, &["QCREATE", "waiting"]);
    ask(server, &["QCREATE", "probe"]);
    let pop = thread::spawn(move || ask(server, &["POP", "QUEUE", "waiting", "BLOCK", BLOCK]));
    sleep(Duration::from_millis(100));
    pop
}

/// The pop that waited all the time gets what is sent now.
fn gets_what_is_sent(server: SocketAddr, pop: JoinHandle<Answer>) {
    let sent = Instant::now();
    let answer = ask(server, &["SEND", "waiting", "at last"]);
    assert!(answer.integer().is_some(), "{answer:?}");
    let popped = pop.join().expect("the pop");
    assert_eq!(popped.body(), Some("at last"), "{popped:?}");
    assert!(sent.elapsed() < AT_ONCE, "woken after {:?}", sent.elapsed());
}

/// An outage under load: `begin` makes the database fail for the reason that readiness then tells with `words`.
fn outage(
    postgres: &mut Postgres,
    server: &Server,
    words: &str,
    begin: impl FnOnce(&mut Postgres),
    end: impl FnOnce(&mut Postgres),
) {
    soon("it is ready", SOON, || is_ready(server));
    let crew = Crew::start(&[server.addr()], 6);
    let pop = waiting_pop(server.addr());
    sleep(WHILE);
    begin(postgres);
    soon("it says why it is not ready", SOON, || is_in_trouble(server, words));
    // Not necessarily the first: processes of a killed postmaster may finish what they have begun.
    soon("requests get STORE", SOON, || {
        let start = Instant::now();
        let answer = ask(server.addr(), &["SEND", "probe", "x"]);
        assert!(start.elapsed() < AT_ONCE, "an answer took {:?}", start.elapsed());
        if answer.is_error("STORE") { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    sleep(WHILE);
    end(postgres);
    is_back(server);
    gets_what_is_sent(server.addr(), pop);
    sleep(WHILE);
    let journal = crew.finish(server.addr());
    assert!(!journal.failures.is_empty(), "nobody noticed the outage");
    assert!(!server.log().contains("sesame"), "{}", server.log());
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
    let crew = Crew::start(&[server.addr()], 6);
    let pop = waiting_pop(server.addr());
    for how in [Stop::Fast, Stop::Immediate, Stop::Fast] {
        sleep(WHILE);
        postgres.stop(how);
        postgres.start_again();
        is_back(&server);
    }
    gets_what_is_sent(server.addr(), pop);
    crew.finish(server.addr());
}

#[test]
fn an_idle_middleware_does_not_make_clients_find_out_about_a_restart() {
    let (mut postgres, server) = both(&[]);
    ask(server.addr(), &["QCREATE", "probe"]);
    postgres.stop(Stop::Fast);
    postgres.start_again();
    soon("it says that it is ready", SOON, || is_ready(&server));
    let answer = ask(server.addr(), &["SEND", "probe", "x"]);
    assert!(answer.integer().is_some(), "{answer:?}");
}

#[test]
fn a_middleware_can_be_stopped_while_there_is_no_database() {
    let (mut postgres, server) = both(&[]);
    ask(server.addr(), &["QCREATE", "probe"]);
    postgres.stop(Stop::Fast);
    sleep(WHILE);
    let start = Instant::now();
    assert!(server.stop().success());
    assert!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
}

/// As long as a stop may take here that waits for nobody: less than a database is waited for.
const STOPPED: Duration = Duration::from_secs(20);

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
    let crew = Crew::start(&[server.addr()], 6);
    let pop = waiting_pop(server.addr());
    for _ in 0..10 {
        sleep(Duration::from_millis(150));
        let ended = postgres.psql(
            "postgres",
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'posthaste'",
        );
        assert_ne!(ended, "0", "nobody was connected");
    }
    is_back(&server);
    // Once a second a pop that waits looks for itself. If it was cut off just then, nobody knows what it got.
    let pop = if pop.is_finished() {
        let answer = pop.join().expect("the pop");
        assert!(answer.is_error("STORE"), "{answer:?}");
        waiting_pop(server.addr())
    } else {
        pop
    };
    gets_what_is_sent(server.addr(), pop);
    crew.finish(server.addr());
}

/// A backend that is killed takes the others and the shared memory with it, and whatever of the log was there only.
#[test]
fn a_killed_backend_takes_nothing_acknowledged_with_it() {
    let (postgres, server) = both(&[]);
    let crew = Crew::start(&[server.addr()], 24);
    for _ in 0..8 {
        sleep(Duration::from_millis(300));
        // The probe below may have been answered by a worker that the last kill reached only then.
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'posthaste' AND query LIKE '%posthaste.apply%' LIMIT 1";
        let mut worker = None;
        soon("a worker is connected", RECOVERY, || {
            worker = postgres.try_psql("postgres", sql)?.parse().ok().and_then(Pid::from_raw);
            if worker.is_some() { Ok(()) } else { Err("no worker has asked for anything".to_owned()) }
        });
        let pid = worker.expect("found just now");
        let _ = kill_process(pid, Signal::KILL); // it may have ended by itself
        // How soon PostgreSQL has recovered is its own affair, and the disk's.
        soon("PostgreSQL has recovered", RECOVERY, || match ask(server.addr(), &["QCREATE", "probe"]) {
            Answer::Integer(_) => Ok(()),
            answer => Err(format!("{answer:?}")),
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
    for _ in 0..20 {
        sleep(Duration::from_millis(97));
        wire.cut();
    }
    is_back(&server);
    let journal = crew.finish(server.addr());
    assert!(!journal.failures.is_empty(), "no cut was noticed");
}

#[test]
fn other_programs_take_all_connections_and_leave_again() {
    const MOST: usize = 12;
    let most = format!("max_connections={MOST}");
    let mut postgres = Postgres::start(&[&most, "superuser_reserved_connections=0"]);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &[]);
    let others = RefCell::new(Vec::new());
    let take_all = |postgres: &mut Postgres| {
        // The middleware is kept out until the others are in.
        let allow = |yes: bool| format!("ALTER DATABASE {database} WITH ALLOW_CONNECTIONS {yes}");
        postgres.psql("postgres", &allow(false));
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> pg_backend_pid()";
        postgres.psql("postgres", sql);
        let mut others = others.borrow_mut();
        others.extend((0..MOST).map(|_| Session::open(postgres, "postgres", "postgres")));
        others.iter_mut().for_each(|other| assert_eq!(other.run("SELECT 1"), "1"));
        assert_eq!(others[0].run(&allow(true)), "");
    };
    outage(&mut postgres, &server, "max_connections", take_all, |_| others.borrow_mut().clear());
}

/// While one connection works, those who cannot have their own share it.
#[test]
fn a_worker_without_a_connection_of_its_own_waits_for_another_s() {
    const MOST: usize = 12;
    let most = format!("max_connections={MOST}");
    let postgres = Postgres::start(&[&most, "superuser_reserved_connections=0"]);
    let database = postgres.create_database();
    let server = Server::start_with_http(&postgres.url(&database), &["--batch", "1", "--workers", "8"]);
    ask(server.addr(), &["QCREATE", "q"]);
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL AND pid <> pg_backend_pid()";
    let ours: usize = postgres.psql("postgres", count).parse().expect("a number");
    let mut others: Vec<Session> =
        (ours..MOST).map(|_| Session::open(&postgres, "postgres", "postgres")).collect();
    others.iter_mut().for_each(|other| assert_eq!(other.run("SELECT 1"), "1"));
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
    is_ready(&server).expect("the database can be reached");
    assert!(server.log().contains("the connections that work are shared"), "{}", server.log());
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

#[test]
fn a_frozen_database_is_waited_for() {
    let (postgres, server) = both(&[]);
    let crew = Crew::start(&[server.addr()], 6);
    let pop = waiting_pop(server.addr());
    sleep(WHILE);
    postgres.signal_all(Signal::STOP);
    let frozen = Instant::now();
    let addr = server.addr();
    let request = thread::spawn(move || ask(addr, &["SEND", "probe", "x"]));
    sleep(Duration::from_secs(4));
    let (status, said) = server.readiness();
    postgres.signal_all(Signal::CONT);
    assert!(status == 503 && said.contains("has not answered"), "{status} {said}");
    let answer = request.join().expect("the request");
    assert!(answer.integer().is_some(), "{answer:?}");
    assert!(frozen.elapsed() >= Duration::from_secs(3), "it was not frozen");
    is_back(&server);
    gets_what_is_sent(server.addr(), pop);
    crew.finish(server.addr());
}
