//! A client that is always a little behind with reading makes neither tier hold what it has read: the network thread of
//! each, over a socket pair, turned by hand.

#[path = "support/by_hand.rs"]
mod by_hand;

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use posthaste_measure::Clock;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::rules::Rules;

/// What the client asks for, and reads, in one round: with the requests, not more than a tier reads in one turn.
const STEP: usize = 48 * 1024;
/// How far it is behind with reading: by more than a socket holds, and not so far that a tier stops reading from it.
const STEPS_BEHIND: usize = 16;
/// 48 MiB in all.
const ROUNDS: usize = 1024;
/// What a thread may come to hold for that: a buffer may be twice as long as what is in it, and grows by twice while it
/// moves.
const MOST: u64 = 8 * (STEPS_BEHIND * STEP) as u64;

/// What the thread that `turn` turns comes to hold while a client asks on. Each request is answered by so many bytes.
fn grown(mut client: UnixStream, request: &[u8], answer_bytes: usize, mut turn: impl FnMut()) -> u64 {
    let requests = STEP / answer_bytes;
    let (asked, mut heard) = (request.repeat(requests), vec![0; requests * answer_bytes]);
    let held = allocation_counter::measure(|| {
        for round in 0..ROUNDS {
            client.write_all(&asked).expect("all that was sent before is read");
            turn();
            let mut at = if round < STEPS_BEHIND { heard.len() } else { 0 };
            while at < heard.len() {
                match client.read(&mut heard[at..]) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => turn(),
                    read => at += read.expect("it goes on"),
                }
            }
        }
    });
    held.bytes_max
}

#[test]
fn of_the_queue_tier() {
    let mut tier = by_hand::Tier::new();
    let client = tier.connect().expect("there is room");
    let request = format!("PING {}\r\n", "x".repeat(1000));
    let grown = grown(client, request.as_bytes(), "$1000\r\n\r\n".len() + 1000, || tier.turn());
    assert!(grown < MOST, "{grown} bytes");
}

#[test]
fn of_the_cache_tier() {
    let mut layout = Layout::of_one_pool(vec![MemberPlan::of("127.0.0.1:1")], Rules::default());
    layout.settings.mock = Some(1000);
    let mut thread = cache_by_hand::Thread::new(&layout, Clock::start());
    let client = thread.connect();
    let answer_bytes = "VALUE a 0 1000\r\n\r\nEND\r\n".len() + 1000;
    let grown = grown(client, b"get a\r\n", answer_bytes, || thread.turn());
    assert!(grown < MOST, "{grown} bytes");
}
