//! Queues over several PostgreSQL servers: SQL clients through PL/Proxy (`sql/proxy/plproxy.sql`), RESP clients
//! through a middleware of each server's own.

#[path = "support/client.rs"]
mod client;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/session.rs"]
mod session;
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::io::{Write as _, stderr};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use client::Client;
use postgres::{Postgres, Stop, shared};
use session::Session;
use support::Server;
use support::patience::wait_until;

const FACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/proxy/plproxy.sql");

/// One database on each of two servers, and a third database, on a third server, that stands for both.
struct Scale<'a> {
    servers: [&'a Postgres; 2],
    databases: [String; 2],
    face: String,
}

/// The two servers that most tests share.
fn servers() -> [&'static Postgres; 2] {
    static SERVERS: OnceLock<[Postgres; 2]> = OnceLock::new();
    SERVERS.get_or_init(|| [Postgres::start(&[]), Postgres::start(&[])]).each_ref()
}

/// Whether this machine has PL/Proxy; `make test` installs it where it may.
fn has_plproxy() -> bool {
    let there =
        shared().psql("postgres", "SELECT count(*) FROM pg_available_extensions WHERE name = 'plproxy'");
    if there == "0" {
        // Past the capture of the test's output, for whoever runs it must know.
        let _ = writeln!(stderr(), "skipped: PL/Proxy is missing; install postgresql-15-plproxy");
    }
    there != "0"
}

impl<'a> Scale<'a> {
    fn over(servers: [&'a Postgres; 2]) -> Self {
        let databases = servers.map(Postgres::create_database);
        for (server, database) in servers.iter().zip(&databases) {
            // Roles are a server's, so another test may have made it.
            server.psql(
                database,
                "DO $$ BEGIN CREATE ROLE proxy LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$",
            );
            server.psql(database, "GRANT USAGE ON SCHEMA posthaste TO proxy");
        }
        let place =
            |n: usize| format!("p{n} 'host=127.0.0.1 port={} dbname={}'", servers[n].port(), databases[n]);
        let face = shared().create_empty_database();
        shared().psql(&face, "CREATE EXTENSION plproxy");
        shared().psql(
            &face,
            &format!(
                "CREATE SERVER posthaste FOREIGN DATA WRAPPER plproxy OPTIONS ({}, {})",
                place(0),
                place(1)
            ),
        );
        shared().psql(&face, "CREATE USER MAPPING FOR CURRENT_USER SERVER posthaste OPTIONS (user 'proxy')");
        shared().psql_file(&face, Path::new(FACE));
        shared().psql(
            &face,
            "DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$",
        );
        shared().psql(&face, "GRANT USAGE ON SCHEMA posthaste TO app");
        Self { servers, databases, face }
    }

    /// An application that sees the face only.
    fn app(&self) -> Session {
        let mut app = Session::open(shared(), &self.face, "app");
        // After an error PL/Proxy says with a NOTICE that it connects again.
        app.run("SET client_min_messages = warning");
        app
    }

    /// Asks one of the databases itself.
    fn ask(&self, at: usize, sql: &str) -> String {
        self.servers[at].psql(&self.databases[at], sql)
    }

    /// The queues of one database.
    fn queues(&self, at: usize) -> BTreeSet<String> {
        lines(&self.ask(at, "SELECT name FROM posthaste.queue"))
    }

    fn middleware(&self, at: usize) -> Server {
        Server::start(&self.servers[at].url(&self.databases[at]), &[])
    }

    /// Makes queues until there is one in each database: their names.
    fn a_queue_in_each(&self, app: &mut Session) -> [String; 2] {
        for n in 0..64 {
            app.run(&format!("SELECT posthaste.create_queue('q{n}')"));
            let found = [0, 1].map(|at| self.queues(at).into_iter().next());
            if let [Some(first), Some(second)] = found {
                return [first, second];
            }
        }
        panic!("64 queues and all in one database");
    }
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

fn login(server: &Server, account: &str) -> Client {
    Client::login(server.addr(), account).expect("a login")
}

#[test]
fn a_queue_lives_in_one_database_and_every_call_finds_it() {
    if !has_plproxy() {
        return;
    }
    let scale = Scale::over(servers());
    let mut app = scale.app();
    app.run("SELECT posthaste.create_queue('q' || n) FROM generate_series(1, 12) AS n");
    app.run("SELECT posthaste.send('alice', 'q' || n, 'body ' || i) FROM generate_series(1, 3) AS i, generate_series(1, 12) AS n");
    let (here, there) = (scale.queues(0), scale.queues(1));
    assert!(here.len() > 1 && there.len() > 1 && here.is_disjoint(&there), "{here:?} {there:?}");
    let all: BTreeSet<String> = here.union(&there).cloned().collect();
    assert_eq!(all.len(), 12);
    assert_eq!(lines(&app.run("SELECT posthaste.readable('bob')")), all, "both are asked");
    for queue in &all {
        let peeked =
            format!("SELECT convert_from(body, 'UTF8'), sender, queue FROM posthaste.peek('bob', '{queue}')");
        assert_eq!(app.run(&peeked), format!("body 1|alice|{queue}"));
        // Given an argument that changes, it is called for each row.
        let popped = format!(
            "SELECT convert_from(body, 'UTF8') FROM generate_series(1, 4) AS n, posthaste.pop('bob', left('{queue}', 9 + n))"
        );
        assert_eq!(app.run(&popped), "body 1\nbody 2\nbody 3", "{queue}");
    }
    assert_eq!(app.run("SELECT posthaste.readable('bob')"), "");
    app.run("SELECT posthaste.send('alice', 'q1', 'last')");
    assert_eq!(app.run("SELECT posthaste.delete_queue('q1')"), "1");
    assert_eq!(scale.queues(0).len() + scale.queues(1).len(), 11);
}

#[test]
fn what_stands_in_braces_keeps_queues_together() {
    if !has_plproxy() {
        return;
    }
    let scale = Scale::over(servers());
    let mut app = scale.app();
    for n in 0..8 {
        app.run(&format!(
            "SELECT posthaste.create_queue('{{q{n}}}'), posthaste.create_queue('{{q{n}}}.dead')"
        ));
    }
    for at in [0, 1] {
        let queues = scale.queues(at);
        let alone =
            queues.iter().find(|name| !name.contains(".dead") && !queues.contains(&format!("{name}.dead")));
        assert_eq!((alone, queues.is_empty()), (None, false), "{queues:?}");
    }
}

#[test]
fn sql_and_resp_clients_of_both_servers_take_each_message_once() {
    if !has_plproxy() {
        return;
    }
    let scale = Scale::over(servers());
    let mut app = scale.app();
    app.run("SELECT posthaste.create_queue('q' || n) FROM generate_series(0, 5) AS n");
    let middlewares = [scale.middleware(0), scale.middleware(1)];
    let sent_by = |sender: usize| {
        let mut app = scale.app();
        app.run(&format!(
            "SELECT 'q' || n % 6, posthaste.send('s{sender}', 'q' || n % 6, 's{sender} ' || n), 's{sender} ' || n \
             FROM generate_series(1, 120) AS n"
        ))
    };
    // Readers go on until one of them has met a sender.
    let has_met = AtomicBool::new(false);
    let popped_by_sql = || {
        let mut app = scale.app();
        let pops = "SELECT p.queue, p.id, convert_from(p.body, 'UTF8') FROM generate_series(1, 60) AS n, \
                    posthaste.pop('reader', 'q' || n % 6) AS p";
        let (mut taken, mut asked) = (String::new(), 0);
        wait_until("a reader has met a sender", || {
            let some = app.run(pops) + "\n";
            has_met.fetch_or(!some.trim().is_empty(), Ordering::Relaxed);
            taken.push_str(&some);
            asked += 1;
            asked >= 6 && has_met.load(Ordering::Relaxed)
        });
        taken
    };
    let popped_by_resp = |at: usize| {
        let mut client = login(&middlewares[at], "reader");
        let mut taken = String::new();
        for queue in scale.queues(at).iter().cycle().take(60) {
            let message = client.ask(&["POP", "QUEUE", queue]).expect("an answer");
            if let (Some(id), Some(body)) =
                (message.get("id").and_then(client::Answer::integer), message.body())
            {
                taken.push_str(&format!("{queue}|{id}|{body}\n"));
            }
        }
        taken
    };
    let (sent, mut taken) = thread::scope(|scope| {
        let senders: Vec<_> = (0..3).map(|n| scope.spawn(move || sent_by(n))).collect();
        let readers: Vec<_> = (0..3).map(|_| scope.spawn(popped_by_sql)).collect();
        let resp: Vec<_> = (0..2).map(|at| scope.spawn(move || popped_by_resp(at))).collect();
        let all = |threads: Vec<thread::ScopedJoinHandle<'_, String>>| {
            threads.into_iter().map(|thread| thread.join().expect("no panic") + "\n").collect::<String>()
        };
        (all(senders), all(readers) + &all(resp))
    });
    // What is left when all are done.
    taken.push_str(&app.run(
        "SELECT p.queue, p.id, convert_from(p.body, 'UTF8') FROM generate_series(1, 2400) AS n, \
         posthaste.pop('reader', 'q' || n % 6) AS p",
    ));
    let mut taken: Vec<&str> = taken.lines().filter(|line| !line.is_empty()).collect();
    let mut sent: Vec<&str> = sent.lines().filter(|line| !line.is_empty()).collect();
    taken.sort_unstable();
    sent.sort_unstable();
    assert_eq!(sent.len(), 360);
    assert_eq!(taken, sent, "each once, with the id and the queue it was sent to");
}

#[test]
fn by_sender_alone_all_databases_are_looked_at_and_one_gives() {
    if !has_plproxy() {
        return;
    }
    let scale = Scale::over(servers());
    let mut app = scale.app();
    let [first, second] = scale.a_queue_in_each(&mut app);
    let sent = "SELECT convert_from(body, 'UTF8') FROM posthaste";
    for (queue, body) in [(&first, "1"), (&second, "2"), (&second, "3"), (&first, "4")] {
        app.run(&format!("SELECT posthaste.send('alice', '{queue}', '{body}'), pg_sleep(0.01)"));
    }
    for body in ["1", "2", "3", "4"] {
        assert_eq!(app.run(&format!("{sent}.peek('bob', sender => 'alice')")), body);
        assert_eq!(app.run(&format!("{sent}.pop('bob', sender => 'alice')")), body);
    }
    assert_eq!(app.run(&format!("{sent}.pop('bob', sender => 'alice')")), "");
    // A message that somebody's transaction has taken and not yet committed is no reason to answer nothing.
    app.run(&format!("SELECT posthaste.send('alice', '{first}', 'held'), pg_sleep(0.01)"));
    app.run(&format!("SELECT posthaste.send('alice', '{second}', 'free')"));
    let mut holder = Session::open(scale.servers[0], &scale.databases[0], "postgres");
    holder.run(&format!("BEGIN; SELECT id FROM posthaste.pop('eve', '{first}')"));
    assert_eq!(app.run(&format!("{sent}.pop('bob', sender => 'alice')")), "free");
}

#[test]
fn a_call_is_refused_in_the_database_s_words_and_commits_by_itself() {
    if !has_plproxy() {
        return;
    }
    let scale = Scale::over(servers());
    let mut app = scale.app();
    for (call, state) in [
        ("pop('bob', 'nowhere')", "PHNOQ"),
        ("send('alice', 'nowhere', 'x')", "PHNOQ"),
        ("pop('bob')", "PHBAD"),
        ("peek('*', 'q')", "PHBAD"),
        ("create_queue('-')", "PHBAD"),
        ("create_queue(null)", "PHBAD"),
        ("home('q')", "42501"),
    ] {
        let said = app.run(&format!("SELECT posthaste.{call}"));
        assert!(said.contains(&format!("ERROR:  {state}:")), "{call}: {said}");
    }
    app.run("SELECT posthaste.create_queue('q'), posthaste.login('carol')");
    for at in [0, 1] {
        assert_eq!(
            scale.ask(at, "SELECT count(*) FROM posthaste.account WHERE name = 'carol' AND known"),
            "1"
        );
    }
    app.run("BEGIN; SELECT posthaste.send('alice', 'q', 'stays'); ROLLBACK");
    app.run("BEGIN");
    assert_eq!(app.run("SELECT convert_from(body, 'UTF8') FROM posthaste.pop('bob', 'q')"), "stays");
    app.run("ROLLBACK");
    assert_eq!(app.run("SELECT id FROM posthaste.pop('bob', 'q')"), "");
}

/// A call acts for the owner of the face, so nothing that a caller has made may be run in it.
#[test]
fn nothing_of_a_caller_s_schema_is_run_for_the_owner_of_the_face() {
    if !has_plproxy() {
        return;
    }
    let scale = Scale::over(servers());
    shared().psql(&scale.face, "CREATE SCHEMA trap AUTHORIZATION app");
    let mut app = scale.app();
    app.run(
        "CREATE TABLE trap.caught (who text);
        CREATE FUNCTION trap.hashtext(text) RETURNS int LANGUAGE sql
            AS 'INSERT INTO trap.caught VALUES (current_user); SELECT 0';
        CREATE FUNCTION trap.matches(text, text) RETURNS boolean LANGUAGE sql
            AS 'INSERT INTO trap.caught VALUES (current_user); SELECT true';
        CREATE OPERATOR trap.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.matches);
        GRANT ALL ON SCHEMA trap TO PUBLIC; GRANT ALL ON trap.caught TO PUBLIC;
        SET search_path = trap, pg_catalog, posthaste",
    );
    for call in [
        "create_queue('q')",
        "send('alice', 'q', 'x'::bytea)",
        "send('alice', 'q', 'x'::text)",
        "peek('bob', 'q')",
        "peek('bob', sender => 'alice')",
        "pop('bob', 'q')",
        "pop('bob', sender => 'alice')",
        "readable('bob')",
        "login('bob')",
        "delete_queue('q')",
    ] {
        let said = app.run(&format!("SELECT posthaste.{call}"));
        assert!(!said.contains("ERROR"), "{call}: {said}");
    }
    assert_eq!(app.run("SELECT count(*) FROM trap.caught"), "0");
    let open = "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace \
                AND coalesce(array_to_string(proconfig, ' '), '') NOT LIKE '%search_path=%, pg_temp%'";
    assert_eq!(shared().psql(&scale.face, open), "", "each has a search_path of its own");
}

#[test]
fn a_server_that_is_down_stops_its_own_queues_only() {
    if !has_plproxy() {
        return;
    }
    let (lasting, mut falling) = (Postgres::start(&[]), Postgres::start(&[]));
    let scale = Scale::over([&lasting, &falling]);
    let mut app = scale.app();
    let [lives, sleeps] = scale.a_queue_in_each(&mut app);
    app.run(&format!(
        "SELECT posthaste.send('alice', '{lives}', 'here'), posthaste.send('alice', '{sleeps}', 'kept')"
    ));
    let middleware = scale.middleware(0);
    let mut resp = login(&middleware, "bob");
    drop(scale);
    falling.stop(Stop::Fast);

    let body =
        |queue: &str| format!("SELECT convert_from(body, 'UTF8') FROM posthaste.pop('bob', '{queue}')");
    assert!(app.run(&body(&sleeps)).contains("ERROR:"));
    assert!(
        app.run("SELECT posthaste.readable('bob')").contains("ERROR:"),
        "half an answer would be a wrong one"
    );
    assert_eq!(app.run(&body(&lives)), "here");
    app.run(&format!("SELECT posthaste.send('alice', '{lives}', 'more')"));
    assert_eq!(resp.ask(&["POP", "QUEUE", &lives]).expect("an answer").body(), Some("more"));

    falling.start_again();
    // The first call may find its connection gone; the one after it has a new one.
    app.run(&format!("SELECT FROM posthaste.peek('bob', '{sleeps}')"));
    assert_eq!(app.run("SELECT posthaste.readable('bob')"), sleeps);
    assert_eq!(app.run(&body(&sleeps)), "kept");
}
