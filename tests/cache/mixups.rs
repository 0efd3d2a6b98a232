//! No answer ever reaches the wrong request, and none is older than what was stored, while servers are killed and
//! stalled at random.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::client::router;
use crate::memcached::Memcached;
use crate::process::allow_files;
use crate::talk::talk_while;

/// Threads that drive clients.
const THREADS: usize = 8;

/// Connections of one thread: a thousand in all.
const CONNECTIONS: usize = 125;

/// How long each mode is tried.
const DURATION: Duration = Duration::from_secs(5);

#[test]
fn answers_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2"]);
}

#[test]
fn answers_of_workers_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2", "--workers", "8", "--eject", "on"]);
}

#[test]
fn answers_of_shards_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2", "--writes", "owner"]);
}

fn chaos(arguments: &[&str]) {
    // All tests of this program may run at once.
    allow_files(3 * (THREADS * CONNECTIONS) as u64 + 500);
    let mut servers = Memcached::several::<3>();
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&names, &[arguments, &["--server-timeout", "100ms", "--multiget", "split"]].concat());
    let heard = talk_while(server.addr(), 0..THREADS * CONNECTIONS, THREADS, || {
        let (end, mut rng) = (Instant::now() + DURATION, Rng::with_seed(7));
        while Instant::now() < end {
            let victim = &mut servers[rng.usize(..3)];
            if rng.bool() {
                victim.kill();
                thread::sleep(Duration::from_millis(rng.u64(..100)));
                victim.restart();
            } else {
                victim.signal("STOP");
                thread::sleep(Duration::from_millis(rng.u64(..300)));
                victim.signal("CONT");
            }
            thread::sleep(Duration::from_millis(rng.u64(..200)));
        }
    });
    assert!(heard.answers.load(Ordering::Relaxed) > 1000, "there was hardly any traffic");
}
