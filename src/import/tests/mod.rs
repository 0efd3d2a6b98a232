//! Translations of mcrouter's and twemproxy's files: each is checked as `posthaste cache --check` would.

mod handles;

use std::time::Duration;

use posthaste_server::cache::fleet::Fleet;
use posthaste_server::cache::health::Ejection;
use posthaste_server::cache::layout::Source;
use posthaste_server::cache::rules::{GetErrors, Writes};
use posthaste_server::cache::server_limits::ServerLimits;
use posthaste_server::cache::verbs::Verbs;

use super::*;

/// Translates a text, and checks that the result is a valid file of ours.
fn imported(text: &str) -> (String, Vec<String>) {
    let import = read(text, None).unwrap();
    let toml = import.toml("x");
    if let Err(wrong) = pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Known) {
        panic!("{}", wrong.with_line("x", &toml));
    }
    (toml, import.left_out)
}

#[test]
fn what_a_file_calls_things_stays_in_its_comment() {
    let text = r#"{ "pools": { "a": { "servers": ["db.example:1"] } }, "route": { "type": "Odd\n[cache.pools.b]",
        "child": "PoolRoute|a" }, "x\ny": 1 }"#;
    let (toml, left_out) = translate(text, None, "a\nfile").unwrap();
    assert!(toml.contains("# Translated from a\\nfile.\n# Left out: Odd\\n[cache.pools.b]: it"), "{toml}");
    assert!(left_out.iter().all(|what| what.lines().count() == 1), "{left_out:?}");
    let error = translate("{ \"route\": \"PoolRoute|a\\nb\" }", None, "x").unwrap_err();
    assert_eq!(error, "x: pool a\\nb has no servers");
}

#[test]
fn twemproxys_pool_keeps_its_keys_where_they_are() {
    let (toml, left_out) = imported(
        "alpha:\n  listen: 127.0.0.1:22121\n  hash: fnv1a_64\n  distribution: ketama\n  hash_tag: \"{}\"\n  \
         auto_eject_hosts: true\n  timeout: 400\n  servers:\n   - 127.0.0.1:11211:1 one\n   - 127.0.0.1:11212:3 two\n",
    );
    for line in [
        "listen = \"127.0.0.1:22121\"",
        "server-timeout = \"400ms\"",
        "hash = \"twemproxy\"",
        "hash-tag = \"{}\"",
        "writes = \"owner\"",
        "{ address = \"127.0.0.1:11212\", name = \"two\", weight = 3 }",
    ] {
        assert!(toml.contains(line), "{line} in {toml}");
    }
    assert!(left_out.len() == 1 && left_out[0].contains("auto_eject_hosts"), "{left_out:?}");
}

#[test]
fn permissions_of_twemproxys_socket_are_said() {
    let text = "a:\n  listen: /run/a.sock 0666\n  timeout: 400\n  servers:\n   - 127.0.0.1:11211:1\n";
    let (toml, left_out) = imported(text);
    assert!(toml.contains("listen = \"unix:/run/a.sock\"\n"), "{toml}");
    assert!(left_out.len() == 1 && left_out[0].contains("permissions 0666"), "{left_out:?}");
}

#[test]
fn times_and_numbers_that_are_others_here_are_said() {
    for (field, said) in [
        ("timeout: -1", "timeout -1: a server may take 1 s"),
        ("timeout: 4", "below 10 ms"),
        ("hash_tag: \"{}\"", "no timeout: a server may take 1 s"),
        ("timeout: 400\n  client_connections: 0", "client_connections 0: there are at most"),
    ] {
        let (_, left_out) = imported(&format!("a:\n  {field}\n  servers:\n   - 127.0.0.1:11211:1\n"));
        assert!(left_out.len() == 1 && left_out[0].contains(said), "{field}: {left_out:?}");
    }
}

#[test]
fn what_stands_in_the_corners_of_mcrouters_file_is_said() {
    let (_, left_out) = imported(
        r#"{ "pools": { "a": { "servers": ["127.0.0.1:1:ascii:plain:compressed", "127.0.0.1:2:ascii:plain:notcompressed"] } },
            "routes": [{ "aliases": ["/west/one/"], "route": { "type": "HashRoute", "children": "Pool|a",
                "hash": { "hash_func": "Ch3", "salt": "x", "spread": 1 } } }] }"#,
    );
    let said = ["aliases of routes: a routing prefix", "spread of a hash", "compressed to 127.0.0.1:1:"];
    assert!(left_out.len() == said.len(), "{left_out:?}");
    for said in said {
        assert!(left_out.iter().any(|what| what.starts_with(said)), "{said} in {left_out:?}");
    }
}

#[test]
fn what_would_move_keys_is_said() {
    let text = "a:\n  listen: 127.0.0.1:1\n  hash: hsieh\n  servers:\n   - 127.0.0.1:11211:1\n";
    let (_, left_out) = imported(text);
    assert!(left_out.iter().any(|what| what.contains("hsieh") && what.contains("keys move")), "{left_out:?}");
    let modula = "a:\n  listen: 127.0.0.1:1\n  timeout: 400\n  hash: crc32a\n  distribution: modula\n  servers:\n   \
                  - 10.0.0.3:11212:1\n   - 10.0.0.1:11211:1\n";
    let (toml, left_out) = imported(modula);
    assert!(left_out.is_empty() && toml.contains("modulo-crc32"), "{left_out:?}");
    let (_, left_out) = imported(&modula.replace("11212:1", "11212:2"));
    assert!(left_out[0].contains("modula and weights other than 1: keys move"), "{left_out:?}");
    // twemproxy sorts servers by name, shorter names first.
    assert!(toml.find("10.0.0.1") < toml.find("10.0.0.3"), "{toml}");
}

#[test]
fn pools_of_twemproxy_that_listen_by_themselves_are_chosen() {
    let text = "a:\n  servers:\n   - 127.0.0.1:1:1\nb:\n  servers:\n   - 127.0.0.1:2:1\n";
    assert!(read(text, None).unwrap_err().contains("--pool"));
    assert_eq!(read(text, Some("b")).unwrap().pools[0].servers[0].address, "127.0.0.1:2");
    assert!(read(text, Some("c")).unwrap_err().contains("a, b"));
    // Their processes run side by side.
    for (pool, http) in [("a", "http = \"127.0.0.1:7481\"\n"), ("b", "http = \"127.0.0.1:7482\"\n")] {
        let (toml, _) = translate(text, Some(pool), "x").unwrap();
        assert!(toml.contains(http), "{toml}");
    }
    let one = |connections: u32| {
        imported(&format!(
            "a:\n  timeout: 400\n  server_connections: {connections}\n  servers:\n   - 127.0.0.1:1:1\n"
        ))
    };
    let (toml, left_out) = one(1);
    assert!(!toml.contains("http = ") && left_out.is_empty(), "{left_out:?} in {toml}");
    let (_, left_out) = one(4);
    assert!(left_out.len() == 1 && left_out[0].contains("threads = 4"), "{left_out:?}");
    assert!(read("a:\n  redis: true\n  servers:\n   - 127.0.0.1:1:1\n", None).unwrap_err().contains("redis"));
}

#[test]
fn twemproxys_servers_are_placed_by_the_names_that_it_gives_them() {
    let pool = |servers: &str, hash: &str, distribution: &str| {
        let text = format!(
            "a:\n  timeout: 400\n  hash: {hash}\n  distribution: {distribution}\n  servers:\n{servers}"
        );
        let (toml, left_out) = imported(&text);
        assert!(left_out.is_empty(), "{left_out:?}");
        toml
    };
    let toml = pool("   - /run/mc1.sock:1\n   - /run/mc2.sock:2 two\n", "fnv1a_64", "ketama");
    for line in [
        "{ address = \"unix:/run/mc1.sock\", name = \"/run/mc1.sock:\" }",
        "{ address = \"unix:/run/mc2.sock\", name = \"two\", weight = 2 }",
    ] {
        assert!(toml.contains(line), "{line} in {toml}");
    }
    // Shorter names first: a path with its colon, an address without the usual port, a given name as it is.
    let toml = pool("   - 10.0.0.1:11211:1\n   - /run/a:1\n   - 10.0.0.2:1:1 b:11211\n", "crc32a", "modula");
    let place = |text: &str| toml.find(text).unwrap_or_else(|| panic!("{text} in {toml}"));
    assert!(place("unix:/run/a") < place("10.0.0.2:1") && place("10.0.0.2:1") < place("10.0.0.1:11211"));
    let toml = pool("   - 10.0.0.2:1:1 bcd:11211\n   - 10.0.0.1:11211:1\n", "crc32a", "modula");
    assert!(toml.find("10.0.0.1") < toml.find("10.0.0.2"), "{toml}");
}

const MCROUTER: &str = r#"
/* pools and routes */
{
  "pools": {
"main": { "servers": ["10.0.0.1:11211", "10.0.0.2:11211:ascii:plain"] }, // two
"copies": { "servers": ["10.0.1.1:11211", "10.0.1.2:11211"], "server_timeout": 50, "connect_timeout": 20 },
"spare": { "servers": ["10.0.2.1:11211"] },
"trial": { "servers": ["10.0.3.1:11211"] }
  },
  "route": {
"type": "PrefixSelectorRoute",
"policies": {
  "user:": {
    "type": "FailoverWithExptimeRoute",
    "normal": { "type": "PoolRoute", "pool": "main", "hash": "Jenkins", "rates": { "gets_rate": 10 } },
    "failover": "PoolRoute|spare",
    "failover_exptime": 30
  },
  "copy:": {
    "type": "OperationSelectorRoute",
    "default_policy": { "type": "AllMajorityRoute", "children": "Pool|copies" },
    "operation_policies": { "delete": "PoolRoute|main" }
  },
  "odd:": { "type": "BigValueRoute", "child": "PoolRoute|main" }
},
"wildcard": {
  "type": "ShadowRoute",
  "child": "PoolRoute|main",
  "shadows": [{ "target": "PoolRoute|trial", "key_fraction_range": [0, 0.1] }]
}
  }
}
"#;

#[test]
fn mcrouters_routes_are_translated_as_far_as_they_have_counterparts() {
    let (toml, left_out) = imported(MCROUTER);
    let layout = pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Known).unwrap();
    let pool =
        |name: &str| layout.pools.iter().find(|pool| pool.name == name).unwrap_or_else(|| panic!("{toml}"));
    let route = |prefix: &str| {
        let routes = layout.routes.iter().filter(|route| route.prefix == prefix.as_bytes());
        routes.map(|route| layout.pools[route.pool].name.as_str()).collect::<Vec<_>>()
    };
    let users = route("user:");
    assert_eq!(pool(users[0]).stand_ins.len(), 1);
    assert_eq!(pool(users[0]).stand_ins[0].expiry, Some(Duration::from_secs(30)));
    assert_eq!(pool("copies").rules.answer.to_string(), "majority");
    let (answer_timeout, connect_timeout) = (Duration::from_millis(50), Duration::from_millis(20));
    assert_eq!(
        pool("copies").server_limits,
        ServerLimits { connect_timeout, answer_timeout, ..ServerLimits::default() }
    );
    assert!(left_out.iter().any(|what| what.contains("rates of pool main")), "{left_out:?}");
    assert_eq!(route("copy:"), ["main", "copies"]);
    assert_eq!(route("odd:"), ["main"]);
    assert!(layout.pools.iter().all(|pool| pool.rules.get_errors == GetErrors::Miss), "{toml}");
    assert_eq!(route(""), ["main"]);
    assert!(toml.contains("shadow = \"trial\"\nshadow-share = 0.1"), "{toml}");
    assert_eq!(pool("main").rules.hash, posthaste_server::cache::placement::Hash::Mcrouter);
    assert!(left_out.iter().any(|what| what.contains("BigValueRoute")), "{left_out:?}");
    assert!(
        left_out.iter().any(|what| what.contains("Jenkins") && what.contains("keys move")),
        "{left_out:?}"
    );
}

/// Translates a pool of three servers with this hash.
fn shared_out(pool: &str, hash: &str) -> (String, Vec<String>) {
    imported(&format!(
        r#"{{ "pools": {{ "a": {{ "servers": ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]{pool} }} }},
            "route": {{ "type": "PoolRoute", "pool": "a"{hash} }} }}"#
    ))
}

#[test]
fn mcrouters_hashes_keep_their_keys_where_they_are() {
    let heavy = "{ address = \"10.0.0.2:1\", weight = 250 }";
    let half = "{ address = \"10.0.0.3:1\", weight = 500 }";
    let tagged = "{ address = \"10.0.0.2:1\", name = \"y\", weight = 600 }";
    for (pool, hash, lines) in [
        ("", "", &["hash = \"mcrouter\"", "hash-stop = \"|#|\""][..]),
        ("", r#", "hash": "Crc32""#, &["hash = \"mcrouter-crc32\""]),
        ("", r#", "hash": { "hash_func": "ConstShard" }"#, &["hash = \"mcrouter-shard\""]),
        ("", r#", "hash": { "salt": "s1" }"#, &["hash = \"mcrouter\"", "hash-salt = \"s1\""]),
        // The third weight is missing, and the pool's are heeded without another word.
        (
            r#", "weights": [1.0, 0.25]"#,
            "",
            &["hash = \"mcrouter-weighted\"", "\"10.0.0.1:1\",", heavy, half],
        ),
        (
            r#", "tags": ["x", "y", "z"]"#,
            r#", "hash": { "hash_func": "WeightedRendezvous", "weights": [5, 3, 0] }"#,
            &["hash = \"mcrouter-weighted-rendezvous\"", tagged, "weight = 0 }"],
        ),
        (
            "",
            r#", "hash": { "hash_func": "Rendezvous", "tags": ["x", "y", "z"] }"#,
            &["hash = \"mcrouter-rendezvous\"", "name = \"z\" }"],
        ),
    ] {
        let (toml, left_out) = shared_out(pool, hash);
        assert!(left_out.is_empty(), "{hash}: {left_out:?}");
        for line in lines {
            assert!(toml.contains(line), "{line} in {toml}");
        }
    }
}

#[test]
fn what_moves_keys_of_mcrouters_weighted_pools_is_said() {
    for (pool, hash, word) in [
        (r#", "weights": [1.0, 0.3333, 1.0]"#, "", "weights"),
        ("", r#", "hash": { "hash_func": "Rendezvous", "tags": ["x"] }"#, "tags"),
        ("", r#", "hash": "WeightedCh3Rv""#, "WeightedCh3Rv"),
    ] {
        let (_, left_out) = shared_out(pool, hash);
        assert!(
            left_out.len() == 1 && left_out[0].contains(word) && left_out[0].ends_with("keys move"),
            "{left_out:?}"
        );
    }
}

/// Returns a route to all of these children, where `a`, `b` and `c` have two servers each and `one` and
/// `other` have one.
fn route_to_all(kind: &str, children: &str) -> String {
    let pools = ["a", "b", "c", "one", "other"].iter().zip(1..).map(|(name, number)| {
        let servers = if name.len() == 1 {
            format!("\"10.0.{number}.1:1\", \"10.0.{number}.2:1\"")
        } else {
            format!("\"10.0.{number}.1:1\"")
        };
        format!("\"{name}\": {{ \"servers\": [{servers}] }}")
    });
    let pools = pools.collect::<Vec<_>>().join(", ");
    format!("{{ \"pools\": {{ {pools} }}, \"route\": {{ \"type\": \"{kind}\", \"children\": {children} }} }}")
}

#[test]
fn a_route_to_all_of_several_pools_is_no_pool_of_all_their_servers() {
    let taken = |kind: &str, children: &str| {
        let (toml, left_out) = imported(&route_to_all(kind, children));
        let layout = pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Known).unwrap();
        (layout.pools[layout.routes[0].pool].clone(), layout, left_out)
    };
    // A key is on a server of each: writes go to both.
    let (pool, layout, left_out) =
        taken("AllFastestRoute", r#"["PoolRoute|a", { "type": "PoolRoute", "pool": "b" }]"#);
    assert_eq!(
        (pool.members.len(), pool.rules.writes, pool.rules.answer.to_string()),
        (2, Writes::Owner, "any".into())
    );
    let Some(Source::Below(below)) = pool.source else { panic!("{pool:?}") };
    assert_eq!((layout.pools[below].name.as_str(), layout.pools[below].rules.writes), ("b", Writes::Owner));
    assert!(left_out[0].starts_with("AllFastestRoute over pools a and b"), "{left_out:?}");
    // A single server has every key, and so has every server of `Pool`.
    for children in [r#"["PoolRoute|one", "PoolRoute|other"]"#, "\"Pool|a\""] {
        let (pool, _, left_out) = taken("AllSyncRoute", children);
        assert_eq!(
            (pool.members.len(), pool.rules.writes, left_out.len()),
            (2, Writes::All, 0),
            "{children}"
        );
    }
    // All of one pool is that pool.
    let (pool, ..) = taken("AllSyncRoute", r#"["PoolRoute|a"]"#);
    assert_eq!((pool.name.as_str(), pool.rules.writes, pool.source), ("a", Writes::Owner, None));
    for (children, named) in [
        (r#"["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"]"#, "AllMajorityRoute over pools a, b, c"),
        (r#"["PoolRoute|a", "Pool|one"]"#, "AllMajorityRoute over pools a, one"),
        (r#"["PoolRoute|a", { "type": "FailoverRoute" }]"#, "AllMajorityRoute: FailoverRoute is under it"),
    ] {
        let error = read(&route_to_all("AllMajorityRoute", children), None).unwrap_err();
        assert!(error.starts_with(named), "{error}");
    }
}

#[test]
fn deletions_to_all_pools_are_those_of_the_pool_that_has_the_rest() {
    let text = r#"{
        "pools": { "a": { "servers": ["10.0.0.1:1"] }, "b": { "servers": ["10.0.1.1:1"] }, "c": { "servers": ["10.0.2.1:1"] } },
        "route": {
            "type": "OperationSelectorRoute",
            "default_policy": "PoolRoute|b",
            "operation_policies": {
                "delete": { "type": "AllSyncRoute", "children": ["PoolRoute|a", "PoolRoute|b", "PoolRoute|c"] }
            }
        }
    }"#;
    let (toml, left_out) = imported(text);
    let layout = pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Known).unwrap();
    let own = &layout.pools[layout.routes[0].pool];
    let names: Vec<&str> = own.deletes_to.iter().map(|pool| layout.pools[*pool].name.as_str()).collect();
    assert_eq!(
        (own.members[0].address.as_str(), names, layout.routes.len()),
        ("10.0.1.1:1", vec!["a", "c"], 1)
    );
    assert!(left_out[0].starts_with("AllSyncRoute for delete"), "{left_out:?}");
}

/// Translates a route over pools `a`, `b` and `c`.
fn routed(route: &str) -> (String, Vec<String>) {
    imported(&format!(
        r#"{{ "pools": {{ "a": {{ "servers": ["10.0.0.1:1"] }}, "b": {{ "servers": ["10.0.1.1:1"] }},
            "c": {{ "servers": ["10.0.2.1:1"] }} }}, "route": {route} }}"#
    ))
}

#[test]
fn who_leaves_keys_without_a_route_beside_a_pool_named_default_is_told() {
    let file = |name: &str| {
        format!(
            r#"{{ "pools": {{ "{name}": {{ "servers": ["10.0.0.1:1"] }} }}, "route": {{
                "type": "PrefixSelectorRoute", "policies": {{ "x:": "PoolRoute|{name}" }} }} }}"#
        )
    };
    let (_, left_out) = imported(&file("default"));
    assert!(left_out[0].starts_with("keys that no route takes: "), "{left_out:?}");
    assert!(imported(&file("other")).1.is_empty());
}

#[test]
fn a_policy_takes_only_commands_that_come_to_it() {
    let selector = |policies: &str, default: &str| {
        format!(
            r#"{{ "type": "OperationSelectorRoute", "default_policy": {default}, "operation_policies": {{ {policies} }} }}"#
        )
    };
    let (a, b, c) = (r#""PoolRoute|a""#, r#""PoolRoute|b""#, r#""PoolRoute|c""#);
    let by_prefix =
        format!(r#"{{ "type": "PrefixSelectorRoute", "policies": {{ "x:": {b} }}, "wildcard": {c} }}"#);
    for (route, taken) in [
        // set never reaches the inner one.
        (
            selector(&format!(r#""get": {}"#, selector(&format!(r#""set": {c}"#), b)), a),
            [("get", "k", "b"), ("mg", "k", "b"), ("set", "k", "a"), ("delete", "k", "a")],
        ),
        // Nor to the default.
        (
            selector(&format!(r#""set": {a}"#), &selector(&format!(r#""set": {c}, "delete": {c}"#), b)),
            [("get", "k", "b"), ("ms", "k", "a"), ("set", "k", "a"), ("delete", "k", "c")],
        ),
        (
            selector(&format!(r#""get": {a}"#), &by_prefix),
            [("get", "x:k", "a"), ("set", "x:k", "b"), ("get", "k", "a"), ("delete", "k", "c")],
        ),
        (
            selector(&format!(r#""get": {}"#, selector(&format!(r#""get": {c}"#), b)), a),
            [("get", "k", "c"), ("mg", "k", "c"), ("set", "k", "a"), ("gets", "k", "a")],
        ),
    ] {
        let (toml, left_out) = routed(&route);
        assert!(left_out.is_empty(), "{left_out:?}");
        let layout = pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Known).unwrap();
        let fleet = Fleet::new(&layout, Ejection::OnLoss).unwrap();
        let table = fleet.table();
        for (command, key, pool) in taken {
            let route = table.route(Verbs::verb(command).unwrap(), key.as_bytes()).expect(command);
            assert_eq!(table.pools[table.routes[route].pool].name, pool, "{command} {key}: {toml}");
        }
    }
}

#[test]
fn of_pools_that_become_one_or_share_servers_the_longest_times_hold() {
    let pools = |more: [&str; 3]| {
        let pools = ["a", "b", "c"].iter().zip(more).zip([1, 2, 1]);
        let pools = pools
            .map(|((name, more), host)| format!(r#""{name}": {{ "servers": ["10.0.0.{host}:1"]{more} }}"#));
        pools.collect::<Vec<_>>().join(", ")
    };
    let both = r#"{ "type": "AllSyncRoute", "children": ["PoolRoute|a", "PoolRoute|b"] }"#;
    let each = format!(
        r#"{{ "type": "PrefixSelectorRoute", "policies": {{ "b:": "PoolRoute|b", "c:": "PoolRoute|c" }}, "wildcard": {both} }}"#
    );
    let (short, long) = (r#", "server_timeout": 50"#, r#", "server_timeout": 200, "connect_timeout": 100"#);
    for (route, timeouts, holding, said) in [
        (both, [short, long, ""], (200, 100), vec!["a, b"]),
        (both, [long, short, ""], (200, 100), vec!["a, b"]),
        // 1 s, unless it is said.
        (both, ["", short, ""], (1000, 1000), vec!["a, b"]),
        (both, [short, short, ""], (50, 50), vec![]),
        (each.as_str(), [short, short, long], (200, 100), vec!["c, a-b", "b, a-b"]),
        (each.as_str(), ["", "", ""], (1000, 1000), vec![]),
    ] {
        let text = format!(r#"{{ "pools": {{ {} }}, "route": {route} }}"#, pools(timeouts));
        let (toml, left_out) = imported(&text);
        let layout = pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Known).unwrap();
        Fleet::new(&layout, Ejection::OnLoss).unwrap_or_else(|error| panic!("{error}: {toml}"));
        for pool in &layout.pools {
            let timeouts = (
                pool.server_limits.answer_timeout.as_millis(),
                pool.server_limits.connect_timeout.as_millis(),
            );
            assert_eq!(timeouts, holding, "{toml}");
        }
        let said: Vec<String> =
            said.iter().map(|pools| format!("different timeouts of pools {pools}: ")).collect();
        let are_said = said.iter().zip(&left_out).all(|(said, what)| what.starts_with(said));
        assert!(are_said && said.len() == left_out.len(), "{left_out:?}");
    }
}

#[test]
fn mcrouters_times_that_are_others_here_are_said() {
    let text = r#"{ "pools": {
            "a": { "servers": ["10.0.0.1:1"], "server_timeout": 5, "connect_timeout": 1 },
            "b": { "servers": ["10.0.0.2:1"] } },
        "route": { "type": "FailoverWithExptimeRoute", "normal": "PoolRoute|a", "failover": "PoolRoute|b",
            "failover_exptime": 9000000 } }"#;
    let (toml, left_out) = imported(text);
    for words in ["server-timeout = \"10ms\"", "connect-timeout = \"10ms\"", "gutter-expiry = \"2592000s\""] {
        assert!(toml.contains(words), "{words} in {toml}");
    }
    for said in ["server_timeout 5 of pool a", "connect_timeout 1 of pool a", "failover_exptime 9000000"] {
        assert!(left_out.iter().any(|what| what.starts_with(said)), "{said} in {left_out:?}");
    }
    assert!(read(text, Some("a")).unwrap_err().contains("--pool is for a file of twemproxy"));
}

#[test]
fn mcrouters_shadows_are_those_of_routes() {
    let shadowed = |shadows: &str| {
        routed(&format!(r#"{{ "type": "ShadowRoute", "child": "PoolRoute|a", "shadows": {shadows} }}"#))
    };
    let b = |more: &str| format!(r#"[{{ "target": "PoolRoute|b"{more} }}]"#);
    let (toml, left_out) = shadowed(&b(""));
    assert!(toml.contains("shadow = \"b\"\nshadow-share = 1\n") && left_out.is_empty(), "{toml}");
    for (range, share, said) in [
        ("[0, 0.1]", Some("0.1"), None),
        ("[0.5, 0.6]", Some("0.1"), Some("as many keys, and others")),
        ("[0, 0]", None, Some("no share of the keys")),
        ("[0.6, 0.5]", None, Some("no share of the keys")),
        ("0.5", None, Some("no share of the keys")),
    ] {
        let range = format!(r#", "key_fraction_range": {range}"#);
        let (toml, left_out) =
            routed(&format!(r#"{{ "type": "PoolRoute", "pool": "a", "shadows": {} }}"#, b(&range)));
        match share {
            Some(share) => assert!(
                toml.contains(&format!("pool = \"a\"\nshadow = \"b\"\nshadow-share = {share}\n")),
                "{toml}"
            ),
            None => assert!(!toml.contains("shadow = "), "{toml}"),
        }
        assert_eq!(left_out.len(), usize::from(said.is_some()), "{left_out:?}");
        assert!(said.is_none_or(|said| left_out[0].ends_with(said)), "{left_out:?}");
    }
    let (toml, left_out) =
        shadowed(r#"[{ "target": "PoolRoute|b", "odd": 1 }, { "target": "PoolRoute|c" }]"#);
    assert!(toml.contains("shadow = \"b\"") && !toml.contains("shadow = \"c\""), "{toml}");
    for said in ["odd of a shadow", "the shadow c: a route has one"] {
        assert!(left_out.iter().any(|what| what.starts_with(said)), "{said} in {left_out:?}");
    }
    // Under another handle a pool has none.
    let (_, left_out) = routed(&format!(
        r#"{{ "type": "AllSyncRoute", "children": [{{ "type": "PoolRoute", "pool": "a", "shadows": {} }}] }}"#,
        b("")
    ));
    assert!(left_out.len() == 1 && left_out[0].starts_with("shadows of PoolRoute"), "{left_out:?}");
}

#[test]
fn what_mcrouter_knows_and_we_do_not_is_said_and_the_rest_is_taken() {
    let (toml, left_out) = routed(
        r#"{ "type": "OperationSelectorRoute", "default_policy": "PoolRoute|a",
             "operation_policies": { "lease-get": "PoolRoute|b", "metaget": "PoolRoute|b", "get": "PoolRoute|c" } }"#,
    );
    assert!(toml.contains("commands = [\"get\", \"mg\"]") && !toml.contains("10.0.1.1"), "{toml}");
    assert!(left_out.len() == 2 && left_out[0].starts_with("lease-get"), "{left_out:?}");
    let (toml, left_out) = routed(
        r#"{ "type": "FailoverRoute", "children": ["PoolRoute|a", "PoolRoute|b"], "failover_errors": ["tko"],
             "failover_limit": { "rate": 0.1, "burst": 10 }, "failover_policy": { "type": "LeastFailuresPolicy" } }"#,
    );
    assert!(toml.contains("failover = [\"b\"]"), "{toml}");
    for said in ["failover_errors of FailoverRoute", "failover_limit", "failover_policy"] {
        assert!(left_out.iter().any(|what| what.starts_with(said)), "{said} in {left_out:?}");
    }
}

#[test]
fn a_server_of_mcrouter_is_encrypted_here_if_it_is_there() {
    let servers =
        r#""10.0.0.1:1", "10.0.0.2:1:ascii:ssl", "[::1]:1:caret:plain", "10.0.0.4:1:ascii:tls_to_plain""#;
    let (toml, left_out) = imported(&format!(
        r#"{{ "pools": {{ "a": {{ "servers": [{servers}] }} }}, "route": "PoolRoute|a" }}"#
    ));
    for server in ["\"10.0.0.1:1\"", "\"tls:10.0.0.2:1\"", "\"[::1]:1\"", "\"10.0.0.4:1\""] {
        assert!(toml.contains(server), "{server} in {toml}");
    }
    for said in ["certificates for 10.0.0.2:1", "caret to [::1]:1", "tls_to_plain to 10.0.0.4:1"] {
        assert!(left_out.iter().any(|what| what.starts_with(said)), "{said} in {left_out:?}");
    }
}

#[test]
fn what_is_neither_is_refused() {
    for text in ["", "7", "{ \"pools\": {} }", "{", "- a\n- b\n"] {
        assert!(read(text, None).is_err(), "{text}");
    }
}
