//! twemproxy's YAML: each pool listens on its own, and so becomes a file of its own.
//!
//! Keys are placed by a hash and a distribution; three pairs of these have counterparts here.

use posthaste_server::cache::placement::Hash;
use serde_json::{Map, Value as Json};

use super::yaml;
use super::{Import, Pool, Route, Server, TIMEOUT_MS_MIN, quoted};
use crate::flags::MAX_CLIENTS;

/// Where the first pool serves HTTP, which is the default of `--http`; each further one has the next port.
const HTTP_PORT: usize = 7481;

/// Fields of a pool that are understood, or make no difference here.
const KNOWN: [&str; 13] = [
    "listen",
    "hash",
    "distribution",
    "hash_tag",
    "timeout",
    "servers",
    "redis",
    "client_connections",
    "auto_eject_hosts",
    "backlog",
    "preconnect",
    "tcpkeepalive",
    "server_connections",
];

pub(super) fn read(text: &str, wanted: Option<&str>) -> Result<Import, String> {
    let file = yaml::read(text).map_err(|error| format!("not YAML: {error}"))?;
    let pools = file.as_object().ok_or("neither mcrouter's JSON nor twemproxy's YAML")?;
    let names: Vec<&str> = pools.keys().map(String::as_str).collect();
    let name = match (wanted, names.as_slice()) {
        (Some(wanted), _) => names
            .iter()
            .find(|name| **name == wanted)
            .ok_or_else(|| format!("there is no pool {wanted}; there are {}", names.join(", ")))?,
        (None, [only]) => only,
        (None, _) => {
            let all = names.join(", ");
            return Err(format!(
                "pools {all} listen by themselves and need a posthaste cache each: choose one with --pool NAME"
            ));
        }
    };
    let fields = pools[*name].as_object().ok_or_else(|| format!("pool {name} has no servers"))?;
    if fields.get("redis").is_some_and(|redis| redis == "true") {
        return Err(format!("pool {name} speaks redis, and this router speaks memcached"));
    }
    let mut import = Import::default();
    pool(&mut import, name, fields)?;
    if names.len() > 1 {
        // The others are for processes beside this one, which cannot all serve HTTP at the default.
        let position = names.iter().position(|known| known == name).unwrap_or_default();
        import.options.push(("http", quoted(&format!("127.0.0.1:{}", HTTP_PORT + position))));
    }
    import.routes.push(Route { pool: (*name).to_owned(), ..Route::default() });
    Ok(import)
}

fn pool(import: &mut Import, name: &str, yaml: &Map<String, Json>) -> Result<(), String> {
    let text = |field: &str| yaml.get(field).and_then(Json::as_str);
    let number = |field: &str| text(field).and_then(|text| text.parse::<u64>().ok()).filter(|it| *it > 0);
    let servers = yaml.get("servers").and_then(Json::as_array);
    let servers = servers.ok_or_else(|| format!("pool {name} has no servers"))?.iter();
    let mut servers: Vec<Server> =
        servers.map(|text| server(text.as_str().unwrap_or_default())).collect::<Result<_, _>>()?;
    let (hash, distribution) = (text("hash").unwrap_or("fnv1a_64"), text("distribution").unwrap_or("ketama"));
    let placement = placement(import, hash, distribution, &mut servers);
    let mut fields = vec![("writes", quoted("owner")), ("hash", quoted(placement))];
    fields.extend(text("hash_tag").map(|tag| ("hash-tag", quoted(tag))));
    if let Some(listen) = text("listen") {
        let (place, mode) = listen.split_once(' ').unwrap_or((listen, ""));
        import.options.push(("listen", quoted(&address(place))));
        if !mode.is_empty() {
            import.leave_out(format!(
                "the permissions {mode} of listen: a socket that the tier makes is for who its umask lets in; have systemd make \
                 it (SocketMode=) for others"
            ));
        }
    }
    if let Some(timeout) = number("timeout") {
        import.options.push(("server-timeout", quoted(&format!("{}ms", timeout.max(TIMEOUT_MS_MIN)))));
    }
    if let Some(clients) = number("client_connections") {
        import.options.push(("max-clients", clients.to_string()));
    }
    match (text("timeout"), number("timeout")) {
        (Some(given), None) => import.leave_out(format!("timeout {given}: a server may take 1 s to answer")),
        (None, None) => {
            import.leave_out("no timeout: a server may take 1 s to answer, and not as long as it likes")
        }
        (_, Some(..TIMEOUT_MS_MIN)) => {
            import.leave_out(format!("a timeout below {TIMEOUT_MS_MIN} ms: it is {TIMEOUT_MS_MIN} ms"))
        }
        _ => {}
    }
    if let (Some(given), None) = (text("client_connections"), number("client_connections")) {
        import.leave_out(format!("client_connections {given}: there are at most {MAX_CLIENTS}"));
    }
    leave_out_rest(import, yaml);
    import.pools.push(Pool { name: name.to_owned(), servers, fields, ..Pool::default() });
    Ok(())
}

/// Notes the fields of a pool that have no counterpart.
fn leave_out_rest(import: &mut Import, yaml: &Map<String, Json>) {
    let text = |field: &str| yaml.get(field).and_then(Json::as_str);
    let connections = text("server_connections").and_then(|text| text.parse::<u64>().ok());
    if let Some(connections @ 2..) = connections {
        import.leave_out(format!(
            "server_connections {connections}: each network thread has one connection to each server; for more of them, so \
             that a large value delays fewer clients, set threads = {connections} or more"
        ));
    }
    if text("auto_eject_hosts") == Some("true") {
        import.leave_out(
            "auto_eject_hosts: keys of a server that is lost stay its keys, and are errors until it is back; \
             to have others stand in, add gutter = \"POOL\"",
        );
    }
    for strange in yaml.keys().filter(|field| !KNOWN.contains(&field.as_str())) {
        import.leave_out(format!("{strange}: it has no counterpart"));
    }
}

/// Reads `HOST:PORT:WEIGHT NAME` or `/PATH:WEIGHT NAME`; the name may be missing.
fn server(text: &str) -> Result<Server, String> {
    let (place, name) = text.split_once(' ').map_or((text, None), |(place, name)| (place, Some(name.trim())));
    let wrong = || format!("server {text:?}: HOST:PORT:WEIGHT is expected");
    let (place, weight) = place.rsplit_once(':').ok_or_else(wrong)?;
    let weight: u32 = weight.parse().map_err(|_| wrong())?;
    let weight = (weight != 1).then_some(weight);
    // A path without a given name is named with a colon at its end, which would stand before a port.
    let own = || place.starts_with('/').then(|| format!("{place}:"));
    Ok(Server { address: address(place), name: name.map(str::to_owned).or_else(own), weight })
}

fn address(place: &str) -> String {
    if place.starts_with('/') { format!("unix:{place}") } else { place.to_owned() }
}

/// Returns our placement that is closest.
fn placement(import: &mut Import, hash: &str, distribution: &str, servers: &mut [Server]) -> &'static str {
    match (distribution, hash) {
        ("ketama", "fnv1a_64") => "twemproxy",
        ("ketama", "md5") => "ketama",
        ("modula", "crc32a") if servers.iter().all(|server| server.weight.is_none()) => {
            // Its list is sorted by name, shorter names first; a name is the address unless it is given.
            servers.sort_by_key(|server| {
                let name = server.name.as_deref();
                let name = name.unwrap_or_else(|| Hash::Twemproxy.name_of(&server.address)).to_owned();
                (name.len(), name)
            });
            "modulo-crc32"
        }
        _ => {
            let weights =
                if (distribution, hash) == ("modula", "crc32a") { " and weights other than 1" } else { "" };
            import.leave_out(format!(
                "hash {hash} with distribution {distribution}{weights}: keys move, by hash twemproxy"
            ));
            "twemproxy"
        }
    }
}
