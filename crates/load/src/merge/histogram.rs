//! A histogram of `latency.hlog`: HdrHistogram's encoding V2, compressed, in base64.
//!
//! The library allocates what the head of an encoding says, which for a damaged file may be gigabytes. So it is given
//! only what is no longer than any histogram of ours, with a head that is true.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::tally::LATENCY_MAX;

/// How a compressed encoding begins, before its length and itself.
const COMPRESSED: u32 = 0x1c84_9314;
const COMPRESSED_HEAD: usize = 8;
/// The head of a plain one: cookie, length of the counts, offset, digits (all u32), lowest and highest value (u64),
/// ratio.
const HEAD: usize = 40;
/// Most significant digits of values.
const DIGITS_MAX: u32 = 3;
/// A histogram of so many digits up to the longest latency has some 34,000 counts, each of at most 9 bytes.
const PLAIN_MAX: usize = HEAD + 9 * 40_000;

/// Reads a histogram.
///
/// # Errors
/// The text is no such histogram; the error says why.
pub(super) fn read(deserializer: &mut Deserializer, text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    if number(&bytes, 0) != Some(COMPRESSED) {
        return Err("it is no compressed histogram".to_owned());
    }
    let mut plain = Vec::new();
    let zlib = ZlibDecoder::new(&bytes[COMPRESSED_HEAD.min(bytes.len())..]);
    zlib.take(PLAIN_MAX as u64 + 1).read_to_end(&mut plain).map_err(|error| error.to_string())?;
    let counts = plain.len().checked_sub(HEAD).and_then(|counts| u32::try_from(counts).ok());
    let is_ours = number(&plain, 12).is_some_and(|digits| digits <= DIGITS_MAX)
        && long_number(&plain, 24).is_some_and(|highest| highest <= LATENCY_MAX);
    if plain.len() > PLAIN_MAX || counts.is_none() || number(&plain, 4) != counts || !is_ours {
        return Err("it is no histogram of ours".to_owned());
    }
    deserializer.deserialize(&mut plain.as_slice()).map_err(|error| error.to_string())
}

/// The big-endian number at a place.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

fn long_number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer, V2Serializer};

    use super::*;
    use crate::tally::histogram;

    fn encoded(plain: &[u8]) -> String {
        use std::io::Write as _;
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(plain).expect("memory takes it");
        let packed = zlib.finish().expect("memory takes it");
        let length = u32::try_from(packed.len()).expect("it is short").to_be_bytes();
        STANDARD.encode([&COMPRESSED.to_be_bytes()[..], &length, &packed].concat())
    }

    fn reading(text: &str) -> Result<Histogram<u64>, String> {
        read(&mut Deserializer::new(), text)
    }

    #[test]
    fn what_was_written_is_read() {
        for digits in 1..=3 {
            let mut written = histogram(digits);
            [1, 500, 1_000_000, LATENCY_MAX]
                .into_iter()
                .for_each(|value| written.record(value).expect("in range"));
            let mut bytes = Vec::new();
            V2DeflateSerializer::new().serialize(&written, &mut bytes).expect("memory takes it");
            assert_eq!(reading(&STANDARD.encode(&bytes)).as_ref(), Ok(&written));
        }
    }

    #[test]
    fn a_head_that_promises_too_much_is_not_believed() {
        let mut plain = Vec::new();
        V2Serializer::new().serialize(&histogram(2), &mut plain).expect("memory takes it");
        assert!(reading(&encoded(&plain)).is_ok());
        // The length of the counts, the digits, the highest value.
        for (at, byte) in [(4, 0xf0), (15, 5), (24, 0x10)] {
            let mut wrong = plain.clone();
            wrong[at] = byte;
            assert_eq!(reading(&encoded(&wrong)), Err("it is no histogram of ours".to_owned()), "byte {at}");
        }
        let bomb = [&plain[..], &vec![0; PLAIN_MAX]].concat();
        assert!(reading(&encoded(&bomb)).is_err());
        for text in ["", "x", "AAAA", &STANDARD.encode(&plain)] {
            assert!(reading(text).is_err(), "{text}");
        }
    }
}
