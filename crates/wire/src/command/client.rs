//! CLIENT: what a connection says and asks about itself and the others.

use super::session::{done, on_or_off};
use super::table::{Entry, entry, subcommand};
use super::words::{ANY_NUMBER, Parsed, Words, quoted, wrong};
use super::{ClientReply, KillTarget, Session};
use crate::fault::Fault;
use crate::span::Span;

/// `CLIENT …`.
pub(super) static SUBCOMMANDS: [Entry; 10] = [
    entry("client|setinfo", 4, set_info),
    entry("client|setname", 3, set_name),
    entry("client|getname", 2, |_| done(Session::ClientGetName)),
    entry("client|id", 2, |_| done(Session::ClientId)),
    entry("client|info", 2, |_| done(Session::ClientInfo)),
    entry("client|list", 2, |_| done(Session::ClientList)),
    entry("client|kill", -3, kill),
    entry("client|reply", 3, reply),
    entry("client|no-evict", 3, |words| on_or_off(words, Session::ClientNoEvict)),
    entry("client|no-touch", 3, |words| on_or_off(words, Session::ClientNoTouch)),
];

/// `CLIENT subcommand …`.
pub(super) fn client(words: &mut Words<'_>) -> Parsed {
    subcommand(words, &SUBCOMMANDS)
}

/// Whether there is such a subcommand.
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

/// `CLIENT KILL ID n`, `CLIENT KILL ADDR address`, or `CLIENT KILL address`.
fn kill(words: &mut Words<'_>) -> Parsed {
    if words.left() == 1 {
        return done(Session::ClientKill(KillTarget::OldPeer(words.required()?)));
    }
    let Some(option) = words.keyword() else { return Err(words.wrong_arity()) };
    let target = match &*option {
        b"ID" => KillTarget::Id(words.number(&option, 1..=*ANY_NUMBER.end())?),
        b"ADDR" => KillTarget::Peer(words.value(&option)?),
        _ => return Err(words.unknown(&option)),
    };
    match words.keyword() {
        None => done(Session::ClientKill(target)),
        Some(another) => Err(words.unknown(&another)),
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

/// Longest name or version of a client: what is kept of each connection is small.
const NAME_BYTES_MAX: usize = 255;

/// What may stand in a line of CLIENT LIST: printable ASCII without blanks, or nothing at all.
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
