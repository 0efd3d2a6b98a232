//! Slow readers, who ask for far more than they read, and slow writers, whose requests take for ever to arrive. What they
//! cost is bounded for each, and others do not notice them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::{Answer, Client};
use crate::measure::{Limit, ask, connect, of};
use crate::process::allow_files;
use crate::support::Server;

/// What a slow reader asks for: 64 answers of 30 kB, of which the network holds a part.
const ANSWERS: usize = 64;
const BODY: usize = 30_000;

/// For so long others are watched.
const WATCHED: Duration = Duration::from_secs(2);

/// The longest that somebody else may wait, on a machine that may be busy itself.
const WAITED: Duration = Duration::from_secs(60);

#[test]
fn slow_readers_harm_only_themselves() {
    let many = of(100, 1_000);
    allow_files(many as u64 + 500);
    let server = started();
    let limit = Limit::new(format!(
        "{many} clients that ask for {} MB each and read nothing",
        ANSWERS * BODY / 1_000_000
    ));
    let mut readers: Vec<Client> = (0..many).map(|_| connect(&server)).collect();
    for reader in &mut readers {
        for _ in 0..ANSWERS {
            reader.send(&["PEEK", "QUEUE", "q"]).expect("the server reads");
        }
    }
    others_are_served(&server);
    // Whoever reads at last gets all of it.
    for reader in &mut readers {
        for _ in 0..ANSWERS {
            assert_eq!(reader.answer().expect("an answer").body().map(str::len), Some(BODY));
        }
    }
    limit.finish(&server, 100 + many as u64 * 3, "others are served meanwhile; all answers come at last");
}

#[test]
fn slow_writers_harm_only_themselves() {
    let many = of(100, 1_000);
    allow_files(many as u64 + 500);
    let server = started();
    let limit = Limit::new(format!("{many} clients with half a request of 60 kB, byte by byte"));
    let mut writers: Vec<Client> = (0..many).map(|_| connect(&server)).collect();
    for writer in &mut writers {
        let half = "x".repeat(BODY);
        writer
            .write(format!("*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n$60000\r\n{half}").as_bytes())
            .expect("it reads");
    }
    for _ in 0..20 {
        for writer in &mut writers {
            writer.write(b"x").expect("the server reads");
        }
    }
    others_are_served(&server);
    let rest = format!("{}\r\n", "x".repeat(60_000 - BODY - 20));
    for writer in &mut writers {
        writer.write(rest.as_bytes()).expect("the server reads");
    }
    for writer in &mut writers {
        assert!(writer.answer().expect("an answer").integer().is_some());
    }
    let deleted = ask(&mut connect(&server), &["QDELETE", "q"]);
    assert_eq!(deleted, Answer::Integer(many as i64 + 1));
    limit.finish(&server, 100 + many as u64 / 4, "others are served meanwhile; every request arrives");
}

/// A server with a message in the queue `q`.
fn started() -> Server {
    let server = Server::start("memory:", &[]);
    let mut client = connect(&server);
    ask(&mut client, &["QCREATE", "q"]);
    ask(&mut client, &["SEND", "q", &"x".repeat(BODY)]);
    server
}

fn others_are_served(server: &Server) {
    let (mut other, start) = (connect(server), Instant::now());
    while start.elapsed() < WATCHED {
        let asked = Instant::now();
        assert_eq!(ask(&mut other, &["PEEK", "QUEUE", "q"]).body().map(str::len), Some(BODY));
        assert!(asked.elapsed() < WAITED, "others wait {:?}", asked.elapsed());
        sleep(Duration::from_millis(20));
    }
}
