//! When the machine itself stood still: a thread naps, and notes when it woke late.
//!
//! A server that got no processor for a second is late by a second with whatever it does by the clock. That is no promise
//! broken, and nobody but the machine can say how long it was.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::witness::now;

/// Between two looks.
const NAP: Duration = Duration::from_millis(10);

/// A nap that takes so much longer is a stall.
const STALL: u64 = 50_000_000;

/// A keeper, the backend that it asks and the disk below that may each have to wait as long as any other process did.
const STEPS: u64 = 3;

/// From when to when it stood still.
static STALLS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Watches from now on.
pub(crate) fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        thread::spawn(|| {
            loop {
                let begun = now();
                sleep(NAP);
                let woken = now();
                if woken - begun > STALL {
                    STALLS.lock().unwrap_or_else(PoisonError::into_inner).push((begun, woken));
                }
            }
        });
    });
}

/// Those that were not over at this time.
pub(crate) fn since(time: u64) -> Vec<(u64, u64)> {
    let stalls = STALLS.lock().unwrap_or_else(PoisonError::into_inner);
    stalls.iter().copied().filter(|(_, to)| *to >= time).collect()
}

/// How late whatever goes by the clock may be for such stalls, in nanoseconds.
pub(crate) fn lateness(stalls: &[(u64, u64)]) -> u64 {
    STEPS * stalls.iter().map(|(from, to)| to - from).max().unwrap_or(0)
}
