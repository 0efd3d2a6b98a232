//! Traces: a message with a W3C `traceparent` header produces spans of its way through this tier.
//!
//! A SEND of such a message is a span under the sender's; a POP that returns it is another one in the same trace; each
//! has its stages below it. This happens only with `--traces`; a request without such a header pays for one look at its
//! headers. Spans are made and sent by a thread of their own; when it cannot keep up they are left out and counted: a
//! trace is not worth delaying a request.

pub mod context;
pub mod exporter;
pub mod otlp;

use posthaste_measure::Stamps;
use posthaste_wire::operation::{Operation, Recipient};
use posthaste_wire::reply::{Reply, Value, decode};

pub use self::context::Context;
pub use self::exporter::Tracer;
use crate::path::bundle::{Bundle, Request};
use crate::queue::rules::Outcome;

/// Name of the header.
pub const HEADER: &[u8] = b"traceparent";

/// What was done with a message that has a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message was sent.
    Send,
    /// The message was returned by a POP.
    Receive,
}

/// Which message it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The message with this id.
    One(u64),
    /// So many copies, whose ids the answer does not contain.
    Copies(u64),
}

/// A message with a trace in a request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Index of the request in its bundle.
    pub place: usize,
    /// What was done.
    pub step: Step,
    /// The trace, and the parent span.
    pub parent: Context,
    /// Which message.
    pub message: Message,
    /// The message's queue.
    pub queue: String,
    /// Length of the message's body in bytes.
    pub body_bytes: usize,
}

/// A passage whose request has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What was done.
    pub passage: Passage,
    /// The request's name: the client's number and its own.
    pub request: String,
    /// When the request passed each station.
    pub stamps: Stamps,
}

/// Returns the traced messages that an answered bundle sent or received.
#[must_use]
pub fn passages(bundle: &Bundle) -> Vec<Passage> {
    let mut found = Vec::new();
    let mut at = 0;
    for (place, request) in bundle.requests.iter().enumerate() {
        let end = at + request.answer_bytes as usize;
        let answer = bundle.answers.get(at..end).unwrap_or_default();
        at = end;
        if request.outcome == Outcome::Ok {
            look(place, request, &bundle.bytes, answer, &mut found);
        }
    }
    found
}

fn look(place: usize, request: &Request, bytes: &[u8], answer: &[u8], found: &mut Vec<Passage>) {
    match &request.operation {
        Operation::Send(send) => {
            let header = send.headers.iter().find(|(name, _)| name.of(bytes).eq_ignore_ascii_case(HEADER));
            let Some(parent) = header.and_then(|(_, value)| Context::parse(value.of(bytes))) else { return };
            let Reply::Value(Value::Integer(number), _) = decode(answer) else { return };
            let number = number.unsigned_abs();
            let message = match send.to {
                Recipient::Everyone => Message::Copies(number),
                Recipient::Anyone | Recipient::Account(_) => Message::One(number),
            };
            found.push(Passage {
                place,
                step: Step::Send,
                parent,
                message,
                queue: text(send.queue.of(bytes)),
                body_bytes: send.body.of(bytes).len(),
            });
        }
        Operation::Pop(_) if may_hold_headers(answer) => {
            let Reply::Value(answer, _) = decode(answer) else { return };
            let one = std::slice::from_ref(&answer);
            let messages = if answer.get(b"id").is_some() { one } else { answer.parts() };
            found.extend(messages.iter().filter_map(|message| received(place, message)));
        }
        _ => {}
    }
}

fn received(place: usize, message: &Value<'_>) -> Option<Passage> {
    let bytes = |name: &[u8]| message.get(name).and_then(Value::as_bytes).unwrap_or_default();
    let parent = Context::parse(header_of(message.get(b"headers")?)?)?;
    Some(Passage {
        place,
        step: Step::Receive,
        parent,
        message: Message::One(message.get(b"id")?.as_integer()?.unsigned_abs()),
        queue: text(bytes(b"queue")),
        body_bytes: bytes(b"body").len(),
    })
}

/// Finds the header in a map, or in a flat array of names and values; names are compared as in HTTP, ignoring case.
fn header_of<'a>(headers: &Value<'a>) -> Option<&'a [u8]> {
    let is_it = |name: &Value<'_>| name.as_bytes().is_some_and(|name| name.eq_ignore_ascii_case(HEADER));
    match headers {
        Value::Map(pairs) => pairs.iter().find(|(name, _)| is_it(name))?.1.as_bytes(),
        Value::Array(parts) => parts.chunks_exact(2).find(|pair| is_it(&pair[0]))?[1].as_bytes(),
        _ => None,
    }
}

/// Returns whether an answer may contain a message's headers (a body may contain the same bytes). Most answers contain
/// none, and bodies may be long, so no more than this is done for them.
fn may_hold_headers(answer: &[u8]) -> bool {
    memchr::memmem::find(answer, b"$7\r\nheaders\r\n").is_some()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use posthaste_wire::command::{Command, Kind, parse};
    use posthaste_wire::decode::{Decoded, Decoder, Limits};
    use posthaste_wire::encode::Protocol;

    use super::*;
    use crate::path::bundle::Address;
    use crate::queue::memory::Memory;
    use crate::queue::rules::{Flow, Rules as _};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// A bundle with these requests, answered by a store.
    fn answered(store: &mut Memory, protocol: Protocol, requests: &[&[&str]]) -> Bundle {
        let mut bundle = Bundle::new(Address { thread: 0, slot: 0, client: 1 });
        bundle.protocol = protocol;
        bundle.account = store.account(b"ann").expect("it holds any");
        for words in requests {
            bundle.bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in *words {
                bundle.bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            }
        }
        let bytes = bundle.bytes.clone();
        let limits = Limits { bulk_bytes: 1000, request_bytes: 10_000, args: 100, inline_bytes: 1000 };
        let mut decoder = Decoder::new(limits);
        let (mut at, mut args) = (0, Vec::new());
        while let Decoded::Request { end } = decoder.decode(&bytes, at, &mut args) {
            let Ok(Command::Store(operation)) = parse(&args, &bytes, 1000) else { break };
            bundle.requests.push(Request::new(operation, Kind::Send, 1));
            at = end;
            args.clear();
            if at == bytes.len() {
                break;
            }
        }
        let mut news = Vec::new();
        while let Some((ask, mut answer)) = bundle.next_ask() {
            let outcome = match store.execute(1, ask, &mut answer, &mut news) {
                Flow::Done(outcome) => outcome,
                Flow::Waits(_) => Outcome::Null,
            };
            bundle.finish_one(outcome);
        }
        bundle
    }

    #[test]
    fn a_message_with_a_trace_is_found_when_it_is_sent_and_when_it_is_handed_out() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut store = Memory::new(1);
            let sent = answered(
                &mut store,
                protocol,
                &[
                    &["QCREATE", "q"],
                    &["SEND", "q", "traceparent"],
                    &["SEND", "q", "two", "HEADER", "a", "b", "HEADER", "Traceparent", PARENT],
                    &["SEND", "q", "three", "HEADER", "traceparent", "nonsense"],
                ],
            );
            let parent = Context::parse(PARENT.as_bytes()).expect("a context");
            let passage = Passage {
                place: 2,
                step: Step::Send,
                parent,
                message: Message::One(2),
                queue: "q".into(),
                body_bytes: 3,
            };
            assert_eq!(passages(&sent), std::slice::from_ref(&passage));
            let got = answered(&mut store, protocol, &[&["POP", "QUEUE", "q", "COUNT", "10"]]);
            assert_eq!(passages(&got), [Passage { place: 0, step: Step::Receive, ..passage.clone() }]);
            answered(&mut store, protocol, &[&["SEND", "q", "two", "HEADER", "traceparent", PARENT]]);
            let got = answered(&mut store, protocol, &[&["POP", "QUEUE", "q"], &["POP", "QUEUE", "q"]]);
            assert_eq!(
                passages(&got),
                [Passage { place: 0, step: Step::Receive, message: Message::One(4), ..passage }]
            );
        }
    }

    #[test]
    fn a_body_that_looks_like_headers_leaves_no_trace_and_hides_none() {
        let body = format!("$7\r\nheaders\r\n%1\r\n$11\r\ntraceparent\r\n$55\r\n{PARENT}\r\n");
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut store = Memory::new(1);
            let sends: &[&[&str]] = &[
                &["QCREATE", "q"],
                &["SEND", "q", &body],
                &["SEND", "q", &body, "HEADER", "other", "traceparent"],
                &["SEND", "q", &body, "HEADER", "TRACEPARENT", PARENT],
            ];
            answered(&mut store, protocol, sends);
            let got = answered(&mut store, protocol, &[&["POP", "QUEUE", "q", "COUNT", "3"]]);
            let messages: Vec<Message> = passages(&got).iter().map(|passage| passage.message).collect();
            assert_eq!(messages, [Message::One(3)]);
        }
    }

    #[test]
    fn the_answer_to_a_message_for_everyone_is_no_id() {
        let mut store = Memory::new(1);
        for name in [b"bob", b"cyn"] {
            store.account(name).expect("it holds any");
        }
        let send = ["SEND", "q", "x", "TO", "*", "HEADER", "traceparent", PARENT];
        let sent = answered(&mut store, Protocol::Resp2, &[&["QCREATE", "q"], &send]);
        let told: Vec<Message> = passages(&sent).iter().map(|passage| passage.message).collect();
        assert_eq!(told, [Message::Copies(2)]);
    }

    #[test]
    fn an_answer_that_was_taken_back_leaves_no_trace() {
        let mut store = Memory::new(1);
        let requests: &[&[&str]] = &[&["QCREATE", "q"], &["SEND", "q", "x", "HEADER", "traceparent", PARENT]];
        let mut bundle = answered(&mut store, Protocol::Resp2, requests);
        let fault = posthaste_wire::fault::Fault::new(posthaste_wire::fault::Word::Store, "no");
        bundle.refuse_all(&fault);
        assert_eq!(passages(&bundle), []);
    }
}
