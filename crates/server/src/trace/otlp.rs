//! Spans in OTLP's JSON, as `POST /v1/traces` of an OpenTelemetry collector accepts them: ids in base16, times and other
//! 64-bit numbers as texts. Names of attributes are those of OpenTelemetry's conventions for messaging.

use posthaste_measure::{Clock, Trail};
use serde_json::{Value as Json, json};

use super::{Action, Context, StoredAs, TracedRequest};
use crate::info::VERSION;

/// Kinds of spans, by OTLP's numbers.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;

const STAGES: [&str; 5] = ["parse", "waiting", "dispatch", "service", "reply"];

/// Returns the body of an HTTP request that exports these requests. `id` gives each span a number that no other has.
pub fn export(requests: &[TracedRequest], clock: Clock, mut id: impl FnMut() -> u64) -> Json {
    let spans: Vec<Json> = requests.iter().flat_map(|request| spans(request, clock, &mut id)).collect();
    json!({
        "resourceSpans": [{
            "resource": {
                "attributes": [text("service.name", "posthaste"), text("service.version", VERSION)],
            },
            "scopeSpans": [{ "scope": { "name": "posthaste", "version": VERSION }, "spans": spans }],
        }],
    })
}

/// Returns the span of a request, and one for each stage that took time.
fn spans(traced: &TracedRequest, clock: Clock, id: &mut impl FnMut() -> u64) -> Vec<Json> {
    let TracedRequest { message, request, stamps } = traced;
    let trail = Trail::from(*stamps);
    let own = Context { span: id(), ..message.parent };
    let (operation, kind) = match message.action {
        Action::Send => ("send", "send"),
        Action::Receive => ("pop", "receive"),
    };
    let mut whole = span(message.parent, own.span, SERVER, stamps.received, trail.response(), clock);
    whole["name"] = format!("{kind} {}", message.queue).into();
    whole["attributes"] = json!([
        text("messaging.system", "posthaste"),
        text("messaging.operation.name", operation),
        text("messaging.operation.type", kind),
        text("messaging.destination.name", &message.queue),
        match message.stored_as {
            StoredAs::Message(id) => text("messaging.message.id", &id.to_string()),
            StoredAs::Copies(count) => number("messaging.batch.message_count", count),
        },
        number("messaging.message.body.size", message.body_bytes as u64),
        text("posthaste.request", request),
    ]);
    let mut all = vec![whole];
    let mut start = stamps.received;
    for (name, length) in STAGES.into_iter().zip(trail.stages()) {
        if length > 0 {
            let mut stage = span(own, id(), INTERNAL, start, length, clock);
            stage["name"] = name.into();
            all.push(stage);
        }
        start += length;
    }
    all
}

/// Returns a span without a name, below `parent`.
fn span(parent: Context, id: u64, kind: u8, start: u64, length: u64, clock: Clock) -> Json {
    let start = clock.started_unix_ns() + start;
    json!({
        "traceId": parent.trace_name(),
        "spanId": format!("{id:016x}"),
        "parentSpanId": format!("{:016x}", parent.span),
        "kind": kind,
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": (start + length).to_string(),
    })
}

fn text(key: &str, value: &str) -> Json {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Json {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use posthaste_measure::Stamps;

    use super::super::TracedMessage;
    use super::*;

    #[test]
    fn the_stages_lie_below_their_request_one_after_another() {
        let parent = Context { trace: 0xabc, span: 7 };
        let message = TracedMessage {
            request_index: 0,
            action: Action::Receive,
            parent,
            stored_as: StoredAs::Message(5),
            queue: "q".into(),
            body_bytes: 3,
        };
        let stamps = Stamps { received: 10, enqueued: 11, dequeued: 13, sent: 13, answered: 25, replied: 41 };
        let traced = TracedRequest { message, request: "1-2".into(), stamps };
        let clock = Clock::start();
        let mut last = 0;
        let export = export(&[traced], clock, || {
            last += 1;
            last
        });
        let spans = &export["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let at = |place: usize, name: &str| {
            let ns: u64 = spans[place][name].as_str().and_then(|ns| ns.parse().ok()).expect("a time");
            ns - clock.started_unix_ns()
        };
        let shown: Vec<(&str, u64, u64)> = (0..5)
            .map(|place| {
                let name = spans[place]["name"].as_str().expect("a name");
                (name, at(place, "startTimeUnixNano"), at(place, "endTimeUnixNano"))
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("receive q", 10, 41),
                ("parse", 10, 11),
                ("waiting", 11, 13),
                ("service", 13, 25),
                ("reply", 25, 41)
            ]
        );
        assert_eq!(spans[0]["parentSpanId"], "0000000000000007");
        for place in 1..5 {
            assert_eq!(spans[place]["parentSpanId"], spans[0]["spanId"]);
            assert_eq!(spans[place]["traceId"], format!("{:032x}", 0xabc));
        }
    }

    #[test]
    fn a_message_has_an_id_and_copies_have_a_number() {
        let parent = Context { trace: 0xabc, span: 7 };
        for (stored_as, named) in [
            (StoredAs::Message(5), text("messaging.message.id", "5")),
            (StoredAs::Copies(5), number("messaging.batch.message_count", 5)),
        ] {
            let message = TracedMessage {
                request_index: 0,
                action: Action::Send,
                parent,
                stored_as,
                queue: "q".into(),
                body_bytes: 3,
            };
            let traced = TracedRequest { message, request: "1-2".into(), stamps: Stamps::default() };
            let export = export(&[traced], Clock::start(), || 1);
            let span = &export["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
            let attributes = span["attributes"].as_array().expect("attributes");
            let which = ["messaging.message.id", "messaging.batch.message_count"];
            let found: Vec<&Json> =
                attributes.iter().filter(|one| which.iter().any(|key| one["key"] == *key)).collect();
            assert_eq!(found, [&named]);
        }
    }
}
