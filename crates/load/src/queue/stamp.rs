//! The stamp that makes every body of a checked run unique and its damage visible.
//!
//! It stands in plain hexadecimal at the beginning of the body, so that a message found later, in a log or
//! a console, says by itself where it came from. The checksum covers the whole body, filler included.

use crate::queue::request::{Account, Queue};

const MARK: &[u8] = b"ph";
const CHECKSUM: std::ops::Range<usize> = 50..58;

/// What a body says about its message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Tells this run from others on the same server.
    pub run: u32,
    /// The account that sent it.
    pub sender: Account,
    /// Counts the sender's messages from 0; below 2^48.
    pub sequence: u64,
    /// The recipient; 0: for anyone.
    pub recipient: Account,
    /// The queue it was sent to; below 2^48.
    pub queue: Queue,
}

/// Why a body has no stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStamp {
    /// Nothing in the body looks like a stamp.
    Foreign,
    /// There is a stamp, but the body is not what was sent.
    Altered,
}

impl Stamp {
    /// Number of bytes that a stamp takes at the beginning of a body.
    pub const LEN: usize = CHECKSUM.end;

    /// Writes the stamp over the beginning of `body`, which has at least [`Stamp::LEN`] bytes.
    pub fn write(&self, body: &mut [u8]) {
        body[..2].copy_from_slice(MARK);
        hex(u64::from(self.run), &mut body[2..10]);
        hex(u64::from(self.sender), &mut body[10..18]);
        hex(self.sequence, &mut body[18..30]);
        hex(u64::from(self.recipient), &mut body[30..38]);
        hex(self.queue, &mut body[38..CHECKSUM.start]);
        let checksum = checksum(body);
        hex(u64::from(checksum), &mut body[CHECKSUM]);
    }

    /// Reads the stamp of a body.
    ///
    /// # Errors
    /// The body has no stamp; the error says why.
    pub fn read(body: &[u8]) -> Result<Self, NoStamp> {
        if !body.starts_with(MARK) {
            return Err(NoStamp::Foreign);
        }
        let field = |range: std::ops::Range<usize>| body.get(range).and_then(unhex).ok_or(NoStamp::Altered);
        let short = |range| field(range).and_then(|n| u32::try_from(n).map_err(|_| NoStamp::Altered));
        if short(CHECKSUM)? != checksum(body) {
            return Err(NoStamp::Altered);
        }
        Ok(Self {
            run: short(2..10)?,
            sender: short(10..18)?,
            sequence: field(18..30)?,
            recipient: short(30..38)?,
            queue: field(38..CHECKSUM.start)?,
        })
    }
}

fn checksum(body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&body[..CHECKSUM.start]), &body[CHECKSUM.end..])
}

fn hex(mut value: u64, into: &mut [u8]) {
    for place in into.iter_mut().rev() {
        *place = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

fn unhex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, digit| match digit {
        b'0'..=b'9' => Some(value << 4 | u64::from(digit - b'0')),
        b'a'..=b'f' => Some(value << 4 | u64::from(digit - b'a' + 10)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_body_without_a_stamp_is_foreign() {
        assert_eq!(Stamp::read(b""), Err(NoStamp::Foreign));
        assert_eq!(Stamp::read(&[b'x'; 200]), Err(NoStamp::Foreign));
        assert_eq!(Stamp::read(b"ph"), Err(NoStamp::Altered));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_any_changed_byte_is_noticed(
            run: u32, sender: u32, recipient: u32, sequence in 0..1_u64 << 48, queue in 0..1_u64 << 48,
            filler in 0..300_usize, at: prop::sample::Index, flip in 1..=255_u8,
        ) {
            let stamp = Stamp { run, sender, sequence, recipient, queue };
            let mut body = vec![b'.'; Stamp::LEN + filler];
            stamp.write(&mut body);
            prop_assert_eq!(Stamp::read(&body), Ok(stamp));
            body[at.index(Stamp::LEN + filler)] ^= flip;
            prop_assert!(Stamp::read(&body).is_err());
        }

        #[test]
        fn a_cut_body_is_noticed(filler in 0..300_usize, cut: prop::sample::Index) {
            let mut body = vec![b'.'; Stamp::LEN + filler];
            Stamp { run: 1, ..Stamp::default() }.write(&mut body);
            prop_assert!(Stamp::read(&body[..cut.index(body.len())]).is_err());
        }
    }
}
