//! Requests on their way from a thread on the path to the one that writes them down.
//!
//! A row of `requests.parquet` is a hundred bytes of numbers, and what one core has written another must fetch. But
//! requests that are handled together share their stamps, kind and ending, so these are told once for all of them: sixteen
//! that left and came back together take 20 bytes each, one alone 88.

use crate::stage::{Ending, Noted, Trail};

/// Ended requests in the order they were noted.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    runs: Vec<Run>,
    requests: Vec<Own>,
}

/// What requests that follow each other have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) trail: Trail,
    pub(crate) told_ns: u64,
    pub(crate) counted: u32,
    /// How many requests.
    pub(crate) length: u32,
    pub(crate) kind: u8,
    pub(crate) ending: Ending,
}

/// What each has of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) client: u64,
    pub(crate) request_bytes: u32,
    pub(crate) answer_bytes: u32,
}

impl Chunk {
    /// With room for so many requests, whatever they share.
    pub(crate) fn with_capacity(requests: usize) -> Self {
        Self { runs: Vec::with_capacity(requests), requests: Vec::with_capacity(requests) }
    }

    /// Adds requests of which [`Noted::counts_as`] says that they are alike.
    #[inline]
    pub(crate) fn push(&mut self, alike: &[Noted]) {
        let Some(&Noted { trail, told_ns, counted, kind, ending, .. }) = alike.first() else { return };
        self.runs.push(Run { trail, told_ns, counted, length: alike.len() as u32, kind, ending });
        self.requests.extend(alike.iter().map(|noted| {
            let Noted { client, request_bytes, answer_bytes, .. } = *noted;
            Own { client, request_bytes, answer_bytes }
        }));
    }

    /// How many requests there are.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Forgets them, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.requests.clear();
    }

    /// What they share; the lengths add up to the number of requests.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// What they do not, in the same order.
    pub(crate) fn requests(&self) -> &[Own] {
        &self.requests
    }
}
