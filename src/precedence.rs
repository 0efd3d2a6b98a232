//! Which options are in force where several places give them: the command line, the environment, the file.
//!
//! Clap does not rank where a value comes from: it refuses two options that exclude each other of which one comes
//! from a variable, treats a value of the file as a default, which excludes and fulfils nothing, and takes a switch
//! that a variable turns off for one that is given.

use std::cmp::Reverse;
use std::env;
use std::ffi::{OsStr, OsString};

use clap::builder::{BoolishValueParser, TypedValueParser as _};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use crate::requested::RequestedCommand;

/// Where an option's value comes from. Later ones take precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Nowhere,
    File,
    Environment,
    CommandLine,
}

/// Removes the variable and the file's value from options that are excluded by an option from a place of
/// higher precedence, and from switches that a variable turns off. `bare` are the commands without either.
pub(crate) fn without_overruled(program: Command, bare: &Command, args: &[OsString]) -> Command {
    let requested = RequestedCommand::parse(&program, args);
    let bare = requested.command(bare);
    let bare_of = |arg: &Arg| bare.get_arguments().find(|bare| bare.get_id() == arg.get_id());
    change_at(program, &requested.path, &|command| {
        let is_turned_off = |arg: &Arg| {
            let value = arg.get_env().and_then(env::var_os);
            !requested.gives(arg) && value.is_some_and(|value| is_off(&command, arg, &value))
        };
        let source = |arg: &Arg| match arg.get_env().and_then(env::var_os) {
            _ if requested.gives(arg) => Source::CommandLine,
            // A switch that is off excludes nothing.
            Some(_) if is_turned_off(arg) => Source::Nowhere,
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
                // Off is as if it stood nowhere: clap would take it for given, and have it need what it needs.
                Some(bare) if is_overruled || is_turned_off(arg) => overruled.push(bare.clone()),
                _ => kept.push((source, arg)),
            }
        }
        overruled
            .into_iter()
            .fold(command.clone(), |command, bare| command.mut_arg(bare.get_id().clone(), |_| bare))
    })
}

/// Returns the command line with what it lacks, according to clap's error, where the file gives all of that: clap does
/// not count a default as given to an option that needs another one. None: something is given nowhere.
pub(crate) fn needed_of_file(
    program: &Command,
    bare: &Command,
    args: &[OsString],
    error: &clap::Error,
) -> Option<Vec<OsString>> {
    let Some(ContextValue::Strings(lacking)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let requested = RequestedCommand::parse(program, args);
    let (command, bare) = (requested.command(program), requested.command(bare));
    let mut needed = Vec::new();
    for usage in lacking {
        let long = usage.strip_prefix("--")?.split([' ', '=']).next()?;
        let option = |command: &'_ Command| {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(long))?;
            Some(arg.get_default_values().to_vec())
        };
        let values = option(command).filter(|values| option(bare).as_ref() != Some(values))?;
        needed.extend(values.iter().map(|value| {
            let mut word = OsString::from(format!("--{long}="));
            word.push(value);
            word
        }));
    }
    let end = args.iter().position(|word| word == "--").unwrap_or(args.len());
    Some([&args[..end], &needed, &args[end..]].concat())
}

/// Returns whether a variable turns this switch off.
pub(crate) fn is_off(command: &Command, arg: &Arg, value: &OsStr) -> bool {
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
pub(crate) fn change_at<S: AsRef<str>>(
    command: Command,
    path: &[S],
    change: &dyn Fn(Command) -> Command,
) -> Command {
    match path {
        [] => change(command),
        [first, rest @ ..] => command.mut_subcommand(first, |sub| change_at(sub, rest, change)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{commands, program_of_flags};

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
}
