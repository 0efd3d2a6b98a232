//! A connection that asks a queue tier about itself: TIME and INFO.

use std::str::FromStr;

use posthaste_wire::reply::Value;

use crate::address::Address;
use crate::error::LoadError;
use crate::probe::{Count, PATIENCE, Probe};
use crate::probe_connection::ProbeConnection;
use crate::queue::QueueBench;
use crate::queue::session::Session;

/// One server's probe.
pub(crate) struct QueueProbe(ProbeConnection<Session>);

impl QueueProbe {
    /// Connects, and logs in where the server keeps accounts: a connection that has not is closed after a minute.
    pub(crate) fn new(bench: &QueueBench, server: &Address) -> Self {
        let (server, account, secret) = (server.clone(), bench.first_client, bench.secret_file.clone());
        Self(ProbeConnection::new(move || {
            let mut session = Session::connect_within(&server, secret.as_ref(), PATIENCE)?;
            if secret.is_some() {
                session.log_in(account)?;
            }
            Ok(session)
        }))
    }

    fn ask<T>(
        &mut self,
        words: &[&str],
        look: impl Fn(Value<'_>) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        self.0.ask(|session| session.call(words, &look))
    }
}

impl Probe for QueueProbe {
    fn unix_ns(&mut self) -> Option<u64> {
        let number = |part: Option<&Value<'_>>| -> Option<u64> {
            std::str::from_utf8(part?.as_bytes()?).ok()?.parse().ok()
        };
        let time = self.ask(&["TIME"], |time| {
            let parts = time.parts();
            Some((number(parts.first())?, number(parts.get(1))?))
        });
        let (seconds, micros) = time.ok()??;
        Some(seconds * 1_000_000_000 + micros * 1_000)
    }

    fn count(&mut self) -> Result<Option<Count>, LoadError> {
        self.ask(&["INFO", "stats"], |info| {
            let info = String::from_utf8_lossy(info.as_bytes()?);
            Some(Count { requests: named(&info, "requests_so_far")?, at_s: named(&info, "now_s")? })
        })
    }
}

/// The value of a line `name:value`.
fn named<T: FromStr>(info: &str, name: &str) -> Option<T> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(known, _)| *known == name)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_asked_once() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address: Address =
            silent.local_addr().expect("an address").to_string().parse().expect("an address");
        let connect = move || Session::connect_within(&address, None, Duration::from_millis(50));
        let mut probe = QueueProbe(ProbeConnection::new(connect));
        let why = probe.count().expect_err("nobody answers").to_string();
        assert!(why.contains("does not answer"), "{why}");
        assert_eq!(probe.unix_ns(), None);
        silent.accept().expect("the first connection");
        silent.set_nonblocking(true).expect("a socket");
        assert!(silent.accept().is_err(), "there was no second one");
    }

    #[test]
    fn what_info_does_not_say_is_not_known() {
        let info = "# Stats\r\nnow_s:1.500000\r\nrequests_so_far:12\r\n";
        assert_eq!(named::<u64>(info, "requests_so_far"), Some(12));
        assert_eq!(named::<f64>(info, "now_s"), Some(1.5));
        assert_eq!(named::<u64>("# Stats\r\nredis_version:7\r\n", "requests_so_far"), None);
    }
}
