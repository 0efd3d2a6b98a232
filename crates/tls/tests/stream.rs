//! The socket behaviour of an encrypted connection, over a wire that takes and gives as little as it likes.

#[path = "../../../tests/support/certificates.rs"]
mod certificates;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use certificates::{Authority, Pair};
use posthaste_tls::{Acceptor, Check, Connector, ServerFiles, Tls, Trust};

const REFUSAL: &[u8] = b"-ERR speak TLS\r\n";

/// One direction of a wire.
#[derive(Debug, Default)]
struct Way {
    bytes: VecDeque<u8>,
    closed: bool,
}

/// One end of a wire that holds at most `room` bytes each way and returns at most `sip` per read.
#[derive(Debug)]
struct End {
    from: Rc<RefCell<Way>>,
    to: Rc<RefCell<Way>>,
    room: usize,
    sip: usize,
}

fn wire(room: usize, sip: usize) -> (End, End) {
    let (there, back) = (Rc::<RefCell<Way>>::default(), Rc::<RefCell<Way>>::default());
    let one = End { from: Rc::clone(&back), to: Rc::clone(&there), room, sip };
    (one, End { from: there, to: back, room, sip })
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut from = self.from.borrow_mut();
        if from.bytes.is_empty() {
            return if from.closed { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let n = buffer.len().min(self.sip).min(from.bytes.len());
        for (to, byte) in buffer.iter_mut().zip(from.bytes.drain(..n)) {
            *to = byte;
        }
        Ok(n)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut to = self.to.borrow_mut();
        let n = bytes.len().min(self.room - to.bytes.len());
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        to.bytes.extend(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl End {
    fn close(&self) {
        self.to.borrow_mut().closed = true;
    }
}

fn acceptor(pair: &Pair, clients: Option<&Authority>) -> Acceptor {
    let (certificate, key) = (pair.certificate.clone(), pair.key.clone());
    let files = ServerFiles { certificate, key, clients: clients.map(Authority::certificate) };
    Acceptor::open(files, REFUSAL).expect("good files")
}

fn connector(authority: &Authority, own: Option<&Pair>) -> Connector {
    let own = own.map(|pair| (pair.certificate.clone(), pair.key.clone()));
    let trust = Trust { check: Check::SignerAndName, roots: Some(authority.certificate()), own };
    Connector::open(&trust).expect("good files")
}

/// Writes `bytes` and reads at the other end until all have arrived, in turns and as much as possible, like
/// an event loop.
fn carry(
    writer: &mut Tls<End>,
    reader: &mut Tls<End>,
    bytes: &[u8],
    read_bytes: usize,
) -> io::Result<Vec<u8>> {
    let (mut written, mut arrived) = (0, Vec::new());
    let mut buffer = vec![0; read_bytes];
    while arrived.len() < bytes.len() {
        while written < bytes.len() {
            match writer.write(&bytes[written..]) {
                Ok(n) => written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(arrived),
                Ok(n) => arrived.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        // There is room again; an event loop would learn that from an event.
        let _ = reader.push();
        // A writer reads too: the handshake's answers arrive that way.
        match writer.read(&mut buffer) {
            Ok(n) => assert_eq!(n, 0, "nobody wrote back"),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let _ = writer.push();
    }
    Ok(arrived)
}

fn pair(authority: &Authority, room: usize, sip: usize) -> (Tls<End>, Tls<End>) {
    let (near, far) = wire(room, sip);
    let server = acceptor(&authority.issue("server"), None).accept(far).expect("a session");
    (connector(authority, None).connect(near, "localhost:1").expect("a session"), server)
}

#[test]
fn every_byte_arrives_in_order_however_little_the_wire_takes() {
    let authority = Authority::new();
    let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
    for (room, sip, read_bytes) in
        [(1 << 20, 1 << 20, 1 << 16), (1000, 1 << 20, 100), (70_000, 4096, 4096), (17, 5, 3)]
    {
        let bytes = if room < 100 { &bytes[..1000] } else { &bytes[..] };
        let (mut client, mut server) = pair(&authority, room, sip);
        let arrived = carry(&mut client, &mut server, bytes, read_bytes).expect("it is carried");
        assert!(arrived == bytes, "to the server, {room} {sip} {read_bytes}");
        let arrived = carry(&mut server, &mut client, bytes, read_bytes).expect("it is carried");
        assert!(arrived == bytes, "to the client, {room} {sip} {read_bytes}");
    }
}

#[test]
fn a_write_counts_what_the_kernel_has_taken() {
    let authority = Authority::new();
    let (mut client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    carry(&mut client, &mut server, b"x", 16).expect("hands are shaken");
    server.socket_mut().room = 100;
    server.socket().to.borrow_mut().bytes.clear();
    assert_eq!(server.pending_bytes(), 0);
    let answer = server.write(&[7; 1000]);
    assert!(
        answer.is_err_and(|error| error.kind() == ErrorKind::WouldBlock),
        "it lies here, and is not written"
    );
    assert_eq!(server.pending_bytes(), 1000, "its beginning is on the way");
    server.socket_mut().room = 1 << 20;
    server.push().expect("there is room");
    assert_eq!(server.pending_bytes(), 1000, "no write has counted it");
    assert_eq!(server.write(&[7; 1000]).expect("there is room"), 1000);
    assert_eq!(server.pending_bytes(), 0);
}

#[test]
fn a_short_read_has_emptied_the_wire() {
    let authority = Authority::new();
    let (mut client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    carry(&mut client, &mut server, b"x", 16).expect("hands are shaken");
    for _ in 0..50 {
        let n = client.write(&[7; 1000]).expect("there is room");
        assert_eq!(n, 1000);
    }
    let mut buffer = vec![0; 1 << 16];
    assert_eq!(server.read(&mut buffer).expect("bytes"), 50_000);
    assert!(server.socket().from.borrow().bytes.is_empty());
}

#[test]
fn the_end_is_known_with_the_last_bytes_and_read_after_them() {
    let authority = Authority::new();
    let (mut client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    carry(&mut client, &mut server, b"x", 16).expect("hands are shaken");
    assert!(!server.has_ended());
    client.write_all(b"last").expect("there is room");
    client.send_close_notify();
    let mut buffer = [0; 16];
    assert_eq!(server.read(&mut buffer).expect("bytes"), 4);
    assert!(server.has_ended(), "no event of the kernel tells of this end");
    assert_eq!(server.read(&mut buffer).expect("the end"), 0);
    assert_eq!(server.write(b"answer").expect("the other way is open"), 6);
    assert_eq!(client.read(&mut buffer).expect("bytes"), 6);
}

#[test]
fn an_end_is_known_to_who_looks_ahead_and_what_came_before_it_is_read_later() {
    let authority = Authority::new();
    let (mut client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    carry(&mut client, &mut server, b"x", 16).expect("hands are shaken");
    server.look_ahead().expect("there is nothing");
    client.write_all(b"last").expect("there is room");
    server.look_ahead().expect("there are bytes");
    assert!(!server.has_ended());
    client.send_close_notify();
    server.look_ahead().expect("there is the end");
    assert!(server.has_ended());
    let mut buffer = [0; 16];
    assert_eq!(server.read(&mut buffer).expect("bytes"), 4);
    assert_eq!(server.read(&mut buffer).expect("the end"), 0);
}

#[test]
fn who_looks_ahead_holds_little_however_much_there_is() {
    let authority = Authority::new();
    let (mut client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    carry(&mut client, &mut server, b"x", 16).expect("hands are shaken");
    client.write_all(&[b'x'; 500_000]).expect("there is room");
    for _ in 0..100 {
        server.look_ahead().expect("there are bytes");
    }
    assert!(server.socket().from.borrow().bytes.len() > 400_000, "the rest waits where it is");
    assert_eq!(server.read(&mut vec![0; 600_000]).expect("bytes"), 500_000);
}

#[test]
fn an_end_without_a_word_is_an_end() {
    let authority = Authority::new();
    let (mut client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    carry(&mut client, &mut server, b"x", 16).expect("hands are shaken");
    client.socket().close();
    assert_eq!(server.read(&mut [0; 16]).expect("the end"), 0);
    let (client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    client.socket().close();
    assert_eq!(server.read(&mut [0; 16]).expect("the end"), 0, "in the middle of the handshake too");
}

#[test]
fn plain_text_is_answered_in_plain_text_and_ends() {
    let authority = Authority::new();
    let (mut near, far) = wire(1 << 20, 1 << 20);
    let mut server = acceptor(&authority.issue("server"), None).accept(far).expect("a session");
    near.write_all(b"PING\r\n").expect("there is room");
    let error = server.read(&mut [0; 16]).expect_err("it is no TLS");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let mut answer = vec![0; 100];
    let n = near.read(&mut answer).expect("an answer");
    assert_eq!(&answer[..n], REFUSAL);
}

#[test]
fn garbage_after_the_handshake_is_an_error() {
    let authority = Authority::new();
    let (mut client, mut server) = pair(&authority, 1 << 20, 1 << 20);
    carry(&mut client, &mut server, b"x", 16).expect("hands are shaken");
    client
        .socket_mut()
        .write_all(&[23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20])
        .expect("there is room");
    assert!(server.read(&mut [0; 16]).is_err_and(|error| error.kind() == ErrorKind::InvalidData));
}

/// Returns a connector that trusts this certificate of a server and no other.
fn pinning(server: &Pair) -> Connector {
    let roots = Some(server.certificate.clone());
    Connector::open(&Trust { check: Check::SignerAndName, roots, own: None }).expect("good files")
}

/// Tries to exchange a byte between a client and a server.
fn meet(acceptor: &Acceptor, connector: &Connector, host: &str) -> io::Result<()> {
    let (near, far) = wire(1 << 20, 1 << 20);
    let mut server = acceptor.accept(far).expect("a session");
    let mut client = connector.connect(near, host).expect("a session");
    carry(&mut client, &mut server, b"x", 16)?;
    // The server's verdict on the client's certificate reaches the client afterwards.
    carry(&mut server, &mut client, b"y", 16).map(drop)
}

#[test]
fn certificates_are_judged_on_both_sides() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let good = acceptor(&ours.issue("server"), None);
    let trusting = connector(&ours, None);
    meet(&good, &trusting, "localhost:1").expect("by its name");
    meet(&good, &trusting, "127.0.0.1:1").expect("by its address");
    let text = |result: io::Result<()>| result.expect_err("refused").to_string();
    assert!(text(meet(&good, &trusting, "other.example:1")).contains("not valid for name"), "another host");
    assert!(text(meet(&good, &connector(&theirs, None), "localhost:1")).contains("UnknownIssuer"));
    let pair = ours.sign("late", "DNS:localhost", -1);
    let late = acceptor(&pair, None);
    assert!(text(meet(&late, &trusting, "localhost:1")).contains("invalid peer certificate"));
    assert!(text(meet(&late, &pinning(&pair), "localhost:1")).contains("certificate expired"));
    let own = ours.issue("own");
    meet(&acceptor(&own, None), &pinning(&own), "localhost:1").expect("trusted itself");
}

#[test]
fn clients_show_a_certificate_where_one_is_asked_for() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let strict = acceptor(&ours.issue("server"), Some(&ours));
    meet(&strict, &connector(&ours, Some(&ours.issue("client"))), "localhost:1").expect("a client of ours");
    meet(&strict, &connector(&ours, None), "localhost:1").expect_err("a client without one");
    meet(&strict, &connector(&ours, Some(&theirs.issue("client"))), "localhost:1").expect_err("of others");
    let late = ours.sign("late", "DNS:client", -1);
    meet(&strict, &connector(&ours, Some(&late)), "localhost:1").expect_err("whose time is over");
}

#[test]
fn files_are_read_again_and_wrong_ones_change_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let pair = ours.issue("server");
    let acceptor = acceptor(&pair, None);
    theirs.issue("server").replace(&pair);
    meet(&acceptor, &connector(&ours, None), "localhost:1").expect("not read again yet");
    acceptor.reload().expect("good files");
    meet(&acceptor, &connector(&theirs, None), "localhost:1").expect("the new one");
    std::fs::write(&pair.certificate, "nothing").expect("a file");
    let refused = |file: &str, words: &str| {
        let error = acceptor.reload().expect_err(words).to_string();
        assert!(error.contains(file) && error.contains(words), "{error}");
        meet(&acceptor, &connector(&theirs, None), "localhost:1").expect("what was read before");
    };
    refused("server.crt", "no certificate in it");
    ours.issue("other").replace(&pair);
    std::fs::copy(theirs.issue("third").key, &pair.key).expect("a key");
    refused("server.crt", "it is not the certificate of the key in");
    ours.issue("half").replace(&pair);
    let key = std::fs::read(&pair.key).expect("a key");
    std::fs::write(&pair.key, &key[..100]).expect("a file");
    refused("server.key", "it breaks off before its -----END line");
    std::fs::write(&pair.key, "nothing").expect("a file");
    refused("server.key", "no private key in it");
    ours.sign("late", "DNS:localhost", -1).replace(&pair);
    refused("server.crt", "it expired at ");
    ours.sign_too_early("early").replace(&pair);
    refused("server.crt", "it is not valid before 2049-01-01T00:00:00Z, and clients would refuse it");
}
