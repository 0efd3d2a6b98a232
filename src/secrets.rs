//! Hides a password given on the command line, where every user of the machine could read it.
//!
//! The arguments of a process are visible to all in `/proc/PID/cmdline` and cannot be changed, while its
//! environment is visible to its owner only. So the program executes itself again, in the same process, with
//! the password in `PGPASSWORD` and the URL without it. This is the first thing it does, but until then the
//! arguments are visible: better give the password in `PGPASSWORD` or `~/.pgpass` to begin with.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use posthaste_load::stderr::complain;
use posthaste_server::queue::postgres::url::is_place;

/// Variable in which PostgreSQL's own programs, and the store, look for a password that a URL does not have.
const VARIABLE: &str = "PGPASSWORD";

/// Executes the program again without the password in its arguments, if there is one. Returns if there is
/// none, or if the system refuses: then nothing is worse than before.
pub(crate) fn hide() {
    let mut found = None;
    let mut without = |argument: OsString| match argument.to_str().and_then(without_password) {
        Some((shown, password)) => {
            found = Some(password);
            OsString::from(shown)
        }
        None => argument,
    };
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.map(&mut without).collect();
    let (Some(password), Ok(program)) = (found, env::current_exe()) else { return };
    let error = Command::new(program).arg0(name).args(arguments).env(VARIABLE, password).exec();
    complain(format_args!(
        "posthaste: the password stays visible among the processes ({error}): use {VARIABLE} instead"
    ));
}

/// Returns an argument `postgres://…` or `--option=postgres://…` without its password, and the password.
fn without_password(argument: &str) -> Option<(String, OsString)> {
    let url = if argument.starts_with("--") { argument.split_once('=')?.1 } else { argument };
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
    let credentials = rest.split_once('@')?.0;
    let (user, password) = credentials.split_once(':').filter(|(user, _)| !user.contains(['/', '?']))?;
    if is_place(password) {
        return None; // which the reader of the URL will report
    }
    let begin = argument.len() - rest.len();
    let shown = format!("{}{user}{}", &argument[..begin], &rest[credentials.len()..]);
    percent_decoded(password).map(|password| (shown, password))
}

/// Decodes percent-encoding; None when it is wrong, which the reader of the URL will report.
fn percent_decoded(text: &str) -> Option<OsString> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(decoded).ok().filter(|text| !text.is_empty() && !text.contains('\0'))?;
    Some(OsStr::new(&text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn the_password_is_taken_out_wherever_a_url_stands() {
        for (argument, shown, password) in [
            ("postgres://app:sesame@db/x", "postgres://app@db/x", "sesame"),
            ("--store=postgres://app:s%40me@db/x?a=b", "--store=postgres://app@db/x?a=b", "s@me"),
            ("postgresql://app:a:b@a,b:7/x", "postgresql://app@a,b:7/x", "a:b"),
        ] {
            let (left, found) = without_password(argument).expect("there is one");
            assert_eq!((left.as_str(), found.to_str()), (shown, Some(password)));
        }
    }

    #[test]
    fn other_arguments_are_left_alone() {
        for argument in [
            "queue",
            "--store",
            "postgres://app@db/x",
            "postgres://app:@db/x",
            "postgres://db:5432/x",
            "postgres://db:5432/x?user=app@tenant",
            "postgres://app:%zz@db/x",
            "redis://app:sesame@db/x",
            "--note=a:b@c",
        ] {
            assert_eq!(without_password(argument), None, "{argument}");
        }
    }
}
