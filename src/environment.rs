//! Options in the environment: the variable of each, whose value an error is about, and variables that were meant for an
//! option and are none. These last are told and no error: what else is in an environment is not ours to judge.

use std::env;
use std::ffi::OsString;

use clap::builder::{BoolishValueParser, OsStr, Resettable};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};

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
    let variables = asked(program, args).get_arguments().filter_map(|arg| {
        let (long, variable) = (arg.get_long()?, arg.get_env()?);
        let value = env::var_os(variable)?;
        let is_meant = names(error, long) || repeats(error, &value.to_string_lossy());
        (is_meant && !is_given(args, long)).then(|| variable.to_string_lossy().into_owned())
    });
    let variables: Vec<String> = variables.collect();
    if variables.is_empty() { String::new() } else { format!("{}: ", variables.join(", ")) }
}

/// Takes the variables from options that those on the command line exclude: what is written there goes first.
pub(crate) fn without_overruled(program: Command, args: &[OsString]) -> Command {
    let path = words_of_commands(&program, args);
    at(program, &path, &|command| {
        let excludes = |one: &Arg, other: &Arg| {
            command.get_arg_conflicts_with(one).iter().any(|excluded| excluded.get_id() == other.get_id())
        };
        let (said, unsaid): (Vec<&Arg>, Vec<&Arg>) =
            command.get_arguments().partition(|arg| arg.get_long().is_some_and(|long| is_given(args, long)));
        let overruled = unsaid
            .into_iter()
            .filter(|arg| said.iter().any(|said| excludes(said, arg) || excludes(arg, said)))
            .map(|arg| arg.get_id().clone())
            .collect::<Vec<_>>();
        overruled.into_iter().fold(command.clone(), |command, id| {
            command.mut_arg(id, |arg| arg.env(Resettable::<OsStr>::Reset))
        })
    })
}

/// Changes the command at the end of this path of subcommands.
fn at(command: Command, path: &[String], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [first, rest @ ..] => command.mut_subcommand(first, |sub| at(sub, rest, change)),
    }
}

/// Whether the command line names this option.
fn is_given(args: &[OsString], long: &str) -> bool {
    let option = |arg: &OsString| Some(arg.to_str()?.strip_prefix("--")?.split('=').next()? == long);
    args.iter().any(|arg| option(arg) == Some(true))
}

/// The words that lead to the command that is asked for.
fn words_of_commands(program: &Command, args: &[OsString]) -> Vec<String> {
    let words = args.iter().skip(1).map_while(|arg| arg.to_str());
    let found = words.scan(program, |command, word| {
        *command = command.find_subcommand(word)?;
        Some(command.get_name().to_owned())
    });
    found.collect()
}

/// The command that is asked for.
fn asked<'a>(program: &'a Command, args: &[OsString]) -> &'a Command {
    let words = words_of_commands(program, args);
    words.iter().try_fold(program, |command, word| command.find_subcommand(word)).unwrap_or(program)
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

/// Warns of variables that begin as those of this command do and belong to no option of it.
pub(crate) fn warn_of_unknown(program: &Command, command: &str) {
    let Some(command) = program.find_subcommand(command) else { return };
    let set: Vec<String> = env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    for (name, meant) in unknown(command, &set) {
        let advice = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        tracing::warn!("{name} is no option of posthaste {} and does nothing{advice}", command.get_name());
    }
}

/// These variables, and what was probably meant.
fn unknown(command: &Command, set: &[String]) -> Vec<(String, Option<String>)> {
    let prefix = format!("{}_", variable(PREFIX, command.get_name()));
    let is_known = |name: &str| {
        command
            .get_arguments()
            .any(|arg| arg.get_env().is_some_and(|variable| variable.to_str() == Some(name)))
    };
    let strangers = set.iter().filter_map(|name| Some((name, name.strip_prefix(&prefix)?)));
    let strangers = strangers.filter(|(name, _)| !is_known(name) && !is_service(name, set));
    strangers.map(|(name, rest)| (name.clone(), nearest(command, rest))).collect()
}

/// Whether Kubernetes tells of a service by it, which it does in every container: one may be called as the tier is.
fn is_service(name: &str, set: &[String]) -> bool {
    set.iter().filter_map(|other| other.strip_suffix("_SERVICE_HOST")).any(|service| {
        let rest = name.strip_prefix(service).unwrap_or_default();
        rest == "_PORT" || rest.starts_with("_PORT_") || rest.starts_with("_SERVICE_")
    })
}

/// The variable of the option that is proposed to who mistypes one like this on the command line.
fn nearest(command: &Command, rest: &str) -> Option<String> {
    let option = format!("--{}", rest.to_lowercase().replace('_', "-"));
    let error = command.clone().try_get_matches_from(["posthaste".to_owned(), option]).err()?;
    let ContextValue::String(meant) = error.get(ContextKind::SuggestedArg)? else { return None };
    let arg = command.get_arguments().find(|arg| arg.get_long() == meant.strip_prefix("--"))?;
    Some(arg.get_env()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::commands;

    fn told(set: &[&str]) -> Vec<(String, Option<String>)> {
        let set: Vec<String> = set.iter().map(|name| (*name).to_owned()).collect();
        unknown(commands().find_subcommand("queue").expect("a command"), &set)
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

    #[test]
    fn a_variable_gives_way_to_an_option_that_excludes_it() {
        let args: Vec<OsString> =
            ["posthaste", "bench", "queue", "--duration", "1s"].iter().map(OsString::from).collect();
        let command = without_overruled(commands(), &args);
        let variable = |command: &Command, long: &str| {
            let bench = asked(command, &args).get_arguments().find(|arg| arg.get_long() == Some(long));
            bench.expect("an option").get_env().map(ToOwned::to_owned)
        };
        assert_eq!(variable(&command, "requests"), None, "--duration is written");
        let kept = Some(OsString::from("POSTHASTE_BENCH_QUEUE_CLIENTS"));
        assert_eq!(variable(&command, "clients"), kept);
        assert!(variable(&commands(), "requests").is_some());
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
