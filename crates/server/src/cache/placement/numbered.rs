//! mcrouter's const-shard: a key names its server itself, by a number between its first two colons; `users:3:name` is
//! on the fourth server. A key that names none is placed by ch3.

use super::furc;

pub(super) fn owner(key: &[u8], servers: usize) -> usize {
    number(key).filter(|number| *number < servers).unwrap_or_else(|| furc::owner(key, servers))
}

/// The number between the first two colons, if only digits stand there.
fn number(key: &[u8]) -> Option<usize> {
    let start = memchr::memchr(b':', key)? + 1;
    let behind = &key[start..];
    let digits = &behind[..memchr::memchr(b':', behind)?];
    // `parse` would accept a sign.
    let text =
        std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_names_a_server_is_on_it() {
        for (key, server) in [("u:3:x", 3), ("u:0:", 0), (":2:", 2), ("u:007:x:1:", 7)] {
            assert_eq!(owner(key.as_bytes(), 8), server, "{key}");
        }
    }

    #[test]
    fn a_key_that_names_none_goes_where_ch3_puts_it() {
        for key in ["u", "u:3", "u:8:x", "u::x", "u:+3:x", "u:a3:x", "u:99999999999999999999:x"] {
            assert_eq!(owner(key.as_bytes(), 8), furc::owner(key.as_bytes(), 8), "{key}");
        }
    }
}
