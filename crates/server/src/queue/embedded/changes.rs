//! Which reads have to wait for a commit, because a crash could still undo what they would see.
//!
//! A message just sent is recognised by its number, which is above all durable ones. One that was taken or came back
//! is not. So each commit notes which queues and accounts it concerns until it is durable, and a read of one of them
//! waits for that commit. Notes grow with the different queues and accounts in a batch; nothing is kept per message.
//!
//! A change of a message that cannot be read now (a leased one, say) concerns its readers from the moment when they
//! could have read it: when its lease would have ended, or will end.
//!
//! An account that became known is noted too, since its number may have been given out long before.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};

use super::message::Message;
use crate::queue::rules::{AccountId, Millis, QueueId};

/// Number of notes for which memory is kept from one commit to the next.
const NOTES_KEPT: usize = 1024;

/// Notes of the commit under way, and of the next one.
#[derive(Default)]
pub(super) struct Changes {
    sealed: Notes,
    open: Notes,
}

/// The queues and accounts that one commit concerns, each with the time from which on it does.
#[derive(Default)]
struct Notes {
    /// Queues that a message left or came back to.
    queues: FxHashMap<QueueId, Millis>,
    /// Senders of those messages.
    senders: FxHashMap<AccountId, Millis>,
    /// Recipients who may be able to read from other queues after the commit than before it.
    recipients: FxHashMap<AccountId, Millis>,
    /// Accounts that became known.
    known: FxHashSet<AccountId>,
    /// Whether a queue was emptied, which concerns any sender and any recipient.
    emptied: bool,
    /// Whether a queue was removed.
    gone: bool,
}

impl Changes {
    /// Notes that a message leaves its place, or comes back to it.
    pub(super) fn note(&mut self, message: &Message) {
        let from = if message.is_ready() { 0 } else { message.timer().unwrap_or(0) };
        let (lane, notes) = (message.place.lane, &mut self.open);
        note(&mut notes.queues, lane.queue, from);
        note(&mut notes.senders, lane.sender, from);
        if !message.is_ready() {
            note(&mut notes.recipients, lane.recipient, from);
        }
    }

    /// Notes that there is one queue more, or one less, with messages for this recipient.
    pub(super) fn note_recipient(&mut self, recipient: AccountId) {
        note(&mut self.open.recipients, recipient, 0);
    }

    /// Notes that an account becomes known.
    pub(super) fn note_known(&mut self, account: AccountId) {
        self.open.known.insert(account);
    }

    /// Notes that a queue's messages are removed.
    pub(super) fn note_emptied(&mut self, queue: QueueId) {
        note(&mut self.open.queues, queue, 0);
        self.open.emptied = true;
    }

    /// Notes that a queue is removed.
    pub(super) fn note_gone(&mut self) {
        self.open.gone = true;
    }

    /// Assigns what was noted to the commit that is on its way to the disk from now on. The one before it is durable.
    pub(super) fn seal(&mut self) {
        std::mem::swap(&mut self.sealed, &mut self.open);
    }

    /// Forgets the notes of the commit under way, which is durable now.
    pub(super) fn settle(&mut self) {
        self.sealed.clear();
    }

    /// Returns whether readers of this queue find what they would find after a crash.
    pub(super) fn is_queue_durable(&self, queue: QueueId, now: Millis) -> bool {
        self.all(|notes| is_unconcerned(&notes.queues, queue, now))
    }

    /// Returns whether readers of this sender's messages in all queues find what they would find after a crash.
    pub(super) fn is_sender_durable(&self, sender: AccountId, now: Millis) -> bool {
        self.all(|notes| !notes.emptied && is_unconcerned(&notes.senders, sender, now))
    }

    /// Returns whether the same queues would hold something for this recipient after a crash.
    pub(super) fn is_recipient_durable(&self, recipient: AccountId, now: Millis) -> bool {
        self.all(|notes| !notes.emptied && is_unconcerned(&notes.recipients, recipient, now))
    }

    /// Returns whether this account, if it is known, would be known after a crash too.
    pub(super) fn is_account_durable(&self, account: AccountId) -> bool {
        self.all(|notes| !notes.known.contains(&account))
    }

    /// Returns whether no removal of a queue is still to become durable.
    pub(super) fn are_names_durable(&self) -> bool {
        self.all(|notes| !notes.gone)
    }

    fn all(&self, is_durable: impl Fn(&Notes) -> bool) -> bool {
        is_durable(&self.sealed) && is_durable(&self.open)
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

fn is_unconcerned<Id: Eq + Hash>(notes: &FxHashMap<Id, Millis>, id: Id, now: Millis) -> bool {
    notes.get(&id).is_none_or(|from| now < *from)
}
