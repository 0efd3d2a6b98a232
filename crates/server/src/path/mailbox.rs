//! The way back: how answers and orders reach a network thread.
//!
//! Posting wakes the thread only when it sleeps: under load a turn finds its mail without a system call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::bundle::{Address, Bundle};
use crate::authenticator::Verdict;
use crate::newcomers::Arrival;

/// Something for a network thread.
pub enum Mail {
    /// A bundle with its answers.
    Answered(Box<Bundle>),
    /// A new connection to take care of.
    Adopt(Arrival),
    /// The verdict on a secret.
    Verified {
        /// Who logs in.
        address: Address,
        /// What was found.
        verdict: Verdict,
    },
    /// Close this connection (CLIENT KILL).
    Kill(Address),
    /// Stop: accept nothing, read nothing, leave when the last answer is written.
    Stop,
}

/// One network thread's mailbox, for mail of its tier.
pub struct Mailbox<M = Mail> {
    mail: Mutex<Vec<M>>,
    sleeping: AtomicBool,
    waker: mio::Waker,
}

impl<M> Mailbox<M> {
    /// A mailbox whose owner is woken by `waker`.
    #[must_use]
    pub fn new(waker: mio::Waker) -> Arc<Self> {
        Arc::new(Self { mail: Mutex::default(), sleeping: AtomicBool::new(false), waker })
    }

    /// Posts everything in `mail`, keeping its order.
    pub fn post_all(&self, mail: &mut Vec<M>) {
        if !mail.is_empty() {
            self.lock().append(mail);
            self.wake();
        }
    }

    /// Posts one piece.
    pub fn post(&self, mail: M) {
        self.lock().push(mail);
        self.wake();
    }

    /// For the owner, before it sleeps: from now on posting wakes it. False: there is mail, do not sleep.
    pub fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let empty = self.lock().is_empty();
        if !empty {
            self.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// For the owner, after it slept: takes what is there into `mail`, which must be empty.
    pub fn collect(&self, mail: &mut Vec<M>) {
        self.sleeping.store(false, Ordering::SeqCst);
        std::mem::swap(&mut *self.lock(), mail);
    }

    fn wake(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // Waking fails only when the poll is gone, and with it the thread.
            let _ = self.waker.wake();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<M>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
