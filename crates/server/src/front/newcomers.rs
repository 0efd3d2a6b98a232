//! Newcomers: connections that still have to log in or shake hands. How many of them one address may have, how much
//! time they have, and how many were refused.
//!
//! What a newcomer may send is limited by the parser; here are the limits of time and number, so that nobody occupies
//! the permits that clients need who would log in. IPv6 addresses count by their first 64 bits, as a single machine usually
//! owns all addresses that share them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::Builder;
use std::time::Duration;

use posthaste_measure::lock;

use super::gate::Refused;

/// How long a handshake may take: a few round trips, even on a bad line.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a peer may take to log in: a person may be typing.
const LOGIN: Duration = Duration::from_secs(60);

/// How often a network thread checks for late newcomers.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Newcomers from one address may have one `SHARE`-th of all connections.
const SHARE: usize = 4;

/// The fewest newcomers that any address may have, so that small limits stay usable.
const LEAST: usize = 8;

/// The permits that newcomers take, counted by address.
#[derive(Debug)]
pub struct Permits {
    most: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One permit, given back when it is dropped.
#[derive(Debug)]
pub struct Permit {
    permits: Arc<Permits>,
    holder: IpAddr,
}

impl Permits {
    /// Returns permits of which one address may take at most `most`.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Takes a permit for a peer at this address; None: that address has as many as it may.
    #[must_use]
    pub fn take(self: &Arc<Self>, from: IpAddr) -> Option<Permit> {
        let holder = holder(from);
        let mut taken = self.lock();
        let count = taken.entry(holder).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        drop(taken);
        Some(Permit { permits: Arc::clone(self), holder })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        lock(&self.taken)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.permits.lock();
        if let Some(count) = taken.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.holder);
            }
        }
    }
}

/// Returns the address that is counted for an address: for IPv6, its /64.
#[must_use]
pub fn holder(address: IpAddr) -> IpAddr {
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
    _permit: Option<Permit>,
}

impl Newcomer {
    /// Returns the state of a newcomer that arrived at this stamp.
    #[must_use]
    pub const fn new(since_ns: u64, permit: Option<Permit>) -> Self {
        Self { since_ns, _permit: permit }
    }

    /// Returns whether the newcomer's time is over.
    #[must_use]
    pub fn is_late(&self, is_handshaking: bool, now_ns: u64) -> bool {
        let limit = if is_handshaking { HANDSHAKE } else { LOGIN };
        u128::from(now_ns.saturating_sub(self.since_ns)) > limit.as_nanos()
    }
}

/// Why a newcomer's connection is refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
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

impl Reason {
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

    /// Returns the reason's name in INFO and `stats`; that of `Full` is the one that Redis and memcached use.
    const fn stat(self) -> &'static str {
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
    permits: Arc<Permits>,
    /// Whether plain connections must log in, and so are newcomers too.
    must_log_in: bool,
    refused: [AtomicU64; Reason::ALL.len()],
    told_ns: AtomicU64,
    /// Whether a thread is writing a failed handshake to the log.
    is_telling: Arc<AtomicBool>,
}

impl Newcomers {
    /// Returns the newcomers' limits for a tier with at most so many connections.
    #[must_use]
    pub fn new(connections_max: usize, must_log_in: bool) -> Self {
        Self {
            permits: Permits::new((connections_max / SHARE).max(LEAST)),
            must_log_in,
            refused: Default::default(),
            told_ns: AtomicU64::new(0),
            is_telling: Arc::default(),
        }
    }

    /// Takes the permit that a connection from there needs; None: it needs none.
    ///
    /// # Errors
    /// The address has as many newcomers as it may.
    pub fn permit(&self, origin: Option<IpAddr>, is_handshaking: bool) -> Result<Option<Permit>, Refused> {
        let is_newcomer = self.must_log_in || is_handshaking;
        match origin.filter(|_| is_newcomer).map(|from| self.permits.take(from)) {
            Some(None) => {
                self.refuse(Reason::Address);
                Err(Refused::Crowded)
            }
            permit => Ok(permit.flatten()),
        }
    }

    /// Counts a newcomer that is refused, and returns how many were for this reason.
    pub fn refuse(&self, reason: Reason) -> u64 {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns how many newcomers were refused for this reason.
    #[must_use]
    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts a failed handshake, and logs it at most once a second, as anyone can make handshakes fail. A thread of
    /// its own writes the log: the log may be slow, and a network thread must not wait for it.
    pub fn handshake_failed(&self, peer: &str, why: &dyn std::fmt::Display, now_ns: u64) {
        let failed = self.refuse(Reason::Handshake);
        let told = self.told_ns.load(Ordering::Relaxed);
        let is_due = now_ns.saturating_sub(told) >= 1_000_000_000 || told == 0;
        if !is_due || self.is_telling.swap(true, Ordering::Relaxed) {
            return;
        }
        self.told_ns.store(now_ns.max(1), Ordering::Relaxed);
        let (peer, why, is_telling) = (peer.to_owned(), why.to_string(), Arc::clone(&self.is_telling));
        let tell = move || {
            tracing::warn!(peer, failed, "TLS handshake failed: {why}");
            is_telling.store(false, Ordering::Relaxed);
        };
        if Builder::new().spawn(tell).is_err() {
            // The next log line says how many there were.
            self.is_telling.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the counts of refused newcomers, with their names for INFO and `stats`.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); Reason::ALL.len()] {
        Reason::ALL.map(|reason| (reason.stat(), self.refused(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_its_places_and_gives_them_back() {
        let permits = Permits::new(2);
        let (first, second) = (permits.take(ip("10.0.0.1")), permits.take(ip("10.0.0.1")));
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(ip("10.0.0.1")).is_none(), "a third");
        assert!(permits.take(ip("10.0.0.2")).is_some(), "somebody else");
        drop(first);
        assert!(permits.take(ip("10.0.0.1")).is_some(), "given back");
        drop(second);
        assert!(permits.lock().is_empty(), "nothing is remembered of who has left");
    }

    #[test]
    fn who_owns_a_network_of_version_6_is_one() {
        let permits = Permits::new(1);
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
        assert!(!newcomer.is_late(true, 1_000) && newcomer.is_late(true, after(HANDSHAKE)));
        assert!(!newcomer.is_late(false, after(HANDSHAKE)) && newcomer.is_late(false, after(LOGIN)));
    }
}
