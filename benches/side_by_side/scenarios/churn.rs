//! A queue table under churn, with a transaction of somebody else held open meanwhile, and then a dump: does throughput
//! hold, do tables and indexes stay small?
//!
//! Everything happens in one long run, so its figures are those of one machine at one time, not of rounds.

use std::io::Write as _;
use std::ops::Range;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::options::{Options, Scenario};
use crate::peers::postgres::Postgres;
use crate::peers::posthaste;
use crate::process::{As, command, directory};
use crate::report::{Bound, Section};
use crate::statistics::Spread;
use crate::{Result, interrupt};

const HOW: &str = "`posthaste queue` over PostgreSQL with default settings, as fast as it goes: pairs (32 clients, 10,000 \
    messages waiting) and the twelve steps (32 clients) at once. For a sixth of the time, from its third part on, a REPEATABLE \
    READ transaction of somebody else is held open, with a snapshot and nothing more; for another sixth `pg_dump` runs, whose \
    output is taken so slowly that it lasts as long: it locks every table against TRUNCATE. Medians of the samples in each \
    span; sizes at its end.";

const HEAD: [&str; 7] =
    ["minute", "requests/s", "ring, MB", "its indexes, MB", "aside, MB", "queues, MB", "turns"];

const LOADS: [&[&str]; 2] =
    [&["--workload", "pairs", "--preload", "10000"], &["--workload", "twelve-step", "--queues", "30"]];

/// Rows of the table, and samples in each: the server counts by windows of a second, of which a sample takes some.
const SPANS: u32 = 60;
const SAMPLES_MAX: u32 = 6;
const SAMPLE_MIN: Duration = Duration::from_secs(3);
/// The spans in which the transaction is open, and those in which the dump runs.
const HELD: Range<u32> = 20..30;
const DUMPED: Range<u32> = 40..50;

const SIZES: &str = "SELECT \
    pg_table_size('posthaste.message_0') + pg_table_size('posthaste.message_1'), \
    pg_indexes_size('posthaste.message_0') + pg_indexes_size('posthaste.message_1'), \
    pg_total_relation_size('posthaste.message_aside'), \
    pg_total_relation_size('posthaste.queue'), \
    (SELECT last_value FROM posthaste.ring_turn)";

/// Loads one server for as long as was asked.
pub(crate) fn run(options: &Options) -> Result<Section> {
    let mut section = Section::new(Scenario::Churn.title(), HOW, &HEAD);
    let postgres = Postgres::start(&options.dir)?;
    postgres.sql("postgres", "CREATE DATABASE churn")?;
    let dir = directory(&options.dir)?;
    let (_middleware, socket) = posthaste::start_on_socket_over(dir.path(), &postgres.url("churn")?, &[])?;
    let span = options.minutes() / SPANS;
    let samples = u32::try_from(span.as_secs() / SAMPLE_MIN.as_secs())?.clamp(1, SAMPLES_MAX);
    // Some more than is looked at, so that the last look still finds it at work.
    let loads = LOADS.map(|load| start(&socket, load, span * SPANS + Duration::from_secs(5)));
    let loads = loads.into_iter().collect::<Result<Vec<_>>>()?;
    let rates = watch(&postgres, &socket, span, samples, &mut section)?;
    drop(loads);
    let median = |spans: Range<u32>| {
        let taken = (spans.start * samples) as usize..(spans.end * samples) as usize;
        Spread::of(rates[taken].iter().copied()).map_or(f64::NAN, |spread| spread.median)
    };
    let before = median(0..HELD.start);
    let ratio = |above: f64| Spread::of([above / before]);
    section.target("throughput, held open / before", Bound::AtLeast(0.8), ratio(median(HELD)));
    section.target(
        "throughput, afterwards / before",
        Bound::AtLeast(0.9),
        ratio(median(HELD.end..DUMPED.start)),
    );
    section.target("throughput, during a dump / before", Bound::AtLeast(0.8), ratio(median(DUMPED)));
    section.target(
        "throughput, after the dump / before",
        Bound::AtLeast(0.9),
        ratio(median(DUMPED.end..SPANS)),
    );
    Ok(section)
}

/// A load that ends by itself, or with this program.
fn start(socket: &str, load: &[&str], duration: Duration) -> Result<Running> {
    let mut bench = command(posthaste::PROGRAM, &As::Me);
    bench.args(["bench", "queue", "--connect", socket, "--clients", "32"]).args(load);
    bench.args(["--duration", &format!("{}s", duration.as_secs()), "--warmup", "0s", "--cooldown", "0s"]);
    Ok(Running(bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
}

/// A child that is not waited for beyond its use.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests per second of every sample; the table is written on the way.
fn watch(
    postgres: &Postgres,
    socket: &str,
    length: Duration,
    samples: u32,
    section: &mut Section,
) -> Result<Vec<f64>> {
    let mut rates = Vec::new();
    let (mut held, mut dump) = (None, None);
    let mut last = (Instant::now(), posthaste::served(socket)?.requests);
    for span in 0..SPANS {
        held = match (HELD.contains(&span), held) {
            (true, None) => Some(hold_open(postgres)?),
            (true, held) => held,
            (false, _) => None,
        };
        dump = match (DUMPED.contains(&span), dump) {
            (true, None) => Some(begin_dump(postgres)?),
            (true, dump) => dump,
            (false, _) => None,
        };
        let mut of_span = Vec::new();
        for _ in 0..samples {
            interrupt::check()?;
            sleep(length / samples);
            let now = (Instant::now(), posthaste::served(socket)?.requests);
            of_span.push((now.1 - last.1) as f64 / (now.0 - last.0).as_secs_f64());
            last = now;
        }
        let mut row = vec![format!("{:.1}", (length * (span + 1)).as_secs_f64() / 60.0)];
        for (is_so, what) in [(held.is_some(), " (held open)"), (dump.is_some(), " (dump)")] {
            if is_so {
                row[0].push_str(what);
            }
        }
        row.push(
            Spread::of(of_span.iter().copied()).map_or("-".into(), |rate| format!("{:.0}", rate.median)),
        );
        row.extend(sizes(postgres)?);
        eprintln!("{}", row.join("  "));
        section.row(row);
        rates.extend(of_span);
    }
    Ok(rates)
}

/// Sizes as they stand in the table.
fn sizes(postgres: &Postgres) -> Result<Vec<String>> {
    let said = postgres.ask("churn", SIZES)?;
    let mut numbers =
        said.trim().split('|').map(str::parse::<f64>).collect::<std::result::Result<Vec<_>, _>>()?;
    let turns = numbers.pop().ok_or("no figures")?;
    let megabytes = numbers.iter().map(|bytes| format!("{:.2}", bytes / 1e6));
    Ok(megabytes.chain([format!("{turns:.0}")]).collect())
}

/// A transaction that stays open until this is dropped.
fn hold_open(postgres: &Postgres) -> Result<Running> {
    let mut psql = postgres.psql("churn")?;
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut input = child.stdin.take().ok_or("psql has no input")?;
    writeln!(input, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class;")?;
    child.stdin = Some(input);
    Ok(Running(child))
}

/// A dump that goes on until this is dropped: nobody takes more of its output than a pipe holds.
fn begin_dump(postgres: &Postgres) -> Result<Running> {
    Ok(Running(postgres.dump("churn")?.stdout(Stdio::piped()).spawn()?))
}
