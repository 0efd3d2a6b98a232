//! What a file or an option bounds or bends beside the rules of pools: how long requests take, how many are under way,
//! which replicas are read, and where else keys are deleted.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use crate::client::{self, Client};
use crate::memcached::Memcached;
use crate::routes::{Routed, held};
use crate::support::patience::{wait_for, wait_until};

const MODES: [&[&str]; 2] = [&[], &["--workers", "2", "--eject", "on"]];

/// A server that lets nobody wait in silence and never comes to the end of an answer.
fn trickling() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.expect("a connection");
                let mut asked = [0; 1000];
                let Ok(1..) = stream.read(&mut asked) else { return };
                if asked.starts_with(b"version") {
                    let _ = stream.write_all(b"VERSION 0\r\n");
                    return;
                }
                let _ = stream.write_all(b"VALUE k 0 100000\r\n");
                while stream.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    addr
}

#[test]
fn a_server_that_never_ends_its_answer_keeps_no_client_waiting() {
    for mode in [&["--workers", "pipelined"][..], &["--workers", "2"]] {
        let addr = trickling();
        let options = ["--server", &addr.to_string(), "--server-timeout", "2s", "--request-timeout", "300ms"];
        let router = client::start(&[&options[..], mode].concat());
        let answer = Client::to(router.addr()).ask("get k\r\n");
        assert!(answer.starts_with("SERVER_ERROR "), "{mode:?}: {answer}");
    }
}

const HURRIED: &str = r#"
[cache]
server-timeout = "10m"
[cache.pools.a]
servers = ["$0"]
[cache.pools.b]
servers = ["$0"]
get-errors = "miss"
[[cache.routes]]
pool = "a"
[[cache.routes]]
prefix = "h:"
pool = "a"
timeout = "50ms"
[[cache.routes]]
prefix = "m:"
pool = "b"
timeout = "50ms"
"#;

#[test]
fn a_route_waits_no_longer_than_it_says_and_its_server_stays() {
    let servers = Memcached::several::<1>();
    let routed = Routed::start(HURRIED, &servers, &[]);
    let (mut hurried, mut patient) = (routed.client(), routed.client());
    assert_eq!(Client::to(servers[0].addr).ask("set h:k 0 0 3\r\nold\r\n"), "STORED\r\n");
    servers[0].signal("STOP");
    patient.0.write_all(b"get h\r\n").expect("it listens");
    assert_eq!(hurried.ask("get h:k\r\n"), "SERVER_ERROR no answer in time\r\n");
    assert_eq!(hurried.ask("set h:k 0 0 3\r\nnew\r\n"), "SERVER_ERROR no answer in time\r\n");
    assert_eq!(hurried.ask("get m:k m:l\r\nmg m:k v\r\n"), "END\r\nEN\r\n");
    servers[0].signal("CONT");
    assert_eq!(patient.read_until(b"END\r\n"), b"");
    wait_until("what was late is done", || held(&servers[0], "h:k").as_deref() == Some("new"));
    assert_eq!(hurried.stat(" servers", &format!("{}:losses", servers[0].name())), 0);
    assert_eq!(hurried.stat(" routes", "route_2:timed_out"), 2);
}

#[test]
fn with_workers_a_route_that_is_in_a_hurry_is_refused() {
    let servers = Memcached::several::<1>();
    let routed = Routed::start(HURRIED, &servers, &[]);
    let path = routed.path();
    let check = std::process::Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["cache", "--workers", "2", "--check"])
        .arg(&path)
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    let text = std::fs::read_to_string(&path).expect("a file");
    let line = text.lines().position(|line| line.starts_with("timeout")).expect("a timeout") + 1;
    assert!(!check.status.success() && said.contains(&format!(":{line}: timeout of a route")), "{said}");
}

const ZONES: &str = r#"
[cache]
zone = "here"
[cache.pools.a]
servers = [{ address = "$0", zone = "there" }, { address = "$1", zone = "here" }, { address = "$2", zone = "here" }]
multiget = "split"
read-repair = "never"
"#;

#[test]
fn servers_of_our_zone_are_read_as_long_as_one_is_there() {
    for mode in MODES {
        let mut servers = Memcached::several::<3>();
        for (server, value) in servers.iter().zip(["0", "1", "2"]) {
            let stored =
                Client::to(server.addr).ask(&format!("set k 0 0 1\r\n{value}\r\nset l 0 0 1\r\n{value}\r\n"));
            assert_eq!(stored, "STORED\r\nSTORED\r\n");
        }
        let routed = Routed::start(ZONES, &servers, mode);
        let mut client = routed.client();
        let read = |client: &mut Client| {
            let mut seen: Vec<String> = (0..12)
                .flat_map(|_| [client.ask("get k\r\n"), client.ask("get k l\r\n")])
                .flat_map(|answer| answer.lines().skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
                .collect();
            seen.sort_unstable();
            seen.dedup();
            seen.join(" ")
        };
        assert_eq!(read(&mut client), "1 2", "{mode:?}");
        assert_eq!(client.ask("set m 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(held(&servers[0], "m").as_deref(), Some("x"), "writes go everywhere");
        servers[1..].iter_mut().for_each(Memcached::kill);
        client.wait_for_live(1);
        assert_eq!(read(&mut client), "0", "{mode:?}: better from there than not at all");
    }
}

const ELSEWHERE: &str = r#"
[cache.pools.near]
servers = ["$0"]
deletes-to = ["far", "wide"]
[cache.pools.far]
servers = ["$1"]
[cache.pools.wide]
servers = ["$2", "$3"]
[[cache.routes]]
pool = "near"
[[cache.routes]]
prefix = "f:"
pool = "far"
"#;

#[test]
fn what_is_deleted_in_a_pool_is_deleted_in_those_that_it_names() {
    for mode in MODES {
        let mut servers = Memcached::several::<4>();
        let routed = Routed::start(ELSEWHERE, &servers, mode);
        let mut client = routed.client();
        for (request, answer) in [
            ("delete k\r\n", "DELETED\r\n"),
            ("md k\r\n", "HD\r\n"),
            ("md k q\r\n", ""),
            ("delete k noreply\r\n", ""),
        ] {
            for server in &servers {
                assert_eq!(Client::to(server.addr).ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
            }
            assert_eq!(client.ask(request), answer);
            // The other pools are told, and not waited for.
            for server in &servers {
                wait_for(format!("{request:?} has reached every server, {mode:?}"), || {
                    match held(server, "k") {
                        None => Ok(()),
                        there => Err(format!("{there:?}")),
                    }
                });
            }
        }
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(held(&servers[1], "k"), None, "what is no deletion stays here");
        for server in &servers[1..] {
            assert_eq!(Client::to(server.addr).ask("set f:k 0 0 1\r\nx\r\n"), "STORED\r\n");
        }
        assert_eq!(client.ask("delete f:k\r\n"), "DELETED\r\n");
        assert_eq!(held(&servers[2], "f:k").as_deref(), Some("x"), "the other way nothing was said");
        servers[1].kill();
        assert_eq!(client.ask("delete k\r\n"), "DELETED\r\n", "nobody waits for those that are away");
    }
}

#[test]
fn an_address_that_asks_for_too_much_is_refused_over_all_its_connections() {
    for mode in [&["--workers", "pipelined"][..], &["--workers", "2"]] {
        let router = client::start(&[&["--mock", "1", "--client-limit", "1"][..], mode].concat());
        let (mut one, mut other) = (Client::to(router.addr()), Client::to(router.addr()));
        // What is beyond the limit is missing for some minutes.
        one.0.write_all(format!("get{}\r\n", " k".repeat(300)).as_bytes()).expect("it listens");
        one.read_until(b"END\r\n");
        let refused = "SERVER_ERROR too many requests: the limit of this client is reached\r\n";
        for client in [&mut one, &mut other] {
            let asked = "delete a noreply\r\nset a 0 0 7\r\nget a\r\n\r\nmg a v\r\nquit\r\n";
            client.0.write_all(asked.as_bytes()).expect("it listens");
            let mut heard = String::new();
            client.0.read_to_string(&mut heard).expect("answers, then the end");
            assert_eq!(heard, refused.repeat(2), "{mode:?}");
        }
    }
}

const GROWN: &str = r#"
[cache.pools.new]
servers = ["$0", "$1"]
writes = "owner"
warm-from = "old"
[cache.pools.old]
servers = ["$0"]
[[cache.routes]]
pool = "new"
"#;

#[test]
fn a_pool_that_takes_the_place_of_one_with_the_same_servers_keeps_what_is_written() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let routed = Routed::start(GROWN, &servers, mode);
        let mut client = routed.client();
        for key in 0..50 {
            let (set, get) = (format!("set k{key} 0 0 1\r\nx\r\n"), format!("get k{key}\r\n"));
            assert_eq!(client.ask(&set), "STORED\r\n");
            assert_eq!(client.ask(&get), format!("VALUE k{key} 0 1\r\nx\r\nEND\r\n"), "{mode:?}");
            let holders = servers.iter().filter(|server| held(server, &format!("k{key}")).is_some()).count();
            assert_eq!(holders, 1, "it is not where the old pool had it");
        }
    }
}
