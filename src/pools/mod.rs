//! Pools and routes of the cache tier's file: read into a layout, every mistake with its line.
//!
//! What a pool does not say holds as `[cache]` or the flags say it. Pools are named in the file before or after they are
//! mentioned; what mentions them is understood when all are known.

mod routes;
mod rules;
mod seats;

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_server::cache::directory::Directory;
use posthaste_server::cache::layout::{DEFAULT_POOL, Fallback, Layout, PoolPlan, RoutePlan, Seat, Source};
use posthaste_server::cache::patience::Patience;
use posthaste_server::cache::pool::LONGEST_EXPIRY_S;
use posthaste_server::cache::rules::Rules;

use self::routes::routes;
pub(crate) use self::rules::SALT_BYTES_MAX;
use self::rules::{check_answer, rules};
use self::seats::seats;
use crate::flags::some_time;
use crate::placed::{Fields, Placed, Wrong, parse};

/// The tables of `[cache]` that are no options.
pub(crate) const POOLS: &str = "pools";
pub(crate) const ROUTES: &str = "routes";

const POOL_FIELDS: [&str; 21] = [
    "servers",
    "writes",
    "reads",
    "multiget",
    "hash",
    "hash-tag",
    "hash-stop",
    "hash-salt",
    "answer",
    "read-repair",
    "get-errors",
    "failover",
    "failover-limit",
    "gutter",
    "gutter-expiry",
    "below",
    "warm-from",
    "server-timeout",
    "connect-timeout",
    "depth-limit",
    "deletes-to",
];

/// How long what is stored in a gutter lives, unless the file says it.
const GUTTER_EXPIRY: Duration = Duration::from_secs(10);

/// Whether servers must be there by name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Somebody must know where they are.
    Known,
    /// The file is for another machine: their names are believed.
    Believed,
}

/// What holds for pools that do not say otherwise.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) rules: Rules,
    pub(crate) patience: Patience,
    /// Who is asked where names are.
    pub(crate) directory: Directory,
}

/// Reads the pools and routes of a file's text. `seats` are the servers of the flags.
pub(crate) fn layout(
    text: &str,
    seats: Vec<Seat>,
    defaults: &Defaults,
    names: Names,
) -> Result<Layout, Wrong> {
    let file = parse(text)?;
    let cache = file.get_ref().get("cache").and_then(|cache| cache.get_ref().as_table());
    let pools = cache.and_then(|cache| cache.get(POOLS));
    let routes = cache.and_then(|cache| cache.get(ROUTES));
    let mut layout = if seats.is_empty() {
        Layout::default()
    } else {
        Layout::of_one_pool(seats, defaults.rules.clone()).with_patience(defaults.patience)
    };
    let tables = match pools {
        Some(pools) => named_tables(pools)?,
        None => Vec::new(),
    };
    for (name, at, _) in &tables {
        if layout.pools.iter().any(|pool| pool.name == *name) {
            return Err(Wrong::new(
                *at,
                format!("pool {name} is there already: the options `server` make it"),
            ));
        }
        layout.pools.push(PoolPlan { name: (*name).to_owned(), ..PoolPlan::default() });
    }
    let numbers: BTreeMap<String, usize> =
        layout.pools.iter().map(|pool| pool.name.clone()).zip(0..).collect();
    for (name, _, table) in &tables {
        let fields = Fields::of(table, &POOL_FIELDS)?;
        layout.pools[numbers[*name]] = pool(name, &fields, &numbers, defaults, names)?;
    }
    check_sources(&layout, &tables)?;
    for (name, _, table) in &tables {
        check_answer(&layout, &layout.pools[numbers[*name]], &Fields::of(table, &POOL_FIELDS)?)?;
    }
    if let Some(routes) = routes {
        layout.routes = self::routes(routes, &numbers)?;
    }
    if layout.routes.is_empty() && !layout.pools.is_empty() {
        let at = pools.map_or(0, |pools| pools.span().start);
        layout.routes = vec![catch_all(only_pool(&layout, at)?)];
    }
    Ok(layout)
}

fn catch_all(pool: usize) -> RoutePlan {
    RoutePlan { pool, ..RoutePlan::default() }
}

/// Without routes all keys go to the only pool, or to the one that is named so.
fn only_pool(layout: &Layout, at: usize) -> Result<usize, Wrong> {
    match layout.pools.iter().position(|pool| pool.name == DEFAULT_POOL) {
        Some(pool) => Ok(pool),
        None if layout.pools.len() == 1 => Ok(0),
        None => {
            let what =
                "there are several pools and no routes: write [[cache.routes]] with pool = \"NAME\" for each";
            Err(Wrong::new(at, what))
        }
    }
}

/// The tables in a table, in the order in which they stand in the file: name, place, table.
fn named_tables<'t, 'i>(tables: &'t Placed<'i>) -> Result<Vec<(&'t str, usize, &'t Placed<'i>)>, Wrong> {
    let wrong = || Wrong::new(tables.span().start, "write [cache.pools.NAME]");
    let table = tables.get_ref().as_table().ok_or_else(wrong)?;
    let mut found: Vec<_> =
        table.iter().map(|(name, table)| (name.get_ref().as_ref(), name.span().start, table)).collect();
    found.sort_by_key(|(_, at, _)| *at);
    for (name, at, _) in &found {
        if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(Wrong::new(*at, "the name of a pool is a word"));
        }
    }
    Ok(found)
}

fn pool(
    name: &str,
    fields: &Fields<'_, '_>,
    numbers: &BTreeMap<String, usize>,
    defaults: &Defaults,
    names: Names,
) -> Result<PoolPlan, Wrong> {
    let rules = rules(fields, &defaults.rules)?;
    let directory = (names == Names::Known).then_some(&defaults.directory);
    let seats = seats(fields, &rules, directory)?;
    let other = |field: &str, name: &str, at: usize| match numbers.get(name) {
        Some(number) => Ok(*number),
        None => Err(Wrong::new(at, format!("{field}: there is no pool {name}"))),
    };
    let mut fallbacks = Vec::new();
    for (other_name, at) in fields.texts("failover")? {
        fallbacks.push(Fallback { pool: other("failover", other_name, at)?, expiry: None });
    }
    let expiry = fields.read("gutter-expiry", gutter_expiry)?;
    match fields.text("gutter")? {
        Some(gutter) => {
            let pool = other("gutter", gutter, fields.place("gutter"))?;
            fallbacks.push(Fallback { pool, expiry: Some(expiry.unwrap_or(GUTTER_EXPIRY)) });
        }
        None if expiry.is_some() => {
            return Err(Wrong::new(
                fields.place("gutter-expiry"),
                "gutter-expiry is for a gutter: name the pool",
            ));
        }
        None => {}
    }
    let own = numbers[name];
    if fallbacks.iter().any(|fallback| fallback.pool == own) {
        let at = fields.place(if fields.get("gutter").is_some() { "gutter" } else { "failover" });
        return Err(Wrong::new(at, format!("pool {name} cannot stand in for itself")));
    }
    let source = match (fields.text("below")?, fields.text("warm-from")?) {
        (None, None) => None,
        (Some(below), None) => Some(Source::Below(other("below", below, fields.place("below"))?)),
        (None, Some(old)) => Some(Source::Old(other("warm-from", old, fields.place("warm-from"))?)),
        (Some(_), Some(_)) => {
            return Err(Wrong::new(fields.place("warm-from"), "write either below or warm-from, not both"));
        }
    };
    if source.is_some() && !fallbacks.is_empty() {
        let at = fields.place(if fields.get("below").is_some() { "below" } else { "warm-from" });
        let what = "a pool has either a second one for what it misses (below, warm-from) or others that stand in (failover, gutter)";
        return Err(Wrong::new(at, what));
    }
    let failover_limit = fields.read("failover-limit", |text| at_least_one(text, u32::MAX))?;
    if failover_limit.is_some() && fallbacks.is_empty() {
        return Err(Wrong::new(
            fields.place("failover-limit"),
            "failover-limit: it limits failover or gutter, and this pool has neither",
        ));
    }
    let patience = patience(fields, defaults.patience)?;
    let mut deletes_to = Vec::new();
    for (other_name, at) in fields.texts("deletes-to")? {
        match other("deletes-to", other_name, at)? {
            it if it == own => return Err(Wrong::new(at, format!("deletes-to: this is pool {name} itself"))),
            it => deletes_to.push(it),
        }
    }
    let name = name.to_owned();
    Ok(PoolPlan { name, seats, rules, fallbacks, failover_limit, source, deletes_to, patience })
}

/// How long servers are waited for, and for how much at once. A pool that says how long they may take to answer says so of
/// connections too, unless it has another time for them.
fn patience(fields: &Fields<'_, '_>, defaults: Patience) -> Result<Patience, Wrong> {
    let answer = fields.read("server-timeout", some_time)?;
    let connect = fields.read("connect-timeout", some_time)?.or(answer).unwrap_or(defaults.connect);
    let depth = fields.read("depth-limit", |text| at_least_one(text, u32::MAX))?;
    let depth = depth.map_or(defaults.depth, |depth| depth as usize);
    Ok(Patience { connect, answer: answer.unwrap_or(defaults.answer), depth })
}

fn at_least_one(text: &str, most: u32) -> Result<u32, String> {
    between(1, text, most)
}

fn between(least: u32, text: &str, most: u32) -> Result<u32, String> {
    match text.replace('_', "").parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("write a number from {least} to {most}")),
    }
}

fn gutter_expiry(text: &str) -> Result<Duration, String> {
    let expiry = some_time(text)?;
    if expiry.as_secs() == 0 || expiry.subsec_nanos() != 0 || expiry.as_secs() > LONGEST_EXPIRY_S {
        return Err("servers count expiries in whole seconds, at most 30 days: write 10s, for example".into());
    }
    Ok(expiry)
}

/// A pool below has none below it, so that the way down ends; and no pool is its own source.
fn check_sources(layout: &Layout, tables: &[(&str, usize, &Placed<'_>)]) -> Result<(), Wrong> {
    for (name, at, _) in tables {
        let Some(number) = layout.pools.iter().position(|pool| pool.name == *name) else { continue };
        let Some(source) = layout.pools[number].source else { continue };
        let other = &layout.pools[source.pool()];
        if source.pool() == number {
            return Err(Wrong::new(*at, format!("pool {name} cannot be its own source")));
        }
        if other.source.is_some() {
            return Err(Wrong::new(
                *at,
                format!("pool {name}: its source {} has a source itself", other.name),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use posthaste_server::cache::layout::{LimitPlan, ShadowPlan};
    use posthaste_server::cache::rules::{Answer, GetErrors, KeyPart, ReadRepair, Reads, Writes};

    use super::*;

    const GOOD: &str = r#"
[cache.pools.users]
servers = ["127.0.0.1:1", { address = "127.0.0.1:2", weight = 2, name = "b" }]
writes = "owner"
hash-tag = "{}"
failover = "spare"
failover-limit = 1_000
gutter = "gutter"
gutter-expiry = "30s"
server-timeout = "200ms"
depth-limit = 500
deletes-to = ["gutter", "spare"]

[cache.pools.spare]
servers = ["127.0.0.1:3", { address = "127.0.0.1:4", zone = "b" }]
connect-timeout = "5s"
answer = "majority"
read-repair = "always"
get-errors = "miss"

[cache.pools.gutter]
servers = "127.0.0.1:5"

[[cache.routes]]
prefix = "user:"
strip = true
pool = "users"
shadow = "spare"
shadow-share = 0.25
timeout = "20ms"

[[cache.routes]]
prefix = "user:"
commands = ["deletes", "touch"]
pool = "spare"
add-prefix = "app1:"
limit = 1000
"#;

    fn read(text: &str, servers: &[&str]) -> Result<Layout, String> {
        let seats = servers.iter().map(|server| Seat::of(server)).collect();
        layout(text, seats, &Defaults::default(), Names::Known)
            .map_err(|wrong| wrong.tell("cache.toml", text))
    }

    #[test]
    fn a_file_means_what_it_says() {
        let layout = read(GOOD, &["127.0.0.1:9"]).unwrap();
        let names: Vec<&str> = layout.pools.iter().map(|pool| pool.name.as_str()).collect();
        assert_eq!(names, ["default", "users", "spare", "gutter"]);
        let users = &layout.pools[1];
        assert_eq!(
            users.seats[1],
            Seat {
                address: "127.0.0.1:2".into(),
                name: Some("b".into()),
                weight: Some(2),
                zone: None,
                group: None
            }
        );
        assert_eq!((users.rules.writes, users.rules.reads), (Writes::Owner, Reads::Owner));
        assert_eq!(users.rules.key_part, KeyPart::Tag(b'{', b'}'));
        assert_eq!((users.failover_limit, users.fallbacks.len()), (Some(1000), 2));
        assert_eq!(users.fallbacks[1], Fallback { pool: 3, expiry: Some(Duration::from_secs(30)) });
        let patience = [0, 1, 2].map(|pool| {
            let Patience { connect, answer, .. } = layout.pools[pool].patience;
            (connect.as_millis(), answer.as_millis())
        });
        assert_eq!(patience, [(1000, 1000), (200, 200), (5000, 1000)]);
        assert_eq!([1, 2].map(|pool| layout.pools[pool].patience.depth), [500, usize::MAX]);
        assert_eq!(
            (&layout.pools[1].deletes_to, layout.pools[2].seats[1].zone.as_deref()),
            (&vec![3, 2], Some("b"))
        );
        assert_eq!(layout.routes[0].timeout, Some(Duration::from_millis(20)));
        assert_eq!(layout.pools[2].rules.answer, Answer::Majority);
        assert_eq!(layout.pools[2].rules.read_repair, ReadRepair::Always);
        assert_eq!(
            [1, 2].map(|pool| layout.pools[pool].rules.get_errors),
            [GetErrors::Told, GetErrors::Missed]
        );
        assert_eq!(layout.routes.len(), 3, "the one of the flags takes what no route takes");
        assert_eq!(layout.routes[0].shadow, Some(ShadowPlan { pool: 2, share: 0.25 }));
        assert_eq!(layout.routes[1].verbs.names(), ["touch", "delete", "md"]);
        assert_eq!(layout.routes[1].add_prefix, b"app1:");
        assert_eq!(layout.routes[1].limit, Some(LimitPlan { per_second: 1000, burst: 1000 }));
        assert!(layout.routes[2].prefix.is_empty() && layout.routes[2].pool == 0);
    }

    #[test]
    fn without_routes_all_keys_go_to_the_only_pool() {
        let one = "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n";
        assert_eq!(read(one, &[]).unwrap().routes[0].pool, 0);
        let two = format!("{one}[cache.pools.b]\nservers = [\"127.0.0.1:2\"]\n");
        assert!(read(&two, &[]).unwrap_err().contains("[[cache.routes]]"));
        assert_eq!(read(&two, &["127.0.0.1:9"]).unwrap().routes[0].pool, 0);
    }

    #[test]
    fn what_no_route_takes_goes_to_the_pool_that_is_named_default() {
        let pools =
            ["a", "default"].map(|name| format!("[cache.pools.{name}]\nservers = [\"127.0.0.1:1\"]\n"));
        let route = "[[cache.routes]]\npool = \"a\"\nprefix = \"x\"\n";
        let pools_of = |text: &str| -> Vec<usize> {
            read(text, &[]).unwrap().routes.iter().map(|route| route.pool).collect()
        };
        assert_eq!(pools_of(&format!("{}{route}", pools.concat())), [0, 1]);
        assert_eq!(pools_of(&format!("{}{route}", pools[0])), [0]);
        let of_all = "[[cache.routes]]\npool = \"a\"\n";
        assert_eq!(pools_of(&format!("{}{of_all}", pools.concat())), [0]);
    }

    #[test]
    fn as_many_can_answer_as_hold_a_key() {
        for (source, own, others, writes, holding) in [
            ("below", "all", "34", "all", 4),
            ("below", "all", "34", "owner", 3),
            ("warm-from", "all", "34", "all", 2),
            ("warm-from", "all", "34", "owner", 2),
            // One that is in both is one.
            ("below", "all", "23", "all", 3),
            ("below", "all", "12", "all", 2),
            ("below", "all", "23", "owner", 2),
            ("below", "owner", "34", "all", 3),
            ("below", "owner", "23", "all", 2),
            ("below", "owner", "23", "owner", 1),
        ] {
            let servers = |ports: &str| {
                let names: Vec<_> = ports.chars().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
                format!("servers = [{}]\n", names.join(", "))
            };
            for answer in [holding, holding + 1] {
                let text = format!(
                    "[cache.pools.default]\n{}writes = \"{own}\"\n{source} = \"b\"\nanswer = \"{answer}\"\n\
                     [cache.pools.b]\n{}writes = \"{writes}\"\n",
                    servers("12"),
                    servers(others),
                );
                let told = read(&text, &[]).err();
                let words = format!("cache.toml:5: answer: {answer} cannot answer where {holding} are");
                assert_eq!(told, (answer > holding).then_some(words), "{text}");
            }
        }
    }

    /// The line is the one that `▸` stands before.
    fn assert_told(mistakes: &[(&str, &str)]) {
        for (text, words) in mistakes {
            let line = text.split('▸').next().unwrap().lines().count() + 1;
            let error = read(&text.replace('▸', ""), &[]).expect_err(text);
            assert!(
                error.starts_with(&format!("cache.toml:{line}: ")) && error.contains(words),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn every_mistake_about_keys_and_groups_is_told_with_its_line() {
        assert_told(&[
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸hash-salt = \"\"\n", "write what is put"),
            ("[cache.pools.a]\nservers = [\n▸\"srv:a b\",\n]\n", "the name of a service"),
            ("[cache.pools.a]\nservers = [\"dns:127.0.0.1\",\n▸\"dns:127.0.0.1:11211\"]\n", "already"),
            ("[cache.pools.a]\n▸servers = \"dns:nosuch.invalid\"\n", "dns:nosuch.invalid:11211: "),
            (
                "[cache.pools.a]\n▸servers = { address = \"dns:a.invalid\", name = \"b\" }\n",
                "leave its name out",
            ),
            (
                "[cache.pools.a]\n▸servers = { address = \"srv:a.invalid\", weight = 2 }\n",
                "records say the weights",
            ),
        ]);
    }

    #[test]
    fn two_servers_that_keys_would_be_placed_by_alike_are_told_with_their_line() {
        let named = |name: &str| format!("{{ address = \"127.0.0.1:1\", name = \"{name}\" }}");
        let text = |hash: &str, name: &str, other: &str| {
            format!("[cache.pools.a]\nhash = \"{hash}\"\nservers = [\n{},\n▸{other},\n]\n", named(name))
        };
        let renamed = "{ address = \"127.0.0.1:2\", name = \"a:11211\" }";
        for (name, other, by_name) in [
            (
                "127.0.0.1:2",
                "\"127.0.0.1:2\"",
                &[
                    "ketama",
                    "dalli",
                    "rendezvous",
                    "spymemcached",
                    "twemproxy",
                    "mcrouter-rendezvous",
                    "mcrouter-weighted-rendezvous",
                ][..],
            ),
            // Who leaves out memcached's own port, and of given names too.
            ("127.0.0.2", "\"127.0.0.2:11211\"", &["ketama", "twemproxy"]),
            ("a", renamed, &["ketama"]),
        ] {
            for hash in by_name {
                assert_told(&[(&text(hash, name, other), "and so are another server's")]);
            }
            for hash in ["jump", "modulo-crc32", "mcrouter"] {
                read(&text(hash, name, other).replace('▸', ""), &[]).expect("they are placed by their order");
            }
        }
        read(&text("twemproxy", "a", renamed).replace('▸', ""), &[]).expect("it takes names as they are");
    }

    #[test]
    fn a_shadow_of_a_routes_own_pool_is_told_with_its_line() {
        let text =
            "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\npool = \"a\"\n▸shadow = \"a\"\n";
        assert_told(&[(text, "the route's own pool")]);
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        assert_told(&[
            ("[cache.pools.a]\n▸servers = 7\n", "a table is expected"),
            ("▸[cache.pools.a]\nwrites = \"all\"\n", "a pool needs servers"),
            ("[cache.pools.a]\n▸serves = [\"127.0.0.1:1\"]\n", "unknown option serves"),
            ("[cache.pools.a]\nservers = [\n\"127.0.0.1:1\",\n▸\"127.0.0.1:port\",\n]\n", "127.0.0.1:port"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\",\n▸\"127.0.0.1:1\"]\n", "already"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\",\n▸\"127.1:1\"]\n", "already, as 127.0.0.1:1"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸writes = \"some\"\n", "all, owner"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸hash-tag = \"{\"\n", "two characters"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸answer = \"2\"\n", "2 cannot answer where 1"),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\nwrites = \"owner\"\n▸answer = \"any\"\n",
                "one server has the key",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\nwrites = \"owner\"\n▸read-repair = \"always\"\n",
                "no other server of the pool has a key",
            ),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸failover = [\"b\"]\n", "there is no pool b"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸gutter = \"a\"\n", "stand in for itself"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸deletes-to = [\"a\"]\n", "pool a itself"),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸depth-limit = 0\n", "depth-limit: "),
            ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸gutter-expiry = \"5s\"\n", "name the pool"),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸failover-limit = 5\n",
                "limits failover or gutter",
            ),
            ("▸[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\nbelow = \"a\"\n", "its own source"),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\ngutter = \"b\"\n▸below = \"b\"\n[cache.pools.b]\nservers = [\"127.0.0.1:2\"]\n",
                "either a second one",
            ),
            (
                "[cache.pools.a]\nhash = \"jump\"\n▸servers = [{ address = \"127.0.0.1:1\", weight = 2 }]\n",
                "knows no weights",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\n▸pool = \"b\"\n",
                "there is no pool b",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸[[cache.routes]]\nprefix = \"x\"\n",
                "a route needs pool",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\npool = \"a\"\n▸[[cache.routes]]\npool = \"a\"\n",
                "already",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\npool = \"a\"\n▸limit = 0\n",
                "limit: ",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\npool = \"a\"\n▸burst = 5\n",
                "write limit = N",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\npool = \"a\"\n▸add-prefix = \"a b\"\n",
                "keys have no spaces",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\npool = \"a\"\n▸commands = [\"fetch\"]\n",
                "there is no command \"fetch\"",
            ),
            (
                "[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n[[cache.routes]]\npool = \"a\"\n▸commands = []\n",
                "name one, or leave it out",
            ),
            ("[cache]\n▸writes = all\n", ""),
        ]);
    }
}
