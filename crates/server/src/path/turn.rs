//! What a connection may use while it is served: the buffers and lists of its thread, and nothing of other connections.

use posthaste_measure::Clock;
use posthaste_wire::command::Kind;
use posthaste_wire::encode::Protocol;
use posthaste_wire::span::Span;

use super::bundle::{Address, Bundle, RequestName, length};
use super::limits;
use crate::clients::Client;
use crate::front::buffers::Buffers;
use crate::front::slots::Slots;
use crate::queue::rules::{AccountId, Outcome};
use crate::queue_shared::{Entrance, QueueShared};

/// The buffers and lists of a thread, kept from turn to turn so that nothing is allocated in the steady state.
#[derive(Default)]
pub(super) struct Workspace {
    /// Unused bundles.
    pub(super) bundles: Vec<Box<Bundle>>,
    /// Bundles to be lined up at the end of the turn.
    pub(super) outgoing: Vec<Box<Bundle>>,
    /// Connections that have something to write.
    pub(super) touched: Slots,
    /// Requests answered on the spot in this turn.
    pub(super) at_once: Vec<AnsweredAtOnce>,
    /// Connections that log in, with the names of their accounts.
    pub(super) logins: Vec<(Address, Vec<u8>)>,
    args: Vec<Span>,
    buffers: Buffers,
}

/// A request that was answered on the spot, until its answer is written.
pub(super) struct AnsweredAtOnce {
    pub(super) kind: Kind,
    pub(super) outcome: Outcome,
    pub(super) id: RequestName,
    pub(super) request_bytes: u32,
    pub(super) answer_bytes: u32,
    /// Stamp at which the request was whole.
    pub(super) received: u64,
    /// Stamp at which it was answered; 0: not taken yet.
    pub(super) answered: u64,
}

/// The lengths of a request and its answer in bytes.
pub(super) struct Lengths {
    pub(super) request: usize,
    pub(super) answer: usize,
}

/// What a connection may use while it is served in a turn of its network thread.
pub struct Turn<'a> {
    /// What the threads of the tier share.
    pub shared: &'a QueueShared,
    /// Stamp at which the requests at hand were whole.
    pub parsed_at: u64,
    /// Space for the arguments of one request.
    pub args: &'a mut Vec<Span>,
    /// Bundles to be lined up at the end of the turn.
    pub outgoing: &'a mut Vec<Box<Bundle>>,
    /// Buffers for answers.
    pub buffers: &'a mut Buffers,
    bundles: &'a mut Vec<Box<Bundle>>,
    touched: &'a mut Slots,
    pub(super) at_once: &'a mut Vec<AnsweredAtOnce>,
    logins: &'a mut Vec<(Address, Vec<u8>)>,
}

impl Turn<'_> {
    /// Returns an empty bundle, reused if possible.
    pub fn bundle(&mut self, address: Address, account: AccountId, protocol: Protocol) -> Box<Bundle> {
        let mut bundle = self.bundles.pop().unwrap_or_else(|| Box::new(Bundle::new(address)));
        (bundle.address, bundle.account, bundle.protocol) = (address, account, protocol);
        if bundle.answers.capacity() == 0 {
            bundle.answers = self.buffers.take();
        }
        bundle
    }

    /// Notes that the connection in this slot has something to write.
    pub fn wrote(&mut self, slot: usize) {
        self.touched.add(slot);
    }

    /// Records a request that was answered on the spot.
    pub(super) fn answered_at_once(&mut self, id: RequestName, kind: Kind, outcome: Outcome, bytes: Lengths) {
        self.at_once.push(AnsweredAtOnce {
            kind,
            outcome,
            id,
            request_bytes: length(bytes.request),
            answer_bytes: length(bytes.answer),
            received: self.parsed_at,
            answered: 0,
        });
    }

    /// Begins a login: the secret is checked first where accounts are closed.
    pub fn log_in(&mut self, client: &Client, account: &[u8], secret: &[u8]) {
        match &self.shared.entrance {
            Entrance::Open(_) => self.logins.push((client.address, account.to_vec())),
            Entrance::Closed(authenticator) => {
                authenticator.request_check(client.address, client.origin, account, secret);
            }
        }
    }
}

impl Workspace {
    /// Keeps a bundle that is done with, for reuse. It is emptied now: bundles at the bottom of the stack may never be
    /// used again, and would hold the memory of a large request for good.
    pub(super) fn keep(&mut self, mut bundle: Box<Bundle>) {
        if self.bundles.len() < limits::SPARE_BUNDLES {
            bundle.reset(limits::BUFFER_BYTES_KEPT);
            self.bundles.push(bundle);
        }
    }

    /// Lends the workspace for one turn.
    pub(super) fn turn<'a>(&'a mut self, shared: &'a QueueShared) -> Turn<'a> {
        Turn {
            shared,
            parsed_at: 0,
            args: &mut self.args,
            outgoing: &mut self.outgoing,
            buffers: &mut self.buffers,
            bundles: &mut self.bundles,
            touched: &mut self.touched,
            at_once: &mut self.at_once,
            logins: &mut self.logins,
        }
    }
}

/// Stamps all requests that a connection was answered in one go with one reading of the clock, which costs more than
/// some answers.
pub(super) fn stamp_answered(at_once: &mut [AnsweredAtOnce], clock: Clock) {
    if !at_once.is_empty() {
        let answered = clock.stamp();
        at_once.iter_mut().for_each(|done| done.answered = answered);
    }
}

#[cfg(test)]
mod tests {
    use posthaste_wire::operation::Operation;

    use super::*;
    use crate::path::bundle::Request;

    #[test]
    fn what_a_large_request_needed_is_given_back_though_its_bundle_is_not_used_again() {
        let mut workspace = Workspace::default();
        let mut bundle = Box::new(Bundle::new(Address { thread: 0, slot: 0, client: 1 }));
        bundle.requests.push(Request::new(Operation::Readable { not_own: false }, Kind::Session, 1));
        (bundle.bytes, bundle.answers) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        workspace.keep(bundle);
        let [kept] = &*workspace.bundles else { panic!("it is kept") };
        assert!(kept.requests.is_empty() && kept.bytes.is_empty() && kept.answers.is_empty());
        let held = kept.bytes.capacity() + kept.answers.capacity();
        assert!(held <= 2 * limits::BUFFER_BYTES_KEPT, "{held} bytes");
    }
}
