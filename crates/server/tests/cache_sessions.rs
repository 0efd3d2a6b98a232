//! Sessions with the cache tier over its real network thread, in one thread: each client gets what it would get alone.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "support/cache_sessions.rs"]
mod cache_sessions;

use cache_sessions::{ESCAPE, LAYOUTS, World, tell};
use posthaste_server::cache::limits::REQUESTS_AT_ONCE_MAX;
use proptest::prelude::*;

/// What clients say, whole and half, well and badly.
const WORDS: [&[u8]; 24] = [
    b"get a\r\n",
    b"get bL k aL\r\n",
    b"gets a b c d e f\r\n",
    b"gat 10 a k\r\n",
    b"set k 0 0 2\r\nhi\r\n",
    b"set k 0 0 2 noreply\r\nhi\r\n",
    b"set k 0 0 2\r\nhigh\r\n",
    b"set k 0 0 2000000\r\nhi",
    b"add a 0 0 0\r\n\r\n",
    b"cas b 0 0 1 5\r\nx\r\n",
    b"incr n 1\r\n",
    b"delete k\r\n",
    b"touch k 10\r\n",
    b"flush_all\r\n",
    b"stats\r\n",
    b"version\r\n",
    b"quit\r\n",
    b"nonsense\r\n",
    b"mg k v t f c k Oab\r\n",
    b"mg kL v q\r\nmn\r\n",
    b"ms k 2 T10\r\nhi\r\n",
    b"md k q\r\n",
    b"ma n v\r\n",
    b"set k 0 ",
];

fn words() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => prop::sample::select(&WORDS[..]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn events() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![3 => words(), 2 => any::<u8>().prop_map(|what| vec![ESCAPE, what])]
}

/// Only the classic requests that change something can be silent.
#[test]
fn a_key_may_be_called_noreply() {
    for layout in 0..LAYOUTS {
        let story = b"md noreply\r\nget noreply\r\ndelete noreply\r\nmg noreply v\r\ngat 10 noreply\r\nmd k noreply\r\n";
        assert!(tell(&mut World::new(layout), story));
    }
}

/// A read holds many requests that nobody else need answer.
#[test]
fn who_asks_much_at_once_has_a_turn_like_others() {
    const ASKED: usize = 8000;
    let mut world = World::new(0);
    let answered = world.turns(&b"mn\r\n".repeat(ASKED));
    assert_eq!(answered.iter().sum::<usize>(), ASKED * b"MN\r\n".len(), "{answered:?}");
    let most = answered.iter().max().expect("a turn") / b"MN\r\n".len();
    assert!(most <= REQUESTS_AT_ONCE_MAX, "{answered:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_gets_what_it_would_get_alone(
        layout in 0..LAYOUTS, story in prop::collection::vec(events(), 1..40)
    ) {
        tell(&mut World::new(layout), &story.concat());
    }
}
