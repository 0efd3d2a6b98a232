//! Every command with its arity and the function that reads its arguments.
//!
//! Commands are found by linear search, the most frequent first: each comparison ends at the length or the
//! first byte, and a hash would cost more than it saves.

use super::words::{Keyword, Parsed, Words, quoted, wrong};
use super::{client, leases, messages, queues, session};
use crate::fault::Fault;
use crate::span::Span;

/// One command or subcommand.
pub(super) struct Entry {
    /// Name in lower case; a subcommand's is `command|subcommand`.
    pub name: &'static str,
    /// Number of arguments, names included; negative: at least that many.
    pub arity: i32,
    /// Reads the arguments behind the name.
    pub parse: fn(&mut Words<'_>) -> Parsed,
    /// Whether the session answers this command, before a login too, if only with NOAUTH. False for every subcommand.
    is_for_sessions: bool,
}

/// Makes the entry of a command that needs a login, or of a subcommand.
pub(super) const fn entry(name: &'static str, arity: i32, parse: fn(&mut Words<'_>) -> Parsed) -> Entry {
    Entry { name, arity, parse, is_for_sessions: false }
}

/// Makes the entry of a command that sessions answer.
const fn of_sessions(name: &'static str, arity: i32, parse: fn(&mut Words<'_>) -> Parsed) -> Entry {
    Entry { name, arity, parse, is_for_sessions: true }
}

static COMMANDS: [Entry; 40] = [
    entry("send", -3, messages::send),
    entry("pop", -1, messages::pop),
    entry("peek", -1, messages::peek),
    entry("ack", -2, leases::ack),
    entry("sendmany", -3, messages::send_many),
    entry("qreadable", -1, queues::readable),
    of_sessions("ping", -1, session::ping),
    entry("nack", -2, leases::nack),
    entry("extend", 3, leases::extend),
    entry("qcreate", -1, queues::create),
    entry("qdelete", 2, queues::delete),
    entry("qpurge", 2, queues::purge),
    entry("qlist", 1, queues::list),
    entry("qinfo", 2, queues::info),
    entry("qredrive", -2, queues::redrive),
    entry("qbrowse", -2, queues::browse),
    entry("accounts", 1, queues::accounts),
    of_sessions("hello", -1, session::hello),
    of_sessions("auth", -2, session::auth),
    of_sessions("login", -2, session::login),
    of_sessions("logout", 1, session::logout),
    of_sessions("echo", 2, session::echo),
    of_sessions("select", 2, session::select),
    of_sessions("client", -2, client::client),
    of_sessions("command", -1, session::command),
    of_sessions("info", -1, session::info),
    of_sessions("config", -2, session::config),
    of_sessions("time", 1, session::time),
    of_sessions("reset", 1, session::reset),
    of_sessions("quit", -1, session::quit),
    of_sessions("readonly", 1, session::read_only),
    entry("get", 2, session::get),
    // Clients of Redis ask for these often enough that the refusal should say what to do instead.
    entry("subscribe", -1, |_| Err(no_channels())),
    entry("psubscribe", -1, |_| Err(no_channels())),
    entry("publish", -1, |_| Err(no_channels())),
    entry("multi", -1, |_| Err(no_transactions())),
    entry("watch", -1, |_| Err(no_transactions())),
    entry("discard", -1, |_| Err(done_by_themselves())),
    entry("exec", -1, |_| Err(done_by_themselves())),
    entry("cluster", -1, |_| Err(wrong("This instance has cluster support disabled".to_owned()))),
];

/// Number of entries at the end of the table that only refuse.
#[cfg(test)]
const REFUSED: usize = 8;

fn no_channels() -> Fault {
    wrong(
        "there are no channels here: wait for messages with POP and BLOCK, SEND to everyone with TO *"
            .to_owned(),
    )
}

fn no_transactions() -> Fault {
    wrong(
        "there are no transactions here: each request is done by itself, and SENDMANY is all or none"
            .to_owned(),
    )
}

/// Returns the refusal of EXEC and DISCARD. It says that the requests since MULTI were done: libraries send a
/// transaction in one go and show only its last error, and a caller who thinks that nothing was done would repeat them.
fn done_by_themselves() -> Fault {
    wrong(
        "there are no transactions here: what was sent since MULTI has been done, each request by itself; send a pipeline without \
         MULTI (redis-py: transaction=False)"
            .to_owned(),
    )
}

/// See [`super::parse`].
pub(super) fn parse(args: &[Span], bytes: &[u8], message_bytes_max: usize) -> Parsed {
    let (name, rest) = args.split_first().ok_or_else(|| wrong("an empty request".to_owned()))?;
    let name = name.of(bytes);
    let entry = command(name).ok_or_else(|| unknown_command(name))?;
    let mut words = Words::new(entry.name, rest, bytes, message_bytes_max);
    run(entry, &mut words, 1)
}

/// See [`super::is_for_sessions`].
pub(super) fn is_for_sessions(word: &[u8]) -> bool {
    command(word).is_some_and(|entry| entry.is_for_sessions)
}

fn command(name: &[u8]) -> Option<&'static Entry> {
    COMMANDS.iter().find(|entry| entry.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Reads the next word as one of `subcommands`, and then its arguments.
pub(super) fn subcommand(words: &mut Words<'_>, subcommands: &[Entry]) -> Parsed {
    let Some(word) = words.keyword() else { return Err(words.wrong_arity()) };
    let entry = subcommands.iter().find(|entry| is_subcommand(entry.name, &word));
    let Some(entry) = entry else { return Err(words.unknown_subcommand(&word)) };
    words.command = entry.name;
    run(entry, words, 2)
}

fn is_subcommand(name: &str, word: &Keyword) -> bool {
    name.split_once('|').is_some_and(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word))
}

/// Reads the arguments if their number fits the entry's arity; `taken` names were read before.
fn run(entry: &Entry, words: &mut Words<'_>, taken: usize) -> Parsed {
    let given = words.left() + taken;
    let wanted = entry.arity.unsigned_abs() as usize;
    let fits = if entry.arity < 0 { given >= wanted } else { given == wanted };
    if fits { (entry.parse)(words) } else { Err(words.wrong_arity()) }
}

fn unknown_command(name: &[u8]) -> Fault {
    wrong(format!("unknown command '{}': COMMAND LIST names those there are", quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Entry, REFUSED, client, session};
    use crate::docs;

    fn served() -> impl Iterator<Item = &'static Entry> {
        COMMANDS[..COMMANDS.len() - REFUSED]
            .iter()
            .chain(&client::SUBCOMMANDS)
            .chain(&session::COMMAND_SUBCOMMANDS)
            .chain(&session::CONFIG_SUBCOMMANDS)
    }

    #[test]
    fn every_command_that_is_served_is_documented_with_the_same_arity() {
        for entry in served() {
            assert_eq!(docs::arity(entry.name), Some(entry.arity), "{}", entry.name);
        }
    }

    #[test]
    fn every_command_that_is_documented_is_served() {
        assert_eq!(served().count(), docs::names().count());
        for name in docs::names() {
            assert!(served().any(|entry| entry.name == name), "{name}");
        }
    }
}
