//! Commands to the other replicas after one of them has decided, so that all hold the same.

use posthaste_wire::memcached::request::{Request, Verb};

use super::expiry::MaxLife;
use super::fill::{Spelling, value_to_store};
use super::lane::{Shape, Words};
use crate::cache::deletion::Deletion;

/// What the decider holds after its decision.
#[derive(Clone, Copy)]
pub(super) struct Outcome<'a> {
    /// The reply to a fetch.
    pub(super) reply: &'a [u8],
    /// The current date, in Unix seconds.
    pub(super) now_s: u64,
}

/// Writes the command that makes a replica hold what the decider holds. `outcome`: if the decider was asked for it.
pub(super) fn follow(
    request: &Request,
    bytes: &[u8],
    outcome: Option<Outcome<'_>>,
    max_life: Option<MaxLife>,
    output: &mut Vec<u8>,
) -> Shape {
    match request.verb {
        // The decider stored this value: that is a set to the others, whatever they held.
        Verb::Add | Verb::Replace | Verb::Cas => {
            output.extend_from_slice(b"set ");
            output.extend_from_slice(request.key.of(bytes));
            for (place, word) in request.words_after_key(bytes).take(3).enumerate() {
                output.push(b' ');
                match max_life {
                    Some(max_life) if place == 1 => output.extend(max_life.cap(word.of(bytes))),
                    _ => output.extend_from_slice(word.of(bytes)),
                }
            }
            output.extend_from_slice(b"\r\n");
            output.extend_from_slice(request.data.of(bytes));
            Shape::Line(Words::Stored)
        }
        _ if has_hidden_outcome(request, bytes) => {
            match outcome.and_then(|outcome| value_to_store(outcome.reply, outcome.now_s)) {
                Some(value) => {
                    let Spelling { key, base64 } = value.spelling(request, bytes);
                    [b"ms ", key, &value.words, base64, b"\r\n", value.data]
                        .iter()
                        .for_each(|part| output.extend_from_slice(part));
                    Shape::Meta
                }
                None => repeat(request, bytes, max_life, output),
            }
        }
        Verb::MetaSet => meta(request, bytes, b"bFTI", b"AP", max_life, output),
        Verb::MetaDelete => meta(request, bytes, b"bFITx", b"", max_life, output),
        _ => super::writes::write_command(request, bytes, max_life, output),
    }
}

/// Writes what follows a command with a hidden outcome when the decider did not tell it: it was lost meanwhile, or was
/// not asked since a copy may not know `ms`. Arithmetic is repeated if it cannot have had another effect there, so that
/// no counter is lost; otherwise the key is deleted.
fn repeat(request: &Request, bytes: &[u8], max_life: Option<MaxLife>, output: &mut Vec<u8>) -> Shape {
    match request.verb {
        Verb::Incr | Verb::Decr => super::writes::write_command(request, bytes, max_life, output),
        Verb::MetaArithmetic if !has_flag(request, bytes, b'N') && !has_flag(request, bytes, b'T') => {
            meta(request, bytes, b"bD", b"IiDd+-", max_life, output)
        }
        _ => delete(request, bytes, output),
    }
}

/// Returns whether the effect of a command depends on what the decider held, and its reply does not tell which effect
/// it had:
/// - with `N` it may have created the key, where it would change it on another replica, or the reverse;
/// - an `ms` with `C` and `I` may have stored its value as stale;
/// - a number may have blanks behind it, where what was there before was longer, and an `ma` with `T` may have changed
///   the expiry or not: memcached writes in place unless the item is being read or was read lately, and then makes a
///   new item.
pub(super) fn has_hidden_outcome(request: &Request, bytes: &[u8]) -> bool {
    let has = |letter: u8| has_flag(request, bytes, letter);
    let appends = || flags(request, bytes).any(|flag| flag.starts_with(b"MA") || flag.starts_with(b"MP"));
    match request.verb {
        Verb::Incr | Verb::Decr | Verb::MetaArithmetic => true,
        Verb::MetaSet => has(b'C') && has(b'I') || has(b'N') && appends(),
        _ => false,
    }
}

/// Writes the `mg` by which a replica that does not have a key creates it as the decider did.
pub(super) fn create(
    request: &Request,
    bytes: &[u8],
    max_life: Option<MaxLife>,
    output: &mut Vec<u8>,
) -> Shape {
    meta(request, bytes, b"bNT", b"", max_life, output)
}

/// Writes the `mg` that asks whether the key has a value, and how large that is.
pub(super) fn ask_size(request: &Request, bytes: &[u8], output: &mut Vec<u8>) -> Shape {
    [b"mg ", request.key.of(bytes), request.base64_flag(), b" s\r\n"]
        .iter()
        .for_each(|part| output.extend_from_slice(part));
    Shape::Meta
}

/// Writes the `mg` that asks for all that another server needs to store: value, flags, time to live, spelling of the
/// key; and for the token.
pub(super) fn fetch(request: &Request, bytes: &[u8], output: &mut Vec<u8>) {
    [b"mg ", request.key.of(bytes), request.base64_flag(), b" v f t c k\r\n"]
        .iter()
        .for_each(|part| output.extend_from_slice(part));
}

/// Writes the command again, with only those flags (`kept`, and `M` with one of `modes`) that affect what is stored.
fn meta(
    request: &Request,
    bytes: &[u8],
    kept: &[u8],
    modes: &[u8],
    max_life: Option<MaxLife>,
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
            match max_life {
                Some(max_life) if matches!(flag[0], b'T' | b'N') => {
                    output.push(flag[0]);
                    output.extend(max_life.cap(&flag[1..]));
                }
                _ => output.extend_from_slice(flag),
            }
        }
    }
    if let Some(max_life) = max_life.filter(|_| request.verb == Verb::MetaSet && !has_ttl) {
        output.extend_from_slice(format!(" T{}", max_life.seconds).as_bytes());
    }
    output.extend_from_slice(b"\r\n");
    output.extend_from_slice(request.data.of(bytes));
    Shape::Meta
}

/// Returns whether a meta command has this flag.
pub(super) fn has_flag(request: &Request, bytes: &[u8], letter: u8) -> bool {
    flags(request, bytes).any(|flag| flag[0] == letter)
}

/// Returns whether an `ms` stores only where there is nothing. Of a mode some versions of memcached read the first letter
/// only, the others refuse it.
pub(super) fn adds(request: &Request, bytes: &[u8]) -> bool {
    flags(request, bytes).any(|flag| flag.starts_with(b"ME"))
}

/// The flags of a meta command.
fn flags<'a>(request: &Request, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let skipped = usize::from(request.verb == Verb::MetaSet);
    request.words_after_key(bytes).skip(skipped).map(|word| word.of(bytes))
}

/// Writes a deletion of the request's key.
pub(super) fn delete(request: &Request, bytes: &[u8], output: &mut Vec<u8>) -> Shape {
    write_deletion(&Deletion::of(request.key.of(bytes), request.base64), output)
}

/// Writes a deletion. Returns the shape of its reply.
pub(super) fn write_deletion(deletion: &Deletion<'_>, output: &mut Vec<u8>) -> Shape {
    deletion.write(output);
    if matches!(deletion, Deletion::Meta(_)) { Shape::Meta } else { Shape::Line(Words::Deleted) }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;

    fn followed(text: &str) -> String {
        followed_for(text, None)
    }

    fn followed_for(text: &str, max_life: Option<MaxLife>) -> String {
        let limits = Limits { value_bytes: 100, line_bytes: 1000 };
        let Decoded::Request(request, _) = decode(text.as_bytes(), &limits) else { panic!("{text}") };
        let mut output = Vec::new();
        follow(&request, text.as_bytes(), None, max_life, &mut output);
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
        let max_life = Some(MaxLife { seconds: 10, now_s: 0 });
        assert_eq!(followed_for("add k 7 0 2\r\nhi\r\n", max_life), "set k 7 10 2\r\nhi\r\n");
        assert_eq!(followed_for("ms k 2 C9\r\nhi\r\n", max_life), "ms k 2 T10\r\nhi\r\n");
        assert_eq!(followed_for("ms k 2 T60 ME\r\nhi\r\n", max_life), "ms k 2 T10\r\nhi\r\n");
    }

    #[test]
    fn what_changes_a_value_changes_it_everywhere() {
        assert_eq!(followed("incr k 5 noreply\r\n"), "incr k 5 \r\n", "nobody was asked");
        assert_eq!(followed("append k 0 0 2\r\nhi\r\n"), "append k 0 0 2\r\nhi\r\n");
        assert_eq!(followed("decr k 5 noreply\r\n"), "decr k 5 \r\n", "nobody was asked");
        assert_eq!(followed("ma k D5 MI v c q\r\n"), "ma k D5 MI\r\n", "nobody was asked");
        assert_eq!(followed("ma Zm9v b D5 Md v\r\n"), "ma Zm9v b D5 Md\r\n", "nobody was asked");
        assert_eq!(followed("md k C7 I T30 q\r\n"), "md k I T30\r\n");
        assert_eq!(followed("md k I x T30 q\r\n"), "md k I x T30\r\n");
        assert_eq!(followed("md k C7 x F5 E9 q\r\n"), "md k x F5\r\n");
    }

    #[test]
    fn what_may_have_been_created_is_set_to_what_came_of_it() {
        assert_eq!(followed("ma Zm9v b N0 J5\r\n"), "delete foo\r\n", "nobody knows");
        assert_eq!(followed("ma k T60\r\n"), "delete k\r\n", "nobody knows");
        assert_eq!(followed("ms k 2 MP N0\r\nhi\r\n"), "delete k\r\n", "nobody knows");
        assert_eq!(followed("ms k 2 C7 I\r\nhi\r\n"), "delete k\r\n", "nobody knows");
        let limits = Limits { value_bytes: 100, line_bytes: 1000 };
        let text = b"ma Zm9v b N60 J5 q\r\n";
        let Decoded::Request(request, _) = decode(text, &limits) else { panic!("it is one") };
        let mut output = Vec::new();
        follow(
            &request,
            text,
            Some(Outcome { reply: b"VA 1 f0 t60 c7 b\r\n5\r\n", now_s: 0 }),
            None,
            &mut output,
        );
        assert_eq!(output, b"ms Zm9v 1 F0 T60 b\r\n5\r\n");
        output.clear();
        create(&request, text, Some(MaxLife { seconds: 10, now_s: 0 }), &mut output);
        assert_eq!(output, b"ma Zm9v b N10\r\n");
    }
}
