//! Whether who waits is woken by news, and not because they look for themselves.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::client::Client;
use crate::support::patience::wait_for;

/// How soon news wakes whoever waits, by the documents.
const PROMISED: Duration = Duration::from_millis(50);

/// What a machine adds on which other tests run: each of the processes that pass news on may wait for a processor.
const SCHEDULING: Duration = Duration::from_millis(50);

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

/// Does something eleven times; `woken_after` says how long after it somebody was woken. Half of the times that is as
/// soon as promised: without news they look for themselves, a second after the time before. On a busy machine anything
/// may have to wait for a processor, so there are ten tries.
pub(crate) fn is_told(mut woken_after: impl FnMut() -> Duration) -> bool {
    (0..10).any(|_| {
        let mut times: Vec<Duration> = (0..11).map(|_| woken_after()).collect();
        times.sort_unstable();
        println!("woken after {times:?}");
        times[times.len() / 2] < PROMISED + SCHEDULING
    })
}
