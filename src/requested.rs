//! The command that a command line asks for, known before its options are read.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, Command, Id};

/// The command that is asked for, and the options that the command line itself gives it.
pub(crate) struct RequestedCommand {
    /// Its name, and those of the parts that lead to it.
    pub(crate) path: Vec<String>,
    given: Vec<Id>,
}

impl RequestedCommand {
    /// Has clap parse the command line, as it can tell an option's name from a value. Errors do not matter
    /// here: they are reported when the command line is parsed again.
    pub(crate) fn parse(program: &Command, args: &[OsString]) -> Self {
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
    pub(crate) fn command<'a>(&self, program: &'a Command) -> &'a Command {
        self.path.iter().try_fold(program, |command, word| command.find_subcommand(word)).unwrap_or(program)
    }

    /// Returns whether the command line gives this option.
    pub(crate) fn gives(&self, arg: &Arg) -> bool {
        self.given.contains(arg.get_id())
    }
}
