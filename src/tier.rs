//! Shared by the commands that run a tier: its options from the flags, the options in a record, what its log and its exit code tell.

use std::borrow::Cow;
use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use posthaste_server::front::accept::Endpoint;
use posthaste_server::front::lifecycle::{Options, RunNote, Running, Stopped};
use posthaste_server::front::quiet::QuietLimits;
use posthaste_tls::{ServerFiles, TlsError};
use serde_json::{Value, json};

use crate::config::{Misuse, commands};
use crate::environment::report_unknown;
use crate::flags::{FrontFlags, RunFlags, TlsFlags};
use crate::logging;
use crate::open_files::clients_that_fit;

/// The flags that both tiers have.
pub(crate) struct CommonFlags<'a> {
    pub(crate) listen: &'a [String],
    pub(crate) http: &'a str,
    pub(crate) front: &'a FrontFlags,
    pub(crate) run: &'a RunFlags,
}

impl CommonFlags<'_> {
    /// Returns the options of the tier's front; if a record is wanted, `note` describes this run in it.
    ///
    /// # Errors
    /// [`Misuse`], or an address that cannot be looked up: its name server may be away for now, so that is none.
    pub(crate) fn options(&self, note: impl FnOnce() -> RunNote) -> Result<Options, Box<dyn Error>> {
        // Here and not by clap, which would not count a value of the file, and would name --record alone.
        if self.run.record_requests && self.run.record.is_none() {
            return Err(Misuse("--record-requests needs a --record DIR to leave them in".into()).into());
        }
        Ok(Options {
            // Before the addresses: looking them up takes its time, and may fail.
            tls: tls(&self.front.tls).map_err(Misuse)?,
            listen: self.listen.iter().map(|text| looked_up("--listen", text)).collect::<Result<_, _>>()?,
            http: http(self.http)?,
            reuse_port: self.front.reuse_port,
            threads: self.front.threads.unwrap_or_else(cores),
            connections_max: clients_that_fit(self.front.max_clients),
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

/// Logs where HTTP is served, if it is.
pub(crate) fn log_http_address<M>(running: &Running<M>) {
    if let Some(url) = running.http_url() {
        tracing::info!("console, health and figures on {url}");
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

/// Returns the number of cores.
fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Returns the address of `--http`; None: off.
fn http(text: &str) -> Result<Option<SocketAddr>, Box<dyn Error>> {
    if text == "off" {
        return Ok(None);
    }
    match looked_up("--http", text)? {
        Endpoint::Tcp(address) => Ok(Some(address)),
        Endpoint::Unix(_) => Err(Misuse(format!("--http {text}: write HOST:PORT or off")).into()),
    }
}

/// Returns the address that an option names. Its form was checked with the flags.
fn looked_up(option: &str, text: &str) -> Result<Endpoint, String> {
    Endpoint::look_up(text)
        .map_err(|error| format!("{option} {text}: {error}; is the name right, and its name server there?"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_measure::{Clock, Meter, Scheme};

    use super::*;

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
