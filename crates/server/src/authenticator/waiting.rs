//! The secrets that wait to be checked: each address has a line of its own, and the lines take turns.
//!
//! A check takes tens of milliseconds, so in a single line an address with hundreds of checks would delay all others
//! for as long as its own take. If there is no room, the last check of the longest line is refused: never one of an
//! address with few.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::front::newcomers::limit_key;
use crate::path::bundle::Address;

/// Most checks that may wait; beyond it a login is refused, and may be tried again. Nearly as many as one address may
/// have connections that have not logged in: all may arrive while the first secret of an account is checked, and
/// succeed at once when it was right.
const CHECKS_MAX: usize = 4096;

/// How long a check may wait: less than a newcomer may take to log in (60 s), so that the client is answered before its
/// connection is closed.
const WAIT_MAX: Duration = Duration::from_secs(45);

/// A secret to be checked.
pub(super) struct Check {
    /// The connection that waits for the verdict.
    pub(super) address: Address,
    /// The suspect: account and address.
    pub(super) suspect: Suspect,
    /// The secret as given.
    pub(super) secret: Vec<u8>,
    /// When it was asked for.
    pub(super) received_at: Instant,
}

/// A possible guesser: an account name, tried from an address (an IPv6 /64 counts as one; None: this machine).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Suspect {
    origin: Option<IpAddr>,
    /// The account's name.
    pub(super) account: Vec<u8>,
}

impl Suspect {
    /// Returns the suspect for an account and the address of its peer.
    pub(super) fn new(origin: Option<IpAddr>, account: &[u8]) -> Self {
        Self { origin: origin.map(limit_key), account: account.to_vec() }
    }
}

/// All checks that wait.
#[derive(Default)]
pub(super) struct Waiting {
    /// One line per origin, in order of arrival, none of them empty; the line whose turn is next is first.
    lines: VecDeque<VecDeque<Check>>,
}

impl Waiting {
    /// Lines up a check, and returns the one for which there is no room, if any.
    pub(super) fn push(&mut self, check: Check) -> Option<Check> {
        match self.lines.iter_mut().find(|line| line[0].suspect.origin == check.suspect.origin) {
            Some(line) => line.push_back(check),
            None => self.lines.push_back(VecDeque::from([check])),
        }
        if self.lines.iter().map(VecDeque::len).sum::<usize>() <= CHECKS_MAX {
            return None;
        }
        let displaced = self.lines.iter_mut().max_by_key(|line| line.len())?.pop_back();
        self.lines.retain(|line| !line.is_empty());
        displaced
    }

    /// Takes the next check that `may_check` allows for its suspect, and moves its line behind the others.
    pub(super) fn take_next(&mut self, may_check: impl Fn(&Suspect) -> bool) -> Option<Check> {
        let first_allowed = |line: &VecDeque<Check>| line.iter().position(|check| may_check(&check.suspect));
        let (turn, at) =
            self.lines.iter().enumerate().find_map(|(turn, line)| Some((turn, first_allowed(line)?)))?;
        let mut line = self.lines.remove(turn)?;
        let check = line.remove(at);
        if !line.is_empty() {
            self.lines.push_back(line);
        }
        check
    }

    /// Takes out a check that has waited for too long, if there is one.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<Check> {
        let is_expired =
            |line: &VecDeque<Check>| now.saturating_duration_since(line[0].received_at) >= WAIT_MAX;
        let line = self.lines.iter().position(is_expired)?;
        let expired = self.lines[line].pop_front();
        self.lines.retain(|line| !line.is_empty());
        expired
    }

    /// Removes the checks of a connection that has ended.
    pub(super) fn remove(&mut self, address: Address) {
        self.lines.iter_mut().for_each(|line| line.retain(|check| check.address != address));
        self.lines.retain(|line| !line.is_empty());
    }

    /// Returns the suspects of all waiting checks.
    pub(super) fn suspects(&self) -> impl Iterator<Item = &Suspect> {
        self.lines.iter().flatten().map(|check| &check.suspect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check of a client, from an address, of an account of its own.
    fn check(client: u64, from: u8) -> Check {
        let suspect = Suspect::new(Some([10, 0, 0, from].into()), client.to_string().as_bytes());
        let address = Address { thread: 0, slot: 0, client };
        Check { address, suspect, secret: Vec::new(), received_at: Instant::now() }
    }

    fn next(waiting: &mut Waiting) -> Option<u64> {
        waiting.take_next(|_| true).map(|check| check.address.client)
    }

    #[test]
    fn addresses_take_turns_however_much_one_of_them_asks() {
        let mut waiting = Waiting::default();
        for client in 0..400 {
            assert!(waiting.push(check(client, 1)).is_none());
        }
        waiting.push(check(1000, 2));
        waiting.push(check(1001, 2));
        waiting.push(check(2000, 3));
        let order: Vec<u64> = (0..7).filter_map(|_| next(&mut waiting)).collect();
        assert_eq!(order, [0, 1000, 2000, 1, 1001, 2, 3]);
    }

    #[test]
    fn a_suspect_that_must_wait_is_passed_over_and_keeps_its_turn() {
        let mut waiting = Waiting::default();
        for check in [check(10, 1), check(11, 1), check(20, 2), check(21, 2)] {
            assert!(waiting.push(check).is_none());
        }
        let of_two = |suspect: &Suspect| suspect.account.starts_with(b"2");
        assert_eq!(waiting.take_next(of_two).map(|check| check.address.client), Some(20));
        assert_eq!(
            waiting.take_next(|suspect| suspect.account == b"11").map(|check| check.address.client),
            Some(11)
        );
        assert_eq!([(); 3].map(|()| next(&mut waiting)), [Some(21), Some(10), None]);
    }

    #[test]
    fn a_check_that_waited_for_too_long_is_refused_before_its_connection_is_closed() {
        let mut waiting = Waiting::default();
        for check in [check(10, 1), check(20, 2), check(21, 2)] {
            assert!(waiting.push(check).is_none());
        }
        let now = Instant::now();
        assert!(waiting.take_expired(now).is_none());
        let expired =
            [(); 4].map(|()| waiting.take_expired(now + WAIT_MAX).map(|check| check.address.client));
        assert_eq!(expired, [Some(10), Some(20), Some(21), None]);
        assert_eq!(waiting.suspects().count(), 0);
    }

    #[test]
    fn without_room_the_last_of_the_longest_line_gives_way() {
        let mut waiting = Waiting::default();
        let most = CHECKS_MAX as u64;
        for client in 0..most {
            assert!(waiting.push(check(client, if client % 4 == 0 { 1 } else { 2 })).is_none());
        }
        let displaced = waiting.push(check(most, 3)).map(|check| check.address.client);
        assert_eq!(displaced, Some(most - 1), "for a newcomer");
        let displaced = waiting.push(check(most + 2, 2)).map(|check| check.address.client);
        assert_eq!(displaced, Some(most + 2), "not for its own sake");
        assert_eq!(waiting.suspects().count(), CHECKS_MAX);
    }

    #[test]
    fn the_check_of_a_connection_that_has_ended_is_removed() {
        let mut waiting = Waiting::default();
        for check in [check(10, 1), check(11, 1), check(20, 2)] {
            assert!(waiting.push(check).is_none());
        }
        waiting.remove(check(10, 1).address);
        waiting.remove(check(20, 2).address);
        assert_eq!([next(&mut waiting), next(&mut waiting)], [Some(11), None]);
    }
}
