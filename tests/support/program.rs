//! The program, called from outside, and how it refuses.

use std::process::{Command, Output};

/// A call with these words.
pub(crate) fn program(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.args(words);
    command
}

/// What came of one.
pub(crate) fn run(words: &[&str]) -> Output {
    program(words).output().expect("the program runs")
}

/// The one line of an error, and the exit code.
pub(crate) fn refusal(output: &Output) -> (String, Option<i32>) {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 1, "{error}");
    (lines[0].to_owned(), output.status.code())
}
