//! The rules by which requests are decided: one file per family of requests.
//!
//! Each rule first looks, and may refuse; then it makes sure that its records fit on the disk; then it records
//! effects and writes its answer, and from there on nothing can fail.

mod accounts;
mod lease;
mod limits;
mod manage;
mod send;
mod show;
mod take;

use std::sync::Arc;

use posthaste_wire::fault::Fault;
use posthaste_wire::operation::Operation;

use super::Embedded;
use crate::queue::answer::Answer;
use crate::queue::faults;
use crate::queue::rules::{Ask, Flow, News, Outcome, QueueId};

/// Which messages a request may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// All messages: the answer is sent after the commit.
    Latest,
    /// Only what is durable and stays so: the answer is sent at once.
    Durable,
}

/// From where an answer may take the records of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// From memory and the disk, as a worker does.
    Disk,
    /// From memory alone: a network thread does not wait for the disk.
    Memory,
}

impl Embedded {
    /// Decides one request.
    pub(super) fn decide(
        &mut self,
        ask: Ask<'_>,
        answer: &mut Answer<'_>,
        news: &mut Vec<News>,
    ) -> Result<Flow, Fault> {
        if shows_memory(ask.operation) {
            self.is_sound()?;
        }
        let outcome = match ask.operation {
            Operation::Send(send) => self.send(ask, send, answer, news),
            Operation::SendMany { queue, bodies } => self.send_many(ask, *queue, bodies, answer, news),
            Operation::Pop(pop) => return self.pop(ask, pop, answer),
            Operation::Ack { handles } => self.ack(ask.account, handles, answer),
            Operation::Nack { handle, delay_ms } => self.nack(ask.account, *handle, *delay_ms, answer, news),
            Operation::Extend { handle, lease_ms } => self.extend(ask.account, *handle, *lease_ms, answer),
            Operation::Login { account } => self.login(ask.bytes_of(*account), answer),
            Operation::CreateQueue { name, options } => {
                self.create_queue(ask, *name, options.as_ref(), answer)
            }
            Operation::DeleteQueue { queue } => self.delete_queue(ask.bytes_of(*queue), answer, news),
            Operation::PurgeQueue { queue } => self.purge_queue(ask.bytes_of(*queue), answer),
            Operation::Redrive { from, to, after } => self.redrive(ask, *from, *to, *after, answer, news),
            Operation::ListQueues { after } => Ok(self.list_queues(*after, answer)),
            Operation::Peek(_)
            | Operation::Readable { .. }
            | Operation::QueueInfo { .. }
            | Operation::Browse { .. } => self.show_latest(ask, answer),
            Operation::Accounts { after } => Ok(self.list_accounts(*after, answer)),
        };
        outcome.map(Flow::Done)
    }

    /// Answers a request from what is durable and in memory. Returns None if the request must be decided in its turn.
    pub(super) fn show_durable(
        &mut self,
        ask: Ask<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Option<Outcome>, Fault> {
        // Even while a commit is under way or after a failure, so that a client can ask what is wrong.
        if let Operation::Login { account } = ask.operation {
            let known = self.durably_known(ask.bytes_of(*account));
            return Ok(known.map(|id| answer.integer(id.into())));
        }
        // After a failed sync memory holds what never became durable.
        let view = if self.is_settled() { View::Latest } else { View::Durable };
        self.show(ask, view, Source::Memory, answer)
    }

    /// Fails once a sync has failed. Until then all in memory is durable, or will be before an answer is sent.
    fn is_sound(&self) -> Result<(), Fault> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Answers a request that shows queues or messages. Returns None if it cannot be answered in this view, or not from
    /// this source.
    fn show(
        &mut self,
        ask: Ask<'_>,
        view: View,
        source: Source,
        answer: &mut Answer<'_>,
    ) -> Result<Option<Outcome>, Fault> {
        match ask.operation {
            Operation::Peek(selection) => self.peek(ask, selection, view, source, answer),
            Operation::Readable { not_own } => Ok(self.readable(ask.account, *not_own, view, answer)),
            Operation::QueueInfo { queue } if view == View::Latest => {
                self.queue_info(ask.bytes_of(*queue), source, answer)
            }
            Operation::Browse { queue, after, count } if view == View::Latest => {
                self.browse(ask.bytes_of(*queue), *after, *count, source, answer)
            }
            _ => Ok(None),
        }
    }

    /// Answers such a request in its turn. After a failed sync only what is durable can be shown.
    fn show_latest(&mut self, ask: Ask<'_>, answer: &mut Answer<'_>) -> Result<Outcome, Fault> {
        let view = if self.failed.is_some() { View::Durable } else { View::Latest };
        match (self.show(ask, view, Source::Disk, answer)?, &self.failed) {
            (Some(outcome), _) => Ok(outcome),
            (None, Some(failed)) => Err(failed.clone()),
            (None, None) => Ok(answer.null()),
        }
    }

    /// Returns the number of a queue that must exist.
    fn expect_queue(&self, name: &[u8]) -> Result<QueueId, Fault> {
        self.stock.queues.find(name).ok_or_else(|| faults::no_queue(name))
    }

    /// Returns the name of a queue, to keep.
    fn queue_name(&self, id: QueueId) -> Arc<[u8]> {
        self.stock.queues.get(id).map(|queue| Arc::clone(&queue.name)).unwrap_or_default()
    }
}

/// Returns whether a request shows what memory holds, durable or not.
fn shows_memory(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::ListQueues { .. }
            | Operation::QueueInfo { .. }
            | Operation::Browse { .. }
            | Operation::Accounts { .. }
    )
}
