//! Commands about queues as a whole, and ACCOUNTS.

use super::words::{ANY_NUMBER, Keyword, Parsed, SOME_DURATION, Words};
use crate::fault::Fault;
use crate::operation::{DeadLetter, Operation, QueueOptions};
use crate::span::Span;

/// Messages that QBROWSE answers at most without `COUNT`.
const BROWSE_COUNT: u32 = 100;

/// `QCREATE [name] [option value …]`; the name `-` stands for none.
pub(super) fn create(words: &mut Words<'_>) -> Parsed {
    let name = match words.next() {
        None => None,
        Some(name) if words.text(name) == b"-" => None,
        Some(name) => Some(words.queue(name)?),
    };
    let options = if words.left() == 0 { None } else { Some(queue_options(words)?) };
    Ok(Operation::CreateQueue { name, options }.into())
}

fn queue_options(words: &mut Words<'_>) -> Result<QueueOptions, Fault> {
    let mut options = QueueOptions::default();
    let mut is_first = true;
    while let Some(option) = words.keyword() {
        match &*option {
            b"NOOPTIONS" if is_first && words.left() == 0 => return Ok(options),
            b"NOOPTIONS" => return Err(words.refuse(&option, "stands for none, and so by itself")),
            b"MAXMSGS" => {
                let n = words.number(&option, 1..=*ANY_NUMBER.end())?;
                words.set(&mut options.messages_max, n, &option)?;
            }
            b"MAXBYTES" => {
                let n = words.number(&option, 1..=*ANY_NUMBER.end())?;
                words.set(&mut options.bytes_max, n, &option)?;
            }
            b"TTL" => {
                let ms = words.milliseconds(&option, SOME_DURATION)?;
                words.set(&mut options.ttl_ms, ms, &option)?;
            }
            b"DEADLETTER" => {
                let dead_letter = dead_letter(words, &option)?;
                words.set(&mut options.dead_letter, dead_letter, &option)?;
            }
            b"FORBIDSELF" => words.flag(&mut options.forbid_self, &option)?,
            b"STRICT" => words.flag(&mut options.strict, &option)?,
            _ => return Err(words.unknown(&option)),
        }
        is_first = false;
    }
    Ok(options)
}

/// `queue AFTER n` behind `DEADLETTER`.
fn dead_letter(words: &mut Words<'_>, option: &Keyword) -> Result<DeadLetter, Fault> {
    let queue = words.value(option)?;
    let queue = words.queue(queue)?;
    match words.keyword() {
        Some(after) if *after == *b"AFTER" => {
            let deliveries = words.number(&after, 1..=i32::MAX as u64)?;
            Ok(DeadLetter { queue, after: deliveries as u32 })
        }
        _ => Err(words.refuse(option, "needs a queue and AFTER with a number of deliveries")),
    }
}

/// `QDELETE queue`.
pub(super) fn delete(words: &mut Words<'_>) -> Parsed {
    Ok(Operation::DeleteQueue { queue: first_queue(words)? }.into())
}

/// `QPURGE queue`.
pub(super) fn purge(words: &mut Words<'_>) -> Parsed {
    Ok(Operation::PurgeQueue { queue: first_queue(words)? }.into())
}

/// `QINFO queue`.
pub(super) fn info(words: &mut Words<'_>) -> Parsed {
    Ok(Operation::QueueInfo { queue: first_queue(words)? }.into())
}

/// `QREDRIVE from [to]`.
pub(super) fn redrive(words: &mut Words<'_>) -> Parsed {
    let from = first_queue(words)?;
    let to = match words.next() {
        None => None,
        Some(to) => Some(words.queue(to)?),
    };
    if words.left() > 0 {
        return Err(words.wrong_arity());
    }
    Ok(Operation::Redrive { from, to, after: 0 }.into())
}

/// `QBROWSE queue [AFTER id] [COUNT n]`.
pub(super) fn browse(words: &mut Words<'_>) -> Parsed {
    let queue = first_queue(words)?;
    let (mut after, mut count) = (None, None);
    while let Some(option) = words.keyword() {
        match &*option {
            b"AFTER" => {
                let id = words.number(&option, ANY_NUMBER)?;
                words.set(&mut after, id, &option)?;
            }
            b"COUNT" => {
                let n = words.count(&option)?;
                words.set(&mut count, n, &option)?;
            }
            _ => return Err(words.unknown(&option)),
        }
    }
    let (after, count) = (after.unwrap_or(0), count.unwrap_or(BROWSE_COUNT));
    Ok(Operation::Browse { queue, after, count }.into())
}

/// `QLIST`.
pub(super) fn list(_: &mut Words<'_>) -> Parsed {
    Ok(Operation::ListQueues { after: 0 }.into())
}

/// `QREADABLE [NOTOWN]`.
pub(super) fn readable(words: &mut Words<'_>) -> Parsed {
    let mut not_own = false;
    while let Some(option) = words.keyword() {
        match &*option {
            b"NOTOWN" => words.flag(&mut not_own, &option)?,
            _ => return Err(words.unknown(&option)),
        }
    }
    Ok(Operation::Readable { not_own }.into())
}

/// `ACCOUNTS`.
pub(super) fn accounts(_: &mut Words<'_>) -> Parsed {
    Ok(Operation::Accounts { after: 0 }.into())
}

fn first_queue(words: &mut Words<'_>) -> Result<Span, Fault> {
    let queue = words.required()?;
    words.queue(queue)
}
