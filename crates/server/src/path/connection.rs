//! One connection: its socket, what was read and not yet parsed, what is to be written, and its session.
//!
//! An idle connection holds no buffer: bytes are read into the thread's buffer and only an unfinished rest is kept;
//! answers are written from a buffer that goes back to the thread when it is empty.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use posthaste_wire::command::{self, Command, Kind};
use posthaste_wire::decode::{Decoded, Decoder};
use posthaste_wire::encode::Encoder;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;

use super::accept::Socket;
use super::bundle::{Bundle, Request, RequestName, length};
use super::limits::{FIRST_REQUEST, LINGER_MS, OUTPUT_BYTES_PAUSE, UNAUTHENTICATED_BYTES_MAX};
use super::session::{Session, Step};
use super::turn::Turn;
use crate::clients::Client;
use crate::newcomers::Newcomer;
use crate::queue::answer::Answer;
use crate::queue::rules::{Ask, Outcome};

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Served.
    Open,
    /// Nothing more is read; it ends when its answers are written.
    Closing,
    /// Everything is written and said; what still comes is dropped, so that no reset destroys the last answers.
    Lingering,
    /// To be forgotten.
    Over,
}

/// One connection.
pub struct Connection {
    /// Its card.
    pub client: Arc<Client>,
    /// Its socket.
    pub socket: Socket,
    /// Its session.
    pub session: Session,
    /// Where it is in its life.
    pub life: Life,
    /// A bundle or a login is under way; nothing is parsed until it is back.
    pub under_way: bool,
    /// The bundle under way ends with a pop that may wait.
    pub blocked: bool,
    /// The kernel may have bytes for us.
    pub can_read: bool,
    /// The peer has said its last: behind what can be read there is the end, of which no further event tells.
    pub hung_up: bool,
    /// The peer has said that it sends no more.
    pub peer_done: bool,
    /// It stands in the turn's list of those to serve.
    pub listed: bool,
    /// It stands in the turn's list of those to write to.
    pub dirty: bool,
    decoder: Decoder,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    can_write: bool,
    /// Requests read so far.
    requests: u64,
    /// What was read and not parsed may hold whole requests.
    holds_requests: bool,
    /// An error that waits for its turn behind a bundle, and whether the connection ends with it.
    owed: Option<(Fault, bool)>,
    /// Until the peer has shown who it is.
    newcomer: Option<Newcomer>,
}

impl Connection {
    /// A connection just accepted.
    #[must_use]
    pub fn new(client: Arc<Client>, socket: Socket, session: Session, decoder: Decoder) -> Self {
        Self {
            client,
            socket,
            session,
            life: Life::Open,
            under_way: false,
            blocked: false,
            can_read: true,
            hung_up: false,
            peer_done: false,
            listed: false,
            dirty: false,
            decoder,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            can_write: true,
            requests: 0,
            holds_requests: false,
            owed: None,
            newcomer: None,
        }
    }

    /// A connection whose peer has little time to show who it is, if it has to.
    #[must_use]
    pub fn introduced_by(mut self, newcomer: Newcomer) -> Self {
        self.newcomer = (!self.is_introduced()).then_some(newcomer);
        self
    }

    /// Whether the peer has yet to show who it is.
    #[must_use]
    pub const fn is_newcomer(&self) -> bool {
        self.newcomer.is_some()
    }

    fn is_introduced(&self) -> bool {
        self.session.is_admitted() && !self.socket.is_handshaking()
    }

    /// Of a newcomer: whether the connection goes on, or is over because its peer took too long.
    pub fn look_after(&mut self, now_ns: u64) -> Option<Life> {
        if self.is_introduced() {
            self.newcomer = None;
        }
        let newcomer = self.newcomer.as_ref()?;
        let is_late = newcomer.is_late(self.socket.is_handshaking(), now_ns);
        Some(if is_late { Life::Over } else { Life::Open })
    }

    /// Reads once and handles every whole request, as far as the path lets it.
    pub fn serve(&mut self, turn: &mut Turn<'_>) {
        if self.life == Life::Lingering {
            return self.drop_input(turn);
        }
        if !self.is_readable() {
            return;
        }
        if let Some((fault, last)) = self.owed.take() {
            self.refuse_for_good(&fault, last, turn);
        }
        if !self.input.is_empty() {
            self.parse_kept(turn);
        }
        if self.can_read && self.is_readable() {
            self.read(turn);
        }
        if self.peer_done {
            self.close_when_idle();
        }
    }

    /// Nothing more will be read; unless something is under way, that was all.
    pub fn close_when_idle(&mut self) {
        if self.life == Life::Open && !self.under_way {
            self.life = Life::Closing;
        }
    }

    /// While the server stops: whether the peer has come so recently that its first request may be on the way.
    #[must_use]
    pub fn may_still_ask(&self, now_ns: u64) -> bool {
        let age = now_ns.saturating_sub(self.client.connected_ns);
        self.client.requests.load(Ordering::Relaxed) == 0
            && !self.peer_done
            && u128::from(age) < FIRST_REQUEST.as_nanos()
    }

    /// Whether there is something to do for this connection without a new event.
    #[must_use]
    pub fn wants_turn(&self) -> bool {
        match self.life {
            Life::Open => self.is_readable() && (self.can_read || self.holds_requests || self.peer_done),
            Life::Lingering => self.can_read,
            Life::Closing | Life::Over => false,
        }
    }

    /// The buffer for answers, taken from the thread when there is none yet.
    pub fn output(&mut self, turn: &mut Turn<'_>) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = turn.buffer();
        }
        turn.wrote(self.client.address, &mut self.dirty);
        &mut self.output
    }

    /// Lets the session write an answer.
    pub fn answer_with<T>(
        &mut self,
        turn: &mut Turn<'_>,
        write: impl FnOnce(&mut Session, &Client, &mut Vec<u8>) -> T,
    ) -> T {
        self.output(turn);
        write(&mut self.session, &self.client, &mut self.output)
    }

    /// A bundle is back: its answers go out in its place.
    pub fn take_answers(&mut self, bundle: &mut Bundle, turn: &mut Turn<'_>) {
        self.under_way = false;
        self.blocked = false;
        if self.session.is_muted() && !self.session.answers() {
            bundle.answers.clear();
        }
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut bundle.answers);
            turn.wrote(self.client.address, &mut self.dirty);
        } else {
            self.output(turn).extend_from_slice(&bundle.answers);
        }
    }

    /// Writes what is to be written, as far as the peer takes it.
    pub fn flush(&mut self, turn: &mut Turn<'_>) {
        self.dirty = false;
        while self.can_write && self.written < self.output.len() {
            match self.socket.write(&self.output[self.written..]) {
                Ok(0) => self.life = Life::Over,
                Ok(n) => self.written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.can_write = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.life = Life::Over,
            }
            if self.life == Life::Over {
                return;
            }
        }
        if self.written == self.output.len() {
            self.written = 0;
            turn.give_back(std::mem::take(&mut self.output));
        }
        if self.is_flushed() && self.life == Life::Closing && !self.under_way {
            let is_quiet = self.peer_done || self.idle_ms(turn) >= LINGER_MS;
            self.life = if is_quiet { Life::Over } else { Life::Lingering };
            self.socket.shut_write();
        }
    }

    /// The kernel takes bytes again.
    pub fn now_writable(&mut self) {
        self.can_write = true;
        self.socket.now_writable();
    }

    /// Whether every answer is written.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    fn is_readable(&self) -> bool {
        self.life == Life::Open && !self.under_way && self.output.len() - self.written < OUTPUT_BYTES_PAUSE
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        let mut buffer = turn.take_read_buffer();
        match self.read_socket(&mut buffer) {
            Ok(0) => {}
            Ok(n) if self.input.is_empty() => {
                let used = self.parse(&buffer[..n], turn);
                if used < n {
                    self.input = turn.buffer();
                    self.input.extend_from_slice(&buffer[used..n]);
                }
            }
            Ok(n) => {
                self.input.extend_from_slice(&buffer[..n]);
                self.parse_kept(turn);
            }
            Err(error) => {
                self.life = Life::Over;
                if self.socket.is_handshaking() {
                    let house = turn.house;
                    house.newcomers.handshake_failed(&self.client.peer, &error, house.clock.now());
                }
            }
        }
        turn.give_read_buffer(buffer);
    }

    /// Reads once; a short read means that the kernel has no more, and an event will tell when it has. Not of the end, if an
    /// event has told of that with the bytes.
    fn read_socket(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buffer) {
                Ok(n) => {
                    self.can_read = n == buffer.len() || n > 0 && (self.hung_up || self.socket.has_ended());
                    self.peer_done |= n == 0;
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.can_read = false;
                    return Ok(0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn parse_kept(&mut self, turn: &mut Turn<'_>) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.parse(&input, turn);
        if used == input.len() {
            input.clear();
            turn.give_back(input);
        } else {
            input.drain(..used);
            self.input = input;
        }
    }

    fn drop_input(&mut self, turn: &mut Turn<'_>) {
        let mut buffer = turn.take_read_buffer();
        if self.can_read && self.read_socket(&mut buffer).is_err() || self.peer_done {
            self.life = Life::Over;
        }
        turn.give_read_buffer(buffer);
    }

    /// Handles the whole requests in `input`; how many bytes are done with.
    fn parse(&mut self, input: &[u8], turn: &mut Turn<'_>) -> usize {
        turn.parsed_at = turn.house.clock.stamp();
        self.holds_requests = true;
        let mut args = std::mem::take(turn.args);
        let mut parsing = Parsing { input, base: 0, at: 0, bundle: None };
        while self.is_readable() && parsing.at < input.len() {
            args.clear();
            if !self.parse_one(&mut parsing, &mut args, turn) {
                break;
            }
        }
        let Parsing { base, at, bundle, .. } = parsing;
        self.client.requests.store(self.requests, Ordering::Relaxed);
        self.holds_requests &= at < input.len();
        if let Some(mut bundle) = bundle {
            bundle.bytes.extend_from_slice(&input[base..at]);
            self.under_way = true;
            turn.outgoing.push(bundle);
        }
        *turn.args = args;
        at
    }

    /// Handles the next request; false when it has to wait for more bytes or for its turn.
    fn parse_one(&mut self, parsing: &mut Parsing<'_>, args: &mut Vec<Span>, turn: &mut Turn<'_>) -> bool {
        let input = &parsing.input[parsing.base..];
        match self.decoder.decode(input, parsing.at - parsing.base, args) {
            Decoded::Request { end } if args.is_empty() => parsing.skip_to(end),
            Decoded::Request { end } => {
                let mut parsed = command::parse(args, input, turn.house.message_bytes_max);
                if let (Some(grants), Ok(Command::Store(operation))) = (self.session.grants(), &parsed)
                    && let Err(fault) = grants.allow(operation, input)
                {
                    parsed = Err(fault);
                }
                if parsing.bundle.is_some() && !matches!(parsed, Ok(Command::Store(_))) {
                    // Only requests to the store travel in bundles; others wait until the bundle is back.
                    return false;
                }
                self.requests += 1;
                match parsed {
                    Ok(Command::Store(operation)) => return self.ask(operation, end, parsing, turn),
                    Ok(Command::Session(command)) => {
                        self.obey(&command, input, parsing.length_to(end), turn);
                    }
                    Err(fault) => self.refuse(&self.known_only_inside(fault), parsing.length_to(end), turn),
                }
                parsing.skip_to(end);
            }
            Decoded::NeedBytes(more) => {
                let held = input.len() - (parsing.at - parsing.base) + more;
                if !self.session.is_admitted() && held > UNAUTHENTICATED_BYTES_MAX {
                    let fault = Fault::new(Word::NoAuth, "log in before sending this much");
                    self.refuse_for_good(&fault, true, turn);
                }
                self.holds_requests = false;
                return false;
            }
            Decoded::Discard(n) => parsing.skip_to(parsing.at - parsing.base + n),
            Decoded::TooBig { end, fault } => {
                parsing.skip_to(end);
                return self.refuse_in_turn(fault, false, parsing, turn);
            }
            Decoded::Malformed(fault) => return self.refuse_in_turn(fault, true, parsing, turn),
        }
        true
    }

    /// A request to the store: answered on the spot when it may be, else added to the bundle.
    fn ask(
        &mut self,
        operation: Operation,
        end: usize,
        parsing: &mut Parsing<'_>,
        turn: &mut Turn<'_>,
    ) -> bool {
        let account = match self.session.account() {
            Ok(account) => account,
            Err(fault) => {
                self.refuse(&fault, parsing.length_to(end), turn);
                parsing.skip_to(end);
                return true;
            }
        };
        let (kind, request_bytes) = (operation.kind(), parsing.length_to(end));
        if parsing.bundle.is_none() {
            let ask = Ask { account, operation: &operation, bytes: &parsing.input[parsing.base..] };
            if let Some((outcome, answer_bytes)) = self.answer_at_once(ask, turn) {
                turn.answered_at_once(self.last_request(), kind, outcome, [request_bytes, answer_bytes]);
                parsing.skip_to(end);
                return true;
            }
        }
        let is_last = operation.may_answer_much() || self.session.is_muted();
        let number = self.requests;
        let bundle = parsing.bundle.get_or_insert_with(|| {
            let mut bundle = turn.bundle(self.client.address, account, self.session.protocol);
            bundle.number = number;
            bundle
        });
        self.blocked = matches!(&operation, Operation::Pop(pop) if pop.block_ms > 0);
        let request = Request::new(operation, kind, turn.parsed_at);
        bundle.requests.push(Request { request_bytes: length(request_bytes), ..request });
        parsing.at = parsing.base + end;
        !self.blocked && !is_last && bundle.requests.len() < turn.house.bundle_requests_max
    }

    /// The outcome and the bytes of the answer, if there is one at once.
    fn answer_at_once(&mut self, ask: Ask<'_>, turn: &mut Turn<'_>) -> Option<(Outcome, usize)> {
        if !turn.house.store.at_once(ask.operation) {
            return None;
        }
        let protocol = self.session.protocol;
        let house = turn.house;
        let output = self.output(turn);
        let before = output.len();
        let outcome = house.store.answer(ask, &mut Answer::new(output, protocol));
        if outcome.is_some() && self.session.is_muted() && !self.session.answers() {
            self.output.truncate(before);
        }
        outcome.map(|outcome| (outcome, self.output.len() - before))
    }

    /// A request to the session.
    fn obey(&mut self, command: &command::Session, bytes: &[u8], request_bytes: usize, turn: &mut Turn<'_>) {
        let muted = self.session.is_muted() && !matches!(command, command::Session::ClientReply(_));
        let house = turn.house;
        let (step, answer_bytes) = self.answer_with(turn, |session, client, output| {
            let before = output.len();
            let step = session.execute(command, bytes, client, house, output);
            if muted && !session.answers() {
                output.truncate(before);
            }
            (step, output.len() - before)
        });
        turn.answered_at_once(self.last_request(), Kind::Session, Outcome::Ok, [request_bytes, answer_bytes]);
        match step {
            Step::Answered => {}
            Step::Close => self.life = Life::Closing,
            Step::Login { account, secret } => {
                self.under_way = true;
                turn.log_in(&self.client, &account, &secret);
            }
        }
    }

    /// An error answer, that no station counted, to a request of so many bytes.
    pub fn refuse(&mut self, fault: &Fault, request_bytes: usize, turn: &mut Turn<'_>) {
        let protocol = self.session.protocol;
        let output = self.output(turn);
        let before = output.len();
        Encoder::new(output, protocol).error(fault);
        let bytes = [request_bytes, output.len() - before];
        turn.answered_at_once(self.last_request(), Kind::Session, Outcome::Error, bytes);
    }

    /// The name of the request at hand.
    fn last_request(&self) -> RequestName {
        RequestName { client: self.client.address.client, number: self.requests }
    }

    /// Before login it is no use to hear what is wrong with a request to the store.
    fn known_only_inside(&self, fault: Fault) -> Fault {
        match fault.word {
            Word::BadQuery | Word::TooBig => self.session.account().err().unwrap_or(fault),
            _ => fault,
        }
    }

    /// An error in the stream itself; it waits when a bundle is before it. False: nothing more can be parsed now.
    fn refuse_in_turn(
        &mut self,
        fault: Fault,
        last: bool,
        parsing: &Parsing<'_>,
        turn: &mut Turn<'_>,
    ) -> bool {
        if parsing.bundle.is_some() {
            self.owed = Some((fault, last));
            return false;
        }
        self.refuse_for_good(&fault, last, turn);
        !last
    }

    fn refuse_for_good(&mut self, fault: &Fault, last: bool, turn: &mut Turn<'_>) {
        self.refuse(fault, 0, turn);
        if last {
            self.life = Life::Closing;
        }
    }

    /// How long nothing was heard of it.
    fn idle_ms(&self, turn: &Turn<'_>) -> u64 {
        turn.house.clock.now().saturating_sub(self.client.active_ns.load(Ordering::Relaxed)) / 1_000_000
    }

    /// Notes that it was heard of now.
    pub fn touch(&self, now_ns: u64) {
        self.client.active_ns.store(now_ns, Ordering::Relaxed);
    }
}

/// How far one go of parsing has come. Spans count from `base`, where the bundle's bytes begin.
struct Parsing<'a> {
    input: &'a [u8],
    base: usize,
    at: usize,
    bundle: Option<Box<Bundle>>,
}

impl Parsing<'_> {
    /// The length of the request that ends at `end`.
    fn length_to(&self, end: usize) -> usize {
        self.base + end - self.at
    }

    /// The request that ended at `end` (counted from base) is done with; nothing of it need be carried.
    fn skip_to(&mut self, end: usize) {
        self.at = self.base + end;
        if self.bundle.is_none() {
            self.base = self.at;
        }
    }
}
