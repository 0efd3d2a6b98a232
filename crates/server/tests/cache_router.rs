//! The router without sockets: whatever order replies come in, however they are cut, and whichever server is lost, every
//! request is answered once, in its client's order, and with nothing that belongs to another.

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_server::cache::placement::Hash;
use posthaste_server::cache::pool::{Multiget, Pool, Reads, Rules, Writes};
use posthaste_server::cache::router::{Asked, Router};
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use posthaste_wire::memcached::request::Verb;
use proptest::prelude::*;

const CLIENTS: usize = 3;
const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };

/// A server that knows `get`, `set`, `add`, `incr` and `delete`.
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

fn rules() -> impl Strategy<Value = Rules> {
    let spread = prop_oneof![
        Just((Writes::All, Reads::RoundRobin)),
        Just((Writes::All, Reads::Nearest)),
        Just((Writes::Owner, Reads::Owner)),
    ];
    let multiget = prop_oneof![Just(Multiget::Whole), Just(Multiget::Split), Just(Multiget::Auto)];
    (spread, multiget, any::<bool>()).prop_map(|((writes, reads), multiget, eject)| Rules {
        writes,
        reads,
        multiget,
        hash: Hash::Ketama,
        eject,
        flush_all: true,
        mock: None,
    })
}

/// Clients, a router and three servers.
struct World {
    pool: Arc<Pool>,
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
    fn new(rules: Rules) -> Self {
        let names = (1..=3).map(|i| format!("10.0.0.{i}:11211")).collect();
        let pool = Arc::new(Pool::new(names, rules));
        let mut router = Router::new(Arc::clone(&pool), 0);
        (0..CLIENTS).for_each(|client| router.enter(client));
        let (open, later) = (Default::default(), Default::default());
        let servers = Default::default();
        Self { pool, router, servers, open, later, heard: Default::default(), next: 0, errors: 0 }
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
        let mut world = World::new(rules);
        events.iter().for_each(|event| world.happen(event));
        world.finish();
        prop_assert_eq!(world.errors, 0);
        if rules.writes == Writes::All {
            prop_assert_eq!(&world.servers[0].values, &world.servers[1].values);
            prop_assert_eq!(&world.servers[0].values, &world.servers[2].values);
        }
    }

    #[test]
    fn whatever_is_lost_each_request_has_one_answer(rules in rules(), events in events(1)) {
        let mut world = World::new(rules);
        events.iter().for_each(|event| world.happen(event));
        world.finish();
        if rules.eject && rules.writes == Writes::All && world.pool.health.live() > 0 {
            let live: Vec<usize> = (0..3).filter(|server| world.pool.health.is_live(*server)).collect();
            for server in &live {
                prop_assert_eq!(&world.servers[live[0]].values, &world.servers[*server].values);
            }
        }
    }

    #[test]
    fn a_client_that_leaves_disturbs_nobody(rules in rules(), events in events(1), at in 0..150_usize) {
        let mut world = World::new(rules);
        for (i, event) in events.iter().enumerate() {
            if i == at {
                world.router.leave(1);
                world.router.enter(1);
                world.open[1].clear();
                world.later[1].clear();
                world.heard[1].clear();
            }
            world.happen(event);
        }
        world.finish();
    }
}
