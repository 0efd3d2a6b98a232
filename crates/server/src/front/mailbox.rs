//! How answers and orders reach a network thread from other threads.
//!
//! Posting wakes the thread only if it sleeps: under load a turn finds its mail without a system call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use posthaste_measure::lock;

use super::gate::Arrival;

/// One message in a mailbox.
pub(super) enum Letter<M> {
    /// A new connection to serve.
    Adopt(Arrival),
    /// An order to stop: accept nothing, read nothing, end when the last answer is written.
    Stop,
    /// A message of the tier.
    Tier(M),
}

/// The messages, and whether the owner has ended.
struct Mail<M> {
    letters: Vec<Letter<M>>,
    is_closed: bool,
}

/// One network thread's mailbox, for mail of its tier.
pub struct Mailbox<M> {
    mail: Mutex<Mail<M>>,
    sleeping: AtomicBool,
    waker: mio::Waker,
}

impl<M> Mailbox<M> {
    /// Returns a mailbox whose owner is woken by `waker`.
    #[must_use]
    pub fn new(waker: mio::Waker) -> Arc<Self> {
        let mail = Mutex::new(Mail { letters: Vec::new(), is_closed: false });
        Arc::new(Self { mail, sleeping: AtomicBool::new(false), waker })
    }

    /// Posts everything in `mail`, keeping its order; if the owner has ended, it is dropped.
    pub fn post_all(&self, mail: &mut Vec<M>) {
        if mail.is_empty() {
            return;
        }
        let mut there = self.lock();
        if there.is_closed {
            drop(there);
            return mail.clear();
        }
        there.letters.extend(mail.drain(..).map(Letter::Tier));
        drop(there);
        self.wake();
    }

    /// Posts one message.
    pub fn post(&self, mail: M) {
        self.put(Letter::Tier(mail));
    }

    /// Gives the owner a new connection to serve; returns it if the owner has ended.
    #[must_use]
    pub fn adopt(&self, arrival: Arrival) -> Option<Arrival> {
        let mut mail = self.lock();
        if mail.is_closed {
            return Some(arrival);
        }
        mail.letters.push(Letter::Adopt(arrival));
        drop(mail);
        self.wake();
        None
    }

    /// Tells the owner to stop: it accepts nothing, reads nothing, and ends when the last answer is written. The thread
    /// that accepts passes the stop on to all others, after all connections that it has dealt out.
    pub fn stop(&self) {
        self.put(Letter::Stop);
    }

    /// Returns whether the owner sleeps, or is about to: the next post wakes it up.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst)
    }

    /// Called by the owner before it sleeps: from now on posting wakes it up. Returns false if there is mail, so that
    /// it must not sleep.
    pub(super) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let empty = self.lock().letters.is_empty();
        if !empty {
            self.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// Called by the owner after it slept: moves the mail into `mail`, which must be empty.
    pub(super) fn collect(&self, mail: &mut Vec<Letter<M>>) {
        self.sleeping.store(false, Ordering::SeqCst);
        std::mem::swap(&mut self.lock().letters, mail);
    }

    /// Called by the owner when it ends: later mail is dropped. Returns the mail that was not taken.
    pub(super) fn close(&self) -> Vec<Letter<M>> {
        let mut mail = self.lock();
        mail.is_closed = true;
        std::mem::take(&mut mail.letters)
    }

    /// Puts a letter in, or drops it if the owner has ended: a sender that waits for an answer notices the drop.
    fn put(&self, letter: Letter<M>) {
        let mut mail = self.lock();
        if mail.is_closed {
            return;
        }
        mail.letters.push(letter);
        drop(mail);
        self.wake();
    }

    fn wake(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // Waking fails only when the poll is gone, and with it the thread.
            let _ = self.waker.wake();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Mail<M>> {
        lock(&self.mail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_for_an_owner_that_has_ended_is_dropped_so_that_nobody_waits_for_an_answer_to_it() {
        let poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let mailbox = Mailbox::new(waker);
        let asked = Arc::new(());
        mailbox.post(Arc::clone(&asked));
        assert_eq!(mailbox.close().len(), 1);
        mailbox.post(Arc::clone(&asked));
        mailbox.post_all(&mut vec![Arc::clone(&asked), Arc::clone(&asked)]);
        assert_eq!(Arc::strong_count(&asked), 1);
    }
}
