//! Newcomers: connections that still have to log in or shake hands. How many of them one address may have, how much
//! time they have, and how many were refused.
//!
//! What a newcomer may send is limited by the parser; here are the limits of time and number, so that one machine cannot
//! occupy the connections that other clients need to log in. IPv6 addresses count by their first 64 bits, as a single
//! machine usually owns all addresses that share them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Builder;
use std::time::Duration;

use posthaste_measure::lock;

use super::gate::Refused;
use super::quiet::has_passed;

/// How long a handshake may take: a few round trips, even on a bad line.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a peer may take to log in: a person may be typing.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between two checks of a network thread for late newcomers.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Newcomers from one address may have one `ADDRESS_SHARE`-th of all connections.
const ADDRESS_SHARE: usize = 4;

/// The lowest limit of newcomers from one address, so that few connections in total stay usable.
const PER_ADDRESS_FLOOR: usize = 8;

/// The permits that newcomers take, counted by address.
#[derive(Debug)]
pub struct NewcomerPermits {
    per_address_max: usize,
    /// Permits taken, by the key of the address.
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One permit, given back when it is dropped.
#[derive(Debug)]
pub struct NewcomerPermit {
    permits: Arc<NewcomerPermits>,
    /// Key of the address that counts this permit.
    key: IpAddr,
}

impl NewcomerPermits {
    /// Returns permits of which one address may take at most so many.
    #[must_use]
    pub fn new(per_address_max: usize) -> Arc<Self> {
        Arc::new(Self { per_address_max, taken: Mutex::default() })
    }

    /// Takes a permit for a peer at this address; None: that address has as many as it may.
    #[must_use]
    pub fn take(self: &Arc<Self>, from: IpAddr) -> Option<NewcomerPermit> {
        let key = limit_key(from);
        let mut taken = self.lock();
        let count = taken.entry(key).or_default();
        if *count >= self.per_address_max {
            return None;
        }
        *count += 1;
        drop(taken);
        Some(NewcomerPermit { permits: Arc::clone(self), key })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        lock(&self.taken)
    }
}

impl Drop for NewcomerPermit {
    fn drop(&mut self) {
        let mut taken = self.permits.lock();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

/// Returns the key under which limits count an address: for IPv6, its /64.
#[must_use]
pub fn limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// The newcomer state of a connection.
#[derive(Debug)]
pub struct Newcomer {
    since_ns: u64,
    /// The permit, which is held as long as this exists.
    _permit: Option<NewcomerPermit>,
}

impl Newcomer {
    /// Returns the state of a newcomer that arrived at this stamp.
    #[must_use]
    pub const fn new(since_ns: u64, permit: Option<NewcomerPermit>) -> Self {
        Self { since_ns, _permit: permit }
    }

    /// Returns whether the newcomer's time is over.
    #[must_use]
    pub fn is_late(&self, is_handshaking: bool, now_ns: u64) -> bool {
        let limit = if is_handshaking { HANDSHAKE_TIMEOUT } else { LOGIN_TIMEOUT };
        has_passed(self.since_ns, limit, now_ns)
    }
}

/// Why a newcomer's connection is refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The number of connections was at its limit.
    Full,
    /// The number of newcomers from its address was at its limit.
    Address,
    /// The handshake failed.
    Handshake,
    /// The newcomer took too long.
    Late,
    /// The newcomer sent more than a login needs.
    Oversized,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::Full, Self::Address, Self::Handshake, Self::Late, Self::Oversized];

    /// Returns the reason's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Address => "address",
            Self::Handshake => "handshake",
            Self::Late => "late",
            Self::Oversized => "oversized",
        }
    }

    /// Returns the reason's name in INFO and `stats`; that of `Full` is Redis's and memcached's.
    const fn stat_name(self) -> &'static str {
        match self {
            Self::Full => "rejected_connections",
            Self::Address => "newcomers_turned_away",
            Self::Handshake => "handshakes_failed",
            Self::Late => "newcomers_late",
            Self::Oversized => "newcomers_oversized",
        }
    }
}

/// The newcomers of a tier, and the counts of those that were refused.
#[derive(Debug)]
pub struct Newcomers {
    permits: Arc<NewcomerPermits>,
    /// Whether plain connections must log in, and so are newcomers too.
    must_log_in: bool,
    refusals: [AtomicU64; RefusalReason::ALL.len()],
    /// Stamp of the last failed handshake that was logged; 0: none was.
    logged_ns: AtomicU64,
    /// Whether a thread is writing a failed handshake to the log.
    is_logging: Arc<AtomicBool>,
}

impl Newcomers {
    /// Returns the newcomers' limits for a tier with at most so many connections.
    #[must_use]
    pub fn new(connections_max: usize, must_log_in: bool) -> Self {
        Self {
            permits: NewcomerPermits::new((connections_max / ADDRESS_SHARE).max(PER_ADDRESS_FLOOR)),
            must_log_in,
            refusals: Default::default(),
            logged_ns: AtomicU64::new(0),
            is_logging: Arc::default(),
        }
    }

    /// Takes the permit that a connection from there needs; None: it needs none.
    ///
    /// # Errors
    /// The address has as many newcomers as it may.
    pub fn take_permit(
        &self,
        origin: Option<IpAddr>,
        is_handshaking: bool,
    ) -> Result<Option<NewcomerPermit>, Refused> {
        let is_newcomer = self.must_log_in || is_handshaking;
        match origin.filter(|_| is_newcomer).map(|from| self.permits.take(from)) {
            Some(None) => {
                self.count_refusal(RefusalReason::Address);
                Err(Refused::Crowded)
            }
            permit => Ok(permit.flatten()),
        }
    }

    /// Counts a newcomer that is refused, and returns how many were for this reason.
    pub fn count_refusal(&self, reason: RefusalReason) -> u64 {
        self.refusals[reason as usize].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns how many newcomers were refused for this reason.
    #[must_use]
    pub fn refusals(&self, reason: RefusalReason) -> u64 {
        self.refusals[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts a failed handshake, and logs it at most once a second, as anyone can make handshakes fail. A thread of
    /// its own writes the log: the log may be slow, and a network thread must not wait for it.
    pub fn note_failed_handshake(&self, peer: &str, why: &dyn std::fmt::Display, now_ns: u64) {
        let failed = self.count_refusal(RefusalReason::Handshake);
        let logged_ns = self.logged_ns.load(Ordering::Relaxed);
        let is_due = now_ns.saturating_sub(logged_ns) >= 1_000_000_000 || logged_ns == 0;
        if !is_due || self.is_logging.swap(true, Ordering::Relaxed) {
            return;
        }
        self.logged_ns.store(now_ns.max(1), Ordering::Relaxed);
        let (peer, why, is_logging) = (peer.to_owned(), why.to_string(), Arc::clone(&self.is_logging));
        let log = move || {
            tracing::warn!(peer, failed, "TLS handshake failed: {why}");
            is_logging.store(false, Ordering::Relaxed);
        };
        if Builder::new().spawn(log).is_err() {
            // The next log line says how many there were.
            self.is_logging.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the counts of refused newcomers, with their names for INFO and `stats`.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); RefusalReason::ALL.len()] {
        RefusalReason::ALL.map(|reason| (reason.stat_name(), self.refusals(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_so_many_permits_and_gives_them_back() {
        let permits = NewcomerPermits::new(2);
        let (first, second) = (permits.take(ip("10.0.0.1")), permits.take(ip("10.0.0.1")));
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(ip("10.0.0.1")).is_none(), "a third");
        assert!(permits.take(ip("10.0.0.2")).is_some(), "another address");
        drop(first);
        assert!(permits.take(ip("10.0.0.1")).is_some(), "given back");
        drop(second);
        assert!(permits.lock().is_empty(), "nothing is remembered of addresses without permits");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let permits = NewcomerPermits::new(1);
        let _first = permits.take(ip("2001:db8:0:1::1"));
        assert!(permits.take(ip("2001:db8:0:1:ffff::2")).is_none());
        assert!(permits.take(ip("2001:db8:0:2::1")).is_some());
        let _mapped = permits.take(ip("::ffff:10.0.0.1"));
        assert!(permits.take(ip("10.0.0.1")).is_none(), "the same address in both versions");
    }

    #[test]
    fn a_handshake_has_less_time_than_a_login() {
        let newcomer = Newcomer::new(1_000, None);
        let after = |time: Duration| 1_000 + u64::try_from(time.as_nanos()).expect("it is short") + 1;
        assert!(!newcomer.is_late(true, 1_000) && newcomer.is_late(true, after(HANDSHAKE_TIMEOUT)));
        assert!(
            !newcomer.is_late(false, after(HANDSHAKE_TIMEOUT))
                && newcomer.is_late(false, after(LOGIN_TIMEOUT))
        );
    }
}
