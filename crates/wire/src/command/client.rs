//! CLIENT: commands about this connection and the other ones.

use std::ops::RangeInclusive;

use super::session::{done, on_or_off};
use super::table::{Entry, entry, subcommand};
use super::words::{ANY_NUMBER, Keyword, Parsed, Words, quoted, wrong};
use super::{ClientReply, KillFilter, KillTarget, ListTarget, Session};
use crate::fault::Fault;
use crate::span::Span;

/// Numbers that a connection can have.
const CLIENT_NUMBER: RangeInclusive<u64> = 1..=*ANY_NUMBER.end();

/// `CLIENT …`.
pub(super) static SUBCOMMANDS: [Entry; 10] = [
    entry("client|setinfo", 4, set_info),
    entry("client|setname", 3, set_name),
    entry("client|getname", 2, |_| done(Session::ClientGetName)),
    entry("client|id", 2, |_| done(Session::ClientId)),
    entry("client|info", 2, |_| done(Session::ClientInfo)),
    entry("client|list", -2, list),
    entry("client|kill", -3, kill),
    entry("client|reply", 3, reply),
    entry("client|no-evict", 3, |words| on_or_off(words, Session::ClientNoEvict)),
    entry("client|no-touch", 3, |words| on_or_off(words, Session::ClientNoTouch)),
];

/// `CLIENT subcommand …`.
pub(super) fn client(words: &mut Words<'_>) -> Parsed {
    subcommand(words, &SUBCOMMANDS)
}

/// Returns whether CLIENT has this subcommand.
pub(super) fn has(subcommand: &[u8]) -> bool {
    let is_it = |name: &str| name.as_bytes().eq_ignore_ascii_case(subcommand);
    SUBCOMMANDS.iter().filter_map(|entry| entry.name.split_once('|')).any(|(_, name)| is_it(name))
}

fn set_name(words: &mut Words<'_>) -> Parsed {
    let name = words.required()?;
    done(Session::ClientSetName(connection_name(words, name)?))
}

fn set_info(words: &mut Words<'_>) -> Parsed {
    let (attribute, value) = (words.required()?, words.required()?);
    let known = |name: &[u8]| words.text(attribute).eq_ignore_ascii_case(name);
    if !known(b"LIB-NAME") && !known(b"LIB-VER") {
        let attribute = quoted(words.text(attribute));
        return Err(wrong(format!("unknown attribute '{attribute}': LIB-NAME and LIB-VER can be set")));
    }
    done(Session::ClientSetInfo { attribute, value: connection_name(words, value)? })
}

/// `CLIENT LIST`, optionally of one type or of some connection numbers.
fn list(words: &mut Words<'_>) -> Parsed {
    let Some(option) = words.keyword() else { return done(Session::ClientList(ListTarget::All)) };
    let target = match &*option {
        b"TYPE" if is_normal(words, &option)? => ListTarget::All,
        b"TYPE" => ListTarget::Nobody,
        b"ID" => {
            let mut ids = vec![words.number(&option, CLIENT_NUMBER)?];
            while words.left() > 0 {
                ids.push(words.number(&option, CLIENT_NUMBER)?);
            }
            ListTarget::Ids(ids)
        }
        _ => return Err(words.unknown(&option)),
    };
    match words.keyword() {
        None => done(Session::ClientList(target)),
        Some(another) => Err(words.unknown(&another)),
    }
}

/// Reads the client type behind an option and returns whether it is `normal`, the type of every connection
/// here. Redis's other types are valid and match no connection.
fn is_normal(words: &mut Words<'_>, option: &Keyword) -> Result<bool, Fault> {
    let kind = words.value(option)?;
    let kind = words.text(kind);
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(true),
        b"master" | b"replica" | b"slave" | b"pubsub" => Ok(false),
        _ => Err(wrong(format!(
            "unknown client type '{}': all are normal here, and none master, replica or pubsub",
            quoted(kind)
        ))),
    }
}

/// `CLIENT KILL` with filters that all have to match, or the old form `CLIENT KILL address`.
fn kill(words: &mut Words<'_>) -> Parsed {
    if words.left() == 1 {
        return done(Session::ClientKill(KillTarget::OldPeer(words.required()?)));
    }
    let mut filter = KillFilter::default();
    let (mut is_of_type_here, mut spares_asker) = (None, None);
    while let Some(option) = words.keyword() {
        match &*option {
            b"ID" => {
                let id = words.number(&option, CLIENT_NUMBER)?;
                words.set(&mut filter.id, id, &option)?;
            }
            b"ADDR" => {
                let peer = words.value(&option)?;
                words.set(&mut filter.peer, peer, &option)?;
            }
            b"USER" => {
                let name = words.value(&option)?;
                words.set(&mut filter.account, words.account(name)?, &option)?;
            }
            b"TYPE" => {
                let is_normal = is_normal(words, &option)?;
                words.set(&mut is_of_type_here, is_normal, &option)?;
            }
            b"SKIPME" => {
                let spares = yes_or_no(words, &option)?;
                words.set(&mut spares_asker, spares, &option)?;
            }
            _ => return Err(words.unknown(&option)),
        }
    }
    filter.is_of_no_type_here = is_of_type_here == Some(false);
    filter.spares_asker = spares_asker.unwrap_or(true);
    done(Session::ClientKill(KillTarget::All(filter)))
}

fn yes_or_no(words: &mut Words<'_>, option: &Keyword) -> Result<bool, Fault> {
    let value = words.value(option)?;
    match words.text(value).to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(words.refuse(option, "must be yes or no")),
    }
}

fn reply(words: &mut Words<'_>) -> Parsed {
    let Some(word) = words.keyword() else { return Err(words.wrong_arity()) };
    let reply = match &*word {
        b"ON" => ClientReply::On,
        b"OFF" => ClientReply::Off,
        b"SKIP" => ClientReply::Skip,
        _ => return Err(words.unknown(&word)),
    };
    done(Session::ClientReply(reply))
}

/// Longest name or version of a client, in bytes; it bounds what each connection keeps.
const NAME_BYTES_MAX: usize = 255;

/// Checks a name or version of a client: printable ASCII without blanks, as a field of CLIENT LIST, or empty.
pub(super) fn connection_name(words: &Words<'_>, span: Span) -> Result<Span, Fault> {
    let name = words.text(span);
    if name.len() > NAME_BYTES_MAX {
        return Err(wrong(format!("names and versions of clients have {NAME_BYTES_MAX} bytes at most")));
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        let text = "names and versions of clients cannot contain spaces, newlines or special characters";
        return Err(wrong(text.to_owned()));
    }
    Ok(span)
}
