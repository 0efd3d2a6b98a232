//! The rules of `posthaste admin doctor`: what figures mean and what to do about them, one function for each subject.

use posthaste_server::front::files;
use posthaste_server::info::VERSION;
use posthaste_server::queue::postgres::examine::{Examined, Pooler};

use crate::web::Figures;

/// Seconds by which clocks may differ: expiries and timers are no finer.
const CLOCK_S: f64 = 2.0;
/// Seconds of difference, from what a clock would be now, that mean it was set or the machine was suspended.
const CLOCK_SET_S: f64 = 10.0;
/// Share from which on something counts as nearly used up.
const NEARLY: f64 = 0.9;
/// Free bytes below which a disk is nearly full, whatever its size.
const DISK_FREE_BYTES: f64 = 1e9;
/// Seconds of a sync on a disk that flushes its cache each time; with a protected cache it takes a tenth.
const SYNC_S: f64 = 0.02;
/// Seconds without work after which a keeper counts as held up.
const KEEPER_S: f64 = 5.0;
/// Number of wrong secrets that is no longer a slip of the fingers.
const LOGINS_WRONG: f64 = 10.0;
/// Seconds before its end by which a certificate should have been renewed: automatic renewal never comes so close.
const CERTIFICATE_S: f64 = 7.0 * 86_400.0;
/// Share of requests answered with errors that is worth a look.
const ERRORS: f64 = 0.01;

/// Something that the doctor found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Whether something must be done; if not, it is only good to know.
    pub(crate) is_problem: bool,
    /// Subject, such as `clock`.
    pub(crate) about: &'static str,
    /// What is wrong, and what to do.
    pub(crate) text: String,
}

impl Finding {
    /// Makes a finding that something must be done about.
    pub(crate) fn problem(about: &'static str, text: impl Into<String>) -> Self {
        Self { is_problem: true, about, text: text.into() }
    }

    /// Makes a finding that is good to know.
    pub(crate) fn note(about: &'static str, text: impl Into<String>) -> Self {
        Self { is_problem: false, about, text: text.into() }
    }
}

/// When somebody else's clock was read, by the clock here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Seconds since 1970.
    pub(crate) at_s: f64,
    /// Seconds by which it may have been sooner or later.
    pub(crate) error_s: f64,
}

impl Moment {
    /// Returns the moment of an answer that was asked for at `asked_s` and is there at `answered_s`.
    pub(crate) fn between(asked_s: f64, answered_s: f64) -> Self {
        Self { at_s: f64::midpoint(asked_s, answered_s), error_s: (answered_s - asked_s).abs() / 2.0 }
    }

    /// Returns the seconds by which another clock was ahead, if that is more than clocks may differ.
    pub(crate) fn ahead_s(self, theirs_s: f64) -> Option<f64> {
        let ahead_s = theirs_s - self.at_s;
        (ahead_s.abs() - self.error_s > CLOCK_S).then_some(ahead_s)
    }
}

/// Examines the figures of any tier, which it told at this moment.
pub(crate) fn on_tier(figures: &Figures, trouble: Option<&str>, here: Moment) -> Vec<Finding> {
    let may = [
        trouble.map(|trouble| Finding::problem("readiness", trouble)),
        version(figures),
        clock(figures, here),
        files(figures),
        clients(figures),
        refused(figures),
        logins(figures),
        accounts_file(figures),
        certificate(figures, here.at_s),
        line(figures),
        errors(figures),
    ];
    may.into_iter().flatten().collect()
}

fn version(figures: &Figures) -> Option<Finding> {
    let (theirs, _) = figures.by_label("posthaste_build_info").next()?;
    (theirs != VERSION).then(|| {
        let text = format!(
            "the tier runs {theirs} and this program is {VERSION}: install the newer one on both sides, and restart the \
             tier if it ran the older"
        );
        Finding::problem("version", text)
    })
}

fn clock(figures: &Figures, here: Moment) -> Option<Finding> {
    let ahead_s = here.ahead_s(figures.get("posthaste_clock_seconds")?)?;
    let text = format!(
        "the tier's clock is {ahead_s:.1} s ahead of the one here: see on both machines whether time is \
         synchronized (timedatectl, chronyc tracking)"
    );
    Some(Finding::problem("clock", text))
}

fn files(figures: &Figures) -> Option<Finding> {
    let (max, open) = (figures.get("process_max_fds")?, figures.get("process_open_fds")?);
    let clients = figures.get("posthaste_connections_max")?;
    let raise =
        "set LimitNOFILE= in its unit, or ulimit -n, and restart it, or allow fewer with --max-clients";
    if open > NEARLY * max {
        return Some(Finding::problem("open files", format!("{open} of {max} are open: {raise}")));
    }
    if max < clients {
        let text =
            format!("the limit of {max} is too low for the {clients} clients of --max-clients: {raise}");
        return Some(Finding::problem("open files", text));
    }
    (clients >= files::clients(max as u64) as f64).then(|| {
        let text = format!(
            "the limit of {max} leaves room for {clients} clients, and no more are let in, whatever --max-clients says: {raise}"
        );
        Finding::note("open files", text)
    })
}

fn clients(figures: &Figures) -> Option<Finding> {
    let (now, max) = (figures.get("posthaste_connections")?, figures.get("posthaste_connections_max")?);
    (now > NEARLY * max).then(|| {
        let text = format!(
            "{now} of at most {max} are connected, and more are refused: raise --max-clients, or see who they are \
             (posthaste admin top)"
        );
        Finding::problem("clients", text)
    })
}

fn refused(figures: &Figures) -> Option<Finding> {
    let refused = figures.sum("posthaste_connections_refused_total", Some(("reason", "full")));
    (refused > 0.0).then(|| {
        let text = format!(
            "{refused} connections were refused since the start because --max-clients were there: raise it, or have clients \
             keep their connections"
        );
        Finding::note("clients", text)
    })
}

fn logins(figures: &Figures) -> Option<Finding> {
    let wrong = figures.sum("posthaste_logins_total", Some(("ending", "wrong")));
    (wrong > LOGINS_WRONG).then(|| {
        let text = format!(
            "{wrong} logins were refused since the start for a wrong account or secret: a program has an old secret, or \
             somebody guesses; is the figure still growing?"
        );
        Finding::note("logins", text)
    })
}

fn accounts_file(figures: &Figures) -> Option<Finding> {
    figures.get("posthaste_accounts_file_usable").filter(|usable| *usable < 1.0)?;
    let text = "the accounts file cannot be used, and who may log in is what it said before: the log names the line, or why \
                it cannot be read";
    Some(Finding::problem("logins", text))
}

fn certificate(figures: &Figures, here_s: f64) -> Option<Finding> {
    let left_s = figures.get("posthaste_tls_certificate_not_after_seconds")? - here_s;
    let renew = "renew it, put the files where the old ones are, and send the tier SIGHUP (systemctl reload)";
    let text = if left_s <= 0.0 {
        format!("the certificate of --tls-cert has ended, and clients refuse it: {renew}")
    } else {
        format!("the certificate of --tls-cert ends in {:.1} days: {renew}", left_s / 86_400.0)
    };
    (left_s < CERTIFICATE_S).then(|| Finding::problem("certificate", text))
}

fn line(figures: &Figures) -> Option<Finding> {
    let (now, max) = (figures.get("posthaste_line_requests")?, figures.get("posthaste_line_requests_max")?);
    (now > max / 2.0).then(|| {
        let text = format!(
            "{now} requests wait, and from {max} on they get BUSY: the store does not keep up; posthaste admin top \
             shows where the time goes"
        );
        Finding::problem("waiting line", text)
    })
}

fn errors(figures: &Figures) -> Option<Finding> {
    let all = figures.sum("posthaste_requests_total", None);
    let errors = figures.sum("posthaste_requests_total", Some(("ending", "error")));
    (errors > ERRORS * all).then(|| {
        let text = format!(
            "{:.1} % of all requests since the start ended in errors: the rows of posthaste_requests_total with \
             ending=\"error\" say of which kinds",
            100.0 * errors / all
        );
        Finding::note("errors", text)
    })
}

/// Examines what a queue tier says of its store.
pub(crate) fn on_queue(figures: &Figures, store: &str, database_is_examined: bool) -> Vec<Finding> {
    let is_database = store.starts_with("postgres");
    let durable = (store.starts_with("memory:") || store.starts_with("mock:")).then(|| {
        let text = format!(
            "{store} is not durable: what is sent is gone with the process; use embedded:DIR or postgres://…"
        );
        Finding::problem("store", text)
    });
    let unseen = (is_database && !database_is_examined).then(|| {
        Finding::note("database", "not looked at: name it with --store postgres://… as the tier does")
    });
    let may = [
        durable,
        disk(figures),
        disk_of_memory(figures),
        full(figures),
        memory(figures),
        log_files(figures),
        sync(figures),
        time(figures).filter(|_| !is_database),
        keeper(figures),
        unseen,
    ];
    may.into_iter().flatten().collect()
}

/// Checks whether the store can make files. A quota or the inodes may be used up although the disk has free space.
fn full(figures: &Figures) -> Option<Finding> {
    figures.get("posthaste_store_full").filter(|full| *full > 0.0)?;
    let text = "the store cannot make another file, so what adds something is refused: read or purge queues (posthaste admin \
                queues), or give it space (df, df -i, quota)";
    Some(Finding::problem("store", text))
}

/// Compares the store's time with the machine's: a store in the tier counts on from its start, whatever
/// becomes of the machine's clock.
fn time(figures: &Figures) -> Option<Finding> {
    let started_s = figures.get("process_start_time_seconds")?;
    let ahead_s =
        figures.get("posthaste_clock_seconds")? - started_s - figures.get("posthaste_uptime_seconds")?;
    (ahead_s.abs() > CLOCK_SET_S).then(|| {
        let text = format!(
            "the machine's clock was set by {ahead_s:.0} s since the start, or stood still, and the store goes by the old one \
             until the tier is restarted: leases, delays and times to live that are not over by then end so much sooner or later"
        );
        Finding::note("clock", text)
    })
}

fn log_files(figures: &Figures) -> Option<Finding> {
    figures.get("posthaste_store_unreadable_segments").filter(|unreadable| *unreadable > 0.0)?;
    let text = "a file of the store's log cannot be read, and no disk space is given back while something lives in it: the \
                log names the file; check the disk, and read or purge the queues whose messages get STORE, or restore \
                the directory from a copy";
    Some(Finding::problem("store", text))
}

fn disk(figures: &Figures) -> Option<Finding> {
    let (free, size) = (figures.get("posthaste_disk_free_bytes")?, figures.get("posthaste_disk_size_bytes")?);
    (free < DISK_FREE_BYTES || free < (1.0 - NEARLY) * size).then(|| {
        let text = format!(
            "{:.1} of {:.1} GB are free, and a full disk refuses every change: read or purge queues (posthaste admin \
             queues), or give the store a larger one",
            free / 1e9,
            size / 1e9
        );
        Finding::problem("disk", text)
    })
}

/// Checks that what the store syncs comes to a disk.
fn disk_of_memory(figures: &Figures) -> Option<Finding> {
    figures.get("posthaste_disk_is_memory").filter(|is| *is > 0.0)?;
    let text = "the store's directory is in memory (tmpfs, ramfs): what is sent survives the process, and is gone when the \
                machine restarts; give --store embedded:DIR a directory on a disk (df DIR)";
    Some(Finding::problem("store", text))
}

fn memory(figures: &Figures) -> Option<Finding> {
    let taken = figures.get("posthaste_store_state_bytes")?;
    let limit = figures.get("posthaste_store_state_limit_bytes")?;
    (taken > NEARLY * limit).then(|| {
        let text = format!(
            "{:.1} of {:.1} MB of --memory-limit are taken, and beyond it what adds something gets FULL: read or purge queues \
             (posthaste admin queues), or raise it",
            taken / 1e6,
            limit / 1e6
        );
        Finding::problem("memory", text)
    })
}

fn sync(figures: &Figures) -> Option<Finding> {
    let of_sync = |name: &str| figures.sum(name, Some(("stage", "sync")));
    let mean_s =
        of_sync("posthaste_stage_duration_seconds_sum") / of_sync("posthaste_stage_duration_seconds_count");
    (mean_s > SYNC_S).then(|| {
        let text = format!(
            "a sync of the disk takes {:.0} ms in the mean, and every change waits for one: is something else \
             writing there? A disk whose cache is protected against power loss needs a tenth",
            1e3 * mean_s
        );
        Finding::note("disk", text)
    })
}

fn keeper(figures: &Figures) -> Option<Finding> {
    let silent_s = figures.get("posthaste_keeper_silent_seconds")?;
    (silent_s > KEEPER_S).then(|| {
        let text = format!(
            "the keeper has had no answer for {silent_s:.0} s, so no lease and no delay ends: see what the database \
             does (posthaste admin store --store postgres://…)"
        );
        Finding::problem("database", text)
    })
}

/// Examines what a cache tier says of its servers, of which somebody took out those in `taken_out`.
pub(crate) fn on_cache(figures: &Figures, taken_out: &[&str]) -> Vec<Finding> {
    let away = figures.by_label("posthaste_server_live").filter(|(_, live)| *live == 0.0).map(|(name, _)| {
        if taken_out.contains(&name) {
            let text = format!(
                "{name} was taken out by hand and stays so: posthaste admin server {name} up lets it take part again"
            );
            return Finding::note("server", text);
        }
        let text = format!(
            "{name} takes no part: is memcached running there, and can this machine reach it? It comes back by itself"
        );
        Finding::problem("server", text)
    });
    let is_live = |name: &str| {
        figures.by_label("posthaste_server_live").any(|(known, live)| known == name && live > 0.0)
    };
    let lost = figures
        .by_label("posthaste_server_losses_total")
        .filter(|(name, losses)| *losses > 0.0 && is_live(name))
        .map(|(name, losses)| {
            let text =
                format!("{name} was lost {losses} times since the start, and is back; the log says why");
            Finding::note("server", text)
        });
    away.chain(lost).collect()
}

/// Examines the database and the connection to it.
pub(crate) fn on_database(examined: &Examined) -> Vec<Finding> {
    let pooler = match examined.pooler {
        Pooler::None => None,
        Pooler::Session => Some(Finding::note(
            "pooler",
            "a pooler in session mode stands before the database and helps nothing: connect directly, or use transaction \
             mode",
        )),
        Pooler::Transaction => Some(Finding::note(
            "pooler",
            "a pooler in transaction mode stands before the database: nothing is wrong with that, but blocked pops of \
             other middlewares wake within 1 s instead of 50 ms; connect directly if that matters",
        )),
        Pooler::Unknown => Some(Finding::note(
            "pooler",
            "a pooler stands before the database, and its mode cannot be found out: it should be transaction",
        )),
    };
    let Examined { clock_ahead_ms, clock_error_ms, connections, connections_max, .. } = *examined;
    let apart_s = (clock_ahead_ms.abs() - clock_error_ms) as f64 / 1e3;
    let clock = (apart_s > CLOCK_S).then(|| {
        let text = format!(
            "the database's clock is {:.1} s ahead of the one here, and leases and delays count by the database's: see \
             on both machines whether time is synchronized (timedatectl, chronyc tracking)",
            clock_ahead_ms as f64 / 1e3
        );
        Finding::problem("clock", text)
    });
    let room = (connections as f64 > NEARLY * connections_max as f64).then(|| {
        let text = format!(
            "{connections} of at most {connections_max} clients are connected: lower --workers of the middlewares, put a \
             pooler before it, or raise max_connections"
        );
        Finding::problem("database", text)
    });
    [pooler, clock, room].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the figures of a healthy tier, preceded by these lines.
    fn with(lines: &str) -> Figures {
        let healthy = format!(
            "posthaste_build_info{{version=\"{VERSION}\"}} 1\nposthaste_clock_seconds 1000\nprocess_start_time_seconds 900\nposthaste_uptime_seconds 99\nprocess_max_fds 65536\n\
             process_open_fds 40\nposthaste_connections 10\nposthaste_connections_max 20000\nposthaste_tls_certificate_not_after_seconds 700000\nposthaste_line_requests 3\n\
             posthaste_line_requests_max 65536\nposthaste_disk_free_bytes 90000000000\nposthaste_disk_size_bytes \
             100000000000\nposthaste_store_state_bytes 500000000\nposthaste_store_state_limit_bytes 1000000000\nposthaste_requests_total{{kind=\"send\",ending=\"ok\"}} 1000\n"
        );
        Figures::read(&format!("{lines}\n{healthy}"))
    }

    fn all(figures: &Figures) -> Vec<Finding> {
        let mut findings = on_tier(figures, None, Moment { at_s: 1000.5, error_s: 0.2 });
        findings.extend(on_queue(figures, "embedded:./data", false));
        findings.extend(on_cache(figures, &["down:1"]));
        findings
    }

    #[test]
    fn a_healthy_tier_gives_no_finding() {
        assert_eq!(all(&with("")), []);
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_remedy() {
        for (line, words) in [
            ("posthaste_build_info{version=\"0.0.0\"} 1", "restart the tier"),
            ("posthaste_clock_seconds 1003", "timedatectl"),
            ("process_max_fds 1024", "LimitNOFILE"),
            ("process_max_fds 19999", "or allow fewer with --max-clients"),
            ("process_open_fds 65000", "65000 of 65536"),
            ("posthaste_connections 19000", "--max-clients"),
            ("posthaste_line_requests 40000", "BUSY"),
            ("posthaste_disk_free_bytes 5000000000", "purge"),
            ("posthaste_disk_is_memory 1", "a directory on a disk"),
            ("posthaste_store_state_bytes 950000000", "950.0 of 1000.0 MB"),
            ("posthaste_store_full 1", "quota"),
            ("posthaste_store_unreadable_segments 1", "the log names the file"),
            ("posthaste_keeper_silent_seconds 9", "admin store"),
            ("posthaste_accounts_file_usable 0", "the log names the line"),
            ("posthaste_tls_certificate_not_after_seconds 433000.5", "ends in 5.0 days"),
            ("posthaste_tls_certificate_not_after_seconds 999", "has ended"),
            ("posthaste_server_live{server=\"a:1\"} 0", "a:1 takes no part"),
        ] {
            let findings = all(&with(line));
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(findings[0].is_problem && findings[0].text.contains(words), "{findings:?}");
        }
        for (line, words) in [
            ("posthaste_requests_total{kind=\"pop\",ending=\"error\"} 100", "9.1 %"),
            ("process_max_fds 20200", "or allow fewer with --max-clients"),
            ("posthaste_connections_refused_total{reason=\"full\"} 3", "3 connections"),
            ("posthaste_uptime_seconds 50", "set by 50 s"),
            ("process_start_time_seconds 4500", "set by -3599 s"),
            ("posthaste_logins_total{ending=\"wrong\"} 11", "an old secret"),
            (
                "posthaste_stage_duration_seconds_sum{kind=\"send\",stage=\"sync\"} 5\n\
                 posthaste_stage_duration_seconds_count{kind=\"send\",stage=\"sync\"} 100",
                "50 ms",
            ),
            (
                "posthaste_server_live{server=\"a:1\"} 1\nposthaste_server_losses_total{server=\"a:1\"} 2",
                "lost 2 times",
            ),
            ("posthaste_server_live{server=\"down:1\"} 0", "admin server down:1 up"),
        ] {
            let findings = all(&with(line));
            assert_eq!(findings.len(), 1, "{line}: {findings:?}");
            assert!(!findings[0].is_problem && findings[0].text.contains(words), "{findings:?}");
        }
    }

    #[test]
    fn a_slow_answer_says_nothing_of_a_clock() {
        let figures = with("posthaste_clock_seconds 1005");
        let told = |asked_s, answered_s| on_tier(&figures, None, Moment::between(asked_s, answered_s));
        assert_eq!(told(1000.0, 1005.1), [], "its name server took 5 s");
        assert_eq!(told(1000.0, 1001.0)[0].about, "clock");
    }

    #[test]
    fn a_store_that_forgets_is_a_problem_and_a_database_unseen_is_said() {
        assert!(on_queue(&with(""), "memory:", false)[0].text.contains("not durable"));
        assert!(on_queue(&with(""), "postgres://app@db/x", false)[0].text.contains("--store"));
        assert_eq!(on_queue(&with("posthaste_uptime_seconds 50"), "postgres://app@db/x", true), []);
    }

    #[test]
    fn what_stands_before_a_database_is_said() {
        let fine = Examined {
            pooler: Pooler::None,
            clock_ahead_ms: 3,
            clock_error_ms: 2,
            connections: 10,
            connections_max: 100,
        };
        assert_eq!(on_database(&fine), []);
        let only = |examined: Examined| on_database(&examined).pop().expect("a finding");
        assert!(!only(Examined { pooler: Pooler::Transaction, ..fine.clone() }).is_problem);
        assert!(only(Examined { clock_ahead_ms: -5000, ..fine.clone() }).text.contains("-5.0 s"));
        assert!(only(Examined { connections: 95, ..fine }).text.contains("max_connections"));
    }
}
