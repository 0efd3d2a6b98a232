//! Every bound of the front on one page, with its reason.

use std::time::Duration;

/// Read from one socket at once; also the most a connection is read in one turn, so that a flood waits its turn.
pub const READ_BYTES: usize = 64 * 1024;

/// Read of one connection at most after a stop began: more than a kernel keeps of what has arrived (`tcp_rmem`, 6 MiB as a
/// rule), and so much that who never stops sending does not hold up the stop.
pub const OWED_BYTES_MAX: usize = 8 << 20;

/// Unsent answers of a connection above which it is not read: a slow reader harms only itself.
pub const OUTPUT_BYTES_PAUSE: usize = 1024 * 1024;

/// A buffer begins with this much, room for what most clients send or get at once.
pub const BUFFER_BYTES: usize = 512;

/// Buffers kept for reuse are cut down to this size.
pub const BUFFER_BYTES_KEPT: usize = 16 * 1024;

/// Buffers kept for reuse: about as many as connections that are served in one turn.
pub const BUFFERS_KEPT: usize = 1024;

/// Events taken from the kernel in one turn.
pub const EVENTS_PER_TURN: usize = 1024;

/// Connections that a thread accepts before it looks after those it has: accepting goes on for as long as others come faster.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Connections that a thread accepts when it stops, from each listener: more than a kernel keeps waiting (`somaxconn`, 4,096 as
/// a rule), and so many that those who still come do not hold up the stop.
pub const ACCEPTS_AT_A_STOP: usize = 65_536;

/// How long a connection that was closed by us is still read (and what it sends dropped), so that the last
/// answers are not destroyed by a reset. Who has sent nothing and was sent nothing for so long will send nothing in between.
pub const LINGER: Duration = Duration::from_secs(1);

/// A thread that looks later than this after a time has not slept by its own will.
pub const OVERSLEPT: Duration = Duration::from_millis(100);

/// How long after it was accepted a connection is kept by a tier that stops, for the request that its client may have
/// sent by then.
pub const FIRST_REQUEST: Duration = Duration::from_millis(500);

/// After how long without a word from a client its kernel is asked whether it is still there, how often then, and after how
/// many questions without an answer the connection is over. The kernel's own times are hours, for which a consumer that lost
/// its network would be given messages.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// See [`KEEPALIVE_IDLE`].
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// See [`KEEPALIVE_IDLE`].
pub const KEEPALIVE_COUNT: u32 = 3;

/// When nobody has answered these questions, and how long what was sent may be unacknowledged: the kernel asks nothing while it
/// sends something again and again, which it does for a quarter of an hour.
pub const GONE: Duration =
    Duration::from_secs(KEEPALIVE_IDLE.as_secs() + KEEPALIVE_COUNT as u64 * KEEPALIVE_INTERVAL.as_secs());

/// When to accept again after the system had no descriptor or no memory for a connection.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
