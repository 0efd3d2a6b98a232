//! `posthaste admin` for cache tiers: servers and their states, pools, routes, the route of a key, clients.

use std::error::Error;
use std::path::Path;

use posthaste_measure::Events;
use posthaste_server::cache::explain;
use posthaste_server::cache::fleet::{Fleet, FleetOptions};
use serde_json::{Value as Json, json};

use crate::admin::table::table;
use crate::cache;
use crate::config::{self, Misuse};
use crate::flags::{Program, ReachCache, WebReach};
use crate::stdout::say;
use crate::web::{Refused, Web};

/// Clients per request, which is the most that a tier answers.
const CLIENTS_PER_PAGE: usize = 1000;

/// HTTP status that tells a queue tier: a cache tier has no accounts, so it never answers this.
const UNAUTHORIZED: u16 = 401;

type Done = Result<(), Box<dyn Error>>;

/// Shows the answer to a request whose answer is an array of objects.
pub(crate) fn rows(reach: &ReachCache, path: &str) -> Done {
    let answer = ask(reach, path, None)?;
    show(reach, &answer)
}

/// Sets the state of a server: taken out, spared, or taking part.
pub(crate) fn set_state(reach: &ReachCache, name: &str, state: &str) -> Done {
    show(reach, &ask(reach, "/v1/servers/state", Some(&json!({ "server": name, "state": state })))?)
}

/// Returns all clients that are connected, by id.
pub(crate) fn clients(reach: &ReachCache) -> Result<Vec<Json>, Box<dyn Error>> {
    let (web, mut clients, mut after) = (web(reach)?, Vec::new(), 0);
    loop {
        let path = format!("/v1/clients?limit={CLIENTS_PER_PAGE}&after={after}");
        let page = of_cache_tier(&web, web.exchange(&path, None))?;
        let page = page.as_array().ok_or_else(|| no_cache_tier(reach))?;
        let Some(last) = page.last() else { return Ok(clients) };
        after = last["id"].as_u64().ok_or_else(|| no_cache_tier(reach))?;
        clients.extend_from_slice(page);
    }
}

/// Closes a client's connection and returns how many were closed.
pub(crate) fn close_client(reach: &ReachCache, id: u64) -> Result<i64, Box<dyn Error>> {
    let web = web(reach)?;
    let answer = of_cache_tier(&web, web.delete(&format!("/v1/clients/{id}")))?;
    Ok(answer["closed"].as_i64().unwrap_or(0))
}

/// Returns the error for JSON that is not from a cache tier.
fn no_cache_tier(reach: &ReachCache) -> String {
    format!("{} does not answer as a cache tier does; is one running there, with that --http?", reach.http)
}

fn ask(reach: &ReachCache, path: &str, body: Option<&Json>) -> Result<Json, Box<dyn Error>> {
    let web = web(reach)?;
    of_cache_tier(&web, web.exchange(path, body))
}

/// Returns the answer. If it is a refusal by a queue tier, the error says so.
fn of_cache_tier(web: &Web, answer: Result<Json, Box<dyn Error>>) -> Result<Json, Box<dyn Error>> {
    if answer.as_ref().is_err_and(|error| error.is::<Refused>()) && is_queue_tier(web) {
        return Err(format!("{} is a queue tier: name the --http of a cache tier", web.address()).into());
    }
    answer
}

/// Returns whether this is a queue tier: its status says so, or it asks for an account, which no cache tier does.
fn is_queue_tier(web: &Web) -> bool {
    web.get("/v1/status").is_ok_and(|page| {
        let says: Json = serde_json::from_str(&page.text).unwrap_or_default();
        page.status == UNAUTHORIZED || says["tier"] == "queue"
    })
}

/// Returns an HTTP client for a cache tier, which has no accounts.
fn web(reach: &ReachCache) -> Result<Web, Box<dyn Error>> {
    let (http, tls) = (reach.http.clone(), reach.tls.clone());
    Web::new(&WebReach { http, user: None, secret_file: None, tls })
}

/// Percent-encodes text for a query.
fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn show(reach: &ReachCache, answer: &Json) -> Done {
    let rows = answer
        .as_object()
        .and_then(|lists| lists.values().find_map(Json::as_array))
        .ok_or_else(|| no_cache_tier(reach))?;
    match rows.as_slice() {
        _ if reach.json => say(&format!("{answer:#}\n")),
        [] => say("none\n"),
        rows => {
            let mut rows = rows.to_vec();
            // Distributions are left to programs, and so is what is the same everywhere.
            for row in rows.iter_mut().filter_map(Json::as_object_mut) {
                row.retain(|name, _| !name.ends_with("_below_us") && name != "missed_keys_max");
            }
            say(&table(&rows))
        }
    }
}

/// Explains where a key goes, by the routes of a running tier or of a file.
pub(crate) fn explain(reach: &ReachCache, key: &str, command: &str, file: Option<&Path>) -> Done {
    let answer = match file {
        Some(file) => explain_by_file(key, command, file)?,
        None => {
            let path = format!(
                "/v1/routes/explain?key={}&command={}",
                percent_encoded(key),
                percent_encoded(command)
            );
            ask(reach, &path, None)?
        }
    };
    let sentences = answer["sentences"].as_array().ok_or_else(|| no_cache_tier(reach))?;
    if reach.json {
        return say(&format!("{answer:#}\n"));
    }
    let sentences = sentences.iter().filter_map(Json::as_str);
    say(&sentences.flat_map(|sentence| [sentence, "\n"]).collect::<String>())
}

fn explain_by_file(key: &str, command: &str, file: &Path) -> Result<Json, Box<dyn Error>> {
    let words = ["posthaste".into(), "cache".into(), "--config".into(), file.as_os_str().to_owned()];
    let Program::Cache(flags) =
        config::program(words.into()).map_err(|refusal| Misuse(refusal.to_string()))?
    else {
        return Err("this is no cache tier".into());
    };
    let layout = cache::layout(&flags).map_err(Misuse)?;
    let options = FleetOptions { resolver: cache::resolver(&flags), ..FleetOptions::default() };
    let fleet =
        Fleet::with_options(&layout, cache::ejection(&flags), options, Events::default()).map_err(Misuse)?;
    let mut explained = explain::explain(&fleet.table(), command, key).map_err(Misuse)?;
    if !explained.servers.is_empty() {
        explained.sentences.push("no server was asked: each is taken for one that takes part".into());
    }
    Ok(serde_json::to_value(explained)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_query_is_the_key() {
        assert_eq!(percent_encoded("user:7/é&x"), "user%3A7%2F%C3%A9%26x");
    }
}
