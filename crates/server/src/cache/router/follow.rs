//! What replicas are told after one of them has decided, so that they hold the same.

use posthaste_wire::memcached::request::{Request, Verb};

use super::expiry::Most;
use super::lane::Shape;

/// Writes the command that makes a replica do what the decider did.
pub(super) fn follow(request: &Request, bytes: &[u8], most: Option<Most>, output: &mut Vec<u8>) -> Shape {
    match request.verb {
        // The decider stored this value: that is a set to the others, whatever they held.
        Verb::Add | Verb::Replace | Verb::Cas => {
            output.extend_from_slice(b"set ");
            output.extend_from_slice(request.key.of(bytes));
            for (place, word) in request.words_after_key(bytes).take(3).enumerate() {
                output.push(b' ');
                match most {
                    Some(most) if place == 1 => output.extend(most.cap(word.of(bytes))),
                    _ => output.extend_from_slice(word.of(bytes)),
                }
            }
            output.extend_from_slice(b"\r\n");
            output.extend_from_slice(request.data.of(bytes));
            Shape::Line
        }
        Verb::MetaSet => meta(request, bytes, b"bFTI", b"AP", most, output),
        Verb::MetaDelete => meta(request, bytes, b"bIT", b"", most, output),
        // Whether it was created is not known, and so not what the others would have to do.
        Verb::MetaArithmetic if flags(request, bytes).any(|flag| flag[0] == b'N') => {
            delete(request, bytes, output)
        }
        Verb::MetaArithmetic => meta(request, bytes, b"bDT", b"ID+-", most, output),
        _ => super::writes::command(request, bytes, most, output),
    }
}

/// The command again, with those flags that make a difference to what is stored.
fn meta(
    request: &Request,
    bytes: &[u8],
    kept: &[u8],
    modes: &[u8],
    most: Option<Most>,
    output: &mut Vec<u8>,
) -> Shape {
    let end = (request.key.start + request.key.len) as usize;
    output.extend_from_slice(&bytes[..end]);
    if request.verb == Verb::MetaSet
        && let Some(length) = request.words_after_key(bytes).next()
    {
        output.push(b' ');
        output.extend_from_slice(length.of(bytes));
    }
    let mut has_ttl = false;
    for flag in flags(request, bytes) {
        has_ttl |= flag[0] == b'T';
        let is_mode = flag[0] == b'M' && flag.get(1).is_some_and(|mode| modes.contains(mode));
        if kept.contains(&flag[0]) || is_mode {
            output.push(b' ');
            match most {
                Some(most) if flag[0] == b'T' => output.extend([b"T", &most.cap(&flag[1..])[..]].concat()),
                _ => output.extend_from_slice(flag),
            }
        }
    }
    if let Some(most) = most.filter(|_| request.verb == Verb::MetaSet && !has_ttl) {
        output.extend_from_slice(format!(" T{}", most.seconds).as_bytes());
    }
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(request.data.of(bytes));
    Shape::Meta
}

/// The flags of a meta command.
fn flags<'a>(request: &Request, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let skipped = usize::from(request.verb == Verb::MetaSet);
    request.words_after_key(bytes).skip(skipped).map(|word| word.of(bytes))
}

/// Writes a deletion of the request's key.
pub(super) fn delete(request: &Request, bytes: &[u8], output: &mut Vec<u8>) -> Shape {
    let key = request.key.of(bytes);
    if request.base64 {
        [&b"md "[..], key, b" b\r\n"].iter().for_each(|part| output.extend_from_slice(part));
        Shape::Meta
    } else {
        [&b"delete "[..], key, b"\r\n"].iter().for_each(|part| output.extend_from_slice(part));
        Shape::Line
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;

    fn followed(text: &str) -> String {
        followed_for(text, None)
    }

    fn followed_for(text: &str, most: Option<Most>) -> String {
        let limits = Limits { value_bytes: 100, line_bytes: 1000 };
        let Decoded::Request(request, _) = decode(text.as_bytes(), &limits) else { panic!("{text}") };
        let mut output = Vec::new();
        follow(&request, text.as_bytes(), most, &mut output);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_decision_to_store_is_a_set_to_the_others() {
        assert_eq!(followed("cas k 7 60 2 99 noreply\r\nhi\r\n"), "set k 7 60 2\r\nhi\r\n");
        assert_eq!(followed("add k 7 60 2\r\nhi\r\n"), "set k 7 60 2\r\nhi\r\n");
        assert_eq!(followed("ms k 2 C99 F7 T60 q O1 k ME\r\nhi\r\n"), "ms k 2 F7 T60\r\nhi\r\n");
        assert_eq!(followed("ms Zm9v 2 b MA\r\nhi\r\n"), "ms Zm9v 2 b MA\r\nhi\r\n");
    }

    #[test]
    fn what_follows_lives_no_longer_than_what_was_decided() {
        let most = Some(Most { seconds: 10, now_s: 0 });
        assert_eq!(followed_for("add k 7 0 2\r\nhi\r\n", most), "set k 7 10 2\r\nhi\r\n");
        assert_eq!(followed_for("ms k 2 C9\r\nhi\r\n", most), "ms k 2 T10\r\nhi\r\n");
        assert_eq!(followed_for("ms k 2 T60 ME\r\nhi\r\n", most), "ms k 2 T10\r\nhi\r\n");
    }

    #[test]
    fn what_changes_a_value_changes_it_everywhere() {
        assert_eq!(followed("incr k 5 noreply\r\n"), "incr k 5 \r\n");
        assert_eq!(followed("append k 0 0 2\r\nhi\r\n"), "append k 0 0 2\r\nhi\r\n");
        assert_eq!(followed("ma k D5 MD v c q\r\n"), "ma k D5 MD\r\n");
        assert_eq!(followed("md k C7 I T30 q\r\n"), "md k I T30\r\n");
        assert_eq!(followed("ma Zm9v b N0 J5\r\n"), "md Zm9v b\r\n");
    }
}
