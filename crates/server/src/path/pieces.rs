//! Lists and redrives in pieces: one answer to the client, several calls of the store.
//!
//! QLIST is one request with one answer, whatever the number of queues. A list of 100,000 queues, written in one go,
//! would keep the store locked (or a call to the database under way) all that time, while every other client waits. So
//! a store answers the first [`LIST_PIECE`] queues, or fewer where it had much to read for them, and then the id of the
//! last one. The network thread keeps this piece and lines the request up again for the next; other requests have their
//! turn in between. The client gets one array.
//!
//! The price is that a long list is no snapshot: each queue is shown as it was at some time between the request and its
//! answer, and one that is made or deleted meanwhile may be listed or not. A copy of all queues taken at once would be
//! a snapshot, and would need the long lock that the pieces avoid.
//!
//! ACCOUNTS works in the same way, in pieces of [`ACCOUNTS_PIECE`](posthaste_wire::operation::ACCOUNTS_PIECE).
//!
//! QREDRIVE works in the same way, for the same reason: a store moves the dead letters among the first
//! [`REDRIVE_PIECE`](posthaste_wire::operation::REDRIVE_PIECE) messages, and commits them before the next piece begins.
//! The client gets one number. If a redrive ends early (an error, a crash, the end of its connection), what was moved
//! stays moved, and another QREDRIVE moves the rest. The error says how many were moved.
//!
//! Such a request travels alone in its bundle: a later piece may be refused (`BUSY`), which takes back all answers of
//! the bundle.

use std::io::Write as _;

use posthaste_wire::encode::Encoder;
use posthaste_wire::operation::{LIST_PIECE, Operation};
use posthaste_wire::reply::{Reply, Value, decode};

use super::bundle::{Bundle, Request};
use crate::queue::answer::Answer;
use crate::queue::faults;
use crate::queue::rules::Outcome;

/// The pieces of an answer so far, until the answer is complete.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// The encoded entries of a list, without the array headers.
    bytes: Vec<u8>,
    entries: usize,
    /// How many dead letters were moved so far.
    moved: u64,
    /// Whether the request is lined up again for its next piece.
    awaits_next: bool,
}

impl Bundle {
    /// Moves the answer just made into the pieces so far, if it is a piece. Afterwards the bundle either awaits the next
    /// piece or holds its complete answers.
    pub fn absorb_piece(&mut self) {
        self.pieces.awaits_next = match &*self.requests {
            [Request { outcome, operation: Operation::Redrive { .. }, .. }] => {
                let is_error = *outcome == Outcome::Error;
                if is_error { self.add_moved_to_error() } else { self.absorb_redrive_piece() }
            }
            [Request { outcome: Outcome::Ok, .. }] => self.absorb_list_piece(),
            _ => false,
        };
    }

    /// Returns whether the bundle must be lined up again for its next piece, or is. Its stamps stay those of the first
    /// piece.
    #[must_use]
    pub fn awaits_next_piece(&self) -> bool {
        self.pieces.awaits_next
    }

    /// Returns whether there is a next piece.
    fn absorb_redrive_piece(&mut self) -> bool {
        let [Request { operation: Operation::Redrive { after, .. }, .. }] = &mut *self.requests else {
            return false;
        };
        let Some(RedrivePiece { moved, last }) = redrive_piece(&self.answers) else { return false };
        if last.is_none() && self.pieces.moved == 0 {
            return false;
        }
        self.pieces.moved += moved;
        *after = last.unwrap_or(*after);
        self.discard_answers();
        if last.is_none() {
            let moved = std::mem::take(&mut self.pieces.moved);
            let outcome = Answer::new(&mut self.answers, self.protocol).integer(moved);
            self.finish_one(outcome);
        }
        last.is_some()
    }

    /// Adds to an error how many dead letters were moved before it. There is no next piece.
    fn add_moved_to_error(&mut self) -> bool {
        const END: &[u8] = b"\r\n";
        let moved = std::mem::take(&mut self.pieces.moved);
        if moved > 0 {
            let mut error = std::mem::take(&mut self.answers);
            error.truncate(error.len().saturating_sub(END.len()));
            let _ = write!(error, "; {}", faults::moved_before(moved)); // a vector takes all
            error.extend_from_slice(END);
            self.discard_answers();
            self.answers = error;
            self.finish_one(Outcome::Error);
        }
        false
    }

    /// Returns whether there is a next piece.
    fn absorb_list_piece(&mut self) -> bool {
        let [Request { operation, .. }] = &mut *self.requests else { return false };
        let (after, full) = match operation {
            // A full piece needs no mark.
            Operation::ListQueues { after } => (after, LIST_PIECE),
            Operation::Accounts { after } => (after, usize::MAX),
            _ => return false,
        };
        let Some(ListPiece { entries, last, mark_bytes }) = list_piece(&self.answers) else { return false };
        let is_last = entries < full && mark_bytes == 0;
        if is_last && self.pieces.entries == 0 {
            return false;
        }
        let header_bytes = self.answers.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.pieces.entries += entries;
        self.pieces.bytes.extend_from_slice(&self.answers[header_bytes..self.answers.len() - mark_bytes]);
        *after = last.unwrap_or(*after);
        self.discard_answers();
        if is_last {
            let Pieces { bytes, entries, .. } = std::mem::take(&mut self.pieces);
            Encoder::new(&mut self.answers, self.protocol).array(entries);
            self.answers.extend_from_slice(&bytes);
            self.finish_one(Outcome::Ok);
        }
        !is_last
    }
}

/// The contents of one piece of a list.
struct ListPiece {
    entries: usize,
    /// Id after which the next piece begins.
    last: Option<u64>,
    /// Length of the mark at the end that says that more entries follow; 0: no mark.
    mark_bytes: usize,
}

fn list_piece(answer: &[u8]) -> Option<ListPiece> {
    let Reply::Value(piece, _) = decode(answer) else { return None };
    let parts = piece.parts();
    if let Some(last) = parts.last().and_then(Value::as_integer) {
        let mark = answer.iter().rposition(|byte| *byte == b':')?;
        let (entries, last) = (parts.len() - 1, Some(last.cast_unsigned()));
        return Some(ListPiece { entries, last, mark_bytes: answer.len() - mark });
    }
    let id = parts.last().and_then(|entry| entry.get(b"id")).and_then(Value::as_integer);
    Some(ListPiece { entries: parts.len(), last: id.map(i64::cast_unsigned), mark_bytes: 0 })
}

/// The contents of one piece of a redrive.
struct RedrivePiece {
    /// How many dead letters it moved.
    moved: u64,
    /// Id of the last message that it examined; None: no piece follows.
    last: Option<u64>,
}

fn redrive_piece(answer: &[u8]) -> Option<RedrivePiece> {
    let Reply::Value(piece, _) = decode(answer) else { return None };
    let number = |value: &Value<'_>| value.as_integer().map(i64::cast_unsigned);
    match piece.parts() {
        [moved, last] => Some(RedrivePiece { moved: number(moved)?, last: number(last) }),
        _ => Some(RedrivePiece { moved: number(&piece)?, last: None }),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::command::Kind;
    use posthaste_wire::encode::Protocol;
    use posthaste_wire::fault::{Fault, Word};
    use posthaste_wire::span::Span;

    use super::*;
    use crate::path::bundle::Address;
    use crate::queue::answer::QueueView;

    fn asked(protocol: Protocol) -> Bundle {
        let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 1 });
        bundle.protocol = protocol;
        bundle.requests.push(Request::new(Operation::ListQueues { after: 0 }, Kind::List, 0));
        bundle
    }

    /// Answers like a store that has queues of these numbers.
    fn answer(bundle: &mut Bundle, queues: &[u64]) {
        let (ask, mut answer) = bundle.next_ask().expect("it is not answered");
        let Operation::ListQueues { after } = *ask.operation else { panic!("a list") };
        let piece: Vec<u64> = queues.iter().copied().filter(|id| *id > after).take(LIST_PIECE).collect();
        answer.array(piece.len());
        for id in piece {
            let name = id.to_string();
            let view = QueueView { name: name.as_bytes(), id, messages: 0, bytes: 0, oldest_ms: 0 };
            answer.queue(&view, None);
        }
        bundle.finish_one(Outcome::Ok);
    }

    #[test]
    fn a_list_is_whole_whatever_its_length() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            for len in [0, 1, LIST_PIECE - 1, LIST_PIECE, LIST_PIECE + 1, 3 * LIST_PIECE, 3 * LIST_PIECE + 7]
            {
                let queues: Vec<u64> = (1..=len as u64).map(|n| 3 * n).collect();
                let mut bundle = asked(protocol);
                let mut turns = 0;
                while {
                    answer(&mut bundle, &queues);
                    turns += 1;
                    bundle.absorb_piece();
                    bundle.awaits_next_piece()
                } {
                    assert!(!bundle.is_done() && bundle.answers.is_empty(), "nothing is answered yet");
                }
                assert_eq!(turns, len / LIST_PIECE + 1);
                assert!(bundle.is_done());
                assert_eq!(bundle.requests[0].answer_bytes as usize, bundle.answers.len());
                let Reply::Value(list, used) = decode(&bundle.answers) else { panic!("one reply") };
                assert_eq!(used, bundle.answers.len());
                let id = |queue: &Value<'_>| queue.get(b"id").and_then(Value::as_integer);
                let ids: Vec<u64> = list.parts().iter().filter_map(id).map(i64::cast_unsigned).collect();
                assert_eq!(ids, queues);
            }
        }
    }

    #[test]
    fn a_store_may_end_a_piece_early_and_say_so() {
        let mut bundle = asked(Protocol::Resp3);
        for (ids, has_next) in [(&[3_u64, 5][..], true), (&[8], true), (&[], false)] {
            let (_, mut answer) = bundle.next_ask().expect("it is not answered");
            answer.array(ids.len() + usize::from(has_next));
            for id in ids {
                let view = QueueView { name: b"q", id: *id, messages: 0, bytes: 0, oldest_ms: 0 };
                answer.queue(&view, None);
            }
            if has_next {
                answer.integer(ids[ids.len() - 1]);
            }
            bundle.finish_one(Outcome::Ok);
            bundle.absorb_piece();
            assert_eq!(bundle.awaits_next_piece(), has_next);
            let after = |operation: &Operation| matches!(operation, Operation::ListQueues { after } if Some(after) == ids.last());
            assert!(!has_next || after(&bundle.requests[0].operation));
        }
        let Reply::Value(list, used) = decode(&bundle.answers) else { panic!("one reply") };
        let ids = list.parts().iter().filter_map(|queue| queue.get(b"id").and_then(Value::as_integer));
        assert_eq!((ids.collect::<Vec<_>>(), used), (vec![3, 5, 8], bundle.answers.len()));
    }

    #[test]
    fn a_redrive_counts_what_all_its_pieces_moved() {
        for (pieces, expected) in [
            (&[][..], "7"),
            (&[[10_000, 10_000]], "10007"),
            (&[[0, 10_000], [0, 20_000]], "7"),
            (&[[10_000, 12_000], [0, 30_000], [5, 40_000]], "10012"),
        ] {
            let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 1 });
            let operation = Operation::Redrive { from: Span::default(), to: None, after: 0 };
            bundle.requests.push(Request::new(operation, Kind::Redrive, 0));
            let mut before = 0;
            for &[moved, last] in pieces {
                assert_eq!(resumes_after(&mut bundle), before);
                let (_, mut answer) = bundle.next_ask().expect("it is not answered");
                answer.array(2);
                answer.integer(moved);
                let outcome = answer.integer(last);
                bundle.finish_one(outcome);
                bundle.absorb_piece();
                assert!(bundle.awaits_next_piece() && !bundle.is_done() && bundle.answers.is_empty());
                before = last;
            }
            assert_eq!(resumes_after(&mut bundle), before);
            let outcome = bundle.next_ask().expect("the last piece").1.integer(7);
            bundle.finish_one(outcome);
            bundle.absorb_piece();
            assert!(bundle.is_done() && !bundle.awaits_next_piece());
            assert_eq!(bundle.answers, format!(":{expected}\r\n").as_bytes());
            assert_eq!(bundle.requests[0].answer_bytes as usize, bundle.answers.len());
        }
    }

    /// Id of the message after which the redrive resumes.
    fn resumes_after(bundle: &mut Bundle) -> u64 {
        let (ask, _) = bundle.next_ask().expect("it is not answered");
        let Operation::Redrive { after, .. } = *ask.operation else { panic!("a redrive") };
        after
    }

    /// What failed is not the whole, and the client must learn that.
    #[test]
    fn an_error_of_a_redrive_says_how_many_were_moved_before() {
        let rest = "; at least 7 messages were moved; ask again for the rest";
        for (moved, rest) in [(0, ""), (7, rest)] {
            let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 1 });
            let operation = Operation::Redrive { from: Span::default(), to: None, after: 0 };
            bundle.requests.push(Request::new(operation, Kind::Redrive, 0));
            let (_, mut answer) = bundle.next_ask().expect("it is not answered");
            answer.array(2);
            answer.integer(moved);
            let outcome = answer.integer(10_000);
            bundle.finish_one(outcome);
            bundle.absorb_piece();
            bundle.refuse_all(&Fault::new(Word::Busy, "try again"));
            bundle.absorb_piece();
            assert!(!bundle.awaits_next_piece() && bundle.is_done());
            assert_eq!(String::from_utf8_lossy(&bundle.answers), format!("-BUSY try again{rest}\r\n"));
            assert_eq!(bundle.requests[0].answer_bytes as usize, bundle.answers.len());
        }
    }

    /// Of the names that a store looks at in one piece, few may be listed, or none.
    #[test]
    fn a_list_of_accounts_goes_on_as_long_as_the_store_says_so() {
        let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 1 });
        bundle.requests.push(Request::new(Operation::Accounts { after: 0 }, Kind::Accounts, 0));
        for (ids, next) in [(&[][..], Some(2)), (&[3, 4], Some(4)), (&[], Some(6)), (&[8], None)] {
            let (_, mut answer) = bundle.next_ask().expect("it is not answered");
            answer.array(ids.len() + usize::from(next.is_some()));
            ids.iter().for_each(|id| answer.account(b"ann", *id));
            if let Some(next) = next {
                answer.integer(next);
            }
            bundle.finish_one(Outcome::Ok);
            bundle.absorb_piece();
            assert_eq!(bundle.awaits_next_piece(), next.is_some());
            let resumes = |operation: &Operation| matches!(operation, Operation::Accounts { after } if Some(*after) == next);
            assert!(next.is_none() || resumes(&bundle.requests[0].operation));
        }
        let Reply::Value(list, used) = decode(&bundle.answers) else { panic!("one reply") };
        let ids = list.parts().iter().filter_map(|account| account.get(b"id").and_then(Value::as_integer));
        assert_eq!((ids.collect::<Vec<_>>(), used), (vec![3, 4, 8], bundle.answers.len()));
    }

    #[test]
    fn a_refusal_in_the_middle_is_the_answer() {
        let queues: Vec<u64> = (1..=2 * LIST_PIECE as u64).collect();
        let mut bundle = asked(Protocol::Resp3);
        answer(&mut bundle, &queues);
        bundle.absorb_piece();
        assert!(bundle.awaits_next_piece());
        bundle.refuse_all(&Fault::new(Word::Busy, "the waiting line is full; try again"));
        bundle.absorb_piece();
        assert!(!bundle.awaits_next_piece());
        assert!(bundle.answers.starts_with(b"-BUSY"));
    }
}
