//! How answers, new connections and the order to stop reach a network thread from other threads.
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
    /// An order to end now, whatever is not answered or written.
    Cut,
    /// A message of the tier.
    Tier(M),
}

/// The letters that the owner has not collected yet.
struct Inbox<M> {
    letters: Vec<Letter<M>>,
    /// Whether the owner has ended.
    is_closed: bool,
}

/// One network thread's mailbox, for mail of its tier.
pub struct Mailbox<M> {
    inbox: Mutex<Inbox<M>>,
    /// Whether the owner sleeps, or is about to.
    is_asleep: AtomicBool,
    waker: mio::Waker,
}

impl<M> Mailbox<M> {
    /// Returns a mailbox whose owner is woken by `waker`.
    #[must_use]
    pub fn new(waker: mio::Waker) -> Arc<Self> {
        let inbox = Mutex::new(Inbox { letters: Vec::new(), is_closed: false });
        Arc::new(Self { inbox, is_asleep: AtomicBool::new(false), waker })
    }

    /// Posts everything in `mail`, keeping its order; if the owner has ended, it is dropped.
    pub fn post_all(&self, mail: &mut Vec<M>) {
        if mail.is_empty() {
            return;
        }
        let mut inbox = self.lock();
        if inbox.is_closed {
            drop(inbox);
            return mail.clear();
        }
        inbox.letters.extend(mail.drain(..).map(Letter::Tier));
        drop(inbox);
        self.wake();
    }

    /// Posts one message.
    pub fn post(&self, mail: M) {
        self.put(Letter::Tier(mail));
    }

    /// Gives the owner a new connection to serve; returns it if the owner has ended.
    #[must_use]
    pub fn adopt(&self, arrival: Arrival) -> Option<Arrival> {
        let mut inbox = self.lock();
        if inbox.is_closed {
            return Some(arrival);
        }
        inbox.letters.push(Letter::Adopt(arrival));
        drop(inbox);
        self.wake();
        None
    }

    /// Tells the owner to stop: it accepts nothing, reads nothing, and ends when the last answer is written. The thread
    /// that accepts passes the stop on to all others, after all connections that it has distributed.
    pub fn stop(&self) {
        self.put(Letter::Stop);
    }

    /// Tells the owner to end now: connections that it still has are cut.
    pub fn cut(&self) {
        self.put(Letter::Cut);
    }

    /// Returns whether the owner sleeps, or is about to: the next post wakes it up.
    #[must_use]
    pub fn is_owner_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::SeqCst)
    }

    /// Marks the owner as asleep, so that posting wakes it up from now on. Returns false, and leaves it awake, if there
    /// is mail.
    pub(super) fn sleep_unless_mail(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_empty = self.lock().letters.is_empty();
        if !is_empty {
            self.is_asleep.store(false, Ordering::SeqCst);
        }
        is_empty
    }

    /// Marks the owner as awake, and moves all letters into `mail`, which must be empty.
    pub(super) fn collect(&self, mail: &mut Vec<Letter<M>>) {
        self.is_asleep.store(false, Ordering::SeqCst);
        std::mem::swap(&mut self.lock().letters, mail);
    }

    /// Marks the owner as ended, so that later mail is dropped, and returns the letters that were not collected.
    pub(super) fn close(&self) -> Vec<Letter<M>> {
        let mut inbox = self.lock();
        inbox.is_closed = true;
        std::mem::take(&mut inbox.letters)
    }

    /// Posts a letter, or drops it if the owner has ended: a sender that waits for an answer notices the drop.
    fn put(&self, letter: Letter<M>) {
        let mut inbox = self.lock();
        if inbox.is_closed {
            return;
        }
        inbox.letters.push(letter);
        drop(inbox);
        self.wake();
    }

    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            // Waking fails only when the poll is gone, and with it the thread.
            let _ = self.waker.wake();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inbox<M>> {
        lock(&self.inbox)
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
