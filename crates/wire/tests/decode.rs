//! The request decoder: the same requests however the bytes are cut, and bounded memory.

mod feed;

use std::fs;
use std::path::Path;

use feed::{Event, feed};
use posthaste_wire::decode::{Decoded, Decoder, Limits};
use proptest::prelude::*;

/// Limits so small that the vectors can exceed them.
const LIMITS: Limits = Limits { bulk_bytes: 20, request_bytes: 80, args: 8, inline_bytes: 40 };

const WIDE: Limits =
    Limits { bulk_bytes: 1 << 20, request_bytes: 1 << 24, args: 1 << 16, inline_bytes: 1 << 16 };

/// One block of a vector file: bytes in, events out.
#[derive(Default)]
struct Vector {
    about: String,
    input: Vec<u8>,
    events: Vec<Event>,
}

/// Unescapes `\r`, `\n`, `\\`, `\"`, `\xHH` and `\{byte*count}`.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.extend_from_slice(plain.as_bytes());
        let used = match escape.as_bytes()[0] {
            b'r' => {
                out.push(b'\r');
                1
            }
            b'n' => {
                out.push(b'\n');
                1
            }
            b'x' => {
                out.push(u8::from_str_radix(&escape[1..3], 16).expect("two digits"));
                3
            }
            b'{' => {
                let end = escape.find('}').expect("a closing brace");
                let (byte, count) = escape[1..end].split_once('*').expect("byte*count");
                out.extend(byte.repeat(count.parse().expect("a count")).bytes());
                end + 1
            }
            other => {
                out.push(other);
                1
            }
        };
        rest = &escape[used..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// Reads an event: `request "a" "b"`, `toobig TEXT`, `malformed TEXT` or `unfinished`.
fn event(text: &str) -> Event {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    match kind {
        "request" => {
            let args = rest.split_whitespace().map(|arg| unescape(&arg[1..arg.len() - 1]));
            Event::Request(args.collect())
        }
        "toobig" => Event::TooBig(rest.to_owned()),
        "malformed" => Event::Malformed(rest.to_owned()),
        "unfinished" => Event::Unfinished,
        other => panic!("no such event: {other}"),
    }
}

fn vectors() -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut vectors = Vec::new();
    for file in fs::read_dir(folder).expect("the folder of vectors") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("a text");
        for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
            let mut vector = Vector::default();
            for line in block.lines() {
                match line.split_once(' ') {
                    Some(("#", about)) => vector.about += about,
                    Some(("in", bytes)) => vector.input.extend(unescape(bytes)),
                    Some(("out", text)) => vector.events.push(event(text)),
                    _ => panic!("not a line of a vector: {line}"),
                }
            }
            vectors.push(vector);
        }
    }
    vectors
}

#[test]
fn every_vector_gives_its_events_however_it_is_cut() {
    let vectors = vectors();
    assert!(vectors.len() > 40, "the vectors are there");
    for Vector { about, input, events } in &vectors {
        assert_eq!(&feed(LIMITS, input, []).events, events, "{about}: whole");
        assert_eq!(&feed(LIMITS, input, vec![1; input.len()]).events, events, "{about}: byte by byte");
        for cut in 1..input.len() {
            assert_eq!(&feed(LIMITS, input, [cut]).events, events, "{about}: cut at {cut}");
        }
    }
}

#[test]
fn a_need_for_bytes_names_all_that_is_missing_of_an_argument() {
    let mut decoder = Decoder::new(WIDE);
    let mut args = Vec::new();
    let input = b"junk*2\r\n$4\r\nECHO\r\n$1000\r\nabc";
    assert_eq!(decoder.decode(input, 4, &mut args), Decoded::NeedBytes(999));
    assert!(!decoder.is_idle());
}

#[test]
fn a_request_of_many_arguments_costs_the_same_for_each_when_it_comes_byte_by_byte() {
    let mut decoder = Decoder::new(WIDE);
    let mut args = Vec::new();
    let mut input = b"*60000\r\n".to_vec();
    for _ in 0..60_000 {
        input.extend_from_slice(b"$1\r\nx\r\n");
    }
    // Parsing anew for each of the 420,000 bytes would look at 10^11 of them and never end here.
    for end in 0..input.len() {
        assert!(matches!(decoder.decode(&input[..end], 0, &mut args), Decoded::NeedBytes(_)));
    }
    assert_eq!(decoder.decode(&input, 0, &mut args), Decoded::Request { end: input.len() });
    assert_eq!(args.len(), 60_000);
}

#[test]
fn a_count_that_is_only_announced_reserves_nothing() {
    let mut args = Vec::new();
    let decoded = Decoder::new(WIDE).decode(b"*65536\r\n$1048576\r\n", 0, &mut args);
    assert_eq!(decoded, Decoded::NeedBytes(1_048_578));
    assert_eq!(args.capacity(), 0);
}

#[test]
fn a_request_that_is_too_large_is_never_kept() {
    let mut input = b"*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n$1000000\r\n".to_vec();
    input.resize(input.len() + 1_000_000, b'x');
    input.extend_from_slice(b"\r\n*1\r\n$4\r\nPING\r\n");
    let seen = feed(LIMITS, &input, vec![100; input.len()]);
    assert_eq!(seen.events.last(), Some(&Event::Request(vec![b"PING".to_vec()])));
    assert!(matches!(seen.events[..], [Event::TooBig(_), _]));
    assert!(seen.kept_max < 100, "{} bytes were kept", seen.kept_max);
}

/// Encodes a request as clients send it.
fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend(format!("${}\r\n", arg.len()).bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Bytes that are often nearly RESP, so that random input gets past the first mark.
fn nearly_resp() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"*2\r\n".to_vec()),
        Just(b"$3\r\nabc\r\n".to_vec()),
        Just(b"$300\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"ping \"a b\" 'c'".to_vec()),
        Just(b"ping \"a\\n\\x20\" 'c\\''\n".to_vec()),
        (0..100u32).prop_map(|n| format!("${n}\r\n").into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..30),
    ];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

/// A word as a person would type it, with everything special escaped.
fn typed(word: &[u8]) -> String {
    let special = |byte: &u8| !byte.is_ascii_graphic() || matches!(byte, b'"' | b'\\');
    let letter = |byte: &u8| match byte {
        b'\n' => "\\n".to_owned(),
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        byte if special(byte) => format!("\\x{byte:02x}"),
        byte => char::from(*byte).to_string(),
    };
    format!("\"{}\"", word.iter().map(letter).collect::<String>())
}

proptest! {
    #[test]
    fn any_bytes_can_be_typed(
        words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8),
    ) {
        // A browser's words are refused, wherever they come from.
        prop_assume!(!matches!(words[0].to_ascii_lowercase().as_slice(), b"post" | b"host:"));
        let line = words.iter().map(|word| typed(word)).collect::<Vec<_>>().join(" ") + "\r\n";
        prop_assert_eq!(feed(WIDE, line.as_bytes(), []).events, [Event::Request(words)]);
    }

    #[test]
    fn what_a_client_sends_is_what_is_decoded(
        requests in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..20), 1..6),
        pieces in proptest::collection::vec(1..300usize, 0..50),
    ) {
        let input: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
        let events: Vec<Event> = requests.into_iter().map(Event::Request).collect();
        prop_assert_eq!(feed(WIDE, &input, pieces).events, events);
    }

    #[test]
    fn any_bytes_give_the_same_events_in_any_pieces_and_bounded_memory(
        input in nearly_resp(),
        pieces in proptest::collection::vec(1..50usize, 0..100),
    ) {
        let whole = feed(LIMITS, &input, []);
        let cut = feed(LIMITS, &input, pieces);
        prop_assert_eq!(&whole.events, &cut.events);
        prop_assert!(cut.kept_max <= LIMITS.request_bytes + 64, "{} bytes were kept", cut.kept_max);
        prop_assert!(cut.args_capacity <= 2 * LIMITS.inline_bytes);
    }
}
