//! Whether who waits is woken by news, and not because they look for themselves.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::Client;

/// Half of the second after which all look for themselves, so that it must have been news.
const TOLD_WITHIN: Duration = Duration::from_millis(500);

/// How long anything is waited for that comes by itself. Machines that are shared stand still at times.
const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until so many pops wait at a server.
pub(crate) fn wait_until_blocked(server: SocketAddr, pops: usize) {
    let mut watcher = Client::login(server, "watcher").expect("it runs");
    let wanted = format!("blocked_clients:{pops}\r\n");
    let start = Instant::now();
    loop {
        let info = watcher.ask(&["INFO"]).expect("it runs");
        let text = info.text().expect("a text");
        if text.contains(&wanted) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "no {wanted:?} in {text}");
        sleep(Duration::from_millis(1));
    }
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
