//! The way back: how answers and orders reach a network thread.
//!
//! Posting wakes the thread only when it sleeps: under load a turn finds its mail without a system call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::gate::Arrival;

/// What lies in a mailbox.
pub(super) enum Letter<M> {
    /// A new connection to take care of.
    Adopt(Arrival),
    /// Stop: accept nothing, read nothing, leave when the last answer is written.
    Stop,
    /// What the tier has to say.
    Tier(M),
}

/// What lies there, and whether anybody will ever take it.
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
    /// A mailbox whose owner is woken by `waker`.
    #[must_use]
    pub fn new(waker: mio::Waker) -> Arc<Self> {
        let mail = Mutex::new(Mail { letters: Vec::new(), is_closed: false });
        Arc::new(Self { mail, sleeping: AtomicBool::new(false), waker })
    }

    /// Posts everything in `mail`, keeping its order; what the owner is not there to take any more is dropped.
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

    /// Posts one piece.
    pub fn post(&self, mail: M) {
        self.put(Letter::Tier(mail));
    }

    /// Has the owner take care of a new connection. If the owner has ended, it comes back.
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

    /// Has the owner stop: it accepts nothing, reads nothing, and leaves when the last answer is written. The thread that
    /// accepts passes it on to all others, behind all that it has dealt out.
    pub fn stop(&self) {
        self.put(Letter::Stop);
    }

    /// Whether the owner sleeps, or is about to: whoever posts next wakes it.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        self.sleeping.load(Ordering::SeqCst)
    }

    /// For the owner, before it sleeps: from now on posting wakes it. False: there is mail, do not sleep.
    pub(super) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let empty = self.lock().letters.is_empty();
        if !empty {
            self.sleeping.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// For the owner, after it slept: takes what is there into `mail`, which must be empty.
    pub(super) fn collect(&self, mail: &mut Vec<Letter<M>>) {
        self.sleeping.store(false, Ordering::SeqCst);
        std::mem::swap(&mut self.lock().letters, mail);
    }

    /// For the owner, when it ends: nobody is taken care of any more. What was not taken from it.
    pub(super) fn close(&self) -> Vec<Letter<M>> {
        let mut mail = self.lock();
        mail.is_closed = true;
        std::mem::take(&mut mail.letters)
    }

    /// Whoever waits for an answer to it learns of an owner that has ended by its being dropped.
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
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
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
