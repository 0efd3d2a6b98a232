//! Every bound of the front on one page, with its reason.

use std::time::Duration;

/// Bytes read from one socket at once, and from one connection in one turn, so that a client that sends much leaves time
/// for the others.
pub const READ_BYTES: usize = 64 * 1024;

/// Bytes read from one connection at most after a stop began: more than a kernel holds of what has arrived (`tcp_rmem`,
/// usually 6 MiB), and few enough that a client that never stops sending does not hold up the stop.
pub const DRAIN_BYTES_MAX: usize = 8 << 20;

/// Bytes of unsent answers above which a connection is not read: a slow reader harms only itself.
pub const OUTPUT_BYTES_PAUSE: usize = 1024 * 1024;

/// Initial size of a buffer in bytes: room for what most clients send or get at once.
pub const BUFFER_BYTES: usize = 512;

/// Bytes to which buffers kept for reuse are cut down.
pub const BUFFER_BYTES_KEPT: usize = 16 * 1024;

/// Buffers kept for reuse: about as many as connections that are served in one turn.
pub const BUFFERS_KEPT: usize = 1024;

/// Events taken from the kernel in one turn.
pub const EVENTS_PER_TURN: usize = 1024;

/// Connections that a thread accepts before it serves those it has; it goes on accepting in later turns while more
/// wait.
pub const ACCEPTS_PER_TURN: usize = 64;

/// Connections that a thread accepts from each listener when it stops: more than a kernel keeps waiting (`somaxconn`,
/// usually 4,096), and few enough that new arrivals do not hold up the stop.
pub const ACCEPTS_AT_A_STOP: usize = 65_536;

/// How long a connection that the server closes is still read (and what it sends dropped), so that a reset does not
/// destroy the last answers. A client that was quiet in both directions for this long is taken to send nothing more.
pub const LINGER: Duration = Duration::from_secs(1);

/// How late a thread may handle a deadline; if it is later, it was suspended, perhaps with the whole machine.
pub const OVERSLEPT: Duration = Duration::from_millis(100);

/// How long a tier that stops keeps a connection after it was accepted, for a first request that may be on the way.
pub const FIRST_REQUEST: Duration = Duration::from_millis(500);

/// How long a client may be silent before the kernel probes it, how often it probes then, and after how many unanswered
/// probes the connection ends. The kernel's defaults are hours, in which a consumer that lost its network would be
/// given messages.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// See [`KEEPALIVE_IDLE`].
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// See [`KEEPALIVE_IDLE`].
pub const KEEPALIVE_COUNT: u32 = 3;

/// How long sent data may stay unacknowledged before the kernel ends the connection (`TCP_USER_TIMEOUT`): as long as all
/// these probes take together. While the kernel retransmits it does not probe, and it retransmits for a quarter of an
/// hour.
pub const USER_TIMEOUT: Duration =
    Duration::from_secs(KEEPALIVE_IDLE.as_secs() + KEEPALIVE_COUNT as u64 * KEEPALIVE_INTERVAL.as_secs());

/// Pause before accepting again, after the system had no descriptor or no memory for a connection.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
