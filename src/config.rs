//! Where an option's value comes from: the command line, else the environment, else the file of `--config`.
//!
//! Every option has one name in all three: `queue --max-message`, `POSTHASTE_QUEUE_MAX_MESSAGE`, and `max-message`
//! in the table `[queue]`. Nothing is listed twice: environment and file are derived from the flags.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::process::ExitCode;

use clap::builder::OsStr as ClapStr;
use clap::error::ErrorKind;
use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};

use crate::flags::Program;

/// Why there is nothing to run.
pub(crate) enum Refusal {
    /// Help or version was asked for, or the flags are wrong.
    Flags(clap::Error),
    /// The file is wrong.
    File(String),
}

/// A value that only its user can judge: understood as text, and wrong.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Misuse {}

impl Refusal {
    /// Tells the user, and the exit code.
    pub(crate) fn tell(&self) -> ExitCode {
        match self {
            Self::Flags(error) if !error.use_stderr() => {
                // Help into a closed pipe is no failure.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            Self::Flags(error) => {
                eprintln!("posthaste: {}", one_line(error));
                ExitCode::from(2)
            }
            Self::File(error) => {
                eprintln!("posthaste: {error}");
                ExitCode::from(2)
            }
        }
    }
}

/// All commands with their options, each of which knows its environment variable.
pub(crate) fn commands() -> Command {
    with_environment(Program::command(), "POSTHASTE")
}

/// Reads the command line, with the environment and the file behind it.
pub(crate) fn program(args: Vec<OsString>) -> Result<Program, Refusal> {
    let mut command = commands();
    if let Some(path) = config_path(&args) {
        command = with_file(command, &path).map_err(Refusal::File)?;
    }
    let matches = command.try_get_matches_from(args).map_err(Refusal::Flags)?;
    Program::from_arg_matches(&matches).map_err(Refusal::Flags)
}

/// A clap error in one line: what is wrong, and where help is.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "say what to do; see posthaste --help".into();
    }
    let text = error.to_string();
    let said: Vec<&str> =
        text.lines().take_while(|line| !line.starts_with("Usage:")).map(str::trim).collect();
    let said = said.join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said).trim();
    format!("{}; see --help", said.strip_suffix("For more information, try '--help'.").unwrap_or(said).trim())
}

/// Gives every flag of every command its environment variable.
fn with_environment(command: Command, prefix: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| match arg.get_long() {
        Some(long) => {
            let name = format!("{prefix}_{}", long.to_uppercase().replace('-', "_"));
            arg.env(name).hide_env(true)
        }
        None => arg,
    });
    names.into_iter().fold(command, |command, name| {
        let prefix = format!("{prefix}_{}", name.to_uppercase());
        command.mut_subcommand(name, |sub| with_environment(sub, &prefix))
    })
}

/// The file of `--config`, or of the cache tier's `--check` (elsewhere a flag), which is needed before the flags can be read.
fn config_path(args: &[OsString]) -> Option<OsString> {
    let command = args.get(1).and_then(|command| command.to_str()).unwrap_or_default();
    let names = if command == "cache" { &["--config", "--check"][..] } else { &["--config"] };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(arg) = arg.to_str() else { continue };
        if names.contains(&arg) {
            return rest.next().cloned();
        }
        if let Some(path) = names.iter().find_map(|name| arg.strip_prefix(name)?.strip_prefix('=')) {
            return Some(path.into());
        }
    }
    std::env::var_os(format!("POSTHASTE_{}_CONFIG", command.to_uppercase()))
}

/// Makes the file's values the defaults of the flags they name.
fn with_file(command: Command, path: &OsStr) -> Result<Command, String> {
    let shown = path.to_string_lossy();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| format!("{shown}: {}", first_line(&error)))?;
    with_table(command, &table).map_err(|error| format!("{shown}: {error}"))
}

fn first_line(error: &toml::de::Error) -> String {
    error.to_string().lines().collect::<Vec<_>>().join(" ")
}

pub(crate) fn with_table(mut command: Command, table: &toml::Table) -> Result<Command, String> {
    for (key, value) in table {
        let is_command = command.get_subcommands().any(|sub| sub.get_name() == key);
        command = match value {
            toml::Value::Table(inner) if is_command => {
                let sub = command.find_subcommand(key).cloned().unwrap_or_default();
                let sub = with_table(sub, inner).map_err(|error| format!("[{key}] {error}"))?;
                command.mut_subcommand(key, |_| sub)
            }
            value => with_default(command, key, value)?,
        };
    }
    Ok(command)
}

fn with_default(command: Command, key: &str, value: &toml::Value) -> Result<Command, String> {
    let found = command.get_arguments().find(|arg| arg.get_long() == Some(key));
    let id = found.map(|arg| arg.get_id().clone()).ok_or_else(|| format!("unknown option {key}"))?;
    let values: Vec<ClapStr> = match value {
        toml::Value::Array(values) => values.iter().map(|value| ClapStr::from(plain(value))).collect(),
        value => vec![ClapStr::from(plain(value))],
    };
    Ok(command.mut_arg(id, |arg: Arg| arg.default_values(values)))
}

/// A TOML value as one would write it on the command line.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
