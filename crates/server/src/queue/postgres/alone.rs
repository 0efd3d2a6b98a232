//! A batch of one plain request. It has an SQL function of its own, because `apply` with its steps and columns costs as
//! much again as the request. See sql/0015_alone.sql.

use posthaste_wire::operation::{Operation, Pop};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::call::Knowledge;
use super::census::Excerpt;
use super::failure::Failure;
use super::floors::Floors;
use super::link::{Argument, Link, Server};
use super::names::text;
use super::plain::{PlainSend, Reading, reading, send_of};
use crate::queue::rules::Ask;

/// A plain request with the arguments of its SQL function.
pub(super) enum Alone<'a> {
    Send(PlainSend<'a>),
    Pop { reading: Reading<'a>, lease_ms: Option<i64>, floors: LaneFloors },
    Peek { reading: Reading<'a>, floors: LaneFloors },
    Readable { reader: i32, ring_floor: i64, census: Excerpt },
    Create { name: Option<&'a str> },
    Delete { queue: &'a str },
}

/// Floors of the two lanes that are read.
#[derive(Clone, Copy)]
pub(super) struct LaneFloors {
    for_anyone: i64,
    for_reader: i64,
    /// Whether a new floor of one of them is worth asking for.
    are_due: bool,
}

impl<'a> Alone<'a> {
    /// Returns the request in this form. None: it goes through `apply`, as it is not plain or floors are due.
    pub(super) fn of(ask: Ask<'a>, awaited: Option<i64>, known: &Knowledge<'_>) -> Option<Self> {
        match ask.operation {
            Operation::Send(send) => send_of(ask, send, known.accounts).map(Self::Send),
            Operation::Pop(Pop { select, lease_ms, request_id: None, .. }) => {
                let reading = reading(ask, select, awaited, known.accounts)?;
                let floors = LaneFloors::of(&reading, known.floors);
                let lease_ms = lease_ms.map(super::call::millis);
                (!floors.are_due).then_some(Self::Pop { reading, lease_ms, floors })
            }
            Operation::Peek(select) => {
                let reading = reading(ask, select, None, known.accounts)?;
                let floors = LaneFloors::of(&reading, known.floors);
                Some(Self::Peek { reading, floors })
            }
            Operation::Readable { not_own: false } => {
                let mut census = Excerpt::default();
                known.floors.tell(&mut census, ask.account);
                let reader = ask.account.cast_signed();
                Some(Self::Readable { reader, ring_floor: known.floors.ring(), census })
            }
            Operation::CreateQueue { name, options: None } => {
                Some(Self::Create { name: name.map(|name| text(name.of(ask.bytes))) })
            }
            Operation::DeleteQueue { queue } => Some(Self::Delete { queue: text(queue.of(ask.bytes)) }),
            _ => None,
        }
    }

    /// Executes the request. The rows are those of request 0.
    pub(super) fn ask(
        &self,
        link: &mut Link,
        server: Server,
        now_ms: Option<i64>,
    ) -> Result<Vec<Row>, Failure> {
        let mut ask = |sql: &str, arguments: &[Argument<'_>]| link.ask_of(server, sql, arguments);
        let now = (&now_ms as _, Type::INT8);
        match self {
            Self::Send(PlainSend { sender, queue, recipient, body }) => ask(
                "SELECT * FROM posthaste.send_alone($1, $2, $3, $4, $5)",
                &[
                    now,
                    (sender, Type::INT4),
                    (queue, Type::TEXT),
                    (recipient, Type::INT4),
                    (body, Type::BYTEA),
                ],
            ),
            Self::Pop {
                reading: Reading { reader, queue, awaited, sender },
                lease_ms,
                floors: LaneFloors { for_anyone, for_reader, .. },
            } => ask(
                "SELECT * FROM posthaste.pop_alone($1, $2, $3, $4, $5, $6, $7, $8)",
                &[
                    now,
                    (reader, Type::INT4),
                    (queue, Type::TEXT),
                    (awaited, Type::INT8),
                    (sender, Type::INT4),
                    (lease_ms, Type::INT8),
                    (for_anyone, Type::INT8),
                    (for_reader, Type::INT8),
                ],
            ),
            Self::Peek {
                reading: Reading { reader, queue, sender, .. },
                floors: LaneFloors { for_anyone, for_reader, .. },
            } => ask(
                "SELECT * FROM posthaste.peek_alone($1, $2, $3, $4, $5, $6)",
                &[
                    now,
                    (reader, Type::INT4),
                    (queue, Type::TEXT),
                    (sender, Type::INT4),
                    (for_anyone, Type::INT8),
                    (for_reader, Type::INT8),
                ],
            ),
            Self::Readable { reader, ring_floor, census } => ask(
                "SELECT * FROM posthaste.readable_alone($1, $2, $3, $4, $5, $6, $7)",
                &[
                    now,
                    (reader, Type::INT4),
                    (ring_floor, Type::INT8),
                    (&census.up_to, Type::INT8),
                    (&census.recipients, Type::INT4_ARRAY),
                    (&census.queues, Type::INT8_ARRAY),
                    (&census.places, Type::INT8_ARRAY),
                ],
            ),
            Self::Create { name } => ask("SELECT * FROM posthaste.create_alone($1)", &[(name, Type::TEXT)]),
            Self::Delete { queue } => ask("SELECT * FROM posthaste.delete_alone($1)", &[(queue, Type::TEXT)]),
        }
    }
}

impl LaneFloors {
    fn of(reading: &Reading<'_>, floors: &Floors) -> Self {
        let (sender, reader) = (reading.sender.map(i32::cast_unsigned), reading.reader.cast_unsigned());
        let Some(queue) = reading.queue else {
            return Self {
                for_anyone: floors.of_all_queues(sender, 0),
                for_reader: floors.of_all_queues(sender, reader),
                are_due: false,
            };
        };
        let for_anyone = floors.of(queue.as_bytes(), sender, 0);
        let for_reader = floors.of(queue.as_bytes(), sender, reader);
        Self {
            for_anyone: for_anyone.place,
            for_reader: for_reader.place,
            are_due: floors.is_due(for_anyone) || floors.is_due(for_reader),
        }
    }
}
