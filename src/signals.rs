//! The signals of a tier: SIGTERM and SIGINT end it, SIGHUP has it read files again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals received, in order.
pub(crate) struct CaughtSignals {
    signals: Receiver<i32>,
    /// Whether the tier waits for signals, which it does not during the start.
    is_awaited: Arc<AtomicBool>,
}

/// Starts catching signals, before anything is opened: so a stop during the start is graceful too, and a
/// second signal ends the program.
pub(crate) fn catch_signals() -> io::Result<CaughtSignals> {
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (sender, caught) = channel();
    let is_awaited = Arc::new(AtomicBool::new(false));
    let is_awaited_there = Arc::clone(&is_awaited);
    Builder::new().name("signals".into()).spawn(move || pass_on(signals, &sender, &is_awaited_there))?;
    Ok(CaughtSignals { signals: caught, is_awaited })
}

/// Passes signals on. A second one that asks for the end ends the program, since a user who asks twice does
/// not want to wait.
fn pass_on(mut signals: Signals, sender: &Sender<i32>, is_awaited: &AtomicBool) {
    let mut is_ending = false;
    for signal in signals.forever() {
        if signal != SIGHUP && std::mem::replace(&mut is_ending, true) {
            std::process::exit(128 + signal);
        }
        if signal != SIGHUP && !is_awaited.load(Ordering::Relaxed) {
            tracing::info!(signal, "stopping as soon as it has started; a second signal ends it at once");
        }
        // Nobody receives while the tier stops.
        let _ = sender.send(signal);
    }
}

/// Waits for the signal that ends the tier. Until then, SIGHUP calls `reload`.
pub(crate) fn wait_for_stop_signal(caught: &CaughtSignals, reload: impl Fn()) {
    caught.is_awaited.store(true, Ordering::Relaxed);
    for signal in &caught.signals {
        if signal != SIGHUP {
            tracing::info!(signal, "stopping: no new requests, finishing what is in flight");
            return;
        }
        reload();
    }
}
