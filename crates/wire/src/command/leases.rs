//! ACK, NACK and EXTEND: the commands about a leased message.

use super::words::{ANY_DURATION, ANY_NUMBER, Parsed, SOME_DURATION, Words, decimal, quoted, wrong};
use crate::fault::Fault;
use crate::operation::{Handle, Handles, Operation};
use crate::span::Span;

/// Number of hexadecimal digits in a receipt's second part.
const RECEIPT_DIGITS: usize = 16;

/// `ACK id …`.
pub(super) fn ack(words: &mut Words<'_>) -> Parsed {
    let first = words.required()?;
    let first = handle(words, first)?;
    let more = words.rest().iter().map(|&id| handle(words, id)).collect::<Result<_, _>>()?;
    Ok(Operation::Ack { handles: Handles { first, more } }.into())
}

/// `NACK id [DELAY ms]`.
pub(super) fn nack(words: &mut Words<'_>) -> Parsed {
    let id = words.required()?;
    let handle = handle(words, id)?;
    let mut delay_ms = None;
    while let Some(option) = words.keyword() {
        match &*option {
            b"DELAY" => {
                let ms = words.milliseconds(&option, ANY_DURATION)?;
                words.set(&mut delay_ms, ms, &option)?;
            }
            _ => return Err(words.unknown(&option)),
        }
    }
    Ok(Operation::Nack { handle, delay_ms: delay_ms.unwrap_or(0) }.into())
}

/// `EXTEND id ms`.
pub(super) fn extend(words: &mut Words<'_>) -> Parsed {
    let (id, ms) = (words.required()?, words.required()?);
    let handle = handle(words, id)?;
    let lease_ms = words.number_of("a lease in milliseconds", ms, SOME_DURATION)?;
    Ok(Operation::Extend { handle, lease_ms }.into())
}

/// Reads a message's id, alone or followed by a dash and the lease's number.
fn handle(words: &Words<'_>, span: Span) -> Result<Handle, Fault> {
    let text = words.text(span);
    let (id, receipt) = match text.iter().position(|&byte| byte == b'-') {
        None => (decimal(text), Some(None)),
        Some(dash) => (decimal(&text[..dash]), hexadecimal(&text[dash + 1..]).map(Some)),
    };
    match (id.filter(|id| ANY_NUMBER.contains(id)), receipt) {
        (Some(id), Some(receipt)) => Ok(Handle { id, receipt }),
        _ => Err(wrong(format!("'{}' is neither the id nor the receipt of a message", quoted(text)))),
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.len() != RECEIPT_DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |number, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(number << 4 | u64::from(digit))
    })
}
