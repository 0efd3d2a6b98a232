//! The thread that checks secrets, and slows down guessing.
//!
//! A hash takes milliseconds by design, so secrets are checked on a thread of their own, never on a network thread.
//! After a wrong secret the next check for the same account from the same address is delayed: 100 ms, then twice as
//! long each time, up to 5 s, until no secret was wrong there for a minute. No other check is delayed, so an account
//! cannot be locked from elsewhere. Addresses take turns, and the number of waiting checks is bounded (see `waiting`).
//!
//! The same wrong secret again is no guess: it is refused without a check and causes no delay. So a program with a
//! stale secret, however often it tries, does not lock out others of its account and address.
//!
//! Nor is a secret checked again that was right before: a thousand clients of an account that reconnect after an outage
//! would wait for a thousand checks, and some be refused as too many. Such a secret still takes its turn, after the
//! delay that a wrong one causes, or guessing would find the right one at once.

mod waiting;

use std::collections::HashMap;
use std::hash::RandomState;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use self::waiting::{Check, Suspect, Waiting};
use crate::accounts::AccountsFile;
use crate::grants::Grants;
use crate::path::bundle::Address;
use crate::path::mail::{Mail, Mailbox};

/// The first pause after a wrong secret, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A wrong secret is forgotten after this time without another.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// How many wrong secrets of a suspect are recognized.
const SECRETS_KEPT: usize = 4;

/// How many accounts have their right secret recognized: more than most files have; beyond it secrets are always
/// checked.
const RIGHT_MAX: usize = 65_536;

/// Messages that are handled before a check at most: repetitions of a wrong secret, which are answered at once, must not keep
/// other secrets from being checked.
const HEARD_AT_ONCE: usize = 256;

/// How many suspects (account and address) are remembered; a new one replaces the one with the shortest pause.
const SUSPECTS_MAX: usize = 4096;

/// The verdict on a login.
#[derive(Debug)]
pub enum Verdict {
    /// The secret is right; with what the account may do (None: everything).
    Welcome(Option<Arc<Grants>>),
    /// No such account, or another secret.
    Wrong,
    /// Too many wait to be checked.
    Busy,
}

/// A message to the thread.
enum Told {
    /// A secret to be checked.
    Check(Check),
    /// A connection has ended, and waits for no verdict.
    Left(Address),
}

/// How a login ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginEnding {
    /// The secret was right.
    Ok,
    /// No such account, or another secret.
    Wrong,
    /// Too many waited to be checked.
    Busy,
}

impl LoginEnding {
    /// All endings.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Wrong, Self::Busy];

    /// Returns the ending's name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Busy => "busy",
        }
    }
}

/// Counts of logins by ending, and whether the accounts file is usable.
#[derive(Debug, Default)]
pub struct Logins {
    ended: [AtomicU64; LoginEnding::ALL.len()],
    is_file_unusable: AtomicBool,
}

impl Logins {
    /// Returns how many logins ended so.
    #[must_use]
    pub fn count(&self, ending: LoginEnding) -> u64 {
        self.ended[ending as usize].load(Ordering::Relaxed)
    }

    /// Returns whether the accounts file could be used at the last login.
    #[must_use]
    pub fn is_file_usable(&self) -> bool {
        !self.is_file_unusable.load(Ordering::Relaxed)
    }

    fn add(&self, ending: LoginEnding) {
        self.ended[ending as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// A handle to the thread, which ends when this is dropped.
pub struct Authenticator {
    /// Messages to the thread; bounded by the number of connections, as each has at most one check under way.
    desk: Sender<Told>,
    logins: Arc<Logins>,
}

impl Authenticator {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(accounts: AccountsFile, mailboxes: Vec<Arc<Mailbox>>) -> io::Result<Self> {
        let (desk, told) = channel();
        let logins = Arc::new(Logins::default());
        let there = Desk {
            accounts,
            mailboxes,
            logins: Arc::clone(&logins),
            memory: Memory::default(),
            waiting: Waiting::default(),
            right: HashMap::new(),
            digests: RandomState::new(),
        };
        Builder::new().name("authenticator".into()).spawn(move || there.work(&told))?;
        Ok(Self { desk, logins })
    }

    /// Asks for a verdict, which is sent to the mailbox of the connection's thread.
    pub fn ask(&self, address: Address, origin: Option<IpAddr>, account: &[u8], secret: &[u8]) {
        let suspect = Suspect::new(origin, account);
        self.tell(Told::Check(Check { address, suspect, secret: secret.to_vec(), came: Instant::now() }));
    }

    /// Withdraws the check of a connection that has ended.
    pub fn forget(&self, address: Address) {
        self.tell(Told::Left(address));
    }

    fn tell(&self, told: Told) {
        // The thread receives for as long as this handle exists.
        let _ = self.desk.send(told);
    }

    /// Returns the counts of logins.
    #[must_use]
    pub fn logins(&self) -> &Logins {
        &self.logins
    }
}

/// The state of the checking thread.
struct Desk {
    accounts: AccountsFile,
    mailboxes: Vec<Arc<Mailbox>>,
    logins: Arc<Logins>,
    memory: Memory,
    waiting: Waiting,
    /// Digests of right secrets, by account.
    right: HashMap<Vec<u8>, u64>,
    /// Keys of the digests by which secrets are recognized; the secrets themselves are not kept.
    digests: RandomState,
}

impl Desk {
    fn work(mut self, told: &Receiver<Told>) {
        loop {
            let patience = self.patience(Instant::now());
            match told.recv_timeout(patience) {
                Ok(told) => self.hear(told),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Messages that arrived meanwhile are handled before the next slow check, but not those that keep arriving.
            for told in told.try_iter().take(HEARD_AT_ONCE) {
                self.hear(told);
            }
            self.give_up_late(Instant::now());
            self.check_next();
        }
    }

    /// Answers the checks that have waited for too long.
    fn give_up_late(&mut self, now: Instant) {
        while let Some(late) = self.waiting.late(now) {
            self.tell(late.address, Verdict::Busy);
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Check(check) if self.is_known_to_be_wrong(&check) => {
                self.tell(check.address, Verdict::Wrong);
            }
            Told::Check(check) => {
                if let Some(displaced) = self.waiting.push(check) {
                    self.tell(displaced.address, Verdict::Busy);
                }
            }
            Told::Left(address) => self.waiting.forget(address),
        }
    }

    /// Returns how long until one of the waiting secrets may be checked.
    fn patience(&self, now: Instant) -> Duration {
        let waits = self.waiting.suspects().map(|suspect| self.memory.wait(suspect, now));
        waits.min().unwrap_or(FORGOTTEN_AFTER)
    }

    /// Checks the next secret that need not wait.
    fn check_next(&mut self) {
        let now = Instant::now();
        let Some(check) = self.waiting.next(|suspect| self.memory.wait(suspect, now).is_zero()) else {
            return;
        };
        // It may have become known after it arrived.
        if self.is_known_to_be_wrong(&check) {
            return self.tell(check.address, Verdict::Wrong);
        }
        let (address, verdict) = (check.address, self.verdict(check));
        self.logins.is_file_unusable.store(!self.accounts.is_usable(), Ordering::Relaxed);
        self.tell(address, verdict);
    }

    fn verdict(&mut self, check: Check) -> Verdict {
        let account = &check.suspect.account;
        self.accounts.keep_up();
        if self.right.get(account) == Some(&self.digest(&check)) {
            return self.accounts.grants_of(account).map_or(Verdict::Wrong, Verdict::Welcome);
        }
        let found = self.accounts.verify(account, &check.secret);
        let digest = self.digest(&check);
        match found {
            Some(grants) => {
                if self.right.len() >= RIGHT_MAX {
                    self.right.clear();
                }
                self.right.insert(check.suspect.account, digest);
                Verdict::Welcome(grants)
            }
            None => {
                self.memory.wrong(check.suspect, digest, Instant::now());
                Verdict::Wrong
            }
        }
    }

    fn is_known_to_be_wrong(&mut self, check: &Check) -> bool {
        if !self.memory.has_of_late(&check.suspect, Instant::now()) {
            return false;
        }
        self.accounts.keep_up();
        let digest = self.digest(check);
        self.memory.knows(&check.suspect, digest)
    }

    /// Returns a digest of a secret and its account's entry: it changes when the file's entry does.
    fn digest(&self, check: &Check) -> u64 {
        self.accounts.digest(&check.suspect.account, &check.secret, &self.digests)
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

/// Recent wrong secrets.
#[derive(Debug, Default)]
struct Memory {
    wrong: HashMap<Suspect, Wrong>,
}

#[derive(Clone, Copy, Debug)]
struct Wrong {
    pause: Duration,
    last: Instant,
    /// Digests of the last wrong secrets, the latest first.
    secrets: [Option<u64>; SECRETS_KEPT],
}

impl Wrong {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < FORGOTTEN_AFTER
    }
}

impl Memory {
    /// Returns how long a check has to wait; zero if the suspect's last wrong secret is forgotten.
    fn wait(&self, suspect: &Suspect, now: Instant) -> Duration {
        self.wrong
            .get(suspect)
            .map_or(Duration::ZERO, |wrong| (wrong.last + wrong.pause).saturating_duration_since(now))
    }

    /// Returns whether the suspect had a wrong secret that is not forgotten yet.
    fn has_of_late(&self, suspect: &Suspect, now: Instant) -> bool {
        self.wrong.get(suspect).is_some_and(|wrong| wrong.is_fresh(now))
    }

    /// Returns whether the secret with this digest was one of the suspect's last wrong ones.
    fn knows(&self, suspect: &Suspect, digest: u64) -> bool {
        self.wrong.get(suspect).is_some_and(|wrong| wrong.secrets.contains(&Some(digest)))
    }

    /// Notes a wrong secret.
    fn wrong(&mut self, suspect: Suspect, digest: u64, now: Instant) {
        let before = self.wrong.get(&suspect).copied().filter(|wrong| wrong.is_fresh(now));
        if before.is_none() && self.wrong.len() >= SUSPECTS_MAX {
            self.wrong.retain(|_, wrong| wrong.is_fresh(now));
            let least =
                self.wrong.iter().min_by_key(|(_, wrong)| wrong.pause).map(|(least, _)| least.clone());
            if let Some(least) = least.filter(|_| self.wrong.len() >= SUSPECTS_MAX) {
                self.wrong.remove(&least);
            }
        }
        let pause = before.map_or(PAUSE, |wrong| (wrong.pause * 2).min(PAUSE_MAX));
        let mut secrets = before.map_or([None; SECRETS_KEPT], |wrong| wrong.secrets);
        secrets.rotate_right(1);
        secrets[0] = Some(digest);
        self.wrong.insert(suspect, Wrong { pause, last: now, secrets });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_was_right_is_not_checked_again_until_the_file_says_something_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("accounts.txt");
        AccountsFile::set(&path, "ann", "one", None).expect("set");
        let mut desk = Desk {
            accounts: AccountsFile::open(&path).expect("accounts"),
            mailboxes: Vec::new(),
            logins: Arc::default(),
            memory: Memory::default(),
            waiting: Waiting::default(),
            right: HashMap::new(),
            digests: RandomState::new(),
        };
        let mut is_welcome = |secret: &str| {
            let address = Address { thread: 0, slot: 0, client: 1 };
            let check = Check {
                address,
                suspect: suspect("ann", 1),
                secret: secret.as_bytes().to_vec(),
                came: Instant::now(),
            };
            matches!(desk.verdict(check), Verdict::Welcome(_))
        };
        let took = |what: &mut dyn FnMut() -> bool| {
            let start = Instant::now();
            assert!(what());
            start.elapsed()
        };
        // A thousand checks take a minute.
        let once = took(&mut || is_welcome("one"));
        let a_thousand_times = took(&mut || (0..1000).all(|_| is_welcome("one")));
        assert!(a_thousand_times < 100 * once, "{a_thousand_times:?}, {once:?}");
        assert!(!is_welcome("two"));
        AccountsFile::set(&path, "ann", "two", None).expect("set");
        assert!(!is_welcome("one") && is_welcome("two"));
        AccountsFile::remove(&path, "ann").expect("removed");
        assert!(!is_welcome("two"));
    }

    fn suspect(account: &str, from: u8) -> Suspect {
        Suspect::new(Some([10, 0, 0, from].into()), account.as_bytes())
    }

    #[test]
    fn each_wrong_secret_makes_the_next_check_wait_longer() {
        let (mut memory, mut now) = (Memory::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..8 {
            memory.wrong(suspect("a", 1), 0, now);
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
        memory.wrong(suspect("a", 1), 0, now);
        assert!(memory.wait(&suspect("b", 1), now).is_zero(), "another account");
        assert!(memory.wait(&suspect("a", 2), now).is_zero(), "another address");
    }

    #[test]
    fn who_owns_a_network_of_version_6_has_one_pause_for_all_of_it() {
        let suspect = |address: &str| Suspect::new(address.parse().ok(), b"a");
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.wrong(suspect("2001:db8::1"), 0, now);
        assert_eq!(memory.wait(&suspect("2001:db8::2"), now), PAUSE);
        assert!(memory.wait(&suspect("2001:db8:0:1::1"), now).is_zero(), "the network beside it");
        memory.wrong(suspect("::ffff:10.0.0.1"), 0, now);
        assert_eq!(memory.wait(&suspect("10.0.0.1"), now), PAUSE, "the same address in both versions");
    }

    #[test]
    fn a_wrong_secret_is_forgotten_in_time() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.wrong(suspect("a", 1), 0, now);
        memory.wrong(suspect("a", 1), 0, now);
        let later = now + FORGOTTEN_AFTER;
        memory.wrong(suspect("a", 1), 0, later);
        assert_eq!(memory.wait(&suspect("a", 1), later), PAUSE);
    }

    #[test]
    fn the_last_wrong_secrets_of_a_suspect_are_known_again() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        for digest in 1..=SECRETS_KEPT as u64 + 1 {
            memory.wrong(suspect("a", 1), digest, now);
        }
        let known = |who: &Suspect| (0..10).filter(|digest| memory.knows(who, *digest)).collect::<Vec<_>>();
        assert_eq!(known(&suspect("a", 1)), [2, 3, 4, 5]);
        assert_eq!(known(&suspect("a", 2)), [0; 0], "elsewhere it may be a guess");
        assert!(memory.has_of_late(&suspect("a", 1), now));
        assert!(!memory.has_of_late(&suspect("a", 1), now + FORGOTTEN_AFTER));
    }

    #[test]
    fn the_memory_of_wrong_secrets_is_bounded_and_keeps_those_who_guess_most() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.wrong(suspect("guesser", 1), 0, now);
        memory.wrong(suspect("guesser", 1), 0, now);
        for number in 0..2 * SUSPECTS_MAX {
            memory.wrong(suspect(&number.to_string(), 2), 0, now);
        }
        assert!(memory.wrong.len() <= SUSPECTS_MAX);
        assert_eq!(memory.wait(&suspect("guesser", 1), now), 2 * PAUSE);
    }
}
