//! Registers every account in the accounts file with the store, even if it has never logged in: `TO *` then reaches it,
//! and ACCOUNTS lists it.
//!
//! A thread of its own checks the file. The authenticator reads it too, but only at a login, and a login must not wait
//! until an unreachable store has registered other accounts. An account that was removed from the file stays
//! registered, like any that ever logged in.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use crate::accounts::AccountsFile;
use crate::path::worker::Store;

/// How often the thread checks whether the file has changed.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A handle to the thread, which ends when this is dropped.
pub struct AccountRegistrar {
    _stop: Sender<Infallible>,
}

impl AccountRegistrar {
    /// Registers all accounts in the file with the store, now and, by a thread, whenever the file has changed.
    ///
    /// # Errors
    /// What is wrong with the file, or that the system gives no thread.
    pub fn start(path: &Path, store: &Arc<dyn Store>) -> Result<Self, String> {
        let mut file = AccountsFile::open(path)?;
        let mut registered = HashSet::new();
        register_new(&file, &mut registered, store);
        let (stop, stopped) = channel();
        let store = Arc::downgrade(store);
        let check_repeatedly = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(CHECK_EVERY) {
                let Some(store) = store.upgrade() else { return };
                // The authenticator logs why a file cannot be used.
                let _ = file.reload();
                register_new(&file, &mut registered, &store);
            }
        };
        Builder::new().name("registrar".into()).spawn(check_repeatedly).map_err(|error| error.to_string())?;
        Ok(Self { _stop: stop })
    }
}

/// Registers the accounts that are not registered yet. One that the store cannot record, because its disk is full or an
/// open transaction keeps the name, is tried again with the next check; meanwhile its own login may register it.
fn register_new(file: &AccountsFile, registered: &mut HashSet<Vec<u8>>, store: &Arc<dyn Store>) {
    for name in file.names() {
        if !registered.contains(name) && store.account(name).is_ok() {
            registered.insert(name.to_vec());
        }
    }
}
