//! What operators see of the cache tier and set: its servers, pools and routes, and the state that a server is to have.
//!
//! `stats`, HTTP, the console and `posthaste admin` all ask here, so that they say the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::layout::Source;
use super::memcached_server::Server;
use super::missed_writes::MISSED_WRITES_MAX;
use super::pool::Pool;
use super::rules::KeyPart;
use super::table::{Route, Table};
use super::verbs::Verbs;

/// One server, as shown to operators.
#[derive(Clone, Debug, Serialize)]
pub struct ServerInfo {
    /// The server's name: `host:port` or `unix:PATH`.
    pub name: String,
    /// The names by which pools place the server's keys, where these are others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The server's address; empty: it is not known.
    pub address: String,
    /// Whether connections to the server are encrypted with TLS.
    pub tls: bool,
    /// The state of the server: `live`, `draining`, `away` or `down`.
    pub state: String,
    /// The version that the server told last; empty: none yet.
    pub version: String,
    /// The pools that the server is in.
    pub pools: Vec<String>,
    /// Commands sent to the server since the start.
    pub requests: u64,
    /// The server's part of all commands sent, 0 to 1, rounded to four places.
    pub share: f64,
    /// Keys asked of the server.
    pub keys: u64,
    /// Errors that the server answered, and answers that it did not give.
    pub errors: u64,
    /// How often the server was lost.
    pub losses: u64,
    /// Writes that were answered while the server did not have them: it was away.
    pub missed_writes: u64,
    /// Keys that the server must delete before it takes part again; 0 if it is to be flushed.
    pub missed_keys: usize,
    /// Most keys that are noted so; with one more the server is flushed instead.
    pub missed_keys_max: usize,
    /// Whether the server must be flushed before it takes part again.
    pub must_flush: bool,
    /// How long the server's replies took since the start: pairs of a time in microseconds, and how many took less
    /// than it but not less than the time of the pair before.
    pub replies_below_us: Vec<(f64, u64)>,
}

/// A server in a pool, as shown to operators.
#[derive(Clone, Debug, Serialize)]
pub struct MemberInfo {
    /// The server's name.
    pub server: String,
    /// The name that keys are placed by, as configured; without one, the server's own.
    pub name: String,
    /// The server's share of the keys, in proportion to the others' weights.
    pub weight: u32,
    /// The zone that the server stands in, if the configuration says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The group that the server was found by: `dns:HOST:PORT` or `srv:NAME`.
    pub group: Option<String>,
    /// The state of the server: `live`, `draining`, `away` or `down`.
    pub state: String,
}

/// A pool that stands in for another, as shown to operators.
#[derive(Clone, Debug, Serialize)]
pub struct StandInInfo {
    /// The pool's name.
    pub pool: String,
    /// Most seconds that a value stored there lives; none: as long as the client says.
    pub expiry_s: Option<u32>,
}

/// One pool, as shown to operators.
#[derive(Clone, Debug, Serialize)]
pub struct PoolInfo {
    /// The pool's name.
    pub name: String,
    /// The pool's servers.
    pub servers: Vec<MemberInfo>,
    /// Where writes go: `all` or `owner`.
    pub writes: String,
    /// Where reads go: `round-robin`, `random`, `nearest`, `two-choices` or `owner`.
    pub reads: String,
    /// How multi-gets are spread: `whole`, `split` or `auto`.
    pub multiget: String,
    /// The rule by which keys are placed.
    pub hash: String,
    /// The part of a key that it is placed by, if that is not all of it.
    pub key_part: Option<String>,
    /// What is put behind the key, or that part of it, before it is hashed.
    pub hash_salt: Option<String>,
    /// When a write is answered.
    pub answer: String,
    /// When a miss of one replica is looked for on another.
    pub read_repair: String,
    /// What a get is answered if its server does not reply: `error` or `miss`.
    pub get_errors: String,
    /// Pools that stand in for this one, in the order in which they are tried.
    pub failover: Vec<StandInInfo>,
    /// Most requests in a second that stand-ins may take.
    pub failover_limit: Option<u32>,
    /// The pool below, which gets all writes too.
    pub below: Option<String>,
    /// The pool whose place this one takes.
    pub warm_from: Option<String>,
    /// Other pools in which a key is deleted too when it is deleted here.
    pub deletes_to: Vec<String>,
    /// Requests that a stand-in took.
    pub failovers: u64,
    /// Requests that no stand-in was allowed to take, because of the limit.
    pub failovers_refused: u64,
    /// Keys looked for in the second pool, or on another replica.
    pub looked_up: u64,
    /// Keys filled from the second pool, or from another replica.
    pub filled: u64,
}

/// One route, as shown to operators.
#[derive(Clone, Debug, Serialize)]
pub struct RouteInfo {
    /// What a key must begin with.
    pub prefix: String,
    /// Servers see the key without the prefix.
    pub strip: bool,
    /// Servers see the key with this before it.
    pub add_prefix: Option<String>,
    /// The commands that the route takes; none: all.
    pub commands: Option<Vec<&'static str>>,
    /// The pool that the route leads to.
    pub pool: String,
    /// The pool that gets a copy of the requests for a share of the keys.
    pub shadow: Option<String>,
    /// The share of keys whose requests are copied, 0 to 1.
    pub shadow_share: Option<f64>,
    /// Most requests in a second; each key of a multi-get counts.
    pub limit: Option<u32>,
    /// Most requests at once, after a pause.
    pub burst: Option<u32>,
    /// Requests; a multi-get counts once for each key.
    pub requests: u64,
    /// Requests refused because of the limit.
    pub refused: u64,
    /// How long a request may take, in seconds.
    pub timeout_s: f64,
    /// Requests that took longer than that.
    pub timed_out: u64,
    /// How long answers took since the start, from when their requests were read, in the form of
    /// [`ServerInfo::replies_below_us`]. An answer to keys of several routes counts for one of them.
    pub answers_below_us: Vec<(f64, u64)>,
}

fn count(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

/// The servers that some pool names.
#[must_use]
pub fn servers(table: &Table) -> Vec<ServerInfo> {
    let in_use: Vec<&Server> = table.in_use().iter().map(|slot| &*table.servers[*slot]).collect();
    let all: u64 = in_use.iter().map(|server| count(&server.counts.requests)).sum();
    in_use.into_iter().map(|server| server_info(table, server, all)).collect()
}

fn server_info(table: &Table, server: &Server, all_requests: u64) -> ServerInfo {
    let has = |pool: &&Pool| pool.members.iter().any(|member| member.server.slot == server.slot);
    let share = |requests: u64| (1e4 * requests as f64 / all_requests.max(1) as f64).round() / 1e4;
    let requests = count(&server.counts.requests);
    let (missed_keys, must_flush) = server.health.missed();
    ServerInfo {
        name: server.name().to_owned(),
        labels: labels(table, server),
        address: server.backend.address().map(|address| address.to_string()).unwrap_or_default(),
        tls: server.backend.is_encrypted(),
        state: server.health.state().to_string(),
        version: server.dialect.version(),
        pools: table.pools.iter().filter(has).map(|pool| pool.name.clone()).collect(),
        requests,
        share: share(requests),
        keys: count(&server.counts.keys),
        errors: count(&server.counts.errors),
        losses: server.health.losses(),
        missed_writes: count(&server.counts.missed_writes),
        missed_keys,
        missed_keys_max: MISSED_WRITES_MAX,
        must_flush,
        replies_below_us: server.counts.latency.counts(),
    }
}

/// The names that pools have for a server, other than its own.
fn labels(table: &Table, server: &Server) -> Vec<String> {
    let members = table.pools.iter().flat_map(|pool| &pool.members);
    let of_it = members.filter(|member| member.server.slot == server.slot && member.label != server.name());
    let mut labels: Vec<String> = of_it.map(|member| member.label.clone()).collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// All pools of a table.
#[must_use]
pub fn pools(table: &Table) -> Vec<PoolInfo> {
    table.pools.iter().map(|pool| pool_info(table, pool)).collect()
}

fn pool_info(table: &Table, pool: &Pool) -> PoolInfo {
    let name = |pool: usize| table.pools[pool].name.clone();
    let (mut below, mut warm_from) = (None, None);
    match pool.source {
        Some(Source::Below(pool)) => below = Some(name(pool)),
        Some(Source::Old(pool)) => warm_from = Some(name(pool)),
        None => {}
    }
    let member = |member: &super::pool::Member| MemberInfo {
        server: member.server.name().to_owned(),
        name: member.label.clone(),
        weight: member.weight,
        zone: member.zone.clone(),
        group: member.group.clone(),
        state: member.server.health.state().to_string(),
    };
    let stand_in =
        |other: &super::pool::StandIn| StandInInfo { pool: name(other.pool), expiry_s: other.expiry_s };
    PoolInfo {
        name: pool.name.clone(),
        servers: pool.members.iter().map(member).collect(),
        writes: pool.rules.writes.to_string(),
        reads: pool.rules.reads.to_string(),
        multiget: pool.rules.multiget.to_string(),
        hash: pool.rules.hash.to_string(),
        key_part: key_part(&pool.rules.key_part),
        hash_salt: (!pool.rules.salt.is_empty())
            .then(|| String::from_utf8_lossy(&pool.rules.salt).into_owned()),
        answer: pool.rules.answer.to_string(),
        read_repair: pool.rules.read_repair.to_string(),
        get_errors: pool.rules.get_errors.to_string(),
        failover: pool.stand_ins.iter().map(stand_in).collect(),
        failover_limit: pool.failover_limit,
        below,
        warm_from,
        deletes_to: pool.deletes_to.iter().map(|pool| name(*pool)).collect(),
        failovers: count(&pool.counts.failovers),
        failovers_refused: count(&pool.counts.failovers_refused),
        looked_up: count(&pool.counts.looked_up),
        filled: count(&pool.counts.filled),
    }
}

fn key_part(part: &KeyPart) -> Option<String> {
    match part {
        KeyPart::Whole => None,
        KeyPart::Tag { open, close } => {
            Some(format!("what stands between {} and {}", char::from(*open), char::from(*close)))
        }
        KeyPart::Before(stop) => Some(format!("what stands before {}", String::from_utf8_lossy(stop))),
    }
}

/// All routes of a table, by prefix.
#[must_use]
pub fn routes(table: &Table) -> Vec<RouteInfo> {
    table.routes.iter().map(|route| route_info(table, route)).collect()
}

/// One route, as shown to operators.
#[must_use]
pub fn route_info(table: &Table, route: &Route) -> RouteInfo {
    RouteInfo {
        prefix: String::from_utf8_lossy(&route.prefix).into_owned(),
        strip: !route.renaming.removed_prefix.is_empty(),
        add_prefix: (!route.renaming.added_prefix.is_empty())
            .then(|| String::from_utf8_lossy(&route.renaming.added_prefix).into_owned()),
        commands: (route.verbs != Verbs::ALL).then(|| route.verbs.names()),
        pool: table.pools[route.pool].name.clone(),
        shadow: route.shadow.map(|shadow| table.pools[shadow.pool].name.clone()),
        shadow_share: route.shadow.map(|shadow| shadow.share),
        limit: route.rate_limiter.as_ref().map(|limiter| limiter.limit.per_second),
        burst: route.rate_limiter.as_ref().map(|limiter| limiter.limit.burst),
        requests: count(&route.counts.requests),
        refused: count(&route.counts.refused),
        timeout_s: route.timeout_ns as f64 / 1e9,
        timed_out: count(&route.counts.timed_out),
        answers_below_us: route.counts.latency.counts(),
    }
}

/// Finds a server that an operator names, perhaps by the name that a pool has for it.
///
/// # Errors
/// There is no such server, or several; the text names the ones to choose from.
pub fn find_server<'a>(table: &'a Table, name: &str) -> Result<&'a Server, String> {
    let in_use = || table.in_use().iter().map(|slot| &table.servers[*slot]);
    let labelled = || in_use().filter(|server| labels(table, server).iter().any(|label| label == name));
    let mut found: Vec<_> = in_use().filter(|server| server.backend.is_named(name)).collect();
    if found.is_empty() {
        found.extend(labelled());
    }
    match found.as_slice() {
        [server] => Ok(server),
        [] => Err(format!("there is no server {name}; there are {}", names(table, in_use()))),
        several => {
            let several = names(table, several.iter().copied());
            Err(format!("{name} is the name of several servers: write the address of one, of {several}"))
        }
    }
}

/// Names servers as an operator may call them: `10.0.0.1:11211 (users-1)`.
fn names<'a>(table: &Table, servers: impl Iterator<Item = &'a Arc<Server>>) -> String {
    let name = |server: &Arc<Server>| match labels(table, server).join(", ") {
        labels if labels.is_empty() => server.name().to_owned(),
        labels => format!("{} ({labels})", server.name()),
    };
    servers.map(name).collect::<Vec<_>>().join(", ")
}
