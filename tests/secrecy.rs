//! The way to the database: encrypted as the URL says, and its password nowhere to be seen.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/session.rs"]
mod session;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Answer, Client};
use postgres::Postgres;
use session::Session;
use support::Server;
use support::patience::{PATIENCE, wait_for};

/// A certificate for a name, signed by itself: itself the authority. And its key.
fn certificate(directory: &Path) -> (String, String) {
    let path = |name: &str| directory.join(name).display().to_string();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args([
        "-days",
        "2",
        "-subj",
        "/CN=authority",
        "-keyout",
        &path("ca.key"),
        "-out",
        &path("ca.crt"),
    ]);
    assert!(openssl.output().expect("openssl runs").status.success());
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.args(["-CA", &path("ca.crt"), "-CAkey", &path("ca.key")]);
    openssl.args(["-keyout", &path("db.key"), "-out", &path("db.crt")]);
    assert!(openssl.output().expect("openssl runs").status.success());
    let read = |name: &str| fs::read_to_string(path(name)).expect("openssl wrote it");
    (read("db.crt"), read("db.key"))
}

/// A server whose user `app` needs the password `sesame`, and a database.
fn guarded(lines: &str) -> (Postgres, String) {
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    postgres.psql("postgres", "CREATE ROLE app SUPERUSER LOGIN PASSWORD 'sesame'");
    postgres.admit_over_tcp(lines);
    (postgres, database)
}

fn works(server: &Server) {
    let mut client = Client::login(server.addr(), "ann").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    assert!(client.ask(&["SEND", "q", "hello"]).expect("it runs").integer().is_some());
}

/// An encrypted server with a database, and the URL of both by a name of the server's.
struct Encrypted {
    postgres: Postgres,
    database: String,
    directory: tempfile::TempDir,
}

impl Encrypted {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (postgres, database) = guarded("hostssl all all 127.0.0.1/32 scram-sha-256");
        let (crt, key) = certificate(directory.path());
        postgres.encrypt(&crt, &key, &crt);
        Self { postgres, database, directory }
    }

    fn url(&self, host: &str) -> String {
        let (port, database) = (self.postgres.port(), &self.database);
        let ca = self.directory.path().join("ca.crt");
        format!(
            "postgres://app:sesame@{host}:{port}/{database}?sslmode=verify-full&sslrootcert={}",
            ca.display()
        )
    }
}

#[test]
fn the_way_is_encrypted_and_the_server_proven() {
    let encrypted = Encrypted::start();
    let server = Server::start(&encrypted.url("localhost"), &[]);
    works(&server);
    let plain = "SELECT count(*) FILTER (WHERE NOT ssl), count(*) > 1 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE usename = 'app'";
    assert_eq!(encrypted.postgres.psql("postgres", plain), "0|t");
    // The same server by a name that it cannot prove to have.
    let mut stranger = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    stranger.args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store"]);
    stranger.arg(encrypted.url("127.0.0.1"));
    let output = stranger.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("certificate") && !said.contains("sesame"), "{said}");
}

/// Only of a statement that has ended it is known that nothing was changed.
#[test]
fn a_statement_is_cancelled_over_an_encrypted_connection_and_over_a_unix_socket() {
    let encrypted = Encrypted::start();
    let (postgres, database) = (&encrypted.postgres, &encrypted.database);
    let socket = postgres.socket_dir().display().to_string().replace('/', "%2F");
    let unix = format!("postgres://app@{socket}:{}/{database}", postgres.port());
    let servers = [encrypted.url("localhost"), unix].map(|url| Server::start(&url, &[]));
    let mut clients = servers.each_ref().map(|server| Client::login(server.addr(), "ann").expect("it runs"));
    clients[0].ask(&["QCREATE", "q"]).expect("it runs");
    let mut slow = Session::open(postgres, database, "postgres");
    slow.run("BEGIN; LOCK TABLE posthaste.message_aside");
    for client in &mut clients {
        client.send(&["POP", "QUEUE", "q"]).expect("it runs");
    }
    for client in &mut clients {
        let answer = client.answer().expect("it runs");
        let Answer::Error(said) = &answer else { panic!("{answer:?}") };
        assert!(said.starts_with("STORE ") && said.contains("nothing was changed"), "{said}");
    }
    slow.run("COMMIT");
}

/// What others can see of a process, and what its owner can.
fn arguments(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

#[test]
fn the_password_is_nowhere_to_be_seen() {
    let (postgres, database) = guarded("host all all 127.0.0.1/32 scram-sha-256");
    let url = format!("postgres://app:sesame@127.0.0.1:{}/{database}", postgres.port());
    let record = tempfile::tempdir().expect("a temporary directory");
    let directory = record.path().join("run");
    let server = Server::start(&url, &["--log-format", "json", "--record", &directory.display().to_string()]);
    works(&server);
    let shown = arguments(server.pid());
    assert!(shown.contains("postgres://app@127.0.0.1") && shown.contains("--record"), "{shown}");
    assert!(!shown.contains("sesame"), "{shown}");
    let mode = fs::metadata(format!("/proc/{}/environ", server.pid())).expect("it runs").permissions().mode();
    assert_eq!(mode & 0o077, 0, "others could read the environment");
    // A refusal is told without it, too.
    postgres.psql("postgres", "ALTER ROLE app PASSWORD 'other'");
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";
    let log = wait_for("the refusal is logged", || {
        // Again and again: who is just being let in by the old password stands nowhere yet.
        postgres.psql("postgres", sql);
        let log = server.log();
        if log.contains("check user and password") { Ok(log) } else { Err(log) }
    });
    server.stop();
    assert!(!log.contains("sesame"), "{log}");
    let note = fs::read_to_string(directory.join("run.json")).expect("a record");
    assert!(note.contains("postgres://app@127.0.0.1") && !note.contains("sesame"), "{note}");
}

#[test]
fn every_command_that_takes_a_url_hides_its_password() {
    // A server that never answers keeps them waiting while we look.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    silent.set_nonblocking(true).expect("a socket can be asked");
    let port = silent.local_addr().expect("its address").port();
    let url = format!("postgres://app:ses%40me@127.0.0.1:{port}/x");
    let joined = format!("--store={url}");
    for words in [
        &["migrate", "--store", &url][..],
        &["migrate", &joined],
        &["queue", &joined],
        &["admin", "store", "--store", &url],
        &["admin", "store", &joined],
        &["bench", "store", "--store", &url],
        &["bench", "store", &joined],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        let command = command.args(words).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program runs");
        let (begun, _) = wait_for("it connects", || silent.accept());
        let shown = arguments(child.id());
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
        drop(begun);
        assert!(shown.contains("postgres://app@127.0.0.1"), "{shown}");
        assert!(!shown.contains("ses"), "{shown}");
    }
}

#[test]
fn a_password_given_in_the_environment_is_not_logged() {
    let (postgres, database) = guarded("host all all 127.0.0.1/32 scram-sha-256");
    let url = format!("postgres://app:sesame@127.0.0.1:{}/{database}", postgres.port());
    let directory = tempfile::tempdir().expect("a temporary directory");
    let log = directory.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(["queue", "--listen", "127.0.0.1:0", "--http", "off"]).env("POSTHASTE_QUEUE_STORE", url);
    command.stderr(fs::File::create(&log).expect("a file"));
    let mut child = command.spawn().expect("the program runs");
    let said = || fs::read_to_string(&log).expect("the log");
    let start = Instant::now();
    while !said().contains("listening on") && start.elapsed() < PATIENCE {
        sleep(Duration::from_millis(10));
    }
    child.kill().and_then(|()| child.wait()).expect("it can be killed");
    assert!(said().contains("listening on"), "{}", said());
    assert!(said().contains("postgres://app@127.0.0.1") && !said().contains("sesame"), "{}", said());
}
