//! The journals put together: operations in one list, messages with everything that was said of them.

use std::collections::{HashMap, HashSet};

use crate::body::{Body, Key};
use crate::delivery::{Handed, follow_leases, lease};
use crate::history::{History, Record};
use crate::life::{Life, lives};
use crate::limbo::Limbo;
use crate::message::Message;
use crate::names::{Name, Names};
use crate::operation::{Answer, Call, Delivery, Outcome, Select};
use crate::verdict::At;
use crate::{NEVER, Time, millis, pops};

/// An operation, with its client and account.
#[derive(Clone, Debug)]
pub(crate) struct Op<'a> {
    pub(crate) at: At,
    pub(crate) account: Name,
    pub(crate) begin: Time,
    pub(crate) end: Time,
    pub(crate) call: &'a Call,
    pub(crate) outcome: &'a Outcome,
    /// Whether it is part of the final drain.
    pub(crate) drain: bool,
    /// Index of the pop that this one repeats under the same key.
    pub(crate) repeats: Option<usize>,
}

impl Op<'_> {
    /// Returns whether this is an ACK, a NACK or an EXTEND that took effect.
    pub(crate) fn counted(&self) -> bool {
        matches!(self.outcome, Outcome::Ok(Answer::Number(1..)))
    }
}

/// A message that an answer showed, or what seemed to be one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) op: usize,
    pub(crate) delivery: &'a Delivery,
    /// Index of the message in [`Story::messages`]; None if nobody sent it.
    pub(crate) message: Option<u32>,
}

/// Everything that the rules look at.
#[derive(Debug)]
pub(crate) struct Story<'a> {
    pub(crate) names: &'a Names,
    /// Whether all operations are known, and all messages that were left at the end.
    pub(crate) whole: bool,
    pub(crate) known_until: Time,
    /// [`History::timers_late`].
    pub(crate) timers_late: Time,
    pub(crate) ops: Vec<Op<'a>>,
    pub(crate) messages: Vec<Message<'a>>,
    /// All deliveries, by message and in the order in which it was handed out.
    pub(crate) handed: Vec<Handed<'a>>,
    pub(crate) shown: Vec<Shown<'a>>,
    /// For each message, a time at or after which it was still there; 0 if no answer showed it.
    pub(crate) seen_last: Vec<Time>,
    /// Index in `handed` of the delivery that each receipt is of.
    pub(crate) receipts: HashMap<Key, usize>,
    by_body: HashMap<Body, u32>,
    pub(crate) lives: HashMap<Name, Life>,
    pub(crate) limbo: Limbo,
}

impl<'a> Story<'a> {
    /// Builds the story of a history.
    pub(crate) fn of(history: &'a History) -> Self {
        let known_until = history.known_until();
        let mut ops: Vec<_> = history
            .journals()
            .iter()
            .flat_map(|record| operations(record, history.limbo))
            .filter(|op| op.begin < known_until)
            .collect();
        pops::join(&mut ops);
        let (mut messages, by_body) = sends(&ops);
        let shown = shown(&ops, &by_body);
        let mut handed: Vec<_> = shown.iter().filter_map(|shown| handed_out(&ops, shown)).collect();
        arrange(&ops, &mut handed, &mut messages);
        let receipts = follow_leases(&ops, &mut handed, history.timers_late);
        for (i, shown) in shown.iter().enumerate() {
            let Some(message) = shown.message else { continue };
            let message = &mut messages[message as usize];
            message.was_moved |= shown.delivery.first_queue.is_some();
            if let Call::Browse { .. } = ops[shown.op].call {
                message.left = Some(i);
            }
        }
        let limbo = Limbo::of(&ops);
        let mut story = Self {
            names: history.names(),
            whole: history.is_whole(),
            known_until,
            timers_late: history.timers_late,
            seen_last: seen_last(&ops, &shown, messages.len()),
            lives: lives(&ops),
            ops,
            messages,
            handed,
            shown,
            receipts,
            by_body,
            limbo,
        };
        story.date();
        story
    }

    /// Returns the deliveries of a message, in the order in which it was handed out.
    pub(crate) fn handed(&self, message: &Message<'_>) -> &[Handed<'a>] {
        &self.handed[message.handed.clone()]
    }

    /// Returns the message that an answer showed, if a client sent it.
    pub(crate) fn message(&self, delivery: &Delivery) -> Option<&Message<'a>> {
        self.sent(&delivery.body)
    }

    /// Returns the message with this body.
    pub(crate) fn sent(&self, body: &Body) -> Option<&Message<'a>> {
        self.by_body.get(body).map(|number| &self.messages[*number as usize])
    }

    /// Returns the pops of unknown outcome, except those that a repeat answered.
    pub(crate) fn doubtful_pops(&self) -> impl Iterator<Item = &Op<'a>> {
        doubtful_pops(&self.ops)
    }

    /// Returns every POP and PEEK that was answered without error: operation, conditions, messages.
    pub(crate) fn reads(&self) -> impl Iterator<Item = (&Op<'a>, &'a Select, &'a [Delivery])> {
        self.ops.iter().filter_map(|op| match (op.call, op.outcome) {
            (Call::Pop(select) | Call::Peek(select), Outcome::Ok(Answer::Messages(messages))) => {
                Some((op, select, &**messages))
            }
            _ => None,
        })
    }

    /// Describes a message for the text of a violation.
    pub(crate) fn describe(&self, message: &Message<'_>) -> String {
        let (sender, queue) = (self.names.word(message.sender), self.names.word(message.send.queue));
        let body = match message.index {
            0 => String::new(),
            index => format!(" (body {})", index + 1),
        };
        match message.id {
            Some(id) => format!("message {id} of {sender} to queue {queue}{body}"),
            None => format!("the message of {sender} to queue {queue} in operation {}{body}", message.at),
        }
    }

    /// Computes for each message when it can have been there.
    fn date(&mut self) {
        let queue_of = |op: &Op<'_>| if let Call::Pop(select) = op.call { select.queue } else { None };
        let doubted: HashSet<Option<Name>> = self.doubtful_pops().map(queue_of).collect();
        let mut messages = std::mem::take(&mut self.messages);
        for message in &mut messages {
            self.came_and_went(message);
            let doubted = doubted.contains(&None) || doubted.contains(&Some(message.send.queue));
            self.went_unseen(message, self.whole || doubted);
        }
        self.messages = messages;
    }

    /// Computes a message's times from its deliveries, its queue's life and its time to live.
    fn came_and_went(&self, message: &mut Message<'_>) {
        let life = self.lives.get(&message.send.queue);
        let expires = match message.send.ttl_ms {
            0 => NEVER,
            ttl => message.begun.saturating_add(millis(ttl)),
        };
        let ends_from = life.map_or(NEVER, |life| life.ends_from(message.begun));
        let ended = life.filter(|_| message.acked < NEVER).and_then(|life| life.ended_by(message.acked));
        message.there_by = message.acked;
        message.ends_from = expires.min(ends_from);
        message.hidden_from = message.ends_from;
        message.removed_from = message.ends_from;
        message.removed_by = ended.map_or(NEVER, |(time, _)| time);
        for one in self.handed(message) {
            let op = &self.ops[one.op];
            message.there_by = message.there_by.min(op.end);
            message.hidden_from = message.hidden_from.min(op.begin);
            let maybe_won = one.lease.map_or(NEVER, |lease| lease.maybe_won);
            message.removed_from = message.removed_from.min(maybe_won);
            if let Some(taking) = one.taken_by().map(|taking| &self.ops[taking]) {
                message.removed_from = message.removed_from.min(taking.begin);
                message.removed_by = message.removed_by.min(taking.end);
            }
        }
    }

    /// Widens a message's times by what may have happened to it without an answer that shows it.
    fn went_unseen(&self, message: &mut Message<'_>, unseen: bool) {
        let handed = self.handed(message);
        let left = message.left.map(|shown| self.shown[shown].delivery.deliveries);
        let taken = handed.iter().any(|one| one.taken_by().is_some());
        if unseen && !taken && left.is_none() {
            // It is gone, or may be, since a time that nobody knows.
            message.removed_from = message.begun;
            message.hidden_from = if handed.is_empty() { message.begun } else { message.hidden_from };
        }
        let handed_before = match handed.first() {
            Some(first) => first.delivery.deliveries > 1 || first.delivery.first_queue.is_some(),
            // Only what was handed out becomes a dead letter.
            None => left.is_some_and(|deliveries| deliveries > 0) || message.was_moved,
        };
        if handed_before {
            message.hidden_from = message.begun;
        }
        if message.was_moved {
            // It changed its queue at a time that nobody saw.
            (message.removed_from, message.removed_by) = (message.begun, NEVER);
        }
        message.ends_from = message.ends_from.min(self.known_until);
        message.hidden_from = message.hidden_from.min(self.known_until);
        message.removed_from = message.removed_from.min(self.known_until);
    }
}

/// Returns the operations of a journal; those of unknown outcome end `limbo` later, since they may still take effect
/// after their client gave them up.
fn operations(record: &Record, limbo: Time) -> impl Iterator<Item = Op<'_>> {
    let after = move |outcome: &Outcome| if *outcome == Outcome::Info { limbo } else { 0 };
    record.entries.iter().zip(0..).map(move |(entry, number)| Op {
        at: At { client: record.client, number },
        account: record.account,
        begin: entry.begin,
        end: entry.end.saturating_add(after(&entry.outcome)),
        call: &entry.call,
        outcome: &entry.outcome,
        drain: record.drain,
        repeats: None,
    })
}

fn doubtful_pops<'s, 'a>(ops: &'s [Op<'a>]) -> impl Iterator<Item = &'s Op<'a>> {
    ops.iter().filter(|op| ended_unknown(op) && op.repeats.is_none())
}

fn ended_unknown(op: &Op<'_>) -> bool {
    matches!(op.call, Call::Pop(_)) && *op.outcome == Outcome::Info
}

/// Returns all messages that a client tried to send. Attempts with one body are one message.
fn sends<'a>(ops: &[Op<'a>]) -> (Vec<Message<'a>>, HashMap<Body, u32>) {
    let mut messages: Vec<Message<'a>> = Vec::new();
    let mut by_body = HashMap::new();
    for op in ops {
        let Call::Send(send) = op.call else { continue };
        for (index, body) in (0_u32..).zip(&send.bodies) {
            let number = *by_body.entry(*body).or_insert_with(|| {
                messages.push(Message::new(op.at, index, send, op.account));
                messages.len() as u32 - 1
            });
            let message = &mut messages[number as usize];
            message.attempts += 1;
            message.begun = message.begun.min(op.begin);
            match op.outcome {
                Outcome::Ok(Answer::Ids(ids)) => {
                    message.acked = message.acked.min(op.end);
                    message.id = message.id.or_else(|| ids.get(index as usize).copied());
                }
                Outcome::Ok(_) => message.acked = message.acked.min(op.end),
                Outcome::Fail => message.refused += 1,
                Outcome::Info => {}
            }
        }
    }
    (messages, by_body)
}

fn shown<'a>(ops: &[Op<'a>], by_body: &HashMap<Body, u32>) -> Vec<Shown<'a>> {
    let mut all = Vec::new();
    for (number, op) in ops.iter().enumerate() {
        let Outcome::Ok(Answer::Messages(messages)) = op.outcome else { continue };
        all.extend(messages.iter().map(|delivery| Shown {
            op: number,
            delivery,
            message: by_body.get(&delivery.body).copied(),
        }));
    }
    all
}

/// Returns when each message was certainly seen last. A repeated pop proves nothing: its messages need not be there any
/// more.
fn seen_last(ops: &[Op<'_>], shown: &[Shown<'_>], messages: usize) -> Vec<Time> {
    let mut seen = vec![0; messages];
    for shown in shown {
        let op = &ops[shown.op];
        if let Some(message) = shown.message.filter(|_| op.repeats.is_none()) {
            let seen = &mut seen[message as usize];
            *seen = op.begin.max(*seen);
        }
    }
    seen
}

fn handed_out<'a>(ops: &[Op<'a>], shown: &Shown<'a>) -> Option<Handed<'a>> {
    let op = &ops[shown.op];
    if !matches!(op.call, Call::Pop(_)) || op.repeats.is_some() {
        return None;
    }
    Some(Handed { message: shown.message?, op: shown.op, delivery: shown.delivery, lease: lease(op) })
}

/// Sorts deliveries by message and by their number, and sets the range of each message's own. Dead letters that are
/// moved back are numbered anew, so their deliveries are sorted by time.
fn arrange(ops: &[Op<'_>], handed: &mut [Handed<'_>], messages: &mut [Message<'_>]) {
    let begin = |one: &Handed<'_>| ops[one.op].begin;
    handed.sort_by_key(|one| (one.message, one.delivery.deliveries, begin(one)));
    let mut from = 0;
    for chunk in handed.chunk_by_mut(|a, b| a.message == b.message) {
        if chunk.iter().any(|one| one.delivery.first_queue.is_some()) {
            chunk.sort_by_key(begin);
        }
        messages[chunk[0].message as usize].handed = from..from + chunk.len();
        from += chunk.len();
    }
}
