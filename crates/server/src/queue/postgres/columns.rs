//! Arguments of `posthaste.apply`, column by column, named as in SQL.

use std::ops::Range;

use tokio_postgres::types::Type;

use super::census::Excerpt;
use super::kinds::{RuleKind, StepKind};
use super::link::Argument;

/// Number of arguments.
pub(super) const ARGUMENTS: usize = 65;

/// All arguments of a call.
#[derive(Default)]
pub(super) struct Columns<'a> {
    /// None takes the database's clock.
    pub(super) now_ms: Option<i64>,
    /// Place below which the ring holds nothing.
    pub(super) ring_floor: i64,
    pub(super) census: Excerpt,
    pub(super) names: Vec<&'a str>,
    pub(super) to_lock: Vec<i32>,
    pub(super) to_find: Vec<i32>,
    pub(super) made: Vec<&'a str>,
    pub(super) met_at: Vec<i32>,
    pub(super) met: Vec<&'a str>,
    pub(super) steps: Steps,
    pub(super) sends: Sends<'a>,
    pub(super) reads: Reads,
    pub(super) lanes: Lanes,
    pub(super) fresh: Fresh,
    pub(super) acks: Acks,
    pub(super) others: Others<'a>,
}

#[derive(Default)]
pub(super) struct Steps {
    pub(super) kinds: Vec<i8>,
    pub(super) first: Vec<i32>,
    pub(super) last: Vec<i32>,
    pub(super) lane_first: Vec<i32>,
    pub(super) lane_last: Vec<i32>,
    pub(super) fresh_first: Vec<i32>,
    pub(super) fresh_last: Vec<i32>,
    pub(super) tell: Vec<bool>,
}

#[derive(Default)]
pub(super) struct Sends<'a> {
    pub(super) op: Vec<i32>,
    pub(super) queue: Vec<i32>,
    pub(super) sender: Vec<i32>,
    pub(super) recipient: Vec<i32>,
    pub(super) delay: Vec<i64>,
    pub(super) ttl: Vec<Option<i64>>,
    pub(super) priority: Vec<i32>,
    pub(super) headers: Vec<Option<Vec<u8>>>,
    pub(super) body: Vec<&'a [u8]>,
}

#[derive(Default)]
pub(super) struct Reads {
    pub(super) op: Vec<i32>,
    pub(super) queue: Vec<i32>,
    pub(super) reader: Vec<i32>,
    pub(super) sender: Vec<Option<i32>>,
    pub(super) want: Vec<i64>,
    pub(super) lease: Vec<Option<i64>>,
    pub(super) any: Vec<i32>,
    pub(super) own: Vec<i32>,
    /// Queues that pops have waited for; shorter than the other columns where the last ones have not waited.
    pub(super) awaited: Vec<Option<i64>>,
}

#[derive(Default)]
pub(super) struct Lanes {
    pub(super) queue: Vec<i32>,
    pub(super) sender: Vec<Option<i32>>,
    pub(super) recipient: Vec<i32>,
    pub(super) floor: Vec<i64>,
    pub(super) want: Vec<i64>,
}

/// Messages that the batch itself sends into lanes from which it reads.
#[derive(Default)]
pub(super) struct Fresh {
    pub(super) lane: Vec<i32>,
    /// Position in `send` of the lane's first message; `last` is that of its last one.
    pub(super) first: Vec<i32>,
    pub(super) last: Vec<i32>,
    pub(super) send: Vec<i32>,
}

#[derive(Default)]
pub(super) struct Acks {
    pub(super) op: Vec<i32>,
    pub(super) account: Vec<i32>,
    pub(super) message: Vec<i64>,
    pub(super) receipt: Vec<Option<i64>>,
}

#[derive(Default)]
pub(super) struct Others<'a> {
    pub(super) op: Vec<i32>,
    pub(super) kind: Vec<i8>,
    pub(super) account: Vec<i32>,
    pub(super) queue: Vec<i32>,
    pub(super) other: Vec<i32>,
    pub(super) account_name: Vec<Option<&'a str>>,
    pub(super) key: Vec<Option<&'a [u8]>>,
    pub(super) headers: Vec<Option<Vec<u8>>>,
    pub(super) body: Vec<Option<&'a [u8]>>,
    pub(super) numbers: [Vec<Option<i64>>; 4],
    pub(super) flags: Vec<i32>,
}

/// One row of `Others`.
pub(super) struct Other<'a> {
    pub(super) kind: RuleKind,
    /// Positions of the queue and of the other queue that the request names; 0: none.
    pub(super) queue: i32,
    pub(super) other: i32,
    /// The account that the request names.
    pub(super) account_name: Option<&'a str>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) headers: Option<Vec<u8>>,
    pub(super) body: Option<&'a [u8]>,
    /// Numbers and flags by kind, as the SQL function `one` explains them.
    pub(super) numbers: [Option<i64>; 4],
    pub(super) flags: i32,
}

impl Other<'_> {
    pub(super) fn new(kind: RuleKind, queue: i32) -> Self {
        Self {
            kind,
            queue,
            other: 0,
            account_name: None,
            key: None,
            headers: None,
            body: None,
            numbers: [None; 4],
            flags: 0,
        }
    }
}

impl Steps {
    /// Adds a step with a range of rows, whose lanes begin at `lane`, as far as is known when it begins.
    pub(super) fn push(&mut self, kind: StepKind, rows: Range<usize>, lane: usize) {
        self.kinds.push(kind.letter());
        self.first.push(to_i32(rows.start));
        self.last.push(to_i32(rows.end) - 1);
        self.lane_first.push(to_i32(lane));
        self.lane_last.push(to_i32(lane) - 1);
        self.fresh_first.push(1);
        self.fresh_last.push(0);
        self.tell.push(false);
    }

    /// Returns the first row of the last step, counted from 0.
    pub(super) fn first_row(&self) -> usize {
        self.first.last().map_or(0, |first| *first as usize - 1)
    }

    /// Completes the last step: its last row and lane, what is sent into its lanes, whether new floors of these are to
    /// be told, and its kind if its only request is done alone.
    pub(super) fn end(
        &mut self,
        row: usize,
        lane: usize,
        fresh: Range<usize>,
        tell: bool,
        alone: Option<StepKind>,
    ) {
        let Some(at) = self.kinds.len().checked_sub(1) else { return };
        self.kinds[at] = alone.map_or(self.kinds[at], StepKind::letter);
        self.last[at] = to_i32(row);
        self.lane_last[at] = to_i32(lane);
        self.fresh_first[at] = to_i32(fresh.start);
        self.fresh_last[at] = to_i32(fresh.end) - 1;
        self.tell[at] = tell;
    }
}

/// Converts a number to the type in which SQL counts.
pub(super) fn to_i32(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

impl Columns<'_> {
    /// Returns the arguments with their types, in the order of `posthaste.apply`.
    pub(super) fn arguments(&self) -> [Argument<'_>; ARGUMENTS] {
        let Self { census, steps, sends, reads, lanes, fresh, acks, others, .. } = self;
        [
            (&self.now_ms, Type::INT8),
            (&self.ring_floor, Type::INT8),
            (&census.up_to, Type::INT8),
            (&census.recipients, Type::INT4_ARRAY),
            (&census.queues, Type::INT8_ARRAY),
            (&census.places, Type::INT8_ARRAY),
            (&self.names, Type::TEXT_ARRAY),
            (&self.to_lock, Type::INT4_ARRAY),
            (&self.to_find, Type::INT4_ARRAY),
            (&self.made, Type::TEXT_ARRAY),
            (&self.met_at, Type::INT4_ARRAY),
            (&self.met, Type::TEXT_ARRAY),
            (&steps.kinds, Type::CHAR_ARRAY),
            (&steps.first, Type::INT4_ARRAY),
            (&steps.last, Type::INT4_ARRAY),
            (&steps.lane_first, Type::INT4_ARRAY),
            (&steps.lane_last, Type::INT4_ARRAY),
            (&steps.fresh_first, Type::INT4_ARRAY),
            (&steps.fresh_last, Type::INT4_ARRAY),
            (&steps.tell, Type::BOOL_ARRAY),
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
            (&reads.awaited, Type::INT8_ARRAY),
            (&lanes.queue, Type::INT4_ARRAY),
            (&lanes.sender, Type::INT4_ARRAY),
            (&lanes.recipient, Type::INT4_ARRAY),
            (&lanes.floor, Type::INT8_ARRAY),
            (&lanes.want, Type::INT8_ARRAY),
            (&fresh.lane, Type::INT4_ARRAY),
            (&fresh.first, Type::INT4_ARRAY),
            (&fresh.last, Type::INT4_ARRAY),
            (&fresh.send, Type::INT4_ARRAY),
            (&acks.op, Type::INT4_ARRAY),
            (&acks.account, Type::INT4_ARRAY),
            (&acks.message, Type::INT8_ARRAY),
            (&acks.receipt, Type::INT8_ARRAY),
            (&others.op, Type::INT4_ARRAY),
            (&others.kind, Type::CHAR_ARRAY),
            (&others.account, Type::INT4_ARRAY),
            (&others.queue, Type::INT4_ARRAY),
            (&others.other, Type::INT4_ARRAY),
            (&others.account_name, Type::TEXT_ARRAY),
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
