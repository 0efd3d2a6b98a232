//! How a store writes an answer: the shapes of the queue tier's answers over RESP 2 and 3.
//!
//! A store writes straight into the connection's answer bytes; nothing is built up first and copied after.

use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::fault::Fault;

use super::rules::{MessageId, Millis, Outcome, QueueId};

/// Names of a message's fields, encoded in advance: no answer is written more often.
mod field {
    pub(super) const ID: &[u8] = b"$2\r\nid\r\n";
    pub(super) const QUEUE: &[u8] = b"$5\r\nqueue\r\n";
    pub(super) const FROM: &[u8] = b"$4\r\nfrom\r\n";
    pub(super) const TO: &[u8] = b"$2\r\nto\r\n";
    pub(super) const SENT_MS: &[u8] = b"$7\r\nsent_ms\r\n";
    pub(super) const DELIVERIES: &[u8] = b"$10\r\ndeliveries\r\n";
    pub(super) const BODY: &[u8] = b"$4\r\nbody\r\n";
}

/// Writes one request's answer.
pub struct Answer<'a> {
    encoder: Encoder<'a>,
}

/// A message as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub struct MessageView<'a> {
    /// Message id.
    pub id: MessageId,
    /// Name of its queue.
    pub queue: &'a [u8],
    /// The sender's account name.
    pub from: &'a [u8],
    /// The recipient's account name; None: for anyone.
    pub to: Option<&'a [u8]>,
    /// When it was sent, in milliseconds since 1970.
    pub sent_ms: Millis,
    /// How often it was handed out, this time included when it is being handed out.
    pub deliveries: u32,
    /// The body.
    pub body: &'a [u8],
    /// Priority, shown when not 0.
    pub priority: u8,
    /// Number of the lease, if it is leased to the reader.
    pub receipt: Option<u64>,
    /// Headers in the stored form (see [`Headers`]).
    pub headers: Headers<'a>,
    /// Where it came from and why, if it is a dead letter.
    pub dead: Option<DeadLetterOrigin<'a>>,
    /// For `QBROWSE` only: `ready`, `delayed`, `leased`.
    pub state: Option<&'static str>,
}

/// Where a dead letter came from, and why it was given up.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetterOrigin<'a> {
    /// Name of the queue it was first sent to.
    pub first_queue: &'a [u8],
    /// Why it was given up: `lease ran out` or `nack`.
    pub reason: &'a str,
}

/// Headers in one piece: for each pair a little-endian u32 length and the name, then the same for the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a>(pub &'a [u8]);

/// A queue as QLIST and QINFO show it.
#[derive(Clone, Debug)]
pub struct QueueView<'a> {
    /// Name of the queue.
    pub name: &'a [u8],
    /// Id of the queue.
    pub id: QueueId,
    /// Number of its messages: ready, delayed and leased.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Age of its oldest message, in milliseconds; 0 when it is empty.
    pub oldest_ms: u64,
}

/// The rest of QINFO.
#[derive(Clone, Debug, Default)]
pub struct QueueDetail<'a> {
    /// Leased messages.
    pub leased: u64,
    /// Delayed messages.
    pub delayed: u64,
    /// `MAXMSGS`.
    pub messages_max: Option<u64>,
    /// `MAXBYTES`.
    pub bytes_max: Option<u64>,
    /// `TTL`.
    pub ttl_ms: Option<u64>,
    /// `DEADLETTER` and `AFTER`.
    pub dead_letter: Option<DeadLetterView<'a>>,
    /// `FORBIDSELF`.
    pub forbid_self: bool,
    /// `STRICT`.
    pub strict: bool,
}

/// The dead letter option of a queue, as QINFO shows it.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetterView<'a> {
    /// Name of the queue for dead letters.
    pub queue: &'a [u8],
    /// Number of deliveries after which a message goes there.
    pub after: u32,
}

impl<'a> Answer<'a> {
    /// Returns an answer that is appended to `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { encoder: Encoder::new(out, protocol) }
    }

    /// Returns what has been written to the output so far, earlier answers included.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        self.encoder.written()
    }

    /// Returns the protocol that it is written in.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.encoder.protocol()
    }

    /// Writes a refusal.
    pub fn fault(&mut self, fault: &Fault) -> Outcome {
        self.encoder.error(fault);
        Outcome::Error
    }

    /// Writes a count or an id.
    pub fn integer(&mut self, value: u64) -> Outcome {
        self.encoder.integer(value.cast_signed());
        Outcome::Ok
    }

    /// Writes `OK`.
    pub fn ok(&mut self) -> Outcome {
        self.encoder.simple("OK");
        Outcome::Ok
    }

    /// Writes that there is nothing to read.
    pub fn null(&mut self) -> Outcome {
        self.encoder.null();
        Outcome::Null
    }

    /// Writes an empty array where messages were asked for.
    pub fn empty(&mut self) -> Outcome {
        self.encoder.array(0);
        Outcome::Null
    }

    /// Writes the head of an array; `len` values follow.
    pub fn array(&mut self, len: usize) {
        self.encoder.array(len);
    }

    /// Writes one text in an array.
    pub fn text(&mut self, text: &[u8]) {
        self.encoder.bulk(text);
    }

    /// Writes one message map.
    pub fn message(&mut self, message: &MessageView<'_>) {
        let encoder = &mut self.encoder;
        let pairs = 7
            + usize::from(message.priority != 0)
            + usize::from(message.receipt.is_some())
            + usize::from(!message.headers.0.is_empty())
            + if message.dead.is_some() { 2 } else { 0 }
            + usize::from(message.state.is_some());
        encoder.map(pairs);
        encoder.encoded(field::ID);
        encoder.integer(message.id.cast_signed());
        encoder.encoded(field::QUEUE);
        encoder.bulk(message.queue);
        encoder.encoded(field::FROM);
        encoder.bulk(message.from);
        encoder.encoded(field::TO);
        match message.to {
            Some(to) => encoder.bulk(to),
            None => encoder.null(),
        }
        encoder.encoded(field::SENT_MS);
        encoder.integer(message.sent_ms.cast_signed());
        encoder.encoded(field::DELIVERIES);
        encoder.integer(i64::from(message.deliveries));
        encoder.encoded(field::BODY);
        encoder.bulk(message.body);
        self.message_extras(message);
    }

    /// Writes the fields that only some messages have.
    fn message_extras(&mut self, message: &MessageView<'_>) {
        let encoder = &mut self.encoder;
        if message.priority != 0 {
            encoder.bulk(b"priority");
            encoder.integer(i64::from(message.priority));
        }
        if let Some(receipt) = message.receipt {
            encoder.bulk(b"receipt");
            encoder.bulk_of(&[
                itoa::Buffer::new().format(message.id).as_bytes(),
                b"-",
                &hexadecimal(receipt),
            ]);
        }
        if !message.headers.0.is_empty() {
            encoder.bulk(b"headers");
            encoder.map(message.headers.pairs().count());
            for (name, value) in message.headers.pairs() {
                encoder.bulk(name);
                encoder.bulk(value);
            }
        }
        if let Some(dead) = &message.dead {
            encoder.bulk(b"first_queue");
            encoder.bulk(dead.first_queue);
            encoder.bulk(b"reason");
            encoder.bulk(dead.reason.as_bytes());
        }
        if let Some(state) = message.state {
            encoder.bulk(b"state");
            encoder.bulk(state.as_bytes());
        }
    }

    /// Writes one queue map; with `detail` that of QINFO.
    pub fn queue(&mut self, queue: &QueueView<'_>, detail: Option<&QueueDetail<'_>>) {
        let encoder = &mut self.encoder;
        encoder.map(if detail.is_some() { 13 } else { 5 });
        encoder.bulk(b"name");
        encoder.bulk(queue.name);
        for (name, value) in [
            ("id", queue.id),
            ("messages", queue.messages),
            ("bytes", queue.bytes),
            ("oldest_ms", queue.oldest_ms),
        ] {
            encoder.bulk(name.as_bytes());
            encoder.integer(value.cast_signed());
        }
        if let Some(detail) = detail {
            self.queue_detail(detail);
        }
    }

    fn queue_detail(&mut self, detail: &QueueDetail<'_>) {
        let encoder = &mut self.encoder;
        for (name, value) in [
            ("leased", Some(detail.leased)),
            ("delayed", Some(detail.delayed)),
            ("maxmsgs", detail.messages_max),
            ("maxbytes", detail.bytes_max),
            ("ttl_ms", detail.ttl_ms),
        ] {
            encoder.bulk(name.as_bytes());
            match value {
                Some(value) => encoder.integer(value.cast_signed()),
                None => encoder.null(),
            }
        }
        encoder.bulk(b"deadletter");
        match detail.dead_letter {
            Some(DeadLetterView { queue, after }) => {
                encoder.map(2);
                encoder.bulk(b"queue");
                encoder.bulk(queue);
                encoder.bulk(b"after");
                encoder.integer(i64::from(after));
            }
            None => encoder.null(),
        }
        encoder.bulk(b"forbidself");
        encoder.integer(i64::from(detail.forbid_self));
        encoder.bulk(b"strict");
        encoder.integer(i64::from(detail.strict));
    }

    /// Writes one account map.
    pub fn account(&mut self, name: &[u8], id: u32) {
        let encoder = &mut self.encoder;
        encoder.map(2);
        encoder.bulk(b"name");
        encoder.bulk(name);
        encoder.bulk(b"id");
        encoder.integer(i64::from(id));
    }
}

/// Returns the number in sixteen hexadecimal digits.
fn hexadecimal(number: u64) -> [u8; 16] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|index| DIGITS[(number >> (60 - 4 * index)) as usize % 16])
}

impl<'a> Headers<'a> {
    /// Appends one pair in the stored form.
    pub fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        for part in [name, value] {
            out.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(part);
        }
    }

    /// Returns the pairs in the order sent.
    pub fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        let mut part = move || {
            let (len, tail) = rest.split_first_chunk::<4>()?;
            let (part, tail) = tail.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = tail;
            Some(part)
        };
        std::iter::from_fn(move || Some((part()?, part()?)))
    }
}
