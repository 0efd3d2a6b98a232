//! What a request may add: the limits of its queue, and the memory limit.

use posthaste_wire::fault::Fault;

use crate::queue::embedded::Embedded;
use crate::queue::faults;
use crate::queue::rules::QueueId;

/// Most messages of purged queues that are freed for one request at the memory limit, which takes a few milliseconds. No
/// SENDMANY adds as many, so after a purge that makes room enough the next request finds some.
const FREED_FOR_ONE: usize = 1 << 16;

impl Embedded {
    /// Checks MAXMSGS and MAXBYTES, where messages in every state count, and the memory limit.
    pub(super) fn check_limits(&mut self, queue: QueueId, messages: u64, bytes: u64) -> Result<(), Fault> {
        let Some(queue) = self.stock.queues.get(queue) else { return Ok(()) };
        let (messages, bytes) = (messages + queue.messages, bytes + queue.bytes);
        match (queue.options.messages_max, queue.options.bytes_max) {
            (Some(max), _) if messages > max => return Err(faults::full_messages(&queue.name, max)),
            (_, Some(max)) if bytes > max => return Err(faults::full_bytes(&queue.name, max)),
            _ => {}
        }
        self.has_memory()
    }

    /// Checks the memory limit for what a request adds.
    pub(super) fn has_memory(&mut self) -> Result<(), Fault> {
        match self.memory_limit {
            Some(limit) if !self.stock.fits(limit, FREED_FOR_ONE) => {
                if self.stock.has_discarded() {
                    return Err(faults::still_freeing(limit));
                }
                Err(faults::out_of_memory(limit, self.stock.name_bytes(), self.stock.answer_bytes()))
            }
            _ => Ok(()),
        }
    }

    /// Checks the memory limit for a lease or a remembered answer, which is twice that for messages.
    pub(super) fn has_memory_to_remember(&mut self) -> Result<(), Fault> {
        match self.memory_limit {
            Some(limit) if !self.stock.fits(limit.saturating_mul(2), FREED_FOR_ONE) => {
                Err(faults::much_remembered(limit))
            }
            _ => Ok(()),
        }
    }
}
