//! Answers to COMMAND, COMMAND COUNT, LIST, INFO and DOCS.
//!
//! One table documents all commands. Both answers about a command come from it: the terse one that client
//! libraries read (arity, flags, places of the keys) and the one from which redis-cli makes its hints and
//! `help`. A queue's name counts as the key where it has a fixed place. The shapes are those of Redis 7.

mod connection;
mod entry;
mod queue;
mod syntax;

use crate::encode::Encoder;
use entry::{Argument, Entry, Type};

/// The version that introduced a command; so far the same for all.
const SINCE: &str = "0.1.0";

/// Answers `COMMAND`.
pub fn all(answer: &mut Encoder<'_>) {
    answer.array(commands().count());
    commands().for_each(|entry| write_info(answer, entry));
}

/// Answers `COMMAND COUNT`.
pub fn count(answer: &mut Encoder<'_>) {
    answer.integer(commands().count().cast_signed() as i64);
}

/// Answers `COMMAND LIST`.
pub fn list(answer: &mut Encoder<'_>) {
    answer.array(commands().count());
    commands().for_each(|entry| answer.bulk(entry.name.as_bytes()));
}

/// Answers `COMMAND INFO`: null for each name that is unknown or was named before; without names, all commands.
pub fn info(answer: &mut Encoder<'_>, names: &[&[u8]]) {
    if names.is_empty() {
        return all(answer);
    }
    answer.array(names.len());
    let mut told: Vec<&Entry> = Vec::new();
    for name in names {
        match find(name) {
            // A peer may name the same command thousands of times.
            Some(entry) if !told.iter().any(|other| std::ptr::eq(*other, entry)) => {
                told.push(entry);
                write_info(answer, entry);
            }
            _ => answer.null_array(),
        }
    }
}

/// Answers `COMMAND DOCS`: leaves out names that are unknown; without names, all commands.
pub fn docs(answer: &mut Encoder<'_>, names: &[&[u8]]) {
    let mut found: Vec<&Entry> = Vec::new();
    for entry in names.iter().filter_map(|name| find(name)) {
        // A peer may name the same command thousands of times; a map has each key once.
        if !found.iter().any(|other| std::ptr::eq(*other, entry)) {
            found.push(entry);
        }
    }
    if names.is_empty() {
        found.extend(commands());
    }
    write_docs(answer, found.len(), found.into_iter());
}

/// Returns the arity of a command, or of a subcommand named `command|subcommand`.
#[must_use]
pub fn arity(name: &str) -> Option<i32> {
    find(name.as_bytes()).map(|entry| entry.arity)
}

/// Returns the syntax of a command, or of a subcommand named `command|subcommand`.
#[must_use]
pub fn syntax(name: &str) -> Option<String> {
    find(name.as_bytes()).map(syntax::of)
}

/// Returns the names of all commands and subcommands.
pub fn names() -> impl Iterator<Item = &'static str> {
    with_subcommands().map(|entry| entry.name)
}

fn commands() -> impl Iterator<Item = &'static Entry> {
    queue::COMMANDS.iter().chain(connection::COMMANDS)
}

fn with_subcommands() -> impl Iterator<Item = &'static Entry> {
    commands().flat_map(|entry| std::iter::once(entry).chain(entry.subcommands))
}

fn find(name: &[u8]) -> Option<&'static Entry> {
    with_subcommands().find(|entry| entry.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Writes the ten parts of a command: name, arity, flags, first key, last key, step, categories, tips, key
/// specifications, subcommands.
fn write_info(answer: &mut Encoder<'_>, entry: &Entry) {
    answer.array(10);
    answer.bulk(entry.name.as_bytes());
    answer.integer(i64::from(entry.arity));
    write_words(answer, entry.flags);
    let step = i64::from(entry.last_key != 0);
    answer.integer(step);
    answer.integer(entry.last_key);
    answer.integer(step);
    write_words(answer, &entry.categories());
    answer.set(0);
    write_key_specs(answer, entry);
    answer.set(entry.subcommands.len());
    entry.subcommands.iter().for_each(|entry| write_info(answer, entry));
}

fn write_words(answer: &mut Encoder<'_>, words: &[&str]) {
    answer.set(words.len());
    words.iter().for_each(|word| answer.simple(word));
}

fn write_key_specs(answer: &mut Encoder<'_>, entry: &Entry) {
    if entry.last_key == 0 {
        return answer.set(0);
    }
    answer.set(1);
    answer.map(3);
    answer.bulk(b"flags");
    write_words(answer, &[if entry.is_write() { "RW" } else { "RO" }]);
    write_key_search(answer, "begin_search", "index", &[("index", 1)]);
    // Counted from the first key.
    let last = if entry.last_key > 0 { entry.last_key - 1 } else { entry.last_key };
    write_key_search(answer, "find_keys", "range", &[("lastkey", last), ("keystep", 1), ("limit", 0)]);
}

fn write_key_search(answer: &mut Encoder<'_>, name: &str, kind: &str, spec: &[(&str, i64)]) {
    answer.bulk(name.as_bytes());
    answer.map(2);
    write_text(answer, "type", kind);
    answer.bulk(b"spec");
    answer.map(spec.len());
    for (name, value) in spec {
        answer.bulk(name.as_bytes());
        answer.integer(*value);
    }
}

fn write_docs(answer: &mut Encoder<'_>, len: usize, entries: impl Iterator<Item = &'static Entry>) {
    answer.map(len);
    for entry in entries {
        answer.bulk(entry.name.as_bytes());
        write_doc(answer, entry);
    }
}

fn write_doc(answer: &mut Encoder<'_>, entry: &'static Entry) {
    let has_arguments = !entry.arguments.is_empty();
    let has_subcommands = !entry.subcommands.is_empty();
    answer.map(3 + usize::from(has_arguments) + usize::from(has_subcommands));
    write_text(answer, "summary", entry.summary);
    write_text(answer, "since", SINCE);
    write_text(answer, "group", entry.group);
    if has_arguments {
        answer.bulk(b"arguments");
        write_arguments(answer, entry.arguments);
    }
    if has_subcommands {
        answer.bulk(b"subcommands");
        write_docs(answer, entry.subcommands.len(), entry.subcommands.iter());
    }
}

fn write_text(answer: &mut Encoder<'_>, name: &str, text: &str) {
    answer.bulk(name.as_bytes());
    answer.bulk(text.as_bytes());
}

fn write_arguments(answer: &mut Encoder<'_>, arguments: &[Argument]) {
    answer.array(arguments.len());
    for argument in arguments {
        write_argument(answer, argument);
    }
}

fn write_argument(answer: &mut Encoder<'_>, argument: &Argument) {
    let is_key = argument.kind == Type::Key;
    let flags = argument.flags();
    let pairs = [is_key, argument.token.is_some(), !flags.is_empty(), !argument.parts.is_empty()];
    answer.map(3 + pairs.into_iter().filter(|&given| given).count());
    write_text(answer, "name", argument.name);
    write_text(answer, "type", argument.kind.name());
    write_text(answer, "display_text", argument.name);
    if is_key {
        answer.bulk(b"key_spec_index");
        answer.integer(0);
    }
    if let Some(token) = argument.token {
        write_text(answer, "token", token);
    }
    if !flags.is_empty() {
        answer.bulk(b"flags");
        write_words(answer, &flags);
    }
    if !argument.parts.is_empty() {
        answer.bulk(b"arguments");
        write_arguments(answer, argument.parts);
    }
}
