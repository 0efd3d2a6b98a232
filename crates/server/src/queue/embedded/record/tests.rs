//! Records decode to what was encoded, and bytes that are no record are refused.

use super::bounds::{
    CHANGE_BYTES, COPY_BYTES, COUNTERS_BYTES, MESSAGE_BYTES, PRESENT_STATE_BYTES, REQUEST_BYTES,
};
use super::*;
use crate::queue::embedded::log::RECORD_OVERHEAD;

/// The longest name.
const NAME: &[u8] = &[b'n'; 255];

fn place() -> Place {
    Place { rank: Rank::new(3, 41), lane: LaneKey { queue: 7, sender: 2, recipient: 9 } }
}

fn written() -> Written<'static> {
    Written {
        place: place(),
        sent_ms: 1,
        deliveries: 2,
        expires: Some(3),
        state: State::Leased(Lease { holder: 4, receipt: 5, until: 6 }),
        death: Some(DeathNote { reason: Reason::Nack, first_queue: b"first" }),
        headers: b"headers",
        body: b"body",
    }
}

fn key(kind: KeyKind) -> RequestKey {
    RequestKey { account: 1, queue: 2, kind, text: Arc::from(*b"key") }
}

/// One of each kind, and each shape a message can have.
fn effects(copies: &[u8]) -> Vec<Effect<'_>> {
    let dead_letter = Some(DeadLetterPolicy { queue: Arc::from(*b"grave"), after: 5 });
    let options = Options { ttl_ms: Some(8), dead_letter, strict: true, ..Options::default() };
    let lease = Lease { holder: 1, receipt: 2, until: 3 };
    let death = Some(DeathNote { reason: Reason::LeaseRanOut, first_queue: b"first" });
    let plain =
        Written { deliveries: 0, expires: None, state: State::Ready, death: None, headers: b"", ..written() };
    let handed_out = HandedOut { many: true, copies: Copies(copies) };
    vec![
        Effect::Account { id: 1, known: true, name: b"ann" },
        Effect::Queue { id: 2, name: b"queue", options },
        Effect::Queue { id: 2, name: b"queue", options: Options::default() },
        Effect::QueueGone { id: 3 },
        Effect::Purged { id: 4 },
        Effect::Message(plain),
        Effect::Message(Written { state: State::Delayed { until: 9 }, body: b"", ..plain }),
        Effect::Message(written()),
        Effect::Removed(place()),
        Effect::Leased { place: place(), lease, deliveries: 4 },
        Effect::Returned { place: place(), until: None },
        Effect::Returned { place: place(), until: Some(5) },
        Effect::Moved { place: place(), to: 6, deliveries: 7, death },
        Effect::Moved { place: place(), to: 6, deliveries: 0, death: None },
        Effect::Answered { key: key(KeyKind::Dedup), end: 1, answer: 2 },
        Effect::Handed { key: key(KeyKind::RequestId), end: 1, answer: handed_out },
        Effect::Counters { message: 1, queue: 2 },
    ]
}

fn encoded(effect: &Effect<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let tail = effect.encode(&mut bytes);
    bytes.extend_from_slice(tail);
    bytes
}

#[test]
fn every_effect_is_read_as_it_was_written() {
    for effect in effects(b"copies") {
        assert_eq!(Effect::decode(&encoded(&effect)), Ok(effect));
    }
}

#[test]
fn copies_are_read_as_they_were_written() {
    let mut copies = Vec::new();
    Copies::push(&mut copies, b"queue", &written());
    Copies::push(&mut copies, b"", &Written { body: b"", ..written() });
    let expected = vec![(&b"queue"[..], written()), (&b""[..], Written { body: b"", ..written() })];
    assert_eq!(Copies(&copies).decode(), Some(expected));
    assert_eq!(Copies(&copies[..copies.len() - 1]).decode(), None);
}

#[test]
fn bytes_that_are_no_record_are_refused_or_read_but_never_a_panic() {
    let mut dice = fastrand::Rng::with_seed(1);
    for effect in effects(b"copies") {
        let bytes = encoded(&effect);
        for end in 0..bytes.len() {
            assert_ne!(Effect::decode(&bytes[..end]).as_ref(), Ok(&effect), "cut short at {end}");
        }
        for _ in 0..200 {
            let mut altered = bytes.clone();
            let at = dice.usize(..altered.len());
            altered[at] = dice.u8(..);
            if let Ok(Effect::Handed { answer, .. }) = Effect::decode(&altered) {
                answer.copies.decode();
            }
        }
    }
    assert!(Effect::decode(b"").is_err() && Effect::decode(&[99, 0, 0]).is_err());
}

#[test]
fn no_record_is_longer_than_what_is_reserved_for_it() {
    let taken = |effect: Effect<'_>| encoded(&effect).len() as u64 + RECORD_OVERHEAD;
    let (place, lease) = (place(), Lease { holder: 1, receipt: 2, until: 3 });
    let death = Some(DeathNote { reason: Reason::Nack, first_queue: NAME });
    assert!(taken(Effect::Removed(place)) <= CHANGE_BYTES);
    assert!(taken(Effect::Leased { place, lease, deliveries: 4 }) <= CHANGE_BYTES);
    assert!(taken(Effect::Returned { place, until: Some(5) }) <= CHANGE_BYTES);
    assert!(taken(Effect::Moved { place, to: 6, deliveries: 7, death: None }) <= CHANGE_BYTES);
    assert!(taken(Effect::Moved { place, to: 6, deliveries: 7, death }) <= CHANGE_BYTES + NAME.len() as u64);

    let state = State::Delayed { until: 9 };
    let sent = Written { deliveries: 0, state, death: None, ..written() };
    let carried = (sent.headers.len() + sent.body.len()) as u64;
    assert!(taken(Effect::Message(sent)) <= MESSAGE_BYTES + carried);
    let plain = Written { state: State::Ready, ..sent };
    let now = Written { death, ..written() };
    assert!(
        taken(Effect::Message(now)) <= encoded(&Effect::Message(plain)).len() as u64 + PRESENT_STATE_BYTES
    );
    let mut copies = Vec::new();
    Copies::push(&mut copies, NAME, &now);
    assert!(copies.len() as u64 <= encoded(&Effect::Message(plain)).len() as u64 + COPY_BYTES);
    assert!(taken(Effect::Counters { message: 1, queue: 2 }) <= COUNTERS_BYTES);

    let dead_letter = Some(DeadLetterPolicy { queue: Arc::from(NAME), after: 5 });
    let (messages_max, bytes_max, ttl_ms) = (Some(1), Some(2), Some(3));
    let options = Options { messages_max, bytes_max, ttl_ms, dead_letter, ..Options::default() };
    assert!(taken(Effect::Queue { id: 2, name: NAME, options }) <= REQUEST_BYTES);
    let account = taken(Effect::Account { id: 1, known: true, name: NAME });
    let key = key(KeyKind::Dedup);
    let text = key.text.len() as u64;
    assert!(account + taken(Effect::Answered { key, end: 1, answer: 2 }) <= REQUEST_BYTES + text);
}
