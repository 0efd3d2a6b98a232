//! One row of the reply of `posthaste.apply`: its columns, and how to read a message, a queue or a refusal from it.

use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Recipient};
use posthaste_wire::span::Span;
use tokio_postgres::Row;

use super::kinds::RowKind;
use super::names::Accounts;
use super::undone::{Changed, undone};
use crate::queue::answer::{
    Answer, DeadLetterOrigin, DeadLetterView, Headers, MessageView, QueueDetail, QueueView,
};
use crate::queue::counts::MessageEvent;
use crate::queue::faults;
use crate::queue::rules::{AccountId, Ask, News};

/// Columns of the SQL type `posthaste.answer`.
pub(super) mod column {
    pub(crate) const OP: usize = 0;
    pub(crate) const KIND: usize = 1;
    pub(crate) const NUMBER: usize = 2;
    pub(crate) const QUEUE: usize = 3;
    pub(crate) const SENDER: usize = 4;
    pub(crate) const RECIPIENT: usize = 5;
    pub(crate) const SENT: usize = 6;
    pub(crate) const DELIVERIES: usize = 7;
    pub(crate) const PLACE: usize = 8;
    pub(crate) const RECEIPT: usize = 9;
    pub(crate) const DUE: usize = 10;
    pub(crate) const NAME: usize = 11;
    pub(crate) const ORIGIN: usize = 12;
    pub(crate) const REASON: usize = 13;
    pub(crate) const HEADERS: usize = 14;
    pub(crate) const BODY: usize = 15;
    pub(crate) const FIGURES: usize = 16;
}

/// Places of a queue's figures in their column, as `describe_queue` and `list_queues` put them there.
mod figure {
    pub(super) const MESSAGES: usize = 0;
    pub(super) const BYTES: usize = 1;
    pub(super) const OLDEST_MS: usize = 2;
    pub(super) const LEASED: usize = 3;
    pub(super) const DELAYED: usize = 4;
    pub(super) const MESSAGES_MAX: usize = 5;
    pub(super) const BYTES_MAX: usize = 6;
    pub(super) const TTL_MS: usize = 7;
    pub(super) const DEAD_AFTER: usize = 8;
    pub(super) const FORBID_SELF: usize = 9;
    pub(super) const STRICT: usize = 10;
}

/// Returns what a row tells; None: its letter is unknown.
pub(super) fn kind(row: &Row) -> Option<RowKind> {
    RowKind::of(row.get(column::KIND))
}

pub(super) fn unsigned(row: &Row, at: usize) -> u64 {
    row.get::<_, Option<i64>>(at).unwrap_or(0).cast_unsigned()
}

pub(super) fn account(row: &Row, at: usize) -> AccountId {
    row.get::<_, Option<i32>>(at).unwrap_or(0).cast_unsigned()
}

pub(super) fn number_of_account(row: &Row) -> AccountId {
    AccountId::try_from(unsigned(row, column::NUMBER)).unwrap_or(0)
}

pub(super) fn text(row: &Row, at: usize) -> &str {
    row.get::<_, Option<&str>>(at).unwrap_or_default()
}

/// Returns the number of the request that a row answers.
pub(super) fn op(row: &Row) -> Option<usize> {
    row.get::<_, Option<i32>>(column::OP).and_then(|op| usize::try_from(op).ok())
}

/// A message that was sent; None: its queue does not exist.
pub(super) type Sent = Option<SentTo>;

#[derive(Clone, Copy)]
pub(super) struct SentTo {
    pub(super) id: u64,
    pub(super) queue: u64,
}

impl SentTo {
    /// Returns the message's place in reading order: steps send without priorities.
    pub(super) fn place(self) -> i64 {
        PLAIN | self.id.cast_signed()
    }
}

/// Place of a message without a priority, to which its id is added.
const PLAIN: i64 = (u8::MAX as i64) << 54;

/// Returns the requests of a step's SENDs with the messages they made, as the row has them from a position in `sends`.
pub(super) fn sent(row: &Row, sends: &[i32]) -> impl Iterator<Item = (usize, Sent)> {
    let (ids, queues) = halves(row);
    let sent = ids.into_iter().zip(queues).map(|(id, queue)| {
        id.zip(queue).map(|(id, queue)| SentTo { id: id.cast_unsigned(), queue: queue.cast_unsigned() })
    });
    let first = op(row).unwrap_or(1) - 1;
    sends[first..].iter().map(|op| *op as usize).zip(sent)
}

/// Returns places of messages, each with the request that gets it, which the row names by its position in `reads`.
pub(super) fn assigned(row: &Row, reads: &[i32]) -> impl Iterator<Item = (i64, usize)> {
    let (places, takers) = halves(row);
    let takers = takers.into_iter().flatten().filter_map(|taker| usize::try_from(taker).ok());
    places.into_iter().flatten().zip(takers.map(|taker| reads[taker - 1] as usize))
}

/// Returns the news for waiting pops.
pub(super) fn news(row: &Row) -> News {
    let queue = unsigned(row, column::QUEUE);
    if kind(row) == Some(RowKind::QueueGone) {
        return News::QueueGone(queue);
    }
    News::Available {
        queue,
        sender: account(row, column::SENDER),
        recipient: Some(account(row, column::RECIPIENT)).filter(|id| *id != 0),
    }
}

/// Returns what a row counts, and for how many messages.
pub(super) fn count(row: &Row) -> Option<(MessageEvent, u64)> {
    let event = match text(row, column::REASON) {
        "returned" => MessageEvent::Returned,
        "dead_lettered" => MessageEvent::DeadLettered,
        "expired" => MessageEvent::Expired,
        _ => return None,
    };
    Some((event, unsigned(row, column::NUMBER)))
}

/// Returns whether the row answers a SEND that sent nothing, because its key was known.
pub(super) fn is_repeated(row: &Row) -> bool {
    text(row, column::REASON) == "repeated"
}

/// Returns whether the row is a message that is given again, as the answer to the same REQID.
pub(super) fn is_given_again(row: &Row) -> bool {
    row.get::<_, Option<Vec<Option<i64>>>>(column::FIGURES).is_some()
}

/// Splits the figures of a row, which are two columns one after the other.
fn halves(row: &Row) -> (Vec<Option<i64>>, Vec<Option<i64>>) {
    let mut first: Vec<Option<i64>> = row.get::<_, Option<_>>(column::FIGURES).unwrap_or_default();
    let second = first.split_off(first.len() / 2);
    (first, second)
}

/// Returns whether a pop gave up because another one took the message first.
pub(super) fn is_lost(rows: &[Row]) -> bool {
    matches!(rows, [row, ..] if kind(row) == Some(RowKind::Refusal) && text(row, column::REASON) == "lost")
}

/// Writes a message.
pub(super) fn write_message(
    row: &Row,
    queue: &[u8],
    state: Option<&'static str>,
    accounts: &Accounts,
    answer: &mut Answer<'_>,
) {
    let name = |id| accounts.name(id).unwrap_or_default();
    let recipient = Some(account(row, column::RECIPIENT)).filter(|id| *id != 0);
    let origin: Option<&str> = row.get(column::ORIGIN);
    let place: i64 = row.get(column::PLACE);
    answer.message(&MessageView {
        id: unsigned(row, column::NUMBER),
        queue,
        from: name(account(row, column::SENDER)),
        to: recipient.map(name),
        sent_ms: unsigned(row, column::SENT),
        deliveries: row.get::<_, i32>(column::DELIVERIES).cast_unsigned(),
        body: row.get(column::BODY),
        priority: u8::MAX - u8::try_from(place >> 54).unwrap_or(u8::MAX),
        receipt: row
            .get::<_, Option<i64>>(column::RECEIPT)
            .filter(|_| state.is_none())
            .map(i64::cast_unsigned),
        headers: Headers(row.get::<_, Option<&[u8]>>(column::HEADERS).unwrap_or_default()),
        dead: origin.map(|origin| DeadLetterOrigin {
            first_queue: origin.as_bytes(),
            reason: row.get::<_, Option<&str>>(column::REASON).unwrap_or_default(),
        }),
        state,
    });
}

pub(super) fn state(row: &Row) -> &'static str {
    match (row.get::<_, Option<i64>>(column::DUE), row.get::<_, Option<i64>>(column::RECEIPT)) {
        (None, _) => "ready",
        (Some(_), None) => "delayed",
        (Some(_), Some(_)) => "leased",
    }
}

/// The figures of a queue, by their [`figure`].
struct Figures(Vec<Option<i64>>);

impl Figures {
    fn of(row: &Row) -> Self {
        Self(row.get(column::FIGURES))
    }

    fn limit(&self, at: usize) -> Option<u64> {
        self.0.get(at).copied().flatten().map(i64::cast_unsigned)
    }

    fn count(&self, at: usize) -> u64 {
        self.limit(at).unwrap_or(0)
    }
}

fn queue_view<'a>(row: &'a Row, figures: &Figures) -> QueueView<'a> {
    QueueView {
        name: text(row, column::NAME).as_bytes(),
        id: unsigned(row, column::NUMBER),
        messages: figures.count(figure::MESSAGES),
        bytes: figures.count(figure::BYTES),
        oldest_ms: figures.count(figure::OLDEST_MS),
    }
}

/// Writes a queue as QLIST shows it.
pub(super) fn write_queue_summary(row: &Row, answer: &mut Answer<'_>) {
    answer.queue(&queue_view(row, &Figures::of(row)), None);
}

/// Writes a queue as QINFO shows it.
pub(super) fn write_queue_detail(row: &Row, answer: &mut Answer<'_>) {
    let figures = Figures::of(row);
    let dead_letters: Option<&str> = row.get(column::ORIGIN);
    let after = u32::try_from(figures.count(figure::DEAD_AFTER)).unwrap_or(u32::MAX);
    let detail = QueueDetail {
        leased: figures.count(figure::LEASED),
        delayed: figures.count(figure::DELAYED),
        messages_max: figures.limit(figure::MESSAGES_MAX),
        bytes_max: figures.limit(figure::BYTES_MAX),
        ttl_ms: figures.limit(figure::TTL_MS),
        dead_letter: dead_letters.map(|name| DeadLetterView { queue: name.as_bytes(), after }),
        forbid_self: figures.count(figure::FORBID_SELF) != 0,
        strict: figures.count(figure::STRICT) != 0,
    };
    answer.queue(&queue_view(row, &figures), Some(&detail));
}

/// Returns a refusal in the words that all stores share.
pub(super) fn fault(row: &Row, ask: Ask<'_>, removed: u64) -> Fault {
    let name = |span: Span| span.of(ask.bytes);
    let queue = ask.operation.queue().map_or(&b""[..], name);
    let limit = unsigned(row, column::NUMBER);
    match text(row, column::REASON) {
        "forbidden_self" => faults::forbidden_self(queue),
        "no_account" => {
            let recipient = match ask.operation {
                Operation::Send(send) => match send.to {
                    Recipient::Account(account) => name(account),
                    _ => b"",
                },
                _ => b"",
            };
            faults::no_account(recipient, queue)
        }
        "full_messages" => faults::full_messages(queue, limit),
        "full_bytes" => faults::full_bytes(queue, limit),
        "full_copies" => faults::too_many_copies(limit),
        "own_dead_letters" => match ask.operation {
            Operation::CreateQueue { options: Some(options), .. } => {
                faults::own_dead_letters(options.dead_letter.map_or(queue, |dead| name(dead.queue)))
            }
            _ => faults::own_dead_letters(queue),
        },
        "no_other_queue" => match ask.operation {
            Operation::Redrive { to: Some(to), .. } => faults::no_queue(name(*to)),
            _ => faults::no_queue(queue),
        },
        "under_way" => {
            Fault::about(Word::Busy, "a request with this REQID is being done; try again".to_owned())
        }
        "in_use" => in_use(queue, removed),
        _ => faults::no_queue(queue),
    }
}

/// Returns the refusal where another transaction keeps a queue from being emptied, and so many are `removed`.
pub(super) fn in_use(queue: &[u8], removed: u64) -> Fault {
    let why = format!("a transaction that uses queue '{}' has not ended", String::from_utf8_lossy(queue));
    undone(Word::Busy, why, Changed::Removed(removed))
}
