//! For whom a crash could still unmake what became of durable messages.
//!
//! A message just sent is told by its number, which is above all durable ones. One that was taken, or came back, is not: its
//! number says nothing. So every commit has notes of whom it concerns, which are kept until it is done, and a read that
//! finds itself there waits for that commit. Notes are as many as a batch is various; nothing is kept per message, and where
//! nothing is under way nobody looks.
//!
//! What becomes of a message that nobody can read, one that is leased perhaps, concerns its readers from the moment when
//! they could have read it: when its lease would have been over, or will be.
//!
//! Of an account it is noted that it became known, for its number may have been given out long before.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};

use super::message::Message;
use crate::queue::rules::{AccountId, Millis, QueueId};

/// Room for so many notes is kept from one commit to the next.
const NOTES_KEPT: usize = 1024;

/// Notes of the commit under way, and of what goes with the next one.
#[derive(Default)]
pub(super) struct Changes {
    sealed: Notes,
    open: Notes,
}

/// Whom one commit concerns, each from some moment on.
#[derive(Default)]
struct Notes {
    /// Queues that a message left or came back to.
    queues: FxHashMap<QueueId, Millis>,
    /// Who sent it.
    senders: FxHashMap<AccountId, Millis>,
    /// Whom it is for, where a queue may be one that they can read from only before it or only afterwards.
    recipients: FxHashMap<AccountId, Millis>,
    /// Accounts that became known.
    known: FxHashSet<AccountId>,
    /// A queue's messages went, whoever sent them and whomever they are for.
    emptied: bool,
    /// A queue went.
    gone: bool,
}

impl Changes {
    /// This message leaves its place, or comes there again.
    pub(super) fn note(&mut self, message: &Message) {
        let from = if message.is_ready() { 0 } else { message.alarm().unwrap_or(0) };
        let (lane, notes) = (message.place.lane, &mut self.open);
        note(&mut notes.queues, lane.queue, from);
        note(&mut notes.senders, lane.sender, from);
        if !message.is_ready() {
            note(&mut notes.recipients, lane.recipient, from);
        }
    }

    /// For this recipient there is something to read in one queue more, or less.
    pub(super) fn note_recipient(&mut self, recipient: AccountId) {
        note(&mut self.open.recipients, recipient, 0);
    }

    /// This account becomes known.
    pub(super) fn note_known(&mut self, account: AccountId) {
        self.open.known.insert(account);
    }

    /// A queue's messages go.
    pub(super) fn note_emptied(&mut self, queue: QueueId) {
        note(&mut self.open.queues, queue, 0);
        self.open.emptied = true;
    }

    /// A queue goes.
    pub(super) fn note_gone(&mut self) {
        self.open.gone = true;
    }

    /// What was noted is on its way to the disk. What was before is there.
    pub(super) fn seal(&mut self) {
        std::mem::swap(&mut self.sealed, &mut self.open);
    }

    /// It is there.
    pub(super) fn settle(&mut self) {
        self.sealed.clear();
    }

    /// Whether readers of this queue find what they would find after a crash.
    pub(super) fn spare_queue(&self, queue: QueueId, now: Millis) -> bool {
        self.all(|notes| spare(&notes.queues, queue, now))
    }

    /// The same of this sender's messages in all queues.
    pub(super) fn spare_sender(&self, sender: AccountId, now: Millis) -> bool {
        self.all(|notes| !notes.emptied && spare(&notes.senders, sender, now))
    }

    /// Whether the same queues hold something for this recipient.
    pub(super) fn spare_recipient(&self, recipient: AccountId, now: Millis) -> bool {
        self.all(|notes| !notes.emptied && spare(&notes.recipients, recipient, now))
    }

    /// Whether this account would be known after a crash too, if it is.
    pub(super) fn spare_account(&self, account: AccountId) -> bool {
        self.all(|notes| !notes.known.contains(&account))
    }

    /// Whether no queue goes.
    pub(super) fn spare_names(&self) -> bool {
        self.all(|notes| !notes.gone)
    }

    fn all(&self, spared: impl Fn(&Notes) -> bool) -> bool {
        spared(&self.sealed) && spared(&self.open)
    }
}

impl Notes {
    fn clear(&mut self) {
        self.queues.clear();
        self.queues.shrink_to(NOTES_KEPT);
        for accounts in [&mut self.senders, &mut self.recipients] {
            accounts.clear();
            accounts.shrink_to(NOTES_KEPT);
        }
        self.known.clear();
        self.known.shrink_to(NOTES_KEPT);
        (self.emptied, self.gone) = (false, false);
    }
}

fn note<Id: Eq + Hash>(notes: &mut FxHashMap<Id, Millis>, id: Id, from: Millis) {
    notes.entry(id).and_modify(|known| *known = from.min(*known)).or_insert(from);
}

fn spare<Id: Eq + Hash>(notes: &FxHashMap<Id, Millis>, id: Id, now: Millis) -> bool {
    notes.get(&id).is_none_or(|from| now < *from)
}
