//! Fixed answers, to measure the router without servers: every key is there, and every write succeeds.

use std::io::Write as _;

use posthaste_wire::memcached::request::{Request, Verb};

/// Writes the answer to a request, with values of this many bytes.
pub fn answer(request: &Request, input: &[u8], bytes: usize, out: &mut Vec<u8>) {
    let value = |out: &mut Vec<u8>| {
        out.resize(out.len() + bytes, b'x');
        out.extend_from_slice(b"\r\n");
    };
    let answer: &[u8] = match request.verb {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => {
            let token = if matches!(request.verb, Verb::Gets | Verb::Gats) { " 1" } else { "" };
            for key in request.key_spans(input) {
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key.of(input));
                // Writing to memory does not fail.
                let _ = write!(out, " 0 {bytes}{token}\r\n");
                value(out);
            }
            b"END\r\n"
        }
        Verb::MetaGet if request.words_after_key(input).any(|word| word.of(input) == b"v") => {
            let _ = write!(out, "VA {bytes}\r\n");
            return value(out);
        }
        Verb::MetaDebug => b"EN\r\n",
        verb if verb.is_meta() && request.quiet => b"",
        verb if verb.is_meta() => b"HD\r\n",
        Verb::Delete => b"DELETED\r\n",
        Verb::Touch => b"TOUCHED\r\n",
        Verb::Incr | Verb::Decr => b"1\r\n",
        Verb::FlushAll => b"OK\r\n",
        _ => b"STORED\r\n",
    };
    if request.noreply.is_none() {
        out.extend_from_slice(answer);
    }
}
