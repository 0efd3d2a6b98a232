//! The way back: what others tell a network thread of the queue tier.

use super::bundle::{Address, Bundle};
use crate::authenticator::Verdict;

/// Mail for a network thread.
pub enum Mail {
    /// A bundle with its answers.
    Answered(Box<Bundle>),
    /// The verdict on a secret.
    Verified {
        /// Who logs in.
        address: Address,
        /// What was found.
        verdict: Verdict,
    },
    /// Close this connection (CLIENT KILL).
    Kill(Address),
}

/// A network thread's mailbox.
pub type Mailbox = crate::front::mailbox::Mailbox<Mail>;
