//! What the commands that run a tier have in common: signals, limits, addresses.

use std::net::SocketAddr;
use std::thread::available_parallelism;

use posthaste_server::path::accept::ListenAddress;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::iterator::Signals;

/// A user who asks twice does not want to wait.
pub(crate) fn end_at_second_signal(mut signals: Signals) {
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            std::process::exit(128 + signal);
        }
    });
}

/// Every connection is a descriptor: use what the system allows.
pub(crate) fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
}

/// How many cores there are.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// The address of `--http`; None: off.
pub(crate) fn http(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    match ListenAddress::parse(text) {
        Ok(ListenAddress::Tcp(address)) => Ok(Some(address)),
        _ => Err(format!("--http {text}: write HOST:PORT or off")),
    }
}
