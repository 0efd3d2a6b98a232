//! `--workers N`: a network thread reads and writes, and passes each request to the waiting line.
//!
//! A client has one request in the line at a time, as in the report that this mode reproduces. That alone keeps its
//! order.

use std::sync::Arc;
use std::time::Duration;

use mio::Registry;
use mio::event::Event;
use posthaste_measure::{Ending, Stamps};
use posthaste_wire::memcached::request::{Request, Verb};

use super::answers::Answers;
use super::engine::{ClientId, Engine};
use super::limits;
use super::request_kind;
use super::router::{Admission, Finished, recorded_length};
use super::shared::CacheShared;
use super::worker_line::{Job, Parcel};

/// The engine of a network thread that passes its requests to workers.
pub struct Queued {
    shared: Arc<CacheShared>,
    thread: usize,
    answers: Answers,
    now: u64,
    /// Parcels to be put into the line at the end of the turn.
    outgoing: Vec<Box<Parcel>>,
    finished: Vec<Finished>,
    /// Parcels kept for reuse.
    spare: Vec<Box<Parcel>>,
    /// How many requests are in the line or with workers.
    under_way: usize,
}

impl Queued {
    /// The engine of the network thread of this number.
    #[must_use]
    pub fn new(thread: usize, shared: Arc<CacheShared>) -> Self {
        Self {
            shared,
            thread,
            answers: Answers::default(),
            now: 0,
            outgoing: Vec::new(),
            finished: Vec::new(),
            spare: Vec::new(),
            under_way: 0,
        }
    }

    fn enqueue(
        &mut self,
        client: ClientId,
        request: &Request,
        bytes: &[u8],
        received: u64,
        job: Job,
    ) -> Admission {
        let mut parcel = self.spare.pop().unwrap_or_else(|| Box::new(Parcel::new(*request)));
        parcel.thread = self.thread;
        parcel.client = client;
        (parcel.request, parcel.job) = (*request, job);
        parcel.bytes.extend_from_slice(bytes);
        parcel.kind = request_kind::number(request);
        parcel.stamps = Stamps { received, ..Stamps::default() };
        self.outgoing.push(parcel);
        self.under_way += 1;
        self.answers.fence(client.slot);
        Admission::Accepted
    }
}

impl Engine for Queued {
    fn answers(&self) -> &Answers {
        &self.answers
    }

    fn answers_mut(&mut self) -> &mut Answers {
        &mut self.answers
    }

    fn begin_turn(&mut self, now: u64) {
        self.now = now;
    }

    fn add_client(&mut self, client: ClientId) {
        self.answers.add_client(client.slot, client.number);
    }

    fn remove_client(&mut self, slot: usize) {
        self.answers.remove_client(slot);
    }

    fn ask(&mut self, client: ClientId, request: &Request, input: &[u8], received: u64) -> Admission {
        if request.verb == Verb::Quit {
            return Admission::Quit;
        }
        self.enqueue(client, request, input, received, Job::CarryOut)
    }

    fn refuse_too_large(
        &mut self,
        client: ClientId,
        request: &Request,
        input: &[u8],
        received: u64,
    ) -> Admission {
        self.enqueue(client, request, request.line.of(input), received, Job::RefuseTooLarge)
    }

    fn answer_locally(&mut self, client: ClientId, words: &[u8], request_bytes: usize) {
        self.answers.write(client.slot, words);
        self.finished.push(Finished {
            kind: request_kind::OTHER,
            ending: Ending::Error,
            stamps: Stamps { received: self.now, ..Stamps::default() },
            slot: Some(client.slot),
            client: client.number,
            request_bytes: recorded_length(request_bytes),
            answer_bytes: recorded_length(words.len()),
            server_reads: 0,
        });
    }

    fn note_server_event(&mut self, _: usize, _: &Event) {}

    fn complete(&mut self, mut parcel: Box<Parcel>, slot: Option<usize>) {
        self.under_way -= 1;
        if let Some(slot) = slot {
            self.answers.write(slot, &parcel.answer);
            self.answers.unfence(slot);
        }
        self.finished.push(Finished {
            kind: parcel.kind,
            ending: parcel.ending,
            stamps: parcel.stamps,
            slot,
            client: parcel.client.number,
            request_bytes: recorded_length(parcel.bytes.len()),
            answer_bytes: recorded_length(parcel.answer.len()),
            server_reads: parcel.server_reads,
        });
        if self.spare.len() < limits::SPARE_MAX {
            parcel.reset();
            self.spare.push(parcel);
        }
    }

    fn send(&mut self, _: &Registry) {
        if self.outgoing.is_empty() {
            return;
        }
        let enqueued = self.shared.clock.stamp();
        self.outgoing.iter_mut().for_each(|parcel| parcel.stamps.enqueued = enqueued);
        self.shared.line.push_all(&mut self.outgoing);
        for mut parcel in std::mem::take(&mut self.outgoing) {
            if parcel.request.noreply.is_none() {
                parcel.answer.extend_from_slice(b"SERVER_ERROR the waiting line is full\r\n");
            }
            parcel.ending = Ending::Error;
            let slot = parcel.client.slot;
            self.complete(parcel, Some(slot));
        }
    }

    fn receive(&mut self, _: &Registry, _: &mut [u8]) {}

    fn finished(&mut self) -> &mut Vec<Finished> {
        &mut self.finished
    }

    fn poll_timeout(&self) -> Option<Duration> {
        None
    }

    fn is_idle(&self) -> bool {
        self.under_way == 0
    }
}
