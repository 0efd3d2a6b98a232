//! `posthaste queue`: starts the tier, runs until a signal, stops it gracefully.

use std::error::Error;
use std::path::PathBuf;

use posthaste_measure::RunInfo;
use posthaste_server::front::lifecycle::RunNote;
use posthaste_server::queue::choice::StoreChoice;
use posthaste_server::queue::postgres::address::PostgresAddress;
use posthaste_server::queue::postgres::strategy::{Backoff, PopStrategy, Popping};
use posthaste_server::server::{Options, Server, StartError};

use crate::config::Misuse;
use crate::flags::{PoppingFlags, QueueFlags};
use crate::open_files;
use crate::signals::{catch_signals, wait_for_stop_signal};
use crate::tier::{CommonFlags, legible, log_http_address, log_reload, report_stop, start_log};

/// Default for the most requests that a worker takes at once.
const BATCH: usize = 256;

/// Runs the tier; returns when it has stopped.
pub(crate) fn run(flags: &QueueFlags) -> Result<(), Box<dyn Error>> {
    start_log(&flags.run);
    let signals = catch_signals()?;
    open_files::raise_limit();
    let options = options(flags)?;
    let store = options.store.to_string(); // as it is shown: the flag may hold a password
    let server = Server::start(options).map_err(start_error)?;
    for address in server.running().addresses() {
        tracing::info!(%store, "listening on {address}");
    }
    log_http_address(server.running());
    wait_for_stop_signal(&signals, || log_reload(server.running().reload_certificates()));
    report_stop(server.stop(flags.run.drain))
}

/// Converts the reason why the tier did not start; some are wrong usage.
fn start_error(error: StartError) -> Box<dyn Error> {
    match error {
        StartError::Unguarded(..) => Misuse(error.to_string()).into(),
        StartError::Accounts(why) => format!("--accounts: {why}").into(),
        error => error.into(),
    }
}

/// Returns the flags that both tiers have.
fn common(flags: &QueueFlags) -> CommonFlags<'_> {
    CommonFlags { listen: &flags.listen, http: &flags.http, front: &flags.front, run: &flags.run }
}

fn options(flags: &QueueFlags) -> Result<Options, Box<dyn Error>> {
    let store: StoreChoice = flags.store.parse().map_err(|error| Misuse(format!("--store: {error}")))?;
    if flags.memory_limit.is_some() && !matches!(store, StoreChoice::Embedded(_) | StoreChoice::Memory) {
        return Err(Misuse(format!(
            "--memory-limit is for stores of this process, embedded:DIR and memory:, not for {store}; MAXMSGS and \
             MAXBYTES of QCREATE limit single queues"
        ))
        .into());
    }
    Ok(Options {
        accounts: (flags.accounts != "open").then(|| PathBuf::from(&flags.accounts)),
        workers: workers(flags, &store),
        batch: batch(flags),
        unbatched: popping(&flags.popping, &store, batch(flags)).map_err(Misuse)?,
        message_bytes_max: flags.max_message,
        line_requests_max: flags.line_limit,
        priority_kinds: flags.priority_line.clone(),
        memory_limit: flags.memory_limit,
        metrics_queues: flags.metrics_queues,
        traces: flags.traces.as_deref().map(collector).transpose().map_err(Misuse)?,
        // Last, as it looks up names: misuse is told first.
        front: common(flags).options(|| run_note(flags, &store))?,
        store,
    })
}

/// Returns how single pops are done, if every request is to be executed on its own.
pub(crate) fn popping(
    flags: &PoppingFlags,
    store: &StoreChoice,
    batch: usize,
) -> Result<Option<Popping>, String> {
    let Some(strategy) = flags.pop_strategy else {
        return match flags.pop_backoff {
            Backoff::None => Ok(None),
            _ if batch == 1 && matches!(store, StoreChoice::Postgres(_)) => {
                warn_backoff_unused(flags.pop_backoff);
                Ok(None)
            }
            backoff => Err(format!("--pop-backoff {backoff} needs a --pop-strategy")),
        };
    };
    if !matches!(store, StoreChoice::Postgres(_)) {
        return Err(format!("--pop-strategy is for postgres:// stores only, not for {store}"));
    }
    if batch != 1 {
        return Err("--pop-strategy needs --batch 1: a batch gives messages out by itself".into());
    }
    if flags.pop_backoff != Backoff::None && !strategy.can_lose() {
        warn_backoff_unused(flags.pop_backoff);
    }
    Ok(Some(Popping { strategy, backoff: flags.pop_backoff }))
}

/// Warns that a back-off has no effect. This is no error, as an experiment over strategies and back-offs has
/// this cell too.
fn warn_backoff_unused(backoff: Backoff) {
    tracing::warn!(
        "--pop-backoff {backoff} changes nothing: a pop by skip-locked never loses its message to another"
    );
}

/// Returns the batch size. A strategy of single pops has 1 by default; any other size is refused elsewhere.
fn batch(flags: &QueueFlags) -> usize {
    let default = if flags.popping.pop_strategy.is_some() { 1 } else { BATCH };
    flags.batch.unwrap_or(default)
}

/// Returns the number of workers. The embedded store has one log, which one worker fills with the largest batches.
fn workers(flags: &QueueFlags, store: &StoreChoice) -> usize {
    let default = if matches!(store, StoreChoice::Embedded(_)) { 1 } else { 8 };
    flags.workers.unwrap_or(default)
}

/// Returns how pops agree on who gets a message, over PostgreSQL. A batch passes over what others have locked.
fn pop_strategy(flags: &QueueFlags, store: &StoreChoice) -> Option<PopStrategy> {
    let is_shared = matches!(store, StoreChoice::Postgres(_));
    is_shared.then(|| flags.popping.pop_strategy.unwrap_or(PopStrategy::SkipLocked))
}

/// Checks the address of `--traces`.
pub(crate) fn collector(url: &str) -> Result<String, String> {
    let host = url.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or_default());
    match host {
        Some(host) if !host.is_empty() && !host.contains('@') => Ok(url.to_owned()),
        _ => {
            Err("--traces: write http://HOST:PORT, where an OpenTelemetry collector takes OTLP over HTTP"
                .into())
        }
    }
}

/// Removes a password from a word of the command line, so that it may be kept.
fn without_password(word: String) -> String {
    let (name, value) =
        word.split_once('=').filter(|(name, _)| name.starts_with("--")).unwrap_or(("", &word));
    match value.parse::<PostgresAddress>() {
        Ok(address) if name.is_empty() => address.to_string(),
        Ok(address) => format!("{name}={address}"),
        Err(_) => word,
    }
}

/// Returns what the record says of this run.
fn run_note(flags: &QueueFlags, store: &StoreChoice) -> RunNote {
    RunNote {
        command: RunInfo::command_line().into_iter().map(without_password).collect(),
        options: common(flags).recorded(serde_json::json!({
            "store": store.to_string(),
            "accounts": flags.accounts,
            "workers": workers(flags, store),
            "batch": batch(flags),
            "pop_strategy": pop_strategy(flags, store).map(|strategy| strategy.to_string()),
            "unbatched": flags.popping.pop_strategy.is_some(),
            "pop_backoff": flags.popping.pop_backoff.to_string(),
            "max_message_bytes": flags.max_message,
            "line_limit": flags.line_limit,
            "priority_line": flags.priority_line.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
            "memory_limit_bytes": flags.memory_limit,
            "metrics_queues": flags.metrics_queues,
            "traces": flags.traces,
            "config": legible(&flags.config),
        })),
    }
}
