//! Running it: wrong use, what it says of itself, a graceful stop, unix sockets, fixed answers.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use crate::client::{Client, router, start};
use crate::memcached::Memcached;
use crate::support::Server;
use crate::support::patience::{PATIENCE, wait_for, wait_until};

fn posthaste(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste")).args(arguments).output().expect("it can be run")
}

#[test]
fn wrong_use_is_told_in_one_line_that_says_what_to_do() {
    for (arguments, words) in [
        (&["cache"][..], "--server HOST:PORT"),
        (&["cache", "--mock", "--server", "127.0.0.1:1"], "leave out --server"),
        (&["cache", "--mock", "9999999999999999"], "at most 1 GiB"),
        (
            &["cache", "--server", "127.0.0.1:1", "--writes", "owner", "--reads", "nearest"],
            "only its owner has it",
        ),
        (&["cache", "--server", "127.0.0.1:1", "--hash", "md5"], "ketama, jump, rendezvous, modulo-crc32"),
        (&["cache", "--server", "127.0.0.1:1", "--workers", "0"], "pipelined, or a number of workers"),
        (&["cache", "--server", "127.0.0.1:1", "--multiget", "half"], "whole, split, auto"),
        (
            &["cache", "--server", "127.0.0.1,tls:127.0.0.1:11211"],
            "--server tls:127.0.0.1:11211: it is named twice",
        ),
    ] {
        let output = posthaste(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.lines().count() == 1 && error.contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn a_server_with_two_names_is_told_with_both() {
    // Nor could it listen.
    let taken = TcpListener::bind("127.0.0.1:0").and_then(|listener| Ok((listener.local_addr()?, listener)));
    let listen = taken.as_ref().expect("a free port").0.to_string();
    let output =
        posthaste(&["cache", "--listen", &listen, "--http", "off", "--server", "127.0.0.1:1,127.1:1"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let words = "pool default: 127.0.0.1:1 and 127.1:1 are one server, at 127.0.0.1:1: name it once";
    assert!(error.lines().count() == 1 && error.contains(words), "{error}");
}

#[test]
fn answers_that_are_fixed_are_asked_for_in_a_file_as_on_the_command_line() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    for (mock, bytes) in [("true", 1024), ("\"on\"", 1024), ("7", 7)] {
        std::fs::write(&path, format!("[cache]\nmock = {mock}\n")).expect("a file");
        let server = Server::start_cache(&["--config", path.to_str().expect("a path")]);
        let answer = Client::to(server.addr()).ask("get k\r\n");
        assert!(answer.starts_with(&format!("VALUE k 0 {bytes}\r\n")), "{mock}: {answer}");
    }
    std::fs::write(&path, "[cache]\nmock = false\n").expect("a file");
    let told = posthaste(&["cache", "--config", path.to_str().expect("a path")]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("name the memcached servers"));
}

#[test]
fn those_who_are_connected_are_told_and_closed_by_admin() {
    let server = Server::start_cache(&["--mock", "5", "--threads", "2"]);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::to(server.addr())).collect();
    clients.iter_mut().for_each(|client| drop(client.ask("get k\r\n")));
    let http = server.http().to_string();
    let admin = |arguments: &[&str]| posthaste(&[&["admin", "clients", "--http", &http], arguments].concat());
    let ids = || {
        let said = admin(&["--json"]);
        let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
        let rows = said.as_array().expect("an array").iter();
        rows.map(|row| (row["id"].as_u64().expect("an id"), row["peer"].to_string())).collect::<Vec<_>>()
    };
    let peer = clients[1].0.local_addr().expect("an address").to_string();
    let all = ids();
    assert!(all.len() == 3 && all.is_sorted(), "{all:?}");
    let second = all.iter().find(|(_, its)| its.contains(&peer)).expect("it is there").0.to_string();
    let table = String::from_utf8(admin(&[]).stdout).expect("text");
    assert!(table.starts_with("id") && table.contains(&peer) && table.lines().count() == 4, "{table}");
    let closed = admin(&["--kill", &second]);
    assert_eq!(String::from_utf8_lossy(&closed.stdout), "1 closed\n");
    assert_eq!(clients[1].0.read(&mut [0]).expect("an end"), 0);
    let again = admin(&["--kill", &second]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("no client has the id"));
    assert_eq!((again.status.code(), ids().len()), (Some(1), 2));
    let both = admin(&["--connect", "127.0.0.1:1"]);
    assert_eq!(both.status.code(), Some(2), "{}", String::from_utf8_lossy(&both.stderr));
}

/// A file with everything that pools can have to do with each other.
const WHOLE: &str = r#"
[cache.pools.users]
servers = ["127.0.0.1:1", "127.0.0.1:2"]
writes = "owner"
hash-tag = "{}"
failover = "spare"
failover-limit = 100
gutter = "last"
gutter-expiry = "30s"
[cache.pools.small]
servers = ["127.0.0.1:1"]
below = "big"
[cache.pools.new]
servers = ["127.0.0.1:3"]
warm-from = "big"
[cache.pools.big]
servers = ["127.0.0.1:4"]
[cache.pools.spare]
servers = ["127.0.0.1:5"]
[cache.pools.last]
servers = ["127.0.0.1:6"]
[cache.pools.trial]
servers = ["127.0.0.1:7"]
[[cache.routes]]
pool = "users"
shadow = "trial"
shadow-share = 0.25
"#;

#[test]
fn a_file_can_be_checked_without_starting_anything() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let check = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        posthaste(&["cache", "--check", path.to_str().expect("a path")])
    };
    let good = check(WHOLE);
    let said = String::from_utf8_lossy(&good.stdout);
    for words in [
        "placed by what stands between { and }, where",
        "pool spare stands in for servers that are away\n",
        "pool last stands in for servers that are away, where what is stored lives at most 30 s",
        "others stand in for at most 100 requests a second",
        "pool big is below it",
        "it takes the place of pool big",
        "repeated in pool trial, for 0.25 of the keys",
        "no route leads to pool new, and no pool that one leads to names it\n",
    ] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
    assert!(!said.contains("other keys") && !said.contains("no route leads to pool trial"), "{said}");
    let counted_on = check(&format!("[cache]\neject = \"off\"\n{WHOLE}"));
    let words = "pool spare stands in for servers that are taken out (down), not for those that are lost\n";
    assert!(String::from_utf8_lossy(&counted_on.stdout).contains(words));
    let common = check(&WHOLE.replace("127.0.0.1:7", "127.0.0.1:2"));
    let words = "  server 127.0.0.1:2 is in both pools: there incr and append may be done twice\n";
    assert!(!said.contains("both pools") && String::from_utf8_lossy(&common.stdout).contains(words));
    let good =
        check("[cache]\nserver = [\"127.0.0.1:1\", \"unix:/x\"]\nwrites = \"owner\"\nhash = \"jump\"\n");
    let said = String::from_utf8_lossy(&good.stdout);
    assert!(
        good.status.success() && said.contains("on its owner by jump") && said.contains("unix:/x"),
        "{said}"
    );
    let (pools, _) = WHOLE.split_once("[[cache.routes]]").expect("routes");
    let routes = "[[cache.routes]]\nprefix = \"u:\"\npool = \"users\"\n\
                  [[cache.routes]]\ncommands = [\"writes\"]\npool = \"small\"\n";
    let some = check(&format!("{pools}{routes}"));
    let said = String::from_utf8_lossy(&some.stdout);
    let words = "other keys, get gets gat gats mg me: no route takes them, and the answer is an error\n\
                 no route leads to pool new, and no pool that one leads to names it\n\
                 no route leads to pool trial, and no pool that one leads to names it\n";
    assert!(said.contains(words), "{said}");
    let unknown = check("[cache.pools.a]\nservers = [\n\"127.0.0.1:1\",\n\"nosuch.invalid:1\",\n]\n");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("cache.toml:4: server nosuch.invalid:1: "));
    let wrong = check("[cache]\nserver = [\"127.0.0.1:1\"]\nshards = 3\n");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("cache.toml:3: unknown option shards"));
}

#[test]
fn a_check_names_every_server_that_is_not_found_and_reads_certificates() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let check = |text: &str| {
        std::fs::write(&path, text).expect("a file");
        posthaste(&["cache", "--check", path.to_str().expect("a path")])
    };
    let two =
        "[cache.pools.a]\nservers = [\n\"first.invalid:1\",\n\"127.0.0.1:1\",\n\"second.invalid:2\",\n]\n";
    for (file, line) in
        [(two, "cache.toml:3: "), ("[cache]\nserver = [\"first.invalid:1\", \"second.invalid:2\"]\n", "")]
    {
        let unknown = check(file);
        let said = String::from_utf8_lossy(&unknown.stderr);
        assert_eq!(unknown.status.code(), Some(2), "{said}");
        for words in [
            &*format!("{line}server first.invalid:1: "),
            "; server second.invalid:2: ",
            "starts, and counts those as away",
        ] {
            assert!(said.contains(words) && said.lines().count() == 1, "{words:?} in {said}");
        }
    }
    let encrypted = check(
        "[cache.pools.a]\nservers = [\"tls:127.0.0.1:1\", \"127.0.0.1:2\"]\n[[cache.routes]]\nprefix = \"u:\"\nstrip = true\npool = \"a\"\n",
    );
    let said = String::from_utf8_lossy(&encrypted.stdout);
    assert!(said.contains("  server 127.0.0.1:1, over TLS\n  server 127.0.0.1:2\n"), "{said}");
    assert!(said.contains("  the key u: alone is refused"), "{said}");
    let unread =
        check("[cache]\nserver = [\"127.0.0.1:1\"]\ntls-cert = \"/no/cert\"\ntls-key = \"/no/key\"\n");
    let said = String::from_utf8_lossy(&unread.stderr);
    assert!(unread.status.code() == Some(2) && said.contains("cannot use /no/"), "{said}");
}

#[test]
fn a_server_that_stands_in_several_pools_is_one_of_those_that_are_served() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let check = |servers: u16| {
        let seats: Vec<String> = (1..=servers).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let pool = |name: &str, more: &str| {
            format!("[cache.pools.{name}]\nservers = [{}]\nwrites = \"owner\"\n{more}", seats.join(", "))
        };
        let pools = [
            pool("default", "failover = [\"again\", \"once-more\"]\n"),
            pool("again", "hash = \"rendezvous\"\n"),
            pool("once-more", "hash = \"jump\"\n"),
        ];
        std::fs::write(&path, pools.concat()).expect("a file");
        posthaste(&["cache", "--check", path.to_str().expect("a path")])
    };
    for (servers, is_good) in [(334, true), (999, true), (1000, false)] {
        let checked = check(servers);
        let said = String::from_utf8_lossy(&checked.stderr);
        assert_eq!(checked.status.success(), is_good, "{servers}: {said}");
        assert!(is_good || said.contains("at most 999 are served"), "{said}");
    }
}

#[test]
fn it_says_what_it_is_and_what_its_servers_did() {
    let servers = Memcached::several::<2>();
    let names = [servers[0].name(), servers[1].name()];
    let server =
        router(&[&names[0], &names[1]], &["--threads", "1", "--window", "10ms", "--max-clients", "50"]);
    let mut client = Client::to(server.addr());
    client.ask("set a 0 0 1\r\nx\r\nget a\r\nget b\r\nget a b c\r\n");
    client.ask("add a 0 0 1\r\nx\r\nms m 1\r\nx\r\nmg m\r\nmg n\r\ndelete m\r\nmd m\r\nflush_all\r\n");
    assert_eq!(client.stat("", "servers_live"), 2);
    for (name, counted) in [
        ("cmd_get", 7),
        ("get_hits", 3),
        ("get_misses", 4),
        ("cmd_set", 3),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("cmd_flush", 1),
    ] {
        assert_eq!(client.stat("", name), counted, "{name}");
    }
    for name in &names {
        assert!(client.stat(" servers", &format!("{name}:requests")) >= 2);
    }
    let routes = client.ask("stats routes\r\n");
    assert!(routes.contains("STAT multiget auto\r\n") && routes.contains("STAT multiget_3 "), "{routes}");
    assert!(client.ask("version\r\n").starts_with("VERSION "));
    assert!(client.ask("stats proxy\r\n").contains("STAT cmd_get 7\r\n"));
    let settings = client.ask("stats settings\r\n");
    for setting in ["maxconns 50", "num_threads 1", "item_size_max 1048576", "flush_enabled yes"] {
        assert!(settings.contains(&format!("STAT {setting}\r\n")), "{setting}: {settings}");
    }
    assert_eq!(client.ask("stats slabs\r\nstats items\r\n"), "END\r\nEND\r\n");
    let refused = "CLIENT_ERROR counters are not reset: compare two readings\r\n";
    assert_eq!(client.ask("stats reset\r\n"), refused);
    assert_eq!(client.ask("stats conns\r\n"), "ERROR\r\n");
    assert_eq!(server.readiness(), (200, "ready".into()));
    for line in [
        format!("posthaste_server_live{{server=\"{}\"}} 1", names[0]),
        "posthaste_get_misses_total 3".into(),
        "posthaste_requests_total{kind=\"set\",ending=\"ok\"} ".into(),
    ] {
        // They are those of the windows that are over.
        wait_until(&line, || server.page("/metrics").1.lines().any(|figure| figure.starts_with(&line)));
    }
}

#[test]
fn a_flush_that_is_not_allowed_reaches_nobody() {
    for mode in [&[][..], &["--workers", "2"]] {
        let memcached = Memcached::start(&[]);
        let server = router(&[&memcached.name()], &[mode, &["--flush-all", "off"]].concat());
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        for (request, answer) in [
            ("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n"),
            ("flush_all 0\r\n", "CLIENT_ERROR flush_all not allowed\r\n"),
            ("flush_all noreply\r\n", ""),
            ("flush_all 0 noreply\r\n", ""),
        ] {
            let all = format!("{answer}VALUE k 0 1\r\nx\r\nEND\r\n");
            assert_eq!(client.ask(&format!("{request}get k\r\n")), all, "{mode:?}: {request}");
        }
        assert_eq!(Client::to(memcached.addr).stat("", "cmd_flush"), 0);
        assert_eq!(client.stat("", "cmd_flush"), 0);
    }
}

#[test]
fn a_server_is_lost_once_though_every_thread_loses_its_connection() {
    let servers = Memcached::several::<1>();
    let name = servers[0].name();
    let server = router(&[&name], &["--threads", "4", "--server-timeout", "5s"]);
    let mut clients: Vec<Client> = (0..16).map(|_| Client::to(server.addr())).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask("get k\r\n"), "END\r\n"));
    servers[0].signal("STOP");
    clients.iter_mut().for_each(|client| client.0.write_all(b"get k\r\nmn\r\n").expect("the router listens"));
    clients.iter_mut().for_each(|client| drop(client.read_until(b"MN\r\n")));
    assert_eq!(clients[0].stat(" servers", &format!("{name}:losses")), 1, "{}", server.log());
}

#[test]
fn a_server_whose_name_nobody_knows_is_one_that_is_away() {
    let servers = Memcached::several::<1>();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    let text = format!("[cache.pools.a]\nservers = [\"nosuch.invalid:1\", \"{}\"]\n", servers[0].name());
    std::fs::write(&path, text).expect("a file");
    let server = start(&["--config", path.to_str().expect("a path")]);
    server.wait_for_log("not there: server nosuch.invalid:1: ");
    let mut client = Client::to(server.addr());
    assert_eq!(client.ask("set k 0 0 1\r\nx\r\nget k\r\n"), "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    assert_eq!((client.stat("", "servers"), client.stat("", "servers_live")), (2, 1));
    let alone =
        posthaste(&["cache", "--listen", "127.0.0.1:0", "--http", "off", "--server", "nosuch.invalid:1"]);
    let error = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.code() == Some(1) && error.contains("server nosuch.invalid:1: "), "{error}");
}

#[test]
fn the_log_counts_a_server_once_that_is_in_several_pools() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("cache.toml");
    std::fs::write(&path, WHOLE).expect("a file");
    let server = Server::start_cache(&["--config", path.to_str().expect("a path")]);
    server.wait_for_log("servers=7");
}

/// Waits until the tier says that it is ready, or that it is not.
#[track_caller]
fn wait_for_readiness(server: &Server, status: u16) {
    wait_for(format!("/readyz answers {status}"), || {
        if server.readiness().0 == status { Ok(()) } else { Err(server.log()) }
    });
}

#[test]
fn of_each_server_it_is_told_once_whether_it_is_there_and_again_when_that_changes() {
    for eject in ["on", "off"] {
        let mut servers = Memcached::several::<2>();
        let names = [servers[0].name(), servers[1].name()];
        servers.iter_mut().for_each(Memcached::kill);
        // Whoever is slow is not lost here.
        let server = router(&[&names[0], &names[1]], &["--eject", eject, "--server-timeout", "60s"]);
        assert_eq!(server.readiness().0, 503, "it is known before anybody has asked for a key");
        servers[0].restart();
        wait_for_readiness(&server, 200);
        server.wait_for_log("server takes part again");
        servers[0].kill();
        wait_until("the loss is noticed", || {
            Client::to(server.addr()).ask("get a\r\n");
            server.readiness().0 != 200
        });
        server.wait_for_log("lost: ");
        server.wait_for_log(&format!("server={}", names[1]));
        let log = server.log();
        for (name, said) in names
            .iter()
            .zip([["not there: ", "server takes part again", "lost: "].as_slice(), &["not there: "]])
        {
            let lines: Vec<&str> =
                log.lines().filter(|line| line.contains(&format!("server={name}"))).collect();
            assert_eq!(lines.len(), said.len(), "{eject}: {log}");
            assert!(lines.iter().zip(said).all(|(line, words)| line.contains(words)), "{eject}: {log}");
        }
    }
}

#[test]
fn a_server_that_dies_is_missed_though_nobody_asks_it_for_anything() {
    for (mode, asks) in
        [(&[][..], true), (&[], false), (&["--workers", "2"], true), (&["--eject", "off"], true)]
    {
        let mut servers = Memcached::several::<2>();
        let names = [servers[0].name(), servers[1].name()];
        let server = router(&[&names[0], &names[1]], mode);
        assert_eq!(server.readiness().0, 200);
        if asks {
            Client::to(server.addr()).ask("set a 0 0 1\r\nx\r\nget a b c d\r\n");
        }
        let live = |count: u32| {
            let page = server.page("/v1/status").1;
            page.contains(&format!("\"servers_live\":{count},"))
        };
        servers[0].kill();
        wait_until("it is away", || live(1));
        assert_eq!(server.readiness().0, 200);
        servers[1].kill();
        wait_for_readiness(&server, 503);
        servers.iter_mut().for_each(Memcached::restart);
        wait_until("they are back", || live(2));
        assert_eq!(server.readiness().0, 200);
    }
}

#[test]
fn a_server_that_hangs_up_on_everybody_is_lost() {
    let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let name = door.local_addr().expect("an address").to_string();
    thread::spawn(move || door.incoming().for_each(drop));
    for mode in [&[][..], &["--workers", "1"], &["--eject", "off"]] {
        let router = start(&[&["--server", &*name][..], mode].concat());
        let mut client = Client::to(router.addr());
        for request in ["get k\r\n", "set k 0 0 1\r\nx\r\n"] {
            let answer = client.ask(request);
            assert_eq!(answer, format!("SERVER_ERROR server {name} does not answer\r\n"), "{mode:?}");
        }
    }
}

#[test]
fn a_server_that_takes_no_more_connections_is_lost_and_nobody_is_answered_with_what_it_says_of_that() {
    let memcached = Memcached::start(&["-c", "64"]);
    let mut others = Vec::new();
    loop {
        let mut other = Client::to(memcached.addr);
        other.0.write_all(b"version\r\n").expect("somebody listens");
        if other.read_until(b"\r\n").starts_with(b"ERROR ") {
            break;
        }
        others.push(other);
    }
    let name = memcached.name();
    let routers = [&[][..], &["--workers", "1"], &["--eject", "off"]]
        .map(|mode| start(&[&["--server", &*name, "--threads", "1"][..], mode].concat()));
    for router in &routers {
        let mut client = Client::to(router.addr());
        for request in ["get k\r\n", "set k 0 0 1\r\nx\r\n"] {
            let answer = client.ask(request);
            assert_eq!(answer, format!("SERVER_ERROR server {name} does not answer\r\n"));
        }
    }
    drop(others);
    for router in &routers {
        let mut client = Client::to(router.addr());
        wait_until("it is back", || client.ask("set k 0 0 1\r\nx\r\n") == "STORED\r\n");
    }
}

#[test]
fn the_log_tells_of_each_attempt_where_it_is_asked_to() {
    let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let name = door.local_addr().expect("an address").to_string();
    drop(door);
    let debug = start(&["--server", &name, "--log-level", "debug"]);
    debug.wait_for_log("still away");
    let info = start(&["--server", &name]);
    info.wait_for_log("not there");
    debug.wait_for_logs("still away", 3);
    assert!(!info.log().contains("still away"));
    let told = posthaste(&["admin", "log-level", "debug", "--http", &info.http().to_string()]);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    info.wait_for_log("still away");
    assert_eq!(info.page("/v1/log-level"), (200, r#"{"log_level":"debug"}"#.to_owned()));
}

#[test]
fn servers_that_are_there_are_told_of_too() {
    let servers = Memcached::several::<2>();
    let names = [servers[0].name(), servers[1].name()];
    let server = router(&[&names[0], &names[1]], &[]);
    assert_eq!(server.readiness().0, 200);
    for name in &names {
        let tells = |line: &str| {
            line.contains(&format!("server={name}")) && line.contains("server takes connections")
        };
        wait_for(format!("{name} is told of"), || {
            let log = server.log();
            if log.lines().any(tells) { Ok(()) } else { Err(log) }
        });
    }
}

#[test]
fn a_stop_answers_what_was_asked() {
    let memcached = Memcached::start(&[]);
    for mode in ["pipelined", "2"] {
        let server = router(&[&memcached.name()], &["--workers", mode, "--server-timeout", "10s"]);
        let (mut client, mut watcher) = (Client::to(server.addr()), Client::to(server.addr()));
        client.ask("set a 0 0 1\r\nx\r\n");
        memcached.signal("STOP");
        let mut requests = || watcher.stat(" servers", &format!("{}:requests", memcached.name()));
        let before = requests();
        std::io::Write::write_all(&mut client.0, b"get a\r\n").expect("the router reads");
        wait_until("memcached is asked", || requests() > before);
        server.signal("TERM");
        wait_until("nobody is let in", || TcpStream::connect(server.addr()).is_err());
        memcached.signal("CONT");
        assert_eq!(client.read_until(b"END\r\n"), b"VALUE a 0 1\r\nx\r\n");
        assert!(server.end().success());
    }
}

#[test]
fn two_routers_may_listen_on_one_port_if_both_say_so() {
    let servers = Memcached::several::<2>();
    let names = [servers[0].name(), servers[1].name()];
    let leaver = router(&[&names[0], &names[1]], &["--reuse-port"]);
    let (port, listen) = (leaver.addr(), leaver.addr().to_string());
    let mut early = Client::to(port);
    assert_eq!(early.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
    let alone = posthaste(&["cache", "--listen", &listen, "--http", "off", "--server", &names[0]]);
    let error = String::from_utf8_lossy(&alone.stderr);
    assert!(alone.status.code() == Some(1) && error.contains(&listen), "{error}");
    let follower = router(&[&names[0], &names[1]], &["--listen", &listen, "--reuse-port"]);
    early.0.write_all(b"get k\r\n").expect("the router reads");
    assert!(leaver.stop().success());
    assert_eq!(early.read_until(b"END\r\n"), b"VALUE k 0 1\r\nx\r\n", "what was asked is answered");
    for i in 0..20 {
        let mut client = Client::to(port);
        assert_eq!(client.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
        assert_eq!(client.ask(&format!("set k{i} 0 0 1\r\nx\r\n")), "STORED\r\n");
    }
    assert!(follower.stop().success());
}

#[test]
fn clients_and_servers_may_be_on_unix_sockets() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // A memcached of another user must be able to make its socket here.
    let public = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), public).expect("permissions");
    let (behind, before) = (dir.path().join("memcached"), dir.path().join("router"));
    let mut command = Command::new("memcached");
    command.args(["-s", behind.to_str().expect("a path"), "-a", "777"]);
    if rustix::process::getuid().is_root() {
        command.args(["-u", "nobody"]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _memcached = Killed(command.spawn().expect("memcached is installed"));
    // It is there a moment before anybody listens.
    wait_until("memcached listens", || UnixStream::connect(&behind).is_ok());
    for mode in ["pipelined", "2"] {
        let name = format!("unix:{}", behind.display());
        let listen = format!("unix:{}", before.display());
        let server = router(&[&name], &["--workers", mode, "--listen", &listen]);
        let mut stream = UnixStream::connect(&before).expect("the router listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        std::io::Write::write_all(&mut stream, b"set a 0 0 1\r\nx\r\nget a\r\nquit\r\n")
            .expect("the router reads");
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer, then the end");
        assert_eq!(answer, "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
        assert!(server.stop().success());
    }
}

/// A child that is gone when the test is.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
    }
}

#[test]
fn without_servers_there_are_fixed_answers() {
    for mode in ["pipelined", "2"] {
        let server = Server::start_cache(&["--mock", "5", "--workers", mode]);
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(client.ask("get a b\r\n"), "VALUE a 0 5\r\nxxxxx\r\nVALUE b 0 5\r\nxxxxx\r\nEND\r\n");
        assert_eq!(client.ask("mg a v q\r\n"), "VA 5\r\nxxxxx\r\n");
        assert_eq!(client.ask("delete a noreply\r\nmd a q\r\nincr a 1\r\n"), "1\r\n");
    }
}
