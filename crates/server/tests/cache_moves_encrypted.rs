//! A server that speaks TLS and moves while a record to it is on its way: each command goes to one of the two places.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "../../../tests/support/certificates.rs"]
mod certificates;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use cache_by_hand::Thread;
use certificates::Authority;
use posthaste_measure::{Clock, Hand};
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::rules::Rules;
use posthaste_server::front::accept::Endpoint;
use posthaste_tls::{Acceptor, Check, Connector, ServerFiles, Tls, Trust};
use posthaste_wire::memcached::decode::{Decoded, Limits, decode};
use socket2::{Domain, Socket, Type};

const LIMITS: Limits = Limits { value_bytes: 100_000, line_bytes: 1000 };
/// Values that go into one record each.
const VALUE_BYTES: usize = 12_000;
/// Commands that are more than the kernel takes for a server that does not read.
const SETS: usize = 200;
/// Turns in which whatever is under way has arrived.
const TURNS: usize = 30_000;
/// Looks, a moment apart, after which a server that found nothing new has all that the kernel had for it.
const QUIET_LOOKS: usize = 50;
const MOMENT: Duration = Duration::from_millis(1);

/// Where a server is, or was.
struct Place {
    listener: TcpListener,
    acceptor: Acceptor,
    connection: Option<Tls<TcpStream>>,
    input: Vec<u8>,
    /// The keys of the commands that have arrived.
    keys: Vec<String>,
    answered: usize,
}

impl Place {
    /// A place whose connections hold little that is not read, at either end: the kernel gives a sender room by the
    /// size of its segments.
    fn new(authority: &Authority, name: &str) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a setting");
        socket.set_tcp_mss(536).expect("a setting");
        socket.set_nonblocking(true).expect("a setting");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("an address");
        socket.listen(1).expect("a listener");
        let pair = authority.issue(name);
        let files = ServerFiles { certificate: pair.certificate, key: pair.key, clients: None };
        let acceptor = Acceptor::open(files, b"").expect("good files");
        let (connection, input, keys) = (None, Vec::new(), Vec::new());
        Self { listener: socket.into(), acceptor, connection, input, keys, answered: 0 }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("it is bound")
    }

    /// Takes what has arrived.
    fn look(&mut self) {
        if self.connection.is_none()
            && let Ok((stream, _)) = self.listener.accept()
        {
            stream.set_nonblocking(true).expect("a setting");
            self.connection = Some(self.acceptor.accept(stream).expect("a session"));
        }
        let Some(connection) = &mut self.connection else { return };
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = connection.read(&mut buffer) {
            self.input.extend_from_slice(&buffer[..n]);
        }
        while let Decoded::Request(request, end) = decode(&self.input, &LIMITS) {
            self.keys.push(String::from_utf8_lossy(request.key.of(&self.input)).into_owned());
            self.input.drain(..end);
        }
    }

    /// Takes all that the kernel has, of which more may be on its way.
    fn look_long(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            let before = self.input.len() + self.keys.len();
            self.look();
            quiet = if self.input.len() + self.keys.len() == before { quiet + 1 } else { 0 };
            sleep(MOMENT);
        }
    }

    /// Answers all that has arrived, unless the other side has closed.
    fn answer(&mut self) {
        let answers = b"STORED\r\n".repeat(self.keys.len() - self.answered);
        self.answered = self.keys.len();
        if let Some(connection) = &mut self.connection {
            let _ = connection.write_all(&answers);
        }
    }
}

/// Sends a command of its own key, and has the thread take it.
fn set(thread: &mut Thread, client: &mut UnixStream, number: usize) {
    let text = format!("set k{number} 0 0 {VALUE_BYTES}\r\n{}\r\n", "x".repeat(VALUE_BYTES));
    let mut sent = 0;
    while sent < text.len() {
        match client.write(&text.as_bytes()[sent..]) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        thread.turn();
    }
}

#[test]
fn no_command_goes_both_where_a_server_was_and_where_it_is() {
    let authority = Authority::new();
    let [mut old, mut new] = ["old", "new"].map(|name| Place::new(&authority, name));
    let layout =
        Layout::of_one_pool(vec![MemberPlan::of(&format!("tls:{}", old.address()))], Rules::default());
    let hand = Hand::at_zero();
    let mut thread = Thread::new(&layout, Clock::by_hand(hand, 0));
    let trust = Trust { check: Check::Nothing, roots: None, own: None };
    let table = thread.shared.fleet.table();
    table.servers[0].backend.encrypt(Some(Connector::open(&trust).expect("nothing to read")));
    let mut client = thread.connect();
    set(&mut thread, &mut client, 0);
    let is_there = (0..TURNS).any(|_| {
        sleep(MOMENT / 10);
        thread.turn();
        old.look();
        old.keys.len() == 1
    });
    assert!(is_there, "hands are not shaken");
    // Each is sent by itself, until the kernel takes no more, and then what is left waits behind the record that it has
    // taken a part of.
    (1..=SETS).for_each(|number| set(&mut thread, &mut client, number));
    old.look_long();
    assert!((2..SETS).contains(&old.keys.len()), "it took {} of {SETS}", old.keys.len());
    old.answer();
    table.servers[0].backend.move_to(Endpoint::Tcp(new.address()));
    let mut heard = Vec::new();
    let is_all_answered = (0..TURNS).any(|_| {
        // Answers may wait for others, and no server is late.
        hand.set(hand.now() + 10_000);
        sleep(MOMENT / 10);
        thread.turn();
        for place in [&mut old, &mut new] {
            place.look();
            place.answer();
        }
        let _ = client.read_to_end(&mut heard);
        heard.len() == b"STORED\r\n".len() * (SETS + 1)
    });
    assert!(is_all_answered, "{:?}", String::from_utf8_lossy(&heard));
    // What the old place still gets of a connection that is closed would come now.
    old.look_long();
    let mut arrived = [&old.keys[..], &new.keys].concat();
    arrived.sort_unstable();
    let mut expected: Vec<String> = (0..=SETS).map(|number| format!("k{number}")).collect();
    expected.sort_unstable();
    assert_eq!(arrived, expected, "{} went to the old place", old.keys.len());
    assert!(!new.keys.is_empty());
}
