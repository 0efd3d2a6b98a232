//! What is said of disk space that the log lacks: to requests, to whoever runs the server, and in the record.

use posthaste_wire::fault::{Fault, Word};

use super::log::{self, LogError, Purpose};
use super::record::bounds::{CHANGE_BYTES, REQUEST_BYTES};
use super::{Embedded, RETRY_MS, store_fault};
use crate::queue::EVENT_SOURCE;
use crate::queue::rules::Millis;

/// What was said last.
#[derive(Default)]
pub(super) struct Space {
    /// Since when the disk has been full, on the clock of the events; None: it has space.
    full_since: Option<u64>,
    /// Whether a file could not be made for another reason, which was logged.
    is_hindered: bool,
    /// When another try is made to have a file ready; None: there is one.
    file_due: Option<Millis>,
}

impl Space {
    /// Returns whether the disk has no space for another file.
    pub(super) fn is_full(&self) -> bool {
        self.full_since.is_some()
    }

    /// Returns when another try is made to have a file ready; None: there is one.
    pub(super) fn file_due(&self) -> Option<Millis> {
        self.file_due
    }
}

impl Embedded {
    /// Returns why even messages cannot be taken, or why none can be sent although the disk has space, with what helps;
    /// None: neither is so.
    pub(super) fn stuck(&self) -> Option<String> {
        match self.log.lack()? {
            LogError::Full { .. } => self
                .log
                .has_no_space(CHANGE_BYTES, Purpose::Remove)
                .then(|| format!("the disk is full: {}free space on that disk", remedy(Purpose::Remove))),
            other => self.log.has_no_space(2 * REQUEST_BYTES, Purpose::Add).then(|| other.to_string()),
        }
    }

    /// Tries once in a while to have another file of the log ready, if it could not be made.
    pub(super) fn retry_file(&mut self) {
        if self.space.file_due.is_some_and(|at| at <= self.clock) {
            self.space.file_due = Some(self.clock + RETRY_MS);
            self.log.retry();
        }
    }

    /// Logs when the disk becomes full and when it has space again, and records an event for each. And logs when files
    /// cannot be made for another reason, and when they can.
    pub(super) fn log_disk_space(&mut self) {
        let lack = self.log.lack();
        let is_full = matches!(lack, Some(LogError::Full { .. }));
        self.space.file_due = lack.is_some().then(|| self.space.file_due.unwrap_or(self.clock + RETRY_MS));
        match self.space.full_since {
            None if is_full => {
                self.space.full_since = Some(self.events.now());
                self.events.note(EVENT_SOURCE, "disk became full");
                tracing::warn!(
                    "the disk has no space for another file of the log: what adds something is refused until messages are \
                     removed or there is space"
                );
            }
            Some(since) if !is_full => {
                self.space.full_since = None;
                self.events.since(since, EVENT_SOURCE, "disk full");
                tracing::info!("the disk has space for the log again");
            }
            _ => {}
        }
        let hindrance = lack.filter(|_| !is_full);
        match (&hindrance, std::mem::replace(&mut self.space.is_hindered, hindrance.is_some())) {
            (Some(error), false) => tracing::warn!(
                "{error}; what adds something is refused once the files of the log that there are have been filled"
            ),
            (None, true) => tracing::info!("the store can make files of the log again"),
            _ => {}
        }
    }
}

/// Returns the fault for a reservation that failed. Where there is no space even to remove something, to advise that
/// would not help.
pub(super) fn no_reservation(error: &LogError, purpose: Purpose, remembers_answers: bool) -> Fault {
    let remedy = match purpose {
        Purpose::Add if remembers_answers => {
            "remove messages, or wait up to 10 minutes until answers kept for DEDUP and REQID end, or "
        }
        _ => remedy(purpose),
    };
    match error {
        LogError::Full { path } => Fault::about(Word::Store, log::no_space(path, remedy)),
        _ => store_fault(error),
    }
}

/// Returns what helps beside more space if there is none for this purpose.
fn remedy(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Add => "remove messages or ",
        Purpose::Lease => "POP without LEASE and REQID, or ",
        Purpose::Remove => "QPURGE or QDELETE a queue, or ",
        Purpose::Empty | Purpose::Reclaim => "",
    }
}
