//! Processes stopped for a while (`SIGSTOP`) that go on as if nothing had been: a middleware, one backend of PostgreSQL
//! with whatever locks it holds, the postmaster, all of PostgreSQL.
//!
//! Clients are less patient than some stops are long. They give requests up that take effect later, ask again
//! elsewhere under the same key while the first attempt is still under way, and leases run out meanwhile.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::campaign::Campaign;
use crate::crew::rounds;
use crate::postgres::Postgres;
use crate::tier::Tier;

/// Longer than a lease at times, and than clients wait.
const STOP_MS: std::ops::Range<u64> = 20..600;

/// How long clients wait.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(250);

#[test]
fn middlewares_stopped_on_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tier = Tier::start(&format!("embedded:{}", dir.path().display()), 1).with_patience(GIVEN_UP_AFTER);
    let mut campaign = Campaign::new("middleware stopped (SIGSTOP), embedded store", 6);
    rounds(&mut campaign, 5, &tier.setting, |dice| stop(&tier, 0, dice));
    campaign.finish();
}

/// Here or there, or the database under both.
#[test]
fn middlewares_backends_and_postmasters_stopped() {
    let postgres = Postgres::start(&[]);
    let tier = Tier::start(&postgres.url(&postgres.create_database()), 2).with_patience(GIVEN_UP_AFTER);
    let mut campaign = Campaign::new("middleware, backend, postmaster or all of PostgreSQL stopped", 8);
    let mut turn = 0;
    rounds(&mut campaign, 5, &tier.setting, |dice| {
        turn += 1;
        match turn % 4 {
            0 => stop(&tier, dice.usize(..tier.count()), dice),
            1 => stop_processes(&[some_backend(&postgres, dice)], dice),
            2 => stop_processes(&[postgres.pid()], dice),
            _ => {
                postgres.signal_all(Signal::STOP);
                sleep(Duration::from_millis(dice.u64(STOP_MS)));
                postgres.signal_all(Signal::CONT);
            }
        }
        tier.wait_until_back();
    });
    campaign.finish();
}

fn stop(tier: &Tier, number: usize, dice: &mut Rng) {
    stop_processes(&[tier.server(number).pid()], dice);
}

fn stop_processes(processes: &[u32], dice: &mut Rng) {
    let pids: Vec<Pid> = processes.iter().filter_map(|pid| Pid::from_raw((*pid).cast_signed())).collect();
    let signal = |signal| {
        for pid in &pids {
            let _ = kill_process(*pid, signal); // a backend may have ended by itself
        }
    };
    signal(Signal::STOP);
    sleep(Duration::from_millis(dice.u64(STOP_MS)));
    signal(Signal::CONT);
}

/// Some process below the postmaster that serves a connection.
fn some_backend(postgres: &Postgres, dice: &mut Rng) -> u32 {
    let serves = |pid: &u32| {
        // PostgreSQL writes there what a process does.
        let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        title.contains("127.0.0.1(")
    };
    let backends: Vec<u32> = postgres.children().into_iter().filter(serves).collect();
    backends[dice.usize(..backends.len())]
}
