//! Every bound of the cache tier on one page, with its reason. Those of sockets and connections are in the front's.

use std::time::Duration;

pub use crate::front::limits::{BUFFER_BYTES_KEPT, OUTPUT_BYTES_PAUSE, READ_BYTES};

/// Requests of one client that may be under way: at this number the client is not read.
pub const REQUESTS_UNDER_WAY_MAX: usize = 1024;

/// Requests of one client that are taken at once; then other clients have their turn. Requests that are answered on
/// the spot are never under way, but each is held until the turn ends, to be counted.
pub const REQUESTS_AT_ONCE_MAX: usize = REQUESTS_UNDER_WAY_MAX;

/// Room for finished requests that a thread keeps after a turn of many clients.
pub const FINISHED_KEPT: usize = 16 * REQUESTS_AT_ONCE_MAX;

/// Most keys of a multi-get that are asked for at once; of large values fewer ([`VALUE_BYTES_UNDER_WAY`]). A larger get
/// is answered in steps, so that its client, if it does not read, makes us hold one step and not all.
pub const KEYS_PER_STEP: usize = 256;

/// Keys of one client that may be under way.
pub const KEYS_UNDER_WAY_MAX: usize = 4 * KEYS_PER_STEP;

/// Bytes of values of one client that may be under way, by what its values take lately. The servers send what they
/// were asked for, so this is what a client that stops reading makes us hold, and what other clients wait for.
pub const VALUE_BYTES_UNDER_WAY: usize = 4 * 1024 * 1024;

/// The least that a value is expected to take before the first one came, in bytes.
pub const VALUE_BYTES_UNKNOWN: usize = 64 * 1024;

/// Returns what a value is expected to take before the first one came, in bytes: so much that a client is not cut for its
/// first get although all values are as large as they may be.
#[must_use]
pub fn first_value_bytes(value_bytes_max: usize) -> usize {
    VALUE_BYTES_UNKNOWN.max(value_bytes_max.div_ceil(OUTPUT_BYTES_MAX / VALUE_BYTES_UNDER_WAY))
}

/// Comparisons of keys by which it is found out whether a change must wait for an earlier read of its client; where more
/// were needed it waits without. What waits is tried again in every turn, so all of them together must cost little.
pub const COMPARISONS_PER_CHANGE_MAX: usize = 1024;

/// Comparisons of keys by which it is found out which keys of a read that failed its client has changed since; where more
/// were needed all count as changed. So many changes of one key each may always be under way.
pub const COMPARISONS_PER_LOSS_MAX: usize = KEYS_PER_STEP * REQUESTS_UNDER_WAY_MAX;

/// Bytes of one client's requests under way at which the client is not read. If requests are small, their number is
/// limited first.
pub const ASKED_BYTES_PAUSE: usize = 2 * OUTPUT_BYTES_PAUSE;

/// Bytes held for a client above which it is cut, unless single values may be that large. What is under way of a client
/// that stopped reading is this large only if its values have suddenly become large.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Returns how many bytes may be held for a client: two values at least, since what it has yet to read of the one before
/// must not keep it from the next.
#[must_use]
pub fn output_bytes_max(value_bytes_max: usize) -> usize {
    OUTPUT_BYTES_MAX.max(2 * value_bytes_max)
}

/// Longest command into which gets are joined. Some servers take no longer line than 2 KiB at once.
pub const JOINED_BYTES_MAX: usize = 1024;

/// Commands that wait for a server before which a `get` may be sent: the replies to them are moved for each such `get`.
pub const OVERTAKEN_MAX: usize = 1024;

/// Longest flag `O` (an opaque, which servers repeat) of a meta command that servers take, in bytes with its letter.
pub const OPAQUE_BYTES_MAX: usize = 32;

/// Keys of one `gat`, in bytes: servers hang up on a line over 2 KiB that is not a `get`.
pub const GAT_BYTES_MAX: usize = 1800;

/// Unsent bytes for a server above which requests for it are not taken: its clients wait, unread.
pub const LANE_BYTES_PAUSE: usize = 4 * 1024 * 1024;

/// Time after which requests that were put off are retried without any event: no thread is notified when a server is
/// back. As long, a released claim is reserved for other threads.
pub const RETRY_EVERY: Duration = Duration::from_millis(5);

/// Values that a thread brings from one pool to another at the same time; further ones stay where they are.
pub const FILLS_MAX: usize = 256;

/// Replies to come from a server beyond which even a deletion there that no client waits for is waited for.
pub const DELETIONS_MAX: usize = 16 * 1024;

/// Replies to come from a server beyond which no shadow requests are sent there.
pub const SHADOWS_MAX: usize = 1000;

/// Unsent bytes for a server beyond which no shadow requests are sent there: far below what would make clients wait.
pub const SHADOW_BYTES_MAX: usize = 64 * 1024;

/// Longest line of a multi-get unless an option says otherwise: 10,000 keys of 250 bytes fit. While it is under way it
/// takes up to six times its length: with each key of one letter comes a place in the line and a number.
pub const LINE_BYTES_DEFAULT: usize = 3 * 1024 * 1024;

/// The least that the longest line may be set to: lines of all other commands are shorter.
pub const LINE_BYTES_LEAST: u32 = 2048;

/// The most that the longest line may be set to: places in requests have 32 bits.
pub const LINE_BYTES_MOST: u32 = 1024 * 1024 * 1024;

/// Largest value that may be let through: as large as memcached can be told to store (its `-I`).
pub const VALUE_BYTES_MOST: usize = 1 << 30;

/// Most requests, parcels and lists that a thread keeps for reuse, of each kind.
pub const SPARE_MAX: usize = 1024;

/// Most servers in the life of a program: their numbers must fit 16 bits, and so must those of a multi-get's shares
/// when keys move from one server to another.
pub const SERVERS_MAX: usize = 999;

// A client that pauses must be able to get its answers to one step of small values.
const _: () = assert!(OUTPUT_BYTES_PAUSE / KEYS_UNDER_WAY_MAX >= 1024);
const _: () = assert!(LINE_BYTES_DEFAULT >= 10_000 * 251 + 6);
