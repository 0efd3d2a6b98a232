//! Kinds of requests, by which the cache tier counts them.
//!
//! A kind's number is its place in [`NAMES`]. It does not leave the process: records, `/metrics` and the log have the
//! name.

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
pub fn number(request: &Request) -> u8 {
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

#[cfg(test)]
mod tests {
    use posthaste_wire::memcached::decode::{Decoded, Limits, decode};

    use super::*;

    #[test]
    fn a_number_is_the_place_of_the_name() {
        let words = ["set", "add", "replace", "append", "prepend", "cas"].map(|verb| {
            let token = if verb == "cas" { " 1" } else { "" };
            (verb, format!("{verb} k 0 0 1{token}\r\nx\r\n"))
        });
        let others = [
            ("get", "get k\r\n"),
            ("multiget", "gats 0 k l\r\n"),
            ("delete", "delete k\r\n"),
            ("incr", "incr k 1\r\n"),
            ("decr", "decr k 1\r\n"),
            ("touch", "touch k 0\r\n"),
            ("meta_get", "mg k\r\n"),
            ("meta_set", "ms k 1\r\nx\r\n"),
            ("meta_delete", "md k\r\n"),
            ("meta_arithmetic", "ma k\r\n"),
            ("flush_all", "flush_all\r\n"),
            ("other", "version\r\n"),
        ];
        let others = others.map(|(name, text)| (name, text.to_owned()));
        let limits = Limits { value_bytes: 100, line_bytes: 1000 };
        for (name, text) in words.into_iter().chain(others) {
            let Decoded::Request(request, _) = decode(text.as_bytes(), &limits) else { panic!("{text}") };
            assert_eq!(NAMES[usize::from(number(&request))], name);
        }
    }
}
