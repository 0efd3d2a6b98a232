//! Routes that strip: the servers see a key without its beginning, the client sees it whole.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_wire::memcached::request::{Request, Verb};
use posthaste_wire::memcached::{KEY_BYTES_MAX, decode_base64};
use posthaste_wire::span::Span;

/// Writes the request to `out` without the first `strip` bytes of its key. None: nothing of the key would be left, or it is to
/// be base64 and is not, so that nobody can say how it begins.
pub(super) fn strip(request: &Request, input: &[u8], strip: usize, out: &mut Vec<u8>) -> Option<Request> {
    let (written, mut space) = (request.key.of(input), [0; KEY_BYTES_MAX]);
    let plain = if request.base64 { decode_base64(written, &mut space)? } else { written };
    let rest = plain.get(strip..).filter(|rest| !rest.is_empty())?;
    let key: Cow<[u8]> = if request.base64 { STANDARD.encode(rest).into_bytes().into() } else { rest.into() };
    let Span { start, len } = request.key;
    let end = (start + len) as usize;
    out.clear();
    out.extend_from_slice(&input[..start as usize]);
    out.extend_from_slice(&key);
    out.extend_from_slice(&input[end..]);
    let shorter = len.checked_sub(key.len() as u32)?;
    let moved = |span: Span| Span { start: span.start.saturating_sub(shorter), ..span };
    Some(Request {
        line: Span { len: request.line.len - shorter, ..request.line },
        key: Span { start, len: len - shorter },
        data: if request.data.len == 0 { request.data } else { moved(request.data) },
        noreply: request.noreply.map(moved),
        ..*request
    })
}

/// A meta reply with the whole key where it repeats the key.
pub(super) fn restore<'a>(request: &Request, reply: &'a [u8], prefix: &[u8]) -> Cow<'a, [u8]> {
    let end = reply.iter().position(|byte| *byte == b'\r').unwrap_or(reply.len());
    let (line, rest) = reply.split_at(end);
    let mut words = line.split(|byte| *byte == b' ');
    let mut restored = words.next().unwrap_or_default().to_vec();
    let mut is_key_next = request.verb == Verb::MetaDebug && restored == b"ME";
    // The server repeats a key in base64 where it was stored by one, and says so; but `me` does not say.
    let base64 = if is_key_next { request.base64 } else { words.clone().any(|word| word == b"b") };
    for word in words {
        restored.push(b' ');
        match word {
            word if std::mem::take(&mut is_key_next) => restored.extend(whole(base64, word, prefix)),
            [b'k', word @ ..] => {
                restored.push(b'k');
                restored.extend(whole(base64, word, prefix));
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

/// A key with its prefix, written as it came.
fn whole(base64: bool, key: &[u8], prefix: &[u8]) -> Vec<u8> {
    match base64.then(|| STANDARD.decode(key)) {
        Some(Ok(plain)) => STANDARD.encode([prefix, &plain].concat()).into_bytes(),
        _ => [prefix, key].concat(),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;

    const LIMITS: Limits = Limits { value_bytes: 100, line_bytes: 1000 };

    fn request(text: &str) -> Request {
        let Decoded::Request(request, _) = decode(text.as_bytes(), &LIMITS) else { panic!("{text}") };
        request
    }

    /// The request without `user:`, which must be what decoding the shorter text gives.
    fn stripped(text: &str) -> Option<String> {
        let mut out = Vec::new();
        let shorter = strip(&request(text), text.as_bytes(), 5, &mut out)?;
        let out = String::from_utf8(out).unwrap();
        assert_eq!(shorter, request(&out), "{text}");
        Some(out)
    }

    #[test]
    fn a_stripped_request_is_the_request_for_the_shorter_key() {
        for (whole, shorter) in [
            ("set user:7 0 0 2 noreply\r\nhi\r\n", "set 7 0 0 2 noreply\r\nhi\r\n"),
            ("delete user:7\r\n", "delete 7\r\n"),
            ("incr user:7 5 noreply\r\n", "incr 7 5 noreply\r\n"),
            ("mg user:7 v k q\r\n", "mg 7 v k q\r\n"),
            ("ms dXNlcjpmb28= 2 b T3\r\nhi\r\n", "ms Zm9v 2 b T3\r\nhi\r\n"),
        ] {
            assert_eq!(stripped(whole).as_deref(), Some(shorter));
        }
        assert_eq!(stripped("delete user:\r\n"), None);
        assert_eq!(stripped("ms user:! 2 b\r\nhi\r\n"), None, "no base64, though it begins as it should");
    }

    #[test]
    fn what_a_reply_repeats_of_the_key_is_whole_again() {
        for (text, reply, restored) in [
            ("mg user:7 v k\r\n", "VA 2 k7\r\nk9\r\n", "VA 2 kuser:7\r\nk9\r\n"),
            ("mg user:7 k O1\r\n", "HD k7 O1\r\n", "HD kuser:7 O1\r\n"),
            ("mg dXNlcjpmb28= b k\r\n", "HD kZm9v b\r\n", "HD kdXNlcjpmb28= b\r\n"),
            ("mg dXNlcjpmb28= b k\r\n", "HD kZm9v\r\n", "HD kuser:Zm9v\r\n"),
            ("mg user:foo k\r\n", "HD kZm9v b\r\n", "HD kdXNlcjpmb28= b\r\n"),
            ("me user:7\r\n", "ME 7 exp=-1 la=5\r\n", "ME user:7 exp=-1 la=5\r\n"),
            ("mg user:7\r\n", "EN\r\n", "EN\r\n"),
        ] {
            assert_eq!(restore(&request(text), reply.as_bytes(), b"user:"), restored.as_bytes(), "{text}");
        }
    }
}
