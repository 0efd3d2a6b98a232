//! Connections that were let in, that were refused, and that were closed because nothing happened on them, and until
//! when the certificate is valid, of any tier; logins, of the queue tier.

use super::{Metric, MetricType, Page, SingleValue};
use crate::authenticator::{LoginEnding, Logins};
use crate::front::gate::Gate;
use crate::front::newcomers::RefusalReason;
use crate::front::quiet::QuietReason;

static CONNECTIONS: [SingleValue<Gate>; 3] = [
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_connections",
            MetricType::Gauge,
            "Clients that are connected, but for those of HTTP.",
        ),
        read: |gate| Some(gate.connections_from_outside() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_connections_max",
            MetricType::Gauge,
            "Most clients (--max-clients); more are refused.",
        ),
        read: |gate| Some(gate.connections_max() as f64),
    },
    SingleValue {
        metric: Metric::unlabeled(
            "posthaste_connections_total",
            MetricType::Counter,
            "Clients that ever connected, but for those of HTTP.",
        ),
        read: |gate| Some(gate.accepted() as f64),
    },
];

/// Connections that were refused.
const REFUSED: Metric = Metric {
    name: "posthaste_connections_refused_total",
    kind: MetricType::Counter,
    labels: &["reason"],
    help: "Connections closed before they were let in, those of HTTP too: full (--max-clients), address (too many \
           newcomers from one, or over HTTP too many who ask nothing), handshake (it failed), late (with a handshake or a \
           login), oversized (more than a login needs).",
};

/// Connections that were closed because nothing happened on them.
const QUIET: Metric = Metric {
    name: "posthaste_connections_quiet_total",
    kind: MetricType::Counter,
    labels: &["reason"],
    help: "Connections closed because nothing happened on them: send (a client took nothing of its answers for --send-timeout), \
           idle (it sent nothing for --idle-timeout).",
};

/// Until when the certificate is valid.
const CERTIFICATE: Metric = Metric::unlabeled(
    "posthaste_tls_certificate_not_after_seconds",
    MetricType::Gauge,
    "When the certificate ends that clients are shown (--tls-cert), in seconds since 1970, of what was read at the start or \
     with the last SIGHUP; absent without TLS.",
);

/// Returns those of these metrics that every tier has.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    CONNECTIONS.iter().map(|single| &single.metric).chain([&REFUSED, &QUIET, &CERTIFICATE])
}

/// Logins by how they ended.
pub const LOGINS: Metric = Metric {
    name: "posthaste_logins_total",
    kind: MetricType::Counter,
    labels: &["ending"],
    help: "Logins over RESP and HTTP by how they ended: ok, wrong (no such account, or another secret), busy (too many \
           waited to be checked); absent while accounts are open.",
};

/// Whether logins are checked with the current content of the accounts file.
pub const ACCOUNTS_FILE: Metric = Metric::unlabeled(
    "posthaste_accounts_file_usable",
    MetricType::Gauge,
    "1 while the accounts file can be used; 0: accounts are those of before, as the log says. Looked at with every login; \
     absent while accounts are open.",
);

/// Writes the metrics; `logins` is None where no secrets are checked.
pub fn write(page: &mut Page, gate: &Gate, logins: Option<&Logins>) {
    page.single_values(&CONNECTIONS, gate);
    page.header(&REFUSED);
    for reason in RefusalReason::ALL {
        page.value(&REFUSED, &[reason.name()], gate.newcomers.refusals(reason));
    }
    page.header(&QUIET);
    for reason in QuietReason::ALL {
        page.value(&QUIET, &[reason.name()], gate.quiet.count(reason));
    }
    if let Some(not_after_s) = gate.certificate_not_after_s() {
        page.header(&CERTIFICATE);
        page.value(&CERTIFICATE, &[], not_after_s);
    }
    if let Some(logins) = logins {
        page.header(&LOGINS);
        for ending in LoginEnding::ALL {
            page.value(&LOGINS, &[ending.name()], logins.count(ending));
        }
        page.header(&ACCOUNTS_FILE);
        page.value(&ACCOUNTS_FILE, &[], u8::from(logins.is_file_usable()));
    }
}
