//! SEND, SENDMANY, PEEK and POP.

use super::words::{ANY_DURATION, Keyword, Parsed, SOME_DURATION, Words, is_name, quoted, wrong};
use crate::fault::{Fault, Word};
use crate::operation::{Operation, Pop, Recipient, Selection, Send};
use crate::span::Span;

/// `SEND queue body [TO account] [DELAY ms] [TTL ms] [PRIORITY n] [DEDUP key] [HEADER name value …]`.
pub(super) fn send(words: &mut Words<'_>) -> Parsed {
    let queue = words.required()?;
    let body = words.required()?;
    let (queue, body) = (words.queue(queue)?, words.body(body)?);
    let (mut to, mut delay_ms, mut ttl_ms, mut priority, mut dedup) = (None, None, None, None, None);
    let mut headers = Vec::new();
    let mut behind_body = true;
    while let Some(option) = words.keyword() {
        match &*option {
            b"TO" => {
                let account = words.value(&option)?;
                words.set(&mut to, words.recipient(account)?, &option)?;
            }
            b"DELAY" => {
                let ms = words.milliseconds(&option, ANY_DURATION)?;
                words.set(&mut delay_ms, ms, &option)?;
            }
            b"TTL" => {
                let ms = words.milliseconds(&option, SOME_DURATION)?;
                words.set(&mut ttl_ms, ms, &option)?;
            }
            b"PRIORITY" => {
                let n = words.number(&option, 0..=255)?;
                words.set(&mut priority, n as u8, &option)?;
            }
            b"DEDUP" => {
                let key = words.key(&option)?;
                words.set(&mut dedup, key, &option)?;
            }
            b"HEADER" => headers.push(header(words, &option)?),
            _ if behind_body => return Err(words.bare_body(&option)),
            _ => return Err(words.unknown(&option)),
        }
        behind_body = false;
    }
    let to = to.unwrap_or(Recipient::Anyone);
    let (delay_ms, priority) = (delay_ms.unwrap_or(0), priority.unwrap_or(0));
    Ok(Operation::Send(Send { queue, body, to, delay_ms, ttl_ms, priority, dedup, headers }).into())
}

/// Reads the name and value behind `HEADER`. A name must be fit for JSON; a value is any bytes.
fn header(words: &mut Words<'_>, option: &Keyword) -> Result<(Span, Span), Fault> {
    let name = words.value(option)?;
    let text = words.text(name);
    if !is_name(text) {
        return Err(wrong(format!(
            "'{}' cannot name a HEADER: a name is 1 to 255 bytes of UTF-8 without control characters",
            quoted(text)
        )));
    }
    Ok((name, words.value(option)?))
}

/// `SENDMANY queue body …`.
pub(super) fn send_many(words: &mut Words<'_>) -> Parsed {
    let queue = words.required()?;
    let queue = words.queue(queue)?;
    let bodies = words.rest().iter().map(|&body| words.body(body)).collect::<Result<_, _>>()?;
    Ok(Operation::SendMany { queue, bodies }.into())
}

/// `PEEK [QUEUE q] [FROM account] [NOTOWN] [ANYORDER] [BROADCAST] [COUNT n]`.
pub(super) fn peek(words: &mut Words<'_>) -> Parsed {
    let mut selection = Selection::default();
    while let Some(option) = words.keyword() {
        if !select(&mut selection, words, &option)? {
            return Err(unknown(&selection, words, &option));
        }
    }
    check(&selection)?;
    Ok(Operation::Peek(selection).into())
}

/// `POP`: what PEEK takes, and `[LEASE ms] [BLOCK ms] [REQID key]`.
pub(super) fn pop(words: &mut Words<'_>) -> Parsed {
    let mut select_by = Selection::default();
    let (mut lease_ms, mut block_ms, mut request_id) = (None, None, None);
    while let Some(option) = words.keyword() {
        if select(&mut select_by, words, &option)? {
            continue;
        }
        match &*option {
            b"LEASE" => {
                let ms = words.milliseconds(&option, SOME_DURATION)?;
                words.set(&mut lease_ms, ms, &option)?;
            }
            b"BLOCK" => {
                let ms = words.milliseconds(&option, ANY_DURATION)?;
                words.set(&mut block_ms, ms, &option)?;
            }
            b"REQID" => {
                let key = words.key(&option)?;
                words.set(&mut request_id, key, &option)?;
            }
            _ => return Err(unknown(&select_by, words, &option)),
        }
    }
    check(&select_by)?;
    let block_ms = block_ms.unwrap_or(0);
    Ok(Operation::Pop(Pop { select: select_by, lease_ms, block_ms, request_id }).into())
}

/// Returns the refusal of an unknown option. As long as neither QUEUE nor FROM was given, it suggests that
/// the word is meant as a queue's name.
fn unknown(selection: &Selection, words: &Words<'_>, option: &Keyword) -> Fault {
    match selection {
        Selection { queue: None, sender: None, .. } => words.bare_queue(option),
        _ => words.unknown(option),
    }
}

/// Reads an option that PEEK and POP share, with its value. Returns false when it is none of these.
fn select(selection: &mut Selection, words: &mut Words<'_>, option: &Keyword) -> Result<bool, Fault> {
    match &**option {
        b"QUEUE" => {
            let queue = words.value(option)?;
            words.set(&mut selection.queue, words.queue(queue)?, option)?;
        }
        b"FROM" => {
            let sender = words.value(option)?;
            words.set(&mut selection.sender, words.account(sender)?, option)?;
        }
        b"COUNT" => {
            let count = words.count(option)?;
            words.set(&mut selection.count, count, option)?;
        }
        b"NOTOWN" => words.flag(&mut selection.not_own, option)?,
        b"ANYORDER" => words.flag(&mut selection.any_order, option)?,
        b"BROADCAST" => words.flag(&mut selection.broadcast, option)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn check(selection: &Selection) -> Result<(), Fault> {
    if selection.queue.is_some() || selection.sender.is_some() {
        return Ok(());
    }
    Err(Fault::new(Word::BadQuery, "say which messages: QUEUE name, FROM account, or both"))
}
