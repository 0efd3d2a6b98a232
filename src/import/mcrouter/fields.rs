//! The fields of mcrouter's handles and pools that are understood; every other one is reported.

use serde_json::{Map, Value as Json};

use super::{Reader, kind};

/// Fields of a pool.
const POOL: [&str; 6] = ["name", "servers", "server_timeout", "connect_timeout", "weights", "tags"];

/// Fields of a hash that is a table.
const HASH: [&str; 4] = ["hash_func", "salt", "tags", "weights"];

/// Fields of a shadow.
const SHADOW: [&str; 3] = ["target", "index_range", "key_fraction_range"];

/// Returns the fields of a handle of this type. None: the type has no counterpart, and the whole handle is
/// reported instead.
fn of_handle(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "PrefixSelectorRoute" => &["policies", "wildcard"],
        "OperationSelectorRoute" => &["default_policy", "operation_policies"],
        "ShadowRoute" => &["child", "children", "shadows"],
        "PoolRoute" | "Pool" | "HashRoute" => {
            &["children", "hash", "hash_func", "pool", "rates", "salt", "tags", "weights"]
        }
        "AllSyncRoute" | "AllFastestRoute" | "AllMajorityRoute" | "AllInitialRoute" | "AllAsyncRoute"
        | "FailoverRoute" => &["children"],
        "FailoverWithExptimeRoute" => &["normal", "failover", "failover_exptime"],
        "WarmUpRoute" => &["cold", "warm"],
        _ => return None,
    })
}

/// Returns whether handles of this type have a counterpart.
pub(super) fn are_known_of(kind: &str) -> bool {
    of_handle(kind).is_some()
}

impl Reader {
    /// Reports the fields of a handle that are not read.
    pub(super) fn report_unknown_of_handle(&mut self, route: &Json) {
        let kind = kind(route).0;
        if let Some(known) = of_handle(kind) {
            self.report_unknown(route, &[known, &["type"]].concat(), kind);
        }
    }

    /// Reports the fields of a pool that are not read.
    pub(super) fn report_unknown_of_pool(&mut self, pool: &Json, name: &str) {
        self.report_unknown(pool, &POOL, &format!("pool {name}"));
    }

    /// Reports the fields of a hash that are not read.
    pub(super) fn report_unknown_of_hash(&mut self, hash: &Json) {
        self.report_unknown(hash, &HASH, "a hash");
    }

    /// Reports the fields of an entry of routes that are not read.
    pub(super) fn report_unknown_of_routes(&mut self, entry: &Json) {
        self.report_unknown(entry, &["route"], "routes");
    }

    /// Reports the fields of a shadow that are not read.
    pub(super) fn report_unknown_of_shadow(&mut self, shadow: &Json) {
        self.report_unknown(shadow, &SHADOW, "a shadow");
    }

    fn report_unknown(&mut self, table: &Json, known: &[&str], of: &str) {
        for field in table.as_object().into_iter().flat_map(Map::keys) {
            if !known.contains(&field.as_str()) {
                self.import.leave_out(format!("{field} of {of}: {}", instead(field)));
            }
        }
    }
}

/// Returns advice about a field that is not read.
fn instead(field: &str) -> &'static str {
    match field {
        "failover_limit" => {
            "it is a share of the requests there; write failover-limit = N, requests in a second, in the pool"
        }
        "aliases" => {
            "a routing prefix is a part of the key here, and places it elsewhere: clients are to leave it out"
        }
        "shadows" => "a route has a shadow here, and a pool under another handle has none",
        _ => "it has no counterpart",
    }
}
