//! Locking that outlives a panic elsewhere.
//!
//! Behind our mutexes are counters. After a panic in another thread the worst they hold is one request
//! counted in part, and figures with that flaw help more than none, so poison is ignored.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
