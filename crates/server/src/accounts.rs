//! Accounts: which may log in with which secret and what each may do, read from a file with argon2 hashes.
//!
//! The file has one account a line, `name:hash`, the hash in PHC form (`$argon2id$…`), followed by what the account may
//! do, separated by blanks (`send=orders receive=orders.*`); nothing there means everything. The file is read again
//! when it has changed, so an account added by `posthaste admin account add` works at once. If the file becomes
//! unusable, what was read before stays in force, and the log and the metrics say so: otherwise an account that was
//! removed would stay valid unnoticed.
//!
//! A hash that cannot be checked, or only in minutes and gigabytes, is refused when the file is read, not at a login:
//! secrets are checked one after the other.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, MIN_SALT_LEN, Params, Version};
use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use tempfile::NamedTempFile;

use crate::grants::Grants;

/// Most memory of one check in KiB, and most memory times passes: some ten seconds.
const MEMORY_KIB_MAX: u32 = 1 << 20;
const WORK_KIB_MAX: u64 = 1 << 24;

/// A file that was changed less than this ago may change once more without a visible difference: file systems keep times
/// in steps of up to two seconds.
const FILE_TIME_STEP: Duration = Duration::from_secs(2);

/// Accounts with their hashes and what they may do, as in the file.
#[derive(Default)]
pub struct Accounts {
    entries: BTreeMap<String, Entry>,
}

/// The account does not exist, or has another secret. Which of them is not for the client to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongCredentials;

/// One account's line.
struct Entry {
    hash: String,
    /// What the account may do; None: everything.
    grants: Option<Arc<Grants>>,
}

impl Accounts {
    fn verify(&self, name: &[u8], secret: &[u8]) -> Result<Option<Arc<Grants>>, WrongCredentials> {
        match self.entry(name) {
            Some(entry) if matches(&entry.hash, secret) => Ok(entry.grants.clone()),
            Some(_) => Err(WrongCredentials),
            None => {
                // An unknown account must cost as much time as a wrong secret.
                if let Some(other) = self.entries.values().next() {
                    matches(&other.hash, secret);
                }
                Err(WrongCredentials)
            }
        }
    }

    fn entry(&self, name: &[u8]) -> Option<&Entry> {
        std::str::from_utf8(name).ok().and_then(|name| self.entries.get(name))
    }

    fn hash_of(&self, name: &[u8]) -> Option<&str> {
        self.entry(name).map(|entry| entry.hash.as_str())
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        // Names may contain colons; a hash always begins with `$`.
        let (name, rest) = line.rsplit_once(":$").ok_or("it is not `name:$argon2id$…`")?;
        let (hash, grants) = rest.split_once(' ').unwrap_or((rest, ""));
        check_name(name)?;
        let hash = format!("${hash}");
        check_hash(&PasswordHash::new(&hash).map_err(|error| error.to_string())?)?;
        let grants = Grants::parse(grants)?.map(Arc::new);
        match self.entries.insert(name.to_owned(), Entry { hash, grants }) {
            None => Ok(()),
            Some(_) => Err(format!("account {name:?} is there already")),
        }
    }
}

impl FromStr for Accounts {
    type Err = String;

    /// Which line is wrong, and what is wrong with it.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut accounts = Self::default();
        // Editors of some systems begin a file with a byte order mark, which is no part of the first name.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty()) {
            accounts.add(line).map_err(|why| format!("line {number}: {why}"))?;
        }
        Ok(accounts)
    }
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|(name, Entry { hash, grants })| match grants {
            Some(grants) => writeln!(f, "{name}:{hash} {grants}"),
            None => writeln!(f, "{name}:{hash}"),
        })
    }
}

/// Distinguishes a version of the file from earlier ones, and from another file in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// Time of the last status change, which no program can set.
    changed: (i64, i64),
}

impl FileVersion {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns whether any change from now on will be noticed; one in the same step of the file system's clock would
    /// not.
    fn is_settled(&self, now: SystemTime) -> bool {
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(self.changed.0.max(0).cast_unsigned());
        now.duration_since(changed).is_ok_and(|since| since > FILE_TIME_STEP)
    }
}

/// The accounts file, as last read.
pub struct AccountsFile {
    path: PathBuf,
    /// The version that was read; None: the file must be read again.
    version: Option<FileVersion>,
    accounts: Accounts,
    /// Why the file could not be used when it was last checked; None: it could.
    fault: Option<String>,
}

impl AccountsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// A sentence that names the file, the line and what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut file =
            Self { path: path.to_owned(), version: None, accounts: Accounts::default(), fault: None };
        file.read_if_changed()?;
        Ok(file)
    }

    /// Returns the account names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.accounts.entries.keys().map(String::as_bytes)
    }

    /// Returns the accounts by name, and what each may do (None: everything).
    pub fn grants(&self) -> impl Iterator<Item = (&str, Option<&Grants>)> {
        self.accounts.entries.iter().map(|(name, entry)| (name.as_str(), entry.grants.as_deref()))
    }

    /// Adds an account or gives it a new secret; what it may do stays as it is unless `grants` is given. The file
    /// (behind symbolic links) is replaced atomically, and keeps its owner, group and mode; a new one is readable by
    /// its owner only. Returns whether the account existed.
    ///
    /// # Errors
    /// A sentence that says what could not be done.
    pub fn set(path: &Path, name: &str, secret: &str, grants: Option<Grants>) -> Result<bool, String> {
        check_name(name)?;
        let hash = hash_secret(secret)?; // before the lock, as it takes long
        let path = &resolve_links(path);
        let directory = lock_directory(path)?;
        let mut accounts = if path.exists() { Self::open(path)?.accounts } else { Accounts::default() };
        let before = accounts.entries.remove(name);
        let was_there = before.is_some();
        let grants = grants.map(Arc::new).or(before.and_then(|entry| entry.grants));
        accounts.entries.insert(name.to_owned(), Entry { hash, grants });
        replace(path, &accounts, &directory)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(was_there)
    }

    /// Removes an account, and returns whether it existed.
    ///
    /// # Errors
    /// A sentence that says what could not be done.
    pub fn remove(path: &Path, name: &str) -> Result<bool, String> {
        let path = &resolve_links(path);
        let directory = lock_directory(path)?;
        let mut accounts = Self::open(path)?.accounts;
        if accounts.entries.remove(name).is_none() {
            return Ok(false);
        }
        replace(path, &accounts, &directory)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(true)
    }

    /// Returns whether the file could be used when it was last checked, at a login.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.fault.is_none()
    }

    /// Returns what the account may do (None: everything), if the secret is right. An unknown account costs as much time
    /// as a wrong secret.
    ///
    /// # Errors
    /// No such account, or another secret.
    pub fn verify(&mut self, name: &[u8], secret: &[u8]) -> Result<Option<Arc<Grants>>, WrongCredentials> {
        self.reload_and_log();
        self.accounts.verify(name, secret)
    }

    /// Returns what the account may do (None: everything), as the file was last read, when the secret is known to be
    /// right.
    ///
    /// # Errors
    /// The account does not exist any more.
    pub fn grants_of(&self, name: &[u8]) -> Result<Option<Arc<Grants>>, WrongCredentials> {
        self.accounts.entry(name).map(|entry| entry.grants.clone()).ok_or(WrongCredentials)
    }

    /// Logs that nobody can log in, if there is no account.
    pub fn warn_if_empty(&self) {
        if self.accounts.entries.is_empty() {
            let path = self.path.display();
            tracing::warn!(
                "{path} names no account, so nobody can log in; \
                 `posthaste admin account add NAME --file {path}` adds one"
            );
        }
    }

    /// Reads the file if it has changed, and logs why it cannot be used if the reason is new.
    pub fn reload_and_log(&mut self) {
        if let Some(fault) = self.reload() {
            tracing::error!(
                "{fault}; accounts stay as they were read before, whoever was removed since included"
            );
        }
    }

    /// Returns a keyed digest of the secret and the account's entry as last read: it changes when either does.
    #[must_use]
    pub fn digest(&self, name: &[u8], secret: &[u8], keys: &RandomState) -> u64 {
        keys.hash_one((self.accounts.hash_of(name), secret))
    }

    /// Reads the file if it has changed, and returns why it cannot be used if the reason is new.
    pub fn reload(&mut self) -> Option<String> {
        let fault = self.read_if_changed().err();
        let new_fault = fault.clone().filter(|_| fault != self.fault);
        self.fault = fault;
        new_fault
    }

    fn read_if_changed(&mut self) -> Result<(), String> {
        let shown = self.path.display();
        let cannot = |error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => "; `posthaste admin account add NAME --file FILE` makes one",
                _ => "",
            };
            format!("cannot read the accounts file {shown}: {error}{advice}")
        };
        let now = SystemTime::now();
        let version = FileVersion::of(&fs::metadata(&self.path).map_err(cannot)?);
        if self.version == Some(version) {
            return Ok(());
        }
        let text = fs::read_to_string(&self.path).map_err(cannot)?;
        self.accounts = text.parse().map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.version = version.is_settled(now).then_some(version);
        Ok(())
    }
}

/// Returns whether this is a valid account name on the wire.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && !name.contains(char::is_control) && name != "*" && name != "-"
}

/// Checks that an accounts file can contain this name.
///
/// # Errors
/// What such a name is.
pub fn check_name(name: &str) -> Result<(), String> {
    match is_name(name) && !name.contains(":$") {
        true => Ok(()),
        false => Err(format!(
            "{name:?} cannot be an account: 1 to 255 bytes, no control characters, no `:$`, not * or -"
        )),
    }
}

/// Checks that secrets can be verified with a hash, in reasonable time.
fn check_hash(hash: &PasswordHash) -> Result<(), String> {
    if hash.hash.is_none() {
        return Err("it has no hash; `posthaste admin account add` writes one".into());
    }
    let is_known = Algorithm::from_str(hash.algorithm.as_str()).is_ok()
        && hash.version.is_none_or(|version| Version::try_from(version).is_ok());
    let params = Params::try_from(hash).ok().filter(|_| is_known);
    let params =
        params.ok_or("its hash is not of argon2; `posthaste admin account add` writes one that is")?;
    if hash.salt.as_ref().is_none_or(|salt| salt.len() < MIN_SALT_LEN) {
        return Err(format!("the salt of its hash is shorter than {MIN_SALT_LEN} bytes"));
    }
    let work_kib = u64::from(params.m_cost()) * u64::from(params.t_cost());
    if params.m_cost() > MEMORY_KIB_MAX || work_kib > WORK_KIB_MAX {
        return Err(format!(
            "its hash asks for m={}, t={}: m may be {MEMORY_KIB_MAX}, and m times t {WORK_KIB_MAX}",
            params.m_cost(),
            params.t_cost()
        ));
    }
    Ok(())
}

/// Returns the file behind symbolic links, be it there yet or not: a replacement must not take the place of a link.
fn resolve_links(path: &Path) -> PathBuf {
    /// As many as the system follows.
    const LINKS_MAX: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        // What is no link, or is not there, is the file; other errors are reported when it is opened.
        let Ok(target) = fs::read_link(&path) else { break };
        path = directory_of(&path).join(target);
    }
    path
}

/// Locks the directory, until the result is dropped, against other processes that change an accounts file there.
/// Otherwise one of two that read the file before either wrote it would undo the change of the other. The file itself
/// cannot be locked, as each change puts another in its place.
fn lock_directory(path: &Path) -> Result<File, String> {
    let dir = File::open(directory_of(path))
        .map_err(|error| format!("cannot change {}: {error}", path.display()))?;
    // Some file systems cannot lock directories, NFS for one: there simultaneous changes are the administrator's concern.
    let _ = retry_on_intr(|| flock(&dir, FlockOperation::LockExclusive));
    Ok(dir)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces the file and syncs its directory. Its server may run as another user than the one who changes accounts, and
/// must still be able to read it.
fn replace(path: &Path, accounts: &Accounts, directory: &File) -> io::Result<()> {
    // Created under a name that nobody can have prepared, readable by its owner alone.
    let mut file = NamedTempFile::new_in(directory_of(path))?;
    write!(file, "{accounts}")?;
    if path.exists() {
        let before = fs::metadata(path)?;
        fchown(file.as_file(), Some(before.uid()), Some(before.gid()))?;
        file.as_file().set_permissions(before.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    // Without this, a removed account could be back after a power failure.
    directory.sync_all()
}

fn hash_secret(secret: &str) -> Result<String, String> {
    let hash = Argon2::default().hash_password(secret.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| format!("cannot hash the secret: {error}"))
}

fn matches(hash: &str, secret: &[u8]) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(secret, &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

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
        assert_eq!(file.verify(b"al:ice", b"three"), Ok(grants.map(Arc::new)));
        assert_eq!(file.verify(b"bob", b"two"), Ok(None), "everything");
        assert_eq!(file.verify(b"al:ice", b"one"), Err(WrongCredentials), "the old secret");
        assert_eq!(file.verify(b"carol", b"one"), Err(WrongCredentials), "nobody");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("accounts.txt");
        AccountsFile::set(&path, "alice", "one", None).expect("set");
        let text = fs::read_to_string(&path).expect("it is there");
        fs::write(&path, format!("\u{feff}{text}")).expect("written");
        let mut file = AccountsFile::open(&path).expect("it is read back");
        assert_eq!(file.verify(b"alice", b"one"), Ok(None));
    }

    #[test]
    fn a_file_keeps_whose_it_is_when_accounts_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, victim) = (dir.path().join("accounts.txt"), dir.path().join("victim"));
        AccountsFile::set(&path, "alice", "one", None).expect("set");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(mode(&path), 0o600, "a new one is for its owner alone");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("a mode");
        // Only root can give it to somebody else; for others this shows the mode alone.
        let _ = chown(&path, Some(1234), Some(1235));
        let before = fs::metadata(&path).expect("it is there");
        fs::write(&victim, "").expect("written");
        symlink(&victim, path.with_extension("new")).expect("a link that waits for hashes");
        AccountsFile::set(&path, "bob", "two", None).expect("set");
        assert!(AccountsFile::remove(&path, "alice").expect("removed"));
        let after = fs::metadata(&path).expect("it is there");
        let of = |about: &fs::Metadata| (about.uid(), about.gid(), about.mode());
        assert_eq!(of(&after), of(&before));
        assert_eq!(fs::read_to_string(&victim).expect("read"), "");
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 3, "nothing is left beside it");
    }

    #[test]
    fn a_link_to_a_file_stays_one_when_accounts_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let (kept, used) = (dir.path().join("kept"), dir.path().join("used"));
        fs::create_dir(&kept).and_then(|()| fs::create_dir(&used)).expect("directories");
        let (file, link) = (kept.join("accounts.txt"), used.join("accounts.txt"));
        AccountsFile::set(&file, "alice", "one", None).expect("set");
        symlink("../kept/accounts.txt", &link).expect("a link");
        AccountsFile::set(&link, "bob", "two", None).expect("set");
        assert!(AccountsFile::remove(&link, "alice").expect("removed"));
        assert!(link.is_symlink());
        let accounts = AccountsFile::open(&file).expect("read");
        assert_eq!(accounts.names().collect::<Vec<_>>(), [b"bob"]);
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_yet_stays_one_too() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (file, link) = (dir.path().join("secrets"), dir.path().join("accounts.txt"));
        symlink("secrets", dir.path().join("between")).expect("a link");
        symlink("between", &link).expect("a link");
        AccountsFile::set(&link, "bob", "two", None).expect("set");
        assert!(link.is_symlink() && file.is_file());
        assert_eq!(AccountsFile::remove(&link, "alice"), Ok(false));
    }

    /// As when a script adds many.
    #[test]
    fn of_changes_at_once_none_is_lost_and_none_undone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("accounts.txt");
        for number in 0..4 {
            AccountsFile::set(&path, &format!("old{number}"), "x", None).expect("set");
        }
        std::thread::scope(|scope| {
            for number in 0..16 {
                let path = &path;
                scope.spawn(move || match number % 4 {
                    0 => assert_eq!(AccountsFile::remove(path, &format!("old{}", number / 4)), Ok(true)),
                    _ => assert_eq!(AccountsFile::set(path, &format!("new{number}"), "x", None), Ok(false)),
                });
            }
        });
        let file = AccountsFile::open(&path).expect("read");
        let names: Vec<_> = file.names().map(String::from_utf8_lossy).collect();
        assert!(names.len() == 12 && names.iter().all(|name| name.starts_with("new")), "{names:?}");
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_reported_once_and_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("accounts.txt");
        AccountsFile::set(&path, "alice", "one", None).expect("set");
        let mut file = AccountsFile::open(&path).expect("read");
        assert_eq!(file.reload(), None);
        let spoil = || fs::write(&path, "rubbish").expect("written");
        spoil();
        assert!(file.reload().is_some_and(|fault| fault.contains("line 1")));
        assert_eq!(file.reload(), None, "it was reported");
        assert_eq!(file.verify(b"alice", b"one"), Ok(None));
        fs::remove_file(&path).expect("removed");
        assert!(file.reload().is_some_and(|fault| fault.contains("cannot read")), "another reason");
        AccountsFile::set(&path, "bob", "two", None).expect("set");
        assert_eq!(file.reload(), None);
        assert_eq!(
            (file.verify(b"alice", b"one"), file.verify(b"bob", b"two")),
            (Err(WrongCredentials), Ok(None))
        );
        spoil();
        assert!(file.reload().is_some(), "the reason is new again");
    }

    #[test]
    fn a_change_that_leaves_length_and_time_is_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("accounts.txt");
        AccountsFile::set(&path, "alice", "one", None).expect("set");
        let mut file = AccountsFile::open(&path).expect("read");
        let before = fs::metadata(&path).and_then(|about| about.modified()).expect("its time");
        let text = fs::read_to_string(&path).expect("read").replace("alice", "alien");
        fs::write(&path, text).expect("written");
        let changed = fs::File::options().write(true).open(&path).expect("opened");
        changed.set_modified(before).expect("its time");
        assert_eq!(
            (file.verify(b"alice", b"one"), file.verify(b"alien", b"one")),
            (Err(WrongCredentials), Ok(None))
        );
    }

    #[test]
    fn a_file_is_read_again_until_its_time_can_tell_a_change() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let dir = tempfile::tempdir().expect("a directory");
        let version = FileVersion::of(&fs::metadata(dir.path()).expect("it is there"));
        let version = FileVersion { changed: (100, 999_999_999), ..version };
        for (now, settled) in [(99, false), (100, false), (102, false), (103, true), (1000, true)] {
            assert_eq!(version.is_settled(at(now)), settled, "{now}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let good = format!("a:{}", hash_secret("x").expect("a hash"));
        assert_eq!(good.parse::<Accounts>().expect("it is good").to_string(), format!("{good}\n"));
        const HASH: &str = "c2FsdHNhbHQ$aGFzaGhhc2hoYXNo";
        for (text, said) in [
            ("alice".to_owned(), "line 1: it is not"),
            (format!("{good}\n\nb:$nothing"), "line 3: "),
            (format!("{good}\n{good}"), "line 2: account \"a\" is there already"),
            (format!("{good} sned=a"), "line 1: \"sned=a\" is no grant"),
            (format!("*{}", &good[1..]), "line 1: \"*\" cannot be an account"),
            (format!("a:$pbkdf2$i=1${HASH}"), "line 1: its hash is not of argon2"),
            (format!("a:$argon2id$v=7$m=64,t=1,p=1${HASH}"), "line 1: its hash is not of argon2"),
            (format!("a:$argon2id$v=19$m=64,t=1,p=1,x=1${HASH}"), "line 1: its hash is not of argon2"),
            ("a:$argon2id$v=19$m=64,t=1,p=1".to_owned(), "line 1: it has no hash"),
            (
                format!("a:$argon2id$v=19$m=4294967295,t=1,p=1${HASH}"),
                "line 1: its hash asks for m=4294967295",
            ),
            (format!("a:$argon2id$v=19$m=64,t=4000000000,p=1${HASH}"), "t=4000000000: m may be"),
        ] {
            let error = text.parse::<Accounts>().err().expect("it is wrong");
            assert!(error.contains(said), "{error}");
        }
    }
}
