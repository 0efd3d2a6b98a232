//! Any bytes are an answer of memcached, the beginning of one, or malformed; its values lie within it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste_wire::memcached::answer::{Answer, answer, values};

fuzz_target!(|data: &[u8]| {
    match answer(data) {
        Answer::Values { count, len } => {
            assert!(len >= 5 && len <= data.len() && data[..len].ends_with(b"END\r\n"));
            assert_eq!(values(&data[..len]).count(), count);
            assert_eq!(answer(&data[..len]), Answer::Values { count, len });
            assert!(matches!(answer(&data[..len - 1]), Answer::NeedBytes(_)));
        }
        Answer::Line { line, len } => {
            assert!(len >= line.len() + 2 && len <= data.len() && line != b"END");
            assert!(matches!(answer(&data[..len - 1]), Answer::NeedBytes(_)));
        }
        Answer::NeedBytes(missing) => assert!(missing > 0),
        Answer::Malformed => {}
    }
    let bytes: usize = values(data).map(|(key, value)| key.len() + value.len()).sum();
    assert!(bytes <= data.len());
});
