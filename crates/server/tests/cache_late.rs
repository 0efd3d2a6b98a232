//! When a server is late: when it says nothing, and not when it has much to say or we did not listen. The clock is the test's.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use cache_by_hand::{SERVER_TIMEOUT, Thread};
use posthaste_measure::{Clock, Hand};
use posthaste_server::cache::layout::{Layout, Seat};
use posthaste_server::cache::rules::Rules;

/// Turns in which whatever is under way has arrived.
const TURNS: usize = 1000;
/// What a turn takes: so little that all of them are no time.
const MOMENT_NS: u64 = 100_000;

/// A thread, its only client, and the server's end of the connection to it.
struct Scene {
    thread: Thread,
    hand: &'static Hand,
    client: UnixStream,
    server: UnixStream,
}

impl Scene {
    /// The client has asked for two keys, and the server has read that.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("memcached");
        let listener = UnixListener::bind(&path).expect("a socket");
        let seat = Seat::of(&format!("unix:{}", path.display()));
        let hand = Hand::at_zero();
        let clock = Clock::by_hand(hand, 0);
        let mut thread = Thread::new(&Layout::of_one_pool(vec![seat], Rules::default()), clock);
        let mut client = thread.connect();
        client.write_all(b"get a b\r\n").expect("a socket takes it");
        thread.turn();
        let (server, _) = listener.accept().expect("it is connected to");
        server.set_nonblocking(true).expect("a setting");
        let mut scene = Self { thread, hand, client, server };
        let mut asked = Vec::new();
        hear(&mut scene.server, &mut asked, "get a b\r\n".len(), || scene.thread.turn());
        assert_eq!(asked, b"get a b\r\n");
        scene
    }

    fn pass(&self, time: Duration) {
        self.hand.set(self.hand.now() + u64::try_from(time.as_nanos()).expect("not so long"));
    }

    /// What the client has heard when it has heard this much. Each turn takes a moment, as answers may wait for others.
    fn heard(&mut self, bytes: usize) -> String {
        let mut heard = Vec::new();
        let hand = self.hand;
        hear(&mut self.client, &mut heard, bytes, || {
            hand.set(hand.now() + MOMENT_NS);
            self.thread.turn();
        });
        String::from_utf8(heard).expect("text")
    }
}

/// Reads so much, while turns are taken.
fn hear(socket: &mut UnixStream, heard: &mut Vec<u8>, bytes: usize, mut turn: impl FnMut()) {
    for _ in 0..TURNS {
        match socket.read_to_end(heard) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && heard.len() < bytes => turn(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            read => panic!("{read:?} after {:?}", String::from_utf8_lossy(heard)),
        }
    }
    panic!("no more than {:?}", String::from_utf8_lossy(heard));
}

fn value(key: &str, bytes: usize) -> String {
    format!("VALUE {key} 0 {bytes}\r\n{}\r\n", "x".repeat(bytes))
}

#[test]
fn who_says_nothing_for_too_long_is() {
    let mut scene = Scene::new();
    scene.pass(SERVER_TIMEOUT + Duration::from_millis(1));
    let error = scene.heard(1);
    assert!(error.starts_with("SERVER_ERROR server unix:"), "{error}");
}

#[test]
fn who_takes_long_to_say_much_is_not() {
    let mut scene = Scene::new();
    for said in [value("a", 10), value("b", 10), "END\r\n".to_owned()] {
        scene.pass(SERVER_TIMEOUT * 3 / 4);
        scene.server.write_all(said.as_bytes()).expect("a socket takes it");
        assert_eq!(scene.heard(said.len()), said);
    }
}

#[test]
fn who_has_answered_while_we_were_stopped_is_not() {
    for was_told in [true, false] {
        let mut scene = Scene::new();
        // More than is read at once.
        let said = value("a", 50_000) + &value("b", 50_000) + "END\r\n";
        scene.server.write_all(said.as_bytes()).expect("a socket takes it");
        scene.pass(10 * SERVER_TIMEOUT);
        if !was_told {
            scene.thread.turn_untold();
        }
        assert!(scene.heard(said.len()) == said, "told: {was_told}");
    }
}
