//! Lives of a store: what may be asked of it, drawn at random over few queues, accounts and keys so that requests
//! meet; time passes in leaps that end on the interesting milliseconds.

use posthaste_server::queue::rules::Millis;
use proptest::prelude::*;
use proptest::sample::select;

use super::Got;

const ACCOUNTS: [&str; 3] = ["ann", "bob", "cy"];
const QUEUES: [&str; 3] = ["plain", "picky", "graves"];

/// One step of a store's life.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// An account executes a request; `@k` in it stands for the k-th receipt.
    Ask(&'static str, String),
    /// Time passes.
    Wait(Millis),
    /// The store under test is closed and opened.
    Reopen,
}

/// Requests that every life begins with, executed by ann.
pub(crate) const BEGINNING: [&str; 2] = ["QCREATE plain", "QCREATE picky DEADLETTER graves AFTER 2"];

/// The receipts of one store in order, so that stores can be compared: each draws random ones.
#[derive(Default)]
pub(crate) struct Receipts(Vec<String>);

impl Receipts {
    /// Returns a request with the receipts of this store in place of `@k`.
    pub(crate) fn filled_in(&self, request: &str) -> String {
        let words: Vec<_> = request.split(' ').map(|word| self.receipt(word)).collect();
        words.join(" ")
    }

    fn receipt(&self, word: &str) -> String {
        let number = word.strip_prefix('@').and_then(|k| k.parse::<usize>().ok());
        let receipt = number.and_then(|k| self.0.get(k).cloned());
        receipt.unwrap_or_else(|| word.replace('@', ""))
    }

    /// Replaces receipts in an answer by their numbers.
    pub(crate) fn number(&mut self, answer: &mut Got) {
        match answer {
            Got::List(items) => items.iter_mut().for_each(|item| self.number(item)),
            Got::Map(fields) => {
                let Some(Got::Text(receipt)) = fields.get_mut("receipt") else { return };
                let known = self.0.iter().position(|r| r == receipt);
                let number = known.unwrap_or_else(|| {
                    self.0.push(receipt.clone());
                    self.0.len() - 1
                });
                *receipt = format!("@{number}");
            }
            _ => {}
        }
    }
}

/// Returns all requests that read, each with its account.
pub(crate) fn views() -> Vec<(&'static str, String)> {
    let mut views = vec![("ann", "QLIST".to_owned()), ("ann", "ACCOUNTS".to_owned())];
    views.extend(QUEUES.map(|queue| ("ann", format!("QINFO {queue}"))));
    views.extend(QUEUES.map(|queue| ("ann", format!("QBROWSE {queue}"))));
    views.extend(ACCOUNTS.map(|account| (account, "QREADABLE".to_owned())));
    views.extend(ACCOUNTS.map(|account| (account, "QREADABLE NOTOWN".to_owned())));
    views.extend(ACCOUNTS.map(|account| (account, "PEEK FROM ann COUNT 3".to_owned())));
    views.extend(ACCOUNTS.map(|account| (account, "PEEK QUEUE plain NOTOWN".to_owned())));
    views.extend(ACCOUNTS.map(|account| (account, "PEEK QUEUE graves FROM ann COUNT 9".to_owned())));
    views.extend(ACCOUNTS.map(|account| (account, "PEEK QUEUE picky BROADCAST NOTOWN COUNT 9".to_owned())));
    views.push(("bob", "QBROWSE plain AFTER 3 COUNT 2".to_owned()));
    views
}

/// Generates any life of a store; one that keeps nothing is never reopened.
pub(crate) fn lives(durable: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (select(&ACCOUNTS[..]), request()).prop_map(|(account, request)| Step::Ask(account, request)),
        3 => select(&[1, 9, 10, 11, 79, 90, 100, 101, 600_000][..]).prop_map(Step::Wait),
        1 => Just(if durable { Step::Reopen } else { Step::Wait(0) }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Generates any request to a store.
fn request() -> impl Strategy<Value = String> {
    let handle =
        || prop_oneof![(0..8_u32).prop_map(|k| format!("@{k}")), (1..20_u32).prop_map(|id| id.to_string())];
    let queue = || select(&QUEUES[..]);
    prop_oneof![
        8 => send(),
        2 => (queue(), 1..4_usize).prop_map(|(queue, n)| format!("SENDMANY {queue}{}", " x".repeat(n))),
        8 => pop(),
        3 => (handle(), handle()).prop_map(|(one, other)| format!("ACK {one} {other}")),
        3 => (handle(), option(" DELAY", &["10", "100"])).prop_map(|(handle, delay)| format!("NACK {handle}{delay}")),
        1 => (handle(), select(&[1, 100][..])).prop_map(|(handle, ms)| format!("EXTEND {handle} {ms}")),
        2 => (prop_oneof![queue(), Just("-")], queue_options()).prop_map(|(queue, with)| format!("QCREATE {queue}{with}")),
        1 => queue().prop_map(|queue| format!("QDELETE {queue}")),
        1 => queue().prop_map(|queue| format!("QPURGE {queue}")),
        1 => (queue(), option("", &QUEUES)).prop_map(|(from, to)| format!("QREDRIVE {from}{to}")),
        1 => option("", &["NOTOWN"]).prop_map(|kind| format!("QREADABLE{kind}")),
    ]
}

fn send() -> impl Strategy<Value = String> {
    let options = (
        option(" TO", &["ann", "bob", "cy", "stranger", "*"]),
        option(" DELAY", &["10", "100"]),
        option(" TTL", &["10", "100"]),
        option(" PRIORITY", &["1", "255"]),
        option(" DEDUP", &["k", "l"]),
        option(" HEADER color", &["red"]),
    );
    (select(&QUEUES[..]), "[a-c]{1,3}", options).prop_map(
        |(queue, body, (to, delay, ttl, priority, dedup, header))| {
            format!("SEND {queue} {body}{to}{delay}{ttl}{priority}{dedup}{header}")
        },
    )
}

fn pop() -> impl Strategy<Value = String> {
    let place = prop_oneof![
        option(" QUEUE", &QUEUES).prop_filter("a queue", |place| !place.is_empty()),
        option(" FROM", &["ann", "bob", "stranger"]).prop_filter("a sender", |place| !place.is_empty()),
        Just(" QUEUE picky FROM ann".to_owned()),
    ];
    let options = (
        option(" LEASE", &["10", "100"]),
        option(" COUNT", &["1", "3"]),
        option(" REQID", &["k", "l"]),
        option(" BLOCK", &["5"]),
        option("", &["NOTOWN", "BROADCAST"]),
    );
    (place, options).prop_map(|(place, (lease, count, key, block, kind))| {
        format!("POP{place}{lease}{count}{key}{block}{kind}")
    })
}

/// Generates any options of a queue: several at once, as each may affect another. Dead letters may come back by way of
/// others.
fn queue_options() -> impl Strategy<Value = String> {
    let some = (
        option(" MAXMSGS", &["3", "6"]),
        option(" MAXBYTES", &["5", "12"]),
        option(" TTL", &["90"]),
        option(
            " DEADLETTER",
            &["graves AFTER 1", "graves AFTER 2", "plain AFTER 1", "picky AFTER 2", "4 AFTER 1", "6 AFTER 3"],
        ),
        option("", &["STRICT"]),
        option("", &["FORBIDSELF"]),
    );
    let some = some.prop_map(|(messages, bytes, ttl, dead_letters, strict, forbid_self)| {
        format!("{messages}{bytes}{ttl}{dead_letters}{strict}{forbid_self}")
    });
    prop_oneof![6 => some, 1 => Just(" NOOPTIONS".to_owned())]
}

/// Generates the option with one of the values, or nothing.
fn option(name: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = String> + use<> {
    prop::option::of(select(values))
        .prop_map(move |value| value.map(|value| format!("{name} {value}")).unwrap_or_default())
}
