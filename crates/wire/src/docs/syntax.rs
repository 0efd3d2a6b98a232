//! The syntax of a command in one line, as an error shows it: `NACK id [DELAY milliseconds]`.

use super::entry::{Argument, Entry, Repeat, Type};

/// Returns the syntax of a whole command.
pub(super) fn of(entry: &Entry) -> String {
    let name = entry.name.replace('|', " ").to_ascii_uppercase();
    let below = (!entry.subcommands.is_empty()).then(|| "subcommand ...".to_owned());
    let words = std::iter::once(name).chain(below).chain(entry.arguments.iter().map(argument));
    words.collect::<Vec<_>>().join(" ")
}

fn argument(argument: &Argument) -> String {
    let value = match argument.kind {
        Type::Token => String::new(),
        Type::Block => all(argument.parts, " "),
        Type::OneOf => all(argument.parts, "|"),
        Type::Key | Type::String | Type::Integer => argument.name.to_owned(),
    };
    let word = [argument.token.unwrap_or_default(), &value].join(" ");
    let dots = if argument.repeat == Repeat::No { "" } else { " ..." };
    let once = format!("{}{dots}", word.trim());
    if argument.optional { format!("[{once}]") } else { once }
}

fn all(parts: &[Argument], between: &str) -> String {
    parts.iter().map(argument).collect::<Vec<_>>().join(between)
}
