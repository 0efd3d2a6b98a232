//! A chunk of requests on its way from a measuring thread to the writing thread.
//!
//! A row of `requests.parquet` is a hundred bytes of numbers, and one core must fetch what another has written.
//! But requests that are handled together share their stamps, kind and ending, so these are stored once for all
//! of them: sixteen requests that were sent and answered together take 20 bytes each, a single one 88.

use crate::stage::{Ending, Noted, Trail};

/// Ended requests in the order they were noted.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    runs: Vec<Run>,
    requests: Vec<Own>,
}

/// Values that consecutive requests have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) trail: Trail,
    pub(crate) reported_ns: u64,
    pub(crate) counted: u32,
    /// Number of requests.
    pub(crate) length: u32,
    pub(crate) kind: u8,
    pub(crate) ending: Ending,
}

/// Values that differ between the requests of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) client: u64,
    pub(crate) request_bytes: u32,
    pub(crate) answer_bytes: u32,
}

impl Chunk {
    /// Makes a chunk with room for this many requests, however little they share.
    pub(crate) fn with_capacity(requests: usize) -> Self {
        Self { runs: Vec::with_capacity(requests), requests: Vec::with_capacity(requests) }
    }

    /// Adds requests that are alike according to [`Noted::counts_as`].
    #[inline]
    pub(crate) fn push(&mut self, alike: &[Noted]) {
        let Some(&Noted { trail, reported_ns, counted, kind, ending, .. }) = alike.first() else { return };
        self.runs.push(Run { trail, reported_ns, counted, length: alike.len() as u32, kind, ending });
        self.requests.extend(alike.iter().map(|noted| {
            let Noted { client, request_bytes, answer_bytes, .. } = *noted;
            Own { client, request_bytes, answer_bytes }
        }));
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Removes all requests and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.requests.clear();
    }

    /// Returns the runs; their lengths add up to the number of requests.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns each request's own values, in the order of the runs.
    pub(crate) fn requests(&self) -> &[Own] {
        &self.requests
    }
}
