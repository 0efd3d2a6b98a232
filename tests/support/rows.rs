//! Figures that a long campaign leaves: rows of tables, in the file that `ROWS` names.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

/// Says a row, and writes it down where that is wanted.
pub(crate) fn leave(row: &str) {
    println!("{row}");
    if let Some(path) = env::var_os("ROWS") {
        let table = OpenOptions::new().create(true).append(true).open(&path);
        table.and_then(|mut table| writeln!(table, "{row}")).expect("ROWS can be written to");
    }
}

/// A number in the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// What was built and how: the commit as git names it.
pub(crate) fn commit() -> String {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let git = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let said = git.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let commit = said.map_or_else(|| "unknown".into(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
    format!("{} {build}", commit.trim())
}
