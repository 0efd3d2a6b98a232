//! `posthaste admin account`: the accounts file of a closed server.

use std::error::Error;
use std::io::{BufRead as _, ErrorKind, IsTerminal as _, Read as _, stdin};
use std::path::Path;

use posthaste_load::stderr::complain;
use posthaste_server::accounts::AccountsFile;
use posthaste_server::grants::{Grants, Role};
use serde_json::json;

use super::{Done, show};
use crate::config::Misuse;
use crate::flags::{AccountCommand, RoleFlags};
use crate::stdout::say;

/// Runs one command.
pub(super) fn run(command: &AccountCommand) -> Done {
    match command {
        AccountCommand::Add { name, file, roles } => add(name, file, roles),
        AccountCommand::Remove { name, file } => match AccountsFile::remove(file, name)? {
            true => say(&format!("account {name} is taken out of {}\n", file.display())),
            false => Err(format!("{} holds no account {name}", file.display()).into()),
        },
        AccountCommand::List { file, json } => list(file, *json),
    }
}

fn add(name: &str, file: &Path, roles: &RoleFlags) -> Done {
    let grants = grants(roles).map_err(Misuse)?;
    let was_there = AccountsFile::set(file, name, &secret()?, grants)?;
    if name.contains(':') {
        complain(format_args!(
            "posthaste: account {name} cannot log in over HTTP, where a name ends at a colon"
        ));
    }
    let what = if was_there { "has a new secret" } else { "is added" };
    say(&format!("account {name} {what} in {}\n", file.display()))
}

/// Shows the accounts in the file and what they may do.
fn list(file: &Path, as_json: bool) -> Done {
    let accounts = AccountsFile::open(file)?;
    let may = |grants: Option<&Grants>| grants.map_or("everything".to_owned(), Grants::to_string);
    let rows = accounts.grants().map(|(name, grants)| json!({ "account": name, "may": may(grants) }));
    show(as_json, rows.collect())
}

/// Returns the grants in the flags; None when there are none.
fn grants(flags: &RoleFlags) -> Result<Option<Grants>, String> {
    let mut grants = Grants::default();
    for (role, patterns) in
        [(Role::Send, &flags.send), (Role::Receive, &flags.receive), (Role::Administer, &flags.administer)]
    {
        for pattern in patterns {
            grants.add(role, pattern)?;
        }
    }
    Ok((grants != Grants::default()).then_some(grants))
}

/// Longest secret that every way to log in takes: a head of HTTP may have 16 KiB, and so may a request over
/// RESP before a login.
const SECRET_BYTES_MAX: usize = 4096;

/// Reads a secret from stdin: its first line.
fn secret() -> Result<String, Box<dyn Error>> {
    if stdin().is_terminal() {
        complain("secret (it is shown as you type):");
    }
    let mut text = String::new();
    let read = stdin().lock().take(SECRET_BYTES_MAX as u64 + 2).read_line(&mut text);
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => "a secret must be text in UTF-8".to_owned(),
        _ => format!("cannot read the secret from stdin: {error}"),
    })?;
    match text.lines().next() {
        Some(secret) if secret.len() > SECRET_BYTES_MAX => {
            Err(format!("the secret is too long: it may have {SECRET_BYTES_MAX} bytes").into())
        }
        Some(secret) if !secret.is_empty() => Ok(secret.to_owned()),
        _ => Err("no secret: write it on stdin".into()),
    }
}
