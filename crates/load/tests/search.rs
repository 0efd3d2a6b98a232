//! What a search for the highest rate reports, also if it broke off.

#[allow(dead_code, reason = "each test program uses its own part of this")]
mod fake;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use fake::{bench, undisturbed};
use posthaste_load::search::Trial;
use posthaste_load::{LoadError, QueueBench, find_max_rate};
use tempfile::TempDir;

type Report = posthaste_load::Report<QueueBench>;

/// Options of the search, whose runs have 20 requests, 40, 80 and so on, however slow the machine is.
const WORDS: &str = "--clients 2 --workload mix:echo=1 --message-bytes 1 --rate 40 --warmup 0s --cooldown 0s \
                     --duration 500ms";

/// What a server does with an ECHO.
enum Deed {
    Answer,
    /// Answers late.
    Delay,
    /// Ends the connection.
    HangUp,
    /// Ends all connections, and accepts no more.
    Die,
}

/// Starts a server of ECHOs of one byte, which acts by the number of ECHOs so far, of all clients; returns its address.
fn serve(deed: fn(u32) -> Deed) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let server = Arc::new(Server {
        address: address.clone(),
        deed,
        asked: AtomicU32::new(0),
        dead: AtomicBool::new(false),
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), false) = (stream, server.dead.load(Ordering::SeqCst)) else { return };
            let server = Arc::clone(&server);
            thread::spawn(move || server.answer(stream));
        }
    });
    address
}

struct Server {
    address: String,
    deed: fn(u32) -> Deed,
    asked: AtomicU32,
    dead: AtomicBool,
}

impl Server {
    fn answer(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).expect("a socket");
        let mut chunk = [0; 4096];
        // The client waits for its answer before it asks again, so a read is one request.
        while let Ok(len @ 1..) = stream.read(&mut chunk) {
            let mut answer = &b":1\r\n"[..];
            if chunk[..len].windows(4).any(|word| word == b"ECHO") {
                answer = b"$1\r\na\r\n";
                match (self.deed)(self.asked.fetch_add(1, Ordering::SeqCst) + 1) {
                    Deed::Answer => {}
                    Deed::Delay => thread::sleep(Duration::from_millis(30)),
                    Deed::HangUp => return,
                    Deed::Die => {
                        self.dead.store(true, Ordering::SeqCst);
                        // So that whoever accepts sees it.
                        drop(TcpStream::connect(&self.address));
                        return;
                    }
                }
            }
            if self.dead.load(Ordering::SeqCst) || stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// Makes a search with records and a summary in a directory; again if the machine stood still so often that no rate was
/// kept.
fn search(deed: fn(u32) -> Deed, limit: &str) -> (Report, TempDir) {
    let limit = limit.parse().expect("a limit");
    let once = |_: u32| {
        let (address, dir) = (serve(deed), tempfile::tempdir().expect("a directory"));
        let files = format!("--record {0}/records --json {0}/search.json", dir.path().display());
        let report = find_max_rate(&bench(&format!("--connect {address} {WORDS} {files}")), limit).ok()?;
        Some((report, dir))
    };
    (0..10).find_map(once).expect("a report")
}

fn lost_a_connection(trial: &Trial) -> bool {
    trial.invalid_because.iter().any(|why| why.contains(" ended early, the first because"))
}

#[test]
fn a_summary_without_a_place_is_noticed_before_the_search() {
    let bench = bench("--connect 127.0.0.1:1 --json /nonexistent/summary.json");
    let limit = "p99<5ms".parse().expect("a limit");
    assert!(matches!(find_max_rate(&bench, limit), Err(LoadError::Json { .. })));
}

#[test]
fn a_search_whose_own_requests_are_late_does_not_blame_the_server() {
    // No machine sends as many, so the limit is broken by the lateness of requests alone.
    let words = "--clients 2 --workload mix:echo=1 --message-bytes 1 --rate 1e9 --warmup 0s --cooldown 0s";
    let limit = "mean<1us".parse().expect("a limit");
    let address = serve(|_| Deed::Answer);
    let bench = bench(&format!("--connect {address} {words} --duration 100ms"));
    let why = || find_max_rate(&bench, limit).expect_err("no rate kept it").to_string();
    let is_said = |why: &String| why.contains("was not kept") && why.contains("the load generator ended");
    let why = undisturbed(why, is_said);
    assert!(is_said(&why), "{why}");
}

#[test]
fn a_search_whose_server_dies_reports_what_it_found_until_then() {
    // The server dies in the third run, if none had to be made again.
    let (report, dir) = search(|asked| if asked < 100 { Deed::Answer } else { Deed::Die }, "max<60s");
    let why = report.invalid_because.last().expect("a reason");
    assert!(!report.valid && why.contains("the search broke off"), "{report}");
    assert!(report.search.iter().any(|trial| trial.kept), "{report}");
    let last = report.search.last().expect("a run");
    assert!(!last.kept && lost_a_connection(last), "{last:?}");
    assert!(matches!(report.verdict(), Err(LoadError::Failed(_))), "a script must see it");
    let written = std::fs::read(dir.path().join("search.json")).expect("written");
    let written: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(written["valid"], false);
    assert_eq!(written["search"].as_array().map(Vec::len), Some(report.search.len()));
}

#[test]
fn a_search_tells_of_every_run_it_recorded() {
    // A connection is lost in the first run, which is made again; then the server gets slow.
    let deed = |asked: u32| match asked {
        5 => Deed::HangUp,
        ..100 => Deed::Answer,
        _ => Deed::Delay,
    };
    let (report, dir) = search(deed, "p50<20ms");
    let [first, second, ..] = &report.search[..] else { panic!("{report}") };
    assert!(lost_a_connection(first) && !first.kept, "{first:?}");
    assert!((first.rate_per_s - second.rate_per_s).abs() < 0.1, "{second:?}");
    let told: Vec<PathBuf> = report.search.iter().filter_map(|trial| trial.record.clone()).collect();
    let numbers = 1..=std::fs::read_dir(dir.path().join("records")).expect("records").count();
    let left: Vec<PathBuf> = numbers.map(|run| dir.path().join(format!("records/{run}"))).collect();
    assert_eq!(told, left);
}
