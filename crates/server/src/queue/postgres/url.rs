//! Splits a PostgreSQL URL: `postgres://user:password@host:port,host:port/database?name=value&…`.
//!
//! This is not left to the library, whose errors may repeat pieces of what they did not understand: a password with an
//! unescaped `@`, `/` or `?` would then stand in a log. No error of this file repeats anything of the URL.

use std::net::Ipv6Addr;

/// The end of the error for what is no PostgreSQL URL.
const EXAMPLE: &str = "for example postgres://app@db.example:5432/posthaste";

/// Returns the URL's parts and parameters as names and values as in libpq, `host` and `port` as lists with commas.
///
/// # Errors
/// What is wrong with its form.
pub(super) fn pairs(url: &str) -> Result<Vec<(String, String)>, String> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let rest = rest.ok_or_else(|| format!("a PostgreSQL URL begins with postgres://, {EXAMPLE}"))?;
    let (credentials, rest) = rest.split_once('@').unwrap_or(("", rest));
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    if rest.contains('@') || user.contains(['/', '?']) || is_place(password) {
        return Err("in a PostgreSQL URL, write @ as %40 in user, password and parameters".into());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
    let (hosts, ports) = places(hosts)?;
    let mut pairs = Vec::new();
    let plain =
        [("user", user), ("password", password), ("host", &hosts), ("port", &ports), ("dbname", database)];
    for (name, value) in plain.into_iter().filter(|(_, value)| !value.is_empty()) {
        pairs.push((name.to_owned(), decode(value)?));
    }
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = pair(parameter)?;
        // As in libpq: the last value of a name counts, and an empty one as none.
        if value.is_empty() {
            pairs.retain(|(given, _)| *given != name);
        } else {
            pairs.push((name, value));
        }
    }
    Ok(pairs)
}

/// Returns whether what stands as a password is a port, a database and parameters, as in
/// `postgres://db:5432/x?user=app@tenant`: then it is one of these that holds the `@`.
#[must_use]
pub fn is_place(password: &str) -> bool {
    let Some((port, rest)) = password.split_once('/') else { return false };
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    is_port && rest.split_once('?').is_some_and(|(_, parameters)| parameters.contains('='))
}

/// Splits `a:1,[::1],b` into the lists `a,::1,b` and `1,,`; both are empty when no host is named.
fn places(text: &str) -> Result<(String, String), String> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for place in text.split(',') {
        let (host, port) = match place.strip_prefix('[') {
            Some(place) => {
                let (host, rest) = place.split_once(']').ok_or("the URL has a [ without ]")?;
                let address = host.split_once('%').map_or(host, |(address, _zone)| address);
                address
                    .parse::<Ipv6Addr>()
                    .map_err(|_| "the URL has a host in [ ] that is no IPv6 address")?;
                let port = rest.strip_prefix(':').or(rest.is_empty().then_some(""));
                (host, port.ok_or("the URL has more than :PORT behind a ]")?)
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        hosts.push(host);
        ports.push(port);
    }
    let ports = if ports.iter().all(|port| port.is_empty()) { String::new() } else { ports.join(",") };
    Ok((hosts.join(","), ports))
}

fn pair(parameter: &str) -> Result<(String, String), String> {
    let (name, value) = parameter.split_once('=').ok_or("a parameter of the URL has no value")?;
    let (name, value) = (decode(name)?, decode(value)?);
    // An unescaped & in it would make names of what follows, and names are repeated in errors.
    if name == "password" {
        return Err("write the password of a PostgreSQL URL before the @, or set PGPASSWORD".into());
    }
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return Err("a parameter of the URL has a name that no parameter has".into());
    }
    Ok((name, value))
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Result<String, String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { hex(bytes.next(), bytes.next())? } else { byte });
    }
    if decoded.contains(&0) {
        return Err("a PostgreSQL URL cannot hold %00".into());
    }
    String::from_utf8(decoded).map_err(|_| "the URL is not UTF-8 after decoding".into())
}

/// Percent-encodes all that means something in a URL, or cannot be seen.
pub(super) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let shown = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(shown).collect()
}

fn hex(high: Option<u8>, low: Option<u8>) -> Result<u8, String> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let byte = digit(high).zip(digit(low)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
    byte.ok_or_else(|| "in a PostgreSQL URL, write % as %25".into())
}

#[cfg(test)]
mod tests {
    use super::pairs;

    fn shown(url: &str) -> String {
        let pairs = pairs(url).expect("a good URL");
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_url_becomes_names_and_values() {
        for (url, words) in [
            (
                "postgres://app:se%20cr%25et@db:5433/main",
                "user=app password=se cr%et host=db port=5433 dbname=main",
            ),
            ("postgresql://a,b:2,[::1]:3/x", "host=a,b,::1 port=,2,3 dbname=x"),
            ("postgres:///x?host=/tmp&port=5433", "dbname=x host=/tmp port=5433"),
            ("postgres://u@%2Frun%2Fpg/x?sslmode=require", "user=u host=/run/pg dbname=x sslmode=require"),
            ("postgres://u:a/b?c:d@db", "user=u password=a/b?c:d host=db"),
            ("postgres://u:5432/x?y@db", "user=u password=5432/x?y host=db"),
            ("postgres://u@db/x?user=&sslmode=&application_name=y", "host=db dbname=x application_name=y"),
            ("postgres://[fe80::1%25eth0]:5433", "host=fe80::1%eth0 port=5433"),
        ] {
            assert_eq!(shown(url), words, "{url}");
        }
    }

    #[test]
    fn complaints_repeat_nothing_of_the_url() {
        for url in [
            "mysql://app:sesame@db",
            "postgres://app:ses@ame@db",
            "postgres://app:100%sesame@db",
            "postgres://app@db/x?password=sesame",
            "postgres://app@db/x?sesame",
            "postgres://app@db/x?ses.ame=1",
            "postgres://db/x?user=sesame@y",
            "postgres://db:5432/x?user=sesame@y",
            "postgres://[::1:sesame]:21",
            "postgres://[::1]sesame",
            "postgres://app:sesame%00@db",
        ] {
            let complaint = pairs(url).expect_err(url);
            assert!(!complaint.contains("ses") && !complaint.contains("ame="), "{complaint}");
            assert_eq!(complaint.lines().count(), 1, "{complaint}");
        }
    }
}
