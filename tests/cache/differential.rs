//! Same bytes in, same bytes out: random commands, valid and not, to a memcached and to the router in front of another
//! one, and every answer compared.
//!
//! Left out is what must differ: what servers count about themselves, short expiries (two processes' clocks tick at
//! different moments: of these only is held that they end), and what memcached 1.6.18 does to a pipeline in which a get
//! has a key that is too long or that ends in a hang-up, namely to drop the answers before it. And what is left of
//! numbers that become shorter: whether spaces stay behind them depends on who else looks at the item in that moment.
//! And a delayed flush after another one: until it is due a server shows again what it forgot, unless it has found time
//! to throw that away.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::client::{Client, router};
use crate::commands::command;
use crate::memcached::Memcached;
use crate::routes::Routed;
use crate::support::Server;
use crate::support::patience::wait_until;

/// How long a side may be silent before we believe that it is waiting for more, if the other one seems to do so too.
const SILENCE: Duration = Duration::from_millis(200);

/// How long a side may be silent while the other one is not: it may only be slow.
const LAG_MAX: Duration = Duration::from_secs(60);

#[test]
fn a_router_answers_every_command_as_the_server_behind_it_would() {
    compare(&[], 11, 6000, 1);
}

#[test]
fn a_pipeline_is_answered_as_by_the_server_itself() {
    compare(&[], 12, 1500, 8);
}

#[test]
fn workers_answer_as_the_server_behind_them_would() {
    compare(&["--workers", "2"], 13, 2000, 3);
}

#[test]
fn a_run_that_nobody_has_seen_before_is_answered_alike() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    compare(&[], seed, 1500, 1);
    compare(&[], seed, 300, 8);
}

#[test]
fn three_servers_that_share_the_keys_answer_as_one() {
    let servers = Memcached::several::<3>();
    let names = servers.each_ref().map(Memcached::name);
    for hash in ["ketama", "jump"] {
        let arguments = ["--threads", "1", "--writes", "owner", "--hash", hash];
        let server = router(&names.each_ref().map(String::as_str), &arguments);
        compare_with(&server, 21, 2000, 1, is_alike_on_several);
        compare_with(&server, 22, 400, 8, is_alike_on_several);
    }
}

#[test]
fn routes_to_three_servers_answer_as_one() {
    let servers = Memcached::several::<3>();
    let text = r#"
[cache.pools.keys]
servers = ["$0"]
[cache.pools.counters]
servers = ["$1"]
[cache.pools.rest]
servers = ["$2"]
[[cache.routes]]
prefix = "key"
pool = "keys"
strip = true
add-prefix = "moved:"
[[cache.routes]]
prefix = "n"
pool = "counters"
[[cache.routes]]
pool = "rest"
"#;
    let routed = Routed::start(text, &servers, &[]);
    compare_with(&routed.server, 31, 2000, 1, is_alike_on_several);
    compare_with(&routed.server, 32, 400, 8, is_alike_on_several);
}

/// Whether several servers answer a command as one does: each counts its tokens by itself.
fn is_alike_on_several(command: &[u8]) -> bool {
    let mut words = command.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let verb = words.next().unwrap_or_default();
    let is_token = |word: &[u8]| word == b"c" || matches!(word.first(), Some(b'C' | b'E'));
    ![&b"cas"[..], b"gets", b"gats", b"me"].contains(&verb) && !words.any(is_token)
}

#[test]
fn a_flush_that_comes_later_takes_what_was_there_by_then() {
    for mode in [&[][..], &["--workers", "2"]] {
        let (bare, behind) = (Memcached::start(&[]), Memcached::several::<2>());
        let names = behind.each_ref().map(Memcached::name);
        let server = router(&names.each_ref().map(String::as_str), mode);
        for addr in [bare.addr, server.addr()] {
            let mut client = Client::to(addr);
            let (set, value) = ("set k 0 0 1\r\nx\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
            assert_eq!(
                client.ask(&format!("{set}flush_all 100000\r\nget k\r\n")),
                format!("STORED\r\nOK\r\n{value}")
            );
            assert_eq!(client.ask("flush_all 2\r\n"), "OK\r\n");
            wait_until("it is flushed", || client.ask("get k\r\nget k\r\n") == "END\r\nEND\r\n");
            wait_until("what comes later stays", || {
                client.ask(set);
                client.ask("get k\r\nget k\r\n") == value.repeat(2)
            });
        }
    }
}

#[test]
fn what_lives_for_a_moment_ends_behind_the_router_as_it_would_without() {
    let soon = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs() + 3;
    let absolute = format!("set absolute 0 {soon} 1\r\nx\r\n");
    for mode in [&[][..], &["--workers", "2"]] {
        let (bare, behind) = (Memcached::start(&[]), Memcached::start(&[]));
        let server = router(&[&behind.name()], mode);
        let mut both = [Client::to(bare.addr), Client::to(server.addr())];
        let keys = "touched gat gats mg md ma replaced stays";
        let all: String = keys.split(' ').map(|key| format!("set {key} 0 0 1\r\n1\r\n")).collect();
        for request in [
            &*all,
            "set past 0 1000000000 1\r\nx\r\n",
            "set set 0 1 1\r\nx\r\n",
            &absolute,
            "add add 0 2 1\r\nx\r\n",
            "replace replaced 0 1 1\r\nx\r\n",
            "ms ms 1 T1\r\nx\r\n",
            "ms bXNi 1 b T1\r\nx\r\n",
            "touch touched 1\r\n",
            "gat 1 gat\r\n",
            "gats 2 gats\r\n",
            "mg mg T1 v\r\n",
            "mg created N1 v\r\n",
            "ma counted N1 J5 v\r\n",
            "ma ma T1 v\r\n",
            "md md I T1\r\n",
            "touch stays 1000\r\n",
        ] {
            let [expected, got] = both.each_mut().map(|client| client.ask(request));
            assert_eq!(got, expected, "{request}");
        }
        let request = format!("get {keys} past set absolute add ms msb created counted\r\n");
        for client in &mut both {
            wait_until("they end", || client.ask(&request) == "VALUE stays 0 1\r\n1\r\nEND\r\n");
        }
    }
}

/// Compares a router before one server with that server.
fn compare(arguments: &[&str], seed: u64, steps: usize, together: usize) {
    let behind = Memcached::start(&[]);
    let server = router(&[&behind.name()], &[&["--threads", "1"], arguments].concat());
    compare_with(&server, seed, steps, together, |_| true);
}

/// Compares a router with a server, by commands that may be asked.
fn compare_with(
    server: &Server,
    seed: u64,
    steps: usize,
    together: usize,
    may_be_asked: impl Fn(&[u8]) -> bool,
) {
    let bare = Memcached::start(&[]);
    // Until the servers have told their versions, an `ms` that one refuses ends its connection.
    let mut watcher = Client::to(server.addr());
    let servers = watcher.stat("", "servers_live") as usize;
    let version = ":version 1.";
    wait_until("the servers' versions are known", || {
        watcher.ask("stats servers\r\n").matches(version).count() == servers
    });
    // Servers count flushes among what gives tokens.
    for client in [&mut watcher, &mut Client::to(bare.addr)] {
        assert_eq!(client.ask("flush_all\r\n"), "OK\r\n");
    }
    let (mut one, mut other) = (Side::new(bare.addr), Side::new(server.addr()));
    let mut rng = Rng::with_seed(seed);
    for step in 0..steps {
        let count = rng.usize(1..=together);
        let bytes: Vec<u8> = std::iter::repeat_with(|| command(&mut rng, together > 1))
            .filter(|command| may_be_asked(command))
            .take(count)
            .flatten()
            .collect();
        let (expected, got) = ask_both(&mut one, &mut other, &bytes, step);
        let (expected, got) = (without_seconds(&expected), without_seconds(&got));
        let alike = expected.iter().zip(&got).take_while(|(one, other)| one == other).count();
        assert!(
            expected == got,
            "step {step} of seed {seed}, {alike} bytes alike: to {}\nmemcached says {}\nthe router    {}",
            shown(&bytes, 0),
            shown(&expected, alike),
            shown(&got, alike),
        );
    }
}

/// What lies around a place in bytes that may be many.
fn shown(bytes: &[u8], place: usize) -> String {
    const AROUND: usize = 500;
    let shown = &bytes[place.saturating_sub(AROUND)..bytes.len().min(place + AROUND)];
    format!("{:?} of {} bytes", String::from_utf8_lossy(shown), bytes.len())
}

/// The same without what depends on when a server's clock ticks: seconds to come are rounded up to hundreds, those that
/// are past down.
fn without_seconds(answer: &[u8]) -> Vec<u8> {
    let rounded = |word: &[u8]| {
        let word = std::str::from_utf8(word).ok()?;
        // What has time left says so by a negative `exp`.
        let names = ["exp=-", "la=", "t", "l"];
        let (name, seconds) = names.iter().find_map(|name| Some((*name, word.strip_prefix(name)?)))?;
        let seconds: u64 = seconds.parse().ok()?;
        let is_past = name.starts_with('l');
        let hundreds = if is_past { seconds / 100 } else { seconds.div_ceil(100) };
        Some(format!("{name}{hundreds}00").into_bytes())
    };
    let lines = answer.split(|byte| *byte == b'\n').map(|line| {
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        let words = text.split(|byte| *byte == b' ').map(|word| rounded(word).unwrap_or_else(|| word.into()));
        [&words.collect::<Vec<_>>().join(&b' '), &line[text.len()..]].concat()
    });
    lines.collect::<Vec<_>>().join(&b'\n')
}

/// What both answer: to the marker, to the end of the connection, or to a silence of both.
fn ask_both(one: &mut Side, other: &mut Side, bytes: &[u8], step: usize) -> (Vec<u8>, Vec<u8>) {
    let marker = format!("EN Oz{step}\r\n");
    let text = [bytes, format!("mg nothing-is-here Oz{step}\r\n").as_bytes()].concat();
    one.say(&text);
    other.say(&text);
    let start = Instant::now();
    loop {
        let ends = [one.hear(marker.as_bytes()), other.hear(marker.as_bytes())];
        let are_alike = one.heard == other.heard && ends[0] == ends[1];
        if are_alike || !ends.contains(&End::Silence) || start.elapsed() > LAG_MAX {
            return (one.finish(ends[0]), other.finish(ends[1]));
        }
    }
}

/// One of the two that are compared.
struct Side {
    addr: SocketAddr,
    stream: Option<TcpStream>,
    heard: Vec<u8>,
}

/// How an answer ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Marker,
    Closed,
    Silence,
}

impl Side {
    fn new(addr: SocketAddr) -> Self {
        Self { addr, stream: None, heard: Vec::new() }
    }

    fn say(&mut self, text: &[u8]) {
        self.heard.clear();
        let addr = self.addr;
        let stream = self.stream.get_or_insert_with(|| TcpStream::connect(addr).expect("somebody listens"));
        stream.set_read_timeout(Some(SILENCE)).expect("a timeout can be set");
        // A peer that has hung up already shows when it is read from.
        let _ = stream.write_all(text);
    }

    /// Hears more, to the marker, to the end of the connection, or to a silence.
    fn hear(&mut self, marker: &[u8]) -> End {
        let mut buffer = [0; 65536];
        while !self.heard.ends_with(marker) {
            let Some(stream) = &mut self.stream else { return End::Closed };
            match stream.read(&mut buffer) {
                Ok(n) if n > 0 => self.heard.extend_from_slice(&buffer[..n]),
                // A machine that stood still for a moment.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return End::Silence,
                _ => self.stream = None,
            }
        }
        End::Marker
    }

    /// What was heard, and how it ended. Whoever waits for more is told that none comes, and hangs up: then they have
    /// done what they were asked, before anything else is asked.
    fn finish(&mut self, end: End) -> Vec<u8> {
        let heard = std::mem::take(&mut self.heard);
        match end {
            End::Marker => return heard,
            End::Closed => return [&heard[..], b"<closed>"].concat(),
            End::Silence => {}
        }
        let mut rest = Vec::new();
        if let Some(mut stream) = self.stream.take() {
            let _ = stream.set_read_timeout(Some(LAG_MAX)); // hung up meanwhile
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut rest);
        }
        [&heard[..], b"<silence>", &rest].concat()
    }
}
