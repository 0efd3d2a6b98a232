//! A flood: one client writes requests without reading an answer, as fast as it is let. The server reads no more than it
//! can hold, and every answer comes, in its order.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::measure::{Limit, ask, connect, of};
use crate::still::wait_until_still;
use crate::support::Server;

/// Bytes of a body.
const BODY: usize = 1_000;

#[test]
fn a_pipelined_flood_is_answered_in_its_order() {
    let pairs = of(16 << 20, 1 << 30) / BODY;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(&format!("embedded:{}", dir.path().display()), &[]);
    let limit = Limit::new(format!("{} MB of SEND and POP in one pipeline", pairs * BODY / 1_000_000));
    let mut client = connect(&server);
    ask(&mut client, &["QCREATE", "q"]);
    let mut writer = client.socket().try_clone().expect("a second handle");
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let filler = "x".repeat(BODY - 8);
            for number in 0..pairs {
                let pair = format!(
                    "*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n${BODY}\r\n{number:08}{filler}\r\n*3\r\n$3\r\nPOP\r\n$5\r\nQUEUE\r\n$1\r\nq\r\n"
                );
                writer.write_all(pair.as_bytes()).expect("the server reads in the end");
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until_still("pairs are written", || written.load(Ordering::Relaxed));
        for number in 0..pairs {
            assert!(client.answer().expect("an answer").integer().is_some(), "SEND {number}");
            let answer = client.answer().expect("an answer");
            let body = answer.body().unwrap_or_else(|| panic!("POP {number}: {answer:?}"));
            assert!(body.len() == BODY && body.starts_with(&format!("{number:08}")), "POP {number}: {body}");
        }
    });
    limit.finish(&server, 150, "nothing read until the writer stood still; answers in order");
}
