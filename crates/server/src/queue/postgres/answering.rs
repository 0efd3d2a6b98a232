//! Writes the reply to a call into the bundles that asked, and tells waiting pops what that makes available.

use std::collections::HashMap;
use std::sync::RwLockReadGuard;

use posthaste_wire::operation::{Operation, Recipient};
use rustc_hash::FxHashSet;

use super::asking::Asked;
use super::names::Accounts;
use super::parked::{Due, Seat};
use super::store::Postgres;
use super::under_way::Since;
use crate::path::bundle::Bundle;
use crate::queue::counts::MessageCounts;
use crate::queue::rules::{Ask, Flow, Interest, News, Outcome};

/// The reply to a call while answers are written from it.
struct Answers<'a> {
    asked: &'a Asked,
    accounts: RwLockReadGuard<'a, Accounts>,
    /// Number of a request in the call, by its bundle and its place in that.
    ops: HashMap<(usize, usize), usize>,
    /// Messages that were sent, and what each makes available.
    sent: Vec<(u64, News)>,
    /// Messages that were handed out.
    taken: FxHashSet<u64>,
    /// What happened to messages.
    counts: MessageCounts,
    /// Pops that waited and have their answers.
    done: Vec<Seat>,
    /// Names of queues that were deleted.
    deleted: Vec<Box<[u8]>>,
}

impl<'a> Answers<'a> {
    fn new(asked: &'a Asked) -> Self {
        let positions = asked.positions.iter().enumerate();
        Self {
            asked,
            accounts: asked.era.accounts(),
            ops: positions.map(|(op, place)| ((place.bundle, place.request), op)).collect(),
            sent: Vec::new(),
            taken: FxHashSet::default(),
            counts: asked.replies.counts,
            done: Vec::new(),
            deleted: Vec::new(),
        }
    }

    /// Writes the answers of the call's bundle with this number. Returns what its next pop waits for, if any.
    fn write(&mut self, number: usize, seat: &mut Option<Seat>, bundle: &mut Bundle) -> Option<Interest> {
        while let Some(&op) = self.ops.get(&(number, bundle.answered)) {
            self.note(op, bundle);
            let (removed, account) = (bundle.progress.removal.messages, self.accounts.number(bundle));
            let (ask, mut answer) = bundle.next_ask()?;
            let ask = Ask { account, ..ask };
            match self.asked.replies.write(op, ask, removed, &self.accounts, &mut answer) {
                Flow::Done(outcome) => {
                    self.done.extend(seat.take());
                    if let (Some(Operation::DeleteQueue { queue }), Outcome::Ok) =
                        (bundle.next_operation(), outcome)
                    {
                        self.deleted.push(queue.of(&bundle.bytes).into());
                    }
                    bundle.finish_one(outcome);
                }
                Flow::Waits(interest) => return Some(interest),
            }
        }
        None
    }

    /// Notes what the next request of a bundle did, which has the number `op` in the call.
    fn note(&mut self, op: usize, bundle: &Bundle) {
        let replies = &self.asked.replies;
        if let Some(queue) = replies.sent_to(op) {
            let news = sent(bundle, queue, &self.accounts);
            self.sent.extend(replies.sent_ids(op).into_iter().zip(news.into_iter().cycle()));
        }
        let operation = bundle.next_operation();
        let done = operation.and_then(|operation| replies.done_to_messages(op, operation));
        done.into_iter().for_each(|(event, messages)| self.counts.add(event, messages));
        match operation {
            Some(Operation::Pop(_)) => self.taken.extend(replies.message_ids(op)),
            Some(Operation::Send(one)) if one.to == Recipient::Everyone => {
                replies.copies(op).into_iter().for_each(|copies| self.asked.era.note_copies(copies));
            }
            _ => {}
        }
    }

    /// Returns the news for waiting pops. A message that was sent and taken in this call is no news. Of several equal
    /// pieces one is enough: a pop that gets something passes it on.
    fn news(&self) -> Vec<News> {
        let stays = self.sent.iter().filter(|(id, _)| !self.taken.contains(id)).map(|(_, news)| *news);
        let mut news: Vec<News> = stays.chain(self.asked.replies.news.iter().copied()).collect();
        news.sort_unstable();
        news.dedup();
        news
    }
}

impl Postgres {
    /// Writes every answer; pops that found nothing and may wait are parked.
    pub(super) fn answer(&self, due: Vec<Due>, asked: &Asked, since: Since, finished: &mut Vec<Box<Bundle>>) {
        let (now, stamp) = (self.shared.time.millis(), self.clock.stamp());
        let mut parked = self.shared.parked();
        let mut answers = Answers::new(asked);
        for (number, Due { mut seat, mut bundle }) in due.into_iter().enumerate() {
            let Some(interest) = answers.write(number, &mut seat, &mut bundle) else {
                finished.push(bundle);
                continue;
            };
            let until = bundle.pop_deadline(now, stamp);
            if let Some(mut over) = parked.park(Due { seat, bundle }, interest, until, since) {
                over.answer_empty();
                finished.push(over);
            }
        }
        self.shared.count_all(&answers.counts);
        let news = answers.news();
        if let Some(keeper) = &self.keeper {
            keeper.publish(&news);
        }
        if parked.needs_news(1) {
            news.into_iter().for_each(|news| parked.tell(news));
        }
        answers.done.into_iter().for_each(|seat| parked.done(seat));
        drop(parked);
        if !answers.deleted.is_empty() {
            let mut floors = self.shared.floors();
            answers.deleted.iter().for_each(|queue| floors.forget_queue(queue));
        }
    }
}

/// Returns what a SEND that was done makes available; None if it is delayed or goes to everyone.
fn sent(bundle: &Bundle, queue: u64, accounts: &Accounts) -> Option<News> {
    let available = |recipient| News::Available { queue, sender: accounts.number(bundle), recipient };
    match bundle.next_operation()? {
        Operation::SendMany { .. } => Some(available(None)),
        Operation::Send(send) if send.delay_ms == 0 => match send.to {
            Recipient::Anyone => Some(available(None)),
            Recipient::Account(name) => accounts.id(name.of(&bundle.bytes)).map(|id| available(Some(id))),
            Recipient::Everyone => None,
        },
        _ => None,
    }
}
