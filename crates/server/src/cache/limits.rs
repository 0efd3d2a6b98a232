//! Every bound of the cache tier on one page, with its reason. Those of sockets and connections are the front's.

use std::time::Duration;

pub use crate::front::limits::{BUFFER_BYTES_KEPT, OUTPUT_BYTES_PAUSE, READ_BYTES};

/// Requests of one client that may be under way: beyond it the client is not read.
pub const REQUESTS_UNDER_WAY_MAX: usize = 1024;

/// Requests of one client that are taken at once; then others have their turn. Those that are answered on the spot are never
/// under way, and each is held until the turn ends, to be counted.
pub const REQUESTS_AT_ONCE_MAX: usize = REQUESTS_UNDER_WAY_MAX;

/// Of the room for those that a turn of many clients needed, as much is kept as some of them may need.
pub const FINISHED_KEPT: usize = 16 * REQUESTS_AT_ONCE_MAX;

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

/// Bytes of one client's requests under way: beyond it the client is not read. As many as may be under way are below it, if
/// they are small.
pub const ASKED_BYTES_PAUSE: usize = 2 * OUTPUT_BYTES_PAUSE;

/// Bytes held for a client above which it is cut. Values are up to 1 MiB unless servers are told otherwise, so what is
/// under way of a client that stopped reading may be large; it is rarely this large.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest command into which gets are joined. Some servers take no longer line than 2 KiB at once.
pub const JOINED_BYTES_MAX: usize = 1024;

/// Keys of one `gat`, in bytes: servers hang up on a line over 2 KiB that is not a `get`.
pub const GAT_BYTES_MAX: usize = 1800;

/// Unsent bytes for a server above which requests for it are not taken: its clients wait, unread.
pub const LANE_BYTES_PAUSE: usize = 4 * 1024 * 1024;

/// After so long, requests that could not be taken are tried again though nothing has happened: that a server is there again
/// is told to nobody.
pub const LATER_PATIENCE: Duration = Duration::from_millis(5);

/// Values that a thread brings from one pool to another at the same time; one more is left where it is.
pub const FILLS_MAX: usize = 256;

/// Replies to come from a server beyond which deletions there, which nobody waits for, are waited for by who asked for them.
pub const DELETIONS_MAX: usize = 16 * 1024;

/// Replies to come from a server beyond which nothing is repeated there for trial.
pub const SHADOWS_MAX: usize = 1000;

/// Unsent bytes for a server beyond which nothing is repeated there for trial: far below what would have clients wait.
pub const SHADOW_BYTES_MAX: usize = 64 * 1024;

/// Longest line of a multi-get: 10,000 keys of some 100 bytes.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Buffers and the like that a thread keeps for reuse.
pub const SPARE_MAX: usize = 1024;

/// Servers that a program sees in its life: their numbers stand in 16 bits, and so do shares of a multi-get that moves from one to
/// another.
pub const SERVERS_MAX: usize = 999;

// A client that pauses must be able to have its answers to one step of small values.
const _: () = assert!(OUTPUT_BYTES_PAUSE / KEYS_UNDER_WAY_MAX >= 1024);
// A longest line fits many reads, and a paused client's memory is of that order.
const _: () = assert!(LINE_BYTES_MAX <= OUTPUT_BYTES_PAUSE && READ_BYTES <= LINE_BYTES_MAX);
