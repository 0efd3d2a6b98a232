//! One connection of the queue tier: how its bytes become requests, what is to be written to it, and its session.
//!
//! An idle connection holds no buffer: answers are written from one that goes back to the thread when it is empty.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use posthaste_measure::Clock;
use posthaste_wire::command::{self, Command, Kind};
use posthaste_wire::decode::{Decoded, Decoder};
use posthaste_wire::encode::Encoder;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;

use super::bundle::{Bundle, Request, RequestName, length};
use super::limits::{
    AT_ONCE_MAX, OUTPUT_BYTES_PAUSE, UNAUTHENTICATED_BYTES_MAX, UNAUTHENTICATED_OUTPUT_BYTES_PAUSE,
};
use super::session::{Call, Session, Step};
use super::turn::{Lengths, Turn, stamp_answered};
use crate::clients::Client;
use crate::front::buffers::drop_done;
use crate::front::newcomers::RefusalReason;
use crate::front::peer::{Peer, PeerState};
use crate::queue::answer::Answer;
use crate::queue::rules::{AccountId, Ask, Outcome};

/// One connection.
pub struct Connection {
    /// The connection's entry in the list of clients.
    pub client: Arc<Client>,
    /// The socket with its buffers and life cycle.
    pub peer: Peer,
    /// Login, protocol and mute state.
    pub session: Session,
    /// Whether a bundle or a login is under way; nothing is parsed until it is back.
    pub is_under_way: bool,
    /// Whether the bundle under way is a pop that may wait.
    pub is_blocked: bool,
    decoder: Decoder,
    output: Vec<u8>,
    /// How many bytes of `output` are written.
    written: usize,
    /// Bytes of answers that were made in this turn and dropped because the client wants none (CLIENT REPLY).
    dropped_bytes: usize,
    /// An error that is answered once the bundle under way is back, as its request came after the bundle's.
    delayed_error: Option<StreamError>,
    /// What is left of the bundle under way, while its first answers wait to be read.
    rest: Option<Box<Bundle>>,
    /// The request of the login under way, or of the last one.
    login: LoginRequest,
}

/// A request that cannot be read.
struct StreamError {
    fault: Fault,
    /// Whether the connection ends with it.
    is_fatal: bool,
}

#[derive(Clone, Copy, Default)]
struct LoginRequest {
    /// Stamp at which the request was whole.
    received: u64,
    request_bytes: usize,
}

impl AsRef<Peer> for Connection {
    fn as_ref(&self) -> &Peer {
        &self.peer
    }
}

impl AsMut<Peer> for Connection {
    fn as_mut(&mut self) -> &mut Peer {
        &mut self.peer
    }
}

impl Connection {
    /// Returns the state of a connection just accepted.
    #[must_use]
    pub fn new(client: Arc<Client>, peer: Peer, session: Session, decoder: Decoder) -> Self {
        Self {
            client,
            peer,
            session,
            is_under_way: false,
            is_blocked: false,
            decoder,
            output: Vec::new(),
            written: 0,
            dropped_bytes: 0,
            delayed_error: None,
            rest: None,
            login: LoginRequest::default(),
        }
    }

    /// Returns whether the connection may send more requests: nothing is under way, and the client has read its
    /// answers.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        !self.is_under_way && self.has_read()
    }

    /// Returns whether the client has read its answers, but for an amount below the pause limit.
    fn has_read(&self) -> bool {
        self.output.len() - self.written < self.output_bytes_max()
    }

    /// Returns how many bytes of unsent answers pause the connection.
    fn output_bytes_max(&self) -> usize {
        let is_admitted = self.session.is_admitted();
        if is_admitted { OUTPUT_BYTES_PAUSE } else { UNAUTHENTICATED_OUTPUT_BYTES_PAUSE }
    }

    /// Returns whether everything is answered and written.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.is_under_way && self.output.is_empty()
    }

    /// Returns the buffer for answers, taken from the thread when the connection holds none.
    pub fn output(&mut self, turn: &mut Turn<'_>) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = turn.buffers.take();
        }
        turn.wrote(self.client.address.slot);
        &mut self.output
    }

    /// Drops the answer that begins at this index of the output, as the client does not want it.
    fn drop_answer(&mut self, begin: usize) {
        self.dropped_bytes += self.output.len() - begin;
        self.output.truncate(begin);
    }

    /// Returns the login under way as a request that travels to the store.
    #[must_use]
    pub fn login_request(&self, operation: Operation) -> Request {
        let LoginRequest { received, request_bytes } = self.login;
        Request { request_bytes: length(request_bytes), ..Request::new(operation, Kind::Login, received) }
    }

    /// Ends the login with the account's number or an encoded error, and returns the length of the answer.
    pub fn end_login(&mut self, account: Result<AccountId, &[u8]>, turn: &mut Turn<'_>) -> usize {
        self.is_under_way = false;
        let before = self.output(turn).len();
        match account {
            Ok(account) => self.session.finish_login(account, &self.client, &mut self.output),
            Err(error) => self.session.fail_login(error, &mut self.output),
        }
        self.output.len() - before
    }

    /// Ends a login that did not travel to the store, and so is counted here.
    pub fn end_login_at_once(&mut self, account: Result<AccountId, &[u8]>, turn: &mut Turn<'_>) {
        let outcome = if account.is_ok() { Outcome::Ok } else { Outcome::Error };
        let answer = self.end_login(account, turn);
        let before = turn.at_once.len();
        let LoginRequest { received, request_bytes } = self.login;
        turn.parsed_at = received;
        let bytes = Lengths { request: request_bytes, answer };
        turn.answered_at_once(self.last_request(), Kind::Login, outcome, bytes);
        stamp_answered(&mut turn.at_once[before..], turn.shared.clock);
    }

    /// Takes over the answers of a bundle that is back. `rest` are its unanswered requests, to be executed once these
    /// answers are read.
    pub fn take_answers(&mut self, bundle: &mut Bundle, rest: Option<Box<Bundle>>, turn: &mut Turn<'_>) {
        self.is_under_way = rest.is_some();
        self.rest = rest;
        self.is_blocked = false;
        if self.session.is_muted() && !self.session.take_answer_wanted() {
            bundle.answers.clear();
        }
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut bundle.answers);
            turn.wrote(self.client.address.slot);
        } else {
            self.output(turn).extend_from_slice(&bundle.answers);
        }
        if let Some(error) = self.delayed_error.take_if(|_| !self.is_under_way) {
            turn.parsed_at = turn.shared.clock.stamp();
            self.answer_stream_error(&error, turn);
        }
    }

    /// Writes the pending answers, as far as the socket takes them.
    pub fn flush(&mut self, turn: &mut Turn<'_>) {
        self.written += self.peer.write(&self.output[self.written..]);
        if self.written == self.output.len() {
            self.written = 0;
            turn.buffers.keep(std::mem::take(&mut self.output));
        } else {
            drop_done(&mut self.output, &mut self.written);
        }
    }

    /// Returns the rest of the bundle once the client has read the answers before it, unless the connection is over.
    /// The rest counts as received only now, like requests that are not even parsed until then: how long a client takes
    /// to read is not the server's time.
    pub fn take_rest(&mut self, clock: Clock) -> Option<Box<Bundle>> {
        let may_resume = self.has_read() && self.peer.state != PeerState::Closed;
        let mut rest = self.rest.take_if(|_| may_resume)?;
        let received = clock.stamp();
        rest.stamp_all(|stamps| stamps.received = received);
        Some(rest)
    }

    /// Handles the whole requests in `input`, as many as one turn allows, and returns how many bytes are done with.
    pub fn parse(&mut self, input: &[u8], turn: &mut Turn<'_>) -> usize {
        turn.parsed_at = turn.shared.clock.stamp();
        let mut args = std::mem::take(turn.args);
        let mut parsing = Parsing { input, base: 0, at: 0, bundle: None, reads: 0 };
        let at_once_max = turn.at_once.len() + AT_ONCE_MAX;
        self.dropped_bytes = 0;
        while self.peer.state == PeerState::Open && self.may_ask() && parsing.at < input.len() {
            // Answers that are dropped (CLIENT REPLY) cost as much time as others, and no slow reader limits them.
            if turn.at_once.len() == at_once_max || self.dropped_bytes >= self.output_bytes_max() {
                break;
            }
            args.clear();
            if self.handle_next(&mut parsing, &mut args, turn) == Next::Stop {
                break;
            }
        }
        let Parsing { base, at, bundle, .. } = parsing;
        self.client.active_ns.store(self.peer.last_read_ns, Ordering::Relaxed);
        self.client.requests.store(self.peer.requests, Ordering::Relaxed);
        if let Some(mut bundle) = bundle {
            bundle.bytes.extend_from_slice(&input[base..at]);
            self.is_under_way = true;
            turn.outgoing.push(bundle);
        }
        *turn.args = args;
        at
    }

    /// Handles the next request.
    fn handle_next(&mut self, parsing: &mut Parsing<'_>, args: &mut Vec<Span>, turn: &mut Turn<'_>) -> Next {
        let input = &parsing.input[parsing.base..];
        let decoded = self.decoder.decode(input, parsing.at - parsing.base, args);
        if !self.session.is_admitted() && parsing.request_bytes_min(&decoded) > UNAUTHENTICATED_BYTES_MAX {
            turn.shared.gate.newcomers.count_refusal(RefusalReason::Oversized);
            let fault = Fault::new(Word::NoAuth, "log in before sending this much");
            self.answer_stream_error(&StreamError { fault, is_fatal: true }, turn);
            self.peer.holds_requests = false;
            return Next::Stop;
        }
        match decoded {
            Decoded::Request { end } if args.is_empty() => parsing.skip_to(end),
            Decoded::Request { end } => return self.handle(end, args, parsing, turn),
            Decoded::Unescaped { end, bytes } => return self.handle_inline(end, &bytes, args, parsing, turn),
            Decoded::NeedBytes(_) => {
                self.peer.holds_requests = false;
                return Next::Stop;
            }
            Decoded::Discard(n) => parsing.skip_to(parsing.at - parsing.base + n),
            Decoded::TooBig { end, fault } => {
                parsing.skip_to(end);
                return self.refuse_in_order(StreamError { fault, is_fatal: false }, parsing, turn);
            }
            Decoded::Malformed(fault) => {
                return self.refuse_in_order(StreamError { fault, is_fatal: true }, parsing, turn);
            }
        }
        Next::Continue
    }

    /// Handles an inline command whose arguments are spans of `bytes`, not of the input. It travels alone if it needs
    /// the store, so that all spans of a bundle refer to the same bytes.
    fn handle_inline(
        &mut self,
        end: usize,
        bytes: &[u8],
        args: &[Span],
        parsing: &mut Parsing<'_>,
        turn: &mut Turn<'_>,
    ) -> Next {
        if parsing.bundle.is_some() {
            // The line waits until the bundle is back, and is decoded again then.
            return Next::Stop;
        }
        let mut alone = Parsing { input: bytes, base: 0, at: 0, bundle: None, reads: 0 };
        let next = self.handle(parsing.length_to(end), args, &mut alone, turn);
        parsing.skip_to(end);
        let Some(mut bundle) = alone.bundle else { return next };
        bundle.bytes.extend_from_slice(bytes);
        parsing.bundle = Some(bundle);
        Next::Stop
    }

    /// Handles a whole request.
    fn handle(&mut self, end: usize, args: &[Span], parsing: &mut Parsing<'_>, turn: &mut Turn<'_>) -> Next {
        let bytes = &parsing.input[parsing.base..];
        let mut parsed = command::parse(args, bytes, turn.shared.message_bytes_max);
        if let (Some(grants), Ok(Command::Store(operation))) = (self.session.grants(), &parsed)
            && let Err(fault) = grants.check(operation, bytes)
        {
            parsed = Err(fault);
        }
        if parsing.bundle.is_some() && !may_join_bundle(&parsed) {
            // The request waits until the bundle is back.
            return Next::Stop;
        }
        self.peer.requests += 1;
        match parsed {
            Ok(Command::Store(operation)) => return self.ask_store(operation, end, parsing, turn),
            Ok(Command::Session(command)) => {
                self.execute_session(&command, bytes, parsing.length_to(end), turn)
            }
            Err(fault) => {
                let fault = self.hide_before_login(fault, args[0].of(bytes));
                let outcome = if command::is_offer(args, bytes) { Outcome::Null } else { Outcome::Error };
                self.answer_error_as(outcome, &fault, parsing.length_to(end), turn);
            }
        }
        parsing.skip_to(end);
        Next::Continue
    }

    /// Answers a request to the store on the spot when possible, else adds it to the bundle.
    fn ask_store(
        &mut self,
        operation: Operation,
        end: usize,
        parsing: &mut Parsing<'_>,
        turn: &mut Turn<'_>,
    ) -> Next {
        let account = match self.session.account() {
            Ok(account) => account,
            Err(fault) => {
                self.answer_error(&fault, parsing.length_to(end), turn);
                parsing.skip_to(end);
                return Next::Continue;
            }
        };
        let request_bytes = parsing.length_to(end);
        if parsing.bundle.is_none() {
            let ask = Ask { account, operation: &operation, bytes: &parsing.input[parsing.base..] };
            if self.answer_at_once(ask, request_bytes, turn) {
                parsing.skip_to(end);
                return Next::Continue;
            }
        }
        let is_alone = operation.may_answer_much() || operation.comes_in_pieces();
        let is_last = is_alone || self.session.skips_next();
        let number = self.peer.requests;
        let bundle = parsing.bundle.get_or_insert_with(|| {
            let mut bundle = turn.bundle(self.client.address, account, self.session.protocol);
            bundle.number = number;
            bundle
        });
        self.is_blocked = may_block(&operation);
        parsing.reads += usize::from(matches!(operation, Operation::Peek(_) | Operation::Pop(_)));
        let kind = operation.kind();
        let request = Request::new(operation, kind, turn.parsed_at);
        bundle.requests.push(Request { request_bytes: length(request_bytes), ..request });
        parsing.at = parsing.base + end;
        let is_full = bundle.requests.len() >= turn.shared.bundle_requests_max
            || parsing.reads >= turn.shared.bundle_reads_max;
        if self.is_blocked || is_last || is_full { Next::Stop } else { Next::Continue }
    }

    /// Answers a request without a worker if the store can, and returns whether it is answered.
    fn answer_at_once(&mut self, ask: Ask<'_>, request_bytes: usize, turn: &mut Turn<'_>) -> bool {
        if !turn.shared.store.may_answer_at_once(ask.operation) {
            return false;
        }
        let (kind, protocol, shared) = (ask.operation.kind(), self.session.protocol, turn.shared);
        let output = self.output(turn);
        let before = output.len();
        let Some(outcome) = shared.store.answer(ask, &mut Answer::new(output, protocol)) else {
            return false;
        };
        if self.session.is_muted() && !self.session.take_answer_wanted() {
            self.drop_answer(before);
        }
        let bytes = Lengths { request: request_bytes, answer: self.output.len() - before };
        turn.answered_at_once(self.last_request(), kind, outcome, bytes);
        true
    }

    /// Executes a request to the session.
    fn execute_session(
        &mut self,
        command: &command::Session,
        bytes: &[u8],
        request_bytes: usize,
        turn: &mut Turn<'_>,
    ) {
        let is_muted = self.session.is_muted() && !matches!(command, command::Session::ClientReply(_));
        let before = self.output(turn).len();
        let call = Call { command, bytes, client: &self.client, shared: turn.shared };
        let step = self.session.execute(&call, &mut self.output);
        let outcome = if self.output.get(before) == Some(&b'-') { Outcome::Error } else { Outcome::Ok };
        if is_muted && !self.session.take_answer_wanted() {
            self.drop_answer(before);
        }
        if let Step::Login { account, secret } = step {
            self.is_under_way = true;
            self.login = LoginRequest { received: turn.parsed_at, request_bytes };
            return turn.log_in(&self.client, &account, &secret);
        }
        let bytes = Lengths { request: request_bytes, answer: self.output.len() - before };
        turn.answered_at_once(self.last_request(), Kind::Session, outcome, bytes);
        if step == Step::Close {
            self.peer.close();
        }
    }

    /// Answers a request of so many bytes with an error, and counts it. A client that wants no answers (CLIENT REPLY)
    /// gets none, as it would take this one for the answer of another request.
    fn answer_error(&mut self, fault: &Fault, request_bytes: usize, turn: &mut Turn<'_>) {
        self.answer_error_as(Outcome::Error, fault, request_bytes, turn);
    }

    /// Answers with an error that is counted as `outcome`.
    fn answer_error_as(
        &mut self,
        outcome: Outcome,
        fault: &Fault,
        request_bytes: usize,
        turn: &mut Turn<'_>,
    ) {
        let (protocol, is_wanted) = (self.session.protocol, self.session.take_answer_wanted());
        let output = self.output(turn);
        let before = output.len();
        if is_wanted {
            Encoder::new(output, protocol).error(fault);
        }
        let bytes = Lengths { request: request_bytes, answer: output.len() - before };
        turn.answered_at_once(self.last_request(), Kind::Session, outcome, bytes);
    }

    /// Returns the name of the request at hand.
    #[must_use]
    pub fn last_request(&self) -> RequestName {
        RequestName { client: self.client.address.client, number: self.peer.requests }
    }

    /// Replaces the error of a request that needs a login by NOAUTH before login: its details are not for strangers.
    fn hide_before_login(&self, fault: Fault, command: &[u8]) -> Fault {
        if command::is_for_sessions(command) {
            return fault;
        }
        self.session.account().err().unwrap_or(fault)
    }

    /// Answers an error in the byte stream, or keeps it until the bundle before it is back.
    fn refuse_in_order(&mut self, error: StreamError, parsing: &Parsing<'_>, turn: &mut Turn<'_>) -> Next {
        if parsing.bundle.is_some() {
            self.delayed_error = Some(error);
            return Next::Stop;
        }
        self.answer_stream_error(&error, turn);
        if error.is_fatal { Next::Stop } else { Next::Continue }
    }

    fn answer_stream_error(&mut self, error: &StreamError, turn: &mut Turn<'_>) {
        self.answer_error(&error.fault, 0, turn);
        if error.is_fatal {
            self.peer.close();
        }
    }
}

/// Returns whether a request may join a bundle that already holds requests of its connection.
fn may_join_bundle(parsed: &Result<Command, Fault>) -> bool {
    matches!(parsed, Ok(Command::Store(operation)) if !operation.comes_in_pieces() && !may_block(operation))
}

/// Returns whether the operation may be parked. Such a pop travels alone: requests before it on its connection are
/// answered when they are durable, not when the wait ends.
fn may_block(operation: &Operation) -> bool {
    matches!(operation, Operation::Pop(pop) if pop.block_ms > 0)
}

/// Whether parsing goes on after a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    /// More bytes are needed, a bundle must come back first, or the connection ends.
    Stop,
}

/// The progress of one call of `parse`.
struct Parsing<'a> {
    input: &'a [u8],
    /// Where the bytes of the bundle begin, from which its spans are counted.
    base: usize,
    /// Where the next request begins.
    at: usize,
    bundle: Option<Box<Bundle>>,
    /// Requests in the bundle that may answer a message.
    reads: usize,
}

impl Parsing<'_> {
    /// Returns the length of the request that ends at `end`, counted from `base`.
    fn length_to(&self, end: usize) -> usize {
        self.base + end - self.at
    }

    /// Returns the least length that the next request can have, in bytes.
    fn request_bytes_min(&self, decoded: &Decoded) -> usize {
        match *decoded {
            Decoded::Request { end } | Decoded::Unescaped { end, .. } => self.length_to(end),
            Decoded::NeedBytes(more) => self.input.len() - self.at + more,
            Decoded::Discard(_) | Decoded::TooBig { .. } => usize::MAX,
            Decoded::Malformed(_) => 0,
        }
    }

    /// Moves past a request that ended at `end` (counted from `base`) and is done with; no bundle needs its bytes.
    fn skip_to(&mut self, end: usize) {
        self.at = self.base + end;
        if self.bundle.is_none() {
            self.base = self.at;
        }
    }
}
