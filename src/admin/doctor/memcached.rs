//! Checks the memcached servers behind a cache tier, as far as they can be reached from here: whether they
//! are alike, and full.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::thread;
use std::time::Duration;

use posthaste_load::address::Address;
use posthaste_load::tls::advice;
use posthaste_server::cache::dialect;
use posthaste_tls::{Connector, Trust};

use super::now_s;
use super::rules::{Finding, Moment};

/// How long a server may take for each step. The tier reaches it, so where we do not, something drops what we send.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer to `stats`; no memcached sends as many.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A server's `stats`, by name.
type Stats = BTreeMap<String, String>;

/// Examines each of these servers, given by name and whether it speaks TLS. They are asked at the same time, so that
/// those that cannot be reached from here keep nobody waiting for one after the other.
pub(crate) fn examine(servers: &[(&str, bool)], trust: &Trust) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut versions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for ((name, _), found) in servers.iter().zip(ask_all(servers, trust)) {
        match found {
            Ok((stats, here)) => {
                findings.extend(on(name, &stats, here));
                versions.entry(stats.get("version").cloned().unwrap_or_default()).or_default().push(name);
            }
            Err(error) => {
                findings.push(Finding::note("server", format!("{name} cannot be asked from here: {error}")))
            }
        }
    }
    findings.extend(on_versions(&versions));
    findings
}

/// Asks all servers for their `stats`, and returns with each answer when it was given, or why there is none.
fn ask_all(servers: &[(&str, bool)], trust: &Trust) -> Vec<Result<(Stats, Moment), String>> {
    let ask = |name: &str, speaks_tls: bool| {
        let asked_s = now_s();
        let found = if speaks_tls { encrypted_stats(name, trust) } else { stats(name, None) };
        found.map(|stats| (stats, Moment::between(asked_s, now_s()))).map_err(|error| error.to_string())
    };
    thread::scope(|scope| {
        let asked: Vec<_> =
            servers.iter().map(|(name, speaks_tls)| scope.spawn(move || ask(name, *speaks_tls))).collect();
        let answer = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("asking it has failed".to_owned()))
        };
        asked.into_iter().map(answer).collect()
    })
}

/// Asks a server for its `stats` over TLS.
fn encrypted_stats(name: &str, trust: &Trust) -> Result<Stats, Box<dyn Error>> {
    let tls = Connector::open(trust).map_err(|error| format!("--server-tls-*: {error}"))?;
    stats(name, Some(&tls)).map_err(|error| match error.downcast_ref().and_then(advice) {
        Some(_) => {
            format!("{error}; give --server-tls-ca, and --server-tls-cert with its key, as the tier has them")
                .into()
        }
        None => error,
    })
}

fn stats(name: &str, tls: Option<&Connector>) -> Result<Stats, Box<dyn Error>> {
    let mut address: Address = name.parse()?;
    if let Some(tls) = tls {
        address.encrypt(tls);
    }
    let mut stream = address.connect_within(PATIENCE)?;
    stream.write_all(b"stats\r\n")?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with(b"END\r\n") {
        let n = stream.read(&mut buffer)?;
        answer.extend_from_slice(&buffer[..n]);
        if n == 0 || answer.len() > ANSWER_BYTES_MAX || answer.starts_with(b"ERROR") {
            return Err("it gives no stats".into());
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let stat = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.trim_end().to_owned()))
    };
    Ok(text.lines().filter_map(stat).collect())
}

fn on(name: &str, stats: &Stats, here: Moment) -> Vec<Finding> {
    let number = |stat: &str| stats.get(stat).and_then(|value| value.parse::<u64>().ok());
    let mut findings = Vec::new();
    // What it tells are the whole seconds of a clock that ticks once a second.
    let here = Moment { error_s: here.error_s + 1.0, ..here };
    if let Some(ahead_s) = number("time").and_then(|theirs_s| here.ahead_s(theirs_s as f64)) {
        let text = format!(
            "the clock of {name} is {:.0} s off the one here, and what expires does so by it: see whether time is \
             synchronized there (timedatectl, chronyc tracking)",
            ahead_s.abs()
        );
        findings.push(Finding::problem("clock", text));
    }
    if let Some(version) = stats.get("version").filter(|version| dialect::is_old(version)) {
        let text = format!(
            "{name} is memcached {version}, which has not the meta commands of today: they are refused for its keys, and \
             values are brought neither there nor from there; {} or later has them",
            dialect::FIRST
        );
        findings.push(Finding::problem("version", text));
    }
    if let Some(refused) = number("rejected_connections").filter(|refused| *refused > 0) {
        let text = format!(
            "{name} has refused {refused} connections since its start: raise its limit (memcached -c), if that goes on"
        );
        // The count stays until memcached is started anew, however long ago that was.
        findings.push(Finding::note("server", text));
    }
    if let Some(evictions) = number("evictions").filter(|evictions| *evictions > 0) {
        let text = format!(
            "{name} has dropped {evictions} values for want of memory: more memory (memcached -m) keeps them"
        );
        findings.push(Finding::note("server", text));
    }
    findings
}

fn on_versions(versions: &BTreeMap<String, Vec<&str>>) -> Option<Finding> {
    let told: Vec<String> =
        versions.iter().map(|(version, names)| format!("{version} on {}", names.join(", "))).collect();
    (told.len() > 1).then(|| {
        let text = format!(
            "servers differ ({}), and answers are those of the server that is asked: let them be alike",
            told.join("; ")
        );
        Finding::note("version", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(stat: &str, value: &str) -> Stats {
        let healthy =
            [("time", "1000"), ("evictions", "0"), ("rejected_connections", "0"), ("version", "1.6.18")];
        let mut stats: Stats = healthy.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        stats.insert(stat.to_owned(), value.to_owned());
        stats
    }

    const HERE: Moment = Moment { at_s: 1000.0, error_s: 0.0 };

    #[test]
    fn each_finding_has_its_remedy() {
        assert_eq!(on("a", &with("time", "1001"), HERE), []);
        for (stat, value, words, is_problem) in [
            ("time", "990", "10 s off", true),
            ("version", "1.6.9", "1.6.10", true),
            // What may be over long ago.
            ("rejected_connections", "4", "-c", false),
            ("evictions", "7", "-m", false),
        ] {
            let findings = on("a", &with(stat, value), HERE);
            assert!(findings.len() == 1 && findings[0].text.contains(words), "{findings:?}");
            assert_eq!(findings[0].is_problem, is_problem, "{findings:?}");
        }
    }

    #[test]
    fn servers_that_differ_are_named() {
        let one = BTreeMap::from([("1.6.18".to_owned(), vec!["a", "b"])]);
        assert_eq!(on_versions(&one), None);
        let two = BTreeMap::from([("1.6.18".to_owned(), vec!["a"]), ("1.6.38".to_owned(), vec!["b"])]);
        assert!(on_versions(&two).is_some_and(|finding| finding.text.contains("1.6.38 on b")));
    }
}
