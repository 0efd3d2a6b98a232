//! What a network thread of the queue tier does between reading and writing: it sends requests to the workers in
//! bundles, takes the answers back, finishes logins and counts everything.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste_measure::{Noted, Recorder, Stamps};
use posthaste_wire::decode::{Decoder, Limits};
use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;

use super::bundle::{Address, Bundle, Request, ending, length};
use super::connection::Connection;
use super::limits;
use super::mail::Mail;
use super::report;
use super::session::Session;
use super::turn::{AnsweredAtOnce, Workspace, stamp_answered};
use super::worker::Worker;
use crate::authenticator::Verdict;
use crate::front::connections::Connections;
use crate::front::gate::Refused;
use crate::front::peer::Peer;
use crate::front::slots::Slots;
use crate::front::tier::Tier;
use crate::queue::answer::Answer;
use crate::queue::rules::{AccountId, Ask};
use crate::queue_shared::{Entrance, QueueShared};
use crate::trace;

const TOO_MANY_LOGINS: Fault = Fault::new(Word::Busy, "too many logins at once; try again");
const LINE_FULL: Fault = Fault::new(Word::Busy, "the waiting line is full; try again");

/// The queue tier's part of a network thread.
pub struct QueueTier {
    thread: usize,
    shared: Arc<QueueShared>,
    workspace: Workspace,
    recorder: Recorder,
    worker: Worker,
    /// Bundles whose answers are written in this turn.
    answered: Vec<Box<Bundle>>,
    /// Bundles to be lined up again: lists and redrives that are not whole, and the rest of bundles with long answers.
    requeued: Vec<Box<Bundle>>,
    /// Whether the store was told that the tier stops.
    has_ended_waits: bool,
}

impl Tier for QueueTier {
    type Connection = Connection;
    type Mail = Mail;

    fn refusal(refused: Refused) -> &'static [u8] {
        match refused {
            Refused::Full => b"-ERR max number of clients reached\r\n",
            Refused::Crowded => b"-ERR too many connections from your address that have not logged in\r\n",
        }
    }

    fn consecutive_connections_per_thread(&self) -> usize {
        if self.shared.store.is_far() { limits::FAR_CLIENTS_IN_A_ROW } else { 1 }
    }

    fn new_connection(&mut self, slot: usize, peer: Peer, origin: Option<IpAddr>) -> Connection {
        let decoder = Decoder::new(Limits {
            bulk_bytes: self.shared.message_bytes_max.max(limits::ARGUMENT_BYTES_MIN),
            request_bytes: self.shared.message_bytes_max + limits::REQUEST_BYTES_EXTRA,
            args: limits::ARGUMENTS_MAX,
            inline_bytes: limits::INLINE_BYTES_MAX,
        });
        let address = Address { thread: self.thread, slot, client: peer.number };
        let client = self.shared.clients.add(address, &peer, origin);
        let session = Session::new(self.shared.default_account());
        if session.is_admitted() {
            client.details().account = "default".into();
        }
        Connection::new(client, peer, session, decoder)
    }

    fn connection_ended(&mut self, _: usize, connection: &Connection) {
        let address = connection.client.address;
        if connection.is_blocked {
            // No client reads the answer, so the blocked pop must not take a message any more.
            self.answered.extend(self.end_wait(address));
        }
        if let Entrance::Closed(authenticator) = &self.shared.entrance
            && connection.session.pending_account().is_some()
        {
            authenticator.withdraw(address);
        }
        self.shared.clients.remove(address.client);
    }

    fn is_admitted(&self, connection: &Connection) -> bool {
        connection.session.is_admitted()
    }

    /// The client of a waiting pop is leaving: no message may be given to it.
    fn client_hung_up(&mut self, slot: usize, connections: &mut Connections<Self>) {
        let Some(connection) = connections.get_mut(slot) else { return };
        let address = connection.client.address;
        if std::mem::take(&mut connection.is_blocked)
            && let Some(bundle) = self.end_wait(address)
        {
            self.deliver(bundle, connections);
        }
    }

    fn receive_mail(&mut self, mail: Mail, connections: &mut Connections<Self>) {
        match mail {
            Mail::Answered(bundle) => self.deliver(bundle, connections),
            Mail::Verified { address, verdict } => self.receive_verdict(address, verdict, connections),
            Mail::Kill(address) => {
                if connections.find(address.slot, address.client).is_some() {
                    connections.remove(self, address.slot);
                }
            }
        }
    }

    fn may_ask(&self, _: usize, connection: &Connection) -> bool {
        connection.may_ask()
    }

    fn take_requests(&mut self, _: usize, connection: &mut Connection, input: &[u8]) -> usize {
        let mut turn = self.workspace.turn(&self.shared);
        let before = turn.at_once.len();
        let used = connection.parse(input, &mut turn);
        stamp_answered(&mut turn.at_once[before..], self.shared.clock);
        used
    }

    fn work(&mut self, connections: &mut Connections<Self>) {
        if connections.is_stopping() && !self.has_ended_waits {
            self.end_waits();
        }
        self.finish_logins(connections);
        self.line_up(connections);
    }

    fn touched(&mut self) -> &mut Slots {
        &mut self.workspace.touched
    }

    fn write(&mut self, _: usize, connection: &mut Connection) {
        connection.flush(&mut self.workspace.turn(&self.shared));
        self.requeued.extend(connection.take_rest(self.shared.clock));
    }

    fn is_settled(&self, _: usize, connection: &Connection) -> bool {
        connection.is_settled()
    }

    /// Counts everything whose answer was written in this turn.
    fn finish_turn(&mut self, _: &mut Connections<Self>) {
        if self.answered.is_empty() && self.workspace.at_once.is_empty() {
            return;
        }
        let replied = self.shared.clock.stamp();
        for done in self.workspace.at_once.drain(..) {
            count_at_once(&done, replied, &self.shared, &mut self.recorder);
        }
        self.workspace.at_once.shrink_to(limits::AT_ONCE_KEPT);
        for mut bundle in self.answered.drain(..) {
            count_bundle(&mut bundle, replied, &mut self.recorder);
            report::report(&self.shared, &mut bundle);
            self.workspace.keep(bundle);
        }
        self.recorder.flush();
    }

    fn poll_timeout(&self) -> Option<Duration> {
        (!self.requeued.is_empty()).then_some(Duration::ZERO)
    }
}

impl QueueTier {
    /// Returns the queue tier's part of the network thread with this number.
    #[must_use]
    pub fn new(thread: usize, shared: Arc<QueueShared>) -> Self {
        let (recorder, worker) = (shared.meter.recorder(), shared.worker());
        let workspace = Workspace::default();
        let (answered, requeued) = (Vec::new(), Vec::new());
        Self { thread, shared, workspace, recorder, worker, answered, requeued, has_ended_waits: false }
    }

    /// Ends the wait of a connection's pop, and returns its bundle, answered with nothing.
    fn end_wait(&self, address: Address) -> Option<Box<Bundle>> {
        let mut bundle = self.shared.store.record_departure(address)?;
        bundle.end_wait(self.shared.clock.stamp());
        Some(bundle)
    }

    /// Hands the answers of a bundle to its connection, which may then send the next bundle.
    fn deliver(&mut self, mut bundle: Box<Bundle>, connections: &mut Connections<Self>) {
        let address = bundle.address;
        if bundle.may_wait() {
            self.shared.store.forget_departure(address);
        }
        let rest = (!bundle.is_done()).then(|| bundle.split_rest());
        if self.shared.tracer.is_some() {
            bundle.traced_messages = trace::traced_messages(&bundle);
        }
        if let Some(connection) = connections.find(address.slot, address.client) {
            bundle.absorb_piece();
            if bundle.awaits_next_piece() {
                return self.requeued.push(bundle);
            }
            let mut turn = self.workspace.turn(&self.shared);
            let before = turn.at_once.len();
            if let [request @ Request { operation: Operation::Login { .. }, .. }] = &mut *bundle.requests {
                request.answer_bytes =
                    length(connection.end_login(account_number(&bundle.answers), &mut turn));
            } else {
                connection.take_answers(&mut bundle, rest, &mut turn);
            }
            stamp_answered(&mut turn.at_once[before..], self.shared.clock);
        }
        self.answered.push(bundle);
    }

    /// Ends the waits of all pops, because the tier stops. A pop is not dropped, as that of a client that has left is:
    /// nobody is told that there is nothing while there is a message.
    fn end_waits(&mut self) {
        self.has_ended_waits = true;
        self.shared.store.end_waits();
        self.shared.line.wake_by(self.shared.clock.instant());
    }

    /// Asks the store for the numbers of the accounts that log in.
    fn finish_logins(&mut self, connections: &mut Connections<Self>) {
        for (address, account) in std::mem::take(&mut self.workspace.logins) {
            self.log_in(address, &account, connections);
        }
    }

    fn log_in(&mut self, address: Address, account: &[u8], connections: &mut Connections<Self>) {
        let Some(connection) = connections.find(address.slot, address.client) else { return };
        let mut turn = self.workspace.turn(&self.shared);
        let len = u32::try_from(account.len()).unwrap_or(u32::MAX);
        let operation = Operation::Login { account: Span { start: 0, len } };
        let mut answers = turn.buffers.take();
        let ask = Ask { account: 0, operation: &operation, bytes: account };
        let known = turn.shared.store.answer(ask, &mut Answer::new(&mut answers, Protocol::Resp2));
        if known.is_some() {
            connection.end_login_at_once(account_number(&answers), &mut turn);
        } else {
            let mut bundle = turn.bundle(address, 0, Protocol::Resp2);
            bundle.number = connection.last_request().number;
            bundle.bytes.extend_from_slice(account);
            bundle.requests.push(connection.login_request(operation));
            turn.outgoing.push(bundle);
        }
        turn.buffers.keep(answers);
    }

    fn receive_verdict(&mut self, address: Address, verdict: Verdict, connections: &mut Connections<Self>) {
        let Some(connection) = connections.find(address.slot, address.client) else { return };
        let fault = match verdict {
            Verdict::Welcome(grants) => {
                connection.session.accept_secret(grants);
                let account = connection.session.pending_account().map(<[u8]>::to_vec).unwrap_or_default();
                return self.log_in(address, &account, connections);
            }
            Verdict::Wrong => Fault::new(Word::NoAccount, "unknown account or wrong secret"),
            Verdict::Busy => TOO_MANY_LOGINS,
        };
        let mut turn = self.workspace.turn(&self.shared);
        let mut error = turn.buffers.take();
        Encoder::new(&mut error, Protocol::Resp2).error(&fault); // in both protocols the same
        connection.end_login_at_once(Err(&error), &mut turn);
        turn.buffers.keep(error);
    }

    /// Keeps a pop from being parked if its client has hung up before the pop was read: no later event would tell of
    /// that, and the message that it waits for would be lost.
    fn keep_from_parking(&self, bundle: &Bundle, connections: &Connections<Self>) {
        let has_departed = || {
            let connection = connections.get(bundle.address.slot);
            connection.is_some_and(|connection| connection.peer.has_hung_up())
        };
        if bundle.may_wait() && has_departed() {
            // The pop is not parked yet, so this only notes that its client has left.
            let _ = self.shared.store.record_departure(bundle.address);
        }
    }

    /// Lines up this turn's bundles; those that do not fit are answered with an error.
    fn line_up(&mut self, connections: &mut Connections<Self>) {
        self.workspace.outgoing.append(&mut self.requeued);
        if self.workspace.outgoing.is_empty() {
            return;
        }
        let mut outgoing = std::mem::take(&mut self.workspace.outgoing);
        let enqueued = self.shared.clock.stamp();
        for bundle in &mut outgoing {
            if !bundle.awaits_next_piece() {
                bundle.stamp_all(|stamps| stamps.enqueued = enqueued);
            }
            self.keep_from_parking(bundle, connections);
        }
        if connections.len() == 1 {
            // No other client waits for this thread, so the way to a worker and back can be saved.
            self.worker.run_here(&mut outgoing, self.thread);
            while let Some(bundle) = self.worker.next_done_here() {
                self.deliver(bundle, connections);
            }
        }
        self.shared.line.push_all(&mut outgoing);
        for mut bundle in outgoing.drain(..) {
            bundle.refuse_all(&LINE_FULL);
            self.deliver(bundle, connections);
        }
        self.workspace.outgoing = outgoing;
    }
}

/// Counts a request that was answered on the spot: it was never in the line, so it has no stamps of that.
fn count_at_once(done: &AnsweredAtOnce, replied: u64, shared: &QueueShared, recorder: &mut Recorder) {
    let AnsweredAtOnce { kind, outcome, id, request_bytes, answer_bytes, received, answered } = *done;
    let stamps = Stamps { received, answered, replied, ..Stamps::default() };
    let noted = Noted::new(kind as u8, ending(outcome), stamps);
    let noted = Noted { client: id.client, request_bytes, answer_bytes, ..noted };
    if let Some(slow) = &shared.slow {
        report::report_if_slow_at_once(slow, &shared.clients, id, &noted);
    }
    recorder.note(noted);
}

/// Counts the requests of a bundle.
fn count_bundle(bundle: &mut Bundle, replied: u64, recorder: &mut Recorder) {
    for request in &mut bundle.requests {
        request.stamps.replied = replied;
        recorder.note(Noted {
            client: bundle.address.client,
            reported_ns: bundle.reported_ns,
            request_bytes: request.request_bytes,
            answer_bytes: request.answer_bytes,
            ..Noted::new(request.kind as u8, ending(request.outcome), request.stamps)
        });
    }
}

/// Reads the store's answer to a login: the account's number, or the encoded error.
fn account_number(answer: &[u8]) -> Result<AccountId, &[u8]> {
    let number = str::from_utf8(answer).ok().and_then(|text| text.strip_prefix(':'));
    number.and_then(|text| text.trim_end().parse().ok()).ok_or(answer)
}
