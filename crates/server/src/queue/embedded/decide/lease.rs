//! ACK, NACK, EXTEND, and what time does: leases and delays end, messages expire.

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{Handle, Handles};

use crate::queue::answer::Answer;
use crate::queue::counts::MessageEvent;
use crate::queue::embedded::Embedded;
use crate::queue::embedded::effect::{DeathNote, Effect};
use crate::queue::embedded::log::Purpose;
use crate::queue::embedded::message::{Lease, Message, Place, Reason, State};
use crate::queue::embedded::record::bounds::CHANGE_BYTES;
use crate::queue::embedded::timers::Timer;
use crate::queue::rules::{AccountId, Millis, News, Outcome, QueueId, after};

impl Embedded {
    pub(super) fn ack(
        &mut self,
        account: AccountId,
        handles: &Handles,
        answer: &mut Answer<'_>,
    ) -> Result<Outcome, Fault> {
        self.reserve(handles.iter().count() as u64 * CHANGE_BYTES, Purpose::Remove)?;
        let mut done = 0;
        for handle in handles.iter() {
            if let Some(place) = self.held(account, handle).map(|message| message.place) {
                self.record(&Effect::Removed(place));
                done += 1;
            }
        }
        self.counts.add(MessageEvent::Acknowledged, done);
        Ok(answer.integer(done))
    }

    pub(super) fn nack(
        &mut self,
        account: AccountId,
        handle: Handle,
        delay_ms: Millis,
        answer: &mut Answer<'_>,
        news: &mut Vec<News>,
    ) -> Result<Outcome, Fault> {
        let held = self.held(account, handle).map(|message| (message.place, self.end_bytes(message)));
        let Some((place, bytes)) = held else { return Ok(answer.integer(0)) };
        self.reserve(bytes, Purpose::Remove)?;
        let until = (delay_ms > 0).then(|| after(self.clock, delay_ms));
        news.extend(self.give_back(&place, Reason::Nack, self.clock, until));
        Ok(answer.integer(1))
    }

    pub(super) fn extend(
        &mut self,
        account: AccountId,
        handle: Handle,
        lease_ms: Millis,
        answer: &mut Answer<'_>,
    ) -> Result<Outcome, Fault> {
        let held = self.held(account, handle);
        let Some((message, lease)) = held.and_then(|message| Some((message, *message.lease()?))) else {
            return Ok(answer.integer(0));
        };
        let (place, deliveries) = (message.place, message.deliveries);
        self.reserve(CHANGE_BYTES, Purpose::Lease)?;
        let lease = Lease { until: after(self.clock, lease_ms), ..lease };
        self.record(&Effect::Leased { place, lease, deliveries });
        Ok(answer.integer(1))
    }

    /// Does everything that is due by now, except ends of leases, which are deferred while there is no space for them.
    ///
    /// All of it is done at once, however much: otherwise requests between the parts would be given expired messages,
    /// and late messages before early ones. A timer costs less than the request that set it, so that is noticed only
    /// where very many were set for one moment, or came due while the store was closed.
    pub(in crate::queue::embedded) fn fire_timers(&mut self, news: &mut Vec<News>) {
        while let Some((at, message)) = self.stock.deferred() {
            let (place, bytes) = (message.place, self.end_bytes(message));
            if !self.can_end_lease(bytes) {
                break;
            }
            news.extend(self.give_back(&place, Reason::LeaseRanOut, at, None));
        }
        while let Some((at, message)) = self.stock.due_timer(self.clock) {
            let (place, end_bytes) = (message.place, message.lease().map(|_| self.end_bytes(message)));
            match end_bytes {
                None => news.extend(self.expire_or_become_ready(&place, at)),
                Some(bytes) if self.can_end_lease(bytes) => {
                    news.extend(self.give_back(&place, Reason::LeaseRanOut, at, None));
                }
                Some(_) => self.stock.defer(Timer { at, message: place.id() }),
            }
        }
    }

    /// Returns whether there are so many bytes to record the end of a lease. Once there were not, the next batch tries
    /// again.
    fn can_end_lease(&mut self, bytes: u64) -> bool {
        self.stalled = self.stalled || self.reserve(bytes, Purpose::Remove).is_err();
        !self.stalled
    }

    /// Returns the most bytes of the record of the end of this message's lease: no more than that, or a lease might be
    /// granted on a full disk whose end finds no space.
    fn end_bytes(&self, message: &Message) -> u64 {
        let first_queue = match (&message.death, self.dead_letter_queue(message)) {
            (_, None) => 0,
            (Some(death), _) => death.first_queue.len(),
            (None, _) => self.stock.queues.name(message.place.lane.queue).len(),
        };
        CHANGE_BYTES + first_queue as u64
    }

    /// Returns the message whose lease the handle names: by its receipt, whichever account shows it, or by the id
    /// alone if the account holds the lease.
    fn held(&self, account: AccountId, handle: Handle) -> Option<&Message> {
        let message = self.stock.special(handle.id)?;
        let lease = message.lease()?;
        let names = match handle.receipt {
            Some(receipt) => receipt == lease.receipt,
            None => account == lease.holder,
        };
        names.then_some(message)
    }

    /// Gives back a leased message without an ACK: it is removed if its TTL is over at `at`, becomes a dead letter if
    /// it was handed out often enough, and otherwise can be read again from `until` on.
    fn give_back(
        &mut self,
        place: &Place,
        reason: Reason,
        at: Millis,
        until: Option<Millis>,
    ) -> Option<News> {
        let message = self.stock.message(place)?;
        let place = message.place;
        let (event, news) = if message.is_expired(at) {
            (MessageEvent::Expired, self.record(&Effect::Removed(place)))
        } else if let Some(to) = self.dead_letter_queue(&message) {
            let own_name = self.queue_name(place.lane.queue);
            let first_queue = message.death.as_ref().map_or(&*own_name, |death| &*death.first_queue);
            let death = Some(DeathNote { reason, first_queue });
            let moved = Effect::Moved { place, to, deliveries: message.deliveries, death };
            (MessageEvent::DeadLettered, self.record(&moved))
        } else {
            (MessageEvent::Returned, self.record(&Effect::Returned { place, until }))
        };
        self.counts.add(event, 1);
        news
    }

    /// Makes a message that is not leased change at `at`: it expires, or its delay is over.
    fn expire_or_become_ready(&mut self, place: &Place, at: Millis) -> Option<News> {
        let message = self.stock.remove(place)?;
        if message.is_expired(at) {
            // The log does not tell that a message expired, so one that did so in an earlier process is here again.
            if self.begun.is_some_and(|begun| at > begun) {
                self.counts.add(MessageEvent::Expired, 1);
            }
            return None;
        }
        self.stock.insert(Message { state: State::Ready, ..message })
    }

    /// Returns the queue to which the message goes if it was handed out often enough; None if it stays.
    pub(super) fn dead_letter_queue(&self, message: &Message) -> Option<QueueId> {
        let queue = self.stock.queues.get(message.place.lane.queue)?;
        let policy = queue.options.dead_letter.as_ref()?;
        if message.deliveries < policy.after { None } else { self.stock.queues.find(&policy.queue) }
    }
}
