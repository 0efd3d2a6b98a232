//! Connection commands that every Redis client expects: greeting, login, PING and the like, and questions
//! about the server. CLIENT has a file of its own.

use super::client::connection_name;
use super::table::{Entry, entry, subcommand};
use super::words::{Parsed, Words, quoted, wrong};
use super::{Command, Session};

/// `COMMAND …`.
pub(super) static COMMAND_SUBCOMMANDS: [Entry; 4] = [
    entry("command|docs", -2, |words| done(Session::CommandDocs(words.rest().to_vec()))),
    entry("command|info", -2, |words| done(Session::CommandInfo(words.rest().to_vec()))),
    entry("command|count", 2, |_| done(Session::CommandCount)),
    entry("command|list", 2, |_| done(Session::CommandList)),
];

/// `CONFIG …`.
pub(super) static CONFIG_SUBCOMMANDS: [Entry; 1] =
    [entry("config|get", -3, |words| done(Session::ConfigGet(words.rest().to_vec())))];

/// `HELLO [protocol [AUTH account secret] [SETNAME name]]`.
pub(super) fn hello(words: &mut Words<'_>) -> Parsed {
    let protocol = match words.next() {
        None => None,
        Some(protocol) => Some(
            integer(words.text(protocol))
                .ok_or_else(|| wrong("Protocol version is not an integer or out of range".to_owned()))?,
        ),
    };
    let (mut auth, mut name) = (None, None);
    while let Some(option) = words.keyword() {
        match &*option {
            b"AUTH" => {
                let (account, secret) = (words.value(&option)?, words.value(&option)?);
                words.set(&mut auth, (words.account(account)?, secret), &option)?;
            }
            b"SETNAME" => {
                let value = words.value(&option)?;
                words.set(&mut name, connection_name(words, value)?, &option)?;
            }
            _ => return Err(words.unknown(&option)),
        }
    }
    done(Session::Hello { protocol, auth, name })
}

/// `AUTH [account] secret`.
pub(super) fn auth(words: &mut Words<'_>) -> Parsed {
    let (account, secret) = match (words.required()?, words.next()) {
        (secret, None) => (None, secret),
        (account, Some(secret)) => (Some(words.account(account)?), secret),
    };
    last(words, Session::Auth { account, secret })
}

/// `LOGIN account [secret]`.
pub(super) fn login(words: &mut Words<'_>) -> Parsed {
    let account = words.required()?;
    let account = words.account(account)?;
    let secret = words.next();
    last(words, Session::Login { account, secret })
}

/// `PING [message]`.
pub(super) fn ping(words: &mut Words<'_>) -> Parsed {
    let message = words.next();
    last(words, Session::Ping(message))
}

/// `SELECT index`.
pub(super) fn select(words: &mut Words<'_>) -> Parsed {
    let index = words.required()?;
    match integer(words.text(index)) {
        Some(index) => done(Session::Select(index)),
        None => Err(wrong(format!("'{}' is not an integer or out of range", quoted(words.text(index))))),
    }
}

/// `COMMAND`, alone or with a subcommand.
pub(super) fn command(words: &mut Words<'_>) -> Parsed {
    if words.left() == 0 { done(Session::CommandAll) } else { subcommand(words, &COMMAND_SUBCOMMANDS) }
}

/// `CONFIG GET pattern …`.
pub(super) fn config(words: &mut Words<'_>) -> Parsed {
    subcommand(words, &CONFIG_SUBCOMMANDS)
}

/// `INFO [section …]`.
pub(super) fn info(words: &mut Words<'_>) -> Parsed {
    done(Session::Info(words.rest().to_vec()))
}

/// `ECHO message`.
pub(super) fn echo(words: &mut Words<'_>) -> Parsed {
    let message = words.required()?;
    done(Session::Echo(message))
}

/// `GET key`.
pub(super) fn get(words: &mut Words<'_>) -> Parsed {
    let key = words.required()?;
    done(Session::Get(key))
}

/// `LOGOUT`.
pub(super) fn logout(_: &mut Words<'_>) -> Parsed {
    done(Session::Logout)
}

/// `TIME`.
pub(super) fn time(_: &mut Words<'_>) -> Parsed {
    done(Session::Time)
}

/// `RESET`.
pub(super) fn reset(_: &mut Words<'_>) -> Parsed {
    done(Session::Reset)
}

/// `QUIT`. Arguments are ignored, since the connection ends anyhow.
pub(super) fn quit(_: &mut Words<'_>) -> Parsed {
    done(Session::Quit)
}

/// `READONLY`.
pub(super) fn read_only(_: &mut Words<'_>) -> Parsed {
    done(Session::ReadOnly)
}

/// Returns a session command whose arguments are all read.
pub(super) fn done(session: Session) -> Parsed {
    Ok(Command::Session(session))
}

/// Returns a session command, or refuses it when arguments are left over.
fn last(words: &Words<'_>, session: Session) -> Parsed {
    if words.left() > 0 { Err(words.wrong_arity()) } else { done(session) }
}

/// Parses an integer with an optional minus; a plus is refused.
fn integer(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

/// Reads `ON` or `OFF` for a setting that is accepted and has no effect here.
pub(super) fn on_or_off(words: &mut Words<'_>, session: Session) -> Parsed {
    match words.keyword() {
        Some(word) if matches!(&*word, b"ON" | b"OFF") => done(session),
        Some(word) => Err(words.unknown(&word)),
        None => Err(words.wrong_arity()),
    }
}
