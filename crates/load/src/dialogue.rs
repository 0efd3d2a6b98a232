//! What the load generator knows of a protocol: how one client of it asks, and what its answers mean.
//!
//! Everything else (sockets, schedules, pipelines, counting) is the same for all tiers and stands outside. The
//! methods are called for every request, so they are chosen at compile time and borrow the bytes they look at.

use std::borrow::Cow;
use std::fmt;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered with what it asked for.
    Ok,
    /// There was nothing to read.
    Null,
    /// Refused, or answered with something else.
    Error,
}

/// What the bytes that have arrived begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A whole answer.
    Whole {
        /// Its bytes.
        len: usize,
        /// How the request ended.
        outcome: Outcome,
        /// The word by which an error is counted.
        word: Option<&'a [u8]>,
    },
    /// The answer goes on: at least this many more bytes must arrive.
    NeedBytes(usize),
    /// No answer; the connection is of no more use.
    Malformed(Cow<'a, str>),
}

/// One client's talk with a server.
pub trait Dialogue {
    /// Names of the kinds of request, in the order of reports.
    const KINDS: &'static [&'static str];
    /// What reports call a request that found nothing.
    const NULLS: &'static str;
    /// What is remembered of a request until it is answered.
    type Asked: fmt::Debug + Send;
    /// What the clients of a thread share.
    type Shared: fmt::Debug + Send;

    /// Appends the next request to `out`; None, and nothing appended, while it depends on an answer that is under way.
    fn ask(&mut self, shared: &mut Self::Shared, out: &mut Vec<u8>) -> Option<Self::Asked>;

    /// Which kind of request it is: an index into [`Dialogue::KINDS`].
    fn kind(asked: &Self::Asked) -> usize;

    /// Takes the answer to `asked`, the oldest request without one, if `bytes` begin with a whole one. Figures of the
    /// dialogue's own count only when it is `measured`.
    fn answer<'a>(
        &mut self,
        asked: &Self::Asked,
        bytes: &'a [u8],
        measured: bool,
        shared: &mut Self::Shared,
    ) -> Answer<'a>;

    /// A request that will never be answered.
    fn lost(&mut self, asked: &Self::Asked, shared: &mut Self::Shared);

    /// From now on the client asks only for what ends what it has begun.
    fn finish(&mut self);

    /// Whether the client may stop here without leaving something half done.
    fn is_at_rest(&self) -> bool;

    /// A turn of the thread's loop has ended: the time for what is better done for many answers at once.
    fn turn_ended(shared: &mut Self::Shared);
}
