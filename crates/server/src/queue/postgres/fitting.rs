//! How much goes into one call.
//!
//! A call that takes longer than a reply is waited for is undone as a whole, and would be each time it is tried again.
//! So what may be much work is split into several calls, and the first bundles have their answers first. What a request
//! will do is not known before, so the most it may do counts. Pops that have waited do not count: a moment ago they
//! found nothing, so they find only what has come since. After an outage that may be anything, and they count too.

use posthaste_wire::operation::{Operation, Pop, Recipient, Selection, Send};

use super::parked::Due;
use crate::path::bundle::{Bundle, Request};
use crate::path::limits::BUNDLE_ANSWER_BYTES;

/// Bytes of the requests in one call and of its longer answers, unless a single request's are more. PostgreSQL closes a
/// connection that sends it 1 GiB in one message, and all answers are held in memory at once. The bound is far lower
/// because a call of this size takes so long that one more costs next to nothing.
const CALL_BYTES_MAX: usize = 64 << 20;

/// Messages that one call may write, read or take, unless a single request's are more: some two seconds of work.
const CALL_MESSAGES_MAX: usize = 40_000;

/// Bundles in one call: thousands of pops that look once more must not keep thousands of queues locked at once.
pub(super) const CALL_BUNDLES_MAX: usize = 1024;

/// Bytes assumed for a message in an answer of several: most have less, and such an answer is bounded too.
const BYTES_EACH: usize = 64 << 10;

/// The most work that a request may be for the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    messages: usize,
    bytes: usize,
}

impl Load {
    /// Returns the load of a request, where a message for everyone is stored as `copies` messages.
    fn of(request: &Request, copies: usize) -> Self {
        let bytes = request.request_bytes as usize;
        let written = |messages: usize| Self { messages, bytes };
        let read = |messages: u32| {
            let messages = messages as usize;
            Self { messages, bytes: bytes + BUNDLE_ANSWER_BYTES.min(messages * BYTES_EACH) }
        };
        match &request.operation {
            Operation::Send(Send { to: Recipient::Everyone, .. }) => {
                Self { messages: copies, bytes: bytes.saturating_mul(copies) }
            }
            Operation::SendMany { bodies, .. } => written(bodies.len()),
            Operation::Ack { handles } => written(1 + handles.more.len()),
            Operation::Pop(Pop { select: Selection { count: Some(count), .. }, .. })
            | Operation::Peek(Selection { count: Some(count), .. })
            | Operation::Browse { count, .. } => read(*count),
            _ => written(1),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn is_too_much(self) -> bool {
        self.messages > CALL_MESSAGES_MAX || self.bytes > CALL_BYTES_MAX
    }
}

/// Returns how many bundles, from the first on, go into one call, where a message for everyone is stored as `copies`
/// messages. The first one goes in any case, and those of its requests that are too much are held back. While the store
/// `is_catching_up`, pops that have waited count like any request.
pub(super) fn fitting(due: &mut [Due], copies: usize, is_catching_up: bool) -> usize {
    let mut load = Load::default();
    for (number, Due { seat, bundle }) in due.iter_mut().take(CALL_BUNDLES_MAX).enumerate() {
        if seat.is_some() && !is_catching_up {
            continue;
        }
        let required = usize::from(number == 0);
        if let Some(place) = first_excess(bundle, &mut load, copies, required) {
            if number == 0 {
                bundle.progress.held_back = Some(place);
            }
            return number.max(1);
        }
    }
    due.len().min(CALL_BUNDLES_MAX)
}

/// Adds a bundle's requests to `load`, and returns the place from which they are too much. The first `required` of its
/// open requests go in any case.
fn first_excess(bundle: &Bundle, load: &mut Load, copies: usize, required: usize) -> Option<usize> {
    bundle.pending().find(|&place| {
        *load = load.and(Load::of(&bundle.requests[place], copies));
        load.is_too_much() && place >= bundle.answered + required
    })
}

#[cfg(test)]
mod tests {
    use posthaste_wire::command::Kind;
    use posthaste_wire::span::Span;

    use super::super::parked::Parked;
    use super::super::under_way::Mode;
    use super::*;
    use crate::path::bundle::Address;
    use crate::queue::rules::Interest;

    const QUEUE: Span = Span { start: 0, len: 1 };
    const ACCOUNTS: usize = 10_000;

    fn bundle(operations: Vec<Operation>) -> Due {
        let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 0 });
        bundle.requests = operations.into_iter().map(|one| Request::new(one, Kind::Pop, 0)).collect();
        Due { seat: None, bundle: Box::new(bundle) }
    }

    fn pop(count: u32) -> Operation {
        let select = Selection { queue: Some(QUEUE), count: Some(count), ..Selection::default() };
        Operation::Pop(Pop { select, ..Pop::default() })
    }

    fn to_everyone() -> Operation {
        Operation::Send(Send { to: Recipient::Everyone, ..Send::plain(QUEUE, QUEUE) })
    }

    /// The same pops once they have waited and look.
    fn waited(pops: Vec<Due>) -> Vec<Due> {
        let interest = Interest { reader: 1, queue: Some(7), sender: None, not_own: false, broadcast: false };
        let mut parked = Parked::default();
        let since = parked.begin(Mode::Shared);
        for (mut pop, arrival) in pops.into_iter().zip(0..) {
            pop.bundle.bytes.push(b'q');
            pop.bundle.arrival = arrival;
            assert!(parked.park(pop, interest, 1000, since).is_none());
        }
        parked.end(since);
        parked.wake_all();
        parked.take_woken(usize::MAX)
    }

    /// How many fit, and where the first of them is cut.
    fn fit(mut due: Vec<Due>, copies: usize) -> (usize, Option<usize>) {
        let fit = fitting(&mut due, copies, false);
        (fit, due[0].bundle.progress.held_back)
    }

    #[test]
    fn what_one_connection_asks_is_cut_where_it_becomes_too_much() {
        let sends = |number| bundle((0..number).map(|_| to_everyone()).collect());
        assert_eq!(fit(vec![sends(256)], ACCOUNTS), (1, Some(4)));
        assert_eq!(fit(vec![sends(4)], ACCOUNTS), (1, None));
        assert_eq!(fit(vec![sends(2)], usize::MAX), (1, Some(1)), "nobody knows how many these are");
        assert_eq!(fit(vec![sends(256)], 3), (1, None));
    }

    #[test]
    fn what_several_connections_ask_is_cut_between_them() {
        let pops = |count, number| (0..number).map(|_| bundle(vec![pop(count)])).collect();
        assert_eq!(fit(pops(10_000, 60), 0), (4, None), "by their messages");
        assert_eq!(fit(pops(200, 60), 0), (8, None), "by their answers");
        assert_eq!(fit(pops(1, 256), 0), (256, None));
        assert_eq!(fit(vec![bundle(vec![pop(1)]), bundle(vec![pop(1), pop(50_000)])], 0), (1, None));
    }

    #[test]
    fn pops_that_have_waited_count_only_after_an_outage() {
        let pops = |count| waited((0..60).map(|_| bundle(vec![pop(count)])).collect());
        assert_eq!(fitting(&mut pops(200), 0, false), 60, "they find what has just come");
        assert_eq!(fitting(&mut pops(200), 0, true), 8, "they find what has come meanwhile");
        assert_eq!(fitting(&mut pops(1), 0, true), 60);
    }

    #[test]
    fn a_single_request_goes_however_much_it_is() {
        assert_eq!(fit(vec![bundle(vec![pop(50_000)]), bundle(vec![pop(1)])], 0), (1, None));
        let mut half_done = bundle(vec![pop(1), pop(50_000), pop(1)]);
        half_done.bundle.answered = 1;
        assert_eq!(fit(vec![half_done], 0), (1, Some(2)));
    }
}
