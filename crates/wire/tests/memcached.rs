//! Memcached requests and replies: lines, data, limits, and how many bytes a broken command swallows.

use posthaste_wire::memcached::decode::{Decoded, Limits, decode, decode_from};
use posthaste_wire::memcached::reply::{self, Piece};
use posthaste_wire::memcached::request::{Request, Verb};
use proptest::prelude::*;

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 100_000 };

fn request(input: &[u8]) -> Request {
    match decode(input, &LIMITS) {
        Decoded::Request(request, end) if end == input.len() => request,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(input)),
    }
}

fn refusal(input: &[u8]) -> (&'static [u8], usize, usize) {
    match decode(input, &LIMITS) {
        Decoded::Refused { answer, end, swallow } => (answer.unwrap_or_default(), end, swallow),
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(input)),
    }
}

fn keys(input: &[u8]) -> Vec<&[u8]> {
    request(input).key_spans(input).map(|key| key.of(input)).collect()
}

#[test]
fn a_get_names_its_keys_in_the_order_asked_with_any_number_of_spaces() {
    assert_eq!(keys(b"get a\r\n"), [b"a"]);
    assert_eq!(keys(b"  gets  b  a b \n"), [b"b", b"a", b"b"]);
    assert_eq!(keys(b"gat 10 a b\r\n"), [b"a", b"b"]);
    let many: String = (0..500).fold("get".into(), |line, i| line + &format!(" key-{i}"));
    assert_eq!(keys(format!("{many}\r\n").as_bytes()).len(), 500);
}

#[test]
fn a_set_is_whole_when_its_data_and_the_line_end_behind_it_are_there() {
    let whole = b"set a 0 0 5 noreply\r\nhello\r\n";
    let line = b"set a 0 0 5 noreply\r\n".len();
    for cut in 0..line {
        assert_eq!(decode(&whole[..cut], &LIMITS), Decoded::NeedLineEnd, "{cut}");
    }
    for cut in line..whole.len() {
        assert_eq!(decode(&whole[..cut], &LIMITS), Decoded::NeedBytes(whole.len() - cut), "{cut}");
    }
    let set = request(whole);
    assert_eq!((set.verb, set.key.of(whole), set.data.of(whole)), (Verb::Set, &b"a"[..], &b"hello\r\n"[..]));
    assert_eq!(set.noreply.map(|word| word.of(whole)), Some(&b"noreply"[..]));
}

#[test]
fn data_may_hold_anything_and_must_end_where_its_length_says() {
    let odd = b"set a 0 0 8\r\n\r\nEND\r\n\0\r\n";
    assert_eq!(request(odd).data.of(odd), b"\r\nEND\r\n\0\r\n");
    let (answer, end, swallow) = refusal(b"set a 0 0 2\r\nhello\r\n");
    assert_eq!((answer, end, swallow), (&b"CLIENT_ERROR bad data chunk\r\n"[..], 17, 0));
}

#[test]
fn a_line_that_is_refused_takes_no_data_with_it_and_a_value_too_large_does() {
    let (answer, end, swallow) = refusal(b"set a 0 0 -1\r\nhello\r\n");
    assert_eq!((answer, end, swallow), (&b"CLIENT_ERROR bad command line format\r\n"[..], 14, 0));
    let large = decode(b"set a 0 0 1001\r\n", &LIMITS);
    assert!(matches!(large, Decoded::TooLarge { end: 16, swallow: 1003, .. }), "{large:?}");
}

#[test]
fn a_line_that_not_every_memcached_reads_alike_is_spelled_anew() {
    for (line, plain) in [
        ("  set k 1 -1 2", "set k 1 -1 2"),
        ("set  k 0 0 +2", "set k 0 0 2"),
        ("set k 0 0 0000000000002 noreply", "set k 0 0 2 noreply"),
        ("cas k 0 0 4294967298 7", "cas k 0 0 2 7"),
        ("append k 0 0 \t2", "append k 0 0 2"),
        ("add k 0 0 2\tz x", "add k 0 0 2 x"),
        ("prepend k 0 0 2\r", "prepend k 0 0 2"),
        ("ms 2 02 b  q", "ms 2 2 b q"),
        (" ms k 2", "ms k 2"),
    ] {
        let (text, other) = (format!("{line}\r\nhi\r\n"), format!("{plain}\r\nhi\r\n"));
        let mut out = Vec::new();
        assert!(request(text.as_bytes()).respell, "{line:?}");
        let respelled = request(text.as_bytes()).respelled(text.as_bytes(), &mut out);
        assert_eq!(
            (String::from_utf8_lossy(&out), respelled),
            (other.as_str().into(), request(other.as_bytes()))
        );
        assert!(!respelled.respell, "{plain:?}");
    }
    let (text, mut out) = (b"  delete   noreply  noreply\n", Vec::new());
    let respelled = request(text).respelled(text, &mut out);
    assert_eq!(
        (&out[..], respelled),
        (&b"delete noreply noreply\r\n"[..], request(b"delete noreply noreply\r\n"))
    );
}

#[test]
fn an_ms_with_a_flag_that_can_be_none_is_refused_with_its_data() {
    let (invalid, duplicate) = ("CLIENT_ERROR invalid flag\r\n", "CLIENT_ERROR duplicate flag\r\n");
    for (flags, answer) in
        [("-", invalid), ("q \tk", invalid), ("[", invalid), ("é", duplicate), ("\x7f", duplicate)]
    {
        let line = format!("ms k 11 {flags}\r\n");
        assert_eq!(refusal(line.as_bytes()), (answer.as_bytes(), line.len(), 13), "{flags:?}");
    }
    assert!(request(b"mg k -\r\n").keys == 1 && request(b"ms - 2 O- z 7\r\nhi\r\n").keys == 1);
}

#[test]
fn noreply_keeps_refusals_from_the_client_as_memcached_does() {
    assert_eq!(refusal(b"set a 0 0 noreply\r\n").0, b"");
    assert_eq!(refusal(b"incr a x noreply\r\n").0, b"");
    assert_eq!(refusal(b"incr a x\r\n").0, b"CLIENT_ERROR invalid numeric delta argument\r\n");
    assert_eq!(request(b"delete noreply\r\n").noreply, None);
}

#[test]
fn a_key_too_long_fails_the_whole_command() {
    let line = format!("get a {} b\r\n", "k".repeat(251));
    assert_eq!(refusal(line.as_bytes()).0, b"CLIENT_ERROR bad command line format\r\n");
    assert_eq!(keys(format!("get {}\r\n", "k".repeat(250)).as_bytes()).len(), 1);
}

#[test]
fn only_multi_gets_may_have_long_lines_and_those_have_an_end_too() {
    let long = |start: &str, len: usize| [start.as_bytes(), &b"k ".repeat(len / 2)].concat();
    assert!(matches!(decode(&long("get ", 5000), &LIMITS), Decoded::NeedLineEnd));
    assert_eq!(decode(&long("delete ", 5000), &LIMITS), Decoded::Close { answer: None });
    assert!(matches!(decode(&long("get ", 200_000), &LIMITS), Decoded::Close { answer: Some(_) }));
    assert_eq!(decode(b"GET / HTTP/1.1\r\n", &LIMITS), Decoded::Close { answer: None });
    for multiget in ["get", "gets", "bget", "gat 60", "  gats  60 "] {
        let line = [&long(&format!("{multiget} "), 5000)[..], b"\r\n"].concat();
        assert_eq!(keys(&line).len(), 2500);
    }
    let late_keys = format!("gat {}60 k", "0".repeat(5000));
    for other in ["set k 0 0 2", "md k", "", &late_keys] {
        let line = format!("{other}{:5000}\r\nhi\r\n", "");
        assert_eq!(decode(line.as_bytes(), &LIMITS), Decoded::Close { answer: None }, "{other}");
    }
}

#[test]
fn what_was_searched_for_the_end_of_a_line_is_not_searched_again() {
    let input = b"get a\nget b\n";
    assert!(matches!(decode_from(input, 5, &LIMITS), Decoded::Request(request, 6) if request.keys == 1));
    // Whoever says that there is none is believed.
    assert!(matches!(decode_from(input, 6, &LIMITS), Decoded::Request(_, 12)));
    assert_eq!(decode_from(input, 100, &LIMITS), Decoded::NeedLineEnd);
}

#[test]
fn meta_commands_tell_key_length_and_whether_they_are_quiet() {
    let line = b"ms Zm9v 2 b q O7\r\nhi\r\n";
    let set = request(line);
    assert!(set.base64 && set.quiet && set.verb == Verb::MetaSet && set.data.of(line) == b"hi\r\n");
    assert!(!request(b"mg bq v\r\n").base64, "a key is no flag");
    assert_eq!(request(b"mn\r\n").verb, Verb::MetaNoop);
    assert_eq!(refusal(b"mg\r\n").0, b"ERROR\r\n");
    assert_eq!(refusal(b"ms key\r\n").0, b"CLIENT_ERROR bad command line format\r\n");
}

#[test]
fn a_reply_is_cut_into_values_and_lines() {
    let reply = b"VALUE a 0 5 77\r\nEND\r\n\r\nEND\r\n";
    let Piece::Value { key, data, end } = reply::next(reply) else { panic!("a value") };
    assert_eq!((key.of(reply), &reply[data..end - 2]), (&b"a"[..], &b"END\r\n"[..]));
    assert_eq!(reply::next(&reply[end..]), Piece::Line { end: 5 });
    assert_eq!(
        reply::next(b"VA 2 f0\r\nhi\r\n"),
        Piece::Value { key: posthaste_wire::span::Span { start: 0, len: 2 }, data: 9, end: 13 }
    );
    for cut in 0..end {
        assert!(matches!(reply::next(&reply[..cut]), Piece::NeedBytes(n) if n > 0), "{cut}");
    }
}

#[test]
fn what_is_no_reply_is_malformed() {
    for input in [&b"VALUE a 0 x\r\n"[..], b"STORED\n", b"VALUE a 0 1\r\nabc", &[b'x'; 9000]] {
        assert_eq!(reply::next(input), Piece::Malformed);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_without_harm_and_the_end_is_within(input: Vec<u8>) {
        let _ = reply::next(&input);
        match decode(&input, &LIMITS) {
            Decoded::Request(request, end) => {
                prop_assert!(end <= input.len());
                prop_assert_eq!(request.key_spans(&input).count() >= request.keys as usize, true);
            }
            Decoded::Refused { end, .. } | Decoded::TooLarge { end, .. } => prop_assert!(end <= input.len()),
            Decoded::NeedBytes(n) => prop_assert!(n > 0),
            Decoded::NeedLineEnd | Decoded::Close { .. } => {}
        }
    }

    #[test]
    fn a_line_is_searched_on_from_where_it_was_left(line in "[a-z ]{0,30}(\r\n|\n)?", more: Vec<u8>) {
        let input = [line.as_bytes(), &more].concat();
        for cut in 0..input.len() {
            if decode(&input[..cut], &LIMITS) == Decoded::NeedLineEnd {
                prop_assert_eq!(decode_from(&input, cut, &LIMITS), decode(&input, &LIMITS));
            }
        }
    }

    #[test]
    fn more_bytes_behind_a_request_change_nothing(words in "[a-z ]{0,30}", more: Vec<u8>) {
        let line = format!("{words}\r\n");
        let with_more = [line.as_bytes(), &more].concat();
        prop_assert_eq!(decode(line.as_bytes(), &LIMITS), decode(&with_more, &LIMITS));
    }
}
