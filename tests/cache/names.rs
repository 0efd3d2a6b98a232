//! Names that lead elsewhere while the router runs, and names that stand for as many servers as they have.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::{self, Client};
use crate::dns::{NameServer, Says, here};
use crate::memcached::Memcached;
use crate::routes::held;
use crate::support::Server;
use crate::support::ends::Ends;
use crate::support::patience::wait_until;

const MODES: [&[&str]; 2] = [&[], &["--workers", "2", "--eject", "on"]];

const SERVICE: &str = "_memcached._tcp.test";

/// A router that asks this name server.
fn router(names: &NameServer, servers: &[&str], arguments: &[&str]) -> Server {
    let asks = names.arguments();
    let asks = asks.iter().map(String::as_str);
    let servers = servers.iter().flat_map(|server| ["--server", server]);
    let all: Vec<&str> = servers.chain(asks).chain(arguments.iter().copied()).collect();
    client::start(&[&all[..], &["--threads", "2"]].concat())
}

/// Clients that set and get keys of their own while something is done. Every answer must be the one that a cache gives:
/// what was stored last, or with `may_miss` nothing. How often it was nothing.
fn at_work(server: &Server, may_miss: bool, meanwhile: impl FnOnce()) -> u64 {
    let (stop, missed) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        for who in 0..4 {
            let (mut client, stop, missed) = (Client::to(server.addr()), &stop, &missed);
            scope.spawn(move || {
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) {
                    rounds += 1;
                    // Several keys in one go, so that something is under way all the time.
                    let set: String =
                        (0..8).map(|key| format!("set c{who}:{key} 0 0 8\r\n{rounds:08}\r\n")).collect();
                    assert_eq!(client.ask(&set), "STORED\r\n".repeat(8));
                    let got =
                        client.ask(&(0..8).map(|key| format!("get c{who}:{key}\r\n")).collect::<String>());
                    for answer in got.split_inclusive("END\r\n").enumerate() {
                        let value = format!("VALUE c{who}:{} 0 8\r\n{rounds:08}\r\nEND\r\n", answer.0);
                        let is_miss = answer.1 == "END\r\n";
                        missed.fetch_add(u64::from(is_miss), Ordering::Relaxed);
                        assert!(answer.1 == value || (may_miss && is_miss), "{:?} for {value:?}", answer.1);
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(100));
        meanwhile();
        thread::sleep(Duration::from_millis(300));
    });
    missed.into_inner()
}

#[test]
fn a_replicas_name_leads_elsewhere_and_its_clients_notice_nothing() {
    for mode in MODES {
        let [old, other] = Memcached::several();
        let new = old.beside(here(2));
        let names = NameServer::start();
        names.says("a.test", Says::Hosts(vec![here(1)]));
        let name = format!("a.test:{}", old.addr.port());
        let server = router(&names, &[&name, &other.name()], mode);
        // What is there before is from another time.
        let mut stranger = Client::to(new.addr);
        stranger.ask("set stale 0 0 3\r\nold\r\nset c0:1 0 0 3\r\nold\r\n");
        let mut client = Client::to(server.addr());
        client.ask("set stale 0 0 3\r\nnew\r\n");
        at_work(&server, false, || {
            names.says("a.test", Says::Hosts(vec![here(2)]));
            server.wait_for_log(&format!("server is at 127.0.0.2:{} now", old.addr.port()));
        });
        for _ in 0..4 {
            assert_eq!(client.ask("get stale\r\n"), "VALUE stale 0 3\r\nnew\r\nEND\r\n");
        }
        client.ask("set last 0 0 1\r\nx\r\n");
        assert_eq!((held(&new, "last").as_deref(), held(&old, "last")), (Some("x"), None));
        assert_eq!(client.stat(" servers", &format!("{name}:losses")), 0);
        assert!(server.stop().success());
    }
}

#[test]
fn a_shards_name_leads_elsewhere_and_its_clients_see_no_error() {
    for mode in MODES {
        let [old] = Memcached::several();
        let new = old.beside(here(2));
        let names = NameServer::start();
        names.says("a.test", Says::Hosts(vec![here(1)]));
        let name = format!("a.test:{}", old.addr.port());
        let server = router(&names, &[&name], &[&["--writes", "owner"], mode].concat());
        let missed = at_work(&server, true, || {
            names.says("a.test", Says::Hosts(vec![here(2)]));
            server.wait_for_log(&format!("server is at 127.0.0.2:{} now", old.addr.port()));
        });
        // Each client has at most what was under way when it moved.
        assert!(missed <= 4 * 8, "{missed}");
        assert!(held(&new, "c0:0").is_some());
        // While somebody is at one of a name's addresses, it stays there.
        names.says("a.test", Says::Hosts(vec![here(9), here(2)]));
        names.wait_for_questions();
        assert!(server.log().matches("connections move there").count() == 1, "{}", server.log());
        assert!(server.stop().success());
    }
}

/// What HTTP says of the servers of the only pool: names, weights.
fn pool(server: &Server) -> Vec<(String, u64)> {
    let (_, text) = server.page("/v1/pools");
    let body = text.rsplit_once("\r\n\r\n").map_or(text.as_str(), |(_, body)| body);
    let pools: serde_json::Value =
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"));
    let servers = pools["pools"][0]["servers"].as_array().expect("servers").iter();
    servers
        .map(|server| {
            (server["server"].as_str().unwrap_or_default().to_owned(), server["weight"].as_u64().unwrap_or(0))
        })
        .collect()
}

fn names_of(server: &Server) -> Vec<String> {
    pool(server).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_server_that_comes_by_its_record_takes_its_keys_and_leaves_with_it() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let ports = [0, 1].map(|number: usize| servers[number].addr.port());
        let names = NameServer::start();
        names.says("h.test", Says::Hosts(vec![here(1)]));
        names.says(SERVICE, Says::Services(vec![(1, 0, ports[0], "h.test")]));
        let server = router(&names, &[&format!("srv:{SERVICE}")], &[&["--writes", "owner"], mode].concat());
        let mut client = Client::to(server.addr());
        let both = Says::Services(vec![(1, 0, ports[1], "h.test"), (1, 0, ports[0], "h.test")]);
        at_work(&server, true, || {
            names.says(SERVICE, both.clone());
            server.wait_for_log(&format!("srv:{SERVICE}: h.test:{} came", ports[1]));
        });
        let mut expected = ports.map(|port| format!("h.test:{port}"));
        expected.sort();
        assert_eq!(names_of(&server), expected);
        let keys: Vec<String> = (0..200).map(|key| format!("key{key}")).collect();
        for key in &keys {
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\nx\r\n")), "STORED\r\n");
        }
        let of_second: Vec<&String> = keys.iter().filter(|key| held(&servers[1], key).is_some()).collect();
        assert!((20..180).contains(&of_second.len()), "{}", of_second.len());
        assert!(keys.iter().all(|key| held(&servers[0], key).is_some() != of_second.contains(&key)));
        // It goes, and misses what is written; when it is back it serves nothing of before.
        names.says(SERVICE, Says::Services(vec![(1, 0, ports[0], "h.test")]));
        server.wait_for_log(&format!("srv:{SERVICE}: h.test:{} went", ports[1]));
        assert_eq!(client.ask(&format!("delete {}\r\n", of_second[0])), "NOT_FOUND\r\n");
        names.says(SERVICE, both);
        wait_until("both", || names_of(&server).len() == 2);
        assert_eq!(client.ask(&format!("get {}\r\n", of_second[0])), "END\r\n");
        assert_eq!(client.stat("", "servers"), 2);
        assert!(server.stop().success());
    }
}

#[test]
fn a_target_that_was_lost_and_replaced_while_it_was_in_no_record_is_there_at_once_when_it_comes_back() {
    let mut servers = Memcached::several::<2>();
    let ports = [0, 1].map(|number: usize| servers[number].addr.port());
    let other = servers[1].beside(here(2));
    let names = NameServer::start();
    names.says("h0.test", Says::Hosts(vec![here(1)]));
    names.says("h1.test", Says::Hosts(vec![here(1)]));
    let both = Says::Services(vec![(1, 0, ports[0], "h0.test"), (1, 0, ports[1], "h1.test")]);
    names.says(SERVICE, both.clone());
    let server = router(&names, &[&format!("srv:{SERVICE}")], &["--writes", "owner"]);
    wait_until("both take part", || Client::to(server.addr()).stat("", "servers_live") == 2);
    servers[1].kill();
    wait_until("it is lost", || Client::to(server.addr()).stat("", "servers_live") == 1);
    names.says(SERVICE, Says::Services(vec![(1, 0, ports[0], "h0.test")]));
    server.wait_for_log("h1.test:");
    wait_until("it is in no pool", || names_of(&server).len() == 1);
    at_work(&server, true, || {
        names.says("h1.test", Says::Hosts(vec![here(2)]));
        names.says(SERVICE, both);
        wait_until("both are in it", || names_of(&server).len() == 2);
    });
    assert!(Client::to(other.addr).stat("", "cmd_set") > 0, "it has its keys");
}

#[test]
fn a_lookup_that_fails_changes_nothing_and_is_told_once() {
    let servers = [Memcached::start(&[])];
    let second = servers[0].beside(here(2));
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(2), here(1)]));
    let port = servers[0].addr.port();
    let server = router(&names, &[&format!("dns:a.test:{port}")], &["--writes", "owner"]);
    let both = [format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}")];
    assert_eq!(names_of(&server), both, "in one order, whatever the answer's");
    for failure in [Says::Failure, Says::HalfFailure, Says::Hosts(Vec::new()), Says::Services(Vec::new())] {
        at_work(&server, false, || {
            names.says("a.test", failure);
            names.wait_for_questions();
        });
        assert_eq!(names_of(&server), both);
    }
    let told = server.log().matches("nothing is changed").count();
    assert!((1..=2).contains(&told), "a failure and an empty answer: {}", server.log());
    names.says("a.test", Says::Hosts(vec![here(2)]));
    wait_until("one", || names_of(&server) == both[1..]);
    drop(second);
}

#[test]
fn records_say_the_weights_and_only_those_of_the_lowest_priority_count() {
    let servers = Memcached::several::<3>();
    let ports = [0, 1, 2].map(|number: usize| servers[number].addr.port());
    let names = NameServer::start();
    names.says("h.test", Says::Hosts(vec![here(1)]));
    let records = |weights: [u16; 2]| {
        Says::Services(vec![
            (7, 500, ports[2], "h.test"),
            (5, weights[0], ports[0], "h.test"),
            (5, weights[1], ports[1], "h.test"),
        ])
    };
    names.says(SERVICE, records([10, 40]));
    let server = router(&names, &[&format!("srv:{SERVICE}")], &["--writes", "owner"]);
    let weights = || {
        let pool = pool(&server);
        [0, 1, 2].map(|number: usize| {
            let name = format!("h.test:{}", ports[number]);
            pool.iter().find(|(server, _)| *server == name).map(|(_, weight)| *weight)
        })
    };
    assert_eq!(weights(), [Some(10), Some(40), None]);
    let mut client = Client::to(server.addr());
    (0..500).for_each(|key| drop(client.ask(&format!("set key{key} 0 0 1\r\nx\r\n"))));
    let count =
        |server: &Memcached| (0..500).filter(|key| held(server, &format!("key{key}")).is_some()).count();
    let counts = [count(&servers[0]), count(&servers[1])];
    assert!(counts[0] + counts[1] == 500 && (300..480).contains(&counts[1]), "{counts:?}");
    names.says(SERVICE, records([40, 40]));
    server.wait_for_log("weights changed");
    assert_eq!(weights(), [Some(40), Some(40), None]);
}

#[test]
fn a_group_that_nobody_knows_at_the_start_is_one_server_that_is_away_until_somebody_does() {
    let servers = Memcached::several::<2>();
    let names = NameServer::start();
    let server = router(&names, &[&servers[0].name(), &format!("srv:{SERVICE}")], &[]);
    let mut client = Client::to(server.addr());
    assert_eq!(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(names_of(&server)[1], format!("srv:{SERVICE}"));
    names.says("h.test", Says::Hosts(vec![here(1)]));
    names.says(SERVICE, Says::Services(vec![(0, 0, servers[1].addr.port(), "h.test")]));
    wait_until("its server", || names_of(&server)[1] == format!("h.test:{}", servers[1].addr.port()));
    wait_until("both take part", || client.stat("", "servers_live") == 2);
    assert_eq!(client.ask("set b 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert!(held(&servers[1], "b").is_some());
}

fn posthaste(names: &NameServer, arguments: &[&str]) -> Output {
    let asks = names.arguments();
    Command::new(env!("CARGO_BIN_EXE_posthaste")).args(arguments).args(asks).output().expect("it can be run")
}

#[test]
fn where_no_server_of_any_group_is_known_the_tier_does_not_start_and_says_why() {
    let names = NameServer::start();
    let group = format!("srv:{SERVICE}");
    let refused =
        posthaste(&names, &["cache", "--http", "off", "--listen", "127.0.0.1:0", "--server", &group]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains(&format!("{group}: there are no such records")),
        "{said}"
    );
}

#[test]
fn a_file_with_groups_is_checked_with_the_servers_that_they_have() {
    let names = NameServer::start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let name_server = &names.arguments()[1];
    let file = format!(
        "[cache]\nname-server = \"{name_server}\"\n[cache.pools.a]\nservers = [\n\"dns:a.test:7\",\n]\nwrites = \"owner\"\n"
    );
    std::fs::write(&path, file).expect("a file");
    let path = path.to_str().expect("a path");
    let unknown = posthaste(&names, &["cache", "--check", path]);
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(unknown.status.code() == Some(2) && said.contains("cache.toml:5: dns:a.test:7: "), "{said}");
    names.says("a.test", Says::Hosts(vec![here(2), here(3)]));
    let good = posthaste(&names, &["cache", "--check", path]);
    let said = String::from_utf8_lossy(&good.stdout);
    assert!(said.contains("  server 127.0.0.2:7, of dns:a.test:7\n  server 127.0.0.3:7, of"), "{said}");
    let posthaste = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["admin", "route", "key", "--file", path])
        .output()
        .expect("it can be run");
    let said = String::from_utf8_lossy(&posthaste.stdout);
    assert!(said.contains("127.0.0.2:7") || said.contains("127.0.0.3:7"), "{said}");
}

#[test]
fn a_server_that_was_lost_and_is_found_elsewhere_serves_nothing_of_what_it_held_there() {
    for mode in MODES {
        let [mut old, other] = Memcached::several();
        let new = old.beside(here(2));
        let names = NameServer::start();
        names.says("a.test", Says::Hosts(vec![here(1)]));
        let name = format!("a.test:{}", old.addr.port());
        let server = router(&names, &[&name, &other.name()], mode);
        let mut client = Client::to(server.addr());
        client.ask("set stale 0 0 3\r\nnew\r\n");
        wait_until("both take part", || client.stat("", "servers_live") == 2);
        Client::to(new.addr).ask("set stale 0 0 3\r\nold\r\n");
        old.kill();
        wait_until("it is lost", || client.stat("", "servers_live") == 1);
        names.says("a.test", Says::Hosts(vec![here(2)]));
        wait_until("it is found", || client.stat("", "servers_live") == 2);
        for _ in 0..4 {
            assert_eq!(client.ask("get stale\r\n"), "VALUE stale 0 3\r\nnew\r\nEND\r\n");
        }
        assert!(server.stop().success());
    }
}

#[test]
fn what_was_written_while_nobody_knew_a_group_is_not_read_stale_from_its_servers() {
    let servers = Memcached::several::<2>();
    Client::to(servers[1].addr).ask("set k 0 0 3\r\nold\r\n");
    let names = NameServer::start();
    names.says("h.test", Says::Hosts(vec![here(1)]));
    let server = router(&names, &[&servers[0].name(), &format!("srv:{SERVICE}")], &[]);
    let mut client = Client::to(server.addr());
    assert_eq!(client.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
    names.says(SERVICE, Says::Services(vec![(0, 0, servers[1].addr.port(), "h.test")]));
    wait_until("both take part", || client.stat("", "servers_live") == 2);
    for _ in 0..4 {
        assert_eq!(client.ask("get k\r\n"), "VALUE k 0 3\r\nnew\r\nEND\r\n");
    }
}

#[test]
fn a_server_that_another_pool_has_all_the_time_forgets_too_when_it_comes_back_into_a_group() {
    let [first] = Memcached::several();
    let second = first.beside(here(2));
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(1), here(2)]));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (path, port) = (dir.path().join("cache.toml"), first.addr.port());
    let file = format!(
        "[cache.pools.a]\nservers = \"dns:a.test:{port}\"\n[cache.pools.b]\nservers = \"127.0.0.2:{port}\"\n\
         [[cache.routes]]\npool = \"a\"\n[[cache.routes]]\nprefix = \"b:\"\npool = \"b\"\n"
    );
    std::fs::write(&path, file).expect("a file");
    let server = router(&names, &[], &["--config", path.to_str().expect("a path")]);
    let mut client = Client::to(server.addr());
    wait_until("both take part", || client.stat("", "servers_live") == 2);
    assert_eq!(client.ask("set k 0 0 3\r\nold\r\n"), "STORED\r\n");
    names.says("a.test", Says::Hosts(vec![here(1)]));
    server.wait_for_log(&format!("127.0.0.2:{port} went"));
    assert_eq!(client.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
    names.says("a.test", Says::Hosts(vec![here(1), here(2)]));
    server.wait_for_log(&format!("127.0.0.2:{port} came"));
    for _ in 0..4 {
        assert_eq!(client.ask("get k\r\n"), "VALUE k 0 3\r\nnew\r\nEND\r\n");
    }
    drop(second);
}

/// A file of pools that share keys over the servers of `a.test` at this port, the first of which takes all keys.
fn sharded_pools(port: u16, names: &[&str]) -> String {
    let pool =
        |name: &&str| format!("[cache.pools.{name}]\nservers = \"dns:a.test:{port}\"\nwrites = \"owner\"\n");
    let pools: String = names.iter().map(pool).collect();
    let routes: String = names[1..]
        .iter()
        .map(|name| format!("[[cache.routes]]\nprefix = \"{name}:\"\npool = \"{name}\"\n"))
        .collect();
    format!("{pools}{routes}[[cache.routes]]\npool = \"{}\"\n", names[0])
}

/// A router that looks names up at SIGHUP only, and reads such a file.
fn reloaded_router(names: &NameServer, path: &std::path::Path) -> Server {
    let arguments = names.arguments();
    let config = ["--config", path.to_str().expect("a path"), "--resolve-every", "off"];
    client::start(&[&config[..], &["--threads", "2", &arguments[0], &arguments[1]]].concat())
}

#[test]
fn servers_of_a_group_keep_what_they_hold_when_another_pool_names_it_too_and_when_theirs_is_renamed() {
    let [first] = Memcached::several();
    let second = first.beside(here(2));
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(1), here(2)]));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let write = |pools: &[&str]| {
        std::fs::write(&path, sharded_pools(first.addr.port(), pools)).expect("a file");
    };
    write(&["a"]);
    let server = reloaded_router(&names, &path);
    let mut client = Client::to(server.addr());
    wait_until("both take part", || client.stat("", "servers_live") == 2);
    for key in 0..20 {
        assert_eq!(client.ask(&format!("set k{key} 0 0 1\r\nx\r\n")), "STORED\r\n");
    }
    for pools in [&["a", "other"][..], &["b"]] {
        write(pools);
        server.reload("are read anew");
        for key in 0..20 {
            let value = format!("VALUE k{key} 0 1\r\nx\r\nEND\r\n");
            assert_eq!(client.ask(&format!("get k{key}\r\n")), value, "{pools:?}: {}", server.log());
        }
    }
    drop(second);
}

#[test]
fn a_server_that_comes_back_into_a_group_as_its_pool_is_renamed_forgets() {
    let [first] = Memcached::several();
    let second = first.beside(here(2));
    let names = NameServer::start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let say = |pool: &str, hosts: &[u8]| {
        names.says("a.test", Says::Hosts(hosts.iter().copied().map(here).collect()));
        std::fs::write(&path, sharded_pools(first.addr.port(), &[pool])).expect("a file");
    };
    say("a", &[1, 2]);
    let server = reloaded_router(&names, &path);
    let mut client = Client::to(server.addr());
    wait_until("both take part", || client.stat("", "servers_live") == 2);
    let sets =
        |value: &str| (0..20).map(|key| format!("set k{key} 0 0 3\r\n{value}\r\n")).collect::<String>();
    assert_eq!(client.ask(&sets("old")), "STORED\r\n".repeat(20));
    assert!((0..20).any(|key| held(&second, &format!("k{key}")).is_some()), "it has a part of them");
    say("a", &[1]);
    server.reload("are read anew");
    assert_eq!(client.ask(&sets("new")), "STORED\r\n".repeat(20));
    say("b", &[1, 2]);
    server.reload("are read anew");
    let got = client.ask(&(0..20).map(|key| format!("get k{key}\r\n")).collect::<String>());
    assert!(got.contains("new") && !got.contains("old"), "{got}");
}

/// Two replicas, each by a name of its own, which hold `k`.
struct Two {
    servers: [Memcached; 2],
    names: NameServer,
    server: Server,
    client: Client,
}

fn two_replicas(arguments: &[&str]) -> Two {
    let [first] = Memcached::several();
    let second = first.beside(here(2));
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(1)]));
    names.says("b.test", Says::Hosts(vec![here(2)]));
    let both = ["a", "b"].map(|name| format!("{name}.test:{}", first.addr.port()));
    let server = router(&names, &[&both[0], &both[1]], arguments);
    let mut client = Client::to(server.addr());
    wait_until("both take part", || client.stat("", "servers_live") == 2);
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    Two { servers: [first, second], names, server, client }
}

#[test]
fn a_name_that_leads_to_another_server_of_its_pool_is_not_followed() {
    let Two { servers: _servers, names, server, mut client } = two_replicas(&[]);
    names.says("a.test", Says::Hosts(vec![here(2)]));
    server.wait_for_log("of the same pool is there");
    assert_eq!(client.ask("append k 0 0 1\r\ny\r\n"), "STORED\r\n");
    for _ in 0..4 {
        assert_eq!(client.ask("get k\r\n"), "VALUE k 0 2\r\nxy\r\nEND\r\n");
    }
}

#[test]
fn a_server_that_hangs_and_is_replaced_is_followed_though_what_it_was_sent_is_never_read() {
    let [old] = Memcached::several();
    let new = old.beside(here(2));
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(1)]));
    let name = format!("a.test:{}", old.addr.port());
    let server = router(&names, &[&name], &["--writes", "owner", "--server-timeout", "200ms"]);
    let mut client = Client::to(server.addr());
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    old.signal("STOP");
    assert!(client.ask("get k\r\n").starts_with("SERVER_ERROR"));
    // One at which nobody is comes first.
    names.says("a.test", Says::Hosts(vec![here(3), here(2)]));
    wait_until("it is followed", || client.ask("set k 0 0 1\r\ny\r\n") == "STORED\r\n");
    assert_eq!(held(&new, "k").as_deref(), Some("y"));
    old.signal("CONT");
}

#[test]
fn of_the_addresses_that_a_name_leads_to_now_the_one_is_taken_where_somebody_is() {
    let [old] = Memcached::several();
    let new = old.beside(here(2));
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(1)]));
    let name = format!("a.test:{}", old.addr.port());
    let server = router(&names, &[&name], &["--writes", "owner"]);
    names.says("a.test", Says::Hosts(vec![here(3), here(2)]));
    server.wait_for_log(&format!("server is at {} now", new.addr));
    assert!(server.stop().success());
}

#[test]
fn a_lost_server_whose_name_leads_to_another_of_its_pool_stays_away_and_that_one_keeps_what_it_holds() {
    let Two { mut servers, names, server, mut client } = two_replicas(&[]);
    servers[0].kill();
    names.says("a.test", Says::Hosts(vec![here(2)]));
    server.wait_for_log("stays away: b.test");
    assert_eq!(client.ask("append k 0 0 1\r\ny\r\n"), "STORED\r\n");
    assert_eq!(client.ask("get k\r\n"), "VALUE k 0 2\r\nxy\r\nEND\r\n");
    assert_eq!(client.stat("", "servers_live"), 1);
}

#[test]
fn a_lost_server_that_is_back_elsewhere_forgets_though_just_then_nobody_knows_its_name() {
    let [mut old, other] = Memcached::several();
    let new = old.beside(here(2));
    Client::to(new.addr).ask("set k 0 0 3\r\nold\r\n");
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(1)]));
    let name = format!("a.test:{}", old.addr.port());
    let debug = ["--log-level", "debug", "--server-timeout", "200ms"];
    let server = router(&names, &[&name, &other.name()], &debug);
    let mut client = Client::to(server.addr());
    wait_until("both take part", || client.stat("", "servers_live") == 2);
    client.ask("set k 0 0 3\r\nnew\r\n");
    new.signal("STOP");
    names.says("a.test", Says::Hosts(vec![here(2)]));
    old.kill();
    // It takes connections there, and says nothing.
    server.wait_for_log("still away: Resource temporarily unavailable");
    names.says("a.test", Says::Failure);
    names.wait_for_questions();
    new.signal("CONT");
    wait_until("it is back", || client.stat("", "servers_live") == 2);
    for _ in 0..4 {
        assert_eq!(client.ask("get k\r\n"), "VALUE k 0 3\r\nnew\r\nEND\r\n");
    }
}

#[test]
fn a_group_of_one_server_is_a_pool_of_replicas_too() {
    let [memcached] = Memcached::several();
    let names = NameServer::start();
    names.says("a.test", Says::Hosts(vec![here(1)]));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let file = format!(
        "[cache.pools.a]\nservers = \"dns:a.test:{}\"\nwrites = \"all\"\nanswer = 2\n",
        memcached.addr.port()
    );
    std::fs::write(&path, file).expect("a file");
    let server = router(&names, &[], &["--config", path.to_str().expect("a path")]);
    let refused = Client::to(server.addr()).ask("set k 0 0 1\r\nx\r\n");
    assert!(refused.starts_with("SERVER_ERROR 1 of the 2 servers"), "{refused}");
}
