//! When a server is late: when it says nothing, or comes to no end, and not when it has much to say or we did not
//! listen. And when a request is, whoever's fault that is. The clock is the test's.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use cache_by_hand::{SERVER_TIMEOUT, Thread};
use posthaste_measure::{Clock, Hand};
use posthaste_server::cache::claims::ClaimMode;
use posthaste_server::cache::layout::{Layout, MemberPlan, RoutePlan};
use posthaste_server::cache::rules::{GetErrors, Rules};
use posthaste_server::cache::server_limits::ServerLimits;

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
        Self::with("get a b\r\n", |_| {})
    }

    /// The client has asked this by a layout that was changed, and the server has read it.
    fn with(request: &str, change: impl FnOnce(&mut Layout)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("memcached");
        let listener = UnixListener::bind(&path).expect("a socket");
        let member = MemberPlan::of(&format!("unix:{}", path.display()));
        let hand = Hand::at_zero();
        let clock = Clock::by_hand(hand, 0);
        let mut layout = Layout::of_one_pool(vec![member], Rules::default());
        change(&mut layout);
        let mut thread = Thread::new(&layout, clock);
        let mut client = thread.connect();
        client.write_all(request.as_bytes()).expect("a socket takes it");
        thread.turn();
        let (server, _) = listener.accept().expect("it is connected to");
        server.set_nonblocking(true).expect("a setting");
        let mut scene = Self { thread, hand, client, server };
        assert_eq!(scene.asked(request.len()), request);
        scene
    }

    /// What the server has been asked when it has been asked this much.
    fn asked(&mut self, bytes: usize) -> String {
        let mut asked = Vec::new();
        hear(&mut self.server, &mut asked, bytes, || self.thread.turn());
        String::from_utf8(asked).expect("text")
    }

    fn say(&mut self, words: &str) {
        self.server.write_all(words.as_bytes()).expect("a socket takes it");
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

#[test]
fn who_takes_long_to_read_a_large_value_is_not() {
    let mut scene = Scene::new();
    scene.say("END\r\n");
    assert_eq!(scene.heard("END\r\n".len()), "END\r\n");
    let value = "x".repeat(1 << 20);
    let set = format!("set k 0 0 {}\r\n{value}\r\n", value.len());
    let (mut unsent, mut read) = (set.as_bytes(), 0);
    while read < set.len() {
        for _ in 0..100 {
            let written = scene.client.write(unsent);
            unsent = &unsent[written.unwrap_or_default()..];
            scene.thread.turn();
        }
        scene.pass(SERVER_TIMEOUT * 3 / 4);
        let more = scene.server.read(&mut [0; 200_000]).expect("there is more");
        assert!(more > 0, "it is given up");
        read += more;
        scene.thread.turn();
    }
    scene.say("STORED\r\n");
    assert_eq!(scene.heard("STORED\r\n".len()), "STORED\r\n");
}

/// A route whose requests may take less than a server may be silent.
fn hurried(layout: &mut Layout) {
    layout.routes[0].timeout = Some(HURRY);
}

const HURRY: Duration = Duration::from_millis(100);
const LATE: &str = "SERVER_ERROR no answer in time\r\n";

#[test]
fn who_says_something_now_and_then_and_comes_to_no_end_is_given_up() {
    let mut scene = Scene::new();
    let said = value("a", 100);
    for letter in said.chars() {
        scene.pass(SERVER_TIMEOUT / 8);
        scene.say(&letter.to_string());
        scene.thread.turn();
        if scene.hand.now() > 11 * u64::try_from(SERVER_TIMEOUT.as_nanos()).expect("not so long") {
            break;
        }
    }
    assert_eq!(scene.heard(LATE.len()), LATE);
    let hung_up = scene.server.read(&mut [0; 8]).expect("the connection has ended");
    assert_eq!(hung_up, 0);
}

#[test]
fn a_late_answer_is_nobodys_and_the_next_request_gets_its_own() {
    let mut scene = Scene::with("get a b\r\n", hurried);
    scene.say(&value("a", 10));
    assert_eq!(scene.heard(value("a", 10).len()), value("a", 10));
    for _ in 0..20 {
        scene.pass(HURRY / 10);
        scene.thread.turn();
    }
    assert_eq!(scene.heard(LATE.len()), LATE, "in place of END");
    scene.client.write_all(b"get c\r\n").expect("a socket takes it");
    assert_eq!(scene.asked("get c\r\n".len()), "get c\r\n", "over the same connection");
    scene.say(&(value("b", 10) + "END\r\n" + &value("c", 10) + "END\r\n"));
    let expected = value("c", 10) + "END\r\n";
    assert_eq!(scene.heard(expected.len()), expected);
}

#[test]
fn whatever_is_late_is_answered_once() {
    let missing = |layout: &mut Layout| {
        hurried(layout);
        layout.pools[0].rules.get_errors = GetErrors::Miss;
    };
    type Change = fn(&mut Layout);
    let changes: [(&str, &str, &str, Change); 8] = [
        ("set a 0 0 1\r\nx\r\n", LATE, "STORED\r\n", hurried),
        ("incr a 1\r\n", LATE, "7\r\n", hurried),
        ("mg a v\r\n", LATE, "VA 1\r\nx\r\n", hurried),
        ("touch a 0\r\n", LATE, "TOUCHED\r\n", hurried),
        ("get a b\r\n", "END\r\n", "END\r\n", missing),
        ("mg a v\r\n", "EN\r\n", "EN\r\n", missing),
        ("mg a v O7 k\r\n", "EN O7 ka\r\n", "EN O7 ka\r\n", missing),
        ("flush_all\r\n", "OK\r\n", "", |_| {}),
    ];
    for (request, words, reply, change) in changes {
        let mut scene = Scene::with(request, change);
        if reply.is_empty() {
            scene.say("OK\r\n");
        }
        for _ in 0..20 {
            scene.pass(HURRY / 10);
            scene.thread.turn();
        }
        assert_eq!(scene.heard(words.len()), words, "{request}");
        scene.client.write_all(b"mn\r\n").expect("a socket takes it");
        scene.say(reply);
        assert_eq!(scene.heard(4), "MN\r\n", "{request}");
    }
}

#[test]
fn what_is_late_keeps_its_place_among_a_clients_answers() {
    let mut scene = Scene::with("get a b\r\n", hurried);
    scene.client.write_all(b"get c\r\nmn\r\n").expect("a socket takes it");
    assert_eq!(scene.asked("get c\r\n".len()), "get c\r\n");
    for _ in 0..20 {
        scene.pass(HURRY / 10);
        scene.thread.turn();
    }
    let expected = [LATE, LATE, "MN\r\n"].concat();
    assert_eq!(scene.heard(expected.len()), expected);
    scene.say("END\r\nEND\r\n");
    scene.client.write_all(b"get d\r\n").expect("a socket takes it");
    assert_eq!(scene.asked("get d\r\n".len()), "get d\r\n");
    scene.say(&(value("d", 5) + "END\r\n"));
    let expected = value("d", 5) + "END\r\n";
    assert_eq!(scene.heard(expected.len()), expected);
}

#[test]
fn who_is_late_behind_one_that_may_take_longer_is_answered_after_it() {
    let mut scene = Scene::with("get a b\r\n", |layout| {
        let hurried = RoutePlan { prefix: b"h:".into(), timeout: Some(HURRY), ..RoutePlan::default() };
        layout.routes.push(hurried);
    });
    let hurried = "get h:a h:b\r\nmg h:c v\r\n";
    scene.client.write_all(hurried.as_bytes()).expect("a socket takes it");
    assert_eq!(scene.asked(hurried.len()), hurried);
    for _ in 0..20 {
        scene.pass(HURRY / 10);
        scene.thread.turn();
    }
    let said = value("a", 10) + "END\r\n";
    scene.say(&(said.clone() + &value("h:b", 10) + "END\r\nVA 1\r\nx\r\n"));
    let expected = said + LATE + LATE;
    assert_eq!(scene.heard(expected.len()), expected);
    scene.client.write_all(b"get d\r\n").expect("a socket takes it");
    assert_eq!(scene.asked("get d\r\n".len()), "get d\r\n");
    scene.say("END\r\n");
    assert_eq!(scene.heard("END\r\n".len()), "END\r\n");
}

#[test]
fn beyond_its_depth_a_server_is_asked_no_more_and_what_is_under_way_goes_on() {
    let mut scene = Scene::new();
    scene.thread.shared.fleet.table().servers[0].limits.set(ServerLimits {
        connect_timeout: SERVER_TIMEOUT,
        answer_timeout: SERVER_TIMEOUT,
        depth: 1,
    });
    for request in ["get c\r\n", "set c 0 0 1\r\nx\r\n", "mg c v\r\n", "incr c 1\r\n"] {
        let mut other = scene.thread.connect();
        other.write_all(request.as_bytes()).expect("a socket takes it");
        let (mut heard, hand) = (Vec::new(), scene.hand);
        hear(&mut other, &mut heard, 1, || {
            hand.set(hand.now() + MOMENT_NS);
            scene.thread.turn();
        });
        let heard = String::from_utf8(heard).expect("text");
        assert!(heard.ends_with("has too many requests under way\r\n"), "{request}: {heard}");
    }
    let said = value("a", 10) + "END\r\n";
    scene.say(&said);
    assert_eq!(scene.heard(said.len()), said);
    scene.client.write_all(b"get c\r\n").expect("a socket takes it");
    assert_eq!(scene.asked("get c\r\n".len()), "get c\r\n", "there is room again");
}

/// What a server needs to be asked for both copies' sake is waited for: a client's request is put off meanwhile.
fn put_off(request: &str, change: impl FnOnce(&mut Layout)) -> Scene {
    let mut scene = Scene::with("get a\r\n", |layout| {
        change(layout);
    });
    scene.say("END\r\n");
    assert_eq!(scene.heard(5), "END\r\n");
    scene.thread.shared.fleet.pauses.fetch_add(1, Ordering::Relaxed);
    scene.client.write_all(request.as_bytes()).expect("a socket takes it");
    scene.thread.turn();
    scene
}

impl Scene {
    /// Lets requests be taken that were put off.
    fn resume(&mut self) {
        self.thread.shared.fleet.pauses.fetch_sub(1, Ordering::Relaxed);
        self.thread.turn();
    }
}

#[test]
fn the_time_for_which_a_request_was_put_off_counts() {
    let mut scene = put_off("set a 0 0 1\r\nx\r\n", |_| {});
    scene.pass(Duration::from_millis(700));
    scene.thread.turn();
    scene.pass(Duration::from_millis(700));
    scene.resume();
    assert_eq!(scene.asked(16), "set a 0 0 1\r\nx\r\n");
    scene.say("STORED\r\n");
    assert_eq!(scene.heard(8), "STORED\r\n");
    let table = scene.thread.shared.fleet.table();
    let longest = table.routes[0].counts.latency.counts().last().expect("a request").0;
    assert!((1_400_000.0..1_600_000.0).contains(&longest), "{longest} us");
}

#[test]
fn who_was_put_off_for_too_long_is_answered_and_asks_nobody() {
    let late = "SERVER_ERROR no answer in time\r\n";
    for (request, answer) in [
        ("set a 0 0 1\r\nx\r\n", late),
        ("set a 0 0 1 noreply\r\nx\r\nversion\r\n", "VERSION "),
        ("gat 5 a b\r\n", late),
        ("mg a T5 k Oo\r\n", late),
        ("flush_all\r\n", late),
    ] {
        let mut scene = put_off(request, |layout| layout.settings.request_timeout = Duration::from_secs(2));
        scene.pass(Duration::from_millis(1_999));
        scene.thread.turn();
        scene.pass(Duration::from_millis(2));
        assert!(scene.heard(answer.len()).starts_with(answer), "{request}");
        scene.resume();
        assert_eq!(scene.asked(0), "", "{request}");
    }
}

#[test]
fn a_value_that_is_too_large_waits_for_its_key_no_longer_than_other_writes() {
    let late = "SERVER_ERROR no answer in time\r\n";
    for line in ["set a 0 0 1048577\r\n", "ms a 1048577\r\n"] {
        let mut scene = Scene::with("get a\r\n", |layout| {
            layout.settings.request_timeout = Duration::from_secs(2);
        });
        scene.say("END\r\n");
        assert_eq!(scene.heard(5), "END\r\n");
        // Another thread writes every key, and its servers do not answer.
        let claims = &scene.thread.shared.fleet.claims;
        let held = (0..8192).filter_map(|place| claims.claim(place, 9, ClaimMode::Exclusive, 0));
        assert_eq!(held.count(), 8192);
        scene.client.write_all(line.as_bytes()).expect("a socket takes it");
        scene.thread.turn();
        scene.pass(Duration::from_millis(2_001));
        assert_eq!(scene.heard(late.len()), late, "{line}");
        // The value comes, belongs to nothing, and what follows it is the next request.
        let mut rest = vec![b'x'; 1_048_577];
        rest.extend_from_slice(b"\r\nversion\r\n");
        let mut sent = 0;
        while sent < rest.len() {
            match scene.client.write(&rest[sent..]) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => scene.thread.turn(),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(scene.heard(8).starts_with("VERSION "), "{line}");
        assert_eq!(scene.asked(0), "", "nobody is asked for what was refused: {line}");
    }
}

#[test]
fn a_get_that_was_put_off_for_too_long_is_a_miss_where_errors_are() {
    for (request, answer) in [("gat 5 a b\r\n", "END\r\n"), ("mg a T5 k Oo\r\n", "EN ka Oo\r\n")] {
        let mut scene = put_off(request, |layout| {
            layout.settings.request_timeout = Duration::from_secs(2);
            layout.pools[0].rules.get_errors = GetErrors::Miss;
        });
        scene.pass(Duration::from_millis(2_001));
        assert_eq!(scene.heard(answer.len()), answer);
    }
}
