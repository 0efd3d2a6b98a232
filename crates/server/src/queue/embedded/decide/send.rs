//! SEND and SENDMANY: every refusal is decided before anything is recorded.

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::{Recipient, Send};
use posthaste_wire::span::Span;

use crate::queue::answer::Answer;
use crate::queue::bounds::{COPIES_BYTES, REMEMBERED_MS};
use crate::queue::counts::MessageEvent;
use crate::queue::embedded::Embedded;
use crate::queue::embedded::effect::{Effect, Written};
use crate::queue::embedded::log::Purpose;
use crate::queue::embedded::message::{ANYONE, LaneKey, Place, Rank, State};
use crate::queue::embedded::record::bounds::{MESSAGE_BYTES, REQUEST_BYTES};
use crate::queue::embedded::remembered::{KeyKind, RequestKey};
use crate::queue::faults;
use crate::queue::rules::{AccountId, Ask, News, Outcome, QueueId, after};

impl Embedded {
    pub(super) fn send(
        &mut self,
        ask: Ask<'_>,
        send: &Send,
        answer: &mut Answer<'_>,
        news: &mut Vec<News>,
    ) -> Result<Outcome, Fault> {
        let queue = self.expect_queue(ask.bytes_of(send.queue))?;
        let key = send.dedup.map(|key| RequestKey {
            account: ask.account,
            queue,
            kind: KeyKind::Dedup,
            text: ask.bytes_of(key).into(),
        });
        if let Some(first) = key.as_ref().and_then(|key| self.stock.remembered.get(key)).copied() {
            self.counts.add(MessageEvent::Deduplicated, 1);
            return Ok(answer.integer(first.answer));
        }
        self.check_recipient(queue, ask, send.to)?;
        let everyone = match send.to {
            Recipient::Everyone => self.stock.others(ask.account),
            Recipient::Anyone | Recipient::Account(_) => Vec::new(),
        };
        let copies = if send.to == Recipient::Everyone { everyone.len() as u64 } else { 1 };
        self.check_limits(queue, copies, copies * u64::from(send.body.len))?;
        let headers = ask.headers(&send.headers);
        self.make_room(copies, headers.len() as u64 + u64::from(send.body.len), key.as_ref())?;

        let draft = self.draft(queue, ask, send, &headers);
        let result = match send.to {
            Recipient::Everyone => {
                news.extend(everyone.into_iter().filter_map(|recipient| self.store(draft, recipient)));
                copies
            }
            Recipient::Anyone => {
                news.extend(self.store(draft, ANYONE));
                self.stock.last_message()
            }
            Recipient::Account(name) => {
                let recipient = self.meet(ask.bytes_of(name));
                news.extend(self.store(draft, recipient));
                self.stock.last_message()
            }
        };
        if let Some(key) = key {
            let end = self.clock.saturating_add(REMEMBERED_MS);
            self.record(&Effect::Answered { key, end, answer: result });
        }
        Ok(answer.integer(result))
    }

    pub(super) fn send_many(
        &mut self,
        ask: Ask<'_>,
        queue: Span,
        bodies: &[Span],
        answer: &mut Answer<'_>,
        news: &mut Vec<News>,
    ) -> Result<Outcome, Fault> {
        let queue = self.expect_queue(ask.bytes_of(queue))?;
        let bytes = bodies.iter().map(|body| u64::from(body.len)).sum();
        self.check_limits(queue, bodies.len() as u64, bytes)?;
        self.reserve(bodies.len() as u64 * MESSAGE_BYTES + bytes, Purpose::Add)?;
        answer.array(bodies.len());
        let mut outcome = Outcome::Ok;
        for body in bodies {
            let draft = self.draft(queue, ask, &Send::plain(Span::default(), *body), &[]);
            news.extend(self.store(draft, ANYONE));
            outcome = answer.integer(self.stock.last_message());
        }
        Ok(outcome)
    }

    /// Checks FORBIDSELF and STRICT, which concern a named recipient only: `TO *` leaves out the sender.
    fn check_recipient(&self, queue: QueueId, ask: Ask<'_>, to: Recipient) -> Result<(), Fault> {
        let (Recipient::Account(name), Some(queue)) = (to, self.stock.queues.get(queue)) else {
            return Ok(());
        };
        let name = ask.bytes_of(name);
        if queue.options.forbid_self && self.stock.accounts.find(name) == Some(ask.account) {
            return Err(faults::forbidden_self(&queue.name));
        }
        if queue.options.strict && self.stock.accounts.known(name).is_none() {
            return Err(faults::no_account(name, &queue.name));
        }
        Ok(())
    }

    /// Reserves disk space for copies of one message.
    fn make_room(&mut self, copies: u64, message_bytes: u64, key: Option<&RequestKey>) -> Result<(), Fault> {
        let bytes = copies * (message_bytes + MESSAGE_BYTES);
        if copies > 1 && bytes > COPIES_BYTES {
            return Err(faults::too_many_copies(copies));
        }
        self.reserve(REQUEST_BYTES + bytes + key.map_or(0, |key| key.text.len() as u64), Purpose::Add)
    }

    /// Returns the message that a SEND asks for, without a recipient and a number.
    fn draft<'a>(&self, queue: QueueId, ask: Ask<'a>, send: &Send, headers: &'a [u8]) -> Written<'a> {
        let queue_ttl = || self.stock.queues.get(queue).and_then(|queue| queue.options.ttl_ms);
        let ttl_ms = send.ttl_ms.or_else(queue_ttl);
        let lane = LaneKey { queue, sender: ask.account, recipient: ANYONE };
        Written {
            place: Place { lane, rank: Rank::new(send.priority, 0) },
            sent_ms: self.clock,
            deliveries: 0,
            expires: ttl_ms.map(|ttl_ms| self.clock.saturating_add(ttl_ms)),
            state: match send.delay_ms {
                0 => State::Ready,
                delay_ms => State::Delayed { until: after(self.clock, delay_ms) },
            },
            death: None,
            headers,
            body: ask.bytes_of(send.body),
        }
    }

    /// Records the draft as a message with this recipient and the next number.
    fn store(&mut self, mut draft: Written<'_>, recipient: AccountId) -> Option<News> {
        draft.place.lane.recipient = recipient;
        draft.place.rank = Rank::new(draft.place.rank.priority(), self.stock.last_message() + 1);
        let news = self.record(&Effect::Message(draft));
        self.counts.add(MessageEvent::Sent, 1);
        news
    }
}
