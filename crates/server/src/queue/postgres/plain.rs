//! Plain requests, which have SQL functions of their own: a SEND, PEEK or POP without options, of accounts known here.

use posthaste_wire::operation::{Recipient, Selection, Send};
use posthaste_wire::span::Span;

use super::names::{Accounts, text};
use crate::queue::rules::{AccountId, Ask};

/// A plain SEND. Accounts are numbers of SQL's type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlainSend<'a> {
    pub(super) sender: i32,
    pub(super) queue: &'a str,
    /// 0: anyone.
    pub(super) recipient: i32,
    pub(super) body: &'a [u8],
}

/// A plain PEEK or POP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reading<'a> {
    pub(super) reader: i32,
    pub(super) queue: Option<&'a str>,
    /// Id of the queue that it has waited for.
    pub(super) awaited: Option<i64>,
    pub(super) sender: Option<i32>,
}

/// Returns a SEND in plain form; None: it has options, or its recipient is everyone or an unknown account.
pub(super) fn send_of<'a>(ask: Ask<'a>, send: &'a Send, accounts: &Accounts) -> Option<PlainSend<'a>> {
    let recipient = match send.to {
        Recipient::Anyone => 0,
        Recipient::Account(name) => number(name, ask, accounts)?,
        Recipient::Everyone => return None,
    };
    let plain = Send { to: send.to, ..Send::plain(send.queue, send.body) };
    (*send == plain).then(|| PlainSend {
        sender: ask.account.cast_signed(),
        queue: text(send.queue.of(ask.bytes)),
        recipient,
        body: send.body.of(ask.bytes),
    })
}

/// Returns a selection in plain form; None: it has options, or names an unknown sender. ANYORDER may be ignored: it
/// allows the plain order too.
pub(super) fn reading<'a>(
    ask: Ask<'a>,
    select: &Selection,
    awaited: Option<i64>,
    accounts: &Accounts,
) -> Option<Reading<'a>> {
    if select.not_own || select.broadcast || select.count.is_some() {
        return None;
    }
    let sender = match select.sender {
        None => None,
        Some(name) => Some(number(name, ask, accounts)?),
    };
    let queue = select.queue.map(|queue| text(queue.of(ask.bytes)));
    Some(Reading { reader: ask.account.cast_signed(), queue, awaited, sender })
}

fn number(name: Span, ask: Ask<'_>, accounts: &Accounts) -> Option<i32> {
    accounts.id(name.of(ask.bytes)).map(AccountId::cast_signed)
}
