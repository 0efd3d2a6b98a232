//! Short texts of command lines, files and headers, each read by whatever understands it: what is understood is shown
//! as something that means the same; of a URL no error and nothing shown tells the password; patterns of grants match
//! what they should.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use posthaste_load::cache::cycle::Ratio;
use posthaste_load::cache::keys::KeyDistribution;
use posthaste_load::numbers::Numbers;
use posthaste_load::pace::Think;
use posthaste_load::queue::workload::Workload;
use posthaste_load::search::Limit;
use posthaste_server::accounts::Accounts;
use posthaste_server::cache::backend::Backend;
use posthaste_server::cache::placement::Hash;
use posthaste_server::cache::rules::{Answer, GetErrors, Multiget, ReadRepair, Reads, Writes};
use posthaste_server::grants::{Grants, Role};
use posthaste_server::queue::choice::StoreChoice;
use posthaste_server::queue::postgres::address::PostgresAddress;
use posthaste_server::queue::postgres::strategy::{Backoff, PopStrategy};
use posthaste_server::trace::context::Context;
use posthaste_wire::operation::Operation;
use posthaste_wire::span::Span;

/// Longer texts are slow and show nothing that shorter ones do not.
const BYTES: usize = 1000;

const PASSWORD: &str = "Sesame9Zq";

fuzz_target!(|data: &[u8]| {
    let Some((&what, text)) = data.split_first() else { return };
    let text = &text[..text.len().min(BYTES)];
    if let Some(Context { trace, span }) = Context::parse(text) {
        let shown = format!("00-{trace:032x}-{span:016x}-01");
        assert_eq!(Context::parse(shown.as_bytes()), Some(Context { trace, span }));
    }
    let Ok(text) = std::str::from_utf8(text) else { return };
    match what % 18 {
        0 => url(text),
        1 => alike::<StoreChoice>(text),
        2 => alike::<Accounts>(text),
        3 => grants(text),
        4 => pattern(text),
        5 => alike::<Numbers>(text),
        6 => same::<Workload>(text),
        7 => same::<Limit>(text),
        8 => same::<Think>(text),
        9 => same::<KeyDistribution>(text),
        10 => same::<Ratio>(text),
        11 => same::<Hash>(text),
        12 => same::<Answer>(text),
        13 => same::<PopStrategy>(text),
        14 => same::<Backoff>(text),
        15 => {
            same::<Reads>(text);
            same::<Writes>(text);
        }
        16 => {
            same::<Multiget>(text);
            same::<ReadRepair>(text);
            same::<GetErrors>(text);
        }
        _ => {
            if let Ok(name) = Backend::named(text) {
                assert_eq!(Backend::named(&name), Ok(name));
            }
        }
    }
});

/// What is understood, shown, is understood as the same.
fn same<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    alike::<T>(text);
    let Ok(meant) = text.parse::<T>() else { return };
    assert_eq!(meant.to_string().parse::<T>().ok(), Some(meant), "{text:?}");
}

/// The same of what is shown without its secrets, or without a weight that is the only one, or cannot be compared: it
/// is shown alike.
fn alike<T: FromStr + Display>(text: &str) {
    let Ok(meant) = text.parse::<T>() else { return };
    let shown = meant.to_string();
    match shown.parse::<T>() {
        Ok(again) => assert_eq!(again.to_string(), shown, "{text:?}"),
        Err(_) => panic!("{text:?} is shown as {shown:?}, which is not understood"),
    }
}

/// Behind the password, and before it.
fn url(text: &str) {
    let (before, behind) = text.split_once('\n').unwrap_or(("app", text));
    // Behind one of these it is no password but part of a path, which is shown.
    if before.contains(['/', '?', '#']) {
        return;
    }
    let url = format!("postgres://{before}:{PASSWORD}{behind}");
    match url.parse::<PostgresAddress>() {
        Ok(address) => {
            let shown = address.to_string();
            assert!(
                !shown.contains(char::is_control) && !format!("{shown}{address:?}").contains(PASSWORD),
                "{shown}"
            );
            alike::<PostgresAddress>(&shown);
        }
        Err(error) => assert!(!error.contains('\n') && !error.contains(PASSWORD), "{error}"),
    }
    alike::<PostgresAddress>(text);
}

fn grants(text: &str) {
    match Grants::parse(text) {
        Ok(grants) => {
            let shown = grants.as_ref().map(ToString::to_string).unwrap_or_default();
            assert_eq!(Grants::parse(&shown), Ok(grants));
        }
        Err(error) => assert!(!error.contains('\n'), "{error}"),
    }
}

/// The first line is a pattern, the second a name.
fn pattern(text: &str) {
    let Some((pattern, name)) = text.split_once('\n') else { return };
    let mut grants = Grants::default();
    if grants.add(Role::Administer, pattern).is_err() {
        return;
    }
    let queue = Span { start: 0, len: u32::try_from(name.len()).expect("it is short") };
    let is_allowed = grants.check(&Operation::PurgeQueue { queue }, name.as_bytes()).is_ok();
    assert_eq!(is_allowed, matches(pattern, name), "{pattern:?} {name:?}");
}

/// By a table: which beginnings of the name each beginning of the pattern matches.
fn matches(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let mut row = vec![false; name.len() + 1];
    row[0] = true;
    for wanted in pattern.chars() {
        let mut next = vec![false; name.len() + 1];
        next[0] = wanted == '*' && row[0];
        for (at, found) in name.iter().enumerate() {
            next[at + 1] = match wanted {
                '*' => row[at + 1] || next[at],
                '?' => row[at],
                wanted => row[at] && wanted == *found,
            };
        }
        row = next;
    }
    row[name.len()]
}
