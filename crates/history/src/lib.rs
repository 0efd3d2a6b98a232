//! Decides from the journals of clients whether a queue kept its promises.
//!
//! Each client writes down what it asked, what it was told and when; nothing of the server is believed but its
//! answers. [`mod@check`] puts the journals together and decides rules [A to I](Rule), each in time that grows little
//! faster than the number of operations. A search for an order of all operations that explains every answer (as
//! checkers of linearizability do) would decide more, but needs exponential time for queues; these rules need only the
//! intervals in which operations took place, because every message is unique.
//!
//! Three outcomes, not two: an operation was answered ([`Outcome::Ok`]), refused without effect ([`Outcome::Fail`]), or
//! nobody knows ([`Outcome::Info`]: the connection broke, the store failed). What nobody knows is never held against
//! the server, so a checker that says *violated* is right, and one that says *valid* says how much it could not judge.
//!
//! A crate of its own, without sockets and clocks, for two reasons: the load generator and the tests that kill servers
//! use it alike, and what judges a server must share nothing with it.

pub mod body;
pub mod check;
mod delivery;
pub mod file;
pub mod history;
pub mod journal;
mod life;
mod limbo;
mod message;
pub mod names;
pub mod operation;
mod pops;
mod row;
mod rules;
mod shelf;
mod story;
pub mod verdict;

pub use body::{Body, Key, fingerprint};
pub use check::check;
pub use file::{JournalError, Writer};
pub use history::{Ending, History, Requests};
pub use journal::{Entry, Journal};
pub use names::{Name, Names};
pub use operation::{Answer, Call, Delivery, Kind, Outcome, Select, Send};
pub use verdict::{At, Counts, Rule, Verdict, Violation};

/// Nanoseconds of the one clock that all journals of a history share.
pub type Time = u64;

/// A time that is never reached.
pub(crate) const NEVER: Time = Time::MAX;

/// Converts milliseconds to the nanoseconds of [`Time`].
pub(crate) const fn millis(ms: u64) -> Time {
    ms.saturating_mul(1_000_000)
}
