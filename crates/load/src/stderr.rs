//! What is said beside reports, figures and answers.

use std::fmt::Display;
use std::io::{Write as _, stderr};

/// Writes a line to stderr. If that fails there is nobody to tell; the exit code says the rest.
pub fn complain(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}
