//! A router with one client, whose servers say what the test says.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::sync::Arc;

use posthaste_server::cache::admin_state::AdminState;
use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan, PoolPlan};
use posthaste_server::cache::missed_writes::{MissedKey, RecoveryStep};
use posthaste_server::cache::router::{Admission, Router};
use posthaste_server::cache::rules::Rules;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };

/// A pool of one server, number 0, and a second pool of the others, in which no replica is looked up for another.
pub(crate) fn two_pools(others: u16) -> Layout {
    let member = |number: u16| MemberPlan::of(&format!("127.0.0.1:{}", number + 1));
    let mut layout = Layout::of_one_pool(vec![member(0)], Rules::default());
    layout.pools.push(PoolPlan {
        name: "second".to_owned(),
        members: (1..=others).map(member).collect(),
        ..PoolPlan::default()
    });
    layout
}

/// A router with one client.
pub(crate) struct Scene {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) router: Router,
}

impl Scene {
    pub(crate) fn new(layout: &Layout) -> Self {
        let scene = Self::untold(layout);
        (0..scene.router.servers().len()).for_each(|server| scene.tell_version(server, "1.6.18"));
        scene
    }

    /// Creates a scene with servers that have not told their versions.
    pub(crate) fn untold(layout: &Layout) -> Self {
        let fleet = Arc::new(Fleet::new(layout, Ejection::OnLoss).expect("addresses"));
        let mut router = Router::new(Arc::clone(&fleet), 0);
        router.add_client(0, 1);
        Self { fleet, router }
    }

    pub(crate) fn tell_version(&self, server: usize, version: &str) {
        self.router.servers()[server].dialect.note(format!("VERSION {version}\r\n").as_bytes());
    }

    pub(crate) fn ask(&mut self, text: &str) {
        assert_eq!(self.try_ask(text), Admission::Accepted);
    }

    pub(crate) fn try_ask(&mut self, text: &str) -> Admission {
        self.try_ask_as(0, text)
    }

    /// Has the client announce a value that is too large.
    pub(crate) fn ask_too_large(&mut self, text: &str) {
        assert_eq!(self.try_ask_too_large(text), Admission::Accepted);
    }

    pub(crate) fn try_ask_too_large(&mut self, text: &str) -> Admission {
        let Decoded::TooLarge { request, .. } = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
        self.router.refuse_too_large(0, &request, text.as_bytes(), self.router.now)
    }

    /// Has another client, which must be connected, send a request.
    pub(crate) fn try_ask_as(&mut self, client: usize, text: &str) -> Admission {
        let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
        self.router.ask(client, &request, &text.as_bytes()[..end], self.router.now)
    }

    /// Has a request that could not be taken, and was received at this time, tried again unless it is late.
    pub(crate) fn retry(&mut self, text: &str, received: u64) -> Admission {
        let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
        self.router.retry_unless_late(0, &request, &text.as_bytes()[..end], received)
    }

    /// Takes what the client is answered.
    pub(crate) fn answered(&mut self) -> String {
        let text = String::from_utf8(self.router.answers.unwritten(0).to_vec()).expect("text");
        self.router.answers.written(0, text.len());
        text
    }

    /// Takes what is to be sent to a server.
    pub(crate) fn sent(&mut self, server: usize) -> String {
        let text = String::from_utf8(self.router.unsent(server).to_vec()).expect("text");
        self.router.sent(server, text.len());
        text
    }

    /// Checks what a server is sent, and has it reply.
    pub(crate) fn exchange(&mut self, server: usize, sent: &str, said: &str) {
        assert_eq!(self.sent(server), sent);
        self.router.feed(server, said.as_bytes()).expect("it fits");
    }

    /// Has a server reply.
    pub(crate) fn says(&mut self, server: usize, said: &str) {
        self.router.feed(server, said.as_bytes()).expect("it fits");
    }

    pub(crate) fn take_out(&self, server: usize) {
        self.fleet.table().servers[server].health.set_admin_state(AdminState::Down);
    }

    /// Brings back a server that was taken out. Returns the keys that it missed.
    pub(crate) fn take_back(&mut self, server: usize) -> Vec<MissedKey> {
        self.router.release_server(server);
        let table = self.fleet.table();
        let health = &table.servers[server].health;
        health.set_admin_state(AdminState::Up);
        let mut missed = Vec::new();
        loop {
            match health.next_recovery_step() {
                RecoveryStep::Done => return missed,
                RecoveryStep::Delete(keys) => missed.extend(keys),
                _ => {}
            }
        }
    }
}
