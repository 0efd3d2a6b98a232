//! A limit of requests for each address that clients come from, so that one program that asks without end, over
//! however many connections, leaves the servers to others.
//!
//! Clients without an address, over unix sockets, share one limit. IPv6 addresses count by their first 64 bits, as
//! for the limits on connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use posthaste_measure::lock;

use super::layout::LimitPlan;
use super::limit::Limit;
use crate::front::newcomers::limit_key;

/// Addresses from which on those are forgotten that have no client and nothing taken from their limit.
const ADDRESSES_KEPT: usize = 4096;

/// The answer to a request beyond the limit.
pub const TOO_MANY: &[u8] = b"SERVER_ERROR too many requests: the limit of this client is reached\r\n";

/// The limits of all addresses.
#[derive(Debug, Default)]
pub struct ClientLimits {
    per_second: Option<u32>,
    by_address: Mutex<HashMap<Option<IpAddr>, Arc<Limit>>>,
    refused: AtomicU64,
}

impl ClientLimits {
    /// Limits with this many requests a second from each address; None: no limits.
    #[must_use]
    pub fn new(per_second: Option<u32>) -> Self {
        Self { per_second, ..Self::default() }
    }

    /// The limit of a client from this address, if there are limits.
    #[must_use]
    pub fn of(&self, origin: Option<IpAddr>, now_ns: u64) -> Option<Arc<Limit>> {
        let per_second = self.per_second?;
        let mut limits = lock(&self.by_address);
        if limits.len() >= ADDRESSES_KEPT {
            // A limit that is whole loses nothing when it is made anew.
            limits.retain(|_, limit| Arc::strong_count(limit) > 1 || !limit.is_whole(now_ns));
        }
        let plan = LimitPlan { per_second, burst: per_second };
        let limit = limits.entry(origin.map(limit_key)).or_insert_with(|| Arc::new(Limit::new(plan)));
        Some(Arc::clone(limit))
    }

    /// Counts a request that was refused.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were refused; None: there are no limits.
    #[must_use]
    pub fn refused(&self) -> Option<u64> {
        self.per_second.map(|_| self.refused.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn an_address_has_one_limit_over_all_its_connections() {
        let limits = ClientLimits::new(Some(2));
        let of = |text| limits.of(address(text), 0).unwrap();
        of("10.0.0.1").take(2, 0);
        assert!(of("10.0.0.1").is_exhausted(0) && of("::ffff:10.0.0.1").is_exhausted(0));
        assert!(!of("10.0.0.2").is_exhausted(0) && !limits.of(None, 0).unwrap().is_exhausted(0));
        of("2001:db8::1").take(2, 0);
        assert!(of("2001:db8::ffff").is_exhausted(0) && !of("2001:db8:0:1::1").is_exhausted(0));
        assert!(ClientLimits::new(None).of(None, 0).is_none());
    }

    #[test]
    fn of_many_addresses_only_those_are_forgotten_that_lose_nothing_by_it() {
        let limits = ClientLimits::new(Some(1));
        let held = limits.of(address("10.0.0.1"), 0).unwrap();
        limits.of(address("10.0.0.2"), 0).unwrap().take(5, 0);
        for host in 0..2 * ADDRESSES_KEPT as u32 {
            let _ = limits.of(Some(IpAddr::from((0x0b00_0000 + host).to_be_bytes())), 0);
        }
        assert!(limits.by_address.lock().unwrap().len() <= ADDRESSES_KEPT);
        assert!(Arc::ptr_eq(&held, &limits.of(address("10.0.0.1"), 0).unwrap()));
        assert!(limits.of(address("10.0.0.2"), 0).unwrap().is_exhausted(0));
    }
}
