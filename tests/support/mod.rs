//! A `posthaste queue` process for a test: started on a free port, and gone when the test is.

#![allow(dead_code, reason = "each test program uses its own part of this")]

pub(crate) mod ends;
pub(crate) mod patience;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use patience::{PATIENCE, wait_for};

/// A running server.
pub(crate) struct Server {
    child: Child,
    addr: SocketAddr,
    log: Log,
}

/// What the server wrote to stderr so far.
type Log = Arc<Mutex<String>>;

/// How many bytes of it the output of a failed test has.
const LAST_WORDS: usize = 16 * 1024;

impl Server {
    /// Starts `posthaste queue` on `store` with further arguments and waits until it listens.
    pub(crate) fn start(store: &str, arguments: &[&str]) -> Self {
        Self::launch(&["queue", "--http", "off", "--store", store], arguments, &[])
    }

    /// The same with more in its environment.
    pub(crate) fn start_with(store: &str, environment: &[(String, String)]) -> Self {
        Self::launch(&["queue", "--http", "off", "--store", store], &[""; 0], environment)
    }

    /// The same with HTTP on a free port.
    pub(crate) fn start_with_http(store: &str, arguments: &[&str]) -> Self {
        Self::launch(&["queue", "--http", "127.0.0.1:0", "--store", store], arguments, &[])
    }

    /// Starts `posthaste cache` with these arguments, HTTP on a free port, and waits until it listens.
    pub(crate) fn start_cache(arguments: &[&str]) -> Self {
        Self::launch(&["cache", "--http", "127.0.0.1:0"], arguments, &[])
    }

    /// Starts a tier that leaves its record in `dir`, whose name may be any bytes.
    pub(crate) fn start_recorded(command: &[&str], dir: &Path) -> Self {
        Self::launch(command, &[OsStr::new("--record"), dir.as_os_str()], &[])
    }

    fn launch(command: &[&str], arguments: &[impl AsRef<OsStr>], environment: &[(String, String)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_posthaste"))
            .args(command)
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the posthaste program can be run");
        let log = Log::default();
        let stderr = child.stderr.take().expect("stderr is piped");
        let listening = follow(stderr, Arc::clone(&log));
        let Ok(addr) = listening.recv_timeout(PATIENCE) else {
            child.kill().and_then(|()| child.wait()).expect("a child can be killed");
            panic!("the server did not say where it listens; it said:\n{}", log.lock().expect("log"));
        };
        Self { child, addr, log }
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Asks `GET /readyz`: the status, and what it says.
    pub(crate) fn readiness(&self) -> (u16, String) {
        self.page("/readyz")
    }

    /// Asks `GET path`: the status, and what it says.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        let mut text = String::new();
        let mut stream = TcpStream::connect(self.http()).expect("HTTP is served");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let asked = write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        asked.and_then(|()| stream.read_to_string(&mut text)).expect("an answer");
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, text.split_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned()).unwrap_or_default())
    }

    /// Where HTTP listens.
    #[track_caller]
    pub(crate) fn http(&self) -> SocketAddr {
        wait_for("it serves HTTP", || {
            let log = self.log();
            let found = log
                .lines()
                .find_map(|line| address_after("on http://", line).or(address_after("on https://", line)));
            found.ok_or(log)
        })
    }

    /// Waits until it has written these words to stderr.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, words: &str) {
        self.wait_for_logs(words, 1);
    }

    /// The same for words that it is to write so often.
    #[track_caller]
    pub(crate) fn wait_for_logs(&self, words: &str, times: usize) {
        wait_for(format!("{times} of {words:?} in the log"), || {
            if self.times_logged(words) >= times { Ok(()) } else { Err(self.log()) }
        });
    }

    /// How often it wrote these words to stderr so far.
    pub(crate) fn times_logged(&self, words: &str) -> usize {
        self.log().matches(words).count()
    }

    /// Has it read its files again, and waits until it has said this about it.
    #[track_caller]
    pub(crate) fn reload(&self, said: &str) {
        let before = self.times_logged(said);
        self.signal("HUP");
        self.wait_for_logs(said, before + 1);
    }

    /// What it wrote to stderr so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("log").clone()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Sends it a signal, by the name that kill(1) gives it.
    pub(crate) fn signal(&self, name: &str) {
        let asked = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(asked.is_ok_and(|status| status.success()), "kill -{name}");
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    pub(crate) fn stop(self) -> ExitStatus {
        self.signal("TERM");
        self.end()
    }

    /// Waits until it has ended.
    pub(crate) fn end(mut self) -> ExitStatus {
        wait_for("it has ended", || {
            self.child.try_wait().expect("a child can be waited for").ok_or("it goes on")
        })
    }

    /// Ends it without warning (SIGKILL).
    pub(crate) fn kill9(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            eprintln!(
                "a tier's log ended:\n{}",
                &log[log.floor_char_boundary(log.len().saturating_sub(LAST_WORDS))..]
            );
        }
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}

/// Reads stderr to its end, keeps it, and reports the first address listened on.
fn follow(stderr: ChildStderr, log: Log) -> Receiver<SocketAddr> {
    let (found, listening) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if let Some(addr) = address_in(&line) {
                let _ = found.send(addr); // nobody listens for a second one
            }
            let mut log = log.lock().expect("log");
            log.push_str(&line);
            log.push('\n');
        }
    });
    listening
}

/// The address in a line that says `listening on 127.0.0.1:PORT`.
fn address_in(line: &str) -> Option<SocketAddr> {
    address_after("listening on ", line)
}

fn address_after(words: &str, line: &str) -> Option<SocketAddr> {
    let (_, after) = line.split_once(words)?;
    after.split(|c: char| c.is_whitespace() || c == '"' || c == ',').next()?.parse().ok()
}
