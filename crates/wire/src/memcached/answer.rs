//! Whole answers to classic commands, as a client reads them: values followed by END, or one line.
//!
//! Unlike a router, which passes an answer on piece by piece, a client takes it at once, so nothing of an
//! answer is looked at before all of it has arrived. `NeedBytes` says how many bytes must arrive before
//! another try can succeed, which keeps a long answer from being scanned again after every read.

use super::reply::{self, Piece};

/// Length of the shortest line that can end an answer: `OK` and its line end.
const LINE_BYTES_MIN: usize = 4;

/// The answer that the bytes from a server begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Values followed by END; see [`values`].
    Values {
        /// Number of values.
        count: usize,
        /// Bytes of the answer.
        len: usize,
    },
    /// One line: `STORED`, an error, … Values before an error line are dropped.
    Line {
        /// The line, without its end.
        line: &'a [u8],
        /// Bytes of the answer.
        len: usize,
    },
    /// At least this many more bytes must arrive.
    NeedBytes(usize),
    /// Not the protocol; the connection is of no more use.
    Malformed,
}

/// Decodes the answer at the beginning of `input`.
#[must_use]
pub fn answer(input: &[u8]) -> Answer<'_> {
    let (mut count, mut len) = (0, 0);
    loop {
        let rest = &input[len..];
        match reply::next(rest) {
            Piece::Value { end, .. } => {
                count += 1;
                len += end;
            }
            Piece::Line { end } => {
                let line = &rest[..end - 2];
                len += end;
                return if line == b"END" {
                    Answer::Values { count, len }
                } else {
                    Answer::Line { line, len }
                };
            }
            // The scanner knows how much of a value is missing; a line has at least its shortest length.
            Piece::NeedBytes(missing) => {
                return Answer::NeedBytes(missing.max(LINE_BYTES_MIN.saturating_sub(rest.len())));
            }
            Piece::Malformed => return Answer::Malformed,
        }
    }
}

/// Returns key and data of each value that a whole answer begins with.
pub fn values(answer: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = answer;
    std::iter::from_fn(move || match reply::next(rest) {
        Piece::Value { key, data, end } => {
            let value = (key.of(rest), &rest[data..end - 2]);
            rest = &rest[end..];
            Some(value)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_answers() {
        for line in ["STORED", "NOT_STORED", "ERROR", "SERVER_ERROR out of memory storing object", "OK"] {
            let input = format!("{line}\r\nEND\r\n");
            assert_eq!(answer(input.as_bytes()), Answer::Line { line: line.as_bytes(), len: line.len() + 2 });
        }
        assert_eq!(answer(b"END\r\nSTORED\r\n"), Answer::Values { count: 0, len: 5 });
    }

    #[test]
    fn an_error_in_the_place_of_end_takes_the_values_before_it_with_it() {
        let input = b"VALUE a 0 1\r\nx\r\nSERVER_ERROR gone\r\nEND\r\n";
        assert_eq!(answer(input), Answer::Line { line: b"SERVER_ERROR gone", len: input.len() - 5 });
    }

    #[test]
    fn a_value_may_hold_what_looks_like_an_end() {
        let input = b"VALUE a 0 5\r\nEND\r\n\r\nVALUE b 7 0 99\r\n\r\nEND\r\n";
        assert_eq!(answer(input), Answer::Values { count: 2, len: input.len() });
        let all: Vec<_> = values(input).collect();
        assert_eq!(all, [(&b"a"[..], &b"END\r\n"[..]), (b"b", b"")]);
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        for input in [&b"VALUE a 0 x\r\n"[..], b"VALUE a 0 1\r\nxyz", b"STORED\n", b"VALUE a 0 -1\r\n"] {
            assert_eq!(answer(input), Answer::Malformed, "{}", String::from_utf8_lossy(input));
        }
    }

    proptest! {
        #[test]
        fn an_answer_is_taken_when_it_is_whole_and_never_waits_for_too_much(
            data in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
        ) {
            let mut input = Vec::new();
            for (i, data) in data.iter().enumerate() {
                input.extend(format!("VALUE k{i} 0 {}\r\n", data.len()).into_bytes());
                input.extend(data);
                input.extend(b"\r\n");
            }
            input.extend(b"END\r\n");
            for cut in 0..input.len() {
                match answer(&input[..cut]) {
                    Answer::NeedBytes(missing) => {
                        prop_assert!(missing > 0 && missing <= input.len() - cut);
                    }
                    other => prop_assert!(false, "{other:?} at {cut}"),
                }
            }
            prop_assert_eq!(answer(&input), Answer::Values { count: data.len(), len: input.len() });
            prop_assert!(values(&input).map(|(_, data)| data.to_vec()).eq(data));
        }
    }
}
