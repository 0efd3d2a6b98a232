//! Refusals that every store words alike.
//!
//! A client that moves from one store to another meets the same words and sentences, and the tests that compare stores
//! compare whole answers. Hence one place for them, not one per store.

use posthaste_wire::fault::{Fault, Word};

use super::bounds::{COPIES_BYTES, REMEMBERED_MS};

/// The queue does not exist.
pub(crate) fn no_queue(name: &[u8]) -> Fault {
    Fault::about(Word::NoQueue, format!("no queue is called '{}'; create it with QCREATE", shown(name)))
}

/// A strict queue was given a recipient that never logged in.
pub(crate) fn no_account(name: &[u8], queue: &[u8]) -> Fault {
    Fault::about(
        Word::NoAccount,
        format!(
            "no account is called '{}', and queue '{}' is STRICT: its recipients must have logged in",
            shown(name),
            shown(queue)
        ),
    )
}

/// What is said behind the reason of a redrive that went no further than this.
pub(crate) fn moved_before(messages: u64) -> String {
    format!("at least {messages} messages were moved; ask again for the rest")
}

/// The queue takes no message whose recipient is its sender.
pub(crate) fn forbidden_self(queue: &[u8]) -> Fault {
    Fault::about(
        Word::Denied,
        format!("queue '{}' has FORBIDSELF: an account may not send to itself there", shown(queue)),
    )
}

/// The queue holds as many messages as it may.
pub(crate) fn full_messages(queue: &[u8], messages_max: u64) -> Fault {
    Fault::about(
        Word::Full,
        format!(
            "queue '{}' may hold {messages_max} messages (MAXMSGS); read some or raise the limit",
            shown(queue)
        ),
    )
}

/// The queue holds as many body bytes as it may.
pub(crate) fn full_bytes(queue: &[u8], bytes_max: u64) -> Fault {
    Fault::about(
        Word::Full,
        format!(
            "queue '{}' may hold {bytes_max} body bytes (MAXBYTES); read some or raise the limit",
            shown(queue)
        ),
    )
}

/// One SEND to everyone would write more bytes than `COPIES_BYTES`.
pub(crate) fn too_many_copies(copies: u64) -> Fault {
    let text =
        format!("{copies} copies of this message are more than {COPIES_BYTES} bytes; send a shorter one");
    Fault::about(Word::Full, text)
}

/// The server holds as much in memory as it may; this many bytes of it are for names of accounts and for kept answers.
pub(crate) fn out_of_memory(limit: u64, of_names: u64, of_answers: u64) -> Fault {
    let text = if of_names > limit / 2 {
        format!(
            "the names of accounts, which stay, need most of {limit} bytes of memory; raise --memory-limit"
        )
    } else if of_answers > limit / 2 {
        let minutes = REMEMBERED_MS / 60_000;
        format!(
            "answers kept for {minutes} minutes for repeated requests (DEDUP, REQID) need most of {limit} bytes of memory; give \
             fewer requests a key, or raise --memory-limit"
        )
    } else {
        format!(
            "the stored messages need more than {limit} bytes of memory; read some or raise --memory-limit"
        )
    };
    Fault::about(Word::Full, text)
}

/// The messages of emptied queues need memory until they are freed.
pub(crate) fn still_freeing(limit: u64) -> Fault {
    let text = format!(
        "the messages of emptied queues are still being freed, and all together need more than {limit} bytes of memory; try again"
    );
    Fault::about(Word::Full, text)
}

/// What the store remembers for readers needs far more memory than it may.
pub(crate) fn much_remembered(limit: u64) -> Fault {
    let text = format!(
        "what is leased, or was and came back, dead letters, and answers kept for a REQID need more than twice the {limit} bytes of \
         --memory-limit; acknowledge some, read or purge dead letters, or pop without LEASE and REQID"
    );
    Fault::about(Word::Full, text)
}

/// A queue was named as the place of its own dead letters.
pub(crate) fn own_dead_letters(queue: &[u8]) -> Fault {
    Fault::about(
        Word::BadQuery,
        format!("queue '{}' cannot take its own dead letters; name another queue", shown(queue)),
    )
}

/// Names are UTF-8 already; this only turns bytes into text.
fn shown(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}
