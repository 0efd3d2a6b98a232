//! Every bound of the cache tier on one page, with its reason.

use std::time::Duration;

/// Requests of one client that may be under way: beyond it the client is not read.
pub const REQUESTS_UNDER_WAY_MAX: usize = 1024;

/// Keys of a multi-get that are asked for at once. A larger one is answered in steps, so that its client, if it
/// does not read, makes us hold one step and not all.
pub const KEYS_PER_STEP: usize = 256;

/// Keys of one client that may be under way.
pub const KEYS_UNDER_WAY_MAX: usize = 4 * KEYS_PER_STEP;

/// Values of one client that may be under way, by what its values take lately. The servers send what they were asked, so
/// this is what a client that stops reading makes us hold, and what the clients beside it wait for.
pub const VALUE_BYTES_UNDER_WAY: usize = 4 * 1024 * 1024;

/// What a value is reckoned to take before the first one came.
pub const VALUE_BYTES_UNKNOWN: usize = 64 * 1024;

/// Bytes held for a client above which it is not read: a slow reader harms only itself.
pub const OUTPUT_BYTES_PAUSE: usize = 1024 * 1024;

/// Bytes held for a client above which it is cut. Values are up to 1 MiB unless servers are told otherwise, so what is
/// under way of a client that stopped reading may be large; it is rarely this large.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Unsent bytes for a server above which requests for it are not taken: its clients wait, unread.
pub const LANE_BYTES_PAUSE: usize = 4 * 1024 * 1024;

/// Values that a thread brings from one pool to another at the same time; one more is left where it is.
pub const FILLS_MAX: usize = 256;

/// Replies to come from a server beyond which nothing is repeated there for trial.
pub const SHADOWS_MAX: usize = 1000;

/// Longest line of a multi-get: 10,000 keys of some 100 bytes.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Read from one socket at once.
pub const READ_BYTES: usize = 64 * 1024;

/// Buffers kept for reuse are cut down to this size.
pub const BUFFER_BYTES_KEPT: usize = 16 * 1024;

/// Buffers and the like that a thread keeps for reuse.
pub const SPARE_MAX: usize = 1024;

/// Events taken from the kernel in one turn.
pub const EVENTS_PER_TURN: usize = 1024;

/// How long a connection that was closed by us is still read (and what it sends dropped), so that the last
/// answers are not destroyed by a reset.
pub const LINGER: Duration = Duration::from_secs(1);

/// How long after it was accepted a connection is kept by a tier that stops, for the request that its client may have
/// sent by then.
pub const FIRST_REQUEST: Duration = Duration::from_millis(500);

/// When to accept again after the system had no descriptor or no memory for a connection.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// Servers of a pool: their numbers stand in 16 bits, and so do shares of a multi-get that moves from one to another.
pub const SERVERS_MAX: usize = 1000;

// A client that pauses must be able to have its answers to one step of small values.
const _: () = assert!(OUTPUT_BYTES_PAUSE / KEYS_UNDER_WAY_MAX >= 1024);
// A longest line fits many reads, and a paused client's memory is of that order.
const _: () = assert!(LINE_BYTES_MAX <= OUTPUT_BYTES_PAUSE && READ_BYTES <= LINE_BYTES_MAX);
