//! Division of requests into TLS records for a memcached.
//!
//! memcached reads a record into the room it has: what is left of 16 KiB, or, within a value, the rest of
//! that value. Then it waits for its socket, which stays silent when the missing bytes are in OpenSSL already
//! (1.6.18 does not ask `SSL_pending`). So a record must always fit: it is short enough to go behind the
//! longest beginning of a line, and one that brings the rest of a value ends with that value. Hence a record
//! holds whole requests, or a part of a single one.

use super::decode::{Decoded, Limits, decode};

/// Most bytes in a record: together with the 2 KiB of an unfinished line they fit into memcached's 16 KiB.
pub const RECORD_BYTES_MAX: usize = 14 * 1024;

/// Position of a connection's writer among its requests.
#[derive(Debug, Default)]
pub struct Records {
    /// Bytes left of a request whose beginning was written.
    rest: usize,
}

impl Records {
    /// Returns how many bytes go into the next record. `unwritten` ends where a request ends.
    #[must_use]
    pub fn next(&self, unwritten: &[u8]) -> usize {
        if self.rest > 0 {
            return self.rest.min(RECORD_BYTES_MAX);
        }
        if unwritten.len() <= RECORD_BYTES_MAX {
            return unwritten.len();
        }
        let mut whole = 0;
        loop {
            match whole + request_bytes(&unwritten[whole..]) {
                end if end <= RECORD_BYTES_MAX => whole = end,
                _ if whole == 0 => return RECORD_BYTES_MAX,
                _ => return whole,
            }
        }
    }

    /// Notes that the first `bytes` of `unwritten` were written.
    pub fn written(&mut self, unwritten: &[u8], bytes: usize) {
        let mut end = self.rest;
        if bytes == unwritten.len() {
            end = bytes;
        }
        while end < bytes {
            end += request_bytes(&unwritten[end..]);
        }
        self.rest = end - bytes;
    }
}

/// Returns the length of the request at the beginning of `bytes`.
fn request_bytes(bytes: &[u8]) -> usize {
    let limits = Limits { value_bytes: bytes.len(), line_bytes: bytes.len() };
    match decode(bytes, &limits) {
        Decoded::Request(_, end) => end,
        // Routers write valid requests only; the end of anything else cannot be found.
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lengths of the records that carry these requests when at most `taken` bytes of each are
    /// taken at once.
    fn records(requests: &[String], taken: usize) -> Vec<usize> {
        let unwritten = requests.concat().into_bytes();
        let (mut records, mut at, mut lengths) = (Records::default(), 0, Vec::new());
        while at < unwritten.len() {
            let bytes = records.next(&unwritten[at..]).min(taken);
            records.written(&unwritten[at..], bytes);
            at += bytes;
            lengths.push(bytes);
        }
        lengths
    }

    fn set(bytes: usize) -> String {
        let line = format!("set k 0 0 {bytes:06}\r\n");
        format!("{line}{}\r\n", "x".repeat(bytes))
    }

    #[test]
    fn a_record_holds_whole_requests_or_a_part_of_one() {
        let line = set(0).len();
        let get = "get k\r\n".to_owned();
        assert_eq!(records(&[set(10), get.clone()], usize::MAX), [line + 10 + get.len()]);
        let most = RECORD_BYTES_MAX;
        // What fits exactly goes together, and a byte more does not.
        assert_eq!(records(&[get.clone(), set(most - line - 7)], usize::MAX), [most]);
        assert_eq!(records(&[get.clone(), set(most - line - 6)], usize::MAX), [7, most - 6]);
        // One that is too large begins a record, and the last of it ends one.
        let lengths = records(&[get.clone(), set(2 * most), get.clone(), get], usize::MAX);
        assert_eq!(lengths, [7, most, most, line, 14]);
    }

    #[test]
    fn whoever_takes_less_gets_the_rest_of_a_request_alone() {
        let line = set(0).len();
        let get = "get k\r\n".to_owned();
        let lengths = records(&[set(100), set(20_000), get.clone(), get], 10_000);
        assert_eq!(lengths, [line + 100, 10_000, 10_000, line, 14]);
    }
}
