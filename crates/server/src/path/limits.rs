//! Every bound of the path on one page, with its reason, checked against each other. Those of sockets and connections are
//! the front's.

use std::time::Duration;

use posthaste_wire::command::COUNT_MAX;
use posthaste_wire::decode::BULK_BYTES_PROTOCOL;
use posthaste_wire::reply::SIZE_MAX;

pub use crate::front::limits::{BUFFER_BYTES_KEPT, OUTPUT_BYTES_PAUSE, READ_BYTES};

/// Requests of one connection that may be in the path: beyond it the connection is not read.
pub const BUNDLE_REQUESTS_MAX: usize = 1024;

/// Requests of one connection that are answered on the spot in one turn; then others have theirs. Until a turn ends each of
/// them is held, to be counted.
pub const AT_ONCE_MAX: usize = BUNDLE_REQUESTS_MAX;

/// Of the room for those that a turn of many connections needed, as much is kept as some of them may need.
pub const AT_ONCE_KEPT: usize = 16 * AT_ONCE_MAX;

/// Answers of one bundle after which the rest of it waits until its client has read them: as much as one answer may have.
pub const BUNDLE_ANSWER_BYTES: usize = 8 << 20;

/// Reads of one message in a bundle for a store that answers a whole bundle in one go, as a database does, where bodies are
/// small enough: their answers are held until they are read.
pub const BUNDLE_READS_MAX: usize = 32;

/// A request's arguments: enough to ACK at once what a POP with the largest COUNT has leased.
pub const ARGUMENTS_MAX: usize = 16 * 1024;

/// One line of an inline command.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Any argument may be this long, however small the largest body is.
pub const ARGUMENT_BYTES_MIN: usize = 64 * 1024;

/// All of one request beside its largest body: names, keys, headers, the other bodies of a SENDMANY.
pub const REQUEST_BYTES_EXTRA: usize = 1024 * 1024;

/// Bundles a network thread keeps for reuse.
pub const SPARE_BUNDLES: usize = 256;

/// How long requests wait for a worker under way before another takes them: a batch on a near store is done by then.
pub const RESERVE_AFTER: Duration = Duration::from_millis(5);

/// How long a worker waits at most for those who are about to come back: the price of a small batch on a near store.
pub const GATHER_MAX: Duration = Duration::from_micros(500);

/// Clients in a row that one network thread serves where the store is far: it does some hundred thousand requests a second.
pub const FAR_CLIENTS_IN_A_ROW: usize = 128;

/// Before authentication nobody may make us hold more than this.
pub const UNAUTHENTICATED_BYTES_MAX: usize = 16 * 1024;

/// Unsent answers of a connection that has not logged in, above which it is not read: room for the longest there is.
pub const UNAUTHENTICATED_OUTPUT_BYTES_PAUSE: usize = 64 * 1024;

// A paused connection must be able to hold the answers of one whole bundle of small requests.
const _: () = assert!(OUTPUT_BYTES_PAUSE / BUNDLE_REQUESTS_MAX >= 512);
// Whatever one POP can lease, one ACK can name.
const _: () = assert!(ARGUMENTS_MAX > COUNT_MAX as usize);
// Whatever one POP can take, those who ask for others (HTTP, admin) can read: it is gone from its queue by then.
const _: () = assert!(SIZE_MAX as u64 >= BULK_BYTES_PROTOCOL + 2 * REQUEST_BYTES_EXTRA as u64);
// One read must be able to hold a longest inline command.
const _: () = assert!(READ_BYTES >= INLINE_BYTES_MAX);
