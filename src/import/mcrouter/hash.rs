//! How mcrouter's pools distribute keys: function, weights, tags and salt.
//!
//! They may stand in a handle or in the pool under it. mcrouter's weights are doubles and ours are
//! thousandths, so weights with up to three decimals are taken exactly.

use serde_json::{Map, Value as Json};

use super::super::{Server, quoted};
use crate::pools::SALT_BYTES_MAX;

/// mcrouter's weight for a server that has none.
const MISSING: f64 = 0.5;

/// Separates the part of a key that is hashed from the rest.
const STOP: &str = "|#|";

/// How one of our pools is to distribute its keys.
pub(super) struct Hashing {
    /// Fields of our pool, as TOML.
    pub(super) fields: Vec<(&'static str, String)>,
    /// What will make keys move, in words that `of pool NAME` can follow.
    pub(super) moves: Vec<String>,
}

/// Reads the hashing of a pool; weights and tags become those of the servers.
pub(super) fn read(route: &Json, pool: &Json, servers: &mut [Server]) -> Hashing {
    let settings = settings(route, pool);
    let function = settings.get("hash_func").and_then(Json::as_str).unwrap_or("Ch3");
    let mut hashing = Hashing { fields: Vec::new(), moves: Vec::new() };
    // One server has every key.
    let ours = if servers.len() == 1 { "mcrouter" } else { hashing.hash(function, &settings, servers) };
    hashing.fields.extend([("hash", quoted(ours)), ("hash-stop", quoted(STOP))]);
    match settings.get("salt").and_then(Json::as_str).unwrap_or_default() {
        "" => {}
        _ if servers.len() == 1 => {}
        salt if salt.len() <= SALT_BYTES_MAX => hashing.fields.push(("hash-salt", quoted(salt))),
        _ => hashing.moves.push(format!("the hash's salt of more than {SALT_BYTES_MAX} bytes")),
    }
    hashing
}

/// Collects the fields from all places where mcrouter looks; the handle's take precedence over its pool's.
fn settings(route: &Json, pool: &Json) -> Map<String, Json> {
    let mut settings = Map::new();
    if !pool["weights"].is_null() {
        settings.insert("hash_func".into(), "WeightedCh3".into());
    }
    for (places, fields) in
        [(pool, &["weights", "tags"][..]), (route, &["hash_func", "salt", "weights", "tags"])]
    {
        for field in fields {
            if let Some(value) = places.get(*field) {
                settings.insert((*field).to_owned(), value.clone());
            }
        }
    }
    match &route["hash"] {
        Json::String(function) => {
            settings.insert("hash_func".into(), function.as_str().into());
        }
        Json::Object(more) => settings.extend(more.clone()),
        _ => {}
    }
    settings
}

impl Hashing {
    /// Returns our name of the hash function.
    fn hash(&mut self, function: &str, settings: &Map<String, Json>, servers: &mut [Server]) -> &'static str {
        match function {
            "Ch3" => "mcrouter",
            "Crc32" => "mcrouter-crc32",
            "ConstShard" => "mcrouter-shard",
            "Rendezvous" => {
                self.tags(settings, servers);
                "mcrouter-rendezvous"
            }
            "WeightedCh3" => {
                self.weights(settings, servers, 1.0);
                "mcrouter-weighted"
            }
            "WeightedRendezvous" => {
                self.tags(settings, servers);
                // In mcrouter's function any number is a weight; only their proportions count.
                let weights = weights(settings, servers.len());
                self.weights(
                    settings,
                    servers,
                    weights.iter().flatten().fold(1.0, |most, weight| weight.max(most)),
                );
                "mcrouter-weighted-rendezvous"
            }
            other => {
                self.moves.push(format!("hash {other} (by hash mcrouter, ch3, instead)"));
                "mcrouter"
            }
        }
    }

    /// Takes over the tags, by which servers are placed, as their names.
    fn tags(&mut self, settings: &Map<String, Json>, servers: &mut [Server]) {
        let tags = settings.get("tags").and_then(Json::as_array).filter(|tags| tags.len() == servers.len());
        let Some(tags) = tags else {
            return self.moves.push("the tags, which are not one for each server,".into());
        };
        for (server, tag) in servers.iter_mut().zip(tags) {
            server.name = tag.as_str().map(str::to_owned);
        }
    }

    /// Takes over the weights, in thousandths of `full`.
    fn weights(&mut self, settings: &Map<String, Json>, servers: &mut [Server], full: f64) {
        let mut is_exact = true;
        let weights = weights(settings, servers.len());
        for (server, weight) in servers.iter_mut().zip(weights) {
            let weight = weight.unwrap_or(MISSING) / full * 1000.0;
            let near = weight.round();
            is_exact &= (0.0..=1000.0).contains(&near) && (weight - near).abs() < 1e-9;
            server.weight = Some(near.clamp(0.0, 1000.0) as u32).filter(|weight| *weight != 1000);
        }
        if !is_exact {
            self.moves.push("the weights, which are no whole thousandths from 0 to 1,".into());
        }
    }
}

/// Returns a weight for each server; None where it is missing or no number.
fn weights(settings: &Map<String, Json>, servers: usize) -> Vec<Option<f64>> {
    let given = settings.get("weights").and_then(Json::as_array);
    (0..servers).map(|server| given?.get(server)?.as_f64()).collect()
}
