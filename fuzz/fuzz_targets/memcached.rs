//! Any bytes are a request, the beginning of one, or refused, and a stream is read to the same end however it is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste_wire::memcached::decode::{Decoded, Limits, decode, decode_from};
use posthaste_wire::memcached::reply::{self, Piece};

const LIMITS: Limits = Limits { value_bytes: 1000, line_bytes: 5000 };

fuzz_target!(|data: &[u8]| {
    match decode(data, &LIMITS) {
        Decoded::Request(request, end) => {
            assert!(end > 0 && end <= data.len());
            // What is whole is whole without what follows, and not without its last byte.
            assert_eq!(decode(&data[..end], &LIMITS), Decoded::Request(request, end));
            assert!(matches!(
                decode(&data[..end - 1], &LIMITS),
                Decoded::NeedLineEnd | Decoded::NeedBytes(_) | Decoded::Close { .. }
            ));
            for key in request.key_spans(data).take(request.keys as usize) {
                assert!((1..=250).contains(&key.of(data).len()));
            }
            assert_eq!(request.key_spans(data).take(request.keys as usize).count(), request.keys as usize);
            assert!(request.data.len == 0 || request.data.of(data).ends_with(b"\r\n"));
        }
        Decoded::NeedBytes(needed) => assert!(needed > 0),
        Decoded::Refused { end, .. } | Decoded::TooLarge { end, .. } => assert!(end > 0 && end <= data.len()),
        Decoded::NeedLineEnd | Decoded::Close { .. } => {}
    }
    // A line whose beginning was searched for its end is the same line.
    let beginning = &data[..data.len() / 2];
    if decode(beginning, &LIMITS) == Decoded::NeedLineEnd {
        assert_eq!(decode_from(data, beginning.len(), &LIMITS), decode(data, &LIMITS));
    }
    match reply::next(data) {
        Piece::Value { end, .. } | Piece::Line { end } => {
            assert!(end > 0 && end <= data.len());
            assert_eq!(reply::next(&data[..end]), reply::next(data));
            assert!(matches!(reply::next(&data[..end - 1]), Piece::NeedBytes(_) | Piece::Malformed));
        }
        Piece::NeedBytes(needed) => assert!(needed > 0),
        Piece::Malformed => {}
    }
});
