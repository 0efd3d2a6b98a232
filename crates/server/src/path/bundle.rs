//! What travels through the path: the requests one connection sent in one go, and their answers.
//!
//! A bundle owns one copy of the raw bytes; the operations point into it by spans. It is filled by a network
//! thread, carried to a worker, answered there, carried back and used again: no allocation per request.

use std::fmt;
use std::ops::Range;

use posthaste_measure::{Ending, Stamps};
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Pop};

use super::pieces::Pieces;
use super::progress::Progress;
use crate::queue::answer::Answer;
use crate::queue::rules::{AccountId, Ask, Millis, Outcome, after};
use crate::trace::TracedMessage;

/// Where a connection is found: its network thread, and its number, which is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Index of the network thread.
    pub thread: usize,
    /// Slot in that thread's table.
    pub slot: usize,
    /// The connection's number.
    pub client: u64,
}

/// A request's name in logs and traces: its connection's number, and its own on that connection, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestName {
    /// The connection, as CLIENT ID shows it.
    pub client: u64,
    /// How many requests the connection had sent, this one included.
    pub number: u64,
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.client, self.number)
    }
}

/// Nanoseconds in a millisecond.
const NANOS_PER_MS: u64 = 1_000_000;

/// One request in a bundle.
#[derive(Debug)]
pub struct Request {
    /// What is asked; its spans point into the bundle's bytes.
    pub operation: Operation,
    /// The kind under which it is measured.
    pub kind: Kind,
    /// When the request passed each station.
    pub stamps: Stamps,
    /// How the request ended; meaningful once answered.
    pub outcome: Outcome,
    /// Length of the request in bytes.
    pub request_bytes: u32,
    /// Length of the answer in bytes; meaningful once answered.
    pub answer_bytes: u32,
}

impl Request {
    /// Returns a request that was received at the stamp `received`.
    #[must_use]
    pub fn new(operation: Operation, kind: Kind, received: u64) -> Self {
        let stamps = Stamps { received, ..Stamps::default() };
        Self { operation, kind, stamps, outcome: Outcome::Ok, request_bytes: 0, answer_bytes: 0 }
    }
}

/// Consecutive requests of one connection.
#[derive(Debug)]
pub struct Bundle {
    /// The connection that sent the requests.
    pub address: Address,
    /// The account on whose behalf they are executed.
    pub account: AccountId,
    /// The protocol in which answers are encoded.
    pub protocol: Protocol,
    /// The raw requests.
    pub bytes: Vec<u8>,
    /// The requests, in the order sent.
    pub requests: Vec<Request>,
    /// Number of the first request on its connection, from 1.
    pub number: u64,
    /// Its place among all bundles in the order in which they entered the waiting line, from 1; 0: it has not entered
    /// it.
    pub arrival: u64,
    /// How many of the requests are answered.
    pub answered: usize,
    /// How far a store has come that does not execute it in one go.
    pub progress: Progress,
    /// The encoded answers, in order.
    pub answers: Vec<u8>,
    /// How many bytes of `answers` belong to requests that are answered.
    answered_bytes: usize,
    /// The time that the store reported for the batch, in nanoseconds; 0: it reported none.
    pub reported_ns: u64,
    /// The traced messages of these requests; filled only with `--traces`.
    pub traced_messages: Vec<TracedMessage>,
    /// What is known so far of an answer that is made in pieces.
    pub(super) pieces: Pieces,
}

impl Bundle {
    /// Returns an empty bundle for a connection.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            account: 0,
            protocol: Protocol::Resp2,
            bytes: Vec::new(),
            requests: Vec::new(),
            number: 0,
            arrival: 0,
            answered: 0,
            progress: Progress::default(),
            answers: Vec::new(),
            answered_bytes: 0,
            reported_ns: 0,
            traced_messages: Vec::new(),
            pieces: Pieces::default(),
        }
    }

    /// Returns the name of the request at this index.
    #[must_use]
    pub fn request_name(&self, index: usize) -> RequestName {
        RequestName { client: self.address.client, number: self.number + index as u64 }
    }

    /// Empties a bundle for another use, keeping its buffers unless they grew large.
    pub fn reset(&mut self, kept_bytes: usize) {
        self.requests.clear();
        self.number = 0;
        self.arrival = 0;
        self.answered = 0;
        self.progress = Progress::default();
        self.answered_bytes = 0;
        self.reported_ns = 0;
        self.traced_messages.clear();
        self.pieces = Pieces::default();
        for buffer in [&mut self.bytes, &mut self.answers] {
            buffer.clear();
            buffer.shrink_to(kept_bytes);
        }
    }

    /// Returns the next request to execute, and where its answer goes; None when all are answered.
    pub fn next_ask(&mut self) -> Option<(Ask<'_>, Answer<'_>)> {
        let request = self.requests.get(self.answered)?;
        let ask = Ask { account: self.account, operation: &request.operation, bytes: &self.bytes };
        Some((ask, Answer::new(&mut self.answers, self.protocol)))
    }

    /// Returns the operation of the next request to execute; None when all are answered.
    #[must_use]
    pub fn next_operation(&self) -> Option<&Operation> {
        self.requests.get(self.answered).map(|request| &request.operation)
    }

    /// Marks the request just executed as answered.
    pub fn finish_one(&mut self, outcome: Outcome) {
        let request = &mut self.requests[self.answered];
        request.outcome = outcome;
        request.answer_bytes = length(self.answers.len() - self.answered_bytes);
        self.answered_bytes = self.answers.len();
        self.answered += 1;
        self.progress.begin_next();
    }

    /// Returns the indices of this turn's requests that have no answer yet.
    #[must_use]
    pub fn pending(&self) -> Range<usize> {
        self.answered..self.progress.held_back.unwrap_or(self.requests.len())
    }

    /// Answers the next request with an error.
    pub fn refuse_one(&mut self, fault: &Fault) {
        Answer::new(&mut self.answers, self.protocol).fault(fault);
        self.finish_one(Outcome::Error);
    }

    /// Answers the next request with a number.
    pub fn answer_integer(&mut self, number: u64) {
        let Some((_, mut answer)) = self.next_ask() else { return };
        let outcome = answer.integer(number);
        self.finish_one(outcome);
    }

    /// Moves the requests that are not answered into a bundle of their own.
    #[must_use]
    pub fn split_rest(&mut self) -> Box<Self> {
        let mut rest = Box::new(Self::new(self.address));
        (rest.account, rest.protocol) = (self.account, self.protocol);
        rest.number = self.number + self.answered as u64;
        rest.bytes.extend_from_slice(&self.bytes);
        rest.requests.extend(self.requests.drain(self.answered..));
        rest
    }

    /// Replaces every answer by this error, as nothing in the bundle is known to have happened.
    pub fn refuse_all(&mut self, fault: &Fault) {
        self.discard_answers();
        while self.answered < self.requests.len() {
            self.refuse_one(fault);
        }
    }

    /// Discards every answer, as if no request had been executed.
    pub(super) fn discard_answers(&mut self) {
        self.answers.clear();
        self.answered = 0;
        self.answered_bytes = 0;
    }

    /// Answers a pop that gives up: null, or an empty array when it asked with COUNT.
    pub fn answer_empty(&mut self) {
        let counted = matches!(self.next_operation(), Some(Operation::Pop(Pop { select, .. })) if select.count.is_some());
        let Some((_, mut answer)) = self.next_ask() else { return };
        let outcome = if counted { answer.empty() } else { answer.null() };
        self.finish_one(outcome);
    }

    /// Answers a pop that was not executed because its client has left. A client that has only closed its sending side
    /// reads this; null would tell it that nothing was there.
    pub fn refuse_departed(&mut self) {
        const DEPARTED: Fault = Fault::new(
            Word::Err,
            "POP waits for nobody who has closed the sending side of the connection; it took nothing: keep it open until the answer, or leave out BLOCK",
        );
        self.refuse_one(&DEPARTED);
    }

    /// Returns the deadline of a pop that begins to wait now, at this stamp. Its time in the waiting line counts.
    #[must_use]
    pub fn pop_deadline(&self, now: Millis, stamp: u64) -> Millis {
        let [Request { operation: Operation::Pop(pop), stamps, .. }] = &*self.requests else {
            return after(now, 0);
        };
        let waited_ns = if stamps.enqueued > 0 { stamp.saturating_sub(stamps.enqueued) } else { 0 };
        after(now, pop.block_ms).saturating_sub((waited_ns / NANOS_PER_MS).min(pop.block_ms))
    }

    /// Returns whether the next request may repeat an earlier one (a pop with a request id).
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        matches!(self.next_operation(), Some(Operation::Pop(Pop { request_id: Some(_), .. })))
    }

    /// Returns whether every request has its answer.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.answered == self.requests.len()
    }

    /// Returns whether this is a pop that may wait. Such a pop travels alone.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        matches!(&*self.requests, [Request { operation: Operation::Pop(pop), .. }] if pop.block_ms > 0)
    }

    /// Takes the time parked until `now` out of the stamps: waiting for a message is not measured.
    pub fn end_wait(&mut self, now: u64) {
        if self.requests.first().is_some_and(|request| request.stamps.sent < now) {
            self.stamp_all(|stamps| stamps.resume(now));
        }
    }

    /// Sets one stamp of every request.
    pub fn stamp_all(&mut self, set: impl Fn(&mut Stamps)) {
        for request in &mut self.requests {
            set(&mut request.stamps);
        }
    }
}

/// Returns a length as it is recorded; within the limits every length fits.
#[must_use]
pub fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Returns how an outcome is counted in measurements.
#[must_use]
pub fn ending(outcome: Outcome) -> Ending {
    match outcome {
        Outcome::Ok => Ending::Ok,
        Outcome::Null => Ending::Null,
        Outcome::Error => Ending::Error,
    }
}
