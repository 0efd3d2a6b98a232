//! What the commands that run a tier have in common: signals, limits, addresses.

use std::net::SocketAddr;
use std::thread::available_parallelism;

use posthaste_server::path::accept::ListenAddress;
use posthaste_tls::{ServerFiles, TlsError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::flags::TlsFlags;

/// Waits for the signal that ends the tier. SIGHUP meanwhile has it read again what it can while it runs.
pub(crate) fn wait_for_end(
    signals: &mut Signals,
    reload: impl Fn() -> Result<String, String>,
) -> Option<i32> {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return Some(signal);
        }
        match reload() {
            Ok(done) => tracing::info!("reloaded: {done}"),
            Err(error) => tracing::error!("not reloaded, everything stays as it was: {error}"),
        }
    }
    None
}

/// What SIGHUP says of certificates that were read again, or of none.
pub(crate) fn reloaded(certificates: Result<bool, TlsError>) -> Result<String, String> {
    match certificates {
        Ok(true) => Ok("certificates, for connections that come from now on".into()),
        Ok(false) => Ok("nothing, for there are no certificates".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// What connections are encrypted with, if they are.
pub(crate) fn tls(flags: &TlsFlags) -> Result<Option<ServerFiles>, String> {
    match (&flags.tls_cert, &flags.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(ServerFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            clients: flags.tls_ca.clone(),
        })),
        (Some(_), None) => Err("--tls-cert needs its --tls-key".into()),
        (None, Some(_)) => Err("--tls-key needs its --tls-cert".into()),
        (None, None) if flags.tls_ca.is_some() => {
            Err("--tls-ca asks clients for certificates, which needs --tls-cert and --tls-key".into())
        }
        (None, None) => Ok(None),
    }
}

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
