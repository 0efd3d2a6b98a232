//! What requests over HTTP have open is counted as open, so that clients leave it to them.
//!
//! A program of its own: the files of a process are counted.

#[path = "../../../tests/support/patience.rs"]
mod patience;

use std::fs::read_dir;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use patience::wait_until;
use posthaste_server::front::accept::Endpoint;
use posthaste_server::front::files::beside_clients;
use posthaste_server::front::lifecycle;
use posthaste_server::queue::choice::StoreChoice;
use posthaste_server::server::{Options, Server};

const POPS: usize = 20;

fn start() -> Server {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let front = lifecycle::Options {
        listen: vec![Endpoint::Tcp(here)],
        http: Some(here),
        reuse_port: false,
        tls: None,
        threads: 1,
        connections_max: 100,
        quiet_limits: Default::default(),
        slow: None,
        window: Duration::from_secs(1),
        record: None,
        record_requests: false,
    };
    let options = Options {
        front,
        store: StoreChoice::Memory,
        accounts: None,
        workers: 1,
        batch: 16,
        unbatched: None,
        message_bytes_max: 1000,
        line_requests_max: 100,
        priority_kinds: Vec::new(),
        memory_limit: None,
        metrics_queues: 0,
        traces: None,
    };
    Server::start(options).unwrap_or_else(|error| panic!("{error}"))
}

fn open_files() -> usize {
    read_dir("/proc/self/fd").expect("Linux has it").count()
}

#[test]
fn a_pop_over_http_has_no_more_open_than_is_counted_for_it() {
    let server = start();
    let [Endpoint::Tcp(address)] = server.running().addresses() else { panic!("one address") };
    let mut client = TcpStream::connect(address).expect("a connection");
    let mut ask = |line: &str| {
        client.write_all(format!("{line}\r\n").as_bytes()).expect("it is taken");
        let mut heard = vec![0; 64 << 10];
        let length = client.read(&mut heard).expect("an answer");
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    ask("QCREATE q");
    let before = open_files();
    let url = server.running().http_url().expect("it listens");
    let http = url.trim_start_matches("http://").trim_end_matches('/');
    let body = r#"{"block_ms":600000}"#;
    let pop = format!(
        "POST /v1/queues/q/pop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let pops: Vec<TcpStream> = (0..POPS)
        .map(|_| {
            let mut connection = TcpStream::connect(http).expect("a connection");
            connection.write_all(pop.as_bytes()).expect("it is taken");
            connection
        })
        .collect();
    wait_until("pops that wait", || ask("INFO").contains(&format!("blocked_clients:{POPS}\r")));
    let theirs = open_files() - before - pops.len();
    // With so many files there are so many more connections over HTTP.
    let counted = beside_clients(64 * POPS as u64) - beside_clients(32 * POPS as u64);
    assert!(theirs as u64 <= counted, "{theirs} are open, {counted} are counted");
    drop(pops);
    let _ = server.stop(Duration::from_secs(5));
}
