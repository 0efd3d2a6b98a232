//! One client of the cache tier: its connection, and the state of its requests. Its answers are in the thread's
//! [`super::answers::Answers`], where the router writes them.

use std::sync::Arc;

use super::rate_limiter::RateLimiter;
use super::router::Finished;
use crate::front::peer::Peer;

/// One client.
pub struct Client {
    pub(super) peer: Peer,
    /// The limiter of the client's address, if there is a limit.
    pub(super) rate_limiter: Option<Arc<RateLimiter>>,
    /// The client is in the list of those whose next request could not be taken yet.
    pub(super) is_put_off: bool,
    /// When the request that could not be taken yet was received.
    pub(super) put_off_since_ns: Option<u64>,
    /// Bytes still to come that belong to a refused request and are dropped.
    pub(super) swallow: usize,
    /// Since when the client's answers wait to leave together, see [`super::cork`].
    pub(super) held_since_ns: Option<u64>,
    /// The requests whose answers wait, to be counted when the answers leave.
    pub(super) held: Vec<Finished>,
}

impl Client {
    pub(super) fn new(peer: Peer, rate_limiter: Option<Arc<RateLimiter>>) -> Self {
        Self {
            peer,
            rate_limiter,
            is_put_off: false,
            put_off_since_ns: None,
            swallow: 0,
            held_since_ns: None,
            held: Vec::new(),
        }
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
