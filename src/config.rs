//! Options come from the command line, else from the environment, else from the file of `--config`.
//!
//! Every option has the same name in all three: `queue --max-message`, `POSTHASTE_QUEUE_MAX_MESSAGE`, and
//! `max-message` in the table `[queue]`. Nothing is listed twice: environment and file are derived from the flags.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::OsStr as ClapStr;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory as _, FromArgMatches as _, value_parser};
use posthaste_load::stderr::complain;
use posthaste_server::queue::choice::StoreChoice;
use toml::de::{DeTable, DeValue};

use crate::environment::{nearest, origin_of_refusal, with_environment};
use crate::flags::Program;
use crate::placed::{FileError, Placed, parse, plain};
use crate::pools;
use crate::precedence::{exclude, needed_of_file, without_overruled};
use crate::queue::collector;
use crate::reference::{NOT_IN_FILE, WITH_FILE};

/// Why no command runs.
pub(crate) enum Refusal {
    /// Help or version was asked for, or the flags are wrong; `origin` names the variables that a wrong value
    /// came from.
    Flags { error: clap::Error, origin: String },
    /// The file is wrong, or cannot be read.
    File(String),
}

/// Wrong usage that clap cannot detect: a value that is understood as text, and wrong.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Misuse {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flags { error, origin } => write!(f, "{origin}{}", one_line(error)),
            Self::File(error) => f.write_str(error),
        }
    }
}

impl Refusal {
    /// Tells the user, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Flags { error, .. } if !error.use_stderr() => {
                match error.print() {
                    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                        complain(format_args!("posthaste: {error}"));
                        ExitCode::FAILURE
                    }
                    // Help into a closed pipe is no failure.
                    _ => ExitCode::SUCCESS,
                }
            }
            refusal => {
                complain(format_args!("posthaste: {refusal}"));
                ExitCode::from(2)
            }
        }
    }
}

/// Returns all commands with their options and the environment variables of these.
pub(crate) fn commands() -> Command {
    with_environment(program_of_flags())
}

/// Returns all commands with their options. The tiers define `--config` themselves; the other commands get
/// one here for all of their parts.
pub(crate) fn program_of_flags() -> Command {
    let file = || {
        Arg::new("config").long("config").value_name("FILE").value_parser(value_parser!(PathBuf)).global(true)
    };
    Program::command().mut_subcommands(|command| match command.get_name() {
        "bench" => {
            command.arg(file().help("A file with values for options, in tables such as [bench.queue]"))
        }
        "admin" => {
            command.arg(file().help("A file with values for options, in tables such as [admin.queues]"))
        }
        "migrate" => command.arg(file().help("A file with values for options, in the table [migrate]")),
        _ => command,
    })
}

/// Reads the command line, the environment and the file.
pub(crate) fn program(args: Vec<OsString>) -> Result<Program, Refusal> {
    let Some((path, origin)) = config_path(&args) else { return parse_arguments(commands(), args) };
    if let Some(help) = asked_for_help(&args) {
        return Err(help);
    }
    let shown = path.to_string_lossy();
    let text = fs::read_to_string(&path)
        .map_err(|error| Refusal::File(format!("{origin}cannot read {shown}: {error}")))?;
    let mut program = from_text(args, &shown, &text)?;
    if let Program::Cache(flags) = &mut program {
        // Kept for its pools and routes: a pipe cannot be read again.
        flags.text = Some(text);
    }
    Ok(program)
}

/// Returns the help or the version, if the command line asks for it: whatever is wrong with the file.
fn asked_for_help(args: &[OsString]) -> Option<Refusal> {
    let error = commands().try_get_matches_from(args).err().filter(|error| !error.use_stderr())?;
    Some(Refusal::Flags { error, origin: String::new() })
}

/// Reads the command line, the environment and this text of a file.
pub(crate) fn from_text(args: Vec<OsString>, shown: &str, text: &str) -> Result<Program, Refusal> {
    // Before variables are added: an error in one of them must not be blamed on a line of the file.
    let command = parse(text).and_then(|table| {
        let program = program_of_flags();
        refuse_file_of_others(&program, &args, table.get_ref())?;
        with_table(program, table.get_ref(), &[])
    });
    let command = command.map_err(|wrong| Refusal::File(wrong.with_line(shown, text)))?;
    parse_arguments(with_environment(command), args)
}

/// Checks that the options in a file's text have possible values.
pub(crate) fn check(text: &str) -> Result<(), FileError> {
    parse(text).and_then(|table| with_table(program_of_flags(), table.get_ref(), &[])).map(drop)
}

fn parse_arguments(command: Command, args: Vec<OsString>) -> Result<Program, Refusal> {
    let refusal = |error: clap::Error| {
        let origin = origin_of_refusal(&command, &args, &error);
        Refusal::Flags { error, origin }
    };
    let bare = program_of_flags();
    let effective = without_overruled(command.clone(), &bare, &args);
    let mut complete = args.clone();
    let matches = loop {
        match effective.clone().try_get_matches_from(&complete) {
            Ok(matches) => break matches,
            Err(error) => match needed_of_file(&effective, &bare, &complete, &error) {
                Some(needed) => complete = needed,
                None => return Err(refusal(error)),
            },
        }
    };
    Program::from_arg_matches(&matches).map_err(refusal)
}

/// Shortens a clap error to one line: what is wrong, and where help is.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let help = error.to_string();
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or("posthaste");
        let words: Vec<&str> = usage.split(' ').take_while(|word| !word.starts_with(['[', '<'])).collect();
        return format!("say what to do; see {} --help", words.join(" "));
    }
    let text = error.to_string();
    let message: Vec<&str> =
        text.lines().take_while(|line| !line.starts_with("Usage:")).map(str::trim).collect();
    let message = message.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message).trim();
    // The standard library's words for a wrong number.
    let message = &message.replace("invalid digit found in string", "must be a whole number");
    format!(
        "{}; see --help",
        message.strip_suffix("For more information, try '--help'.").unwrap_or(message).trim()
    )
}

/// Returns the file of `--config`, or of the cache tier's `--check` (elsewhere a flag), which is needed
/// before the flags can be read; and a prefix for errors about it.
fn config_path(args: &[OsString]) -> Option<(OsString, String)> {
    let command = args.get(1).and_then(|command| command.to_str()).unwrap_or_default();
    let names = if command == "cache" { &["config", "check"][..] } else { &["config"] };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        // Compared as bytes, because a path may be any bytes.
        let option = arg.as_bytes().strip_prefix(b"--").unwrap_or_default();
        match names.iter().find_map(|name| option.strip_prefix(name.as_bytes())) {
            Some([]) => return Some((rest.next()?.clone(), String::new())),
            Some([b'=', path @ ..]) => return Some((OsStr::from_bytes(path).to_owned(), String::new())),
            _ => {}
        }
    }
    names.iter().find_map(|name| {
        let variable = format!("POSTHASTE_{command}_{name}").to_uppercase();
        Some((std::env::var_os(&variable)?, format!("{variable}: ")))
    })
}

/// Refuses a file that is for other commands only: it would be ignored, and the command run with all of its defaults.
fn refuse_file_of_others(program: &Command, args: &[OsString], table: &DeTable<'_>) -> Result<(), FileError> {
    let Some(command) = args.get(1).and_then(|name| program.find_subcommand(name)) else { return Ok(()) };
    let asked = command.get_name();
    let others = table.iter().map(|(name, _)| (name.span().start, &**name.get_ref()));
    let mut others: Vec<(usize, &str)> = others.collect();
    others.sort_unstable();
    match others.first() {
        // A table that is not a command's gets its own error later.
        Some((at, first))
            if program.find_subcommand(first).is_some() && others.iter().all(|(_, name)| *name != asked) =>
        {
            let what = format!("there is no table [{asked}]: nothing here is for posthaste {asked}");
            Err(FileError::new(*at, what))
        }
        _ => Ok(()),
    }
}

/// Makes a file's values the defaults of the flags they name. `path` is the names of the commands that the
/// table belongs to.
pub(crate) fn with_table(
    mut command: Command,
    table: &DeTable<'_>,
    path: &[&str],
) -> Result<Command, FileError> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in &entries {
        let key: &str = name.get_ref();
        let is_command = command.get_subcommands().any(|sub| sub.get_name() == key);
        command = match value.get_ref() {
            DeValue::Table(inner) if is_command => {
                let sub = command.find_subcommand(key).cloned().unwrap_or_default();
                let sub = with_table(sub, inner, &[path, &[key]].concat())?;
                command.mut_subcommand(key, |_| sub)
            }
            _ if key == "config" => return Err(FileError::new(name.span().start, config_in_file(path))),
            // Pools and routes are read once the flags are known.
            _ if path == ["cache"] && [pools::POOLS, pools::ROUTES].contains(&key) => command,
            _ if path == ["cache"] && is_singular(key, value.get_ref()) => {
                return Err(FileError::new(
                    name.span().start,
                    format!("unknown option {key}; did you mean {key}s?"),
                ));
            }
            _ if is_for_command_line(path, key) => {
                let what = format!("{key} can stand on the command line only");
                return Err(FileError::new(name.span().start, what));
            }
            DeValue::Table(_) if path.is_empty() => {
                return Err(FileError::new(
                    name.span().start,
                    format!("there is no command {key} for this table"),
                ));
            }
            _ if path.is_empty() => {
                let what = format!("{key}: options stand in the table of their command, such as [queue]");
                return Err(FileError::new(name.span().start, what));
            }
            _ => with_default(command, path, key, name.span().start, value)?,
        };
    }
    // A switch that is off excludes nothing.
    let given = entries.iter().filter(|(_, value)| value.get_ref().as_bool() != Some(false));
    let given = given.filter_map(|(name, _)| {
        let key: &str = name.get_ref();
        Some((key, name.span().start, command.get_arguments().find(|arg| arg.get_long() == Some(key))?))
    });
    let given: Vec<(&str, usize, &Arg)> = given.collect();
    for (number, (later, at, one)) in given.iter().enumerate() {
        if let Some((earlier, ..)) = given[..number].iter().find(|(.., other)| exclude(&command, one, other))
        {
            let what = format!("{later} cannot be used with {earlier}; keep one of them");
            return Err(FileError::new(*at, what));
        }
    }
    Ok(command)
}

/// Returns the error for a file that names a file of options, which would be ignored.
fn config_in_file(path: &[&str]) -> String {
    let variable = path.first().map(|command| format!(", or in POSTHASTE_{}_CONFIG", command.to_uppercase()));
    let variable = variable.unwrap_or_default();
    format!(
        "config cannot stand in a file, which it names: give it on the command line (--config FILE){variable}"
    )
}

/// Returns whether pools or routes are written in the singular: `[[cache.route]]`, `[cache.pool.NAME]`.
fn is_singular(key: &str, value: &DeValue<'_>) -> bool {
    let is_table = value.is_table()
        || value.as_array().is_some_and(|tables| tables.iter().any(|table| table.get_ref().is_table()));
    is_table && [pools::POOLS, pools::ROUTES].iter().any(|many| many.strip_suffix('s') == Some(key))
}

/// Returns whether an option says what to do with a file, and so cannot stand in one.
fn is_for_command_line(path: &[&str], key: &str) -> bool {
    matches!(path, [command] if WITH_FILE.contains(command)) && NOT_IN_FILE.contains(&key)
}

/// Checks that a flag is true or false, that only repeatable options have a list, and that none has a table.
fn check_shape(arg: &Arg, key: &str, value: &Placed<'_>) -> Result<(), FileError> {
    let wanted = match (arg.get_action(), value.get_ref()) {
        (ArgAction::SetTrue, DeValue::Boolean(_)) => return Ok(()),
        (ArgAction::SetTrue, _) => "true or false",
        (ArgAction::Append, DeValue::Array(values)) if !values.is_empty() => return Ok(()),
        (_, DeValue::Array(_) | DeValue::Table(_)) => "a value",
        _ => return Ok(()),
    };
    Err(FileError::new(value.span().start, format!("{key}: write {wanted}")))
}

/// Suggests what was probably meant: an option of a part, or one with a similar name. `admin` and `bench`
/// have options only in their parts.
fn advice(command: &Command, path: &[&str], key: &str) -> String {
    let has_it = |part: &&Command| part.get_arguments().any(|arg| arg.get_long() == Some(key));
    if let Some(part) = command.get_subcommands().find(has_it) {
        let (table, part) = (path.join("."), part.get_name());
        return format!("; it stands in the table of a part, such as [{table}.{part}]");
    }
    let meant = nearest(command, key).and_then(Arg::get_long);
    meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default()
}

fn with_default(
    command: Command,
    path: &[&str],
    key: &str,
    at: usize,
    value: &Placed<'_>,
) -> Result<Command, FileError> {
    let found = command.get_arguments().find(|arg| arg.get_long() == Some(key));
    let found = found
        .ok_or_else(|| FileError::new(at, format!("unknown option {key}{}", advice(&command, path, key))))?;
    check_shape(found, key, value)?;
    let id = found.get_id().clone();
    let values: Vec<String> = match value.get_ref() {
        DeValue::Array(values) => values.iter().map(|value| plain(value.get_ref())).collect(),
        value => vec![plain(value)],
    };
    let alone = values.iter().map(|value| OsString::from(format!("--{key}={value}")));
    let tried = command.clone().try_get_matches_from([OsString::from("posthaste")].into_iter().chain(alone));
    if let Err(error) = tried
        && matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation)
    {
        return Err(FileError::new(value.span().start, one_line(&error)));
    }
    for text in &values {
        check_secret(key, text).map_err(|error| FileError::new(value.span().start, error))?;
    }
    let values: Vec<ClapStr> = values.into_iter().map(ClapStr::from).collect();
    Ok(command.mut_arg(id, |arg: Arg| arg.required(false).default_values(values)))
}

/// Checks a value that clap takes as text because it may hold a secret: clap would show a wrong value.
fn check_secret(key: &str, text: &str) -> Result<(), String> {
    match key {
        "store" => text.parse::<StoreChoice>().map(drop).map_err(|error| format!("--store: {error}")),
        "traces" => collector(text).map(drop),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_examples(command: &Command, path: &str) -> Vec<String> {
        let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let here = (!shown.starts_with("Example")).then(|| path.to_owned());
        let below = command
            .get_subcommands()
            .flat_map(|sub| without_examples(sub, format!("{path} {}", sub.get_name()).trim_start()));
        here.into_iter().chain(below).collect()
    }

    #[test]
    fn every_command_shows_examples() {
        // The program itself lists its commands.
        assert_eq!(without_examples(&commands(), ""), [""]);
    }

    fn examples(command: &Command) -> Vec<String> {
        let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        shown.lines().map(str::to_owned).chain(command.get_subcommands().flat_map(examples)).collect()
    }

    /// A line that the help would break in two can be copied no more.
    #[test]
    fn every_example_fits_into_the_width_of_the_help() {
        const WIDTH: usize = 100;
        let wide: Vec<String> =
            examples(&commands()).into_iter().filter(|line| line.chars().count() > WIDTH).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}
