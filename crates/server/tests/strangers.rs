//! What strangers may make a closed tier do and hold before they have shown who they are.

#[path = "support/by_hand.rs"]
mod by_hand;
#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "support/pages.rs"]
mod pages;
#[path = "../../../tests/support/patience.rs"]
mod patience;

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use by_hand::Tier;
use pages::{answers, hear, runtime};
use patience::{wait_for, wait_until};
use posthaste_server::accounts::AccountsFile;
use posthaste_server::path::limits::{AT_ONCE_MAX, UNAUTHENTICATED_OUTPUT_BYTES_PAUSE};

/// The account `alice`, with that as its secret too; the hash is of the cheapest kind.
const ALICE: &str = "alice:$argon2id$v=19$m=64,t=1,p=1$8Gp1AFM+6dNNt5XPD4H7pA\
    $pzuydFtI3IG1Ex+Q5YK41E9/jsSetLz0utpQie3gyxY\n";

fn closed_tier() -> Tier {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), ALICE).expect("it can be written");
    Tier::closed(AccountsFile::open(file.path()).expect("accounts"))
}

/// All that is there for a client.
fn heard(client: &mut UnixStream) -> Vec<u8> {
    let mut heard = Vec::new();
    match client.read_to_end(&mut heard) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => heard,
        ended => panic!("the connection ends: {ended:?}"),
    }
}

/// Turns until no request was answered in one.
fn turn_as_long_as_it_answers(tier: &mut Tier) {
    loop {
        let before = tier.requests();
        tier.turn();
        if tier.requests() == before {
            return;
        }
    }
}

#[test]
fn who_does_not_read_is_held_few_answers_before_a_login() {
    const ASKED: &[u8] = b"COMMAND DOCS\r\n";
    let mut tier = closed_tier();
    let mut client = tier.connect().expect("a place");
    client.write_all(ASKED).expect("it is taken");
    wait_until("it is answered", || {
        tier.turn();
        tier.requests() > 0
    });
    let answer_bytes = heard(&mut client).len();
    assert!(answer_bytes > 1000, "a long answer: {answer_bytes}");

    client.write_all(&ASKED.repeat(1000)).expect("it is taken");
    turn_as_long_as_it_answers(&mut tier);
    let answered = usize::try_from(tier.requests()).expect("it is small") - 1;
    let taken_by_the_kernel = heard(&mut client).len();
    let held = answered * answer_bytes - taken_by_the_kernel;
    assert!(held > 0 && answered < 1000, "it waits to be read: {answered}");
    assert!(held <= UNAUTHENTICATED_OUTPUT_BYTES_PAUSE + answer_bytes, "{held}");

    client.write_all(b"QUIT\r\n").expect("it is taken");
    let mut rest = 0;
    loop {
        tier.turn();
        match client.read(&mut [0; 64 << 10]) {
            Ok(0) => break,
            Ok(n) => rest += n,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert_eq!(
        taken_by_the_kernel + rest,
        1000 * answer_bytes + b"+OK\r\n".len(),
        "who reads gets everything"
    );
}

/// Others wait for the end of a turn, and what was answered in it is held until then.
#[test]
fn who_wants_no_answers_has_no_more_done_in_a_turn_than_who_reads_them() {
    for (asked, answer_bytes_min) in [("x\n", 1), ("INFO\n", 500), ("COMMAND\n", 2000)] {
        let mut tier = closed_tier();
        let mut client = tier.connect().expect("a place");
        client.write_all(b"CLIENT REPLY OFF\r\n").expect("it is taken");
        turn_as_long_as_it_answers(&mut tier);
        let requests = 60_000 / asked.len();
        client.write_all(&asked.as_bytes().repeat(requests)).expect("it is taken");
        let most = AT_ONCE_MAX.min(UNAUTHENTICATED_OUTPUT_BYTES_PAUSE / answer_bytes_min + 1) as u64;
        let mut before = tier.requests();
        assert_eq!(before, 1);
        loop {
            tier.turn();
            let answered = tier.requests() - before;
            assert!(answered <= most, "{answered} times {asked:?} in one turn");
            if answered == 0 {
                break;
            }
            before += answered;
        }
        assert_eq!(before, 1 + requests as u64, "all of it is done in the end");
    }
}

#[test]
fn who_says_much_before_a_login_is_told_so_and_has_to_leave() {
    let long = "x".repeat(20_000);
    for said in [
        format!("*2\r\n$4\r\nECHO\r\n$100000000\r\n{long}"),
        format!("*2\r\n$4\r\nECHO\r\n$20000\r\n{long}\r\nPING\r\n"),
        format!("ECHO {long}\r\nPING\r\n"),
        "*2\r\n$4\r\nECHO\r\n$100000000\r\n".to_owned(),
    ] {
        let mut tier = closed_tier();
        let mut client = tier.connect().expect("a place");
        client.write_all(said.as_bytes()).expect("it is taken");
        let mut heard = Vec::new();
        wait_until("it ends", || {
            tier.turn();
            client.read_to_end(&mut heard).is_ok()
        });
        assert_eq!(String::from_utf8_lossy(&heard), "-NOAUTH log in before sending this much\r\n");
    }
}

#[test]
fn a_body_is_not_waited_for_before_it_is_known_who_sends_it() {
    let (runtime, mut tier) = (runtime(), closed_tier());
    for authorization in ["", "Authorization: Bearer alice:wrong\r\n", "Authorization: Bearer mallory:\r\n"] {
        let head = format!(
            "POST /v1/queues/q/messages HTTP/1.1\r\nHost: queue.example\r\n{authorization}\
            Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        );
        let heard = hear(&runtime, &mut tier, head.as_bytes());
        assert_eq!(answers(&heard)[0].0, 401, "{authorization:?}");
    }
}

#[test]
fn the_head_of_a_request_may_not_be_long() {
    let (runtime, mut tier) = (runtime(), closed_tier());
    let said = ["GET / HTTP/1.1\r\nX: ", &"x".repeat(32 << 10)].concat();
    let heard = hear(&runtime, &mut tier, said.as_bytes());
    assert!(heard.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&heard));
}

#[test]
fn who_has_not_logged_in_is_told_so_and_a_wrong_secret_is_counted() {
    let mut tier = closed_tier();
    let mut client = tier.connect().expect("a place");
    for said in ["LOGOUT", "GET x", "READONLY", "SEND q x", "PEEK QUEUE q"] {
        client.write_all(format!("{said}\r\n").as_bytes()).expect("it is taken");
        turn_as_long_as_it_answers(&mut tier);
        assert_eq!(heard(&mut client), b"-NOAUTH log in first: LOGIN account secret\r\n", "{said}");
    }
    client.write_all(b"LOGIN alice wrong\r\n").expect("it is taken");
    let answer = wait_for("an answer", || {
        tier.turn();
        let answer = heard(&mut client);
        if answer.is_empty() { Err("nothing") } else { Ok(answer) }
    });
    assert!(answer.starts_with(b"-NOACCOUNT "), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(tier.counted(), [("login", [0, 0, 1]), ("session", [0, 0, 5])]);
}
