//! memcached servers below the cache tier: killed, frozen, and back with values that were overwritten meanwhile.
//!
//! Every answer is checked by the one client that writes its keys. In the table *acknowledged* are answers, *invented*
//! those of somebody else or never stored, *reordered* those older than what was stored, and *in doubt* requests that
//! were answered with an error.

#[allow(dead_code, reason = "made for the tests of the cache tier")]
#[path = "../cache/client.rs"]
mod client;
#[allow(dead_code, reason = "made for the tests of the cache tier")]
#[path = "../cache/memcached.rs"]
pub(crate) mod memcached;
#[path = "../cache/talk.rs"]
mod talk;

use std::thread::sleep;
use std::time::Duration;

use client::{Client, router};
use fastrand::Rng;
use memcached::Memcached;
use talk::{assert_served, talk_undisturbed, talk_while};

use crate::campaign::Campaign;
use crate::process::allow_files;
use crate::support::Server;
use crate::verdict::Tally;

/// Clients of a round, and threads that drive them.
const CLIENTS: usize = 60;
const THREADS: usize = 2;

/// Requests in a hundred that may meet errors: of shards those whose server is away, and they are soon repeated.
const ERRORS_PERCENT: u64 = 80;

/// For so long a server is away and others are written.
const AWAY: Duration = Duration::from_millis(150);

#[test]
fn memcached_servers_killed() {
    disturb(Campaign::new("memcached killed, replicas", 8), &[], |victim, _, dice| {
        victim.kill();
        sleep(Duration::from_millis(dice.u64(..100)));
        victim.restart();
    });
}

#[test]
fn memcached_servers_killed_among_shards() {
    disturb(Campaign::new("memcached killed, shards", 8), &["--writes", "owner"], |victim, _, dice| {
        victim.kill();
        sleep(Duration::from_millis(dice.u64(..100)));
        victim.restart();
    });
}

#[test]
fn memcached_servers_frozen() {
    disturb(Campaign::new("memcached stopped (SIGSTOP), replicas", 8), &[], |victim, _, dice| {
        victim.signal("STOP");
        sleep(Duration::from_millis(dice.u64(..300)));
        victim.signal("CONT");
    });
}

#[test]
fn memcached_servers_back_with_old_values() {
    disturb(
        Campaign::new("memcached away while others are written, replicas", 6),
        &[],
        |victim, server, _| {
            let mut looker = Client::to(server.addr());
            victim.signal("STOP");
            looker.wait_for_live(2);
            sleep(AWAY);
            victim.signal("CONT");
            looker.wait_for_live(3);
        },
    );
}

/// Does a fault to one of three servers, again and again, while clients talk.
fn disturb(
    mut campaign: Campaign,
    arguments: &[&str],
    mut fault: impl FnMut(&mut Memcached, &Server, &mut Rng),
) {
    allow_files(4 * CLIENTS as u64 + 1_000);
    let mut servers = Memcached::several::<3>();
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&refs, &[arguments, &["--threads", "2", "--server-timeout", "100ms"]].concat());
    let (mut dice, mut numbers, mut figures) = (Rng::with_seed(1), 0..CLIENTS, [0; 5]);
    while let faults @ 1.. = campaign.more(50) {
        let heard = talk_while(server.addr(), numbers.clone(), THREADS, || {
            for _ in 0..faults {
                sleep(Duration::from_millis(dice.u64(20..150)));
                fault(&mut servers[dice.usize(..3)], &server, &mut dice);
            }
        });
        numbers = numbers.end..numbers.end + CLIENTS;
        let round = heard.figures();
        figures.iter_mut().zip(round).for_each(|(all, more)| *all += more);
        let [acknowledged, in_doubt, ..] = round;
        campaign.count(faults, &Tally { acknowledged, in_doubt, ..Tally::default() });
    }
    assert_served(figures, ERRORS_PERCENT);
    talk_undisturbed(server.addr(), &names, numbers.end);
    campaign.finish();
}
