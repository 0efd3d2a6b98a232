//! What goes back to clients: answers in the order of the requests, and how much of it we hold.
//!
//! A request stands in its client's line from the moment it is taken until its answer has been passed on. The first
//! in line writes to the client's output directly; an answer that is ready earlier than its turn waits with its
//! request. All bytes held for a client are counted, because a client that does not read must not fill our memory.

use std::collections::VecDeque;

use super::limits;
use crate::front::buffers::{Buffers, shed};
use crate::front::slots::Slots;

/// One client's line.
#[derive(Default)]
struct Client {
    /// Its number, which is never used twice.
    number: u64,
    line: VecDeque<u32>,
    /// So many of those in line were taken together, and their answers leave together.
    burst: usize,
    output: Vec<u8>,
    /// Bytes of the output that are written.
    written: usize,
    held: usize,
    /// What its requests under way take.
    asked: usize,
    keys: usize,
    /// What its values take, lately; 0: no value yet.
    value_bytes: usize,
    /// A request under way must take effect before the next one is looked at.
    fenced: bool,
}

impl Client {
    /// What a value of it is reckoned to take.
    fn value_bytes(&self) -> usize {
        if self.value_bytes == 0 { limits::VALUE_BYTES_UNKNOWN } else { self.value_bytes }
    }
}

/// The lines of all clients of a thread, by slot.
#[derive(Default)]
pub struct Answers {
    clients: Vec<Client>,
    /// All bytes, those of requests too.
    held: usize,
    touched: Slots,
    buffers: Buffers,
}

impl Answers {
    /// A client of this number took this slot.
    pub fn enter(&mut self, slot: usize, number: u64) {
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

    /// The client left: its requests.
    pub fn leave(&mut self, slot: usize) -> VecDeque<u32> {
        self.keep_output(slot);
        let client = std::mem::take(&mut self.clients[slot]);
        self.held -= client.held + client.asked;
        client.line
    }

    /// Whether a client may ask more: not too much under way, and what it got was read.
    #[must_use]
    pub fn may_ask(&self, slot: usize) -> bool {
        let client = &self.clients[slot];
        !client.fenced
            && client.line.len() < limits::REQUESTS_UNDER_WAY_MAX
            && client.keys < limits::KEYS_UNDER_WAY_MAX
            && (client.keys * client.value_bytes() < limits::VALUE_BYTES_UNDER_WAY || client.keys == 0)
            && client.held < limits::OUTPUT_BYTES_PAUSE
            && client.asked < limits::ASKED_BYTES_PAUSE
    }

    /// Whether the next request must wait for the last one to take effect.
    pub fn fence(&mut self, slot: usize, fenced: bool) {
        self.clients[slot].fenced = fenced;
        self.touch(slot);
    }

    /// Whether nothing is under way or to be written.
    #[must_use]
    pub fn is_idle(&self, slot: usize) -> bool {
        let client = &self.clients[slot];
        client.line.is_empty() && client.output.is_empty() && !client.fenced
    }

    /// Whether a client has requests under way.
    #[must_use]
    pub fn is_waiting(&self, slot: usize) -> bool {
        !self.clients[slot].line.is_empty()
    }

    /// A request for so many keys, which takes so many bytes, takes its place in line.
    pub fn line_up(&mut self, slot: usize, request: u32, keys: usize, bytes: usize) {
        self.clients[slot].line.push_back(request);
        self.clients[slot].keys += keys;
        self.clients[slot].asked += bytes;
        self.held += bytes;
    }

    /// Whether a request is the first in line.
    #[must_use]
    pub fn is_first(&self, slot: usize, request: u32) -> bool {
        self.clients[slot].line.front() == Some(&request)
    }

    /// The first in line, which was lined up so, is done; the next one.
    pub fn step(&mut self, slot: usize, keys: usize, bytes: usize) -> Option<u32> {
        self.touch(slot);
        let client = &mut self.clients[slot];
        client.line.pop_front();
        client.burst = client.burst.saturating_sub(1);
        client.keys -= keys;
        client.asked -= bytes;
        self.held -= bytes;
        client.line.front().copied()
    }

    /// What is in line now was taken together, unless others before it are not answered yet.
    pub fn close_burst(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        if client.burst == 0 {
            client.burst = client.line.len();
        }
    }

    /// Whether more of what was taken together is to be answered.
    #[must_use]
    pub fn is_amid_burst(&self, slot: usize) -> bool {
        self.clients[slot].burst > 0
    }

    /// So many bytes more are held for a client, wherever they are.
    pub fn hold(&mut self, slot: usize, bytes: usize) {
        self.clients[slot].held += bytes;
        self.held += bytes;
    }

    /// A value of so many bytes came for a client: the next ones are reckoned to be like the largest of late.
    pub fn note_value(&mut self, slot: usize, bytes: usize) {
        let client = &mut self.clients[slot];
        client.value_bytes = bytes.max(client.value_bytes() / 8 * 7);
    }

    /// What is to be written to a client; whoever adds to it calls `hold` too.
    pub fn output(&mut self, slot: usize) -> &mut Vec<u8> {
        self.touch(slot);
        let output = &mut self.clients[slot].output;
        if output.capacity() == 0 {
            *output = self.buffers.take();
        }
        output
    }

    /// Something about a client has changed: whether it can be written to or may ask.
    pub fn touch(&mut self, slot: usize) {
        self.touched.add(slot);
    }

    /// Adds an answer whose turn it is.
    pub fn write(&mut self, slot: usize, bytes: &[u8]) {
        self.output(slot).extend_from_slice(bytes);
        self.hold(slot, bytes.len());
    }

    /// What is to be written to a client, to be looked at.
    #[must_use]
    pub fn unwritten(&self, slot: usize) -> &[u8] {
        let client = &self.clients[slot];
        &client.output[client.written..]
    }

    /// Whether a part of a client's output was written, and a part was not.
    #[must_use]
    pub fn is_amid_write(&self, slot: usize) -> bool {
        self.clients[slot].written > 0
    }

    /// So many bytes more of a client's output were written. When all are, its buffer may be used for somebody else.
    pub fn written(&mut self, slot: usize, bytes: usize) {
        let client = &mut self.clients[slot];
        client.written += bytes;
        client.held -= bytes;
        self.held -= bytes;
        if client.written == client.output.len() {
            self.keep_output(slot);
        } else {
            shed(&mut client.output, &mut client.written);
        }
    }

    fn keep_output(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        client.written = 0;
        self.buffers.keep(std::mem::take(&mut client.output));
    }

    /// The clients about whom something has changed.
    pub fn touched(&mut self) -> &mut Slots {
        &mut self.touched
    }

    /// Bytes held for one client, and of its requests under way.
    #[must_use]
    pub fn all_held_for(&self, slot: usize) -> usize {
        self.clients[slot].held + self.clients[slot].asked
    }

    /// Bytes of answers held for one client.
    #[must_use]
    pub fn held_for(&self, slot: usize) -> usize {
        self.clients[slot].held
    }

    /// Bytes held for all, and of their requests under way.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }
}
