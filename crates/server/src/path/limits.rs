//! Every bound of the path on one page, with its reason, checked against each other. Those of sockets and connections are
//! the front's.

use std::time::Duration;

use posthaste_wire::command::COUNT_MAX;
use posthaste_wire::decode::BULK_BYTES_PROTOCOL;
use posthaste_wire::reply::SIZE_MAX;

pub use crate::front::limits::{BUFFER_BYTES_KEPT, OUTPUT_BYTES_PAUSE, READ_BYTES};

/// Requests of one connection that may be under way; beyond it the connection is not read.
pub const BUNDLE_REQUESTS_MAX: usize = 1024;

/// Requests of one connection that are answered on the spot in one turn; then other connections have theirs. Each of
/// them is held until the turn ends, to be counted.
pub const AT_ONCE_MAX: usize = BUNDLE_REQUESTS_MAX;

/// Capacity kept for requests answered on the spot, after a turn of many connections that needed more.
pub const AT_ONCE_KEPT: usize = 16 * AT_ONCE_MAX;

/// Bytes of answers after which the rest of a bundle waits until its client has read them: as much as one answer
/// with messages may have.
pub const BUNDLE_ANSWER_BYTES: usize = 8 << 20;

/// Reads of one message (PEEK, POP) in a bundle, for a store that answers a whole bundle in one go, as a database does,
/// and where bodies are small enough: the answers are held in memory until their client has read them.
pub const BUNDLE_READS_MAX: usize = 32;

/// A request's arguments: enough to ACK at once what a POP with the largest COUNT has leased.
pub const ARGUMENTS_MAX: usize = 16 * 1024;

/// One line of an inline command.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Any argument may be this long, however small the largest body is.
pub const ARGUMENT_BYTES_MIN: usize = 64 * 1024;

/// Bytes of one request beside its largest body: names, keys, headers, the other bodies of a SENDMANY.
pub const REQUEST_BYTES_EXTRA: usize = 1024 * 1024;

/// Bundles a network thread keeps for reuse.
pub const SPARE_BUNDLES: usize = 256;

/// How long requests wait for a busy worker before another takes them: a batch on a near store is done by then.
pub const RESERVE_AFTER: Duration = Duration::from_millis(5);

/// The longest wait of a worker for clients that are about to send again: the price of a small batch on a near store.
pub const GATHER_MAX: Duration = Duration::from_micros(500);

/// Consecutive clients that go to the same network thread where the store is far: one thread does some hundred thousand
/// requests a second.
pub const FAR_CLIENTS_IN_A_ROW: usize = 128;

/// Bytes of one request that a connection may make the server hold before it has logged in.
pub const UNAUTHENTICATED_BYTES_MAX: usize = 16 * 1024;

/// Bytes of unsent answers above which a connection that has not logged in is not read: room for the longest answer.
pub const UNAUTHENTICATED_OUTPUT_BYTES_PAUSE: usize = 64 * 1024;

// Whatever one POP can lease, one ACK can name.
const _: () = assert!(ARGUMENTS_MAX > COUNT_MAX as usize);
// Whatever one POP can take, the clients that relay it (HTTP, admin) can read: it is gone from its queue by then.
const _: () = assert!(SIZE_MAX as u64 >= BULK_BYTES_PROTOCOL + 2 * REQUEST_BYTES_EXTRA as u64);
// One read must be able to hold a longest inline command.
const _: () = assert!(READ_BYTES >= INLINE_BYTES_MAX);
