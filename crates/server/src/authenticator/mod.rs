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
use crate::accounts::{AccountsFile, WrongCredentials};
use crate::grants::Grants;
use crate::path::bundle::Address;
use crate::path::mail::{Mail, Mailbox};

/// The first pause after a wrong secret, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A wrong secret is forgotten after this time without another.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// How many wrong secrets of a suspect are recognized.
const WRONG_SECRETS_KEPT: usize = 4;

/// How many accounts have their right secret recognized: more than most files have; beyond it secrets are always
/// checked.
const ACCEPTED_MAX: usize = 65_536;

/// Most messages that are handled between two checks: repetitions of a wrong secret, which are answered at once, must
/// not keep other secrets from being checked.
const MESSAGES_BETWEEN_CHECKS: usize = 256;

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

/// A message to the checking thread.
enum Message {
    /// A secret to be checked.
    Check(Check),
    /// A connection has ended, and waits for no verdict.
    Withdraw(Address),
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
    messages: Sender<Message>,
    logins: Arc<Logins>,
}

impl Authenticator {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start(accounts: AccountsFile, mailboxes: Vec<Arc<Mailbox>>) -> io::Result<Self> {
        let (messages, received) = channel();
        let logins = Arc::new(Logins::default());
        let checker = Checker {
            accounts,
            mailboxes,
            logins: Arc::clone(&logins),
            wrong_secrets: WrongSecrets::default(),
            waiting: Waiting::default(),
            accepted: HashMap::new(),
            digest_keys: RandomState::new(),
        };
        Builder::new().name("authenticator".into()).spawn(move || checker.run(&received))?;
        Ok(Self { messages, logins })
    }

    /// Has a secret checked. The verdict is sent to the mailbox of the connection's thread.
    pub fn request_check(&self, address: Address, origin: Option<IpAddr>, account: &[u8], secret: &[u8]) {
        let suspect = Suspect::new(origin, account);
        let check = Check { address, suspect, secret: secret.to_vec(), received_at: Instant::now() };
        self.send(Message::Check(check));
    }

    /// Withdraws the check of a connection that has ended.
    pub fn withdraw(&self, address: Address) {
        self.send(Message::Withdraw(address));
    }

    fn send(&self, message: Message) {
        // The thread receives for as long as this handle exists.
        let _ = self.messages.send(message);
    }

    /// Returns the counts of logins.
    #[must_use]
    pub fn logins(&self) -> &Logins {
        &self.logins
    }
}

/// The state of the checking thread.
struct Checker {
    accounts: AccountsFile,
    mailboxes: Vec<Arc<Mailbox>>,
    logins: Arc<Logins>,
    wrong_secrets: WrongSecrets,
    waiting: Waiting,
    /// Digests of accepted secrets, by account.
    accepted: HashMap<Vec<u8>, u64>,
    /// Keys of the digests by which secrets are recognized; the secrets themselves are not kept.
    digest_keys: RandomState,
}

impl Checker {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let timeout = self.time_to_next_check(Instant::now());
            match messages.recv_timeout(timeout) {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Messages that arrived meanwhile are handled before the next slow check, but not those that keep arriving.
            for message in messages.try_iter().take(MESSAGES_BETWEEN_CHECKS) {
                self.handle(message);
            }
            self.refuse_expired(Instant::now());
            self.check_next();
        }
    }

    /// Refuses the checks that have waited for too long.
    fn refuse_expired(&mut self, now: Instant) {
        while let Some(expired) = self.waiting.take_expired(now) {
            self.send_verdict(expired.address, Verdict::Busy);
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Check(check) if self.is_known_to_be_wrong(&check) => {
                self.send_verdict(check.address, Verdict::Wrong);
            }
            Message::Check(check) => {
                if let Some(displaced) = self.waiting.push(check) {
                    self.send_verdict(displaced.address, Verdict::Busy);
                }
            }
            Message::Withdraw(address) => self.waiting.remove(address),
        }
    }

    /// Returns how long until one of the waiting secrets may be checked.
    fn time_to_next_check(&self, now: Instant) -> Duration {
        let waits = self.waiting.suspects().map(|suspect| self.wrong_secrets.remaining_pause(suspect, now));
        waits.min().unwrap_or(FORGOTTEN_AFTER)
    }

    /// Checks the next secret that need not wait.
    fn check_next(&mut self) {
        let now = Instant::now();
        let Some(check) =
            self.waiting.take_next(|suspect| self.wrong_secrets.remaining_pause(suspect, now).is_zero())
        else {
            return;
        };
        // It may have become known after it arrived.
        if self.is_known_to_be_wrong(&check) {
            return self.send_verdict(check.address, Verdict::Wrong);
        }
        let (address, verdict) = (check.address, self.check(check));
        self.logins.is_file_unusable.store(!self.accounts.is_usable(), Ordering::Relaxed);
        self.send_verdict(address, verdict);
    }

    fn check(&mut self, check: Check) -> Verdict {
        let account = &check.suspect.account;
        self.accounts.reload_and_log();
        if self.accepted.get(account) == Some(&self.digest(&check)) {
            return self.accounts.grants_of(account).map_or(Verdict::Wrong, Verdict::Welcome);
        }
        let verified = self.accounts.verify(account, &check.secret);
        let digest = self.digest(&check);
        match verified {
            Ok(grants) => {
                if self.accepted.len() >= ACCEPTED_MAX {
                    self.accepted.clear();
                }
                self.accepted.insert(check.suspect.account, digest);
                Verdict::Welcome(grants)
            }
            Err(WrongCredentials) => {
                self.wrong_secrets.add(check.suspect, digest, Instant::now());
                Verdict::Wrong
            }
        }
    }

    fn is_known_to_be_wrong(&mut self, check: &Check) -> bool {
        if !self.wrong_secrets.has_recent(&check.suspect, Instant::now()) {
            return false;
        }
        self.accounts.reload_and_log();
        let digest = self.digest(check);
        self.wrong_secrets.contains(&check.suspect, digest)
    }

    /// Returns a digest of a secret and its account's entry: it changes when the file's entry does.
    fn digest(&self, check: &Check) -> u64 {
        self.accounts.digest(&check.suspect.account, &check.secret, &self.digest_keys)
    }

    fn send_verdict(&self, address: Address, verdict: Verdict) {
        self.logins.add(match verdict {
            Verdict::Welcome(_) => LoginEnding::Ok,
            Verdict::Wrong => LoginEnding::Wrong,
            Verdict::Busy => LoginEnding::Busy,
        });
        self.mailboxes[address.thread].post(Mail::Verified { address, verdict });
    }
}

/// The suspects that recently gave wrong secrets.
#[derive(Debug, Default)]
struct WrongSecrets {
    by_suspect: HashMap<Suspect, Record>,
}

/// The recent wrong secrets of one suspect.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Time from the last wrong secret until the next check.
    pause: Duration,
    /// When the last wrong secret was found.
    last: Instant,
    /// Digests of the last wrong secrets, the latest first.
    secrets: [Option<u64>; WRONG_SECRETS_KEPT],
}

impl Record {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < FORGOTTEN_AFTER
    }
}

impl WrongSecrets {
    /// Returns how long a check has to wait; zero if the suspect's last wrong secret is forgotten.
    fn remaining_pause(&self, suspect: &Suspect, now: Instant) -> Duration {
        self.by_suspect
            .get(suspect)
            .map_or(Duration::ZERO, |record| (record.last + record.pause).saturating_duration_since(now))
    }

    /// Returns whether the suspect had a wrong secret that is not forgotten yet.
    fn has_recent(&self, suspect: &Suspect, now: Instant) -> bool {
        self.by_suspect.get(suspect).is_some_and(|record| record.is_fresh(now))
    }

    /// Returns whether the secret with this digest was one of the suspect's last wrong ones.
    fn contains(&self, suspect: &Suspect, digest: u64) -> bool {
        self.by_suspect.get(suspect).is_some_and(|record| record.secrets.contains(&Some(digest)))
    }

    /// Records a wrong secret.
    fn add(&mut self, suspect: Suspect, digest: u64, now: Instant) {
        let before = self.by_suspect.get(&suspect).copied().filter(|record| record.is_fresh(now));
        if before.is_none() && self.by_suspect.len() >= SUSPECTS_MAX {
            self.by_suspect.retain(|_, record| record.is_fresh(now));
            let shortest = self
                .by_suspect
                .iter()
                .min_by_key(|(_, record)| record.pause)
                .map(|(suspect, _)| suspect.clone());
            if let Some(shortest) = shortest.filter(|_| self.by_suspect.len() >= SUSPECTS_MAX) {
                self.by_suspect.remove(&shortest);
            }
        }
        let pause = before.map_or(PAUSE_MIN, |record| (record.pause * 2).min(PAUSE_MAX));
        let mut secrets = before.map_or([None; WRONG_SECRETS_KEPT], |record| record.secrets);
        secrets.rotate_right(1);
        secrets[0] = Some(digest);
        self.by_suspect.insert(suspect, Record { pause, last: now, secrets });
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
        let mut checker = Checker {
            accounts: AccountsFile::open(&path).expect("accounts"),
            mailboxes: Vec::new(),
            logins: Arc::default(),
            wrong_secrets: WrongSecrets::default(),
            waiting: Waiting::default(),
            accepted: HashMap::new(),
            digest_keys: RandomState::new(),
        };
        let mut is_welcome = |secret: &str| {
            let address = Address { thread: 0, slot: 0, client: 1 };
            let check = Check {
                address,
                suspect: suspect("ann", 1),
                secret: secret.as_bytes().to_vec(),
                received_at: Instant::now(),
            };
            matches!(checker.check(check), Verdict::Welcome(_))
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
        let (mut wrong_secrets, mut now) = (WrongSecrets::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..8 {
            wrong_secrets.add(suspect("a", 1), 0, now);
            let wait = wrong_secrets.remaining_pause(&suspect("a", 1), now);
            waits.push(wait.as_millis());
            now += wait;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(wrong_secrets.remaining_pause(&suspect("a", 1), now).is_zero(), "the pause is over");
    }

    #[test]
    fn only_the_same_account_from_the_same_address_waits() {
        let (mut wrong_secrets, now) = (WrongSecrets::default(), Instant::now());
        wrong_secrets.add(suspect("a", 1), 0, now);
        assert!(wrong_secrets.remaining_pause(&suspect("b", 1), now).is_zero(), "another account");
        assert!(wrong_secrets.remaining_pause(&suspect("a", 2), now).is_zero(), "another address");
    }

    #[test]
    fn who_owns_a_network_of_version_6_has_one_pause_for_all_of_it() {
        let suspect = |address: &str| Suspect::new(address.parse().ok(), b"a");
        let (mut wrong_secrets, now) = (WrongSecrets::default(), Instant::now());
        wrong_secrets.add(suspect("2001:db8::1"), 0, now);
        assert_eq!(wrong_secrets.remaining_pause(&suspect("2001:db8::2"), now), PAUSE_MIN);
        assert!(
            wrong_secrets.remaining_pause(&suspect("2001:db8:0:1::1"), now).is_zero(),
            "the network beside it"
        );
        wrong_secrets.add(suspect("::ffff:10.0.0.1"), 0, now);
        assert_eq!(
            wrong_secrets.remaining_pause(&suspect("10.0.0.1"), now),
            PAUSE_MIN,
            "the same address in both versions"
        );
    }

    #[test]
    fn a_wrong_secret_is_forgotten_in_time() {
        let (mut wrong_secrets, now) = (WrongSecrets::default(), Instant::now());
        wrong_secrets.add(suspect("a", 1), 0, now);
        wrong_secrets.add(suspect("a", 1), 0, now);
        let later = now + FORGOTTEN_AFTER;
        wrong_secrets.add(suspect("a", 1), 0, later);
        assert_eq!(wrong_secrets.remaining_pause(&suspect("a", 1), later), PAUSE_MIN);
    }

    #[test]
    fn the_last_wrong_secrets_of_a_suspect_are_known_again() {
        let (mut wrong_secrets, now) = (WrongSecrets::default(), Instant::now());
        for digest in 1..=WRONG_SECRETS_KEPT as u64 + 1 {
            wrong_secrets.add(suspect("a", 1), digest, now);
        }
        let known = |suspect: &Suspect| {
            (0..10).filter(|digest| wrong_secrets.contains(suspect, *digest)).collect::<Vec<_>>()
        };
        assert_eq!(known(&suspect("a", 1)), [2, 3, 4, 5]);
        assert_eq!(known(&suspect("a", 2)), [0; 0], "elsewhere it may be a guess");
        assert!(wrong_secrets.has_recent(&suspect("a", 1), now));
        assert!(!wrong_secrets.has_recent(&suspect("a", 1), now + FORGOTTEN_AFTER));
    }

    #[test]
    fn the_memory_of_wrong_secrets_is_bounded_and_keeps_those_who_guess_most() {
        let (mut wrong_secrets, now) = (WrongSecrets::default(), Instant::now());
        wrong_secrets.add(suspect("guesser", 1), 0, now);
        wrong_secrets.add(suspect("guesser", 1), 0, now);
        for number in 0..2 * SUSPECTS_MAX {
            wrong_secrets.add(suspect(&number.to_string(), 2), 0, now);
        }
        assert!(wrong_secrets.by_suspect.len() <= SUSPECTS_MAX);
        assert_eq!(wrong_secrets.remaining_pause(&suspect("guesser", 1), now), 2 * PAUSE_MIN);
    }
}
