//! What the report's middleware does, ours does: with workers, and pipelined.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use crate::client::{Client, router};
use crate::memcached::Memcached;
use crate::support::patience::PATIENCE;

const MODES: [&[&str]; 2] = [&["--workers", "4"], &["--workers", "pipelined"]];

fn names<const N: usize>(servers: &[Memcached; N]) -> [String; N] {
    std::array::from_fn(|i| servers[i].name())
}

#[test]
fn a_set_reaches_every_server_and_is_stored_when_all_have_stored_it() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let names = names(&servers);
        let server = router(&names.each_ref().map(String::as_str), mode);
        assert_eq!(Client::to(server.addr()).ask("set a 7 0 5\r\nhello\r\n"), "STORED\r\n");
        for memcached in &servers {
            assert_eq!(Client::to(memcached.addr).ask("get a\r\n"), "VALUE a 7 5\r\nhello\r\nEND\r\n");
        }
    }
}

#[test]
fn a_set_that_one_server_refuses_is_answered_with_its_error_and_leaves_no_old_value_behind() {
    for mode in MODES {
        let (large, small) = (Memcached::start(&[]), Memcached::start(&["-I", "512k"]));
        let server = router(&[&large.name(), &small.name()], mode);
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set a 0 0 3\r\nold\r\n"), "STORED\r\n");
        let value = "x".repeat(600_000);
        let answer = client.ask(&format!("set a 0 0 600000\r\n{value}\r\n"));
        assert_eq!(answer, "SERVER_ERROR object too large for cache\r\n");
        for memcached in [&large, &small] {
            assert_eq!(Client::to(memcached.addr).ask("get a\r\n"), "END\r\n");
        }
    }
}

/// A server that answers each `set` with this, and each deletion with `DELETED`; what it is sent is told there.
fn server_that_says(answer: &'static str, told: mpsc::Sender<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let told = told.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                    let reply = match line.split_ascii_whitespace().next() {
                        Some("version") => "VERSION 1.6.18\r\n",
                        Some("set") => answer,
                        Some("delete") => "DELETED\r\n",
                        _ => "END\r\n",
                    };
                    if line.starts_with("set") {
                        reader.read_line(&mut String::new()).expect("data");
                    }
                    // Nobody may listen any more.
                    let _ = told.send(std::mem::take(&mut line));
                    if reader.get_mut().write_all(reply.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

#[test]
fn a_set_that_one_server_did_not_store_is_answered_with_its_line_and_deleted_everywhere() {
    for mode in MODES {
        for refusal in ["NOT_STORED\r\n", "EXISTS\r\n", "NOT_FOUND\r\n", "SERVER_ERROR busy\r\n"] {
            for place in 0..3 {
                let mut answers = ["STORED\r\n"; 3];
                answers[place] = refusal;
                let (addrs, told): (Vec<_>, Vec<_>) = answers
                    .map(|answer| {
                        let (sender, told) = mpsc::channel();
                        (server_that_says(answer, sender).to_string(), told)
                    })
                    .into_iter()
                    .unzip();
                let server = router(&addrs.iter().map(String::as_str).collect::<Vec<_>>(), mode);
                assert_eq!(Client::to(server.addr()).ask("set a 0 0 1\r\nx\r\n"), refusal, "{place}");
                for told in &told {
                    let is_deleted = || told.recv_timeout(PATIENCE).map(|line| line == "delete a\r\n");
                    while !is_deleted().expect("a deletion") {}
                }
            }
        }
    }
}

#[test]
fn gets_go_to_the_servers_in_turn() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let names = names(&servers);
        let server = router(&names.each_ref().map(String::as_str), mode);
        let mut client = Client::to(server.addr());
        client.ask("set a 0 0 1\r\nx\r\n");
        for _ in 0..60 {
            assert_eq!(client.ask("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
        }
        for memcached in &servers {
            assert_eq!(Client::to(memcached.addr).stat("", "cmd_get"), 20);
        }
    }
}

#[test]
fn five_keys_on_three_servers_are_split_2_2_1_and_come_back_in_the_order_asked() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let names = names(&servers);
        let server =
            router(&names.each_ref().map(String::as_str), &[mode, &["--multiget", "split"]].concat());
        let mut client = Client::to(server.addr());
        for key in ["a", "b", "d", "e"] {
            client.ask(&format!("set {key} 0 0 1\r\n{key}\r\n"));
        }
        let value = |key: &str| format!("VALUE {key} 0 1\r\n{key}\r\n");
        // c is missed, e is asked twice.
        let expected = ["e", "d", "b", "e"].map(value).concat() + "END\r\n";
        assert_eq!(client.ask("get e d c b e\r\n"), expected);
        let asked: Vec<u64> =
            servers.iter().map(|memcached| Client::to(memcached.addr).stat("", "cmd_get")).collect();
        assert_eq!(asked, [2, 2, 1]);
        assert_eq!(client.ask("get a b\r\n"), value("a") + &value("b") + "END\r\n");
        let asked: Vec<u64> =
            servers.iter().map(|memcached| Client::to(memcached.addr).stat("", "cmd_get")).collect();
        assert_eq!(asked, [3, 3, 1], "at most as many parts as keys");
    }
}

#[test]
fn whole_multi_gets_go_to_one_server() {
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let names = names(&servers);
        let server =
            router(&names.each_ref().map(String::as_str), &[mode, &["--multiget", "whole"]].concat());
        assert_eq!(Client::to(server.addr()).ask("get a b c d e f\r\n"), "END\r\n");
        let mut asked: Vec<u64> =
            servers.iter().map(|memcached| Client::to(memcached.addr).stat("", "cmd_get")).collect();
        asked.sort_unstable();
        assert_eq!(asked, [0, 6]);
    }
}

/// Servers of which none answers before all have been asked.
fn servers_that_wait_for_each_other(answer: &'static [u8]) -> [SocketAddr; 3] {
    let all = Arc::new(Barrier::new(3));
    [(); 3].map(|()| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (addr, all) = (listener.local_addr().expect("an address"), Arc::clone(&all));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                    // Who looks for new servers asks each by itself.
                    let of_itself = match line.as_str() {
                        "version\r\n" => &b"VERSION 1.6.18\r\n"[..],
                        "stats\r\n" => b"END\r\n",
                        _ => b"",
                    };
                    if !of_itself.is_empty() {
                        reader.get_mut().write_all(of_itself).expect("the prober reads");
                        line.clear();
                        continue;
                    }
                    if line.starts_with("set") {
                        reader.read_line(&mut line).expect("data");
                    }
                    all.wait();
                    reader.get_mut().write_all(answer).expect("the router reads");
                    line.clear();
                }
            }
        });
        addr
    })
}

#[test]
fn all_servers_are_asked_before_the_first_answer_is_read() {
    for mode in MODES {
        for (request, answer, expected) in [
            ("get a b c\r\n", &b"END\r\n"[..], "END\r\n"),
            ("set a 0 0 1\r\nx\r\n", &b"STORED\r\n"[..], "STORED\r\n"),
        ] {
            let servers = servers_that_wait_for_each_other(answer).map(|addr| addr.to_string());
            let server =
                router(&servers.each_ref().map(String::as_str), &[mode, &["--multiget", "split"]].concat());
            assert_eq!(Client::to(server.addr()).ask(request), expected);
        }
    }
}

#[test]
fn requests_pass_six_stations_and_servers_get_even_shares_by_the_windows() {
    let servers = Memcached::several::<3>();
    let names = names(&servers);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let record = dir.path().join("run");
    let arguments = ["--workers", "2", "--record", record.to_str().expect("a path")];
    let server = router(&names.each_ref().map(String::as_str), &arguments);
    let mut client = Client::to(server.addr());
    for _ in 0..30 {
        client.ask("set a 0 0 1\r\nx\r\n");
        client.ask("get a\r\n");
        client.ask("get a b\r\n");
    }
    assert!(server.stop().success());
    let windows = std::fs::read_to_string(record.join("windows.csv")).expect("windows");
    let head: Vec<&str> = windows.lines().next().expect("a head").split(',').collect();
    let column = |row: &str, name: &str| -> f64 {
        let place =
            head.iter().position(|column| *column == name).unwrap_or_else(|| panic!("{name} in {head:?}"));
        row.split(',').nth(place).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    };
    let rows = |kind: &str| {
        windows.lines().filter(|row| row.split(',').any(|word| word == kind)).collect::<Vec<_>>()
    };
    for kind in ["set", "get", "multiget"] {
        let rows = rows(kind);
        assert!(
            (rows.iter().map(|row| column(row, "requests")).sum::<f64>() - 30.0).abs() < 1e-9,
            "{kind}: {windows}"
        );
        assert!(rows.iter().all(|row| column(row, "waiting_mean_us") > 0.0), "{windows}");
        assert!(rows.iter().all(|row| column(row, "service_mean_us") > 0.0), "{windows}");
    }
    let last = *rows("all").last().expect("a last window");
    for server in ["server_1_requests", "server_2_requests", "server_3_requests"] {
        assert!((column(last, server) - 50.0).abs() <= 30.0, "{last}");
    }
}
