//! Where the servers of a campaign listen now: every start of one gives it another port, and in between nobody knows who
//! listens at the old one.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// The addresses, one for each server that is there. Copies show the same.
#[derive(Clone)]
pub(crate) struct Place(Arc<Mutex<Vec<Option<SocketAddr>>>>);

impl Place {
    pub(crate) fn of(addresses: Vec<SocketAddr>) -> Self {
        Self(Arc::new(Mutex::new(addresses.into_iter().map(Some).collect())))
    }

    /// The one that a client uses, if it is there: clients are spread over servers.
    pub(crate) fn of_client(&self, client: u32) -> Option<SocketAddr> {
        let addresses = self.0.lock().expect("addresses");
        addresses[client as usize % addresses.len()]
    }

    /// A server is about to leave.
    pub(crate) fn leaves(&self, server: usize) {
        self.0.lock().expect("addresses")[server] = None;
    }

    /// A server was started again.
    pub(crate) fn is_at(&self, server: usize, address: SocketAddr) {
        self.0.lock().expect("addresses")[server] = Some(address);
    }
}
