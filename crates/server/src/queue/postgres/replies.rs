//! What `posthaste.apply` answered: its rows, sorted by request and written as answers.

use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Pop, Recipient};
use posthaste_wire::span::Span;
use tokio_postgres::Row;

use super::names::Accounts;
use crate::queue::answer::{Answer, Dead, Headers, MessageView, QueueDetail, QueueView};
use crate::queue::faults;
use crate::queue::rules::{AccountId, Ask, Flow, Interest, News, Outcome};

/// Columns of the SQL type `posthaste.answer`.
mod column {
    pub(super) const OP: usize = 0;
    pub(super) const KIND: usize = 1;
    pub(super) const NUMBER: usize = 2;
    pub(super) const QUEUE: usize = 3;
    pub(super) const SENDER: usize = 4;
    pub(super) const RECIPIENT: usize = 5;
    pub(super) const SENT: usize = 6;
    pub(super) const DELIVERIES: usize = 7;
    pub(super) const PLACE: usize = 8;
    pub(super) const RECEIPT: usize = 9;
    pub(super) const DUE: usize = 10;
    pub(super) const NAME: usize = 11;
    pub(super) const ORIGIN: usize = 12;
    pub(super) const REASON: usize = 13;
    pub(super) const HEADERS: usize = 14;
    pub(super) const BODY: usize = 15;
    pub(super) const FIGURES: usize = 16;
}

/// The rows of one call.
pub(super) struct Replies {
    rows: Vec<Row>,
    /// For each request the rows that answer it, in the order they came.
    by_op: Vec<Vec<usize>>,
    /// Floors by lane.
    pub(super) floors: Vec<(usize, i64)>,
    /// What waiting pops want to know.
    pub(super) news: Vec<News>,
}

impl Replies {
    /// Sorts rows; `ops` requests were asked.
    pub(super) fn new(rows: Vec<Row>, ops: usize) -> Self {
        let mut replies = Self { rows, by_op: vec![Vec::new(); ops], floors: Vec::new(), news: Vec::new() };
        for (number, row) in replies.rows.iter().enumerate() {
            let op = row.get::<_, Option<i32>>(column::OP).and_then(|op| usize::try_from(op).ok());
            match kind(row) {
                b'l' => replies.floors.extend(op.zip(row.get::<_, Option<i64>>(column::NUMBER))),
                b'v' => replies.news.push(News::Available {
                    queue: unsigned(row, column::QUEUE),
                    sender: account(row, column::SENDER),
                    recipient: Some(account(row, column::RECIPIENT)).filter(|id| *id != 0),
                }),
                b'g' => replies.news.push(News::QueueGone(unsigned(row, column::QUEUE))),
                _ => {
                    if let Some(rows) = op.and_then(|op| replies.by_op.get_mut(op)) {
                        rows.push(number);
                    }
                }
            }
        }
        replies
    }

    /// Accounts in the answers whose names are not known yet.
    pub(super) fn strangers(&self, accounts: &Accounts) -> Vec<i32> {
        let messages = self.rows.iter().filter(|row| kind(row) == b'm');
        let ids = messages.flat_map(|row| [account(row, column::SENDER), account(row, column::RECIPIENT)]);
        let mut strangers: Vec<i32> =
            ids.filter(|id| *id != 0 && accounts.name(*id).is_none()).map(AccountId::cast_signed).collect();
        strangers.sort_unstable();
        strangers.dedup();
        strangers
    }

    /// The queue that a SEND went to; None: it was refused.
    pub(super) fn sent_to(&self, op: usize) -> Option<u64> {
        let row = self.rows_of(op).next()?;
        (kind(row) == b'i').then(|| unsigned(row, column::QUEUE))
    }

    /// Writes the answer to request `op`.
    pub(super) fn write(
        &self,
        op: usize,
        ask: Ask<'_>,
        accounts: &Accounts,
        answer: &mut Answer<'_>,
    ) -> Flow {
        let first = self.rows_of(op).next();
        if let Some(refused) = first.filter(|row| kind(row) == b'f') {
            return Flow::Done(answer.fault(&fault(refused, ask)));
        }
        let number = || first.map_or(0, |row| unsigned(row, column::NUMBER));
        let len = self.by_op[op].len();
        Flow::Done(match ask.operation {
            Operation::Peek(select) => self.messages(op, ask, select.count.is_some(), accounts, answer),
            Operation::Pop(Pop { select, block_ms, .. }) => {
                if let Some(empty) = first.filter(|row| kind(row) == b'e' && *block_ms > 0) {
                    return Flow::Waits(Interest {
                        reader: ask.account,
                        queue: empty.get::<_, Option<i64>>(column::QUEUE).map(i64::cast_unsigned),
                        sender: empty.get::<_, Option<i32>>(column::SENDER).map(i32::cast_unsigned),
                        not_own: select.not_own,
                        broadcast: select.broadcast,
                    });
                }
                self.messages(op, ask, select.count.is_some(), accounts, answer)
            }
            Operation::SendMany { .. } => {
                answer.array(len);
                let ids = self.rows_of(op).map(|row| unsigned(row, column::NUMBER));
                ids.map(|id| answer.integer(id)).last().unwrap_or(Outcome::Ok)
            }
            Operation::Readable => {
                answer.array(len);
                self.rows_of(op).for_each(|row| answer.text(text(row, column::NAME).as_bytes()));
                Outcome::Ok
            }
            Operation::ListQueues => {
                answer.array(len);
                self.rows_of(op).for_each(|row| queue(row, false, answer));
                Outcome::Ok
            }
            Operation::QueueInfo { .. } => {
                first.into_iter().for_each(|row| queue(row, true, answer));
                Outcome::Ok
            }
            Operation::Browse { .. } => {
                answer.array(len);
                self.rows_of(op).for_each(|row| message(row, None, Some(state(row)), accounts, answer));
                Outcome::Ok
            }
            Operation::Accounts => {
                answer.array(len);
                for row in self.rows_of(op) {
                    answer.account(text(row, column::NAME).as_bytes(), number_of_account(row));
                }
                Outcome::Ok
            }
            _ => answer.integer(number()),
        })
    }

    /// Messages in reading order.
    fn messages(
        &self,
        op: usize,
        ask: Ask<'_>,
        many: bool,
        accounts: &Accounts,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let queue = queue_named(ask.operation).map(|queue| queue.of(ask.bytes));
        let mut rows: Vec<&Row> = self.rows_of(op).filter(|row| kind(row) == b'm').collect();
        rows.sort_by_key(|row| row.get::<_, Option<i64>>(column::PLACE));
        // What is given again has the form of the first time.
        let form = rows.first().and_then(|row| row.get::<_, Option<Vec<Option<i64>>>>(column::FIGURES));
        let many = form.map_or(many, |form| form.first() == Some(&Some(1)));
        match (many, rows.len()) {
            (false, 0) => return answer.null(),
            (true, 0) => return answer.empty(),
            (false, _) => {}
            (true, len) => answer.array(len),
        }
        rows.into_iter().for_each(|row| message(row, queue, None, accounts, answer));
        Outcome::Ok
    }

    fn rows_of(&self, op: usize) -> impl Iterator<Item = &Row> {
        self.by_op[op].iter().map(|&number| &self.rows[number])
    }
}

/// Whether a pop gave up because somebody else was faster.
pub(super) fn is_lost(rows: &[Row]) -> bool {
    matches!(rows, [row] if kind(row) == b'f' && text(row, column::REASON) == "lost")
}

/// Writes a message; `queue` is the name that the reader gave, which the row then need not tell.
fn message(
    row: &Row,
    queue: Option<&[u8]>,
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
        queue: queue.unwrap_or_else(|| text(row, column::NAME).as_bytes()),
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
        dead: origin.map(|origin| Dead {
            first_queue: origin.as_bytes(),
            reason: row.get::<_, Option<&str>>(column::REASON).unwrap_or_default(),
        }),
        state,
    });
}

fn state(row: &Row) -> &'static str {
    match (row.get::<_, Option<i64>>(column::DUE), row.get::<_, Option<i64>>(column::RECEIPT)) {
        (None, _) => "ready",
        (Some(_), None) => "delayed",
        (Some(_), Some(_)) => "leased",
    }
}

fn queue(row: &Row, detailed: bool, answer: &mut Answer<'_>) {
    let figures: Vec<Option<i64>> = row.get(column::FIGURES);
    let limit = |at: usize| figures.get(at).copied().flatten().map(i64::cast_unsigned);
    let count = |at: usize| limit(at).unwrap_or(0);
    let view = QueueView {
        name: text(row, column::NAME).as_bytes(),
        id: unsigned(row, column::NUMBER),
        messages: count(0),
        bytes: count(1),
        oldest_ms: count(2),
    };
    let grave: Option<&str> = row.get(column::ORIGIN);
    let after = u32::try_from(count(8)).unwrap_or(u32::MAX);
    let detail = QueueDetail {
        leased: count(3),
        delayed: count(4),
        messages_max: limit(5),
        bytes_max: limit(6),
        ttl_ms: limit(7),
        dead_letter: grave.map(|grave| (grave.as_bytes(), after)),
        forbid_self: count(9) != 0,
        strict: count(10) != 0,
    };
    answer.queue(&view, detailed.then_some(&detail));
}

/// A refusal in words, which are those of every store.
fn fault(row: &Row, ask: Ask<'_>) -> Fault {
    let name = |span: Span| span.of(ask.bytes);
    let queue = queue_named(ask.operation).map_or(&b""[..], name);
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
        "in_use" => Fault::about(
            Word::Busy,
            format!(
                "a transaction that uses queue '{}' has not ended; try again",
                String::from_utf8_lossy(queue)
            ),
        ),
        _ => faults::no_queue(queue),
    }
}

/// The queue that a request names.
pub(super) fn queue_named(operation: &Operation) -> Option<Span> {
    match operation {
        Operation::Send(send) => Some(send.queue),
        Operation::SendMany { queue, .. }
        | Operation::DeleteQueue { queue }
        | Operation::PurgeQueue { queue }
        | Operation::QueueInfo { queue }
        | Operation::Browse { queue, .. }
        | Operation::Redrive { from: queue, .. } => Some(*queue),
        Operation::Peek(select) | Operation::Pop(Pop { select, .. }) => select.queue,
        Operation::CreateQueue { name, .. } => *name,
        _ => None,
    }
}

fn kind(row: &Row) -> u8 {
    row.get::<_, i8>(column::KIND).cast_unsigned()
}

fn unsigned(row: &Row, at: usize) -> u64 {
    row.get::<_, Option<i64>>(at).unwrap_or(0).cast_unsigned()
}

fn account(row: &Row, at: usize) -> AccountId {
    row.get::<_, Option<i32>>(at).unwrap_or(0).cast_unsigned()
}

fn number_of_account(row: &Row) -> AccountId {
    AccountId::try_from(unsigned(row, column::NUMBER)).unwrap_or(0)
}

fn text(row: &Row, at: usize) -> &str {
    row.get::<_, Option<&str>>(at).unwrap_or_default()
}
