//! Who may log in: anybody, or the accounts of a file with argon2 hashes.
//!
//! The file has one account a line, `name:hash`, the hash in PHC form (`$argon2id$…`). It is read again when it has
//! changed, so an account added by `posthaste admin account add` works at once.
//!
//! A hash takes milliseconds by design, so secrets are checked on a thread of their own, never on a network thread.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::SystemTime;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

use crate::path::bundle::Address;
use crate::path::mailbox::{Mail, Mailbox};

/// Checks that may wait; beyond it a login is told to try again.
const CHECKS_MAX: usize = 1024;

/// The accounts file, as last read.
pub struct AccountsFile {
    path: PathBuf,
    read_at: Option<SystemTime>,
    hashes: BTreeMap<Vec<u8>, String>,
}

impl AccountsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// A sentence that names the file, the line and what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut file = Self { path: path.to_owned(), read_at: None, hashes: BTreeMap::new() };
        file.refresh()?;
        Ok(file)
    }

    /// The account names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.hashes.keys().map(Vec::as_slice)
    }

    /// Adds or replaces an account; the file is replaced in one step and readable by its owner only.
    ///
    /// # Errors
    /// A sentence that says what could not be done.
    pub fn set(path: &Path, name: &str, secret: &str) -> Result<(), String> {
        if !is_name(name) {
            return Err(format!(
                "{name:?} cannot be an account: 1 to 255 bytes, no control characters, not * or -"
            ));
        }
        let mut hashes = if path.exists() { Self::open(path)?.hashes } else { BTreeMap::new() };
        hashes.insert(name.as_bytes().to_vec(), hash(secret)?);
        write(path, &hashes).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Takes an account out; whether it was there.
    ///
    /// # Errors
    /// A sentence that says what could not be done.
    pub fn remove(path: &Path, name: &str) -> Result<bool, String> {
        let mut hashes = Self::open(path)?.hashes;
        let found = hashes.remove(name.as_bytes()).is_some();
        write(path, &hashes).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(found)
    }

    /// Whether the secret is the account's. An unknown account costs as much time as a wrong secret.
    pub fn verify(&mut self, name: &[u8], secret: &[u8]) -> bool {
        // A file that cannot be read now leaves the accounts as they were.
        let _ = self.refresh();
        match self.hashes.get(name) {
            Some(hash) => matches(hash, secret),
            None => {
                if let Some(any) = self.hashes.values().next() {
                    matches(any, secret);
                }
                false
            }
        }
    }

    fn refresh(&mut self) -> Result<(), String> {
        let shown = self.path.display();
        let cannot = |error: io::Error| format!("cannot read the accounts file {shown}: {error}");
        let changed = fs::metadata(&self.path).and_then(|meta| meta.modified()).map_err(cannot)?;
        if self.read_at == Some(changed) {
            return Ok(());
        }
        self.hashes = parse(&fs::read_to_string(&self.path).map_err(cannot)?)
            .map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.read_at = Some(changed);
        Ok(())
    }
}

/// The rule for names on the wire.
fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.contains(char::is_control) && name != "*" && name != "-"
}

fn parse(text: &str) -> Result<BTreeMap<Vec<u8>, String>, String> {
    let mut hashes = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        // Names may hold colons, hashes may not begin otherwise.
        let (name, hash) =
            line.rsplit_once(":$").ok_or_else(|| format!("line {} is not `name:$argon2id$…`", number + 1))?;
        let hash = format!("${hash}");
        PasswordHash::new(&hash).map_err(|error| format!("line {}: {error}", number + 1))?;
        hashes.insert(name.as_bytes().to_vec(), hash);
    }
    Ok(hashes)
}

fn write(path: &Path, hashes: &BTreeMap<Vec<u8>, String>) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let beside = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    for (name, hash) in hashes {
        file.write_all(name)?;
        writeln!(file, ":{hash}")?;
    }
    file.sync_all()?;
    fs::rename(beside, path)
}

fn hash(secret: &str) -> Result<String, String> {
    let hash = Argon2::default().hash_password(secret.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| format!("cannot hash the secret: {error}"))
}

fn matches(hash: &str, secret: &[u8]) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(secret, &hash).is_ok())
}

/// A secret to be checked.
struct Check {
    address: Address,
    account: Vec<u8>,
    secret: Vec<u8>,
}

/// The thread that checks secrets; it ends when this is dropped.
pub struct Authenticator {
    checks: SyncSender<Check>,
}

impl Authenticator {
    /// Starts it.
    #[must_use]
    pub fn start(mut accounts: AccountsFile, mailboxes: Vec<Arc<Mailbox>>) -> Self {
        let (checks, waiting): (_, Receiver<Check>) = sync_channel(CHECKS_MAX);
        std::thread::spawn(move || {
            for Check { address, account, secret } in waiting {
                let accepted = accounts.verify(&account, &secret);
                mailboxes[address.thread].post(Mail::Verified { address, accepted });
            }
        });
        Self { checks }
    }

    /// Asks for a verdict, which comes by mail. False: too many wait.
    #[must_use]
    pub fn ask(&self, address: Address, account: &[u8], secret: &[u8]) -> bool {
        let check = Check { address, account: account.to_vec(), secret: secret.to_vec() };
        !matches!(self.checks.try_send(check), Err(TrySendError::Full(_)))
    }
}
