//! Ctrl-C ends the run in order: servers are stopped and directories removed. A second one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Result;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Catches the signals from now on.
pub(crate) fn catch() -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal only sets the flag, the second finds it set.
        flag::register_conditional_shutdown(signal, 128 + signal, ASKED.clone())?;
        flag::register(signal, ASKED.clone())?;
    }
    Ok(())
}

/// An error once a signal has come; called wherever time passes.
pub(crate) fn check() -> Result<()> {
    if ASKED.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
}
