//! Traces: a message with a W3C `traceparent` header produces spans of its way through this tier.
//!
//! A SEND of such a message is a span under the sender's; a POP that returns it is another one in the same trace; each
//! has its stages below it. This happens only with `--traces`; a request without such a header costs one search of its
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

/// What a request did with a traced message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The message was sent.
    Send,
    /// The message was returned by a POP.
    Receive,
}

/// The stored message or messages that a traced message became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredAs {
    /// The message with this id.
    Message(u64),
    /// So many copies, whose ids the answer does not contain.
    Copies(u64),
}

/// A message with a trace that an answered request sent or returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedMessage {
    /// Index of the request in its bundle.
    pub request_index: usize,
    /// What the request did with it.
    pub action: Action,
    /// The trace, and the parent span.
    pub parent: Context,
    /// The message's id, or the number of its copies.
    pub stored_as: StoredAs,
    /// The message's queue.
    pub queue: String,
    /// Length of the message's body in bytes.
    pub body_bytes: usize,
}

/// A traced message with the request that has ended.
#[derive(Clone, Debug)]
pub struct TracedRequest {
    /// The message.
    pub message: TracedMessage,
    /// The request's name: the client's number and its own.
    pub request: String,
    /// When the request passed each station.
    pub stamps: Stamps,
}

/// Returns the traced messages that an answered bundle sent or received.
#[must_use]
pub fn traced_messages(bundle: &Bundle) -> Vec<TracedMessage> {
    let mut found = Vec::new();
    let mut at = 0;
    for (request_index, request) in bundle.requests.iter().enumerate() {
        let end = at + request.answer_bytes as usize;
        let answer = bundle.answers.get(at..end).unwrap_or_default();
        at = end;
        if request.outcome == Outcome::Ok {
            find_messages(request_index, request, &bundle.bytes, answer, &mut found);
        }
    }
    found
}

/// Adds the traced messages of a request to `found`.
fn find_messages(
    request_index: usize,
    request: &Request,
    bytes: &[u8],
    answer: &[u8],
    found: &mut Vec<TracedMessage>,
) {
    match &request.operation {
        Operation::Send(send) => {
            let header = send.headers.iter().find(|(name, _)| name.of(bytes).eq_ignore_ascii_case(HEADER));
            let Some(parent) = header.and_then(|(_, value)| Context::parse(value.of(bytes))) else { return };
            let Reply::Value(Value::Integer(number), _) = decode(answer) else { return };
            let number = number.unsigned_abs();
            let stored_as = match send.to {
                Recipient::Everyone => StoredAs::Copies(number),
                Recipient::Anyone | Recipient::Account(_) => StoredAs::Message(number),
            };
            found.push(TracedMessage {
                request_index,
                action: Action::Send,
                parent,
                stored_as,
                queue: text(send.queue.of(bytes)),
                body_bytes: send.body.of(bytes).len(),
            });
        }
        Operation::Pop(_) if may_contain_headers(answer) => {
            let Reply::Value(answer, _) = decode(answer) else { return };
            let is_single = answer.get(b"id").is_some();
            let messages = if is_single { std::slice::from_ref(&answer) } else { answer.parts() };
            found.extend(messages.iter().filter_map(|message| received(request_index, message)));
        }
        _ => {}
    }
}

/// Returns the traced message in an answer to a POP; None: the message has no trace.
fn received(request_index: usize, message: &Value<'_>) -> Option<TracedMessage> {
    let bytes = |name: &[u8]| message.get(name).and_then(Value::as_bytes).unwrap_or_default();
    let parent = Context::parse(header_of(message.get(b"headers")?)?)?;
    Some(TracedMessage {
        request_index,
        action: Action::Receive,
        parent,
        stored_as: StoredAs::Message(message.get(b"id")?.as_integer()?.unsigned_abs()),
        queue: text(bytes(b"queue")),
        body_bytes: bytes(b"body").len(),
    })
}

/// Finds the header in a map, or in a flat array of names and values; names are compared as in HTTP, ignoring case.
fn header_of<'a>(headers: &Value<'a>) -> Option<&'a [u8]> {
    let is_traceparent =
        |name: &Value<'_>| name.as_bytes().is_some_and(|name| name.eq_ignore_ascii_case(HEADER));
    match headers {
        Value::Map(pairs) => pairs.iter().find(|(name, _)| is_traceparent(name))?.1.as_bytes(),
        Value::Array(parts) => parts.chunks_exact(2).find(|pair| is_traceparent(&pair[0]))?[1].as_bytes(),
        _ => None,
    }
}

/// Returns whether an answer may contain a message's headers (a body may contain the same bytes). Most answers contain
/// none, and bodies may be long, so no more than this is done for them.
fn may_contain_headers(answer: &[u8]) -> bool {
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
            let message = TracedMessage {
                request_index: 2,
                action: Action::Send,
                parent,
                stored_as: StoredAs::Message(2),
                queue: "q".into(),
                body_bytes: 3,
            };
            assert_eq!(traced_messages(&sent), std::slice::from_ref(&message));
            let got = answered(&mut store, protocol, &[&["POP", "QUEUE", "q", "COUNT", "10"]]);
            assert_eq!(
                traced_messages(&got),
                [TracedMessage { request_index: 0, action: Action::Receive, ..message.clone() }]
            );
            answered(&mut store, protocol, &[&["SEND", "q", "two", "HEADER", "traceparent", PARENT]]);
            let got = answered(&mut store, protocol, &[&["POP", "QUEUE", "q"], &["POP", "QUEUE", "q"]]);
            assert_eq!(
                traced_messages(&got),
                [TracedMessage {
                    request_index: 0,
                    action: Action::Receive,
                    stored_as: StoredAs::Message(4),
                    ..message
                }]
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
            let messages: Vec<StoredAs> =
                traced_messages(&got).iter().map(|message| message.stored_as).collect();
            assert_eq!(messages, [StoredAs::Message(3)]);
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
        let stored: Vec<StoredAs> = traced_messages(&sent).iter().map(|message| message.stored_as).collect();
        assert_eq!(stored, [StoredAs::Copies(2)]);
    }

    #[test]
    fn an_answer_that_was_taken_back_leaves_no_trace() {
        let mut store = Memory::new(1);
        let requests: &[&[&str]] = &[&["QCREATE", "q"], &["SEND", "q", "x", "HEADER", "traceparent", PARENT]];
        let mut bundle = answered(&mut store, Protocol::Resp2, requests);
        let fault = posthaste_wire::fault::Fault::new(posthaste_wire::fault::Word::Store, "no");
        bundle.refuse_all(&fault);
        assert_eq!(traced_messages(&bundle), []);
    }
}
