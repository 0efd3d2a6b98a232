//! Generates texts from the tables of options and metrics: pages of the reference, manual pages, shell
//! completions, a configuration file. None of it is written by hand, so none of it can be out of date.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use clap_mangen::Man;
use posthaste_server::cache::placement::Hash;
use posthaste_server::cache::rules::{Multiget, Reads, Writes};
use posthaste_server::metrics;
use posthaste_server::queue::postgres::strategy::{Backoff, PopStrategy};
use posthaste_wire::command::Kind;

use crate::config::{Misuse, commands};
use crate::flags::{CompletionsFlags, ManFlags, ReferenceFlags, Topic};
use crate::precedence::change_at;
use crate::stdout::say;

type Done = Result<(), Box<dyn Error>>;

/// Commands whose options may stand in a file.
pub(crate) const WITH_FILE: [&str; 2] = ["queue", "cache"];
/// Options that make no sense in a file.
pub(crate) const NOT_IN_FILE: [&str; 6] = ["config", "check", "import", "pool", "help", "version"];
/// Stands behind an option without a default.
const NO_DEFAULT: &str = "# no default";
/// Stands behind an option whose default depends on something else: its help says on what, in brackets.
const SEE_ABOVE: &str = "# default: see above";
const IN_BRACKETS: &str = "[default:";

/// Runs `posthaste completions`.
pub(crate) fn completions(flags: &CompletionsFlags) -> Done {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut for_shells(commands()), "posthaste", &mut text);
    say(&String::from_utf8(text)?)
}

/// Prepares the commands for completion: rules get their words, and files are offered only where one is
/// wanted. Without that, shells offer files for every value that they know nothing about.
fn for_shells(program: Command) -> Command {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let strategies: Vec<String> = PopStrategy::ALL.iter().map(ToString::to_string).collect();
    let backoffs: Vec<String> = Backoff::ALL.iter().map(ToString::to_string).collect();
    let words: [(&[&str], &str, Vec<String>); 9] = [
        (&["cache"], "hash", owned(&Hash::words())),
        (&["cache"], "writes", owned(Writes::WORDS)),
        (&["cache"], "reads", owned(Reads::WORDS)),
        (&["cache"], "multiget", owned(Multiget::WORDS)),
        (&["queue"], "priority_line", owned(Kind::NAMES)),
        (&["queue"], "pop_strategy", strategies.clone()),
        (&["queue"], "pop_backoff", backoffs.clone()),
        (&["bench", "store"], "pop_strategy", strategies),
        (&["bench", "store"], "pop_backoff", backoffs),
    ];
    let program = words.into_iter().fold(program, |program, (path, option, words)| {
        let words = PossibleValuesParser::new(words);
        change_at(program, path, &|command| command.mut_arg(option, |arg| arg.value_parser(words.clone())))
    });
    without_files(program)
}

fn without_files(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        if !arg.get_action().takes_values() || arg.get_value_hint() != ValueHint::Unknown {
            return arg;
        }
        match name {
            // `open|FILE` too.
            name if name.ends_with("FILE") || name == "DIR" => arg,
            "on|off" => arg.value_parser(["on", "off"]),
            _ => arg.value_hint(ValueHint::Other),
        }
    });
    command.mut_subcommands(without_files)
}

/// Runs `posthaste man`.
pub(crate) fn man(flags: &ManFlags) -> Done {
    let mut program = for_pages(commands());
    program.build();
    if let Some(dir) = &flags.out {
        let written = std::fs::create_dir_all(dir).and_then(|()| write_manuals(&program, dir));
        return written
            .map_err(|error| format!("cannot write manual pages to {}: {error}", dir.display()).into());
    }
    let mut command = &program;
    for name in &flags.command {
        command = command.find_subcommand(name).ok_or_else(|| {
            Misuse(format!("posthaste has no command {}; see posthaste --help", flags.command.join(" ")))
        })?;
    }
    say(&manual(command)?)
}

/// Writes the manual pages of a command and of its parts.
fn write_manuals(command: &Command, dir: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    std::fs::write(dir.join(format!("{name}.1")), manual(command)?)?;
    command.get_subcommands().try_for_each(|part| write_manuals(part, dir))
}

/// Returns a command's manual page. Its examples stand as they are: neither broken, nor stretched, nor hyphenated.
fn manual(command: &Command) -> io::Result<String> {
    let mut text = Vec::new();
    let source = concat!("posthaste ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).render(&mut text)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    let with_examples =
        |text: String, head: &str| text.replace(&format!("\n.SH EXTRA\n{head}\n"), "\n.SH EXAMPLES\n.nf\n");
    Ok(["Example:", "Examples:"].into_iter().fold(text, with_examples))
}

/// Prepares the commands for manual pages: with their environment variables, and without a `help` command
/// that says the same.
fn for_pages(command: Command) -> Command {
    let command = command.disable_help_subcommand(true).mut_args(|arg| arg.hide_env(false));
    command.mut_subcommands(for_pages)
}

/// Runs `posthaste reference`.
pub(crate) fn run(flags: &ReferenceFlags) -> Done {
    let text = match flags.topic {
        Topic::Options => options(),
        Topic::Metrics => metrics::reference::page(),
        Topic::Config => file(&commands()),
    };
    say(&text)
}

/// Returns every option of every command as a page of the reference.
fn options() -> String {
    let mut text = String::from(
        "# Options\n\nEvery option of every command, as `--help` shows them. Written by `make reference` from the \
         table in the program\n(`src/flags/` and the load generators'); where options may stand is told in \
         [configuration](configuration.md).\n",
    );
    let mut program = commands();
    program.build();
    section(&program, "posthaste", &mut text);
    text
}

fn section(command: &Command, path: &str, text: &mut String) {
    let is_part = path.matches(' ').count() > 1;
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| is_documented(arg) && !(is_part && arg.is_global_set()))
        .collect();
    if !arguments.is_empty() {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "\n## {path}\n\n{about}.\n\n| option | default | environment | means |\n| --- | --- | --- | --- |\n"
        );
        for arg in arguments {
            let environment = arg.get_env().map(|name| format!("`{}`", name.to_string_lossy()));
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                escape_bars(&usage(arg)),
                defaults(arg).map(|value| format!("`{value}`")).unwrap_or_default(),
                environment.unwrap_or_default(),
                escape_bars(&help(arg)),
            );
        }
    }
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        section(sub, &format!("{path} {}", sub.get_name()), text);
    }
}

fn is_documented(arg: &Arg) -> bool {
    !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version")
}

/// Escapes bars, which would end a cell of a table.
fn escape_bars(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns `--option VALUE`, `-o VALUE` if the option has no long name, or `VALUE` for a positional argument.
fn usage(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let name = arg.get_long().map(|long| format!("--{long}"));
    match name.or_else(|| arg.get_short().map(|short| format!("-{short}"))) {
        None => values,
        Some(name) if arg.get_action().takes_values() => format!("{name} {values}"),
        Some(name) => name,
    }
}

/// Returns the default as it would be written, if there is one.
fn defaults(arg: &Arg) -> Option<String> {
    let values: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let has_default = arg.get_action().takes_values() && !values.is_empty();
    has_default.then(|| values.join(" "))
}

fn help(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let words: Vec<String> =
        arg.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect();
    if arg.get_action().takes_values() && !words.is_empty() {
        let _ = write!(text, "; one of {}", words.join(", "));
    }
    text.replace('\n', " ")
}

/// Returns a configuration file with every option and its default, as comments.
fn file(program: &Command) -> String {
    let mut text = String::from(
        "# Every option of `posthaste queue` and `posthaste cache` that may stand in a file, with its default. Take the `#` \
         away\n# before what is to be different, and name the file: posthaste queue --config FILE.\n",
    );
    for name in WITH_FILE {
        let Some(command) = program.find_subcommand(name) else { continue };
        let _ = write!(text, "\n[{name}]\n");
        for arg in command.get_arguments().filter(|arg| is_documented(arg)) {
            let Some(long) = arg.get_long().filter(|long| !NOT_IN_FILE.contains(long)) else { continue };
            let help = help(arg);
            for line in wrapped(&help) {
                let _ = writeln!(text, "# {line}");
            }
            let _ = match as_toml(arg) {
                Some(value) => writeln!(text, "#{long} = {value}\n"),
                // No fixed value would be the default.
                None if help.contains(IN_BRACKETS) => writeln!(text, "#{long} = {SEE_ABOVE}\n"),
                None => {
                    let value = arg.get_value_names().unwrap_or_default().join(" ");
                    writeln!(text, "#{long} = \"{value}\" {NO_DEFAULT}\n")
                }
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Returns an option's default as TOML.
fn as_toml(arg: &Arg) -> Option<String> {
    if !arg.get_action().takes_values() {
        return Some("false".into());
    }
    let plain = |value: &str| match value.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("{value:?}"),
    };
    let values: Vec<String> =
        arg.get_default_values().iter().map(|value| plain(&value.to_string_lossy())).collect();
    match (values.as_slice(), arg.get_action()) {
        ([], _) => None,
        (values, ArgAction::Append) => Some(format!("[{}]", values.join(", "))),
        ([value, ..], _) => Some(value.clone()),
    }
}

/// Wraps a text into lines that can be read without scrolling.
fn wrapped(text: &str) -> Vec<String> {
    const CHARACTERS_MAX: usize = 110;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < CHARACTERS_MAX => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use clap::ArgMatches;

    use super::*;
    use crate::config::with_table;

    /// Returns the options of a command with this file.
    fn matches(command: &str, file: &str) -> ArgMatches {
        let table = crate::placed::parse(file).expect("TOML");
        let program = with_table(commands(), table.get_ref(), &[]).expect("options that there are");
        let matches = program.try_get_matches_from(["posthaste", command]).expect("values that may be");
        matches.subcommand().map(|(_, matches)| matches.clone()).expect("a command")
    }

    /// Removes the `#` from the lines of options, with or without those whose value a reader has to write.
    fn uncommented(all: bool) -> String {
        let file = file(&commands());
        let is_option = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        let lines = file.lines().filter(|line| !line.starts_with("# "));
        let to_write = |line: &&str| line.ends_with(NO_DEFAULT) || line.ends_with(SEE_ABOVE);
        let chosen = lines.filter(|line| all || !(is_option(line) && to_write(line)));
        let written = |line: &str| line.replace(SEE_ABOVE, "\"written\"");
        chosen.map(|line| written(line.trim_start_matches('#')) + "\n").collect()
    }

    #[test]
    fn the_file_holds_the_defaults() {
        for command in WITH_FILE {
            let (plain, filed) = (matches(command, ""), matches(command, &uncommented(false)));
            for id in plain.ids() {
                let raw = |matches: &ArgMatches| {
                    let values = matches.get_raw(id.as_str()).into_iter().flatten();
                    values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>()
                };
                assert_eq!(raw(&plain), raw(&filed), "{command} {id}");
            }
        }
    }

    #[test]
    fn every_option_stands_in_the_file() {
        let table: toml::Table = uncommented(true).parse().expect("TOML");
        for command in WITH_FILE {
            let program = commands();
            let options = program.find_subcommand(command).expect("a command").get_arguments();
            for long in options.filter_map(Arg::get_long).filter(|long| !NOT_IN_FILE.contains(long)) {
                assert!(table[command].get(long).is_some(), "{command} {long}");
            }
        }
    }

    #[test]
    fn a_default_that_depends_is_not_said_to_be_none() {
        let file = file(&commands());
        for option in ["threads", "workers", "batch", "request-timeout"] {
            assert!(file.contains(&format!("\n#{option} = {SEE_ABOVE}\n")), "{option} in {file}");
        }
        assert!(file.contains(&format!("\n#tls-cert = \"FILE\" {NO_DEFAULT}\n")), "{file}");
        let is_told_wrong = |option: &str| option.contains(IN_BRACKETS) && option.ends_with(NO_DEFAULT);
        assert!(!file.split("\n\n").any(is_told_wrong), "{file}");
    }

    #[test]
    fn text_is_cut_between_words() {
        let text = "word ".repeat(50);
        let lines = wrapped(text.trim());
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() < 110), "{lines:?}");
        assert_eq!(lines.join(" "), text.trim());
    }
}
