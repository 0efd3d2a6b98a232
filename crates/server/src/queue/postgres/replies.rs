//! What `posthaste.apply` answered: its rows, sorted by request and written as answers.

use posthaste_wire::fault::{Fault, Word};
use posthaste_wire::operation::{Operation, Pop, Recipient};
use posthaste_wire::span::Span;
use rustc_hash::FxHashMap;
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

/// The place of a message without a priority, but for its id.
const PLAIN: i64 = (u8::MAX as i64) << 54;

/// The rows of one call.
pub(super) struct Replies {
    rows: Vec<Row>,
    /// Requests and the rows that answer them, by request; those of one in the order they came.
    by_op: Vec<(usize, usize)>,
    /// What the SENDs of steps gave.
    sent: FxHashMap<usize, Vec<Sent>>,
    /// Rows that name queues.
    names: FxHashMap<u64, usize>,
    /// Rows with the queues that are readable for anyone, by the number that they share with those for a reader.
    for_anyone: FxHashMap<u64, usize>,
    /// The highest place there is to be seen in the rows.
    pub(super) newest: i64,
    /// Floors by lane.
    pub(super) floors: Vec<(usize, i64)>,
    /// What waiting pops want to know.
    pub(super) news: Vec<News>,
    /// What a tick has done.
    pub(super) ticked: Option<Ticked>,
    /// What the database says that the statement took, in nanoseconds, without the commit; 0: it does not say.
    pub(super) statement_ns: u64,
}

/// Up to when a tick is done with what was due, and when it was asked, in milliseconds since 1970.
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

    /// Whether there may be more than one tick does.
    pub(super) fn is_behind(self) -> bool {
        self.done_ms < self.at_ms
    }
}

/// A message that was sent; None: the queue does not exist.
type Sent = Option<SentTo>;

#[derive(Clone, Copy)]
struct SentTo {
    id: u64,
    queue: u64,
}

impl Replies {
    /// Sorts rows. `sends` and `reads`: the requests in these columns of the call, which some rows count by.
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
            ticked: None,
            statement_ns: 0,
        };
        let mut dealt: FxHashMap<i64, usize> = FxHashMap::default();
        for (number, row) in replies.rows.iter().enumerate() {
            let op = row.get::<_, Option<i32>>(column::OP).and_then(|op| usize::try_from(op).ok());
            match kind(row) {
                b's' => {
                    let (ids, queues) = halves(row);
                    let first = op.unwrap_or(1) - 1;
                    replies.newest = ids.iter().flatten().map(|id| PLAIN | id).fold(replies.newest, i64::max);
                    for ((id, queue), op) in ids.into_iter().zip(queues).zip(&sends[first..]) {
                        let sent = id.zip(queue).map(|(id, queue)| SentTo {
                            id: id.cast_unsigned(),
                            queue: queue.cast_unsigned(),
                        });
                        replies.sent.entry(*op as usize).or_default().push(sent);
                    }
                }
                b'd' => {
                    let (places, takers) = halves(row);
                    let takers = takers.into_iter().flatten().filter_map(|taker| usize::try_from(taker).ok());
                    dealt.extend(
                        places.into_iter().flatten().zip(takers.map(|taker| reads[taker - 1] as usize)),
                    );
                }
                b'n' => {
                    replies.names.insert(unsigned(row, column::QUEUE), number);
                }
                b'r' if op.is_none() => {
                    replies.for_anyone.insert(unsigned(row, column::NUMBER), number);
                }
                b'z' => replies.statement_ns = unsigned(row, column::NUMBER),
                b't' => replies.ticked = Ticked::of(row),
                b'l' => replies.floors.extend(op.zip(row.get::<_, Option<i64>>(column::NUMBER))),
                b'v' => replies.news.push(News::Available {
                    queue: unsigned(row, column::QUEUE),
                    sender: account(row, column::SENDER),
                    recipient: Some(account(row, column::RECIPIENT)).filter(|id| *id != 0),
                }),
                b'g' => replies.news.push(News::QueueGone(unsigned(row, column::QUEUE))),
                _ => {
                    let place = row.get::<_, Option<i64>>(column::PLACE);
                    replies.newest = replies.newest.max(place.unwrap_or(0));
                    let op = op.or_else(|| dealt.get(&place?).copied());
                    replies.by_op.extend(op.map(|op| (op, number)));
                }
            }
        }
        replies.by_op.sort_unstable();
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
        if let Some(sent) = self.sent.get(&op) {
            return sent.first().copied().flatten().map(|sent| sent.queue);
        }
        let row = self.rows_of(op).next()?;
        (kind(row) == b'i').then(|| unsigned(row, column::QUEUE))
    }

    /// The messages that a SEND or SENDMANY made; 0 for one whose number is not told.
    pub(super) fn sent_ids(&self, op: usize) -> Vec<u64> {
        match self.sent.get(&op) {
            Some(sent) => sent.iter().flatten().map(|sent| sent.id).collect(),
            None => vec![0],
        }
    }

    /// As how many messages one for everyone was stored; None: it was refused.
    pub(super) fn copies(&self, op: usize) -> Option<usize> {
        let row = self.rows_of(op).next().filter(|row| kind(row) == b'i')?;
        usize::try_from(unsigned(row, column::NUMBER)).ok()
    }

    /// The messages of an answer.
    pub(super) fn message_ids(&self, op: usize) -> impl Iterator<Item = u64> {
        self.rows_of(op).filter(|row| kind(row) == b'm').map(|row| unsigned(row, column::NUMBER))
    }

    /// Writes the answer to request `op`, which has removed so many messages before.
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
        if let Some(refused) = first.filter(|row| kind(row) == b'f') {
            return Flow::Done(match (text(refused, column::REASON), removed) {
                // Somebody else has deleted it meanwhile.
                ("no_queue", 1..) => answer.integer(removed),
                _ => answer.fault(&fault(refused, ask, removed)),
            });
        }
        let number = || first.map_or(0, |row| unsigned(row, column::NUMBER));
        let len = self.rows_of(op).len();
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
                let names = self.readable(first);
                answer.array(names.len());
                names.into_iter().for_each(|name| answer.text(name));
                Outcome::Ok
            }
            Operation::ListQueues { .. } => {
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
                self.rows_of(op).for_each(|row| {
                    message(row, text(row, column::NAME).as_bytes(), Some(state(row)), accounts, answer);
                });
                Outcome::Ok
            }
            Operation::Accounts => {
                answer.array(len);
                for row in self.rows_of(op) {
                    answer.account(text(row, column::NAME).as_bytes(), number_of_account(row));
                }
                Outcome::Ok
            }
            _ => answer.integer(removed + number()),
        })
    }

    /// Names of the queues that hold something for the reader whose row this is, or for anyone.
    fn readable(&self, own: Option<&Row>) -> Vec<&[u8]> {
        let for_anyone = own.and_then(|own| self.for_anyone.get(&unsigned(own, column::NUMBER)));
        let lists = own.into_iter().chain(for_anyone.map(|&row| &self.rows[row]));
        let mut queues: Vec<i64> = lists
            .flat_map(|row| row.get::<_, Option<Vec<i64>>>(column::FIGURES).unwrap_or_default())
            .collect();
        queues.sort_unstable();
        queues.dedup();
        // One without a name was deleted a moment ago.
        let named = queues.into_iter().filter_map(|queue| self.names.get(&queue.cast_unsigned()));
        named.map(|&row| text(&self.rows[row], column::NAME).as_bytes()).collect()
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
        for row in rows {
            message(row, queue.unwrap_or_else(|| self.queue_of(row)), None, accounts, answer);
        }
        Outcome::Ok
    }

    /// The name of a message's queue, where its reader named none.
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

/// Answers a SEND or SENDMANY of a step.
fn sending(sent: &[Sent], ask: Ask<'_>, answer: &mut Answer<'_>) -> Outcome {
    let ids: Option<Vec<u64>> = sent.iter().map(|sent| sent.map(|sent| sent.id)).collect();
    match (ids.as_deref(), ask.operation) {
        (None, operation) => {
            let queue = queue_named(operation).map_or(&b""[..], |queue| queue.of(ask.bytes));
            answer.fault(&faults::no_queue(queue))
        }
        (Some(ids), Operation::SendMany { .. }) => {
            answer.array(ids.len());
            ids.iter().map(|id| answer.integer(*id)).last().unwrap_or(Outcome::Ok)
        }
        (Some(ids), _) => answer.integer(ids.first().copied().unwrap_or(0)),
    }
}

/// Figures that are two columns, one after the other.
fn halves(row: &Row) -> (Vec<Option<i64>>, Vec<Option<i64>>) {
    let mut first: Vec<Option<i64>> = row.get::<_, Option<_>>(column::FIGURES).unwrap_or_default();
    let second = first.split_off(first.len() / 2);
    (first, second)
}

/// Whether a pop gave up because somebody else was faster.
pub(super) fn is_lost(rows: &[Row]) -> bool {
    matches!(rows, [row, ..] if kind(row) == b'f' && text(row, column::REASON) == "lost")
}

/// Writes a message.
fn message(
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
fn fault(row: &Row, ask: Ask<'_>, removed: u64) -> Fault {
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

/// Somebody else's transaction keeps a queue from being emptied, of which so much is removed.
pub(super) fn in_use(queue: &[u8], removed: u64) -> Fault {
    Fault::about(
        Word::Busy,
        format!(
            "a transaction that uses queue '{}' has not ended; {}try again",
            String::from_utf8_lossy(queue),
            if removed > 0 { format!("{removed} messages are removed; ") } else { String::new() }
        ),
    )
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
