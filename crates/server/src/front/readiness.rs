//! What a network thread is told of a socket, as plain data: an event of the system cannot be made, and a thread that is
//! turned by hand is told of its connections by whoever turns it.

use mio::event::Event;

/// What may be possible now; edges, as `epoll` tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There may be bytes, or an end.
    pub is_readable: bool,
    /// Bytes may be taken again.
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
