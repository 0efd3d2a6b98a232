//! The end of what others do beside a test, be the test's end good or bad: a scope joins its threads before it tells of a
//! panic, so threads that nobody ends would hang instead of failing.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::sync::atomic::{AtomicBool, Ordering};

/// Raises the flag when it goes.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
