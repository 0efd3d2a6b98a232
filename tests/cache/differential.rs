//! Same bytes in, same bytes out: random commands, valid and not, to a memcached and to the router in front of another
//! one, and every answer compared.
//!
//! Left out is what must differ: what servers count about themselves, short expiries (two processes' clocks tick at
//! different moments: of these only is held that they end), and what memcached 1.6.18 does to a pipeline in which a get
//! has a key that is too long or that ends in a hang-up, namely to drop the answers before it. And what is left of
//! numbers that become shorter: whether spaces stay behind them depends on who else looks at the item in that moment.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;

use crate::client::{Client, router};
use crate::memcached::Memcached;
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

fn compare(arguments: &[&str], seed: u64, steps: usize, together: usize) {
    let (bare, behind) = (Memcached::start(&[]), Memcached::start(&[]));
    let server = router(&[&behind.name()], &[&["--threads", "1"], arguments].concat());
    // Until the server has told its version, an `ms` that it refuses ends its connection.
    let mut watcher = Client::to(server.addr());
    wait_until("the server's version is known", || watcher.ask("stats servers\r\n").contains(":version 1."));
    let (mut one, mut other) = (Side::new(bare.addr), Side::new(server.addr()));
    let mut rng = Rng::with_seed(seed);
    for step in 0..steps {
        let count = rng.usize(1..=together);
        let bytes: Vec<u8> = (0..count).flat_map(|_| command(&mut rng, together > 1)).collect();
        let (expected, got) = ask_both(&mut one, &mut other, &bytes, step);
        let (expected, got) = (without_seconds(&expected), without_seconds(&got));
        assert!(
            expected == got,
            "step {step} of seed {seed}: to {:?}\nmemcached says {:?}\nthe router    {:?}",
            String::from_utf8_lossy(&bytes),
            String::from_utf8_lossy(&expected),
            String::from_utf8_lossy(&got),
        );
    }
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

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}

fn one_in(rng: &mut Rng, n: u32) -> bool {
    rng.u32(..n) == 0
}

fn key(rng: &mut Rng, may_be_too_long: bool) -> String {
    match rng.u32(..40) {
        0 => "k".repeat(250),
        1 if may_be_too_long => "k".repeat(251),
        2 => "t\tb".into(),
        _ => pick(rng, &["a", "b", "c", "d", "e", "f", "n", "key0", "key1", "r0", "r1"]).into(),
    }
}

/// A key that is counted up and down. Of others servers remember whether they were read: counting may make a new item
/// of one, which depends on who else looks at it in that moment.
fn counter(rng: &mut Rng, may_be_too_long: bool) -> String {
    let key = key(rng, may_be_too_long);
    if key.starts_with('r') { "n".into() } else { key }
}

fn number(rng: &mut Rng) -> &'static str {
    if one_in(rng, 4) {
        pick(
            rng,
            &[
                "-1",
                "x",
                "",
                "4294967296",
                "99999999999999999999",
                "1x",
                "+3",
                "18446744073709551615",
                "100000",
                "7\t8",
                "-18446744073709551615",
            ],
        )
    } else {
        pick(rng, &["0", "1", "2", "3"])
    }
}

/// An expiry that does not run out during the test, or did before.
fn expiry(rng: &mut Rng) -> &'static str {
    if one_in(rng, 8) { pick(rng, &["-1", "x", "1000", "+2000", "", "2000\t8"]) } else { "0" }
}

fn noreply(rng: &mut Rng) -> &'static str {
    if one_in(rng, 4) { " noreply" } else { "" }
}

fn space(rng: &mut Rng) -> &'static str {
    if one_in(rng, 20) { "   " } else { " " }
}

fn line_end(rng: &mut Rng) -> &'static str {
    if one_in(rng, 10) { "\n" } else { "\r\n" }
}

fn data(rng: &mut Rng, most: usize) -> Vec<u8> {
    let len = rng.usize(..=most);
    if rng.bool() {
        return rng.u32(1..1000).to_string().into_bytes();
    }
    // Begins with a letter: with spaces around it, or zeros before it, a number becomes shorter when it is counted up.
    let letter = (0..len.min(1)).map(|_| b'a');
    letter.chain((1..len).map(|_| b"ab\r\n\0 0123END"[rng.usize(..13)])).collect()
}

fn flags(rng: &mut Rng, of: &[&str]) -> String {
    (0..rng.usize(..5)).map(|_| format!(" {}", pick(rng, of))).collect()
}

fn command(rng: &mut Rng, is_pipelined: bool) -> Vec<u8> {
    match rng.u32(..24) {
        0..=4 => get(rng, !is_pipelined),
        5..=10 => store(rng),
        11 | 12 if one_in(rng, 3) => count_down(rng),
        11 | 12 => {
            let (verb, key) = (pick(rng, &["incr", "decr"]), counter(rng, true));
            let delta = if verb == "decr" {
                "x"
            } else {
                pick(rng, &["0", "1", "33", "-1", "x", "", "1x", "+3", "7\t8"])
            };
            format!("{verb}{}{key} {delta}{}{}", space(rng), noreply(rng), line_end(rng)).into()
        }
        13 => {
            let (key, time) =
                (key(rng, true), if one_in(rng, 5) { format!(" {}", number(rng)) } else { String::new() });
            format!("delete {key}{time}{}{}", noreply(rng), line_end(rng)).into()
        }
        14 => format!("touch {} {}{}{}", key(rng, true), expiry(rng), noreply(rng), line_end(rng)).into(),
        15 | 16 => {
            let long = format!("O{}", "x".repeat(40));
            let of = ["v", "k", "f", "s", "t", "q", "Oab", "N1000", "R5", "T1000", "z", &long, "u", "c", "l"];
            let mut flags = flags(rng, &of);
            if flags.contains(&long) {
                // Where a miss would create the key a router refuses it at once, a server when it has.
                flags = flags.replace(" N1000", "");
            }
            format!("mg {}{flags}{}", key(rng, true), line_end(rng)).into()
        }
        17..=19 => meta_set(rng),
        20 => {
            let of = ["q", "Oab", "k", "C5", "I", "T1000", "x", "E7"];
            format!("md {}{}{}", key(rng, true), flags(rng, &of), line_end(rng)).into()
        }
        21 => {
            let of = ["q", "v", "t", "N0", "J5", "D3", "MI", "M+", "Oab", "k", "DX", "c", "E7"];
            if is_pipelined {
                return format!("ma {} DX{}", counter(rng, true), line_end(rng)).into();
            }
            format!("ma {}{}{}", counter(rng, true), flags(rng, &of), line_end(rng)).into()
        }
        22 if one_in(rng, 2) => {
            let key = pick(rng, &["r0", "r1"]);
            if rng.bool() {
                return format!("me {key}{}", line_end(rng)).into();
            }
            format!("mg {key} h{}{}", flags(rng, &["l", "t", "v", "s", "h"]), line_end(rng)).into()
        }
        22 => format!("mg Zm9v{}{}", flags(rng, &["b", "v", "k", "q"]), line_end(rng)).into(),
        _ => odd(rng, is_pipelined),
    }
}

/// Whatever is a command by itself, or none.
fn odd(rng: &mut Rng, is_pipelined: bool) -> Vec<u8> {
    if !is_pipelined && one_in(rng, 30) {
        return b"GET / HTTP/1.1\r\n".to_vec();
    }
    let odd = [
        "mn",
        "mn x",
        "verbosity 1",
        "verbosity",
        "verbosity x noreply",
        "flush_all",
        "flush_all 0",
        "flush_all noreply",
        "flush_all x",
        "flush_all 0 noreply",
        "bogus",
        "",
        "x",
        "mx",
        "mg",
        "ms",
        "get",
        "set a",
        "incr a",
        "shutdown",
        "   ",
        "\r",
        "mg !!! b",
        "get a\0b",
        "gat 0",
        "gats x a",
        "set a 0 0 noreply",
        "touch a noreply",
        "delete noreply",
        "me nothing",
        "ms a S2",
        "cas a 0 0 1",
    ];
    format!("{}{}", pick(rng, &odd), line_end(rng)).into()
}

/// A number, and less of it. It is gone afterwards if it has become shorter.
fn count_down(rng: &mut Rng) -> Vec<u8> {
    let (key, number, delta) = (counter(rng, false), rng.u64(..1000), rng.u64(..300));
    let (number, left) = (number.to_string(), number.saturating_sub(delta).to_string());
    let count = match rng.u32(..3) {
        0 => format!("decr {key} {delta}{}", noreply(rng)),
        1 => format!("ma {key} MD D{delta} v"),
        _ => format!("ma {key} D{delta} c M- t"),
    };
    let end = if left.len() < number.len() { format!("delete {key}\r\n") } else { String::new() };
    format!("set {key} 0 0 {}\r\n{number}\r\n{count}{}{end}", number.len(), line_end(rng)).into()
}

fn get(rng: &mut Rng, may_be_too_long: bool) -> Vec<u8> {
    let verb = pick(rng, &["get", "gets", "gat", "gats", "bget", "get"]);
    let expiry = if verb.starts_with("gat") { format!(" {}", expiry(rng)) } else { String::new() };
    let count = if one_in(rng, 10) { 30 } else { 4 };
    let keys: Vec<String> = (0..rng.usize(1..=count))
        .map(|place| {
            // A server has touched the keys before the one that is too long; a router has not.
            let may_be_too_long = may_be_too_long && (expiry.is_empty() || place == 0);
            format!("{}{}", space(rng), key(rng, may_be_too_long))
        })
        .collect();
    let line = format!("{verb}{expiry}{}{}", keys.concat(), line_end(rng));
    // Nor has it read them, and servers remember that.
    match keys.iter().position(|key| key.trim().len() > 250) {
        Some(place @ 1..) => format!("{line}get{}\r\n", keys[..place].concat()).into(),
        _ => line.into(),
    }
}

/// Lengths that are not those of the data, or spelled so that a router sends others.
const LENGTHS: &[&str] =
    &["-1", "2147483647", "x", "3", "4294967297", "1", "+3", "003", "\t3", "3\tz", "-0", "0000000000003"];

fn store(rng: &mut Rng) -> Vec<u8> {
    let verb = pick(rng, &["set", "set", "add", "replace", "append", "prepend", "cas"]);
    let data = data(rng, 20);
    let mut length = data.len().to_string();
    if one_in(rng, 12) {
        length = pick(rng, LENGTHS).into();
    }
    let cas = if verb == "cas" { format!(" {}", number(rng)) } else { String::new() };
    let (flags, expiry) = (number(rng), expiry(rng));
    let before = if one_in(rng, 12) { "  " } else { "" };
    let line = format!(
        "{before}{verb} {} {flags} {expiry} {length}{cas}{}{}",
        key(rng, true),
        noreply(rng),
        line_end(rng)
    );
    let end = if one_in(rng, 25) { "xx" } else { "\r\n" };
    [line.as_bytes(), &data, end.as_bytes()].concat()
}

fn meta_set(rng: &mut Rng) -> Vec<u8> {
    let data = data(rng, 8);
    let of =
        ["F5", "T1000", "q", "Oab", "k", "ME", "MA", "MP", "MR", "MS", "MX", "I", "C5", "z", "Tx", "c", "E7"];
    let (key, of) =
        if one_in(rng, 5) { ("Zm9v".into(), &["b", "k", "q", "F3"][..]) } else { (key(rng, true), &of[..]) };
    let (mut length, mut end, mut flags) = (data.len().to_string(), "\r\n", flags(rng, of));
    if one_in(rng, 20) {
        // What begins so is no flag. A router refuses it in memcached's words, without a look at the others.
        flags = pick(rng, &[" -", " q -", " F5 \tk c", " k [ Oab", " \u{e9}", " T1000 \u{7f}"]).into();
    } else if one_in(rng, 12) {
        // Where the flags are wrong too a server complains of them.
        flags = pick(rng, &["", " q", " k c", " Oab F5", " T1000 ME", " C5"]).into();
        match rng.u32(..2) {
            0 => length = pick(rng, LENGTHS).into(),
            _ => end = "xx",
        }
    }
    let line = format!("ms {key} {length}{flags}{}", line_end(rng));
    [line.as_bytes(), &data, end.as_bytes()].concat()
}
