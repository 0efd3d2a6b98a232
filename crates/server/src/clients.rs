//! The connected clients, for CLIENT LIST, CLIENT KILL and INFO.
//!
//! A client's entry is written by its network thread and read by all threads. What changes with every request is an
//! atomic; what changes rarely is behind a lock of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use posthaste_measure::lock;
use posthaste_wire::command::ListTarget;

use crate::front::gate::ClientKind;
use crate::front::peer::Peer;
use crate::path::bundle::Address;

/// One client's entry.
pub struct Client {
    /// The connection's thread, slot and number; `address.client` is its id.
    pub address: Address,
    /// The peer in readable form: `127.0.0.1:4711` or `unix`.
    pub peer: String,
    /// The peer's IP address; None: on this machine.
    pub origin: Option<IpAddr>,
    /// Whether this is an internal connection, from HTTP of this process.
    pub is_inside: bool,
    /// When it was accepted, as a stamp.
    pub connected_ns: u64,
    /// When it was last read from, as a stamp.
    pub active_ns: AtomicU64,
    /// Requests read from it.
    pub requests: AtomicU64,
    /// What changes rarely.
    details: Mutex<ClientDetails>,
}

/// What is known of a client beside its connection.
#[derive(Clone, Debug, Default)]
pub struct ClientDetails {
    /// CLIENT SETNAME.
    pub name: String,
    /// The account.
    pub account: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
    /// Version of RESP: 2 or 3.
    pub protocol: u8,
}

impl Client {
    /// Locks what is known of the client, to read or change it.
    pub fn details(&self) -> MutexGuard<'_, ClientDetails> {
        lock(&self.details)
    }

    /// Returns the client's line in CLIENT LIST.
    #[must_use]
    pub fn line(&self, now_ns: u64) -> String {
        let details = self.details();
        let seconds = |since: u64| now_ns.saturating_sub(since) / 1_000_000_000;
        format!(
            "id={} addr={} name={} age={} idle={} requests={} user={} lib-name={} lib-ver={} resp={} thread={}",
            self.address.client,
            self.peer,
            details.name,
            seconds(self.connected_ns),
            seconds(self.active_ns.load(Ordering::Relaxed)),
            self.requests.load(Ordering::Relaxed),
            encode_name(&details.account),
            details.library,
            details.library_version,
            details.protocol,
            self.address.thread,
        )
    }
}

/// Returns a name as CLIENT LIST shows it. Programs split its lines at blanks, in some languages at any of Unicode's:
/// those are percent-encoded, and so is `%`, so that [`decode_name`] restores the name.
fn encode_name(name: &str) -> String {
    let must_encode = |c: char| c.is_whitespace() || c == '%';
    let mut field = String::with_capacity(name.len());
    for c in name.chars() {
        if must_encode(c) {
            let _ = c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(field, "%{byte:02X}"));
        } else {
            field.push(c);
        }
    }
    field
}

/// Decodes a name in a line of CLIENT LIST; a field that is not so encoded is returned as it is.
#[must_use]
pub fn decode_name(field: &str) -> String {
    let mut name = Vec::with_capacity(field.len());
    let mut bytes = field.bytes();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let Some((high, low)) = digit(bytes.next()).zip(digit(bytes.next())) else {
                return field.to_owned();
            };
            name.extend(u8::try_from(high * 16 + low));
        } else {
            name.push(byte);
        }
    }
    String::from_utf8(name).unwrap_or_else(|_| field.to_owned())
}

/// The connected clients.
#[derive(Default)]
pub struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// Adds a connection from this origin (None: this machine).
    pub fn add(&self, address: Address, peer: &Peer, origin: Option<IpAddr>) -> Arc<Client> {
        let client = Arc::new(Client {
            address,
            peer: peer.name(),
            origin,
            is_inside: peer.client_kind == ClientKind::Inside,
            connected_ns: peer.connected_ns,
            active_ns: AtomicU64::new(peer.connected_ns),
            requests: AtomicU64::new(0),
            details: Mutex::new(ClientDetails { protocol: 2, ..ClientDetails::default() }),
        });
        self.lock().insert(address.client, Arc::clone(&client));
        client
    }

    /// Removes a connection.
    pub fn remove(&self, id: u64) {
        self.lock().remove(&id);
    }

    /// Returns how many clients there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether there are no clients.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a client's entry, if it is still connected.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).cloned()
    }

    /// Returns the entries of all clients that match, by id.
    #[must_use]
    pub fn find(&self, matches: impl Fn(&Client) -> bool) -> Vec<Arc<Client>> {
        self.lock().values().filter(|client| matches(client)).cloned().collect()
    }

    /// Returns the answer of CLIENT LIST.
    #[must_use]
    pub fn list(&self, target: &ListTarget, now_ns: u64) -> String {
        let clients = self.lock();
        let mut text = String::new();
        let mut write_line = |client: &Arc<Client>| {
            let _ = writeln!(text, "{}", client.line(now_ns));
        };
        match target {
            ListTarget::All => clients.values().for_each(write_line),
            ListTarget::Nobody => {}
            // Each client once, however often it is named, so that the answer is bounded.
            ListTarget::Ids(ids) => {
                ids.iter()
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .filter_map(|id| clients.get(id))
                    .for_each(&mut write_line);
            }
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        lock(&self.by_id)
    }
}

#[cfg(test)]
mod tests {
    use super::{decode_name, encode_name};

    #[test]
    fn a_name_is_one_word_in_a_line_and_can_be_decoded() {
        for (name, field) in [
            ("shop", "shop"),
            ("two words", "two%20words"),
            ("a=b", "a=b"),
            ("50%20", "50%2520"),
            ("Zoë\u{a0}Ü\u{2028}", "Zoë%C2%A0Ü%E2%80%A8"),
        ] {
            assert_eq!(encode_name(name), field);
            assert_eq!(decode_name(field), name);
        }
        for field in ["50%", "5%2", "%zz", "%ff"] {
            assert_eq!(decode_name(field), field, "never written so");
        }
    }
}
