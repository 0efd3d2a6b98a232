//! Replicas stay alike when one comes back: it serves nothing that it missed, and decides nothing that it lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::{self, Client};
use crate::cut::Wire;
use crate::memcached::Memcached;
use crate::replicas::{DAY_S, GIVEN_UP, MODES, in_40_days, start};
use crate::support::ends::Ends;
use crate::support::patience::{wait_for, wait_until};

#[test]
fn what_a_server_that_is_away_misses_is_counted() {
    for mode in MODES {
        let mut servers = Memcached::several::<2>();
        let server = start(&servers, mode);
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set a 0 0 1\r\n1\r\n"), "STORED\r\n");
        let name = servers[1].name();
        let figures = |client: &mut Client| {
            ["missed_writes", "missed_keys", "missed_keys_max", "must_flush"]
                .map(|figure| client.stat(" servers", &format!("{name}:{figure}")))
        };
        assert_eq!(figures(&mut client), [0, 0, 16_384, 0]);
        servers[1].kill();
        client.wait_for_live(1);
        let writes = "set a 0 0 1\r\n1\r\nincr a 1\r\nset b 0 0 1\r\nx\r\ndelete b\r\n";
        assert_eq!(client.ask(writes), "STORED\r\n2\r\nSTORED\r\nDELETED\r\n");
        client.ask("get a\r\n");
        assert_eq!(figures(&mut client), [4, 2, 16_384, 0]);
        for figure in ["missed_writes_total", "missed_keys"] {
            let line = format!(
                "posthaste_server_{figure}{{server=\"{name}\"}} {}\n",
                figures(&mut client)[usize::from(figure == "missed_keys")]
            );
            assert!(server.page("/metrics").1.contains(&line), "{line}");
        }
        assert_eq!(client.ask("flush_all\r\n"), "OK\r\n");
        assert_eq!(figures(&mut client), [5, 0, 16_384, 1]);
        let said = server.page("/v1/servers").1;
        assert!(said.contains("\"missed_writes\":5") && said.contains("\"must_flush\":true"), "{said}");
        servers[1].restart();
        client.wait_for_live(2);
        assert_eq!(figures(&mut client), [5, 0, 16_384, 0]);
    }
}

#[test]
fn a_server_that_was_stopped_serves_nothing_that_it_missed() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let server = start(&servers, &[mode, &["--server-timeout", GIVEN_UP]].concat());
        let mut client = Client::to(server.addr());
        for round in 0..3 {
            let keys = 0..50;
            for key in keys.clone() {
                assert_eq!(client.ask(&format!("set k{key} 0 0 3\r\nold\r\n")), "STORED\r\n");
            }
            client.wait_for_live(2);
            servers[1].signal("STOP");
            // Some of these it gets and does not read before it is given up.
            for key in keys.clone() {
                assert_eq!(
                    client.ask(&format!("set k{key} 0 0 3\r\nnew\r\n")),
                    "STORED\r\n",
                    "round {round}"
                );
            }
            client.wait_for_live(1);
            servers[1].signal("CONT");
            client.wait_for_live(2);
            for _ in 0..4 {
                for key in keys.clone() {
                    let answer = client.ask(&format!("get k{key}\r\n"));
                    assert!(!answer.contains("old"), "round {round}: k{key} is {answer}");
                }
            }
        }
    }
}

#[test]
fn a_server_comes_back_though_it_missed_a_key_that_is_none() {
    for mode in MODES {
        let mut servers = Memcached::several::<2>();
        let router = start(&servers, mode);
        let mut client = Client::to(router.addr());
        servers[0].kill();
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        client.wait_for_live(1);
        let refused = client.ask("md !!!! b\r\nms !!!! 2 b\r\nhi\r\n");
        assert_eq!(refused.matches("CLIENT_ERROR ").count(), 2, "{refused}");
        servers[0].restart();
        client.wait_for_live(2);
    }
}

#[test]
fn a_server_that_missed_a_flush_or_too_much_is_flushed() {
    let servers = Memcached::several::<2>();
    let server = start(&servers, &["--server-timeout", GIVEN_UP]);
    let mut client = Client::to(server.addr());
    client.ask("set a 0 0 3\r\nold\r\n");
    servers[1].signal("STOP");
    client.ask("flush_all\r\n");
    client.wait_for_live(1);
    servers[1].signal("CONT");
    client.wait_for_live(2);
    assert_eq!(Client::to(servers[1].addr).ask("get a\r\n"), "END\r\n");
}

/// Waits until a server answers this, asked directly.
#[track_caller]
pub(crate) fn wait_for_answer(memcached: &Memcached, request: &str, mut good: impl FnMut(&str) -> bool) {
    wait_for(format!("a good answer to {request}"), || {
        let answer = Client::to(memcached.addr).ask(request);
        if good(&answer) { Ok(()) } else { Err(answer) }
    });
}

#[test]
fn expiries_that_a_server_missed_do_not_keep_a_value_alive_there() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let server = start(&servers, &[mode, &["--server-timeout", GIVEN_UP]].concat());
        let mut client = Client::to(server.addr());
        for key in ["a", "b", "c", "d"] {
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\nx\r\n")), "STORED\r\n");
        }
        servers[1].signal("STOP");
        // Whichever of them it gets and does not read, and whichever comes when it is away.
        for request in ["gat -1 a b\r\n", "mg c T-1\r\n", "gat -1 d\r\n", "mg d T-1\r\n"] {
            client.ask(request);
        }
        client.wait_for_live(1);
        servers[1].signal("CONT");
        client.wait_for_live(2);
        for memcached in &servers {
            assert_eq!(Client::to(memcached.addr).ask("get a b c d\r\n"), "END\r\n");
        }
    }
}

#[test]
fn a_server_that_came_back_empty_is_filled_from_the_others_with_what_is_asked_of_it() {
    for mode in MODES {
        let mut servers = Memcached::several::<3>();
        let server = start(&servers, mode);
        let mut client = Client::to(server.addr());
        for key in 0..8 {
            let expiry = if key % 2 == 0 { 1000 } else { in_40_days() };
            assert_eq!(client.ask(&format!("set k{key} 5 {expiry} 1\r\n{key}\r\n")), "STORED\r\n");
        }
        servers[1].kill();
        wait_until("somebody meets it", || {
            client.ask("get k0\r\n");
            client.stat("", "servers_live") < 3
        });
        servers[1].restart();
        client.wait_for_live(3);
        let value = |key: u32| format!("VALUE k{key} 5 1\r\n{key}\r\n");
        for key in 0..8 {
            wait_for_answer(&servers[1], &format!("mg k{key} f t\r\n"), |answer| {
                if key < 4 {
                    assert_eq!(client.ask(&format!("get k{key}\r\n")), value(key) + "END\r\n");
                    assert_eq!(client.ask(&format!("mg k{key} v\r\n")), format!("VA 1\r\n{key}\r\n"));
                } else {
                    let all: String = (4..8).map(value).collect();
                    assert_eq!(client.ask("get k4 nowhere k5 k6 k7\r\n"), all + "END\r\n");
                }
                let left =
                    answer.trim_end().strip_prefix("HD f5 t").and_then(|left| left.parse::<u64>().ok());
                let good = if key % 2 == 0 { 1..=1000 } else { 39 * DAY_S..=40 * DAY_S };
                left.is_some_and(|left| good.contains(&left))
            });
        }
        assert!(client.stat(" routes", "filled") >= 8);
    }
}

#[test]
fn locks_and_counters_that_nobody_reads_outlive_a_restart_of_one_replica() {
    let mut servers = Memcached::several::<2>();
    let server = start(&servers, &[]);
    let mut client = Client::to(server.addr());
    let keys = 0..8;
    for key in keys.clone() {
        assert_eq!(client.ask(&format!("add lock{key} 0 0 1\r\nx\r\n")), "STORED\r\n");
        assert_eq!(client.ask(&format!("set n{key} 0 0 2\r\n41\r\n")), "STORED\r\n");
    }
    servers[1].kill();
    wait_until("somebody meets it", || {
        client.ask("get nowhere\r\n");
        client.stat("", "servers_live") < 2
    });
    servers[1].restart();
    client.wait_for_live(2);
    // Who finds a lock taken has it brought there.
    assert_eq!(client.ask("add lock0 0 0 1\r\ny\r\n"), "NOT_STORED\r\n");
    wait_for_answer(&servers[1], "get lock0\r\n", |answer| answer.contains("\r\nx\r\n"));
    // Until it counts as warm.
    let nowhere: String = (0..50).map(|key| format!(" nowhere{key}")).collect();
    for _ in 0..60 {
        assert_eq!(client.ask(&format!("get{nowhere}\r\n")), "END\r\n");
    }
    for key in keys.clone() {
        assert_eq!(client.ask(&format!("add lock{key} 0 0 1\r\ny\r\n")), "NOT_STORED\r\n");
        assert_eq!(client.ask(&format!("incr n{key} 1\r\n")), "42\r\n");
    }
    // What was counted on meanwhile is there, when the other one is lost in turn.
    for key in keys.clone() {
        wait_for_answer(&servers[1], &format!("get n{key}\r\n"), |answer| answer.contains("\r\n42\r\n"));
    }
    servers[0].kill();
    wait_until("somebody meets it", || {
        client.ask("get nowhere\r\n");
        client.stat("", "servers_live") < 2
    });
    assert_eq!(client.ask("add lock0 0 0 1\r\ny\r\n"), "NOT_STORED\r\n");
    for key in keys {
        assert_eq!(client.ask(&format!("incr n{key} 1\r\n")), "43\r\n");
    }
}

#[test]
fn a_restart_that_nobody_sees_loses_no_lock_and_no_counter() {
    let threads = ["--threads", "2"];
    // With workers nobody looks at connections that are idle; without, servers may have closed them before; and what
    // stands between may take connections for a server that is gone.
    for (mode, arguments, is_between) in [
        (&["--workers", "2"][..], &[][..], false),
        (&["--workers", "2", "--eject", "on"], &[], false),
        (&threads, &["-o", "idle_timeout=1"], false),
        (&threads, &[], true),
    ] {
        let mut servers = [(); 2].map(|()| Memcached::start(arguments));
        let wires = servers.each_ref().map(|memcached| Wire::to(memcached.addr.port()));
        let place = |n: usize| if is_between { wires[n].address() } else { servers[n].addr };
        let names = [0, 1].map(|n| place(n).to_string());
        let router = client::start(&[&["--server", &*names[0], "--server", &*names[1]], mode].concat());
        router.wait_for_logs("server takes connections", 2);
        let wait_until_left = |memcached: &Memcached| {
            wait_until("only who asks is connected, and memcached with itself", || {
                Client::to(memcached.addr).stat("", "curr_connections") <= 2
            });
        };
        // They have told who they are.
        servers.iter().for_each(wait_until_left);
        let mut client = Client::to(router.addr());
        let keys = 0..8;
        for key in keys.clone() {
            assert_eq!(client.ask(&format!("add lock{key} 0 0 1\r\nx\r\n")), "STORED\r\n");
            assert_eq!(client.ask(&format!("set n{key} 0 0 2\r\n41\r\n")), "STORED\r\n");
        }
        if !arguments.is_empty() {
            wait_until_left(&servers[0]);
        }
        servers[0].kill();
        servers[0].restart();
        for key in keys.clone() {
            let answer = client.ask(&format!("add lock{key} 0 0 1\r\ny\r\n"));
            // Where it was looked after just while it was gone, it was lost, and may be an error.
            let is_error = answer.starts_with("SERVER_ERROR ") && router.log().contains("server lost: ");
            assert!(answer == "NOT_STORED\r\n" || is_error, "{mode:?}, lock{key}: {answer}");
        }
        client.wait_for_live(2);
        for key in keys {
            assert_eq!(client.ask(&format!("incr n{key} 1\r\n")), "42\r\n", "{mode:?}");
        }
    }
}

#[test]
fn what_waits_while_a_server_tells_that_it_was_started_anew_is_looked_up_on_another() {
    let found = [("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"), ("mg k v\r\n", "VA 1\r\nx\r\n")];
    for (mode, (request, answer)) in MODES.into_iter().flat_map(|mode| found.map(|found| (mode, found))) {
        let mut servers = Memcached::several::<2>();
        let router = start(&servers, mode);
        router.wait_for_logs("server takes connections", 2);
        wait_until("they have told who they are", || {
            servers.iter().all(|memcached| Client::to(memcached.addr).stat("", "curr_connections") <= 2)
        });
        // Past the router, so that it has no connection yet that could be lost.
        assert_eq!(Client::to(servers[0].addr).ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        servers[1].kill();
        servers[1].restart();
        // Each of them is read.
        let mut client = Client::to(router.addr());
        assert_eq!([client.ask(request), client.ask(request)], [answer; 2], "{mode:?}");
    }
}

#[test]
fn a_server_comes_back_though_everybody_goes_on_writing() {
    for mode in MODES {
        let mut servers = Memcached::several::<2>();
        let server = start(&servers, mode);
        let (addr, stop) = (server.addr(), AtomicBool::new(false));
        thread::scope(|scope| {
            let _ends = Ends(&stop);
            for writer in 0..4 {
                let stop = &stop;
                scope.spawn(move || {
                    let mut client = Client::to(addr);
                    for round in 0..u64::MAX {
                        let key = |number| format!("k{writer}-{}", (round * 100 + number) % 5000);
                        let sets = (0..100).map(|number| format!("set {} 0 0 1\r\nx\r\n", key(number)));
                        client.ask(&sets.collect::<String>());
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                });
            }
            let mut client = Client::to(addr);
            servers[1].kill();
            client.wait_for_live(1);
            servers[1].restart();
            client.wait_for_live(2);
        });
        Client::to(addr).ask("set last 0 0 1\r\nx\r\n");
        for memcached in &servers {
            let held = Client::to(memcached.addr).ask("get last\r\n");
            assert_eq!(held, "VALUE last 0 1\r\nx\r\nEND\r\n");
        }
    }
}
