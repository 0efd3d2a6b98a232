//! The thread that checks secrets, and slows down whoever guesses.
//!
//! A hash takes milliseconds by design, so secrets are checked on a thread of their own, never on a network thread.
//! After a wrong secret the next check for the same account from the same address waits: 100 ms, then twice as long
//! each time, up to 5 s, until nothing was wrong there for a minute. Nobody else waits, so a program with a stale secret
//! harms itself only, and an account cannot be locked from elsewhere. What waits is bounded, in all and by address.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::accounts::AccountsFile;
use crate::grants::Grants;
use crate::path::bundle::Address;
use crate::path::mail::{Mail, Mailbox};

/// Checks that may wait, in all and of one address; beyond it a login is told to try again.
const CHECKS_MAX: usize = 1024;
const CHECKS_OF_ONE: usize = CHECKS_MAX / 2;

/// The first pause after a wrong secret, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A wrong secret is forgotten after this time without another.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Accounts and addresses with wrong secrets that are remembered; the one that waits least is forgotten for a new one.
const SUSPECTS_MAX: usize = 4096;

/// What is said of a login.
#[derive(Debug)]
pub enum Verdict {
    /// The secret is right, and this is what the account may do; None: everything.
    Welcome(Option<Arc<Grants>>),
    /// No such account, or another secret.
    Wrong,
    /// Too many wait to be checked.
    Busy,
}

/// A secret to be checked.
struct Check {
    address: Address,
    suspect: Suspect,
    secret: Vec<u8>,
}

/// Who may be guessing: an account, from an address (None: from this machine).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Suspect {
    origin: Option<IpAddr>,
    account: Vec<u8>,
}

/// How a login ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginEnding {
    /// With the right secret.
    Ok,
    /// No such account, or another secret.
    Wrong,
    /// Too many waited to be checked.
    Busy,
}

impl LoginEnding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Wrong, Self::Busy];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Busy => "busy",
        }
    }
}

/// Logins by how they ended.
#[derive(Debug, Default)]
pub struct Logins([AtomicU64; LoginEnding::ALL.len()]);

impl Logins {
    /// How many ended so.
    #[must_use]
    pub fn count(&self, ending: LoginEnding) -> u64 {
        self.0[ending as usize].load(Ordering::Relaxed)
    }

    fn add(&self, ending: LoginEnding) {
        self.0[ending as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The way to the thread; it ends when this is dropped.
pub struct Authenticator {
    checks: SyncSender<Check>,
    logins: Arc<Logins>,
}

impl Authenticator {
    /// Starts it.
    #[must_use]
    pub fn start(accounts: AccountsFile, mailboxes: Vec<Arc<Mailbox>>) -> Self {
        let (checks, waiting) = sync_channel(CHECKS_MAX);
        let logins = Arc::new(Logins::default());
        let desk = Desk {
            accounts,
            mailboxes,
            logins: Arc::clone(&logins),
            memory: Memory::default(),
            held: VecDeque::new(),
        };
        std::thread::spawn(move || desk.work(&waiting));
        Self { checks, logins }
    }

    /// Asks for a verdict, which comes by mail. False: too many wait.
    #[must_use]
    pub fn ask(&self, address: Address, origin: Option<IpAddr>, account: &[u8], secret: &[u8]) -> bool {
        let suspect = Suspect { origin, account: account.to_vec() };
        let asked = self.checks.try_send(Check { address, suspect, secret: secret.to_vec() });
        if asked.is_err() {
            self.logins.add(LoginEnding::Busy);
        }
        asked.is_ok()
    }

    /// How logins ended.
    #[must_use]
    pub fn logins(&self) -> &Logins {
        &self.logins
    }
}

/// Where the checking is done.
struct Desk {
    accounts: AccountsFile,
    mailboxes: Vec<Arc<Mailbox>>,
    logins: Arc<Logins>,
    memory: Memory,
    /// In the order they came.
    held: VecDeque<Check>,
}

impl Desk {
    fn work(mut self, waiting: &Receiver<Check>) {
        loop {
            let patience = self.patience(Instant::now());
            match waiting.recv_timeout(patience) {
                Ok(check) => self.take(check),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Whatever came meanwhile has a right to be seen before the next slow check.
            while let Ok(check) = waiting.try_recv() {
                self.take(check);
            }
            self.check_next();
        }
    }

    fn take(&mut self, check: Check) {
        let of_one = self.held.iter().filter(|held| held.suspect.origin == check.suspect.origin).count();
        if self.held.len() < CHECKS_MAX && of_one < CHECKS_OF_ONE {
            self.held.push_back(check);
        } else {
            self.tell(check.address, Verdict::Busy);
        }
    }

    /// How long until one of those held may be checked.
    fn patience(&self, now: Instant) -> Duration {
        let waits = self.held.iter().map(|check| self.memory.wait(&check.suspect, now));
        waits.min().unwrap_or(FORGOTTEN_AFTER)
    }

    /// Checks the first that need not wait.
    fn check_next(&mut self) {
        let now = Instant::now();
        let free = self.held.iter().position(|check| self.memory.wait(&check.suspect, now).is_zero());
        let Some(check) = free.and_then(|at| self.held.remove(at)) else { return };
        let verdict = match self.accounts.verify(&check.suspect.account, &check.secret) {
            Some(grants) => Verdict::Welcome(grants),
            None => {
                self.memory.wrong(check.suspect, Instant::now());
                Verdict::Wrong
            }
        };
        self.tell(check.address, verdict);
    }

    fn tell(&self, address: Address, verdict: Verdict) {
        self.logins.add(match verdict {
            Verdict::Welcome(_) => LoginEnding::Ok,
            Verdict::Wrong => LoginEnding::Wrong,
            Verdict::Busy => LoginEnding::Busy,
        });
        self.mailboxes[address.thread].post(Mail::Verified { address, verdict });
    }
}

/// Wrong secrets of late.
#[derive(Debug, Default)]
struct Memory {
    wrong: HashMap<Suspect, Wrong>,
}

#[derive(Clone, Copy, Debug)]
struct Wrong {
    pause: Duration,
    last: Instant,
}

impl Memory {
    /// How long a check has to wait; nothing if its last wrong secret is forgotten.
    fn wait(&self, suspect: &Suspect, now: Instant) -> Duration {
        self.wrong
            .get(suspect)
            .map_or(Duration::ZERO, |wrong| (wrong.last + wrong.pause).saturating_duration_since(now))
    }

    /// Notes a wrong secret.
    fn wrong(&mut self, suspect: Suspect, now: Instant) {
        let is_fresh = |wrong: &Wrong| now.saturating_duration_since(wrong.last) < FORGOTTEN_AFTER;
        let before = self.wrong.get(&suspect).copied().filter(is_fresh);
        if before.is_none() && self.wrong.len() >= SUSPECTS_MAX {
            self.wrong.retain(|_, wrong| is_fresh(wrong));
            let least =
                self.wrong.iter().min_by_key(|(_, wrong)| wrong.pause).map(|(least, _)| least.clone());
            if let Some(least) = least.filter(|_| self.wrong.len() >= SUSPECTS_MAX) {
                self.wrong.remove(&least);
            }
        }
        let pause = before.map_or(PAUSE, |wrong| (wrong.pause * 2).min(PAUSE_MAX));
        self.wrong.insert(suspect, Wrong { pause, last: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(account: &str, from: u8) -> Suspect {
        Suspect { origin: Some(IpAddr::from([10, 0, 0, from])), account: account.into() }
    }

    #[test]
    fn each_wrong_secret_makes_the_next_check_wait_longer() {
        let (mut memory, mut now) = (Memory::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..8 {
            memory.wrong(suspect("a", 1), now);
            let wait = memory.wait(&suspect("a", 1), now);
            waits.push(wait.as_millis());
            now += wait;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(memory.wait(&suspect("a", 1), now).is_zero(), "the pause is over");
    }

    #[test]
    fn only_the_same_account_from_the_same_address_waits() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.wrong(suspect("a", 1), now);
        assert!(memory.wait(&suspect("b", 1), now).is_zero(), "another account");
        assert!(memory.wait(&suspect("a", 2), now).is_zero(), "another address");
    }

    #[test]
    fn a_wrong_secret_is_forgotten_in_time() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.wrong(suspect("a", 1), now);
        memory.wrong(suspect("a", 1), now);
        let later = now + FORGOTTEN_AFTER;
        memory.wrong(suspect("a", 1), later);
        assert_eq!(memory.wait(&suspect("a", 1), later), PAUSE);
    }

    #[test]
    fn the_memory_of_wrong_secrets_is_bounded_and_keeps_those_who_guess_most() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.wrong(suspect("guesser", 1), now);
        memory.wrong(suspect("guesser", 1), now);
        for number in 0..2 * SUSPECTS_MAX {
            memory.wrong(suspect(&number.to_string(), 2), now);
        }
        assert!(memory.wrong.len() <= SUSPECTS_MAX);
        assert_eq!(memory.wait(&suspect("guesser", 1), now), 2 * PAUSE);
    }
}
