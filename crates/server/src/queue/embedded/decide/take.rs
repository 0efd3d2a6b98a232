//! POP: hands messages out, for good or on a lease, and gives a repeated request with the same key the same answer.

use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::Pop;

use super::show::nothing;
use crate::queue::answer::Answer;
use crate::queue::bounds::REMEMBERED_MS;
use crate::queue::counts::MessageEvent;
use crate::queue::embedded::effect::{Copies, Effect, HandedOut};
use crate::queue::embedded::log::Purpose;
use crate::queue::embedded::merge::Pick;
use crate::queue::embedded::message::{Lease, Message, State};
use crate::queue::embedded::record::bounds::{CHANGE_BYTES, COPY_BYTES, REQUEST_BYTES};
use crate::queue::embedded::remembered::{KeyKind, RememberedAnswer, RequestKey};
use crate::queue::embedded::{Embedded, store_fault};
use crate::queue::rules::{AccountId, Ask, Flow, Millis, Outcome, after};

impl Embedded {
    pub(super) fn pop(&mut self, ask: Ask<'_>, pop: &Pop, answer: &mut Answer<'_>) -> Result<Flow, Fault> {
        let select = &pop.select;
        let queue = self.named_queue(ask, select)?;
        let key = pop.request_id.map(|key| RequestKey {
            account: ask.account,
            queue: queue.unwrap_or(0),
            kind: KeyKind::RequestId,
            text: ask.bytes_of(key).into(),
        });
        if let Some(known) = key.as_ref().and_then(|key| self.stock.remembered.get(key)).copied() {
            return self.hand_out_again(known, answer).map(Flow::Done);
        }
        if let (Some(sender), true) = (select.sender, pop.block_ms > 0)
            && self.stock.accounts.find(ask.bytes_of(sender)).is_none()
        {
            self.has_memory()?;
            self.reserve(REQUEST_BYTES, Purpose::Add)?;
            self.meet(ask.bytes_of(sender)); // so that the sender's first message wakes up this reader
        }
        let interest = self.interest(ask, select, queue);
        self.find(interest, select.count);
        if let (true, true, Some(interest)) = (self.found.is_empty(), pop.block_ms > 0, interest) {
            return Ok(Flow::Waits(interest));
        }
        if self.found.is_empty() {
            return Ok(Flow::Done(nothing(select, answer)));
        }
        let is_kept = pop.lease_ms.is_some() || key.is_some();
        // Before they are read, or every refusal would have others wait for the disk.
        if is_kept {
            self.keep_to_memory(key.as_ref())?;
        }
        self.load(ask, select, queue)?;
        // With ANYORDER, others than those found first may have been read in their place.
        if is_kept && select.any_order {
            self.keep_to_memory(key.as_ref())?;
        }
        self.make_room_for(key.as_ref(), pop.lease_ms.is_some())?;
        Ok(Flow::Done(self.hand_out(ask.account, pop, key, answer)))
    }

    /// Checks the memory limit for the messages that were found, which are to be leased, or kept as the
    /// answer to a key. Beyond it only those are leased of which as much is kept already, as they were leased before:
    /// otherwise messages that came back would keep all others from being leased, and themselves.
    fn keep_to_memory(&mut self, key: Option<&RequestKey>) -> Result<(), Fault> {
        let Err(fault) = self.has_memory_to_remember() else { return Ok(()) };
        let is_kept = |pick: &&Pick| self.stock.special(pick.place.id()).is_some();
        let kept = self.found.picks().iter().take_while(is_kept).count();
        if key.is_some() || kept == 0 {
            return Err(fault);
        }
        self.found.keep_first(kept);
        Ok(())
    }

    /// Hands out the messages that were found and read.
    fn hand_out(
        &mut self,
        reader: AccountId,
        pop: &Pop,
        key: Option<RequestKey>,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let many = pop.select.count.is_some();
        if many {
            answer.array(self.found.len());
        }
        let mut copies = Vec::new();
        for index in 0..self.found.len() {
            let message = self.taken(index, reader, pop.lease_ms);
            let queue = self.stock.queues.name(message.place.lane.queue);
            let now = self.found.written(index).as_now(&message);
            self.stock.write(queue, &now, None, answer);
            if key.is_some() {
                Copies::push(&mut copies, queue, &now);
            }
            let Message { place, deliveries, state, .. } = message;
            self.record(&match state {
                State::Leased(lease) => Effect::Leased { place, lease, deliveries },
                State::Ready | State::Delayed { .. } => Effect::Removed(place),
            });
        }
        self.counts.add(MessageEvent::Taken, self.found.len() as u64);
        if let Some(key) = key {
            let end = self.clock.saturating_add(REMEMBERED_MS);
            let handed_out = HandedOut { many, copies: Copies(&copies) };
            self.record(&Effect::Handed { key, end, answer: handed_out });
        }
        Outcome::Ok
    }

    /// Returns a message that was found, as it is once it is handed out.
    fn taken(&mut self, index: usize, reader: AccountId, lease_ms: Option<Millis>) -> Message {
        let mut message = self.stock.picked(&self.found.picks()[index]);
        message.deliveries += 1;
        if let Some(lease_ms) = lease_ms {
            let until = after(self.clock, lease_ms);
            message.state = State::Leased(Lease { holder: reader, receipt: self.receipts.draw(), until });
        }
        message
    }

    /// Gives the answer to a key again, from the copies that were made then.
    fn hand_out_again(&mut self, known: RememberedAnswer, answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        let record = self.log.read(known.home.at, known.home.len).map_err(|error| store_fault(&error))?;
        let (many, copies) = match Effect::decode(record) {
            Ok(Effect::Handed { answer: HandedOut { many, copies }, .. }) => (many, copies.decode()),
            _ => (false, None),
        };
        let copies = copies.ok_or_else(forgotten)?;
        if many {
            answer.array(copies.len());
        }
        copies.iter().for_each(|(queue, message)| self.stock.write(queue, message, None, answer));
        Ok(Outcome::Ok)
    }

    /// Reserves disk space for handing out what was found.
    fn make_room_for(&mut self, key: Option<&RequestKey>, is_lease: bool) -> Result<(), Fault> {
        let count = self.found.len() as u64;
        let copies = key
            .map_or(0, |key| REQUEST_BYTES + key.text.len() as u64 + self.found.bytes() + count * COPY_BYTES);
        let purpose = if is_lease || key.is_some() { Purpose::Lease } else { Purpose::Remove };
        self.reserve(count * CHANGE_BYTES + copies, purpose)
    }
}

fn forgotten() -> Fault {
    Fault::new(
        Word::Store,
        "the remembered answer of this request cannot be read; ask without REQID for other messages",
    )
}
