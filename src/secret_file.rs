//! The secret that the command line logs in with. It stands in a file, because everybody on the machine can read arguments.

use std::fs;
use std::path::Path;

/// What to do where a tier wants to know who asks: it speaks of requests and headers, which nobody writes here.
pub(crate) const WHO: &str = "name an account with --user, and the file with its secret with --secret-file";

/// The first line of a file, as `admin account add` reads one too.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn secret_in(path: &Path) -> Result<String, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
