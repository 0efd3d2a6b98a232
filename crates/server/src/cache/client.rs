//! One client of the cache tier: its peer, and how far it is with what it says. Its answers stand in the thread's
//! [`super::answers::Answers`], where the router writes them.

use crate::front::peer::Peer;

/// One client.
pub struct Client {
    pub(super) peer: Peer,
    /// It stands in the list of those whose request could not be taken yet.
    pub(super) later: bool,
    /// Bytes that are still to come and mean nothing.
    pub(super) swallow: usize,
    /// Bytes of the output that are written.
    pub(super) written: usize,
}

impl Client {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer, later: false, swallow: 0, written: 0 }
    }
}

impl AsRef<Peer> for Client {
    fn as_ref(&self) -> &Peer {
        &self.peer
    }
}

impl AsMut<Peer> for Client {
    fn as_mut(&mut self) -> &mut Peer {
        &mut self.peer
    }
}
