//! Clients as the world has them: slow, half-closed, impatient, malformed, far too many. None harms another,
//! none costs unbounded memory, and nothing acknowledged is lost.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "../crates/server/tests/support/home.rs"]
mod home;

#[path = "support/news.rs"]
mod news;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/process.rs"]
mod process;

#[path = "support/still.rs"]
mod still;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use client::{Answer, Client};
use news::wait_until_blocked;
use process::{allow_files, resident};
use still::wait_until_still;
use support::Server;
use support::patience::{PATIENCE, wait_for, wait_until};

fn server(arguments: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = home::home();
    (Server::start(&format!("embedded:{}", dir.path().display()), arguments), dir)
}

fn connect(server: &Server) -> Client {
    Client::connect(server.addr()).expect("the server runs")
}

fn ask(client: &mut Client, words: &[&str]) -> Answer {
    client.ask(words).expect("the server runs")
}

/// Resident memory of a process in MiB.
fn resident_mib(server: &Server) -> u64 {
    resident(server.pid()) >> 20
}

#[test]
fn a_hundred_thousand_requests_in_one_go_are_answered_in_their_order() {
    const REQUESTS: usize = 100_000;
    let (server, _dir) = server(&[]);
    let mut client = connect(&server);
    ask(&mut client, &["QCREATE", "q"]);
    let mut writer = client.socket().try_clone().expect("a second handle");
    let writing = thread::spawn(move || {
        for i in 0..REQUESTS {
            let request = match i % 4 {
                0 => format!("*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n$6\r\n{i:06}\r\n"),
                1 => format!("ECHO {i}\r\n"),
                2 => "*3\r\n$4\r\nPEEK\r\n$5\r\nQUEUE\r\n$1\r\nq\r\n".to_owned(),
                _ => "*3\r\n$3\r\nPOP\r\n$5\r\nQUEUE\r\n$1\r\nq\r\n".to_owned(),
            };
            writer.write_all(request.as_bytes()).expect("the server reads");
        }
    });
    for i in 0..REQUESTS {
        let answer = client.answer().expect("the server answers");
        match i % 4 {
            0 => assert!(answer.integer().is_some(), "{i}: {answer:?}"),
            1 => assert_eq!(answer.text(), Some(i.to_string().as_str())),
            2 => assert_eq!(answer.body(), Some(format!("{:06}", i - 2).as_str())),
            _ => assert_eq!(answer.body(), Some(format!("{:06}", i - 3).as_str())),
        }
    }
    writing.join().expect("the writer is done");
}

#[test]
fn a_request_may_arrive_one_byte_at_a_time() {
    let (server, _dir) = server(&[]);
    let mut client = connect(&server);
    let requests =
        b"*2\r\n$7\r\nQCREATE\r\n$1\r\nq\r\n*3\r\n$4\r\nSEND\r\n$1\r\nq\r\n$5\r\nhe\r\no\r\nPOP QUEUE q\r\n";
    for byte in requests {
        client.write(&[*byte]).expect("the server reads");
    }
    assert!(client.answer().expect("an answer").integer().is_some());
    assert!(client.answer().expect("an answer").integer().is_some());
    assert_eq!(client.answer().expect("an answer").body(), Some("he\r\no"));
}

#[test]
fn a_client_that_has_said_everything_still_gets_its_answers() {
    let (server, _dir) = server(&[]);
    let mut socket = TcpStream::connect(server.addr()).expect("the server runs");
    socket.write_all(b"QCREATE q\r\nSEND q one\r\nPOP QUEUE q\r\nPING\r\n").expect("the server reads");
    socket.shutdown(Shutdown::Write).expect("a half-close");
    let mut answers = String::new();
    socket.read_to_string(&mut answers).expect("answers, then the end");
    assert!(answers.contains("one") && answers.ends_with("+PONG\r\n"), "{answers}");
}

/// The server hears of the bytes and of the end behind them at once.
#[test]
fn a_client_whose_last_words_come_with_its_end_is_let_go() {
    let (server, _dir) = server(&[]);
    let mut socket = TcpStream::connect(server.addr()).expect("the server runs");
    socket.write_all(b"PING\r\n").expect("the server reads");
    socket.read_exact(&mut [0; 7]).expect("it is served");
    server.signal("STOP");
    socket.write_all(b"QCREATE q\r\nSEND q one\r\nPING\r\n").expect("the kernel takes it");
    socket.shutdown(Shutdown::Write).expect("a half-close");
    server.signal("CONT");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut answers = String::new();
    socket.read_to_string(&mut answers).expect("answers, then the end");
    assert!(answers.ends_with("+PONG\r\n"), "{answers}");
}

/// A null would say that nothing was there.
#[test]
fn a_client_whose_blocking_pop_comes_with_its_end_is_not_told_that_nothing_was_there() {
    let (server, _dir) = server(&[]);
    let mut other = Client::login(server.addr(), "other").expect("it runs");
    ask(&mut other, &["QCREATE", "q"]);
    ask(&mut other, &["SEND", "q", "one"]);
    let mut socket = TcpStream::connect(server.addr()).expect("the server runs");
    socket.write_all(b"PING\r\n").expect("the server reads");
    socket.read_exact(&mut [0; 7]).expect("it is served");
    server.signal("STOP");
    socket.write_all(b"POP QUEUE q BLOCK 600000\r\n").expect("the kernel takes it");
    socket.shutdown(Shutdown::Write).expect("a half-close");
    server.signal("CONT");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut answers = String::new();
    socket.read_to_string(&mut answers).expect("answers, then the end");
    assert!(answers.starts_with("-ERR POP waits for nobody"), "{answers}");
    assert_eq!(ask(&mut other, &["POP", "QUEUE", "q"]).body(), Some("one"));
}

/// How many PEEKs are counted.
fn peeks(client: &mut Client) -> u64 {
    let info = ask(client, &["INFO"]);
    let counted = info.text().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("kind_peek:requests="))?;
        line.split(',').next()?.parse().ok()
    });
    counted.unwrap_or_default()
}

#[test]
fn a_slow_reader_is_not_read_and_harms_only_itself() {
    const REQUESTS: usize = 5_000;
    let (server, _dir) = server(&["--window", "20ms"]);
    let mut slow = connect(&server);
    ask(&mut slow, &["QCREATE", "q"]);
    ask(&mut slow, &["SEND", "q", &"x".repeat(60_000)]);
    let mut writer = slow.socket().try_clone().expect("a second handle");
    let writing = thread::spawn(move || {
        for _ in 0..REQUESTS {
            writer.write_all(b"PEEK QUEUE q\r\n").expect("the server reads in the end");
        }
    });
    // Whoever waited for the slow one would wait for good: it reads when the others have their answers.
    let mut other = connect(&server);
    wait_until_still("bodies are peeked at", || peeks(&mut other));
    for _ in 0..100 {
        assert_eq!(ask(&mut other, &["PING"]).text(), Some("PONG"));
    }
    assert!(resident_mib(&server) < 150, "{} MiB for answers nobody reads", resident_mib(&server));
    for _ in 0..REQUESTS {
        assert_eq!(slow.answer().expect("an answer").body().map(str::len), Some(60_000));
    }
    writing.join().expect("the writer is done");
}

/// Makes the queue `long`, with a message of almost a megabyte of headers.
fn send_a_long_one(client: &mut Client) {
    ask(client, &["QCREATE", "long"]);
    let value = "v".repeat(65_000);
    let headers = [["HEADER", "name", &value]; 15].concat();
    ask(client, &[&["SEND", "long", "body"], &headers[..]].concat());
}

#[test]
fn of_long_answers_that_nobody_reads_few_are_held_and_all_come_in_the_end() {
    const CLIENTS: usize = 4;
    const READS: usize = 30;
    let (server, _dir) = server(&[]);
    let mut other = connect(&server);
    ask(&mut other, &["QCREATE", "q"]);
    send_a_long_one(&mut other);
    let half = format!("SEND q x\r\n{}", "PEEK QUEUE long\r\n".repeat(READS));
    let requests = format!("{half}{half}ECHO behind\r\n");
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect(&server)).collect();
    for client in &mut clients {
        client.write(requests.as_bytes()).expect("the server reads");
    }
    wait_until("each has begun", || {
        let messages = ask(&mut other, &["QINFO", "q"]).get("messages").and_then(Answer::integer);
        messages >= Some(CLIENTS as i64)
    });
    assert!(resident_mib(&server) < 150, "{} MiB for answers nobody reads", resident_mib(&server));
    for mut client in clients {
        for place in 0..2 * (1 + READS) {
            let answer = client.answer().expect("an answer");
            let is_send = place % (1 + READS) == 0;
            assert_eq!(answer.integer().is_some(), is_send, "{place}");
            assert_eq!(answer.body(), (!is_send).then_some("body"), "{place}");
        }
        assert_eq!(client.answer().expect("an answer").text(), Some("behind"));
    }
}

#[test]
fn over_a_database_too_few_long_answers_are_held_that_nobody_reads() {
    const CLIENTS: usize = 4;
    const READS: usize = 200;
    let postgres = postgres::shared();
    let server = Server::start(&postgres.url(&postgres.create_database()), &[]);
    let mut other = connect(&server);
    ask(&mut other, &["QCREATE", "q"]);
    send_a_long_one(&mut other);
    let requests = format!("SEND q x\r\n{}ECHO behind\r\n", "PEEK QUEUE long\r\n".repeat(READS));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect(&server)).collect();
    for client in &mut clients {
        client.write(requests.as_bytes()).expect("the server reads");
        // One after the other, or all may be in one call: what that holds is another matter.
        client.answer().expect("an id");
    }
    assert!(resident_mib(&server) < 400, "{} MiB for answers nobody reads", resident_mib(&server));
    for mut client in clients {
        for _ in 0..READS {
            assert_eq!(client.answer().expect("an answer").body(), Some("body"));
        }
        assert_eq!(client.answer().expect("an answer").text(), Some("behind"));
    }
}

#[test]
fn who_sends_far_too_much_over_http_can_read_that_it_was_too_much() {
    let server = Server::start_with_http("memory:", &[]);
    let mut stream = TcpStream::connect(server.http()).expect("HTTP is served");
    let body = vec![b'x'; 32 << 20];
    let head = format!(
        "POST /v1/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).expect("all of it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and then the end");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn what_is_not_resp_is_answered_with_an_error_before_the_connection_ends() {
    let (server, _dir) = server(&[]);
    for wrong in
        ["*99999999999999999999\r\n", "*1\r\n:5\r\n", "*1\r\n$9223372036854775807\r\n", "*1\r\n$3\r\nabcde"]
    {
        let mut client = connect(&server);
        client.write(wrong.as_bytes()).expect("the server reads");
        let answer = client.answer().unwrap_or_else(|_| panic!("no error for {wrong:?}"));
        assert!(
            matches!(&answer, Answer::Error(text) if text.contains("rotocol error")),
            "{wrong:?}: {answer:?}"
        );
        assert!(client.is_closed(), "the stream after {wrong:?} means nothing");
    }
}

#[test]
fn an_error_in_the_stream_is_told_behind_the_requests_before_it() {
    let (server, _dir) = server(&[]);
    let mut client = connect(&server);
    ask(&mut client, &["QCREATE", "q"]);
    client.write(b"SEND q one\r\nSEND q two\r\n*1\r\n:5\r\nSEND q three\r\n").expect("the server reads");
    for _ in 0..2 {
        assert!(client.answer().expect("it was sent whole").integer().is_some());
    }
    assert!(client.answer().expect("an error").is_error("ERR"));
    assert!(client.is_closed(), "what comes behind it means nothing");
    let bodies = [(); 3].map(|()| ask(&mut connect(&server), &["POP", "QUEUE", "q"]));
    assert_eq!(bodies.each_ref().map(Answer::body), [Some("one"), Some("two"), None]);
}

#[test]
fn what_one_pop_leases_one_ack_can_name() {
    const MESSAGES: usize = 10_000;
    let (server, _dir) = server(&["--max-message", "10"]);
    let mut client = connect(&server);
    ask(&mut client, &["QCREATE", "a queue with a name longer than the largest body"]);
    ask(&mut client, &["QCREATE", "q"]);
    for _ in 0..MESSAGES / 1000 {
        ask(&mut client, &[&["SENDMANY", "q"][..], &vec!["x"; 1000]].concat());
    }
    let leased = ask(&mut client, &["POP", "QUEUE", "q", "COUNT", "10000", "LEASE", "60000"]).list();
    let receipts: Vec<String> =
        leased.iter().filter_map(|message| message.get("receipt")?.text().map(str::to_owned)).collect();
    assert_eq!(receipts.len(), MESSAGES);
    let words: Vec<&str> = ["ACK"].into_iter().chain(receipts.iter().map(String::as_str)).collect();
    assert_eq!(ask(&mut client, &words).integer(), Some(MESSAGES as i64));
    assert!(ask(&mut client, &["SEND", "q", "eleven chars"]).is_error("TOOBIG"));
}

#[test]
fn an_unknown_command_leaves_the_connection_as_it_was() {
    let (server, _dir) = server(&[]);
    let mut client = connect(&server);
    assert!(ask(&mut client, &["FROBNICATE", "1"]).is_error("ERR"));
    assert_eq!(ask(&mut client, &["PING"]).text(), Some("PONG"));
}

#[test]
fn a_message_is_not_given_to_a_waiting_client_that_left() {
    let (server, _dir) = server(&[]);
    let mut sender = connect(&server);
    ask(&mut sender, &["QCREATE", "q"]);
    for _ in 0..20 {
        let mut leaving = connect(&server);
        leaving.send(&["POP", "QUEUE", "q", "BLOCK", "60000"]).expect("the server reads");
        wait_until_blocked(server.addr(), 1);
        drop(leaving);
        wait_until_blocked(server.addr(), 0);
    }
    ask(&mut sender, &["SEND", "q", "kept"]);
    assert_eq!(ask(&mut sender, &["POP", "QUEUE", "q"]).body(), Some("kept"));
}

#[test]
fn a_full_waiting_line_says_busy_and_drops_nothing() {
    const CLIENTS: usize = 32;
    let (server, _dir) = server(&["--line-limit", "2", "--batch", "1"]);
    ask(&mut connect(&server), &["QCREATE", "q"]);
    let addr = server.addr();
    let flood = |_| {
        thread::spawn(move || {
            let mut client = Client::connect(addr).expect("the server runs");
            let (mut stored, mut busy) = (0, 0);
            for _ in 0..200 {
                match client.ask(&["SEND", "q", "x"]).expect("the server runs") {
                    Answer::Integer(_) => stored += 1,
                    answer if answer.is_error("BUSY") => busy += 1,
                    other => panic!("SEND answered {other:?}"),
                }
            }
            (stored, busy)
        })
    };
    let floods: Vec<_> = (0..CLIENTS).map(flood).collect();
    let counts: Vec<(i64, i64)> =
        floods.into_iter().map(|flood| flood.join().expect("a client is done")).collect();
    let stored: i64 = counts.iter().map(|(stored, _)| stored).sum();
    let busy: i64 = counts.iter().map(|(_, busy)| busy).sum();
    assert!(busy > 0, "a line of two is never full for {CLIENTS} clients");
    let deleted = ask(&mut connect(&server), &["QDELETE", "q"]);
    assert_eq!(deleted.integer(), Some(stored), "what was acknowledged is there, what was refused is not");
}

#[test]
fn ten_thousand_connections_cost_less_than_300_mib_and_all_are_served() {
    const CONNECTIONS: usize = 10_000;
    let (server, _dir) = server(&[]);
    allow_files(CONNECTIONS as u64 + 100);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| connect(&server)).collect();
    ask(&mut clients[0], &["QCREATE", "q"]);
    for client in &mut clients {
        client.send(&["SEND", "q", "hello"]).expect("the server reads");
    }
    for client in &mut clients {
        assert!(client.answer().expect("the server answers").integer().is_some());
    }
    let resident = resident_mib(&server);
    println!("{resident} MiB with {CONNECTIONS} connections");
    assert!(resident <= 300, "{resident} MiB");
    assert_eq!(ask(&mut clients[CONNECTIONS - 1], &["QDELETE", "q"]).integer(), Some(CONNECTIONS as i64));
}

#[test]
fn one_connection_too_many_is_told_so_and_the_others_stay() {
    let (server, _dir) = server(&["--max-clients", "3"]);
    let mut clients: Vec<Client> = (0..3).map(|_| connect(&server)).collect();
    for client in &mut clients {
        assert_eq!(ask(client, &["PING"]).text(), Some("PONG"));
    }
    let mut refused = connect(&server);
    let answer = refused.answer().expect("it is told why");
    assert!(matches!(&answer, Answer::Error(text) if text.contains("max number of clients")), "{answer:?}");
    clients.pop();
    wait_until("it has left", || {
        let info = ask(&mut clients[0], &["INFO"]);
        info.text().is_some_and(|text| text.contains("connected_clients:2\r\n"))
    });
    assert_eq!(ask(&mut connect(&server), &["PING"]).text(), Some("PONG"));
}

/// How many connections were closed for this reason, by the tier's own figures.
fn closed_for_being_quiet(server: &Server, reason: &str) -> String {
    let (_, page) = server.page("/metrics");
    let line = format!("posthaste_connections_quiet_total{{reason=\"{reason}\"}} ");
    page.lines().find_map(|text| text.strip_prefix(&line)).unwrap_or_default().to_owned()
}

#[test]
fn a_client_that_takes_nothing_of_its_answers_is_cut_and_one_that_waits_for_a_message_is_not() {
    let store = tempfile::tempdir().expect("a temporary directory");
    let store = format!("embedded:{}", store.path().display());
    let server = Server::start_with_http(&store, &["--send-timeout", "300ms", "--idle-timeout", "2500ms"]);
    let mut sends = connect(&server);
    ask(&mut sends, &["QCREATE", "q"]);
    let settings = ask(&mut sends, &["CONFIG", "GET", "timeout"]);
    assert_eq!(settings.get("timeout").and_then(Answer::text), Some("2"), "in whole seconds");
    // Not before, for it is idle until it asks.
    let mut waits = connect(&server);
    waits.send(&["POP", "QUEUE", "q", "BLOCK", "170000"]).expect("the server reads");
    let mut deaf = TcpStream::connect(server.addr()).expect("the server runs");
    let text = format!("ECHO {}\r\n", "x".repeat(60_000));
    // Until the server reads no more, and then until it has cut the connection.
    deaf.set_write_timeout(Some(Duration::from_secs(120))).expect("a limit");
    let cut = (0..10_000).find_map(|_| deaf.write_all(text.as_bytes()).err()).map(|error| error.kind());
    assert!(matches!(cut, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)), "{cut:?}");
    let counts = || ["send", "idle"].map(|reason| closed_for_being_quiet(&server, reason));
    wait_for("both are cut", || match counts() {
        counts if counts == ["1", "1"] => Ok(()),
        counts => Err(counts.join(" ")),
    });
    assert!(sends.is_closed(), "it asked nothing for so long");
    ask(&mut connect(&server), &["SEND", "q", "at last"]);
    assert_eq!(waits.answer().expect("it was not idle").body(), Some("at last"));
}
