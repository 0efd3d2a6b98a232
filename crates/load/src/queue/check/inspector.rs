//! Looks at one answer at a time: is it what this client may be given?

use std::collections::{HashMap, HashSet};

use posthaste_history::At;
use posthaste_wire::reply::{Item, Reply, Value, decode, pairs};

use super::created::{CreatedQueues, Deletion};
use super::ledger::{Disorder, Event, Fate, Ledger};
use super::refusal::{self, was_refused};
use super::told;
use crate::dialogue::Outcome;
use crate::queue::program::{Ask, Expect};
use crate::queue::request::{Account, Queue, Read, Request};
use crate::queue::stamp::{NoStamp, Stamp};
use crate::violations::Violations;

/// Number of [`Line`]s whose order is remembered, per thread; about 24 bytes each.
const ORDERS_MAX: usize = 1 << 22;

/// An answer with what it answers.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The account that asked.
    pub reader: Account,
    /// The request, and what its answer has to be.
    pub ask: Ask,
    /// Place of the request in the journals, if it is kept there.
    pub at: Option<At>,
    /// Of a SEND: number of the message among the sender's.
    pub sequence: u64,
    /// How the request ended.
    pub outcome: Outcome,
    /// The answer's outermost item.
    pub item: &'a Item<'a>,
    /// The answer's bytes.
    pub bytes: &'a [u8],
}

/// Checks the answers of one thread's clients.
#[derive(Debug)]
pub struct Inspector {
    run: u32,
    /// Queues `1` to this are shared and hold many messages of one sender.
    shared_queues: Queue,
    allows_foreign: bool,
    events: Vec<Event>,
    /// What is wrong with the order of the events at these places, unless the ledger finds fault with the event itself.
    out_of_order: Vec<(usize, Disorder)>,
    foreign: u64,
    excused: u64,
    pops_unknown: u64,
    peeked: u64,
    order_unchecked: u64,
    order: HashMap<Line, u64>,
    last_ids: HashMap<Account, i64>,
    created: CreatedQueues,
    violations: Violations,
    blamed: HashSet<At>,
}

/// A stream of messages that a reader must get in the order in which their sender sent them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Line {
    reader: Account,
    sender: Account,
    queue: u32,
    to_anyone: bool,
}

/// What an inspector counted.
#[derive(Debug, Default)]
pub struct Findings {
    /// Messages seen by PEEK.
    pub peeked: u64,
    /// Pops whose order was not checked.
    pub order_unchecked: u64,
    /// Broken promises.
    pub violations: Violations,
    /// Requests of the journals whose answers broke promises.
    pub blamed: HashSet<At>,
}

/// The fields of a message map that are checked.
#[derive(Default)]
struct Message<'a> {
    queue: Option<u64>,
    from: Option<u64>,
    to: Option<Value<'a>>,
    body: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let mut message = Self::default();
        for (name, value) in pairs(bytes) {
            match name {
                b"queue" => message.queue = value.as_bytes().and_then(number),
                b"from" => message.from = value.as_bytes().and_then(number),
                b"to" => message.to = Some(value),
                b"body" => message.body = value.as_bytes(),
                _ => {}
            }
        }
        message
    }

    /// Returns the recipient: 0 for anyone; None when the field is missing or no account of a run.
    fn recipient(&self) -> Option<u64> {
        match self.to.as_ref()? {
            Value::Null => Some(0),
            account => account.as_bytes().and_then(number),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl From<Violations> for Findings {
    fn from(violations: Violations) -> Self {
        Self { violations, ..Self::default() }
    }
}

impl Inspector {
    /// Creates an inspector for a run at servers with this many stores.
    #[must_use]
    pub fn new(run: u32, stores: usize, shared_queues: Queue, allows_foreign: bool) -> Self {
        Self {
            run,
            shared_queues,
            allows_foreign,
            events: Vec::new(),
            out_of_order: Vec::new(),
            foreign: 0,
            excused: 0,
            pops_unknown: 0,
            peeked: 0,
            order_unchecked: 0,
            order: HashMap::new(),
            last_ids: HashMap::new(),
            created: CreatedQueues::new(stores),
            violations: Violations::default(),
            blamed: HashSet::new(),
        }
    }

    /// Checks one answer.
    pub fn inspect(&mut self, answered: &Answered<'_>) {
        if answered.outcome == Outcome::Error {
            self.failed(answered);
        }
        match answered.ask.request {
            Request::Send { .. } => self.sent(answered),
            Request::Read(read) => self.read(answered, read),
            Request::Readable => self.listed(answered),
            Request::Delete { queue } => self.deleted(answered, queue),
            Request::Echo => self.echoed(answered),
            Request::Create => self.made(answered),
        }
    }

    /// Notes a request that will never be answered.
    pub fn unanswered(&mut self, ask: &Ask) {
        // A pop may have taken one message; so may the deletion of a client's own queue, which holds one at most.
        match ask.request {
            Request::Read(Read { remove: true, .. }) => self.popped_perhaps(),
            Request::Delete { .. } => self.excused += 1,
            _ => {}
        }
    }

    /// Notes a pop that may have taken a message, or hidden it for a while.
    const fn popped_perhaps(&mut self) {
        self.excused += 1;
        self.pops_unknown += 1;
    }

    /// Forgets the order of messages: those from here on are of another store, and in no order with those before.
    pub(crate) fn forget_order(&mut self) {
        self.order.clear();
    }

    /// Moves what was found since the last time to the ledger.
    pub fn hand_over(&mut self, ledger: &mut Ledger) {
        let mut out_of_order = self.out_of_order.drain(..).peekable();
        for (place, event) in self.events.drain(..).enumerate() {
            let disorder = out_of_order.next_if(|(disordered, _)| *disordered == place);
            // A message that is delivered again comes out of order, too; the ledger reports it as delivered twice.
            if ledger.enter(event)
                && let Some((_, disorder)) = disorder
            {
                ledger.disorder(disorder);
            }
        }
        ledger.foreign(std::mem::take(&mut self.foreign));
        ledger.excuse(std::mem::take(&mut self.excused));
        ledger.pops_unknown(std::mem::take(&mut self.pops_unknown));
    }

    /// Returns whether there is something to hand over.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.events.is_empty() || self.foreign > 0 || self.excused > 0
    }

    /// Returns what was counted, and the queues that clients created, at the end.
    pub(crate) fn close(self) -> (Findings, CreatedQueues) {
        let Self { peeked, order_unchecked, created, violations, blamed, .. } = self;
        (Findings { peeked, order_unchecked, violations, blamed }, created)
    }

    fn blame(&mut self, answered: &Answered<'_>, what: impl FnOnce() -> String) {
        self.violations.add(|| told(answered.reader, answered.ask.request, &what()));
        self.blamed.extend(answered.at);
    }

    /// Judges an answer of the wrong kind: is it an error that can be right?
    fn failed(&mut self, answered: &Answered<'_>) {
        let request = answered.ask.request;
        let Some(word) = refusal::word(answered.item) else {
            return self.blame(answered, || "the answer is of another kind".to_owned());
        };
        if !refusal::is_possible(word, request, self.is_there(answered.reader, request)) {
            self.blame(answered, || format!("{} cannot be right", String::from_utf8_lossy(word)));
        }
    }

    /// Returns whether the queue that a request names, if it does, certainly exists.
    fn is_there(&self, client: Account, request: Request) -> bool {
        match request {
            Request::Send { queue, .. }
            | Request::Delete { queue }
            | Request::Read(Read { queue: Some(queue), .. }) => {
                queue <= self.shared_queues || self.created.is_there(client, queue)
            }
            Request::Read(Read { queue: None, .. }) | Request::Readable | Request::Create | Request::Echo => {
                true
            }
        }
    }

    fn made(&mut self, answered: &Answered<'_>) {
        let Item::Scalar(Value::Integer(id)) = answered.item else { return };
        let is_new = Queue::try_from(*id)
            .is_ok_and(|queue| queue > self.shared_queues && self.created.created(answered.reader, queue));
        if !is_new {
            self.blame(answered, || format!("{id} is no new queue's id"));
        }
    }

    fn sent(&mut self, answered: &Answered<'_>) {
        let event = |fate| Event { fate, sender: answered.reader, sequence: answered.sequence };
        match answered.item {
            Item::Scalar(Value::Integer(id)) => {
                self.events.push(event(Fate::Acknowledged));
                let last = self.last_ids.insert(answered.reader, *id);
                if let Some(last) = last.filter(|last| last >= id) {
                    self.blame(answered, || format!("id {id} comes after id {last}, though ids grow"));
                }
            }
            item if was_refused(item) => self.events.push(event(Fate::Refused)),
            _ => {}
        }
    }

    fn read(&mut self, answered: &Answered<'_>, read: Read) {
        match answered.outcome {
            Outcome::Ok => self.message(answered, read),
            Outcome::Null if answered.ask.expect == Expect::Found => {
                self.blame(answered, || "found nothing where a message must be".to_owned());
            }
            Outcome::Null => {}
            Outcome::Error => {
                if read.remove && !was_refused(answered.item) {
                    self.popped_perhaps();
                }
            }
        }
    }

    fn message(&mut self, answered: &Answered<'_>, read: Read) {
        let message = Message::of(answered.bytes);
        let Some(body) = message.body else {
            return self.blame(answered, || "the message has no body".to_owned());
        };
        match Stamp::read(body) {
            Ok(stamp) if stamp.run == self.run => {
                self.fields(answered, read, &message, stamp);
                self.delivered(answered, read, stamp);
            }
            Err(NoStamp::Altered) => {
                self.blame(answered, || "the body is not what was sent".to_owned());
                // Which message it was is unknown, so the ledger will miss one.
                self.excused += u64::from(read.remove);
            }
            Ok(_) | Err(NoStamp::Foreign) if self.allows_foreign => self.foreign += u64::from(read.remove),
            Ok(_) | Err(NoStamp::Foreign) => {
                self.blame(answered, || "the message was not sent by this run".to_owned());
            }
        }
    }

    /// Compares the message's fields with its stamp, and both with the request.
    fn fields(&mut self, answered: &Answered<'_>, read: Read, message: &Message<'_>, stamp: Stamp) {
        let told = (message.from, message.recipient(), message.queue);
        let sent = (u64::from(stamp.sender), u64::from(stamp.recipient), stamp.queue);
        if told != (Some(sent.0), Some(sent.1), Some(sent.2)) {
            self.blame(answered, || {
                format!("from, to and queue are {told:?}, where the message was sent with {sent:?}")
            });
        }
        let asked = read.queue.is_none_or(|queue| queue == stamp.queue)
            && read.from.is_none_or(|sender| sender == stamp.sender)
            && (!read.broadcast || stamp.recipient == 0);
        if !asked {
            self.blame(answered, || format!("the message is not what was asked for: {stamp:?}"));
        }
        if stamp.recipient != 0 && stamp.recipient != answered.reader {
            self.blame(answered, || format!("the message is for account {}", stamp.recipient));
        }
    }

    fn delivered(&mut self, answered: &Answered<'_>, read: Read, stamp: Stamp) {
        if !read.remove {
            self.peeked += 1;
            return;
        }
        let place = self.events.len();
        self.events.push(Event { fate: Fate::Popped, sender: stamp.sender, sequence: stamp.sequence });
        // A client's own queues hold one message each and come and go: there is no order to remember.
        if stamp.queue > self.shared_queues {
            return;
        }
        let line = Line {
            reader: answered.reader,
            sender: stamp.sender,
            queue: u32::try_from(stamp.queue).unwrap_or(u32::MAX),
            to_anyone: stamp.recipient == 0,
        };
        if self.order.len() >= ORDERS_MAX && !self.order.contains_key(&line) {
            self.order_unchecked += 1;
            return;
        }
        // The same message again is no matter of order: the ledger counts it.
        if let Some(before) = self.order.insert(line, stamp.sequence).filter(|b| *b > stamp.sequence) {
            let (reader, request, at) = (answered.reader, answered.ask.request, answered.at);
            let (sender, sequence) = (stamp.sender, stamp.sequence);
            let disorder = Disorder { reader, request, at, sender, sequence, before };
            self.out_of_order.push((place, disorder));
        }
    }

    fn listed(&mut self, answered: &Answered<'_>) {
        if answered.outcome != Outcome::Ok {
            return;
        }
        let Reply::Value(list, _) = decode(answered.bytes) else { return };
        let queues: Vec<_> = list.parts().iter().filter_map(Value::as_bytes).filter_map(number).collect();
        if let Expect::Lists(queue) = answered.ask.expect
            && !queues.contains(&queue)
        {
            self.blame(answered, || format!("queue {queue} holds a message and is not listed"));
        }
        // Of the other queues the names are known, and not the ids.
        let ids = queues.into_iter().filter(|queue| self.created.is_there(answered.reader, *queue));
        if !ids.is_sorted_by(|before, after| before < after) {
            self.blame(answered, || "the list is not by ascending queue id".to_owned());
        }
    }

    fn deleted(&mut self, answered: &Answered<'_>, queue: Queue) {
        let deletion = match answered.item {
            Item::Scalar(Value::Integer(removed)) => {
                self.excused += u64::try_from(*removed).unwrap_or(0);
                Deletion::Done
            }
            item if refusal::word(item) == Some(b"NOQUEUE") => Deletion::NoQueue,
            item if was_refused(item) => Deletion::Refused,
            _ => {
                self.unanswered(&answered.ask);
                Deletion::Unknown
            }
        };
        self.created.deleted(answered.reader, queue, deletion);
    }

    fn echoed(&mut self, answered: &Answered<'_>) {
        if answered.outcome != Outcome::Ok {
            return;
        }
        let sent = Stamp { run: self.run, sender: answered.reader, ..Stamp::default() };
        let same = match answered.item {
            Item::Scalar(value) => value.as_bytes().is_some_and(|body| Stamp::read(body) == Ok(sent)),
            Item::Compound(..) => false,
        };
        if !same {
            self.blame(answered, || "the echo is not what was sent".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::reply::{Skip, skip};

    use super::*;

    const POP: Request = Request::Read(Read { remove: true, queue: Some(1), from: None, broadcast: false });

    /// What the checks are told.
    enum Told {
        /// Message 0, 1, … of the sender is acknowledged.
        Acknowledged(u64),
        /// One is popped.
        Popped(u64),
        /// A pop is answered with an error.
        Failed(&'static str),
    }
    use Told::{Acknowledged, Failed, Popped};

    /// What is found where one client sends and pops.
    fn found_of(told: &[Told]) -> Violations {
        let (mut inspector, mut ledger) = (Inspector::new(7, 1, 1, false), Ledger::new(1, 0));
        for one in told {
            let (request, sequence, bytes) = match one {
                Acknowledged(sequence) => (
                    Request::Send { queue: 1, to: None },
                    *sequence,
                    format!(":{}\r\n", sequence + 1).into_bytes(),
                ),
                Popped(sequence) => (POP, 0, message(*sequence)),
                Failed(error) => (POP, 0, format!("-{error} later\r\n").into_bytes()),
            };
            let ask = Ask { request, step: 0, expect: Expect::Any };
            let Skip::Done(item, _) = skip(&bytes) else { panic!("a whole answer") };
            let outcome = if matches!(one, Failed(_)) { Outcome::Error } else { Outcome::Ok };
            let (reader, at, item, bytes) = (1, None, &item, &bytes[..]);
            inspector.inspect(&Answered { reader, ask, at, sequence, outcome, item, bytes });
            inspector.hand_over(&mut ledger);
        }
        let mut violations = ledger.close(&[100]).violations;
        violations.absorb(inspector.close().0.violations);
        violations
    }

    /// A message of the sender as an answer.
    fn message(sequence: u64) -> Vec<u8> {
        let mut body = [b'x'; Stamp::LEN];
        Stamp { run: 7, sender: 1, sequence, queue: 1, recipient: 0 }.write(&mut body);
        let head = format!("*8\r\n+from\r\n+1\r\n+queue\r\n+1\r\n+to\r\n$-1\r\n+body\r\n${}\r\n", body.len());
        [head.as_bytes(), &body, b"\r\n"].concat()
    }

    #[test]
    fn a_message_popped_again_after_others_is_one_violation() {
        let found = |popped: &[u64]| {
            let told: Vec<_> = (0..3).map(Acknowledged).chain(popped.iter().copied().map(Popped)).collect();
            found_of(&told)
        };
        assert_eq!(found(&[0, 1, 2]).count, 0);
        for again in [&[0, 1, 2, 0][..], &[0, 1, 2, 1]] {
            let violations = found(again);
            assert!(violations.count == 1 && violations.first[0].contains("twice"), "{violations:?}");
        }
        let violations = found(&[1, 0, 2]);
        assert!(violations.count == 1 && violations.first[0].contains("came after"), "{violations:?}");
    }

    #[test]
    fn what_may_have_taken_effect_late_or_have_been_hidden_may_come_late() {
        let is_wrong = |told: &[Told]| found_of(told).first.iter().any(|why| why.contains("came after"));
        // The answer to a send may be read after its message.
        assert!(is_wrong(&[Acknowledged(1), Popped(1), Popped(0), Acknowledged(0)]));
        assert!(!is_wrong(&[Acknowledged(1), Popped(1), Popped(0)]), "its send may have been given up");
        let late = || [1, 0, 3, 2].map(Popped);
        let all = || (0..4).map(Acknowledged);
        for (failed, wrong) in
            [(&[][..], true), (&["STORE"], true), (&["STORE", "STORE"], false), (&["BUSY", "BUSY"], true)]
        {
            let failed = failed.iter().copied().map(Failed);
            assert_eq!(is_wrong(&all().chain(failed).chain(late()).collect::<Vec<_>>()), wrong, "one each");
        }
    }
}
