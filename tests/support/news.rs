//! Whether who waits is woken by news, and not because they look for themselves.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Client;
use crate::support::patience::wait_for;

/// Half of the second after which all look for themselves, so that it must have been news.
const TOLD_WITHIN: Duration = Duration::from_millis(500);

/// Waits until so many pops wait at a server.
#[track_caller]
pub(crate) fn wait_until_blocked(server: SocketAddr, pops: usize) {
    wait_for_info(server, &format!("blocked_clients:{pops}"));
}

/// Waits until a line of a server's INFO is this one.
#[track_caller]
pub(crate) fn wait_for_info(server: SocketAddr, line: &str) {
    let mut watcher = Client::connect(server).expect("it runs");
    wait_for(format!("INFO says {line}"), || {
        let info = watcher.ask(&["INFO"]).expect("it runs");
        let text = info.text().expect("a text").to_owned();
        if text.lines().any(|said| said == line) { Ok(()) } else { Err(text) }
    });
}

/// Does something eleven times; how long after it somebody was woken each time. By news, in nine of them: without it they
/// look for themselves, a second after the time before. On a busy machine anything may have to wait for a
/// processor, so there are ten tries.
pub(crate) fn is_told(mut woken_after: impl FnMut() -> Duration) -> bool {
    (0..10).any(|_| {
        let mut times: Vec<Duration> = (0..11).map(|_| woken_after()).collect();
        times.sort_unstable();
        println!("woken after {times:?}");
        times[8] < TOLD_WITHIN
    })
}
