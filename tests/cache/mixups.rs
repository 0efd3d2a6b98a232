//! No answer ever reaches the wrong request, and none is older than what was stored, while servers are killed and
//! stalled at random. And clients are served: most of the time meanwhile, always before and afterwards.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::client::router;
use crate::memcached::Memcached;
use crate::process::allow_files;
use crate::talk::{assert_served, talk_undisturbed, talk_while};

/// Threads that drive clients.
const THREADS: usize = 8;

/// Connections of one thread: a thousand in all.
const CONNECTIONS: usize = 125;

/// How long each mode is tried.
const DURATION: Duration = Duration::from_secs(5);

/// Errors in a hundred requests, at most: with replicas some 1, when all are away at once. Shards that are away answer
/// a third of all requests by errors, which are soon repeated.
const REPLICAS: u64 = 25;
const SHARDS: u64 = 80;

#[test]
fn answers_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2"], REPLICAS);
}

#[test]
fn answers_of_workers_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2", "--workers", "8", "--eject", "on"], REPLICAS);
}

#[test]
fn answers_of_shards_belong_to_their_requests_while_servers_die_and_stall() {
    chaos(&["--threads", "2", "--writes", "owner"], SHARDS);
}

/// Of the requests so many percent may meet errors meanwhile.
fn chaos(arguments: &[&str], errors_percent: u64) {
    // All tests of this program may run at once.
    allow_files(3 * (THREADS * CONNECTIONS) as u64 + 500);
    let mut servers = Memcached::several::<3>();
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&refs, &[arguments, &["--server-timeout", "100ms", "--multiget", "split"]].concat());
    talk_undisturbed(server.addr(), &names, THREADS * CONNECTIONS);
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
    let figures = heard.figures();
    assert!(figures[0] > 1000, "there was hardly any traffic");
    assert_served(figures, errors_percent);
    talk_undisturbed(server.addr(), &names, 100 * THREADS * CONNECTIONS);
}
