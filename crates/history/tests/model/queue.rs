//! A queue server as small as its rules, which can be told to break one promise now and then.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fastrand::Rng;
use posthaste_history::{Answer, Body, Call, Delivery, Key, Name, Outcome, Select, Send, Time, fingerprint};

/// What the server does wrong, at some of its chances.
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
}

/// One message.
#[derive(Clone, Debug)]
struct Held {
    delivery: Delivery,
    /// Not to be seen before this.
    from: Time,
    /// Gone after this, unless leased.
    until: Time,
    lease: Option<(Time, Key)>,
}

/// The server.
pub(crate) struct Queues {
    mutant: Option<Mutant>,
    rng: Rng,
    queues: BTreeSet<Name>,
    messages: BTreeMap<u64, Held>,
    /// Taken by pops that may be undone.
    away: HashMap<u64, Held>,
    survivors: Vec<Held>,
    last_id: u64,
    sends: HashMap<(Name, Name, Key), Vec<u64>>,
    pops: HashMap<PopKey, Vec<Delivery>>,
}

/// Who asked, of which queue, under what key.
type PopKey = (Name, Option<Name>, Key);

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
            last_id: 0,
            sends: HashMap::new(),
            pops: HashMap::new(),
        }
    }

    /// Whether the mutant shows itself now.
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
            Call::Nack { receipt, .. } => {
                number(self.held(*receipt).map(|held| held.lease = None).iter().count())
            }
            Call::Extend { receipt, ms } => {
                let until = now + millis(*ms);
                number(self.held(*receipt).map(|held| held.lease = Some((until, *receipt))).iter().count())
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
        let ids: Vec<u64> = send.bodies.iter().map(|body| self.store(account, send, *body, now)).collect();
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
        let until = if send.ttl_ms == 0 { Time::MAX } else { now + millis(send.ttl_ms) };
        if !self.strikes(Mutant::Forget) {
            self.messages
                .insert(id, Held { delivery, from: now + millis(send.delay_ms), until, lease: None });
        }
        id
    }

    fn read(&mut self, reader: Name, select: &Select, now: Time, remove: bool) -> Outcome {
        if select.queue.is_some_and(|queue| !self.queues.contains(&queue)) {
            return Outcome::Fail;
        }
        let key = select.key.filter(|_| remove).map(|key| (reader, select.queue, key));
        if let Some(given) = key.and_then(|key| self.pops.get(&key)).cloned()
            && !self.strikes(Mutant::RepeatAnother)
        {
            return Outcome::Ok(Answer::Messages(given.into()));
        }
        let mut ids =
            if self.strikes(Mutant::Blind) { Vec::new() } else { self.eligible(reader, select, now) };
        if ids.len() > 1 && self.strikes(Mutant::Swap) {
            ids.swap(0, 1);
        }
        if select.any_order {
            self.rng.shuffle(&mut ids);
        }
        ids.truncate(select.count.max(1) as usize);
        let given: Vec<Delivery> = ids.into_iter().map(|id| self.give(id, select, now, remove)).collect();
        if let Some(key) = key.filter(|_| !given.is_empty()) {
            self.pops.insert(key, given.clone());
        }
        Outcome::Ok(Answer::Messages(given.into()))
    }

    /// What a reader may have, in order.
    fn eligible(&mut self, reader: Name, select: &Select, now: Time) -> Vec<u64> {
        let (all, any_sender) = (self.strikes(Mutant::IgnoreRecipient), self.strikes(Mutant::IgnoreSender));
        let leased = self.strikes(Mutant::IgnoreLease);
        let fits = |held: &Held| {
            let message = &held.delivery;
            held.from <= now
                && (leased || held.lease.is_none())
                && select.queue.is_none_or(|queue| queue == message.queue)
                && (any_sender || select.from.is_none_or(|from| from == message.from))
                && (all || message.to.is_none_or(|to| to == reader))
                && !(select.not_own && message.from == reader)
                && !(select.broadcast && message.to.is_some())
        };
        let fitting = self.messages.values().filter(|held| fits(held));
        let mut ids: Vec<_> = fitting.map(|held| (255 - held.delivery.priority, held.delivery.id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    fn give(&mut self, id: u64, select: &Select, now: Time, remove: bool) -> Delivery {
        let (twice, more) = (self.strikes(Mutant::Twice), self.strikes(Mutant::Deliveries));
        let receipt = fingerprint(&self.rng.u64(..).to_le_bytes());
        let held = self.messages.get_mut(&id).expect("it was just found");
        let mut delivery = held.delivery.clone();
        if !remove {
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
            self.messages.remove(&id);
        }
        delivery
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
        self.messages.remove(&id).iter().count()
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
        let answer = Outcome::Ok(Answer::Number((in_it.len() + away) as u64));
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

    /// Takes what a pop took away, to be brought back by [`Queues::undo`]: the pop was not kept.
    pub(crate) fn take_back(&mut self, before: &Snapshot, call: &Call, account: Name, outcome: &Outcome) {
        let Outcome::Ok(Answer::Messages(given)) = outcome else { return };
        for id in given.iter().map(|delivery| delivery.id) {
            self.messages.remove(&id);
            if let Some(held) = before.messages.get(&id) {
                self.away.insert(id, held.clone());
            }
        }
        if let Call::Pop(Select { key: Some(key), queue, .. }) = call {
            let key = (account, *queue, *key);
            match before.pops.get(&key) {
                Some(given) => self.pops.insert(key, given.clone()),
                None => self.pops.remove(&key),
            };
        }
    }

    /// What the server held, to be remembered before a pop that will not be kept.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { messages: self.messages.clone(), pops: self.pops.clone() }
    }

    /// Everything that pops took and did not keep is back.
    pub(crate) fn undo(&mut self) {
        self.messages.extend(self.away.drain());
    }
}

/// What a server held.
pub(crate) struct Snapshot {
    messages: BTreeMap<u64, Held>,
    pops: HashMap<PopKey, Vec<Delivery>>,
}
