//! memcached over TLS. It waits for its socket, not for what OpenSSL still holds of a record, so what it is sent must be
//! cut as it reads.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::Command;
use std::thread;

use fastrand::Rng;

use crate::certificates::{Authority, Pair};
use crate::client::{Client, start};
use crate::memcached::Memcached;

/// Requests of a client that leave together.
const TOGETHER: usize = 40;

/// A memcached that speaks TLS only.
fn memcached(pair: &Pair) -> Memcached {
    let (certificate, key) = (pair.certificate.display(), pair.key.display());
    Memcached::start(&["-Z", "-o", &format!("ssl_chain_cert={certificate},ssl_key={key}")])
}

/// Requests in one go, what must be answered to them, and what the cache holds after them.
fn requests(rng: &mut Rng, held: &mut HashMap<u8, Vec<u8>>) -> (Vec<u8>, Vec<u8>) {
    let (mut asked, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..TOGETHER {
        let key = rng.u8(..10);
        let bytes = if rng.bool() { rng.usize(..200) } else { rng.usize(..100 << 10) };
        let (line, answer) = match rng.u8(..6) {
            0 => (format!("set k{key} 0 0 {bytes}\r\n"), "STORED\r\n"),
            1 => (format!("ms k{key} {bytes}\r\n"), "HD\r\n"),
            2 => (format!("ms k{key} {bytes} q\r\n"), ""),
            _ => {
                asked.extend_from_slice(format!("get k{key}\r\n").as_bytes());
                if let Some(value) = held.get(&key) {
                    expected.extend_from_slice(format!("VALUE k{key} 0 {}\r\n", value.len()).as_bytes());
                    expected.extend_from_slice(value);
                    expected.extend_from_slice(b"\r\n");
                }
                expected.extend_from_slice(b"END\r\n");
                continue;
            }
        };
        let value: Vec<u8> = (0..bytes).map(|_| rng.u8(..)).collect();
        [line.as_bytes(), &value, b"\r\n"].iter().for_each(|part| asked.extend_from_slice(part));
        expected.extend_from_slice(answer.as_bytes());
        held.insert(key, value);
    }
    asked.extend_from_slice(b"mn\r\n");
    (asked, expected)
}

#[test]
fn requests_that_leave_together_are_answered_whatever_the_size_of_their_values() {
    let authority = Authority::new();
    let pair = authority.issue("memcached");
    let memcached = [memcached(&pair), memcached(&pair)];
    let names = memcached.each_ref().map(|server| format!("tls:{}", server.name()));
    let ca = authority.certificate().display().to_string();
    let servers = ["--server", &names[0], "--server", &names[1], "--server-tls-ca", &ca];
    for mode in [&[][..], &["--writes", "owner"], &["--workers", "2"]] {
        let router = start(&[&servers[..], mode].concat());
        let mut client = Client::to(router.addr());
        assert_eq!(client.ask("flush_all\r\n"), "OK\r\n");
        let (mut rng, mut held) = (Rng::with_seed(1), HashMap::new());
        for round in 0..20 {
            let (asked, expected) = requests(&mut rng, &mut held);
            let mut writer = client.0.try_clone().expect("a descriptor");
            let heard = thread::scope(|scope| {
                scope.spawn(move || writer.write_all(&asked).expect("the router listens"));
                client.read_until(b"MN\r\n")
            });
            let same = heard.iter().zip(&expected).take_while(|(heard, expected)| heard == expected).count();
            let instead = String::from_utf8_lossy(&heard[same..heard.len().min(same + 80)]);
            assert!(heard == expected, "{mode:?}, round {round}: {instead:?}\n{}", router.log());
        }
    }
}

#[test]
fn the_load_generator_cuts_what_it_sends_too() {
    let authority = Authority::new();
    let memcached = memcached(&authority.issue("memcached"));
    let (name, ca) = (memcached.name(), authority.certificate().display().to_string());
    for load in [&["--preload", "--ratio", "0:1"][..], &["--ratio", "1:1"]] {
        // A stall lasts for ever.
        let mut bench = Command::new("timeout");
        bench.args(["180", env!("CARGO_BIN_EXE_posthaste"), "bench", "cache"]);
        bench.args(["--connect", &name, "--tls", "--tls-ca", &ca, "--check"]);
        bench.args(["--value-bytes", "1-200:50,1-100000:50", "--keys", "400", "--clients", "4"]);
        let ran = bench.args(["--pipeline", "20", "--requests", "400"]).args(load).output();
        let ran = ran.expect("the program runs");
        assert!(ran.status.success(), "{load:?}: {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn a_trust_that_no_server_is_asked_with_is_warned_about() {
    let server = Memcached::start(&[]);
    let authority = Authority::new();
    let ca = authority.certificate().display().to_string();
    let router = start(&["--server", &server.name(), "--server-tls-ca", &ca]);
    router.wait_for_log("write tls: before its address");
    let encrypted = format!("tls:{}", server.name());
    let router = start(&["--server", &encrypted, "--server-tls-ca", &ca]);
    router.wait_for_log("console, health and figures");
    assert!(!router.log().contains("write tls: before"), "{}", router.log());
}
