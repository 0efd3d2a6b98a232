//! mcrouter's JSON: a tree of route handles. Each handle becomes either a pool, made of the pool under it and
//! the handle's own settings, or a list of routes.

mod fields;
mod hash;
mod named;
mod others;
mod pools;
mod shadow;
mod strict;

use std::collections::HashMap;

use posthaste_server::cache::layout::DEFAULT_POOL;
use posthaste_server::cache::pool::LONGEST_EXPIRY_S;
use posthaste_server::cache::verbs::Verbs;
use serde_json::{Map, Value as Json};

use super::{Import, Pool, Route, Server, TIMEOUT_MS_MIN, Timeouts, quoted};
pub(super) use strict::strict_json;

pub(super) fn read(text: &str) -> Result<Import, String> {
    let mut file: Json = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    named::put_in_place(&mut file);
    let mut reader =
        Reader { pools: file["pools"].as_object().cloned().unwrap_or_default(), ..Reader::default() };
    let route = match (&file["route"], file["routes"].as_array().map(Vec::as_slice)) {
        (Json::Null, Some([first, others @ ..])) => {
            if !others.is_empty() {
                reader.import.leave_out("routes: all but the first; keys have no routing prefix here");
            }
            reader.report_unknown_of_routes(first);
            &first["route"]
        }
        (route, _) => route,
    };
    reader.routes("", &Verbs::ALL.names(), route)?;
    reader.drop_unused();
    reader.agree_on_timeouts();
    for field in file.as_object().into_iter().flat_map(Map::keys) {
        if !["named_handles", "pools", "route", "routes"].contains(&field.as_str()) {
            reader.import.leave_out(format!("{field}: it has no counterpart"));
        }
    }
    let takes_all = |route: &Route| route.prefix.is_empty() && route.commands.is_empty();
    let is_default = |pool: &Pool| pool.name == DEFAULT_POOL;
    if !reader.import.routes.iter().any(takes_all) && reader.import.pools.iter().any(is_default) {
        reader.import.leave_out(format!(
            "keys that no route takes: they go to the pool that is named {DEFAULT_POOL}, where mcrouter answers with an error"
        ));
    }
    // mcrouter's own default.
    reader.import.pools.iter_mut().for_each(|pool| pool.fields.push(("get-errors", quoted("miss"))));
    if reader.import.routes.is_empty() {
        return Err("nothing of it has a counterpart: no pool is routed to".into());
    }
    Ok(reader.import)
}

#[derive(Default)]
struct Reader {
    pools: Map<String, Json>,
    import: Import,
    /// For each of our pools the name that it has unless another one has that.
    bases: HashMap<String, String>,
}

/// Returns a handle's type, and the handle's argument in the short form `"PoolRoute|main"`.
fn kind(route: &Json) -> (&str, Option<&str>) {
    match route.as_str() {
        Some(text) => text.split_once('|').map_or((text, None), |(kind, rest)| (kind, Some(rest))),
        None => (route["type"].as_str().unwrap_or_default(), None),
    }
}

impl Reader {
    /// Adds the routes for keys with this prefix and these commands.
    fn routes(&mut self, prefix: &str, commands: &[&str], route: &Json) -> Result<(), String> {
        match kind(route).0 {
            "PrefixSelectorRoute" => {
                self.report_unknown_of_handle(route);
                for (more, under) in route["policies"].as_object().into_iter().flatten() {
                    let (longer, before) = (format!("{prefix}{more}"), self.import.routes.len());
                    self.routes(&longer, commands, under)?;
                    if self.import.routes.len() == before {
                        self.import.leave_out(format!(
                            "{longer} as a prefix: no route is written for its keys, which go where they would without it"
                        ));
                    }
                }
                if route["wildcard"].is_null() {
                    Ok(())
                } else {
                    self.routes(prefix, commands, &route["wildcard"])
                }
            }
            "OperationSelectorRoute" => self.routes_by_command(prefix, commands, route),
            "ShadowRoute" => {
                self.report_unknown_of_handle(route);
                let child = if route["child"].is_null() { &route["children"] } else { &route["child"] };
                self.shadowed(prefix, commands, child, &route["shadows"])
            }
            "PoolRoute" | "HashRoute" if !route["shadows"].is_null() => {
                let mut bare = route.clone();
                if let Some(fields) = bare.as_object_mut() {
                    fields.remove("shadows");
                }
                self.shadowed(prefix, commands, &bare, &route["shadows"])
            }
            kind if !fields::are_known_of(kind) => match self.under(route) {
                Some(first) => self.routes(prefix, commands, &first),
                None => Ok(()),
            },
            _ => {
                if let Some(pool) = self.pool(route)? {
                    self.add_route(prefix, commands, pool);
                }
                Ok(())
            }
        }
    }

    /// Adds a route to a pool. If it takes all commands that no other route of its prefix takes, it needs no
    /// list of them.
    fn add_route(&mut self, prefix: &str, commands: &[&str], pool: String) {
        let others = self.import.routes.iter().filter(|route| route.prefix == prefix);
        let taken: Vec<&String> = others.flat_map(|route| &route.commands).collect();
        let is_rest = Verbs::ALL
            .names()
            .iter()
            .all(|word| commands.contains(word) || taken.iter().any(|other| other == word));
        let commands = if is_rest { Vec::new() } else { commands.iter().map(ToString::to_string).collect() };
        self.import.routes.push(Route { prefix: prefix.to_owned(), commands, pool, shadow: None });
    }

    /// Adds the routes of a selector by command, for those of the commands that reach it.
    fn routes_by_command(&mut self, prefix: &str, commands: &[&str], route: &Json) -> Result<(), String> {
        self.report_unknown_of_handle(route);
        let broadcast = if commands.contains(&"delete") { self.broadcast(route)? } else { None };
        let mut rest = commands.to_vec();
        for (command, under) in route["operation_policies"].as_object().into_iter().flatten() {
            let mut words = our_commands(command);
            if words.iter().any(|word| Verbs::verb(word).is_none()) {
                self.import
                    .leave_out(format!("{command} of OperationSelectorRoute: there is no such command here"));
                continue;
            }
            words.retain(|word| commands.contains(word));
            if !words.is_empty() && (command != "delete" || broadcast.is_none()) {
                let before = self.import.routes.len();
                self.routes(prefix, &words, under)?;
                if self.import.routes.len() > before {
                    rest.retain(|word| !words.contains(word));
                }
            }
        }
        let default = &route["default_policy"];
        match broadcast {
            _ if rest.is_empty() => {}
            Some(pool) => self.add_route(prefix, &rest, pool),
            None if default.is_null() => {}
            None => self.routes(prefix, &rest, default)?,
        }
        Ok(())
    }

    /// Returns the pool of a selector that sends deletions to several pools and everything else to one of
    /// these. None: this is no such selector.
    fn broadcast(&mut self, route: &Json) -> Result<Option<String>, String> {
        let (delete, default) = (&route["operation_policies"]["delete"], &route["default_policy"]);
        let (of, children) = (kind(delete).0, list(&delete["children"]));
        let are_pools = children.len() > 1 && children.iter().all(|child| kind(child).0 == "PoolRoute");
        let name = |route: &Json| pool_name(route, kind(route).1).to_owned();
        let is_one =
            kind(default).0 == "PoolRoute" && children.iter().any(|child| name(child) == name(default));
        if !of.starts_with("All") || !are_pools || !is_one {
            return Ok(None);
        }
        self.report_unknown_of_handle(delete);
        let own = self.sharded(default, kind(default).1)?;
        let mut others = Vec::new();
        for child in children.into_iter().filter(|child| name(child) != name(default)) {
            others.push(self.sharded(child, kind(child).1)?);
        }
        if of != "AllInitialRoute" {
            self.import.leave_out(format!(
                "{of} for delete: its answer is that of pool {own}; the other pools are told, and nobody waits for them"
            ));
        }
        Ok(Some(self.derived(&own, Vec::new(), ("deletes-to", others))))
    }

    /// Returns the pool that a handle becomes. None: it has no counterpart, which was reported.
    fn pool(&mut self, route: &Json) -> Result<Option<String>, String> {
        self.report_unknown_of_handle(route);
        let (kind, short) = kind(route);
        let answer = match kind {
            "AllSyncRoute" => Some("all"),
            "AllFastestRoute" => Some("any"),
            "AllMajorityRoute" => Some("majority"),
            "AllInitialRoute" => Some("first"),
            "AllAsyncRoute" => Some("none"),
            _ => None,
        };
        if let Some(answer) = answer {
            let under = short.map_or(route["children"].clone(), Json::from);
            return self.replicated(kind, answer, &under);
        }
        match kind {
            "HashRoute" if others::hashes_over_handles(route) => {
                self.under(route).map_or(Ok(None), |first| self.pool(&first))
            }
            "PoolRoute" | "HashRoute" => self.sharded(route, short).map(Some),
            "Pool" => self.servers_as_handles(route, short).map(Some),
            "FailoverRoute" => self.failover(&short.map_or(route["children"].clone(), Json::from), None),
            "FailoverWithExptimeRoute" => {
                let mut children = vec![route["normal"].clone()];
                children.extend(list(&route["failover"]).into_iter().cloned());
                self.failover(&Json::from(children), Some(route["failover_exptime"].as_u64().unwrap_or(60)))
            }
            "WarmUpRoute" => {
                let (Some(cold), Some(warm)) = (self.pool(&route["cold"])?, self.pool(&route["warm"])?)
                else {
                    return Ok(None);
                };
                Ok(Some(self.derived(&cold, Vec::new(), ("warm-from", vec![warm]))))
            }
            _ => self.under(route).map_or(Ok(None), |first| self.pool(&first)),
        }
    }

    /// Adds a pool whose servers share the keys.
    fn sharded(&mut self, route: &Json, short: Option<&str>) -> Result<String, String> {
        self.report_unknown_of_handle(route);
        self.report_unknown_of_hash(&route["hash"]);
        let name = pool_name(route, short).to_owned();
        let mut servers = self.servers(&name, &route["pool"])?;
        let hashing = hash::read(route, self.pools.get(&name).unwrap_or(&route["pool"]), &mut servers);
        for what in hashing.moves {
            self.import.leave_out(format!("{what} of pool {name}: keys move"));
        }
        if !route["rates"].is_null() {
            self.import.leave_out(format!(
                "the rates of pool {name}: write limit = N, and burst = N, in its routes for reads and for writes"
            ));
        }
        let fields = vec![("writes", quoted("owner"))];
        let timeouts = self.timeouts(&name, &route["pool"]);
        let fields = [fields, hashing.fields].concat();
        Ok(self.add(Pool { name, servers, fields, timeouts, ..Pool::default() }))
    }

    /// Adds a pool for a handle that has each server of a pool as a child, where no key has a server of its own.
    fn servers_as_handles(&mut self, route: &Json, short: Option<&str>) -> Result<String, String> {
        let name = self.sharded(route, short)?;
        if self.import.pools.iter().any(|pool| pool.name == name && pool.servers.len() > 1) {
            self.import.leave_out(format!(
                "the servers of pool {} as children of a handle: keys move, as they share the keys here",
                pool_name(route, short)
            ));
        }
        Ok(name)
    }

    /// Adds a pool for a route that asks all of its children: `Pool` stands for each of its servers,
    /// `PoolRoute` for the server that has the key.
    fn replicated(&mut self, of: &str, answer: &str, under: &Json) -> Result<Option<String>, String> {
        let (mut servers, mut shards, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let mut timeouts = Vec::new();
        for child in list(under) {
            self.report_unknown_of_handle(child);
            let (kind, short) = kind(child);
            if !["Pool", "PoolRoute"].contains(&kind) {
                return Err(format!(
                    "{of}: {kind} is under it, where only pools can be; translate it by hand"
                ));
            }
            let name = pool_name(child, short).to_owned();
            let its = self.servers(&name, &child["pool"])?;
            if kind == "PoolRoute" && its.len() > 1 {
                shards.push(child);
            } else {
                servers.extend(its);
            }
            timeouts.push(self.timeouts(&name, &child["pool"]));
            names.push(name);
        }
        match (servers.is_empty(), shards.as_slice()) {
            (true, []) => Ok(None),
            (false, []) => {
                let fields = vec![("writes", quoted("all")), ("answer", quoted(answer))];
                if timeouts.iter().any(|its| !its.equals(timeouts[0])) {
                    self.report_longest(&names);
                }
                let timeouts = timeouts.into_iter().reduce(Timeouts::longest).unwrap_or_default();
                let name = names.join("-");
                Ok(Some(self.add(Pool { name, servers, fields, timeouts, ..Pool::default() })))
            }
            (true, [all]) => self.pool(all),
            (true, [first, second]) => self.doubled(of, answer, first, second).map(Some),
            _ => Err(format!(
                "{of} over pools {}: a key would be on one server of each, which works for two pools that each have \
                 several servers (below); translate it by hand",
                names.join(", ")
            )),
        }
    }

    /// Adds two pools that each distribute all keys, so that two servers hold each key.
    fn doubled(&mut self, of: &str, answer: &str, first: &Json, second: &Json) -> Result<String, String> {
        let [first, second] = [first, second].map(|route| self.sharded(route, kind(route).1));
        let (first, second) = (first?, second?);
        self.import.leave_out(format!(
            "{of} over pools {first} and {second}, for what is no plain write: gets ask {second} for what {first} \
             misses, and {second} decides about add, cas, incr and their like"
        ));
        let mut pool = self.import.pools.iter().find(|pool| pool.name == first).cloned().unwrap_or_default();
        pool.name = format!("{first}-{second}");
        pool.fields.push(("answer", quoted(answer)));
        pool.links.push(("below", vec![second]));
        Ok(self.add(pool))
    }

    /// Adds a pool with other ones that stand in for it.
    fn failover(&mut self, children: &Json, expiry_s: Option<u64>) -> Result<Option<String>, String> {
        let mut pools = Vec::new();
        for child in list(children) {
            pools.extend(self.pool(child)?);
        }
        let [first, others @ ..] = pools.as_slice() else { return Ok(None) };
        let pool = match (expiry_s, others) {
            (_, []) => first.clone(),
            (Some(expiry), [gutter, rest @ ..]) => {
                if !rest.is_empty() {
                    self.import.leave_out("failover with a short expiry: all pools but the first");
                }
                if expiry == 0 {
                    self.import.leave_out("failover_exptime 0: gutter-expiry is at least 1 s");
                }
                if expiry > LONGEST_EXPIRY_S {
                    self.import
                        .leave_out(format!("failover_exptime {expiry}: servers count 30 days at most"));
                }
                let expiry = ("gutter-expiry", quoted(&format!("{}s", expiry.clamp(1, LONGEST_EXPIRY_S))));
                self.derived(first, vec![expiry], ("gutter", vec![gutter.clone()]))
            }
            (None, others) => self.derived(first, Vec::new(), ("failover", others.to_vec())),
        };
        Ok(Some(pool))
    }

    /// Returns the timeouts of a pool's servers, if it has any; mcrouter's are in milliseconds.
    fn timeouts(&mut self, name: &str, inline: &Json) -> Timeouts {
        let pool = self.pools.get(name).unwrap_or(inline).clone();
        let mut ms = |field: &str| {
            let given = pool[field].as_u64().filter(|ms| *ms > 0)?;
            if given < TIMEOUT_MS_MIN {
                self.import.leave_out(format!("{field} {given} of pool {name}: it is {TIMEOUT_MS_MIN} ms"));
            }
            Some(given.max(TIMEOUT_MS_MIN))
        };
        Timeouts { answer: ms("server_timeout"), connect: ms("connect_timeout") }
    }

    /// Gives pools that share a server the same timeouts, the longer ones.
    fn agree_on_timeouts(&mut self) {
        while let Some((one, other)) = self.pools_at_odds() {
            let pools = &mut self.import.pools;
            let longest = pools[one].timeouts.longest(pools[other].timeouts);
            (pools[one].timeouts, pools[other].timeouts) = (longest, longest);
            let names = [one, other].map(|pool| pools[pool].name.clone());
            self.report_longest(&names);
        }
    }

    /// Returns two pools that share a server and have different timeouts.
    fn pools_at_odds(&self) -> Option<(usize, usize)> {
        let (pools, mut known) = (&self.import.pools, HashMap::new());
        pools.iter().enumerate().find_map(|(number, pool)| {
            pool.servers.iter().find_map(|server| {
                let other = *known.entry(&server.address).or_insert(number);
                (!pools[other].timeouts.equals(pool.timeouts)).then_some((other, number))
            })
        })
    }

    fn report_longest(&mut self, pools: &[String]) {
        self.import.leave_out(format!(
            "different timeouts of pools {}: they are one pool here or share servers, and the longest hold for all",
            pools.join(", ")
        ));
    }

    fn servers(&mut self, name: &str, inline: &Json) -> Result<Vec<Server>, String> {
        let pool = self.pools.get(name).unwrap_or(inline).clone();
        self.report_unknown_of_pool(&pool, name);
        let servers = pool["servers"].as_array().ok_or_else(|| format!("pool {name} has no servers"))?;
        servers.iter().map(|text| self.server(name, text)).collect()
    }

    /// Reads HOST:PORT:PROTOCOL:SECURITY, of which the last two may be missing.
    fn server(&mut self, pool: &str, text: &Json) -> Result<Server, String> {
        let text = text.as_str().ok_or_else(|| format!("pool {pool}: a server is a text HOST:PORT"))?;
        let start = text.find(']').unwrap_or(0);
        let end = text[start..].match_indices(':').nth(1).map_or(text.len(), |(end, _)| start + end);
        let (address, rest) = text.split_at(end);
        let mut words = rest.split(':').skip(1);
        if let Some(protocol) = words.next().filter(|protocol| *protocol != "ascii") {
            self.import.leave_out(format!("{protocol} to {address}: the text protocol is spoken to it"));
        }
        let tls = match words.next() {
            None | Some("plain") => "",
            Some("ssl" | "tls") => {
                self.import.leave_out(format!(
                    "certificates for {address}, to which TLS is spoken: name the authority by server-tls-ca"
                ));
                "tls:"
            }
            Some(other) => {
                self.import.leave_out(format!(
                    "{other} to {address}: it is asked in the clear; write tls: before it for TLS"
                ));
                ""
            }
        };
        if let Some(form) = words.next().filter(|form| *form != "notcompressed") {
            self.import.leave_out(format!("{form} to {address}: what it is sent is as it is"));
        }
        Ok(Server { address: format!("{tls}{address}"), name: None, weight: None })
    }
}

/// Returns the name of the pool that a handle leads to.
fn pool_name<'a>(route: &'a Json, short: Option<&'a str>) -> &'a str {
    // `HashRoute|Pool|main`: what is hashed over is the list of a pool's servers.
    let bare = |handle: &'a str| handle.strip_prefix("Pool|");
    let short = short.map(|name| bare(name).unwrap_or(name));
    let under = || list(&route["children"]).first()?.as_str().and_then(bare);
    let named = short.or(route["pool"].as_str()).or(route["pool"]["name"].as_str());
    named.or_else(under).unwrap_or("main")
}

/// Returns the elements of a list; anything else is a single element.
fn list(value: &Json) -> Vec<&Json> {
    match value {
        Json::Array(values) => values.iter().collect(),
        Json::Null => Vec::new(),
        value => vec![value],
    }
}

/// Returns our names of a mcrouter command.
fn our_commands(command: &str) -> Vec<&str> {
    match command {
        "get" => vec!["get", "mg"],
        "set" => vec!["set", "ms"],
        "delete" => vec!["delete", "md"],
        command => vec![command],
    }
}
