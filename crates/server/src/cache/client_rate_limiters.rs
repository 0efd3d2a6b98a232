//! Limits the rate of requests from each address that clients come from, so that one program that sends without end, over
//! however many connections, leaves the servers to others.
//!
//! Clients without an address, over unix sockets, share one limiter. IPv6 addresses count by their first 64 bits, as
//! for the limits on connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use posthaste_measure::lock;

use super::layout::RateLimit;
use super::rate_limiter::RateLimiter;
use crate::front::newcomers::limit_key;

/// At this many addresses, those with no client and an unused limiter are forgotten.
const ADDRESSES_KEPT: usize = 4096;

/// The answer to a request beyond the limit.
pub const TOO_MANY: &[u8] = b"SERVER_ERROR too many requests: the limit of this client is reached\r\n";

/// The limiters of all addresses.
#[derive(Debug, Default)]
pub struct ClientRateLimiters {
    per_second: Option<u32>,
    by_address: Mutex<HashMap<Option<IpAddr>, Arc<RateLimiter>>>,
    refused: AtomicU64,
}

impl ClientRateLimiters {
    /// Creates limiters of this many requests a second for each address; `None`: no limit.
    #[must_use]
    pub fn new(per_second: Option<u32>) -> Self {
        Self { per_second, ..Self::default() }
    }

    /// Returns the limiter of this address, if there is a limit.
    #[must_use]
    pub fn for_address(&self, origin: Option<IpAddr>, now_ns: u64) -> Option<Arc<RateLimiter>> {
        let per_second = self.per_second?;
        let mut limiters = lock(&self.by_address);
        if limiters.len() >= ADDRESSES_KEPT {
            // An unused limiter is the same as a new one.
            limiters.retain(|_, limiter| Arc::strong_count(limiter) > 1 || !limiter.is_unused(now_ns));
        }
        let limit = RateLimit { per_second, burst: per_second };
        let limiter =
            limiters.entry(origin.map(limit_key)).or_insert_with(|| Arc::new(RateLimiter::new(limit)));
        Some(Arc::clone(limiter))
    }

    /// Counts a request that was refused.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were refused; `None`: there is no limit.
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
    fn an_address_has_one_limiter_over_all_its_connections() {
        let limiters = ClientRateLimiters::new(Some(2));
        let of = |text| limiters.for_address(address(text), 0).unwrap();
        of("10.0.0.1").count(2, 0);
        assert!(of("10.0.0.1").is_exhausted(0) && of("::ffff:10.0.0.1").is_exhausted(0));
        assert!(!of("10.0.0.2").is_exhausted(0) && !limiters.for_address(None, 0).unwrap().is_exhausted(0));
        of("2001:db8::1").count(2, 0);
        assert!(of("2001:db8::ffff").is_exhausted(0) && !of("2001:db8:0:1::1").is_exhausted(0));
        assert!(ClientRateLimiters::new(None).for_address(None, 0).is_none());
    }

    #[test]
    fn of_many_addresses_only_those_with_unused_limiters_are_forgotten() {
        let limiters = ClientRateLimiters::new(Some(1));
        let held = limiters.for_address(address("10.0.0.1"), 0).unwrap();
        limiters.for_address(address("10.0.0.2"), 0).unwrap().count(5, 0);
        for host in 0..2 * ADDRESSES_KEPT as u32 {
            let _ = limiters.for_address(Some(IpAddr::from((0x0b00_0000 + host).to_be_bytes())), 0);
        }
        assert!(limiters.by_address.lock().unwrap().len() <= ADDRESSES_KEPT);
        assert!(Arc::ptr_eq(&held, &limiters.for_address(address("10.0.0.1"), 0).unwrap()));
        assert!(limiters.for_address(address("10.0.0.2"), 0).unwrap().is_exhausted(0));
    }
}
