//! Routes that rename: servers see a key without its prefix, or with another one; the client sees it as it wrote it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::memcached::{KEY_BYTES_MAX, LINE_BYTES_MAX, decode_base64};
use posthaste_wire::span::Span;

use super::pool::plain_key;

/// What a route changes of its keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renaming {
    /// The bytes taken off: the route's prefix, with which all its keys begin, or nothing.
    pub removed_prefix: Vec<u8>,
    /// The bytes put in their place.
    pub added_prefix: Vec<u8>,
}

impl Renaming {
    /// Returns whether servers see keys as clients write them.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.removed_prefix.is_empty() && self.added_prefix.is_empty()
    }

    /// The key that servers see for a client's key.
    #[must_use]
    pub fn server_key<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        let rest = &key[self.removed_prefix.len()..];
        if self.added_prefix.is_empty() { rest.into() } else { [&self.added_prefix, rest].concat().into() }
    }

    /// How many bytes longer a key is for servers than for clients.
    #[must_use]
    pub fn lengthens(&self) -> i64 {
        self.added_prefix.len() as i64 - self.removed_prefix.len() as i64
    }

    /// Returns whether a key of this length is a key for servers too: renamed, neither empty nor too long.
    #[must_use]
    pub fn allows(&self, key_bytes: usize) -> bool {
        key_bytes > self.removed_prefix.len()
            && key_bytes - self.removed_prefix.len() + self.added_prefix.len() <= KEY_BYTES_MAX
    }

    /// Returns whether servers know this key by that name.
    #[must_use]
    pub fn is_same(&self, key: &[u8], server_key: &[u8]) -> bool {
        server_key.strip_prefix(&self.added_prefix[..]) == key.get(self.removed_prefix.len()..)
    }

    /// Writes the request to `out` with the key that servers see. None: servers cannot have such a key; or the line
    /// grows so long that they would close the connection; or the key is not the base64 that it should be, so that
    /// its prefix is unknown.
    #[must_use]
    pub fn request(&self, request: &Request, input: &[u8], out: &mut Vec<u8>) -> Option<Request> {
        let (written, mut space) = (request.key.of(input), [0; KEY_BYTES_MAX]);
        let plain = if request.base64 { decode_base64(written, &mut space)? } else { written };
        let renamed =
            Some(plain).filter(|plain| self.allows(plain.len())).map(|plain| self.server_key(plain))?;
        let key = if request.base64 { STANDARD.encode(&renamed).into_bytes().into() } else { renamed };
        let line_bytes = request.line.len as usize - written.len() + key.len();
        if key.len() > KEY_BYTES_MAX || line_bytes >= LINE_BYTES_MAX {
            return None;
        }
        let Span { start, len } = request.key;
        let end = (start + len) as usize;
        out.clear();
        out.extend_from_slice(&input[..start as usize]);
        out.extend_from_slice(&key);
        out.extend_from_slice(&input[end..]);
        let new_len = key.len() as u32;
        let moved = |span: Span| Span { start: (span.start + new_len).saturating_sub(len), ..span };
        Some(Request {
            line: Span { len: request.line.len + new_len - len, ..request.line },
            key: Span { start, len: new_len },
            data: if request.data.len == 0 { request.data } else { moved(request.data) },
            noreply: request.noreply.map(moved),
            ..*request
        })
    }

    /// Puts the client's key into a meta reply where it repeats the key; `sent` has the request as servers see it.
    #[must_use]
    pub fn reply<'a>(&self, request: &Request, sent: &[u8], reply: &'a [u8]) -> Cow<'a, [u8]> {
        let end = reply.iter().position(|byte| *byte == b'\r').unwrap_or(reply.len());
        let (line, rest) = reply.split_at(end);
        let mut words = line.split(|byte| *byte == b' ');
        let mut restored = words.next().unwrap_or_default().to_vec();
        let mut is_key_next = request.verb == Verb::MetaDebug && restored == b"ME";
        // The server repeats a key in base64 if it was stored by one, and says so. But `me` does not say it: compare
        // with the key that was asked for.
        let base64 = match is_key_next {
            true => plain_key(request, sent, |key| words.clone().next().is_some_and(|word| word != key)),
            false => words.clone().any(|word| word == b"b"),
        };
        for word in words {
            restored.push(b' ');
            match word {
                word if std::mem::take(&mut is_key_next) => restored.extend(self.client_key(base64, word)),
                [b'k', word @ ..] => {
                    restored.push(b'k');
                    restored.extend(self.client_key(base64, word));
                }
                word => restored.extend_from_slice(word),
            }
        }
        if restored == line {
            return Cow::Borrowed(reply);
        }
        restored.extend_from_slice(rest);
        Cow::Owned(restored)
    }

    /// Writes a server's `VALUE` reply to `out`, with the client's key.
    pub fn value(&self, value: &[u8], out: &mut Vec<u8>) {
        const WORD: &[u8] = b"VALUE ";
        let rest = value.get(WORD.len() + self.added_prefix.len()..).unwrap_or_default();
        out.clear();
        [WORD, &self.removed_prefix, rest].iter().for_each(|part| out.extend_from_slice(part));
    }

    /// The client's key for one that a server wrote, in the encoding in which it came.
    fn client_key(&self, base64: bool, key: &[u8]) -> Vec<u8> {
        let whole = |key: &[u8]| {
            [&self.removed_prefix, key.strip_prefix(&self.added_prefix[..]).unwrap_or(key)].concat()
        };
        match base64.then(|| STANDARD.decode(key)) {
            Some(Ok(plain)) => STANDARD.encode(whole(&plain)).into_bytes(),
            _ => whole(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;

    const LIMITS: Limits = Limits { value_bytes: 100, line_bytes: 3000 };

    fn request(text: &str) -> Request {
        let Decoded::Request(request, _) = decode(text.as_bytes(), &LIMITS) else { panic!("{text}") };
        request
    }

    fn renaming(removed: &str, added: &str) -> Renaming {
        Renaming { removed_prefix: removed.into(), added_prefix: added.into() }
    }

    /// The renamed request, which must be what decoding the renamed text gives.
    fn renamed(renaming: &Renaming, text: &str) -> Option<String> {
        let mut out = Vec::new();
        let other = renaming.request(&request(text), text.as_bytes(), &mut out)?;
        let out = String::from_utf8(out).unwrap();
        assert_eq!(other, request(&out), "{text}");
        Some(out)
    }

    /// A reply to this request as its client sees it.
    fn restored(renaming: &Renaming, text: &str, reply: &str) -> String {
        let mut sent = Vec::new();
        let renamed = renaming.request(&request(text), text.as_bytes(), &mut sent).expect(text);
        String::from_utf8(renaming.reply(&renamed, &sent, reply.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn a_renamed_request_is_the_request_for_the_other_key() {
        for (whole, shorter) in [
            ("set user:7 0 0 2 noreply\r\nhi\r\n", "set 7 0 0 2 noreply\r\nhi\r\n"),
            ("delete user:7\r\n", "delete 7\r\n"),
            ("incr user:7 5 noreply\r\n", "incr 7 5 noreply\r\n"),
            ("mg user:7 v k q\r\n", "mg 7 v k q\r\n"),
            ("ms dXNlcjpmb28= 2 b T3\r\nhi\r\n", "ms Zm9v 2 b T3\r\nhi\r\n"),
        ] {
            assert_eq!(renamed(&renaming("user:", ""), whole).as_deref(), Some(shorter));
            // And back.
            assert_eq!(renamed(&renaming("", "user:"), shorter).as_deref(), Some(whole));
        }
        let (strips, adds) = (renaming("user:", ""), renaming("", "user:"));
        assert_eq!(renamed(&strips, "delete user:\r\n"), None);
        assert_eq!(
            renamed(&strips, "ms user:! 2 b\r\nhi\r\n"),
            None,
            "no base64, though it begins as it should"
        );
        let long = |bytes: usize| format!("delete {}\r\n", "k".repeat(bytes));
        assert!(renamed(&adds, &long(KEY_BYTES_MAX - 5)).is_some());
        assert_eq!(renamed(&adds, &long(KEY_BYTES_MAX - 4)), None, "servers take no longer keys");
        let filled = |bytes: usize| format!("mg k{:1$}v\r\n", "", bytes - "mg kv".len());
        assert!(renamed(&adds, &filled(LINE_BYTES_MAX - 6)).is_some());
        assert_eq!(renamed(&adds, &filled(LINE_BYTES_MAX - 5)), None, "servers take no longer lines");
        let swapped = renamed(&renaming("user:", "app1:u:"), "set user:7 0 0 2 noreply\r\nhi\r\n");
        assert_eq!(swapped.as_deref(), Some("set app1:u:7 0 0 2 noreply\r\nhi\r\n"));
    }

    #[test]
    fn a_server_key_is_known_again() {
        for (taken, added, key, server_key) in [
            ("", "", "a", "a"),
            ("user:", "", "user:7", "7"),
            ("", "x:", "7", "x:7"),
            ("u:", "x:", "u:7", "x:7"),
        ] {
            let renaming = renaming(taken, added);
            assert_eq!(*renaming.server_key(key.as_bytes()), *server_key.as_bytes());
            assert!(renaming.is_same(key.as_bytes(), server_key.as_bytes()), "{renaming:?}");
            assert!(!renaming.is_same(key.as_bytes(), b"x:8"), "{renaming:?}");
            let mut value = Vec::new();
            renaming.value(format!("VALUE {server_key} 0 2\r\nhi\r\n").as_bytes(), &mut value);
            assert_eq!(value, format!("VALUE {key} 0 2\r\nhi\r\n").into_bytes());
        }
    }

    #[test]
    fn what_a_reply_repeats_of_the_key_is_whole_again() {
        for (text, reply, whole) in [
            ("mg user:7 v k\r\n", "VA 2 k7\r\nk9\r\n", "VA 2 kuser:7\r\nk9\r\n"),
            ("mg user:7 k O1\r\n", "HD k7 O1\r\n", "HD kuser:7 O1\r\n"),
            ("mg dXNlcjpmb28= b k\r\n", "HD kZm9v b\r\n", "HD kdXNlcjpmb28= b\r\n"),
            ("mg dXNlcjpmb28= b k\r\n", "HD kZm9v\r\n", "HD kuser:Zm9v\r\n"),
            ("mg user:foo k\r\n", "HD kZm9v b\r\n", "HD kdXNlcjpmb28= b\r\n"),
            ("me user:7\r\n", "ME 7 exp=-1 la=5\r\n", "ME user:7 exp=-1 la=5\r\n"),
            ("mg user:7\r\n", "EN\r\n", "EN\r\n"),
        ] {
            assert_eq!(restored(&renaming("user:", ""), text, reply), whole, "{text}");
        }
        let both = renaming("user:", "x:");
        assert_eq!(restored(&both, "mg user:7 k\r\n", "HD kx:7\r\n"), "HD kuser:7\r\n");
        let debugged = restored(&both, "me dXNlcjpmb28= b\r\n", "ME eDpmb28= exp=-1\r\n");
        assert_eq!(debugged, "ME dXNlcjpmb28= exp=-1\r\n");
    }
}
