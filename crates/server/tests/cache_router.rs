//! The router without sockets: whatever order replies come in, however they are cut, and whichever server is lost, every
//! request is answered once, in its client's order, and with nothing that belongs to another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::layout::{Fallback, Layout, PoolPlan, Seat, Source};
use posthaste_server::cache::router::{Asked, Router};
use posthaste_server::cache::rules::{Multiget, Reads, Rules, Writes};
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use posthaste_wire::memcached::request::Verb;
use proptest::prelude::*;

const CLIENTS: usize = 3;
const SERVERS: [&str; 3] = ["10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"];
const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };

/// A server that knows `get`, `set`, `add`, `delete`, and what values are brought from one pool to another by.
#[derive(Default)]
struct Memcached {
    values: HashMap<Vec<u8>, Vec<u8>>,
    input: Vec<u8>,
    /// What it has said and the router has not read.
    output: Vec<u8>,
}

impl Memcached {
    fn work(&mut self) {
        while let Decoded::Request(request, end) = decode(&self.input, &LIMITS) {
            let input: Vec<u8> = self.input.drain(..end).collect();
            let key = request.key.of(&input).to_vec();
            let data = request.data.of(&input).to_vec();
            match request.verb {
                Verb::Get => {
                    for span in request.key_spans(&input) {
                        let key = span.of(&input);
                        if let Some(value) = self.values.get(key) {
                            let head =
                                format!("VALUE {} 0 {}\r\n", String::from_utf8_lossy(key), value.len() - 2);
                            self.output.extend([head.as_bytes(), value].concat());
                        }
                    }
                    self.output.extend(b"END\r\n");
                }
                Verb::Set => {
                    self.values.insert(key, data);
                    self.output.extend(b"STORED\r\n");
                }
                Verb::Add if self.values.contains_key(&key) => self.output.extend(b"NOT_STORED\r\n"),
                Verb::Add => {
                    self.values.insert(key, data);
                    self.output.extend(b"STORED\r\n");
                }
                Verb::Delete => {
                    let found = self.values.remove(&key).is_some();
                    self.output.extend(if found { &b"DELETED\r\n"[..] } else { b"NOT_FOUND\r\n" });
                }
                Verb::MetaGet => match self.values.get(&key) {
                    Some(value) => {
                        let head = format!("VA {} f0 t-1\r\n", value.len() - 2);
                        self.output.extend([head.as_bytes(), value].concat());
                    }
                    None => self.output.extend(b"EN\r\n"),
                },
                Verb::MetaSet => {
                    assert!(input.windows(4).any(|words| words == b" ME\r"), "nothing may be overwritten");
                    let is_new = !self.values.contains_key(&key);
                    self.values.entry(key).or_insert(data);
                    self.output.extend(if is_new { b"HD\r\n" } else { b"NS\r\n" });
                }
                verb => panic!("{verb:?} was not sent by this test"),
            }
        }
    }
}

/// What a client does.
#[derive(Clone, Debug)]
enum Ask {
    Get(Vec<u8>),
    Set(u8),
    Add(u8),
    Delete(u8),
}

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    Ask(usize, Ask),
    /// The server reads what it was sent.
    Send(usize),
    /// The router reads so many bytes of what the server said.
    Reply(usize, usize),
    Lose(usize),
}

fn asks() -> impl Strategy<Value = Ask> {
    prop_oneof![
        3 => prop::collection::vec(0..6_u8, 1..8).prop_map(Ask::Get),
        3 => (0..6_u8).prop_map(Ask::Set),
        1 => (0..6_u8).prop_map(Ask::Add),
        1 => (0..6_u8).prop_map(Ask::Delete),
    ]
}

fn events(losses: u32) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..CLIENTS, asks()).prop_map(|(client, ask)| Event::Ask(client, ask)),
        6 => (0..3_usize).prop_map(Event::Send),
        8 => (0..3_usize, 1..60_usize).prop_map(|(server, bytes)| Event::Reply(server, bytes)),
        losses => (0..3_usize).prop_map(Event::Lose),
    ];
    prop::collection::vec(event, 1..150)
}

/// Rules of a pool, and whether servers that are lost leave.
fn rules() -> impl Strategy<Value = (Rules, bool)> {
    let spread = prop_oneof![
        Just((Writes::All, Reads::RoundRobin)),
        Just((Writes::All, Reads::Nearest)),
        Just((Writes::Owner, Reads::Owner)),
    ];
    let multiget = prop_oneof![Just(Multiget::Whole), Just(Multiget::Split), Just(Multiget::Auto)];
    (spread, multiget, any::<bool>()).prop_map(|((writes, reads), multiget, eject)| {
        (Rules { writes, reads, multiget, ..Rules::default() }, eject)
    })
}

/// One pool by these rules.
fn one_pool(rules: &Rules) -> Layout {
    Layout::of_one_pool(SERVERS.map(Seat::of).into(), rules.clone())
}

/// Two servers that share keys, and the third behind them in this way.
fn two_pools(source: Option<Source>, fallbacks: Vec<Fallback>) -> Layout {
    let rules = Rules { writes: Writes::Owner, reads: Reads::Owner, ..Rules::default() };
    let mut layout =
        Layout::of_one_pool(SERVERS[..2].iter().map(|name| Seat::of(name)).collect(), rules.clone());
    (layout.pools[0].source, layout.pools[0].fallbacks) = (source, fallbacks);
    let seats = vec![Seat::of(SERVERS[2])];
    let name = "second".to_owned();
    layout.pools.push(PoolPlan {
        name,
        seats,
        rules,
        fallbacks: Vec::new(),
        failover_limit: None,
        source: None,
    });
    layout
}

fn two_pools_of_any_kind() -> impl Strategy<Value = Layout> {
    let expiry = Some(Duration::from_secs(5));
    prop_oneof![
        Just(two_pools(Some(Source::Below(1)), Vec::new())),
        Just(two_pools(Some(Source::Old(1)), Vec::new())),
        Just(two_pools(None, vec![Fallback { pool: 1, expiry }])),
        Just(two_pools(None, vec![Fallback { pool: 1, expiry: None }])),
    ]
}

/// Clients, a router and three servers.
struct World {
    fleet: Arc<Fleet>,
    router: Router,
    servers: [Memcached; 3],
    /// What each client asked and was not answered yet, with the request's number.
    open: [Vec<(Ask, u64)>; CLIENTS],
    /// Requests that could not be taken yet.
    later: [Vec<(Ask, u64)>; CLIENTS],
    /// What each client got and has not understood yet.
    heard: [Vec<u8>; CLIENTS],
    next: u64,
    errors: usize,
}

impl World {
    fn new(layout: &Layout, eject: bool) -> Self {
        let fleet = Arc::new(Fleet::new(layout, eject).expect("addresses"));
        let mut router = Router::new(Arc::clone(&fleet), 0);
        (0..CLIENTS).for_each(|client| router.enter(client, client as u64));
        let (open, later) = (Default::default(), Default::default());
        let servers = Default::default();
        Self { fleet, router, servers, open, later, heard: Default::default(), next: 0, errors: 0 }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Ask(client, ask) => {
                self.next += 1;
                self.later[*client].push((ask.clone(), self.next));
                self.ask(*client);
            }
            Event::Send(server) => {
                let bytes = self.router.unsent(*server).to_vec();
                self.router.sent(*server, bytes.len());
                self.servers[*server].input.extend(bytes);
                self.servers[*server].work();
            }
            Event::Reply(server, bytes) => {
                let output = &mut self.servers[*server].output;
                let heard = (*bytes).min(output.len());
                let used = self.router.feed(*server, &output[..heard]).expect("a server that speaks well");
                output.drain(..used);
            }
            Event::Lose(server) => {
                self.router.lose(*server, None);
                // What it has not read is lost with the connection; what it did, it did.
                self.servers[*server].input.clear();
                self.servers[*server].output.clear();
            }
        }
        (0..CLIENTS).for_each(|client| self.ask(client));
        self.listen();
    }

    /// A client asks what it has to ask, as far as it is let.
    fn ask(&mut self, client: usize) {
        while let Some((ask, number)) = self.later[client].first().cloned()
            && self.router.answers.may_ask(client)
        {
            let text = match &ask {
                Ask::Get(keys) => {
                    format!(
                        "get {}\r\n",
                        keys.iter().map(|key| format!("k{key}")).collect::<Vec<_>>().join(" ")
                    )
                }
                Ask::Set(key) => {
                    let value = format!("k{key}-{number}");
                    format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len())
                }
                Ask::Add(key) => {
                    let value = format!("k{key}-{number}");
                    format!("add k{key} 0 0 {}\r\n{value}\r\n", value.len())
                }
                Ask::Delete(key) => format!("delete k{key}\r\n"),
            };
            let Decoded::Request(request, _) = decode(text.as_bytes(), &LIMITS) else { panic!("{text}") };
            if self.router.ask(client, &request, text.as_bytes(), 0) == Asked::Later {
                return;
            }
            self.later[client].remove(0);
            self.open[client].push((ask, number));
        }
    }

    /// Reads what clients were answered, and checks each answer against the request it must belong to.
    fn listen(&mut self) {
        for client in 0..CLIENTS {
            let output = self.router.answers.unwritten(client).to_vec();
            self.heard[client].extend(&output);
            self.router.answers.written(client, output.len());
            self.router.answers.keep_output(client);
            while let Some(line_end) = self.heard[client].windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8(self.heard[client][..line_end].to_vec()).unwrap();
                let (ask, number) = self.open[client].first().cloned().expect("nothing was asked");
                self.heard[client].drain(..line_end + 2);
                if !self.fits(client, &ask, number, &line) {
                    continue;
                }
                self.open[client].remove(0);
            }
        }
    }

    /// Checks one line of an answer; true when the answer ends with it.
    fn fits(&mut self, client: usize, ask: &Ask, number: u64, line: &str) -> bool {
        if line.starts_with("SERVER_ERROR") {
            self.errors += 1;
            return true;
        }
        match ask {
            Ask::Get(keys) if line.starts_with("VALUE ") => {
                let key = line.split(' ').nth(1).unwrap().to_owned();
                let Some(place) = keys.iter().position(|asked| format!("k{asked}") == key) else {
                    panic!("{line} answers {ask:?}");
                };
                // Keys before it were missed; each may come once more for each time it was asked.
                self.open[client][0] = (Ask::Get(keys[place + 1..].to_vec()), number);
                let value_end = self.heard[client].windows(2).position(|two| two == b"\r\n").unwrap();
                let value: Vec<u8> = self.heard[client].drain(..value_end + 2).collect();
                assert!(value.starts_with(format!("{key}-").as_bytes()), "{line} with {value:?}");
                false
            }
            Ask::Get(_) => {
                assert_eq!(line, "END");
                true
            }
            Ask::Set(_) => {
                assert_eq!(line, "STORED");
                true
            }
            Ask::Add(_) => {
                assert!(["STORED", "NOT_STORED"].contains(&line), "{line}");
                true
            }
            Ask::Delete(_) => {
                assert!(["DELETED", "NOT_FOUND"].contains(&line), "{line}");
                true
            }
        }
    }

    /// Lets everything that is under way come to its end.
    fn finish(&mut self) {
        for _ in 0..2000 {
            (0..3).for_each(|server| self.happen(&Event::Send(server)));
            (0..3).for_each(|server| self.happen(&Event::Reply(server, 10_000)));
        }
        let open: usize = self.open.iter().chain(&self.later).map(Vec::len).sum();
        assert_eq!(open, 0, "not answered: {:?} {:?}", self.open, self.later);
        assert!(self.heard.iter().all(Vec::is_empty), "said without being asked");
        assert_eq!(self.router.answers.held(), 0, "bytes are counted that nobody holds");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_request_is_answered_once_in_order_by_what_belongs_to_it(rules in rules(), events in events(0)) {
        let mut world = World::new(&one_pool(&rules.0), rules.1);
        events.iter().for_each(|event| world.happen(event));
        world.finish();
        prop_assert_eq!(world.errors, 0);
        if rules.0.writes == Writes::All {
            prop_assert_eq!(&world.servers[0].values, &world.servers[1].values);
            prop_assert_eq!(&world.servers[0].values, &world.servers[2].values);
        }
    }

    #[test]
    fn whatever_is_lost_each_request_has_one_answer(rules in rules(), events in events(1)) {
        let mut world = World::new(&one_pool(&rules.0), rules.1);
        events.iter().for_each(|event| world.happen(event));
        world.finish();
        let table = world.fleet.table();
        if rules.1 && rules.0.writes == Writes::All && table.live() > 0 {
            let live: Vec<usize> = (0..3).filter(|server| table.servers[*server].health.is_live()).collect();
            for server in &live {
                prop_assert_eq!(&world.servers[live[0]].values, &world.servers[*server].values);
            }
        }
    }

    #[test]
    fn two_pools_of_a_key_are_of_one_mind_when_all_is_done(events in events(0)) {
        let mut world = World::new(&two_pools(Some(Source::Below(1)), Vec::new()), true);
        events.iter().for_each(|event| world.happen(event));
        world.finish();
        prop_assert_eq!(world.errors, 0);
        let below = &world.servers[2].values;
        for (key, value) in world.servers[..2].iter().flat_map(|server| &server.values) {
            prop_assert_eq!(below.get(key), Some(value), "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn a_key_that_was_written_is_not_in_the_old_pool(events in events(0)) {
        let mut world = World::new(&two_pools(Some(Source::Old(1)), Vec::new()), true);
        (0..6).for_each(|key| {
            let (name, value) = (format!("k{key}"), format!("k{key}-0\r\n"));
            world.servers[2].values.insert(name.into_bytes(), value.into_bytes());
        });
        events.iter().for_each(|event| world.happen(event));
        world.finish();
        prop_assert_eq!(world.errors, 0);
        for (key, value) in world.servers[..2].iter().flat_map(|server| &server.values) {
            let old = world.servers[2].values.get(key);
            prop_assert!(old.is_none() || old == Some(value), "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn with_two_pools_too_each_request_has_one_answer_whatever_is_lost(
        layout in two_pools_of_any_kind(),
        eject in any::<bool>(),
        events in events(1),
    ) {
        let mut world = World::new(&layout, eject);
        events.iter().for_each(|event| world.happen(event));
        world.finish();
    }

    #[test]
    fn requests_go_on_by_the_table_that_they_began_with(
        layout in two_pools_of_any_kind(),
        events in events(1),
        at in 0..150_usize,
    ) {
        let mut world = World::new(&one_pool(&Rules::default()), true);
        for (i, event) in events.iter().enumerate() {
            if i == at {
                world.fleet.load(&layout).expect("addresses");
                world.router.take_up();
            }
            world.happen(event);
        }
        world.finish();
    }

    #[test]
    fn a_client_that_leaves_disturbs_nobody(rules in rules(), events in events(1), at in 0..150_usize) {
        let mut world = World::new(&one_pool(&rules.0), rules.1);
        for (i, event) in events.iter().enumerate() {
            if i == at {
                world.router.leave(1);
                world.router.enter(1, CLIENTS as u64);
                world.open[1].clear();
                world.later[1].clear();
                world.heard[1].clear();
            }
            world.happen(event);
        }
        world.finish();
    }
}
