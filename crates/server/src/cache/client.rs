//! One client of the cache tier: its peer, and how far it is with what it says. Its answers stand in the thread's
//! [`super::answers::Answers`], where the router writes them.

use std::sync::Arc;

use super::limit::Limit;
use super::router::Finished;
use crate::front::peer::Peer;

/// One client.
pub struct Client {
    pub(super) peer: Peer,
    /// How much it may ask, if there is a limit.
    pub(super) limit: Option<Arc<Limit>>,
    /// It stands in the list of those whose request could not be taken yet.
    pub(super) later: bool,
    /// Bytes that are still to come and mean nothing.
    pub(super) swallow: usize,
    /// Since when its answers wait for more of them, see [`super::cork`].
    pub(super) held_since_ns: Option<u64>,
    /// What those answer, to be counted when they leave.
    pub(super) held: Vec<Finished>,
}

impl Client {
    pub(super) fn new(peer: Peer, limit: Option<Arc<Limit>>) -> Self {
        Self { peer, limit, later: false, swallow: 0, held_since_ns: None, held: Vec::new() }
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
