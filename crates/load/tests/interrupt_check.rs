//! A check that is interrupted. Alone in its file, since an interruption ends all runs of a process.

#[allow(dead_code, reason = "each test program uses its own part of this")]
mod fake;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::spawn;

use fake::{Mutant, bench, serve};
use posthaste_load::{interrupt, run};
use posthaste_wire::reply::{Reply, Value, decode};

const PRELOADED: u64 = 20_000;

/// Returns the number of messages that the server has.
fn messages(server: &mut TcpStream) -> u64 {
    server.write_all(b"*1\r\n$5\r\nQLIST\r\n").expect("it runs");
    let mut heard = Vec::new();
    loop {
        if let Reply::Value(queues, _) = decode(&heard) {
            let number = |queue: &Value<'_>| queue.get(b"messages").and_then(Value::as_integer);
            return queues.parts().iter().filter_map(number).sum::<i64>().cast_unsigned();
        }
        let mut chunk = [0; 100];
        let len = server.read(&mut chunk).expect("it answers");
        heard.extend_from_slice(&chunk[..len]);
    }
}

/// In this run only the drain, which looks for lost messages, pops.
#[test]
fn an_interrupted_check_says_what_it_found_until_then() {
    let address = serve(Mutant::Honest);
    let mut looking = TcpStream::connect(&address).expect("it listens");
    spawn(move || {
        while messages(&mut looking) < PRELOADED {}
        while messages(&mut looking) == PRELOADED {}
        interrupt();
    });
    let words = "--clients 1 --workload mix:peek=1 --warmup 0s --cooldown 0s --duration 200ms --check";
    let report = run(bench(&format!("--connect {address} {words} --preload {PRELOADED}"))).expect("a report");
    assert!(!report.valid && report.violations() == 0, "{report}");
    let check = report.check.expect("a check");
    assert!(check.acknowledged == PRELOADED && (1..PRELOADED).contains(&check.drained), "{check}");
}
