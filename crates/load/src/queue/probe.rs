//! A connection that asks a queue tier about itself: TIME and INFO.

use std::str::FromStr;

use posthaste_wire::reply::Value;

use crate::address::Address;
use crate::probe::{Count, PATIENCE, Probe};
use crate::queue::session::Session;

/// One server's probe; None: it has not answered, and is asked nothing more.
#[derive(Debug)]
pub(crate) struct QueueProbe(Option<Session>);

impl QueueProbe {
    /// Connects; None if the server cannot be reached, which the run does not depend on.
    pub(crate) fn connect(server: &Address) -> Option<Self> {
        Session::connect_within(server, None, PATIENCE).ok().map(|session| Self(Some(session)))
    }

    fn ask<T>(&mut self, words: &[&str], look: impl FnOnce(Value<'_>) -> Option<T>) -> Option<T> {
        let answer = self.0.as_mut()?.call(words, look);
        if answer.is_err() {
            self.0 = None;
        }
        answer.ok()?
    }
}

impl Probe for QueueProbe {
    fn unix_ns(&mut self) -> Option<u64> {
        let number = |part: Option<&Value<'_>>| -> Option<u64> {
            std::str::from_utf8(part?.as_bytes()?).ok()?.parse().ok()
        };
        let (seconds, micros) = self.ask(&["TIME"], |time| {
            let parts = time.parts();
            Some((number(parts.first())?, number(parts.get(1))?))
        })?;
        Some(seconds * 1_000_000_000 + micros * 1_000)
    }

    fn count(&mut self) -> Option<Count> {
        let info = self.ask(&["INFO", "stats"], |info| {
            info.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned())
        })?;
        Some(Count { requests: named(&info, "requests_so_far")?, at_s: named(&info, "now_s")? })
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
        let address = silent.local_addr().expect("an address").to_string().parse().expect("an address");
        let session = Session::connect_within(&address, None, Duration::from_millis(50)).expect("a backlog");
        let mut probe = QueueProbe(Some(session));
        assert_eq!(probe.count(), None);
        assert!(probe.0.is_none());
        assert_eq!(probe.unix_ns(), None);
    }

    #[test]
    fn what_info_does_not_say_is_not_known() {
        let info = "# Stats\r\nnow_s:1.500000\r\nrequests_so_far:12\r\n";
        assert_eq!(named::<u64>(info, "requests_so_far"), Some(12));
        assert_eq!(named::<f64>(info, "now_s"), Some(1.5));
        assert_eq!(named::<u64>("# Stats\r\nredis_version:7\r\n", "requests_so_far"), None);
    }
}
