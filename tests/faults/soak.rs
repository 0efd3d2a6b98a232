//! A soak: both stores and the cache tier at full speed at once, for as long as `MINUTES` says. Memory, open files,
//! threads, and what the stores take on disk are sampled after every bout of load and must stay what they were; every
//! answer is checked; at the end the server has counted as many requests as were made, to the last one. In a campaign
//! of some minutes response times must stay, too.
//!
//! Every bout leaves its store empty, so that samples can be compared. The first quarter of them is warm-up. A campaign
//! takes five minutes or more: an embedded store grows for 800,000 requests, to the 90 MiB that it keeps.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cache::memcached::Memcached;
use crate::postgres::Postgres;
use crate::process::{files, resident, threads};
use crate::rows::{commit, leave, number};
use crate::support::Server;
use crate::support::patience::wait_for;

/// Growth of memory by what an allocator keeps, of tiers that remember nothing of what is gone.
const STEADY: (f64, u64) = (0.05, 4);

/// A middleware over PostgreSQL remembers where to begin to read in up to 100,000 lanes of queues, deleted ones too, until
/// it forgets them together: some 30 MiB that come and go, in a soak every 100,000 queues.
const WITH_FLOORS: (f64, u64) = (0.1, 8);

/// Fewer samples say nothing.
const BOUTS_MIN: usize = 8;

/// Factor, and microseconds beyond it, by which the 99th percentile may grow from the first quarter after the warm-up
/// to the last: as much as other work on a machine explains, and less than what grows with every request would take.
const SLOWER_MAX: f64 = 3.0;
const SLOWER_US: f64 = 5_000.0;

/// What a tier takes.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// 99th percentile of the bout's response times, in microseconds.
    p99_us: f64,
    resident: u64,
    files: u64,
    threads: u64,
    stored: u64,
}

/// One tier under load.
struct Part<'a> {
    name: &'static str,
    server: &'a Server,
    /// What follows `posthaste bench`.
    bench: &'a [&'a str],
    /// A kind of request that only the load makes, as both sides call it.
    kind: &'static str,
    /// Share, and MiB beyond it, by which its memory may grow.
    memory: (f64, u64),
    /// Bytes that its store takes on disk.
    stored: &'a (dyn Fn() -> u64 + Sync),
}

#[test]
fn both_stores_and_the_cache_at_full_speed_stay_as_large_as_they_were() {
    let until = Instant::now() + Duration::from_secs(60 * number("MINUTES").unwrap_or(0));
    let is_campaign = number("MINUTES").is_some();
    let requests = if is_campaign { "3000" } else { "100" };
    let home = tempfile::tempdir().expect("a temporary directory");
    let embedded = Server::start_with_http(&format!("embedded:{}", home.path().display()), &[]);
    let postgres = Postgres::start(&[]);
    let database = postgres.create_database();
    let over_postgres = Server::start_with_http(&postgres.url(&database), &[]);
    let memcached = Memcached::several::<2>();
    let names = memcached.each_ref().map(Memcached::name);
    let cache = Server::start_cache(&["--server", &names[0], "--server", &names[1]]);
    let queue = ["queue", "--clients", "16", "--requests", requests, "--check"];
    let keys = ["cache", "--clients", "16", "--requests", requests, "--check"];
    let size = format!("SELECT pg_database_size('{database}')");
    let parts = [
        Part {
            name: "embedded store",
            server: &embedded,
            bench: &queue,
            kind: "send",
            memory: STEADY,
            stored: &|| bytes_in(home.path()),
        },
        Part {
            name: "PostgreSQL",
            server: &over_postgres,
            bench: &queue,
            kind: "send",
            memory: WITH_FLOORS,
            stored: &|| postgres.psql("postgres", &size).parse().expect("a number"),
        },
        Part { name: "cache tier", server: &cache, bench: &keys, kind: "set", memory: STEADY, stored: &|| 0 },
    ];
    thread::scope(|scope| {
        for part in &parts {
            scope.spawn(move || part.soak(until, is_campaign));
        }
    });
}

impl Part<'_> {
    fn soak(&self, until: Instant, is_campaign: bool) {
        let (mut samples, mut requests, mut all, start) = (Vec::new(), 0, 0, Instant::now());
        while samples.len() < BOUTS_MIN || Instant::now() < until {
            let report = self.bout();
            requests += count(&report["kinds"][self.kind]);
            all += count(&report);
            let p99_us = report["response"]["p99_us"].as_f64().expect("a figure");
            samples.push(self.sample(p99_us));
        }
        self.has_counted(requests);
        let (first, last) = self.compare(&samples);
        let (before, after) = slowness(&samples);
        // A few short bouts beside other tests say nothing of times.
        let is_slower = is_campaign && after > before * SLOWER_MAX + SLOWER_US;
        assert!(!is_slower, "{}: p99 grew from {before} to {after} us: {samples:?}", self.name);
        let mib = |bytes: u64| bytes / (1 << 20);
        leave(&format!(
            "| {} | {} min | {all} | {} and {} MiB | {} and {} | {} and {} | {} and {} MiB | {:.1} and {:.1} ms | {} |",
            self.name,
            start.elapsed().as_secs() / 60,
            mib(first.resident),
            mib(last.resident),
            first.files,
            last.files,
            first.threads,
            last.threads,
            mib(first.stored),
            mib(last.stored),
            before / 1e3,
            after / 1e3,
            commit(),
        ));
    }

    /// Some load, its answers checked; the report.
    fn bout(&self) -> Value {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let json = dir.path().join("report.json");
        let mut bench = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        bench.arg("bench").args(self.bench).args(["--connect", &self.server.addr().to_string()]);
        let output = bench.arg("--json").arg(&json).stdin(Stdio::null()).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}{}", self.name, String::from_utf8_lossy(&output.stdout));
        serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON")
    }

    fn sample(&self, p99_us: f64) -> Sample {
        let (pid, stored) = (self.server.pid(), (self.stored)());
        Sample { p99_us, resident: resident(pid), files: files(pid), threads: threads(pid), stored }
    }

    /// The most of the first half after the warm-up and of the second: nothing may have grown but by what comes and goes.
    fn compare(&self, samples: &[Sample]) -> (Sample, Sample) {
        let warm = &samples[samples.len() / 4..];
        let (early, late) = warm.split_at(warm.len() / 2);
        let (early, late) = (most(early), most(late));
        let (share, mib) = self.memory;
        let rules = [
            ("memory", early.resident, late.resident, share, mib << 20),
            ("open files", early.files, late.files, 0.1, 8),
            ("threads", early.threads, late.threads, 0.1, 2),
            ("the store", early.stored, late.stored, 0.1, 64 << 20),
        ];
        for (what, before, after, share, slack) in rules {
            let allowed = before + (before as f64 * share) as u64 + slack;
            assert!(after <= allowed, "{}: {what} grew from {before} to {after}: {samples:?}", self.name);
        }
        (early, late)
    }

    /// Waits until the server has counted so many, and sees that it counts no more.
    fn has_counted(&self, requests: u64) {
        wait_for(format!("{}: {requests} requests of the kind {}", self.name, self.kind), || {
            let counted = self.counted();
            if counted >= requests { Ok(()) } else { Err(counted) }
        });
        assert_eq!(self.counted(), requests, "{}: requests of the kind {}", self.name, self.kind);
    }

    fn counted(&self) -> u64 {
        let begin = format!("posthaste_requests_total{{kind=\"{}\",", self.kind);
        let (_, page) = self.server.page("/metrics");
        let lines = page.lines().filter(|line| line.starts_with(&begin));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }
}

/// The median 99th percentile of the bouts of the first quarter after the warm-up and of the last quarter, in
/// microseconds.
fn slowness(samples: &[Sample]) -> (f64, f64) {
    let quarter = samples.len() / 4;
    let median = |some: &[Sample]| {
        let mut times: Vec<f64> = some.iter().map(|sample| sample.p99_us).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    (median(&samples[quarter..2 * quarter]), median(&samples[samples.len() - quarter..]))
}

/// All requests, however they ended.
fn count(report: &Value) -> u64 {
    ["ok", "nulls", "errors"].iter().map(|ending| report[*ending].as_u64().expect("a count")).sum()
}

fn most(samples: &[Sample]) -> Sample {
    let most = |figure: fn(&Sample) -> u64| samples.iter().map(figure).max().unwrap_or(0);
    Sample {
        p99_us: samples.iter().map(|sample| sample.p99_us).fold(0.0, f64::max),
        resident: most(|sample| sample.resident),
        files: most(|sample| sample.files),
        threads: most(|sample| sample.threads),
        stored: most(|sample| sample.stored),
    }
}

/// Bytes of the files in a directory.
fn bytes_in(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).expect("a directory").flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}
