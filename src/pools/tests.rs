//! Good files, and the word that stands beside each mistake.

use std::time::Duration;

use posthaste_server::cache::layout::{RateLimit, ShadowPlan, StandInPlan};
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
    let members = servers.iter().map(|server| MemberPlan::of(server)).collect();
    layout(text, members, &Defaults::default(), Names::Known)
        .map_err(|wrong| wrong.with_line("cache.toml", text))
}

#[test]
fn a_file_means_what_it_says() {
    let layout = read(GOOD, &["127.0.0.1:9"]).unwrap();
    let names: Vec<&str> = layout.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["default", "users", "spare", "gutter"]);
    let users = &layout.pools[1];
    assert_eq!(
        users.members[1],
        MemberPlan {
            address: "127.0.0.1:2".into(),
            name: Some("b".into()),
            weight: Some(2),
            zone: None,
            group: None
        }
    );
    assert_eq!((users.rules.writes, users.rules.reads), (Writes::Owner, Reads::Owner));
    assert_eq!(users.rules.key_part, KeyPart::Tag { open: b'{', close: b'}' });
    assert_eq!((users.failover_limit, users.stand_ins.len()), (Some(1000), 2));
    assert_eq!(users.stand_ins[1], StandInPlan { pool: 3, expiry: Some(Duration::from_secs(30)) });
    let times = [0, 1, 2].map(|pool| {
        let limits = layout.pools[pool].server_limits;
        (limits.connect_timeout.as_millis(), limits.answer_timeout.as_millis())
    });
    assert_eq!(times, [(1000, 1000), (200, 200), (5000, 1000)]);
    assert_eq!([1, 2].map(|pool| layout.pools[pool].server_limits.depth), [500, usize::MAX]);
    assert_eq!(
        (&layout.pools[1].deletes_to, layout.pools[2].members[1].zone.as_deref()),
        (&vec![3, 2], Some("b"))
    );
    assert_eq!(layout.routes[0].timeout, Some(Duration::from_millis(20)));
    assert_eq!(layout.pools[2].rules.answer, Answer::Majority);
    assert_eq!(layout.pools[2].rules.read_repair, ReadRepair::Always);
    assert_eq!([1, 2].map(|pool| layout.pools[pool].rules.get_errors), [GetErrors::Error, GetErrors::Miss]);
    assert_eq!(layout.routes.len(), 3, "the one of the flags takes what no route takes");
    assert_eq!(layout.routes[0].shadow, Some(ShadowPlan { pool: 2, share: 0.25 }));
    assert_eq!(layout.routes[1].verbs.names(), ["touch", "delete", "md"]);
    assert_eq!(layout.routes[1].add_prefix, b"app1:");
    assert_eq!(layout.routes[1].limit, Some(RateLimit { per_second: 1000, burst: 1000 }));
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
    let pools = ["a", "default"].map(|name| format!("[cache.pools.{name}]\nservers = [\"127.0.0.1:1\"]\n"));
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
        ("[cache.pools.a]\n▸servers = { address = \"dns:a.invalid\", name = \"b\" }\n", "leave its name out"),
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
        ("[cache.pools.a]\nservers = [\"127.0.0.1:1\"]\n▸failover-limit = 5\n", "limits failover or gutter"),
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
