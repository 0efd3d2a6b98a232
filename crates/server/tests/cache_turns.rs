//! A network thread's turn with its servers, call by call: what leaves in it, and when a server's time begins.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use cache_by_hand::{SERVER_TIMEOUT, share};
use mio::{Events, Poll};
use posthaste_measure::{Clock, Hand};
use posthaste_server::cache::client_rate_limiters::ClientRateLimiters;
use posthaste_server::cache::engine::{ClientId, Engine as _};
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::pipelined::Pipelined;
use posthaste_server::cache::router::Admission;
use posthaste_server::cache::rules::Rules;
use posthaste_server::front::network::FIRST_OF_TIER;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use tempfile::TempDir;

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 1000 };
const CLIENT: ClientId = ClientId { slot: 0, number: 1 };

/// A thread's engine, whose client has no socket, and its servers.
struct Turn {
    engine: Pipelined,
    poll: Poll,
    hand: &'static Hand,
    servers: Vec<UnixListener>,
    /// Where the servers' sockets are.
    _dir: TempDir,
}

impl Turn {
    fn new(servers: usize) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let paths: Vec<_> = (0..servers).map(|number| dir.path().join(number.to_string())).collect();
        let servers = paths.iter().map(|path| UnixListener::bind(path).expect("a socket")).collect();
        let members = paths.iter().map(|path| MemberPlan::of(&format!("unix:{}", path.display()))).collect();
        let layout = Layout::of_one_pool(members, Rules::default());
        let (poll, hand) = (Poll::new().expect("events"), Hand::at_zero());
        let clock = Clock::by_hand(hand, 0);
        let shared = share(&poll, &layout, Ejection::OnLoss, clock, ClientRateLimiters::default());
        let mut engine = Pipelined::new(0, Arc::clone(&shared));
        engine.add_client(CLIENT);
        Self { engine, poll, hand, servers, _dir: dir }
    }

    fn ask(&mut self, text: &str) {
        let Decoded::Request(request, end) = decode(text.as_bytes(), &LIMITS) else { panic!("{text:?}") };
        let now = self.hand.now();
        self.engine.begin_turn(now);
        assert_eq!(self.engine.ask(CLIENT, &request, &text.as_bytes()[..end], now), Admission::Accepted);
    }

    fn pass(&self, time: Duration) {
        self.hand.set(self.hand.now() + u64::try_from(time.as_nanos()).expect("not so long"));
    }

    /// Notes what has happened to the servers' sockets.
    fn note_events(&mut self) {
        let mut events = Events::with_capacity(8);
        self.poll.poll(&mut events, Some(Duration::ZERO)).expect("events");
        for event in events.iter().filter(|event| event.token().0 >= FIRST_OF_TIER) {
            self.engine.note_server_event(event.token().0 - FIRST_OF_TIER, event);
        }
    }

    fn send(&mut self) {
        self.engine.send(self.poll.registry());
    }

    fn receive(&mut self) {
        self.engine.receive(self.poll.registry(), &mut vec![0; 65_536]);
    }

    fn answered(&mut self) -> String {
        let answers = self.engine.answers_mut();
        let text = String::from_utf8(answers.unwritten(CLIENT.slot).to_vec()).expect("text");
        answers.written(CLIENT.slot, text.len());
        text
    }
}

#[test]
fn a_server_has_its_time_from_when_it_was_sent_something_however_long_the_turn_was_before() {
    let mut turn = Turn::new(1);
    turn.ask("get k\r\n");
    turn.send();
    let (mut stream, _) = turn.servers[0].accept().expect("it is connected to");
    for _ in 0..2 {
        // Other clients of the thread are served.
        turn.pass(10 * SERVER_TIMEOUT);
        turn.note_events();
        turn.send();
        turn.receive();
        assert_eq!(turn.answered(), "", "it is not lost");
        stream.write_all(b"END\r\n").expect("a socket takes it");
        turn.note_events();
        turn.receive();
        assert_eq!(turn.answered(), "END\r\n");
        turn.ask("get k\r\n");
    }
    turn.send();
    turn.pass(SERVER_TIMEOUT + Duration::from_millis(1));
    turn.receive();
    assert!(turn.answered().starts_with("SERVER_ERROR server unix:"));
}

#[test]
fn what_is_asked_of_another_server_as_one_is_lost_leaves_in_the_same_turn() {
    let mut turn = Turn::new(2);
    // Both are connected to.
    (0..4).for_each(|_| turn.ask("get k\r\n"));
    turn.send();
    turn.note_events();
    turn.send();
    let mut streams: Vec<_> =
        turn.servers.iter().map(|server| server.accept().expect("it is connected to").0).collect();
    // The second one is gone, and nothing was heard of that.
    drop(streams.pop());
    let mut asked = vec![0; 1000];
    let before = streams[0].read(&mut asked).expect("it was asked");
    (0..2).for_each(|_| turn.ask("get k\r\n"));
    turn.send();
    streams[0].set_nonblocking(true).expect("a setting");
    let after = streams[0].read(&mut asked).expect("it is asked");
    assert_eq!(
        String::from_utf8_lossy(&asked[..after]).matches("get k\r\n").count(),
        4,
        "after {before} bytes"
    );
}
