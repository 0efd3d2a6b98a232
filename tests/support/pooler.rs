//! PgBouncer in transaction mode before a PostgreSQL: each transaction may run in another session of the server.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::postgres::{Postgres, unprivileged};
use crate::support::patience::wait_for;

/// How many ports are tried.
const PORTS_TRIED: usize = 5;

/// A running pooler, gone with this value.
pub(crate) struct Pooler {
    process: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Pooler {
    /// Starts one that has at most `size` sessions with the server.
    pub(crate) fn start(server: &Postgres, size: usize) -> Self {
        // Somebody may take a port between its choice and its use.
        (0..PORTS_TRIED).find_map(|_| Self::try_start(server, size)).expect("a pooler on a free port")
    }

    /// None: it ended at once.
    fn try_start(server: &Postgres, size: usize) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ini = directory.path().join("pgbouncer.ini");
        fs::write(&ini, settings(server, port, size)).expect("a file");
        let log = fs::File::create(directory.path().join("log")).expect("a file");
        // It refuses to run as root, and reads its settings as whom it runs.
        let mut command = match unprivileged() {
            Some((user, group)) => {
                let own = format!("{user}:{group}");
                let given = Command::new("chown").args(["-R", &own]).arg(directory.path()).status();
                assert!(given.is_ok_and(|status| status.success()), "chown");
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &user, "--regid", &group, "--clear-groups", "--", "pgbouncer"]);
                command
            }
            None => Command::new("pgbouncer"),
        };
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let command = command.arg(&ini).env("PATH", path).stdin(Stdio::null()).stderr(log);
        let process = command.spawn().expect("pgbouncer can be run: install pgbouncer");
        let mut pooler = Self { process, port, directory };
        // Whoever answers at the port may be somebody else who took it first.
        let listens = format!("listening on 127.0.0.1:{port}");
        let is_there = wait_for("pgbouncer listens, or ends", || {
            let has_ended = pooler.process.try_wait().expect("a process of ours").is_some();
            let log = pooler.log();
            if has_ended || log.contains(&listens) { Ok(!has_ended) } else { Err(log) }
        });
        if !is_there {
            eprintln!("pgbouncer ended:\n{}", pooler.log());
        }
        is_there.then_some(pooler)
    }

    /// Has another server, with at most `size` sessions, for what is asked from now on.
    pub(crate) fn turn_to(&self, server: &Postgres, size: usize) {
        let ini = self.directory.path().join("pgbouncer.ini");
        fs::write(ini, settings(server, self.port, size)).expect("a file");
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, Signal::HUP).expect("it runs");
    }

    /// The URL of a database behind it.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("a process of ours").is_none()
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

fn settings(server: &Postgres, port: u16, size: usize) -> String {
    format!(
        "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
         default_pool_size = {size}\nmax_client_conn = 200\nserver_login_retry = 1\n",
        server.port()
    )
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill(); // it may have ended by itself
        let _ = self.process.wait();
    }
}
