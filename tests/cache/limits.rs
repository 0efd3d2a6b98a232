//! Nobody can make the router hold more than it should, and who tries harms nobody else.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use crate::client::{Client, router};
use crate::memcached::Memcached;
use crate::process::{allow_files, resident, resident_at_most};
use crate::still::wait_until_still;
use crate::support::patience::wait_until;

#[test]
fn clients_that_ask_for_much_and_read_nothing_stay_small_and_others_are_served() {
    let memcached = Memcached::start(&["-m", "256"]);
    let server = router(&[&memcached.name()], &["--threads", "2"]);
    let mut client = Client::to(server.addr());
    let value = "x".repeat(1024);
    let keys: Vec<String> = (0..10_000).map(long_key).collect();
    for thousand in keys.chunks(1000) {
        let set = |key: &String| format!("set {key} 0 0 1024 noreply\r\n{value}\r\n");
        client.ask(&thousand.iter().map(set).collect::<String>());
    }
    let before = resident(server.pid());
    let short = format!("get {}\r\n", keys[1]);
    let request = format!("get {}\r\n", keys.join(" "));
    let mut slow: Vec<TcpStream> = (0..30)
        .map(|_| {
            let mut stream = Client::to(server.addr()).0;
            stream.write_all(request.as_bytes()).expect("the router reads");
            stream
        })
        .collect();
    let keys = format!("{}:keys", memcached.name());
    wait_until_still("keys are asked for", || client.stat(" servers", &keys));
    assert_eq!(client.ask(&short).len(), 250 + "VALUE  0 1024\r\n\r\nEND\r\n".len() + 1024);
    let grown = resident(server.pid()).saturating_sub(before);
    println!("30 clients that do not read took {grown} bytes");
    // Of each its line is kept, 2.5 MB, and as much of its answer as may wait for it.
    assert!(grown < 30 * 5 * 1024 * 1024, "30 clients that do not read took {grown} bytes");
    // And who reads at last gets all of it.
    let mut last = Client(slow.pop().expect("a client"));
    let answer = last.read_until(b"\r\nEND\r\n");
    assert_eq!(answer.windows(6).filter(|six| six == b"VALUE ").count(), 10_000);
}

/// A key as long as keys may be.
fn long_key(number: usize) -> String {
    format!("{number:k>250}")
}

#[test]
fn a_get_may_have_ten_thousand_keys_of_250_bytes_or_as_many_as_an_option_says() {
    let memcached = Memcached::start(&[]);
    for mode in ["pipelined", "2"] {
        let server = router(&[&memcached.name()], &["--workers", mode]);
        let mut client = Client::to(server.addr());
        let keys: Vec<String> = (0..10_000).map(long_key).collect();
        assert_eq!(client.ask(&format!("set {} 0 0 1\r\nx\r\n", keys[9_999])), "STORED\r\n");
        let answer = client.ask(&format!("get {}\r\n", keys.join(" ")));
        assert_eq!(answer, format!("VALUE {} 0 1\r\nx\r\nEND\r\n", keys[9_999]));
        let server = router(&[&memcached.name()], &["--workers", mode, "--max-line", "10000"]);
        let said = Client::to(server.addr()).ask(&format!("get {}\r\n", keys[..39].join(" ")));
        assert_eq!(said, "END\r\n");
        let mut client = Client::to(server.addr());
        let _ = client.0.write_all(format!("get {}\r\n", keys[..100].join(" ")).as_bytes()); // it hangs up in between
        let mut said = String::new();
        let _ = client.0.read_to_string(&mut said);
        assert_eq!(said, "CLIENT_ERROR line is too long\r\n");
    }
}

#[test]
fn an_idle_client_takes_at_most_600_bytes_and_ten_thousand_fit_into_150_mib() {
    const CLIENTS: usize = 10_000;
    allow_files(CLIENTS as u64 + 500);
    let memcached = Memcached::start(&[]);
    let server = router(&[&memcached.name()], &["--threads", "2"]);
    Client::to(server.addr()).ask("set a 0 0 1\r\nx\r\n");
    let mut clients = Vec::with_capacity(CLIENTS);
    let mut grow_to = |count: usize| {
        while clients.len() < count {
            let mut client = Client::to(server.addr());
            assert_eq!(client.ask("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
            clients.push(client);
        }
        resident(server.pid())
    };
    let (thousand, all) = (grow_to(1000), grow_to(CLIENTS));
    let each = all.saturating_sub(thousand) / (CLIENTS as u64 - 1000);
    println!("{each} bytes for each idle client, {all} bytes in all");
    assert!(each <= 600, "{each} bytes for each idle client");
    assert!(all <= 150 * 1024 * 1024, "{all} bytes");
    assert_eq!(clients[CLIENTS - 1].ask("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn the_client_that_holds_most_is_cut_when_all_hold_too_much() {
    let memcached = Memcached::start(&["-m", "256"]);
    let value = "x".repeat(500_000);
    for threads in ["1", "4"] {
        let server = router(
            &[&memcached.name()],
            &["--threads", threads, "--memory-limit", "8000000", "--server-timeout", "10s"],
        );
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask(&format!("set large 0 0 500000\r\n{value}\r\n")), "STORED\r\n");
        let mut greedy = Client::to(server.addr()).0;
        greedy.write_all(&b"get large\r\n".repeat(400)).expect("the router reads");
        wait_until("somebody is cut", || client.stat("", "connections_cut") > 0);
        assert_eq!(client.ask("get small\r\n"), "END\r\n");
        assert_eq!(client.stat("", "connections_cut"), 1);
        let mut rest = Vec::new();
        // It is told by the end of the connection, in whichever way the system tells it.
        let _ = greedy.read_to_end(&mut rest);
        assert!(rest.len() < 400 * 500_000);
    }
}

#[test]
fn a_client_may_hold_what_the_clients_of_other_threads_leave() {
    let memcached = Memcached::start(&["-m", "256", "-I", "32m"]);
    let limits = ["--threads", "8", "--memory-limit", "64000000", "--max-value", "32000000"];
    let server = router(&[&memcached.name()], &limits);
    let mut client = Client::to(server.addr());
    let value = "x".repeat(20_000_000);
    assert_eq!(client.ask(&format!("set k 0 0 20000000\r\n{value}\r\n")), "STORED\r\n");
    assert_eq!(client.stat("", "connections_cut"), 0);
}

#[test]
fn a_client_that_reads_is_answered_however_much_it_asks_for() {
    let memcached = Memcached::start(&["-m", "1024", "-I", "128m"]);
    for (arguments, value_bytes, keys) in [
        (&[][..], 1_000_000, 200),
        (&["--max-value", "134217728"], 80_000_000, 2),
        (&["--max-value", "134217728", "--workers", "2"], 80_000_000, 1),
    ] {
        let server = router(&[&memcached.name()], &[arguments, &["--server-timeout", "60s"]].concat());
        let mut client = Client::to(server.addr());
        let value = "x".repeat(value_bytes);
        assert_eq!(client.ask(&format!("set a 0 0 {value_bytes}\r\n{value}\r\n")), "STORED\r\n");
        let mut reader = Client::to(server.addr());
        reader.0.write_all(format!("get{}\r\n", " a".repeat(keys)).as_bytes()).expect("the router reads");
        // It begins to read when the router has all that it holds for it.
        let asked = format!("{}:keys", memcached.name());
        wait_until_still("keys are asked for", || client.stat(" servers", &asked));
        let each = format!("VALUE a 0 {value_bytes}\r\n\r\n").len() + value_bytes;
        let mut answer = vec![0; keys * each + "END\r\n".len()];
        reader.0.read_exact(&mut answer).expect("all of it");
        assert!(answer.ends_with(b"x\r\nEND\r\n"), "{arguments:?}");
        assert_eq!(client.stat("", "connections_cut"), 0, "{arguments:?}");
    }
}

#[test]
fn with_workers_too_no_request_is_answered_by_more_than_can_be_held() {
    let memcached = Memcached::start(&["-m", "256"]);
    let server = router(&[&memcached.name()], &["--threads", "1", "--workers", "2"]);
    let mut client = Client::to(server.addr());
    let value = "x".repeat(1_000_000);
    assert_eq!(client.ask(&format!("set a 0 0 1000000\r\n{value}\r\n")), "STORED\r\n");
    let mut greedy = Client::to(server.addr()).0;
    greedy.write_all(format!("get{}\r\n", " a".repeat(1000)).as_bytes()).expect("the router reads");
    let mut heard = [0; 65536];
    while greedy.read(&mut heard).is_ok_and(|n| n > 0) {}
    assert_eq!(client.stat("", "connections_cut"), 1);
    let most = resident_at_most(server.pid());
    assert!(most < 400_000_000, "one request took {most} bytes");
    let answer = client.ask(&format!("get{}\r\n", " a".repeat(20)));
    assert_eq!(answer.len(), 20 * ("VALUE a 0 1000000\r\n\r\n".len() + 1_000_000) + "END\r\n".len());
}

#[test]
fn what_was_asked_before_the_client_closed_its_side_is_answered() {
    let memcached = Memcached::start(&[]);
    for (mode, rest) in [("pipelined", ""), ("pipelined", "get half"), ("2", ""), ("2", "get half")] {
        let server = router(&[&memcached.name()], &["--workers", mode]);
        let mut stream = Client::to(server.addr()).0;
        let asked = format!("set a 0 0 1\r\nx\r\nget a\r\nincr a 1\r\nget a b\r\n{rest}");
        stream.write_all(asked.as_bytes()).expect("the router reads");
        stream.shutdown(Shutdown::Write).expect("one side can be closed");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers, then the end");
        let value = "VALUE a 0 1\r\nx\r\nEND\r\n";
        let refused = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        assert_eq!(answer, format!("STORED\r\n{value}{refused}{value}"));
    }
}

#[test]
fn values_that_are_too_large_are_refused_in_memcacheds_words_and_take_the_old_value_with_them() {
    let memcached = Memcached::start(&[]);
    for mode in ["pipelined", "2"] {
        let server = router(&[&memcached.name()], &["--workers", mode, "--max-value", "1000"]);
        let mut client = Client::to(server.addr());
        let value = "x".repeat(2000);
        for command in ["set a 0 0 2000", "ms a 2000"] {
            client.ask("set a 0 0 3\r\nold\r\n");
            let answer = client.ask(&format!("{command}\r\n{value}\r\nget a\r\n"));
            assert_eq!(answer, "SERVER_ERROR object too large for cache\r\nEND\r\n", "{command}");
        }
        client.ask("set a 0 0 3\r\nold\r\n");
        let answer = client.ask(&format!("add a 0 0 2000\r\n{value}\r\nget a\r\n"));
        assert_eq!(answer, "SERVER_ERROR object too large for cache\r\nVALUE a 0 3\r\nold\r\nEND\r\n");
    }
}

#[test]
fn a_client_that_speaks_the_binary_protocol_is_hung_up_on_at_once() {
    let memcached = Memcached::start(&[]);
    for mode in [&[][..], &["--workers", "2"]] {
        let server = router(&[&memcached.name()], mode);
        let mut stream = Client::to(server.addr()).0;
        stream.write_all(&[&[0x80, 0x0b][..], &[0; 22]].concat()).expect("it listens"); // its `version`
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer); // in whichever way the system tells of the end
        assert!(answer.is_empty(), "{answer:?}");
        // It is counted as what else is not understood.
        let counted = "posthaste_requests_total{kind=\"other\",ending=\"error\"} 1";
        wait_until("it is counted", || server.page("/metrics").1.contains(counted));
        // Later on it is a byte like any other.
        let answer = Client::to(server.addr()).ask_bytes(b"get x\r\n\x80\x0b\r\n");
        assert_eq!(String::from_utf8_lossy(&answer), "END\r\nERROR\r\n");
    }
}

#[test]
fn a_line_without_an_end_is_not_collected() {
    let memcached = Memcached::start(&[]);
    let server = router(&[&memcached.name()], &[]);
    for (begin, last_words) in [("delete ", ""), ("get ", "CLIENT_ERROR line is too long\r\n")] {
        let mut stream = Client::to(server.addr()).0;
        let _ = stream.write_all(&[begin.as_bytes(), &b"k ".repeat(2_000_000)].concat()); // it hangs up in between
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(String::from_utf8_lossy(&answer), last_words);
    }
}

#[test]
fn a_line_that_servers_would_hang_up_on_costs_only_the_client_that_sent_it() {
    let memcached = Memcached::several::<3>();
    let names: Vec<String> = memcached.iter().map(Memcached::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for arguments in [&[][..], &["--writes", "owner"], &["--workers", "2", "--eject", "on"]] {
        let server = router(&names, arguments);
        let mut other = Client::to(server.addr());
        assert_eq!(other.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        for (begin, end) in [("set k 0 0 2", "\r\nhi\r\n"), ("md k", "\r\n"), ("", "get k\r\n")] {
            let mut stream = Client::to(server.addr()).0;
            let text = format!("{begin}{:20000}{end}quit\r\n", "");
            let _ = stream.write_all(text.as_bytes()); // it hangs up in between
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer); // in whichever way the system tells of the end
            assert_eq!(String::from_utf8_lossy(&answer), "", "{begin:?}");
        }
        assert_eq!(other.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
        for name in &names {
            assert_eq!(other.stat(" servers", &format!("{name}:losses")), 0, "{arguments:?}");
        }
    }
}

#[test]
fn a_gat_may_have_as_many_keys_as_a_get() {
    let memcached = Memcached::several::<3>();
    let names: Vec<String> = memcached.iter().map(Memcached::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let keys: Vec<String> = (0..600).map(|number| format!("{number:0>70}")).collect();
    for arguments in [
        &["--multiget", "split"][..],
        &["--multiget", "whole"],
        &["--writes", "owner"],
        &["--workers", "2", "--eject", "on"],
    ] {
        let server = router(&names, arguments);
        let mut client = Client::to(server.addr());
        let stored = || keys.iter().step_by(3);
        let sets: String = stored().map(|key| format!("set {key} 0 0 2 noreply\r\nhi\r\n")).collect();
        assert_eq!(client.ask(&sets), "");
        let hits: String = stored().map(|key| format!("VALUE {key} 0 2\r\nhi\r\n")).collect();
        for command in ["get", "bget", "gat 600", "gat 0000600\t8"] {
            let answer = client.ask(&format!("{command} {}\r\n", keys.join(" ")));
            assert_eq!(answer, format!("{hits}END\r\n"), "{command}, {arguments:?}");
        }
        let answer = client.ask(&format!("gats 900 {}\r\n", keys.join(" ")));
        assert_eq!(answer.matches("VALUE ").count(), 200, "{arguments:?}");
        let left = client.ask(&format!("mg {} t\r\n", keys[0]));
        let left: u64 = left[4..].trim().parse().expect("seconds");
        assert!((700..=900).contains(&left), "{left} s, {arguments:?}");
        for name in &names {
            assert_eq!(client.stat(" servers", &format!("{name}:losses")), 0, "{arguments:?}");
        }
    }
}
