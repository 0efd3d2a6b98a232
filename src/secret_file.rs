//! The secret that the command line logs in with. It stands in a file, because everybody on the machine can read arguments.

use std::fs;
use std::path::Path;

/// The first line of a file, as `admin account add` reads one too.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn secret_in(path: &Path) -> Result<String, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
