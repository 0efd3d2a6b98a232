//! `posthaste cache`: starts the tier, reads its file again on SIGHUP, runs until a signal, stops gracefully.

mod meaning;
mod unknown_names;

use std::collections::HashSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use posthaste_measure::RunInfo;
use posthaste_server::cache::backend::Backend;
use posthaste_server::cache::fleet::FleetOptions;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::{Layout, MemberPlan, SERVER_TIMEOUTS_PER_REQUEST, Settings};
use posthaste_server::cache::limits::SERVERS_MAX;
use posthaste_server::cache::resolver::Resolver;
use posthaste_server::cache::rules::{Reads, Rules, Writes};
use posthaste_server::cache::server::{Options, Server};
use posthaste_server::cache::server_limits::ServerLimits;
use posthaste_server::front::lifecycle::{self, RunNote};
use posthaste_tls::{Check, Trust};

use crate::config::{self, Misuse};
use crate::flags::{CacheFlags, Program, ServerTlsFlags, Switch};
use crate::import;
use crate::open_files;
use crate::placed::FileError;
use crate::pools::{self, Defaults, Names};
use crate::signals::{catch_signals, wait_for_stop_signal};
use crate::stdout::say;
use crate::tier::{CommonFlags, legible, log_http_address, report_stop, start_log};

/// Why a file is refused that has a route with a timeout.
const TIMEOUT_WITH_WORKERS: &str =
    "timeout of a route: with --workers N a worker waits for its server; leave out the timeout, or --workers";

/// Runs the tier; returns when it has stopped.
pub(crate) fn run(flags: &CacheFlags) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &flags.import {
        return import::run(path, flags.pool.as_deref());
    }
    start_log(&flags.run);
    let options = options(flags)?;
    if flags.check.is_some() {
        // The files of --tls-cert and its like must be good too. (Those of --server-tls-ca are read with the servers.)
        lifecycle::encryption(&options.front, b"").map_err(|error| Misuse(error.to_string()))?;
        return say(&meaning::meaning(&options)?);
    }
    let trusts_in_vain = has_server_tls(&flags.server_tls) && !speaks_tls(&options.layout);
    let signals = catch_signals()?;
    open_files::raise_limit();
    let server = Server::start(options)?;
    for address in server.running().addresses() {
        tracing::info!(servers = server.servers(), "listening on {address}");
        if !address.is_local() && flags.front.tls.tls_ca.is_none() {
            tracing::warn!(
                "whoever reaches {address} may read and write every key; --tls-ca FILE asks for certificates"
            );
        }
    }
    log_http_address(server.running());
    if trusts_in_vain {
        tracing::warn!(
            "--server-tls-ca, -cert and -key do nothing, for no connection to a server is encrypted: write tls: before its address"
        );
    }
    if let Some(url) = server.running().http_url().filter(|_| server.running().is_http_reached_by_others())
        && flags.front.tls.tls_ca.is_none()
    {
        tracing::warn!(
            "whoever reaches {url} may set the states of servers, and how much the log tells; --tls-ca FILE asks for certificates"
        );
    }
    wait_for_stop_signal(&signals, || reload(&server));
    report_stop(server.stop(flags.run.drain))
}

/// Returns whether it is said how connections to servers are encrypted.
fn has_server_tls(flags: &ServerTlsFlags) -> bool {
    flags.server_tls_ca.is_some() || flags.server_tls_cert.is_some()
}

/// Returns whether the connections to any server are encrypted.
fn speaks_tls(layout: &Layout) -> bool {
    layout.pools.iter().flat_map(|pool| &pool.members).any(|member| member.address.starts_with("tls:"))
}

/// Reads flags, environment and files again and puts pools, routes and certificates in force; on an error,
/// logs it and changes nothing.
fn reload(server: &Server) {
    let read = || match config::program(std::env::args_os().collect()) {
        Ok(Program::Cache(flags)) => layout(&flags),
        Ok(_) => Err("this is no cache tier".into()),
        Err(refusal) => Err(refusal.to_string()),
    };
    match read().and_then(|layout| server.reload(&layout)) {
        Ok(()) => tracing::info!(
            "servers, pools, routes, their times, flush-all and certificates are read anew; certificates count for connections \
             that come from now on, other options wait for the next start"
        ),
        Err(error) => tracing::error!("nothing is changed: {error}"),
    }
}

/// Returns the flags that both tiers have.
fn common(flags: &CacheFlags) -> CommonFlags<'_> {
    CommonFlags { listen: &flags.listen, http: &flags.http, front: &flags.front, run: &flags.run }
}

fn options(flags: &CacheFlags) -> Result<Options, Box<dyn Error>> {
    let trust = server_tls(&flags.server_tls).map_err(Misuse)?;
    Ok(Options {
        layout: layout(flags).map_err(Misuse)?,
        ejection: ejection(flags),
        fleet_options: FleetOptions { trust, resolver: resolver(flags) },
        resolve_every: flags.resolve_every.0,
        workers: flags.workers.0,
        line_requests_max: flags.line_limit,
        value_bytes_max: flags.max_value,
        line_bytes_max: flags.max_line as usize,
        client_limit: flags.client_limit,
        memory_limit: flags.memory_limit,
        // Last, as it looks up names: misuse is told first.
        front: common(flags).options(|| run_note(flags))?,
    })
}

/// Returns the file that pools and routes are read from.
fn file(flags: &CacheFlags) -> Option<&PathBuf> {
    flags.config.as_ref().or(flags.check.as_ref())
}

/// Returns servers, pools and routes from the flags and the file.
pub(crate) fn layout(flags: &CacheFlags) -> Result<Layout, String> {
    let members = members(&flags.server)?;
    let rules = rules(flags)?;
    let mut layout = match file(flags).zip(flags.text.as_deref()) {
        Some((path, text)) => layout_of_file(flags, path, text, members, rules)?,
        None if members.is_empty() => Layout::default(),
        None => Layout::of_one_pool(members, rules).with_server_limits(server_limits(flags)),
    };
    let request_timeout = request_timeout(flags);
    layout.settings =
        Settings { flush_all: flags.flush_all == Switch::On, mock: flags.mock.0, request_timeout };
    layout.zone.clone_from(&flags.zone);
    match (servers(&layout)?, flags.mock.0) {
        (0, None) => {
            Err("name the memcached servers: --server HOST:PORT, once for each (or --mock, for none)".into())
        }
        (1.., Some(_)) => Err("--mock answers without servers: leave out --server, or --mock".into()),
        (named, None) if named > SERVERS_MAX => Err(format!("--server: at most {SERVERS_MAX} are served")),
        _ => Ok(layout),
    }
}

/// Reads the servers, pools and routes of a file's text. `members` are the servers of the flags.
fn layout_of_file(
    flags: &CacheFlags,
    path: &Path,
    text: &str,
    members: Vec<MemberPlan>,
    rules: Rules,
) -> Result<Layout, String> {
    let defaults = Defaults { rules, server_limits: server_limits(flags), resolver: resolver(flags) };
    let placed = |wrong: FileError| wrong.with_line(path.display(), text);
    let read = |names| pools::layout(text, members.clone(), &defaults, names).map_err(placed);
    let layout = match flags.check {
        // A check should report a server name that cannot be resolved; a starting tier can do without it.
        Some(_) => read(Names::Known).map_err(|first| match read(Names::Believed) {
            Ok(layout) => unknown_names::with_others(&first, &layout, &defaults.resolver),
            Err(_) => first,
        })?,
        None => read(Names::Believed)?,
    };
    match pools::place_of_timeout(text).filter(|_| flags.workers.0.is_some()) {
        Some(at) => Err(placed(FileError::new(at, TIMEOUT_WITH_WORKERS))),
        None => Ok(layout),
    }
}

/// Counts the servers; one that is in several pools counts once.
fn servers(layout: &Layout) -> Result<usize, String> {
    let members = layout.pools.iter().flat_map(|pool| &pool.members);
    let names = members.map(|member| Backend::named(&member.address)).collect::<Result<HashSet<_>, _>>()?;
    Ok(names.len())
}

/// Returns whether requests do without lost servers. With workers they do not, unless the flag says so.
pub(crate) fn ejection(flags: &CacheFlags) -> Ejection {
    let usual = if flags.workers.0.is_some() { Switch::Off } else { Switch::On };
    match flags.eject.unwrap_or(usual) {
        Switch::On => Ejection::OnLoss,
        Switch::Off => Ejection::Never,
    }
}

/// Returns where server names are looked up.
pub(crate) fn resolver(flags: &CacheFlags) -> Resolver {
    Resolver::asking(flags.name_server.clone())
}

fn server_limits(flags: &CacheFlags) -> ServerLimits {
    let answer_timeout = flags.server_timeout;
    let connect_timeout = flags.connect_timeout.unwrap_or(answer_timeout);
    ServerLimits { connect_timeout, answer_timeout, ..ServerLimits::default() }
}

fn request_timeout(flags: &CacheFlags) -> Duration {
    flags.request_timeout.unwrap_or(flags.server_timeout.saturating_mul(SERVER_TIMEOUTS_PER_REQUEST))
}

/// Reads the servers of the flags, each of which must be named once.
fn members(servers: &[String]) -> Result<Vec<MemberPlan>, String> {
    let mut names = HashSet::new();
    let member = |address: &String| match names.insert(Backend::named(address)?) {
        true => Ok(MemberPlan::of(address)),
        false => Err(format!("--server {address}: it is named twice; name each server once")),
    };
    servers.iter().map(member).collect()
}

/// Returns which servers are trusted over TLS.
pub(crate) fn server_tls(flags: &ServerTlsFlags) -> Result<Trust, String> {
    let own = match (&flags.server_tls_cert, &flags.server_tls_key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        _ => return Err("--server-tls-cert and --server-tls-key go together".into()),
    };
    Ok(Trust { check: Check::SignerAndName, roots: flags.server_tls_ca.clone(), own })
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
    Ok(Rules { writes: flags.writes, reads, multiget: flags.multiget, hash: flags.hash, ..Rules::default() })
}

/// Returns what the record says of this run.
fn run_note(flags: &CacheFlags) -> RunNote {
    RunNote {
        command: RunInfo::command_line(),
        options: common(flags).recorded(serde_json::json!({
            "config": legible(&flags.config),
            "server": flags.server,
            "resolve_every_s": flags.resolve_every.0.map(|every| every.as_secs_f64()),
            "name_server": flags.name_server,
            "server_tls_ca": legible(&flags.server_tls.server_tls_ca),
            "server_tls_cert": legible(&flags.server_tls.server_tls_cert),
            "server_tls_key": legible(&flags.server_tls.server_tls_key),
            "writes": flags.writes.to_string(),
            "reads": flags.reads.map(|reads| reads.to_string()),
            "multiget": flags.multiget.to_string(),
            "hash": flags.hash.to_string(),
            "eject": flags.eject.map(|eject| eject == Switch::On),
            "workers": flags.workers.0,
            "flush_all": flags.flush_all == Switch::On,
            "mock_bytes": flags.mock.0,
            "server_timeout_s": flags.server_timeout.as_secs_f64(),
            "connect_timeout_s": server_limits(flags).connect_timeout.as_secs_f64(),
            "request_timeout_s": request_timeout(flags).as_secs_f64(),
            "zone": flags.zone,
            "line_limit": flags.line_limit,
            "max_value_bytes": flags.max_value,
            "max_line_bytes": flags.max_line,
            "client_limit": flags.client_limit,
            "memory_limit_bytes": flags.memory_limit,
        })),
    }
}
