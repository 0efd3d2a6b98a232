//! The reply of `posthaste.apply`: its rows, sorted by request and written as answers.

use posthaste_wire::operation::{Operation, Pop, Recipient, Selection, Send};
use rustc_hash::FxHashMap;
use tokio_postgres::Row;

use super::kinds::RowKind;
use super::names::Accounts;
use super::rows::{
    Sent, account, assigned, column, count, fault, is_given_again, is_repeated, kind, news,
    number_of_account, op, sent, state, text, unsigned, write_message, write_queue_detail,
    write_queue_summary,
};
use crate::queue::answer::Answer;
use crate::queue::counts::{MessageCounts, MessageEvent};
use crate::queue::faults;
use crate::queue::rules::{AccountId, Ask, Flow, Interest, News, Outcome};

/// The rows of the reply to one call.
pub(super) struct Replies {
    rows: Vec<Row>,
    /// Requests and the rows that answer them, sorted by request; rows of one request in the order they came.
    by_op: Vec<(usize, usize)>,
    /// Messages sent by SENDs of steps, by request.
    sent: FxHashMap<usize, Vec<Sent>>,
    /// Rows that name queues, by queue id.
    names: FxHashMap<u64, usize>,
    /// Rows with the queues that are readable for anyone, by the number that they share with the rows for readers.
    for_anyone: FxHashMap<u64, usize>,
    /// The highest place that occurs in the rows.
    pub(super) newest: i64,
    /// Floors, each with the number of its lane.
    pub(super) floors: Vec<(usize, i64)>,
    /// News for waiting pops.
    pub(super) news: Vec<News>,
    /// What happened to messages beside what requests are answered.
    pub(super) counts: MessageCounts,
    /// How far a tick has come.
    pub(super) ticked: Option<Ticked>,
    /// How long the statement took by the database's clock, in nanoseconds, without the commit; 0: unknown.
    pub(super) statement_ns: u64,
}

/// How far a tick has come: up to when it is done with what was due, and when it ran, in milliseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Ticked {
    pub(super) done_ms: i64,
    at_ms: i64,
}

impl Ticked {
    fn of(row: &Row) -> Option<Self> {
        let number = |at| row.get::<_, Option<i64>>(at);
        Some(Self { done_ms: number(column::NUMBER)?, at_ms: number(column::DUE)? })
    }

    /// Returns whether there may be more left than one tick does.
    pub(super) fn is_behind(self) -> bool {
        self.done_ms < self.at_ms
    }
}

impl Replies {
    /// Sorts rows. `sends` and `reads` are these columns of the call, in which some rows count requests.
    pub(super) fn new(rows: Vec<Row>, sends: &[i32], reads: &[i32]) -> Self {
        let mut replies = Self {
            by_op: Vec::with_capacity(rows.len()),
            rows,
            sent: FxHashMap::default(),
            names: FxHashMap::default(),
            for_anyone: FxHashMap::default(),
            newest: 0,
            floors: Vec::new(),
            news: Vec::new(),
            counts: MessageCounts::default(),
            ticked: None,
            statement_ns: 0,
        };
        let mut takers: FxHashMap<i64, usize> = FxHashMap::default();
        for (number, row) in replies.rows.iter().enumerate() {
            match kind(row) {
                Some(RowKind::Sent) => {
                    for (op, sent) in sent(row, sends) {
                        replies.newest = replies.newest.max(sent.map_or(0, |sent| sent.place()));
                        replies.sent.entry(op).or_default().push(sent);
                    }
                }
                Some(RowKind::Assigned) => takers.extend(assigned(row, reads)),
                Some(RowKind::QueueName) => {
                    replies.names.insert(unsigned(row, column::QUEUE), number);
                }
                Some(RowKind::Readable) if op(row).is_none() => {
                    replies.for_anyone.insert(unsigned(row, column::NUMBER), number);
                }
                Some(RowKind::Duration) => replies.statement_ns = unsigned(row, column::NUMBER),
                Some(RowKind::Count) => {
                    count(row).into_iter().for_each(|(event, messages)| replies.counts.add(event, messages))
                }
                Some(RowKind::Tick) => replies.ticked = Ticked::of(row),
                Some(RowKind::Floor) => {
                    replies.floors.extend(op(row).zip(row.get::<_, Option<i64>>(column::NUMBER)))
                }
                Some(RowKind::Available | RowKind::QueueGone) => replies.news.push(news(row)),
                _ => {
                    let place = row.get::<_, Option<i64>>(column::PLACE);
                    replies.newest = replies.newest.max(place.unwrap_or(0));
                    let op = op(row).or_else(|| takers.get(&place?).copied());
                    replies.by_op.extend(op.map(|op| (op, number)));
                }
            }
        }
        replies.by_op.sort_unstable();
        replies
    }

    /// Returns the accounts in messages whose names are not known yet.
    pub(super) fn strangers(&self, accounts: &Accounts) -> Vec<i32> {
        let messages = self.rows.iter().filter(|row| kind(row) == Some(RowKind::Message));
        let ids = messages.flat_map(|row| [account(row, column::SENDER), account(row, column::RECIPIENT)]);
        let mut strangers: Vec<i32> =
            ids.filter(|id| *id != 0 && accounts.name(*id).is_none()).map(AccountId::cast_signed).collect();
        strangers.sort_unstable();
        strangers.dedup();
        strangers
    }

    /// Returns the id of the queue that a SEND went to; None: it sent nothing, or other rows tell what it sent.
    pub(super) fn sent_to(&self, op: usize) -> Option<u64> {
        if let Some(sent) = self.sent.get(&op) {
            return sent.first().copied().flatten().map(|sent| sent.queue);
        }
        let row = self.rows_of(op).next()?;
        row.get::<_, Option<i64>>(column::QUEUE)
            .filter(|_| kind(row) == Some(RowKind::Number))
            .map(i64::cast_unsigned)
    }

    /// Returns the ids of the messages that a SEND or SENDMANY made; 0 where an id is not told.
    pub(super) fn sent_ids(&self, op: usize) -> Vec<u64> {
        match self.sent.get(&op) {
            Some(sent) => sent.iter().flatten().map(|sent| sent.id).collect(),
            None => vec![0],
        }
    }

    /// Returns how many messages a SEND to everyone became; None: it was refused.
    pub(super) fn copies(&self, op: usize) -> Option<usize> {
        let row = self.rows_of(op).next().filter(|row| kind(row) == Some(RowKind::Number))?;
        usize::try_from(unsigned(row, column::NUMBER)).ok()
    }

    /// Returns the ids of the messages handed out to request `op`.
    pub(super) fn message_ids(&self, op: usize) -> impl Iterator<Item = u64> {
        self.rows_of(op)
            .filter(|row| kind(row) == Some(RowKind::Message))
            .map(|row| unsigned(row, column::NUMBER))
    }

    /// Returns what request `op` did to messages and to how many; None: to none, or other rows count it.
    pub(super) fn done_to_messages(&self, op: usize, operation: &Operation) -> Option<(MessageEvent, u64)> {
        let numbers = || self.rows_of(op).filter(|row| kind(row) == Some(RowKind::Number));
        let number = || numbers().map(|row| unsigned(row, column::NUMBER)).sum();
        Some(match operation {
            Operation::Send(_) if numbers().any(is_repeated) => (MessageEvent::Deduplicated, 1),
            Operation::Send(Send { to: Recipient::Everyone, .. }) => (MessageEvent::Sent, number()),
            Operation::Send(_) | Operation::SendMany { .. } => {
                let sent = self.sent.get(&op).map(|sent| sent.iter().flatten().count());
                (MessageEvent::Sent, sent.unwrap_or_else(|| numbers().count()) as u64)
            }
            Operation::Pop(_) => {
                let messages = self.rows_of(op).filter(|row| kind(row) == Some(RowKind::Message));
                (MessageEvent::Taken, messages.filter(|row| !is_given_again(row)).count() as u64)
            }
            Operation::Ack { .. } => (MessageEvent::Acknowledged, number()),
            Operation::PurgeQueue { .. } | Operation::DeleteQueue { .. } => (MessageEvent::Purged, number()),
            _ => return None,
        })
    }

    /// Writes the answer to request `op`; `removed`: how many messages it has removed before this call.
    pub(super) fn write(
        &self,
        op: usize,
        ask: Ask<'_>,
        removed: u64,
        accounts: &Accounts,
        answer: &mut Answer<'_>,
    ) -> Flow {
        if let Some(sent) = self.sent.get(&op) {
            return Flow::Done(sending(sent, ask, answer));
        }
        let first = self.rows_of(op).next();
        if let Some(refused) = first.filter(|row| kind(row) == Some(RowKind::Refusal)) {
            return Flow::Done(match (text(refused, column::REASON), removed) {
                // Another client has deleted the queue meanwhile.
                ("no_queue", 1..) => answer.integer(removed),
                _ => answer.fault(&fault(refused, ask, removed)),
            });
        }
        Flow::Done(match ask.operation {
            Operation::Peek(select) => self.messages(op, ask, select.count.is_some(), accounts, answer),
            Operation::Pop(Pop { select, block_ms, .. }) => {
                if let Some(empty) = first.filter(|row| kind(row) == Some(RowKind::Empty) && *block_ms > 0) {
                    return Flow::Waits(interest(empty, select, ask.account));
                }
                self.messages(op, ask, select.count.is_some(), accounts, answer)
            }
            Operation::SendMany { .. } => self.list(op, answer, |row, answer| {
                answer.integer(unsigned(row, column::NUMBER));
            }),
            Operation::Readable { .. } => {
                let names = self.readable(first);
                answer.array(names.len());
                names.into_iter().for_each(|name| answer.text(name));
                Outcome::Ok
            }
            Operation::ListQueues { .. } => self.list(op, answer, write_queue_summary),
            Operation::QueueInfo { .. } => {
                let Some(row) = first else { return Flow::Done(answer.null()) };
                write_queue_detail(row, answer);
                Outcome::Ok
            }
            Operation::Browse { .. } => self.list(op, answer, |row, answer| {
                write_message(row, text(row, column::NAME).as_bytes(), Some(state(row)), accounts, answer);
            }),
            Operation::Accounts { .. } => self.list(op, answer, |row, answer| {
                answer.account(text(row, column::NAME).as_bytes(), number_of_account(row));
            }),
            _ => answer.integer(removed + first.map_or(0, |row| unsigned(row, column::NUMBER))),
        })
    }

    /// An array with an element for each row.
    fn list(&self, op: usize, answer: &mut Answer<'_>, write: impl Fn(&Row, &mut Answer<'_>)) -> Outcome {
        let rows = self.rows_of(op);
        answer.array(rows.len());
        rows.for_each(|row| write(row, answer));
        Outcome::Ok
    }

    /// Returns the names of the queues that hold something for the reader whose row this is, or for anyone.
    fn readable(&self, own: Option<&Row>) -> Vec<&[u8]> {
        // With NOTOWN the row has no number: it lists these too.
        let shared = own.and_then(|own| own.get::<_, Option<i64>>(column::NUMBER));
        let for_anyone = shared.and_then(|shared| self.for_anyone.get(&shared.cast_unsigned()));
        let lists = own.into_iter().chain(for_anyone.map(|&row| &self.rows[row]));
        let mut queues: Vec<i64> = lists
            .flat_map(|row| row.get::<_, Option<Vec<i64>>>(column::FIGURES).unwrap_or_default())
            .collect();
        queues.sort_unstable();
        queues.dedup();
        // A queue without a name was deleted a moment ago.
        let named = queues.into_iter().filter_map(|queue| self.names.get(&queue.cast_unsigned()));
        named.map(|&row| text(&self.rows[row], column::NAME).as_bytes()).collect()
    }

    /// Writes messages in reading order.
    fn messages(
        &self,
        op: usize,
        ask: Ask<'_>,
        many: bool,
        accounts: &Accounts,
        answer: &mut Answer<'_>,
    ) -> Outcome {
        let queue = ask.operation.queue().map(|queue| queue.of(ask.bytes));
        let mut rows: Vec<&Row> =
            self.rows_of(op).filter(|row| kind(row) == Some(RowKind::Message)).collect();
        rows.sort_by_key(|row| row.get::<_, Option<i64>>(column::PLACE));
        // An answer repeated for a REQID has the form of the first one.
        let form = rows.first().and_then(|row| row.get::<_, Option<Vec<Option<i64>>>>(column::FIGURES));
        let many = form.map_or(many, |form| form.first() == Some(&Some(1)));
        match (many, rows.len()) {
            (false, 0) => return answer.null(),
            (true, 0) => return answer.empty(),
            (false, len) => {
                if len > 1 {
                    let ids: Vec<u64> = self.message_ids(op).collect();
                    tracing::error!(
                        "PostgreSQL gave the messages {ids:?} to a request for one, which gets the first"
                    );
                }
                // Whatever the database says: two replies would be taken for those of two requests.
                rows.truncate(1);
            }
            (true, len) => answer.array(len),
        }
        for row in rows {
            write_message(row, queue.unwrap_or_else(|| self.queue_of(row)), None, accounts, answer);
        }
        Outcome::Ok
    }

    /// Returns the name of a message's queue, where the reader named none.
    fn queue_of<'a>(&'a self, message: &'a Row) -> &'a [u8] {
        let named = self.names.get(&unsigned(message, column::QUEUE)).map_or(message, |&row| &self.rows[row]);
        text(named, column::NAME).as_bytes()
    }

    fn rows_of(&self, op: usize) -> impl ExactSizeIterator<Item = &Row> {
        let from = self.by_op.partition_point(|(of, _)| *of < op);
        let len = self.by_op[from..].partition_point(|(of, _)| *of == op);
        self.by_op[from..from + len].iter().map(|&(_, number)| &self.rows[number])
    }
}

/// Returns what a pop that found nothing waits for.
fn interest(empty: &Row, select: &Selection, reader: AccountId) -> Interest {
    Interest {
        reader,
        queue: empty.get::<_, Option<i64>>(column::QUEUE).map(i64::cast_unsigned),
        sender: empty.get::<_, Option<i32>>(column::SENDER).map(i32::cast_unsigned),
        not_own: select.not_own,
        broadcast: select.broadcast,
    }
}

/// Answers a SEND or SENDMANY of a step.
fn sending(sent: &[Sent], ask: Ask<'_>, answer: &mut Answer<'_>) -> Outcome {
    let ids: Option<Vec<u64>> = sent.iter().map(|sent| sent.map(|sent| sent.id)).collect();
    match (ids.as_deref(), ask.operation) {
        (None, operation) => {
            let queue = operation.queue().map_or(&b""[..], |queue| queue.of(ask.bytes));
            answer.fault(&faults::no_queue(queue))
        }
        (Some(ids), Operation::SendMany { .. }) => {
            answer.array(ids.len());
            ids.iter().map(|id| answer.integer(*id)).last().unwrap_or(Outcome::Ok)
        }
        (Some(ids), _) => answer.integer(ids.first().copied().unwrap_or(0)),
    }
}
