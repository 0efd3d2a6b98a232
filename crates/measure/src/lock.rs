//! Locking that ignores poison.
//!
//! Our mutexes protect counters. After a panic in another thread, at worst one request is counted in part,
//! and figures with that flaw are better than none.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
