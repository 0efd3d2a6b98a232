//! A queue server as small as its rules, which can be told to break one promise now and then.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;
use posthaste_history::{Answer, Body, Call, Delivery, Key, Name, Outcome, Select, Send, Time, fingerprint};

/// What the server does wrong, at some of the opportunities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Acknowledges a message and forgets it.
    Forget,
    /// Hands out a message and keeps it as it was.
    Twice,
    /// Hands out the message behind the first.
    Swap,
    /// Finds nothing.
    Blind,
    /// Changes a byte.
    Alter,
    /// Says that somebody else sent it.
    Forge,
    /// Lets everybody read what is addressed.
    IgnoreRecipient,
    /// Lets whoever asks for one sender's messages read all.
    IgnoreSender,
    /// Answers a deletion and deletes nothing.
    LostDelete,
    /// Deletes a queue, and one of its messages comes back with the next queue of that name.
    Survivor,
    /// Hands out what somebody else has leased.
    IgnoreLease,
    /// Counts the acknowledgement of a lease that has ended, though somebody else holds the message.
    LateAck,
    /// Refuses the acknowledgement of a lease that lasts.
    RefuseAck,
    /// Counts deliveries that did not happen.
    Deliveries,
    /// Refuses a send and keeps its message.
    Refused,
    /// Stores again what is sent again under its key.
    RetryTwice,
    /// Gives another message to a pop that is asked again.
    RepeatAnother,
    /// Gives an id that is not the highest.
    Backwards,
    /// Says that a queue holds one message more.
    Depth,
    /// Counts a request twice.
    Totals,
    /// Says that a deletion or a purge took one message more.
    Wiped,
    /// Gives an id that another message has.
    SameId,
    /// Gives the ids of several bodies in the wrong order.
    ManyBackwards,
    /// Goes through the queues one after the other for whoever asks for a sender's messages of all of them.
    QueueByQueue,
    /// Does not find what was delayed.
    BlindToDelayed,
    /// Does not find what came back.
    BlindToReturned,
    /// Loses what was given back.
    NackLoses,
    /// Leaves out the second of several messages that it shows.
    PeekSkips,
    /// Shows what somebody has taken.
    StalePeek,
    /// Shows what somebody has leased.
    PeekLeased,
    /// Shows more deliveries than there were.
    PeekDeliveries,
    /// Shows and hands out what is still delayed.
    Early,
    /// Shows and hands out what has lived its time.
    Immortal,
    /// Hands out at once what was given back with a delay.
    NackAtOnce,
    /// Counts the return or the extension of a lease that has ended.
    LateHold,
    /// Refuses the return or the extension of a lease that lasts.
    RefuseHold,
    /// Gives nothing to a pop that is asked again.
    RepeatNothing,
    /// Finds nothing in a queue that is not there, instead of saying so.
    NoQueue,
}

/// One message.
#[derive(Clone, Debug)]
struct Held {
    delivery: Delivery,
    /// Time before which it is not to be seen.
    from: Time,
    is_delayed: bool,
    /// Time after which it is gone, unless leased.
    until: Time,
    lease: Option<(Time, Key)>,
}

/// The server.
pub(crate) struct Queues {
    mutant: Option<Mutant>,
    rng: Rng,
    queues: BTreeSet<Name>,
    messages: BTreeMap<u64, Held>,
    /// Messages taken by pops that did not commit, to be brought back.
    away: HashMap<u64, Held>,
    survivors: Vec<Held>,
    /// Messages taken for good.
    gone: Vec<Held>,
    last_id: u64,
    sends: HashMap<(Name, Name, Key), Vec<u64>>,
    pops: HashMap<PopKey, Vec<Delivery>>,
}

/// Account, queue and key of a pop.
type PopKey = (Name, Option<Name>, Key);

/// Whether a reader with these conditions may see a message.
fn fits(message: &Delivery, reader: Name, select: &Select) -> bool {
    select.queue.is_none_or(|queue| queue == message.queue)
        && select.from.is_none_or(|from| from == message.from)
        && message.to.is_none_or(|to| to == reader)
        && !(select.not_own && message.from == reader)
        && !(select.broadcast && message.to.is_some())
}

fn millis(ms: u64) -> Time {
    ms * 1_000_000
}

impl Queues {
    pub(crate) fn new(mutant: Option<Mutant>, seed: u64) -> Self {
        Self {
            mutant,
            rng: Rng::with_seed(seed ^ 0x5eed),
            queues: BTreeSet::new(),
            messages: BTreeMap::new(),
            away: HashMap::new(),
            survivors: Vec::new(),
            gone: Vec::new(),
            last_id: 0,
            sends: HashMap::new(),
            pops: HashMap::new(),
        }
    }

    /// Returns whether the mutant does wrong this time.
    pub(crate) fn strikes(&mut self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant) && self.rng.u8(..) < 50
    }

    /// Carries out a request.
    pub(crate) fn carry_out(&mut self, account: Name, call: &Call, now: Time) -> Outcome {
        self.let_time_pass(now);
        let number = |n: usize| Outcome::Ok(Answer::Number(n as u64));
        match call {
            Call::Send(send) => self.send(account, send, now),
            Call::Pop(select) => self.read(account, select, now, true),
            Call::Peek(select) => self.read(account, select, now, false),
            Call::Ack { receipt } => number(self.ack(*receipt)),
            Call::Nack { receipt, delay_ms } => {
                let until = if self.strikes(Mutant::NackAtOnce) { now } else { now + millis(*delay_ms) };
                let returned = self.held(*receipt).map(|held| held.delivery.id);
                let counted = self.hold(*receipt, |held| (held.lease, held.from) = (None, until));
                if counted > 0 && self.strikes(Mutant::NackLoses) {
                    returned.map(|id| self.messages.remove(&id));
                }
                number(counted)
            }
            Call::Extend { receipt, ms } => {
                let until = now + millis(*ms);
                number(self.hold(*receipt, |held| held.lease = Some((until, *receipt))))
            }
            Call::Create { queue } => self.create(queue.expect("queues of the model have names")),
            Call::Delete { queue } | Call::Purge { queue } => {
                self.end(*queue, matches!(call, Call::Delete { .. }))
            }
            Call::Info { queue } if !self.queues.contains(queue) => Outcome::Fail,
            Call::Info { queue } => {
                let depth =
                    self.messages.values().filter(|held| held.delivery.queue == *queue).count() as u64;
                Outcome::Ok(Answer::Depth(depth + u64::from(self.strikes(Mutant::Depth))))
            }
            Call::Browse { queue } => {
                let here = self.messages.values().filter(|held| held.delivery.queue == *queue);
                Outcome::Ok(Answer::Messages(here.map(|held| held.delivery.clone()).collect()))
            }
        }
    }

    fn let_time_pass(&mut self, now: Time) {
        for held in self.messages.values_mut() {
            held.lease = held.lease.filter(|(until, _)| *until > now);
        }
        self.messages.retain(|_, held| held.until > now || held.lease.is_some());
    }

    fn send(&mut self, account: Name, send: &Send, now: Time) -> Outcome {
        if !self.queues.contains(&send.queue) {
            return Outcome::Fail;
        }
        let key = send.key.map(|key| (account, send.queue, key));
        if let Some(ids) = key.and_then(|key| self.sends.get(&key)).cloned()
            && !self.strikes(Mutant::RetryTwice)
        {
            return Outcome::Ok(Answer::Ids(ids.into()));
        }
        let mut ids: Vec<u64> =
            send.bodies.iter().map(|body| self.store(account, send, *body, now)).collect();
        if self.strikes(Mutant::ManyBackwards) {
            ids.reverse();
        }
        if self.strikes(Mutant::SameId) {
            ids[0] = self.last_id.saturating_sub(10).max(1);
        }
        key.map(|key| self.sends.insert(key, ids.clone()));
        if self.strikes(Mutant::Refused) { Outcome::Fail } else { Outcome::Ok(Answer::Ids(ids.into())) }
    }

    fn store(&mut self, account: Name, send: &Send, body: Body, now: Time) -> u64 {
        self.last_id += 10;
        let id = if self.strikes(Mutant::Backwards) {
            self.last_id.saturating_sub(155).max(1)
        } else {
            self.last_id
        };
        let other = Name::number(99).expect("a number");
        let delivery = Delivery {
            id,
            queue: send.queue,
            from: if self.strikes(Mutant::Forge) { other } else { account },
            to: send.to,
            priority: send.priority,
            deliveries: 0,
            headers: send.headers,
            body: if self.strikes(Mutant::Alter) { Body::of(&id.to_le_bytes()) } else { body },
            receipt: None,
            first_queue: None,
        };
        let is_mortal = send.ttl_ms > 0 && !self.strikes(Mutant::Immortal);
        let until = if is_mortal { now + millis(send.ttl_ms) } else { Time::MAX };
        if !self.strikes(Mutant::Forget) {
            let (from, is_delayed) = (now + millis(send.delay_ms), send.delay_ms > 0);
            self.messages.insert(id, Held { delivery, from, is_delayed, until, lease: None });
        }
        id
    }

    fn read(&mut self, reader: Name, select: &Select, now: Time, remove: bool) -> Outcome {
        if select.queue.is_some_and(|queue| !self.queues.contains(&queue)) {
            let nothing = Outcome::Ok(Answer::Messages([].into()));
            return if self.strikes(Mutant::NoQueue) { nothing } else { Outcome::Fail };
        }
        let key = select.key.filter(|_| remove).map(|key| (reader, select.queue, key));
        if let Some(given) = key.and_then(|key| self.pops.get(&key)).cloned()
            && !self.strikes(Mutant::RepeatAnother)
        {
            let given = if self.strikes(Mutant::RepeatNothing) { Vec::new() } else { given };
            return Outcome::Ok(Answer::Messages(given.into()));
        }
        if !remove && self.strikes(Mutant::StalePeek) {
            let gone = self.gone.iter().rev().find(|held| select.queue == Some(held.delivery.queue));
            let shown =
                gone.filter(|held| fits(&held.delivery, reader, select)).map(|held| held.delivery.clone());
            return Outcome::Ok(Answer::Messages(shown.into_iter().collect()));
        }
        let mut ids =
            if self.strikes(Mutant::Blind) { Vec::new() } else { self.eligible(reader, select, now, remove) };
        if ids.len() > 1 && self.strikes(Mutant::Swap) {
            ids.swap(0, 1);
        }
        if select.any_order {
            self.rng.shuffle(&mut ids);
        }
        if !remove
            && !select.any_order
            && select.count > 1
            && ids.len() > 2
            && self.strikes(Mutant::PeekSkips)
        {
            ids.remove(1);
        }
        ids.truncate(select.count.max(1) as usize);
        let given: Vec<Delivery> = ids.into_iter().map(|id| self.give(id, select, now, remove)).collect();
        if let Some(key) = key.filter(|_| !given.is_empty()) {
            self.pops.insert(key, given.clone());
        }
        Outcome::Ok(Answer::Messages(given.into()))
    }

    /// Returns the messages that a reader may be given, in order.
    fn eligible(&mut self, reader: Name, select: &Select, now: Time, remove: bool) -> Vec<u64> {
        let (all, any_sender) = (self.strikes(Mutant::IgnoreRecipient), self.strikes(Mutant::IgnoreSender));
        let leased = self.strikes(if remove { Mutant::IgnoreLease } else { Mutant::PeekLeased });
        let (early, no_delayed) = (self.strikes(Mutant::Early), self.strikes(Mutant::BlindToDelayed));
        let (no_returned, by_queue) =
            (self.strikes(Mutant::BlindToReturned), self.strikes(Mutant::QueueByQueue));
        let select = Select { from: select.from.filter(|_| !any_sender), ..*select };
        let eligible = |held: &Held| {
            let anyone = Delivery { to: held.delivery.to.filter(|_| !all), ..held.delivery.clone() };
            (held.from <= now || early && held.delivery.deliveries == 0)
                && (leased || held.lease.is_none())
                && !(no_delayed && held.is_delayed)
                && !(no_returned && held.delivery.deliveries > 0)
                && fits(&anyone, reader, &select)
        };
        let place = |delivery: &Delivery| {
            let queue = select.queue.is_none() && by_queue;
            (queue.then_some(delivery.queue), 255 - delivery.priority, delivery.id)
        };
        let eligible = self.messages.values().filter(|held| eligible(held));
        let mut ids: Vec<_> = eligible.map(|held| place(&held.delivery)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(.., id)| id).collect()
    }

    fn give(&mut self, id: u64, select: &Select, now: Time, remove: bool) -> Delivery {
        let (twice, more) = (self.strikes(Mutant::Twice), self.strikes(Mutant::Deliveries));
        let shown = self.strikes(Mutant::PeekDeliveries);
        let receipt = fingerprint(&self.rng.u64(..).to_le_bytes());
        let held = self.messages.get_mut(&id).expect("it was just found");
        let mut delivery = held.delivery.clone();
        if !remove {
            delivery.deliveries += u32::from(shown);
            return delivery;
        }
        delivery.deliveries += 1 + u32::from(more);
        if select.lease_ms > 0 {
            delivery.receipt = receipt;
            held.lease = receipt.map(|receipt| (now + millis(select.lease_ms), receipt));
        }
        if twice {
            held.lease = None;
            return delivery;
        }
        held.delivery.deliveries = delivery.deliveries;
        if select.lease_ms == 0 {
            self.gone.extend(self.messages.remove(&id));
        }
        delivery
    }

    /// Changes a leased message for the holder of its lease; returns how many took effect.
    fn hold(&mut self, receipt: Key, change: impl FnOnce(&mut Held)) -> usize {
        let (late, refused) = (self.strikes(Mutant::LateHold), self.strikes(Mutant::RefuseHold));
        match self.held(receipt) {
            Some(_) if refused => 0,
            Some(held) => {
                change(held);
                1
            }
            None => usize::from(late),
        }
    }

    fn held(&mut self, receipt: Key) -> Option<&mut Held> {
        self.messages.values_mut().find(|held| held.lease.is_some_and(|(_, of)| of == receipt))
    }

    fn ack(&mut self, receipt: Key) -> usize {
        let Some(id) = self.held(receipt).map(|held| held.delivery.id) else {
            return usize::from(self.strikes(Mutant::LateAck));
        };
        if self.strikes(Mutant::RefuseAck) {
            return 0;
        }
        self.gone.extend(self.messages.remove(&id));
        1
    }

    fn create(&mut self, queue: Name) -> Outcome {
        self.queues.insert(queue);
        let back = std::mem::take(&mut self.survivors);
        self.messages.extend(back.into_iter().map(|held| (held.delivery.id, held)));
        Outcome::Ok(Answer::Number(1))
    }

    fn end(&mut self, queue: Name, delete: bool) -> Outcome {
        if !self.queues.contains(&queue) {
            return Outcome::Fail;
        }
        let in_it: Vec<u64> = self
            .messages
            .iter()
            .filter(|(_, held)| held.delivery.queue == queue)
            .map(|(id, _)| *id)
            .collect();
        // What a pop under way holds goes too.
        let away = self.away.extract_if(|_, held| held.delivery.queue == queue).count();
        let more = u64::from(self.strikes(Mutant::Wiped));
        let answer = Outcome::Ok(Answer::Number((in_it.len() + away) as u64 + more));
        if self.strikes(Mutant::LostDelete) {
            return answer;
        }
        let survives = delete && self.strikes(Mutant::Survivor);
        for id in &in_it {
            let held = self.messages.remove(id);
            self.survivors.extend(held.filter(|_| survives));
        }
        if delete {
            self.queues.remove(&queue);
        }
        answer
    }

    /// Hides what a pop took until [`Queues::undo`] brings it back: the pop did not commit.
    pub(crate) fn take_back(&mut self, before: &Snapshot, call: &Call, account: Name, outcome: &Outcome) {
        let Outcome::Ok(Answer::Messages(given)) = outcome else { return };
        // A repeated pop took nothing new.
        if let Call::Pop(Select { key: Some(key), queue, .. }) = call
            && before.pops.contains_key(&(account, *queue, *key))
        {
            return;
        }
        for id in given.iter().map(|delivery| delivery.id) {
            self.messages.remove(&id);
            if let Some(held) = before.messages.get(&id) {
                self.away.insert(id, held.clone());
            }
        }
        if let Call::Pop(Select { key: Some(key), queue, .. }) = call {
            self.pops.remove(&(account, *queue, *key));
        }
    }

    /// Returns what the server holds, before a pop that will not commit.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { messages: self.messages.clone(), pops: self.pops.clone() }
    }

    /// Brings back everything that was taken by pops that did not commit.
    pub(crate) fn undo(&mut self) {
        self.messages.extend(self.away.drain());
    }
}

/// What a server held at some time.
pub(crate) struct Snapshot {
    messages: BTreeMap<u64, Held>,
    pops: HashMap<PopKey, Vec<Delivery>>,
}
