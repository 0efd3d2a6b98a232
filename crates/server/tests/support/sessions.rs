//! Sessions of clients who may send anything, and what they must get: to each request one answer, in order, unless it
//! wants none; after bytes that are no request one error and the end. However the bytes are cut, the answers are the
//! same.
//!
//! A story is bytes: they are sent over the connection at hand, but for [`ESCAPE`], after which a byte says what happens.
//! So a story can be written by hand and mutated by a fuzzer.

#![allow(dead_code, reason = "each program uses its own part of this")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use posthaste_server::path::limits;
use posthaste_wire::command::{ClientReply, Command, Session, parse};
use posthaste_wire::decode::{Decoded, Decoder, Limits};
use posthaste_wire::operation::Operation;
use posthaste_wire::reply::{Reply, Value, decode};

use crate::by_hand::{MESSAGE_BYTES, Tier};

/// Byte after which another byte says what happens; no request needs it.
pub(crate) const ESCAPE: u8 = 0xff;

/// Number of connections in a story.
const CLIENTS: usize = 3;

/// Number of turns without anything new after which nothing new is expected.
const QUIET: usize = 4;

const LIMITS: Limits = Limits {
    bulk_bytes: limits::ARGUMENT_BYTES_MIN,
    request_bytes: MESSAGE_BYTES + limits::REQUEST_BYTES_EXTRA,
    args: limits::ARGUMENTS_MAX,
    inline_bytes: limits::INLINE_BYTES_MAX,
};

/// What must be answered to bytes, if the connection is not closed before.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Number of answers.
    pub(crate) answers: usize,
    /// Indices of answers that differ from run to run, such as times and numbers of connections.
    varying: Vec<usize>,
    /// Whether a pop may wait, so that what follows it is not answered.
    may_wait: bool,
    /// Whether a request may close a connection.
    kills: bool,
}

/// The modes of CLIENT REPLY: which answers are wanted.
#[derive(Clone, Copy, PartialEq)]
enum Mute {
    No,
    Once,
    Always,
}

impl Expected {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let (mut decoder, mut args, mut at) = (Decoder::new(LIMITS), Vec::new(), 0);
        let (mut expected, mut mute) = (Self::default(), Mute::No);
        loop {
            args.clear();
            match decoder.decode(bytes, at, &mut args) {
                Decoded::Request { end } if args.is_empty() => at = end,
                Decoded::Request { end } => {
                    let command = parse(&args, bytes, MESSAGE_BYTES).ok();
                    mute = expected.add(command.as_ref(), mute);
                    at = end;
                    if command == Some(Command::Session(Session::Quit)) {
                        return expected;
                    }
                }
                Decoded::Unescaped { end, bytes: meant } => {
                    let command = parse(&args, &meant, MESSAGE_BYTES).ok();
                    mute = expected.add(command.as_ref(), mute);
                    at = end;
                    if command == Some(Command::Session(Session::Quit)) {
                        return expected;
                    }
                }
                Decoded::TooBig { end, .. } => {
                    mute = expected.add(None, mute);
                    at = end;
                }
                Decoded::Discard(n) => at += n,
                Decoded::Malformed(_) => {
                    expected.add(None, mute);
                    return expected;
                }
                Decoded::NeedBytes(_) => return expected,
            }
        }
    }

    /// Counts the answer to a request, or the error if it is refused. Returns which answers are wanted from then on.
    fn add(&mut self, command: Option<&Command>, mute: Mute) -> Mute {
        match command {
            Some(Command::Session(Session::ClientReply(reply))) => {
                return match reply {
                    ClientReply::On => {
                        self.answers += 1;
                        Mute::No
                    }
                    ClientReply::Off => Mute::Always,
                    ClientReply::Skip if mute == Mute::No => Mute::Once,
                    ClientReply::Skip => mute,
                };
            }
            Some(Command::Session(Session::Reset)) => {
                self.answers += usize::from(mute != Mute::Once);
                return Mute::No;
            }
            Some(Command::Session(Session::ClientKill(_))) => self.kills = true,
            Some(Command::Store(Operation::Pop(pop))) => self.may_wait |= pop.block_ms > 0,
            _ => {}
        }
        if mute == Mute::No {
            if command.is_some_and(varies) {
                self.varying.push(self.answers);
            }
            self.answers += 1;
        }
        if mute == Mute::Always { mute } else { Mute::No }
    }
}

fn varies(command: &Command) -> bool {
    let Command::Session(session) = command else { return false };
    matches!(
        session,
        Session::Hello { .. }
            | Session::Time
            | Session::Info(_)
            | Session::ClientId
            | Session::ClientInfo
            | Session::ClientList(_)
    )
}

/// A client of a story.
#[derive(Default)]
struct Client {
    stream: Option<UnixStream>,
    /// Whether it has closed its sending half.
    is_half: bool,
    /// All bytes that it sent, though the tier may not have read them.
    said: Vec<u8>,
    heard: Vec<u8>,
}

impl Client {
    fn say(&mut self, bytes: &[u8]) {
        let Some(stream) = &mut self.stream else { return };
        // Stories are shorter than what the kernel holds; whoever was closed is told no more.
        if stream.write_all(bytes).is_ok() {
            self.said.extend_from_slice(bytes);
        }
    }

    /// Reads what has arrived. Returns whether there was anything.
    fn hear(&mut self) -> bool {
        let (Some(stream), before) = (&mut self.stream, self.heard.len()) else { return false };
        match stream.read_to_end(&mut self.heard) {
            Ok(_) => self.stream = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Cut off with something unread.
            Err(_) => self.stream = None,
        }
        self.heard.len() > before
    }

    /// Returns the answers that have arrived, which must be whole; the last may be cut off if the connection was
    /// closed.
    fn answers(&self, may_be_cut: bool) -> Vec<Value<'_>> {
        let (mut rest, mut answers) = (&self.heard[..], Vec::new());
        while !rest.is_empty() {
            match decode(rest) {
                Reply::Value(value, used) => {
                    answers.push(value);
                    rest = &rest[used..];
                }
                Reply::NeedBytes(_) if may_be_cut => break,
                other => panic!("no whole answers: {other:?} in {:?}", String::from_utf8_lossy(&self.heard)),
            }
        }
        answers
    }
}

/// Runs turns of tier, worker and clients until nothing new comes.
fn settle(tier: &mut Tier, clients: &mut [Client]) {
    let (mut quiet, mut state) = (0, (0, 0));
    while quiet < QUIET {
        tier.turn();
        tier.work();
        let heard = clients.iter_mut().map(Client::hear).filter(|heard| *heard).count();
        // Of a pop whose time is over the answer is on its way when nobody waits any more.
        let before = std::mem::replace(&mut state, (tier.requests(), tier.waiting()));
        let is_quiet = heard == 0 && state == before && tier.shared.line.is_empty();
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
}

/// Plays a story of several connections, and checks the answers on each.
pub(crate) fn tell(tier: &mut Tier, story: &[u8]) {
    let mut clients: [Client; CLIENTS] = Default::default();
    for client in &mut clients {
        client.stream = tier.connect();
    }
    let (mut at_hand, mut are_cut) = (0, false);
    let mut parts = story.split(|byte| *byte == ESCAPE);
    clients[0].say(parts.next().unwrap_or_default());
    for part in parts {
        let (what, bytes) = part.split_first().unwrap_or((&0, &[]));
        match what % 8 {
            0..=2 => at_hand = usize::from(what % 8),
            3 => tier.turn(),
            4 => tier.work(),
            5 => tier.pass(1 << (what >> 4)),
            6 => {
                // No more is sent; what was asked is answered.
                let client = &mut clients[at_hand];
                client.is_half = true;
                let _ = client.stream.as_ref().map(|stream| stream.shutdown(Shutdown::Write));
            }
            _ => {
                are_cut |= Expected::of(&clients[at_hand].said).kills;
                clients[at_hand] = Client { stream: tier.connect(), ..Client::default() };
            }
        }
        clients[at_hand].say(bytes);
    }
    settle(tier, &mut clients);
    let expected: Vec<Expected> = clients.iter().map(|client| Expected::of(&client.said)).collect();
    are_cut |= expected.iter().any(|expected| expected.kills);
    let someone_waits = tier.waiting() > 0;
    for (client, expected) in clients.iter().zip(&expected) {
        let answers = client.answers(are_cut).len();
        // Whoever sends no more does not wait either, and gets nothing instead.
        let may_wait = someone_waits && expected.may_wait && !client.is_half;
        let is_exact = !are_cut && !may_wait;
        assert!(answers <= expected.answers, "{answers} answers to {}", expected.answers);
        assert!(answers == expected.answers || !is_exact, "{answers} answers to {}", expected.answers);
    }
    drop(clients);
    tier.begin_anew();
}

/// Checks that the answers to bytes are the same whether they come whole or in pieces.
pub(crate) fn cut(tier: &mut Tier, bytes: &[u8], pieces: impl Iterator<Item = usize>) {
    let expected = Expected::of(bytes);
    let whole = converse(tier, bytes, std::iter::empty());
    let parts = converse(tier, bytes, pieces);
    let (whole, parts) = (whole.answers(expected.kills), parts.answers(expected.kills));
    let same = whole.iter().zip(&parts).enumerate().filter(|(at, _)| !expected.varying.contains(at));
    for (at, (one, other)) in same {
        assert_eq!(one, other, "answer {at}");
    }
    if !expected.kills && !expected.may_wait {
        assert_eq!((whole.len(), parts.len()), (expected.answers, expected.answers));
    }
}

fn converse(tier: &mut Tier, bytes: &[u8], pieces: impl Iterator<Item = usize>) -> Client {
    let mut client = Client { stream: tier.connect(), ..Client::default() };
    let mut rest = bytes;
    for piece in pieces {
        let (now, later) = rest.split_at(piece.min(rest.len()));
        client.say(now);
        tier.turn();
        tier.work();
        client.hear();
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    client.say(rest);
    settle(tier, std::slice::from_mut(&mut client));
    client.stream = None;
    tier.begin_anew();
    client
}
