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
        /// Its length in bytes.
        len: usize,
        /// How the request ended.
        outcome: Outcome,
        /// The word by which an error is counted.
        word: Option<&'a [u8]>,
    },
    /// The answer is incomplete: at least this many more bytes must arrive.
    NeedBytes(usize),
    /// The bytes are no answer, for this reason; the connection is of no more use.
    Malformed(Cow<'a, str>),
}

/// One client's requests to a server, and what the answers mean.
pub trait Dialogue {
    /// Names of the kinds of request, in the order of reports.
    const KINDS: &'static [&'static str];
    /// Name in reports of requests that found nothing.
    const NULLS: &'static str;
    /// What is remembered of a request until it is answered.
    type Asked: fmt::Debug + Send;
    /// What the clients of a thread share.
    type Shared: fmt::Debug + Send;

    /// Appends the next request to `out`; None, and nothing appended, while it depends on an answer that is under way.
    fn ask(&mut self, shared: &mut Self::Shared, out: &mut Vec<u8>) -> Option<Self::Asked>;

    /// Returns the kind of a request: an index into [`Dialogue::KINDS`].
    fn kind(asked: &Self::Asked) -> usize;

    /// Takes the answer to `asked`, the oldest request without one, if `bytes` begin with a whole one. The dialogue's
    /// own figures count it only if it is `measured`.
    fn answer<'a>(
        &mut self,
        asked: &Self::Asked,
        bytes: &'a [u8],
        measured: bool,
        shared: &mut Self::Shared,
    ) -> Answer<'a>;

    /// Notes that a request will never be answered.
    fn lost(&mut self, asked: &Self::Asked, shared: &mut Self::Shared);

    /// Makes the client send only what completes what it has begun.
    fn finish(&mut self);

    /// Returns whether the client may stop here without leaving something half done.
    fn is_at_rest(&self) -> bool;

    /// Ends a turn of the thread's loop: does what is cheaper for many answers at once.
    fn turn_ended(shared: &mut Self::Shared);
}
