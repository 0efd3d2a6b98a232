//! Reports single requests once their answer is written: slow ones to the log, those of traced messages to the
//! collector. Without `--slow` and `--traces` nothing is examined.

use posthaste_measure::{Noted, Trail};
use posthaste_wire::command::Kind;

use super::bundle::{Bundle, Request, RequestName, ending};
use crate::clients::Clients;
use crate::queue_shared::QueueShared;
use crate::slow::{SlowLog, SlowRequest};
use crate::trace::{TracedRequest, Tracer};

/// Reports the requests of a bundle, all of whose stamps are taken.
pub(super) fn report(shared: &QueueShared, bundle: &mut Bundle) {
    if let Some(slow) = &shared.slow {
        for (index, request) in bundle.requests.iter().enumerate() {
            report_if_slow(slow, &shared.clients, bundle, index, request);
        }
    }
    if let Some(tracer) = &shared.tracer {
        report_traced(tracer, bundle);
    }
}

fn report_traced(tracer: &Tracer, bundle: &mut Bundle) {
    for message in std::mem::take(&mut bundle.traced_messages) {
        let Some(request) = bundle.requests.get(message.request_index) else { continue };
        let name = bundle.request_name(message.request_index).to_string();
        tracer.enqueue(TracedRequest { message, request: name, stamps: request.stamps });
    }
}

fn report_if_slow(log: &SlowLog, clients: &Clients, bundle: &Bundle, index: usize, request: &Request) {
    let trail = Trail::from(request.stamps);
    if !log.is_slow(trail.response()) {
        return;
    }
    let queue = request.operation.queue();
    let traced = bundle.traced_messages.iter().find(|message| message.request_index == index);
    log.log(SlowRequest {
        queue: queue.map(|queue| String::from_utf8_lossy(queue.of(&bundle.bytes)).into_owned()),
        kind: request.kind.name(),
        ending: ending(request.outcome),
        trail,
        reported_ns: bundle.reported_ns,
        trace: traced.map(|message| message.parent.trace_name()),
        request_bytes: request.request_bytes,
        answer_bytes: request.answer_bytes,
        ..report_of(clients, bundle.request_name(index))
    });
}

/// Reports a request that was answered on the spot, if it was slow.
pub(super) fn report_if_slow_at_once(log: &SlowLog, clients: &Clients, name: RequestName, noted: &Noted) {
    if log.is_slow(noted.trail.response()) {
        log.log(SlowRequest {
            kind: Kind::NAMES.get(usize::from(noted.kind)).copied().unwrap_or_default(),
            ending: noted.ending,
            trail: noted.trail,
            request_bytes: noted.request_bytes,
            answer_bytes: noted.answer_bytes,
            ..report_of(clients, name)
        });
    }
}

/// Returns a report with the request's name and its client, as far as that is still connected.
fn report_of(clients: &Clients, name: RequestName) -> SlowRequest {
    let client = clients.get(name.client);
    SlowRequest {
        peer: client.as_ref().map(|client| client.peer.clone()),
        account: client.map(|client| client.details().account.clone()),
        ..SlowRequest::of(name.to_string())
    }
}
