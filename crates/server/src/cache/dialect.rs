//! Which meta commands a server understands, by the version that it tells.
//!
//! Before 1.6.10 memcached had other meta commands, or none: `ms` told the length of its data by a flag. In today's
//! form it is refused there, and its data are taken for commands, whose answers nothing expects. So an older server
//! gets no meta commands, and no server is brought a value before it has told its version.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use posthaste_measure::lock;

/// The first memcached with today's meta commands.
pub const FIRST: &str = "1.6.10";
const FIRST_NUMBERS: [u32; 3] = [1, 6, 10];

/// The version that this router tells. First comes the memcached whose answers it reproduces byte for byte: clients
/// read from that number what they may ask, and libmemcached accepts no version that begins with 0. Then comes the
/// router's own.
pub const OURS: &str = concat!("1.6.18 posthaste-", env!("CARGO_PKG_VERSION"));

/// Which meta commands a server has, as it is kept in [`Dialect::spoken`].
#[derive(Clone, Copy)]
#[repr(u8)]
enum Spoken {
    /// Not known: the server has not reported its version yet.
    Unknown,
    /// Other ones than today's, or none.
    Old,
    /// Today's.
    Current,
}

/// The meta commands that one server speaks.
#[derive(Debug, Default)]
pub struct Dialect {
    /// A [`Spoken`].
    spoken: AtomicU8,
    version: Mutex<String>,
    /// How many servers of the fleet are old.
    old_servers: Arc<AtomicUsize>,
}

impl Dialect {
    /// A dialect of a server that has reported nothing yet; `old_servers` counts the old servers of its fleet.
    #[must_use]
    pub fn new(old_servers: Arc<AtomicUsize>) -> Self {
        Self { spoken: AtomicU8::new(Spoken::Unknown as u8), version: Mutex::default(), old_servers }
    }

    /// Takes note of a server's answer to `version`: another server may have taken its place since the last one.
    /// Returns whether it is newly known to be old.
    pub fn note(&self, answer: &[u8]) -> bool {
        let Some(version) = answer.strip_prefix(b"VERSION ") else { return false };
        let version = String::from_utf8_lossy(version.trim_ascii()).into_owned();
        let is_old = is_old(&version);
        *lock(&self.version) = version;
        let spoken = if is_old { Spoken::Old } else { Spoken::Current };
        let was_old = self.spoken.swap(spoken as u8, Ordering::AcqRel) == Spoken::Old as u8;
        if is_old && !was_old {
            self.old_servers.fetch_add(1, Ordering::AcqRel);
        } else if was_old && !is_old {
            self.old_servers.fetch_sub(1, Ordering::AcqRel);
        }
        is_old && !was_old
    }

    /// The version that the server reported last; empty: none yet.
    #[must_use]
    pub fn version(&self) -> String {
        lock(&self.version).clone()
    }

    /// Returns whether the server has reported a version.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.spoken.load(Ordering::Acquire) != Spoken::Unknown as u8
    }

    /// Returns whether the server is known to be older than today's meta commands.
    #[must_use]
    pub fn is_old(&self) -> bool {
        self.spoken.load(Ordering::Acquire) == Spoken::Old as u8
    }

    /// Returns whether the server is known to have today's meta commands.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.spoken.load(Ordering::Acquire) == Spoken::Current as u8
    }
}

/// Returns whether a memcached of this version is older than today's meta commands. A version in another form counts as
/// new.
#[must_use]
pub fn is_old(version: &str) -> bool {
    let word = version.split_whitespace().next().unwrap_or_default();
    let mut parts = word.splitn(3, '.').map(|part| {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().ok()
    });
    let numbers: [Option<u32>; 3] = std::array::from_fn(|_| parts.next().flatten());
    let [Some(major), Some(minor), Some(patch)] = numbers else { return false };
    [major, minor, patch] < FIRST_NUMBERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_the_first_is_old() {
        for old in ["1.4.5", "1.4.25 Ubuntu", "1.5.22_5_gabc", "1.6.0", "1.6.9\r\n", "1.6.9-beta1"] {
            assert!(is_old(old), "{old:?}");
        }
        for todays in
            [FIRST, "1.6.18\r\n", "1.6.10-rc1", "1.7.0", "1.10.1", "2.0.0", OURS, "37.0.0 mcrouter", "1", ""]
        {
            assert!(!is_old(todays), "{todays:?}");
        }
    }

    #[test]
    fn that_a_server_is_old_is_news_once_and_ends_when_another_takes_its_place() {
        let old_servers = Arc::new(AtomicUsize::new(0));
        let dialect = Dialect::new(Arc::clone(&old_servers));
        assert!(
            !dialect.note(b"ERROR\r\n") && !dialect.is_current() && !dialect.is_old() && !dialect.is_known()
        );
        assert_eq!(dialect.version(), "");
        assert!(dialect.note(b"VERSION 1.5.6\r\n") && !dialect.note(b"VERSION 1.5.6\r\n"));
        assert_eq!((dialect.is_old(), old_servers.load(Ordering::Relaxed)), (true, 1));
        assert!(!dialect.note(b"VERSION 1.6.18\r\n") && dialect.is_current());
        assert_eq!(dialect.version(), "1.6.18");
        assert_eq!(old_servers.load(Ordering::Relaxed), 0);
    }
}
