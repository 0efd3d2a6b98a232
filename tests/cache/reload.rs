//! SIGHUP: other pools and routes while clients are at work, or nothing at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::memcached::Memcached;
use crate::routes::{Routed, held};
use crate::support::ends::Ends;
use crate::support::patience::{PATIENCE, wait_for, wait_until};

const FIRST: &str = "[cache.pools.a]\nservers = [\"$0\", \"$1\"]\n";
const SECOND: &str = "[cache.pools.a]\nservers = [\"$2\"]\n";

const DONE: &str = "are read anew";
const REFUSED: &str = "nothing is changed";

#[test]
fn other_servers_take_over_while_clients_are_at_work_and_nobody_notices() {
    const CLIENTS: usize = 4;
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let servers = Memcached::several::<3>();
        let routed = Routed::start(FIRST, &servers, mode);
        let (stop, found) = (AtomicBool::new(false), AtomicUsize::new(0));
        // Returns whether values are found by the table in force: each client may have one under way by the table before.
        let finds_values = || {
            let (before, begun) = (found.load(Ordering::SeqCst), Instant::now());
            let is_enough = || found.load(Ordering::SeqCst) > before + CLIENTS;
            while !is_enough() && begun.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(2));
            }
            is_enough()
        };
        let mut has_found = Vec::new();
        thread::scope(|scope| {
            let _ends = Ends(&stop);
            for who in 0..CLIENTS {
                let (mut client, stop, found) = (routed.client(), &stop, &found);
                scope.spawn(move || {
                    let mut rounds = 0;
                    while !stop.load(Ordering::Relaxed) {
                        rounds += 1;
                        let set = format!("set c{who} 0 0 {}\r\n{rounds}\r\n", rounds.to_string().len());
                        assert_eq!(client.ask(&set), "STORED\r\n");
                        let got = client.ask(&format!("get c{who} other\r\n"));
                        // Between two tables the new servers do not have it yet.
                        let value =
                            format!("VALUE c{who} 0 {}\r\n{rounds}\r\nEND\r\n", rounds.to_string().len());
                        assert!(got == value || got == "END\r\n", "{got}");
                        found.fetch_add(usize::from(got == value), Ordering::SeqCst);
                    }
                });
            }
            for text in [FIRST, SECOND, SECOND] {
                has_found.push(finds_values());
                routed.rewrite(text, &servers);
                routed.server.reload(DONE);
            }
            has_found.push(finds_values());
        });
        assert_eq!(has_found, [true; 4], "values by each of four tables");
        let mut client = routed.client();
        assert_eq!((client.stat("", "servers"), client.stat("", "routes_loaded")), (1, 4));
        assert_eq!(client.ask("set last 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!((held(&servers[0], "last"), held(&servers[2], "last").is_some()), (None, true));
        assert!(routed.server.stop().success());
    }
}

#[test]
fn what_stays_in_the_file_goes_on_counting() {
    const TWO: &str = "[cache.pools.a]\nservers = [\"$0\"]\n[cache.pools.b]\nservers = [\"$1\"]\n\
        [[cache.routes]]\nprefix = \"a:\"\npool = \"a\"\n[[cache.routes]]\nprefix = \"b:\"\npool = \"b\"\n";
    let servers = Memcached::several::<2>();
    let routed = Routed::start(TWO, &servers, &[]);
    let mut client = routed.client();
    for _ in 0..5 {
        client.ask("get a:x\r\n");
        client.ask("get b:x\r\n");
    }
    let of_another_pool = TWO.replace("prefix = \"b:\"\npool = \"b\"", "prefix = \"b:\"\npool = \"a\"");
    routed.rewrite(&of_another_pool, &servers);
    routed.server.reload(DONE);
    client.ask("get a:x\r\n");
    let counted = ["route_1:requests", "route_2:requests"].map(|name| client.stat(" routes", name));
    assert_eq!(counted, [6, 0]);
}

#[test]
fn a_server_that_is_in_no_file_any_more_has_no_connection_left() {
    for mode in [&[][..], &["--workers", "1"]] {
        let servers = Memcached::several::<3>();
        // Of them one is ours.
        let connections = |server: &Memcached| Client::to(server.addr).stat("", "curr_connections");
        let alone = [0, 1].map(|server| connections(&servers[server]));
        let routed = Routed::start(FIRST, &servers, mode);
        let mut client = routed.client();
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        (0..2).for_each(|server| assert!(connections(&servers[server]) > alone[server]));
        routed.rewrite(SECOND, &servers);
        routed.server.reload(DONE);
        // A worker closes what it does not need when it is asked for something.
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        for server in 0..2 {
            wait_until("the connections are closed", || connections(&servers[server]) == alone[server]);
        }
    }
}

#[test]
fn a_replica_that_a_file_adds_decides_nothing_and_nobody_misses_what_it_lacks() {
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let servers = Memcached::several::<3>();
        let routed = Routed::start(FIRST, &servers, mode);
        let mut client = routed.client();
        // A third of them are at home on the new one.
        let keys = 0..40;
        for key in keys.clone() {
            let sets = format!("set n{key} 0 0 1\r\n5\r\nset lock{key} 0 0 1\r\nx\r\n");
            assert_eq!(client.ask(&sets), "STORED\r\nSTORED\r\n");
        }
        routed.rewrite("[cache.pools.a]\nservers = [\"$0\", \"$1\", \"$2\"]\n", &servers);
        routed.server.reload(DONE);
        for key in keys {
            assert_eq!(client.ask(&format!("incr n{key} 1\r\n")), "6\r\n", "{mode:?}");
            assert_eq!(client.ask(&format!("add lock{key} 0 0 1\r\ny\r\n")), "NOT_STORED\r\n", "{mode:?}");
            for _ in 0..3 {
                let got = client.ask(&format!("get n{key} lock{key}\r\n"));
                assert_eq!(got, format!("VALUE n{key} 0 1\r\n6\r\nVALUE lock{key} 0 1\r\nx\r\nEND\r\n"));
            }
        }
    }
}

#[test]
fn a_replica_that_a_file_leaves_out_for_a_while_serves_nothing_that_it_missed() {
    const ONE: &str = "[cache.pools.a]\nservers = [\"$0\"]\n";
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let servers = Memcached::several::<2>();
        let routed = Routed::start(FIRST, &servers, mode);
        let mut client = routed.client();
        let keys = 0..20;
        for key in keys.clone() {
            assert_eq!(client.ask(&format!("set k{key} 0 0 3\r\nold\r\n")), "STORED\r\n");
        }
        // What is in force for longer than one table is still known.
        for _ in 0..2 {
            routed.rewrite(ONE, &servers);
            routed.server.reload(DONE);
        }
        for key in keys.clone() {
            assert_eq!(client.ask(&format!("set k{key} 0 0 3\r\nnew\r\n")), "STORED\r\n");
        }
        routed.rewrite(FIRST, &servers);
        routed.server.reload(DONE);
        for key in keys {
            for _ in 0..4 {
                let got = client.ask(&format!("get k{key}\r\n"));
                assert_eq!(got, format!("VALUE k{key} 0 3\r\nnew\r\nEND\r\n"), "{mode:?}");
            }
        }
        assert_eq!(held(&servers[1], "k0").as_deref(), Some("new"), "what it misses is brought to it");
    }
}

#[test]
fn a_replica_that_comes_back_serves_nothing_that_it_missed_though_its_pool_was_renamed() {
    const OTHER: &str = "[cache.pools.b]\nservers = [\"$0\"]\n";
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        for name in ["a", "b", "c"] {
            let servers = Memcached::several::<2>();
            let routed = Routed::start(FIRST, &servers, mode);
            let mut client = routed.client();
            assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
            routed.rewrite(OTHER, &servers);
            routed.server.reload(DONE);
            assert_eq!(client.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
            routed.rewrite(&FIRST.replace("pools.a", &format!("pools.{name}")), &servers);
            routed.server.reload(DONE);
            assert_eq!(held(&servers[1], "k"), None, "{mode:?}: a, b, {name}");
            for _ in 0..4 {
                assert_eq!(client.ask("get k\r\n"), "VALUE k 0 3\r\nnew\r\nEND\r\n");
            }
        }
    }
}

#[test]
fn a_server_of_another_pool_that_joins_replicas_serves_nothing_from_an_earlier_time() {
    let apart = |servers: &str| {
        format!(
            "{FIRST}[cache.pools.x]\nservers = [{servers}]\n[[cache.routes]]\npool = \"a\"\n\
             [[cache.routes]]\nprefix = \"x:\"\npool = \"x\"\n"
        )
    };
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let servers = Memcached::several::<3>();
        let routed = Routed::start(FIRST, &servers, mode);
        let mut client = routed.client();
        assert_eq!(client.ask("set x:k 0 0 3\r\nold\r\n"), "STORED\r\n");
        routed.rewrite(&apart("\"$2\""), &servers);
        routed.server.reload(DONE);
        assert_eq!(client.ask("set x:k 0 0 3\r\nnew\r\n"), "STORED\r\n");
        routed.rewrite(&apart("\"$2\", \"$0\""), &servers);
        routed.server.reload(DONE);
        for _ in 0..4 {
            assert_eq!(client.ask("get x:k\r\n"), "VALUE x:k 0 3\r\nnew\r\nEND\r\n", "{mode:?}");
        }
    }
}

#[test]
fn a_shadow_that_another_file_has_answer_clients_serves_nothing_from_before() {
    const POOLS: &str =
        "[cache.pools.a]\nservers = [\"$0\"]\n[cache.pools.b]\nservers = [\"$1\"]\n[[cache.routes]]\n";
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let servers = Memcached::several::<2>();
        let routed = Routed::start(&format!("{POOLS}pool = \"a\"\nshadow = \"b\"\n"), &servers, mode);
        let mut client = routed.client();
        assert_eq!(client.ask("set k 0 0 1\r\n1\r\n"), "STORED\r\n");
        // The second server may have missed any of the writes.
        assert_eq!(Client::to(servers[1].addr).ask("set k 0 0 1\r\n0\r\n"), "STORED\r\n");
        routed.rewrite(&format!("{POOLS}pool = \"b\"\n"), &servers);
        routed.server.reload(DONE);
        assert_eq!(client.ask("get k\r\n"), "END\r\n", "{mode:?}");
    }
}

#[test]
fn replicas_whose_pool_is_renamed_keep_what_they_hold() {
    let servers = Memcached::several::<2>();
    let routed = Routed::start(FIRST, &servers, &[]);
    assert_eq!(routed.client().ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    routed.rewrite(&FIRST.replace("pools.a", "pools.b"), &servers);
    routed.server.reload(DONE);
    servers.iter().for_each(|server| assert_eq!(held(server, "k").as_deref(), Some("x")));
}

#[test]
fn replicas_that_shared_keys_for_a_while_serve_nothing_from_before() {
    let shards = format!("{FIRST}writes = \"owner\"\n");
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let servers = Memcached::several::<2>();
        let routed = Routed::start(FIRST, &servers, mode);
        let mut client = routed.client();
        let keys = 0..20;
        for (text, value) in [(None, "old"), (Some(shards.as_str()), "new")] {
            if let Some(text) = text {
                routed.rewrite(text, &servers);
                routed.server.reload(DONE);
            }
            for key in keys.clone() {
                assert_eq!(client.ask(&format!("set k{key} 0 0 3\r\n{value}\r\n")), "STORED\r\n");
            }
        }
        routed.rewrite(FIRST, &servers);
        routed.server.reload(DONE);
        routed.server.wait_for_log("they forget what they hold");
        for key in keys {
            for _ in 0..2 {
                assert_eq!(client.ask(&format!("get k{key}\r\n")), "END\r\n", "{mode:?}");
            }
        }
    }
}

#[test]
fn replicas_that_shared_keys_under_another_name_serve_nothing_from_before() {
    let pool = |name: &str, writes: &str| {
        format!("[cache.pools.{name}]\nservers = [\"$0\", \"$1\"]\nwrites = \"{writes}\"\n")
    };
    let route =
        |prefix: &str, pool: &str| format!("[[cache.routes]]\nprefix = \"{prefix}\"\npool = \"{pool}\"\n");
    let only = |name: &str, writes: &str| pool(name, writes) + &route("", name);
    let beside = pool("a", "owner") + &pool("b", "all") + &route("", "b") + &route("zz", "a");
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        for (shards, last) in [
            (only("a", "owner"), only("b", "all")),
            (only("b", "owner"), only("a", "all")),
            (only("a", "owner"), beside.clone()),
        ] {
            let servers = Memcached::several::<2>();
            let routed = Routed::start(&only("a", "all"), &servers, mode);
            let mut client = routed.client();
            let keys = 0..20;
            for (text, value) in [(None, "old"), (Some(&shards), "new")] {
                if let Some(text) = text {
                    routed.rewrite(text, &servers);
                    routed.server.reload(DONE);
                }
                for key in keys.clone() {
                    assert_eq!(client.ask(&format!("set k{key} 0 0 3\r\n{value}\r\n")), "STORED\r\n");
                }
            }
            routed.rewrite(&last, &servers);
            routed.server.reload(DONE);
            routed.server.wait_for_log("they forget what they hold");
            for key in keys {
                for _ in 0..2 {
                    assert_eq!(client.ask(&format!("get k{key}\r\n")), "END\r\n", "{mode:?}: {last}");
                }
            }
        }
    }
}

#[test]
fn shards_that_were_never_replicas_keep_what_they_hold_when_another_pool_has_them_too() {
    const SHARDS: &str = "[cache.pools.a]\nservers = [\"$0\", \"$1\"]\nwrites = \"owner\"\n";
    let hot = format!(
        "{SHARDS}[cache.pools.hot]\nservers = [\"$0\", \"$1\"]\n\
         [[cache.routes]]\npool = \"a\"\n[[cache.routes]]\nprefix = \"hot:\"\npool = \"hot\"\n"
    );
    let servers = Memcached::several::<2>();
    let routed = Routed::start(SHARDS, &servers, &[]);
    let mut client = routed.client();
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    routed.rewrite(&hot, &servers);
    routed.server.reload(DONE);
    assert_eq!(client.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn what_another_pool_took_is_deleted_there_after_the_file_was_read_again_too() {
    const SPARED: &str = r#"
[cache.pools.a]
servers = ["$0"]
failover = "spare"
[cache.pools.spare]
servers = ["$1"]
[[cache.routes]]
pool = "a"
"#;
    for mode in [&[][..], &["--workers", "2", "--eject", "on"]] {
        let mut servers = Memcached::several::<2>();
        let routed = Routed::start(SPARED, &servers, mode);
        let mut client = routed.client();
        servers[0].kill();
        wait_until("the loss is noticed", || client.ask("set k 0 0 3\r\nold\r\n") == "STORED\r\n");
        assert_eq!(client.ask("set between 0 0 3\r\nold\r\n"), "STORED\r\n");
        assert_eq!(held(&servers[1], "k").as_deref(), Some("old"));
        servers[0].restart();
        client.wait_for_live(2);
        let unspared = SPARED.replace("failover = \"spare\"\n", "");
        for text in [SPARED, &unspared, SPARED] {
            routed.rewrite(text, &servers);
            routed.server.reload(DONE);
            if text == unspared {
                assert_eq!(client.ask("set between 0 0 3\r\nnew\r\n"), "STORED\r\n");
            }
        }
        assert_eq!(held(&servers[1], "between"), None);
        assert_eq!(client.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
        assert_eq!((held(&servers[0], "k").as_deref(), held(&servers[1], "k")), (Some("new"), None));
    }
}

#[test]
fn a_file_that_is_wrong_changes_nothing_and_says_where_it_is_wrong() {
    let servers = Memcached::several::<3>();
    let routed = Routed::start(FIRST, &servers, &[]);
    let mut client = routed.client();
    for (wrong, words) in [
        ("[cache.pools.a]\nservers = [\"$2\"]\nshards = 3\n", "cache.toml:3: unknown option shards"),
        ("[cache]\nwrites = \"some\"\n", "cache.toml:2: "),
        ("[cache.pools.a]\nservers = [\"127.0.0.1:port\"]\n", "cache.toml:2: server 127.0.0.1:port"),
        ("", "name the memcached servers"),
    ] {
        routed.rewrite(wrong, &servers);
        routed.server.reload(REFUSED);
        routed.server.wait_for_log(words);
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert!(held(&servers[0], "k").is_some() && held(&servers[1], "k").is_some());
    }
    assert_eq!(client.stat("", "routes_loaded"), 1);
}

#[test]
fn without_a_file_the_signal_changes_nothing_either() {
    let servers = Memcached::several::<1>();
    let server = crate::client::router(&[&servers[0].name()], &[]);
    let mut client = Client::to(server.addr());
    server.signal("HUP");
    wait_for("the routes are loaded again", || {
        if client.stat("", "routes_loaded") == 2 { Ok(()) } else { Err(server.log()) }
    });
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
}
