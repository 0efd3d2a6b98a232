//! Who may log in: anybody, or the accounts of a file with argon2 hashes.
//!
//! The file has one account a line, `name:hash`, the hash in PHC form (`$argon2id$…`), and behind it, with blanks between
//! them, what the account may do (`send=orders receive=orders.*`); nothing there is everything. It is read again when it
//! has changed, so an account added by `posthaste admin account add` works at once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

use crate::grants::Grants;

/// The accounts file, as last read.
pub struct AccountsFile {
    path: PathBuf,
    read_at: Option<SystemTime>,
    entries: Entries,
}

type Entries = BTreeMap<Vec<u8>, Entry>;

/// An account's line.
struct Entry {
    hash: String,
    /// None: everything.
    grants: Option<Arc<Grants>>,
}

impl AccountsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// A sentence that names the file, the line and what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut file = Self { path: path.to_owned(), read_at: None, entries: Entries::new() };
        file.refresh()?;
        Ok(file)
    }

    /// The account names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.keys().map(Vec::as_slice)
    }

    /// Adds an account or gives it a new secret; what it may do stays as it is unless `grants` says it anew. The file is
    /// replaced in one step and readable by its owner only.
    ///
    /// # Errors
    /// A sentence that says what could not be done.
    pub fn set(path: &Path, name: &str, secret: &str, grants: Option<Grants>) -> Result<(), String> {
        if !is_name(name) {
            return Err(format!(
                "{name:?} cannot be an account: 1 to 255 bytes, no control characters, not * or -"
            ));
        }
        let mut entries = if path.exists() { Self::open(path)?.entries } else { Entries::new() };
        let before = entries.remove(name.as_bytes()).and_then(|entry| entry.grants);
        let entry = Entry { hash: hash(secret)?, grants: grants.map(Arc::new).or(before) };
        entries.insert(name.as_bytes().to_vec(), entry);
        write(path, &entries).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Takes an account out; whether it was there.
    ///
    /// # Errors
    /// A sentence that says what could not be done.
    pub fn remove(path: &Path, name: &str) -> Result<bool, String> {
        let mut entries = Self::open(path)?.entries;
        let found = entries.remove(name.as_bytes()).is_some();
        write(path, &entries).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(found)
    }

    /// What the account may do, if the secret is its own. An unknown account costs as much time as a wrong secret.
    pub fn verify(&mut self, name: &[u8], secret: &[u8]) -> Option<Option<Arc<Grants>>> {
        // A file that cannot be read now leaves the accounts as they were.
        let _ = self.refresh();
        match self.entries.get(name) {
            Some(entry) => matches(&entry.hash, secret).then(|| entry.grants.clone()),
            None => {
                if let Some(any) = self.entries.values().next() {
                    matches(&any.hash, secret);
                }
                None
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
        self.entries = parse(&fs::read_to_string(&self.path).map_err(cannot)?)
            .map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.read_at = Some(changed);
        Ok(())
    }
}

/// The rule for names on the wire.
fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.contains(char::is_control) && name != "*" && name != "-"
}

fn parse(text: &str) -> Result<Entries, String> {
    let mut entries = Entries::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let wrong = |why: &dyn std::fmt::Display| format!("line {}: {why}", number + 1);
        // Names may hold colons, hashes may not begin otherwise.
        let (name, rest) =
            line.rsplit_once(":$").ok_or_else(|| format!("line {} is not `name:$argon2id$…`", number + 1))?;
        let (hash, grants) = rest.split_once(' ').unwrap_or((rest, ""));
        let hash = format!("${hash}");
        let parsed = PasswordHash::new(&hash).map_err(|error| wrong(&error))?;
        if parsed.hash.is_none() {
            return Err(wrong(&"it has no hash; `posthaste admin account add` writes one"));
        }
        let grants = Grants::parse(grants).map_err(|error| wrong(&error))?.map(Arc::new);
        entries.insert(name.as_bytes().to_vec(), Entry { hash, grants });
    }
    Ok(entries)
}

fn write(path: &Path, entries: &Entries) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let beside = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    for (name, Entry { hash, grants }) in entries {
        file.write_all(name)?;
        match grants {
            Some(grants) => writeln!(file, ":{hash} {grants}")?,
            None => writeln!(file, ":{hash}")?,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_keeps_what_it_may_do_when_its_secret_changes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("accounts.txt");
        let grants = Grants::parse("send=orders").expect("grants");
        AccountsFile::set(&path, "al:ice", "one", grants.clone()).expect("set");
        AccountsFile::set(&path, "bob", "two", None).expect("set");
        AccountsFile::set(&path, "al:ice", "three", None).expect("set");
        let mut file = AccountsFile::open(&path).expect("it is read back");
        assert_eq!(file.verify(b"al:ice", b"three"), Some(grants.map(Arc::new)));
        assert_eq!(file.verify(b"bob", b"two"), Some(None), "everything");
        assert_eq!(file.verify(b"al:ice", b"one"), None, "the old secret");
        assert_eq!(file.verify(b"carol", b"one"), None, "nobody");
    }

    #[test]
    fn a_wrong_line_is_named() {
        let good = format!("a:{}", hash("x").expect("a hash"));
        assert_eq!(parse(&good).expect("it is good").len(), 1);
        for (text, said) in [
            ("alice".to_owned(), "line 1 is not"),
            (format!("{good}\nb:$nothing"), "line 2: "),
            (format!("{good} sned=a"), "line 1: \"sned=a\" is no grant"),
        ] {
            let error = parse(&text).err().expect("it is wrong");
            assert!(error.contains(said), "{error}");
        }
    }
}
