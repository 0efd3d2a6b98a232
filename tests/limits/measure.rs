//! How large a limit is tried, and what is said about it.

use std::env;
use std::time::Instant;

use crate::client::{Answer, Client};
use crate::process::resident_at_most;
use crate::rows::{commit, leave};
use crate::support::Server;

/// So much in `make test`, so much in `make limits`.
pub(crate) fn of(little: usize, all: usize) -> usize {
    if env::var_os("LIMITS").is_some() { all } else { little }
}

/// One limit under way.
pub(crate) struct Limit {
    begun: Instant,
    what: String,
}

impl Limit {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { begun: Instant::now(), what: what.into() }
    }

    /// Since it began.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Leaves a row, and sees that the server never took more memory than this.
    pub(crate) fn finish(&self, server: &Server, most_mib: u64, more: &str) {
        let mib = resident_at_most(server.pid()) >> 20;
        let seconds = self.seconds();
        leave(&format!(
            "| {} | {mib} MiB | {most_mib} MiB | {seconds:.0} s | {more} | {} |",
            self.what,
            commit()
        ));
        assert!(mib <= most_mib, "{}: {mib} MiB", self.what);
    }
}

pub(crate) fn connect(server: &Server) -> Client {
    Client::connect(server.addr()).expect("the server runs")
}

pub(crate) fn ask(client: &mut Client, words: &[&str]) -> Answer {
    client.ask(words).expect("the server runs")
}

/// Sends requests in pipelines of `depth` and reads all of their answers.
pub(crate) fn pipeline(
    client: &mut Client,
    requests: impl Iterator<Item = Vec<String>>,
    depth: usize,
    mut check: impl FnMut(Answer),
) {
    let mut requests = requests.peekable();
    while requests.peek().is_some() {
        let mut asked = 0;
        for words in requests.by_ref().take(depth) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            client.send(&words).expect("the server reads");
            asked += 1;
        }
        for _ in 0..asked {
            check(client.answer().expect("the server answers"));
        }
    }
}
