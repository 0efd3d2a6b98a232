//! A store that does not batch, for experiments with pop strategies: each request is one statement and one commit.
//!
//! Plain requests have statements of their own, which take no lock that a neighbour needs; the others go through
//! `apply`, as a batch of one. See sql/0009_unbatched.sql.
//!
//! A pop that lost its message to a faster one tries again. Without a back-off that loop runs in the database, where it
//! costs no round trip; only REPEATABLE READ, whose failed transaction must end first, is tried again from here. With a
//! back-off every strategy is tried again from here: a pop that pauses then holds a worker, but neither a transaction
//! nor a snapshot, which would keep vacuum from removing rows.

use posthaste_wire::operation::{Operation, Pop};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::failure::Failure;
use super::link::{Argument, Link, Server};
use super::names::{Accounts, text};
use super::plain::{PlainSend, Reading, reading, send_of};
use super::rows::is_lost;
use super::strategy::{Backoff, PopStrategy, Popping};
use crate::queue::rules::Ask;

/// A request that has a statement of its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unbatched<'a> {
    Send(PlainSend<'a>),
    Peek(Reading<'a>),
    Pop(Reading<'a>),
    Create,
    Delete { queue: &'a str },
    Readable { reader: i32 },
}

impl<'a> Unbatched<'a> {
    /// Returns the request in this form; None: it goes through `apply`.
    pub(super) fn of(ask: Ask<'a>, awaited: Option<i64>, accounts: &Accounts) -> Option<Self> {
        match ask.operation {
            Operation::Send(send) => send_of(ask, send, accounts).map(Self::Send),
            Operation::Peek(select) => reading(ask, select, None, accounts).map(Self::Peek),
            Operation::Pop(Pop { select, lease_ms: None, request_id: None, .. }) => {
                reading(ask, select, awaited, accounts).map(Self::Pop)
            }
            Operation::CreateQueue { name: None, options: None } => Some(Self::Create),
            Operation::DeleteQueue { queue } => Some(Self::Delete { queue: text(queue.of(ask.bytes)) }),
            Operation::Readable { not_own: false } => {
                Some(Self::Readable { reader: ask.account.cast_signed() })
            }
            _ => None,
        }
    }

    /// Executes the request. The rows are those of request 0.
    pub(super) fn ask(
        &self,
        link: &mut Link,
        server: Server,
        popping: Popping,
        now_ms: Option<i64>,
    ) -> Result<Vec<Row>, Failure> {
        let now = (&now_ms as _, Type::INT8);
        let op = (&0_i32 as _, Type::INT4);
        match self {
            Self::Send(PlainSend { sender, queue, recipient, body }) => link.ask_of(
                server,
                "SELECT * FROM posthaste.send_unbatched($1, $2, $3, $4, $5, $6)",
                &[
                    now,
                    op,
                    (sender, Type::INT4),
                    (queue, Type::TEXT),
                    (recipient, Type::INT4),
                    (body, Type::BYTEA),
                ],
            ),
            Self::Peek(Reading { reader, queue, sender, .. }) => link.ask_of(
                server,
                "SELECT * FROM posthaste.peek_unbatched($1, $2, $3, $4, $5)",
                &[now, op, (reader, Type::INT4), (queue, Type::TEXT), (sender, Type::INT4)],
            ),
            Self::Pop(reading) => reading.pop(link, server, popping, now_ms),
            Self::Create => link.ask_of(server, "SELECT * FROM posthaste.create_unbatched($1)", &[op]),
            Self::Delete { queue } => link.ask_of(
                server,
                "SELECT * FROM posthaste.delete_unbatched($1, $2)",
                &[op, (queue, Type::TEXT)],
            ),
            Self::Readable { reader } => link.ask_of(
                server,
                "SELECT * FROM posthaste.readable_unbatched($1, $2, $3)",
                &[now, op, (reader, Type::INT4)],
            ),
        }
    }
}

impl Reading<'_> {
    /// Pops until it gets a message or there is none.
    fn pop(
        &self,
        link: &mut Link,
        server: Server,
        popping: Popping,
        now_ms: Option<i64>,
    ) -> Result<Vec<Row>, Failure> {
        let tries = (popping.backoff != Backoff::None).then_some(1_i32);
        let mut losses = 0;
        loop {
            match self.try_pop(link, server, popping.strategy, now_ms, tries) {
                Ok(rows) if !is_lost(&rows) => return Ok(rows),
                Ok(_) => {}
                Err(Failure::Refused(error))
                    if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {}
                Err(failure) => return Err(failure),
            }
            losses += 1;
            std::thread::sleep(popping.backoff.pause(losses));
        }
    }

    fn try_pop(
        &self,
        link: &mut Link,
        server: Server,
        strategy: PopStrategy,
        now_ms: Option<i64>,
        tries: Option<i32>,
    ) -> Result<Vec<Row>, Failure> {
        let Self { reader, queue, awaited, sender } = self;
        let arguments: [Argument<'_>; 7] = [
            (&now_ms, Type::INT8),
            (&0_i32, Type::INT4),
            (reader, Type::INT4),
            (queue, Type::TEXT),
            (awaited, Type::INT8),
            (sender, Type::INT4),
            (&tries, Type::INT4),
        ];
        match strategy {
            PopStrategy::RepeatableRead => link.ask_repeatably_of(server, strategy.statement(), &arguments),
            _ => link.ask_of(server, strategy.statement(), &arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::operation::{Recipient, Selection, Send};
    use posthaste_wire::span::Span;

    use super::*;

    const QUEUE: Span = Span { start: 0, len: 1 };
    const BODY: Span = Span { start: 1, len: 2 };

    fn unbatched(operation: &Operation) -> Option<Unbatched<'_>> {
        let mut accounts = Accounts::default();
        accounts.learn(7, b"q");
        Unbatched::of(Ask { account: 3, operation, bytes: b"qxx" }, None, &accounts)
    }

    #[test]
    fn the_plain_forms_have_statements_of_their_own() {
        let send = Send { to: Recipient::Account(QUEUE), ..Send::plain(QUEUE, BODY) };
        let sent = PlainSend { sender: 3, queue: "q", recipient: 7, body: b"xx" };
        assert_eq!(unbatched(&Operation::Send(send)), Some(Unbatched::Send(sent)));
        let select = Selection { sender: Some(QUEUE), ..Selection::default() };
        let reading = || Reading { reader: 3, queue: None, awaited: None, sender: Some(7) };
        assert_eq!(unbatched(&Operation::Peek(select)), Some(Unbatched::Peek(reading())));
        let pop = Pop { select, block_ms: 5, ..Pop::default() };
        assert_eq!(unbatched(&Operation::Pop(pop)), Some(Unbatched::Pop(reading())));
    }

    #[test]
    fn what_asks_for_more_goes_through_apply() {
        let send = Send::plain(QUEUE, BODY);
        let stranger = Recipient::Account(BODY);
        let select = Selection { queue: Some(QUEUE), ..Selection::default() };
        for operation in [
            Operation::Send(Send { delay_ms: 1, ..send.clone() }),
            Operation::Send(Send { dedup: Some(BODY), ..send.clone() }),
            Operation::Send(Send { to: stranger, ..send.clone() }),
            Operation::Send(Send { to: Recipient::Everyone, ..send }),
            Operation::Peek(Selection { count: Some(1), ..select }),
            Operation::Peek(Selection { not_own: true, ..select }),
            Operation::Pop(Pop { select, lease_ms: Some(1), ..Pop::default() }),
            Operation::Pop(Pop { select, request_id: Some(BODY), ..Pop::default() }),
            Operation::CreateQueue { name: Some(QUEUE), options: None },
            Operation::PurgeQueue { queue: QUEUE },
        ] {
            assert_eq!(unbatched(&operation), None, "{operation:?}");
        }
    }
}
