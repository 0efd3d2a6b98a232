//! Pools that stand in for others, pools behind others, and servers that are taken out: what clients get, and what is
//! held where.

use std::io::{ErrorKind, Read as _, Write as _};
use std::iter;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::memcached::Memcached;
use crate::routes::{Routed, held};
use crate::support::ends::Ends;
use crate::support::patience::wait_until;

const MODES: [&[&str]; 2] = [&[], &["--workers", "2", "--eject", "on"]];

const GUTTER: &str = r#"
[cache.pools.a]
servers = ["$0"]
writes = "owner"
gutter = "spare"
gutter-expiry = "60s"
[cache.pools.spare]
servers = ["$1"]
[[cache.routes]]
pool = "a"
"#;

#[test]
fn a_gutter_takes_what_a_lost_server_cannot_and_for_a_short_time() {
    for mode in MODES {
        let mut servers = Memcached::several::<2>();
        let routed = Routed::start(GUTTER, &servers, mode);
        let mut client = routed.client();
        assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
        assert_eq!(held(&servers[1], "k"), None);
        servers[0].kill();
        wait_until("the loss is noticed", || client.ask("get k\r\n") == "END\r\n");
        assert_eq!(client.ask("set k 0 0 3\r\nnew\r\nms m 1 F5\r\nx\r\n"), "STORED\r\nHD\r\n");
        assert_eq!(client.ask("get k\r\n"), "VALUE k 0 3\r\nnew\r\nEND\r\n");
        let mut spare = Client::to(servers[1].addr);
        for key in ["k", "m"] {
            let left: u64 = spare.ask(&format!("mg {key} t\r\n"))[4..].trim().parse().expect("seconds left");
            assert!((1..=60).contains(&left), "{key} lives {left} s, though it was to live for ever");
        }
        servers[0].restart();
        client.wait_for_live(2);
        assert_eq!(client.ask("get k\r\n"), "END\r\n", "it came back without what it missed");
        // Written where it belongs, it is gone where it was kept meanwhile.
        assert_eq!(client.ask("set k 0 0 5\r\nnewer\r\n"), "STORED\r\n");
        assert_eq!((held(&servers[0], "k").as_deref(), held(&servers[1], "k")), (Some("newer"), None));
    }
}

#[test]
fn a_shard_that_is_spared_is_read_where_it_is_written_though_another_pool_could_stand_in() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let routed = Routed::start(GUTTER, &servers, mode);
        let mut client = routed.client();
        assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
        assert!(routed.admin(&["server", &servers[0].name(), "drain"]).status.success());
        assert_eq!(client.ask("get k\r\nmg k v\r\n"), "VALUE k 0 3\r\nold\r\nEND\r\nVA 3\r\nold\r\n");
        assert_eq!(client.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
        assert_eq!(client.ask("get k\r\n"), "VALUE k 0 3\r\nnew\r\nEND\r\n");
        assert_eq!(held(&servers[1], "k"), None);
    }
}

const HURRIED: &str = r#"
[cache]
server-timeout = "10m"
[cache.pools.hurried]
servers = ["$0"]
server-timeout = "100ms"
[cache.pools.patient]
servers = ["$1"]
[[cache.routes]]
pool = "patient"
[[cache.routes]]
prefix = "h:"
pool = "hurried"
"#;

#[test]
fn each_pool_waits_for_its_servers_as_long_as_it_says() {
    for mode in [&[][..], &["--workers", "2"]] {
        let servers = Memcached::several::<2>();
        let routed = Routed::start(HURRIED, &servers, mode);
        let (mut hurried, mut patient) = (routed.client(), routed.client());
        assert_eq!(patient.ask("set k 0 0 1\r\nx\r\nset h:k 0 0 1\r\nx\r\n"), "STORED\r\nSTORED\r\n");
        servers.iter().for_each(|server| server.signal("STOP"));
        patient.0.write_all(b"get k\r\n").expect("it listens");
        let refused = hurried.ask("get h:k\r\n");
        assert!(refused.starts_with("SERVER_ERROR"), "{refused}");
        patient.0.set_nonblocking(true).expect("an option");
        let unanswered = patient.0.read(&mut [0; 100]).map_err(|error| error.kind());
        assert_eq!(unanswered, Err(ErrorKind::WouldBlock), "ten minutes are not over");
        patient.0.set_nonblocking(false).expect("an option");
        servers.iter().for_each(|server| server.signal("CONT"));
        assert_eq!(patient.read_until(b"END\r\n"), b"VALUE k 0 1\r\nx\r\n");
    }
}

/// Connects until nobody is taken any more: those who wait to be accepted are only so many.
fn crowd(door: &TcpListener) -> Vec<TcpStream> {
    let addr = door.local_addr().expect("an address");
    iter::from_fn(|| TcpStream::connect_timeout(&addr, Duration::from_millis(500)).ok()).collect()
}

#[test]
fn a_server_that_takes_no_connection_is_given_up_when_its_pool_says() {
    for (mode, words) in
        [(&[][..], "it does not connect in time"), (&["--workers", "2"], "connection lost: timed out;")]
    {
        let tries = (0..20).find_map(|_| {
            let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let name = door.local_addr().expect("an address").to_string();
            let text = format!("[cache.pools.a]\nservers = [\"{name}\"]\nconnect-timeout = \"200ms\"\n");
            let routed = Routed::start(&text, &[], &[mode, &["--server-timeout", "10m"]].concat());
            routed.server.wait_for_log("server takes connections");
            let _crowd = crowd(&door);
            let mut client = routed.client();
            // Where it was looked after meanwhile it is away, and nobody tries to connect.
            (client.stat("", "servers_live") == 1).then(|| {
                let answer = client.ask("get k\r\n");
                routed.server.wait_for_log("lost: ");
                (answer, name, routed.server.log())
            })
        });
        let (answer, name, log) = tries.expect("once it is asked before it is looked after");
        assert_eq!(answer, format!("SERVER_ERROR server {name} does not answer\r\n"));
        assert!(log.contains(words), "{log}");
    }
}

#[test]
fn a_value_that_is_too_large_takes_the_old_one_with_it_where_the_server_is_away_too() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let arguments = [mode, &["--max-value", "1000", "--server-timeout", "5s"]].concat();
        let routed = Routed::start(GUTTER, &servers, &arguments);
        let mut client = routed.client();
        assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
        servers[0].signal("STOP");
        wait_until("the loss is noticed", || client.ask("get k\r\n") == "END\r\n");
        let answer = client.ask(&format!("set k 0 0 2000\r\n{}\r\n", "x".repeat(2000)));
        assert_eq!(answer, "SERVER_ERROR object too large for cache\r\n");
        servers[0].signal("CONT");
        client.wait_for_live(2);
        assert_eq!(client.ask("get k\r\n"), "END\r\n", "it came back with what was to be replaced");
    }
}

#[test]
fn the_first_write_after_a_loss_is_stored_where_others_stand_in() {
    let writes = [
        ("set k 7 0 3\r\nnew\r\n", "STORED\r\n"),
        ("set k 7 0 3 noreply\r\nnew\r\n", ""),
        ("add k 0 0 3\r\nnew\r\n", "STORED\r\n"),
        ("ms k 3 F7 k\r\nnew\r\n", "HD kk\r\n"),
        ("ms k 3 q\r\nnew\r\n", ""),
        ("ms aw== 3 b\r\nnew\r\n", "HD\r\n"),
        ("ma k N0 J5 v\r\n", "VA 1\r\n5\r\n"),
        ("incr k 1\r\n", "NOT_FOUND\r\n"),
        ("delete k\r\n", "NOT_FOUND\r\n"),
        ("touch k 9\r\n", "NOT_FOUND\r\n"),
        ("md k q\r\n", "NF\r\n"),
        (
            "set k 0 0 3\r\nold\r\nset k 0 0 3\r\nnew\r\nget k\r\n",
            "STORED\r\nSTORED\r\nVALUE k 0 3\r\nnew\r\nEND\r\n",
        ),
    ];
    for mode in MODES {
        for (write, answer) in writes {
            let mut servers = Memcached::several::<2>();
            let routed = Routed::start(GUTTER, &servers, mode);
            assert_eq!(routed.server.readiness().0, 200, "it has been looked for");
            servers[0].kill();
            let mut client = routed.client();
            assert_eq!(client.ask(write), answer, "{write}");
            let stored = write.contains("new").then_some("new");
            let counted = Some("5").filter(|_| write.starts_with("ma"));
            assert_eq!(held(&servers[1], "k").as_deref(), stored.or(counted), "{write}");
            servers[0].restart();
            client.wait_for_live(2);
            // It is written where it belongs, and lost once more.
            assert_eq!(client.ask("set k 0 0 3\r\nown\r\n"), "STORED\r\n");
            assert_eq!((held(&servers[0], "k").as_deref(), held(&servers[1], "k")), (Some("own"), None));
        }
    }
}

#[test]
fn a_write_that_finds_its_connection_closed_while_it_was_idle_is_stored_where_others_stand_in() {
    let mut servers = Memcached::several::<2>();
    let routed = Routed::start(GUTTER, &servers, &[]);
    let mut client = routed.client();
    for round in 0..10 {
        assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
        servers[0].kill();
        assert_eq!(client.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n", "round {round}");
        assert_eq!(held(&servers[1], "k").as_deref(), Some("new"));
        servers[0].restart();
        client.wait_for_live(2);
    }
}

#[test]
fn what_one_server_decides_is_decided_by_the_next_where_the_first_is_gone_before_it_was_asked() {
    for mode in MODES {
        let mut servers = Memcached::several::<2>();
        // One that has met the loss knows what to do: each is asked once, for a key of the one server or the other.
        let routed: Vec<Routed> = (0..8)
            .map(|_| Routed::start("[cache]\nserver = [\"$0\", \"$1\"]\n", &servers, mode))
            .inspect(|routed| assert_eq!(routed.server.readiness().0, 200, "it has been looked for"))
            .collect();
        let numbers: String = (0..8).map(|i| format!("set n{i} 0 0 1\r\n1\r\n")).collect();
        Client::to(servers[1].addr).ask(&numbers);
        servers[0].kill();
        for (number, routed) in routed.iter().enumerate() {
            assert_eq!(routed.client().ask(&format!("incr n{number} 1\r\n")), "2\r\n");
        }
    }
}

#[test]
fn failover_has_a_limit() {
    let mut servers = Memcached::several::<2>();
    let text = GUTTER
        .replace("gutter = \"spare\"\ngutter-expiry = \"60s\"", "failover = \"spare\"\nfailover-limit = 5");
    let routed = Routed::start(&text, &servers, &[]);
    let mut client = routed.client();
    servers[0].kill();
    let answers: String = (0..200).map(|i| client.ask(&format!("set k{i} 0 0 1\r\nx\r\n"))).collect();
    let (stored, refused) = (answers.matches("STORED").count(), answers.matches("SERVER_ERROR").count());
    assert!(stored >= 5 && refused > stored && stored + refused == 200, "{stored} and {refused}");
    assert!(client.stat(" routes", "pool_a:failovers_refused") > 0);
}

const BELOW: &str = r#"
[cache.pools.small]
servers = ["$0", "$1"]
writes = "owner"
below = "large"
[cache.pools.large]
servers = ["$2"]
[[cache.routes]]
pool = "small"
"#;

#[test]
fn what_the_first_pool_misses_comes_from_the_pool_below_and_stays_with_its_expiry() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let routed = Routed::start(BELOW, &servers, mode);
        let mut client = routed.client();
        let keys: Vec<String> = (0..20).map(|i| format!("k{i}")).collect();
        for key in &keys {
            assert_eq!(client.ask(&format!("set {key} 7 300 {}\r\n{key}\r\n", key.len())), "STORED\r\n");
            assert_eq!(held(&servers[2], key).as_deref(), Some(key.as_str()), "the pool below has it too");
        }
        servers[..2].iter().for_each(|server| drop(Client::to(server.addr).ask("flush_all\r\n")));
        let expected: String =
            keys.iter().map(|key| format!("VALUE {key} 7 {}\r\n{key}\r\n", key.len())).collect();
        let get = format!("get {} none\r\n", keys.join(" "));
        assert_eq!(client.ask(&get), expected.clone() + "END\r\n");
        assert_eq!(client.ask("mg k0 v f\r\nmg none v\r\nmg none v q\r\n"), "VA 2 f7\r\nk0\r\nEN\r\n");
        let filled = |key: &str| {
            let found =
                servers[..2].iter().map(|server| Client::to(server.addr).ask(&format!("mg {key} t f\r\n")));
            found.into_iter().find(|answer| answer.starts_with("HD "))
        };
        for key in &keys {
            // One whose claim was taken is filled by a later get.
            wait_until("all are filled", || {
                client.ask(&format!("get {key}\r\n"));
                filled(key).is_some()
            });
            let answer = filled(key).expect("it was there");
            let left: u64 =
                answer[4..].split(' ').next().and_then(|left| left.parse().ok()).expect("seconds");
            assert!((1..=300).contains(&left) && answer.ends_with("f7\r\n"), "{answer}");
        }
        assert_eq!(client.ask(&get), expected + "END\r\n");
        assert_eq!(client.ask("delete k0\r\nget k0\r\n"), "DELETED\r\nEND\r\n", "it is gone everywhere");
        assert_eq!(
            client.ask("set n 0 0 1\r\n5\r\nincr n 2\r\nget n\r\n"),
            "STORED\r\n7\r\nVALUE n 0 1\r\n7\r\nEND\r\n"
        );
    }
}

#[test]
fn what_is_stale_below_stays_where_it_is_and_the_next_who_asks_for_it_there_is_told_to_replace_it() {
    let servers = Memcached::several::<3>();
    let routed = Routed::start(BELOW, &servers, &[]);
    let (mut client, mut below) = (routed.client(), Client::to(servers[2].addr));
    below.ask("set k 0 0 1\r\nx\r\nmd k I\r\n");
    assert_eq!(client.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
    // What is under way for nobody ends before this is answered.
    client.ask("touch k 0\r\n");
    assert_eq!(servers[..2].iter().find_map(|server| held(server, "k")), None);
    assert!(below.ask("mg k\r\n").contains('W'));
}

#[test]
fn writers_and_fills_of_one_key_leave_both_pools_of_one_mind() {
    let servers = Memcached::several::<3>();
    let routed = Routed::start(BELOW, &servers, &[]);
    let addr = routed.server.addr();
    for round in 0..15 {
        servers[..2].iter().for_each(|server| drop(Client::to(server.addr).ask("flush_all\r\n")));
        thread::scope(|scope| {
            for who in 0..4 {
                scope.spawn(move || {
                    let mut client = Client::to(addr);
                    for i in 0..40 {
                        let (key, value) = (i % 5, format!("{round}-{who}-{i}"));
                        let write = format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len());
                        client.ask(&format!("get k{key}\r\n"));
                        client.ask(if i % 7 == who { format!("delete k{key}\r\n") } else { write }.as_str());
                    }
                });
            }
        });
        // What is under way for nobody ends before this is answered.
        let mut client = routed.client();
        for key in (0..5).map(|key| format!("k{key}")) {
            client.ask(&format!("touch {key} 0\r\n"));
            let below = held(&servers[2], &key);
            for first in servers[..2].iter().filter_map(|server| held(server, &key)) {
                assert_eq!(Some(first), below, "round {round}, {key}");
            }
        }
    }
}

#[test]
fn a_new_pool_is_warmed_from_the_old_one_and_never_serves_what_was_overwritten() {
    let servers = Memcached::several::<2>();
    let text = r#"
[cache.pools.new]
servers = ["$0"]
warm-from = "old"
[cache.pools.old]
servers = ["$1"]
[[cache.routes]]
pool = "new"
"#;
    let routed = Routed::start(text, &servers, &[]);
    let mut client = routed.client();
    Client::to(servers[1].addr).ask("set a 0 0 3\r\nold\r\nset b 0 0 3\r\nold\r\nset c 0 0 3\r\nold\r\n");
    // Not before the servers have told their versions.
    wait_until("it is filled", || {
        assert_eq!(client.ask("get a\r\n"), "VALUE a 0 3\r\nold\r\nEND\r\n");
        held(&servers[0], "a").is_some()
    });
    assert_eq!(client.ask("set b 0 0 3\r\nnew\r\n"), "STORED\r\n");
    assert_eq!((held(&servers[0], "b").as_deref(), held(&servers[1], "b")), (Some("new"), None));
    assert_eq!(client.ask("delete c\r\nget c\r\n"), "NOT_FOUND\r\nEND\r\n", "it is gone in the old one too");
    assert!(client.stat(" routes", "pool_new:filled") >= 1);
}

#[test]
fn a_delete_is_not_undone_by_what_was_on_its_way_from_the_old_pool() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let text = r#"
[cache.pools.new]
servers = ["$0"]
warm-from = "old"
[cache.pools.old]
servers = ["$1"]
[[cache.routes]]
pool = "new"
"#;
        let routed = Routed::start(text, &servers, mode);
        let (mut client, mut old) = (routed.client(), Client::to(servers[1].addr));
        let (round, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let _ends = Ends(&over);
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut reader = routed.client();
                    while !over.load(Ordering::Relaxed) {
                        let key = round.load(Ordering::Relaxed);
                        reader.ask(&format!("get k{key}\r\nmg k{key} v\r\n"));
                    }
                });
            }
            for key in 0..300 {
                old.ask(&format!("set k{key} 0 0 3\r\nold\r\n"));
                round.store(key, Ordering::Relaxed);
                // Now before it is filled, now meanwhile, now after.
                (0..key % 3).for_each(|_| drop(client.ask(&format!("get k{key}\r\n"))));
                client.ask(&format!("delete k{key}\r\n"));
                for _ in 0..3 {
                    assert_eq!(client.ask(&format!("get k{key}\r\n")), "END\r\n", "{mode:?}, k{key}");
                }
            }
        });
        // What is under way for nobody ends before these are answered.
        for key in 0..300 {
            client.ask(&format!("touch k{key} 0\r\n"));
            assert_eq!(held(&servers[0], &format!("k{key}")), None, "{mode:?}, k{key}");
        }
    }
}

#[test]
fn a_pool_below_that_is_away_costs_misses_and_no_errors() {
    let mut servers = Memcached::several::<3>();
    let routed = Routed::start(BELOW, &servers, &[]);
    let mut client = routed.client();
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    servers[2].kill();
    let answers: Vec<String> = (0..3).map(|_| client.ask("get k none\r\nmg none v\r\n")).collect();
    assert!(answers.iter().all(|answer| answer == "VALUE k 0 1\r\nx\r\nEND\r\nEN\r\n"), "{answers:?}");
}

#[test]
fn a_server_is_known_by_the_name_that_its_pool_has_for_it() {
    let servers = Memcached::several::<3>();
    let text = r#"
[cache.pools.a]
servers = [{ address = "$0", name = "one" }, { address = "$1", name = "two" }]
[cache.pools.b]
servers = [{ address = "$2", name = "two" }]
[[cache.routes]]
pool = "a"
"#;
    let routed = Routed::start(text, &servers, &[]);
    let mut client = routed.client();
    let said = |arguments: &[&str]| {
        let output = routed.admin(arguments);
        String::from_utf8([output.stdout, output.stderr].concat()).expect("a text")
    };
    let shown = said(&["server", "one", "down"]);
    let line = shown.lines().find(|line| line.starts_with(&servers[0].name())).unwrap_or_default();
    assert!(line.contains(" one ") && line.contains(" down "), "{shown}");
    assert_eq!(client.stat("", "servers_live"), 2);
    let several = said(&["server", "two", "down"]);
    assert!(several.contains(&servers[1].name()) && several.contains(&servers[2].name()), "{several}");
    let unknown = said(&["server", "three", "down"]);
    assert!(unknown.contains(&format!("{} (one)", servers[0].name())), "{unknown}");
    (0..3).for_each(|_| drop(client.ask("set k 0 0 1\r\nx\r\nget k\r\n")));
    let rows: serde_json::Value = serde_json::from_str(&said(&["servers", "--json"])).expect("JSON");
    for share in rows["servers"].as_array().expect("a list").iter().map(|row| row["share"].to_string()) {
        assert!(share.len() <= "0.1234".len(), "{rows}");
    }
}

#[test]
fn a_server_can_be_spared_taken_out_and_taken_back() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let text = "[cache]\nserver = [\"$0\", \"$1\"]\n";
        let routed = Routed::start(text, &servers, mode);
        let mut client = routed.client();
        let name = servers[1].name();
        let state = |client: &mut Client| {
            let text = client.ask("stats servers\r\n");
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("STAT {name}:state ")));
            line.expect("it has a state").to_owned()
        };
        let set = |wish: &str| {
            let output = routed.admin(&["server", &name, wish]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
        set("drain");
        assert_eq!(state(&mut client), "draining");
        let gets = |server: &Memcached| Client::to(server.addr).stat("", "get_hits");
        let before = gets(&servers[1]);
        (0..10).for_each(|_| assert!(client.ask("get k\r\n").starts_with("VALUE")));
        assert_eq!(gets(&servers[1]), before, "it is not read");
        assert_eq!(client.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
        assert_eq!(held(&servers[1], "k").as_deref(), Some("new"), "but written");
        set("down");
        assert_eq!(state(&mut client), "down");
        assert_eq!(client.ask("set k 0 0 5\r\nnewer\r\n"), "STORED\r\n");
        assert_eq!(held(&servers[1], "k").as_deref(), Some("new"), "it is not written");
        thread::sleep(Duration::from_millis(100));
        assert_eq!(state(&mut client), "down", "nobody brings it back but who took it out");
        set("up");
        client.wait_for_live(2);
        assert_eq!(state(&mut client), "live");
        assert_eq!(held(&servers[1], "k"), None, "it forgot what it missed");
    }
    let servers = Memcached::several::<1>();
    let routed = Routed::start("[cache]\nserver = [\"$0\"]\n", &servers, &[]);
    let unknown = routed.admin(&["server", "127.0.0.1:1", "down"]);
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.status.code() == Some(1) && error.contains(&servers[0].name()), "{error}");
}
