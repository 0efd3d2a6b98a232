//! What a router sends to whom, step by step, where one command more or less would leave something old behind.

use std::sync::Arc;
use std::time::Duration;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::{Before, Wish};
use posthaste_server::cache::layout::{Fallback, Layout, PoolPlan, Seat, Source};
use posthaste_server::cache::router::{Asked, Router};
use posthaste_server::cache::rules::Rules;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };
const SECOND: u64 = 1_000_000_000;

/// A pool of one server, number 0, and a second pool of the others, in which no replica is looked up for another.
fn two_pools(others: u16) -> Layout {
    let seat = |number: u16| Seat::of(&format!("127.0.0.1:{}", number + 1));
    let mut layout = Layout::of_one_pool(vec![seat(0)], Rules::default());
    layout.pools.push(PoolPlan {
        name: "second".to_owned(),
        seats: (1..=others).map(seat).collect(),
        ..PoolPlan::default()
    });
    layout
}

/// A router with one client.
struct Scene {
    fleet: Arc<Fleet>,
    router: Router,
}

impl Scene {
    fn new(layout: &Layout) -> Self {
        let fleet = Arc::new(Fleet::new(layout, true).expect("addresses"));
        let mut router = Router::new(Arc::clone(&fleet), 0);
        router.enter(0, 1);
        Self { fleet, router }
    }

    fn ask(&mut self, text: &str) {
        let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
        let asked = self.router.ask(0, &request, &text.as_bytes()[..end], self.router.now);
        assert_eq!(asked, Asked::Taken);
    }

    /// What is to be sent to a server, and it is.
    fn sent(&mut self, server: usize) -> String {
        let text = String::from_utf8(self.router.unsent(server).to_vec()).expect("text");
        self.router.sent(server, text.len());
        text
    }

    /// A server gets this, and says that.
    fn exchange(&mut self, server: usize, sent: &str, said: &str) {
        assert_eq!(self.sent(server), sent);
        self.router.feed(server, said.as_bytes()).expect("it fits");
    }

    fn take_out(&self, server: usize) {
        self.fleet.table().servers[server].health.wish(Wish::Down);
    }

    /// A server that was taken out comes back, without the keys that it missed.
    fn take_back(&mut self, server: usize) {
        self.router.let_go(server);
        let table = self.fleet.table();
        let health = &table.servers[server].health;
        health.wish(Wish::Up);
        while !matches!(health.before(), Before::Nothing) {}
    }
}

/// With another pool that stands in, where everything lives at most 10 s.
fn spared(others: u16) -> Scene {
    let mut layout = two_pools(others);
    layout.pools[0].fallbacks.push(Fallback { pool: 1, expiry: Some(Duration::from_secs(10)) });
    Scene::new(&layout)
}

#[test]
fn what_was_given_a_longer_life_where_another_pool_stood_in_is_deleted_there_all_the_same() {
    for (longer, sent, said) in [
        ("gat 100 k\r\n", "gat 10 k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n"),
        ("mg k T100\r\n", "mg k T10\r\n", "HD\r\n"),
    ] {
        let mut scene = spared(1);
        scene.take_out(0);
        scene.ask("set k 0 0 1\r\nx\r\n");
        scene.exchange(1, "set k 0 10 1\r\nx\r\n", "STORED\r\n");
        scene.router.now = 8 * SECOND;
        scene.ask(longer);
        scene.exchange(1, sent, said);
        scene.take_back(0);
        scene.router.now = 15 * SECOND;
        scene.ask("set k 0 0 1\r\ny\r\n");
        assert_eq!(scene.sent(0), "set k 0 0 1\r\ny\r\n");
        assert_eq!(scene.sent(1), "delete k\r\n", "{longer:?}");
    }
}

#[test]
fn where_another_pool_stands_in_no_replica_of_it_keeps_a_key_for_longer_than_it_may() {
    let mut scene = spared(2);
    scene.take_out(0);
    scene.ask("gat 100 k\r\n");
    assert_eq!([scene.sent(1), scene.sent(2)], ["gat 10 k\r\n", "touch k 10\r\n"]);
    scene.ask("mg a v T100\r\n");
    let mut sent = [scene.sent(1), scene.sent(2)];
    sent.sort();
    assert_eq!(sent, ["mg a T10\r\n", "mg a v T10\r\n"]);
}

#[test]
fn a_read_that_goes_on_where_another_pool_stands_in_gives_no_longer_life_there_than_it_may() {
    let mut scene = spared(1);
    scene.ask("mg k T100\r\n");
    assert_eq!(scene.sent(0), "mg k T100\r\n");
    scene.router.lose(0, None);
    scene.exchange(1, "mg k T10\r\n", "HD\r\n");
    scene.take_back(0);
    scene.router.now = 5 * SECOND;
    scene.ask("set k 0 0 1\r\ny\r\n");
    assert_eq!(scene.sent(1), "delete k\r\n");
}

#[test]
fn what_is_stale_in_the_pool_below_is_brought_to_nobody_and_whoever_asks_next_is_told_to_replace_it() {
    for (flags, given_back) in [("c7 X W", "md k I C7\r\n"), ("c7 Z X", "")] {
        let mut layout = two_pools(1);
        layout.pools[0].source = Some(Source::Below(1));
        let mut scene = Scene::new(&layout);
        scene.ask("get k\r\n");
        scene.exchange(0, "get k\r\n", "END\r\n");
        scene.exchange(1, "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
        scene.exchange(1, "mg k v f t c\r\n", &format!("VA 1 f0 t-1 {flags}\r\nx\r\n"));
        assert_eq!([scene.sent(0), scene.sent(1)], [String::new(), given_back.to_owned()]);
    }
}
