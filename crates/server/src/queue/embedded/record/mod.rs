//! The bytes of log records: every [`Effect`] as a tag and its fields in a fixed order, little-endian.
//!
//! Written by hand because the layout is the store's format on disk: it changes when somebody changes it here, not
//! when a library or a struct does. Decoding is total. The log has checked the bytes already, so a record that does
//! not decode was written by another program or by a defect, and says so.

pub(super) mod bounds;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::effect::{Copies, DeathNote, Effect, HandedOut, Written};
use super::message::{LaneKey, Lease, Place, Rank, Reason, State};
use super::reader::Reader;
use super::remembered::{KeyKind, RequestKey};
use crate::queue::options::{DeadLetterPolicy, Options};

const ACCOUNT: u8 = 1;
const QUEUE: u8 = 2;
const QUEUE_GONE: u8 = 3;
const PURGED: u8 = 4;
const MESSAGE: u8 = 5;
const REMOVED: u8 = 6;
const LEASED: u8 = 7;
const RETURNED: u8 = 8;
const MOVED: u8 = 9;
const ANSWERED: u8 = 10;
const HANDED: u8 = 11;
const COUNTERS: u8 = 12;

/// Which optional parts a message record has.
mod part {
    pub(super) const EXPIRES: u8 = 1;
    pub(super) const DELIVERIES: u8 = 2;
    pub(super) const DELAYED: u8 = 4;
    pub(super) const LEASED: u8 = 8;
    pub(super) const DEATH: u8 = 16;
    pub(super) const HEADERS: u8 = 32;
}

impl<'a> Effect<'a> {
    /// Appends the record but for its last stretch of bytes, which is returned instead of copied.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> &'a [u8] {
        match self {
            Self::Account { id, known, name } => {
                out.extend([ACCOUNT, u8::from(*known)]);
                put_u32(out, *id);
                return name;
            }
            Self::Queue { id, name, options } => {
                out.push(QUEUE);
                put_u64(out, *id);
                put_options(out, options);
                return name;
            }
            Self::QueueGone { id } => put_tagged(out, QUEUE_GONE, *id),
            Self::Purged { id } => put_tagged(out, PURGED, *id),
            Self::Message(message) => {
                out.push(MESSAGE);
                return message.encode(out);
            }
            Self::Removed(place) => {
                out.push(REMOVED);
                put_place(out, place);
            }
            Self::Leased { place, lease, deliveries } => {
                out.push(LEASED);
                put_place(out, place);
                put_u32(out, *deliveries);
                put_lease(out, lease);
            }
            Self::Returned { place, until } => {
                out.push(RETURNED);
                put_place(out, place);
                put_option(out, *until);
            }
            Self::Moved { place, to, deliveries, death } => {
                out.push(MOVED);
                put_place(out, place);
                put_u64(out, *to);
                put_u32(out, *deliveries);
                out.push(death.map_or(0, |death| reason_code(death.reason)));
                return death.map_or(&[], |death| death.first_queue);
            }
            Self::Answered { key, end, answer } => {
                out.push(ANSWERED);
                put_key(out, key, *end);
                put_u64(out, *answer);
            }
            Self::Handed { key, end, answer } => {
                out.push(HANDED);
                put_key(out, key, *end);
                out.push(u8::from(answer.many));
                return answer.copies.0;
            }
            Self::Counters { message, queue } => {
                put_tagged(out, COUNTERS, *message);
                put_u64(out, *queue);
            }
        }
        &[]
    }

    /// Reads a record.
    ///
    /// # Errors
    /// A text that says the record makes no sense.
    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        let tag = reader.u8().ok_or("an empty record")?;
        let effect = Self::decode_as(tag, &mut reader).filter(|_| reader.is_empty());
        effect.ok_or_else(|| format!("a record of kind {tag} that makes no sense"))
    }

    fn decode_as(tag: u8, reader: &mut Reader<'a>) -> Option<Self> {
        Some(match tag {
            ACCOUNT => {
                let known = reader.bool()?;
                Self::Account { id: reader.u32().filter(|id| *id > 0)?, known, name: reader.rest() }
            }
            QUEUE => Self::Queue { id: reader.u64()?, options: reader.options()?, name: reader.rest() },
            QUEUE_GONE => Self::QueueGone { id: reader.u64()? },
            PURGED => Self::Purged { id: reader.u64()? },
            MESSAGE => Self::Message(Written::decode(reader)?),
            REMOVED => Self::Removed(reader.place()?),
            LEASED => {
                let (place, deliveries) = (reader.place()?, reader.u32()?);
                Self::Leased { place, deliveries, lease: reader.lease()? }
            }
            RETURNED => Self::Returned { place: reader.place()?, until: reader.option()? },
            MOVED => Self::Moved {
                place: reader.place()?,
                to: reader.u64()?,
                deliveries: reader.u32()?,
                death: match reader.u8()? {
                    0 => None,
                    code => Some(DeathNote { reason: reason(code)?, first_queue: reader.rest() }),
                },
            },
            ANSWERED => {
                let (key, end) = reader.key()?;
                Self::Answered { key, end, answer: reader.u64()? }
            }
            HANDED => {
                let (key, end) = reader.key()?;
                let many = reader.bool()?;
                Self::Handed { key, end, answer: HandedOut { many, copies: Copies(reader.rest()) } }
            }
            COUNTERS => Self::Counters { message: reader.u64()?, queue: reader.u64()? },
            _ => return None,
        })
    }
}

impl<'a> Written<'a> {
    /// Reads a record that must be a message's; None if it is of another kind or makes no sense.
    pub(super) fn read(record: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(record);
        if reader.u8()? == MESSAGE { Self::decode(&mut reader) } else { None }
    }

    fn encode(&self, out: &mut Vec<u8>) -> &'a [u8] {
        let parts_at = out.len();
        let mut parts = 0;
        out.push(0);
        put_place(out, &self.place);
        put_u64(out, self.sent_ms);
        if let Some(expires) = self.expires {
            parts |= part::EXPIRES;
            put_u64(out, expires);
        }
        if self.deliveries > 0 {
            parts |= part::DELIVERIES;
            put_u32(out, self.deliveries);
        }
        match &self.state {
            State::Ready => {}
            State::Delayed { until } => {
                parts |= part::DELAYED;
                put_u64(out, *until);
            }
            State::Leased(lease) => {
                parts |= part::LEASED;
                put_lease(out, lease);
            }
        }
        if let Some(death) = &self.death {
            parts |= part::DEATH;
            out.push(reason_code(death.reason));
            put_short(out, death.first_queue);
        }
        if !self.headers.is_empty() {
            parts |= part::HEADERS;
            put_long(out, self.headers);
        }
        out[parts_at] = parts;
        self.body
    }

    fn decode(reader: &mut Reader<'a>) -> Option<Self> {
        let parts = reader.u8()?;
        let has = |part| parts & part != 0;
        Some(Self {
            place: reader.place()?,
            sent_ms: reader.u64()?,
            expires: if has(part::EXPIRES) { Some(reader.u64()?) } else { None },
            deliveries: if has(part::DELIVERIES) { reader.u32()? } else { 0 },
            state: match (has(part::DELAYED), has(part::LEASED)) {
                (false, false) => State::Ready,
                (true, false) => State::Delayed { until: reader.u64()? },
                (false, true) => State::Leased(reader.lease()?),
                (true, true) => return None,
            },
            death: if has(part::DEATH) {
                Some(DeathNote { reason: reason(reader.u8()?)?, first_queue: reader.short()? })
            } else {
                None
            },
            headers: if has(part::HEADERS) { reader.long()? } else { &[] },
            body: reader.rest(),
        })
    }
}

impl<'a> Copies<'a> {
    /// Appends one message and the name its queue has.
    pub(super) fn push(out: &mut Vec<u8>, queue: &[u8], message: &Written<'_>) {
        put_short(out, queue);
        let len_at = out.len();
        put_u32(out, 0);
        let body = message.encode(out);
        out.extend_from_slice(body);
        let len = length(out.len() - len_at - size_of::<u32>());
        out[len_at..len_at + size_of::<u32>()].copy_from_slice(&len.to_le_bytes());
    }

    /// Returns the messages with the names of their queues; None if the bytes make no sense.
    pub(super) fn decode(self) -> Option<Vec<(&'a [u8], Written<'a>)>> {
        let mut reader = Reader(self.0);
        let mut copies = Vec::new();
        while !reader.is_empty() {
            let queue = reader.short()?;
            copies.push((queue, Written::decode(&mut Reader(reader.long()?))?));
        }
        Some(copies)
    }
}

impl Reader<'_> {
    fn place(&mut self) -> Option<Place> {
        let rank = Rank::from_number(self.u64()?);
        Some(Place {
            rank,
            lane: LaneKey { queue: self.u64()?, sender: self.u32()?, recipient: self.u32()? },
        })
    }

    fn lease(&mut self) -> Option<Lease> {
        Some(Lease { holder: self.u32()?, receipt: self.u64()?, until: self.u64()? })
    }

    fn options(&mut self) -> Option<Options> {
        Some(Options {
            messages_max: self.option()?,
            bytes_max: self.option()?,
            ttl_ms: self.option()?,
            forbid_self: self.bool()?,
            strict: self.bool()?,
            dead_letter: if self.bool()? { Some(self.dead_letter_policy()?) } else { None },
        })
    }

    fn dead_letter_policy(&mut self) -> Option<DeadLetterPolicy> {
        Some(DeadLetterPolicy { queue: self.short()?.into(), after: self.u32()? })
    }

    fn key(&mut self) -> Option<(RequestKey, u64)> {
        let kind = match self.u8()? {
            0 => KeyKind::Dedup,
            1 => KeyKind::RequestId,
            _ => return None,
        };
        let (account, queue, end) = (self.u32()?, self.u64()?, self.u64()?);
        Some((RequestKey { account, queue, kind, text: Arc::from(self.long()?) }, end))
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, value: u64) {
    out.push(tag);
    put_u64(out, value);
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    value.into_iter().for_each(|value| put_u64(out, value));
}

/// A name: at most 255 bytes.
fn put_short(out: &mut Vec<u8>, name: &[u8]) {
    let name = &name[..name.len().min(usize::from(u8::MAX))];
    out.push(name.len() as u8);
    out.extend_from_slice(name);
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, length(bytes.len()));
    out.extend_from_slice(bytes);
}

fn put_place(out: &mut Vec<u8>, place: &Place) {
    put_u64(out, place.rank.number());
    put_u64(out, place.lane.queue);
    put_u32(out, place.lane.sender);
    put_u32(out, place.lane.recipient);
}

fn put_lease(out: &mut Vec<u8>, lease: &Lease) {
    put_u32(out, lease.holder);
    put_u64(out, lease.receipt);
    put_u64(out, lease.until);
}

fn put_options(out: &mut Vec<u8>, options: &Options) {
    put_option(out, options.messages_max);
    put_option(out, options.bytes_max);
    put_option(out, options.ttl_ms);
    out.extend([options.forbid_self, options.strict, options.dead_letter.is_some()].map(u8::from));
    if let Some(policy) = &options.dead_letter {
        put_short(out, &policy.queue);
        put_u32(out, policy.after);
    }
}

fn put_key(out: &mut Vec<u8>, key: &RequestKey, end: u64) {
    out.push(match key.kind {
        KeyKind::Dedup => 0,
        KeyKind::RequestId => 1,
    });
    put_u32(out, key.account);
    put_u64(out, key.queue);
    put_u64(out, end);
    put_long(out, &key.text);
}

fn reason_code(reason: Reason) -> u8 {
    match reason {
        Reason::LeaseRanOut => 1,
        Reason::Nack => 2,
    }
}

fn reason(code: u8) -> Option<Reason> {
    match code {
        1 => Some(Reason::LeaseRanOut),
        2 => Some(Reason::Nack),
        _ => None,
    }
}

fn length(len: usize) -> u32 {
    u32::try_from(len).expect("requests and answers end far below 4 GiB")
}
