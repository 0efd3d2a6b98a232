//! What events report of a socket, as plain data: a simulation cannot construct events of the system.

use mio::event::Event;

/// What has become possible on a socket; edge-triggered, as with `epoll`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There may be bytes to read, or the end.
    pub is_readable: bool,
    /// The socket may take bytes again.
    pub is_writable: bool,
    /// The peer sends no more, or is gone.
    pub is_read_closed: bool,
}

impl From<&Event> for Readiness {
    fn from(event: &Event) -> Self {
        Self {
            is_readable: event.is_readable(),
            is_writable: event.is_writable(),
            is_read_closed: event.is_read_closed(),
        }
    }
}
