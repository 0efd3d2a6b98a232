//! `posthaste cache`: starts the tier, runs until a signal, stops it gracefully.

use std::error::Error;
use std::io::Write as _;

use posthaste_server::cache::backend::Backend;
use posthaste_server::cache::limits::SERVERS_MAX;
use posthaste_server::cache::pool::{Reads, Rules, Writes};
use posthaste_server::cache::server::{Options, Server};
use posthaste_server::path::accept::ListenAddress;
use posthaste_server::server::RunNote;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config::Misuse;
use crate::flags::{CacheFlags, Switch};
use crate::logging;
use crate::tier::{cores, end_at_second_signal, http, raise_descriptor_limit};

/// Runs it; returns when it has stopped.
pub(crate) fn run(flags: &CacheFlags) -> Result<(), Box<dyn Error>> {
    let options = options(flags).map_err(Misuse)?;
    if flags.check.is_some() {
        return explain(&options);
    }
    logging::start(flags.log_format);
    // Signals are caught before anything is opened, so that a stop during the start is graceful too.
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    raise_descriptor_limit();
    let server = Server::start(options)?;
    for address in server.addresses() {
        tracing::info!(servers = flags.server.len(), "listening on {address}");
    }
    if let Some(address) = server.http_address() {
        tracing::info!("health and figures on http://{address}");
    }
    let signal = signals.forever().next();
    tracing::info!(signal, "stopping: no new requests, finishing what is in flight");
    end_at_second_signal(signals);
    let stopped = server.stop(flags.drain);
    if stopped.cut > 0 {
        tracing::warn!(connections = stopped.cut, "the drain time was over: connections were cut");
    }
    // Whoever wanted the summary may have gone; the stop is as good without.
    let _ = std::io::stdout().write_all(stopped.summary.as_bytes());
    tracing::info!("stopped");
    Ok(())
}

fn options(flags: &CacheFlags) -> Result<Options, String> {
    match (flags.server.len(), flags.mock) {
        (0, None) => {
            return Err(
                "name the memcached servers: --server HOST:PORT, once for each (or --mock, for none)".into(),
            );
        }
        (1.., Some(_)) => return Err("--mock answers without servers: leave out --server, or --mock".into()),
        (SERVERS_MAX.., None) => return Err(format!("--server: at most {} are served", SERVERS_MAX - 1)),
        _ => {}
    }
    Ok(Options {
        listen: flags.listen.iter().map(|text| ListenAddress::parse(text)).collect::<Result<_, _>>()?,
        http: http(&flags.http)?,
        servers: flags.server.clone(),
        rules: rules(flags)?,
        threads: flags.threads.unwrap_or_else(cores),
        workers: flags.workers.0,
        line_requests_max: flags.line_limit,
        connections_max: flags.max_clients,
        value_bytes_max: flags.max_value,
        memory_limit: flags.memory_limit,
        server_timeout: flags.server_timeout,
        slow: flags.slow,
        window: flags.window,
        record: flags.record.clone().map(|dir| (dir, note(flags))),
    })
}

fn rules(flags: &CacheFlags) -> Result<Rules, String> {
    let reads = match (flags.writes, flags.reads) {
        (Writes::Owner, None | Some(Reads::Owner)) => Reads::Owner,
        (Writes::Owner, Some(reads)) => {
            return Err(format!(
                "--reads {reads} would look where a key was not written: with --writes owner only its owner has it"
            ));
        }
        (Writes::All, reads) => reads.unwrap_or_default(),
    };
    let eject = flags.eject.unwrap_or(if flags.workers.0.is_some() { Switch::Off } else { Switch::On });
    Ok(Rules {
        writes: flags.writes,
        reads,
        multiget: flags.multiget,
        hash: flags.hash,
        eject: eject == Switch::On,
        flush_all: flags.flush_all == Switch::On,
        mock: flags.mock,
    })
}

/// `--check`: what a file means, in sentences.
fn explain(options: &Options) -> Result<(), Box<dyn Error>> {
    let rules = &options.rules;
    let mut text = String::from("the file is good\n");
    for name in &options.servers {
        let backend = Backend::parse(name).map_err(Misuse)?;
        text += &format!("server {} at {}\n", backend.name, backend.address());
    }
    text += &match options.workers {
        None => format!("{} network threads, each with a connection to each server\n", options.threads),
        Some(workers) => {
            format!("{workers} workers, each with a connection to each server, one request at a time\n")
        }
    };
    text += &match rules.writes {
        Writes::All => {
            format!("every key is on every server; reads: {}, multi-gets: {}\n", rules.reads, rules.multiget)
        }
        Writes::Owner => format!("every key is on its owner by {}\n", rules.hash),
    };
    text += match rules.eject {
        true => "a server that is lost is left out until it is well again\n",
        false => "a server that is lost stays in every answer\n",
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// What the record says of this run.
fn note(flags: &CacheFlags) -> RunNote {
    RunNote {
        command: std::env::args().collect(),
        options: serde_json::json!({
            "listen": flags.listen,
            "http": flags.http,
            "server": flags.server,
            "writes": flags.writes.to_string(),
            "reads": flags.reads.map(|reads| reads.to_string()),
            "multiget": flags.multiget.to_string(),
            "hash": flags.hash.to_string(),
            "eject": flags.eject.map(|eject| eject == Switch::On),
            "workers": flags.workers.0,
            "flush_all": flags.flush_all == Switch::On,
            "mock_bytes": flags.mock,
            "server_timeout_s": flags.server_timeout.as_secs_f64(),
            "threads": flags.threads,
            "line_limit": flags.line_limit,
            "max_clients": flags.max_clients,
            "max_value_bytes": flags.max_value,
            "memory_limit_bytes": flags.memory_limit,
            "slow_s": flags.slow.map(|slow| slow.as_secs_f64()),
            "window_s": flags.window.as_secs_f64(),
            "drain_s": flags.drain.as_secs_f64(),
        }),
    }
}
