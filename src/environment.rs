//! Options in the environment: the variable of each, whose value an error is about, and variables that were meant for an
//! option and are none. These last are told and no error: what else is in an environment is not ours to judge.
//!
//! Here it is decided, too, which of two options that exclude each other is in force, for clap knows no order of places: it
//! refuses two of which one comes from a variable, and takes a value of the file for a default, which excludes nothing.

use std::cmp::Reverse;
use std::env;
use std::ffi::{OsStr, OsString};

use clap::builder::{BoolishValueParser, TypedValueParser as _};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, Id};

/// What every variable of an option begins with.
const PREFIX: &str = "POSTHASTE";

/// Gives every flag of every command its variable.
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
                // As people write it in environments: 1, yes, on.
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

/// What to put before an error that names options, or repeats their values: the variables that they come from. Empty where
/// the command line gave them.
pub(crate) fn origin(program: &Command, args: &[OsString], error: &str) -> String {
    let asked = Asked::by(program, args);
    let variables = asked.command(program).get_arguments().filter_map(|arg| {
        let (long, variable) = (arg.get_long()?, arg.get_env()?);
        let value = env::var_os(variable)?;
        let is_meant = names(error, long) || repeats(error, &value.to_string_lossy());
        (is_meant && !asked.gives(arg)).then(|| variable.to_string_lossy().into_owned())
    });
    let variables: Vec<String> = variables.collect();
    if variables.is_empty() { String::new() } else { format!("{}: ", variables.join(", ")) }
}

/// Where an option's value comes from. Later ones go before earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Nowhere,
    File,
    Environment,
    CommandLine,
}

/// Takes variable and value of the file from options that are excluded by one from a place that goes before. `bare` are the
/// commands without either.
pub(crate) fn without_overruled(program: Command, bare: &Command, args: &[OsString]) -> Command {
    let asked = Asked::by(&program, args);
    let bare = asked.command(bare);
    let bare_of = |arg: &Arg| bare.get_arguments().find(|bare| bare.get_id() == arg.get_id());
    at(program, &asked.path, &|command| {
        let place = |arg: &Arg| match arg.get_env().and_then(env::var_os) {
            _ if asked.gives(arg) => Place::CommandLine,
            // Nothing is excluded by what is off.
            Some(value) if is_off(&command, arg, &value) => Place::Nowhere,
            Some(_) => Place::Environment,
            None if bare_of(arg)
                .is_some_and(|bare| bare.get_default_values() != arg.get_default_values()) =>
            {
                Place::File
            }
            None => Place::Nowhere,
        };
        let mut placed: Vec<(Place, &Arg)> = command.get_arguments().map(|arg| (place(arg), arg)).collect();
        placed.sort_by_key(|(place, _)| Reverse(*place));
        // What is overruled itself overrules nothing, so those that go before are decided first.
        let (mut kept, mut overruled) = (Vec::<(Place, &Arg)>::new(), Vec::new());
        for (place, arg) in placed {
            let is_overruled =
                kept.iter().any(|(before, other)| *before > place && exclude(&command, arg, other));
            match bare_of(arg) {
                Some(bare) if is_overruled => overruled.push(bare.clone()),
                _ => kept.push((place, arg)),
            }
        }
        overruled
            .into_iter()
            .fold(command.clone(), |command, bare| command.mut_arg(bare.get_id().clone(), |_| bare))
    })
}

/// Whether a switch is put off by its variable.
fn is_off(command: &Command, arg: &Arg, value: &OsStr) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
        && BoolishValueParser::new().parse_ref(command, None, value).is_ok_and(|is_on| !is_on)
}

/// Whether only one of two options of a command can be given.
pub(crate) fn exclude(command: &Command, one: &Arg, other: &Arg) -> bool {
    let names = |one: &Arg, other: &Arg| {
        command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
    };
    names(one, other) || names(other, one)
}

/// Changes the command at the end of this path of subcommands.
fn at(command: Command, path: &[String], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [first, rest @ ..] => command.mut_subcommand(first, |sub| at(sub, rest, change)),
    }
}

/// The command that is asked for, and what the command line itself gives it.
struct Asked {
    path: Vec<String>,
    given: Vec<Id>,
}

impl Asked {
    /// Has clap tell, which knows every name of an option, and what is the value of one and no name. What is wrong does not
    /// matter here: it is told when the command line is read in earnest.
    fn by(program: &Command, args: &[OsString]) -> Self {
        let mut asked = Self { path: Vec::new(), given: Vec::new() };
        let Ok(matches) = program.clone().ignore_errors(true).try_get_matches_from(args) else {
            return asked;
        };
        let mut matches = &matches;
        while let Some((name, below)) = matches.subcommand() {
            asked.path.push(name.to_owned());
            matches = below;
        }
        let is_given = |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        asked.given = matches.ids().filter(is_given).cloned().collect();
        asked
    }

    /// The same command of these.
    fn command<'a>(&self, program: &'a Command) -> &'a Command {
        self.path.iter().try_fold(program, |command, word| command.find_subcommand(word)).unwrap_or(program)
    }

    /// Whether the command line gives this option.
    fn gives(&self, arg: &Arg) -> bool {
        self.given.contains(arg.get_id())
    }
}

/// Whether an error is about this option, and not about one whose name only begins so.
fn names(error: &str, long: &str) -> bool {
    let option = format!("--{long}");
    let ends = |(at, _): (usize, &str)| {
        !error[at + option.len()..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-')
    };
    error.match_indices(&option).any(ends)
}

/// Whether an error repeats one of these values. A short one may stand in any.
fn repeats(error: &str, values: &str) -> bool {
    const LENGTH_MIN: usize = 5;
    values.split(',').any(|value| value.len() >= LENGTH_MIN && error.contains(value))
}

/// What to tell of variables that begin as those of this command do and belong to no option of it or of its parts. `args` say
/// which part is asked for.
pub(crate) fn tell_unknown(program: &Command, args: &[OsString], tell: impl Fn(&str)) {
    let asked = Asked::by(program, args);
    let set: Vec<String> = env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    for (name, meant) in unknown(program, &asked.path, &set) {
        let advice = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        let command = asked.path.first().map_or("", String::as_str);
        tell(&format!("{name} is no option of posthaste {command} and does nothing{advice}"));
    }
}

/// These variables, and what was probably meant of the options of the command that `path` leads to.
fn unknown(program: &Command, path: &[String], set: &[String]) -> Vec<(String, Option<String>)> {
    let Some(command) = path.first().and_then(|name| program.find_subcommand(name)) else {
        return Vec::new();
    };
    let asked = path[1..].iter().try_fold(command, |command, word| command.find_subcommand(word));
    let asked = asked.unwrap_or(command);
    let prefixes = path.iter().scan(PREFIX.to_owned(), |prefix, name| {
        *prefix = variable(prefix, name);
        Some(format!("{prefix}_"))
    });
    let prefixes: Vec<String> = prefixes.collect();
    let variable_of = |arg: &Arg| Some(arg.get_env()?.to_string_lossy().into_owned());
    let strangers = set
        .iter()
        .filter(|name| name.starts_with(&prefixes[0]) && !is_known(command, name) && !is_service(name, set));
    strangers
        .map(|name| {
            let rest = prefixes.iter().rev().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
            (name.clone(), nearest(asked, rest).and_then(variable_of))
        })
        .collect()
}

/// Whether an option of a command or of its parts has this variable.
fn is_known(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_env().is_some_and(|variable| variable.to_str() == Some(name)))
        || command.get_subcommands().any(|part| is_known(part, name))
}

/// Whether Kubernetes tells of a service by it, which it does in every container: one may be called as the tier is.
fn is_service(name: &str, set: &[String]) -> bool {
    set.iter().filter_map(|other| other.strip_suffix("_SERVICE_HOST")).any(|service| {
        let rest = name.strip_prefix(service).unwrap_or_default();
        rest == "_PORT" || rest.starts_with("_PORT_") || rest.starts_with("_SERVICE_")
    })
}

/// The option that is proposed to who mistypes one like this on the command line, or writes it as variables are written.
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

    fn told(set: &[&str]) -> Vec<(String, Option<String>)> {
        told_of(&["queue"], set)
    }

    fn told_of(path: &[&str], set: &[&str]) -> Vec<(String, Option<String>)> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        unknown(&commands(), &owned(path), &owned(set))
    }

    #[test]
    fn variables_of_no_option_are_told_with_the_nearest_that_is_one() {
        let known =
            ["POSTHASTE", "POSTHASTE_QUEUE_LISTEN", "POSTHASTE_QUEUE_CONFIG", "POSTHASTE_CACHE_LISSEN"];
        assert_eq!(told(&known), []);
        let meant = |name: &str, meant: Option<&str>| (name.to_owned(), meant.map(str::to_owned));
        assert_eq!(
            told(&["POSTHASTE_QUEUE_LISSEN", "POSTHASTE_QUEUE_MAX_MESSAGES", "POSTHASTE_QUEUE_XYZZY"]),
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
        assert_eq!(told_of(&["admin", "queues"], &known), [], "of this part, or of another");
        let connect = Some("POSTHASTE_ADMIN_QUEUES_CONNECT");
        assert_eq!(
            told_of(
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
            told_of(&["migrate"], &["POSTHASTE_MIGRATE_STOR"]),
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
        assert_eq!(told(&of_service), []);
        assert_eq!(told(&of_service[2..3]).len(), 1, "a person wrote it");
    }

    /// Whether the command that is asked for still has the variable of this option.
    fn has_variable(command: &Command, args: &[OsString], long: &str) -> bool {
        let asked = Asked::by(command, args);
        let arg = asked.command(command).get_arguments().find(|arg| arg.get_long() == Some(long));
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
        assert!(names("invalid value 'x' for '--tls-cert <FILE>'", "tls-cert"));
        assert!(names("--tls-cert needs its --tls-key", "tls-key"));
        assert!(!names("--record-requests", "record"));
        assert!(repeats("0.0.0.0:7411 can be reached", "127.0.0.1:7411,0.0.0.0:7411"));
        assert!(!repeats("at least 1", "1"));
    }
}
