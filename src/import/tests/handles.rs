//! What becomes of mcrouter's handles that have no counterpart, and of the pools under them.

use super::*;

/// Asserts that of a route over pools `a`, `b` and `c` only `a` is taken, with one message that has these parts.
fn only_a_is_taken(route: &str, parts: &[&str]) {
    let (toml, left_out) = routed(route);
    assert!(toml.contains("pool = \"a\"") && !toml.contains("10.0.1.1"), "{route}: {toml}");
    assert_eq!(left_out.len(), 1, "{route}: {left_out:?}");
    for part in parts {
        assert!(left_out[0].contains(part), "{route}: {part} in {left_out:?}");
    }
}

#[test]
fn of_several_handles_under_one_that_is_not_known_the_others_are_named() {
    let both = r#""children": ["PoolRoute|a", "PoolRoute|b"]"#;
    for kind in ["RandomRoute", "HostIdRoute", "LatestRoute", "HashRoute"] {
        only_a_is_taken(
            &format!(r#"{{ "type": "{kind}", {both} }}"#),
            &[kind, "of what is under it pool a is taken, and not pool b"],
        );
    }
    only_a_is_taken(
        r#"{ "type": "MissFailoverRoute", "children": ["PoolRoute|a", { "type": "PoolRoute", "pool": "b" }, "NullRoute"] }"#,
        &["below = \"POOL\" or warm-from", "pool a is taken, and not pool b, NullRoute"],
    );
    only_a_is_taken(
        r#"{ "type": "L1L2CacheRoute", "l1": "PoolRoute|a", "l2": "PoolRoute|b", "upgradingL1Exptime": 60 }"#,
        &["below = \"POOL\" in a pool is near to it", "pool a is taken, and not pool b"],
    );
    only_a_is_taken(
        r#"{ "type": "MigrateRoute", "from": "PoolRoute|b", "to": "PoolRoute|a", "start_time": 1 }"#,
        &["pool a is taken, and not pool b"],
    );
}

#[test]
fn what_limits_and_what_changes_keys_is_said_with_what_comes_near_to_it() {
    for (kind, more, parts) in [
        (
            "RateLimitRoute",
            r#""rates": { "gets_rate": 10 }"#,
            &["limit = N", "; what is under it is taken"][..],
        ),
        ("OutstandingLimitRoute", r#""max_outstanding": 10"#, &["depth-limit = N"]),
        ("ModifyKeyRoute", r#""ensure_key_prefix": "x:""#, &["keys move", "add-prefix"]),
        ("ModifyKeyRoute", r#""set_routing_prefix": "/a/b/""#, &["it has no counterpart; what is under"]),
    ] {
        let route = format!(r#"{{ "type": "{kind}", "target": "PoolRoute|a", {more} }}"#);
        only_a_is_taken(&route, parts);
    }
    only_a_is_taken(
        "\"LoggingRoute|PoolRoute|a\"",
        &["LoggingRoute: it has no counterpart; what is under it is taken"],
    );
}

#[test]
fn selectors_under_a_handle_without_a_counterpart_are_taken() {
    let (toml, _) = routed(
        r#"{ "type": "RateLimitRoute", "rates": {}, "target": { "type": "PrefixSelectorRoute",
             "policies": { "x:": "PoolRoute|a" }, "wildcard": "PoolRoute|b" } }"#,
    );
    assert!(toml.contains("prefix = \"x:\"\npool = \"a\"\n") && toml.contains("\npool = \"b\"\n"), "{toml}");
}

#[test]
fn a_handle_may_have_the_servers_of_a_pool_as_children() {
    let file = |route: &str| {
        imported(&format!(
            r#"{{ "pools": {{ "a": {{ "servers": ["10.0.0.1:1", "10.0.0.2:1"] }} }}, "route": {route} }}"#
        ))
    };
    for route in ["\"HashRoute|Pool|a\"", r#"{ "type": "HashRoute", "children": ["Pool|a"] }"#] {
        let (toml, left_out) = file(route);
        assert!(toml.contains("hash = \"mcrouter\"") && left_out.is_empty(), "{route}: {left_out:?}");
    }
    for route in ["\"FailoverRoute|Pool|a\"", "\"RandomRoute|Pool|a\""] {
        let (toml, left_out) = file(route);
        assert!(toml.contains("pool = \"a\""), "{toml}");
        assert!(
            left_out.iter().any(|what| what.contains("pool a") && what.contains("keys move")),
            "{left_out:?}"
        );
    }
}

#[test]
fn a_pool_that_is_used_with_more_fields_only_is_written_once_under_its_name() {
    let names = |route: &str| {
        let (toml, left_out) = routed(route);
        assert!(left_out.is_empty(), "{left_out:?}");
        let layout = pools::layout(&toml, Vec::new(), &Defaults::default(), Names::Known).unwrap();
        let pools = layout.pools.iter().map(|pool| pool.name.clone()).collect::<Vec<_>>().join(" ");
        let routes = layout.routes.iter().map(|route| layout.pools[route.pool].name.clone());
        (pools, routes.collect::<Vec<_>>().join(" "))
    };
    let is = |pools: &str, routes: &str| (pools.to_owned(), routes.to_owned());
    let failover = r#"{ "type": "FailoverRoute", "children": ["PoolRoute|a", "PoolRoute|b"] }"#;
    assert_eq!(names(failover), is("b a", "a"));
    let warm = r#"{ "type": "WarmUpRoute", "cold": "PoolRoute|a", "warm": "PoolRoute|b" }"#;
    assert_eq!(names(warm), is("b a", "a"));
    let deletes = r#"{ "type": "OperationSelectorRoute", "default_policy": "PoolRoute|a", "operation_policies": {
        "delete": { "type": "AllInitialRoute", "children": ["PoolRoute|a", "PoolRoute|b"] } } }"#;
    assert_eq!(names(deletes), is("b a", "a"));
    // What a route needs as it is keeps its name.
    let both = format!(
        r#"{{ "type": "PrefixSelectorRoute", "policies": {{ "x:": {failover}, "y:": "PoolRoute|a" }}, "wildcard": {warm} }}"#
    );
    assert_eq!(names(&both), is("a b a-2 a-3", "a-2 a a-3"));
    let shadowed = format!(
        r#"{{ "type": "ShadowRoute", "child": "PoolRoute|c", "shadows": [{{ "target": {failover} }}] }}"#
    );
    let (toml, _) = routed(&shadowed);
    assert!(toml.contains("shadow = \"a\"") && toml.contains("failover = [\"b\"]"), "{toml}");
}

#[test]
fn json_is_taken_as_mcrouter_takes_it() {
    let text = "\u{feff}{ // pools\n\"pools\": { \"a,]\": { \"servers\": [\"10.0.0.1:1\", /* the last */\n], }, },\n\
                \"route\": \"PoolRoute|a,]\", }";
    let (toml, left_out) = imported(text);
    assert!(toml.contains("[cache.pools.\"a,]\"]") && left_out.is_empty(), "{toml} {left_out:?}");
    let error = read("{\n\"pools\": [1,\n],\n\"route\": ?", None).unwrap_err();
    assert!(error.starts_with("not JSON: ") && error.contains("line 4"), "{error}");
}

#[test]
fn a_handle_is_taken_wherever_it_is_called_by_its_name() {
    let file = |more: &str, route: &str| {
        imported(&format!(
            r#"{{ "pools": {{ "a": {{ "servers": ["10.0.0.1:1"] }}, "b": {{ "servers": ["10.0.1.1:1"] }} }},
                 {more} "route": {route} }}"#
        ))
    };
    let by_name =
        r#"{ "type": "PrefixSelectorRoute", "policies": { "b:": "b" }, "wildcard": "PoolRoute|a" }"#;
    let both = "prefix = \"b:\"\npool = \"b\"\n\n[[cache.routes]]\npool = \"a\"\n";
    for more in [
        r#""named_handles": [{ "type": "PoolRoute", "name": "b", "pool": "b" }],"#,
        r#""named_handles": { "b": "PoolRoute|b" },"#,
        r#""named_handles": [{ "type": "PoolRoute", "name": "c", "pool": "b" }, { "type": "NullRoute", "name": "d" }, { "name": "b", "type": "FailoverRoute", "children": ["c"] }],"#,
    ] {
        let (toml, left_out) = file(more, by_name);
        assert!(toml.contains(both) && left_out.is_empty(), "{more}: {toml} {left_out:?}");
    }
    let (toml, left_out) = file(
        "",
        r#"{ "type": "PrefixSelectorRoute", "policies": {
             "b:": { "type": "PoolRoute", "name": "x", "pool": "b" }, "c:": "x", "d:": "FailoverRoute|x" },
             "wildcard": "PoolRoute|a" }"#,
    );
    for prefix in ["b:", "c:", "d:"] {
        assert!(toml.contains(&format!("prefix = \"{prefix}\"\npool = \"b\"\n")), "{toml}");
    }
    assert!(left_out.is_empty(), "{left_out:?}");
}

#[test]
fn a_name_that_no_handle_has_is_said_and_so_is_where_its_keys_go() {
    let (toml, left_out) = routed(
        r#"{ "type": "PrefixSelectorRoute", "policies": { "x:": "nobody", "y:": "NullRoute" }, "wildcard": "PoolRoute|a" }"#,
    );
    assert!(toml.contains("pool = \"a\"") && !toml.contains("prefix ="), "{toml}");
    let said = left_out.join("\n");
    assert!(said.contains("nobody: no handle has this name"), "{said}");
    for prefix in ["x:", "y:"] {
        assert!(said.contains(&format!("{prefix} as a prefix: no route is written")), "{said}");
    }
    // A handle that is a part of itself ends.
    let text = r#"{ "pools": {}, "named_handles": { "a": "b", "b": "a" }, "route": "a" }"#;
    assert!(read(text, None).is_err());
}

#[test]
fn a_time_that_is_too_short_for_a_gutter_is_said() {
    let (toml, left_out) = routed(
        r#"{ "type": "FailoverWithExptimeRoute", "normal": "PoolRoute|a", "failover": "PoolRoute|b", "failover_exptime": 0 }"#,
    );
    assert!(toml.contains("gutter-expiry = \"1s\""), "{toml}");
    assert_eq!(left_out, ["failover_exptime 0: gutter-expiry is at least 1 s"]);
}
