//! Answers on their way back to clients, in the order of the requests, and how many bytes are held for them.
//!
//! A request stands in its client's line from the moment it is taken until its answer has been passed on. The first
//! in line writes to the client's output directly; an answer that is ready earlier than its turn waits with its
//! request. All bytes held for a client are counted, because a client that does not read must not fill our memory.

use std::collections::VecDeque;

use super::limits;
use crate::front::buffers::{Buffers, drop_done};
use crate::front::slots::Slots;

/// One client's requests in order, and its output.
#[derive(Default)]
struct Client {
    /// The client's number, which is never used twice.
    number: u64,
    line: VecDeque<u32>,
    /// How many of the requests at the front of `line` were taken together; their answers leave together.
    burst: usize,
    output: Vec<u8>,
    /// How many bytes of `output` are written.
    written: usize,
    /// Bytes of answers held for the client.
    held: usize,
    /// Bytes that the client's requests under way take.
    asked: usize,
    /// Keys of the client's requests under way.
    keys: usize,
    /// Expected size of a value, by the largest of late; 0: there was no value yet.
    value_bytes: usize,
    /// From when on the waiting time of the next request counts: until then it waited for the client's own reads.
    waits_since: u64,
    /// A request under way must take effect before the next one begins.
    is_fenced: bool,
}

/// The lines of all clients of a thread, by slot.
pub struct Answers {
    clients: Vec<Client>,
    /// What a client's value is expected to take before the first one came, in bytes.
    first_value_bytes: usize,
    /// Bytes held for all clients, those of requests under way included.
    held: usize,
    touched: Slots,
    buffers: Buffers,
}

impl Default for Answers {
    fn default() -> Self {
        Self::for_values(0)
    }
}

impl Answers {
    /// Creates the lines of clients whose values have at most this many bytes.
    #[must_use]
    pub fn for_values(value_bytes_max: usize) -> Self {
        Self {
            clients: Vec::new(),
            first_value_bytes: limits::first_value_bytes(value_bytes_max),
            held: 0,
            touched: Slots::default(),
            buffers: Buffers::default(),
        }
    }

    /// Adds a client of this number in this slot.
    pub fn add_client(&mut self, slot: usize, number: u64) {
        if slot >= self.clients.len() {
            self.clients.resize_with(slot + 1, Client::default);
        }
        self.clients[slot].number = number;
    }

    /// The number of the client in this slot.
    #[must_use]
    pub fn number(&self, slot: usize) -> u64 {
        self.clients[slot].number
    }

    /// Removes a client that disconnected, and returns its requests under way.
    pub fn remove_client(&mut self, slot: usize) -> VecDeque<u32> {
        self.keep_output(slot);
        let client = std::mem::take(&mut self.clients[slot]);
        self.held -= client.held + client.asked;
        client.line
    }

    /// Returns whether a client may ask more: not too much is under way, and not too many bytes are held for it.
    #[must_use]
    pub fn may_ask(&self, slot: usize) -> bool {
        let client = &self.clients[slot];
        !client.is_fenced
            && client.line.len() < limits::REQUESTS_UNDER_WAY_MAX
            && client.keys < limits::KEYS_UNDER_WAY_MAX
            && (client.keys * self.value_bytes(client) < limits::VALUE_BYTES_UNDER_WAY || client.keys == 0)
            && client.held < limits::OUTPUT_BYTES_PAUSE
            && client.asked < limits::ASKED_BYTES_PAUSE
    }

    /// Returns how many keys of a get may be asked for at once, by the expected size of the client's values.
    #[must_use]
    pub fn keys_per_step(&self, slot: usize) -> usize {
        let value_bytes = self.value_bytes(&self.clients[slot]);
        (limits::VALUE_BYTES_UNDER_WAY / value_bytes).clamp(1, limits::KEYS_PER_STEP)
    }

    /// What a client's value is expected to take, in bytes.
    fn value_bytes(&self, client: &Client) -> usize {
        if client.value_bytes == 0 { self.first_value_bytes } else { client.value_bytes }
    }

    /// Makes the client's next request wait for the last one to take effect.
    pub fn fence(&mut self, slot: usize) {
        self.clients[slot].is_fenced = true;
        self.touch(slot);
    }

    /// Lets the client's next request begin: the last one has taken effect.
    pub fn unfence(&mut self, slot: usize) {
        self.clients[slot].is_fenced = false;
        self.touch(slot);
    }

    /// Notes that the client's next request waits for the client's own reads.
    pub fn note_waits_for_own(&mut self, slot: usize, now: u64) {
        self.clients[slot].waits_since = now;
    }

    /// Returns from when on the waiting time of the client's next request counts, if that is later than it was received.
    #[must_use]
    pub fn waits_since(&self, slot: usize) -> u64 {
        self.clients[slot].waits_since
    }

    /// Returns whether nothing is under way or to be written for a client.
    #[must_use]
    pub fn is_idle(&self, slot: usize) -> bool {
        let client = &self.clients[slot];
        client.line.is_empty() && client.output.is_empty() && !client.is_fenced
    }

    /// Returns whether a client has requests under way.
    #[must_use]
    pub fn is_waiting(&self, slot: usize) -> bool {
        !self.clients[slot].line.is_empty()
    }

    /// Appends a request to the client's; it is for `keys` keys and takes `bytes` bytes.
    pub fn enqueue(&mut self, slot: usize, request: u32, keys: usize, bytes: usize) {
        self.clients[slot].line.push_back(request);
        self.clients[slot].keys += keys;
        self.clients[slot].asked += bytes;
        self.held += bytes;
    }

    /// The client's requests, from the first that is not answered on.
    pub fn line(&self, slot: usize) -> impl Iterator<Item = u32> {
        self.clients[slot].line.iter().copied()
    }

    /// Returns whether a request is the first of its client.
    #[must_use]
    pub fn is_first(&self, slot: usize, request: u32) -> bool {
        self.clients[slot].line.front() == Some(&request)
    }

    /// Removes the client's first request, which is done and was enqueued with these numbers. Returns the next one.
    pub fn dequeue(&mut self, slot: usize, keys: usize, bytes: usize) -> Option<u32> {
        self.touch(slot);
        let client = &mut self.clients[slot];
        client.line.pop_front();
        client.burst = client.burst.saturating_sub(1);
        client.keys -= keys;
        client.asked -= bytes;
        self.held -= bytes;
        client.line.front().copied()
    }

    /// Notes that the requests in line now were taken together, unless an earlier burst is not answered yet.
    pub fn close_burst(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        if client.burst == 0 {
            client.burst = client.line.len();
        }
    }

    /// Returns whether answers of requests taken together are still missing.
    #[must_use]
    pub fn is_amid_burst(&self, slot: usize) -> bool {
        self.clients[slot].burst > 0
    }

    /// Counts bytes held for a client, wherever they are.
    pub fn hold(&mut self, slot: usize, bytes: usize) {
        self.clients[slot].held += bytes;
        self.held += bytes;
    }

    /// Notes the size of a value for a client, or 0 for a miss: what its next gets bring is expected to be like the largest
    /// of late.
    pub fn note_value(&mut self, slot: usize, bytes: usize) {
        let before = self.value_bytes(&self.clients[slot]);
        self.clients[slot].value_bytes = bytes.max(before / 8 * 7).max(1);
    }

    /// The output of a client. A caller that adds to it must call [`Answers::hold`] too.
    pub fn output(&mut self, slot: usize) -> &mut Vec<u8> {
        self.touch(slot);
        let output = &mut self.clients[slot].output;
        if output.capacity() == 0 {
            *output = self.buffers.take();
        }
        output
    }

    /// Marks a client as changed: whether it can be written to or may ask.
    pub fn touch(&mut self, slot: usize) {
        self.touched.add(slot);
    }

    /// Adds an answer to the output of a client, whose turn it is.
    pub fn write(&mut self, slot: usize, bytes: &[u8]) {
        self.output(slot).extend_from_slice(bytes);
        self.hold(slot, bytes.len());
    }

    /// The part of a client's output that is not written yet.
    #[must_use]
    pub fn unwritten(&self, slot: usize) -> &[u8] {
        let client = &self.clients[slot];
        &client.output[client.written..]
    }

    /// Returns whether a client's output was written in part.
    #[must_use]
    pub fn is_amid_write(&self, slot: usize) -> bool {
        self.clients[slot].written > 0
    }

    /// Notes that this many more bytes of a client's output were written. Once all are, its buffer may serve another
    /// client.
    pub fn written(&mut self, slot: usize, bytes: usize) {
        let client = &mut self.clients[slot];
        client.written += bytes;
        client.held -= bytes;
        self.held -= bytes;
        if client.written == client.output.len() {
            self.keep_output(slot);
        } else {
            drop_done(&mut client.output, &mut client.written);
        }
    }

    fn keep_output(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        client.written = 0;
        self.buffers.keep(std::mem::take(&mut client.output));
    }

    /// The clients marked as changed.
    pub fn touched(&mut self) -> &mut Slots {
        &mut self.touched
    }

    /// Bytes of answers and of requests under way held for one client.
    #[must_use]
    pub fn all_held_for(&self, slot: usize) -> usize {
        self.clients[slot].held + self.clients[slot].asked
    }

    /// Bytes of answers held for one client.
    #[must_use]
    pub fn held_for(&self, slot: usize) -> usize {
        self.clients[slot].held
    }

    /// Bytes of answers and of requests under way held for all clients.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }
}
