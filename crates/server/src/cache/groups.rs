//! Members of pools that stand for as many servers as a name has: `dns:HOST:PORT` for a server at each address, and
//! `srv:NAME` for one for each record of a service.
//!
//! A layout is written with groups; the table in force has the servers found in their place. Servers of a group are
//! in the same order for every router, since some rules place keys by it, and named by address or by target, since
//! other rules place them by that. A group of which no server has been found is one server that is away.

use std::collections::{HashMap, HashSet};

use super::backend::{Backend, with_port};
use super::layout::{Layout, MemberPlan, PoolPlan};
use super::placement::Hash;
use super::resolver::{Resolver, SrvRecord};

/// A server found for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedServer {
    /// The server's address, `HOST:PORT`.
    pub address: String,
    /// The weight in the server's record, if it has one.
    pub weight: Option<u16>,
}

/// The servers found for each group, by its name.
pub type ResolvedGroups = HashMap<String, Vec<ResolvedServer>>;

/// A group as written in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's name: all of its text except `tls:`.
    pub name: String,
    kind: Kind,
    speaks_tls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Hosts,
    Services,
}

impl Group {
    /// The group that a text names; None: it names none.
    ///
    /// # Errors
    /// The text begins like a group and is none: a sentence with what to write.
    #[must_use]
    pub fn of(text: &str) -> Option<Result<Self, String>> {
        let bare = text.strip_prefix("tls:").unwrap_or(text);
        let speaks_tls = bare.len() < text.len();
        if let Some(host) = bare.strip_prefix("dns:") {
            let is_host = !["dns:", "srv:", "tls:", "unix:"].iter().any(|word| host.starts_with(word));
            let is_host = is_host && Backend::named(host).is_ok();
            let group = Self { name: format!("dns:{}", with_port(host)), kind: Kind::Hosts, speaks_tls };
            let wrong = || format!("dns:{}: write dns:HOST or dns:HOST:PORT", host.escape_debug());
            return Some(if is_host { Ok(group) } else { Err(wrong()) });
        }
        let service = bare.strip_prefix("srv:")?;
        let is_name = !service.is_empty()
            && service.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let group = Self { name: bare.to_owned(), kind: Kind::Services, speaks_tls };
        let wrong = || {
            let service = service.escape_debug();
            format!("srv:{service}: write the name of a service, srv:_memcached._tcp.example.org for example")
        };
        Some(if is_name { Ok(group) } else { Err(wrong()) })
    }

    /// Returns whether the group's records have weights.
    #[must_use]
    pub fn has_weights(&self) -> bool {
        self.kind == Kind::Services
    }

    /// Looks the group's servers up: at least one.
    ///
    /// # Errors
    /// No server is found; the sentence names the group.
    pub fn resolve(&self, resolver: &Resolver) -> Result<Vec<ResolvedServer>, String> {
        let (_, name) = self.name.split_once(':').unwrap_or_default();
        let found = match self.kind {
            Kind::Hosts => resolver.addresses(name).map(|mut addresses| {
                // A host with both kinds of addresses is one server, not two: the IPv4 ones are taken.
                if addresses.iter().any(|address| address.is_ipv4()) {
                    addresses.retain(|address| address.is_ipv4());
                }
                addresses.sort_unstable();
                let found = |address: std::net::SocketAddr| ResolvedServer {
                    address: address.to_string(),
                    weight: None,
                };
                addresses.into_iter().map(found).collect::<Vec<_>>()
            }),
            Kind::Services => resolver.srv_records(name).map(|mut records| {
                let first = records.iter().map(|record| record.priority).min();
                records.retain(|record| Some(record.priority) == first && is_server(record));
                records.dedup_by_key(|record| (record.host.clone(), record.port));
                let found = records
                    .into_iter()
                    .map(|record| ResolvedServer { address: address(&record), weight: Some(record.weight) });
                found.collect()
            }),
        };
        match found {
            Ok(found) if found.is_empty() => Err(format!("{}: it has no servers", self.name)),
            found => found.map_err(|error| format!("{}: {error}", self.name)),
        }
    }
}

/// Returns whether a record names a server. The author of records must not be able to name sockets or groups by them.
fn is_server(record: &SrvRecord) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let address = address(record);
    record.port > 0
        && record.host.bytes().all(is_plain)
        && Group::of(&address).is_none()
        && Backend::named(&address).is_ok_and(|name| name == address && !name.starts_with("unix:"))
}

fn address(record: &SrvRecord) -> String {
    format!("{}:{}", record.host, record.port)
}

/// Returns the groups of a layout, each once.
#[must_use]
pub fn groups(layout: &Layout) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for member in layout.pools.iter().flat_map(|pool| &pool.members) {
        // Malformed groups are refused where the layout is read.
        if let Some(Ok(group)) = Group::of(&member.address)
            && !groups.contains(&group)
        {
            groups.push(group);
        }
    }
    groups
}

/// Returns the layout with servers in the place of groups; a group of which no server has been found stays.
#[must_use]
pub fn expanded(layout: &Layout, resolved: &ResolvedGroups) -> Layout {
    let mut expanded = layout.clone();
    for pool in &mut expanded.pools {
        pool.members = members(pool, resolved);
    }
    expanded
}

/// Returns the members of a pool with servers in the place of groups. A server that is named in the pool itself, or found
/// for two of its groups, has one member.
fn members(pool: &PoolPlan, resolved: &ResolvedGroups) -> Vec<MemberPlan> {
    let is_server = |member: &&MemberPlan| Group::of(&member.address).is_none();
    let mut taken: HashSet<String> = pool
        .members
        .iter()
        .filter(is_server)
        .filter_map(|member| Backend::named(&member.address).ok())
        .collect();
    let mut members = Vec::new();
    for member in &pool.members {
        let Some(Ok(group)) = Group::of(&member.address) else {
            members.push(member.clone());
            continue;
        };
        let Some(found) = resolved.get(&group.name) else {
            members.push(MemberPlan { group: Some(group.name), ..member.clone() });
            continue;
        };
        let tls = if group.speaks_tls { "tls:" } else { "" };
        for (found, weight) in found.iter().zip(weights(found, pool.rules.hash)) {
            if taken.insert(found.address.clone()) {
                let (address, group) = (format!("{tls}{}", found.address), Some(group.name.clone()));
                let (weight, zone) = (weight.or(member.weight), member.zone.clone());
                members.push(MemberPlan { address, name: None, weight, zone, group });
            }
        }
    }
    members
}

/// The weights that a rule makes of the weights in records; none if no record has one. Where a rule counts parts of a
/// full weight, the heaviest server has the full one.
fn weights(found: &[ResolvedServer], hash: Hash) -> Vec<Option<u32>> {
    let heaviest = found.iter().filter_map(|found| found.weight).max().unwrap_or(0);
    let weight = |found: &ResolvedServer| {
        let weight = found.weight.filter(|_| heaviest > 0 && hash.takes_weights())?;
        let full = hash.usual_weight();
        let part = if full > 1 { u32::from(weight) * full / u32::from(heaviest) } else { u32::from(weight) };
        // A weight of 0 would make the server useless; the smallest part is what the records mean by 0.
        Some(part.max(1))
    };
    found.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;
    use super::*;

    #[test]
    fn a_group_is_known_by_the_prefix_of_its_name() {
        let name = |text: &str| Group::of(text).map(|group| group.map(|group| group.name));
        assert_eq!(name("dns:cache.example"), Some(Ok("dns:cache.example:11211".into())));
        assert_eq!(name("tls:dns:cache.example:7"), Some(Ok("dns:cache.example:7".into())));
        assert_eq!(
            name("srv:_memcached._tcp.example.org"),
            Some(Ok("srv:_memcached._tcp.example.org".into()))
        );
        for none in ["cache.example:7", "unix:/dns:x", "dnsx:7", "tls:cache.example"] {
            assert_eq!(name(none), None, "{none}");
        }
        for wrong in
            ["dns:", "dns::7", "dns:a:port", "dns:srv:a", "dns:unix:/a", "srv:", "srv:a b", "srv:a:7"]
        {
            assert!(
                name(wrong).is_some_and(|group| group.is_err_and(|error| error.contains("write"))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_record_names_a_server_and_no_socket_or_group() {
        let service = |host: &str, port| SrvRecord { host: host.into(), port, priority: 0, weight: 0 };
        for good in ["cache-1.example.org", "_a.b", "10.0.0.1", "dnsx"] {
            assert!(is_server(&service(good, 7)), "{good}");
        }
        for bad in ["unix", "dns", "srv", "tls", "a b", "h\\032", "a:b", "", "[::1]"] {
            assert!(!is_server(&service(bad, 7)), "{bad}");
        }
        assert!(!is_server(&service("cache-1.example.org", 0)));
    }

    fn found(address: &str, weight: Option<u16>) -> ResolvedServer {
        ResolvedServer { address: address.into(), weight }
    }

    fn members_of(texts: &[&str], hash: &str, resolved: &ResolvedGroups) -> Vec<(String, Option<u32>)> {
        let rules = Rules { hash: hash.parse().unwrap(), ..Rules::default() };
        let layout = Layout::of_one_pool(texts.iter().map(|text| MemberPlan::of(text)).collect(), rules);
        let pool = &expanded(&layout, resolved).pools[0];
        pool.members.iter().map(|member| (member.address.clone(), member.weight)).collect()
    }

    #[test]
    fn servers_stand_where_their_group_does_and_only_once() {
        let two = vec![found("10.0.0.1:7", None), found("10.0.0.2:7", None)];
        let resolved = ResolvedGroups::from([("dns:a:7".into(), two)]);
        let members = members_of(&["10.0.0.9:7", "dns:a:7", "srv:b", "10.0.0.2:7"], "ketama", &resolved);
        let addresses: Vec<&str> = members.iter().map(|(address, _)| address.as_str()).collect();
        assert_eq!(members_of(&["tls:dns:a:7"], "ketama", &resolved)[1].0, "tls:10.0.0.2:7");
        assert_eq!(addresses, ["10.0.0.9:7", "10.0.0.1:7", "srv:b", "10.0.0.2:7"]);
    }

    #[test]
    fn weights_of_records_count_where_the_rule_takes_any() {
        let weights = |hash: &str, weights: [u16; 3]| {
            let found = ["a:1", "b:1", "c:1"].into_iter().zip(weights);
            let found = found.map(|(address, weight)| found_with(address, weight)).collect();
            let members = members_of(&["srv:x"], hash, &ResolvedGroups::from([("srv:x".into(), found)]));
            members.into_iter().map(|(_, weight)| weight).collect::<Vec<_>>()
        };
        fn found_with(address: &str, weight: u16) -> ResolvedServer {
            found(address, Some(weight))
        }
        assert_eq!(weights("ketama", [10, 65535, 0]), [Some(10), Some(65535), Some(1)]);
        assert_eq!(weights("mcrouter-weighted", [10, 40, 0]), [Some(250), Some(1000), Some(1)]);
        assert_eq!(weights("jump", [10, 40, 0]), [None; 3]);
        assert_eq!(weights("ketama", [0, 0, 0]), [None; 3]);
    }
}
