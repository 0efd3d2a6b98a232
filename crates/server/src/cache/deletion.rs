//! The command that deletes a key, in one place, because keys in base64 and the key `noreply` need care.
//!
//! A key in base64 is decoded and deleted with the classic command, which every version of memcached understands.
//! Only a key that cannot be written plainly needs a meta command.

use std::borrow::Cow;

use posthaste_wire::memcached::{KEY_BYTES_MAX, decode_base64};

use super::dialect::Dialect;

/// How a key is deleted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Deletion<'a> {
    /// By `delete`, of this key.
    Classic(Cow<'a, [u8]>),
    /// By `md`, of this key in base64.
    Meta(&'a [u8]),
}

impl<'a> Deletion<'a> {
    /// Chooses how to delete a key. `base64`: the key is written in base64.
    pub(crate) fn of(key: &'a [u8], base64: bool) -> Self {
        if !base64 {
            return Self::Classic(Cow::Borrowed(key));
        }
        let mut space = [0; KEY_BYTES_MAX];
        let plain = decode_base64(key, &mut space).filter(|plain| {
            // A line ends with a line feed, a word with a space, and for some versions both with a zero byte.
            !plain.is_empty() && !plain.iter().any(|byte| matches!(byte, b' ' | b'\n' | 0))
        });
        plain.map_or(Self::Meta(key), |plain| Self::Classic(Cow::Owned(plain.to_vec())))
    }

    /// Returns whether a server may hold the key. An old server knows no base64, so a key that needs it was never
    /// stored there.
    pub(crate) fn concerns(&self, dialect: &Dialect) -> bool {
        matches!(self, Self::Classic(_)) || !dialect.is_old()
    }

    /// Writes the command to `output`.
    ///
    /// memcached from 1.6.40 on takes `delete noreply` for a deletion without an answer. The time argument of old, 0,
    /// keeps the key from being the last word.
    pub(crate) fn write(&self, output: &mut Vec<u8>) {
        let parts: [&[u8]; 3] = match self {
            Self::Meta(key) => [b"md ", key, b" b\r\n"],
            Self::Classic(key) if **key == *b"noreply" => [b"delete ", key, b" 0\r\n"],
            Self::Classic(key) => [b"delete ", key, b"\r\n"],
        };
        parts.iter().for_each(|part| output.extend_from_slice(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_written_otherwise_is_deleted_by_a_meta_command() {
        for (key, base64, written) in [
            ("k", false, "delete k\r\n"),
            ("noreply", false, "delete noreply 0\r\n"),
            ("Zm9v", true, "delete foo\r\n"),
            ("bm9yZXBseQ==", true, "delete noreply 0\r\n"),
            ("YSBi", true, "md YSBi b\r\n"),
            ("YQpi", true, "md YQpi b\r\n"),
            ("YQBi", true, "md YQBi b\r\n"),
            ("no base", true, "md no base b\r\n"),
            ("Zm9v!", true, "delete foo\r\n"),
        ] {
            let mut output = Vec::new();
            Deletion::of(key.as_bytes(), base64).write(&mut output);
            assert_eq!(String::from_utf8(output).unwrap(), written);
        }
    }

    #[test]
    fn an_old_server_is_asked_to_delete_nothing_that_it_cannot_hold() {
        let dialect = Dialect::default();
        let concerned = |dialect: &Dialect| {
            ["Zm9v", "YSBi"].map(|key| Deletion::of(key.as_bytes(), true).concerns(dialect))
        };
        assert_eq!(concerned(&dialect), [true, true], "it has not told");
        dialect.note(b"VERSION 1.6.9\r\n");
        assert_eq!(concerned(&dialect), [true, false]);
        dialect.note(b"VERSION 1.6.10\r\n");
        assert_eq!(concerned(&dialect), [true, true]);
    }
}
