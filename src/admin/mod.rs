//! `posthaste admin`: the management console on the command line.

mod account;
mod backup;
mod cache;
mod doctor;
mod store;
mod table;
mod top;

use std::error::Error;

use posthaste_load::stderr::complain;
use posthaste_server::clients::decode_name;
use posthaste_server::http::json::json;
use posthaste_server::log_level::LogLevel;
use serde_json::{Value as Json, json};

use self::table::{cell, table, whole};
use crate::flags::{AdminCommand, Reach, ReachCache, WebReach};
use crate::resp::Client;
use crate::stdout::say;
use crate::web::Web;

type Done = Result<(), Box<dyn Error>>;

/// Runs one command.
pub(crate) fn run(command: &AdminCommand) -> Done {
    match command {
        AdminCommand::Queues { queue: None, reach } => rows(reach, &["QLIST"]),
        AdminCommand::Queues { queue: Some(queue), reach } => rows(reach, &["QINFO", queue]),
        AdminCommand::Messages { queue, after, count, reach } => messages(reach, queue, *after, *count),
        AdminCommand::Accounts { reach } => rows(reach, &["ACCOUNTS"]),
        AdminCommand::Clients { kill: None, http: None, reach } => clients(reach),
        AdminCommand::Clients { kill: None, http: Some(http), reach } => {
            list(reach, cache::clients(&cache_reach(http, reach))?)
        }
        AdminCommand::Clients { kill: Some(id), http, reach } => {
            let closed = match http {
                None => ask_integer(Client::connect(reach)?, &["CLIENT", "KILL", "ID", &id.to_string()])?,
                Some(http) => cache::close_client(&cache_reach(http, reach), *id)?,
            };
            match closed {
                0 => Err(format!("no client has the id {id}; see posthaste admin clients").into()),
                closed => show_count(reach, closed, "closed"),
            }
        }
        AdminCommand::Purge { queue, reach } => ask_and_show_count(reach, &["QPURGE", queue], "removed"),
        AdminCommand::Delete { queue, reach } => ask_and_show_count(reach, &["QDELETE", queue], "removed"),
        AdminCommand::Redrive { from, to, reach } => {
            let words: Vec<&str> = ["QREDRIVE", from].into_iter().chain(to.as_deref()).collect();
            ask_and_show_count(reach, &words, "moved")
        }
        AdminCommand::Top(flags) => top::run(flags),
        AdminCommand::Doctor(flags) => doctor::run(flags),
        AdminCommand::LogLevel { level, reach } => log_level(*level, reach),
        AdminCommand::Servers { reach } => cache::rows(reach, "/v1/servers"),
        AdminCommand::Server { name, state, reach } => cache::set_state(reach, name, state),
        AdminCommand::Pools { reach } => cache::rows(reach, "/v1/pools"),
        AdminCommand::Routes { reach } => cache::rows(reach, "/v1/routes"),
        AdminCommand::Route { key, command, file, reach } => {
            cache::explain(reach, key, command, file.as_deref())
        }
        AdminCommand::Store { store, older_than, json } => store::run(store, *older_than, *json),
        AdminCommand::Backup { store, to } => backup::run(store, to),
        AdminCommand::Account(command) => account::run(command),
    }
}

/// Shows or sets the log level of a tier.
fn log_level(level: Option<LogLevel>, reach: &WebReach) -> Done {
    let body = level.map(|level| json!({ "log_level": level }));
    let answer = Web::new(reach)?.exchange("/v1/log-level", body.as_ref())?;
    let level = answer["log_level"].as_str().ok_or("this is not the answer of a Posthaste tier")?;
    say(&format!("{level}\n"))
}

/// Shows the answer to a request whose answer is a map or an array of maps.
fn rows(reach: &Reach, words: &[&str]) -> Done {
    let answer = Client::connect(reach)?.ask(words, |value| Ok(json(value)))?;
    if reach.json {
        return say(&format!("{answer:#}\n"));
    }
    match answer {
        Json::Array(rows) => list(reach, rows),
        Json::Object(fields) => {
            fields.iter().try_for_each(|(name, value)| say(&format!("{name:<12} {}\n", cell(name, value))))
        }
        other => say(&format!("{}\n", whole(&other))),
    }
}

/// Shows some messages of a queue, and how to see more.
fn messages(reach: &Reach, queue: &str, after: u64, count: u32) -> Done {
    let mut client = Client::connect(reach)?;
    let (mut shown, mut last) = (Vec::new(), after);
    // A single answer may have fewer messages than asked for, when they are large.
    while shown.len() < count as usize {
        let left = count as usize - shown.len();
        let words = ["QBROWSE", queue, "AFTER", &last.to_string(), "COUNT", &left.to_string()];
        let answer = client.ask(&words, |value| Ok(json(value)))?;
        let Json::Array(more) = answer else { return Err("this is not the answer of a queue tier".into()) };
        let Some(id) = more.last().and_then(|message| message["id"].as_u64()) else { break };
        last = id;
        shown.extend(more);
    }
    let is_cut = shown.len() == count as usize;
    list(reach, shown)?;
    if is_cut {
        complain(format_args!(
            "posthaste: there may be more: --after {last} shows what follows, --count N more at once"
        ));
    }
    Ok(())
}

/// Shows the answer to a request that counts something. A request about all messages of a queue takes its time.
fn ask_and_show_count(reach: &Reach, words: &[&str], what: &str) -> Done {
    show_count(reach, ask_integer(Client::connect(reach)?.waiting_for_long()?, words)?, what)
}

fn ask_integer(mut client: Client, words: &[&str]) -> Result<i64, Box<dyn Error>> {
    client.ask(words, |value| Ok(value.as_integer().unwrap_or(0)))
}

fn show_count(reach: &Reach, count: i64, what: &str) -> Done {
    say(&if reach.json { format!("{:#}\n", json!({ what: count })) } else { format!("{count} {what}\n") })
}

/// Shows the answer to CLIENT LIST, which has one line of `name=value` for each client.
fn clients(reach: &Reach) -> Done {
    let text = Client::connect(reach)?.ask(&["CLIENT", "LIST"], |value| {
        Ok(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned())
    })?;
    let row = |line: &str| {
        let fields = line.split(' ').filter_map(|field| field.split_once('='));
        Json::Object(fields.map(|(name, value)| (name.to_owned(), client_field(name, value))).collect())
    };
    list(reach, text.lines().map(row).collect())
}

fn list(reach: &Reach, rows: Vec<Json>) -> Done {
    show(reach.json, rows)
}

/// Shows rows as a table, or as JSON.
fn show(as_json: bool, rows: Vec<Json>) -> Done {
    match rows.as_slice() {
        _ if as_json => say(&format!("{:#}\n", Json::Array(rows))),
        [] => say("none\n"),
        rows => say(&table(rows)),
    }
}

/// Returns how to reach the cache tier at this address, with the other flags as they are.
fn cache_reach(http: &str, Reach { tls, json, .. }: &Reach) -> ReachCache {
    ReachCache { http: http.to_owned(), tls: tls.clone(), json: *json }
}

/// Returns a field as JSON: counts as numbers, anything else as text, since a name may look like a number.
fn client_field(name: &str, value: &str) -> Json {
    if name == "user" {
        return decode_name(value).into();
    }
    let is_number = ["id", "age", "idle", "requests", "resp", "thread"].contains(&name);
    let number = is_number.then(|| value.parse::<u64>().ok()).flatten();
    number.map_or_else(|| value.into(), Json::from)
}
