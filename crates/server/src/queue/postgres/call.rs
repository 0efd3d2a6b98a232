//! A batch as one call of `posthaste.apply`: its requests in steps, their values in columns. See sql/0007_batch.sql.

use posthaste_wire::operation::{Handle, LIST_PIECE, Operation, Pop, Recipient, Selection, Send};
use posthaste_wire::span::Span;
use rustc_hash::FxHashMap;

use super::columns::{Columns, Other, to_i32};
use super::floors::Floors;
use super::kinds::{RuleKind, StepKind};
use super::names::{Accounts, text};
use super::parked::Seat;
use super::steps::{Named, Ordered, Position, Step, in_order};
use crate::path::bundle::Bundle;
use crate::queue::rules::{AccountId, Ask};

/// A lane from which POPs or PEEKs of one step read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// Position of the queue's name; 0: all queues.
    pub(super) queue: i32,
    pub(super) sender: Option<AccountId>,
    pub(super) recipient: AccountId,
}

/// A call of `posthaste.apply` while it is put together.
#[derive(Default)]
pub(super) struct Call<'a> {
    /// Position of each request, by the number that SQL knows it by.
    pub(super) positions: Vec<Position>,
    pub(super) lanes: Vec<Lane>,
    pub(super) columns: Columns<'a>,
    /// Position of each queue name among those of the call, from 1.
    name_positions: FxHashMap<&'a [u8], i32>,
    step_lanes: FxHashMap<Lane, i32>,
    /// Whether the row of the queue is to be locked, for each name.
    to_lock: Vec<bool>,
    /// Id of the queue that the request at hand has waited for.
    awaited: Option<i64>,
    /// How many SENDs are in the table when the steps so far are done.
    stored: usize,
    /// Whether new floors of this step's lanes are worth asking for.
    floors_are_due: bool,
}

/// Flags of a QCREATE, as the SQL function `one` reads them.
const FORBID_SELF: i32 = 1;
const STRICT: i32 = 2;
const HAS_OPTIONS: i32 = 4;

/// Flags of a POP or PEEK.
const NOT_OWN: i32 = 1;
const BROADCAST: i32 = 2;
const COUNTED: i32 = 4;

/// What a middleware knows that helps to put a batch together.
pub(super) struct Knowledge<'a> {
    pub(super) accounts: &'a Accounts,
    pub(super) floors: &'a Floors,
}

impl<'a> Call<'a> {
    /// Puts all open requests of the bundles into a call. The first bundles are pops that waited, with these seats.
    /// `now_ms`: None takes the database's clock.
    pub(super) fn new(
        bundles: &[&'a Bundle],
        waiting: &[Seat],
        known: &Knowledge<'_>,
        now_ms: Option<i64>,
    ) -> Self {
        let columns = Columns { now_ms, ring_floor: known.floors.ring(), ..Columns::default() };
        let mut call = Self { columns, ..Self::default() };
        let ordered = in_order(bundles, waiting.len(), known.accounts);
        for step in ordered.chunk_by(|a, b| (a.round, a.position.step) == (b.round, b.position.step)) {
            let kind = step[0].position.step;
            if call.must_store(kind) {
                call.store();
            }
            call.begin_step(kind);
            for Ordered { position, .. } in step {
                let bundle = bundles[position.bundle];
                let request = &bundle.requests[position.request];
                call.positions.push(*position);
                call.awaited = waiting.get(position.bundle).and_then(Seat::queue);
                let ask = Ask {
                    account: known.accounts.number(bundle),
                    operation: &request.operation,
                    bytes: &bundle.bytes,
                };
                call.add(kind, ask, known);
            }
            call.end_step(kind);
        }
        call.store();
        call.sort_names();
        call
    }

    /// Returns whether messages sent so far must be in the table before a step of this kind.
    fn must_store(&self, step: Step) -> bool {
        match step {
            Step::Create | Step::Send | Step::Ack => false,
            Step::Pop(_) => {
                let sends = &self.columns.sends;
                (self.stored..sends.op.len())
                    .any(|i| sends.delay[i] != 0 || sends.priority[i] != 0 || sends.ttl[i].is_some())
            }
            _ => true,
        }
    }

    /// Adds a step that stores messages sent so far and not popped.
    fn store(&mut self) {
        let (from, to) = (self.stored, self.columns.sends.op.len());
        if from < to {
            self.stored = to;
            self.columns.steps.push(StepKind::Store, from + 1..to + 1, self.lanes.len() + 1);
        }
    }

    /// Returns the name of a lane's queue; empty: all queues.
    pub(super) fn queue_of(&self, lane: &Lane) -> &'a [u8] {
        match lane.queue {
            0 => b"",
            queue => self.columns.names[queue as usize - 1].as_bytes(),
        }
    }

    /// Sorts the queues by name: every batch locks them in this order, so no two batches wait for each other.
    fn sort_names(&mut self) {
        let Columns { names, to_lock, to_find, .. } = &mut self.columns;
        let mut positions: Vec<usize> = (0..names.len()).collect();
        positions.sort_unstable_by_key(|&position| names[position]);
        for position in positions {
            let column = if self.to_lock[position] { &mut *to_lock } else { &mut *to_find };
            column.push(to_i32(position) + 1);
        }
    }

    fn begin_step(&mut self, step: Step) {
        self.step_lanes.clear();
        self.floors_are_due = false;
        let row = self.rows(step) + 1;
        self.columns.steps.push(step.kind(), row..row, self.lanes.len() + 1);
    }

    fn end_step(&mut self, step: Step) {
        let fresh_first = self.columns.fresh.lane.len() + 1;
        if let Step::Pop(lanes) = step {
            self.offer(lanes);
        }
        let (row, fresh) = (self.rows(step), fresh_first..self.columns.fresh.lane.len() + 1);
        let may_be_alone = match step {
            Step::Pop(_) | Step::Lease(_) => !self.floors_are_due && fresh.is_empty(),
            Step::Peek(_) => true,
            _ => false,
        };
        let Columns { steps, reads, lanes, .. } = &mut self.columns;
        let alone = (may_be_alone && reads.want[steps.first_row()..] == [1]).then(|| step.kind_alone());
        steps.end(row, lanes.queue.len(), fresh, self.floors_are_due, alone);
    }

    /// Notes which of the messages sent and not stored go into lanes of this step.
    fn offer(&mut self, kind: Named) {
        let Columns { sends, fresh, steps, .. } = &mut self.columns;
        let first_lane = steps.lane_first.last().copied().unwrap_or(1);
        let mut offered: Vec<(i32, i32)> = (self.stored..sends.op.len())
            .filter_map(|i| {
                let lane = Lane {
                    queue: if kind == Named::Sender { 0 } else { sends.queue[i] },
                    sender: (kind != Named::Queue).then_some(sends.sender[i].cast_unsigned()),
                    recipient: sends.recipient[i].cast_unsigned(),
                };
                self.step_lanes.get(&lane).map(|position| (first_lane - 1 + position, to_i32(i) + 1))
            })
            .collect();
        offered.sort_by_key(|(lane, _)| *lane);
        for lane in offered.chunk_by(|a, b| a.0 == b.0) {
            fresh.lane.push(lane[0].0);
            fresh.first.push(to_i32(fresh.send.len()) + 1);
            fresh.send.extend(lane.iter().map(|(_, send)| send));
            fresh.last.push(to_i32(fresh.send.len()));
        }
    }

    fn rows(&self, step: Step) -> usize {
        let columns = &self.columns;
        match step {
            Step::Send => columns.sends.op.len(),
            Step::Pop(_) | Step::Lease(_) | Step::Peek(_) => columns.reads.op.len(),
            Step::Ack | Step::Readable => columns.acks.op.len(),
            Step::Create | Step::Delete | Step::Other => columns.others.op.len(),
        }
    }

    /// Returns the number in SQL of the request added last.
    fn op(&self) -> i32 {
        to_i32(self.positions.len()) - 1
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
            (Step::Pop(_) | Step::Lease(_), Operation::Pop(pop)) => {
                self.read(ask, &pop.select, Some(pop), known)
            }
            (Step::Peek(_), Operation::Peek(select)) => self.read(ask, select, None, known),
            (Step::Ack, Operation::Ack { handles }) => {
                for handle in handles.iter() {
                    self.ack(ask.account, handle);
                }
            }
            (Step::Readable, _) => {
                known.floors.tell(&mut self.columns.census, ask.account);
                self.ack(ask.account, Handle { id: 0, receipt: None });
            }
            (Step::Delete, Operation::DeleteQueue { queue }) => {
                let queue = self.queue_to_lock(queue.of(ask.bytes));
                self.other(ask, Other::new(RuleKind::DeleteQueue, queue));
            }
            (Step::Create, Operation::CreateQueue { name, .. }) => {
                let queue = name.map_or(0, |name| self.made(name.of(ask.bytes)));
                self.other(ask, Other::new(RuleKind::CreateQueue, queue));
            }
            _ => self.by_the_rules(ask),
        }
    }

    fn send(&mut self, ask: Ask<'a>, send: &Send, recipient: AccountId) {
        let queue = self.queue_to_lock(send.queue.of(ask.bytes));
        let op = self.op();
        let sends = &mut self.columns.sends;
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

    /// Adds a POP, or a PEEK (None).
    fn read(&mut self, ask: Ask<'a>, select: &Selection, pop: Option<&Pop>, known: &Knowledge<'_>) {
        let want = i64::from(select.count.unwrap_or(1));
        let sender = select.sender.map(|sender| known.accounts.id(sender.of(ask.bytes)).unwrap_or(0));
        let queue = select.queue.map_or(0, |queue| self.queue_to_read(queue.of(ask.bytes), pop));
        let any = self.lane(Lane { queue, sender, recipient: 0 }, want, known.floors);
        let own = self.lane(Lane { queue, sender, recipient: ask.account }, want, known.floors);
        let op = self.op();
        let reads = &mut self.columns.reads;
        reads.op.push(op);
        reads.queue.push(queue);
        reads.reader.push(account(ask.account));
        reads.sender.push(sender.map(account));
        reads.want.push(want);
        reads.lease.push(pop.and_then(|pop| pop.lease_ms).map(millis));
        reads.any.push(any);
        reads.own.push(own);
        if self.awaited.is_some() {
            reads.awaited.resize(reads.op.len() - 1, None);
            reads.awaited.push(self.awaited);
        }
    }

    /// Returns a lane's position in its step, and adds the lane if need be.
    fn lane(&mut self, lane: Lane, want: i64, floors: &Floors) -> i32 {
        let first = self.columns.steps.lane_first.last().copied().unwrap_or(1);
        if let Some(&position) = self.step_lanes.get(&lane) {
            self.columns.lanes.want[(first + position) as usize - 2] += want;
            return position;
        }
        let floor = match lane.queue {
            0 => floors.of_all_queues(lane.sender, lane.recipient),
            _ => {
                let floor = floors.of(self.queue_of(&lane), lane.sender, lane.recipient);
                self.floors_are_due |= floors.is_due(floor);
                floor.place
            }
        };
        self.lanes.push(lane);
        let columns = &mut self.columns.lanes;
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
        let acks = &mut self.columns.acks;
        acks.op.push(op);
        acks.account.push(account(holder));
        acks.message.push(millis(handle.id));
        acks.receipt.push(handle.receipt.map(u64::cast_signed));
    }

    /// Returns the position of the name of a queue that need not be locked, and adds the name if need be.
    fn queue_to_find(&mut self, name: &'a [u8]) -> i32 {
        let next = to_i32(self.to_lock.len()) + 1;
        let position = *self.name_positions.entry(name).or_insert(next);
        if position == next {
            self.columns.names.push(text(name));
            self.to_lock.push(false);
        }
        position
    }

    /// Returns the position of the name of a queue whose row is to be locked.
    fn queue_to_lock(&mut self, name: &'a [u8]) -> i32 {
        let position = self.queue_to_find(name);
        self.to_lock[position as usize - 1] = true;
        position
    }

    /// Returns the position of the name of the queue that a POP or PEEK (None) reads.
    fn queue_to_read(&mut self, name: &'a [u8], pop: Option<&Pop>) -> i32 {
        match pop {
            Some(_) => self.queue_to_lock(name),
            None => self.queue_to_find(name),
        }
    }

    /// Returns the position of the name of a queue that is created if it does not exist.
    fn made(&mut self, name: &'a [u8]) -> i32 {
        self.columns.made.push(text(name));
        self.queue_to_lock(name)
    }

    /// Adds an account that the call creates if need be, for a request to this queue, unless that is missing or strict
    /// (0: in any case); returns its name.
    fn met(&mut self, queue: i32, name: &'a [u8]) -> &'a str {
        self.columns.met_at.push(queue);
        self.columns.met.push(text(name));
        text(name)
    }

    /// Adds a request that has no step of its own.
    fn by_the_rules(&mut self, ask: Ask<'a>) {
        let name = |span: Span| span.of(ask.bytes);
        let other = match ask.operation {
            Operation::Send(send) => self.special_send(ask, send),
            Operation::Pop(pop) => self.special_read(ask, &pop.select, Some(pop)),
            Operation::Peek(select) => self.special_read(ask, select, None),
            Operation::Nack { handle, delay_ms } => lease(RuleKind::Nack, *handle, *delay_ms),
            Operation::Extend { handle, lease_ms } => lease(RuleKind::Extend, *handle, *lease_ms),
            Operation::CreateQueue { name: queue, options } => {
                let queue = queue.map_or(0, |queue| self.made(name(queue)));
                let options = options.unwrap_or_default();
                let grave = options.dead_letter.map_or(0, |dead| self.made(name(dead.queue)));
                Other {
                    other: grave,
                    numbers: [
                        options.messages_max.map(saturated),
                        options.bytes_max.map(saturated),
                        options.ttl_ms.map(millis),
                        options.dead_letter.map(|dead| i64::from(dead.after)),
                    ],
                    flags: HAS_OPTIONS
                        | flag(FORBID_SELF, options.forbid_self)
                        | flag(STRICT, options.strict),
                    ..Other::new(RuleKind::CreateQueue, queue)
                }
            }
            Operation::PurgeQueue { queue } => {
                Other::new(RuleKind::PurgeQueue, self.queue_to_lock(name(*queue)))
            }
            Operation::QueueInfo { queue } => {
                Other::new(RuleKind::QueueInfo, self.queue_to_find(name(*queue)))
            }
            Operation::Redrive { from, to, .. } => {
                let queue = self.queue_to_lock(name(*from));
                let other = to.map_or(0, |to| self.queue_to_lock(name(to)));
                Other { other, ..Other::new(RuleKind::Redrive, queue) }
            }
            Operation::Browse { queue, after, count } => Other {
                numbers: [Some(millis(*after)), Some(i64::from(*count)), None, None],
                ..Other::new(RuleKind::Browse, self.queue_to_find(name(*queue)))
            },
            Operation::ListQueues { after } => Other {
                numbers: [Some(millis(*after)), Some(LIST_PIECE as i64), None, None],
                ..Other::new(RuleKind::ListQueues, 0)
            },
            Operation::Readable { .. } => Other::new(RuleKind::ReadableNotOwn, 0),
            _ => Other::new(RuleKind::Accounts, 0),
        };
        self.other(ask, other);
    }

    fn special_send(&mut self, ask: Ask<'a>, send: &Send) -> Other<'a> {
        let queue = self.queue_to_lock(send.queue.of(ask.bytes));
        let account_name = match send.to {
            Recipient::Anyone => None,
            Recipient::Everyone => Some("*"),
            Recipient::Account(name) => Some(self.met(queue, name.of(ask.bytes))),
        };
        Other {
            account_name,
            key: send.dedup.map(|key| key.of(ask.bytes)),
            headers: headers(ask, &send.headers),
            body: Some(send.body.of(ask.bytes)),
            numbers: [
                Some(millis(send.delay_ms)),
                send.ttl_ms.map(millis),
                Some(i64::from(send.priority)),
                None,
            ],
            ..Other::new(RuleKind::Send, queue)
        }
    }

    fn special_read(&mut self, ask: Ask<'a>, select: &Selection, pop: Option<&Pop>) -> Other<'a> {
        let queue = select.queue.map_or(0, |queue| self.queue_to_read(queue.of(ask.bytes), pop));
        let kind = if pop.is_some() { RuleKind::Pop } else { RuleKind::Peek };
        let waits = pop.is_some_and(|pop| pop.block_ms > 0);
        let account_name = select.sender.map(|sender| match waits {
            true => self.met(0, sender.of(ask.bytes)),
            false => text(sender.of(ask.bytes)),
        });
        Other {
            account_name,
            key: pop.and_then(|pop| pop.request_id).map(|key| key.of(ask.bytes)),
            numbers: [
                Some(i64::from(select.count.unwrap_or(1))),
                pop.and_then(|pop| pop.lease_ms).map(millis),
                self.awaited,
                None,
            ],
            flags: flag(NOT_OWN, select.not_own)
                | flag(BROADCAST, select.broadcast)
                | flag(COUNTED, select.count.is_some()),
            ..Other::new(kind, queue)
        }
    }

    fn other(&mut self, ask: Ask<'a>, other: Other<'a>) {
        let op = self.op();
        let others = &mut self.columns.others;
        others.op.push(op);
        others.kind.push(other.kind.letter());
        others.account.push(account(ask.account));
        others.queue.push(other.queue);
        others.other.push(other.other);
        others.account_name.push(other.account_name);
        others.key.push(other.key);
        others.headers.push(other.headers);
        others.body.push(other.body);
        for (column, number) in others.numbers.iter_mut().zip(other.numbers) {
            column.push(number);
        }
        others.flags.push(other.flags);
    }
}

fn lease(kind: RuleKind, handle: Handle, ms: u64) -> Other<'static> {
    let receipt = handle.receipt.map(u64::cast_signed);
    Other { numbers: [Some(millis(handle.id)), receipt, Some(millis(ms)), None], ..Other::new(kind, 0) }
}

/// Returns the headers in the stored form; None: there are none.
fn headers(ask: Ask<'_>, pairs: &[(Span, Span)]) -> Option<Vec<u8>> {
    (!pairs.is_empty()).then(|| ask.headers(pairs))
}

/// Converts a duration or an id to PostgreSQL's signed form, at most 2^53: 285,000 years in milliseconds.
pub(super) fn millis(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX).min(1 << 53)
}

/// Converts a limit to PostgreSQL's signed form.
fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn flag(flag: i32, is_set: bool) -> i32 {
    if is_set { flag } else { 0 }
}

fn account(id: AccountId) -> i32 {
    id.cast_signed()
}
