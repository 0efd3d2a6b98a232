//! What the reply decoder promises to clients.

use posthaste_wire::encode::{Encoder, Protocol};
use posthaste_wire::reply::{DEPTH_MAX, Item, Passage, Reply, Shape, Skip, Value, decode, pairs, skip};
use proptest::prelude::*;

fn whole(input: &[u8]) -> Value<'_> {
    match decode(input) {
        Reply::Value(value, used) => {
            assert_eq!(used, input.len(), "the whole input is one reply");
            value
        }
        other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(input)),
    }
}

#[test]
fn every_type_of_resp_2_and_3_is_understood() {
    let cases: [(&[u8], Value<'_>); 19] = [
        (b"+OK\r\n", Value::Simple(b"OK")),
        (b"-BUSY later\r\n", Value::Error(b"BUSY later")),
        (b"!10\r\nSTORE lost\r\n", Value::Error(b"STORE lost")),
        (b":-9223372036854775808\r\n", Value::Integer(i64::MIN)),
        (b":+7\r\n", Value::Integer(7)),
        (b"$4\r\na\r\nb\r\n", Value::Bulk(b"a\r\nb")),
        (b"$0\r\n\r\n", Value::Bulk(b"")),
        (b"$-1\r\n", Value::Null),
        (b"*-1\r\n", Value::Null),
        (b"_\r\n", Value::Null),
        (b"#t\r\n", Value::Boolean(true)),
        (b",-1.5e3\r\n", Value::Double(-1500.0)),
        (b",inf\r\n", Value::Double(f64::INFINITY)),
        (b"(-123456789012345678901234\r\n", Value::BigNumber(b"-123456789012345678901234")),
        (b"=6\r\ntxt:hi\r\n", Value::Verbatim(b"txt", b"hi")),
        (b"*2\r\n:1\r\n_\r\n", Value::Array(vec![Value::Integer(1), Value::Null])),
        (b"%1\r\n+a\r\n:1\r\n", Value::Map(vec![(Value::Simple(b"a"), Value::Integer(1))])),
        (b"~1\r\n:1\r\n", Value::Set(vec![Value::Integer(1)])),
        (b"|1\r\n+ttl\r\n:5\r\n>1\r\n:1\r\n", Value::Push(vec![Value::Integer(1)])),
    ];
    for (bytes, value) in cases {
        assert_eq!(whole(bytes), value);
    }
}

#[test]
fn what_is_not_resp_is_malformed_and_not_waited_for() {
    let cases: [&[u8]; 15] = [
        b"HTTP/1.1 200 OK\r\n",
        b":12a\r\n",
        b":\r\n",
        b":9223372036854775808\r\n",
        b"$-2\r\n",
        b"$x\r\n",
        b"$999999999999\r\n",
        b"*-7\r\n",
        b"*99999999999\r\n",
        b"$1\r\nabc",
        b"+a\rb\r\n",
        b"+a\nb\r\n",
        b"#y\r\n",
        b"=3\r\ntxt\r\n",
        b"_x\r\n",
    ];
    for bytes in cases {
        assert!(matches!(decode(bytes), Reply::Malformed(_)), "{}", String::from_utf8_lossy(bytes));
        assert!(matches!(skip(bytes), Skip::Malformed(_)));
    }
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
    assert!(matches!(decode(&nested(DEPTH_MAX)), Reply::Value(..)));
    assert!(matches!(decode(&nested(DEPTH_MAX + 1)), Reply::Malformed(_)));
    let attributes = b"|1\r\n".repeat(DEPTH_MAX + 1);
    assert!(matches!(decode(&attributes), Reply::Malformed(_)));
}

#[test]
fn an_endless_line_is_refused() {
    assert!(matches!(decode(&[b"+".as_slice(), &[b'x'; 100_000]].concat()), Reply::Malformed(_)));
}

#[test]
fn the_missing_bytes_of_a_blob_are_known_exactly_once_its_length_is() {
    assert_eq!(decode(b"$10\r\nabc"), Reply::NeedBytes(9));
    assert_eq!(decode(b"*3\r\n$3\r\nab"), Reply::NeedBytes(3 + 3 + 3));
}

fn message(protocol: Protocol) -> Vec<u8> {
    let mut out = Vec::new();
    let mut e = Encoder::new(&mut out, protocol);
    e.map(4);
    e.bulk(b"id");
    e.integer(7);
    e.bulk(b"to");
    e.null();
    e.bulk(b"headers");
    e.map(1);
    e.bulk(b"k");
    e.bulk(b"v");
    e.bulk(b"body");
    e.bulk(b"to\r\n");
    out
}

#[test]
fn a_field_is_found_in_a_map_and_in_a_flat_array_alike() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let bytes = message(protocol);
        let value = whole(&bytes);
        assert_eq!(value.get(b"body").and_then(Value::as_bytes), Some(b"to\r\n".as_slice()));
        assert_eq!(value.get(b"id").and_then(Value::as_integer), Some(7));
        assert!(value.get(b"to").is_some_and(Value::is_null));
        assert_eq!(value.get(b"headers").and_then(|h| h.get(b"k")), Some(&Value::Bulk(b"v")));
        assert_eq!(value.get(b"v"), None, "values are not names");
        let names: Vec<_> = pairs(&bytes).map(|(name, _)| name.to_vec()).collect();
        assert_eq!(names, [b"id".to_vec(), b"to".to_vec(), b"headers".to_vec(), b"body".to_vec()]);
        assert!(pairs(&bytes).all(|(name, field)| value.get(name) == Some(&field)));
    }
}

#[test]
fn an_errors_first_word_stands_apart() {
    assert_eq!(whole(b"-NOQUEUE there is no queue 7\r\n").error_word(), Some(b"NOQUEUE".as_slice()));
    assert_eq!(whole(b"-ERR\r\n").error_word(), Some(b"ERR".as_slice()));
    assert_eq!(whole(b"+ERR x\r\n").error_word(), None);
}

/// Encodings without any other bytes around them, so that they can be cut anywhere.
fn encoded() -> impl Strategy<Value = Vec<u8>> {
    let blob = |mark: &'static str| {
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(move |b| [format!("{mark}{}\r\n", b.len()).as_bytes(), &b, b"\r\n"].concat())
    };
    let leaf = prop_oneof![
        any::<i64>().prop_map(|n| format!(":{n}\r\n").into_bytes()),
        "[ -~]{0,20}".prop_map(|s| format!("+{s}\r\n").into_bytes()),
        "[A-Z]{1,6} [ -~]{0,20}".prop_map(|s| format!("-{s}\r\n").into_bytes()),
        any::<f64>().prop_map(|f| format!(",{f:?}\r\n").into_bytes()),
        blob("$"),
        blob("!"),
        Just(b"$-1\r\n".to_vec()),
        Just(b"*-1\r\n".to_vec()),
        Just(b"_\r\n".to_vec()),
        Just(b"#f\r\n".to_vec()),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        (prop::sample::select(b"*~>%|".to_vec()), prop::collection::vec(inner, 0..6)).prop_map(
            |(mark, parts)| {
                let count = match mark {
                    b'%' | b'|' => parts.len() / 2,
                    _ => parts.len(),
                };
                let used = if matches!(mark, b'%' | b'|') { count * 2 } else { count };
                let mut out = format!("{}{count}\r\n", char::from(mark)).into_bytes();
                out.extend(parts[..used].concat());
                if mark == b'|' {
                    out.extend_from_slice(b":1\r\n");
                }
                out
            },
        )
    })
}

proptest! {
    #[test]
    fn any_cut_needs_bytes_and_never_more_than_are_missing(bytes in encoded()) {
        for cut in 0..bytes.len() {
            for need in [
                match decode(&bytes[..cut]) { Reply::NeedBytes(n) => n, other => panic!("{other:?}") },
                match skip(&bytes[..cut]) { Skip::NeedBytes(n) => n, other => panic!("{other:?}") },
            ] {
                prop_assert!(need >= 1 && need <= bytes.len() - cut, "cut {cut} of {}: {need}", bytes.len());
            }
        }
        prop_assert!(matches!(decode(&bytes), Reply::Value(_, used) if used == bytes.len()));
    }

    #[test]
    fn a_reply_in_pieces_ends_where_it_ends_whole(first in encoded(), second in encoded(), step in 1_usize..40) {
        let bytes = [first.clone(), second].concat();
        let mut passage = Passage::default();
        let mut arrived = 0;
        let end = loop {
            arrived = bytes.len().min(arrived + step);
            match passage.end(&bytes[..arrived]) {
                Ok(Some(end)) => break end,
                Ok(None) => prop_assert!(arrived < first.len(), "not found in {arrived} of {}", first.len()),
                Err(fault) => prop_assert!(false, "{fault:?}"),
            }
        };
        prop_assert_eq!(end, first.len());
        prop_assert_eq!(passage.end(&bytes[end..]), Ok(Some(bytes.len() - end)), "it begins anew");
    }

    #[test]
    fn pieces_of_anything_are_refused_as_the_whole_is(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let whole = match skip(&bytes) {
            Skip::Done(_, used) => Ok(Some(used)),
            Skip::NeedBytes(_) => Ok(None),
            Skip::Malformed(fault) => Err(fault),
        };
        prop_assert_eq!(Passage::default().end(&bytes), whole);
    }

    #[test]
    fn skipping_and_decoding_agree_on_any_bytes(
        soup in prop::collection::vec(
            prop_oneof![
                4 => encoded(),
                1 => prop::collection::vec(any::<u8>(), 0..8),
                1 => "[*$%:|+_#0-9-]{0,4}(\r\n)?".prop_map(String::into_bytes),
            ],
            0..4,
        ),
    ) {
        let bytes = soup.concat();
        match (decode(&bytes), skip(&bytes)) {
            (Reply::Value(value, used), Skip::Done(item, skipped)) => {
                prop_assert_eq!(used, skipped);
                match item {
                    Item::Scalar(scalar) => prop_assert_eq!(format!("{scalar:?}"), format!("{value:?}")),
                    Item::Compound(Shape::Map, count) => {
                        prop_assert!(matches!(value, Value::Map(pairs) if pairs.len() * 2 == count));
                    }
                    Item::Compound(_, count) => prop_assert_eq!(value.parts().len(), count),
                }
            }
            (Reply::NeedBytes(a), Skip::NeedBytes(b)) => prop_assert_eq!(a, b),
            (Reply::Malformed(a), Skip::Malformed(b)) => prop_assert_eq!(a, b),
            (decoded, skipped) => prop_assert!(false, "{decoded:?} against {skipped:?}"),
        }
    }

    #[test]
    fn no_input_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = skip(&bytes);
        let _ = pairs(&bytes).count();
    }
}
