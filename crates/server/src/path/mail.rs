//! What other threads send to a network thread of the queue tier: answers, login verdicts, connections to close.

use super::bundle::{Address, Bundle};
use crate::authenticator::Verdict;

/// Mail for a network thread.
pub enum Mail {
    /// A bundle with its answers.
    Answered(Box<Bundle>),
    /// The verdict on a secret.
    Verified {
        /// The connection that logs in.
        address: Address,
        /// What the check of the secret found.
        verdict: Verdict,
    },
    /// Close this connection (CLIENT KILL).
    Kill(Address),
}

/// A network thread's mailbox.
pub type Mailbox = crate::front::mailbox::Mailbox<Mail>;
