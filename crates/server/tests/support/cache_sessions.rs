//! Sessions of clients with the cache tier, who may send anything, and servers that do as memcached does, but always
//! answer the same to the same: what a client gets is what it would get alone, however its bytes and the servers' are
//! cut and whatever others ask meanwhile.
//!
//! A story is bytes: they are sent over the connection at hand, but for [`ESCAPE`], after which a byte says what happens.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::OnceLock;

use posthaste_measure::{Clock, Hand};
use posthaste_server::cache::layout::{
    Layout, MemberPlan, PoolPlan, RoutePlan, ShadowPlan, Source, StandInPlan,
};
use posthaste_server::cache::rules::{Answer, Multiget, Reads, Rules, Writes};
use tempfile::TempDir;

use crate::cache_by_hand::Thread;

/// Byte after which another byte says what happens; no request needs it.
pub(crate) const ESCAPE: u8 = 0xff;

/// Number of connections in a story.
const CLIENTS: usize = 3;
/// Number of servers: three in a pool, one in another.
const SERVERS: usize = 4;
/// Number of layouts to choose from.
pub(crate) const LAYOUTS: usize = 6;

/// Number of turns without anything new after which nothing new is expected: answers wait for others no longer than
/// that.
const QUIET: usize = 6;
/// Time that a turn takes, in nanoseconds: so little that no server is late in a story.
const MOMENT_NS: u64 = 300_000;
/// Number of turns in which a client that closed its connection is gone.
const TURNS: usize = 1000;

/// Last letter of the keys whose values are long, and the length in bytes, so that some are more than is read at once.
const LONG: (u8, usize) = (b'L', 6000);

/// A tier and its servers.
pub(crate) struct World {
    thread: Thread,
    servers: Vec<Server>,
    _directory: TempDir,
}

/// A server, or what is left of one that has closed its connections.
struct Server {
    listener: UnixListener,
    links: Vec<Link>,
}

/// A connection of the tier to a server.
struct Link {
    stream: UnixStream,
    asked: Vec<u8>,
    saying: Vec<u8>,
}

/// A client of a story.
#[derive(Default)]
struct Client {
    stream: Option<UnixStream>,
    said: Vec<u8>,
    heard: Vec<u8>,
}

fn clock() -> (&'static Hand, Clock) {
    static CLOCK: OnceLock<(&'static Hand, Clock)> = OnceLock::new();
    *CLOCK.get_or_init(|| {
        let hand = Hand::at_zero();
        (hand, Clock::by_hand(hand, 0))
    })
}

/// Returns the pools and routes of this number.
fn layout(number: usize, names: &[String]) -> Layout {
    let shares = number.is_multiple_of(2);
    let (writes, reads) =
        if shares { (Writes::Owner, Reads::Owner) } else { (Writes::All, Reads::RoundRobin) };
    let multiget = [Multiget::Whole, Multiget::Split][usize::from(number < 4)];
    let answer = if number == 3 { Answer::Majority } else { Answer::All };
    let members = names[..3].iter().map(|name| MemberPlan::of(name)).collect();
    let mut layout =
        Layout::of_one_pool(members, Rules { writes, reads, multiget, answer, ..Rules::default() });
    layout.pools.push(PoolPlan {
        name: "second".to_owned(),
        members: vec![MemberPlan::of(&names[3])],
        ..PoolPlan::default()
    });
    match number {
        2 => layout.pools[0].source = Some(Source::Below(1)),
        4 => layout.pools[0].source = Some(Source::Old(1)),
        5 => layout.pools[0].stand_ins.push(StandInPlan { pool: 1, expiry: None }),
        _ => {}
    }
    let shadow = (number == 1).then_some(ShadowPlan { pool: 1, share: 1.0 });
    layout.routes[0].shadow = shadow;
    let strip = number == 3;
    layout.routes.push(RoutePlan { prefix: b"a".to_vec(), strip, pool: 1, ..RoutePlan::default() });
    layout
}

impl World {
    /// Creates a world with one of the [`LAYOUTS`].
    pub(crate) fn new(number: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let paths: Vec<_> = (0..SERVERS).map(|server| directory.path().join(server.to_string())).collect();
        let names: Vec<_> = paths.iter().map(|path| format!("unix:{}", path.display())).collect();
        let servers = paths.iter().map(|path| {
            let listener = UnixListener::bind(path).expect("a socket");
            listener.set_nonblocking(true).expect("a setting");
            Server { listener, links: Vec::new() }
        });
        let servers = servers.collect();
        Self { thread: Thread::new(&layout(number, &names), clock().1), servers, _directory: directory }
    }

    fn turn(&mut self) {
        let hand = clock().0;
        hand.set(hand.now() + MOMENT_NS);
        self.thread.turn();
    }

    /// Runs turns of tier, servers and clients until nothing new comes.
    fn settle(&mut self, clients: &mut [Client]) {
        let mut quiet = 0;
        while quiet < QUIET {
            self.turn();
            let served = self.servers.iter_mut().map(|server| server.hear() | server.say(usize::MAX));
            let served = served.filter(|served| *served).count();
            let heard = clients.iter_mut().map(Client::hear).filter(|heard| *heard).count();
            quiet = if served + heard == 0 { quiet + 1 } else { 0 };
        }
    }

    /// Waits until all clients, which have closed their ends, are gone.
    fn begin_anew(&mut self) {
        let gate = std::sync::Arc::clone(&self.thread.shared.gate);
        for _ in 0..TURNS {
            self.turn();
            self.servers.iter_mut().for_each(|server| {
                let _ = server.hear() | server.say(usize::MAX);
            });
            if gate.connections() == 0 {
                break;
            }
        }
        assert_eq!(gate.connections(), 0, "whoever was let in has left");
    }

    /// Returns how many bytes a lone client that sends this at once receives in each turn, until nothing new comes.
    pub(crate) fn turns(&mut self, said: &[u8]) -> Vec<usize> {
        let mut client = Client { stream: Some(self.thread.connect()), ..Client::default() };
        client.say(said);
        let (mut heard, mut quiet) = (Vec::new(), 0);
        while quiet < QUIET {
            let before = client.heard.len();
            self.turn();
            client.hear();
            quiet = if client.heard.len() == before { quiet + 1 } else { 0 };
            heard.push(client.heard.len() - before);
        }
        heard
    }

    /// Returns what a lone client receives that sends this at once.
    fn alone(&mut self, said: &[u8], is_half: bool) -> Vec<u8> {
        let mut client = Client { stream: Some(self.thread.connect()), ..Client::default() };
        client.say(said);
        if is_half {
            client.say_no_more();
        }
        self.settle(std::slice::from_mut(&mut client));
        client.stream = None;
        self.begin_anew();
        client.heard
    }
}

/// Tells a story of several connections, and checks what each of them got. Whether the tier can be used for another one:
/// where a server was lost, it has yet to be found again.
pub(crate) fn tell(world: &mut World, story: &[u8]) -> bool {
    let connect = |world: &World| Client { stream: Some(world.thread.connect()), ..Client::default() };
    let mut clients: [Client; CLIENTS] = std::array::from_fn(|_| connect(world));
    let mut half = [false; CLIENTS];
    let (mut at_hand, mut are_all_there) = (0, true);
    let mut parts = story.split(|byte| *byte == ESCAPE);
    clients[0].say(parts.next().unwrap_or_default());
    for part in parts {
        let (what, bytes) = part.split_first().unwrap_or((&0, &[]));
        let which = usize::from(what >> 4);
        match what % 16 {
            0..=2 => at_hand = usize::from(what % 16),
            3..=5 => world.turn(),
            6 => drop(clients[at_hand].hear()),
            7 => {
                half[at_hand] = true;
                clients[at_hand].say_no_more();
            }
            8 => {
                half[at_hand] = false;
                clients[at_hand] = connect(world);
            }
            9 if which == 15 => {
                are_all_there = false;
                world.servers[bytes.len() % SERVERS].links.clear();
            }
            9..=11 => drop(world.servers[which % SERVERS].hear()),
            _ => {
                let server = &mut world.servers[which % SERVERS];
                server.hear();
                server.say([1, 3, 9, 30, 200, 20_000, usize::MAX][which / SERVERS + usize::from(what % 4)]);
            }
        }
        clients[at_hand].say(bytes);
    }
    world.settle(&mut clients);
    for client in &mut clients {
        client.stream = None;
    }
    world.begin_anew();
    if are_all_there {
        for (client, is_half) in clients.iter().zip(half) {
            let alone = world.alone(&client.said, is_half);
            let (heard, alone) = (without_figures(&client.heard), without_figures(&alone));
            assert!(
                heard == alone,
                "{:?} was answered {:?}, and alone {:?}",
                String::from_utf8_lossy(&client.said),
                String::from_utf8_lossy(&heard),
                String::from_utf8_lossy(&alone)
            );
        }
    }
    are_all_there
}

/// Returns answers without the lines of `stats`, which tell of all clients.
fn without_figures(heard: &[u8]) -> Vec<u8> {
    heard
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b"STAT "))
        .collect::<Vec<_>>()
        .concat()
}

impl Client {
    fn say(&mut self, bytes: &[u8]) {
        let Some(stream) = &mut self.stream else { return };
        // Stories are shorter than what the kernel holds; whoever was closed is told no more.
        if stream.write_all(bytes).is_ok() {
            self.said.extend_from_slice(bytes);
        }
    }

    fn say_no_more(&self) {
        let _ = self.stream.as_ref().map(|stream| stream.shutdown(Shutdown::Write));
    }

    /// Reads what has arrived. Returns whether there was anything.
    fn hear(&mut self) -> bool {
        let (Some(stream), before) = (&mut self.stream, self.heard.len()) else { return false };
        match stream.read_to_end(&mut self.heard) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Ended, or cut off with something unread.
            _ => self.stream = None,
        }
        self.heard.len() > before
    }
}

impl Server {
    /// Accepts connections and reads commands. Returns whether there was anything.
    fn hear(&mut self) -> bool {
        let mut is_new = false;
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true).expect("a setting");
            self.links.push(Link { stream, asked: Vec::new(), saying: Vec::new() });
            is_new = true;
        }
        self.links.retain_mut(|link| {
            let before = link.asked.len();
            let read = link.stream.read_to_end(&mut link.asked);
            is_new |= link.asked.len() > before;
            while let Some(used) = answer(&link.asked, &mut link.saying) {
                link.asked.drain(..used);
            }
            matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
        });
        is_new
    }

    /// Writes up to so many bytes of replies over each connection. Returns whether there was anything.
    fn say(&mut self, most: usize) -> bool {
        let mut is_said = false;
        for link in &mut self.links {
            let bytes = link.saying.len().min(most);
            // Who does not read is told later, who is gone nothing.
            let said = link.stream.write(&link.saying[..bytes]).unwrap_or(0);
            link.saying.drain(..said);
            is_said |= said > 0;
        }
        is_said
    }
}

/// Answers the command at the beginning. Returns its length once it is whole; what the tier sends is well-formed.
fn answer(asked: &[u8], saying: &mut Vec<u8>) -> Option<usize> {
    let end = asked.windows(2).position(|two| two == b"\r\n")?;
    // Keys are bytes: each stands for a character here.
    let line: String = asked[..end].iter().map(|byte| char::from(*byte)).collect();
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    assert!(!words.is_empty(), "a server was asked nothing");
    let length = match words[0] {
        "set" | "add" | "replace" | "append" | "prepend" | "cas" => Some(words[4]),
        "ms" => Some(words[2]),
        _ => None,
    };
    let mut used = end + 2;
    if let Some(length) = length {
        // As memcached reads it: what stands behind a white space does not count.
        let digits = length.split_whitespace().next().unwrap_or_default();
        let length: usize = digits.parse().unwrap_or_else(|_| panic!("a server was asked {line:?}"));
        used += length + 2;
        let behind = asked.get(used - 2..used)?;
        assert_eq!(behind, b"\r\n", "what a server was given is as long as it was told: {line:?}");
    }
    // A key may be called so too.
    let can_be_silent =
        !matches!(words[0], "get" | "gets" | "gat" | "gats" | "mg" | "ms" | "md" | "ma" | "me" | "mn");
    if can_be_silent && words.last() == Some(&"noreply") && words != ["delete", "noreply"] {
        return Some(used);
    }
    let say = if words.get(1).is_some_and(|key| has(key)) {
        ["STORED", "DELETED", "TOUCHED", "7"]
    } else {
        ["NOT_STORED", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"]
    };
    let word = match words[0] {
        "get" | "gets" | "gat" | "gats" => {
            let keys = if words[0].starts_with("gat") { &words[2..] } else { &words[1..] };
            assert!(!keys.is_empty(), "a server was asked {line:?}");
            for key in keys.iter().filter(|key| has(key)) {
                let (value, version) = (value(key), if words[0].ends_with('s') { " 5" } else { "" });
                saying.extend(bytes(&format!("VALUE {key} 0 {}{version}\r\n", value.len())));
                saying.extend(value);
                saying.extend(b"\r\n");
            }
            "END"
        }
        "set" | "add" | "replace" | "append" | "prepend" => say[0],
        "cas" => {
            if say[0] == "STORED" {
                "EXISTS"
            } else {
                "NOT_FOUND"
            }
        }
        "delete" => say[1],
        "touch" => say[2],
        "incr" | "decr" => say[3],
        "flush_all" | "verbosity" => "OK",
        "version" => "VERSION 1.6.0",
        "mn" => "MN",
        "me" => "EN",
        "mg" | "ms" | "md" | "ma" => {
            meta(&words, saying);
            return Some(used);
        }
        _ => panic!("a server was asked {line:?}"),
    };
    saying.extend(word.bytes());
    saying.extend(b"\r\n");
    Some(used)
}

fn meta(words: &[&str], saying: &mut Vec<u8>) {
    let key = words[1];
    let flags = &words[if words[0] == "ms" { 3 } else { 2 }..];
    let flagged = |flag: char| flags.iter().any(|word| word.starts_with(flag));
    let (is_there, is_quiet) = (has(key), flagged('q'));
    let value = match words[0] {
        "ma" => b"7".to_vec(),
        _ => value(key),
    };
    let with_value = is_there && flagged('v') && matches!(words[0], "mg" | "ma");
    let word = match (words[0], is_there) {
        _ if with_value => "VA",
        (_, true) => "HD",
        ("mg", false) => "EN",
        ("ms", false) => "NS",
        _ => "NF",
    };
    if is_quiet && (word == "EN" || word == "HD" && words[0] != "mg" || word == "NF") {
        return;
    }
    saying.extend(word.bytes());
    if with_value {
        saying.extend(bytes(&format!(" {}", value.len())));
    }
    if word != "EN" {
        for flag in flags {
            let told = match flag.chars().next().unwrap_or_default() {
                'k' => format!(" k{key}"),
                'O' | 'b' => format!(" {flag}"),
                'c' => " c5".to_owned(),
                't' if words[0] == "mg" => " t-1".to_owned(),
                'f' if words[0] == "mg" => " f0".to_owned(),
                's' if words[0] == "mg" => format!(" s{}", value.len()),
                _ => continue,
            };
            saying.extend(bytes(&told));
        }
    }
    saying.extend(b"\r\n");
    if with_value {
        saying.extend(value);
        saying.extend(b"\r\n");
    }
}

/// Returns the bytes of these characters.
fn bytes(text: &str) -> impl Iterator<Item = u8> + Clone {
    text.chars().map(|character| character as u8)
}

/// Returns whether servers have a key: two of three.
fn has(key: &str) -> bool {
    !bytes(key).map(usize::from).sum::<usize>().is_multiple_of(3)
}

/// Returns the value of a key: the key, a few times.
fn value(key: &str) -> Vec<u8> {
    let last = bytes(key).last().unwrap_or_default();
    let length = if last == LONG.0 { LONG.1 } else { usize::from(last % 16) };
    bytes(key).cycle().take(length).collect()
}
