//! Servers that share the keys: each key lives where clients of its placement expect it, and stays there.

use std::io::Write;

use crate::client::{Client, router};
use crate::memcached::Memcached;

/// Where a key lies depends on the servers' ports, which are others each time: of so many every server has some.
const KEYS: u64 = 300;

#[test]
fn a_key_is_written_to_and_read_from_its_owner_alone() {
    let clients =
        ["ketama", "jump", "rendezvous", "modulo-crc32", "dalli", "spymemcached", "spymemcached-modulo"];
    let routers = ["twemproxy", "mcrouter", "mcrouter-weighted", "mcrouter-rendezvous", "mcrouter-crc32"];
    for hash in clients.into_iter().chain(routers) {
        let servers = Memcached::several::<3>();
        let names: Vec<String> = servers.iter().map(Memcached::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let server = router(&names, &["--writes", "owner", "--hash", hash]);
        let mut client = Client::to(server.addr());
        let keys: Vec<String> = (0..KEYS).map(|i| format!("key{i}")).collect();
        for key in &keys {
            assert_eq!(client.ask(&format!("set {key} 0 0 {}\r\n{key}\r\n", key.len())), "STORED\r\n");
        }
        let items: Vec<u64> =
            servers.iter().map(|memcached| Client::to(memcached.addr).stat("", "curr_items")).collect();
        assert_eq!(items.iter().sum::<u64>(), KEYS, "{hash}: each key once");
        // twemproxy's hash leaves keys that differ in their last letters together.
        assert!(hash == "twemproxy" || items.iter().all(|items| *items > 5), "{hash}: {items:?}");
        // All of them in one request: each server is asked once, the answer comes in the order asked.
        let expected: String =
            keys.iter().map(|key| format!("VALUE {key} 0 {}\r\n{key}\r\n", key.len())).collect();
        assert_eq!(client.ask(&format!("get {}\r\n", keys.join(" "))), expected + "END\r\n");
    }
}

#[test]
fn a_key_in_base64_is_the_same_key() {
    let servers = Memcached::several::<3>();
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&names, &["--writes", "owner"]);
    let mut client = Client::to(server.addr());
    for (plain, base64) in [("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")] {
        assert_eq!(client.ask(&format!("ms {base64} 2 b\r\nhi\r\n")), "HD\r\n");
        assert_eq!(client.ask(&format!("get {plain}\r\n")), format!("VALUE {plain} 0 2\r\nhi\r\nEND\r\n"));
    }
}

#[test]
fn keys_of_a_server_that_is_gone_stay_where_they_are() {
    let mut servers = Memcached::several::<2>();
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&names, &["--writes", "owner"]);
    let mut client = Client::to(server.addr());
    let mut set = |key: u64| client.ask(&format!("set key{key} 0 0 1\r\nx\r\n"));
    assert!((0..KEYS).all(|key| set(key) == "STORED\r\n"));
    servers[0].kill();
    let refused = (0..KEYS).filter(|key| set(*key).starts_with("SERVER_ERROR")).count() as u64;
    let moved = Client::to(servers[1].addr).stat("", "curr_items");
    assert_eq!(refused + moved, KEYS, "no key moved to the other server");
    assert!(refused > 5 && moved > 5);
}

#[test]
fn an_answer_waits_for_one_asked_together_with_it_but_not_for_a_frozen_server() {
    let servers = Memcached::several::<2>();
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = router(&names, &["--writes", "owner", "--server-timeout", "1m"]);
    let mut client = Client::to(server.addr());
    let items = || Client::to(servers[1].addr).stat("", "curr_items");
    let mut key_of = |its: u64| {
        let lands = |key: &usize| {
            let before = items();
            assert_eq!(client.ask(&format!("set key{key} 0 0 1\r\nx\r\n")), "STORED\r\n");
            items() - before == its
        };
        (its as usize..100).step_by(2).find(lands).expect("each server has some keys")
    };
    let (here, frozen) = (key_of(0), key_of(1));
    servers[1].signal("STOP");
    let asked = format!("get key{here}\r\nget key{frozen}\r\n");
    client.0.write_all(asked.as_bytes()).expect("the router listens");
    assert_eq!(client.read_until(b"END\r\n"), format!("VALUE key{here} 0 1\r\nx\r\n").as_bytes());
    servers[1].signal("CONT");
    assert_eq!(client.read_until(b"END\r\n"), format!("VALUE key{frozen} 0 1\r\nx\r\n").as_bytes());
}
