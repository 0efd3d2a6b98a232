//! What the load generator says beside its reports.

use std::fmt::Display;
use std::io::{Write as _, stderr};

/// Writes a line to stderr. An error is ignored, as there is no other place to report it.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}
