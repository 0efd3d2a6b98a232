//! The password for a URL that has none: from `PGPASSWORD`, else from the password file, as libpq does. An empty
//! variable counts as absent, as it does there.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::address::Host;

/// The connection that lines of the password file are compared with.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    host: &'a str,
    port: u16,
    database: &'a str,
    user: &'a str,
}

/// Finds the password. Called at every connect, so a changed password needs no restart.
///
/// # Errors
/// Why the password file is not used.
pub(super) fn find(
    server: &Host,
    database: Option<&str>,
    user: Option<&str>,
) -> Result<Option<String>, String> {
    if let Some(password) = said(env::var_os("PGPASSWORD")).and_then(|password| password.into_string().ok()) {
        return Ok(Some(password));
    }
    // The user that the library takes by default, which need not be the one that the environment names.
    let me = if user.is_none() { whoami::username().unwrap_or_default() } else { String::new() };
    let user = user.unwrap_or(&me);
    let host = if server.is_unix() { "localhost" } else { &server.name };
    let wanted = Wanted { host, port: server.port, database: database.unwrap_or(user), user };
    let text = path().map_or(Ok(None), |path| read(&path))?;
    Ok(text.and_then(|text| in_lines(&text, wanted)))
}

fn path() -> Option<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".pgpass"));
    said(env::var_os("PGPASSFILE")).map(PathBuf::from).or_else(home)
}

/// Returns a variable's value, unless it is empty.
fn said(variable: Option<OsString>) -> Option<OsString> {
    variable.filter(|value| !value.is_empty())
}

/// Returns the file's text, unless others can read the file: then it is no secret, and libpq does not use it either.
fn read(path: &Path) -> Result<Option<String>, String> {
    let Ok(about) = fs::metadata(path) else { return Ok(None) };
    if about.permissions().mode() & 0o077 != 0 {
        return Err(format!("{} is not used, for others may read it: chmod 0600 it", path.display()));
    }
    let text = fs::read_to_string(path);
    text.map(Some).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Returns the password of the first line `host:port:database:user:password` that fits; `*` fits everything.
fn in_lines(text: &str, wanted: Wanted<'_>) -> Option<String> {
    let port = wanted.port.to_string();
    let wanted = [wanted.host, &port, wanted.database, wanted.user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line);
        let password = (fields.len() == 5).then(|| fields.pop()).flatten()?;
        let fits = fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fits.then_some(password)
    })
}

/// Splits a line at its colons; a backslash makes the next character an ordinary one.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let escaped = if letter == '\\' { letters.next() } else { None };
        match fields.last_mut() {
            Some(field) if letter != ':' => field.push(escaped.unwrap_or(letter)),
            _ => fields.push(String::new()),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::{Wanted, in_lines, said};

    #[test]
    fn an_empty_variable_is_as_none() {
        assert_eq!(said(Some("sesame".into())), Some("sesame".into()));
        assert_eq!(said(Some("".into())), None);
        assert_eq!(said(None), None);
    }

    #[test]
    fn the_first_line_that_fits_has_it() {
        let text = "# host:port:database:user:password\nnonsense\ndb:5432:main:app:one\n*:5433:*:app:t\\:w\\\\o\n*:*:*:*:three\n";
        for (host, port, user, password) in
            [("db", 5432, "app", "one"), ("db", 5433, "app", "t:w\\o"), ("db", 5432, "other", "three")]
        {
            let wanted = Wanted { host, port, database: "main", user };
            assert_eq!(in_lines(text, wanted).as_deref(), Some(password));
        }
        let wanted = Wanted { host: "x", port: 1, database: "main", user: "app" };
        assert_eq!(in_lines("db:5432:main:app:one", wanted), None);
    }
}
