//! The front alone, with the smallest tier there can be: it says every line again, and `quit` ends the connection.
//! Behind `wait` nothing more is taken, until news comes by mail; `out` is who has logged out, until `in`.

#[path = "../../../tests/support/patience.rs"]
mod patience;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::{Events, Poll, Token};
use patience::{wait_for, wait_until};
use posthaste_measure::{Clock, Hand};
use posthaste_server::front::accept::Endpoint;
use posthaste_server::front::binder;
use posthaste_server::front::connections::Connections;
use posthaste_server::front::gate::{Gate, Refused};
use posthaste_server::front::limits::{ACCEPTS_PER_TURN, FIRST_REQUEST, LINGER, OUTPUT_BYTES_PAUSE};
use posthaste_server::front::mailbox::Mailbox;
use posthaste_server::front::network::{Network, ThreadSetup, mailbox};
use posthaste_server::front::peer::{Peer, PeerState};
use posthaste_server::front::quiet::QuietLimits;
use posthaste_server::front::readiness::Readiness;
use posthaste_server::front::slots::Slots;
use posthaste_server::front::socket::{SimulatedSocket, Socket};
use posthaste_server::front::tier::Tier;
use socket2::SockRef;

/// Says lines again, behind the number of its thread.
struct Echo {
    thread: usize,
    touched: Slots,
}

struct Guest {
    peer: Peer,
    output: Vec<u8>,
    waits: bool,
    is_out: bool,
}

impl AsRef<Peer> for Guest {
    fn as_ref(&self) -> &Peer {
        &self.peer
    }
}

impl AsMut<Peer> for Guest {
    fn as_mut(&mut self) -> &mut Peer {
        &mut self.peer
    }
}

impl Tier for Echo {
    type Connection = Guest;
    type Mail = ();

    fn refusal(_: Refused) -> &'static [u8] {
        b"full\n"
    }

    fn new_connection(&mut self, _: usize, peer: Peer, _: Option<IpAddr>) -> Guest {
        Guest { peer, output: Vec::new(), waits: false, is_out: false }
    }

    fn connection_ended(&mut self, _: usize, _: &Guest) {}

    fn is_admitted(&self, guest: &Guest) -> bool {
        !guest.is_out
    }

    /// Whoever waits gets it.
    fn receive_mail(&mut self, (): (), connections: &mut Connections<Self>) {
        let slots: Vec<usize> = connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let guest = connections.get_mut(slot).expect("it is there");
            if std::mem::take(&mut guest.waits) {
                guest.output.extend_from_slice(b"news\n");
                self.touched.add(slot);
            }
        }
    }

    fn may_ask(&self, _: usize, guest: &Guest) -> bool {
        !guest.waits && guest.output.len() < OUTPUT_BYTES_PAUSE
    }

    fn take_requests(&mut self, slot: usize, guest: &mut Guest, input: &[u8]) -> usize {
        let mut at = 0;
        while guest.peer.state == PeerState::Open && self.may_ask(slot, guest) {
            let Some(end) = input[at..].iter().position(|byte| *byte == b'\n') else {
                guest.peer.holds_requests = false;
                break;
            };
            let line = &input[at..=at + end];
            at += end + 1;
            guest.peer.requests += 1;
            match line {
                b"quit\n" => guest.peer.close(),
                b"out\n" | b"in\n" => guest.is_out = line == b"out\n",
                b"wait\n" => {
                    guest.waits = true;
                    continue;
                }
                _ => {}
            }
            guest.output.extend_from_slice(self.thread.to_string().as_bytes());
            guest.output.extend_from_slice(line);
            self.touched.add(slot);
        }
        at
    }

    fn work(&mut self, _: &mut Connections<Self>) {}

    fn touched(&mut self) -> &mut Slots {
        &mut self.touched
    }

    fn write(&mut self, _: usize, guest: &mut Guest) {
        let written = guest.peer.write(&guest.output);
        guest.output.drain(..written);
    }

    fn is_settled(&self, _: usize, guest: &Guest) -> bool {
        !guest.waits && guest.output.is_empty()
    }

    fn finish_turn(&mut self, _: &mut Connections<Self>) {}
}

/// A tier that runs.
struct Running {
    address: SocketAddr,
    mailboxes: Vec<Arc<Mailbox<()>>>,
    gate: Arc<Gate>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

fn start(threads: usize, clients: usize) -> Running {
    let anywhere = Endpoint::look_up("127.0.0.1:0").expect("an address");
    let mut openings = binder::open(&[anywhere], None, None, false).expect("a free port");
    let Some(Endpoint::Tcp(address)) = openings.addresses.pop() else { panic!("no address") };
    let polls: Vec<Poll> = (0..threads).map(|_| Poll::new().expect("events")).collect();
    let mailboxes: Vec<_> = polls.iter().map(|poll| mailbox(poll).expect("a waker")).collect();
    let (gate, clock) = (Arc::new(Gate::new(clients, false)), Clock::start());
    let mut listeners = openings.listeners;
    let run = |(thread, poll): (usize, Poll)| {
        let listeners = std::mem::take(&mut listeners);
        let setup = ThreadSetup {
            thread,
            poll,
            listeners,
            mailboxes: mailboxes.clone(),
            gate: Arc::clone(&gate),
            clock,
        };
        let network = Network::new(setup, Echo { thread, touched: Slots::default() }).expect("it listens");
        std::thread::spawn(move || network.run())
    };
    let threads = polls.into_iter().enumerate().map(run).collect();
    Running { address, mailboxes, gate, threads }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).expect("it listens");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        client
    }

    fn stop(self) {
        self.mailboxes[0].stop();
        for thread in self.threads {
            thread.join().expect("no panic").expect("no error");
        }
        assert_eq!(self.gate.connections(), 0, "whoever was let in has left");
    }
}

/// So many bytes.
fn hear(client: &mut TcpStream, bytes: usize) -> String {
    let mut heard = vec![0; bytes];
    client.read_exact(&mut heard).expect("an answer");
    String::from_utf8(heard).expect("text")
}

/// All there is until the end.
fn hear_all(client: &mut TcpStream) -> String {
    let mut heard = String::new();
    client.read_to_string(&mut heard).expect("answers, then the end");
    heard
}

#[test]
fn requests_are_taken_however_they_are_cut() {
    let running = start(1, 10);
    let mut client = running.connect();
    for (sent, heard) in [("a\nb", "0a\n"), ("c\n", "0bc\n"), ("d\ne\n", "0d\n0e\n")] {
        client.write_all(sent.as_bytes()).expect("it reads");
        assert_eq!(hear(&mut client, heard.len()), heard);
    }
    drop(client);
    running.stop();
}

#[test]
fn who_has_said_everything_is_answered_and_let_go() {
    let running = start(1, 10);
    for (sent, heard) in
        [("a\nb\n", "0a\n0b\n"), ("a\nhalf", "0a\n"), ("", ""), ("a\nquit\nb\n", "0a\n0quit\n")]
    {
        let mut client = running.connect();
        client.write_all(sent.as_bytes()).expect("it reads");
        if !sent.contains("quit") {
            client.shutdown(Shutdown::Write).expect("a half-close");
        }
        assert_eq!(hear_all(&mut client), heard, "{sent:?}");
    }
    running.stop();
}

#[test]
fn who_does_not_read_is_not_read_and_gets_everything_later() {
    const MOST: usize = 256 << 20;
    let running = start(1, 10);
    let mut client = running.connect();
    let line = [&[b'x'; 9_999][..], b"\n"].concat();
    client.set_write_timeout(Some(Duration::from_secs(2))).expect("a limit");
    let mut sent = 0;
    while sent < MOST {
        match client.write(&line[sent % line.len()..]) {
            Ok(n) => sent += n,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
                break;
            }
        }
    }
    assert!(sent < MOST, "it reads without end");
    let mut other = running.connect();
    other.write_all(b"a\n").expect("it reads others");
    assert_eq!(hear(&mut other, 3), "0a\n");
    let lines = sent / line.len();
    let heard = hear(&mut client, lines * (line.len() + 1));
    assert!(heard.lines().all(|line| line.len() == 10_000 && line.starts_with('0')));
    drop((client, other));
    running.stop();
}

#[test]
fn one_too_many_is_told_so_and_comes_in_when_another_leaves() {
    let running = start(1, 1);
    let mut first = running.connect();
    first.write_all(b"a\n").expect("it reads");
    assert_eq!(hear(&mut first, 3), "0a\n");
    assert_eq!(hear_all(&mut running.connect()), "full\n");
    drop(first);
    wait_until("it has left", || running.gate.connections() == 0);
    let mut next = running.connect();
    next.write_all(b"b\n").expect("it reads");
    assert_eq!(hear(&mut next, 3), "0b\n");
    drop(next);
    running.stop();
}

#[test]
fn connections_are_dealt_out_in_turn() {
    let running = start(3, 10);
    let mut clients: Vec<TcpStream> = (0..6).map(|_| running.connect()).collect();
    let mut threads: Vec<String> = clients
        .iter_mut()
        .map(|client| {
            client.write_all(b"a\n").expect("it reads");
            hear(client, 3)
        })
        .collect();
    threads.sort();
    assert_eq!(threads, ["0a\n", "0a\n", "1a\n", "1a\n", "2a\n", "2a\n"]);
    drop(clients);
    running.stop();
}

#[test]
fn a_stop_answers_what_was_asked_before_and_ends_every_connection() {
    let running = start(2, 10);
    let mut clients: Vec<TcpStream> = (0..4).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.write_all(b"a\nb\n").expect("the kernel takes it");
    }
    // Two of them may not even be accepted yet.
    running.mailboxes[0].stop();
    for client in &mut clients {
        let heard = hear_all(client);
        assert!(heard.ends_with("b\n") && heard.len() == 6, "{heard:?}");
    }
    drop(clients);
    running.stop();
}

/// A client, as it was accepted.
fn accepted() -> (TcpStream, Socket) {
    let anywhere = Endpoint::look_up("127.0.0.1:0").expect("an address");
    let openings = binder::open(&[anywhere], None, None, false).expect("a free port");
    let [Endpoint::Tcp(address)] = openings.addresses[..] else { panic!("no address") };
    let client = TcpStream::connect(address).expect("it listens");
    let socket = wait_for("the client", || openings.listeners[0].accept());
    (client, socket)
}

/// The kernel's own times are hours.
#[test]
fn a_client_that_is_gone_without_a_word_is_found_out_in_minutes() {
    let (_client, socket) = accepted();
    let socket = SockRef::from(socket.tcp().expect("it came by TCP"));
    assert!(socket.keepalive().expect("a setting"));
    assert_eq!(socket.tcp_keepalive_time().expect("a setting"), Duration::from_secs(60));
    assert_eq!(socket.tcp_keepalive_interval().expect("a setting"), Duration::from_secs(10));
    assert_eq!(socket.tcp_keepalive_retries().expect("a setting"), 3);
}

/// The kernel does not ask while it waits for something to be acknowledged, and it takes who takes nothing for gone.
#[test]
fn a_client_that_acknowledges_nothing_is_given_up_unless_it_may_take_nothing_for_longer() {
    let gone = Some(Duration::from_secs(90));
    for (send, given_up) in [(Some(60), gone), (Some(72), gone), (Some(73), None), (None, None)] {
        let limits = QuietLimits { send: send.map(Duration::from_secs), idle: None };
        let (_client, socket) = accepted();
        let Ok(arrival) = Gate::new(1, false).with_quiet_limits(limits).admit(socket) else {
            panic!("there is room")
        };
        let socket = SockRef::from(arrival.socket.tcp().expect("it came by TCP"));
        assert_eq!(socket.tcp_user_timeout().expect("a setting"), given_up, "{send:?}");
    }
}

/// As long as others came faster than they are accepted, it would look after nobody.
#[test]
fn a_turn_accepts_some_of_those_who_wait_and_each_of_them_is_let_in_in_the_end() {
    const CLIENTS: usize = 3 * ACCEPTS_PER_TURN + 1;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let address = Endpoint::Unix(path.clone());
    let openings = binder::open(&[address], None, None, false).expect("the path is free");
    let poll = Poll::new().expect("events");
    let mailboxes = vec![mailbox(&poll).expect("a waker")];
    let (gate, clock) = (Arc::new(Gate::new(CLIENTS, false)), Clock::start());
    let setup = ThreadSetup { thread: 0, poll, listeners: openings.listeners, mailboxes, gate, clock };
    let mut network = Network::new(setup, Echo { thread: 0, touched: Slots::default() }).expect("it listens");
    let connect = |_| UnixStream::connect(&path).expect("it listens");
    let _clients: Vec<UnixStream> = (0..CLIENTS).map(connect).collect();
    let mut events = Events::with_capacity(16);
    let (mut there, mut turns) = (0, 0);
    while there < CLIENTS {
        network.step(&mut events, Some(Duration::from_secs(60))).expect("events");
        let came = network.connections().len() - there;
        assert!(came <= ACCEPTS_PER_TURN, "{came} in one turn");
        there += came;
        turns += 1;
    }
    assert!(turns <= 5, "it waits for nothing in between: {turns}");
}

/// Nobody would take care of it, and whoever is at its other end would wait for good.
#[test]
fn a_connection_for_a_thread_that_has_ended_comes_back() {
    let running = start(2, 10);
    let (mailboxes, gate) = (running.mailboxes.clone(), Arc::clone(&running.gate));
    running.stop();
    for mailbox in &mailboxes {
        let socket = Socket::Simulated(Box::new(Held::default()));
        let Ok(arrival) = gate.admit(socket) else { panic!("there is room") };
        assert!(mailbox.adopt(arrival).is_some());
    }
}

/// What a client in the test's hands has said and heard.
#[derive(Default)]
struct Talk {
    /// Not read yet.
    sent: Vec<u8>,
    heard: Vec<u8>,
    /// Bytes that it still takes.
    room: usize,
}

/// Such a client.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<Talk>>);

impl Held {
    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.0.lock().expect("nobody panicked")
    }
}

impl SimulatedSocket for Held {
    fn register(&mut self, _: Token) {}

    fn shut_write(&mut self) {}
}

impl Read for Held {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut talk = self.talk();
        if talk.sent.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = talk.sent.len().min(buffer.len());
        talk.sent.drain(..n).as_slice().read(buffer)
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut talk = self.talk();
        let taken = bytes.len().min(talk.room);
        talk.room -= taken;
        talk.heard.extend_from_slice(&bytes[..taken]);
        if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A network thread that is turned by hand, its mailbox, and its only client.
fn by_hand(hand: &'static Hand) -> (Network<Echo>, Arc<Mailbox<()>>, Held) {
    by_hand_behind(hand, Gate::new(1, false))
}

/// The same behind this gate.
fn by_hand_behind(hand: &'static Hand, gate: Gate) -> (Network<Echo>, Arc<Mailbox<()>>, Held) {
    let poll = Poll::new().expect("events");
    let clock = Clock::by_hand(hand, 0);
    let (gate, mailboxes) = (Arc::new(gate), vec![mailbox(&poll).expect("a waker")]);
    let setup = ThreadSetup {
        thread: 0,
        poll,
        listeners: Vec::new(),
        mailboxes: mailboxes.clone(),
        gate: Arc::clone(&gate),
        clock,
    };
    let network =
        Network::new(setup, Echo { thread: 0, touched: Slots::default() }).expect("nothing listens");
    let client = Held::default();
    let Ok(arrival) = gate.admit(Socket::Simulated(Box::new(client.clone()))) else {
        panic!("there is room")
    };
    let [mailbox] = &mailboxes[..] else { panic!("one thread has one") };
    assert!(mailbox.adopt(arrival).is_none(), "the thread has not ended");
    (network, Arc::clone(mailbox), client)
}

/// It may be more than is read at once.
#[test]
fn a_stop_answers_all_that_has_arrived_but_not_for_ever_what_still_comes() {
    let lines = b"x\n".repeat(100_000);
    for is_endless in [false, true] {
        let hand = Hand::at_zero();
        let (mut network, mailbox, client) = by_hand(hand);
        client.talk().room = usize::MAX;
        client.talk().sent = [&b"first\n"[..], &lines].concat();
        mailbox.stop();
        for _ in 0..300 {
            network.turn_by_hand(&[]);
            if is_endless {
                client.talk().sent.extend_from_slice(&lines);
            }
        }
        let answers = client.talk().heard.iter().filter(|byte| **byte == b'\n').count();
        assert!(if is_endless { answers > 1_000_000 } else { answers == 100_001 }, "{answers}");
        client.talk().sent.clear();
        for tenth in 1..=(FIRST_REQUEST + LINGER).as_millis() / 100 {
            hand.set(u64::try_from(tenth).expect("short") * 100_000_000);
            network.turn_by_hand(&[]);
        }
        assert!(network.is_over());
    }
}

#[test]
fn whom_a_stop_spared_for_its_first_request_gets_the_answer_however_slowly_it_reads() {
    let hand = Hand::at_zero();
    let (mut network, mailbox, client) = by_hand(hand);
    mailbox.stop();
    network.turn_by_hand(&[]);
    client.talk().sent = b"hello\n".to_vec();
    network.turn_by_hand(&[(0, Readiness { is_readable: true, ..Readiness::default() })]);

    hand.set(u64::try_from(FIRST_REQUEST.as_nanos()).expect("short") + 1);
    network.turn_by_hand(&[]);
    client.talk().room = 100;
    network.turn_by_hand(&[(0, Readiness { is_writable: true, ..Readiness::default() })]);
    assert_eq!(client.talk().heard, b"0hello\n");

    hand.set(hand.now() + u64::try_from(LINGER.as_nanos()).expect("short"));
    network.turn_by_hand(&[]);
    assert!(network.is_over(), "and then it is let go");
}

/// A connection that is closed while bytes lie unread in it is reset, and what was written to it is lost.
#[test]
fn what_came_behind_a_last_request_is_read_before_the_connection_ends() {
    let hand = Hand::at_zero();
    let (mut network, mailbox, client) = by_hand(hand);
    client.talk().room = usize::MAX;
    client.talk().sent = b"wait\nquit\n".to_vec();
    assert!(turn_at(&mut network, hand, 0));
    client.talk().sent = b"more\n".to_vec();
    assert!(turn_at(&mut network, hand, 100));
    assert_eq!(client.talk().sent, b"more\n", "who waits is not read");
    mailbox.post(());
    hand.set(5_000_000_000);
    for _ in 0..4 {
        network.turn_by_hand(&[]);
    }
    assert_eq!(client.talk().heard, b"news\n0quit\n");
    assert_eq!(client.talk().sent, b"");
    assert!(
        turn_at(&mut network, hand, 7_000),
        "the machine stood still: what was sent meanwhile may come now"
    );
    assert!(!turn_at(&mut network, hand, 8_000));
}

/// At this time of the hand; whether the client is still there at the end of the turn.
fn turn_at(network: &mut Network<Echo>, hand: &Hand, ms: u64) -> bool {
    hand.set(ms * 1_000_000);
    network.turn_by_hand(&[(0, Readiness { is_readable: true, ..Readiness::default() })]);
    !network.connections().is_empty()
}

#[test]
fn who_waited_for_long_is_not_idle_when_the_answer_comes() {
    let limits = QuietLimits { send: None, idle: Some(Duration::from_secs(1)) };
    // Looks are a quarter of that apart.
    let hand = Hand::at_zero();
    let (mut network, mailbox, client) = by_hand_behind(hand, Gate::new(1, false).with_quiet_limits(limits));
    client.talk().room = usize::MAX;
    client.talk().sent = b"wait\nwait\nhello\n".to_vec();
    for ms in [0, 2_000, 4_900] {
        assert!(turn_at(&mut network, hand, ms), "it waits, at {ms} ms");
    }
    mailbox.post(());
    assert!(turn_at(&mut network, hand, 5_200), "it has got something, and waits again");
    assert!(turn_at(&mut network, hand, 7_000));
    mailbox.post(());
    for ms in [7_300, 7_301, 8_200] {
        assert!(turn_at(&mut network, hand, ms), "it may take its time, at {ms} ms");
    }
    assert_eq!(client.talk().heard, b"news\nnews\n0hello\n");
    assert!(!turn_at(&mut network, hand, 8_600), "it asks nothing, and waits for nothing");
}

#[test]
fn who_has_logged_out_has_a_minute_to_log_in_again() {
    let hand = Hand::at_zero();
    let (mut network, _mailbox, client) = by_hand(hand);
    client.talk().room = usize::MAX;
    for (ms, said) in
        [(0, "hello\n"), (100_000, "out\n"), (159_000, "in\n"), (300_000, "out\n"), (359_000, "")]
    {
        client.talk().sent.extend_from_slice(said.as_bytes());
        assert!(turn_at(&mut network, hand, ms), "{said:?} at {ms} ms");
    }
    assert!(!turn_at(&mut network, hand, 361_500), "it has not logged in again");
}
