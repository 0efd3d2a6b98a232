//! mcrouter's handles that have no counterpart: one of the handles under them is taken, and the rest is reported.

use serde_json::Value as Json;

use super::{Reader, kind, list, pool_name};

/// Where such a handle has other ones, in the order in which they are taken.
const UNDER: [&str; 10] =
    ["child", "target", "children", "destination", "l1", "l2", "to", "from", "warm", "failoverTarget"];

impl Reader {
    /// Returns the handle that is taken in place of one without a counterpart, which is reported.
    pub(super) fn under(&mut self, route: &Json) -> Option<Json> {
        let (kind, short) = kind(route);
        if route.as_str().is_some_and(|text| !text.contains('|') && !text.ends_with("Route")) {
            self.import.leave_out(format!("{kind}: no handle has this name"));
            return None;
        }
        let short = short.map(Json::from);
        let fields = UNDER.iter().map(|field| &route[*field]);
        let handles: Vec<&Json> = short.iter().chain(fields).flat_map(list).collect();
        let taken = match handles.as_slice() {
            [] => String::new(),
            [_] => "; what is under it is taken".into(),
            [first, rest @ ..] => {
                let rest: Vec<String> = rest.iter().map(|handle| described(handle)).collect();
                format!("; of what is under it {} is taken, and not {}", described(first), rest.join(", "))
            }
        };
        self.import.leave_out(format!("{kind}: {}{taken}", instead(kind, route)));
        handles.first().map(|first| (*first).clone())
    }
}

/// Returns whether a handle distributes keys over other handles than the servers of one pool.
pub(super) fn hashes_over_handles(route: &Json) -> bool {
    let of_pool = |handle: &&Json| kind(handle).0 == "Pool";
    let handles = list(&route["children"]);
    kind(route).0 == "HashRoute" && !handles.is_empty() && !handles.iter().all(of_pool)
}

fn described(handle: &Json) -> String {
    match kind(handle) {
        ("PoolRoute" | "Pool" | "HashRoute", short) if !hashes_over_handles(handle) => {
            format!("pool {}", pool_name(handle, short))
        }
        (kind, _) => kind.to_owned(),
    }
}

/// Returns what comes nearest to a handle.
fn instead(kind: &str, route: &Json) -> &'static str {
    match kind {
        "RateLimitRoute" => "write limit = N, and burst = N, in its routes for reads and for writes",
        "OutstandingLimitRoute" => {
            "write depth-limit = N in the pool, which counts on each connection to a server and refuses what is beyond it"
        }
        "MissFailoverRoute" => {
            "a pool that asks another one for what it misses has below = \"POOL\" or warm-from = \"POOL\""
        }
        "L1L2CacheRoute" => "below = \"POOL\" in a pool is near to it, and sends every write to both",
        "ModifyKeyRoute"
            if !route["ensure_key_prefix"].is_null() || !route["replace_key_prefix"].is_null() =>
        {
            "keys move: servers get them without the other prefix; add-prefix = \"PREFIX\" of a route puts one before every key"
        }
        _ => "it has no counterpart",
    }
}
