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
use super::turn::{Turn, stamp_answered};
use crate::clients::Client;
use crate::front::buffers::shed;
use crate::front::newcomers::Reason;
use crate::front::peer::{Life, Peer};
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
    pub under_way: bool,
    /// Whether the bundle under way ends with a pop that may wait.
    pub blocked: bool,
    decoder: Decoder,
    output: Vec<u8>,
    written: usize,
    /// Bytes of answers that were made in this turn and dropped because the client wants none (CLIENT REPLY).
    unwanted: usize,
    /// An error that waits for its turn behind a bundle, and whether the connection ends with it.
    owed: Option<(Fault, bool)>,
    /// What is left of the bundle under way, while its first answers wait to be read.
    rest: Option<Box<Bundle>>,
    /// The request of the login under way, or of the last one.
    login: LoginRequest,
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
            under_way: false,
            blocked: false,
            decoder,
            output: Vec::new(),
            written: 0,
            unwanted: 0,
            owed: None,
            rest: None,
            login: LoginRequest::default(),
        }
    }

    /// Returns whether the connection may send more requests: nothing is under way, and the client has read its
    /// answers.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        !self.under_way && self.has_read()
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

    /// Whether everything is answered and written.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.under_way && self.output.is_empty()
    }

    /// Returns the buffer for answers, taken from the thread when the connection holds none.
    pub fn output(&mut self, turn: &mut Turn<'_>) -> &mut Vec<u8> {
        if self.output.capacity() == 0 {
            self.output = turn.buffers.take();
        }
        turn.wrote(self.client.address.slot);
        &mut self.output
    }

    /// Lets the session write an answer, and returns its length too.
    fn answer_with<T>(
        &mut self,
        turn: &mut Turn<'_>,
        write: impl FnOnce(&mut Session, &Client, &mut Vec<u8>) -> T,
    ) -> (T, usize) {
        let before = self.output(turn).len();
        let result = write(&mut self.session, &self.client, &mut self.output);
        (result, self.output.len() - before)
    }

    /// Returns the login under way as a request that travels to the store.
    #[must_use]
    pub fn login_request(&self, operation: Operation) -> Request {
        let LoginRequest { received, request_bytes } = self.login;
        Request { request_bytes: length(request_bytes), ..Request::new(operation, Kind::Login, received) }
    }

    /// Ends the login with the account's number or an encoded error, and returns the length of the answer.
    pub fn end_login(&mut self, account: Result<AccountId, &[u8]>, turn: &mut Turn<'_>) -> usize {
        self.under_way = false;
        let ((), answer_bytes) = self.answer_with(turn, |session, client, output| match account {
            Ok(account) => session.finish_login(account, client, output),
            Err(error) => session.fail_login(error, output),
        });
        answer_bytes
    }

    /// Ends a login that did not travel to the store, and so is counted here.
    pub fn end_login_here(&mut self, account: Result<AccountId, &[u8]>, turn: &mut Turn<'_>) {
        let outcome = if account.is_ok() { Outcome::Ok } else { Outcome::Error };
        let answer_bytes = self.end_login(account, turn);
        let before = turn.at_once.len();
        let LoginRequest { received, request_bytes } = self.login;
        turn.parsed_at = received;
        turn.answered_at_once(self.last_request(), Kind::Login, outcome, [request_bytes, answer_bytes]);
        stamp_answered(&mut turn.at_once[before..], turn.shared.clock);
    }

    /// Takes over the answers of a bundle that is back. `rest` are its unanswered requests, to be executed once these
    /// answers are read.
    pub fn take_answers(&mut self, bundle: &mut Bundle, rest: Option<Box<Bundle>>, turn: &mut Turn<'_>) {
        self.under_way = rest.is_some();
        self.rest = rest;
        self.blocked = false;
        if self.session.is_muted() && !self.session.take_answer_wanted() {
            bundle.answers.clear();
        }
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut bundle.answers);
            turn.wrote(self.client.address.slot);
        } else {
            self.output(turn).extend_from_slice(&bundle.answers);
        }
        if let Some((fault, last)) = self.owed.take_if(|_| !self.under_way) {
            turn.parsed_at = turn.shared.clock.stamp();
            self.refuse_for_good(&fault, last, turn);
        }
    }

    /// Writes the pending answers, as far as the socket takes them.
    pub fn flush(&mut self, turn: &mut Turn<'_>) {
        self.written += self.peer.write(&self.output[self.written..]);
        if self.written == self.output.len() {
            self.written = 0;
            turn.buffers.keep(std::mem::take(&mut self.output));
        } else {
            shed(&mut self.output, &mut self.written);
        }
    }

    /// Returns the rest of the bundle once the client has read the answers before it, unless the connection is over.
    /// The rest counts as received only now, like requests that are not even parsed until then: how long a client takes
    /// to read is not the server's time.
    pub fn take_rest(&mut self, clock: Clock) -> Option<Box<Bundle>> {
        let goes_on = self.has_read() && self.peer.life != Life::Over;
        let mut rest = self.rest.take_if(|_| goes_on)?;
        let received = clock.stamp();
        rest.stamp(|stamps| stamps.received = received);
        // From now on the store is told when the client leaves.
        self.blocked = rest.may_wait();
        Some(rest)
    }

    /// Handles the whole requests in `input`, as many as one turn allows, and returns how many bytes are done with.
    pub fn parse(&mut self, input: &[u8], turn: &mut Turn<'_>) -> usize {
        turn.parsed_at = turn.shared.clock.stamp();
        let mut args = std::mem::take(turn.args);
        let mut parsing = Parsing { input, base: 0, at: 0, bundle: None, reads: 0 };
        let at_once_max = turn.at_once.len() + AT_ONCE_MAX;
        self.unwanted = 0;
        while self.peer.life == Life::Open && self.may_ask() && parsing.at < input.len() {
            // Answers that are dropped (CLIENT REPLY) cost as much time as others, and no slow reader limits them.
            if turn.at_once.len() == at_once_max || self.unwanted >= self.output_bytes_max() {
                break;
            }
            args.clear();
            if self.parse_one(&mut parsing, &mut args, turn) == Next::Stop {
                break;
            }
        }
        let Parsing { base, at, bundle, .. } = parsing;
        self.client.active_ns.store(self.peer.heard_ns, Ordering::Relaxed);
        self.client.requests.store(self.peer.requests, Ordering::Relaxed);
        if let Some(mut bundle) = bundle {
            bundle.bytes.extend_from_slice(&input[base..at]);
            self.under_way = true;
            turn.outgoing.push(bundle);
        }
        *turn.args = args;
        at
    }

    /// Handles the next request.
    fn parse_one(&mut self, parsing: &mut Parsing<'_>, args: &mut Vec<Span>, turn: &mut Turn<'_>) -> Next {
        let input = &parsing.input[parsing.base..];
        let decoded = self.decoder.decode(input, parsing.at - parsing.base, args);
        if !self.session.is_admitted() && parsing.at_least(&decoded) > UNAUTHENTICATED_BYTES_MAX {
            turn.shared.gate.newcomers.refuse(Reason::Oversized);
            self.refuse_for_good(&Fault::new(Word::NoAuth, "log in before sending this much"), true, turn);
            self.peer.holds_requests = false;
            return Next::Stop;
        }
        match decoded {
            Decoded::Request { end } if args.is_empty() => parsing.skip_to(end),
            Decoded::Request { end } => return self.handle(end, args, parsing, turn),
            Decoded::Typed { end, bytes } => return self.handle_typed(end, &bytes, args, parsing, turn),
            Decoded::NeedBytes(_) => {
                self.peer.holds_requests = false;
                return Next::Stop;
            }
            Decoded::Discard(n) => parsing.skip_to(parsing.at - parsing.base + n),
            Decoded::TooBig { end, fault } => {
                parsing.skip_to(end);
                return self.refuse_in_turn(fault, false, parsing, turn);
            }
            Decoded::Malformed(fault) => return self.refuse_in_turn(fault, true, parsing, turn),
        }
        Next::Continue
    }

    /// Handles an inline command whose arguments are spans of `bytes`, not of the input. It travels alone if it needs
    /// the store, so that all spans of a bundle refer to the same bytes.
    fn handle_typed(
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
            && let Err(fault) = grants.allow(operation, bytes)
        {
            parsed = Err(fault);
        }
        if parsing.bundle.is_some() && !travels_with_others(&parsed) {
            // The request waits until the bundle is back.
            return Next::Stop;
        }
        self.peer.requests += 1;
        match parsed {
            Ok(Command::Store(operation)) => return self.ask(operation, end, parsing, turn),
            Ok(Command::Session(command)) => self.obey(&command, bytes, parsing.length_to(end), turn),
            Err(fault) => {
                let fault = self.known_only_inside(fault, args[0].of(bytes));
                let outcome = if command::is_offer(args, bytes) { Outcome::Null } else { Outcome::Error };
                self.refuse_as(outcome, &fault, parsing.length_to(end), turn);
            }
        }
        parsing.skip_to(end);
        Next::Continue
    }

    /// Answers a request to the store on the spot when possible, else adds it to the bundle.
    fn ask(
        &mut self,
        operation: Operation,
        end: usize,
        parsing: &mut Parsing<'_>,
        turn: &mut Turn<'_>,
    ) -> Next {
        let account = match self.session.account() {
            Ok(account) => account,
            Err(fault) => {
                self.refuse(&fault, parsing.length_to(end), turn);
                parsing.skip_to(end);
                return Next::Continue;
            }
        };
        let (kind, request_bytes) = (operation.kind(), parsing.length_to(end));
        if parsing.bundle.is_none() {
            let ask = Ask { account, operation: &operation, bytes: &parsing.input[parsing.base..] };
            if let Some((outcome, answer_bytes)) = self.answer_at_once(ask, turn) {
                turn.answered_at_once(self.last_request(), kind, outcome, [request_bytes, answer_bytes]);
                parsing.skip_to(end);
                return Next::Continue;
            }
        }
        let is_alone = operation.may_answer_much() || operation.comes_in_pieces();
        let is_last = is_alone || self.session.is_muted();
        let number = self.peer.requests;
        let bundle = parsing.bundle.get_or_insert_with(|| {
            let mut bundle = turn.bundle(self.client.address, account, self.session.protocol);
            bundle.number = number;
            bundle
        });
        self.blocked = may_block(&operation);
        parsing.reads += usize::from(matches!(operation, Operation::Peek(_) | Operation::Pop(_)));
        let request = Request::new(operation, kind, turn.parsed_at);
        bundle.requests.push(Request { request_bytes: length(request_bytes), ..request });
        parsing.at = parsing.base + end;
        let is_full = bundle.requests.len() >= turn.shared.bundle_requests_max
            || parsing.reads >= turn.shared.bundle_reads_max;
        if self.blocked || is_last || is_full { Next::Stop } else { Next::Continue }
    }

    /// Answers without a worker if the store can, and returns the outcome and the length of the answer then.
    fn answer_at_once(&mut self, ask: Ask<'_>, turn: &mut Turn<'_>) -> Option<(Outcome, usize)> {
        if !turn.shared.store.at_once(ask.operation) {
            return None;
        }
        let protocol = self.session.protocol;
        let shared = turn.shared;
        let output = self.output(turn);
        let before = output.len();
        let outcome = shared.store.answer(ask, &mut Answer::new(output, protocol));
        if outcome.is_some() && self.session.is_muted() && !self.session.take_answer_wanted() {
            self.unwanted += self.output.len() - before;
            self.output.truncate(before);
        }
        outcome.map(|outcome| (outcome, self.output.len() - before))
    }

    /// Executes a request to the session.
    fn obey(&mut self, command: &command::Session, bytes: &[u8], request_bytes: usize, turn: &mut Turn<'_>) {
        let muted = self.session.is_muted() && !matches!(command, command::Session::ClientReply(_));
        let shared = turn.shared;
        let ((step, outcome, unwanted), answer_bytes) = self.answer_with(turn, |session, client, output| {
            let before = output.len();
            let step = session.execute(&Call { command, bytes, client, shared }, output);
            let outcome = if output.get(before) == Some(&b'-') { Outcome::Error } else { Outcome::Ok };
            let made = output.len();
            if muted && !session.take_answer_wanted() {
                output.truncate(before);
            }
            (step, outcome, made - output.len())
        });
        self.unwanted += unwanted;
        if let Step::Login { account, secret } = step {
            self.under_way = true;
            self.login = LoginRequest { received: turn.parsed_at, request_bytes };
            return turn.log_in(&self.client, &account, &secret);
        }
        turn.answered_at_once(self.last_request(), Kind::Session, outcome, [request_bytes, answer_bytes]);
        if step == Step::Close {
            self.peer.close();
        }
    }

    /// Answers a request of so many bytes with an error, and counts it. A client that wants no answers (CLIENT REPLY)
    /// gets none, as it would take this one for the answer of another request.
    pub fn refuse(&mut self, fault: &Fault, request_bytes: usize, turn: &mut Turn<'_>) {
        self.refuse_as(Outcome::Error, fault, request_bytes, turn);
    }

    /// Answers with an error that is counted as `outcome`.
    fn refuse_as(&mut self, outcome: Outcome, fault: &Fault, request_bytes: usize, turn: &mut Turn<'_>) {
        let (protocol, is_wanted) = (self.session.protocol, self.session.take_answer_wanted());
        let output = self.output(turn);
        let before = output.len();
        if is_wanted {
            Encoder::new(output, protocol).error(fault);
        }
        let bytes = [request_bytes, output.len() - before];
        turn.answered_at_once(self.last_request(), Kind::Session, outcome, bytes);
    }

    /// Returns the name of the request at hand.
    #[must_use]
    pub fn last_request(&self) -> RequestName {
        RequestName { client: self.client.address.client, number: self.peer.requests }
    }

    /// Replaces the error of a request that needs a login by NOAUTH before login: its details are not for strangers.
    fn known_only_inside(&self, fault: Fault, command: &[u8]) -> Fault {
        if command::is_for_sessions(command) {
            return fault;
        }
        self.session.account().err().unwrap_or(fault)
    }

    /// Answers an error in the byte stream, or keeps it until the bundle before it is back.
    fn refuse_in_turn(
        &mut self,
        fault: Fault,
        last: bool,
        parsing: &Parsing<'_>,
        turn: &mut Turn<'_>,
    ) -> Next {
        if parsing.bundle.is_some() {
            self.owed = Some((fault, last));
            return Next::Stop;
        }
        self.refuse_for_good(&fault, last, turn);
        if last { Next::Stop } else { Next::Continue }
    }

    fn refuse_for_good(&mut self, fault: &Fault, last: bool, turn: &mut Turn<'_>) {
        self.refuse(fault, 0, turn);
        if last {
            self.peer.close();
        }
    }
}

/// Returns whether a request may join a bundle that already holds requests of its connection.
fn travels_with_others(parsed: &Result<Command, Fault>) -> bool {
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

/// The progress of one call of `parse`. Spans count from `base`, where the bundle's bytes begin.
struct Parsing<'a> {
    input: &'a [u8],
    base: usize,
    at: usize,
    bundle: Option<Box<Bundle>>,
    /// Requests in the bundle that may answer a message.
    reads: usize,
}

impl Parsing<'_> {
    /// The length of the request that ends at `end`.
    fn length_to(&self, end: usize) -> usize {
        self.base + end - self.at
    }

    /// Returns the least length that the next request can have, in bytes.
    fn at_least(&self, decoded: &Decoded) -> usize {
        match *decoded {
            Decoded::Request { end } | Decoded::Typed { end, .. } => self.length_to(end),
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
