//! A connection that asks a queue tier about itself: TIME and INFO.

use std::str::FromStr;

use posthaste_wire::reply::Value;

use crate::address::Address;
use crate::probe::{Count, Probe};
use crate::queue::session::Session;

/// One server's probe.
#[derive(Debug)]
pub(crate) struct QueueProbe(Session);

impl QueueProbe {
    /// Connects; None when the server cannot be reached once more, which the run does not depend on.
    pub(crate) fn connect(server: &Address) -> Option<Self> {
        Session::connect(server, None).ok().map(Self)
    }
}

impl Probe for QueueProbe {
    fn unix_ns(&mut self) -> Option<u64> {
        let number = |part: Option<&Value<'_>>| -> Option<u64> {
            std::str::from_utf8(part?.as_bytes()?).ok()?.parse().ok()
        };
        let time = self.0.call(&["TIME"], |time| {
            let parts = time.parts();
            Some((number(parts.first())?, number(parts.get(1))?))
        });
        let (seconds, micros) = time.ok()??;
        Some(seconds * 1_000_000_000 + micros * 1_000)
    }

    fn count(&mut self) -> Option<Count> {
        let info = self.0.call(&["INFO", "stats"], |info| {
            info.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned())
        });
        let info = info.ok()??;
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
    use super::*;

    #[test]
    fn what_info_does_not_say_is_not_known() {
        let info = "# Stats\r\nnow_s:1.500000\r\nrequests_so_far:12\r\n";
        assert_eq!(named::<u64>(info, "requests_so_far"), Some(12));
        assert_eq!(named::<f64>(info, "now_s"), Some(1.5));
        assert_eq!(named::<u64>("# Stats\r\nredis_version:7\r\n", "requests_so_far"), None);
    }
}
