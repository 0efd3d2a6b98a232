//! Registers every account in the file with the store, even if it has never logged in: `TO *` reaches it, and ACCOUNTS
//! lists it.
//!
//! The file is checked on a thread of its own. The authenticator reads it too, but only at a login, and a login must
//! not wait until an unreachable store has registered other accounts. An account that was removed from the file stays
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
const LOOK: Duration = Duration::from_secs(1);

/// A handle to the thread, which ends when this is dropped.
pub struct Roll {
    _stop: Sender<Infallible>,
}

impl Roll {
    /// Registers all accounts in the file with the store, now and whenever the file has changed.
    ///
    /// # Errors
    /// What is wrong with the file, or that the system gives no thread.
    pub fn keep(path: &Path, store: &Arc<dyn Store>) -> Result<Self, String> {
        let mut file = AccountsFile::open(path)?;
        let mut known = HashSet::new();
        enter(&file, &mut known, store);
        let (stop, stopped) = channel();
        let store = Arc::downgrade(store);
        let watch = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK) {
                let Some(store) = store.upgrade() else { return };
                // The authenticator logs why a file cannot be used.
                let _ = file.look_again();
                enter(&file, &mut known, &store);
            }
        };
        Builder::new().name("roll".into()).spawn(watch).map_err(|error| error.to_string())?;
        Ok(Self { _stop: stop })
    }
}

/// Registers the accounts that the store was not yet told of. Those that it cannot record, on a full disk, are tried
/// again at the next look; until then such an account can log in once there is space.
fn enter(file: &AccountsFile, known: &mut HashSet<Vec<u8>>, store: &Arc<dyn Store>) {
    for name in file.names() {
        if !known.contains(name) {
            if store.account(name).is_err() {
                return;
            }
            known.insert(name.to_vec());
        }
    }
}
