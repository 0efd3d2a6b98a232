//! Who is connected: for CLIENT LIST, CLIENT KILL and INFO.
//!
//! A connection's card is written by its network thread and read by anybody. What changes with every request is an
//! atomic; what changes rarely stands behind a lock of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::front::peer::Peer;
use crate::path::bundle::Address;

/// One connection's card.
pub struct Client {
    /// Where it lives; `address.client` is its id.
    pub address: Address,
    /// The peer.
    pub peer: String,
    /// Where the peer is; None: on this machine.
    pub origin: Option<IpAddr>,
    /// When it came, on the clock of the stamps.
    pub connected_ns: u64,
    /// When it was last read from.
    pub active_ns: AtomicU64,
    /// Requests read from it.
    pub requests: AtomicU64,
    /// The rest.
    pub about: Mutex<About>,
}

/// What a client says of itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// CLIENT SETNAME.
    pub name: String,
    /// The account.
    pub account: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
    /// 2 or 3.
    pub protocol: u8,
}

impl Client {
    /// What it says of itself, to read or change.
    pub fn about(&self) -> MutexGuard<'_, About> {
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One line in the form of CLIENT LIST.
    #[must_use]
    pub fn line(&self, now_ns: u64) -> String {
        let about = self.about();
        let seconds = |since: u64| now_ns.saturating_sub(since) / 1_000_000_000;
        format!(
            "id={} addr={} name={} age={} idle={} requests={} user={} lib-name={} lib-ver={} resp={} thread={}",
            self.address.client,
            self.peer,
            about.name,
            seconds(self.connected_ns),
            seconds(self.active_ns.load(Ordering::Relaxed)),
            self.requests.load(Ordering::Relaxed),
            about.account,
            about.library,
            about.library_version,
            about.protocol,
            self.address.thread,
        )
    }
}

/// All connections.
#[derive(Default)]
pub struct Clients {
    cards: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// Adds a connection from there; None: from this machine.
    pub fn enter(&self, address: Address, peer: &Peer, origin: Option<IpAddr>) -> Arc<Client> {
        let client = Arc::new(Client {
            address,
            peer: peer.name(),
            origin,
            connected_ns: peer.connected_ns,
            active_ns: AtomicU64::new(peer.connected_ns),
            requests: AtomicU64::new(0),
            about: Mutex::new(About { protocol: 2, ..About::default() }),
        });
        self.lock().insert(address.client, Arc::clone(&client));
        client
    }

    /// Takes a connection out.
    pub fn leave(&self, id: u64) {
        self.lock().remove(&id);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The card of one, if it is still here.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).cloned()
    }

    /// The card of one, by number or by peer.
    #[must_use]
    pub fn find(&self, matches: impl Fn(&Client) -> bool) -> Vec<Arc<Client>> {
        self.lock().values().filter(|client| matches(client)).cloned().collect()
    }

    /// CLIENT LIST.
    #[must_use]
    pub fn list(&self, now_ns: u64) -> String {
        self.lock().values().fold(String::new(), |mut text, client| {
            let _ = writeln!(text, "{}", client.line(now_ns));
            text
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
