//! Routers without sockets: two threads that share a fleet, their clients, three servers and the network in between, and
//! whatever can happen to them, step by step.
//!
//! A step is three bytes, so a fuzzer can write a story as well as a property test can.
//!
//! What is checked of every story: each request has one answer, in its client's order, with nothing that belongs to
//! another. Where one pool takes every key by the same rules all the time: nobody reads what was overwritten or deleted
//! before they asked. And if each of its servers holds every key: in the end none holds a value that another does not
//! agree with.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::collections::{HashMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::missed_writes::RecoveryStep;
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::{Multiget, Reads, Rules, Writes};
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use posthaste_wire::memcached::request::Verb;

pub(crate) const NAMES: [&str; 3] = ["10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"];
pub(crate) const SERVERS: usize = NAMES.len();
const THREADS: usize = 2;
const CLIENTS: usize = 4;
pub(crate) const KEYS: u8 = 6;
/// Time longer than any request may take, in nanoseconds.
const LONG_NS: u64 = 20_000_000_000;

/// Time after which what could not be taken is tried again, in nanoseconds.
const LATER_NS: u64 = 5_000_000;
const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };

/// Returns the rules of a pool of all servers, and whether lost servers leave the rotation, chosen by one byte.
pub(crate) fn rules(choice: u8) -> (Rules, Ejection) {
    let (writes, reads) = match choice % 3 {
        0 => (Writes::All, Reads::RoundRobin),
        1 => (Writes::All, Reads::Nearest),
        _ => (Writes::Owner, Reads::Owner),
    };
    let multiget = [Multiget::Whole, Multiget::Split, Multiget::Auto][usize::from(choice / 3 % 3)];
    let ejection = if (choice / 9).is_multiple_of(4) { Ejection::Never } else { Ejection::OnLoss };
    (Rules { writes, reads, multiget, ..Rules::default() }, ejection)
}

/// Returns a layout of one pool with these rules.
pub(crate) fn one_pool(rules: &Rules) -> Layout {
    Layout::of_one_pool(NAMES.map(MemberPlan::of).into(), rules.clone())
}

/// Returns whether the first pool alone has every key that is asked for.
fn is_alone(layout: &Layout) -> bool {
    layout.pools[0].source.is_none() && layout.pools[0].stand_ins.is_empty()
}

/// Returns whether each server of the first pool holds every key that is asked for.
fn is_replicated(layout: &Layout) -> bool {
    layout.pools[0].rules.writes == Writes::All && is_alone(layout)
}

/// Kinds of requests.
#[derive(Clone, Debug)]
enum Ask {
    Get(Vec<u8>),
    Set(u8),
    Add(u8),
    Append(u8),
    Delete(u8),
}

/// One step of a story.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A client sends a request.
    Ask(usize, Asking),
    /// A thread sends a server what it has for it.
    Send(usize, usize),
    /// A server executes what has arrived from a thread.
    Work(usize, usize),
    /// A thread reads so many bytes of a server's replies.
    Reply(usize, usize, usize),
    /// The prober does its next step to bring back a server that is away.
    Return(usize),
    /// A server executes what has arrived over a connection that was given up.
    Haunt(usize),
    /// A server is late: a thread gives its connection up, and the server may still execute what it was sent.
    Late(usize, usize),
    /// A server stops, and starts again empty.
    Crash(usize),
    /// So much time goes by that what a thread has under way is late; the servers whose fault that is may be given up
    /// for it.
    Overdue(usize, bool),
}

/// A request without a number.
#[derive(Clone, Debug)]
pub(crate) struct Asking(Ask);

impl Event {
    /// Decodes an event from three bytes.
    pub(crate) fn from_bytes([what, who, how]: [u8; 3]) -> Self {
        let (server, thread) = (usize::from(who) % SERVERS, usize::from(who) / SERVERS % THREADS);
        match what % 25 {
            0..=6 => Self::Ask(usize::from(who) % CLIENTS, Asking::from_bytes(who / CLIENTS as u8, how)),
            7..=10 => Self::Send(server, thread),
            11..=13 => Self::Work(server, thread),
            14..=17 => Self::Reply(server, thread, 1 + usize::from(how) % 64),
            18..=20 => Self::Return(server),
            21 => Self::Haunt(server),
            22 => Self::Late(server, thread),
            23 => Self::Overdue(thread, how.is_multiple_of(2)),
            _ => Self::Crash(server),
        }
    }

    /// Returns whether this may lose data.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Self::Late(..) | Self::Crash(_) | Self::Overdue(..))
    }
}

impl Asking {
    /// Returns a request that stores something under a key.
    pub(crate) fn set(key: u8) -> Self {
        Self(Ask::Set(key))
    }

    fn from_bytes(what: u8, how: u8) -> Self {
        let key = how % KEYS;
        Self(match what % 8 {
            0..=2 => Ask::Get((0..=how / KEYS % 7).map(|i| (how ^ i.wrapping_mul(how | 5)) % KEYS).collect()),
            3..=4 => Ask::Set(key),
            5 => Ask::Add(key),
            6 => Ask::Append(key),
            _ => Ask::Delete(key),
        })
    }
}

/// A server's end of a connection.
#[derive(Default)]
struct Link {
    /// Commands that have arrived and are not executed yet.
    input: Vec<u8>,
    /// Replies that are not read yet.
    output: Vec<u8>,
}

/// A server that knows the commands of these clients, and those that bring values from one server to another.
#[derive(Default)]
struct Memcached {
    values: Values,
    links: [Link; THREADS],
    /// Connections that a thread gave up, with commands that may still be executed.
    given_up: Vec<Link>,
}

/// Contents of a server: data blocks with their line ends, by key.
pub(crate) type Values = HashMap<Vec<u8>, Vec<u8>>;

/// Executes what has arrived over a connection.
fn work(values: &mut Values, link: &mut Link) {
    while let Decoded::Request(request, end) = decode(&link.input, &LIMITS) {
        let input: Vec<u8> = link.input.drain(..end).collect();
        let (key, data) = (request.key.of(&input).to_vec(), request.data.of(&input).to_vec());
        let held = values.get(&key).cloned();
        let stored = match (request.verb, held) {
            (Verb::Get, _) => {
                request.key_spans(&input).for_each(|key| tell(values, key.of(&input), &mut link.output));
                link.output.extend(b"END\r\n");
                continue;
            }
            (Verb::MetaGet, Some(value)) => {
                link.output.extend(format!("VA {} f0 t-1\r\n", value.len() - 2).as_bytes());
                link.output.extend(value);
                continue;
            }
            (Verb::MetaGet, None) => {
                link.output.extend(b"EN\r\n");
                continue;
            }
            (Verb::MetaSet, held) => {
                assert!(input.windows(4).any(|words| words == b" ME\r"), "nothing may be overwritten");
                link.output.extend(if held.is_none() { b"HD\r\n" } else { b"NS\r\n" });
                values.entry(key).or_insert(data);
                continue;
            }
            (Verb::Delete, held) => {
                values.remove(&key);
                link.output.extend(if held.is_some() { &b"DELETED\r\n"[..] } else { b"NOT_FOUND\r\n" });
                continue;
            }
            (Verb::Set, _) | (Verb::Add, None) => data,
            (Verb::Append, Some(old)) => [&old[..old.len() - 2], &data].concat(),
            (Verb::Add | Verb::Append, _) => {
                link.output.extend(b"NOT_STORED\r\n");
                continue;
            }
            (verb, _) => panic!("{verb:?} was not sent by this test"),
        };
        values.insert(key, stored);
        link.output.extend(b"STORED\r\n");
    }
}

fn tell(values: &Values, key: &[u8], output: &mut Vec<u8>) {
    if let Some(value) = values.get(key) {
        let head = format!("VALUE {} 0 {}\r\n", String::from_utf8_lossy(key), value.len() - 2);
        output.extend([head.as_bytes(), value].concat());
    }
}

/// A client of the router.
#[derive(Default)]
struct Client {
    /// Requests without an answer, with their numbers.
    open: VecDeque<(Ask, u64)>,
    /// Requests that could not be taken yet.
    later: VecDeque<(Ask, u64)>,
    /// Bytes of answers that were not parsed yet.
    heard: Vec<u8>,
}

/// The order of requests as clients know it. Requests are numbered in the order of time.
#[derive(Default)]
struct History {
    /// For each answered request: the highest number that had been asked by then.
    answered_at: HashMap<u64, u64>,
    /// For each key: numbers of the sets and deletions that were answered as done.
    done: HashMap<u8, Vec<u64>>,
}

impl History {
    fn note(&mut self, ask: &Ask, number: u64, is_done: bool, now: u64) {
        self.answered_at.insert(number, now);
        if let (Ask::Set(key) | Ask::Delete(key), true) = (ask, is_done) {
            self.done.entry(*key).or_default().push(number);
        }
    }

    /// A value of a key, read by the request of this number: what it was begun with was not over when the last write
    /// began that was done before the read was asked.
    fn check(&self, key: u8, value: &str, read: u64) {
        let Some(begun_with) = writes(value).next() else { panic!("{value:?} is no value") };
        let over_at = self.answered_at.get(&begun_with).copied().unwrap_or(u64::MAX);
        for done in self.done.get(&key).into_iter().flatten() {
            let was_before_read = self.answered_at[done] < read;
            let is_stale = was_before_read && *done != begun_with && over_at < *done;
            assert!(!is_stale, "k{key}: request {read} read {value:?}, which {done} had replaced");
        }
    }
}

/// The numbers of the requests that a value is of: the one that stored it, and those that appended to it.
fn writes(value: &str) -> impl Iterator<Item = u64> {
    value.trim_end().split('k').skip(1).filter_map(|part| part.split('-').nth(1)?.parse().ok())
}

/// Router, clients, servers and the network between them.
pub(crate) struct World {
    pub(crate) fleet: Arc<Fleet>,
    routers: [Router; THREADS],
    servers: [Memcached; SERVERS],
    /// The clients, in the slots of their numbers; each belongs to one thread.
    clients: [Client; CLIENTS],
    history: History,
    /// Whether reads are checked against the history.
    has_history: bool,
    /// Whether servers are checked against each other.
    is_replicated: bool,
    next: u64,
    pub(crate) errors: usize,
}

impl World {
    pub(crate) fn new(layout: &Layout, ejection: Ejection) -> Self {
        let fleet = Arc::new(Fleet::new(layout, ejection).expect("addresses"));
        for server in &fleet.table().servers {
            server.dialect.note(b"VERSION 1.6.18\r\n");
        }
        let mut routers = [0, 1].map(|who| Router::new(Arc::clone(&fleet), who));
        for client in 0..CLIENTS {
            routers[client % THREADS].add_client(client, client as u64);
        }
        Self {
            fleet,
            routers,
            servers: Default::default(),
            clients: Default::default(),
            history: History::default(),
            has_history: is_alone(layout),
            is_replicated: is_replicated(layout),
            next: 0,
            errors: 0,
        }
    }

    /// Returns the contents of a server.
    pub(crate) fn values(&mut self, server: usize) -> &mut Values {
        &mut self.servers[server].values
    }

    /// Returns whether all servers hold the same.
    pub(crate) fn servers_are_equal(&self) -> bool {
        self.servers.iter().all(|server| server.values == self.servers[0].values)
    }

    pub(crate) fn happen(&mut self, event: &Event) {
        match event {
            Event::Ask(client, Asking(ask)) => {
                self.next += 1;
                self.clients[*client].later.push_back((ask.clone(), self.next));
            }
            Event::Send(server, thread) => self.send(*server, *thread),
            Event::Work(server, thread) => {
                let Memcached { values, links, .. } = &mut self.servers[*server];
                work(values, &mut links[*thread]);
            }
            Event::Reply(server, thread, bytes) => self.reply(*server, *thread, *bytes),
            Event::Return(server) => self.bring_back(*server),
            Event::Haunt(server) => {
                let Memcached { values, given_up, .. } = &mut self.servers[*server];
                given_up.iter_mut().for_each(|link| work(values, link));
            }
            Event::Late(server, thread) => self.give_up(*server, *thread, true),
            Event::Crash(server) => {
                self.servers[*server].values.clear();
                self.servers[*server].given_up.clear();
                (0..THREADS).for_each(|thread| self.give_up(*server, thread, false));
            }
            Event::Overdue(thread, gives_up) => self.let_time_pass(*thread, *gives_up),
        }
        (0..CLIENTS).for_each(|client| self.ask(client));
        (0..CLIENTS).for_each(|client| self.listen(client));
    }

    /// Puts another layout in force, and tells all threads.
    pub(crate) fn load(&mut self, layout: &Layout) {
        self.put_in_force(layout);
        (0..THREADS).for_each(|thread| self.adopt_table(thread));
    }

    /// Puts another layout in force, and tells no thread yet.
    pub(crate) fn put_in_force(&mut self, layout: &Layout) {
        let was_away =
            self.fleet.table().servers.iter().map(|server| server.health.is_away()).collect::<Vec<_>>();
        self.fleet.load(layout).expect("addresses");
        // Nobody answers the fleet itself: servers that it would have flushed first are flushed here.
        for server in (0..SERVERS).filter(|server| !was_away[*server]) {
            (0..4).for_each(|_| self.bring_back(server));
        }
        self.is_replicated &= is_replicated(layout);
        self.has_history &= self.is_replicated;
    }

    /// Has a thread take up the layout in force.
    pub(crate) fn adopt_table(&mut self, thread: usize) {
        self.routers[thread % THREADS].adopt_table();
    }

    /// Closes a client, and connects another in its place.
    pub(crate) fn leave(&mut self, client: usize) {
        let client = client % CLIENTS;
        let router = &mut self.routers[client % THREADS];
        router.remove_client(client);
        router.add_client(client, self.next);
        self.clients[client] = Client::default();
    }

    fn send(&mut self, server: usize, thread: usize) {
        let router = &mut self.routers[thread];
        let bytes = router.unsent(server).to_vec();
        router.sent(server, bytes.len());
        self.servers[server].links[thread].input.extend(bytes);
    }

    fn reply(&mut self, server: usize, thread: usize, bytes: usize) {
        let (router, output) = (&mut self.routers[thread], &mut self.servers[server].links[thread].output);
        let heard = bytes.min(output.len());
        let used = router.feed(server, &output[..heard]).expect("a server that speaks well");
        output.drain(..used);
        router.resume();
    }

    /// Gives up a thread's connection to a server; `is_there`: the server may still execute what it was sent.
    fn give_up(&mut self, server: usize, thread: usize, is_there: bool) {
        let link = std::mem::take(&mut self.servers[server].links[thread]);
        let router = &mut self.routers[thread];
        if router.expected(server) == 0 {
            return router.release_server(server);
        }
        // Any descriptor will do: nobody reads it here.
        let socket = UnixStream::pair().expect("two sockets").0.into();
        let _ = router.lose(server, Some(socket).filter(|_| is_there));
        if is_there {
            self.servers[server].given_up.push(link);
        }
    }

    fn let_time_pass(&mut self, thread: usize, gives_up: bool) {
        // The first look after so long spares everybody.
        let mut servers = Vec::new();
        for _ in 0..2 {
            self.routers.iter_mut().for_each(|router| router.now += LONG_NS);
            servers = self.routers[thread].give_up_overdue();
        }
        servers.retain(|_| gives_up);
        servers.into_iter().for_each(|server| self.give_up(server, thread, true));
    }

    /// Does one step of the prober, once every thread has closed what it does not use.
    fn bring_back(&mut self, server: usize) {
        let table = self.fleet.table();
        let health = &table.servers[server].health;
        if !health.is_away() {
            return;
        }
        for router in self.routers.iter_mut().filter(|router| router.expected(server) == 0) {
            router.release_server(server);
        }
        let memcached = &mut self.servers[server];
        match health.next_recovery_step() {
            RecoveryStep::DrainConnections(_) => {
                for mut link in memcached.given_up.drain(..) {
                    work(&mut memcached.values, &mut link);
                }
            }
            RecoveryStep::Delete(missed) => {
                missed.iter().for_each(|missed| drop(memcached.values.remove(&missed.key)));
            }
            RecoveryStep::Flush => memcached.values.clear(),
            RecoveryStep::Wait | RecoveryStep::Done => {}
        }
    }

    /// Has a client send its requests, as far as they are taken.
    fn ask(&mut self, client: usize) {
        let router = &mut self.routers[client % THREADS];
        let Client { open, later, .. } = &mut self.clients[client];
        while let Some((ask, number)) = later.front()
            && router.answers.may_ask(client)
        {
            let text = ask.text(*number);
            let Decoded::Request(request, _) = decode(text.as_bytes(), &LIMITS) else { panic!("{text}") };
            if router.ask(client, &request, text.as_bytes(), 0) == Admission::RetryLater {
                return;
            }
            open.extend(later.pop_front());
        }
    }

    /// Reads a client's answers, and checks each against its request.
    fn listen(&mut self, client: usize) {
        let answers = &mut self.routers[client % THREADS].answers;
        let Client { open, heard, .. } = &mut self.clients[client];
        let output = answers.unwritten(client);
        let bytes = output.len();
        heard.extend(output);
        answers.written(client, bytes);
        while let Some(line_end) = heard.windows(2).position(|two| two == b"\r\n") {
            let line = String::from_utf8(heard.drain(..line_end + 2).collect()).expect("text");
            let (ask, number) = open.front_mut().unwrap_or_else(|| panic!("{line:?} was not asked for"));
            self.errors += usize::from(line.starts_with("SERVER_ERROR"));
            if line.starts_with("VALUE ") {
                let (key, value) = ask.take_value(&line, heard);
                let number = *number;
                if self.has_history {
                    self.history.check(key, &value, number);
                }
                let is_of_later = |write: u64| open.iter().skip(1).any(|(_, later)| *later == write);
                assert!(
                    !writes(&value).any(is_of_later),
                    "request {number} read {value:?}, of a later request"
                );
            } else {
                let is_done = ask.is_answered(&line);
                self.history.note(ask, *number, is_done, self.next);
                open.pop_front();
            }
        }
    }

    /// Lets everything under way end, and checks what is left.
    pub(crate) fn finish(&mut self) {
        for _ in 0..400 {
            if self.is_quiet() {
                break;
            }
            // A key that was left to a thread which no longer wants it is free by then.
            self.routers.iter_mut().for_each(|router| router.now += LATER_NS);
            for server in 0..SERVERS {
                for thread in 0..THREADS {
                    self.happen(&Event::Send(server, thread));
                    self.happen(&Event::Work(server, thread));
                    self.happen(&Event::Reply(server, thread, 10_000));
                }
                self.happen(&Event::Return(server));
            }
        }
        for client in &self.clients {
            let (open, later) = (&client.open, &client.later);
            assert!(open.is_empty() && later.is_empty(), "not answered: {open:?} {later:?}");
            assert!(client.heard.is_empty(), "said without being asked");
        }
        let held: usize = self.routers.iter().map(|router| router.answers.held()).sum();
        assert_eq!(held, 0, "bytes are counted that nobody holds");
        assert!(self.is_quiet(), "somebody is still away, or owes a reply");
        if self.has_history {
            self.check_contents();
        }
        if self.is_replicated {
            self.check_replicas();
        }
    }

    /// Returns whether nothing is under way and no server is away.
    fn is_quiet(&self) -> bool {
        let idle = |client: &Client| client.open.is_empty() && client.later.is_empty();
        let owes = |router: &Router| (0..SERVERS).any(|server| router.expected(server) > 0);
        let table = self.fleet.table();
        let all_there = table.servers.iter().all(|server| !server.health.is_away());
        self.clients.iter().all(idle) && !self.routers.iter().any(owes) && all_there
    }

    /// Checks that no server has what was replaced.
    fn check_contents(&self) {
        for (key, value) in self.servers.iter().flat_map(|server| &server.values) {
            self.history.check(key[1] - b'0', &String::from_utf8_lossy(value), u64::MAX);
        }
    }

    /// Checks replicas: one may have forgotten a key, but what it has is what the others have.
    fn check_replicas(&self) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for one in &self.servers {
            for (key, value) in &one.values {
                for other in self.servers.iter().filter_map(|other| other.values.get(key)) {
                    assert_eq!(value, other, "{}: {} and {}", text(key), text(value), text(other));
                }
            }
        }
    }
}

impl Ask {
    /// Returns the request as it is sent; its value names key and request.
    fn text(&self, number: u64) -> String {
        let store = |verb: &str, key: u8| {
            let value = format!("k{key}-{number}");
            format!("{verb} k{key} 0 0 {}\r\n{value}\r\n", value.len())
        };
        match self {
            Self::Get(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
                format!("get {}\r\n", keys.join(" "))
            }
            Self::Set(key) => store("set", *key),
            Self::Add(key) => store("add", *key),
            Self::Append(key) => store("append", *key),
            Self::Delete(key) => format!("delete k{key}\r\n"),
        }
    }

    /// Takes a value whose first line is `line` from `rest`: its key, and what it is.
    fn take_value(&mut self, line: &str, rest: &mut Vec<u8>) -> (u8, String) {
        let Self::Get(keys) = self else { panic!("{line:?} answers {self:?}") };
        let key = line.split(' ').nth(1).expect("a key");
        let place = keys.iter().position(|asked| format!("k{asked}") == key);
        let Some(place) = place else { panic!("{line:?} answers {keys:?}") };
        let number = keys[place];
        // Keys before it were missed; each may come once more for each time it was asked.
        keys.drain(..=place);
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("values come whole");
        let value = String::from_utf8(rest.drain(..end + 2).collect()).expect("text");
        assert!(value.starts_with(&format!("{key}-")), "{line:?} with {value:?}");
        (number, value)
    }

    /// Checks the last line of an answer. Returns whether it says that the request was done.
    fn is_answered(&self, line: &str) -> bool {
        if line.starts_with("SERVER_ERROR") {
            return false;
        }
        let fits: &[&str] = match self {
            Self::Get(_) => &["END"],
            Self::Set(_) => &["STORED"],
            Self::Add(_) | Self::Append(_) => &["STORED", "NOT_STORED"],
            Self::Delete(_) => &["DELETED", "NOT_FOUND"],
        };
        assert!(fits.contains(&line.trim_end()), "{line:?} answers {self:?}");
        true
    }
}
