//! Replicas stay alike when everything is flushed while keys are written.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::memcached::Memcached;
use crate::replicas::{MODES, start};
use crate::returns::wait_for_answer;
use crate::support::patience::wait_for;

/// Keys written in one round, and how many rounds there are.
const KEYS: usize = 40;
const ROUNDS: usize = 80;

#[test]
fn what_is_written_while_everything_is_flushed_is_on_all_replicas_or_on_none() {
    for (mode, write) in [(MODES[0], "set"), (MODES[0], "add"), (MODES[1], "set"), (MODES[1], "add")] {
        let servers = Memcached::several::<2>();
        let router = start(&servers, mode);
        // Clients of all threads, so that two of them mostly have different ones.
        let mut clients: Vec<Client> = (0..4).map(|_| Client::to(router.addr())).collect();
        for round in 0..ROUNDS {
            let key = |number: usize| format!("k{round}-{number}");
            let writes: String = (0..KEYS).map(|n| format!("{write} {} 0 0 1\r\nx\r\n", key(n))).collect();
            let (both, (some, others)) = (Barrier::new(2), clients.split_at_mut(2));
            let (writer, flusher) = (&mut some[round % 2], &mut others[round / 2 % 2]);
            thread::scope(|scope| {
                scope.spawn(|| {
                    both.wait();
                    assert_eq!(writer.ask(&writes), "STORED\r\n".repeat(KEYS));
                });
                both.wait();
                assert_eq!(flusher.ask("flush_all\r\n"), "OK\r\n");
            });
            let keys: String = (0..KEYS).map(|number| format!(" {}", key(number))).collect();
            // Who is told what one server has decided may be told before the others follow.
            wait_for(format!("{mode:?}, {write}: both hold the same"), || {
                let held =
                    servers.each_ref().map(|server| Client::to(server.addr).ask(&format!("get{keys}\r\n")));
                if held[0] == held[1] { Ok(()) } else { Err(held.join(" and ")) }
            });
        }
    }
}

#[test]
fn what_a_client_writes_behind_its_own_flush_is_there() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let router = start(&servers, mode);
        let mut client = Client::to(router.addr());
        for round in 0..20 {
            let writes = |value| format!("set a 0 0 1\r\n{value}\r\nadd b{round} 0 0 1\r\n{value}\r\n");
            let all = format!("{}flush_all\r\n{}", writes('x'), writes('y'));
            let stored = "STORED\r\n".repeat(2);
            assert_eq!(client.ask(&all), format!("{stored}OK\r\n{stored}"), "round {round}");
            for server in &servers {
                let held = Client::to(server.addr).ask(&format!("get a b{round}\r\n"));
                let both = format!("VALUE a 0 1\r\ny\r\nVALUE b{round} 0 1\r\ny\r\nEND\r\n");
                assert_eq!(held, both, "{mode:?}");
            }
        }
    }
}

#[test]
fn a_server_that_was_started_anew_unnoticed_forgets_everything_when_a_flush_is_due() {
    let mut servers = Memcached::several::<2>();
    let router = start(&servers, &["--workers", "1"]);
    let mut client = Client::to(router.addr());
    let is_in_time = (0..20).any(|_| {
        let begun = Instant::now();
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\nflush_all 8\r\n"), "STORED\r\nOK\r\n");
        servers[1].kill();
        servers[1].restart();
        assert_eq!(client.ask("set k 0 0 1\r\ny\r\n"), "STORED\r\n");
        // What is written when the time has come is there to stay. Servers count whole seconds, and on a busy machine late.
        begun.elapsed() < Duration::from_secs(5)
    });
    assert!(is_in_time, "a server takes five seconds to be started anew");
    servers.iter().for_each(|server| wait_for_answer(server, "get k\r\n", |held| held == "END\r\n"));
}
