//! `posthaste admin doctor`: examines a tier and says what to do about everything that is not as it should be.
//!
//! It asks only what anybody may ask: the tier for its metrics, the database for its statistics, memcached for
//! its `stats`, this machine about its clock. The conclusions are drawn in [`rules`], without asking anybody.

mod clock;
mod memcached;
mod rules;

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_server::queue::choice::StoreChoice;
use posthaste_server::queue::postgres::address::PostgresAddress;
use posthaste_server::queue::postgres::examine::examine;
use posthaste_server::queue::postgres::report::report_on;
use serde_json::{Value as Json, json};

use self::rules::{Finding, Moment, on_cache, on_database, on_queue, on_tier};
use crate::cache::server_tls;
use crate::config::Misuse;
use crate::flags::DoctorFlags;
use crate::placed::one_line;
use crate::stdout::say;
use crate::web::Web;

type Findings = Result<Vec<Finding>, Box<dyn Error>>;

/// Prints the findings; fails when one of them is a problem.
pub(crate) fn run(flags: &DoctorFlags) -> Result<(), Box<dyn Error>> {
    let mut findings = match tier(flags) {
        // The tier may be down because of its database, which is examined all the same.
        Err(error) if flags.store.is_some() && !error.is::<Misuse>() => {
            vec![Finding::problem("tier", error.to_string())]
        }
        found => found?,
    };
    findings.extend(clock::examine());
    if let Some(store) = &flags.store {
        findings.extend(database(store, flags.older_than.as_secs())?);
    }
    findings.sort_by_key(|finding| !finding.is_problem);
    let problems = findings.iter().filter(|finding| finding.is_problem).count();
    if flags.json {
        let rows: Vec<_> = findings
            .iter()
            .map(|finding| json!({ "problem": finding.is_problem, "about": finding.about, "text": finding.text }))
            .collect();
        say(&format!("{:#}\n", json!({ "problems": problems, "findings": rows })))?;
    } else {
        for Finding { is_problem, about, text } in &findings {
            let kind = if *is_problem { "problem" } else { "note   " };
            say(&format!("{kind} {about}: {}\n", one_line(text)))?;
        }
        if problems == 0 {
            say("no problem found\n")?;
        }
    }
    match problems {
        0 => Ok(()),
        1 => Err("1 problem found".into()),
        problems => Err(format!("{problems} problems found").into()),
    }
}

/// Examines the tier itself, and the servers behind a cache tier.
fn tier(flags: &DoctorFlags) -> Findings {
    let server_tls = server_tls(&flags.server_tls).map_err(Misuse)?;
    let web = Web::new(&flags.reach)?;
    let asked_s = now_s();
    let figures = web.figures()?;
    let here = Moment::between(asked_s, now_s());
    let ready = web.get("/readyz")?;
    let trouble = (ready.status != 200).then(|| ready.text.trim().to_owned());
    let mut findings = on_tier(&figures, trouble.as_deref(), here);
    if figures.get("posthaste_servers").is_some() {
        let listed = web.json("/v1/servers")?.unwrap_or_default();
        let named = |is_it: &dyn Fn(&Json) -> bool| -> Vec<&str> {
            let servers = listed["servers"].as_array().into_iter().flatten();
            servers.filter(|server| is_it(server)).filter_map(|server| server["name"].as_str()).collect()
        };
        findings.extend(on_cache(&figures, &named(&|server| server["state"] == "down")));
        let encrypted = named(&|server| server["tls"] == true);
        // A server that the tier does not reach would keep us waiting too.
        let live = figures.by_label("posthaste_server_live").filter(|(_, live)| *live > 0.0);
        let servers: Vec<(&str, bool)> = live.map(|(name, _)| (name, encrypted.contains(&name))).collect();
        findings.extend(memcached::examine(&servers, &server_tls));
    } else {
        let status = web.json("/v1/status")?.unwrap_or_default();
        let store = status["store"].as_str().unwrap_or_default();
        findings.extend(on_queue(&figures, store, flags.store.is_some()));
    }
    Ok(findings)
}

/// Examines the database behind the tier.
fn database(store: &str, older_than_s: u64) -> Findings {
    let address: PostgresAddress = match store.parse() {
        Ok(StoreChoice::Postgres(address)) => *address,
        Ok(other) => {
            return Err(Misuse(format!("--store names the database (postgres://…), not {other}")).into());
        }
        Err(error) => return Err(Misuse(format!("--store: {error}")).into()),
    };
    let problem = |text: String| Finding::problem("database", text);
    // A database that cannot be asked is the most important finding, but not the only one.
    let report = match report_on(&address, older_than_s) {
        Ok(report) => report,
        Err(error) => return Ok(vec![problem(error.to_string())]),
    };
    let mut findings: Vec<Finding> = report.advice.into_iter().map(problem).collect();
    match examine(&address) {
        Ok(examined) => findings.extend(on_database(&examined)),
        Err(error) => findings.push(problem(error.to_string())),
    }
    Ok(findings)
}

/// Returns the time here, in seconds since 1970.
fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
