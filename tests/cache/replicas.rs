//! Replicas stay alike: under concurrent writes, when one refuses, when one is gone.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::client::{Client, router};
use crate::memcached::Memcached;
use crate::returns::wait_for_answer;
use crate::routes::Routed;
use crate::support::Server;
use crate::support::ends::Ends;
use crate::support::patience::wait_until;

/// After this a server that was stopped is given up, and none that a busy machine keeps from answering.
pub(crate) const GIVEN_UP: &str = "5s";

pub(crate) const MODES: [&[&str]; 2] =
    [&["--threads", "2"], &["--threads", "2", "--workers", "4", "--eject", "on"]];

pub(crate) const DAY_S: u64 = 24 * 3600;

/// An expiry so late that it is written as a date.
pub(crate) fn in_40_days() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    now.as_secs() + 40 * DAY_S
}

pub(crate) fn start<const N: usize>(servers: &[Memcached; N], arguments: &[&str]) -> Server {
    let names: Vec<String> = servers.iter().map(Memcached::name).collect();
    router(&names.iter().map(String::as_str).collect::<Vec<_>>(), arguments)
}

/// Some write of some key.
fn write(rng: &mut Rng) -> String {
    let (key, value) = (format!("k{}", rng.u32(..4)), rng.u32(..1000).to_string());
    let len = value.len();
    match rng.u32(..16) {
        0..=5 => format!("set {key} 0 0 {len}\r\n{value}\r\n"),
        6 => format!("add {key} 0 0 {len}\r\n{value}\r\n"),
        7 => format!("replace {key} 0 0 {len}\r\n{value}\r\n"),
        8 => format!("incr {key} {value}\r\n"),
        9 => format!("decr {key} {value} noreply\r\n"),
        10 => format!("append {key} 0 0 1\r\n7\r\n"),
        11 => format!("delete {key}\r\n"),
        12 => format!("ms {key} {len} q F3\r\n{value}\r\n"),
        13 => format!("ma {key} D{value} N0 J5\r\n"),
        14 => format!("md {key} q\r\n"),
        _ => format!("set {key} 0 0 {len} noreply\r\n{value}\r\n"),
    }
}

#[test]
fn concurrent_writes_of_the_same_keys_leave_all_replicas_equal() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let server = start(&servers, mode);
        for round in 0..20 {
            thread::scope(|scope| {
                for seed in 0..6 {
                    let addr = server.addr();
                    scope.spawn(move || {
                        let (mut client, mut rng) = (Client::to(addr), Rng::with_seed(round * 100 + seed));
                        let writes: String = (0..60).map(|_| write(&mut rng)).collect();
                        client.ask(&writes);
                    });
                }
            });
            let read = |addr| Client::to(addr).ask("get k0 k1 k2 k3\r\n");
            // Where replicas disagreed the key was deleted on some; none may hold another value.
            let held: Vec<String> = servers.iter().map(|memcached| read(memcached.addr)).collect();
            let values = |text: &str| -> Vec<(String, String)> {
                let lines: Vec<&str> = text.lines().collect();
                let pairs = lines.chunks(2).filter(|pair| pair.len() == 2);
                pairs.map(|pair| (pair[0].into(), pair[1].into())).collect()
            };
            let all: Vec<_> = held.iter().flat_map(|text| values(text)).collect();
            for (head, value) in &all {
                let key = head.split(' ').nth(1);
                let same = all.iter().filter(|(other, _)| other.split(' ').nth(1) == key);
                assert!(same.clone().all(|(other, theirs)| other == head && theirs == value), "{held:?}");
            }
        }
    }
}

#[test]
fn concurrent_sets_of_the_same_keys_leave_every_key_on_every_replica_and_equal() {
    const KEYS: u32 = 4;
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let server = start(&servers, mode);
        for round in 0..20 {
            thread::scope(|scope| {
                for number in 0..6 {
                    let addr = server.addr();
                    scope.spawn(move || {
                        let sets = (0..60).map(|place| {
                            let value = format!("{round}-{number}-{place}");
                            format!("set k{} 0 0 {}\r\n{value}\r\n", place % KEYS, value.len())
                        });
                        let answers = Client::to(addr).ask(&sets.collect::<String>());
                        assert_eq!(answers, "STORED\r\n".repeat(60));
                    });
                }
            });
            let held =
                servers.each_ref().map(|memcached| Client::to(memcached.addr).ask("get k0 k1 k2 k3\r\n"));
            assert_eq!(held[0].matches(&format!("\r\n{round}-")).count(), KEYS as usize, "{held:?}");
            assert!(held.iter().all(|other| *other == held[0]), "{held:?}");
        }
    }
}

#[test]
fn cas_is_decided_once_for_all_replicas() {
    let servers = Memcached::several::<3>();
    let server = start(&servers, &[]);
    let mut client = Client::to(server.addr());
    client.ask("set a 0 0 1\r\n1\r\n");
    let token =
        |answer: &str| answer.lines().next().and_then(|line| line.rsplit(' ').next()).map(str::to_owned);
    let first = token(&client.ask("gets a\r\n")).expect("a token");
    assert_eq!(token(&client.ask("gets a\r\n")).as_ref(), Some(&first), "always from the same server");
    assert_eq!(client.ask(&format!("cas a 0 0 1 {first}\r\n2\r\n")), "STORED\r\n");
    assert_eq!(client.ask(&format!("cas a 0 0 1 {first}\r\n3\r\n")), "EXISTS\r\n");
    for memcached in &servers {
        assert_eq!(Client::to(memcached.addr).ask("get a\r\n"), "VALUE a 0 1\r\n2\r\nEND\r\n");
    }
    for _ in 0..3 {
        let answer = client.ask("ms a 1 c\r\n3\r\n");
        let given = answer.trim_end().strip_prefix("HD c").expect("a token");
        let taken = format!("ms a 1 C{given}\r\n4\r\n");
        assert_eq!(client.ask(&taken), "HD\r\n", "a token that a set gave is good");
        assert_eq!(client.ask(&taken), "EX\r\n");
    }
}

#[test]
fn a_read_behind_a_decision_in_one_pipeline_sees_it_on_every_replica() {
    let servers = Memcached::several::<3>();
    let server = start(&servers, &[]);
    let mut client = Client::to(server.addr());
    client.ask("set n 0 0 1\r\n0\r\n");
    let pipeline = "incr n 1\r\nget n\r\n".repeat(9);
    let expected: String = (1..=9).map(|n| format!("{n}\r\nVALUE n 0 1\r\n{n}\r\nEND\r\n")).collect();
    assert_eq!(client.ask(&pipeline), expected);
}

#[test]
fn what_a_command_creates_when_it_finds_nothing_is_on_every_replica() {
    let for_long = format!("ma p N{} J5\r\n", in_40_days());
    let requests = [
        ("ma n N0 J5\r\n", "n"),
        ("ma n N0 J5 v\r\n", "n"),
        ("ma n N60 J13 q\r\n", "n"),
        ("ma n MD N60 J13 D4 v t\r\n", "n"),
        ("ma bg== b N0 J5 v k\r\n", "n"),
        ("mg l N30\r\n", "l"),
        ("mg l N30 v\r\n", "l"),
        ("mg m N30 R40 v q k\r\n", "m"),
        ("mg bw== b N30 T60 v t\r\n", "o"),
        (&*for_long, "p"),
    ];
    for mode in MODES {
        let [bare] = Memcached::several::<1>();
        let servers = Memcached::several::<3>();
        let server = start(&servers, mode);
        let (mut client, mut bare) = (Client::to(server.addr()), Client::to(bare.addr));
        for (request, key) in requests {
            let (ours, theirs) = (client.ask(request), bare.ask(request));
            assert!(is_the_same_but_for_a_second(&ours, &theirs), "{request}: {ours}, {theirs}");
            let look = format!("mg {key} v f t\r\n");
            for memcached in &servers {
                wait_for_answer(memcached, &look, |answer| {
                    is_the_same_but_for_a_second(answer, &bare.ask(&look))
                });
            }
        }
    }
}

/// Whether two servers say the same of a key, whose seconds do not begin together.
fn is_the_same_but_for_a_second(one: &str, other: &str) -> bool {
    let left = |word: &str| word.strip_prefix('t').and_then(|left| left.parse::<i64>().ok());
    let is_same = |(one, other): (&str, &str)| {
        one == other || left(one).zip(left(other)).is_some_and(|(one, other)| one.abs_diff(other) <= 1)
    };
    let [words, others] = [one, other].map(|answer| answer.split_whitespace().collect::<Vec<_>>());
    words.len() == others.len() && words.into_iter().zip(others).all(is_same)
}

#[test]
fn what_is_written_while_a_get_creates_its_key_is_on_every_replica() {
    const KEYS: u32 = 3_000;
    for mode in MODES {
        let servers = Memcached::several::<2>();
        let server = start(&servers, mode);
        // Two clients that take each other's threads by turns, each key by both at once.
        for write in ["set k{} 0 0 5\r\nhello\r\n", "delete k{}\r\n"] {
            let requests = |what: &str| -> Vec<String> {
                (0..KEYS).map(|key| what.replace("{}", &key.to_string())).collect()
            };
            thread::scope(|scope| {
                for requests in [requests("mg k{} N30 v\r\n"), requests(write)] {
                    let addr = server.addr();
                    scope.spawn(move || {
                        let mut client = Client::to(addr);
                        requests.chunks(8).for_each(|some| drop(client.ask(&some.concat())));
                    });
                }
            });
            let get = format!("get{}\r\n", (0..KEYS).map(|key| format!(" k{key}")).collect::<String>());
            let [one, other] = servers.each_ref();
            wait_for_answer(one, &get, |held| Client::to(other.addr).ask(&get) == held);
            let flushed = Client::to(server.addr()).ask("flush_all\r\n");
            assert_eq!(flushed, "OK\r\n");
        }
    }
}

#[test]
fn a_number_is_as_long_on_every_replica_though_it_is_being_read_on_one() {
    // More than the buffers of a connection take.
    const LARGE: usize = 17;
    let changes =
        [("i", "incr i 1\r\n", "99\r\n"), ("a", "ma a\r\n", "HD\r\n"), ("d", "decr d 1\r\n", "97\r\n")];
    for read in 0..2 {
        let servers = Memcached::several::<2>();
        let server = start(&servers, &[]);
        let mut client = Client::to(server.addr());
        for (key, ..) in changes {
            assert_eq!(client.ask(&format!("set {key} 0 0 3\r\n98 \r\n")), "STORED\r\n");
        }
        // The items of one answer are held until all of it is sent, and the reader takes none of it.
        let mut reader = Client::to(servers[read].addr);
        reader.ask(&format!("set large 0 0 1000000\r\n{}\r\n", "x".repeat(1_000_000)));
        let get = format!("get{} i a d\r\n", " large".repeat(LARGE));
        reader.0.write_all(get.as_bytes()).expect("the server listens");
        let read_keys = (LARGE + changes.len()) as u64;
        wait_until("they are being read", || Client::to(servers[read].addr).stat("", "cmd_get") >= read_keys);
        for (key, change, answer) in changes {
            assert_eq!(client.ask(change), answer);
            let held =
                servers.each_ref().map(|server| Client::to(server.addr).ask(&format!("get {key}\r\n")));
            assert_eq!(held[0], held[1], "{change:?}, read on {read}");
        }
    }
}

#[test]
fn what_one_replica_had_lost_is_what_all_of_them_create() {
    let servers = Memcached::several::<2>();
    let server = start(&servers, &[]);
    let mut client = Client::to(server.addr());
    let value = |memcached: &Memcached, key: &str| Client::to(memcached.addr).ask(&format!("mg {key} v\r\n"));
    for lost in &servers {
        assert_eq!(client.ask("set n 0 0 2\r\n41\r\nset l 0 0 3\r\nold\r\n"), "STORED\r\nSTORED\r\n");
        Client::to(lost.addr).ask("delete n\r\ndelete l\r\n");
        let answer = client.ask("ma n N0 J5 v\r\n");
        client.ask("mg l N30\r\n");
        for memcached in &servers {
            assert_eq!(value(memcached, "n"), answer);
        }
        // The one that decides lost it, and none has it; or the other one, and it is not asked.
        wait_until("both hold the same, or one nothing", || {
            let held =
                servers.each_ref().map(|memcached| value(memcached, "l").replace(" Z", "").replace(" W", ""));
            held[0] == held[1] || held.contains(&"EN\r\n".to_owned())
        });
        client.ask("delete l\r\n");
    }
}

#[test]
fn what_is_refused_for_its_opaque_has_changed_no_replica() {
    let servers = Memcached::several::<2>();
    let server = start(&servers, &[]);
    let mut client = Client::to(server.addr());
    assert_eq!(client.ask("set n 0 0 1\r\n1\r\n"), "STORED\r\n");
    let [fits, too_long] = [31, 32].map(|letters| format!("O{}", "x".repeat(letters)));
    let refusal = "CLIENT_ERROR opaque token too long\r\n";
    for (request, answer) in [
        (format!("ma n {fits}\r\n"), format!("HD {fits}\r\n")),
        (format!("ma n {too_long}\r\n"), refusal.into()),
        (format!("ma n q {too_long} v\r\n"), refusal.into()),
        (format!("ma created N0 {too_long}\r\n"), refusal.into()),
        (format!("mg created N30 {too_long} v\r\n"), refusal.into()),
        // A server says so of what changes nothing.
        (format!("mg n {too_long} v\r\n"), refusal.into()),
    ] {
        assert_eq!(client.ask(&request), answer, "{request}");
        // Each of them is read.
        let held = client.ask(&"get n created\r\n".repeat(2));
        assert_eq!(held, "VALUE n 0 1\r\n2\r\nEND\r\n".repeat(2), "{request}");
    }
}

#[test]
fn what_the_server_that_decides_has_lost_no_replica_goes_on_with() {
    for mode in MODES {
        let servers = Memcached::several::<3>();
        let server = start(&servers, mode);
        let mut client = Client::to(server.addr());
        for (request, nothing) in [
            ("incr k 1\r\n", "NOT_FOUND\r\n"),
            ("cas k 0 0 1 999999\r\n2\r\n", "NOT_FOUND\r\n"),
            ("replace k 0 0 1\r\n2\r\n", "NOT_STORED\r\n"),
            ("prepend k 0 0 1\r\n2\r\n", "NOT_STORED\r\n"),
            ("ma k\r\n", "NF\r\n"),
            ("ma k q\r\n", "NF\r\n"),
            ("md k I T30\r\n", "NF\r\n"),
            ("md k C999999 q\r\n", "NF\r\n"),
            ("ms k 1 MR\r\n2\r\n", "NS\r\n"),
            ("ms k 1 MA\r\n2\r\n", "NS\r\n"),
            ("ms k 1 C999999\r\n2\r\n", "NF\r\n"),
        ] {
            // Each of them loses it once, and one of them decides.
            let mut times = 0;
            for lost in &servers {
                assert_eq!(client.ask("set k 0 0 1\r\n1\r\n"), "STORED\r\n");
                assert_eq!(Client::to(lost.addr).ask("delete k\r\n"), "DELETED\r\n");
                if client.ask(request) == nothing {
                    assert_eq!(client.ask("get k\r\nget k\r\nget k\r\n"), "END\r\n".repeat(3), "{request}");
                    times += 1;
                }
            }
            assert_eq!(times, 1, "{request}");
        }
    }
}

#[test]
fn a_server_that_dies_is_left_out_without_an_error_to_anybody() {
    for mode in MODES {
        let mut servers = Memcached::several::<3>();
        let server = start(&servers, mode);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let ends = Ends(&stop);
            let clients: Vec<_> = (0..4)
                .map(|number| {
                    let (addr, stop) = (server.addr(), &stop);
                    scope.spawn(move || {
                        let mut client = Client::to(addr);
                        let mut rounds = 0;
                        while !stop.load(Ordering::Relaxed) {
                            rounds += 1;
                            let set =
                                format!("set c{number} 0 0 {}\r\n{rounds}\r\n", rounds.to_string().len());
                            assert_eq!(client.ask(&set), "STORED\r\n");
                            let value =
                                format!("VALUE c{number} 0 {}\r\n{rounds}\r\n", rounds.to_string().len());
                            for _ in 0..3 {
                                assert_eq!(
                                    client.ask(&format!("get c{number}\r\n")),
                                    format!("{value}END\r\n")
                                );
                            }
                            let twice = client.ask(&format!("get c{number} c{number}\r\n"));
                            assert_eq!(twice, format!("{value}{value}END\r\n"));
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_millis(200));
            servers[1].kill();
            Client::to(server.addr()).wait_for_live(2);
            thread::sleep(Duration::from_millis(300));
            drop(ends);
            clients.into_iter().for_each(|client| client.join().expect("no client met an error"));
        });
        assert_eq!(Client::to(server.addr()).stat("", "servers_live"), 2);
    }
}

#[test]
fn without_a_loss_what_one_replica_misses_is_missed_unless_the_file_says_otherwise() {
    for (word, hits) in [("after-loss", 2), ("never", 2), ("always", 4)] {
        let servers = Memcached::several::<2>();
        let text = format!("[cache.pools.a]\nservers = [\"$0\", \"$1\"]\nread-repair = \"{word}\"\n");
        let routed = Routed::start(&text, &servers, &[]);
        let mut client = routed.client();
        client.ask("set k 0 0 1\r\nx\r\n");
        Client::to(servers[0].addr).ask("delete k\r\n");
        let answers: String = (0..4).map(|_| client.ask("get k\r\n")).collect();
        assert_eq!(answers.matches("VALUE").count(), hits, "{word}: {answers}");
        let asked: u64 = servers.iter().map(|memcached| Client::to(memcached.addr).stat("", "cmd_get")).sum();
        assert!(word == "always" || asked == 4, "{word}: asked {asked} times");
        if word == "always" {
            wait_for_answer(&servers[0], "get k\r\n", |answer| answer.starts_with("VALUE"));
        }
    }
}

#[test]
fn reads_that_are_left_to_chance_come_to_every_replica() {
    for mode in MODES {
        for reads in ["random", "two-choices"] {
            let servers = Memcached::several::<3>();
            let server = start(&servers, &[mode, &["--reads", reads]].concat());
            let mut client = Client::to(server.addr());
            assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
            for _ in 0..100 {
                assert_eq!(client.ask("get k\r\n"), "VALUE k 0 1\r\nx\r\nEND\r\n");
                assert_eq!(client.ask("mg k v\r\n"), "VA 1\r\nx\r\n");
            }
            let read = servers.each_ref().map(|memcached| Client::to(memcached.addr).stat("", "get_hits"));
            assert!(read.iter().all(|reads| *reads > 0), "{mode:?} {reads}: {read:?}");
        }
    }
}

#[test]
fn who_has_requests_under_way_is_not_read_where_another_has_fewer() {
    for reads in ["nearest", "two-choices"] {
        let servers = Memcached::several::<2>();
        let arguments = ["--threads", "1", "--reads", reads, "--server-timeout", "10m"];
        let server = start(&servers, &arguments);
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        servers[0].signal("STOP");
        let value = b"VALUE k 0 1\r\nx\r\n";
        let mut hung = loop {
            let asked = |client: &mut Client| {
                servers
                    .each_ref()
                    .map(|server| client.stat(" servers", &format!("{}:requests", server.name())))
            };
            let before = asked(&mut client);
            let mut reader = Client::to(server.addr());
            reader.0.write_all(b"get k\r\n").expect("the router reads");
            wait_until("a server is asked", || asked(&mut client) != before);
            if asked(&mut client)[0] != before[0] {
                break reader;
            }
            assert_eq!(reader.read_until(b"END\r\n"), value);
        };
        for request in ["get k\r\n", "mg k v\r\n"] {
            for _ in 0..50 {
                let said = client.ask(request);
                assert!(said.contains("\r\nx\r\n"), "{reads}: {said}");
            }
        }
        servers[0].signal("CONT");
        assert_eq!(hung.read_until(b"END\r\n"), value);
    }
}

#[test]
fn without_ejection_a_server_that_is_gone_stays_in_every_answer() {
    for mode in [&["--workers", "2"][..], &["--eject", "off"]] {
        let mut servers = Memcached::several::<2>();
        let server = start(&servers, mode);
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
        servers[0].kill();
        for _ in 0..3 {
            let answer = client.ask("set a 0 0 1\r\nx\r\n");
            assert_eq!(answer, format!("SERVER_ERROR server {} does not answer\r\n", servers[0].name()));
        }
        let answers: String = (0..4).map(|_| client.ask("get a\r\n")).collect();
        assert_eq!(answers.matches("SERVER_ERROR").count(), 2, "{answers}");
    }
}

#[test]
fn without_ejection_the_nearest_is_not_the_server_that_is_gone() {
    for mode in [&["--workers", "2"][..], &["--eject", "off"]] {
        let mut servers = Memcached::several::<3>();
        let server = start(&servers, &[mode, &["--reads", "nearest", "--multiget", "whole"]].concat());
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        servers[1].kill();
        wait_until("the loss is noticed", || {
            client.ask("get k\r\n");
            client.stat("", "servers_live") == 2
        });
        for request in ["get k\r\n", "mg k v\r\n", "get k other\r\n"] {
            for _ in 0..20 {
                let said = client.ask(request);
                assert!(said.contains("\r\nx\r\n") && !said.contains("ERROR"), "{mode:?}: {said}");
            }
        }
    }
}

#[test]
fn with_workers_a_server_that_was_started_anew_while_nobody_asked_it_gets_the_next_write() {
    let mut servers = Memcached::several::<2>();
    let tries = (0..20).find_map(|_| {
        let server = start(&servers, &["--workers", "1"]);
        let mut client = Client::to(server.addr());
        assert_eq!(client.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        servers.iter_mut().for_each(Memcached::kill);
        servers.iter_mut().for_each(Memcached::restart);
        let said = client.ask("set k 0 0 1\r\n1\r\nincr k 1\r\nget k\r\ndelete k\r\n");
        // Where it was looked after just while it was gone, it was lost, and that is another matter.
        (!server.log().contains("server lost: ")).then(|| (said, server.log()))
    });
    let (said, log) = tries.expect("once they are started anew before they are looked after");
    assert_eq!(said, "STORED\r\n2\r\nVALUE k 0 1\r\n2\r\nEND\r\nDELETED\r\n", "{log}");
}

#[test]
fn without_ejection_too_a_server_serves_nothing_that_it_missed() {
    for mode in [&["--workers", "2"][..], &["--eject", "off"]] {
        let servers = Memcached::several::<2>();
        let server = start(&servers, &[mode, &["--server-timeout", GIVEN_UP]].concat());
        let mut client = Client::to(server.addr());
        let writes = [
            ("incr", "incr incr 1\r\n"),
            ("append", "append append 0 0 1\r\n7\r\n"),
            ("prepend", "prepend prepend 0 0 1\r\n7\r\n"),
            ("replace", "replace replace 0 0 1\r\n7\r\n"),
            ("ma", "ma ma\r\n"),
            ("set", "set set 0 0 1\r\n7\r\n"),
            ("delete", "delete delete\r\n"),
            ("touch", "touch touch -1\r\n"),
        ];
        for (key, _) in writes {
            assert_eq!(client.ask(&format!("set {key} 0 0 1\r\n1\r\n")), "STORED\r\n");
        }
        servers[1].signal("STOP");
        for (_, write) in writes.iter().chain(&writes) {
            client.ask(write);
        }
        client.wait_for_live(1);
        let absence = format!("SERVER_ERROR server {} does not answer\r\n", servers[1].name());
        for (_, write) in writes {
            assert_eq!(client.ask(write), absence, "{write}");
        }
        servers[1].signal("CONT");
        client.wait_for_live(2);
        let held =
            |key: &str, memcached: &Memcached| Client::to(memcached.addr).ask(&format!("get {key}\r\n"));
        for (key, _) in writes {
            let [first, second] = [0, 1].map(|place: usize| held(key, &servers[place]));
            assert!(second == "END\r\n" || second == first, "{key} is {first} and {second}");
        }
    }
}

#[test]
fn with_no_server_left_there_are_errors_and_no_silence() {
    let mut servers = Memcached::several::<2>();
    let server = start(&servers, &[]);
    let mut client = Client::to(server.addr());
    client.ask("set a 0 0 1\r\nx\r\n");
    servers.iter_mut().for_each(Memcached::kill);
    for request in
        ["set a 0 0 1\r\nx\r\n", "get a\r\n", "get a b\r\n", "incr a 1\r\n", "mg a v\r\n", "flush_all\r\n"]
    {
        let answer = client.ask(request);
        assert!(answer.starts_with("SERVER_ERROR ") && answer.lines().count() == 1, "{request}: {answer}");
    }
    assert_eq!(server.readiness().0, 503);
    servers.iter_mut().for_each(Memcached::restart);
    client.wait_for_live(2);
    assert_eq!(client.ask("set a 0 0 1\r\ny\r\n"), "STORED\r\n");
    assert_eq!(server.readiness().0, 200);
}
