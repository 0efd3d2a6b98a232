//! Options in the environment: the variable of each option, which variables an error is about, and variables
//! that look like options and are none. The last are reported, but not as errors: what else is in an
//! environment is not ours to judge.
//!
//! This file also decides which of two options that exclude each other is in force, because clap does not
//! rank where a value comes from: it refuses two options of which one comes from a variable, and treats a
//! value of the file as a default, which excludes nothing.

use std::cmp::Reverse;
use std::env;
use std::ffi::{OsStr, OsString};

use clap::builder::{BoolishValueParser, TypedValueParser as _};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, Id};

/// Prefix of every option's variable.
const PREFIX: &str = "POSTHASTE";

/// Gives every option of every command its variable.
pub(crate) fn with_environment(program: Command) -> Command {
    with_variables(program, PREFIX)
}

fn with_variables(command: Command, prefix: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| match arg.get_long() {
        Some(long) => {
            let name = variable(prefix, long);
            let arg = arg.env(name).hide_env(true);
            match arg.get_action() {
                // In the spellings usual in environments: 1, yes, on.
                ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
                _ => arg,
            }
        }
        None => arg,
    });
    names.into_iter().fold(command, |command, name| {
        let prefix = variable(prefix, &name);
        command.mut_subcommand(name, |sub| with_variables(sub, &prefix))
    })
}

fn variable(prefix: &str, name: &str) -> String {
    format!("{prefix}_{}", name.to_uppercase().replace('-', "_"))
}

/// Returns a prefix for an error that names options or repeats their values: the variables that they come
/// from. It is empty if the command line gave them.
pub(crate) fn origin(program: &Command, args: &[OsString], error: &str) -> String {
    let requested = RequestedCommand::parse(program, args);
    let variables = requested.command(program).get_arguments().filter_map(|arg| {
        let (long, variable) = (arg.get_long()?, arg.get_env()?);
        let value = env::var_os(variable)?;
        let is_meant = mentions(error, long) || repeats(error, &value.to_string_lossy());
        (is_meant && !requested.gives(arg)).then(|| variable.to_string_lossy().into_owned())
    });
    let variables: Vec<String> = variables.collect();
    if variables.is_empty() { String::new() } else { format!("{}: ", variables.join(", ")) }
}

/// Where an option's value comes from. Later ones take precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Nowhere,
    File,
    Environment,
    CommandLine,
}

/// Removes the variable and the file's value from options that are excluded by an option from a place of
/// higher precedence. `bare` are the commands without either.
pub(crate) fn without_overruled(program: Command, bare: &Command, args: &[OsString]) -> Command {
    let requested = RequestedCommand::parse(&program, args);
    let bare = requested.command(bare);
    let bare_of = |arg: &Arg| bare.get_arguments().find(|bare| bare.get_id() == arg.get_id());
    change_at(program, &requested.path, &|command| {
        let source = |arg: &Arg| match arg.get_env().and_then(env::var_os) {
            _ if requested.gives(arg) => Source::CommandLine,
            // A switch that is off excludes nothing.
            Some(value) if is_off(&command, arg, &value) => Source::Nowhere,
            Some(_) => Source::Environment,
            None if bare_of(arg)
                .is_some_and(|bare| bare.get_default_values() != arg.get_default_values()) =>
            {
                Source::File
            }
            None => Source::Nowhere,
        };
        let mut sourced: Vec<(Source, &Arg)> =
            command.get_arguments().map(|arg| (source(arg), arg)).collect();
        sourced.sort_by_key(|(source, _)| Reverse(*source));
        // An overruled option overrules nothing itself, so options of higher precedence are decided first.
        let (mut kept, mut overruled) = (Vec::<(Source, &Arg)>::new(), Vec::new());
        for (source, arg) in sourced {
            let is_overruled =
                kept.iter().any(|(before, other)| *before > source && exclude(&command, arg, other));
            match bare_of(arg) {
                Some(bare) if is_overruled => overruled.push(bare.clone()),
                _ => kept.push((source, arg)),
            }
        }
        overruled
            .into_iter()
            .fold(command.clone(), |command, bare| command.mut_arg(bare.get_id().clone(), |_| bare))
    })
}

/// Returns whether a variable turns this switch off.
fn is_off(command: &Command, arg: &Arg, value: &OsStr) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
        && BoolishValueParser::new().parse_ref(command, None, value).is_ok_and(|is_on| !is_on)
}

/// Returns whether two options of a command exclude each other.
pub(crate) fn exclude(command: &Command, one: &Arg, other: &Arg) -> bool {
    let excludes = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
    };
    excludes(one, other) || excludes(other, one)
}

/// Changes the command at the end of this path of subcommands.
fn change_at(command: Command, path: &[String], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [first, rest @ ..] => command.mut_subcommand(first, |sub| change_at(sub, rest, change)),
    }
}

/// The command that is asked for, and the options that the command line itself gives it.
struct RequestedCommand {
    path: Vec<String>,
    given: Vec<Id>,
}

impl RequestedCommand {
    /// Has clap parse the command line, as it can tell an option's name from a value. Errors do not matter
    /// here: they are reported when the command line is parsed again.
    fn parse(program: &Command, args: &[OsString]) -> Self {
        let mut requested = Self { path: Vec::new(), given: Vec::new() };
        let Ok(matches) = program.clone().ignore_errors(true).try_get_matches_from(args) else {
            return requested;
        };
        let mut matches = &matches;
        while let Some((name, below)) = matches.subcommand() {
            requested.path.push(name.to_owned());
            matches = below;
        }
        let is_given = |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        requested.given = matches.ids().filter(is_given).cloned().collect();
        requested
    }

    /// Returns this command among other ones.
    fn command<'a>(&self, program: &'a Command) -> &'a Command {
        self.path.iter().try_fold(program, |command, word| command.find_subcommand(word)).unwrap_or(program)
    }

    /// Returns whether the command line gives this option.
    fn gives(&self, arg: &Arg) -> bool {
        self.given.contains(arg.get_id())
    }
}

/// Returns whether an error is about this option, and not about one whose name only begins with it.
fn mentions(error: &str, long: &str) -> bool {
    let option = format!("--{long}");
    let ends = |(at, _): (usize, &str)| {
        !error[at + option.len()..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-')
    };
    error.match_indices(&option).any(ends)
}

/// Returns whether an error repeats one of these values. Short ones are ignored, as they may be part of any text.
fn repeats(error: &str, values: &str) -> bool {
    const LENGTH_MIN: usize = 5;
    values.split(',').any(|value| value.len() >= LENGTH_MIN && error.contains(value))
}

/// Reports variables that begin like those of this command and belong to no option of it or its parts. `args`
/// say which part is asked for.
pub(crate) fn report_unknown(program: &Command, args: &[OsString], report: impl Fn(&str)) {
    let requested = RequestedCommand::parse(program, args);
    let set: Vec<String> = env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    for (name, meant) in unknown_variables(program, &requested.path, &set) {
        let advice = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        let command = requested.path.first().map_or("", String::as_str);
        report(&format!("{name} is no option of posthaste {command} and does nothing{advice}"));
    }
}

/// Returns the unknown variables of the command that `path` leads to, each with the variable that was probably meant.
fn unknown_variables(program: &Command, path: &[String], set: &[String]) -> Vec<(String, Option<String>)> {
    let Some(command) = path.first().and_then(|name| program.find_subcommand(name)) else {
        return Vec::new();
    };
    let requested = path[1..].iter().try_fold(command, |command, word| command.find_subcommand(word));
    let requested = requested.unwrap_or(command);
    let prefixes = path.iter().scan(PREFIX.to_owned(), |prefix, name| {
        *prefix = variable(prefix, name);
        Some(format!("{prefix}_"))
    });
    let prefixes: Vec<String> = prefixes.collect();
    let variable_of = |arg: &Arg| Some(arg.get_env()?.to_string_lossy().into_owned());
    let unknown = set
        .iter()
        .filter(|name| name.starts_with(&prefixes[0]) && !is_known(command, name) && !is_service(name, set));
    unknown
        .map(|name| {
            let rest = prefixes.iter().rev().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
            (name.clone(), nearest(requested, rest).and_then(variable_of))
        })
        .collect()
}

/// Returns whether an option of a command or of its parts has this variable.
fn is_known(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_env().is_some_and(|variable| variable.to_str() == Some(name)))
        || command.get_subcommands().any(|part| is_known(part, name))
}

/// Returns whether this variable is one of those that Kubernetes sets in every container to describe a
/// service: a service may have the tier's name.
fn is_service(name: &str, set: &[String]) -> bool {
    set.iter().filter_map(|other| other.strip_suffix("_SERVICE_HOST")).any(|service| {
        let rest = name.strip_prefix(service).unwrap_or_default();
        rest == "_PORT" || rest.starts_with("_PORT_") || rest.starts_with("_SERVICE_")
    })
}

/// Returns the option that clap would suggest for this name, which may also be spelled like a variable.
pub(crate) fn nearest<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let long = name.to_lowercase().replace('_', "-");
    let named = |long: &str| command.get_arguments().find(|arg| arg.get_long() == Some(long));
    named(&long).or_else(|| {
        let error =
            command.clone().try_get_matches_from(["posthaste".to_owned(), format!("--{long}")]).err()?;
        let ContextValue::String(meant) = error.get(ContextKind::SuggestedArg)? else { return None };
        named(meant.strip_prefix("--")?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{commands, program_of_flags};

    fn reported(set: &[&str]) -> Vec<(String, Option<String>)> {
        reported_for(&["queue"], set)
    }

    fn reported_for(path: &[&str], set: &[&str]) -> Vec<(String, Option<String>)> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        unknown_variables(&commands(), &owned(path), &owned(set))
    }

    #[test]
    fn variables_of_no_option_are_reported_with_the_nearest_that_is_one() {
        let known =
            ["POSTHASTE", "POSTHASTE_QUEUE_LISTEN", "POSTHASTE_QUEUE_CONFIG", "POSTHASTE_CACHE_LISSEN"];
        assert_eq!(reported(&known), []);
        let meant = |name: &str, meant: Option<&str>| (name.to_owned(), meant.map(str::to_owned));
        assert_eq!(
            reported(&["POSTHASTE_QUEUE_LISSEN", "POSTHASTE_QUEUE_MAX_MESSAGES", "POSTHASTE_QUEUE_XYZZY"]),
            [
                meant("POSTHASTE_QUEUE_LISSEN", Some("POSTHASTE_QUEUE_LISTEN")),
                meant("POSTHASTE_QUEUE_MAX_MESSAGES", Some("POSTHASTE_QUEUE_MAX_MESSAGE")),
                meant("POSTHASTE_QUEUE_XYZZY", None),
            ]
        );
    }

    #[test]
    fn so_are_those_of_commands_with_parts() {
        let meant = |name: &str, meant: Option<&str>| (name.to_owned(), meant.map(str::to_owned));
        let known =
            ["POSTHASTE_ADMIN_CONFIG", "POSTHASTE_ADMIN_TOP_EVERY", "POSTHASTE_ADMIN_ACCOUNT_ADD_FILE"];
        assert_eq!(reported_for(&["admin", "queues"], &known), [], "of this part, or of another");
        let connect = Some("POSTHASTE_ADMIN_QUEUES_CONNECT");
        assert_eq!(
            reported_for(
                &["admin", "queues"],
                &["POSTHASTE_ADMIN_CONNECT", "POSTHASTE_ADMIN_QUEUES_CONECT", "POSTHASTE_ADMIN_XYZZY"]
            ),
            [
                meant("POSTHASTE_ADMIN_CONNECT", connect),
                meant("POSTHASTE_ADMIN_QUEUES_CONECT", connect),
                meant("POSTHASTE_ADMIN_XYZZY", None),
            ]
        );
        assert_eq!(
            reported_for(&["migrate"], &["POSTHASTE_MIGRATE_STOR"]),
            [meant("POSTHASTE_MIGRATE_STOR", Some("POSTHASTE_MIGRATE_STORE"))]
        );
    }

    #[test]
    fn what_kubernetes_says_of_a_service_of_that_name_is_no_option_that_was_meant() {
        let of_service = [
            "POSTHASTE_QUEUE_SERVICE_HOST",
            "POSTHASTE_QUEUE_SERVICE_PORT_RESP",
            "POSTHASTE_QUEUE_PORT",
            "POSTHASTE_QUEUE_PORT_7411_TCP_ADDR",
        ];
        assert_eq!(reported(&of_service), []);
        assert_eq!(reported(&of_service[2..3]).len(), 1, "a person wrote it");
    }

    /// Returns whether the command that is asked for still has the variable of this option.
    fn has_variable(command: &Command, args: &[OsString], long: &str) -> bool {
        let requested = RequestedCommand::parse(command, args);
        let arg = requested.command(command).get_arguments().find(|arg| arg.get_long() == Some(long));
        arg.expect("an option").get_env().is_some()
    }

    #[test]
    fn a_variable_gives_way_to_an_option_that_excludes_it_under_whatever_name() {
        for (words, overruled, kept) in [
            ("bench queue --duration 1s", "requests", "clients"),
            ("bench --config file queue --duration 1s", "requests", "clients"),
            ("bench cache -s h -p 11211", "connect", "port"),
            ("bench cache --host h", "connect", "server"),
            ("bench cache -n5", "requests", "clients"),
        ] {
            let args: Vec<OsString> =
                ["posthaste"].into_iter().chain(words.split(' ')).map(OsString::from).collect();
            let command = without_overruled(commands(), &program_of_flags(), &args);
            assert!(!has_variable(&command, &args, overruled), "{words}");
            assert!(has_variable(&command, &args, kept), "{words}");
            assert!(has_variable(&commands(), &args, overruled));
        }
    }

    #[test]
    fn an_error_is_about_an_option_by_its_whole_name_or_a_value_that_is_no_accident() {
        assert!(mentions("invalid value 'x' for '--tls-cert <FILE>'", "tls-cert"));
        assert!(mentions("--tls-cert needs its --tls-key", "tls-key"));
        assert!(!mentions("--record-requests", "record"));
        assert!(repeats("0.0.0.0:7411 can be reached", "127.0.0.1:7411,0.0.0.0:7411"));
        assert!(!repeats("at least 1", "1"));
    }
}
