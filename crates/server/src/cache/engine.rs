//! What takes requests from a network thread: the router itself, or the line to the workers.

use std::time::Duration;

use mio::Registry;
use mio::event::Event;
use posthaste_wire::memcached::request::Request;

use super::answers::Answers;
use super::line::Parcel;
use super::router::{Asked, Finished};

/// A client of a network thread.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// Its slot.
    pub slot: usize,
    /// Its number, which is never used twice.
    pub number: u64,
}

/// What takes requests.
pub trait Engine {
    /// Answers to the thread's clients.
    fn answers(&self) -> &Answers;

    /// The same, to be written.
    fn answers_mut(&mut self) -> &mut Answers;

    /// A turn begins.
    fn begin(&mut self, now: u64);

    /// A client came.
    fn enter(&mut self, asker: Asker);

    /// It left.
    fn leave(&mut self, slot: usize);

    /// A request, of `end` bytes at the beginning of `input`.
    fn ask(&mut self, asker: Asker, request: &Request, input: &[u8], end: usize) -> Asked;

    /// A request whose value is too large and not there.
    fn refuse_too_large(&mut self, asker: Asker, request: &Request, input: &[u8]) -> Asked;

    /// Words of our own for a client, in its turn, who sent so many bytes.
    fn say(&mut self, asker: Asker, words: &[u8], request_bytes: usize);

    /// Something happened to the socket of this server.
    fn note(&mut self, server: usize, event: &Event);

    /// A worker has answered.
    fn take_back(&mut self, parcel: Box<Parcel>, is_there: bool);

    /// Sends what was asked.
    fn send(&mut self, registry: &Registry);

    /// Reads what servers say, using `buffer`.
    fn receive(&mut self, registry: &Registry, buffer: &mut [u8]);

    /// What was answered, for the record.
    fn finished(&mut self) -> &mut Vec<Finished>;

    /// How long the thread may sleep.
    fn patience(&self) -> Option<Duration>;

    /// Requests that wait, if several servers are asked; 0 if it is one, which says what it says at once.
    fn waits_for_several(&self) -> usize {
        0
    }

    /// Everything under way has been answered.
    fn is_idle(&self) -> bool;
}
