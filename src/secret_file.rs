//! The secret that the command line logs in with. It is read from a file, because every user of the machine
//! can read arguments.

use std::fs;
use std::path::Path;

/// Advice if a tier requires an account; the tier's own words are about requests and headers, which users of
/// the command line do not write.
pub(crate) const WHO: &str = "name an account with --user, and the file with its secret with --secret-file";

/// Returns the first line of a file; `admin account add` also reads only one line.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn secret_in(path: &Path) -> Result<String, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
