//! One client of the cache tier: its connection, and the state of its requests. Its answers are in the thread's
//! [`super::answers::Answers`], where the router writes them.

use std::sync::Arc;

use posthaste_wire::memcached::decode::{Decoded, Limits, decode_from};

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
    /// How many bytes at the beginning of the next request are known to hold no line end.
    searched: usize,
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
            searched: 0,
            swallow: 0,
            held_since_ns: None,
            held: Vec::new(),
        }
    }

    /// Decodes the client's next request, with which `input` begins.
    pub(super) fn decode(&mut self, input: &[u8], limits: &Limits) -> Decoded {
        let decoded = decode_from(input, self.searched, limits);
        self.searched = if decoded == Decoded::NeedLineEnd { input.len() } else { 0 };
        decoded
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::front::socket::Socket;

    #[test]
    fn a_line_that_comes_in_pieces_is_searched_once() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let peer = Peer::new(1, Socket::Unix(mio::net::UnixStream::from_std(ours)), 0);
        let mut client = Client::new(peer, None);
        let limits = Limits { value_bytes: 10, line_bytes: 100 };
        let text = b"get a b\r\nset c 0 0 1\r\nx\r\n";
        let line = b"get a b\r\n".len();
        for piece in 1..line {
            assert_eq!(client.decode(&text[..piece], &limits), Decoded::NeedLineEnd);
            assert_eq!(client.searched, piece);
        }
        assert!(
            matches!(client.decode(text, &limits), Decoded::Request(request, end) if request.keys == 2 && end == line)
        );
        assert_eq!(client.searched, 0, "the next request is another");
        let set = &text[line..];
        assert_eq!(client.decode(&set[..5], &limits), Decoded::NeedLineEnd);
        assert!(matches!(client.decode(&set[..13], &limits), Decoded::NeedBytes(3)));
        assert_eq!(client.searched, 0, "its line has ended");
        assert!(matches!(client.decode(set, &limits), Decoded::Request(_, end) if end == set.len()));
    }
}
