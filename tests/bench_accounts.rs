//! The load generator at a server that keeps accounts: it logs in with a secret that nobody else gets to see.

mod support;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::Server;

const SECRET: &str = "open sesame";

/// An accounts file with the accounts 1 to 3, and a file with their secret.
fn accounts(dir: &Path) -> (PathBuf, PathBuf) {
    let (accounts, secret) = (dir.join("accounts.txt"), dir.join("secret.txt"));
    fs::write(&secret, format!("{SECRET}\n")).expect("a file");
    for name in ["1", "2", "3"] {
        let mut add = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        add.args(["admin", "account", "add", name, "--file"]).arg(&accounts);
        let mut add =
            add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program can be run");
        add.stdin.take().expect("stdin is piped").write_all(SECRET.as_bytes()).expect("it reads");
        assert!(add.wait().expect("it ends").success());
    }
    (accounts, secret)
}

fn bench(server: &Server, clients: &str, arguments: &[&str]) -> Output {
    load(server, clients, arguments).output().expect("the program can be run")
}

fn load(server: &Server, clients: &str, arguments: &[&str]) -> Command {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    bench.args(["bench", "queue", "--connect", &server.addr().to_string(), "--clients", clients]);
    // Counted, not timed: on a slow machine nothing may be answered in a short time.
    bench.args(["--requests", "100"]).args(arguments);
    bench
}

#[test]
fn it_logs_in_with_a_secret_that_stands_nowhere_but_in_its_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (accounts, secret) = accounts(dir.path());
    let text = |path: &Path| path.to_str().expect("a path").to_owned();
    let server = Server::start("memory:", &["--accounts", &text(&accounts)]);
    let record = dir.path().join("record");

    let (secret_file, record_dir) = (text(&secret), text(&record));
    let load = ["--secret-file", &secret_file, "--preload", "600", "--check", "--record", &record_dir];
    let done = bench(&server, "3", &load);
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains(" 0 missing"), "{said}");
    for file in ["run.json", "summary.json"] {
        let text = fs::read_to_string(record.join(file)).expect("a file");
        assert!(text.contains("secret.txt") && !text.contains(SECRET), "{file}: {text}");
    }

    // By its other name; and a fourth account is not there.
    let done = bench(&server, "4", &["--password-file", &secret_file]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("LOGIN 4") && said.contains("NOACCOUNT") && !said.contains(SECRET), "{said}");
}

#[test]
fn the_secret_may_come_through_a_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let (accounts, _) = accounts(dir.path());
    let server = Server::start("memory:", &["--accounts", accounts.to_str().expect("a path")]);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(format!("{SECRET}\n").as_bytes()).expect("written");
    drop(writer);
    let done = load(&server, "2", &["--secret-file", "/dev/stdin"]).stdin(reader).output();
    let done = done.expect("the program can be run");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_server_that_closes_idle_connections_is_asked_for_its_count_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let (accounts, secret) = accounts(dir.path());
    let settings = ["--accounts", accounts.to_str().expect("a path"), "--idle-timeout", "1s"];
    let server = Server::start("memory:", &settings);
    let (address, secret) = (server.addr().to_string(), secret.to_str().expect("a path"));
    let load = ["bench", "queue", "--connect", &address, "--clients", "2", "--secret-file", secret];
    let times = ["--warmup", "0s", "--duration", "4s", "--cooldown", "0s", "--think", "10ms"];
    // A machine that stands still may spoil a count, or have clients that are idle closed, and not each of five times.
    let tells = || {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        let done = bench.args(load).args(times).output().expect("the program can be run");
        let said = String::from_utf8_lossy(&done.stdout);
        println!("{said}{}", String::from_utf8_lossy(&done.stderr));
        done.status.success() && said.contains("middleware: counted ")
    };
    assert!((0..5).any(|_| tells()), "the connection that asks was idle for four seconds");
}

#[test]
fn without_the_secret_it_is_not_let_in() {
    let dir = tempfile::tempdir().expect("a directory");
    let (accounts, secret) = accounts(dir.path());
    let server = Server::start("memory:", &["--accounts", accounts.to_str().expect("a path")]);
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let done = bench(&server, "2", arguments);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), said.lines().count()), (Some(code), 1), "{said}");
        assert!(said.contains(words), "{said}");
        said
    };
    refused(&[], 1, "NOACCOUNT");
    fs::write(&secret, "shut sesame\n").expect("a file");
    let said = refused(&["--secret-file", secret.to_str().expect("a path")], 1, "NOACCOUNT");
    assert!(!said.contains("shut sesame"));
    refused(&["--secret-file", "/nowhere/at/all"], 2, "--secret-file: cannot read /nowhere/at/all");
}
