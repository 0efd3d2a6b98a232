//! What the program complains of.

use std::fmt::Display;
use std::io::{Write as _, stderr};

/// Says a line on stderr. Where stderr takes nothing there is nobody to tell; the exit code says the rest.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}
