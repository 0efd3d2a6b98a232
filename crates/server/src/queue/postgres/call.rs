//! A batch as one call of `posthaste.apply`: its requests sorted into steps, their values into columns.
//!
//! Requests of different connections are concurrent, so they are ordered by kind; those of one connection keep their
//! order, which may take several rounds of steps. See sql/0006_batch.sql.

use posthaste_wire::operation::{Handle, Operation, Pop, Recipient, Selection, Send};
use posthaste_wire::span::Span;
use rustc_hash::FxHashMap;
use tokio_postgres::types::{ToSql, Type};

use super::floors::Floors;
use super::names::Accounts;
use crate::path::bundle::Bundle;
use crate::queue::answer::Headers;
use crate::queue::rules::{AccountId, Ask};

/// Messages of one answer up to which POP and PEEK with COUNT go with the others of their step.
const COUNT_IN_STEP: u32 = 64;

/// Kinds of steps, in the order in which a round does them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Create,
    Send,
    /// By queue, by queue and sender, by sender: a message stands in a lane of each kind, so no two kinds of lane
    /// may be dealt out in one step.
    PopQueue,
    PopBoth,
    PopSender,
    Ack,
    Peek,
    Readable,
    Other,
}

impl Step {
    /// Its letter in SQL.
    fn letter(self) -> i8 {
        (match self {
            Self::Create => b'c',
            Self::Send => b's',
            Self::PopQueue => b'p',
            Self::PopBoth => b'b',
            Self::PopSender => b'f',
            Self::Ack => b'a',
            Self::Peek => b'k',
            Self::Readable => b'r',
            Self::Other => b'o',
        })
        .cast_signed()
    }
}

/// Where a request stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) bundle: usize,
    pub(super) request: usize,
    pub(super) step: Step,
}

/// A lane that POPs or PEEKs of one step draw on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// Position of the queue's name; 0: all queues.
    pub(super) queue: i32,
    pub(super) sender: Option<AccountId>,
    pub(super) recipient: AccountId,
}

/// The arguments, column by column, named as in SQL.
#[derive(Default)]
pub(super) struct Call<'a> {
    pub(super) places: Vec<Place>,
    pub(super) lanes: Vec<Lane>,
    pub(super) names: Vec<&'a str>,
    now_ms: Option<i64>,
    positions: FxHashMap<&'a [u8], i32>,
    step_lanes: FxHashMap<Lane, i32>,
    locked: Vec<bool>,
    made: Vec<&'a str>,
    met_at: Vec<i32>,
    met: Vec<&'a str>,
    steps: Steps,
    sends: Sends<'a>,
    reads: Reads,
    lane_columns: Lanes,
    acks: Acks,
    others: Others<'a>,
}

#[derive(Default)]
struct Steps {
    kinds: Vec<i8>,
    first: Vec<i32>,
    last: Vec<i32>,
    lane_first: Vec<i32>,
    lane_last: Vec<i32>,
}

#[derive(Default)]
struct Sends<'a> {
    op: Vec<i32>,
    queue: Vec<i32>,
    sender: Vec<i32>,
    recipient: Vec<i32>,
    delay: Vec<i64>,
    ttl: Vec<Option<i64>>,
    priority: Vec<i32>,
    headers: Vec<Option<Vec<u8>>>,
    body: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Reads {
    op: Vec<i32>,
    queue: Vec<i32>,
    reader: Vec<i32>,
    sender: Vec<Option<i32>>,
    want: Vec<i64>,
    lease: Vec<Option<i64>>,
    any: Vec<i32>,
    own: Vec<i32>,
}

#[derive(Default)]
struct Lanes {
    queue: Vec<i32>,
    sender: Vec<Option<i32>>,
    recipient: Vec<i32>,
    floor: Vec<Option<i64>>,
    want: Vec<i64>,
}

#[derive(Default)]
struct Acks {
    op: Vec<i32>,
    account: Vec<i32>,
    message: Vec<i64>,
    receipt: Vec<Option<i64>>,
}

#[derive(Default)]
struct Others<'a> {
    op: Vec<i32>,
    kind: Vec<i8>,
    account: Vec<i32>,
    queue: Vec<i32>,
    other: Vec<i32>,
    who: Vec<Option<&'a str>>,
    key: Vec<Option<&'a [u8]>>,
    headers: Vec<Option<Vec<u8>>>,
    body: Vec<Option<&'a [u8]>>,
    numbers: [Vec<Option<i64>>; 4],
    flags: Vec<i32>,
}

/// One row of `Others`.
#[derive(Default)]
struct Other<'a> {
    kind: u8,
    queue: i32,
    other: i32,
    who: Option<&'a str>,
    key: Option<&'a [u8]>,
    headers: Option<Vec<u8>>,
    body: Option<&'a [u8]>,
    numbers: [Option<i64>; 4],
    flags: i32,
}

/// What a middleware knows that helps to put a batch together.
pub(super) struct Knowledge<'a> {
    pub(super) accounts: &'a Accounts,
    pub(super) floors: &'a Floors,
}

impl<'a> Call<'a> {
    /// Puts every request of the bundles that has no answer yet into a call. `now_ms`: None takes the database's
    /// clock.
    pub(super) fn new(bundles: &[&'a Bundle], known: &Knowledge<'_>, now_ms: Option<i64>) -> Self {
        let mut call = Self { now_ms, ..Self::default() };
        let mut last = None;
        for (round, place) in in_order(bundles, known.accounts) {
            if last != Some((round, place.step)) {
                call.begin_step(place.step);
                last = Some((round, place.step));
            }
            let bundle = bundles[place.bundle];
            let request = &bundle.requests[place.request];
            call.places.push(place);
            let ask = Ask { account: bundle.account, operation: &request.operation, bytes: &bundle.bytes };
            call.add(place.step, ask, known);
            call.end_step(place.step);
        }
        call
    }

    /// The lanes with the names of their queues; those of all queues have none.
    pub(super) fn named_lanes(&self) -> Vec<(Lane, Box<[u8]>)> {
        let name = |lane: &Lane| match lane.queue {
            0 => Box::default(),
            queue => self.names[queue as usize - 1].as_bytes().into(),
        };
        self.lanes.iter().map(|lane| (*lane, name(lane))).collect()
    }

    fn begin_step(&mut self, step: Step) {
        let at = to_i32(self.rows(step)) + 1;
        self.step_lanes.clear();
        self.steps.kinds.push(step.letter());
        self.steps.first.push(at);
        self.steps.last.push(at);
        let lane = to_i32(self.lanes.len()) + 1;
        self.steps.lane_first.push(lane);
        self.steps.lane_last.push(lane);
    }

    fn end_step(&mut self, step: Step) {
        let (row, lane) = (to_i32(self.rows(step)), to_i32(self.lanes.len()));
        if let (Some(last), Some(lane_last)) = (self.steps.last.last_mut(), self.steps.lane_last.last_mut()) {
            *last = row;
            *lane_last = lane;
        }
    }

    fn rows(&self, step: Step) -> usize {
        match step {
            Step::Send => self.sends.op.len(),
            Step::PopQueue | Step::PopBoth | Step::PopSender | Step::Peek => self.reads.op.len(),
            Step::Ack | Step::Readable => self.acks.op.len(),
            Step::Create | Step::Other => self.others.op.len(),
        }
    }

    /// The request just noted, as SQL numbers it.
    fn op(&self) -> i32 {
        to_i32(self.places.len()) - 1
    }

    fn add(&mut self, step: Step, ask: Ask<'a>, known: &Knowledge<'_>) {
        match (step, ask.operation) {
            (Step::Send, Operation::Send(send)) => {
                let recipient = match send.to {
                    Recipient::Account(name) => known.accounts.id(name.of(ask.bytes)).unwrap_or(0),
                    _ => 0,
                };
                self.send(ask, send, recipient);
            }
            (Step::Send, Operation::SendMany { queue, bodies }) => {
                for body in bodies {
                    self.send(ask, &Send::plain(*queue, *body), 0);
                }
            }
            (Step::PopQueue | Step::PopBoth | Step::PopSender, Operation::Pop(pop)) => {
                self.read(ask, &pop.select, pop.lease_ms, true, known)
            }
            (Step::Peek, Operation::Peek(select)) => self.read(ask, select, None, false, known),
            (Step::Ack, Operation::Ack { handles }) => {
                for handle in handles {
                    self.ack(ask.account, *handle);
                }
            }
            (Step::Readable, _) => self.ack(ask.account, Handle { id: 0, receipt: None }),
            (Step::Create, Operation::CreateQueue { name, .. }) => {
                let queue = name.map_or(0, |name| self.made(name.of(ask.bytes)));
                self.other(ask, Other { kind: b'c', queue, ..Other::default() });
            }
            _ => self.by_the_rules(ask),
        }
    }

    fn send(&mut self, ask: Ask<'a>, send: &Send, recipient: AccountId) {
        let queue = self.queue(send.queue.of(ask.bytes), true);
        let op = self.op();
        let sends = &mut self.sends;
        sends.op.push(op);
        sends.queue.push(queue);
        sends.sender.push(account(ask.account));
        sends.recipient.push(account(recipient));
        sends.delay.push(millis(send.delay_ms));
        sends.ttl.push(send.ttl_ms.map(millis));
        sends.priority.push(i32::from(send.priority));
        sends.headers.push(headers(ask, &send.headers));
        sends.body.push(send.body.of(ask.bytes));
    }

    fn read(
        &mut self,
        ask: Ask<'a>,
        select: &Selection,
        lease_ms: Option<u64>,
        takes: bool,
        known: &Knowledge<'_>,
    ) {
        let want = i64::from(select.count.unwrap_or(1));
        let sender = select.sender.map(|sender| known.accounts.id(sender.of(ask.bytes)).unwrap_or(0));
        let queue = select.queue.map_or(0, |queue| self.queue(queue.of(ask.bytes), takes));
        let any = self.lane(Lane { queue, sender, recipient: 0 }, want, known.floors);
        let own = self.lane(Lane { queue, sender, recipient: ask.account }, want, known.floors);
        let op = self.op();
        let reads = &mut self.reads;
        reads.op.push(op);
        reads.queue.push(queue);
        reads.reader.push(account(ask.account));
        reads.sender.push(sender.map(account));
        reads.want.push(want);
        reads.lease.push(lease_ms.map(millis));
        reads.any.push(any);
        reads.own.push(own);
    }

    /// The lane's position in its step.
    fn lane(&mut self, lane: Lane, want: i64, floors: &Floors) -> i32 {
        let first = self.steps.lane_first.last().copied().unwrap_or(1);
        if let Some(&position) = self.step_lanes.get(&lane) {
            self.lane_columns.want[(first + position) as usize - 2] += want;
            return position;
        }
        let floor = (lane.queue != 0).then(|| {
            let name = self.names[lane.queue as usize - 1].as_bytes();
            floors.of(name, lane.sender, lane.recipient)
        });
        self.lanes.push(lane);
        let columns = &mut self.lane_columns;
        columns.queue.push(lane.queue);
        columns.sender.push(lane.sender.map(account));
        columns.recipient.push(account(lane.recipient));
        columns.floor.push(floor);
        columns.want.push(want);
        let position = to_i32(self.lanes.len()) - first + 1;
        self.step_lanes.insert(lane, position);
        position
    }

    fn ack(&mut self, holder: AccountId, handle: Handle) {
        let op = self.op();
        self.acks.op.push(op);
        self.acks.account.push(account(holder));
        self.acks.message.push(millis(handle.id));
        self.acks.receipt.push(handle.receipt.map(u64::cast_signed));
    }

    /// The position of a queue's name; `changes`: its row is to be locked.
    fn queue(&mut self, name: &'a [u8], changes: bool) -> i32 {
        let next = to_i32(self.names.len()) + 1;
        let position = *self.positions.entry(name).or_insert(next);
        if position == next {
            self.names.push(text(name));
            self.locked.push(changes);
        }
        self.locked[position as usize - 1] |= changes;
        position
    }

    /// The same for a queue that is to be made if it does not exist.
    fn made(&mut self, name: &'a [u8]) -> i32 {
        self.made.push(text(name));
        self.queue(name, true)
    }

    /// An account that may be made, for the sake of a request to this queue.
    fn met(&mut self, queue: i32, name: &'a [u8]) -> Option<&'a str> {
        self.met_at.push(queue);
        self.met.push(text(name));
        Some(text(name))
    }

    /// A request that no step takes.
    fn by_the_rules(&mut self, ask: Ask<'a>) {
        let name = |span: Span| span.of(ask.bytes);
        let plain = |kind, queue| Other { kind, queue, ..Other::default() };
        let other = match ask.operation {
            Operation::Send(send) => self.special_send(ask, send),
            Operation::Pop(pop) => self.special_read(ask, &pop.select, Some(pop)),
            Operation::Peek(select) => self.special_read(ask, select, None),
            Operation::Nack { handle, delay_ms } => lease(b'n', *handle, *delay_ms),
            Operation::Extend { handle, lease_ms } => lease(b'x', *handle, *lease_ms),
            Operation::CreateQueue { name: queue, options } => {
                let queue = queue.map_or(0, |queue| self.made(name(queue)));
                let options = options.unwrap_or_default();
                let grave = options.dead_letter.map_or(0, |dead| self.made(name(dead.queue)));
                Other {
                    kind: b'c',
                    queue,
                    other: grave,
                    numbers: [
                        options.messages_max.map(millis),
                        options.bytes_max.map(millis),
                        options.ttl_ms.map(millis),
                        options.dead_letter.map(|dead| i64::from(dead.after)),
                    ],
                    flags: 8 | i32::from(options.forbid_self) | i32::from(options.strict) << 1,
                    ..Other::default()
                }
            }
            Operation::DeleteQueue { queue } => plain(b'd', self.queue(name(*queue), true)),
            Operation::PurgeQueue { queue } => plain(b'u', self.queue(name(*queue), true)),
            Operation::QueueInfo { queue } => plain(b'i', self.queue(name(*queue), false)),
            Operation::Redrive { from, to } => {
                let queue = self.queue(name(*from), true);
                let other = to.map_or(0, |to| self.queue(name(to), true));
                Other { other, ..plain(b'v', queue) }
            }
            Operation::Browse { queue, after, count } => Other {
                numbers: [Some(millis(*after)), Some(i64::from(*count)), None, None],
                ..plain(b'b', self.queue(name(*queue), false))
            },
            Operation::Accounts => plain(b't', 0),
            _ => plain(b'l', 0),
        };
        self.other(ask, other);
    }

    fn special_send(&mut self, ask: Ask<'a>, send: &Send) -> Other<'a> {
        let queue = self.queue(send.queue.of(ask.bytes), true);
        let who = match send.to {
            Recipient::Anyone => None,
            Recipient::Everyone => Some("*"),
            Recipient::Account(name) => self.met(queue, name.of(ask.bytes)),
        };
        Other {
            kind: b's',
            queue,
            who,
            key: send.dedup.map(|key| key.of(ask.bytes)),
            headers: headers(ask, &send.headers),
            body: Some(send.body.of(ask.bytes)),
            numbers: [
                Some(millis(send.delay_ms)),
                send.ttl_ms.map(millis),
                Some(i64::from(send.priority)),
                None,
            ],
            ..Other::default()
        }
    }

    fn special_read(&mut self, ask: Ask<'a>, select: &Selection, pop: Option<&Pop>) -> Other<'a> {
        let queue = select.queue.map_or(0, |queue| self.queue(queue.of(ask.bytes), pop.is_some()));
        let waits = pop.is_some_and(|pop| pop.block_ms > 0);
        let who = select.sender.map(|sender| text(sender.of(ask.bytes)));
        Other {
            kind: if pop.is_some() { b'p' } else { b'k' },
            queue,
            who,
            key: pop.and_then(|pop| pop.request_id).map(|key| key.of(ask.bytes)),
            numbers: [
                Some(i64::from(select.count.unwrap_or(1))),
                pop.and_then(|pop| pop.lease_ms).map(millis),
                None,
                None,
            ],
            flags: i32::from(select.not_own)
                | i32::from(select.broadcast) << 1
                | i32::from(waits) << 2
                | i32::from(select.count.is_some()) << 4,
            ..Other::default()
        }
    }

    fn other(&mut self, ask: Ask<'a>, other: Other<'a>) {
        let op = self.op();
        let others = &mut self.others;
        others.op.push(op);
        others.kind.push(other.kind.cast_signed());
        others.account.push(account(ask.account));
        others.queue.push(other.queue);
        others.other.push(other.other);
        others.who.push(other.who);
        others.key.push(other.key);
        others.headers.push(other.headers);
        others.body.push(other.body);
        for (column, number) in others.numbers.iter_mut().zip(other.numbers) {
            column.push(number);
        }
        others.flags.push(other.flags);
    }

    /// The arguments with their types, in the order of `posthaste.apply`.
    pub(super) fn arguments(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let Self { steps, sends, reads, lane_columns: lanes, acks, others, .. } = self;
        vec![
            (&self.now_ms, Type::INT8),
            (&self.names, Type::TEXT_ARRAY),
            (&self.locked, Type::BOOL_ARRAY),
            (&self.made, Type::TEXT_ARRAY),
            (&self.met_at, Type::INT4_ARRAY),
            (&self.met, Type::TEXT_ARRAY),
            (&steps.kinds, Type::CHAR_ARRAY),
            (&steps.first, Type::INT4_ARRAY),
            (&steps.last, Type::INT4_ARRAY),
            (&steps.lane_first, Type::INT4_ARRAY),
            (&steps.lane_last, Type::INT4_ARRAY),
            (&sends.op, Type::INT4_ARRAY),
            (&sends.queue, Type::INT4_ARRAY),
            (&sends.sender, Type::INT4_ARRAY),
            (&sends.recipient, Type::INT4_ARRAY),
            (&sends.delay, Type::INT8_ARRAY),
            (&sends.ttl, Type::INT8_ARRAY),
            (&sends.priority, Type::INT4_ARRAY),
            (&sends.headers, Type::BYTEA_ARRAY),
            (&sends.body, Type::BYTEA_ARRAY),
            (&reads.op, Type::INT4_ARRAY),
            (&reads.queue, Type::INT4_ARRAY),
            (&reads.reader, Type::INT4_ARRAY),
            (&reads.sender, Type::INT4_ARRAY),
            (&reads.want, Type::INT8_ARRAY),
            (&reads.lease, Type::INT8_ARRAY),
            (&reads.any, Type::INT4_ARRAY),
            (&reads.own, Type::INT4_ARRAY),
            (&lanes.queue, Type::INT4_ARRAY),
            (&lanes.sender, Type::INT4_ARRAY),
            (&lanes.recipient, Type::INT4_ARRAY),
            (&lanes.floor, Type::INT8_ARRAY),
            (&lanes.want, Type::INT8_ARRAY),
            (&acks.op, Type::INT4_ARRAY),
            (&acks.account, Type::INT4_ARRAY),
            (&acks.message, Type::INT8_ARRAY),
            (&acks.receipt, Type::INT8_ARRAY),
            (&others.op, Type::INT4_ARRAY),
            (&others.kind, Type::CHAR_ARRAY),
            (&others.account, Type::INT4_ARRAY),
            (&others.queue, Type::INT4_ARRAY),
            (&others.other, Type::INT4_ARRAY),
            (&others.who, Type::TEXT_ARRAY),
            (&others.key, Type::BYTEA_ARRAY),
            (&others.headers, Type::BYTEA_ARRAY),
            (&others.body, Type::BYTEA_ARRAY),
            (&others.numbers[0], Type::INT8_ARRAY),
            (&others.numbers[1], Type::INT8_ARRAY),
            (&others.numbers[2], Type::INT8_ARRAY),
            (&others.numbers[3], Type::INT8_ARRAY),
            (&others.flags, Type::INT4_ARRAY),
        ]
    }
}

/// Every unanswered request with its round, in the order in which steps take them.
fn in_order(bundles: &[&Bundle], accounts: &Accounts) -> Vec<(usize, Place)> {
    let mut places = Vec::new();
    for (number, bundle) in bundles.iter().enumerate() {
        let (mut round, mut before) = (0, Step::Create);
        for (request, asked) in bundle.requests.iter().enumerate().skip(bundle.answered) {
            let step = step_of(&asked.operation, &bundle.bytes, accounts);
            round += usize::from(step < before);
            before = step;
            places.push((round, Place { bundle: number, request, step }));
        }
    }
    places.sort_by_key(|(round, place)| (*round, place.step)); // stable: the rest stays in its order
    places
}

/// The step that takes a request.
fn step_of(operation: &Operation, bytes: &[u8], accounts: &Accounts) -> Step {
    let known = |name: Span| accounts.id(name.of(bytes)).is_some();
    let plain = |select: &Selection| {
        !select.not_own
            && !select.broadcast
            && select.count.is_none_or(|count| count <= COUNT_IN_STEP)
            && select.sender.is_none_or(known)
    };
    match operation {
        Operation::CreateQueue { options: None, .. } => Step::Create,
        Operation::Send(Send { dedup: None, to: Recipient::Anyone, .. }) | Operation::SendMany { .. } => {
            Step::Send
        }
        Operation::Send(Send { dedup: None, to: Recipient::Account(name), .. }) if known(*name) => Step::Send,
        Operation::Pop(pop) if pop.request_id.is_none() && plain(&pop.select) => {
            match (pop.select.queue, pop.select.sender) {
                (Some(_), None) => Step::PopQueue,
                (Some(_), Some(_)) => Step::PopBoth,
                (None, _) => Step::PopSender,
            }
        }
        Operation::Peek(select) if plain(select) => Step::Peek,
        Operation::Ack { .. } => Step::Ack,
        Operation::Readable => Step::Readable,
        _ => Step::Other,
    }
}

fn lease(kind: u8, handle: Handle, ms: u64) -> Other<'static> {
    let receipt = handle.receipt.map(u64::cast_signed);
    Other { kind, numbers: [Some(millis(handle.id)), receipt, Some(millis(ms)), None], ..Other::default() }
}

/// Pairs of headers in the stored form; None when there are none.
fn headers(ask: Ask<'_>, pairs: &[(Span, Span)]) -> Option<Vec<u8>> {
    let mut stored = Vec::new();
    for (name, value) in pairs {
        Headers::push(&mut stored, name.of(ask.bytes), value.of(ask.bytes));
    }
    (!stored.is_empty()).then_some(stored)
}

/// Names were checked to be UTF-8 when they were parsed.
fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

/// Durations and ids in PostgreSQL's signed form. A duration beyond 300,000 years is as good as that.
fn millis(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX).min(1 << 53)
}

fn account(id: AccountId) -> i32 {
    id.cast_signed()
}

fn to_i32(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
