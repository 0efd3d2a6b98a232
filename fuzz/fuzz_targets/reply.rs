//! Any bytes are a reply, the beginning of one, or malformed, and both ways to read them agree.

#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste_wire::reply::{Reply, Skip, decode, pairs, skip};

fuzz_target!(|data: &[u8]| {
    match (decode(data), skip(data)) {
        (Reply::Value(value, used), Skip::Done(_, skipped)) => {
            assert!(used > 0 && used <= data.len());
            assert_eq!(used, skipped);
            assert_eq!(decode(&data[..used]), Reply::Value(value, used));
            assert!(matches!(skip(&data[..used - 1]), Skip::NeedBytes(_)));
        }
        (Reply::NeedBytes(needed), Skip::NeedBytes(other)) => assert!(needed > 0 && needed == other),
        (Reply::Malformed(fault), Skip::Malformed(other)) => assert_eq!(fault, other),
        (built, skipped) => panic!("built {built:?}, skipped {skipped:?}"),
    }
    assert!(pairs(data).count() <= data.len());
});
