//! Shared by the commands that run a tier: signals, limits, addresses, and the options in a record.

use std::borrow::Cow;
use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, available_parallelism};

use posthaste_server::front::accept::Endpoint;
use posthaste_server::front::files;
use posthaste_server::front::lifecycle::{Options, RunNote, Running, Stopped};
use posthaste_server::front::quiet::QuietLimits;
use posthaste_tls::{ServerFiles, TlsError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config::commands;
use crate::environment::report_unknown;
use crate::flags::{FrontFlags, MAX_CLIENTS, RunFlags, TlsFlags};
use crate::logging;

/// The flags that both tiers have.
pub(crate) struct CommonFlags<'a> {
    pub(crate) listen: &'a [String],
    pub(crate) http: &'a str,
    pub(crate) front: &'a FrontFlags,
    pub(crate) run: &'a RunFlags,
}

impl CommonFlags<'_> {
    /// Returns the options of the tier's front; if a record is wanted, `note` describes this run in it.
    pub(crate) fn options(&self, note: impl FnOnce() -> RunNote) -> Result<Options, String> {
        // clap requires this for the flag, but not for a value from a file.
        if self.run.record_requests && self.run.record.is_none() {
            return Err("--record-requests needs a --record DIR to leave them in".into());
        }
        Ok(Options {
            listen: self.listen.iter().map(|text| Endpoint::parse(text)).collect::<Result<_, _>>()?,
            http: http(self.http)?,
            reuse_port: self.front.reuse_port,
            tls: tls(&self.front.tls)?,
            threads: self.front.threads.unwrap_or_else(cores),
            connections_max: clients_that_fit(self.front.max_clients, getrlimit(Resource::Nofile).maximum),
            quiet_limits: QuietLimits { send: self.front.send_timeout.0, idle: self.front.idle_timeout.0 },
            slow: self.run.slow,
            window: self.run.window,
            record: self.run.record.clone().map(|dir| (dir, note())),
            record_requests: self.run.record_requests,
        })
    }

    /// Returns the options as the record has them, together with those that only this tier has.
    pub(crate) fn recorded(&self, own: Value) -> Value {
        let mut options = json!({
            "listen": self.listen,
            "http": self.http,
            "reuse_port": self.front.reuse_port,
            "tls_cert": legible(&self.front.tls.tls_cert),
            "tls_key": legible(&self.front.tls.tls_key),
            "tls_ca": legible(&self.front.tls.tls_ca),
            "threads": self.front.threads,
            "max_clients": self.front.max_clients,
            "send_timeout_s": self.front.send_timeout.0.map(|time| time.as_secs_f64()),
            "idle_timeout_s": self.front.idle_timeout.0.map(|time| time.as_secs_f64()),
            "slow_s": self.run.slow.map(|slow| slow.as_secs_f64()),
            "window_s": self.run.window.as_secs_f64(),
            "record": legible(&self.run.record),
            "record_requests": self.run.record_requests,
            "drain_s": self.run.drain.as_secs_f64(),
            "log_format": self.run.log_format.to_string(),
            "log_level": self.run.log_level.to_string(),
        });
        if let (Some(options), Value::Object(own)) = (options.as_object_mut(), own) {
            options.extend(own);
        }
        options
    }
}

/// Returns a path as text, for a record; bytes that are not Unicode are replaced.
pub(crate) fn legible(path: &Option<PathBuf>) -> Option<Cow<'_, str>> {
    path.as_deref().map(Path::to_string_lossy)
}

/// Starts the log, and warns of environment variables that do nothing.
pub(crate) fn start_log(flags: &RunFlags) {
    logging::start(flags);
    report_unknown(&commands(), &env::args_os().collect::<Vec<_>>(), |text| tracing::warn!("{text}"));
}

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
    raise_descriptor_limit();
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

/// Logs where health and figures are served, if they are.
pub(crate) fn log_http_address<M>(running: &Running<M>) {
    if let Some(url) = running.http_url() {
        tracing::info!("health and figures on {url}");
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

/// Logs how a stop went. If a part of the tier had failed this is an error, so that a supervisor starts it again.
pub(crate) fn report_stop(stopped: Stopped) -> Result<(), Box<dyn Error>> {
    if stopped.cut > 0 {
        tracing::warn!(connections = stopped.cut, "the drain time was over: connections were cut");
    }
    let summary = match logging::is_json() {
        true => format!("{}\n", json!({ "summary": stopped.totals })),
        false => stopped.summary,
    };
    // A reader of the summary that is gone does not matter to the stop.
    let _ = io::stdout().write_all(summary.as_bytes());
    tracing::info!("stopped");
    if stopped.has_failed {
        return Err("a network thread ended, as the log says above; start it again".into());
    }
    Ok(())
}

/// Logs whether certificates were read again.
pub(crate) fn log_reload(certificates: Result<bool, TlsError>) {
    match certificates {
        Ok(true) => tracing::info!("reloaded: certificates, for connections that come from now on"),
        Ok(false) => tracing::info!("reloaded: nothing, for there are no certificates"),
        Err(error) => tracing::error!("not reloaded, certificates stay as they were: {error}"),
    }
}

/// Returns the files for encryption, if connections are encrypted.
fn tls(flags: &TlsFlags) -> Result<Option<ServerFiles>, String> {
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

/// Raises the limit of open files to what the system allows, as every connection is one.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
}

/// Returns the limit of clients, lowered to what the limit of open files has room for: clients must not take
/// the store's files.
fn clients_that_fit(clients: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return clients };
    let room = files::clients(files);
    // No warning about the default, which nobody asked for; the doctor tells that the limit is lower.
    if clients > room && clients != MAX_CLIENTS {
        tracing::warn!(
            "the limit of {files} open files is too low for the {clients} clients of --max-clients: no more than {room} are \
             let in; set LimitNOFILE= in the unit, or ulimit -n, or allow fewer with --max-clients"
        );
    }
    clients.min(room)
}

/// Returns the number of cores.
fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Returns the address of `--http`; None: off.
fn http(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    match Endpoint::parse(text) {
        Ok(Endpoint::Tcp(address)) => Ok(Some(address)),
        _ => Err(format!("--http {text}: write HOST:PORT or off")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_measure::{Clock, Meter, Scheme};

    use super::*;

    #[test]
    fn clients_leave_files_for_the_rest() {
        assert_eq!(clients_that_fit(20_000, None), 20_000);
        assert_eq!(clients_that_fit(20_000, Some(65_536)), 20_000);
        assert_eq!(clients_that_fit(20_000, Some(4096)), 3128);
    }

    #[test]
    fn who_watches_over_the_tier_is_told_that_a_part_of_it_had_failed() {
        let meter = Meter::new(Scheme::tier(&["a"], None), Duration::from_secs(1), Clock::start(), None);
        let ended = |has_failed| {
            let stopped = Stopped { totals: meter.totals(), summary: String::new(), cut: 0, has_failed };
            report_stop(stopped)
        };
        assert!(ended(false).is_ok());
        assert!(ended(true).is_err());
    }
}
