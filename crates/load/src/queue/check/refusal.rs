//! Errors that a correct server may give to the requests of a run.

use posthaste_wire::reply::Item;

use crate::queue::request::Request;

/// Returns whether an answer is an error that says nothing was done; after `STORE`, or an answer that is not
/// understood, something may have been.
pub(crate) fn was_refused(item: &Item<'_>) -> bool {
    word(item).is_some_and(|word| word != b"STORE")
}

/// Returns the first word of an error; None if the answer is no error.
pub(crate) fn word<'a>(item: &Item<'a>) -> Option<&'a [u8]> {
    match item {
        Item::Scalar(value) => value.error_word(),
        Item::Compound(..) => None,
    }
}

/// Returns whether another try may succeed after this error.
pub(crate) fn may_pass(word: &[u8]) -> bool {
    matches!(word, b"BUSY" | b"STORE")
}

/// Returns whether the error can be right for a request; `exists` says whether its queue certainly exists.
pub(crate) fn is_possible(word: &[u8], request: Request, exists: bool) -> bool {
    match word {
        // Too much at once, a broken store, or an account whose role, or a queue whose options, forbid it.
        b"BUSY" | b"FULL" | b"TOOBIG" | b"STORE" | b"DENIED" => true,
        // The queue may be STRICT.
        b"NOACCOUNT" => matches!(request, Request::Send { to: Some(_), .. }),
        // Clients that only echo do not log in without a secret, and may not send much then.
        b"NOAUTH" => request == Request::Echo,
        b"NOQUEUE" => !exists,
        _ => false,
    }
}
