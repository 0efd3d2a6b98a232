//! A psql that stays: a session with PostgreSQL whose transaction may be left open between two statements.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::postgres::Postgres;
use crate::support::patience::PATIENCE;

/// What stands at the end of each answer.
const END: &str = "--that is all--";

/// The session; its transaction is rolled back when it goes.
pub(crate) struct Session {
    psql: Child,
    lines: Receiver<String>,
    /// The next line, if it has been looked for.
    seen: Option<String>,
}

impl Session {
    /// Connects as a role of the server.
    pub(crate) fn open(server: &Postgres, database: &str, role: &str) -> Self {
        // Errors in between the answers: one pipe for both.
        let mut psql = Command::new("sh");
        psql.args(["-c", r#"exec psql "$@" 2>&1"#, "psql", "--no-psqlrc", "--quiet", "--tuples-only"]);
        psql.args(["--no-align", "--set=VERBOSITY=verbose", "--set=SHOW_CONTEXT=never"]);
        psql.arg("--host").arg(server.socket_dir()).args(["--port", &server.port().to_string()]);
        psql.args(["--username", role, "--dbname", database]);
        let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh can be run");
        let output = BufReader::new(psql.stdout.take().expect("stdout is piped"));
        let (found, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| found.send(line)));
        Self { psql, lines, seen: None }
    }

    /// The same if the server lets it in.
    pub(crate) fn open_if_let_in(server: &Postgres, database: &str, role: &str) -> Option<Self> {
        let mut session = Self::open(server, database, role);
        let is_in = session.say("SELECT 1").is_ok()
            && session.answer_within(PATIENCE).is_some_and(|answer| answer == "1");
        is_in.then_some(session)
    }

    /// The same as soon as the server lets it in: who has just been shown out may still have a place there.
    pub(crate) fn open_once_let_in(server: &Postgres, database: &str, role: &str) -> Self {
        let begun = Instant::now();
        loop {
            if let Some(session) = Self::open_if_let_in(server, database, role) {
                return session;
            }
            assert!(begun.elapsed() < PATIENCE, "there is no place");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs statements; the rows as lines, the columns with bars between them, errors among them.
    pub(crate) fn run(&mut self, sql: &str) -> String {
        self.begin(sql);
        self.finish()
    }

    /// Runs statements whose answer is fetched later by `finish`.
    pub(crate) fn begin(&mut self, sql: &str) {
        self.say(sql).expect("psql reads");
    }

    fn say(&mut self, sql: &str) -> io::Result<()> {
        let input = self.psql.stdin.as_mut().expect("stdin is piped");
        write!(input, "{sql};\n\\echo {END}\n").and_then(|()| input.flush())
    }

    /// The answer to what `begin` began.
    pub(crate) fn finish(&mut self) -> String {
        self.answer_within(PATIENCE).expect("psql answers")
    }

    /// Whether the answer to what `begin` began has begun to come.
    pub(crate) fn has_answered(&mut self) -> bool {
        if self.seen.is_none() {
            self.seen = match self.lines.try_recv() {
                Ok(line) => Some(line),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => panic!("psql has ended"),
            };
        }
        self.seen.is_some()
    }

    /// The answer, if it comes in time; otherwise nothing of it may be asked for again.
    pub(crate) fn answer_within(&mut self, patience: Duration) -> Option<String> {
        let mut answer = Vec::new();
        loop {
            let line = self.seen.take().or_else(|| self.lines.recv_timeout(patience).ok())?;
            if line == END {
                return Some(answer.join("\n"));
            }
            answer.push(line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill(); // it may have ended with its server
        let _ = self.psql.wait();
    }
}
