//! Formats what `posthaste admin top` shows: pure functions from figures to text.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use crate::admin::table::table;
use crate::web::Figures;

/// Answers of a tier at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Address of the tier.
    pub(crate) address: String,
    /// When it was asked for what it counts since its start: seconds since this program's.
    pub(crate) at_s: f64,
    /// Its last window; null: none has ended yet.
    pub(crate) window: Json,
    /// The fullest queues, of a queue tier.
    pub(crate) queues: Option<Json>,
    /// The clients, of a queue tier.
    pub(crate) clients: Option<Json>,
    /// The status, of a queue tier.
    pub(crate) status: Option<Json>,
    /// The metrics, of a cache tier.
    pub(crate) figures: Option<Figures>,
}

/// Stages in the order of the request's path, with the column of their mean.
const STAGES: [(&str, &str); 5] = [
    ("parse", "parse_mean_us"),
    ("waiting", "waiting_all_mean_us"),
    ("dispatch", "dispatch_mean_us"),
    ("service", "service_all_mean_us"),
    ("reply", "reply_mean_us"),
];
/// Distributions, each shown if it is kept.
const SPREADS: [&str; 5] = ["response", "waiting", "service", "sync", "statement"];
/// Length of the bar of stages, in characters.
const BAR: f64 = 60.0;

/// Heading above the lines.
pub(crate) const HEADING: &str = "start_s requests_per_s errors_per_s mean_us p50_us p99_us max_us waiting_mean_us service_mean_us line_requests connections";

/// Formats one window as a line.
pub(crate) fn line(now: &Snapshot) -> String {
    let window = &now.window;
    let all = &window["all"];
    let figures = [
        number(&window["start_s"]),
        number(&all["requests_per_s"]),
        per_s(all, "errors", window),
        number(&all["response"]["mean_us"]),
        number(&all["response"]["p50_us"]),
        number(&all["response"]["p99_us"]),
        number(&all["response"]["max_us"]),
        number(&all["waiting_all_mean_us"]),
        number(&all["service_all_mean_us"]),
    ];
    let gauges = ["line_requests", "connections"].map(|name| number(&window["gauges"][name]));
    let words = figures.iter().map(|figure| format!("{figure:.1}"));
    words.chain(gauges.iter().map(|gauge| format!("{gauge:.0}"))).collect::<Vec<_>>().join(" ")
}

/// Formats everything that is known as a page.
pub(crate) fn frame(now: &Snapshot, before: Option<&Snapshot>, rows: usize) -> String {
    let mut text = header(now);
    if now.window.is_null() {
        return text + "\n\nno window is over yet\n";
    }
    text += &summary(&now.window);
    text += &response_times(&now.window);
    text += &kind_table(&now.window);
    if let Some(queues) = &now.queues {
        text += &queue_table(queues);
    }
    if let Some(clients) = &now.clients {
        text += &client_table(
            clients,
            before.and_then(|before| before.clients.as_ref()),
            seconds_between(now, before),
            rows,
        );
    }
    if let Some(figures) = &now.figures {
        text += &server_table(
            figures,
            before.and_then(|before| before.figures.as_ref()),
            seconds_between(now, before),
            rows,
        );
    }
    text
}

/// Returns the seconds between two snapshots. Not those between their windows, which may be one and the same.
fn seconds_between(now: &Snapshot, before: Option<&Snapshot>) -> Option<f64> {
    before.map(|before| now.at_s - before.at_s).filter(|elapsed_s| *elapsed_s > 0.0)
}

fn header(now: &Snapshot) -> String {
    let tier = if now.figures.is_some() { "posthaste cache" } else { "posthaste queue" };
    let mut text = format!("{tier} {}", now.address);
    if let Some(status) = &now.status {
        let trouble = status["trouble"].as_str().unwrap_or("ready");
        let store = status["store"].as_str().unwrap_or_default();
        let _ = write!(text, "   {store}   up {}   {trouble}", time(number(&status["uptime_s"])));
    }
    if let Some(figures) = &now.figures {
        let up = figures.get("posthaste_uptime_seconds").unwrap_or_default();
        let of = |name: &str| figures.get(name).unwrap_or_default();
        let (live, all) = (of("posthaste_servers_live"), of("posthaste_servers"));
        let _ = write!(text, "   up {}   {live} of {all} servers take part", time(up));
    }
    text
}

fn summary(window: &Json) -> String {
    let all = &window["all"];
    let gauge = |name: &str| number(&window["gauges"][name]);
    format!(
        "\n{:.0} requests/s   {:.1} errors/s   {:.0} clients   {:.0} requests wait\n",
        number(&all["requests_per_s"]),
        per_s(all, "errors", window),
        gauge("connections"),
        gauge("line_requests"),
    )
}

/// Formats the percentiles, and a bar of where the time goes.
fn response_times(window: &Json) -> String {
    let all = &window["all"];
    let columns = ["mean_us", "p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"];
    let mut text = format!("\n{:<10}", "us");
    for column in columns {
        let _ = write!(text, "{:>10}", column.trim_end_matches("_us").replace('_', "."));
    }
    text.push('\n');
    for spread in SPREADS.into_iter().filter(|spread| number(&all[*spread]["count"]) > 0.0) {
        let _ = write!(text, "{spread:<10}");
        for column in columns {
            let _ = write!(text, "{:>10.1}", number(&all[spread][column]));
        }
        text.push('\n');
    }
    let means = STAGES.map(|(name, column)| (name, number(&all[column])));
    let sum: f64 = means.iter().map(|(_, mean)| mean).sum();
    if sum > 0.0 {
        let bar = means.map(|(name, mean)| name[..1].repeat((BAR * mean / sum).round() as usize)).concat();
        let shares = means.map(|(name, mean)| format!("{name} {:.0} %", 100.0 * mean / sum)).join("   ");
        let _ = write!(text, "[{bar}]\n{shares}\n");
    }
    text
}

fn kind_table(window: &Json) -> String {
    let row = |kind: &Json| {
        json!({
            "kind": kind["kind"],
            "per_s": format!("{:.1}", number(&kind["requests_per_s"])),
            "ok": kind["ok"],
            "null": kind["null"],
            "errors": kind["errors"],
            "mean_us": format!("{:.1}", number(&kind["response"]["mean_us"])),
            "p99_us": format!("{:.1}", number(&kind["response"]["p99_us"])),
        })
    };
    section(
        "kinds of requests, in the last window",
        window["kinds"].as_array().into_iter().flatten().map(row).collect(),
    )
}

fn queue_table(queues: &Json) -> String {
    let row = |queue: &Json| {
        json!({
            "queue": queue["name"],
            "messages": queue["messages"],
            "bytes": queue["bytes"],
            "oldest": time(number(&queue["oldest_ms"]) / 1000.0),
        })
    };
    let rows = queues["queues"].as_array().into_iter().flatten().map(row).collect();
    section(&format!("the fullest of {} queues", queues["total"]), rows)
}

fn client_table(clients: &Json, before: Option<&Json>, elapsed_s: Option<f64>, shown: usize) -> String {
    let all: Vec<&Json> = clients.as_array().into_iter().flatten().collect();
    let earlier = |id: &Json| {
        let found = before?.as_array()?.iter().find(|client| client["id"] == *id);
        Some(number(&found?["requests"]))
    };
    let rate = |client: &Json| {
        let asked = number(&client["requests"]) - earlier(&client["id"])?;
        Some(asked / elapsed_s?)
    };
    let mut rows: Vec<(Option<f64>, &Json)> = all.iter().map(|client| (rate(client), *client)).collect();
    // Of those whose rate is not known yet, the one that has asked most since it came.
    let busy = |(rate, client): &(Option<f64>, &Json)| (rate.unwrap_or(-1.0), number(&client["requests"]));
    rows.sort_by(|one, other| {
        let ((rate, requests), (other_rate, other_requests)) = (busy(one), busy(other));
        other_rate.total_cmp(&rate).then(other_requests.total_cmp(&requests))
    });
    let row = |(rate, client): &(Option<f64>, &Json)| {
        json!({
            "client": client["id"],
            "peer": client["peer"],
            "name": client["name"],
            "account": client["account"],
            "library": client["library"],
            "per_s": rate_text(*rate),
            "requests": client["requests"],
        })
    };
    section(
        &format!("the busiest of {} connections, those of HTTP among them", all.len()),
        rows.iter().take(shown).map(row).collect(),
    )
}

fn server_table(figures: &Figures, before: Option<&Figures>, elapsed_s: Option<f64>, shown: usize) -> String {
    let of = |figures: &Figures, name: &str, server: &str| {
        figures.by_label(name).find(|(known, _)| *known == server).map(|(_, value)| value).unwrap_or_default()
    };
    let rate =
        |name: &str, server: &str| Some((of(figures, name, server) - of(before?, name, server)) / elapsed_s?);
    let requests_per_s = |server: &str| rate("posthaste_server_requests_total", server);
    let mut servers: Vec<(&str, bool)> =
        figures.by_label("posthaste_server_live").map(|(server, live)| (server, live > 0.0)).collect();
    // Those that are away first, since not all may be shown; then the busiest.
    servers.sort_by(|(one, is_one_live), (other, is_other_live)| {
        let rates = [other, one].map(|server| requests_per_s(server).unwrap_or_default());
        is_one_live.cmp(is_other_live).then(rates[0].total_cmp(&rates[1]))
    });
    let row = |(server, is_live): &(&str, bool)| {
        json!({
            "server": server,
            "state": if *is_live { "live" } else { "away" },
            "requests_per_s": rate_text(requests_per_s(server)),
            "keys_per_s": rate_text(rate("posthaste_server_keys_total", server)),
            "errors": of(figures, "posthaste_server_errors_total", server) as u64,
            "losses": of(figures, "posthaste_server_losses_total", server) as u64,
        })
    };
    let rows: Vec<Json> = servers.iter().take(shown).map(row).collect();
    section(&format!("{} of {} servers", rows.len(), servers.len()), rows)
}

/// Formats a table with its title; an empty one gives nothing.
fn section(title: &str, rows: Vec<Json>) -> String {
    let named = |row: &Json| row.as_object().is_some_and(|row: &Map<_, _>| !row.is_empty());
    if !rows.iter().any(named) {
        return String::new();
    }
    format!("\n{title}\n{}", table(&rows))
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Formats a rate, which takes two looks to be known.
fn rate_text(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

/// Returns a count of the window as a rate per second.
fn per_s(figures: &Json, count: &str, window: &Json) -> f64 {
    let length_s = number(&window["length_s"]);
    if length_s > 0.0 { number(&figures[count]) / length_s } else { 0.0 }
}

/// Formats seconds for people.
fn time(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        120.0..7200.0 => format!("{:.0} min", seconds / 60.0),
        7200.0..172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look, all of which see the same window.
    fn snapshot(at_s: f64, requests: u64) -> Snapshot {
        let spread = json!({
            "count": 10, "mean_us": 50.0, "p50_us": 40.0, "p90_us": 80.0, "p99_us": 90.0, "p99_9_us": 95.0, "max_us": 99.0,
        });
        let all = json!({
            "kind": "all", "requests": 20, "ok": 18, "null": 0, "errors": 2, "requests_per_s": 10.0, "response": spread,
            "parse_mean_us": 5.0, "waiting_all_mean_us": 10.0, "dispatch_mean_us": 0.0, "service_all_mean_us": 25.0,
            "reply_mean_us": 10.0,
        });
        Snapshot {
            address: "127.0.0.1:7480".into(),
            at_s,
            window: json!({
                "start_s": 7.0, "length_s": 2.0, "all": all, "kinds": [all],
                "gauges": { "line_requests": 3, "connections": 2 },
            }),
            clients: Some(json!([
                { "id": 1, "peer": "a", "name": "", "account": "x", "library": "", "requests": 5 },
                { "id": 2, "peer": "b", "name": "", "account": "x", "library": "", "requests": requests },
            ])),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_line_has_a_figure_for_each_word_of_the_heading() {
        let line = line(&snapshot(7.0, 0));
        assert_eq!(line, "7.0 10.0 1.0 50.0 40.0 90.0 99.0 10.0 25.0 3 2");
        assert_eq!(line.split(' ').count(), HEADING.split(' ').count());
    }

    #[test]
    fn the_busiest_client_stands_first_with_its_rate() {
        let text = frame(&snapshot(9.0, 105), Some(&snapshot(7.0, 5)), 10);
        let clients = text.split("those of HTTP among them\n").last().unwrap_or_default();
        let first = clients.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with('2') && first.contains("50.0"), "{text}");
    }

    #[test]
    fn a_rate_that_no_look_before_tells_is_not_zero() {
        let text = frame(&snapshot(9.0, 105), None, 10);
        let clients = text.split("those of HTTP among them\n").last().unwrap_or_default();
        let rows: Vec<Vec<&str>> =
            clients.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[0][0] == "2" && rows.iter().all(|row| row.contains(&"-")), "{text}");
    }

    #[test]
    fn nothing_is_said_of_a_window_before_there_is_one() {
        let text = frame(&Snapshot { window: Json::Null, ..snapshot(9.0, 105) }, None, 10);
        assert!(text.contains("no window is over yet") && !text.contains("requests/s"), "{text}");
    }

    #[test]
    fn the_bar_shows_where_the_time_goes() {
        let text = frame(&snapshot(9.0, 105), None, 10);
        assert!(text.contains("waiting 20 %   dispatch 0 %   service 50 %"), "{text}");
        let bar = text.lines().find(|line| line.starts_with('[')).unwrap_or_default();
        assert_eq!((bar.matches('s').count(), bar.matches('w').count()), (30, 12), "{bar}");
    }

    #[test]
    fn servers_are_shown_with_their_rates() {
        let with = |at_s: f64, requests: u64| Snapshot {
            clients: None,
            figures: Some(Figures::read(&format!(
                "posthaste_server_live{{server=\"m:1\"}} 1\nposthaste_server_requests_total{{server=\"m:1\"}} {requests}\n\
                 posthaste_servers 1\nposthaste_servers_live 1\n"
            ))),
            ..snapshot(at_s, 0)
        };
        let text = frame(&with(4.0, 30), Some(&with(2.0, 10)), 10);
        assert!(text.contains("posthaste cache") && text.contains("1 of 1 servers"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("m:1") && line.contains("10.0")), "{text}");
    }

    #[test]
    fn a_server_that_is_away_is_shown_before_the_busiest() {
        let with = |at_s: f64, since: u64| {
            let of = |server: &str, live: u64, requests: u64| {
                format!(
                    "posthaste_server_live{{server=\"{server}\"}} {live}\n\
                     posthaste_server_requests_total{{server=\"{server}\"}} {requests}\n"
                )
            };
            let servers =
                [("idle:1", 1, 1000), ("busy:1", 1, 10 * since), ("slow:1", 1, since), ("gone:1", 0, 7)];
            let figures: String = servers.iter().map(|(name, live, sent)| of(name, *live, *sent)).collect();
            Snapshot { clients: None, figures: Some(Figures::read(&figures)), ..snapshot(at_s, 0) }
        };
        let text = frame(&with(4.0, 30), Some(&with(2.0, 10)), 2);
        let (_, table) = text.split_once("\n2 of 4 servers\n").expect("a title");
        let shown: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(shown, ["gone:1", "busy:1"], "{text}");
    }
}
