//! Reports single requests once their answer is written: slow ones to the log, those of traced messages to the
//! collector. Without `--slow` and `--traces` nothing is looked at.

use posthaste_measure::{Noted, Trail};
use posthaste_wire::command::Kind;

use super::bundle::{Bundle, Request, RequestName, ending};
use crate::clients::Clients;
use crate::queue_shared::QueueShared;
use crate::slow::{SlowLog, SlowRequest};
use crate::trace::{Ended, Tracer};

/// Reports the requests of a bundle, all of whose stamps are taken.
pub(super) fn report(shared: &QueueShared, bundle: &mut Bundle) {
    if let Some(slow) = &shared.slow {
        for (place, request) in bundle.requests.iter().enumerate() {
            report_slow_of(slow, &shared.clients, bundle, place, request);
        }
    }
    if let Some(tracer) = &shared.tracer {
        report_traced(tracer, bundle);
    }
}

fn report_traced(tracer: &Tracer, bundle: &mut Bundle) {
    for passage in std::mem::take(&mut bundle.passages) {
        let Some(request) = bundle.requests.get(passage.place) else { continue };
        let id = bundle.id(passage.place).to_string();
        tracer.take(Ended { passage, request: id, stamps: request.stamps });
    }
}

fn report_slow_of(log: &SlowLog, clients: &Clients, bundle: &Bundle, place: usize, request: &Request) {
    let trail = Trail::from(request.stamps);
    if !log.is_slow(trail.response()) {
        return;
    }
    let queue = request.operation.queue();
    let trace = bundle.passages.iter().find(|passage| passage.place == place);
    log.log(SlowRequest {
        queue: queue.map(|queue| String::from_utf8_lossy(queue.of(&bundle.bytes)).into_owned()),
        kind: request.kind.name(),
        ending: ending(request.outcome),
        trail,
        told_ns: bundle.told_ns,
        trace: trace.map(|passage| passage.parent.trace_name()),
        request_bytes: request.request_bytes,
        answer_bytes: request.answer_bytes,
        ..about(clients, bundle.id(place))
    });
}

/// Reports a request that was answered on the spot, if it was slow.
pub(super) fn report_slow(log: &SlowLog, clients: &Clients, id: RequestName, noted: &Noted) {
    if log.is_slow(noted.trail.response()) {
        log.log(SlowRequest {
            kind: Kind::NAMES.get(usize::from(noted.kind)).copied().unwrap_or_default(),
            ending: noted.ending,
            trail: noted.trail,
            request_bytes: noted.request_bytes,
            answer_bytes: noted.answer_bytes,
            ..about(clients, id)
        });
    }
}

/// Returns a report with the request's name and its client, as far as that is still connected.
fn about(clients: &Clients, id: RequestName) -> SlowRequest {
    let client = clients.get(id.client);
    SlowRequest {
        peer: client.as_ref().map(|client| client.peer.clone()),
        account: client.map(|client| client.details().account.clone()),
        ..SlowRequest::of(id.to_string())
    }
}
