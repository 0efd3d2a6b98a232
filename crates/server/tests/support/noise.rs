//! A router between peers of which none can be trusted: any bytes from clients, any bytes from servers, connections
//! that end at any time.
//!
//! What is checked: nothing panics; when all clients are gone and all connections given up, nothing is held, no key is
//! claimed, and every server comes back.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::sync::Arc;
use std::time::Duration;

use posthaste_server::cache::claims::ClaimMode;
use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{
    Layout, MemberPlan, PoolPlan, RoutePlan, ShadowPlan, Source, StandInPlan,
};
use posthaste_server::cache::missed_writes::RecoveryStep;
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::{Answer, GetErrors, Multiget, ReadRepair, Reads, Rules, Writes};
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const NAMES: [&str; 4] = ["10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211", "10.0.0.4:11211"];
const SERVERS: usize = NAMES.len();
const CLIENTS: usize = 2;
const LIMITS: Limits = Limits { value_bytes: 100, line_bytes: 2000 };

/// Number of claims in a fleet.
const CLAIMS: u64 = 8192;

/// Replies that servers send, whether they fit the command or not.
const REPLIES: [&[u8]; 19] = [
    b"STORED\r\n",
    b"NOT_STORED\r\n",
    b"EXISTS\r\n",
    b"NOT_FOUND\r\n",
    b"DELETED\r\n",
    b"TOUCHED\r\n",
    b"OK\r\n",
    b"END\r\n",
    b"VALUE a 0 1\r\nx\r\n",
    b"VALUE b 0 2\r\n\r\n\r\n",
    b"7\r\n",
    b"HD\r\n",
    b"EN\r\n",
    b"NS\r\n",
    b"MN\r\n",
    b"VA 1 f5 t-1\r\nx\r\n",
    b"VA 1 kYQ== b t9 c7\r\nx\r\n",
    b"SERVER_ERROR out of memory\r\n",
    b"ERROR\r\n",
];

/// Returns pools and routes of every kind, chosen by two bytes: three servers under the empty prefix, one under
/// another.
fn layout(first: u8, second: u8) -> Layout {
    let shares = first & 1 == 1;
    let (writes, reads) =
        if shares { (Writes::Owner, Reads::Owner) } else { (Writes::All, Reads::RoundRobin) };
    let answers = [Answer::All, Answer::Any, Answer::Majority, Answer::First, Answer::None, Answer::Count(2)];
    let rules = Rules {
        writes,
        reads,
        multiget: [Multiget::Whole, Multiget::Split, Multiget::Auto][usize::from(first >> 1) % 3],
        answer: if shares { Answer::All } else { answers[usize::from(first >> 3) % answers.len()] },
        read_repair: [ReadRepair::AfterLoss, ReadRepair::Always][usize::from(first >> 7)],
        get_errors: [GetErrors::Error, GetErrors::Miss][usize::from(second >> 7)],
        ..Rules::default()
    };
    let members = NAMES[..3].iter().map(|name| MemberPlan::of(name)).collect();
    let mut layout = Layout::of_one_pool(members, rules);
    let pool = &mut layout.pools[0];
    match second % 5 {
        0 => pool.source = Some(Source::Below(1)),
        1 => pool.source = Some(Source::Old(1)),
        2 => pool.stand_ins.push(StandInPlan { pool: 1, expiry: Some(Duration::from_secs(5)) }),
        3 => pool.stand_ins.push(StandInPlan { pool: 1, expiry: None }),
        _ => {}
    }
    layout.pools.push(PoolPlan {
        name: "second".to_owned(),
        members: vec![MemberPlan::of(NAMES[3])],
        ..PoolPlan::default()
    });
    let strip = second & 64 != 0;
    let add_prefix = if second & 16 != 0 { b"z".to_vec() } else { Vec::new() };
    layout.routes.push(RoutePlan {
        prefix: b"a".to_vec(),
        strip,
        add_prefix,
        pool: 1,
        ..RoutePlan::default()
    });
    if second & 128 != 0 {
        layout.routes[0].shadow = Some(ShadowPlan { pool: 1, share: 0.5 });
    }
    layout
}

/// A client's end of a connection to the tier.
#[derive(Default)]
struct Client {
    /// Bytes that were not parsed yet.
    input: Vec<u8>,
    /// Number of bytes to skip, which belong to a refused request.
    swallow: usize,
}

struct Noise {
    layout: Layout,
    fleet: Arc<Fleet>,
    router: Router,
    clients: [Client; CLIENTS],
    /// For each server: bytes of replies that were not parsed yet.
    said: [Vec<u8>; SERVERS],
    entered: u64,
}

/// Does what these bytes say: two that choose the pools; then steps of two bytes, the second the length of what is said
/// in it, and that.
pub(crate) fn make(data: &[u8]) {
    let [first, second, rest @ ..] = data else { return };
    let ejection = if second & 32 == 0 { Ejection::OnLoss } else { Ejection::Never };
    let mut noise = Noise::new(layout(*first, *second), ejection);
    let mut rest = rest;
    while let [what, how, behind @ ..] = rest {
        let speaks = matches!(what % 8, 0 | 1 | 5);
        let (bytes, behind) = behind.split_at(if speaks { usize::from(*how).min(behind.len()) } else { 0 });
        noise.happen(*what, *how, bytes);
        rest = behind;
    }
    noise.finish();
}

impl Noise {
    fn new(layout: Layout, ejection: Ejection) -> Self {
        let fleet = Arc::new(Fleet::new(&layout, ejection).expect("addresses"));
        for server in &fleet.table().servers {
            server.dialect.note(b"VERSION 1.6.18\r\n");
        }
        let mut router = Router::new(Arc::clone(&fleet), 0);
        (0..CLIENTS).for_each(|client| router.add_client(client, 0));
        let (clients, said) = (Default::default(), Default::default());
        Self { layout, fleet, router, clients, said, entered: 0 }
    }

    fn happen(&mut self, what: u8, how: u8, bytes: &[u8]) {
        self.router.now += 1000;
        let who = usize::from(what / 8);
        match what % 8 {
            0 | 1 => self.clients[who % CLIENTS].input.extend_from_slice(bytes),
            2..=4 => self.reply(who % SERVERS, REPLIES[usize::from(how) % REPLIES.len()]),
            5 => self.reply(who % SERVERS, bytes),
            6 if how < 16 => self.leave(who % CLIENTS),
            6 if how < 32 => {
                self.fleet.load(&self.layout).expect("addresses");
                self.router.adopt_table();
            }
            6 => self.lose(who % SERVERS),
            _ => self.bring_back(who % SERVERS),
        }
        (0..CLIENTS).for_each(|client| self.serve(client));
        for server in 0..SERVERS {
            let bytes = self.router.unsent(server).len();
            self.router.sent(server, bytes);
        }
        self.router.stamp_sent(self.router.now);
        for client in 0..CLIENTS {
            let bytes = self.router.answers.unwritten(client).len();
            self.router.answers.written(client, bytes);
        }
        self.router.finished.clear();
        self.router.resume();
    }

    /// Hands on what a client has sent, as a network thread does.
    fn serve(&mut self, client: usize) {
        while self.router.answers.may_ask(client) {
            let (router, Client { input, swallow }) = (&mut self.router, &mut self.clients[client]);
            let swallowed = (*swallow).min(input.len());
            *swallow -= swallowed;
            input.drain(..swallowed);
            let now = router.now;
            let end = match decode(input, &LIMITS) {
                Decoded::Request(request, end) => match router.ask(client, &request, &input[..end], now) {
                    Admission::Accepted => end,
                    Admission::RetryLater => return,
                    Admission::Quit => return self.leave(client),
                },
                Decoded::NeedLineEnd | Decoded::NeedBytes(_) => return,
                Decoded::Refused { answer, end, swallow: rest } => {
                    router.answer_unparsed(client, answer.unwrap_or_default(), end, now);
                    *swallow = rest;
                    end
                }
                Decoded::TooLarge { request, end, swallow: rest } => {
                    if router.refuse_too_large(client, &request, input, now) == Admission::RetryLater {
                        return;
                    }
                    *swallow = rest;
                    end
                }
                Decoded::Close { .. } => return self.leave(client),
            };
            input.drain(..end);
        }
    }

    /// Closes a client, and connects another in its place.
    fn leave(&mut self, client: usize) {
        self.entered += 1;
        self.clients[client] = Client::default();
        self.router.remove_client(client);
        self.router.add_client(client, self.entered);
    }

    fn reply(&mut self, server: usize, bytes: &[u8]) {
        self.said[server].extend_from_slice(bytes);
        match self.router.feed(server, &self.said[server]) {
            Ok(used) => drop(self.said[server].drain(..used)),
            Err(_) => self.lose(server),
        }
    }

    fn lose(&mut self, server: usize) {
        self.said[server].clear();
        if self.router.expected(server) == 0 {
            self.router.release_server(server);
        } else {
            let _ = self.router.lose(server, None);
        }
    }

    fn bring_back(&mut self, server: usize) {
        if self.router.expected(server) == 0 {
            self.router.release_server(server);
        }
        let table = self.fleet.table();
        let health = &table.servers[server].health;
        if health.is_away() {
            let step = health.next_recovery_step();
            assert!(!matches!(step, RecoveryStep::DrainConnections(_)), "no connection was left to be read");
        }
    }

    fn finish(&mut self) {
        (0..CLIENTS).for_each(|client| self.leave(client));
        self.router.resume();
        // What is lost may be asked of others, which are lost next.
        for _ in 0..=SERVERS {
            (0..SERVERS).for_each(|server| self.lose(server));
        }
        for server in 0..SERVERS {
            assert_eq!(self.router.expected(server), 0, "{server} owes a reply");
            (0..4).for_each(|_| self.bring_back(server));
            assert!(!self.fleet.table().servers[server].health.is_away(), "{server} stays away");
        }
        assert_eq!(self.router.answers.held(), 0, "bytes are counted that nobody holds");
        let free =
            |hash: u64| self.fleet.claims.claim(hash, 1, ClaimMode::Exclusive, self.router.now).is_some();
        assert!((0..CLAIMS).all(free), "a key is claimed by nobody");
    }
}
