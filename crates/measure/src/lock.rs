//! Locking a mutex although a thread may have panicked while it held it.
//!
//! Released programs abort at a panic, so none of their threads ever finds a poisoned mutex. In tests the panic fails
//! the test by itself, and a second panic at every lock that follows would only hide the first.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, whether or not it is poisoned: only tests outlive a panic, and fail by it anyhow.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
