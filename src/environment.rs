//! Options in the environment: the variable of each option, which variables an error is about, and variables
//! that look like options and are none. The last are reported, but not as errors: what else is in an
//! environment is not ours to judge.

use std::env;
use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use crate::precedence::{change_at, is_off};
use crate::requested::RequestedCommand;

/// Prefix of every option's variable.
const PREFIX: &str = "POSTHASTE";
/// Values that turn off options which have others too, such as `--mock`.
const OFF: [&str; 3] = ["off", "false", "no"];

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

/// Returns a prefix for an error of clap: the variables that the options in question come from. It is empty if the
/// command line gave them.
pub(crate) fn origin_of_refusal(program: &Command, args: &[OsString], error: &clap::Error) -> String {
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return origin(program, args, |long, _| needs_it(program, args, long));
    }
    // Not those of its text, which names options that were not given, such as in the usage.
    let refused: Vec<&str> = [ContextKind::InvalidArg, ContextKind::PriorArg]
        .into_iter()
        .filter_map(|kind| error.get(kind))
        .flat_map(|value| match value {
            ContextValue::String(option) => vec![option.as_str()],
            ContextValue::Strings(options) => options.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        })
        .collect();
    origin(program, args, |long, _| refused.iter().any(|option| mentions(option, long)))
}

/// Returns whether nothing would be missing without the variable of this option.
fn needs_it(program: &Command, args: &[OsString], long: &str) -> bool {
    let path = RequestedCommand::parse(program, args).path;
    let without = change_at(program.clone(), &path, &|command| {
        command.mut_args(|arg| if arg.get_long() == Some(long) { arg.env(None::<&str>) } else { arg })
    });
    let tried = without.try_get_matches_from(args);
    !tried.is_err_and(|error| error.kind() == ErrorKind::MissingRequiredArgument)
}

/// Returns a prefix for the error of a command: the variables of the options that it names, or whose values it repeats.
/// It is empty if the command line gave them.
pub(crate) fn origin_of_failure(program: &Command, args: &[OsString], error: &str) -> String {
    origin(program, args, |long, value| mentions(error, long) || repeats(error, value))
}

/// Returns the variables in force whose option and value the error is about.
fn origin(program: &Command, args: &[OsString], is_about: impl Fn(&str, &str) -> bool) -> String {
    let requested = RequestedCommand::parse(program, args);
    let command = requested.command(program);
    let variables = command.get_arguments().filter_map(|arg| {
        let (long, variable) = (arg.get_long()?, arg.get_env()?);
        let value = env::var_os(variable)?;
        // What a variable turns off is named by errors as a way out.
        let turns_off = is_off(command, arg, &value) || OFF.iter().any(|off| value == *off);
        let is_meant = is_about(long, &value.to_string_lossy()) && !turns_off;
        (is_meant && !requested.gives(arg)).then(|| variable.to_string_lossy().into_owned())
    });
    let variables: Vec<String> = variables.collect();
    if variables.is_empty() { String::new() } else { format!("{}: ", variables.join(", ")) }
}

/// Returns whether an error is about this option, and not about one whose name only begins with it.
fn mentions(error: &str, long: &str) -> bool {
    let option = format!("--{long}");
    let ends = |(at, _): (usize, &str)| {
        !error[at + option.len()..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-')
    };
    error.match_indices(&option).any(ends)
}

/// Returns whether an error repeats one of these values: an address, a path, a file's name. Others, such as a level or a
/// name, may be words of any sentence.
fn repeats(error: &str, values: &str) -> bool {
    const LENGTH_MIN: usize = 5;
    let is_no_word = |value: &&str| value.len() >= LENGTH_MIN && value.contains(['.', ':', '/']);
    let stands_alone = |(at, value): (usize, &str)| {
        !error[..at].ends_with(char::is_alphanumeric)
            && !error[at + value.len()..].starts_with(char::is_alphanumeric)
    };
    values.split(',').filter(is_no_word).any(|value| error.match_indices(value).any(stands_alone))
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
    use crate::config::commands;

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

    #[test]
    fn an_error_is_about_an_option_by_its_whole_name_or_a_value_that_is_no_accident() {
        assert!(mentions("invalid value 'x' for '--tls-cert <FILE>'", "tls-cert"));
        assert!(mentions("--tls-cert needs its --tls-key", "tls-key"));
        assert!(!mentions("--record-requests", "record"));
        assert!(repeats("0.0.0.0:7411 can be reached", "127.0.0.1:7411,0.0.0.0:7411"));
        assert!(!repeats("cannot use /tmp/a.toml2", "/tmp/a.toml"));
        for word in ["1", "error", "posthaste"] {
            assert!(!repeats("error: at least 1; is `posthaste queue` running there?", word), "{word}");
        }
    }
}
