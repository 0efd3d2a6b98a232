//! Who stands in the accounts file is known to the store, whether they have logged in or not: `TO *` reaches them, and ACCOUNTS
//! shows them.
//!
//! The file is looked at on a thread of its own. The authenticator reads it too, but only when somebody logs in, and who logs
//! in is not to wait until a store that cannot be reached has taken note of others. Who was taken out of the file stays
//! known, as does everybody who ever logged in.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use crate::accounts::AccountsFile;
use crate::path::worker::Store;

/// How often it is looked whether the file has changed.
const LOOK: Duration = Duration::from_secs(1);

/// The thread; it ends when this is dropped.
pub struct Roll {
    _stop: Sender<Infallible>,
}

impl Roll {
    /// Has the store know everybody in the file, now and when the file has changed.
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
                // Of a file that cannot be used the authenticator tells.
                let _ = file.look_again();
                enter(&file, &mut known, &store);
            }
        };
        Builder::new().name("roll".into()).spawn(watch).map_err(|error| error.to_string())?;
        Ok(Self { _stop: stop })
    }
}

/// Tells the store of those it was not told of. Whom it cannot take note of, on a full disk, it is told of again with the next
/// look: he may log in all the same as soon as there is space.
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
