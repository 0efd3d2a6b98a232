//! Kinds of requests, by which the cache tier counts them.

use posthaste_wire::memcached::request::{Request, Verb};

/// The names of kinds, in the order of their numbers.
pub const NAMES: &[&str] = &[
    "get",
    "multiget",
    "set",
    "add",
    "replace",
    "append",
    "prepend",
    "cas",
    "delete",
    "incr",
    "decr",
    "touch",
    "meta_get",
    "meta_set",
    "meta_delete",
    "meta_arithmetic",
    "flush_all",
    "other",
];

/// The number of a request's kind.
#[must_use]
pub fn kind(request: &Request) -> u8 {
    match request.verb {
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats if request.keys > 1 => 1,
        Verb::Get | Verb::Gets | Verb::Gat | Verb::Gats => 0,
        Verb::Set => 2,
        Verb::Add => 3,
        Verb::Replace => 4,
        Verb::Append => 5,
        Verb::Prepend => 6,
        Verb::Cas => 7,
        Verb::Delete => 8,
        Verb::Incr => 9,
        Verb::Decr => 10,
        Verb::Touch => 11,
        Verb::MetaGet => 12,
        Verb::MetaSet => 13,
        Verb::MetaDelete => 14,
        Verb::MetaArithmetic => 15,
        Verb::FlushAll => 16,
        _ => OTHER,
    }
}

/// The kind of requests that are answered here, or not understood.
pub const OTHER: u8 = 17;
